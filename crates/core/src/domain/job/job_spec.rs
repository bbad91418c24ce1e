//! The definition of a job, with all values within their bounds.
//!
//! `config` makes a definition from a table of `jobs.toml`, a JSON line or the flags of `schedctl
//! add`. `config::to_canonical` formats a definition as the JSON that Redis stores, with the same
//! keys as `[jobs.X]`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::action::conceal;
pub use super::action::{Action, AskedOn, DoneCheck, HandlerCall, HttpRequest};
use super::env_file::EnvFile;
use super::node_choice::{EACH_NODE, NodeChoice};
use super::process_rules::{ProcessRules, Started};
use super::unique_rule::Unique;
use super::webhook::SigningSecret;
use crate::domain::name::tag_filter::Tags;
use crate::domain::queue::gate::{Gate, PerKey, SharedKey};
use crate::domain::queue::lane::{Lane, Priority};
use crate::domain::run::trace_context::TraceContext;
use schedd_schedule::clock_changes::ClockChanges;
use schedd_schedule::lateness::{CatchUp, CatchUpMode};
use schedd_schedule::names::{GroupName, JobName, Label, NodeName, NoticeKind, QueueName};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::schedule_modifiers::Shape;
use schedd_schedule::time::zone::ZoneName;

/// A job's definition, without its name.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    /// The schedule that makes the job due.
    pub schedule: Schedule,
    /// The modifiers of the schedule, which exclude occurrences or delay runs.
    pub shape: Shape,
    /// The zone from the definition or `[defaults]`. `None` means the zone that was stored when the
    /// job was added.
    pub tz: Option<ZoneName>,
    /// The rule for daylight saving changes in the zone of the job.
    pub dst: ClockChanges,
    /// The action of an attempt: a process, an HTTP request, or the work of a worker.
    pub action: Action,
    /// The queue of the job's runs.
    pub queue: QueueName,
    /// The priority of the job's runs within the queue.
    pub priority: Priority,
    /// The labels that a node must have to run the job. At most 8.
    pub requires: BTreeSet<Label>,
    /// The tags, which only select jobs for lists. At most 8.
    pub tags: Tags,
    /// The nodes that run the job.
    pub on: NodeChoice,
    /// The maximum number of nodes that run the job at once, with [`NodeChoice::EachNode`]. 1 to
    /// 1,000,000. `None` means any number.
    pub max_parallel: Option<u32>,
    /// The concurrency key. Its limits apply to the runs of all jobs with this key together.
    pub key: Option<SharedKey>,
    /// The limits of the concurrency key. Unused if the job has no key.
    pub per_key: PerKey,
    /// The jobs that may not run at the same time as this job. At most 16.
    pub not_while: BTreeSet<JobName>,
    /// The group of the job. Only one job of a group runs at a time.
    pub group: Option<GroupName>,
    /// The maximum time of an attempt. 100 ms to 30 days.
    pub timeout: Duration,
    /// The time from the signal SIGTERM to the signal SIGKILL when an attempt is stopped. 0 to 1
    /// hour.
    pub kill_grace: Duration,
    /// The longest time from the end of a run to the time that the run sets for the next run. 1 s
    /// to 365 days.
    pub next_within: Duration,
    /// The rule for retries of failed attempts.
    pub retry: RetryRule,
    /// The rule for a run that becomes due while another run of the job is open.
    pub overlap: Overlap,
    /// The rule for missed occurrences.
    pub catch_up: CatchUp,
    /// The delay after which a run that has not started counts as missed. 1 s to 365 days.
    pub late_after: Duration,
    /// The rule that decides if another attempt follows an attempt whose end is not known.
    pub delivery: Delivery,
    /// The check before an attempt that finds out if the work of the run is already done.
    pub done_check: Option<DoneCheck>,
    /// The unique key of the job, and the rule for a second add with this key.
    pub unique: Option<Unique>,
    /// The trace of the request that added the job. The runs of the job belong to this trace.
    pub traceparent: Option<TraceContext>,
    /// The action that delivers each kind of notification about the job's runs.
    pub notices: BTreeMap<NoticeKind, Action>,
    /// The URL of a monitoring service for pings, in the form of healthchecks.io. `{job}` in the
    /// URL is the placeholder for the job's name.
    pub ping_url: Option<String>,
    /// The maximum time from the due time of a run to its start. If the run starts later, schedd
    /// sends a notice. 1 s to 365 days.
    pub must_start_within: Option<Duration>,
    /// The maximum time from the due time of a run to its end. If the run ends later, schedd sends
    /// a notice. 1 s to 365 days.
    pub must_finish_within: Option<Duration>,
    /// The secrets that sign the job's requests and notices. At most 4.
    pub webhook_secrets: Vec<SigningSecret>,
    /// The environment variables of the processes, besides the fixed variables such as `PATH`.
    /// Values contain no NUL and no secrets, only
    /// [references](crate::domain::job::secret_reference) to secrets.
    pub env: BTreeMap<String, String>,
    /// The environment files that the node reads at each attempt. Variables in `env` override the
    /// variables of the files. At most 16 files.
    pub env_files: Vec<EnvFile>,
    /// True if each line of output also goes into the log of the node.
    pub log_output: bool,
    /// The working directory of a process. `None` means the home directory of its user.
    pub cwd: Option<PathBuf>,
    /// The rules for the job's processes. A rule without effect on this job has its default value.
    pub process: ProcessRules,
}

impl JobSpec {
    /// Replaces the values that may be secret: of variables, header fields, bodies and the standard
    /// input.
    pub fn conceal(&mut self) {
        self.env.values_mut().for_each(conceal);
        self.process.stdin.iter_mut().for_each(conceal);
        self.action.conceal();
        self.notices.values_mut().for_each(Action::conceal);
        if let Some(check) = &mut self.done_check {
            check.question.conceal();
        }
    }
}

/// The rule for retries of failed attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryRule {
    /// The maximum number of attempts after the first attempt. 0 to 1,000.
    pub limit: u32,
    /// The wait before the first retry. 0 to 30 days.
    pub delay: Duration,
    /// The growth of the wait from retry to retry.
    pub backoff: Backoff,
    /// The maximum wait before a retry.
    pub max_delay: Duration,
    /// True if each wait is shortened at random, to at least half of its length. This spreads the
    /// retries of many failed runs.
    pub jitter: bool,
    /// The exit codes or HTTP statuses after which a failed attempt is retried, 1 to 599. An empty
    /// set means any code.
    pub on: BTreeSet<u16>,
    /// The exit codes or HTTP statuses after which a failed attempt is never retried. No code is in
    /// both `on` and `never_on`.
    pub never_on: BTreeSet<u16>,
}

/// The growth of the wait between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backoff {
    /// The wait is always `delay`.
    Fixed,
    /// The wait is `delay` times the number of failed attempts.
    Linear,
    /// The wait is `delay`, doubled with each failed attempt.
    Exponential,
}

/// The rule for a run that becomes due while an earlier regular run of its job is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// The due run is skipped, with the reason `overlap`.
    Skip,
    /// The due run waits for the open run to end. If `max` runs wait already, the due run is
    /// skipped, with the reason `overlap`.
    Queue {
        /// The maximum number of waiting runs, at least 1.
        max: u32,
    },
    /// The open run is stopped. The due run starts when the open run has ended.
    Replace,
    /// The due run starts at once. Both runs execute at the same time.
    Allow,
}

/// The rule that decides if another attempt follows an attempt whose end is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Another attempt starts, because the job tolerates that its work is done twice.
    AtLeastOnce,
    /// No other attempt starts. The run ends with the state `lost`.
    AtMostOnce,
}

impl Default for RetryRule {
    fn default() -> Self {
        Self {
            limit: 0,
            delay: Duration::from_secs(10),
            backoff: Backoff::Exponential,
            max_delay: Duration::from_secs(3600),
            jitter: true,
            on: BTreeSet::new(),
            never_on: BTreeSet::new(),
        }
    }
}

/// Returns the first gate in the definition of a job: its group, a job of `not_while`, or its key.
/// Returns `None` if the definition has no gate.
pub fn first_gate(spec: &JobSpec) -> Option<Gate> {
    let of_group = spec.group.as_ref().map(Gate::of_group);
    of_group
        .or_else(|| spec.not_while.first().map(Gate::of_job))
        .or_else(|| spec.key.as_ref().map(Gate::of_key))
}

/// Returns the gates that a run of `job` must pass, in the order in which the run passes them.
/// `is_gated` is true if another job names `job` in `not_while`, so the gate of `job` itself is
/// added.
pub fn gates_of(job: &JobName, spec: &JobSpec, is_gated: bool) -> Vec<Gate> {
    let group = spec.group.as_ref().map(Gate::of_group);
    let mut jobs: BTreeSet<JobName> = spec.not_while.clone();
    if is_gated {
        jobs.insert(job.defined());
    }
    let key = spec.key.as_ref().map(Gate::of_key);
    group.into_iter().chain(jobs.iter().map(Gate::of_job)).chain(key).collect()
}

/// Returns the entry of the index `job_gates` for a job with a gate: `LANE GATE JOB`.
pub fn gated_entry(job: &JobName, lane: &Lane, gate: &Gate) -> String {
    format!("{lane} {} {job}", gate.as_str())
}

impl JobSpec {
    /// Returns a definition with this schedule and action. All other keys have their defaults.
    pub fn with_defaults(schedule: Schedule, action: Action) -> Self {
        Self {
            schedule,
            shape: Shape::default(),
            tz: None,
            dst: ClockChanges::default(),
            action,
            queue: QueueName::default_queue(),
            priority: Priority::default(),
            requires: BTreeSet::new(),
            on: NodeChoice::Anywhere,
            tags: Tags::new(),
            max_parallel: None,
            key: None,
            per_key: PerKey::default(),
            not_while: BTreeSet::new(),
            group: None,
            timeout: Duration::from_secs(3600),
            kill_grace: Duration::from_secs(5),
            next_within: Duration::from_secs(86_400),
            retry: RetryRule::default(),
            overlap: Overlap::Skip,
            catch_up: CatchUp::default(),
            late_after: Duration::from_secs(60),
            delivery: Delivery::AtLeastOnce,
            done_check: None,
            unique: None,
            traceparent: None,
            notices: BTreeMap::new(),
            ping_url: None,
            must_start_within: None,
            must_finish_within: None,
            webhook_secrets: Vec::new(),
            env: BTreeMap::new(),
            env_files: Vec::new(),
            log_output: false,
            cwd: None,
            process: ProcessRules::default(),
        }
    }

    /// Returns the text that places the job `name` on a shard if its queue is spread: the concurrency
    /// key, else the unique key, else the name. Returns `None` for a job that stays at home: a
    /// recurring job, and a job with rules about other jobs. `is_delayed` is true for a job whose
    /// only run has a delay from the add.
    pub fn placed_by<'a>(&'a self, name: &'a JobName, is_delayed: bool) -> Option<&'a str> {
        let is_once = is_delayed || matches!(self.schedule, Schedule::At(_));
        let is_alone = self.group.is_none() && self.not_while.is_empty() && !self.is_on_each_node();
        let key = self.key.as_ref().map(SharedKey::as_str);
        let unique = self.unique.as_ref().map(|unique| unique.key.as_str());
        (is_once && is_alone).then(|| key.or(unique).unwrap_or(name.as_str()))
    }

    /// Returns the parts of the job that start processes: attempts, `done_check` or notices.
    pub fn started(&self) -> Started {
        Started::of(&self.action, self.done_check.as_ref(), self.notices.values())
    }

    /// Returns the overlap rule of a run that is not missed: the rule in `overlap`. With the unique
    /// mode `debounce`, `skip` becomes `queue`, so that the run of the last add is not skipped
    /// while an earlier run is open.
    pub fn overlap_on_time(&self) -> Overlap {
        let is_debounced = self.unique.as_ref().is_some_and(|unique| unique.second.is_debounce());
        if is_debounced && self.overlap == Overlap::Skip {
            Overlap::Queue { max: 1 }
        } else {
            self.overlap
        }
    }

    /// Returns the lane of the job's runs: its queue, priority and required labels, and the shard
    /// of its first gate. Jobs on each node have a lane of their own.
    pub fn lane(&self) -> Lane {
        if self.is_on_each_node() {
            return Lane::of_each_node();
        }
        self.lane_in(self.queue.clone())
    }

    /// Returns the lane that the job's runs would have if the job were in the queue `queue`.
    pub fn lane_in(&self, queue: QueueName) -> Lane {
        let lane = Lane::new(queue, self.priority, self.requires.clone());
        let lane = match self.action.handler() {
            // A worker runs on no node, so nodes of `[defaults]` mean the other jobs.
            Some(handler) => lane.for_handler(Some(handler.clone())),
            None => lane.on(&self.on),
        };
        match first_gate(self) {
            Some(first) => lane.shard_for(&first),
            None => lane,
        }
    }

    /// Returns the entry of the index `job_gates` for this job: `LANE GATE JOB`, with the job's
    /// first gate. Returns `None` if the job has no gates. A job on each node has an entry with the
    /// gate of the job, so that each node finds the job.
    pub fn gated_entry(&self, job: &JobName, lane: &Lane) -> Option<String> {
        let of_each_node = self.is_on_each_node().then(|| Gate::of_job(job));
        of_each_node.or_else(|| first_gate(self)).map(|gate| gated_entry(job, lane, &gate))
    }

    /// Returns the overlap rule of a backfill run: `allow` if the job has this rule, else `queue`
    /// without a maximum. So no backfill run is skipped.
    pub fn overlap_when_backfilled(&self) -> Overlap {
        if self.overlap == Overlap::Allow {
            Overlap::Allow
        } else {
            Overlap::Queue { max: u32::MAX }
        }
    }

    /// Returns the overlap rule of a missed run. With the catch-up mode `all`, `skip` becomes
    /// `queue`, because missed runs become due at the same time and would skip each other. For the
    /// same reason, `queue` then has room for all missed runs. In all other cases, the rule is the
    /// rule of a run that is not missed.
    pub fn overlap_when_missed(&self) -> Overlap {
        match (self.overlap_on_time(), self.catch_up.mode) {
            (Overlap::Skip, CatchUpMode::All) => Overlap::Queue { max: self.catch_up.max_count },
            (Overlap::Queue { max }, CatchUpMode::All) => {
                Overlap::Queue { max: max.max(self.catch_up.max_count) }
            }
            (other, _) => other,
        }
    }

    /// Returns true for a job that has an instance on each node, and no runs of its own.
    pub fn is_on_each_node(&self) -> bool {
        self.on == NodeChoice::EachNode
    }

    /// Returns the definition of the instance of this job, called `job`, on `node`. With
    /// `max_parallel`, the instances share a concurrency key.
    #[must_use]
    pub fn instance_on(&self, job: &JobName, node: &NodeName) -> Self {
        let mut instance = Self {
            on: NodeChoice::Nodes([node.clone()].into()),
            max_parallel: None,
            ..self.clone()
        };
        if let Some(most) = self.max_parallel {
            instance.key = parallel_key(job);
            instance.per_key = PerKey { limit: Some(most), rate: None };
        }
        instance
    }
}

/// Returns the concurrency key that the instances of `job` share. A slash keeps the key apart from
/// most keys that users choose.
fn parallel_key(job: &JobName) -> Option<SharedKey> {
    format!("{EACH_NODE}/{job}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_the_lane_of_its_node_and_shares_the_key_of_its_job() {
        let (job, node) = ("clean".parse().unwrap(), "web1".parse().unwrap());
        let mut spec = JobSpec::with_defaults(Schedule::Manual, Action::Shell("true".to_owned()));
        spec.on = NodeChoice::EachNode;
        assert!(spec.is_on_each_node() && spec.lane().queue().is_of_host());
        let instance = spec.instance_on(&job, &node);
        assert_eq!((instance.lane().as_str(), instance.key), ("default=web1", None));
        spec.max_parallel = Some(2);
        let rolling = spec.instance_on(&job, &node);
        assert_eq!(rolling.key.unwrap().as_str(), "each-node/clean");
        assert_eq!((rolling.per_key.limit, rolling.max_parallel), (Some(2), None));
    }
}
