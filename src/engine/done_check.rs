//! The question before an attempt: when it is asked, and what its answer means.
//!
//! Invariant: only a clear answer starts an attempt or calls a run done. The question runs in the run's own lease, with the
//! attempt's environment and header fields, and is stopped, killed and lost as an attempt is.

use crate::domain::job::{Action, AskedOn, DoneCheck, JobSpec};
use crate::domain::process::ProcessRules;
use crate::domain::run::{Ending, Outcome};
use crate::executor::Attempt;
use crate::store::Claim;

/// What came of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Course {
    /// Its attempt was made.
    Attempted(Outcome),
    /// Nothing was started: its work is already done.
    Done,
    /// Nothing was started: whether its work is done could not be learnt, for this reason.
    Unclear(String),
    /// Nothing was started: the question was stopped, or never asked, for a reason not its own.
    CutShort(Outcome),
}

impl Course {
    /// The attempt's own outcome, with no facts of the question: where only that was asked, nothing of the job has ended.
    pub(super) fn into_outcome(self) -> Outcome {
        match self {
            Self::Attempted(outcome) => outcome,
            Self::Done | Self::Unclear(_) => Outcome::bare(Ending::NotStarted),
            Self::CutShort(outcome) => Outcome { error: outcome.error, ..Outcome::bare(outcome.ending) },
        }
    }
}

/// What is asked before the attempt of `claim`, if anything. Whether the run may have started before is told by its claims:
/// one handed back at a shutdown keeps the number of its attempt.
pub(super) fn asked_before<'s>(spec: &'s JobSpec, claim: &Claim) -> Option<&'s DoneCheck> {
    let check = spec.done_check.as_ref()?;
    match check.on {
        AskedOn::Always => Some(check),
        AskedOn::Retry => claim.claimed_before.then_some(check),
    }
}

/// The question of `check` as something to execute in the place of `attempt`.
pub(super) fn question(check: &DoneCheck, attempt: &Attempt) -> Attempt {
    // What the work reads is not for the question about it.
    let process = ProcessRules { stdin: None, ..attempt.process.clone() };
    Attempt { action: check.question.clone(), timeout: check.timeout, process, ..attempt.clone() }
}

/// What comes of a claim whose `check` ended so; none = its work is not done, so its attempt is to be made.
pub(super) fn judge(check: &DoneCheck, outcome: Outcome) -> Option<Course> {
    match outcome.ending {
        Ending::Succeeded => Some(Course::Done),
        Ending::Failed if is_clear_no(&check.question, &outcome) => None,
        Ending::Failed | Ending::TimedOut => Some(Course::Unclear(in_words(outcome))),
        Ending::Stopped | Ending::ShutDown | Ending::LeaseLost | Ending::OutOfSight | Ending::NotStarted => {
            Some(Course::CutShort(outcome))
        }
    }
}

fn is_clear_no(question: &Action, outcome: &Outcome) -> bool {
    match question {
        // One that is expected and failed all the same broke off.
        Action::Http(request) => {
            outcome.http_status.is_some_and(|status| matches!(status, 404 | 410) && !request.expects(status))
        }
        Action::Command(_) | Action::Shell(_) => outcome.exit_code == Some(1),
    }
}

fn in_words(outcome: Outcome) -> String {
    match outcome {
        Outcome { error: Some(error), .. } => error,
        Outcome { exit_code: Some(code), .. } => format!("exit code {code}"),
        _ => "no answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::domain::job::HttpRequest;

    fn check(question: Action) -> DoneCheck {
        DoneCheck { question, on: AskedOn::Retry, timeout: Duration::from_secs(60) }
    }

    fn unclear(why: &str) -> Course {
        Course::Unclear(why.to_owned())
    }

    #[test]
    fn a_process_says_done_by_0_not_done_by_1_and_nothing_by_anything_else() {
        let check = check(Action::Shell("x".to_owned()));
        let exit = |ending, code| judge(&check, Outcome { exit_code: Some(code), ..Outcome::bare(ending) });
        assert_eq!(exit(Ending::Succeeded, 0), Some(Course::Done));
        assert_eq!(exit(Ending::Failed, 1), None);
        assert_eq!(exit(Ending::Failed, 2), Some(unclear("exit code 2")));
        let timed_out =
            Outcome { exit_code: Some(1), error: Some("took too long".to_owned()), ..Outcome::bare(Ending::TimedOut) };
        assert_eq!(judge(&check, timed_out), Some(unclear("took too long")));
        assert_eq!(judge(&check, Outcome::failed("cannot start")), Some(unclear("cannot start")));
    }

    #[test]
    fn an_answer_says_done_by_what_is_expected_not_done_by_404_and_410_and_nothing_by_anything_else() {
        let ask = |expect: &[u16], ending, status| {
            let (method, url) = ("GET".to_owned(), "http://h/".to_owned());
            let request =
                HttpRequest { method, url, headers: BTreeMap::new(), body: String::new(), expect: expect.to_vec(), redirects: 0 };
            judge(&check(Action::Http(request)), Outcome { http_status: status, ..Outcome::bare(ending) })
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
            assert_eq!(ask(expect, ending, status), Some(unclear("no answer")), "{expect:?} {ending:?} {status:?}");
        }
    }

    #[test]
    fn what_ends_an_attempt_from_outside_cuts_a_question_short() {
        let check = check(Action::Shell("x".to_owned()));
        for ending in [Ending::Stopped, Ending::ShutDown, Ending::LeaseLost, Ending::OutOfSight, Ending::NotStarted] {
            let outcome = Outcome { exit_code: Some(1), ..Outcome::bare(ending) };
            let course = judge(&check, outcome.clone());
            assert_eq!(course, Some(Course::CutShort(outcome)));
            assert_eq!(course.unwrap().into_outcome(), Outcome::bare(ending), "its code is not that of the job");
        }
    }
}
