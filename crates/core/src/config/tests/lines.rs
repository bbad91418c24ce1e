use std::time::Duration;

use serde_json::json;

use super::{fault, host};
use crate::config::{NamedJob, job_from_json, job_from_value};
use crate::domain::job::job_spec::Action;
use crate::domain::job::unique_rule::{Second, Unique};
use schedd_schedule::schedule_form::Schedule;

fn line(text: &str) -> Result<NamedJob, Vec<String>> {
    job_from_json(text, &host())
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

#[test]
fn a_line_has_the_keys_of_a_job_and_a_name_and_in() {
    let job = line(r#"{"name": "hello", "in": "600s", "command": ["echo", "hi"], "queue": "fast", "retry": 2}"#).unwrap();
    assert_eq!(job.name.unwrap().as_str(), "hello");
    assert_eq!(
        (job.start_in, &job.spec.schedule),
        (Some(Duration::from_secs(600)), &Schedule::Manual)
    );
    assert_eq!((job.spec.queue.as_str(), job.spec.retry.limit), ("fast", 2));
    let bare = line(r#"{"shell": "true", "in": "0s"}"#).unwrap();
    assert_eq!(
        (bare.name, bare.start_in, bare.spec.action.clone()),
        (None, Some(Duration::ZERO), Action::Shell("true".into()))
    );
    let local = line(r#"{"shell": "true", "at": "2026-12-24T09:00", "tz": null}"#).unwrap();
    assert!(
        matches!(local.spec.schedule, Schedule::At(at) if at.to_string() == "2026-12-24T14:00:00.000Z"),
        "the host's zone"
    );
}

#[test]
fn a_value_and_its_text_are_the_same_job() {
    let value = json!({"name": "a", "cron": ["0 9 * * *"], "http": {"url": "http://h/", "body": "x"}, "env": {"A": "1"}});
    assert_eq!(job_from_value(&value, &host()).unwrap(), line(&value.to_string()).unwrap());
}

#[test]
fn two_forms_of_a_schedule_are_refused() {
    for (text, wanted) in [
        (
            r#"{"shell": "true", "in": "5s", "every": "5s"}"#,
            "in: found every and in together, wanted at most one schedule",
        ),
        (
            r#"{"shell": "true", "cron": "@daily", "at": "2026-12-24T09:00"}"#,
            "at: found cron and at together",
        ),
        (r#"{"shell": "true", "in": "5s", "in": "6s"}"#, "\"in\" is given twice"),
    ] {
        let problems = line(text).unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(wanted), "{problems:?}");
    }
}

#[test]
fn all_problems_of_a_line_are_reported_at_once() {
    let problems =
        line(r#"{"name": "A B", "in": "x", "shel": "true", "timeout": 30, "weight": 1}"#)
            .unwrap_err();
    assert_eq!(problems.len(), 5, "{problems:#?}");
    for wanted in [
        "name: job name \"A B\" is not valid",
        "in: ",
        "shel: unknown key, did you mean \"shell\"?",
        "timeout: found integer 30",
    ] {
        assert!(
            problems.iter().any(|problem| problem.starts_with(wanted)),
            "{wanted}: {problems:#?}"
        );
    }
}

#[test]
fn an_at_most_once_line_with_retries_is_refused() {
    let problems =
        line(r#"{"shell": "true", "delivery": "at-most-once", "retry": 1}"#).unwrap_err();
    assert!(
        matches!(problems.as_slice(), [one] if one.contains("contradicts retry.limit 1")),
        "{problems:?}"
    );
}

#[test]
fn what_is_no_object_is_refused_in_one_line() {
    for (text, wanted) in [
        ("", "found JSON that ends too early at line 1 column 0, wanted a complete value"),
        ("{", "found JSON that ends too early at line 1 column 1, wanted a complete value"),
        ("nonsense", "found text that is not JSON at line 1 column 2, wanted one JSON object"),
        ("{} {}", "found text that is not JSON at line 1 column 4, wanted one JSON object"),
        ("[]", "found an array, wanted an object"),
        ("null", "found null, wanted an object"),
        ("3", "found integer (not shown), wanted an object"),
        ("{}", "no action, wanted exactly one of command, shell, http or handler"),
    ] {
        let problems = line(text).unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(wanted), "{text}: {problems:?}");
        assert_eq!(problems[0].lines().count(), 1);
    }
}

#[test]
fn a_line_too_deep_or_too_long_is_refused_with_the_limit() {
    let deep =
        format!(r#"{{"shell": "true", "env": {}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    assert!(line(&deep).unwrap_err()[0].contains("nested deeper than 64"));
    let long = format!(r#"{{"shell": "{}"}}"#, "x".repeat(320 * 1024));
    assert!(line(&long).unwrap_err()[0].contains("wanted at most 327680 (320 KiB)"));
    let value = json!({"http": {"url": "http://h/", "body": "x".repeat(320 * 1024)}});
    assert!(job_from_value(&value, &host()).unwrap_err()[0].message.contains("320 KiB"));
}

#[test]
fn no_garbled_line_is_a_crash() {
    let text = r#"{"name": "a", "http": {"url": "http://h/", "headers": {"A": "é"}}, "retry": {"limit": 3}, "at": "2026-12-24T09:00"}"#;
    let whole: Vec<char> = text.chars().collect();
    for at in 0..whole.len() {
        for with in ['"', '{', '9', '\0', 'é', '-'] {
            let mut garbled = whole.clone();
            garbled[at] = with;
            let garbled: String = garbled.into_iter().collect();
            if let Err(problems) = line(&garbled) {
                assert!(
                    !problems.is_empty()
                        && problems.iter().all(|problem| problem.lines().count() == 1),
                    "{garbled}: {problems:?}"
                );
            }
        }
    }
}

#[test]
fn a_line_names_a_unique_key_and_what_becomes_of_a_second_add() {
    let hour = Duration::from_secs(3600);
    for (keys, second) in [
        (r#""unique": "k""#, Second::Refused { window: None }),
        (r#""unique": "k", "unique_for": "1h""#, Second::Refused { window: Some(hour) }),
        (r#""unique": {"key": "k", "for": "60m"}"#, Second::Refused { window: Some(hour) }),
        (
            r#""unique": {"key": "k", "mode": "debounce"}, "in": "5s""#,
            Second::Wins { max_wait: None },
        ),
        (
            r#""unique": {"key": "k", "mode": "debounce"}, "at": "2099-01-01T00:00:00Z""#,
            Second::Wins { max_wait: None },
        ),
        (
            r#""unique": {"key": "k", "mode": "debounce", "max_wait": "60m"}, "in": "5s""#,
            Second::Wins { max_wait: Some(hour) },
        ),
        (
            r#""unique": {"key": "k", "mode": "throttle", "for": "1h"}"#,
            Second::Dropped { window: hour },
        ),
    ] {
        let job = job_from_json(&format!(r#"{{"shell": "x", {keys}}}"#), &host()).unwrap();
        assert_eq!(job.spec.unique, Some(Unique { key: "k".parse().unwrap(), second }), "{keys}");
    }
}

#[test]
fn a_unique_key_that_cannot_be_meant_is_refused_with_why() {
    let long = format!(r#""unique": "{}""#, "x".repeat(257));
    for (keys, path, wanted) in [
        (r#""unique": """#, "unique", "empty"),
        (long.as_str(), "unique", "257 characters, wanted at most 256"),
        (r#""unique": "a\nb""#, "unique", "control character at position 2"),
        (r#""unique": 5"#, "unique", "wanted a string"),
        (r#""unique_for": "1h""#, "unique_for", "found unique_for without unique"),
        (r#""unique": "k", "unique_for": "99ms""#, "unique_for", "100ms to 365 days"),
        (r#""unique": {"key": "k"}, "unique_for": "1h""#, "unique_for", "wanted for ="),
        (r#""unique": {"for": "1h"}"#, "unique", "no key"),
        (
            r#""unique": {"key": "k", "mode": "debunce"}, "in": "5s""#,
            "unique.mode",
            "did you mean \"debounce\"?",
        ),
        (r#""unique": {"key": "k", "four": "1h"}"#, "unique.four", "did you mean \"for\"?"),
        (r#""unique": {"key": "k", "mode": "throttle"}"#, "unique.mode", "throttle needs the time"),
        (
            r#""unique": {"key": "k", "max_wait": "1h"}"#,
            "unique.max_wait",
            "add mode = \"debounce\"",
        ),
        (
            r#""unique": {"key": "k", "mode": "debounce", "for": "1h"}, "in": "5s""#,
            "unique.for",
            "remove the key for (--unique-for)",
        ),
        (
            r#""unique": {"key": "k", "mode": "debounce"}, "cron": "@daily""#,
            "unique",
            "a single at",
        ),
        (r#""unique": {"key": "k", "mode": "debounce"}"#, "unique", "a single at"),
    ] {
        let problems = job_from_json(&format!(r#"{{"shell": "x", {keys}}}"#), &host()).unwrap_err();
        let [problem] = problems.as_slice() else { panic!("{keys}: {problems:?}") };
        assert!(problem.path == path && problem.message.contains(wanted), "{keys}: {problem:?}");
    }
}

#[test]
fn a_file_has_no_unique_keys_and_says_why() {
    for line in ["unique = 'k'", "unique_for = '1h'", "unique = { key = 'k', mode = 'debounce' }"] {
        let message = fault(&format!("[jobs.a]\nshell = 'true'\n{line}"));
        assert!(
            message.contains("jobs.a.unique") && message.contains("exists once, by its name"),
            "{message}"
        );
    }
    assert!(fault("[defaults]\nunique = 'k'").contains("unique cannot have a default"));
}
