//! Tests of the findings about the rules that decided the outcome.

use std::time::Duration;

use super::explain_scene::{
    about, ended, fresh, late_by, on, requiring, serving, skipped, slots_taken, started,
};
use crate::domain::explain::{Place, RunFacts, Source};
use crate::domain::job::job_spec::{Action, AskedOn, Delivery, DoneCheck, JobSpec, Overlap};
use crate::domain::run::run_state::RunState;
use schedd_schedule::lateness::CatchUpMode;

pub(super) fn with_done_check(spec: &mut JobSpec) {
    let question = Action::Shell("exit 9".to_owned());
    spec.done_check =
        Some(DoneCheck { question, on: AskedOn::Always, timeout: Duration::from_secs(1) });
}

#[test]
fn a_rule_is_named_with_its_value_and_where_it_is_set() {
    let skip = |reason| about(skipped(reason));
    let end = |state| about(ended(state, None));
    let waiting = || about(RunFacts { place: Place::Waiting, ..fresh() });
    let done =
        || about(RunFacts { reason: Some("done_check: already done".to_owned()), ..started(0) });
    for (facts, rule) in [
        (
            skip("missed")
                .with_spec(|spec| spec.shape.skip_if_late = Some(Duration::from_secs(20))),
            "skip_if_late = 20s",
        ),
        (skip("max_runs").with_spec(|spec| spec.shape.max_runs = Some(3)), "max_runs = 3"),
        (
            waiting().with_spec(|spec| spec.overlap = Overlap::Queue { max: 3 }),
            "overlap = queue with max = 3",
        ),
        (
            end(RunState::Lost).with_spec(|spec| spec.delivery = Delivery::AtMostOnce),
            "delivery = at-most-once",
        ),
        (
            on(vec![serving(None)], requiring("default+gpu"))
                .with_spec(|spec| spec.requires = ["gpu".parse().unwrap()].into()),
            "requires = gpu",
        ),
        (done().with_spec(with_done_check), "done_check = a command or request"),
    ] {
        facts.says(
            "set_in_file",
            &format!("{rule}, set in [jobs.j] or [defaults] of the file of node n1."),
        );
    }
    for (facts, rule) in [
        (skip("overlap"), "overlap = skip"),
        (end(RunState::TimedOut), "timeout = 1h"),
        (end(RunState::Failed), "retry = 0"),
        (late_by(slots_taken(), Some(20)), "queue = default"),
    ] {
        facts.says("default", &format!("{rule} is the default."));
    }
    skip("missed")
        .with_spec(|spec| spec.catch_up.mode = CatchUpMode::Skip)
        .with_job(|job| job.source = Source::Api)
        .says("set_by", "catch_up = skip, set with schedctl add by ana@h1.");
}
