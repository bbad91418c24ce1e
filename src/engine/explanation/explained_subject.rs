//! Finds the subject of `schedctl explain`: a job as a whole, its last occurrence, an occurrence at
//! a given time, or a run.

use futures_util::future::try_join_all;

use super::known_facts::{Known, LOOKED_THROUGH};
use crate::domain::explain::Subject;
use crate::domain::name::names::{RunId, RunKind};
use crate::domain::run::run_state::RunState;
use crate::domain::schedule::schedule_form::Schedule;
use crate::domain::time::unix_millis::UnixMillis;
use crate::store::{RunRecord, StoreError};

/// The most runs of each kind that are listed for a job.
const OPEN_SHOWN: usize = 10;
/// The most pages of history that are searched for a regular run.
const PAGES: usize = 20;

/// The question that a user asks about a job or run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// The question about the present state of the job.
    Job,
    /// The question about the last occurrence of the job.
    Last,
    /// The question about the occurrence of the job at this time.
    At(UnixMillis),
    /// The question about this run.
    Run(RunId),
}

impl Known<'_> {
    /// Returns true if Redis has no run of a job of this name in its history or ledger.
    pub(super) async fn has_no_past(&self) -> Result<bool, StoreError> {
        let (history, ledger) = tokio::try_join!(
            self.store.read_history(Some(self.name), 0, 1),
            self.store.read_ledger(self.name)
        )?;
        Ok(history.entries == 0 && ledger.ranges.is_empty() && ledger.until.is_none())
    }

    /// Returns the subject of the question. `waiting` are the backfill runs of the job that are not
    /// yet in the due set.
    pub(super) async fn subject(
        &self,
        ask: &Ask,
        waiting: &[RunId],
    ) -> Result<Subject, StoreError> {
        let subject = match ask {
            Ask::Job => Box::pin(self.job(waiting.first())).await?,
            Ask::Last => Box::pin(self.last()).await?,
            Ask::At(at) => Box::pin(self.at(*at)).await?,
            Ask::Run(run) => match self.run(run).await? {
                Some(run) => Subject::Run(Box::new(run)),
                None if !run.is_manual() => Box::pin(self.at(run.due())).await?,
                None if waiting.contains(run) => Subject::ToMakeUp { at: run.due() },
                None => Subject::Unrecorded { at: run.due() },
            },
        };
        match subject {
            Subject::NotDue { at, .. } | Subject::Unrecorded { at } => {
                Ok(self.made_up(at, waiting).await?.unwrap_or(subject))
            }
            other => Ok(other),
        }
    }

    /// Returns the backfill run of the occurrence at `at` as the subject, or the fact that this run
    /// is still waiting. Returns `None` if no backfill run exists.
    async fn made_up(
        &self,
        at: UnixMillis,
        waiting: &[RunId],
    ) -> Result<Option<Subject>, StoreError> {
        let id = RunId::backfill(self.name.clone(), at);
        Ok(match self.run(&id).await? {
            Some(run) => Some(Subject::Run(Box::new(run))),
            None => waiting.contains(&id).then_some(Subject::ToMakeUp { at }),
        })
    }

    /// Returns the id and state of the backfill run for the same occurrence as `subject`, if any.
    pub(super) async fn made_up_by(
        &self,
        subject: &Subject,
        waiting: &[RunId],
    ) -> Result<Option<(RunId, RunState)>, StoreError> {
        let at = match subject {
            Subject::Run(run) if run.run.kind() == RunKind::Regular => run.run.due(),
            Subject::InRange { at, .. }
            | Subject::Ledger { at, .. }
            | Subject::BeforeLedger { at, .. } => *at,
            _ => return Ok(None),
        };
        let id = RunId::backfill(self.name.clone(), at);
        let record = self.store.read_run(&id).await?;
        let state = record
            .map(|record| record.state)
            .or_else(|| waiting.contains(&id).then_some(RunState::Scheduled));
        Ok(state.map(|state| (id, state)))
    }

    /// Returns the present job as the subject: its open runs by due time, and the run that ended
    /// last.
    async fn job(&self, made_up: Option<&RunId>) -> Result<Subject, StoreError> {
        let (store, name) = (self.store, self.name);
        let (mut ids, mut rest): (Vec<RunId>, Vec<RunId>) = (Vec::new(), Vec::new());
        let (open, waiting, spread, manual, mut history) = tokio::try_join!(
            store.list_open(name),
            store.list_waiting(name),
            store.list_spread(name),
            store.list_manual(name),
            store.read_history(Some(name), 0, 1),
        )?;
        for mut some in [open, waiting, spread] {
            rest.extend(some.split_off(some.len().min(OPEN_SHOWN)));
            ids.extend(some);
        }
        ids.extend(manual.into_iter().take(OPEN_SHOWN));
        ids.extend(
            self.record
                .as_ref()
                .and_then(|job| job.pending.clone())
                .filter(|run| run.due() <= self.now),
        );
        ids.extend(made_up.cloned());
        ids.sort_by(|a, b| a.due().cmp(&b.due()).then_with(|| a.cmp(b)));
        ids.dedup();
        rest.sort();
        rest.dedup();
        let more = rest.iter().filter(|run| !ids.contains(run)).count() as u64;
        let last = async {
            match history.runs.pop() {
                Some(record) => Ok(Some(Box::new(Box::pin(self.of_record(record)).await?))),
                None => Ok(None),
            }
        };
        let (open, last) = tokio::try_join!(try_join_all(ids.iter().map(|id| self.run(id))), last)?;
        let open = open.into_iter().flatten().filter(|run| !run.state.is_final()).collect();
        Ok(Subject::Job { open, more, last })
    }

    /// Returns true if the schedule of the job has occurrences (it is neither manual nor
    /// `@reboot`).
    fn has_times(&self) -> bool {
        self.understood().is_some_and(|job| {
            job.spec.schedule != Schedule::Manual && !job.spec.schedule.is_at_boot()
        })
    }

    /// Returns the last regular occurrence up to now. For a job without a schedule, returns its
    /// last manual run.
    async fn last(&self) -> Result<Subject, StoreError> {
        let (store, name) = (self.store, self.name);
        let mut ids: Vec<RunId> =
            self.planned().filter(|run| run.due() <= self.now).cloned().into_iter().collect();
        let (open, waiting, spread) = tokio::try_join!(
            store.list_open(name),
            store.list_waiting(name),
            store.list_spread(name)
        )?;
        for some in [open, waiting, spread] {
            ids.extend(some.into_iter().max_by_key(|run| (!run.is_manual(), run.due())));
        }
        let mut found: Vec<(UnixMillis, RunId)> =
            ids.into_iter().map(|run| (run.due(), run)).collect();
        for page in 0..PAGES {
            let ended =
                store.read_history(Some(name), page * LOOKED_THROUGH, LOOKED_THROUGH).await?;
            let last = |record: &RunRecord| {
                record.skipped.map_or_else(|| record.run.due(), |(last, _)| last)
            };
            found.extend(ended.runs.into_iter().map(|record| (last(&record), record.run)));
            if ended.entries < LOOKED_THROUGH || found.iter().any(|(_, run)| !run.is_manual()) {
                break;
            }
        }
        let newest = found.into_iter().max_by_key(|(due, run)| (!run.is_manual(), *due));
        match newest.filter(|(_, run)| !run.is_manual() || !self.has_times()) {
            Some((at, id)) => Ok(match self.run(&id).await? {
                Some(run) if at != id.due() => Subject::InRange { at, run: Box::new(run) },
                Some(run) => Subject::Run(Box::new(run)),
                None => Subject::Never,
            }),
            None => {
                match store.read_ledger(name).await?.ranges.iter().map(|range| range.to).max() {
                    Some(at) => Box::pin(self.at(at)).await,
                    None => Ok(Subject::Never),
                }
            }
        }
    }
}
