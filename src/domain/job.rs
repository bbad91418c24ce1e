//! A job: what is to be done, when, and by which rules, as checked values.
//!
//! Made by `config::compile` from a table of `jobs.toml`, a JSON line or the flags of `schedctl add`, and written back
//! by `config::surface`: the text kept in Redis has the same keys as `[jobs.X]`. Nothing in here can be out of its bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::clock_changes::ClockChanges;
use super::env_file::EnvFile;
use super::gate::{self, PerKey, SharedKey};
use super::ids::{GroupName, JobName, Label, QueueName};
use super::lane::{Lane, Priority};
use super::notice::NoticeKind;
use super::process::{ProcessRules, Started};
use super::schedule::Schedule;
use super::shape::Shape;
use super::unique::Unique;
use super::webhook::SigningSecret;
use super::zone::ZoneName;

/// A job's definition, without its name.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    /// When it runs.
    pub schedule: Schedule,
    /// Which of its times count, and how its runs are moved.
    pub shape: Shape,
    /// The zone its own text or `[defaults]` names; none = the zone stored with the job at its first apply.
    pub tz: Option<ZoneName>,
    /// What it does when the clocks of that zone change.
    pub dst: ClockChanges,
    /// What is done.
    pub action: Action,
    /// The pool it runs in.
    pub queue: QueueName,
    /// How urgent its runs are among those of its queue.
    pub priority: Priority,
    /// What a node has to carry that runs it. At most 8.
    pub requires: BTreeSet<Label>,
    /// What it shares a key with others for: so many runs of that key at once, or in a time.
    pub key: Option<SharedKey>,
    /// How many; as by default without a key.
    pub per_key: PerKey,
    /// The jobs it is not to run beside, whichever began. At most 16.
    pub not_while: BTreeSet<JobName>,
    /// The group it shares a single place with.
    pub group: Option<GroupName>,
    /// How long one attempt may take. 100 ms to 30 days.
    pub timeout: Duration,
    /// How long after TERM the rest of the tree gets KILL. 0 to 1 hour.
    pub kill_grace: Duration,
    /// What follows a failed attempt.
    pub retry: Retry,
    /// What a due run does while an earlier one is open.
    pub overlap: Overlap,
    /// What becomes of occurrences nobody could start in time.
    pub catch_up: CatchUp,
    /// Past this age at its claim a run counts as missed. 1 s to 365 days.
    pub late_after: Duration,
    /// What may be assumed when an attempt's end is unknown.
    pub delivery: Delivery,
    /// What is asked before an attempt: whether its work is already done.
    pub done_check: Option<DoneCheck>,
    /// What it is the only one of, of a job that was added.
    pub unique: Option<Unique>,
    /// What is done to tell people of its runs.
    pub notices: BTreeMap<NoticeKind, Action>,
    /// Where a service is pinged of its runs, in the form of healthchecks.io; `{job}` in it stands for the job's name.
    pub ping_url: Option<String>,
    /// How long after it was due a scheduled run is to have started, or somebody is told. 1 s to 365 days.
    pub must_start_within: Option<Duration>,
    /// How long after it was due a scheduled run is to have ended, or somebody is told. 1 s to 365 days.
    pub must_finish_within: Option<Duration>,
    /// What signs its requests and those that tell of its runs. At most 4.
    pub webhook_secrets: Vec<SigningSecret>,
    /// Variables added to the small fixed environment. Names are `[A-Za-z_][A-Za-z0-9_]*`; values hold no NUL, and secrets only by
    /// [`reference`](super::reference).
    pub env: BTreeMap<String, String>,
    /// Files of more variables, read by the node at each attempt; `env` beats them. At most 16.
    pub env_files: Vec<EnvFile>,
    /// Whether each line it writes goes into the log of its node too.
    pub log_output: bool,
    /// The directory a process starts in; none = the home of the user it runs as.
    pub cwd: Option<PathBuf>,
    /// How its processes are started; as by default where nothing it starts obeys a rule.
    pub process: ProcessRules,
}

/// What an attempt does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Runs a program without a shell. At least one word, the first not empty, no NUL in any.
    Command(Vec<String>),
    /// Runs a line by `/bin/sh -c`, or by another shell. Not blank, no NUL.
    Shell(String),
    /// Makes an HTTP request.
    Http(HttpRequest),
}

/// The request of an `http` job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, upper case; GET unless given (POST with a body).
    pub method: String,
    /// An absolute `http` or `https` URL with a host and without a user or password, once its credentials are in; at most 8 KiB.
    pub url: String,
    /// Header fields in the order of their names; no CR, LF or NUL in them.
    pub headers: BTreeMap<String, String>,
    /// The body; empty = none.
    pub body: String,
    /// The statuses that count as success; empty = any 2xx.
    pub expect: Vec<u16>,
    /// How many redirects are followed; 0 = a redirect is an answer like any other.
    pub redirects: u8,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Attempts after the first. 0 to 1,000.
    pub limit: u32,
    /// The wait before the first retry. 0 to 30 days.
    pub delay: Duration,
    /// How the wait grows.
    pub backoff: Backoff,
    /// The longest wait.
    pub max_delay: Duration,
    /// Whether each wait is drawn between its half and its whole, so that failures do not come back together.
    pub jitter: bool,
    /// The codes of failed attempts after which there is another; empty = any. 1 to 599, as `retry` says.
    pub on: BTreeSet<u16>,
    /// The codes after which there is none; none of them is in `on`.
    pub never_on: BTreeSet<u16>,
}

/// How the wait between attempts grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backoff {
    /// Always `delay`.
    Fixed,
    /// `delay` times the number of failures.
    Linear,
    /// `delay` doubled with each failure.
    Exponential,
}

/// What a due run does while an earlier regular run of its job is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// It ends `skipped` (overlap).
    Skip,
    /// It waits for the open one to end; of those past `max` waiting each ends `skipped` (overlap).
    Queue {
        /// How many may wait, at least 1.
        max: u32,
    },
    /// It asks the open one to stop and waits in its place.
    Replace,
    /// It runs beside it.
    Allow,
}

/// What becomes of missed occurrences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatchUp {
    /// Which of them run.
    pub mode: CatchUpMode,
    /// Occurrences older than this are skipped whatever the mode. At least 1 s.
    pub max_age: Option<Duration>,
    /// With [`CatchUpMode::All`]: only so many of the newest run. 1 to 100,000.
    pub max_count: u32,
    /// Those that run start within this time instead of all at once. More than 0, at most a day.
    pub spread: Option<Duration>,
}

/// Which missed occurrences run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUpMode {
    /// None.
    Skip,
    /// The newest.
    Latest,
    /// Each, oldest first.
    All,
}

/// What may be assumed when an attempt's end is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Try again: the job is able to bear a second start.
    AtLeastOnce,
    /// Never start it twice: it ends `lost`.
    AtMostOnce,
}

/// A question asked before an attempt, in the run's own lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneCheck {
    /// What is run or requested to learn it: exit code 0 or an expected status = done, 1 or 404 or 410 = not done.
    pub question: Action,
    /// Before which attempts.
    pub on: AskedOn,
    /// How long the answer may take. 100 ms to 1 hour.
    pub timeout: Duration,
}

/// Before which attempts a `done_check` is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedOn {
    /// All but the one of the run's very first claim.
    Retry,
    /// Each.
    Always,
}

impl Action {
    /// Whether it is a process, and not a request.
    pub fn starts_process(&self) -> bool {
        match self {
            Self::Command(_) | Self::Shell(_) => true,
            Self::Http(_) => false,
        }
    }
}

impl HttpRequest {
    /// A POST without a body of its own.
    pub fn post(url: String) -> Self {
        Self { method: "POST".to_owned(), url, headers: BTreeMap::new(), body: String::new(), expect: Vec::new(), redirects: 0 }
    }

    /// Whether an answer of this status counts as success.
    pub fn expects(&self, status: u16) -> bool {
        if self.expect.is_empty() { (200..300).contains(&status) } else { self.expect.contains(&status) }
    }
}

impl DoneCheck {
    /// How long the answer may take where nothing else is said.
    pub const TIMEOUT: Duration = Duration::from_secs(60);
}

impl Default for Retry {
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

/// How `job` is listed with a gate its runs have to pass before they start in `lane`: `LANE GATE JOB`.
pub fn gated_entry(job: &JobName, lane: &Lane, gate: &gate::Gate) -> String {
    format!("{lane} {} {job}", gate.as_str())
}

impl JobSpec {
    /// The rules a job has when its text names none (design: defaults), around `schedule` and `action`.
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
            retry: Retry::default(),
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

    /// What of it starts processes.
    pub fn started(&self) -> Started {
        Started::of(&self.action, self.done_check.as_ref(), self.notices.values())
    }

    /// The overlap rule of a run on time. One a burst asked for while the one before runs waits for it, and is not dropped.
    pub fn overlap_on_time(&self) -> Overlap {
        let is_debounced = self.unique.as_ref().is_some_and(|unique| unique.second.is_debounce());
        if is_debounced && self.overlap == Overlap::Skip { Overlap::Queue { max: 1 } } else { self.overlap }
    }

    /// The lane its runs are due in.
    pub fn lane(&self) -> Lane {
        self.lane_in(self.queue.clone())
    }

    /// The lane of another queue its runs are due in.
    pub fn lane_in(&self, queue: QueueName) -> Lane {
        let lane = Lane::new(queue, self.priority, self.requires.clone());
        match gate::first_gate(self) {
            Some(first) => lane.strand_for(&first),
            None => lane,
        }
    }

    /// How `job` is listed with the first gate its runs have to pass before they start in `lane`: `LANE GATE JOB`; none without gates.
    pub fn gated_entry(&self, job: &JobName, lane: &Lane) -> Option<String> {
        gate::first_gate(self).map(|gate| gated_entry(job, lane, &gate))
    }

    /// The overlap rule of a backfill run: it waits for what is open, and is neither dropped for that nor stops it.
    pub fn overlap_when_backfilled(&self) -> Overlap {
        if self.overlap == Overlap::Allow { Overlap::Allow } else { Overlap::Queue { max: u32::MAX } }
    }

    /// The overlap rule of a missed run. Of those that are each to run none is dropped because they come all at once.
    pub fn overlap_when_missed(&self) -> Overlap {
        match (self.overlap_on_time(), self.catch_up.mode) {
            (Overlap::Skip, CatchUpMode::All) => Overlap::Queue { max: self.catch_up.max_count },
            (Overlap::Queue { max }, CatchUpMode::All) => Overlap::Queue { max: max.max(self.catch_up.max_count) },
            (other, _) => other,
        }
    }
}
