//! Finds the occurrence at a given time: its run, the skipped range that contains the occurrence,
//! or the fact that no run was due.
//!
//! Invariant: if a record and the schedule disagree about an occurrence, the record decides. A
//! schedule version is used only for times at which the job had this schedule.

use std::time::Duration;

use super::known_facts::Known;
use super::question_reads::LOOKED_THROUGH;
use crate::engine::dispatch::definition;
use crate::engine::dispatch::definition::Definition;
use crate::engine::maintenance::ledger_view::versions_of;
use schedd_core::domain::explain::{Place, RunFacts, ScheduleThen, Subject};
use schedd_schedule::names::{RunId, RunKind};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{Ledger, LedgerRange, RunRecord, SkippedRecord, StoreError};

/// The time for which history is kept. A younger occurrence has a run record, unless newer records
/// of the job pushed it out.
const HISTORY_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

impl Known<'_> {
    /// Returns what Redis knows about the occurrence at the time `at`: its run, a skipped range, a
    /// ledger range, or the fact that no run was due.
    pub(super) async fn at(&self, at: UnixMillis) -> Result<Subject, StoreError> {
        if let Some(run) = self.run(&RunId::regular(self.name.clone(), at)).await? {
            return Ok(Subject::Run(Box::new(run)));
        }
        let (ended, recorded_at) = match &self.reads.at {
            Some((read, ended, recorded)) if *read == at => (ended.clone(), recorded.clone()),
            _ => tokio::try_join!(
                self.store.read_ended_from(self.name, at, LOOKED_THROUGH),
                self.store.reported_at(self.name, at)
            )?,
        };
        let ledger = &self.reads.ledger;
        let mut candidates: Vec<RunId> = self.planned().cloned().into_iter().collect();
        candidates.extend(self.reads.open.iter().cloned());
        candidates.extend(recorded_at.due);
        let schedule_then = self.schedule_then(at);
        let is_occurrence = schedule_then.is_occurrence(at);
        let is_folded = ledger
            .fate_at(at)
            .is_some_and(|range| is_occurrence == Some(true) || range.ends_at(at));
        let range_run = match recorded_at.skipped_range {
            Some((first, kept)) if self.is_recorded_by(&kept, at, is_occurrence) => {
                self.run(&first).await?.map(|run| Subject::InRange { at, run: Box::new(run) })
            }
            _ => None,
        };
        // Users ask about a second, but one-shots and manual runs are due at a millisecond. So the
        // run due within this second is the answer, unless a run was due at exactly `at`. A
        // backfill run is never the answer.
        let is_meant = |run: &&RunId| {
            let is_beside = run.kind() == RunKind::Backfill || is_occurrence == Some(true);
            run.due() == at && run.kind() != RunKind::Backfill
                || !is_folded
                    && run.due().floor_to_second() == at
                    && (range_run.is_none() || !is_beside)
        };
        if let Some(id) = candidates.iter().find(is_meant)
            && let Some(run) = self.run(id).await?
        {
            return Ok(Subject::Run(Box::new(run)));
        }
        if let Some(range_run) = range_run {
            return Ok(range_run);
        }
        if self.is_over_by(at, &ended) {
            return Ok(Subject::Over { at });
        }
        if at > self.now {
            return Ok(if is_occurrence == Some(true) {
                Subject::ToCome { at }
            } else {
                self.not_due(at, &ended).await?
            });
        }
        if let Some(range) = ledger.fate_at(at)
            && (is_occurrence != Some(false) || range.ends_at(at))
        {
            let is_sure =
                range.ends_at(at) || self.is_filled(&schedule_then, ledger, range).await?;
            let (state, reason) =
                (range.state.as_str().to_owned(), range.reason.clone().unwrap_or_default());
            return Ok(Subject::Ledger {
                at,
                state,
                reason,
                first: range.from,
                last: range.to,
                count: range.count,
                is_sure,
            });
        }
        if is_occurrence == Some(false) {
            return self.not_due(at, &ended).await;
        }
        if let Some(until) = ledger.until.filter(|until| *until >= at) {
            let counts = ledger
                .before
                .iter()
                .map(|(state, count)| (state.replace('_', " "), *count))
                .collect();
            return Ok(Subject::BeforeLedger { at, counts, until });
        }
        if is_occurrence == Some(true) {
            return self.undone(at).await;
        }
        let is_lost = self.losses.iter().any(|loss| loss.concerns(at));
        if !is_lost && self.is_within_history(at).await? {
            return self.not_due(at, &ended).await;
        }
        Ok(Subject::Unrecorded { at })
    }

    /// Returns true if the skipped range `kept`, which includes the time `at`, has an occurrence at
    /// `at`. The schedule that counted the range decides. If that schedule is not kept, the
    /// schedule at the time `at` decides.
    fn is_recorded_by(
        &self,
        kept: &SkippedRecord,
        at: UnixMillis,
        is_occurrence: Option<bool>,
    ) -> bool {
        if at == kept.skipped_range.first || at == kept.skipped_range.last {
            return true;
        }
        let counted_by =
            kept.counted_by.as_ref().and_then(|by| definition::counted_by(self.name, by).ok());
        match counted_by {
            Some((timetable, since)) => since < at && timetable.latest_in(at, at) == Some(at),
            None => is_occurrence != Some(false),
        }
    }

    /// Returns the schedule that the job had at the time `at`, if Redis keeps that schedule or the
    /// audit log names it.
    fn schedule_then(&self, at: UnixMillis) -> ScheduleThen {
        match self.understood() {
            Some(job) => {
                let counted = (job.record.anchor, job.record.since);
                ScheduleThen::at(
                    self.past,
                    self.audit_log,
                    self.name,
                    &job.spec,
                    &job.timetable,
                    counted,
                    at,
                )
            }
            None => ScheduleThen::Unknown,
        }
    }

    /// Returns true if the ledger ranges, skipped ranges and run records within `range` account for
    /// all occurrences of the schedule there. `range` itself is one of these ledger ranges.
    async fn is_filled(
        &self,
        schedule_then: &ScheduleThen,
        ledger: &Ledger,
        range: &LedgerRange,
    ) -> Result<bool, StoreError> {
        let Some(wanted) = schedule_then.count_in(range.from, range.to) else { return Ok(false) };
        let is_within = |from: UnixMillis, to: UnixMillis| range.from <= from && to <= range.to;
        let folded: u64 = ledger
            .ranges
            .iter()
            .filter(|one| is_within(one.from, one.to))
            .map(|one| one.count)
            .sum();
        if folded >= wanted {
            return Ok(true);
        }
        let recorded = self.store.recorded_within(self.name, range.from, range.to).await?.len();
        let total = folded.saturating_add(u64::try_from(recorded).unwrap_or(u64::MAX));
        if total >= wanted {
            return Ok(true);
        }
        let skipped_ranges = self
            .store
            .list_skipped_ranges(self.name)
            .await?
            .into_iter()
            .map(|kept| kept.skipped_range);
        let within = skipped_ranges.filter(|range_run| is_within(range_run.first, range_run.last));
        let behind_them: u64 = within.map(|range| range.count.saturating_sub(1)).sum();
        Ok(total.saturating_add(behind_them) >= wanted)
    }

    /// Returns true if the job had no further occurrences at the time `at`. `ended_after` are the
    /// runs that ended after this time.
    fn is_over_by(&self, at: UnixMillis, ended_after: &[RunRecord]) -> bool {
        let Some(job) = &self.record else { return false };
        let has_ended = job.ended.is_some() && job.ended_at.is_some_and(|ended| ended < at);
        let is_used_up =
            self.understood().is_some_and(Definition::is_used_up) && self.planned().is_none();
        has_ended
            || is_used_up
                && job.since <= at
                && ended_after.iter().all(|record| record.run.is_manual() || record.run.due() < at)
    }

    /// Returns the earlier planned or paused run because of which the past occurrence at `at` has
    /// not run yet. Without such a run, returns that the occurrence has no record.
    async fn undone(&self, at: UnixMillis) -> Result<Subject, StoreError> {
        let Some(planned) = self.planned().filter(|run| run.due() < at).cloned() else {
            return Ok(Subject::Unrecorded { at });
        };
        let Some(run) = self.run(&planned).await? else { return Ok(Subject::Unrecorded { at }) };
        Ok(if run.place == Place::Paused {
            Subject::Run(Box::new(RunFacts {
                run: RunId::regular(self.name.clone(), at),
                ready: None,
                ready_at: at,
                ..run
            }))
        } else {
            Subject::Behind { at, run: Box::new(run) }
        })
    }

    /// Returns true if a run due at the time `at` would have a record. This is the case if history
    /// begins before `at`, or if the job was added after `at`.
    async fn is_within_history(&self, at: UnixMillis) -> Result<bool, StoreError> {
        let Some(job) = &self.record else { return Ok(false) };
        let oldest = self.store.read_ended_from(self.name, UnixMillis::EPOCH, 1).await?.pop();
        let reaches_back = match oldest {
            Some(run) => run.finished_at.is_some_and(|ended| ended <= at),
            None => self.now.since(at) < HISTORY_AGE,
        };
        Ok(reaches_back || job.created.as_ref().is_some_and(|(created, _)| *created > at))
    }

    /// Returns the fact that no run was due at the time `at`, with the occurrences before and after
    /// `at`.
    async fn not_due(
        &self,
        at: UnixMillis,
        ended_after: &[RunRecord],
    ) -> Result<Subject, StoreError> {
        let Some(definition) = self.understood() else { return Ok(Subject::Unrecorded { at }) };
        let versions = versions_of(self.past, self.record.as_ref());
        // If the schedule before `at` is not fully known, the last ended run before `at` is used
        // instead.
        let before = match versions
            .latest_in(UnixMillis::EPOCH, at)
            .filter(|before| versions.covers(*before, at))
        {
            Some(before) => Some(before),
            None => self.before(at).await?,
        };
        let since = definition.record.since;
        let recorded =
            || ended_after.iter().map(|record| record.run.due()).filter(|due| *due > at).min();
        let after = match versions.next_after(at).filter(|after| versions.covers(at, *after)) {
            Some(after) => Some(after),
            None if since <= at => None,
            None => recorded().or_else(|| definition.timetable.next_after(since)),
        };
        Ok(Subject::NotDue { at, before, after })
    }

    /// Returns the due time of the last run that ended before the time `at`, or `None` if history
    /// has none.
    async fn before(&self, at: UnixMillis) -> Result<Option<UnixMillis>, StoreError> {
        let ended = schedd_store::Ended {
            jobs: vec![self.name.clone()],
            until: Some(at),
            ..schedd_store::Ended::history()
        };
        Ok(self.store.read_ended(&ended, 0, 1).await?.runs.pop().map(|record| record.run.due()))
    }
}
