//! By when it was to have started and ended, and who was told.

use std::time::Duration;

use super::scene::{about, ended, fresh, s, started, with_spec};
use super::{Example, hold};
use crate::domain::explain::{Facts, LateNotice, Place, RunFacts, judge};
use crate::domain::notice::Deadline;
use crate::domain::run::RunState;

/// A run of a job that is to start within 10 s and end within 20 s.
fn timed(run: RunFacts) -> Facts {
    with_spec(about(run), |spec| {
        spec.must_start_within = Some(Duration::from_secs(10));
        spec.must_finish_within = Some(Duration::from_secs(20));
    })
}

fn notice(state: RunState, end: Option<&str>) -> Vec<LateNotice> {
    vec![LateNotice {
        of: Deadline::Start,
        run: "j/on_late@5~abc".parse().unwrap(),
        state,
        node: Some("n2".to_owned()),
        finished_at: state.is_final().then(|| s(11)),
        end: end.map(str::to_owned),
    }]
}

fn noticed(state: RunState, end: Option<&str>) -> Facts {
    timed(RunFacts { late_notices: notice(state, end), ..started(15) })
}

const TOLD: &[Example] = &[
    (
        "missed_start",
        || timed(started(15)),
        "It had not started by Sat 2026-11-21 12:00:10 UTC, as must_start_within = 10s wants.",
    ),
    (
        "missed_start",
        || {
            let late_notices = notice(RunState::Succeeded, None);
            let skipped = ended(RunState::Skipped, Some("overlap"));
            timed(RunFacts { late_notices, behind: Some("j@4".parse().unwrap()), ..skipped })
        },
        "It had not started by Sat 2026-11-21 12:00:10 UTC, as must_start_within = 10s wants.",
    ),
    (
        "missed_finish",
        || timed(RunFacts { finished_at: Some(s(25)), ..started(1) }),
        "It had not ended by Sat 2026-11-21 12:00:20 UTC, as must_finish_within = 20s wants.",
    ),
    (
        "told_late",
        || noticed(RunState::Succeeded, Some("succeeded")),
        "on_late told of it at Sat 2026-11-21 12:00:11 UTC from n2, by the run j/on_late@5~abc.",
    ),
    (
        "told_late",
        || {
            // Nobody asked for a time: it was late by late_after, or skipped as missed.
            let late_notices = notice(RunState::Succeeded, None);
            about(RunFacts { late_notices, ..ended(RunState::Skipped, Some("missed")) })
        },
        "on_late told of it at Sat 2026-11-21 12:00:11 UTC from n2, by the run j/on_late@5~abc.",
    ),
    (
        "telling_late",
        || noticed(RunState::Scheduled, Some("exit code 7")),
        "on_late has not told of it yet, the run j/on_late@5~abc is to; its last attempt ended with exit code 7.",
    ),
    ("telling_late", || noticed(RunState::Running, None), "on_late has not told of it yet, the run j/on_late@5~abc is to."),
    (
        "untold_late",
        || noticed(RunState::Failed, Some("exit code 7")),
        "on_late told nobody of it: the run j/on_late@5~abc ended with exit code 7.",
    ),
    (
        "unknown_late",
        || timed(fresh()),
        "No notice of it is kept: it is yet to be made, was one of too many at once, or is forgotten.",
    ),
];

#[test]
fn every_sentence_about_who_was_told_is_made_true() {
    hold(TOLD);
}

#[test]
fn a_run_in_time_one_a_pause_holds_and_one_skipped_at_once_missed_nothing() {
    for run in [
        started(10),
        RunFacts { place: Place::Held, ..fresh() },
        ended(RunState::Skipped, Some("overlap")),
        RunFacts { run: "j@1795262400000~abc".parse().unwrap(), ..started(90) },
    ] {
        let told = judge(&timed(run));
        assert!(
            told.iter().all(|found| ![
                "missed_start",
                "missed_finish",
                "told_late",
                "telling_late",
                "untold_late",
                "unknown_late"
            ]
            .contains(&found.code)),
            "{told:#?}"
        );
    }
}
