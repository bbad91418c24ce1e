//! Decides whether a failed run gets another attempt, and how long the run waits for that attempt.
//!
//! Only failures of the job itself use up the retry budget. Losses of a node and unanswered
//! `done_check` commands are counted elsewhere.

use std::fmt;
use std::time::Duration;

use super::run_state::{AttemptOutcome, Ending};
use crate::domain::job::job_spec::{Action, Backoff, RetryRule};

/// The minimum number of times that the `done_check` of a run is repeated before the run ends
/// `lost`. This minimum does not depend on the retry budget.
const ASKED_AGAIN: u32 = 3;

/// The consequence of a failed attempt: another attempt or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Another attempt follows after this time.
    After(Duration),
    /// No attempt follows, because the retry budget of the run is used up.
    UsedUp,
    /// No attempt follows, because the job's rules for retries exclude the code of the failure. The
    /// text gives the reason.
    Excluded(String),
}

/// The code of a failed attempt, as the lists of `retry` in a definition name the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The exit code of the process.
    Exit(u16),
    /// The number of the signal that ended the process, plus 128.
    Signal(u16),
    /// The code 124, which means that the process exceeded its timeout.
    TimeOut,
    /// The status of an HTTP answer.
    Status(u16),
}

impl Code {
    /// Returns the code of a failed attempt of `action`, or `None` if the attempt has no code. A
    /// request without a complete answer has no code. A process that could not start because its
    /// host lacked something has no code either.
    pub fn of(action: &Action, outcome: &AttemptOutcome) -> Option<Self> {
        if let Action::Http(request) = action {
            let status = outcome.http_status.filter(|status| !request.expects(*status))?;
            return (outcome.ending == Ending::Failed).then_some(Self::Status(status));
        }
        if outcome.ending == Ending::TimedOut {
            return Some(Self::TimeOut);
        }
        let code = |number: i32| u16::try_from(number).ok();
        match (outcome.signal, outcome.exit_code) {
            (Some(signal), _) => code(signal.saturating_add(128)).map(Self::Signal),
            (None, exit_code) => exit_code.and_then(code).map(Self::Exit),
        }
    }

    /// Returns the code as the number that the lists of `retry` use.
    pub fn number(self) -> u16 {
        match self {
            Self::Exit(code) | Self::Signal(code) | Self::Status(code) => code,
            Self::TimeOut => 124,
        }
    }
}

/// Formats the code as part of a sentence: `exit code 3`.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit code {code}"),
            Self::Signal(code) => write!(f, "code {code} (signal {})", code.saturating_sub(128)),
            Self::TimeOut => f.write_str("code 124 (timed out)"),
            Self::Status(status) => write!(f, "status {status}"),
        }
    }
}

/// Returns what follows failure number `failures` of a run, counted from 1. The failed attempt of
/// `action` ended with `outcome`. `draw` is a random number in 0..1 from the caller.
pub fn next_attempt(
    retry: &RetryRule,
    action: &Action,
    outcome: &AttemptOutcome,
    failures: u32,
    draw: f64,
) -> Next {
    let Some(delay) = next_delay(retry, failures, draw) else { return Next::UsedUp };
    match Code::of(action, outcome) {
        Some(code) if retry.never_on.contains(&code.number()) => {
            Next::Excluded(format!("not retried, because never_on lists {code}"))
        }
        Some(code) if !retry.on.is_empty() && !retry.on.contains(&code.number()) => {
            Next::Excluded(format!("not retried, because on does not list {code}"))
        }
        _ => Next::After(outcome.retry_after.map_or(delay, |asked| asked.max(delay))),
    }
}

/// Returns the wait before a `done_check` is repeated. `unclear` is the number (at least 1) of runs
/// of the `done_check` in a row without an answer. Returns `None` if the `done_check` was repeated
/// often enough. `draw` is a random number in 0..1, as in [`next_attempt`].
pub fn next_question(retry: &RetryRule, unclear: u32, draw: f64) -> Option<Duration> {
    let patient = RetryRule { limit: retry.limit.max(ASKED_AGAIN), ..retry.clone() };
    next_delay(&patient, unclear, draw)
}

/// Returns the wait before the next attempt after `failures` failures (at least 1), or `None` if
/// the retry budget is used up. `draw` is a random number in 0..1 from the caller. With jitter, the
/// result is between half of the wait and the whole wait.
fn next_delay(retry: &RetryRule, failures: u32, draw: f64) -> Option<Duration> {
    if failures > retry.limit {
        return None;
    }
    let whole = match retry.backoff {
        Backoff::Fixed => retry.delay,
        Backoff::Linear => retry.delay.saturating_mul(failures),
        Backoff::Exponential => retry
            .delay
            .saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX)),
    };
    let whole = whole.min(retry.max_delay);
    Some(if retry.jitter { whole.mul_f64(0.5 + draw.clamp(0.0, 1.0) / 2.0) } else { whole })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::domain::job::job_spec::HttpRequest;

    fn retry(backoff: Backoff) -> RetryRule {
        RetryRule { limit: 100, backoff, jitter: false, ..RetryRule::default() }
    }

    #[test]
    fn waits_grow_as_the_backoff_says_up_to_the_longest() {
        let waits = |backoff| {
            [1, 2, 3, 10, 90].map(|n| next_delay(&retry(backoff), n, 0.0).unwrap().as_secs())
        };
        assert_eq!(waits(Backoff::Fixed), [10, 10, 10, 10, 10]);
        assert_eq!(waits(Backoff::Linear), [10, 20, 30, 100, 900]);
        assert_eq!(waits(Backoff::Exponential), [10, 20, 40, 3600, 3600]);
    }

    #[test]
    fn the_budget_ends() {
        assert!(next_delay(&retry(Backoff::Fixed), 100, 0.0).is_some());
        assert!(next_delay(&retry(Backoff::Fixed), 101, 0.0).is_none());
        assert!(next_delay(&RetryRule::default(), 1, 0.0).is_none());
    }

    #[test]
    fn jitter_draws_between_half_and_whole() {
        let jittered = RetryRule { jitter: true, ..retry(Backoff::Fixed) };
        assert_eq!(next_delay(&jittered, 1, 0.0), Some(Duration::from_secs(5)));
        assert_eq!(next_delay(&jittered, 1, 1.0), Some(Duration::from_secs(10)));
    }

    fn codes(codes: &[u16]) -> BTreeSet<u16> {
        codes.iter().copied().collect()
    }

    fn shell() -> Action {
        Action::Shell("x".to_owned())
    }

    fn exit(code: i32) -> AttemptOutcome {
        AttemptOutcome { exit_code: Some(code), ..AttemptOutcome::bare(Ending::Failed) }
    }

    fn http(expect: Vec<u16>) -> Action {
        let (method, url) = ("GET".to_owned(), "http://h/".to_owned());
        Action::Http(HttpRequest {
            method,
            url,
            headers: BTreeMap::new(),
            body: String::new(),
            expect,
            redirects: 0,
        })
    }

    fn status(status: u16, ending: Ending) -> AttemptOutcome {
        AttemptOutcome { http_status: Some(status), ..AttemptOutcome::bare(ending) }
    }

    #[test]
    fn an_attempt_is_known_by_the_code_run_wait_ends_with() {
        let killed = AttemptOutcome { signal: Some(9), ..AttemptOutcome::bare(Ending::Failed) };
        let timed_out = AttemptOutcome {
            exit_code: Some(3),
            signal: Some(15),
            ..AttemptOutcome::bare(Ending::TimedOut)
        };
        let of = |outcome: &AttemptOutcome| Code::of(&shell(), outcome).map(Code::number);
        assert_eq!(
            (of(&exit(3)), of(&exit(127)), of(&killed), of(&timed_out)),
            (Some(3), Some(127), Some(137), Some(124))
        );
        assert_eq!(of(&AttemptOutcome::failed("cannot start")), None);
    }

    #[test]
    fn a_request_has_a_code_only_if_a_whole_answer_came_that_was_not_wanted() {
        let of = |expect: &[u16], outcome: &AttemptOutcome| {
            Code::of(&http(expect.to_vec()), outcome).map(Code::number)
        };
        assert_eq!(of(&[], &status(503, Ending::Failed)), Some(503));
        assert_eq!(of(&[204], &status(200, Ending::Failed)), Some(200));
        assert_eq!(of(&[], &status(200, Ending::Failed)), None, "its body broke off");
        assert_eq!(of(&[], &status(503, Ending::TimedOut)), None);
        assert_eq!(of(&[], &AttemptOutcome::failed("cannot connect")), None);
    }

    #[test]
    fn the_lists_decide_which_codes_are_tried_again() {
        let next = |on: &[u16], never_on: &[u16], action: &Action, outcome: &AttemptOutcome| {
            let retry =
                RetryRule { on: codes(on), never_on: codes(never_on), ..retry(Backoff::Fixed) };
            next_attempt(&retry, action, outcome, 1, 0.0)
        };
        let after = Next::After(Duration::from_secs(10));
        let never = |why: &str| Next::Excluded(format!("not retried, because {why}"));
        assert_eq!(next(&[], &[], &shell(), &exit(3)), after);
        assert_eq!(next(&[3, 75], &[], &shell(), &exit(3)), after);
        assert_eq!(next(&[75], &[], &shell(), &exit(3)), never("on does not list exit code 3"));
        assert_eq!(next(&[], &[3], &shell(), &exit(3)), never("never_on lists exit code 3"));
        assert_eq!(next(&[], &[3], &shell(), &exit(4)), after);
        let killed = AttemptOutcome { signal: Some(9), ..AttemptOutcome::bare(Ending::Failed) };
        assert_eq!(
            next(&[], &[137], &shell(), &killed),
            never("never_on lists code 137 (signal 9)")
        );
        let timed_out = AttemptOutcome::bare(Ending::TimedOut);
        assert_eq!(
            next(&[], &[124], &shell(), &timed_out),
            never("never_on lists code 124 (timed out)")
        );
        assert_eq!(
            next(&[503], &[], &http(vec![]), &status(404, Ending::Failed)),
            never("on does not list status 404")
        );
        assert_eq!(
            next(&[503], &[], &http(vec![]), &timed_out),
            after,
            "an attempt without a status is retried"
        );
        assert_eq!(
            next(&[503], &[], &http(vec![]), &AttemptOutcome::failed("cannot connect")),
            after
        );
    }

    #[test]
    fn a_budget_that_is_used_up_is_named_before_the_lists_and_no_answer_makes_it_larger() {
        let retry = RetryRule { limit: 1, never_on: codes(&[3]), ..retry(Backoff::Fixed) };
        assert_eq!(next_attempt(&retry, &shell(), &exit(3), 2, 0.0), Next::UsedUp);
        let asked = AttemptOutcome {
            retry_after: Some(Duration::from_secs(1)),
            ..status(503, Ending::Failed)
        };
        assert_eq!(next_attempt(&retry, &http(vec![]), &asked, 2, 0.0), Next::UsedUp);
    }

    #[test]
    fn of_the_backoff_and_what_the_answer_asks_the_longer_is_waited() {
        let wait = |asked: u64| {
            let outcome = AttemptOutcome {
                retry_after: Some(Duration::from_secs(asked)),
                ..status(503, Ending::Failed)
            };
            next_attempt(&retry(Backoff::Fixed), &http(vec![]), &outcome, 1, 0.0)
        };
        assert_eq!(wait(3), Next::After(Duration::from_secs(10)));
        assert_eq!(
            wait(86_400),
            Next::After(Duration::from_secs(86_400)),
            "max_delay bounds the backoff alone"
        );
    }

    #[test]
    fn a_question_is_asked_again_as_often_as_the_budget_allows_and_at_least_three_times() {
        let asked = |limit: u32| {
            let retry = RetryRule { limit, ..retry(Backoff::Linear) };
            (1..).map_while(|unclear| next_question(&retry, unclear, 0.0)).collect::<Vec<_>>()
        };
        assert_eq!(asked(0), [10, 20, 30].map(Duration::from_secs));
        assert_eq!(asked(5).len(), 5);
    }
}
