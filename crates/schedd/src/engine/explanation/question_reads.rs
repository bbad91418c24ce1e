//! The first two rounds of reads for a question: the lists of the job, and the records of the runs
//! that these lists and the question name.

use std::collections::BTreeMap;

use super::live_state::QueueState;
use super::question::Ask;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{HistoryPage, JobRecord, Ledger, RecordedAt, RunRecord, Store, StoreError};

/// The most backfill runs of a job that may wait.
const WAITING: usize = 10_000;
/// The number of ended runs on one page of history.
pub(super) const LOOKED_THROUGH: usize = 50;
/// The number of runs that are shown from each list of a job, such as its open runs.
pub(super) const OPEN_SHOWN: usize = 10;

/// The runs of a job by their state, and the records of the runs that the question names.
pub(super) struct QuestionReads {
    pub(super) open: Vec<RunId>,
    pub(super) waiting: Vec<RunId>,
    pub(super) spread: Vec<RunId>,
    pub(super) manual: Vec<RunId>,
    /// The backfill runs that wait.
    pub(super) backfill: Vec<RunId>,
    /// The newest ended runs.
    pub(super) ended: HistoryPage,
    pub(super) ledger: Ledger,
    /// For a question about an instant: the instant, the runs that ended after it, and the runs
    /// that record it. `None` for any other question.
    pub(super) at: Option<(UnixMillis, Vec<RunRecord>, RecordedAt)>,
    /// The records read so far. The value is `None` if Redis has no record of the run.
    records: BTreeMap<RunId, Option<RunRecord>>,
}

impl QuestionReads {
    /// Reads the lists of the job `name`, and then the records of the runs that the question names.
    pub(super) async fn read(store: &Store, name: &JobName, ask: &Ask) -> Result<Self, StoreError> {
        let at = match ask {
            Ask::At(at) => Some(*at),
            _ => None,
        };
        let newest = match ask {
            Ask::Job => 1,
            Ask::Last => LOOKED_THROUGH,
            Ask::At(_) | Ask::Run(_) => 0,
        };
        let listed = async {
            let lists = tokio::try_join!(
                store.list_open(name),
                store.list_waiting(name),
                store.list_spread(name),
                store.list_manual(name),
                store.list_backfill(name, WAITING),
            )?;
            let (open, waiting, spread, manual, backfill) = &lists;
            let shown = [open, waiting, spread, manual].map(|runs| runs.iter().take(OPEN_SHOWN));
            let latest = [open, waiting, spread].map(|runs| latest(runs));
            let named = match ask {
                Ask::Job => shown.into_iter().flatten().chain(backfill.first()).cloned().collect(),
                Ask::Last => latest.into_iter().flatten().cloned().collect(),
                Ask::At(at) => open.iter().filter(|run| is_due_in(run, *at)).cloned().collect(),
                Ask::Run(_) => Vec::new(),
            };
            Ok::<_, StoreError>((lists, records(store, named).await?))
        };
        let named = async {
            let named = match ask {
                Ask::Job | Ask::Last => Vec::new(),
                Ask::At(at) => {
                    vec![RunId::regular(name.clone(), *at), RunId::backfill(name.clone(), *at)]
                }
                Ask::Run(run) => vec![run.clone(), RunId::backfill(name.clone(), run.due())],
            };
            records(store, named).await
        };
        let around = async {
            let Some(at) = at else { return Ok(None) };
            let (ended, recorded) = tokio::try_join!(
                store.read_ended_from(name, at, LOOKED_THROUGH),
                store.reported_at(name, at)
            )?;
            Ok(Some((at, ended, recorded)))
        };
        let ((lists, mut all), named, at, ended, ledger) = tokio::try_join!(
            listed,
            named,
            around,
            store.read_history(Some(name), 0, newest),
            store.read_ledger(name)
        )?;
        all.extend(named);
        let seen = ended.runs.iter().chain(at.iter().flat_map(|(_, ended, _)| ended));
        all.extend(seen.map(|record| (record.run.clone(), Some(record.clone()))));
        let (open, waiting, spread, manual, backfill) = lists;
        Ok(Self { open, waiting, spread, manual, backfill, ended, ledger, at, records: all })
    }

    /// Returns the record of a run as far as it was read. `Some(None)` means that Redis has no
    /// record, and `None` that the record was not read.
    pub(super) fn record(&self, run: &RunId) -> Option<&Option<RunRecord>> {
        self.records.get(run)
    }

    /// Adds records of runs that other code has read, so that they are not read again.
    pub(super) fn keep(&mut self, records: impl IntoIterator<Item = (RunId, Option<RunRecord>)>) {
        self.records.extend(records);
    }
}

/// Returns the job `name`, the record of its planned run or of the run that a pause keeps, and the
/// state of its queue. The queue is `None` if the job has ended or does not exist.
pub(super) async fn read_job(
    store: &Store,
    name: &JobName,
) -> Result<(Option<JobRecord>, BTreeMap<RunId, Option<RunRecord>>, Option<QueueState>), StoreError>
{
    let Some(job) = store.read_job(name).await? else { return Ok((None, BTreeMap::new(), None)) };
    let planned = job.pending.iter().chain(&job.paused_run).cloned().collect();
    let queue = async {
        if job.is_live() { Ok(Some(QueueState::read(store, &job.lane).await?)) } else { Ok(None) }
    };
    let (planned, queue) = tokio::try_join!(records(store, planned), queue)?;
    Ok((Some(job), planned, queue))
}

/// Returns the regular run of `runs` with the latest due time. Without a regular run, returns the
/// manual run with the latest due time.
pub(super) fn latest(runs: &[RunId]) -> Option<&RunId> {
    runs.iter().max_by_key(|run| (!run.is_manual(), run.due()))
}

/// Returns true if the run is due at the instant `at`, or within the second that begins at `at`.
pub(super) fn is_due_in(run: &RunId, at: UnixMillis) -> bool {
    run.due() == at || run.due().floor_to_second() == at
}

/// Returns the records of these runs. An unreadable record is left out, because a later read of
/// that run reports the error.
async fn records(
    store: &Store,
    runs: Vec<RunId>,
) -> Result<BTreeMap<RunId, Option<RunRecord>>, StoreError> {
    let records = store.read_runs(&runs).await?;
    Ok(runs
        .into_iter()
        .zip(records)
        .filter_map(|(run, record)| Some((run, record.ok()?)))
        .collect())
}
