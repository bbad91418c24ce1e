//! The records of a job and of the nodes, as read from Redis, and the facts that follow from these
//! records alone.

use super::live_state::QueueState;
use super::question_reads::QuestionReads;
use crate::engine::dispatch::definition::{Definition, DefinitionError};
use schedd_core::domain::explain::{
    Blocker, Facts, JobFacts, Loss, NodeFacts, PastSchedule, Source, Subject,
};
use schedd_core::domain::job::audit_entry::AuditEntry;
use schedd_core::domain::queue::queue_rules::NoRoomReason;
use schedd_core::domain::run::node_event::{NodeEvent, NodeEventKind};
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{JobRecord, NodeEvents, NodeRecord, SourceKind, Store, StoreError};

/// The records of a job and of the nodes, as read from Redis.
pub(super) struct Known<'s> {
    pub(super) store: &'s Store,
    pub(super) name: &'s JobName,
    pub(super) now: UnixMillis,
    pub(super) record: Option<JobRecord>,
    pub(super) definition: Option<Result<Definition, DefinitionError>>,
    pub(super) audit_log: &'s [AuditEntry],
    pub(super) past: &'s [PastSchedule],
    pub(super) losses: &'s [Loss],
    /// The records of the running nodes.
    pub(super) nodes: Vec<NodeRecord>,
    /// The state of the queue of the job. `None` if the job has ended.
    pub(super) queue: Option<QueueState>,
    pub(super) reads: QuestionReads,
}

impl Known<'_> {
    pub(super) fn understood(&self) -> Option<&Definition> {
        self.definition.as_ref()?.as_ref().ok()
    }

    /// Returns true if the job has a single occurrence.
    pub(super) fn is_one_shot(&self) -> bool {
        self.understood().is_some_and(|definition| definition.timetable.is_one_shot())
    }

    /// Returns the blockers of the ready run in `facts`. If no run is ready, returns the pause of
    /// the queue that will block the next run.
    pub(super) async fn blockers(&self, facts: &Facts) -> Result<Vec<Blocker>, StoreError> {
        match (facts.owed(), &facts.subject, &self.queue) {
            (Some(run), _, Some(queue)) if queue.lane == run.lane => {
                queue.blockers(self.store, &self.nodes).await
            }
            (Some(run), ..) => {
                let queue = QueueState::read(self.store, &run.lane).await?;
                queue.blockers(self.store, &self.nodes).await
            }
            (None, Subject::Job { .. }, Some(queue)) => Ok(queue.pause()),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the facts about a node: its events, and what it reports while it runs.
    pub(super) fn node(&self, node: NodeEvents) -> NodeFacts {
        let running = self.nodes.iter().find(|running| running.name == node.node.as_str());
        NodeFacts {
            serving: running.map(|running| running.serving.clone()),
            workers: running.into_iter().flat_map(|node| &node.workers).cloned().collect(),
            refuses_file: running.map(|running| running.config_error.is_some()),
            name: node.node.to_string(),
            last_seen: node.last_seen,
            started_at: node.started_at,
            events: node.events.into_iter().map(|event| self.ended(event, running)).collect(),
            is_cut: node.is_cut,
        }
    }

    /// Returns an event of a node with the present time as its end, if the event has no recorded end
    /// and its obstacle is over. A node records the end of an obstacle some seconds later.
    fn ended(&self, event: NodeEvent, running: Option<&NodeRecord>) -> NodeEvent {
        let hold = match &event.what {
            NodeEventKind::QueuePaused { .. } => Some(NoRoomReason::Paused),
            NodeEventKind::QueueFull { .. } => Some(NoRoomReason::Full),
            NodeEventKind::QueueRated { .. } => Some(NoRoomReason::Rate),
            _ => None,
        };
        let queue =
            self.queue.as_ref().filter(|queue| Some(queue.lane.queue()) == event.what.queue());
        let is_over = match (&event.what, hold, queue) {
            (_, Some(hold), Some(queue)) => queue.no_room() != Some(hold),
            (NodeEventKind::AtLimit { .. }, ..) => {
                running.is_some_and(|node| node.at_limit.is_none())
            }
            _ => false,
        };
        let end = is_over.then_some(self.now.max(event.from));
        NodeEvent { to: event.to.or(end), ..event }
    }

    pub(super) fn zone(&self) -> Zone {
        self.understood().map_or_else(Zone::utc, |definition| definition.timetable.zone().clone())
    }

    pub(super) fn facts(&self) -> Option<JobFacts> {
        let record = self.record.as_ref()?;
        let definition = match self.definition.as_ref()? {
            Ok(definition) => Ok((definition.spec.clone(), definition.timetable.clone())),
            Err(why) => Err(why.to_string()),
        };
        let nodes = || {
            if record.listed_by.is_empty() {
                vec![record.source.clone()]
            } else {
                record.listed_by.keys().cloned().collect()
            }
        };
        Some(JobFacts {
            definition,
            since: record.since,
            next_set: record.next_set.clone(),
            next_run: record
                .next_run
                .as_ref()
                .filter(|run| run.due() > self.now && self.reads.manual.contains(run))
                .map(RunId::due),
            created: record.created.clone(),
            source: if record.kind == SourceKind::File {
                Source::File(nodes())
            } else {
                Source::Api
            },
            ended: record.ended.clone().map(|how| (how, record.ended_at)),
            paused_at: record.paused_at,
            runs_left: self.understood().and_then(Definition::runs_left),
            pending: record.pending.as_ref().map(RunId::due),
        })
    }

    /// Returns the planned run of the job, or the run that a pause keeps, or `None` if the job has
    /// neither.
    pub(super) fn planned(&self) -> Option<&RunId> {
        let record = self.record.as_ref()?;
        record.pending.as_ref().or(record.paused_run.as_ref())
    }
}
