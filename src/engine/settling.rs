//! What an attempt's outcome means for its run: final, another attempt, or handed back. Pure.

use std::time::Duration;

use serde_json::json;

use crate::domain::job::{Delivery, JobSpec};
use crate::domain::retry::{self, Next};
use crate::domain::run::{Ending, Outcome, RunState};
use crate::store::{Claim, Verdict};

/// What is to be written of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settled {
    pub(super) verdict: Verdict,
    pub(super) reason: String,
}

/// What an outcome means; none = nothing may be written: the lease could not be held, whoever took it over decides.
pub(super) fn settle(spec: &JobSpec, claim: &Claim, outcome: &Outcome, stop_cause: Option<&str>, draw: f64) -> Option<Settled> {
    let done = |state, reason: &str| Some(Settled { verdict: Verdict::Final(state), reason: reason.to_owned() });
    match outcome.ending {
        Ending::Succeeded => done(RunState::Succeeded, ""),
        Ending::Failed => Some(retried_or(RunState::Failed, spec, claim, outcome, draw)),
        Ending::TimedOut => Some(retried_or(RunState::TimedOut, spec, claim, outcome, draw)),
        Ending::Stopped => done(RunState::Cancelled, stop_cause.unwrap_or("cancelled")),
        Ending::ShutDown if spec.delivery == Delivery::AtMostOnce => done(RunState::Lost, "shutdown"),
        Ending::ShutDown => Some(Settled { verdict: Verdict::Release, reason: "shutdown".to_owned() }),
        Ending::NotStarted => Some(Settled { verdict: Verdict::Release, reason: "not started".to_owned() }),
        Ending::LeaseLost => None,
    }
}

fn retried_or(state: RunState, spec: &JobSpec, claim: &Claim, outcome: &Outcome, draw: f64) -> Settled {
    match retry::next_attempt(&spec.retry, &spec.action, outcome, claim.failures.saturating_add(1), draw) {
        Next::After(delay) => Settled { verdict: Verdict::Retry(delay), reason: "retry".to_owned() },
        Next::UsedUp => Settled { verdict: Verdict::Final(state), reason: String::new() },
        Next::Excluded(reason) => Settled { verdict: Verdict::Final(state), reason },
    }
}

/// The facts of an attempt as fields of the run's record. Every field is written, so that none is left from an earlier one.
pub(super) fn facts(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let text = |value: Option<String>| value.unwrap_or_default();
    vec![
        ("exit_code", text(outcome.exit_code.map(|code| code.to_string()))),
        ("signal", text(outcome.signal.map(|signal| signal.to_string()))),
        ("http_status", text(outcome.http_status.map(|status| status.to_string()))),
        ("error", text(outcome.error.clone())),
        ("left_processes", u8::from(outcome.left_processes).to_string()),
    ]
}

/// One attempt's own record, kept when another follows.
pub(super) fn past(claim: &Claim, node: &str, outcome: &Outcome, took: Duration) -> String {
    let state = match outcome.ending {
        Ending::TimedOut => "timed_out",
        _ => "failed",
    };
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
        "error": outcome.error,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{Fence, QueueName};
    use crate::domain::job::{Action, Retry};
    use crate::domain::schedule::Schedule;
    use crate::domain::time::UnixMillis;

    fn claim(failures: u32) -> Claim {
        Claim {
            run: "a@5".parse().unwrap(),
            queue: QueueName::default_queue(),
            job_queue: QueueName::default_queue(),
            fence: Fence::new(1).unwrap(),
            attempt: failures + 1,
            recoveries: 0,
            failures,
            unclear: 0,
            claimed_before: failures > 0,
            claimed_at: UnixMillis::EPOCH,
        }
    }

    fn verdict(spec: &JobSpec, failures: u32, ending: Ending) -> Option<Verdict> {
        settle(spec, &claim(failures), &Outcome::bare(ending), None, 0.0).map(|settled| settled.verdict)
    }

    #[test]
    fn only_an_own_failure_uses_up_the_retry_budget() {
        let mut spec = JobSpec::with_defaults(Schedule::Manual, Action::Shell("true".to_owned()));
        spec.retry = Retry { limit: 1, jitter: false, ..Retry::default() };
        assert_eq!(verdict(&spec, 0, Ending::Failed), Some(Verdict::Retry(spec.retry.delay)));
        assert_eq!(verdict(&spec, 1, Ending::Failed), Some(Verdict::Final(RunState::Failed)));
        assert_eq!(verdict(&spec, 1, Ending::TimedOut), Some(Verdict::Final(RunState::TimedOut)));
        assert_eq!(verdict(&spec, 1, Ending::ShutDown), Some(Verdict::Release));
        assert_eq!(verdict(&spec, 1, Ending::NotStarted), Some(Verdict::Release));
        assert_eq!(verdict(&spec, 0, Ending::LeaseLost), None);
    }

    #[test]
    fn an_at_most_once_run_cut_short_by_shutdown_is_lost() {
        let mut spec = JobSpec::with_defaults(Schedule::Manual, Action::Shell("true".to_owned()));
        spec.delivery = Delivery::AtMostOnce;
        assert_eq!(verdict(&spec, 0, Ending::ShutDown), Some(Verdict::Final(RunState::Lost)));
        assert_eq!(verdict(&spec, 0, Ending::NotStarted), Some(Verdict::Release));
    }
}
