//! Finds the subject of `schedctl explain`: a job as a whole, its last occurrence, an occurrence at
//! a given time, or a run.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;

use super::known_facts::Known;
use super::question::Ask;
use super::question_reads::{LOOKED_THROUGH, OPEN_SHOWN, latest};
use schedd_core::domain::explain::Subject;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{RunId, RunKind};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{RunRecord, StoreError};

/// The most pages of history that are searched for a regular run.
const PAGES: usize = 20;

impl Known<'_> {
    /// Returns true if neither the history nor the ledger has a run of a job of this name.
    pub(super) async fn has_no_past(&self) -> Result<bool, StoreError> {
        let history = self.store.read_history(Some(self.name), 0, 1).await?;
        let ledger = &self.reads.ledger;
        Ok(history.entries == 0 && ledger.ranges.is_empty() && ledger.until.is_none())
    }

    /// Returns the subject of the question `ask`. For [`Ask::Last`], `newest` is the last
    /// occurrence up to now and its run, or `None` if no such run exists. For any other question,
    /// `newest` is `None`.
    pub(super) async fn subject(
        &self,
        ask: &Ask,
        newest: Option<&(UnixMillis, RunId)>,
    ) -> Result<Subject, StoreError> {
        let subject = match ask {
            Ask::Job => Box::pin(self.job()).await?,
            Ask::Last => Box::pin(self.last(newest)).await?,
            Ask::At(at) => Box::pin(self.at(*at)).await?,
            Ask::Run(run) => match self.run(run).await? {
                Some(run) => Subject::Run(Box::new(run)),
                None if !run.is_manual() => Box::pin(self.at(run.due())).await?,
                None if self.reads.backfill.contains(run) => Subject::ToMakeUp { at: run.due() },
                None => Subject::Unrecorded { at: run.due() },
            },
        };
        match subject {
            Subject::NotDue { at, .. } | Subject::Unrecorded { at } => {
                Ok(self.made_up(at).await?.unwrap_or(subject))
            }
            other => Ok(other),
        }
    }

    /// Returns the backfill run of the occurrence at `at`, or the fact that this run is still
    /// waiting. Returns `None` if no backfill run exists.
    async fn made_up(&self, at: UnixMillis) -> Result<Option<Subject>, StoreError> {
        let id = RunId::backfill(self.name.clone(), at);
        Ok(match self.run(&id).await? {
            Some(run) => Some(Subject::Run(Box::new(run))),
            None => self.reads.backfill.contains(&id).then_some(Subject::ToMakeUp { at }),
        })
    }

    /// Returns the id and state of the backfill run for the same occurrence as `subject`, if any.
    pub(super) async fn made_up_by(
        &self,
        subject: &Subject,
    ) -> Result<Option<(RunId, RunState)>, StoreError> {
        let at = match subject {
            Subject::Run(run) if run.run.kind() == RunKind::Regular => run.run.due(),
            Subject::InRange { at, .. }
            | Subject::Ledger { at, .. }
            | Subject::BeforeLedger { at, .. } => *at,
            _ => return Ok(None),
        };
        let id = RunId::backfill(self.name.clone(), at);
        let record = self.record_of(&id).await?;
        let state = record
            .map(|record| record.state)
            .or_else(|| self.reads.backfill.contains(&id).then_some(RunState::Scheduled));
        Ok(state.map(|state| (id, state)))
    }

    /// Returns the state of the job: its open runs by due time, and the run that ended last.
    async fn job(&self) -> Result<Subject, StoreError> {
        let ids = self.listed();
        let lists = [&self.reads.open, &self.reads.waiting, &self.reads.spread];
        let rest: BTreeSet<&RunId> =
            lists.into_iter().flat_map(|runs| runs.iter().skip(OPEN_SHOWN)).collect();
        let more = rest.into_iter().filter(|run| !ids.contains(run)).count() as u64;
        let last = async {
            match self.reads.ended.runs.first().cloned() {
                Some(record) => Ok(Some(Box::new(Box::pin(self.of_record(record)).await?))),
                None => Ok(None),
            }
        };
        let (open, last) = tokio::try_join!(try_join_all(ids.iter().map(|id| self.run(id))), last)?;
        let open = open.into_iter().flatten().filter(|run| !run.state.is_final()).collect();
        Ok(Subject::Job { open, more, last })
    }

    /// Returns the runs of the job that have not ended, oldest due first. At most `OPEN_SHOWN` runs
    /// of each list (open, waiting, spread, manual) are returned.
    fn listed(&self) -> Vec<RunId> {
        let reads = &self.reads;
        let lists = [&reads.open, &reads.waiting, &reads.spread, &reads.manual];
        let pending = self.record.as_ref().and_then(|job| job.pending.as_ref());
        let mut ids: Vec<RunId> = lists
            .into_iter()
            .flat_map(|runs| runs.iter().take(OPEN_SHOWN))
            .chain(pending.filter(|run| run.due() <= self.now))
            .chain(reads.backfill.first())
            .cloned()
            .collect();
        ids.sort_by(|a, b| a.due().cmp(&b.due()).then_with(|| a.cmp(b)));
        ids.dedup();
        ids
    }

    /// Returns the time around which an answer to `ask` needs node events.
    pub(super) fn looked_at(&self, ask: &Ask, newest: Option<&(UnixMillis, RunId)>) -> UnixMillis {
        let is_open = |run: &RunId| match self.reads.record(run).and_then(Option::as_ref) {
            Some(record) => !record.state.is_final(),
            None => self.planned() == Some(run),
        };
        let looked_at = match ask {
            Ask::Job => self.listed().into_iter().find(is_open).map(|run| run.due()),
            Ask::Last => newest.map(|(at, _)| *at),
            Ask::At(at) => Some(*at),
            Ask::Run(run) => Some(run.due()),
        };
        looked_at.unwrap_or(self.now)
    }

    /// Returns true if the schedule of the job has occurrences (it is neither manual nor
    /// `@reboot`).
    fn has_times(&self) -> bool {
        self.understood().is_some_and(|job| {
            !matches!(job.spec.schedule, Schedule::Manual | Schedule::After(_))
                && !job.spec.schedule.is_at_boot()
        })
    }

    /// Returns the newest regular run up to now as the second value of the pair. The first value is
    /// the time of the last occurrence that this run records. This time is the due time of the run,
    /// or the end of the range if the run records a skipped range.
    ///
    /// Returns `None` if neither the lists of the job nor the searched history has such a run. A run
    /// of another kind counts if neither they nor the ledger have a regular run.
    pub(super) async fn newest(&self) -> Result<Option<(UnixMillis, RunId)>, StoreError> {
        let (store, name, reads) = (self.store, self.name, &self.reads);
        let lists = [&reads.open, &reads.waiting, &reads.spread, &reads.manual];
        let mut found: Vec<(UnixMillis, RunId)> = lists
            .into_iter()
            .filter_map(|runs| latest(runs))
            .chain(self.planned().filter(|run| run.due() <= self.now))
            .map(|run| (run.due(), run.clone()))
            .collect();
        for page in 0..PAGES {
            let ended = match page {
                0 => reads.ended.clone(),
                _ => store.read_history(Some(name), page * LOOKED_THROUGH, LOOKED_THROUGH).await?,
            };
            let last = |record: &RunRecord| {
                record.skipped.map_or_else(|| record.run.due(), |(last, _)| last)
            };
            found.extend(ended.runs.into_iter().map(|record| (last(&record), record.run)));
            if ended.entries < LOOKED_THROUGH || found.iter().any(|(_, run)| !run.is_manual()) {
                break;
            }
        }
        let newest = found.into_iter().max_by_key(|(due, run)| (!run.is_manual(), *due));
        let has_occurrence = self.has_times() && !self.reads.ledger.ranges.is_empty();
        Ok(newest.filter(|(_, run)| !run.is_manual() || !has_occurrence))
    }

    /// Returns the run `newest`, or the last occurrence of the ledger if there is no such run.
    async fn last(&self, newest: Option<&(UnixMillis, RunId)>) -> Result<Subject, StoreError> {
        if let Some((at, id)) = newest {
            return Ok(match self.run(id).await? {
                Some(run) if *at != id.due() => Subject::InRange { at: *at, run: Box::new(run) },
                Some(run) => Subject::Run(Box::new(run)),
                None => Subject::Never,
            });
        }
        match self.reads.ledger.ranges.iter().map(|range| range.to).max() {
            Some(at) => Box::pin(self.at(at)).await,
            None => Ok(Subject::Never),
        }
    }
}
