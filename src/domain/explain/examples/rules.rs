//! The rule that decided.

use std::time::Duration;

use super::scene::{about, ended, fresh, node, on, requiring, s, serving, slots, started, with_job, with_spec};
use super::{Example, hold};
use crate::domain::explain::{Facts, Place, RunFacts, Source, judge};
use crate::domain::job::{Action, CatchUpMode, Delivery, DoneCheck, Overlap};
use crate::domain::run::RunState;

const RULES: &[Example] = &[
    (
        "set_in_file",
        || {
            let skipped = about(ended(RunState::Skipped, Some("missed")));
            with_spec(skipped, |spec| spec.shape.skip_if_late = Some(Duration::from_secs(20)))
        },
        "skip_if_late = 20s, set in [jobs.j] or [defaults] of the file of node n1.",
    ),
    (
        "set_in_file",
        || with_spec(about(ended(RunState::Skipped, Some("max_runs"))), |spec| spec.shape.max_runs = Some(3)),
        "max_runs = 3, set in [jobs.j] or [defaults] of the file of node n1.",
    ),
    ("default", || about(ended(RunState::Skipped, Some("overlap"))), "overlap = skip, which is the default."),
    (
        "set_in_file",
        || with_spec(about(RunFacts { place: Place::Waiting, ..fresh() }), |spec| spec.overlap = Overlap::Queue { max: 3 }),
        "overlap = queue, at most 3 waiting, set in [jobs.j] or [defaults] of the file of node n1.",
    ),
    (
        "set_by",
        || {
            let facts = with_spec(about(ended(RunState::Skipped, Some("missed"))), |spec| spec.catch_up.mode = CatchUpMode::Skip);
            with_job(facts, |job| job.source = Source::Api)
        },
        "catch_up = skip, set with schedctl add by ana@h1.",
    ),
    (
        "set_in_file",
        || with_spec(about(ended(RunState::Lost, None)), |spec| spec.delivery = Delivery::AtMostOnce),
        "delivery = at-most-once, set in [jobs.j] or [defaults] of the file of node n1.",
    ),
    ("default", || about(ended(RunState::TimedOut, None)), "timeout = 1h, which is the default."),
    ("default", || about(ended(RunState::Failed, None)), "retry = 0, which is the default."),
    ("default", || on(vec![node("n1", &[slots(-5, Some(20))])], started(20)), "queue = default, which is the default."),
    (
        "set_in_file",
        || {
            let facts = on(vec![serving(None)], requiring("default+gpu"));
            with_spec(facts, |spec| spec.requires = ["gpu".parse().unwrap()].into())
        },
        "requires = gpu, set in [jobs.j] or [defaults] of the file of node n1.",
    ),
    (
        "set_in_file",
        || {
            let done = about(RunFacts { reason: Some("done_check: already done".to_owned()), ..started(0) });
            with_spec(done, |spec| {
                let question = Action::Shell("true".to_owned());
                spec.done_check =
                    Some(DoneCheck { question, on: crate::domain::job::AskedOn::Always, timeout: Duration::from_secs(1) });
            })
        },
        "done_check = a question of its own, set in [jobs.j] or [defaults] of the file of node n1.",
    ),
];

#[test]
fn every_sentence_about_a_rule_is_made_true() {
    hold(RULES);
}

#[test]
fn late_after_is_named_where_it_decided_and_not_where_a_later_run_was_due_too() {
    let skipped = |mode, finished_at| {
        let run = RunFacts { finished_at: Some(finished_at), ..ended(RunState::Skipped, Some("missed")) };
        with_spec(about(run), |spec| spec.catch_up.mode = mode)
    };
    let names = |facts: &Facts| judge(facts).iter().any(|found| found.text.clone().starts_with("late_after = "));
    // A job of every minute, skipped before its next was due, and after.
    assert!(names(&skipped(CatchUpMode::Skip, s(59))));
    assert!(!names(&skipped(CatchUpMode::Skip, s(60))));
    assert!(!names(&skipped(CatchUpMode::Latest, s(59))));
}
