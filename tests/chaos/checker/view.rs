//! The evidence in the order in which questions are asked of it, and what the fault log allows at a time.

use std::collections::BTreeMap;

use crate::evidence::{Attempt, Delay, Evidence, Excuse, Inflicted, Micros, Recorded, RunName, SECOND, Timing};
use crate::jobs::{Check, Job};
use crate::sharing::Thing;
use crate::small::SMALL;

/// How long after a fault is healed all nodes may take to be back at Redis.
const BACK: Micros = 3 * SECOND;
/// How long what was under way when a fault began may go on as if it had not.
const UNDER_WAY: Micros = SECOND;

pub(super) struct View<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) timing: Timing,
    /// Attempts of each run, in the order they began.
    pub(super) attempts: BTreeMap<&'a str, Vec<&'a Attempt>>,
    pub(super) recorded: BTreeMap<&'a str, &'a Recorded>,
    /// Attempts of each job, in the order they began.
    pub(super) of_job: BTreeMap<&'a str, Vec<&'a Attempt>>,
    /// Attempts of those that share each thing, in the order they began.
    pub(super) shared: BTreeMap<Thing, Vec<&'a Attempt>>,
}

impl<'a> View<'a> {
    pub(super) fn of(evidence: &'a Evidence) -> Self {
        let (mut attempts, mut of_job) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
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
        let recorded = evidence.history.iter().map(|recorded| (&*recorded.run.id, recorded)).collect();
        Self { evidence, timing: evidence.timing, attempts, recorded, of_job, shared }
    }

    pub(super) fn attempts_of(&self, run: &str) -> &[&'a Attempt] {
        self.attempts.get(run).map_or(&[], Vec::as_slice)
    }

    /// The attempts of those that share this, in the order they began.
    pub(super) fn sharers(&self, thing: Thing) -> Vec<&'a Attempt> {
        self.shared.get(&thing).cloned().unwrap_or_default()
    }

    /// The nodes that carry a label.
    pub(super) fn carriers(&self, label: &str) -> &'a [String] {
        if label == SMALL { self.evidence.small.as_slice() } else { &self.evidence.labelled }
    }

    /// What a job may have to wait for: what it shares, and what those share with whom it does, and so on.
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

    /// Whether a run of this job could be late or lost for a fault at some time from `from` to `to`.
    pub(super) fn is_disturbed(&self, from: Micros, to: Micros) -> bool {
        let reaches = |fault: &Inflicted| {
            let until = match fault.harm.delay {
                Delay::None => return false,
                Delay::Brief(slack) => fault.to + slack,
                Delay::AtBegin => self.taken_back(fault.from),
                Delay::Throughout => fault.to + self.timing.recovery(),
            };
            fault.from <= to && from <= until
        };
        self.evidence.faults.iter().any(reaches)
    }

    /// The latest that something ready at `ready` may start: `slack` later if nothing is wrong. Faults that began before that
    /// moment put it off, each by what its row says, and so on.
    pub(super) fn latest(&self, ready: Micros, slack: Micros) -> Micros {
        self.put_off(ready, ready + slack)
    }

    /// The same of a first attempt in whose way nothing was: a fault of some nodes excuses it only if one of them held its run.
    /// One held and lost before it could begin has begun as a later attempt than the first. One whose claim was never answered
    /// is handed back uncounted, as is one given to a keeper not yet known to stand still: it was due just as the fault began.
    pub(super) fn latest_of(&self, first: &Attempt, slack: Micros) -> Micros {
        let concerns = |fault: &Inflicted| {
            let after = first.run.due - fault.from;
            let is_unanswered = (-UNDER_WAY..=2 * UNDER_WAY).contains(&after);
            first.number > 1 || first.node.is_empty() || is_unanswered || fault.harm.hit.is_on(&first.node)
        };
        self.put_off_by(first.run.due, first.run.due + slack, concerns)
    }

    /// The same of a first attempt that few nodes may run: a fault of one of these excuses it, for it may have left none.
    pub(super) fn latest_of_few(&self, first: &Attempt, slack: Micros) -> Micros {
        let concerns = |fault: &Inflicted| self.evidence.labelled.iter().any(|node| fault.harm.hit.is_on(node));
        self.put_off_by(first.run.due, first.run.due + slack, concerns)
    }

    /// The same for what was to start by `end` and is put off by the faults from `ready` on.
    pub(super) fn put_off(&self, ready: Micros, end: Micros) -> Micros {
        self.put_off_by(ready, end, |_| true)
    }

    fn put_off_by(&self, ready: Micros, mut end: Micros, concerns: impl Fn(&Inflicted) -> bool) -> Micros {
        // A start takes a processor many times, one after the other: what each look at the host found to be lost adds up.
        let lag = |end: Micros| {
            let near = self.evidence.host_lags.iter().filter(|(at, lag)| ready - lag - SECOND <= *at && *at <= end + SECOND);
            near.map(|(_, lag)| *lag).sum::<Micros>()
        };
        loop {
            let mut later = end;
            for fault in &self.evidence.faults {
                if fault.from > end || !concerns(fault) {
                    continue;
                }
                let until = match fault.harm.delay {
                    Delay::Brief(slack) if fault.to + slack >= ready => fault.to + slack + self.timing.clean,
                    Delay::AtBegin if fault.from >= ready - UNDER_WAY => self.taken_back(fault.from),
                    Delay::Throughout if fault.to >= ready - UNDER_WAY => fault.to + self.timing.recovery(),
                    // Where data was lost all nodes claim nothing for a lease from when they notice it.
                    Delay::Throughout if is_loss(fault) && fault.to + self.timing.lease + BACK >= ready => {
                        fault.to + self.timing.recovery()
                    }
                    Delay::Throughout if fault.to + BACK >= ready => fault.to + BACK + self.timing.clean,
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

    /// When what was lost at `lost` is taken back at the latest. Another node does so that has seen the lease unchanged for its
    /// length; one that was away meanwhile begins to watch anew.
    pub(super) fn taken_back(&self, lost: Micros) -> Micros {
        let recovery = self.timing.recovery();
        let watched_by = |node: &String| {
            let is_away =
                |fault: &&Inflicted| matches!(fault.harm.delay, Delay::AtBegin | Delay::Throughout) && fault.harm.hit.is_on(node);
            let mut away: Vec<_> = self.evidence.faults.iter().filter(is_away).map(|fault| (fault.from, fault.to)).collect();
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

    /// The fault that allows `next` after `before`, if there is one: it hit the node of `before` while that ran, or while its
    /// end was being told.
    pub(super) fn cause(&self, before: &Attempt, next: &Attempt) -> Option<&'a Inflicted> {
        self.causes(before, next).next()
    }

    /// All of them: each may have held it up.
    pub(super) fn causes(&self, before: &Attempt, next: &Attempt) -> impl Iterator<Item = &'a Inflicted> {
        let fits = move |fault: &&Inflicted| {
            let harm = &fault.harm;
            if Self::is_forgotten_by(fault, &before.run.id) {
                return fault.from <= next.began;
            }
            let is_hit = before.node.is_empty() || harm.hit.is_on(&before.node);
            let held_from = before.began - if harm.delay == Delay::Throughout { self.timing.lease } else { UNDER_WAY };
            let held_to = match before.ended {
                // Its end is told within moments after the last process it left, unless something is in the way.
                Some((at, _)) => at.max(before.last_sign) + UNDER_WAY,
                None => next.began,
            };
            harm.may_repeat && is_hit && fault.from <= held_to && fault.to >= held_from && fault.from <= next.began && {
                before.ended.is_none_or(|(at, _)| fault.to >= at - UNDER_WAY)
            }
        };
        self.evidence.faults.iter().filter(fits)
    }

    /// Whether Redis lost something it had written of this run or job.
    pub(super) fn is_forgotten(&self, name: &str) -> bool {
        self.evidence.faults.iter().any(|fault| Self::is_forgotten_by(fault, name))
    }

    fn is_forgotten_by(fault: &Inflicted, name: &str) -> bool {
        matches!(&fault.excuse, Some(Excuse::Forgot(names)) if names.contains(name))
    }

    /// Whether an attempt on some node could not start for want of what a fault took away, so that its run ended `recorded`.
    pub(super) fn could_not_start(&self, recorded: &Recorded) -> bool {
        let end = recorded.finished.unwrap_or(recorded.run.due);
        self.evidence.faults.iter().any(|fault| {
            let is_told = matches!(fault.excuse, Some(Excuse::CannotStart(why)) if recorded.reason.contains(why));
            is_told && fault.from <= end && recorded.run.due <= fault.to + SECOND
        })
    }

    /// For how long a run may wait because a fault kept its check from answering, so that it was asked again.
    pub(super) fn asked_again(&self, run: &RunName, latest: Micros) -> Micros {
        let Some(job) = self.evidence.jobs.get(&run.job).filter(|job| job.check != Check::Never) else { return 0 };
        let is_near = |fault: &Inflicted| fault.from <= latest && run.due <= fault.to + SECOND;
        if self.evidence.faults.iter().any(is_near) { job.retry_delay * Micros::from(job.retries) } else { 0 }
    }

    /// Whether Redis' loss excuses that `before` lived on at `at`: its holder learns of it when it next renews.
    pub(super) fn is_unaware(&self, before: &Attempt, at: Micros) -> bool {
        self.evidence
            .faults
            .iter()
            .any(|fault| Self::is_forgotten_by(fault, &before.run.id) && fault.from <= at && at <= fault.to + self.timing.lease)
    }

    /// Whether a frozen host excuses that a process of `before` lived on at `at`.
    pub(super) fn is_frozen(&self, before: &Attempt, at: Micros) -> bool {
        self.evidence.faults.iter().any(|fault| {
            let is_hit = fault.harm.hit.is_on(&before.node);
            fault.harm.may_overlap && is_hit && fault.from <= at && at <= fault.to + self.timing.recovery()
        })
    }
}

fn is_loss(fault: &Inflicted) -> bool {
    matches!(fault.excuse, Some(Excuse::Forgot(_)))
}

impl Evidence {
    /// The last that is known of.
    pub(super) fn end(&self) -> Micros {
        let told = self.attempts.iter().map(|attempt| attempt.last_sign);
        told.chain(self.faults.iter().map(|fault| fault.to)).max().unwrap_or(0)
    }
}
