//! What the ledger of a job tells of its occurrences whose records were trimmed.
//!
//! Invariant: an occurrence is told of once. A range tells of its two ends for sure; of one between them it tells if the schedule
//! that held has it, and the range with what else is known between its ends is as many as that schedule has there. Where that was
//! not one schedule, or nobody knows it any more, it tells of each instant it holds.

use std::collections::BTreeSet;
use std::time::Duration;

use super::definition::Definition;
use crate::domain::deed::Deed;
use crate::domain::explain::Held;
use crate::domain::ids::{JobName, RunId};
use crate::domain::lateness::{self, Rest, Stretch};
use crate::domain::run::RunState;
use crate::domain::schedule::Timetable;
use crate::domain::time::UnixMillis;
use crate::store::{InLedger, JobRecord, KeptStretch, Ledger, LedgerRange, LedgerTells, Store, StoreError};

/// Where a range and what it holds tell of more, its occurrences are not counted, and taken to be all there.
const COUNTED: u64 = 10_000;

/// The ledger of a job, and what tells which schedule it is of.
#[derive(Debug, Clone, Default)]
pub(super) struct Folded {
    ledger: Ledger,
    definition: Option<Definition>,
    deeds: Vec<Deed>,
}

/// What of a job has a record: its occurrences, and the stretches that some of those records tell.
#[derive(Clone, Copy)]
pub(super) struct Recorded<'a> {
    pub(super) dues: &'a BTreeSet<UnixMillis>,
    pub(super) stretches: &'a [KeptStretch],
}

/// A range in which more is told of than there was.
#[derive(Debug, Clone)]
pub(super) struct ToldOver {
    /// Its first occurrence, of which it tells.
    pub(super) run: RunId,
    pub(super) range: LedgerRange,
    /// What is left of it with one less.
    pub(super) left: Option<Stretch>,
    /// How many are told of between its ends, and how many the schedule has there.
    pub(super) told: u64,
    pub(super) has: u64,
}

impl Folded {
    /// Reads it. A ledger that holds something else tells nothing.
    pub(super) async fn read(store: &Store, name: &JobName, job: Option<&JobRecord>) -> Result<Self, StoreError> {
        let ledger = or_nothing(store.read_ledger(name).await)?;
        if ledger.ranges.is_empty() {
            return Ok(Self { ledger, ..Self::default() });
        }
        let definition = job.and_then(|job| Definition::of(job.clone()).ok());
        Ok(Self { ledger, definition, deeds: or_nothing(store.read_deeds(name).await)? })
    }

    /// The first and the last instant that its ranges hold.
    pub(super) fn bounds(&self) -> Option<(UnixMillis, UnixMillis)> {
        let ranges = &self.ledger.ranges;
        Some((ranges.iter().map(|range| range.from).min()?, ranges.iter().map(|range| range.to).max()?))
    }

    /// What it tells of `run`, which has no record.
    pub(super) fn tells_of(&self, run: &RunId, recorded: Recorded<'_>) -> Option<InLedger> {
        let range = self.ledger.fate_at(run.due())?;
        let tells = match range.state {
            RunState::Skipped => match self.without(range, run, recorded) {
                Rest::All => LedgerTells::Nothing,
                Rest::Some(left) => LedgerTells::Skipped(Some(left)),
                Rest::Nothing => LedgerTells::Skipped(None),
            },
            _ if self.holds(range, run, recorded, 0) => LedgerTells::End,
            _ => LedgerTells::Nothing,
        };
        Some(InLedger { range: range.clone(), tells })
    }

    /// Whether a range within `stretch` holds the occurrence `at`.
    pub(super) fn tells_within(&self, at: UnixMillis, stretch: Stretch) -> bool {
        let mut ranges = self.ledger.ranges.iter();
        ranges.any(|range| stretch.first <= range.from && range.from <= at && at <= range.to && range.to <= stretch.last)
    }

    /// The first of the occurrences of `job` with records that is told of here too, for sure; the range that does, and what is left of
    /// that without it.
    pub(super) fn told_twice(&self, job: &JobName, dues: &BTreeSet<UnixMillis>) -> Option<(RunId, LedgerRange, Option<Stretch>)> {
        let (first, last) = self.bounds()?;
        let recorded = Recorded { dues, stretches: &[] };
        let told =
            dues.range(first..=last).filter_map(|due| Some((RunId::regular(job.clone(), *due), self.ledger.fate_at(*due)?)));
        let told: Vec<(RunId, &LedgerRange)> = told.collect();
        // With its record there would be one more than the schedule has. Without those at the ends it is known how many that are.
        let is_over = |run: &RunId, range: &LedgerRange| self.held_in(range).is_some() && self.holds(range, run, recorded, 1);
        let at_end = told.iter().find(|(run, range)| range.ends_at(run.due()));
        let (run, range) = at_end.or_else(|| told.iter().find(|(run, range)| is_over(run, range)))?;
        match self.left_of(range, run, recorded) {
            Rest::All => None,
            Rest::Some(left) => Some((run.clone(), (*range).clone(), Some(left))),
            Rest::Nothing => Some((run.clone(), (*range).clone(), None)),
        }
    }

    /// The narrowest range that, with the others within it and what has records there, tells of more occurrences than the schedule has:
    /// some were told of twice. It has one less, for what is narrower tells for sure.
    pub(super) fn told_over(&self, job: &JobName, dues: &BTreeSet<UnixMillis>) -> Option<ToldOver> {
        let ranges = self.ledger.ranges.iter().filter(|range| range.from < range.to || range.count > 1);
        let named = ranges.filter(|range| self.ledger.fate_at(range.from) == Some(*range));
        let over = named.filter_map(|range| {
            let table = self.held_in(range).filter(|table| !table.is_one_shot())?;
            let is_due = |at: UnixMillis| table.count_in(at, at) == 1;
            if !is_due(range.to) {
                return None;
            }
            let within = self.ledger.ranges.iter().filter(|other| range.from <= other.from && other.to <= range.to);
            // What is no occurrence of this schedule is no more of it than it has.
            let odd =
                |other: &LedgerRange| u64::from(!is_due(other.from)) + u64::from(other.from < other.to && !is_due(other.to));
            let in_ledger: u64 = within.map(|other| other.count.saturating_sub(odd(other))).sum();
            let records = dues.range(range.from..=range.to).filter(|due| is_due(**due)).count();
            let told = in_ledger.saturating_add(u64::try_from(records).unwrap_or(u64::MAX));
            let has = if told > COUNTED { told } else { table.count_in(range.from, range.to) };
            (told > has).then_some((range, told, has))
        });
        let (range, told, has) = over.min_by_key(|(range, ..)| range.to.since(range.from))?;
        let left = Stretch { first: range.from, last: range.to, count: range.count.saturating_sub(1) };
        Some(ToldOver {
            run: RunId::regular(job.clone(), range.from),
            range: range.clone(),
            left: Some(left).filter(|left| left.count > 0),
            told,
            has,
        })
    }

    /// Takes what was told of a run into account.
    pub(super) fn note(&mut self, told: &InLedger) {
        if let LedgerTells::Skipped(left) = told.tells {
            self.shrink(&told.range, left);
        }
    }

    /// Has a range tell of `left` only.
    pub(super) fn shrink(&mut self, range: &LedgerRange, left: Option<Stretch>) {
        let ranges = &mut self.ledger.ranges;
        let Some(place) = ranges.iter().position(|other| other == range) else { return };
        match (left, ranges.get_mut(place)) {
            (Some(left), Some(range)) => (range.from, range.to, range.count) = (left.first, left.last, left.count),
            _ => drop(ranges.remove(place)),
        }
    }

    fn without(&self, range: &LedgerRange, run: &RunId, recorded: Recorded<'_>) -> Rest {
        if self.holds(range, run, recorded, 0) { self.left_of(range, run, recorded) } else { Rest::All }
    }

    /// Whether `range` tells of `run`; `beyond` = how many more than the schedule has it and the others are then.
    fn holds(&self, range: &LedgerRange, run: &RunId, recorded: Recorded<'_>, beyond: u64) -> bool {
        if range.ends_at(run.due()) {
            return true;
        }
        let Some(table) = self.held_in(range) else { return true };
        let is_within = |from: UnixMillis, to: UnixMillis| range.from <= from && to <= range.to;
        let ranges = self.ledger.ranges.iter().filter(|other| is_within(other.from, other.to));
        let in_ledger: u64 = ranges.map(|other| other.count).sum();
        let records = recorded.dues.range(range.from..=range.to).count();
        let stretches = recorded.stretches.iter().map(|kept| kept.stretch).filter(|one| is_within(one.first, one.last));
        let behind_them: u64 = stretches.map(|stretch| stretch.count.saturating_sub(1)).sum();
        let told = in_ledger.saturating_add(behind_them).saturating_add(u64::try_from(records).unwrap_or(u64::MAX));
        // Its first is one whatever the schedule says: it may be owed from an older one.
        let behind = range.from.saturating_add(Duration::from_millis(1));
        let is_full = || told > table.count_in(behind, range.to).saturating_add(beyond);
        table.count_in(run.due(), run.due()) == 1 && if told > COUNTED { beyond == 0 } else { is_full() }
    }

    /// What is left of `range`, which tells of `run`, without it.
    fn left_of(&self, range: &LedgerRange, run: &RunId, recorded: Recorded<'_>) -> Rest {
        // It was the last of them, wherever between the ends of a schedule nobody knows any more.
        if range.count < 2 {
            return Rest::Nothing;
        }
        let stretch = Stretch { first: range.from, last: range.to, count: range.count };
        let is_told = |at: UnixMillis| recorded.dues.contains(&at) || self.ledger.fate_at(at).is_some_and(|other| other != range);
        let held = self.held_in(range);
        match lateness::taken_out(held.as_ref().map(|table| (table, range.from)), stretch, run.due(), is_told) {
            // Unlike a stretch's, its count is a sum and goes down by each.
            Rest::Some(left) => Rest::Some(Stretch { count: range.count.saturating_sub(1), ..left }),
            rest => rest,
        }
    }

    /// The schedule that held from the first to the last of a range, if that was one and is known.
    fn held_in(&self, range: &LedgerRange) -> Option<Timetable> {
        let job = self.definition.as_ref()?;
        let (anchor, since) = (job.record.anchor, job.record.since);
        let is_change = |deed: &Deed| deed.schedules.is_some() || deed.what == Deed::ADDED;
        let is_within = |deed: &Deed| range.from < deed.at && deed.at <= range.to;
        if since > range.from && self.deeds.iter().any(|deed| is_change(deed) && is_within(deed)) {
            return None;
        }
        match Held::at(&self.deeds, &job.record.name, &job.spec, &job.timetable, (anchor, since), range.from) {
            Held::Known(timetable) => Some(*timetable),
            Held::Unknown => None,
        }
    }
}

/// What a key that holds something else tells: nothing.
fn or_nothing<T: Default>(read: Result<T, StoreError>) -> Result<T, StoreError> {
    match read {
        Err(error) if !error.is_passing() => Ok(T::default()),
        read => read,
    }
}
