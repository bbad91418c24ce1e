//! The evidence, indexed for the checks, and the delays that the fault log allows.

use std::collections::BTreeMap;

use crate::evidence::{
    Attempt, Delay, Evidence, Excuse, Harm, Inflicted, Micros, Recorded, RunName, SECOND, Timing,
};
use crate::worker::Crew;
use crate::world::jobs::{Check, Job};
use crate::world::sharing::Thing;
use crate::world::small::SMALL;

/// The time within which all nodes must reach Redis again after a fault is healed.
pub(super) const BACK: Micros = 3 * SECOND;
/// The time for which work that was under way when a fault began may go on as if there were none.
const UNDER_WAY: Micros = SECOND;

pub(super) struct View<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) timing: Timing,
    /// The attempts of each run, in the order they began.
    pub(super) attempts: BTreeMap<&'a str, Vec<&'a Attempt>>,
    pub(super) recorded: BTreeMap<&'a str, &'a Recorded>,
    /// The attempts of each job, in the order they began.
    pub(super) of_job: BTreeMap<&'a str, Vec<&'a Attempt>>,
    /// The attempts that share each thing, in the order they began.
    pub(super) shared: BTreeMap<Thing, Vec<&'a Attempt>>,
}

impl<'a> View<'a> {
    pub(super) fn of(evidence: &'a Evidence) -> Self {
        let (mut attempts, mut of_job) =
            (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
        let mut shared = BTreeMap::<_, Vec<_>>::new();
        let mut sorted: Vec<&Attempt> = evidence.attempts.iter().collect();
        sorted.sort_by_key(|attempt| (attempt.began, attempt.fence));
        for attempt in sorted {
            attempts.entry(&*attempt.run.id).or_default().push(attempt);
            of_job.entry(&*attempt.run.job).or_default().push(attempt);
            let job = evidence.jobs.get(&attempt.run.job);
            for thing in job.map(|job| job.sharing.things(&job.name)).into_iter().flatten() {
                shared.entry(thing).or_default().push(attempt);
            }
        }
        let recorded =
            evidence.history.iter().map(|recorded| (&*recorded.run.id, recorded)).collect();
        Self { evidence, timing: evidence.timing, attempts, recorded, of_job, shared }
    }

    pub(super) fn attempts_of(&self, run: &str) -> &[&'a Attempt] {
        self.attempts.get(run).map_or(&[], Vec::as_slice)
    }

    /// Returns the shard that has the record of an attempt's run; `None` for the namespace itself.
    pub(super) fn shard_of(&self, attempt: &Attempt) -> Option<u32> {
        self.recorded.get(&*attempt.run.id)?.shard
    }

    /// Returns the attempts that share this thing, in the order they began.
    pub(super) fn sharers(&self, thing: Thing) -> Vec<&'a Attempt> {
        self.shared.get(&thing).cloned().unwrap_or_default()
    }

    /// Returns the nodes with a label.
    pub(super) fn carriers(&self, label: &str) -> &'a [String] {
        if label == SMALL { self.evidence.small.as_slice() } else { &self.evidence.labelled }
    }

    /// Returns what a job may have to wait for: what it shares, what the jobs that share it share
    /// in turn, and so on.
    pub(super) fn shared_with(&self, job: &Job) -> Vec<Thing> {
        let mut found = job.sharing.things(&job.name);
        let mut at = 0;
        while let Some(thing) = found.get(at).copied() {
            for attempt in self.sharers(thing) {
                let Some(other) = self.evidence.jobs.get(&attempt.run.job) else { continue };
                for thing in other.sharing.things(&other.name) {
                    if !found.contains(&thing) {
                        found.push(thing);
                    }
                }
            }
            at += 1;
        }
        found
    }

    /// Returns the only node that may begin this run: that of an instance, or the only node with the
    /// label that the job requires.
    pub(super) fn only_node(&self, run: &RunName) -> Option<&'a str> {
        let job = self.evidence.jobs.get(&run.job)?;
        let label = job.sharing.requires.filter(|label| *label != SMALL);
        let by_label = || match self.carriers(label?) {
            [only] => Some(only.as_str()),
            _ => None,
        };
        job.only_node().or_else(by_label)
    }

    /// Returns true if a fault between `from` and `to` could delay or lose a run.
    pub(super) fn is_disturbed(&self, from: Micros, to: Micros) -> bool {
        self.is_disturbed_on(None, from, to)
    }

    /// Returns true if a fault between `from` and `to` could delay or lose a run that only this
    /// node may begin.
    pub(super) fn is_disturbed_on(&self, node: Option<&str>, from: Micros, to: Micros) -> bool {
        let reaches = |fault: &Inflicted| {
            if node.is_some_and(|node| !fault.harm.hit.is_on(node)) {
                return false;
            }
            let until = match delay_on(fault, node) {
                Delay::None => return false,
                Delay::Brief(slack) => fault.to + slack,
                Delay::AtBegin => self.taken_back(fault.from),
                Delay::Throughout => fault.to + self.timing.recovery(),
            };
            fault.from <= to && from <= until
        };
        self.evidence.faults.iter().any(reaches)
    }

    /// Returns the latest start of something that is ready at `ready`: `slack` later if nothing is
    /// wrong.
    /// Each fault that began before that moment delays it by its row; further faults may come
    /// within that delay.
    pub(super) fn latest(&self, ready: Micros, slack: Micros) -> Micros {
        self.put_off(ready, ready + slack)
    }

    /// Returns the latest start of a first attempt that nothing blocked.
    /// A fault of some nodes excuses it only if one of them held its run.
    /// A run that was held and lost before it could begin begins as a later attempt than the first.
    /// A claim that was never answered is handed back uncounted, and so is a run given to a keeper
    /// that stood still unnoticed.
    /// Such a run was due just as the fault began.
    /// A run that only one node may begin waits for that node, and for no other.
    pub(super) fn latest_of(&self, first: &Attempt, slack: Micros) -> Micros {
        let end = first.run.due + slack;
        if let Some(node) = self.only_node(&first.run) {
            return self.put_off_on(Some(node), first.run.due, end);
        }
        let concerns = |fault: &Inflicted| {
            let after = first.run.due - fault.from;
            let is_unanswered = (-UNDER_WAY..=2 * UNDER_WAY).contains(&after);
            first.number > 1 || is_unanswered || may_hit(fault, &first.node)
        };
        self.put_off_by(first.run.due, end, None, concerns)
    }

    /// Returns the latest start of a first attempt that only few nodes may run. A fault of any of
    /// these excuses it, because it may have left none.
    pub(super) fn latest_of_few(&self, first: &Attempt, slack: Micros) -> Micros {
        let concerns = |fault: &Inflicted| {
            self.evidence.labelled.iter().any(|node| fault.harm.hit.is_on(node))
        };
        self.put_off_by(first.run.due, first.run.due + slack, None, concerns)
    }

    /// Returns the latest start of something that had to start by `end`, delayed by the faults from
    /// `ready` on.
    pub(super) fn put_off(&self, ready: Micros, end: Micros) -> Micros {
        self.put_off_on(None, ready, end)
    }

    /// Returns the same for something that only this node may start, and that waits for nothing
    /// else.
    pub(super) fn put_off_on(&self, node: Option<&str>, ready: Micros, end: Micros) -> Micros {
        let concerns = |fault: &Inflicted| node.is_none_or(|node| fault.harm.hit.is_on(node));
        self.put_off_by(ready, end, node, concerns)
    }

    /// Returns the same for something that only the node `only` may start, if one is given. The
    /// faults that `concerns` names delay it.
    pub(super) fn put_off_by(
        &self,
        ready: Micros,
        mut end: Micros,
        only: Option<&str>,
        concerns: impl Fn(&Inflicted) -> bool,
    ) -> Micros {
        // A start needs a processor many times in a row, so the lost times of all measurements of
        // the host add up.
        let lag = |end: Micros| {
            let near = self
                .evidence
                .host_lags
                .iter()
                .filter(|(at, lag)| ready - lag - SECOND <= *at && *at <= end + SECOND);
            near.map(|(_, lag)| *lag).sum::<Micros>()
        };
        loop {
            let mut later = end;
            for fault in &self.evidence.faults {
                if fault.from > end || !concerns(fault) {
                    continue;
                }
                let until = match delay_on(fault, only) {
                    Delay::Brief(slack) if fault.to + slack >= ready => {
                        fault.to + slack + self.timing.clean
                    }
                    Delay::AtBegin if fault.from >= ready - UNDER_WAY => {
                        self.taken_back(fault.from)
                    }
                    Delay::Throughout if fault.to >= ready - UNDER_WAY => {
                        fault.to + self.timing.recovery()
                    }
                    // After a data loss no node claims anything for a lease from when it notices
                    // the loss.
                    Delay::Throughout
                        if is_loss(fault) && fault.to + self.timing.lease + BACK >= ready =>
                    {
                        fault.to + self.timing.recovery()
                    }
                    Delay::Throughout if fault.to + BACK >= ready => {
                        fault.to + BACK + self.timing.clean
                    }
                    _ => continue,
                };
                later = later.max(until);
            }
            if later == end {
                return end + lag(end);
            }
            end = later;
        }
    }

    /// Returns when a run that was lost at `lost` is taken back at the latest.
    /// A node does so after it has seen the lease unchanged for its length. A node that was away
    /// meanwhile starts to watch again.
    pub(super) fn taken_back(&self, lost: Micros) -> Micros {
        let recovery = self.timing.recovery();
        let watched_by = |node: &String| {
            let is_away = |fault: &&Inflicted| {
                matches!(fault.harm.delay, Delay::AtBegin | Delay::Throughout)
                    && fault.harm.hit.is_on(node)
            };
            let mut away: Vec<_> = self
                .evidence
                .faults
                .iter()
                .filter(is_away)
                .map(|fault| (fault.from, fault.to))
                .collect();
            away.sort_unstable();
            let mut since = lost;
            for (from, to) in away {
                if from <= since + recovery {
                    since = since.max(to);
                }
            }
            since
        };
        self.evidence.nodes.iter().map(watched_by).min().unwrap_or(lost) + recovery
    }

    /// Returns the fault that allows `next` after `before`, if there is one.
    /// It hit the node of `before` while that ran, or while its end was being reported.
    pub(super) fn cause(&self, before: &Attempt, next: &Attempt) -> Option<&'a Inflicted> {
        self.causes(before, next).next()
    }

    /// Returns all these faults; each may have delayed the next attempt.
    pub(super) fn causes(
        &self,
        before: &Attempt,
        next: &Attempt,
    ) -> impl Iterator<Item = &'a Inflicted> {
        let fits = move |fault: &&Inflicted| {
            let harm = &fault.harm;
            if Self::is_forgotten_by(fault, &before.run.id) {
                return fault.from <= next.began;
            }
            let is_hit = may_hit(fault, &before.node);
            let held_from = before.began
                - if harm.delay == Delay::Throughout { self.timing.lease } else { UNDER_WAY };
            let held_to = match before.ended {
                // The end is reported within moments after the last process it left, unless a fault
                // prevents that.
                Some((at, _)) => at.max(before.last_sign) + UNDER_WAY,
                None => next.began,
            };
            harm.may_repeat
                && is_hit
                && fault.from <= held_to
                && fault.to >= held_from
                && fault.from <= next.began
                && { before.ended.is_none_or(|(at, _)| fault.to >= at - UNDER_WAY) }
        };
        self.evidence.faults.iter().filter(fits)
    }

    /// Returns true if Redis lost data of this run or job.
    pub(super) fn is_forgotten(&self, name: &str) -> bool {
        self.evidence.faults.iter().any(|fault| Self::is_forgotten_by(fault, name))
    }

    fn is_forgotten_by(fault: &Inflicted, name: &str) -> bool {
        matches!(&fault.excuse, Some(Excuse::Forgot(names)) if names.contains(name))
    }

    /// Returns true if an attempt could not start because of a fault, so that its run ended as
    /// `recorded`.
    pub(super) fn could_not_start(&self, recorded: &Recorded) -> bool {
        let end = recorded.finished.unwrap_or(recorded.run.due);
        self.evidence.faults.iter().any(|fault| {
            let is_reported = matches!(fault.excuse, Some(Excuse::CannotStart(why)) if recorded.reason.contains(why));
            is_reported && fault.from <= end && recorded.run.due <= fault.to + SECOND
        })
    }

    /// Returns how long a run may wait because a fault kept its check from answering, so that it
    /// was asked again.
    pub(super) fn asked_again(&self, run: &RunName, latest: Micros) -> Micros {
        let Some(job) = self.evidence.jobs.get(&run.job).filter(|job| job.check != Check::Never)
        else {
            return 0;
        };
        let is_near = |fault: &Inflicted| fault.from <= latest && run.due <= fault.to + SECOND;
        if self.evidence.faults.iter().any(is_near) {
            job.retry_delay * Micros::from(job.retries)
        } else {
            0
        }
    }

    /// Returns true if a data loss excuses that `before` lived on at `at`: its holder learns of the
    /// loss at its next renewal.
    pub(super) fn is_unaware(&self, before: &Attempt, at: Micros) -> bool {
        self.evidence.faults.iter().any(|fault| {
            Self::is_forgotten_by(fault, &before.run.id)
                && fault.from <= at
                && at <= fault.to + self.timing.lease
        })
    }

    /// Returns true if a frozen host excuses that a process of `before` lived on at `at`.
    pub(super) fn is_frozen(&self, before: &Attempt, at: Micros) -> bool {
        self.thawed(before, at).is_some()
    }

    /// Returns when the host thawed that excuses that a process of `before` lived on at `at`. `None` if
    /// no frozen host does.
    pub(super) fn thawed(&self, before: &Attempt, at: Micros) -> Option<Micros> {
        let excuses = |fault: &&Inflicted| {
            let is_hit = fault.harm.hit.is_on(&before.node);
            fault.harm.may_overlap
                && is_hit
                && fault.from <= at
                && at <= fault.to + self.timing.recovery()
        };
        self.evidence.faults.iter().filter(excuses).map(|fault| fault.to).max()
    }
}

/// Returns the delay of runs that only this node may begin. Nobody else takes them over while it is
/// down, also if it ended with its grace.
pub(super) fn delay_on(fault: &Inflicted, only: Option<&str>) -> Delay {
    let Harm { hit, delay, may_repeat, .. } = &fault.harm;
    match delay {
        Delay::AtBegin if only.is_some_and(|node| hit.is_on(node)) => Delay::Throughout,
        Delay::None if *may_repeat && only.is_some_and(|node| hit.is_on(node)) => {
            Delay::Brief(BACK)
        }
        delay => *delay,
    }
}

/// Returns true if the fault may have hit who had an attempt, by the name of that node or worker.
/// A request does not name its node. A worker that asks the nodes reaches Redis through any of them;
/// an app reaches Redis itself.
fn may_hit(fault: &Inflicted, node: &str) -> bool {
    let hit = &fault.harm.hit;
    node.is_empty() || hit.is_on(node) || Crew::Pulling.has(node) && !hit.is_on_workers()
}

fn is_loss(fault: &Inflicted) -> bool {
    matches!(fault.excuse, Some(Excuse::Forgot(_)))
}

impl Evidence {
    /// Returns the last time in the evidence.
    pub(super) fn end(&self) -> Micros {
        let reported = self.attempts.iter().map(|attempt| attempt.last_sign);
        reported.chain(self.faults.iter().map(|fault| fault.to)).max().unwrap_or(0)
    }
}
