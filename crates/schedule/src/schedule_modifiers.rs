//! The modifiers of a schedule: they select the occurrences that count, delay the start of runs,
//! and skip late runs.
//!
//! Invariant: no modifier changes the due time or the id of a run. `jitter` and `splay` change only
//! the time from which the run may start.

use std::time::Duration;

use super::day_sets::DaySet;
use crate::names::JobName;
use crate::time::unix_millis::UnixMillis;

/// The modifiers of a job's schedule: its start and end, its days, and the delays of its runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape {
    /// The instant from which `every` counts its periods. This instant is an occurrence too. If
    /// `anchor` is `None`, `every` counts from the first apply of the job, which is not an
    /// occurrence.
    pub anchor: Option<UnixMillis>,
    /// The start of the schedule. Occurrences before this instant do not count.
    pub start: Option<UnixMillis>,
    /// The end of the schedule. Occurrences after this instant do not count.
    pub end: Option<UnixMillis>,
    /// The number of regular runs after which the schedule ends, from 1 to 1,000,000. `None` means
    /// no limit.
    pub max_runs: Option<u32>,
    /// The maximum random delay of a run, at most a day. Each run gets another random delay.
    pub jitter: Duration,
    /// The maximum fixed delay of a run, at most a day. All runs of a job have the same delay,
    /// which is derived from the name of the job.
    pub splay: Duration,
    /// Days on which no occurrence counts.
    pub exclude: DaySet,
    /// The only days on which an occurrence counts. `None` means all days.
    pub only_on: Option<DaySet>,
    /// The maximum lateness of a start, from 1 s to 10 years. A run that would start later is
    /// skipped. `None` means no maximum.
    pub skip_if_late: Option<Duration>,
}

impl Shape {
    /// Returns true if these modifiers select the same occurrences as `other`. The delays of runs
    /// are not compared.
    pub fn counts_as(&self, other: &Self) -> bool {
        let counted = |shape: &Self| (shape.anchor, shape.start, shape.end, shape.max_runs);
        counted(self) == counted(other)
            && self.exclude == other.exclude
            && self.only_on == other.only_on
    }

    /// Returns true if the days of `only_on` or `exclude` decide which occurrences count.
    pub fn counts_by_days(&self) -> bool {
        self.only_on.is_some() || self.exclude != DaySet::default()
    }

    /// Returns the time from which the run of `job` due at `due` may start. `draw` is a random
    /// number from 0 to below 1.
    pub fn ready(&self, job: &JobName, due: UnixMillis, draw: f64) -> UnixMillis {
        let jitter = self.jitter.mul_f64(draw.clamp(0.0, 1.0));
        // An instant has whole milliseconds, so any smaller part of `jitter` is cut off.
        due.saturating_add(self.splay_of(job)).saturating_add(Duration::from_millis(millis(jitter)))
    }

    /// Returns the longest delay that `jitter` and `splay` together can cause for a run of `job`.
    pub fn latest_shift(&self, job: &JobName) -> Duration {
        self.splay_of(job) + self.jitter
    }

    /// Returns the fixed delay of `job`, which is below `splay`.
    fn splay_of(&self, job: &JobName) -> Duration {
        let most = millis(self.splay);
        Duration::from_millis(if most == 0 { 0 } else { spread_of(job) % most })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a number computed from the name of a job, the same on every node and in every version of
/// schedd. The number is the FNV-1a digest of the name, followed by a mix of its bits, because the
/// low bits of FNV-1a are uneven.
fn spread_of(job: &JobName) -> u64 {
    let hash = job.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> JobName {
        text.parse().unwrap()
    }

    #[test]
    fn splay_is_the_same_for_each_run_of_a_job_and_spreads_jobs_evenly() {
        let shape = Shape { splay: Duration::from_secs(10), ..Shape::default() };
        let due = UnixMillis::new(1_790_000_000_000).unwrap();
        let moved = |job: &str| shape.ready(&name(job), due, 0.7).since(due);
        assert_eq!(moved("backup"), moved("backup"));
        assert_eq!(moved("backup"), Duration::from_millis(spread_of(&name("backup")) % 10_000));
        let mut tenths = [0_u32; 10];
        for number in 0..10_000 {
            let at = moved(&format!("job-{number}"));
            assert!(at < shape.splay);
            tenths[usize::try_from(at.as_secs()).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (850..1_150).contains(count)), "{tenths:?}");
    }

    #[test]
    fn jitter_is_drawn_within_its_bounds_and_added_to_splay() {
        let shape = Shape {
            jitter: Duration::from_secs(60),
            splay: Duration::from_secs(10),
            ..Shape::default()
        };
        let (job, due) = (name("a"), UnixMillis::EPOCH);
        let own = shape.splay_of(&job);
        assert_eq!(shape.ready(&job, due, 0.0).since(due), own);
        assert_eq!(shape.ready(&job, due, 0.5).since(due), own + Duration::from_secs(30));
        assert!(shape.ready(&job, due, 0.999_999).since(due) < shape.latest_shift(&job));
        assert_eq!(Shape::default().ready(&job, due, 0.5), due);
    }
}
