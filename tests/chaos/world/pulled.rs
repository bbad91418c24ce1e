//! The jobs that workers execute: `schedctl work`, which asks the nodes for runs, and apps, which take
//! them from Redis themselves.
//!
//! Invariant: they share nothing with other jobs. So the checker judges them apart, with the faults
//! of nodes and of workers, and judges the other jobs with the faults of nodes alone.

use fastrand::Rng;

use super::jobs::{Act, Job, Overlap};
use super::schedule::When;
use super::sharing::Sharing;
use crate::evidence::Micros;

/// The queue of the workers.
pub(crate) const QUEUE: &str = "pulled";
/// The handler of the workers.
pub(crate) const HANDLER: &str = "chaos";
/// The number of workers of a trial that ask the nodes.
pub(crate) const WORKERS: usize = 3;
/// The number of apps of a trial.
pub(crate) const APPS: usize = 2;

/// Makes a job one that workers execute.
pub(crate) fn pulled(job: Job) -> Job {
    let sharing = Sharing { queue: Some(QUEUE), ..Sharing::default() };
    Job { is_pulled: true, sharing, ..job }
}

/// Returns the jobs of the file that workers execute.
pub(crate) fn zoo(rng: &mut Rng) -> Vec<Job> {
    let every = |period| When::Every { period, anchor: (0, 0) };
    let of = |name: &str, act: Act, work_ms: i64, when: When| {
        pulled(Job::new(&format!("pulled-{name}"), act, work_ms).due(when))
    };
    vec![
        of("quick", Act::Work, rng.i64(50..600), When::Seconds(3)),
        // A worker that is stopped meanwhile reports the end of such a run late.
        of("short", Act::Work, rng.i64(1_500..2_500), every(4)),
        // The lease is renewed meanwhile.
        of("long", Act::Work, rng.i64(7_000..8_500), every(rng.i64(10..13))),
        Job {
            overlap: Overlap::Allow,
            ..of("allowing", Act::Work, rng.i64(3_000..5_000), every(5))
        },
        Job {
            is_at_most_once: true,
            ..of("once", Act::Work, rng.i64(200..2_500), When::Seconds(5))
        },
        Job { retries: 2, ..of("failing", Act::FailFirst(1), 200, every(rng.i64(7..10))) },
    ]
}

/// Returns `count` jobs that workers execute once, due within a second from `due`.
pub(crate) fn batch(rng: &mut Rng, number: usize, count: usize, due: Micros) -> Vec<Job> {
    let mut one = |at: usize| {
        let due = (due + rng.i64(0..1_000) * 1000) / 1000 * 1000;
        let name = format!("pulled{number}-{at}");
        let job = Job::new(&name, Act::Work, rng.i64(0..300)).due(When::Once(due)).owed();
        Job { is_at_most_once: rng.bool(), ..pulled(job) }
    };
    (0..count).map(&mut one).collect()
}
