//! A chain of jobs: the first is due by a schedule, and the others run when their parents have
//! succeeded.
//!
//! The jobs are `chain-000`, `chain-001` and so on. Two jobs run after the first, one after both,
//! two after that one, and so on. Some of them fail at first and are tried again, so the chain goes
//! on in the end.

use super::jobs::{Act, Job, Overlap};
use super::schedule::When;
use crate::evidence::SECOND;

/// The start of the names of these jobs.
pub(crate) const CHAIN: &str = "chain-";
/// The number of jobs in the chain beside other jobs, the last of which has two parents.
pub(crate) const SHORT: usize = 4;
/// The seconds between two occurrences of the first job.
const STEP: i64 = 10;

/// Returns the jobs of a chain of this length. Empty for 0.
pub(crate) fn zoo(length: usize) -> Vec<Job> {
    let name = |at: usize| format!("{CHAIN}{at:03}");
    let one = |at: usize| {
        let act = if at % 10 == 9 { Act::FailFirst(1) } else { Act::Work };
        let job = Job::new(&name(at), act, 20).due(When::Seconds(STEP));
        Job {
            overlap: Overlap::Allow,
            retries: 3,
            retry_delay: SECOND / 2,
            after: match at % 3 {
                _ if at == 0 => Vec::new(),
                0 => vec![name(at - 2), name(at - 1)],
                beside => vec![name(at - beside)],
            },
            // Its runs are owed by the ends of its parent, and not by its schedule.
            is_sure: at == 0,
            ..job
        }
    };
    (0..length).map(one).collect()
}

/// Returns the chain with its first job only by hand, after which no further occurrence comes.
pub(crate) fn without_schedule(jobs: &[Job]) -> Vec<Job> {
    let still = |job: &Job| {
        let phases = if job.after.is_empty() { Vec::new() } else { job.phases.clone() };
        Job { phases, ..job.clone() }
    };
    jobs.iter().map(still).collect()
}
