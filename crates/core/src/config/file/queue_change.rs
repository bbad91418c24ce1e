//! The compiler of the `KEY=VALUE` words that change a queue. The words follow the rules of
//! `[queues.X]`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::compile_pools::compile_queue;
use crate::config::canonical::file_export::backlog_keys;
use crate::config::canonical::node_json;
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::{Problem, Problems};
use crate::config::syntax::reader::Spot;
use crate::config::syntax::redaction::Secrecy;
use crate::domain::queue::queue_rules::{QueueChange, QueueKey, QueueSettings, Share};

/// Returns the settings of a queue after `changes`. Each change is a key and its new value as text.
/// The value `none` removes the key. Fails with every problem in `changes`.
pub fn change_queue(
    settings: &QueueSettings,
    changes: &[(String, String)],
) -> Result<QueueChange, Vec<Problem>> {
    let mut table = table_of(settings);
    let mut problems = Problems::default();
    let mut named = BTreeSet::new();
    // `weight` and `strict` exclude each other, so a change of one key removes the other key. If
    // the command line sets both keys, the conflict is reported below.
    for (key, other) in [("weight", "strict"), ("strict", "weight")] {
        if changes.iter().any(|(named, _)| named == key) {
            table.remove(other);
        }
    }
    let is_both = changes.iter().any(|(key, text)| key == "strict" && text == "true")
        && changes.iter().any(|(key, text)| key == "weight" && text != "none");
    if is_both {
        problems.fault(
            "strict",
            None,
            "a strict queue is served before all other queues and has no weight, \
             wanted only one of weight and strict",
        );
    }
    for (at, (key, text)) in changes.iter().enumerate() {
        if changes[..at].iter().any(|(other, _)| other == key) {
            problems.fault(key, None, "found this key twice, wanted each key once");
        }
        match key.as_str() {
            "paused" => problems.fault(
                "paused",
                None,
                "paused cannot be set here: use schedctl queue pause or schedctl queue resume",
            ),
            "spread" => problems.fault(
                "spread",
                None,
                "spread cannot be set here: a jobs file sets it in [queues.X]",
            ),
            // A burst that belongs to the old rate must not survive with a new rate.
            "rate" => drop(table.remove("burst")),
            _ => {}
        }
        named.extend(match (key.as_str(), text.as_str()) {
            ("concurrency", "none") => Some(QueueKey::OwnConcurrency),
            ("concurrency", _) => Some(QueueKey::Concurrency),
            ("limit", _) => Some(QueueKey::Limit),
            ("rate" | "burst", _) => Some(QueueKey::Rate),
            ("weight" | "strict", _) => Some(QueueKey::Share),
            ("warn_depth" | "warn_oldest" | "on_backlog", _) => Some(QueueKey::Backlog),
            _ => None,
        });
        if text == "none" && known_keys::QUEUE.contains(&key.as_str()) {
            table.remove(key);
        } else {
            table.insert(key.clone(), value_of(key, text));
        }
    }
    // A `rate` word after the `burst` word has removed the burst, so the burst is inserted again.
    if let Some((_, burst)) =
        changes.iter().rev().find(|(key, text)| key == "burst" && text != "none")
    {
        table.insert("burst".to_owned(), value_of("burst", burst));
    }
    table.remove("paused");
    if is_both {
        // The conflict between `strict` and `weight` was noted above.
        table.remove("strict");
    }
    let value = Value::Object(table);
    let node = node_json::from_value(&value).map_err(|message| {
        vec![Problem { path: String::new(), span: None, message, within: None }]
    })?;
    let queue = Spot::root(&node, Secrecy::Open)
        .as_table()
        .map(|table| compile_queue(&table, &mut problems));
    match queue {
        Some(queue) if problems.faults.is_empty() => Ok(QueueChange {
            settings: QueueSettings { is_paused: settings.is_paused, ..queue },
            named,
        }),
        _ => Err(problems.faults.into_iter().map(as_typed).collect()),
    }
}

/// Rewrites the message of a problem for the command line. Names of types such as "string" and
/// "integer" are removed, because every value of a command line is text.
fn as_typed(problem: Problem) -> Problem {
    let kinds = [
        ("found string ", "found "),
        ("found integer ", "found "),
        ("an integer", "a whole number"),
        // The message must not offer the key `paused`, because only `schedctl queue pause` changes
        // it.
        (", on_backlog, paused or spread", " or on_backlog"),
    ];
    let message =
        kinds.iter().fold(problem.message, |message, (kind, typed)| message.replace(kind, typed));
    Problem { message, ..problem }
}

fn value_of(key: &str, text: &str) -> Value {
    match (text, text.parse::<i64>()) {
        // These keys are always texts, as in a file, even if the text looks like a number.
        (text, _) if matches!(key, "rate" | "on_backlog") => json!(text),
        ("true", _) => json!(true),
        ("false", _) => json!(false),
        (_, Ok(number)) => json!(number),
        (text, Err(_)) => json!(text),
    }
}

fn table_of(settings: &QueueSettings) -> Map<String, Value> {
    let QueueSettings { concurrency, limit, rate, share, is_paused: _, backlog, is_spread } =
        settings;
    let mut table = Map::from_iter([("concurrency".to_owned(), json!(concurrency))]);
    if let Some(limit) = limit {
        table.insert("limit".to_owned(), json!(limit));
    }
    if let Some(rate) = rate {
        table.insert("rate".to_owned(), json!(rate.to_string()));
        table.insert("burst".to_owned(), json!(rate.burst()));
    }
    match share {
        Share::Strict => table.insert("strict".to_owned(), json!(true)),
        Share::Weight(weight) => table.insert("weight".to_owned(), json!(weight)),
    };
    if *is_spread {
        table.insert("spread".to_owned(), json!(true));
    }
    table.extend(backlog_keys(backlog));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::queue::backlog::BacklogRules;
    use crate::domain::queue::rate::Rate;

    fn change(settings: &QueueSettings, words: &[&str]) -> Result<QueueSettings, String> {
        let words: Vec<_> = words
            .iter()
            .map(|word| {
                word.split_once('=').map(|(key, text)| (key.to_owned(), text.to_owned())).unwrap()
            })
            .collect();
        let changed = change_queue(settings, &words).map(|change| change.settings);
        changed.map_err(|problems| {
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        })
    }

    #[test]
    fn what_is_not_named_stays_and_none_takes_away() {
        let plain = QueueSettings::default();
        let set = change(&plain, &["limit=5", "burst=20", "rate=100/1m", "concurrency=3"]).unwrap();
        let rate = "100/1m".parse::<Rate>().unwrap().with_burst(20);
        assert_eq!(
            set,
            QueueSettings { limit: Some(5), rate: Some(rate), concurrency: 3, ..plain.clone() }
        );
        let paused = QueueSettings { is_paused: true, ..set };
        let set = change(&paused, &["limit=none", "strict=true"]).unwrap();
        assert_eq!(set, QueueSettings { limit: None, share: Share::Strict, ..paused.clone() });
        assert_eq!(change(&set, &["weight=3"]).unwrap().share, Share::Weight(3));
        assert_eq!(change(&set, &["strict=none"]).unwrap().share, Share::Weight(1));
        for words in [
            ["weight=2", "strict=false"],
            ["strict=false", "weight=2"],
            ["strict=none", "weight=2"],
        ] {
            assert_eq!(change(&set, &words).unwrap().share, Share::Weight(2), "{words:?}");
        }
        assert_eq!(change(&set, &["rate=10/1s"]).unwrap().rate, Some("10/1s".parse().unwrap()));
        assert_eq!(change(&set, &["rate=none"]).unwrap().rate, None);
        assert_eq!(change(&set, &["concurrency=none"]).unwrap().concurrency, 32);
        let words = ["warn_depth=100", "warn_oldest=5m", "on_backlog=7"];
        let BacklogRules { depth, oldest, job } = change(&set, &words).unwrap().backlog;
        assert_eq!((depth, oldest), (Some(100), Some(std::time::Duration::from_secs(300))));
        assert_eq!(job.unwrap().as_str(), "7");
    }

    #[test]
    fn what_a_file_may_not_say_is_refused_in_the_same_words() {
        let plain = QueueSettings::default();
        for (word, wanted) in [
            ("rate=0/1m", "rate: rate \"0/1m\" has no number from 1 to 1000000 before the /"),
            ("rate=100", "rate: rate \"100\" has no /"),
            ("limit=0", "limit: found 0, wanted a whole number from 1 to 1000000"),
            ("limit=five", "limit: found \"five\", wanted a whole number"),
            ("limit=true", "limit: found true, wanted a whole number"),
            ("strict=3", "strict: found 3, wanted true or false"),
            ("limt=5", "limt: unknown key, did you mean \"limit\"?"),
            (
                "zebra=none",
                "zebra: unknown key, wanted concurrency, limit, rate, burst, weight, strict, warn_depth, warn_oldest or on_backlog",
            ),
            ("burst=5", "burst: burst has no effect without a rate"),
            (
                "paused=true",
                "paused: paused cannot be set here: use schedctl queue pause or schedctl",
            ),
            ("rate=", "rate: rate \"\" has no /"),
            ("on_backlog=page", "on_backlog: on_backlog has no effect without a bound"),
            ("warn_oldest=0s", "warn_oldest: found "),
            ("limit=3 limit=4", "limit: found this key twice, wanted each key once"),
            ("weight=3 strict=true", "strict: a strict queue is served before all other queues"),
            ("strict=banana weight=2", "strict: found \"banana\", wanted true or false"),
            ("weight=2 strict=banana", "strict: found \"banana\", wanted true or false"),
            ("weight=many strict=false", "weight: found \"many\", wanted a whole number"),
            ("strict=true weight=3", "strict: a strict queue is served before all other queues"),
        ] {
            let found = change(&plain, &word.split(' ').collect::<Vec<_>>()).unwrap_err();
            assert!(found.starts_with(wanted), "{found}\n{wanted}");
            assert_eq!(found.matches(wanted).count(), 1, "said once: {found}");
        }
    }
}
