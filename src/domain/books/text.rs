//! The keys that hold one text each, but for counters, which have their own rule.
//!
//! Not judged is the mark of the data, `epoch`: nodes go on beside one that is spoilt, but whoever takes it away makes them take
//! that for a loss and stop what executes.

use super::field::shown;
use super::finding::{Finding, Rule, Subject};
use crate::domain::time::UnixMillis;

/// Whether the text of the key `rest` of a namespace is judged.
pub fn has_judged_text(rest: &str) -> bool {
    rest == "settling" || rest.starts_with("gate_rate:")
}

/// What is wrong with the text of the key `rest`; `key` is its whole name.
pub fn judge_text(rest: &str, key: String, text: &str) -> Option<Finding> {
    let is_number = text.parse::<u64>().is_ok();
    let is_instant = |text: &str| text.parse().ok().and_then(UnixMillis::new).is_some();
    let found = || format!("it is {}", shown(text));
    match rest {
        "settling" if !is_instant(text) => Some(aside(key, found(), "the instant up to which data settles")),
        _ if rest.starts_with("gate_rate:") && !is_number => {
            Some(aside(key, found(), "the microsecond up to which a rate is taken up"))
        }
        _ => None,
    }
}

fn aside(key: String, found: String, wanted: &'static str) -> Finding {
    Finding::fixed(Rule::Text, Subject::Key(key), found, wanted, "moves it to quarantine; it counted as not there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_and_a_rate_are_told_from_garbage() {
        for (rest, good) in [("settling", "1790000000000"), ("gate_rate:key:k", "17900000000000000")] {
            assert!(has_judged_text(rest));
            assert_eq!(judge_text(rest, "k".to_owned(), good), None, "{rest}");
            for bad in ["", "garbage", "-5", "1e300"] {
                assert!(judge_text(rest, "k".to_owned(), bad).is_some(), "{rest} {bad}");
            }
        }
        assert_eq!(judge_text("epoch", "k".to_owned(), "garbage"), None);
    }
}
