//! Reads the facts that explain a job or an occurrence to a user. Each call to Redis is bounded.

mod chain_reader;
mod explained_subject;
mod gate_reader;
mod known_facts;
mod live_state;
mod occurrence_reader;
mod question;
mod question_reads;
mod record_reader;
mod run_reader;

use super::dispatch::definition::Definition;
use super::maintenance::ledger_view::past_schedules;
use super::maintenance::presence::GONE_AFTER;
pub use gate_reader::shut;
use known_facts::Known;
pub use question::Ask;
use question_reads::{QuestionReads, read_job};
use schedd_core::domain::explain::{Facts, Loss, Subject};
use schedd_core::domain::job::audit_entry::AuditEntry;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{LossRecord, NodeRecord, Store, StoreError};

/// Returns the facts about the job `name` and the subject of the question. Returns `None` if Redis
/// has no data about a job of this name.
///
/// Reads in three rounds, each of which sends its commands at once. The first round reads the job
/// and the lists of its runs. The second round reads the records of these runs, the nodes and the
/// queue. The third round reads the places of the runs, their notices and node events. A run that
/// waits at a gate, or a run whose record does not name its place, takes further rounds.
///
/// The findings show times in the zone `local`, or in the zone of the job if `local` is `None`.
pub async fn gather(
    store: &Store,
    name: &JobName,
    ask: &Ask,
    local: Option<&Zone>,
) -> Result<Option<Facts>, StoreError> {
    let (
        now,
        (record, planned, queue),
        (audit_log, audit_log_error),
        (losses, gone),
        past,
        nodes,
        event_nodes,
        mut reads,
    ) = Box::pin(async {
        tokio::try_join!(
            store.now(),
            read_job(store, name),
            audit_log(store, name),
            losses(store, name),
            past_schedules(store, name),
            store.list_nodes(),
            store.list_event_nodes(),
            QuestionReads::read(store, name, ask),
        )
    })
    .await?;
    reads.keep(planned);
    let definition = record.clone().map(Definition::of);
    let mut known = Known {
        store,
        name,
        now,
        definition,
        record,
        audit_log: &audit_log,
        past: &past,
        losses: &losses,
        nodes: running(nodes),
        queue,
        reads,
    };
    let may_be_unknown = known.record.is_none()
        && gone.is_none()
        && audit_log.is_empty()
        && !matches!(ask, Ask::Run(_));
    if may_be_unknown && known.has_no_past().await? {
        return Ok(None);
    }
    let newest = match ask {
        Ask::Last => known.newest().await?,
        // The question about a one-shot is the question about its only occurrence.
        Ask::Job if known.is_one_shot() => {
            known.newest().await?.filter(|(_, run)| !run.is_manual())
        }
        _ => None,
    };
    let ask = if newest.is_some() { &Ask::Last } else { ask };
    let looked_at = known.looked_at(ask, newest.as_ref());
    let backfill = RunId::backfill(name.clone(), looked_at);
    let (subject, mut events, record) = tokio::try_join!(
        Box::pin(known.subject(ask, newest.as_ref())),
        store.read_events(&event_nodes, looked_at),
        known.record_of(&backfill),
    )?;
    known.reads.keep([(backfill, record)]);
    let mut facts = Facts {
        name: name.clone(),
        now,
        local: local.cloned().unwrap_or_else(|| known.zone()),
        zone: known.zone(),
        job: known.facts(),
        subject,
        audit_log: Vec::new(),
        past: Vec::new(),
        audit_log_error,
        losses: Vec::new(),
        gone,
        making_up: u64::try_from(known.reads.backfill.len()).unwrap_or(u64::MAX),
        made_up_by: None,
        nodes: Vec::new(),
        chain: None,
        lost_parents: Vec::new(),
        blockers: Vec::new(),
    };
    facts.chain = chain_reader::read_chain(store, &facts).await?;
    facts.lost_parents = chain_reader::lost_parents(store, &facts).await?;
    let found_at = match &facts.subject {
        Subject::Job { open, .. } => open.first().map_or(now, |run| run.run.due()),
        _ => facts.run().map(|run| run.run.due()).or_else(|| facts.at()).unwrap_or(now),
    };
    if found_at != looked_at {
        events = store.read_events(&event_nodes, found_at).await?;
    }
    let (blockers, made_up_by) = tokio::try_join!(
        Box::pin(known.blockers(&facts)),
        Box::pin(known.made_up_by(&facts.subject)),
    )?;
    facts.nodes = events.into_iter().map(|node| known.node(node)).collect();
    (facts.blockers, facts.made_up_by) = (blockers, made_up_by);
    drop(known);
    (facts.audit_log, facts.past, facts.losses) = (audit_log, past, losses);
    Ok(Some(facts))
}

/// Returns the audit log of a job, or the reason why the log is unreadable. The explanation is then
/// given without the log.
async fn audit_log(
    store: &Store,
    name: &JobName,
) -> Result<(Vec<AuditEntry>, Option<String>), StoreError> {
    match store.read_audit_log(name).await {
        Ok(audit_log) => Ok((audit_log, None)),
        Err(error @ StoreError::WrongType { .. }) => Ok((Vec::new(), Some(error.to_string()))),
        Err(error) => Err(error),
    }
}

/// Returns the running nodes among `nodes`.
fn running((now, nodes): (UnixMillis, Vec<NodeRecord>)) -> Vec<NodeRecord> {
    nodes
        .into_iter()
        .filter(|node| node.last_seen.is_some_and(|seen| now.since(seen) <= GONE_AFTER))
        .collect()
}

/// The time at which nodes noticed the data loss that removed a job, and the schedule of the job as
/// text. `None` if the job was not removed by a data loss.
type Gone = Option<(UnixMillis, String)>;

/// Returns the data losses, oldest first. If a data loss removed the job `name`, also returns the
/// time of that loss and the schedule of the job.
async fn losses(store: &Store, name: &JobName) -> Result<(Vec<Loss>, Gone), StoreError> {
    let read = match store.read_losses().await {
        Err(StoreError::WrongType { .. }) => Vec::new(),
        read => read?,
    };
    let took = |record: &LossRecord| {
        let (_, schedule) = record.jobs_gone().into_iter().find(|(gone, _)| gone == name)?;
        Some((record.at?, schedule))
    };
    let gone = read.iter().find_map(took);
    let known = |ms: i64| UnixMillis::new(ms).filter(|at| *at > UnixMillis::EPOCH);
    let losses = read.into_iter().rev().filter_map(|record| {
        let mut reported_by: Vec<String> =
            record.reports.iter().map(|report| report.node.clone()).collect();
        reported_by.sort();
        let loss = record.loss;
        let (kept, whole) = (known(loss.kept_to_ms), known(loss.whole_at_ms));
        Some(Loss {
            noticed: record.at?,
            by: loss.by,
            what: loss.kind.words(),
            kept,
            whole,
            reported_by,
        })
    });
    Ok((losses.collect(), gone))
}
