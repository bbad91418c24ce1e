//! The `done_check` before an attempt: decides when the check runs, and judges its result. The
//! check answers the question whether the work is already done.
//!
//! Invariant: only a clear answer starts an attempt or ends a run as done. The check runs under the
//! lease of the run, with the environment and headers of the attempt. Like an attempt, the check
//! can be stopped, killed or lost.

use crate::attempts::Attempt;
use schedd_core::domain::job::job_spec::{Action, AskedOn, DoneCheck, JobSpec};
use schedd_core::domain::job::process_rules::ProcessRules;
use schedd_core::domain::run::run_state::{AttemptOutcome, Ending};
use schedd_store::Claim;

/// The result of a claimed run: an attempt was made, or only its `done_check` ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Course {
    /// The attempt was made, with this outcome.
    Attempted(AttemptOutcome),
    /// No attempt was made, because the work is already done.
    Done,
    /// No attempt was made, because the `done_check` gave no clear answer. The text is the reason.
    Unclear(String),
    /// No attempt was made, because the `done_check` was stopped from outside or never ran.
    CutShort(AttemptOutcome),
}

impl Course {
    /// Returns the outcome of the attempt. If only the check ran, the outcome has no exit code or
    /// signal, because the job itself ran no process.
    pub(crate) fn into_outcome(self) -> AttemptOutcome {
        match self {
            Self::Attempted(outcome) => outcome,
            Self::Done | Self::Unclear(_) => AttemptOutcome::bare(Ending::NotStarted),
            Self::CutShort(outcome) => {
                AttemptOutcome { error: outcome.error, ..AttemptOutcome::bare(outcome.ending) }
            }
        }
    }
}

/// Returns the check to run before the attempt of `claim`, or `None` if no check is needed. The
/// check runs before each attempt, or with `on = "retry"` only if the run was claimed before. The
/// attempt number does not decide, because a run that was handed back keeps its number.
pub(crate) fn asked_before<'s>(spec: &'s JobSpec, claim: &Claim) -> Option<&'s DoneCheck> {
    let check = spec.done_check.as_ref()?;
    match check.on {
        AskedOn::Always => Some(check),
        AskedOn::Retry => claim.claimed_before.then_some(check),
    }
}

/// Returns an attempt that runs the command or request of `check`. The environment and the other
/// rules are those of `attempt`.
pub(crate) fn question(check: &DoneCheck, attempt: &Attempt) -> Attempt {
    // The standard input of the job is not passed to the check.
    let process = ProcessRules { stdin: None, ..attempt.process.clone() };
    Attempt { action: check.question.clone(), timeout: check.timeout, process, ..attempt.clone() }
}

/// Returns the result of a claim whose check ended with `outcome`. Returns `None` if the work is
/// not done, so that the attempt is made.
pub(crate) fn judge(check: &DoneCheck, outcome: AttemptOutcome) -> Option<Course> {
    match outcome.ending {
        Ending::Succeeded => Some(Course::Done),
        Ending::Failed if is_clear_no(&check.question, &outcome) => None,
        Ending::Failed | Ending::TimedOut => Some(Course::Unclear(in_words(outcome))),
        Ending::Stopped
        | Ending::ShutDown
        | Ending::LeaseLost
        | Ending::MaybeAlive
        | Ending::NotStarted => Some(Course::CutShort(outcome)),
    }
}

fn is_clear_no(question: &Action, outcome: &AttemptOutcome) -> bool {
    match question {
        // An expected status in a failed request means that the answer broke off after the status.
        // So this is not a clear answer.
        Action::Http(request) => outcome
            .http_status
            .is_some_and(|status| matches!(status, 404 | 410) && !request.expects(status)),
        Action::Command(_) | Action::Shell(_) | Action::Handler(_) => outcome.exit_code == Some(1),
    }
}

fn in_words(outcome: AttemptOutcome) -> String {
    match outcome {
        AttemptOutcome { error: Some(error), .. } => error,
        AttemptOutcome { exit_code: Some(code), .. } => format!("exit code {code}"),
        _ => "no answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use schedd_core::domain::job::job_spec::HttpRequest;

    fn check(question: Action) -> DoneCheck {
        DoneCheck { question, on: AskedOn::Retry, timeout: Duration::from_secs(60) }
    }

    fn unclear(why: &str) -> Course {
        Course::Unclear(why.to_owned())
    }

    #[test]
    fn a_process_says_done_by_0_not_done_by_1_and_nothing_by_anything_else() {
        let check = check(Action::Shell("x".to_owned()));
        let exit = |ending, code| {
            judge(&check, AttemptOutcome { exit_code: Some(code), ..AttemptOutcome::bare(ending) })
        };
        assert_eq!(exit(Ending::Succeeded, 0), Some(Course::Done));
        assert_eq!(exit(Ending::Failed, 1), None);
        assert_eq!(exit(Ending::Failed, 2), Some(unclear("exit code 2")));
        let timed_out = AttemptOutcome {
            exit_code: Some(1),
            error: Some("took too long".to_owned()),
            ..AttemptOutcome::bare(Ending::TimedOut)
        };
        assert_eq!(judge(&check, timed_out), Some(unclear("took too long")));
        assert_eq!(
            judge(&check, AttemptOutcome::failed("cannot start")),
            Some(unclear("cannot start"))
        );
    }

    #[test]
    fn the_expected_status_means_done_404_and_410_not_done_and_others_unclear() {
        let ask = |expect: &[u16], ending, status| {
            let (method, url) = ("GET".to_owned(), "http://h/".to_owned());
            let request = HttpRequest {
                method,
                url,
                headers: BTreeMap::new(),
                body: String::new(),
                expect: expect.to_vec(),
                redirects: 0,
            };
            judge(
                &check(Action::Http(request)),
                AttemptOutcome { http_status: status, ..AttemptOutcome::bare(ending) },
            )
        };
        assert_eq!(ask(&[], Ending::Succeeded, Some(200)), Some(Course::Done));
        assert_eq!(ask(&[404], Ending::Succeeded, Some(404)), Some(Course::Done));
        assert_eq!(ask(&[], Ending::Failed, Some(404)), None);
        assert_eq!(ask(&[404], Ending::Failed, Some(410)), None);
        for (expect, ending, status) in [
            (&[404][..], Ending::Failed, Some(404)),
            (&[], Ending::Failed, Some(500)),
            (&[], Ending::Failed, None),
            (&[], Ending::TimedOut, Some(404)),
        ] {
            assert_eq!(
                ask(expect, ending, status),
                Some(unclear("no answer")),
                "{expect:?} {ending:?} {status:?}"
            );
        }
    }

    #[test]
    fn what_ends_an_attempt_from_outside_cuts_a_question_short() {
        let check = check(Action::Shell("x".to_owned()));
        for ending in [
            Ending::Stopped,
            Ending::ShutDown,
            Ending::LeaseLost,
            Ending::MaybeAlive,
            Ending::NotStarted,
        ] {
            let outcome = AttemptOutcome { exit_code: Some(1), ..AttemptOutcome::bare(ending) };
            let course = judge(&check, outcome.clone());
            assert_eq!(course, Some(Course::CutShort(outcome)));
            assert_eq!(
                course.unwrap().into_outcome(),
                AttemptOutcome::bare(ending),
                "its code is not that of the job"
            );
        }
    }
}
