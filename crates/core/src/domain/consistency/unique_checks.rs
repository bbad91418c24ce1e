//! The check of unique keys. The entry of a unique key names the job that has the key. The index
//! `uniques` also names the entry, so that a node can delete an unused entry.

use super::inconsistency::{FindingKind, FindingSubject, Inconsistency};
use crate::domain::job::unique_rule::UniqueKey;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The maximum time, in ms, until a node checks a unique key that no job has. A later time in the
/// index is a finding.
const SOON_MS: f64 = 3_600_000.0;

/// The facts of one unique key: its entry, the job that has the key, and its next check.
#[derive(Debug, Clone, PartialEq)]
pub struct UniqueFacts {
    /// The unique key.
    pub key: UniqueKey,
    /// The full name of the Redis key with the entry.
    pub name: String,
    /// True if the unique key has an entry in Redis.
    pub is_there: bool,
    /// The job that has the unique key according to its entry. `None` if the entry names no job.
    pub holder: Option<String>,
    /// The Unix time, in ms, until which the job has the unique key. `None` for no limit.
    pub until: Option<i64>,
    /// The Unix time, in ms, of the next check of the unique key by a node. `None` if the index
    /// `uniques` does not name the unique key.
    pub look_at: Option<f64>,
    /// True if the job in `holder` is defined and its definition names this unique key.
    pub is_named: bool,
}

/// Returns the finding for a unique key whose entry or index entry is wrong. Returns `None` if both
/// are valid.
pub fn judge_unique(facts: &UniqueFacts, now: UnixMillis) -> Option<Inconsistency> {
    let subject = FindingSubject::Key(shown(&facts.name));
    if !facts.is_there {
        return facts.look_at.map(|_| {
            Inconsistency::extra(subject, "uniques", "uniques", "the key does not exist")
        });
    }
    let Some(holder) = &facts.holder else {
        let why = "its field for the job that holds the unique key is missing";
        return Some(
            Inconsistency::unreadable(subject, "unique", why, "the name of a job")
                .fixed_by("deletes the key"),
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
            format!("job {holder} holds the unique key"),
        )),
        _ => {
            let found = format!(
                "names job {holder} as the holder of the unique key, \
                 but the job no longer holds this key"
            );
            Some(
                Inconsistency::new(FindingKind::Extra, subject, "unique", found)
                    .fixed_by("deletes the key"),
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
    fn a_key_with_a_holder_or_a_soon_check_is_valid_and_others_are_reported() {
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
        assert!(
            found(UniqueFacts { look_at: None, ..facts() })
                .contains("should be in the index uniques")
        );
        assert!(
            found(UniqueFacts { look_at: None, is_named: false, ..facts() })
                .contains("no longer holds this key")
        );
        assert!(
            found(UniqueFacts { look_at: Some(1e12), until: Some(1_000), ..facts() })
                .contains("deletes the key")
        );
        assert!(found(UniqueFacts { holder: None, ..facts() }).contains("is missing"));
        assert!(
            found(UniqueFacts { is_there: false, holder: None, ..facts() })
                .contains("should not be in the index uniques")
        );
    }
}
