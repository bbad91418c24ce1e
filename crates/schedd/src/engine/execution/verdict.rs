//! Turns the outcome of an attempt into a verdict about the run: final, another attempt, or handed
//! back. The functions are pure.

use std::time::Duration;

use serde_json::json;

use super::done_check::Course;
use schedd_core::domain::job::job_spec::{Delivery, JobSpec};
use schedd_core::domain::run::retry;
use schedd_core::domain::run::retry::Next;
use schedd_core::domain::run::run_state::{AskedNext, AttemptOutcome, Ending, RunState};
use schedd_store::{Claim, Verdict};

/// The recorded reason of a run that its worker or handler gave back without an end.
pub(crate) const RELEASED: &str = "released by its worker";

/// The recorded reason of a run that was handed back, or lost, because its node or worker stopped.
pub(crate) const SHUTDOWN: &str = "shutdown";

/// The verdict about an attempt, with facts for the record of the run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AttemptVerdict {
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    /// The number of unclear answers of the job's `done_check` in a row, including the last one.
    pub(crate) unclear: u32,
}

/// Returns the verdict about the run of `claim` after the result `course`. `draw` is a random
/// number from 0 to 1 for the jitter of a retry. Returns `None` if this node must not write a
/// verdict, because the lease was lost and the next node decides.
pub(crate) fn verdict_of(
    spec: &JobSpec,
    claim: &Claim,
    course: &Course,
    stop_cause: Option<&str>,
    draw: f64,
) -> Option<AttemptVerdict> {
    let (verdict, reason, unclear) = match course {
        Course::Attempted(outcome) => {
            let (verdict, reason) = verdict_of_attempt(spec, claim, outcome, stop_cause, draw)?;
            (verdict, reason, 0)
        }
        Course::Done => {
            (Verdict::Final(RunState::Succeeded), "done_check: already done".to_owned(), 0)
        }
        Course::Unclear(why) => verdict_of_unclear(spec, claim, why, draw),
        // The attempt has not begun, so even an at-most-once run can be handed back.
        Course::CutShort(AttemptOutcome { ending: Ending::ShutDown, .. }) => {
            (Verdict::Release, SHUTDOWN.to_owned(), claim.unclear)
        }
        Course::CutShort(outcome) => {
            let (verdict, reason) = verdict_of_attempt(spec, claim, outcome, stop_cause, draw)?;
            (verdict, reason, claim.unclear)
        }
    };
    Some(AttemptVerdict { verdict, reason, unclear })
}

fn verdict_of_attempt(
    spec: &JobSpec,
    claim: &Claim,
    outcome: &AttemptOutcome,
    stop_cause: Option<&str>,
    draw: f64,
) -> Option<(Verdict, String)> {
    let done = |state, reason: &str| Some((Verdict::Final(state), reason.to_owned()));
    if let Some(AskedNext::Again(wait)) = outcome.asked {
        let verdict = if wait.is_zero() { Verdict::Release } else { Verdict::AskLater(wait) };
        return Some((verdict, RELEASED.to_owned()));
    }
    match outcome.ending {
        Ending::Succeeded => done(RunState::Succeeded, ""),
        Ending::Failed => Some(retried_or(RunState::Failed, spec, claim, outcome, draw)),
        Ending::TimedOut => Some(retried_or(RunState::TimedOut, spec, claim, outcome, draw)),
        Ending::Stopped => done(RunState::Cancelled, stop_cause.unwrap_or("cancelled")),
        Ending::ShutDown if spec.delivery == Delivery::AtMostOnce => done(RunState::Lost, SHUTDOWN),
        Ending::ShutDown => Some((Verdict::Release, SHUTDOWN.to_owned())),
        Ending::NotStarted => {
            let why = outcome.error.clone().filter(|error| error.starts_with("not started"));
            Some((Verdict::Release, why.unwrap_or_else(|| "not started".to_owned())))
        }
        Ending::LeaseLost | Ending::MaybeAlive => None,
    }
}

fn retried_or(
    state: RunState,
    spec: &JobSpec,
    claim: &Claim,
    outcome: &AttemptOutcome,
    draw: f64,
) -> (Verdict, String) {
    match retry::next_attempt(
        &spec.retry,
        &spec.action,
        outcome,
        claim.failures.saturating_add(1),
        draw,
    ) {
        Next::After(delay) => match outcome.asked {
            Some(AskedNext::NoRetry) => {
                (Verdict::Final(state), "its worker asked for no retry".to_owned())
            }
            Some(AskedNext::RetryIn(wait)) => (Verdict::Retry(wait), "retry".to_owned()),
            Some(AskedNext::Again(_)) | None => (Verdict::Retry(delay), "retry".to_owned()),
        },
        Next::UsedUp => (Verdict::Final(state), String::new()),
        Next::Excluded(reason) => (Verdict::Final(state), reason),
    }
}

/// Returns the verdict after an unclear answer of the `done_check`. The check is repeated several
/// times, and then the run ends as lost. The count of unclear answers is then reset, because an
/// operator may retry the run.
fn verdict_of_unclear(
    spec: &JobSpec,
    claim: &Claim,
    why: &str,
    draw: f64,
) -> (Verdict, String, u32) {
    let unclear = claim.unclear.saturating_add(1);
    match retry::next_question(&spec.retry, unclear, draw) {
        Some(delay) => {
            (Verdict::AskLater(delay), format!("done_check gave no clear answer: {why}"), unclear)
        }
        None => (
            Verdict::Final(RunState::Lost),
            format!("done_check gave no clear answer {unclear} times in a row: {why}"),
            0,
        ),
    }
}

/// Returns the facts of an attempt as fields of the run's record and their values. A fact that is
/// unknown, false or 0 unclear answers has an empty value, which replaces that of an earlier attempt.
pub(crate) fn facts(
    outcome: &AttemptOutcome,
    decision: &AttemptVerdict,
    took: Duration,
) -> Vec<(&'static str, String)> {
    let text = |value: Option<String>| value.unwrap_or_default();
    vec![
        ("exit_code", text(outcome.exit_code.map(|code| code.to_string()))),
        ("signal", text(outcome.signal.map(|signal| signal.to_string()))),
        ("http_status", text(outcome.http_status.map(|status| status.to_string()))),
        ("error", text(outcome.error.clone())),
        ("left_processes", text(outcome.left_processes.then(|| "1".to_owned()))),
        ("not_enforced", text(outcome.not_enforced.clone())),
        ("unclear", text((decision.unclear > 0).then(|| decision.unclear.to_string()))),
        ("took_ms", took.as_millis().to_string()),
        ("use", text(outcome.resources.map(|used| used.to_string()))),
    ]
}

/// Returns one attempt as JSON, for the list of earlier attempts of the run. The entry is kept when
/// another attempt follows, or when the same attempt starts again.
pub(crate) fn past(claim: &Claim, node: &str, outcome: &AttemptOutcome, took: Duration) -> String {
    let state = match outcome.ending {
        Ending::TimedOut => "timed_out",
        Ending::ShutDown => "handed_back",
        _ => "failed",
    };
    let cut_short = (outcome.ending == Ending::ShutDown && outcome.asked.is_none())
        .then(|| "stopped because its node shut down".to_owned());
    json!({
        "attempt": claim.attempt,
        "state": state,
        "fence": claim.fence.as_u64(),
        "node": node,
        "started_at_ms": claim.claimed_at.as_i64(),
        "finished_at_ms": claim.claimed_at.saturating_add(took).as_i64(),
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "http_status": outcome.http_status,
        "error": cut_short.or_else(|| outcome.error.clone()),
        "not_enforced": outcome.not_enforced,
        "use": outcome.resources.map(|used| used.to_string()),
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedd_core::domain::job::job_spec::{Action, RetryRule};
    use schedd_core::domain::queue::lane::Lane;
    use schedd_schedule::names::Fence;
    use schedd_schedule::schedule_form::Schedule;
    use schedd_schedule::time::unix_millis::UnixMillis;

    fn claim(failures: u32) -> Claim {
        Claim {
            run: "a@5".parse().unwrap(),
            lane: Lane::default_lane(),
            job_lane: Lane::default_lane(),
            fence: Fence::new(1).unwrap(),
            attempt: failures + 1,
            recoveries: 0,
            failures,
            unclear: 0,
            claimed_before: failures > 0,
            claimed_at: UnixMillis::EPOCH,
            places: Vec::new(),
        }
    }

    fn verdict(spec: &JobSpec, failures: u32, ending: Ending) -> Option<Verdict> {
        let course = Course::Attempted(AttemptOutcome::bare(ending));
        verdict_of(spec, &claim(failures), &course, None, 0.0).map(|decision| decision.verdict)
    }

    fn spec() -> JobSpec {
        JobSpec::with_defaults(Schedule::Manual, Action::Shell("true".to_owned()))
    }

    #[test]
    fn only_an_own_failure_uses_up_the_retry_budget() {
        let mut spec = spec();
        spec.retry = RetryRule { limit: 1, jitter: false, ..RetryRule::default() };
        assert_eq!(verdict(&spec, 0, Ending::Failed), Some(Verdict::Retry(spec.retry.delay)));
        assert_eq!(verdict(&spec, 1, Ending::Failed), Some(Verdict::Final(RunState::Failed)));
        assert_eq!(verdict(&spec, 1, Ending::TimedOut), Some(Verdict::Final(RunState::TimedOut)));
        assert_eq!(verdict(&spec, 1, Ending::ShutDown), Some(Verdict::Release));
        assert_eq!(verdict(&spec, 1, Ending::NotStarted), Some(Verdict::Release));
        assert_eq!(verdict(&spec, 0, Ending::LeaseLost), None);
    }

    #[test]
    fn an_at_most_once_run_cut_short_by_shutdown_is_lost() {
        let mut spec = spec();
        spec.delivery = Delivery::AtMostOnce;
        assert_eq!(verdict(&spec, 0, Ending::ShutDown), Some(Verdict::Final(RunState::Lost)));
        assert_eq!(verdict(&spec, 0, Ending::NotStarted), Some(Verdict::Release));
    }

    #[test]
    fn a_code_the_lists_exclude_is_final_and_says_so() {
        let mut spec = spec();
        spec.retry = RetryRule { limit: 3, never_on: [3].into(), ..RetryRule::default() };
        let course = Course::Attempted(AttemptOutcome {
            exit_code: Some(3),
            ..AttemptOutcome::bare(Ending::Failed)
        });
        let decision = verdict_of(&spec, &claim(0), &course, None, 0.0).unwrap();
        assert_eq!(decision.verdict, Verdict::Final(RunState::Failed));
        assert_eq!(decision.reason, "not retried, because retry.never_on lists exit code 3");
    }

    #[test]
    fn work_already_done_is_success_and_none_of_it_has_a_code() {
        let decision = verdict_of(&spec(), &claim(1), &Course::Done, None, 0.0).unwrap();
        assert_eq!(decision.verdict, Verdict::Final(RunState::Succeeded));
        assert_eq!(decision.reason, "done_check: already done");
        let facts = facts(&Course::Done.into_outcome(), &decision, Duration::ZERO);
        assert!(
            facts.contains(&("exit_code", String::new()))
                && facts.contains(&("unclear", String::new())),
            "{facts:?}"
        );
    }

    #[test]
    fn what_stays_unclear_is_asked_again_and_ends_lost() {
        let mut spec = spec();
        spec.retry = RetryRule { jitter: false, ..RetryRule::default() };
        let course = Course::Unclear("exit code 2".to_owned());
        let after = |unclear| {
            verdict_of(&spec, &Claim { unclear, ..claim(0) }, &course, None, 0.0).unwrap()
        };
        let first = after(0);
        assert_eq!((first.verdict, first.unclear), (Verdict::AskLater(Duration::from_secs(10)), 1));
        assert_eq!(first.reason, "done_check gave no clear answer: exit code 2");
        assert_eq!(after(2).verdict, Verdict::AskLater(Duration::from_secs(40)));
        let last = after(3);
        assert_eq!((last.verdict, last.unclear), (Verdict::Final(RunState::Lost), 0));
        assert_eq!(last.reason, "done_check gave no clear answer 4 times in a row: exit code 2");
    }

    #[test]
    fn a_question_cut_short_leaves_the_row_as_it_was_and_an_at_most_once_run_unstarted() {
        let mut spec = spec();
        spec.delivery = Delivery::AtMostOnce;
        let course = |ending| Course::CutShort(AttemptOutcome::bare(ending));
        let after = |ending| {
            verdict_of(&spec, &Claim { unclear: 2, ..claim(0) }, &course(ending), Some("why"), 0.0)
        };
        let decision = |verdict, reason: &str| {
            Some(AttemptVerdict { verdict, reason: reason.to_owned(), unclear: 2 })
        };
        assert_eq!(after(Ending::ShutDown), decision(Verdict::Release, "shutdown"));
        assert_eq!(after(Ending::NotStarted), decision(Verdict::Release, "not started"));
        assert_eq!(after(Ending::Stopped), decision(Verdict::Final(RunState::Cancelled), "why"));
        assert_eq!(after(Ending::LeaseLost), None);
        let attempted = verdict_of(
            &spec,
            &Claim { unclear: 2, ..claim(0) },
            &Course::Attempted(AttemptOutcome::bare(Ending::NotStarted)),
            None,
            0.0,
        );
        assert_eq!(attempted.unwrap().unclear, 0, "it was asked, and answered clearly");
    }
}
