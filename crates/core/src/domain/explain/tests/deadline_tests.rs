//! Tests of the findings about missed deadlines and their notices.

use std::time::Duration;

use super::explain_scene::{about, ended, fresh, s, skipped, started};
use crate::domain::explain::{Facts, LateNotice, Place, RunFacts};
use crate::domain::job::notice::Deadline;
use crate::domain::run::run_state::RunState;

const MISSED_START: &str =
    "The run had not started by 12:00:10, the deadline that must_start_within = 10s sets.";
const REPORTED: &str = "The on_late notice j/on_late@5~abc was delivered on 12:00:11 by node n2.";

/// Returns facts of a job with the run `run`. A run of this job must start within 10 s and end
/// within 20 s.
fn timed(run: RunFacts) -> Facts {
    about(run).with_spec(|spec| {
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

#[test]
fn a_missed_deadline_is_named_with_its_notice() {
    timed(started(15)).says("missed_start", MISSED_START);
    let late_notices = notice(RunState::Succeeded, None);
    let behind = Some("j@4".parse().unwrap());
    timed(RunFacts { late_notices: late_notices.clone(), behind, ..skipped("overlap") })
        .says("missed_start", MISSED_START);
    let text =
        "The run had not ended by 12:00:20, the deadline that must_finish_within = 20s sets.";
    timed(RunFacts { finished_at: Some(s(25)), ..started(1) }).says("missed_finish", text);
    noticed(RunState::Succeeded, Some("succeeded")).says("reported_late", REPORTED);
    // A run without a deadline: it was late by `late_after`, or it was skipped as missed.
    about(RunFacts { late_notices, ..skipped("missed") }).says("reported_late", REPORTED);
    let text = "The on_late notice j/on_late@5~abc has not been delivered yet. Its last attempt ended with: exit code 7.";
    noticed(RunState::Scheduled, Some("exit code 7")).says("reporting_late", text);
    let text = "The on_late notice j/on_late@5~abc has not been delivered yet.";
    noticed(RunState::Running, None).says("reporting_late", text);
    let text = "The on_late notice j/on_late@5~abc was not delivered. Its last attempt ended with: exit code 7.";
    noticed(RunState::Failed, Some("exit code 7")).says("unreported_late", text);
    let text = "Redis has no on_late notice for this deadline. The notice was not made yet, was left out because of too many notices, or was deleted.";
    timed(fresh()).says("unknown_late", text);
}

#[test]
fn a_run_in_time_paused_or_skipped_at_once_missed_no_deadline() {
    let codes = [
        "missed_start",
        "missed_finish",
        "reported_late",
        "reporting_late",
        "unreported_late",
        "unknown_late",
    ];
    for run in [
        started(10),
        RunFacts { place: Place::Paused, ..fresh() },
        ended(RunState::Skipped, Some("overlap")),
        RunFacts { run: "j@1795262400000~abc".parse().unwrap(), ..started(90) },
    ] {
        let found = timed(run).codes();
        assert!(found.iter().all(|code| !codes.contains(code)), "{found:?}");
    }
}
