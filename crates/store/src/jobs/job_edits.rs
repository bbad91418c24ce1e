//! Applying a definition to a job in Redis. The removal of a job is in `job_removal`.
//!
//! Invariant: each order names the revision of the job from which the order was computed. A script
//! that finds another revision replies `stale` and changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use super::job_records::SourceKind;
use super::rev::Rev;
use crate::Store;
use crate::gates::gate_calls::names_of;
use crate::runs::successor::Successor;
use crate::server::scripts;
use crate::server::scripts::Invocation;
use crate::server::store_error::StoreError;
use schedd_core::domain::job::definition_text::definition_hash;
use schedd_core::domain::job::unique_rule::{Second, Unique, UniqueKey};
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The effect of a changed definition on the job's planned run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionChange {
    /// The schedule changed. A planned run that is not yet due is replaced.
    Schedule,
    /// The schedule is unchanged but gives other times, because the zone data changed. A planned
    /// run that is not yet due is replaced.
    Zone,
    /// Another part of the definition changed. The planned run stays.
    Rest,
}

impl DefinitionChange {
    fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Zone => "zone",
            Self::Rest => "rest",
        }
    }
}

/// The rule for a definition whose name already belongs to a job from the same kind of source: a
/// file or the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Give the existing job the new definition.
    Edit,
    /// Leave the existing job unchanged and reply [`ApplyReply::Exists`].
    Refuse,
}

/// An order to apply a definition: to add a job, or to change an existing job.
#[derive(Debug, Clone)]
pub struct ApplyOrder {
    /// The job name.
    pub name: JobName,
    /// The definition as canonical JSON, written by `config::to_canonical`.
    pub definition: String,
    /// The revision and lane of the job as the caller read them; None if no job has this name.
    pub read: Option<(Rev, Lane)>,
    /// The origin of the definition.
    pub kind: SourceKind,
    /// The file that has the definition, by its [`SourceName`]; empty for the command line.
    pub source: String,
    /// A random name for this order, by which Redis recognises a repeated call.
    pub token: String,
    /// The time zone to store with a new job.
    pub tz: String,
    /// The lane of the job under this definition.
    pub lane: Lane,
    /// True for a one-shot job.
    pub is_once: bool,
    /// The delay between the end of a run and the next run; None for a job without `delay`.
    pub delay: Option<Duration>,
    /// The most regular runs of the job that may begin; None if there is no limit.
    pub max_runs: Option<u32>,
    /// The jobs during whose runs this job must not run.
    pub not_while: BTreeSet<JobName>,
    /// The rule and the parents of a job in a chain, as Redis stores them. Empty for any other job.
    pub after: String,
    /// The effect of the changed definition on the planned run.
    pub change: DefinitionChange,
    /// The planned run to add to the due set, if any.
    pub planted: Option<Successor>,
    /// The time from which the `every` schedule of a new job counts its intervals.
    pub anchor: UnixMillis,
    /// The rule for a name that already belongs to a job from the same kind of source.
    pub existing: Existing,
    /// The job's planned run, or the planned run that a pause removed from the due set. Both are as
    /// the caller read them; None if the job had neither.
    pub planned: Option<RunId>,
    /// The skipped range of occurrences that passed under the old schedule, if any. The range is
    /// recorded together with this change.
    pub passed: Option<SkippedRange>,
    /// The old and the new schedule in words, if the schedule changes.
    pub schedules: Option<(String, String)>,
    /// The notifications that the job asks for: their kinds and their times after the due time in
    /// ms, such as `late=60000`. Empty if the job asks for none.
    pub notify: String,
    /// The unique key that the definition names, if any.
    pub unique: Option<UniqueOrder>,
    /// The unique key of the live job with this name, as the caller read it. None if there is no
    /// such job or key.
    pub old_key: Option<UniqueKey>,
    /// The gates of the live job before the edit, if the new definition changes how the job's runs
    /// pass gates. Runs that wait at these gates are checked again.
    pub old_gates: Vec<Gate>,
    /// The entry `LANE GATE JOB` that the index of jobs by first gate should have for this job.
    /// None if the job has no gate.
    pub gated: Option<String>,
}

/// A unique key that a definition names, with the owner of the key as the caller read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueOrder {
    /// The unique key and the rule for a key that already has an owner.
    pub unique: Unique,
    /// The job that owns the unique key, if any.
    pub holder: Option<JobName>,
}

/// The result of applying a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyReply {
    /// A new job was added.
    Created,
    /// The job was changed.
    Updated,
    /// The job already had this definition.
    Unchanged,
    /// A job from the same kind of source has this name, and the order does not allow an edit.
    Exists,
    /// A job from the other kind of source has this name. The value names that kind: `file` or
    /// `api`.
    OtherKind(String),
    /// Another job owns the unique key. The value is the name of that job.
    Taken(JobName),
    /// The job changed since the caller read it. The caller must read the job and decide again.
    Stale,
    /// The occurrence of the planned run already has a record. The caller must choose the next
    /// occurrence.
    Occupied,
    /// The job needs a new lane, and the most lanes that nodes poll are registered.
    NoLane,
}

impl Store {
    /// Adds the job of `order`, or changes the live job of the same name.
    pub async fn apply_job(&self, order: &ApplyOrder) -> Result<ApplyReply, StoreError> {
        self.apply_jobs(std::slice::from_ref(order))
            .await?
            .pop()
            .unwrap_or_else(|| Err(StoreError::corrupt("script apply_job", "the reply is missing")))
    }

    /// Applies definitions in one pipeline. A refused definition does not affect the remaining
    /// definitions. The results have the order of `orders`.
    pub async fn apply_jobs(
        &self,
        orders: &[ApplyOrder],
    ) -> Result<Vec<Result<ApplyReply, StoreError>>, StoreError> {
        let calls: Vec<_> = orders.iter().map(|order| self.apply_call(order)).collect();
        let replies = self.link.invoke_all(&calls).await?;
        let read = |reply: Result<crate::server::reply::Reply, StoreError>| {
            let mut reply = reply?;
            Ok(match reply.word.as_str() {
                "created" => ApplyReply::Created,
                "updated" => ApplyReply::Updated,
                "unchanged" => ApplyReply::Unchanged,
                "exists" => ApplyReply::Exists,
                "other_kind" => ApplyReply::OtherKind(reply.text()?),
                "taken" => {
                    let holder = reply.text()?;
                    ApplyReply::Taken(holder.parse().map_err(|_| {
                        let found = format!("found {holder:?}, wanted the name of a job");
                        StoreError::corrupt("owner of a unique key", found)
                    })?)
                }
                "stale" => ApplyReply::Stale,
                "occupied" => ApplyReply::Occupied,
                "no_lane" => ApplyReply::NoLane,
                _ => return Err(reply.unknown()),
            })
        };
        Ok(replies.into_iter().map(read).collect())
    }

    fn apply_call(&self, order: &ApplyOrder) -> Invocation {
        let (keys, name, next) = (&self.keys, &order.name, order.planted.as_ref());
        let passed = order.passed;
        let passed_run =
            passed.map(|skipped_range| RunId::regular(name.clone(), skipped_range.first));
        let old_lane = order.read.as_ref().map_or(&order.lane, |(_, lane)| lane);
        let unique = order.unique.as_ref();
        let holder = unique.and_then(|unique| unique.holder.as_ref());
        let of_key =
            |key: Option<&UniqueKey>| key.map_or_else(|| keys.job(name), |key| keys.unique(key));
        let text = |key: Option<&UniqueKey>| key.map_or_else(String::new, ToString::to_string);
        let (key, old_key) = (unique.map(|unique| &unique.unique.key), order.old_key.as_ref());
        let second = unique.map(|unique| unique.unique.second);
        self.call(&scripts::APPLY_JOB)
            .of_job(name)
            .of_job_lane(&order.lane)
            .key("old_due", keys.due(old_lane))
            .key("run", self.successor_key(next, name))
            .key("source", self.source_key(&order.source))
            .key(
                "passed_run",
                passed_run.as_ref().map_or_else(|| keys.job(name), |run| keys.run(run)),
            )
            .key("unique", of_key(key))
            .key("holder", keys.job(holder.unwrap_or(name)))
            .key("old_unique", of_key(old_key))
            .arg("definition", &order.definition)
            .arg("hash", definition_hash(&order.definition))
            .arg("rev", order.read.as_ref().map_or("", |(rev, _)| rev.as_str()))
            .arg("kind", order.kind.as_str())
            .arg("source_name", &order.source)
            .arg("token", &order.token)
            .arg("tz", &order.tz)
            .arg("lane", order.lane.as_str())
            .arg("once", u8::from(order.is_once))
            .arg("change", order.change.as_str())
            .successor("planted", next)
            .arg("anchor", order.anchor.as_i64())
            .arg("existing", if order.existing == Existing::Edit { "edit" } else { "refuse" })
            .optional("planned", order.planned.as_ref())
            .optional("passed", passed_run)
            .arg("passed_last", passed.map_or(0, |skipped_range| skipped_range.last.as_i64()))
            .arg("passed_count", passed.map_or(0, |skipped_range| skipped_range.count))
            .arg("by", &*self.by)
            .arg("old_schedule", order.schedules.as_ref().map_or("", |(old, _)| old))
            .arg("new_schedule", order.schedules.as_ref().map_or("", |(_, new)| new))
            .optional("delay", order.delay.map(|delay| delay.as_millis()))
            .optional("max_runs", order.max_runs)
            .arg(
                "not_while",
                order.not_while.iter().map(JobName::as_str).collect::<Vec<_>>().join(" "),
            )
            .arg("unique_key", text(key))
            .arg("unique_mode", second.map_or("", Second::mode))
            .arg(
                "unique_for",
                second
                    .and_then(Second::window)
                    .map_or_else(String::new, |window| window.as_millis().to_string()),
            )
            .arg("holder_name", holder.map_or("", JobName::as_str))
            .arg("old_key", text(old_key))
            .arg("old_queue", order.read.as_ref().map_or("", |(_, lane)| lane.as_str()))
            .arg("notify", &order.notify)
            .arg("gates", names_of(&order.old_gates))
            .arg("gate_entry", order.gated.as_deref().unwrap_or_default())
            .arg("after", &order.after)
            .gate_keys(keys, &order.old_gates)
    }

    /// Returns the key of the list of jobs that a file defines. For the command line, which is not
    /// a file, returns a key that no file can have.
    pub(crate) fn source_key(&self, source: &str) -> String {
        source
            .parse::<SourceName>()
            .map_or_else(|_| self.keys.sources_of_none(), |source| self.keys.source(&source))
    }
}
