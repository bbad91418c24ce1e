//! Tests that jobs, queues and groups written as a file are read back as the same definitions.

use proptest::prelude::*;

use super::canonical_jobs::specs;
use super::{compile, good, host, job};
use crate::config::canonical::canonical_job::to_canonical;
use crate::config::{TableForm, group_table, has_null, job_from_json, job_table, queue_table};
use crate::domain::job::job_spec::JobSpec;
use crate::domain::queue::backlog::BacklogRules;
use crate::domain::queue::group_rules::{GroupSettings, TurnRules};
use crate::domain::queue::queue_rules::{QueueSettings, Share};
use schedd_schedule::clock_changes::ClockChanges;

fn file_of(spec: &JobSpec) -> String {
    let queue =
        queue_table(&spec.queue, &QueueSettings { limit: Some(7), ..QueueSettings::default() });
    let group = spec
        .group
        .as_ref()
        .map(|group| group_table(group, &GroupSettings::Exclusive))
        .unwrap_or_default();
    // The parents of the job are in the file too, in one chain.
    let parents = spec.schedule.parents().map(|parents| &parents.jobs);
    let parents: Vec<String> = parents.into_iter().flatten().map(ToString::to_string).collect();
    let parent = |(at, name): (usize, &String)| {
        let after = if at == 0 { String::new() } else { format!("after = \"{}\"\n", parents[0]) };
        format!("[jobs.{name}]\nshell = \"true\"\n{after}")
    };
    let parents: String = parents.iter().enumerate().map(parent).collect();
    let zone = host().name().clone();
    format!(
        "{queue}{group}{parents}{}",
        job_table(&"some.job".parse().unwrap(), spec, &zone, TableForm::Table)
    )
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 20_000, ..ProptestConfig::with_cases(300) })]
    #[test]
    fn any_job_a_line_can_say_is_exported_as_a_file_that_says_the_same(spec in specs()) {
        let mut spec = spec;
        (spec.unique, spec.traceparent) = (None, None);
        // A schedule that ignores clock changes may not have `dst`, in a file or in a line.
        if !spec.schedule.goes_by_clocks() {
            spec.dst = ClockChanges::default();
        }
        let kept = job_from_json(&to_canonical(&spec), &host());
        prop_assume!(kept.is_ok());
        let text = file_of(&spec);
        let read = compile(&text);
        prop_assert!(read.is_ok(), "{text}\n{}", read.unwrap_err());
        let mut back = job(&read.unwrap(), "some.job");
        if spec.tz.is_none() && back.tz.as_ref() == Some(host().name()) {
            back.tz = None;
        }
        prop_assert_eq!(back, spec, "{}", text);
    }
}

#[test]
fn a_job_without_a_zone_is_exported_with_the_one_kept_with_it_where_that_matters() {
    let kept = "Asia/Tokyo".parse().unwrap();
    let table = |line: &str| {
        let spec = job_from_json(line, &host()).unwrap().spec;
        job_table(&"a".parse().unwrap(), &spec, &kept, TableForm::Table)
    };
    assert_eq!(
        table(r#"{"shell": "x", "cron": "0 9 * * *"}"#),
        "[jobs.a]\ncron = \"0 9 * * *\"\ntz = \"Asia/Tokyo\"\nshell = \"x\"\n"
    );
    assert_eq!(
        table(r#"{"shell": "x", "every": "5s"}"#),
        "[jobs.a]\nevery = \"5s\"\nshell = \"x\"\n"
    );
    assert!(
        table(r#"{"shell": "x", "every": "5s", "exclude": "sun"}"#).contains("tz = \"Asia/Tokyo\"")
    );
    let unique = table(r#"{"shell": "x", "at": "2099-01-01T00:00:00Z", "unique": "k\"1"}"#);
    assert!(
        unique.ends_with("# unique key \"k\\\"1\": a jobs file cannot have a unique key\n"),
        "{unique}"
    );
    good(&unique);
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let traced = table(&format!(r#"{{"shell": "x", "traceparent": "{trace}"}}"#));
    assert!(
        traced
            .ends_with(&format!("# traceparent {trace}: a jobs file cannot have a traceparent\n")),
        "{traced}"
    );
    good(&traced);
}

#[test]
fn a_job_that_is_over_is_a_comment_and_texts_of_any_kind_stay_whole() {
    let line = r#"{"command": ["a b", "é\n\t\u0001\u007f\\\""], "at": "2001-01-01T00:00:00Z", "env": {"A": "x = [1] # 2"}}"#;
    let spec = job_from_json(line, &host()).unwrap().spec;
    let over = job_table(&"a".parse().unwrap(), &spec, host().name(), TableForm::Comment("past"));
    assert!(
        over.starts_with("# past\n# [jobs.a]\n# at = ")
            && over.lines().all(|line| line.starts_with("# ")),
        "{over}"
    );
    assert!(good(&over).jobs.is_empty());
    let table = job_table(&"a".parse().unwrap(), &spec, host().name(), TableForm::Table);
    assert!(!table.contains(['\u{1}', '\u{7f}']), "{table:?}");
    assert_eq!(job(&good(&table), "a"), *spec);
}

#[test]
fn a_null_at_any_depth_of_a_payload_is_found() {
    let found = |payload: &str| {
        let line = format!(r#"{{"handler": "h", "payload": {payload}}}"#);
        has_null(&job_from_json(&line, &host()).unwrap().spec)
    };
    assert!(found(r#"{"a": null}"#) && found(r#"[1, {"b": [null]}]"#));
    assert!(!found("null") && !found(r#"{"a": "null"}"#) && !found("[1]"));
}

#[test]
fn queues_and_groups_read_back() {
    let rate = "100/1m".parse::<crate::domain::queue::rate::Rate>().unwrap();
    for settings in [
        QueueSettings::default(),
        QueueSettings {
            concurrency: 5,
            limit: Some(3),
            rate: Some(rate),
            share: Share::Weight(4),
            is_paused: true,
            backlog: BacklogRules {
                depth: Some(1_000),
                oldest: Some(std::time::Duration::from_secs(300)),
                job: Some("page".parse().unwrap()),
            },
            is_spread: false,
        },
        QueueSettings {
            rate: Some(rate.with_burst(7)),
            share: Share::Strict,
            ..QueueSettings::default()
        },
    ] {
        let name = "mail".parse().unwrap();
        assert_eq!(good(&queue_table(&name, &settings)).queues[&name], settings);
    }
    let order = vec!["a".parse().unwrap(), "b".parse().unwrap()];
    let turns = TurnRules {
        order,
        gap: std::time::Duration::from_secs(5),
        turn_timeout: std::time::Duration::from_millis(1_500),
    };
    for settings in [GroupSettings::Exclusive, GroupSettings::Alternate(turns)] {
        let name = "night".parse().unwrap();
        assert_eq!(good(&group_table(&name, &settings)).groups[&name], settings);
    }
}
