//! The facts that a node remembers: the epoch that it last saw, the ends of runs that it executed,
//! and the jobs added by `schedctl`.
//!
//! Invariant: the memory never exceeds its limits. The oldest entry is dropped first.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::journal_line::{ApiJob, ClaimedRun, EndedRun, JournalLine};

/// The most ended runs that are remembered. The limit applies to all jobs together and to each job.
const ENDED: usize = 10_000;
const ENDED_OF_A_JOB: usize = 1_000;
/// The most start marks of at-most-once runs that are remembered.
const CLAIMED: usize = 1_000;
/// The most jobs added by `schedctl` that are remembered.
pub(crate) const JOBS: usize = 10_000;
/// The most earlier epochs that are remembered.
const PAST_EPOCHS: usize = 100;

/// The facts that a node remembers about the data in Redis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// The epoch of the data. `None` if this node has not seen any epoch.
    pub(crate) epoch: Option<String>,
    /// The earlier epochs, oldest first.
    pub(crate) past_epochs: Vec<String>,
    /// The highest fence that this node has seen.
    pub(crate) highest: u64,
    /// The time at which this node last saw the data complete, in Unix ms by Redis' clock.
    pub(crate) whole_at: i64,
    /// The address of the Redis server at which this node last saw the data complete.
    pub(crate) address: String,
    /// The identity of the Redis server that last had the data. `None` if no server was recorded.
    pub(crate) server: Option<String>,
    ended: BTreeMap<u64, EndedRun>,
    of_job: HashMap<String, VecDeque<u64>>,
    next: u64,
    claimed: BTreeMap<String, ClaimedRun>,
    /// The jobs added by `schedctl`.
    pub(crate) jobs: BTreeMap<String, ApiJob>,
}

impl Memory {
    /// Adds a fact to the memory.
    pub(super) fn take(&mut self, line: JournalLine) {
        match line {
            JournalLine::Epoch(epoch) => {
                if let Some(old) =
                    self.epoch.replace(epoch).filter(|old| Some(old) != self.epoch.as_ref())
                {
                    self.past_epochs.push(old);
                    let surplus = self.past_epochs.len().saturating_sub(PAST_EPOCHS);
                    self.past_epochs.drain(..surplus);
                }
            }
            JournalLine::Seen(fence, at, address) => {
                (self.highest, self.whole_at, self.address) = (fence, at, address);
            }
            JournalLine::Server(server) => self.server = Some(server),
            JournalLine::Ended(run) => self.end(run),
            JournalLine::Claimed(run) => {
                self.highest = self.highest.max(run.fence);
                self.claimed.insert(run.run.clone(), run);
                if self.claimed.len() > CLAIMED
                    && let Some(oldest) =
                        self.claimed.values().min_by_key(|run| run.at).map(|run| run.run.clone())
                {
                    self.claimed.remove(&oldest);
                }
            }
            JournalLine::Unclaimed(run) => drop(self.claimed.remove(&run)),
            JournalLine::Job(job) => {
                if self.jobs.len() < JOBS || self.jobs.contains_key(&job.name) {
                    self.jobs.insert(job.name.clone(), job);
                }
            }
            JournalLine::JobOver(name) => drop(self.jobs.remove(&name)),
        }
    }

    fn end(&mut self, run: EndedRun) {
        self.claimed.remove(&run.run);
        self.highest = self.highest.max(run.fence);
        let of_job = self.of_job.entry(job_of(&run.run).to_owned()).or_default();
        of_job.push_back(self.next);
        let surplus = (of_job.len() > ENDED_OF_A_JOB).then(|| of_job.pop_front()).flatten();
        self.ended.insert(self.next, run);
        self.next += 1;
        if let Some(oldest) = surplus {
            self.ended.remove(&oldest);
        }
        if self.ended.len() > ENDED
            && let Some((number, oldest)) = self.ended.pop_first()
            && let Some(of_job) = self.of_job.get_mut(job_of(&oldest.run))
        {
            // The oldest run of all jobs is also the oldest run of its own job.
            of_job.retain(|other| *other != number);
            if of_job.is_empty() {
                self.of_job.remove(job_of(&oldest.run));
            }
        }
    }

    /// Returns the ended runs, oldest first. If a run ended twice, its later end follows its
    /// earlier end.
    pub(crate) fn ended(&self) -> impl Iterator<Item = &EndedRun> {
        self.ended.values()
    }

    /// Returns the start marks of at-most-once runs without a known end.
    pub(crate) fn claimed(&self) -> impl Iterator<Item = &ClaimedRun> {
        self.claimed.values()
    }

    /// Forgets ends and start marks of runs older than `before`, in Unix ms.
    pub(super) fn forget_before(&mut self, before: i64) {
        self.claimed.retain(|_, run| run.at >= before);
        let (ended, of_job) = (&mut self.ended, &mut self.of_job);
        ended.retain(|_, run| run.ended_at >= before);
        of_job.retain(|_, numbers| {
            numbers.retain(|number| ended.contains_key(number));
            !numbers.is_empty()
        });
    }

    /// Returns the whole memory as lines. Reading these lines gives the same memory.
    pub(super) fn lines(&self) -> impl Iterator<Item = JournalLine> {
        let epochs = self.past_epochs.iter().chain(&self.epoch).cloned().map(JournalLine::Epoch);
        let ended = self.ended.values().cloned().map(JournalLine::Ended);
        let claimed = self.claimed.values().cloned().map(JournalLine::Claimed);
        let jobs = self.jobs.values().cloned().map(JournalLine::Job);
        // This line comes last, because it must raise the highest fence above the fences of the
        // runs.
        let seen = JournalLine::Seen(self.highest, self.whole_at, self.address.clone());
        let server = self.server.iter().cloned().map(JournalLine::Server);
        epochs.chain(server).chain(ended).chain(claimed).chain(jobs).chain([seen])
    }
}

fn job_of(run: &str) -> &str {
    run.split('@').next().unwrap_or(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(job: &str, number: u64) -> JournalLine {
        JournalLine::Ended(EndedRun {
            run: format!("{job}@{number}"),
            queue: "default".to_owned(),
            state: "succeeded".to_owned(),
            reason: String::new(),
            ended_at: i64::try_from(number).unwrap(),
            fence: number,
            facts: Vec::new(),
        })
    }

    #[test]
    fn a_job_that_floods_pushes_out_its_own_runs_and_all_are_bounded() {
        let mut memory = Memory::default();
        memory.take(ended("quiet", 1));
        for number in 2..5_000 {
            memory.take(ended("flood", number));
        }
        assert_eq!(memory.ended().count(), ENDED_OF_A_JOB + 1);
        assert_eq!(memory.ended().next().unwrap().run, "quiet@1");
        for number in 5_000..20_000 {
            memory.take(ended(&format!("j{}", number % 100), number));
        }
        assert_eq!(memory.ended().count(), ENDED);
        assert_eq!(memory.of_job.values().map(VecDeque::len).sum::<usize>(), ENDED);
        assert_eq!(memory.highest, 19_999);
        memory.forget_before(19_990);
        assert_eq!((memory.ended().count(), memory.of_job.len()), (10, 10));
    }

    #[test]
    fn its_lines_lead_back_to_it() {
        let mut memory = Memory::default();
        let claimed = ClaimedRun {
            run: "once@5".to_owned(),
            queue: "default".to_owned(),
            attempt: 1,
            fence: 9,
            at: 5,
        };
        let job = ApiJob {
            name: "api".to_owned(),
            hash: "h".to_owned(),
            schedule: "every 1h".to_owned(),
            is_once: false,
        };
        for line in [
            JournalLine::Epoch("one".to_owned()),
            JournalLine::Epoch("two".to_owned()),
            JournalLine::Server("process/lineage".to_owned()),
            ended("a", 3),
            JournalLine::Claimed(claimed),
            JournalLine::Job(job),
            JournalLine::Seen(70, 8, "here".to_owned()),
        ] {
            memory.take(line);
        }
        let mut again = Memory::default();
        memory.lines().for_each(|line| again.take(line));
        assert_eq!(again, memory);
        assert_eq!(
            (again.epoch.as_deref(), again.past_epochs.as_slice()),
            (Some("two"), ["one".to_owned()].as_slice())
        );
    }

    #[test]
    fn an_end_takes_the_start_mark_away() {
        let mut memory = Memory::default();
        memory.take(JournalLine::Claimed(ClaimedRun {
            run: "a@7".to_owned(),
            queue: "default".to_owned(),
            attempt: 1,
            fence: 7,
            at: 7,
        }));
        memory.take(ended("a", 7));
        assert_eq!(memory.claimed().count(), 0);
    }
}
