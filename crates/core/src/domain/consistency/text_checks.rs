//! The check of the texts in the Redis string keys `epoch`, `restoring_until` and `gate_rate:KEY`.
//! Counters have their own check.
//!
//! schedd never deletes an unreadable `epoch`, because running nodes would treat the deletion as a
//! data loss and stop their runs. Instead, these nodes write back the epoch that they know.

use super::field_checks::shown;
use super::inconsistency::{FindingSubject, Inconsistency};
use schedd_schedule::time::unix_millis::UnixMillis;

/// Returns true if this check judges the text of the Redis key `rest`. `rest` is the name without
/// the prefix of the namespace.
pub fn has_judged_text(rest: &str) -> bool {
    matches!(rest, "restoring_until" | "epoch") || rest.starts_with("gate_rate:")
}

/// Returns the finding for an invalid text of the key `rest`. `key` is the full name of the key.
/// Returns `None` if the text is valid.
pub fn judge_text(rest: &str, key: String, text: &str) -> Option<Inconsistency> {
    let is_instant = |text: &str| text.parse().ok().and_then(UnixMillis::new).is_some();
    let (place, wanted) = match rest {
        "epoch" if !text.split_once('-').is_some_and(|(at, _)| is_instant(at)) => {
            ("epoch", "the epoch of the data (MS-NODE-NUMBER)")
        }
        "restoring_until" if !is_instant(text) => {
            ("restoring_until", "the Unix time in ms until which nodes restore data")
        }
        _ if rest.starts_with("gate_rate:") && !is_rates(text) => (
            "gate_rate",
            "one entry MICROS:INTERVAL:BURST for each rate limit, with spaces between entries",
        ),
        _ => return None,
    };
    let advice = format!(
        "start a node that ran with this data: the node writes the epoch again; \
         if there is no such node, delete the key (DEL {key}), \
         and the next node writes a new epoch"
    );
    let finding = Inconsistency::unreadable(
        FindingSubject::Key(key),
        place,
        format!("its text is {}", shown(text)),
        wanted,
    );
    Some(if place == "epoch" { finding.by_hand(advice) } else { finding })
}

/// Returns true if the text is a valid state of the rate limits of a concurrency key.
fn is_rates(text: &str) -> bool {
    let is_one = |word: &str| {
        word.split(':').count() == 3 && word.split(':').all(|part| part.parse::<u64>().is_ok())
    };
    !text.is_empty() && text.split(' ').all(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_are_valid_and_garbage_is_reported() {
        for (rest, good) in [
            ("restoring_until", "1790000000000"),
            ("gate_rate:key:k", "1790000000000000:500000:1 1790000000000001:1000:3"),
        ] {
            assert!(has_judged_text(rest));
            assert_eq!(judge_text(rest, "k".to_owned(), good), None, "{rest}");
            for bad in ["", "garbage", "-5", "1e300"] {
                assert!(judge_text(rest, "k".to_owned(), bad).is_some(), "{rest} {bad}");
            }
        }
        assert_eq!(judge_text("epoch", "k".to_owned(), "1790000000000-one-5"), None);
        for bad in ["", "garbage", "x-1", "1790000000000"] {
            assert!(judge_text("epoch", "k".to_owned(), bad).is_some(), "{bad}");
        }
    }
}
