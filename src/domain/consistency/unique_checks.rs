//! The rule of unique keys. Each entry of a unique key names its holder. Each entry is also in the
//! index by which unused entries are deleted.

use super::inconsistency::{FindingSubject, Inconsistency};
use crate::domain::job::unique_rule::UniqueKey;
use crate::domain::time::unix_millis::UnixMillis;

/// The maximum time, in ms, from now to the next check of a key without a holder. A key whose job
/// just ended is checked within minutes.
const SOON_MS: f64 = 3_600_000.0;

/// The facts of one unique key: its entry, its holder and its next check.
#[derive(Debug, Clone, PartialEq)]
pub struct UniqueFacts {
    /// The unique key of a job.
    pub key: UniqueKey,
    /// The full name of the Redis key with the entry.
    pub name: String,
    /// True if the unique key has an entry in Redis.
    pub is_there: bool,
    /// The job that the entry names as the holder of the unique key.
    pub holder: Option<String>,
    /// The time, in ms, until which the job holds the unique key, if that time is limited.
    pub until: Option<i64>,
    /// The time, in ms, of the next check of the unique key, from the index.
    pub look_at: Option<f64>,
    /// True if the holder is a defined job and its definition names this unique key.
    pub is_named: bool,
}

/// Returns the finding about one unique key, if its entry is wrong.
pub fn judge_unique(facts: &UniqueFacts, now: UnixMillis) -> Option<Inconsistency> {
    let subject = FindingSubject::Key(shown(&facts.name));
    if !facts.is_there {
        return facts
            .look_at
            .map(|_| Inconsistency::extra(subject, "uniques", "uniques", "it does not exist"));
    }
    let Some(holder) = &facts.holder else {
        let why = "it does not say which job holds the key";
        return Some(
            Inconsistency::unreadable(subject, "unique", why, "the name of a job")
                .fixed_by("deletes it"),
        );
    };
    let is_owned = facts.until.map_or(facts.is_named, |until| now.as_i64() < until);
    #[expect(clippy::cast_precision_loss, reason = "instants are far below 2^53")]
    let soon = now.as_i64() as f64 + SOON_MS;
    match facts.look_at {
        Some(at) if is_owned || at <= soon => None,
        _ if is_owned => Some(Inconsistency::missing(
            subject,
            "uniques",
            "uniques",
            format!("job {holder} holds it"),
        )),
        _ => {
            let why = format!("it points at job {holder}, which does not hold it any more");
            Some(
                Inconsistency::extra(subject, "unique", "the namespace", why)
                    .fixed_by("deletes it"),
            )
        }
    }
}

/// Formats the name of a key for a message, with `\xNN` for bytes that are not plain text.
fn shown(name: &str) -> String {
    if !name.contains('\\') {
        return name.to_owned();
    }
    let show = |byte: u8| match byte {
        b' '..=b'~' if byte != b'\\' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    name.bytes().map(show).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> UniqueFacts {
        UniqueFacts {
            key: "k".parse().unwrap(),
            name: "{w}:unique:k".to_owned(),
            is_there: true,
            holder: Some("a".to_owned()),
            until: None,
            look_at: Some(5.0),
            is_named: true,
        }
    }

    #[test]
    fn what_is_held_or_about_to_go_is_sound_and_the_rest_is_reported() {
        let now = UnixMillis::new(1_000).unwrap();
        let found = |facts: UniqueFacts| {
            judge_unique(&facts, now).map(|finding| finding.to_string()).unwrap_or_default()
        };
        for sound in [
            facts(),
            UniqueFacts { is_named: false, ..facts() },
            UniqueFacts { until: Some(2_000), is_named: false, look_at: Some(1e12), ..facts() },
            UniqueFacts { is_there: false, holder: None, look_at: None, ..facts() },
        ] {
            assert_eq!(found(sound), "");
        }
        assert!(found(UniqueFacts { look_at: None, ..facts() }).contains("should be in uniques"));
        assert!(
            found(UniqueFacts { look_at: None, is_named: false, ..facts() })
                .contains("does not hold it any more")
        );
        assert!(
            found(UniqueFacts { look_at: Some(1e12), until: Some(1_000), ..facts() })
                .contains("deletes it")
        );
        assert!(found(UniqueFacts { holder: None, ..facts() }).contains("does not say"));
        assert!(
            found(UniqueFacts { is_there: false, holder: None, ..facts() })
                .contains("should not be in uniques")
        );
    }
}
