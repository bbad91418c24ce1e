//! The memory of a node: the epoch it last saw, the ends of runs it executed, and the jobs of the
//! command line.
//!
//! Invariant: it never exceeds its bounds. The oldest entry is forgotten first.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::line::{ApiJob, ClaimedRun, EndedRun, Line};

/// The most ended runs remembered, of all jobs and of one job.
const ENDED: usize = 10_000;
const ENDED_OF_A_JOB: usize = 1_000;
/// The most start marks of at-most-once runs remembered.
const CLAIMED: usize = 1_000;
/// The most jobs remembered.
pub(in crate::engine) const JOBS: usize = 10_000;
/// The most earlier epochs remembered.
const PAST_EPOCHS: usize = 100;

/// The memory of a node about its data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::engine) struct Memory {
    /// The epoch of the data. `None` if it was never seen.
    pub(in crate::engine) epoch: Option<String>,
    /// The earlier epochs, oldest first.
    pub(in crate::engine) past_epochs: Vec<String>,
    /// The highest fence seen.
    pub(in crate::engine) highest: u64,
    /// The time at which the data was last seen complete, by Redis' clock, ms.
    pub(in crate::engine) whole_at: i64,
    /// The address of the data at that time.
    pub(in crate::engine) address: String,
    /// The Redis server on which the data was last known. `None` if that was not noted.
    pub(in crate::engine) server: Option<String>,
    ended: BTreeMap<u64, EndedRun>,
    of_job: HashMap<String, VecDeque<u64>>,
    next: u64,
    claimed: BTreeMap<String, ClaimedRun>,
    /// The jobs of the command line.
    pub(in crate::engine) jobs: BTreeMap<String, ApiJob>,
}

impl Memory {
    /// Adds a fact.
    pub(super) fn take(&mut self, line: Line) {
        match line {
            Line::Epoch(epoch) => {
                if let Some(old) = self.epoch.replace(epoch).filter(|old| Some(old) != self.epoch.as_ref()) {
                    self.past_epochs.push(old);
                    let surplus = self.past_epochs.len().saturating_sub(PAST_EPOCHS);
                    self.past_epochs.drain(..surplus);
                }
            }
            Line::Seen(fence, at, address) => (self.highest, self.whole_at, self.address) = (fence, at, address),
            Line::Server(server) => self.server = Some(server),
            Line::Ended(run) => self.end(run),
            Line::Claimed(run) => {
                self.highest = self.highest.max(run.fence);
                self.claimed.insert(run.run.clone(), run);
                if self.claimed.len() > CLAIMED
                    && let Some(oldest) = self.claimed.values().min_by_key(|run| run.at).map(|run| run.run.clone())
                {
                    self.claimed.remove(&oldest);
                }
            }
            Line::Unclaimed(run) => drop(self.claimed.remove(&run)),
            Line::Job(job) => {
                if self.jobs.len() < JOBS || self.jobs.contains_key(&job.name) {
                    self.jobs.insert(job.name.clone(), job);
                }
            }
            Line::JobOver(name) => drop(self.jobs.remove(&name)),
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
            // The oldest run of all is also the oldest of its job.
            of_job.retain(|other| *other != number);
            if of_job.is_empty() {
                self.of_job.remove(job_of(&oldest.run));
            }
        }
    }

    /// Returns the ended runs, oldest first. A run that ended twice comes twice, the later end
    /// later.
    pub(in crate::engine) fn ended(&self) -> impl Iterator<Item = &EndedRun> {
        self.ended.values()
    }

    /// Returns the start marks of at-most-once runs whose end is not known here.
    pub(in crate::engine) fn claimed(&self) -> impl Iterator<Item = &ClaimedRun> {
        self.claimed.values()
    }

    /// Forgets ends and start marks from before `before` ms.
    pub(super) fn forget_before(&mut self, before: i64) {
        self.claimed.retain(|_, run| run.at >= before);
        let (ended, of_job) = (&mut self.ended, &mut self.of_job);
        ended.retain(|_, run| run.ended_at >= before);
        of_job.retain(|_, numbers| {
            numbers.retain(|number| ended.contains_key(number));
            !numbers.is_empty()
        });
    }

    /// Returns the whole memory as lines that restore it.
    pub(super) fn lines(&self) -> impl Iterator<Item = Line> {
        let epochs = self.past_epochs.iter().chain(&self.epoch).cloned().map(Line::Epoch);
        let ended = self.ended.values().cloned().map(Line::Ended);
        let claimed = self.claimed.values().cloned().map(Line::Claimed);
        let jobs = self.jobs.values().cloned().map(Line::Job);
        // Last, because this line is newer than the highest fence that the runs imply.
        let seen = Line::Seen(self.highest, self.whole_at, self.address.clone());
        let server = self.server.iter().cloned().map(Line::Server);
        epochs.chain(server).chain(ended).chain(claimed).chain(jobs).chain([seen])
    }
}

fn job_of(run: &str) -> &str {
    run.split('@').next().unwrap_or(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(job: &str, number: u64) -> Line {
        Line::Ended(EndedRun {
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
        let claimed = ClaimedRun { run: "once@5".to_owned(), queue: "default".to_owned(), attempt: 1, fence: 9, at: 5 };
        let job = ApiJob { name: "api".to_owned(), hash: "h".to_owned(), schedule: "every 1h".to_owned(), is_once: false };
        for line in [
            Line::Epoch("one".to_owned()),
            Line::Epoch("two".to_owned()),
            Line::Server("process/lineage".to_owned()),
            ended("a", 3),
            Line::Claimed(claimed),
            Line::Job(job),
            Line::Seen(70, 8, "here".to_owned()),
        ] {
            memory.take(line);
        }
        let mut again = Memory::default();
        memory.lines().for_each(|line| again.take(line));
        assert_eq!(again, memory);
        assert_eq!((again.epoch.as_deref(), again.past_epochs.as_slice()), (Some("two"), ["one".to_owned()].as_slice()));
    }

    #[test]
    fn an_end_takes_the_start_mark_away() {
        let mut memory = Memory::default();
        memory.take(Line::Claimed(ClaimedRun {
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
