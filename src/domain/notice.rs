//! Notices: what people are told of a job's runs. A notice is a run of a hidden job, `JOB/on_failure`, which no job of people can
//! be called.
//!
//! Where what lives: `prelude.lua` notes in `notices` that somebody is to be told, in the step that writes an end (add before
//! remove, nothing else is decided there); any node's `engine::teller` makes a run of it by `plant_notice.lua`, which writes the
//! hidden job from the definition its own has by then; each attempt does as that says by then (`engine::telling`). From there on it is a run like others: claimed, retried, recorded, a dead
//! letter in the end. `engine::telling` gives it what it tells.
//!
//! Invariant: the id of a notice comes from the run, its kind and what befell the run, so each is planted once however often it
//! is asked for, and a receiver knows a repeated one by it. A hidden job asks for no notices.

use std::fmt;
use std::time::Duration;

use super::ids::{IdError, JobName, RunId};
use super::job::{Action, Backoff, HttpRequest, JobSpec, Overlap, Retry};
use super::limits::Limits;
use super::process::ProcessRules;
use super::schedule::Schedule;

/// Of what people are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    /// A run became a dead letter.
    Failure,
    /// A run succeeded.
    Success,
    /// A run started late, or was skipped as missed.
    Late,
    /// A run succeeded after one that failed.
    Recovered,
    /// A run ended: a ping for a service that watches from outside.
    Ping,
}

impl NoticeKind {
    /// Those a job asks for by an action each.
    pub const ASKED: [Self; 4] = [Self::Failure, Self::Recovered, Self::Success, Self::Late];
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Failure, Self::Recovered, Self::Success, Self::Late, Self::Ping];

    /// The word for it; of those asked for, the key of a job that asks.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failure => "on_failure",
            Self::Success => "on_success",
            Self::Late => "on_late",
            Self::Recovered => "on_recovered",
            Self::Ping => "ping",
        }
    }

    /// The kind of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// By when something is to have befallen a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deadline {
    /// It is to have started.
    Start,
    /// It is to have ended.
    Finish,
}

impl Deadline {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Start, Self::Finish];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Finish => "finish",
        }
    }

    /// That of a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|deadline| deadline.as_str() == word)
    }

    /// What the run has not done when it is missed.
    pub fn past(self) -> &'static str {
        match self {
            Self::Start => "started",
            Self::Finish => "ended",
        }
    }
}

/// How often a notice is tried, how long apart, and how long one try may take.
const RETRIES: u32 = 5;
const RETRY_DELAY: Duration = Duration::from_secs(10);
const LONGEST_DELAY: Duration = Duration::from_secs(600);
const TIMEOUT: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// What the stamp of a notice begins with that tells of those that were only counted; behind it, when the first of them was.
const REST: &str = "rest";

/// Letters of the word behind a notice's id.
const WORD_LEN: usize = 12;

/// The id of the notice of `kind` of what befell `about`; `stamp` tells two things that befell one run apart.
pub fn notice_id(about: &RunId, kind: NoticeKind, stamp: &str) -> Result<RunId, IdError> {
    let word = sha1_smol::Sha1::from(format!("{about}|{stamp}")).digest().to_string();
    RunId::manual(JobName::of_notice(about.job(), kind), about.due(), word.get(..WORD_LEN).unwrap_or_default())
}

/// Whether a notice of this stamp tells of those that were only counted.
pub fn is_of_rest(stamp: &str) -> bool {
    stamp.starts_with(REST)
}

/// An entry of `notices`, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The run it tells of; of one that tells of those only counted the first of them.
    pub about: RunId,
    /// Why people are told.
    pub kind: NoticeKind,
    /// The run that tells it.
    pub run: RunId,
    /// Whether it tells of those that were only counted.
    pub is_of_rest: bool,
}

/// An entry of `notices`; none if it is no such entry.
pub fn read_notice(entry: &[u8]) -> Option<Entry> {
    let told: serde_json::Value = serde_json::from_slice(entry).ok()?;
    let about: RunId = told["run"].as_str()?.parse().ok()?;
    let kind = NoticeKind::parse(told["kind"].as_str()?)?;
    let stamp = told["stamp"].as_str()?;
    let run = notice_id(&about, kind, stamp).ok()?;
    Some(Entry { about, kind, run, is_of_rest: is_of_rest(stamp) })
}

/// The hidden job whose runs are the notices of `kind` of a job; none if that wants nobody told.
pub fn notice_job(told: &JobSpec, kind: NoticeKind) -> Option<JobSpec> {
    let action = match kind {
        NoticeKind::Ping => Action::Http(HttpRequest::post(told.ping_url.clone()?)),
        NoticeKind::Failure | NoticeKind::Success | NoticeKind::Late | NoticeKind::Recovered => told.notices.get(&kind)?.clone(),
    };
    let mut spec = JobSpec::with_defaults(Schedule::Manual, action);
    spec.queue = super::ids::QueueName::of_notices();
    spec.overlap = Overlap::Allow;
    spec.timeout = if kind == NoticeKind::Ping { PING_TIMEOUT } else { TIMEOUT };
    spec.retry =
        Retry { limit: RETRIES, delay: RETRY_DELAY, backoff: Backoff::Exponential, max_delay: LONGEST_DELAY, ..Retry::default() };
    spec.env.clone_from(&told.env);
    spec.env_files.clone_from(&told.env_files);
    spec.cwd.clone_from(&told.cwd);
    // What the work reads, and what it is held to, is not for telling of it.
    spec.process = ProcessRules { stdin: None, limits: Limits::default(), ..told.process.clone() }.obeyed_by(spec.started());
    if kind != NoticeKind::Ping {
        spec.webhook_secrets.clone_from(&told.webhook_secrets);
    }
    Some(spec)
}

/// What the scripts know of whom a job wants told: the words of the kinds, and after how many ms from its due time a start is late, and a run is to have started and ended;
/// empty if nobody.
pub fn tells(spec: &JobSpec, name: &JobName) -> String {
    let mut words: Vec<String> = spec.notices.keys().map(|kind| kind.as_str().to_owned()).collect();
    if spec.ping_url.is_some() {
        words.push(NoticeKind::Ping.as_str().to_owned());
    }
    let mut timed = |word: &str, within: Duration| {
        words.push(format!("{word}={}", within.saturating_add(spec.shape.latest_shift(name)).as_millis()));
    };
    if spec.notices.contains_key(&NoticeKind::Late) {
        timed("late", spec.must_start_within.unwrap_or(spec.late_after));
    }
    if let Some(within) = spec.must_start_within {
        timed(Deadline::Start.as_str(), within);
    }
    if let Some(within) = spec.must_finish_within {
        timed(Deadline::Finish.as_str(), within);
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_has_one_id_for_what_befell_a_run() {
        let about: RunId = "backup@1790000000000".parse().unwrap();
        let id = notice_id(&about, NoticeKind::Failure, "7").unwrap();
        assert_eq!(id.job().as_str(), "backup/on_failure");
        assert_eq!(
            id.job().told_of().map(|(job, kind)| (job.to_string(), kind)),
            Some(("backup".to_owned(), NoticeKind::Failure))
        );
        assert_eq!(id, notice_id(&about, NoticeKind::Failure, "7").unwrap());
        assert_eq!(id.to_string().parse::<RunId>(), Ok(id.clone()));
        for other in [
            notice_id(&about, NoticeKind::Failure, "8"),
            notice_id(&about, NoticeKind::Success, "7"),
            notice_id(&"backup@1790000000000~x".parse().unwrap(), NoticeKind::Failure, "7"),
        ] {
            assert_ne!(other.unwrap(), id);
        }
    }

    #[test]
    fn a_hidden_job_tells_nobody_and_waits_in_a_queue_every_node_serves() {
        let mut told = JobSpec::with_defaults(Schedule::Manual, Action::Shell("true".to_owned()));
        let name: JobName = "a".parse().unwrap();
        assert_eq!((notice_job(&told, NoticeKind::Late), tells(&told, &name)), (None, String::new()));
        told.notices.insert(NoticeKind::Late, Action::Shell("mail".to_owned()));
        told.env.insert("TO".to_owned(), "me".to_owned());
        let hidden = notice_job(&told, NoticeKind::Late).unwrap();
        assert!(hidden.notices.is_empty() && hidden.queue.is_of_host() && hidden.env == told.env);
        assert_eq!(tells(&told, &name), "on_late late=60000");
        told.must_start_within = Some(Duration::from_secs(9));
        told.must_finish_within = Some(Duration::from_secs(99));
        told.ping_url = Some("https://h/u".to_owned());
        assert_eq!(tells(&told, &name), "on_late ping late=9000 start=9000 finish=99000");
        assert_eq!(notice_job(&told, NoticeKind::Ping).unwrap().timeout, PING_TIMEOUT);
    }

    #[test]
    fn an_entry_without_a_run_a_kind_or_a_stamp_is_no_notice() {
        let entry = read_notice(br#"{"run":"a@5","kind":"on_late","stamp":"start","state":"running"}"#).unwrap();
        assert_eq!((&*entry.about.to_string(), entry.kind, entry.run.job().as_str()), ("a@5", NoticeKind::Late, "a/on_late"));
        assert!(!entry.is_of_rest && read_notice(br#"{"run":"a@5","kind":"on_late","stamp":"rest7"}"#).unwrap().is_of_rest);
        for bad in [r#"{"kind":"x"}"#, r#"{"run":"a@5","kind":"x","stamp":"1"}"#, r#"{"run":"a@5","kind":"ping"}"#, "[]", "no"] {
            assert_eq!(read_notice(bad.as_bytes()), None, "{bad}");
        }
    }
}
