//! The definition of a job: what it runs, when, and by which rules, as checked values.
//!
//! `config::compile` makes it from a table of `jobs.toml`, a JSON line or the flags of
//! `schedctl add`. `config::surface` writes it back: the text kept in Redis has the same keys as
//! `[jobs.X]`. No value here can be out of its bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::env_file::EnvFile;
use super::notice::NoticeKind;
use super::process_rules::{ProcessRules, Started};
use super::unique_rule::Unique;
use super::webhook::SigningSecret;
use crate::domain::name::names::{GroupName, JobName, Label, QueueName};
use crate::domain::queue::gate;
use crate::domain::queue::gate::{PerKey, SharedKey};
use crate::domain::queue::lane::{Lane, Priority};
use crate::domain::schedule::clock_changes::ClockChanges;
use crate::domain::schedule::schedule_form::Schedule;
use crate::domain::schedule::schedule_modifiers::Shape;
use crate::domain::time::zone::ZoneName;

/// A job's definition, without its name.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    /// The schedule.
    pub schedule: Schedule,
    /// The modifiers of the schedule: which of its times count, and how its runs are moved.
    pub shape: Shape,
    /// The zone that the job's own text or `[defaults]` names. `None` means the zone stored with
    /// the job at its first apply.
    pub tz: Option<ZoneName>,
    /// The rule for changes of the clock in that zone.
    pub dst: ClockChanges,
    /// The action of an attempt.
    pub action: Action,
    /// The queue of the job's runs.
    pub queue: QueueName,
    /// The priority of the job's runs within the queue.
    pub priority: Priority,
    /// The labels that a node must have to run the job. At most 8.
    pub requires: BTreeSet<Label>,
    /// The concurrency key. It limits the runs of all jobs with this key together.
    pub key: Option<SharedKey>,
    /// The limits of the key. The default if the job has no key.
    pub per_key: PerKey,
    /// The jobs beside which the job may not run, whichever started first. At most 16.
    pub not_while: BTreeSet<JobName>,
    /// The group whose members share a single place.
    pub group: Option<GroupName>,
    /// The maximum time of an attempt. 100 ms to 30 days.
    pub timeout: Duration,
    /// The time after TERM at which the rest of the process tree gets KILL. 0 to 1 hour.
    pub kill_grace: Duration,
    /// The rule for retries of failed attempts.
    pub retry: RetryRule,
    /// The rule for a run that becomes due while another run of the job is open.
    pub overlap: Overlap,
    /// The rule for occurrences that nobody could start in time.
    pub catch_up: CatchUp,
    /// The age of a run at its claim from which it counts as missed. 1 s to 365 days.
    pub late_after: Duration,
    /// The assumption when the end of an attempt is unknown.
    pub delivery: Delivery,
    /// The check before an attempt whether its work is already done.
    pub done_check: Option<DoneCheck>,
    /// The unique key of an added job, and the rule for a second add with that key.
    pub unique: Option<Unique>,
    /// The actions that deliver notifications about the job's runs.
    pub notices: BTreeMap<NoticeKind, Action>,
    /// The address of a service to ping about the job's runs, in the form of healthchecks.io.
    /// `{job}` in the address is the placeholder for the job's name.
    pub ping_url: Option<String>,
    /// The time after its due time within which a scheduled run must have started; else a notice is
    /// sent. 1 s to 365 days.
    pub must_start_within: Option<Duration>,
    /// The time after its due time within which a scheduled run must have ended; else a notice is
    /// sent. 1 s to 365 days.
    pub must_finish_within: Option<Duration>,
    /// The secrets that sign the job's requests and notices. At most 4.
    pub webhook_secrets: Vec<SigningSecret>,
    /// Variables added to the small fixed environment. Names are `[A-Za-z_][A-Za-z0-9_]*`. Values
    /// contain no NUL, and name secrets only by [`reference`](crate::domain::job::secret_reference).
    pub env: BTreeMap<String, String>,
    /// Environment files that the node reads at each attempt. Variables in `env` override them. At
    /// most 16.
    pub env_files: Vec<EnvFile>,
    /// True if each line of output also goes into the log of the node.
    pub log_output: bool,
    /// The directory in which a process starts. `None` means the home of the process's user.
    pub cwd: Option<PathBuf>,
    /// The rules for the job's processes. A rule without effect on this job has its default.
    pub process: ProcessRules,
}

/// The action of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Runs a program without a shell. There is at least one word, the first is not empty, and none
    /// has a NUL.
    Command(Vec<String>),
    /// Runs a line with `/bin/sh -c`, or with another shell. The line is not blank and has no NUL.
    Shell(String),
    /// Makes an HTTP request.
    Http(HttpRequest),
}

/// The request of an `http` job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method in upper case. The default is GET, or POST with a body.
    pub method: String,
    /// An absolute `http` or `https` URL with a host and without a user or password, after its
    /// credentials are inserted. At most 8 KiB.
    pub url: String,
    /// Header fields in the order of their names. They contain no CR, LF or NUL.
    pub headers: BTreeMap<String, String>,
    /// The body. Empty means none.
    pub body: String,
    /// The statuses that count as success. Empty means any 2xx.
    pub expect: Vec<u16>,
    /// The maximum number of redirects to follow. With 0 a redirect is an answer like any other.
    pub redirects: u8,
}

/// The rule for retries of failed attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryRule {
    /// The number of attempts after the first. 0 to 1,000.
    pub limit: u32,
    /// The wait before the first retry. 0 to 30 days.
    pub delay: Duration,
    /// The growth of the wait.
    pub backoff: Backoff,
    /// The maximum wait.
    pub max_delay: Duration,
    /// True if each wait is drawn between its half and its whole, so that many failed runs do not
    /// retry at the same time.
    pub jitter: bool,
    /// The codes of failed attempts that allow a retry. Empty means any. 1 to 599, as documented
    /// for `retry`.
    pub on: BTreeSet<u16>,
    /// The codes of failed attempts that forbid a retry. No code is in both `on` and `never_on`.
    pub never_on: BTreeSet<u16>,
}

/// The growth of the wait between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backoff {
    /// The wait is always `delay`.
    Fixed,
    /// The wait is `delay` times the number of failures.
    Linear,
    /// The wait is `delay`, doubled with each failure.
    Exponential,
}

/// The rule for a due run while an earlier regular run of its job is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// The run ends `skipped` (overlap).
    Skip,
    /// The run waits for the open run to end. Waiting runs beyond `max` end `skipped` (overlap).
    Queue {
        /// The maximum number of waiting runs, at least 1.
        max: u32,
    },
    /// The run asks the open run to stop and waits in its place.
    Replace,
    /// The run starts beside the open run.
    Allow,
}

/// The rule for missed occurrences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatchUp {
    /// The choice of the missed occurrences that run.
    pub mode: CatchUpMode,
    /// The age from which an occurrence is skipped whatever the mode. At least 1 s.
    pub max_age: Option<Duration>,
    /// The maximum number of occurrences that run with [`CatchUpMode::All`], the newest. 1 to
    /// 100,000.
    pub max_count: u32,
    /// The time over which the missed runs are spread, instead of all at once. More than 0, at most
    /// a day.
    pub spread: Option<Duration>,
}

/// The choice of the missed occurrences that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUpMode {
    /// No missed occurrence runs.
    Skip,
    /// The newest missed occurrence runs.
    Latest,
    /// Each missed occurrence runs, the oldest first.
    All,
}

/// The assumption when the end of an attempt is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The run is tried again: the job tolerates a second start.
    AtLeastOnce,
    /// The run never starts twice: it ends `lost`.
    AtMostOnce,
}

/// A check before an attempt, made under the run's own lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneCheck {
    /// The command or request. Exit code 0 or an expected status means done; 1, 404 or 410 means
    /// not done.
    pub question: Action,
    /// The attempts before which the check is made.
    pub on: AskedOn,
    /// The maximum time for the answer. 100 ms to 1 hour.
    pub timeout: Duration,
}

/// The attempts before which a `done_check` is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedOn {
    /// All attempts except the attempt of the run's very first claim.
    Retry,
    /// All attempts.
    Always,
}

impl Action {
    /// Returns true if the action is a process, and not a request.
    pub fn starts_process(&self) -> bool {
        match self {
            Self::Command(_) | Self::Shell(_) => true,
            Self::Http(_) => false,
        }
    }
}

impl HttpRequest {
    /// A POST request without a body.
    pub fn post(url: String) -> Self {
        Self { method: "POST".to_owned(), url, headers: BTreeMap::new(), body: String::new(), expect: Vec::new(), redirects: 0 }
    }

    /// Returns true if an answer with this status counts as success.
    pub fn expects(&self, status: u16) -> bool {
        if self.expect.is_empty() { (200..300).contains(&status) } else { self.expect.contains(&status) }
    }
}

impl DoneCheck {
    /// The default maximum time for the answer.
    pub const TIMEOUT: Duration = Duration::from_secs(60);
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

impl Default for CatchUp {
    fn default() -> Self {
        Self { mode: CatchUpMode::Latest, max_age: None, max_count: 1_000, spread: None }
    }
}

/// Formats the entry for a gate that the runs of `job` have to pass before they start in `lane`:
/// `LANE GATE JOB`.
pub fn gated_entry(job: &JobName, lane: &Lane, gate: &gate::Gate) -> String {
    format!("{lane} {} {job}", gate.as_str())
}

impl JobSpec {
    /// The definition with the default rules (design: defaults), around `schedule` and `action`.
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
            key: None,
            per_key: PerKey::default(),
            not_while: BTreeSet::new(),
            group: None,
            timeout: Duration::from_secs(3600),
            kill_grace: Duration::from_secs(5),
            retry: RetryRule::default(),
            overlap: Overlap::Skip,
            catch_up: CatchUp::default(),
            late_after: Duration::from_secs(60),
            delivery: Delivery::AtLeastOnce,
            done_check: None,
            unique: None,
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

    /// Returns which parts of the job start processes.
    pub fn started(&self) -> Started {
        Started::of(&self.action, self.done_check.as_ref(), self.notices.values())
    }

    /// The overlap rule of a run on time. If the job is debounced, a run requested by a burst waits
    /// for the previous run instead of being skipped.
    pub fn overlap_on_time(&self) -> Overlap {
        let is_debounced = self.unique.as_ref().is_some_and(|unique| unique.second.is_debounce());
        if is_debounced && self.overlap == Overlap::Skip { Overlap::Queue { max: 1 } } else { self.overlap }
    }

    /// The lane in which the job's runs are due.
    pub fn lane(&self) -> Lane {
        self.lane_in(self.queue.clone())
    }

    /// The lane in which the job's runs are due in another queue.
    pub fn lane_in(&self, queue: QueueName) -> Lane {
        let lane = Lane::new(queue, self.priority, self.requires.clone());
        match gate::first_gate(self) {
            Some(first) => lane.strand_for(&first),
            None => lane,
        }
    }

    /// Formats the entry for the first gate that the runs of `job` have to pass before they start
    /// in `lane`: `LANE GATE JOB`. Returns `None` if the job has no gates.
    pub fn gated_entry(&self, job: &JobName, lane: &Lane) -> Option<String> {
        gate::first_gate(self).map(|gate| gated_entry(job, lane, &gate))
    }

    /// The overlap rule of a backfill run. The run waits for open runs; it is not skipped because
    /// of them and does not stop them.
    pub fn overlap_when_backfilled(&self) -> Overlap {
        if self.overlap == Overlap::Allow { Overlap::Allow } else { Overlap::Queue { max: u32::MAX } }
    }

    /// The overlap rule of a missed run. If each missed occurrence is to run, none is skipped only
    /// because they all come at once.
    pub fn overlap_when_missed(&self) -> Overlap {
        match (self.overlap_on_time(), self.catch_up.mode) {
            (Overlap::Skip, CatchUpMode::All) => Overlap::Queue { max: self.catch_up.max_count },
            (Overlap::Queue { max }, CatchUpMode::All) => Overlap::Queue { max: max.max(self.catch_up.max_count) },
            (other, _) => other,
        }
    }
}
