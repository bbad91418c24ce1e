//! The retry of a failed run: the decision about another attempt, and the wait before it.
//!
//! Only failed attempts use up the retry budget. The loss of a node or an unclear `done_check` does
//! not.

use std::fmt;
use std::time::Duration;

use super::run_state::{AttemptOutcome, Ending};
use crate::domain::job::job_spec::{Action, Backoff, RetryRule};
use crate::domain::run::end_words::signal_in_words;

/// The number of times that an unclear `done_check` is repeated before the run ends `lost`. A
/// larger `limit` in the job's key `retry` overrides this number.
const ASKED_AGAIN: u32 = 3;

/// The decision after a failed attempt: another attempt, or the end of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Another attempt follows after this time.
    After(Duration),
    /// No attempt follows, because the retry budget of the run is used up.
    UsedUp,
    /// No attempt follows, because the job's key `retry.on` or `retry.never_on` excludes the code
    /// of the failure. The value is the reason in words.
    Excluded(String),
}

/// The code of a failed attempt, for the keys `on` and `never_on` of `retry`.
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
    /// Returns the code of a failed attempt of `action`. Returns `None` for a request without a
    /// complete answer, for a process that could not start, or for the work of a worker.
    pub fn of(action: &Action, outcome: &AttemptOutcome) -> Option<Self> {
        if let Action::Http(request) = action {
            let status = outcome.http_status.filter(|status| !request.expects(*status))?;
            return (outcome.ending == Ending::Failed).then_some(Self::Status(status));
        }
        if action.handler().is_some() {
            return None;
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

    /// Returns the code as a number for the keys `on` and `never_on` of `retry`.
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
            Self::Signal(code) => {
                write!(f, "code {code}, {}", signal_in_words(i32::from(*code) - 128))
            }
            Self::TimeOut => f.write_str("code 124 (timed out)"),
            Self::Status(status) => write!(f, "status {status}"),
        }
    }
}

/// Returns the decision after a failed attempt of `action` with this outcome. `failures` is the
/// number of failed attempts of the run. `draw` is a random number from 0 to 1 for the jitter.
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
            Next::Excluded(format!("not retried, because retry.never_on lists {code}"))
        }
        Some(code) if !retry.on.is_empty() && !retry.on.contains(&code.number()) => {
            Next::Excluded(format!("not retried, because retry.on does not list {code}"))
        }
        _ => Next::After(outcome.retry_after.map_or(delay, |asked| asked.max(delay))),
    }
}

/// Returns the wait before a `done_check` is repeated, after `unclear` unclear results in a row.
/// Returns `None` if the check is not repeated again. `draw` is a random number from 0 to 1 for the
/// jitter.
pub fn next_question(retry: &RetryRule, unclear: u32, draw: f64) -> Option<Duration> {
    let patient = RetryRule { limit: retry.limit.max(ASKED_AGAIN), ..retry.clone() };
    next_delay(&patient, unclear, draw)
}

/// Returns the wait before the next attempt after `failures` failed attempts. Returns `None` if no
/// retry is left. With jitter, the wait is between half and all of its full length, chosen by
/// `draw` (0 to 1).
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
    fn an_attempt_of_a_process_has_the_exit_code_of_run_wait() {
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
    fn a_request_has_a_code_only_after_a_complete_unexpected_answer() {
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
        assert_eq!(
            next(&[75], &[], &shell(), &exit(3)),
            never("retry.on does not list exit code 3")
        );
        assert_eq!(next(&[], &[3], &shell(), &exit(3)), never("retry.never_on lists exit code 3"));
        assert_eq!(next(&[], &[3], &shell(), &exit(4)), after);
        let killed = AttemptOutcome { signal: Some(9), ..AttemptOutcome::bare(Ending::Failed) };
        assert_eq!(
            next(&[], &[137], &shell(), &killed),
            never("retry.never_on lists code 137, signal 9 (KILL)")
        );
        let timed_out = AttemptOutcome::bare(Ending::TimedOut);
        assert_eq!(
            next(&[], &[124], &shell(), &timed_out),
            never("retry.never_on lists code 124 (timed out)")
        );
        assert_eq!(
            next(&[503], &[], &http(vec![]), &status(404, Ending::Failed)),
            never("retry.on does not list status 404")
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
    fn a_used_up_budget_precedes_the_lists_and_no_answer_extends_it() {
        let retry = RetryRule { limit: 1, never_on: codes(&[3]), ..retry(Backoff::Fixed) };
        assert_eq!(next_attempt(&retry, &shell(), &exit(3), 2, 0.0), Next::UsedUp);
        let asked = AttemptOutcome {
            retry_after: Some(Duration::from_secs(1)),
            ..status(503, Ending::Failed)
        };
        assert_eq!(next_attempt(&retry, &http(vec![]), &asked, 2, 0.0), Next::UsedUp);
    }

    #[test]
    fn the_longer_wait_of_backoff_and_retry_after_counts() {
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
    fn a_done_check_is_repeated_by_the_budget_and_at_least_three_times() {
        let asked = |limit: u32| {
            let retry = RetryRule { limit, ..retry(Backoff::Linear) };
            (1..).map_while(|unclear| next_question(&retry, unclear, 0.0)).collect::<Vec<_>>()
        };
        assert_eq!(asked(0), [10, 20, 30].map(Duration::from_secs));
        assert_eq!(asked(5).len(), 5);
    }
}
