//! The steps in words, for the trace of a broken promise.

use std::fmt;

use super::redis::ONCE;
use super::steps::{Answer, Step};

/// Returns the name of a run.
fn name(run: usize) -> String {
    if run == ONCE { "once@0".to_owned() } else { format!("cron@{run}") }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Comes => "",
            Self::IsLost => " (done, its answer is lost)",
            Self::CallIsLate => " (no answer, the call is still on its way)",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Add => write!(f, "apply_job plants {}", name(ONCE)),
            Self::Claim { node, run, answer } => {
                write!(f, "n{node}: claim_runs {}{answer}", name(run))
            }
            Self::ClaimAgain { node, answer } => {
                write!(f, "n{node}: claim_runs again, same token{answer}")
            }
            Self::GiveUpClaim { node } => write!(f, "n{node}: gives up its claim"),
            Self::Take { node, run } => write!(f, "n{node}: ZREM due {}", name(run)),
            Self::Lock { node } => write!(f, "n{node}: claim_runs, without the ZREM"),
            Self::Start { node, run } => write!(f, "n{node}: starts the job of {}", name(run)),
            Self::End { node, run, verdict } => {
                write!(f, "n{node}: the job of {} is over: {verdict:?}", name(run))
            }
            Self::Finish { node, run, answer } => {
                write!(f, "n{node}: finish_run {}{answer}", name(run))
            }
            Self::Renew { node, run, answer } => {
                write!(f, "n{node}: renew_leases {}{answer}", name(run))
            }
            Self::RunOut { run } => {
                write!(f, "the lease of {} was watched unchanged for its length", name(run))
            }
            Self::Recover { run, answer } => write!(f, "recover_run {}{answer}", name(run)),
            Self::TakeBack { node, run } => {
                write!(f, "n{node}: recover_run {}, its predecessor's", name(run))
            }
            Self::Skip { run } => write!(f, "skip_run {}", name(run)),
            Self::Retry { run, answer: Answer::CallIsLate } => {
                write!(f, "retry_run {}, of two calls the later one", name(run))
            }
            Self::Retry { run, .. } => write!(f, "retry_run {}", name(run)),
            Self::Cancel { run } => write!(f, "cancel_run {}", name(run)),
            Self::Crash { node } => write!(f, "n{node}: is killed"),
            Self::KeeperKills { node } => write!(f, "n{node}: its keeper kills what it left"),
            Self::Restart { node } => write!(f, "n{node}: starts again"),
            Self::LateCall { at } => write!(f, "the late call {} is done", at + 1),
            Self::Replicate => f.write_str("the replica has all up to here"),
            Self::Remove => f.write_str("remove_job cron"),
            Self::Readd { is_same: true } => f.write_str("apply_job adds cron again, as it was"),
            Self::Readd { is_same: false } => {
                f.write_str("apply_job adds cron again, with another definition")
            }
            Self::FailOver => f.write_str("the replica becomes the primary; the tail is lost"),
        }
    }
}
