//! Changing jobs in Redis: applying a definition. Taking one out is `removing`.
//!
//! Invariant: each of these says which rev it was computed from; a script that finds another answers stale and has changed
//! nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Store;
use super::error::StoreError;
use super::gates::names_of;
use super::jobs::{Rev, SourceKind};
use super::runs::Successor;
use super::scripts::{self, Invocation};
use crate::domain::gate::Gate;
use crate::domain::ids::{JobName, RunId};
use crate::domain::lane::Lane;
use crate::domain::lateness::Stretch;
use crate::domain::source::SourceName;
use crate::domain::time::UnixMillis;
use crate::domain::unique::{Second, Unique, UniqueKey};

/// What a changed definition means for the planted run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The schedule is another: a pending run that is not yet due is replaced.
    Schedule,
    /// The schedule is the same and means other instants: a pending run that is not yet due is replaced, and nothing else.
    Zone,
    /// Anything else: the pending run stays where it is.
    Rest,
}

impl Change {
    fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Zone => "zone",
            Self::Rest => "rest",
        }
    }
}

/// What to do if the name is taken by a job of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Change it.
    Edit,
    /// Leave it and say so.
    Refuse,
}

/// A definition to be applied.
#[derive(Debug, Clone)]
pub struct ApplyOrder {
    /// The job's name.
    pub name: JobName,
    /// Its definition, as `config::surface` writes it.
    pub definition: String,
    /// The hash of that text.
    pub hash: String,
    /// The job as it was read: none for a free name.
    pub read: Option<(Rev, Lane)>,
    /// Where the definition comes from.
    pub kind: SourceKind,
    /// The file it is from, by its [`SourceName`]; empty for the command line.
    pub source: String,
    /// Names this call, so that a repeated one is known.
    pub token: String,
    /// The zone to keep with a new job.
    pub tz: String,
    /// Its lane.
    pub lane: Lane,
    /// Whether it runs once.
    pub is_once: bool,
    /// The pause between the end of a run and the next, of a job that is planted so.
    pub delay: Option<Duration>,
    /// How many regular runs may begin.
    pub max_runs: Option<u32>,
    /// The jobs it is not to run beside.
    pub not_while: BTreeSet<JobName>,
    /// What it means for the planted run.
    pub change: Change,
    /// The run to plant, if any.
    pub planted: Option<Successor>,
    /// What a new job's `every` counts from.
    pub anchor: UnixMillis,
    /// What to do if the name is taken.
    pub existing: Existing,
    /// The job's pending or held run as read.
    pub planned: Option<RunId>,
    /// What passed under the old schedule and is told with its change.
    pub passed: Option<Stretch>,
    /// Of a change of the schedule: the old one and the new one in words.
    pub schedules: Option<(String, String)>,
    /// Whom its runs are told to, see [`tells`](crate::domain::notice::tells).
    pub tells: String,
    /// The unique key it names.
    pub unique: Option<UniqueOrder>,
    /// The unique key the live job of this name names, as read.
    pub old_key: Option<UniqueKey>,
    /// The gates the live job of this name named, if by this definition its runs pass otherwise: those that wait are judged anew.
    pub old_gates: Vec<Gate>,
    /// How it is listed with its first gate, see [`gated_entry`](crate::domain::job::JobSpec::gated_entry).
    pub gated: Option<String>,
}

/// A unique key a definition names, and how its holder was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueOrder {
    /// What it says.
    pub unique: Unique,
    /// Who holds the key, by name.
    pub holder: Option<JobName>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyReply {
    /// There is a new job.
    Created,
    /// The job has changed.
    Updated,
    /// It was the same already.
    Unchanged,
    /// The name is taken.
    Exists,
    /// The name is taken by a job of the other kind.
    Held(String),
    /// The unique key is held by this job.
    Taken(JobName),
    /// The job changed: read it and decide again.
    Stale,
    /// The planted occurrence has a record already: decide on the one after it.
    Occupied,
}

impl Store {
    /// Applies a definition.
    pub async fn apply_job(&self, order: &ApplyOrder) -> Result<ApplyReply, StoreError> {
        self.apply_jobs(std::slice::from_ref(order))
            .await?
            .pop()
            .unwrap_or_else(|| Err(StoreError::corrupt("apply_job", "no reply")))
    }

    /// Applies definitions in one go, each by itself: one refused does not keep the others out.
    pub async fn apply_jobs(&self, orders: &[ApplyOrder]) -> Result<Vec<Result<ApplyReply, StoreError>>, StoreError> {
        let calls: Vec<_> = orders.iter().map(|order| self.apply_call(order)).collect();
        let replies = self.link.invoke_all(&calls).await?;
        let read = |reply: Result<super::reply::Reply, StoreError>| {
            let mut reply = reply?;
            Ok(match reply.word.as_str() {
                "created" => ApplyReply::Created,
                "updated" => ApplyReply::Updated,
                "unchanged" => ApplyReply::Unchanged,
                "exists" => ApplyReply::Exists,
                "held" => ApplyReply::Held(reply.text()?),
                "taken" => {
                    let holder = reply.text()?;
                    ApplyReply::Taken(holder.parse().map_err(|_| StoreError::corrupt("the holder of a unique key", holder))?)
                }
                "stale" => ApplyReply::Stale,
                "occupied" => ApplyReply::Occupied,
                _ => return Err(reply.unknown()),
            })
        };
        Ok(replies.into_iter().map(read).collect())
    }

    fn apply_call(&self, order: &ApplyOrder) -> Invocation {
        let (keys, name, next) = (&self.keys, &order.name, order.planted.as_ref());
        let passed = order.passed;
        let passed_run = passed.map(|stretch| RunId::regular(name.clone(), stretch.first));
        let old_lane = order.read.as_ref().map_or(&order.lane, |(_, lane)| lane);
        let unique = order.unique.as_ref();
        let holder = unique.and_then(|unique| unique.holder.as_ref());
        let of_key = |key: Option<&UniqueKey>| key.map_or_else(|| keys.job(name), |key| keys.unique(key));
        let text = |key: Option<&UniqueKey>| key.map_or_else(String::new, ToString::to_string);
        let (key, old_key) = (unique.map(|unique| &unique.unique.key), order.old_key.as_ref());
        let second = unique.map(|unique| unique.unique.second);
        Invocation::new(&scripts::APPLY_JOB)
            .key("job", keys.job(name))
            .key("jobs", keys.jobs())
            .key("job_due", keys.due(&order.lane))
            .key("old_due", keys.due(old_lane))
            .key("run", self.successor_key(next, name))
            .key("finished", keys.finished())
            .key("history", keys.history())
            .key("job_history", keys.job_history(name))
            .key("source", self.source_key(&order.source))
            .key("nudge", keys.nudge())
            .key("passed_run", passed_run.as_ref().map_or_else(|| keys.job(name), |run| keys.run(run)))
            .key("totals", keys.totals())
            .key("deeds", keys.deeds(name))
            .key("open", keys.open(name))
            .key("lanes", keys.lanes())
            .key("shunned", keys.shunned())
            .key("shunned_lately", keys.shunned_lately())
            .key("unique", of_key(key))
            .key("uniques", keys.uniques())
            .key("holder", keys.job(holder.unwrap_or(name)))
            .key("old_unique", of_key(old_key))
            .key("notices", keys.notices())
            .key("gated", keys.gated())
            .key("eras", keys.eras(name))
            .key("backfill", keys.backfill(name))
            .key("backfills", keys.backfills())
            .key("deadlines", keys.deadlines())
            .arg("now", self.now_arg())
            .arg("job_name", name.as_str())
            .arg("definition", &order.definition)
            .arg("hash", &order.hash)
            .arg("rev", order.read.as_ref().map_or("", |(rev, _)| rev.as_str()))
            .arg("kind", order.kind.as_str())
            .arg("source_name", &order.source)
            .arg("token", &order.token)
            .arg("tz", &order.tz)
            .arg("lane", order.lane.as_str())
            .arg("once", u8::from(order.is_once))
            .arg("change", order.change.as_str())
            .arg("planted", Successor::id(next))
            .arg("planted_due", Successor::due(next))
            .arg("planted_ready", Successor::ready(next))
            .arg("anchor", order.anchor.as_i64())
            .arg("existing", if order.existing == Existing::Edit { "edit" } else { "refuse" })
            .arg("planned", order.planned.as_ref().map_or_else(String::new, ToString::to_string))
            .arg("passed", passed_run.map_or_else(String::new, |run| run.to_string()))
            .arg("passed_last", passed.map_or(0, |stretch| stretch.last.as_i64()))
            .arg("passed_count", passed.map_or(0, |stretch| stretch.count))
            .arg("by", &*self.by)
            .arg("old_schedule", order.schedules.as_ref().map_or("", |(old, _)| old))
            .arg("new_schedule", order.schedules.as_ref().map_or("", |(_, new)| new))
            .arg("delay", order.delay.map_or_else(String::new, |delay| delay.as_millis().to_string()))
            .arg("max_runs", order.max_runs.map_or_else(String::new, |most| most.to_string()))
            .arg("not_while", order.not_while.iter().map(JobName::as_str).collect::<Vec<_>>().join(" "))
            .arg("unique_key", text(key))
            .arg("unique_mode", second.map_or("", Second::mode))
            .arg("unique_for", second.and_then(Second::window).map_or_else(String::new, |window| window.as_millis().to_string()))
            .arg("holder_name", holder.map_or("", JobName::as_str))
            .arg("old_key", text(old_key))
            .arg("old_queue", order.read.as_ref().map_or("", |(_, lane)| lane.as_str()))
            .arg("tells", &order.tells)
            .arg("gates", names_of(&order.old_gates))
            .arg("gated", order.gated.as_deref().unwrap_or_default())
            .gate_keys(keys, &order.old_gates)
    }

    /// The list of a file; what is no file's name (the command line) gets a key no file can have.
    pub(super) fn source_key(&self, source: &str) -> String {
        source.parse::<SourceName>().map_or_else(|_| self.keys.sources_of_none(), |source| self.keys.source(&source))
    }
}
