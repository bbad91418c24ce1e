//! Notices: runs that deliver notifications about the runs of a job. A notice is a run of a hidden
//! job such as `JOB/on_failure`. No user can define a job with such a name.
//!
//! A notice is made in three steps:
//!
//! 1. The Lua script that writes the end of a run adds an entry to the Redis key `notices`.
//! 2. A node plans the notice with `plant_notice.lua`. This script also writes the hidden job, from
//!    the present definition of the job.
//! 3. A node claims the notice like any other run. `engine::notification` makes the content of each
//!    attempt from the definition at the time of the attempt.
//!
//! Invariant: the id of a notice is made from the run, the kind of the notification and a digest of
//! the reported fact. So a notice is planned only once, and a receiver recognizes a repeated notice
//! by its id. A hidden job has no notices of its own.

use std::time::Duration;

use super::job_spec::{Action, Backoff, HttpRequest, JobSpec, Overlap, RetryRule};
use super::process_limits::Limits;
use super::process_rules::ProcessRules;
use schedd_schedule::names::{IdError, JobName, QueueName, RunId};
use schedd_schedule::schedule_form::Schedule;

pub use schedd_schedule::names::NoticeKind;

/// A deadline of a run: a time by which the run must have started or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deadline {
    /// The deadline by which the run must have started.
    Start,
    /// The deadline by which the run must have ended.
    Finish,
}

impl Deadline {
    /// All kinds of deadlines.
    pub const ALL: [Self; 2] = [Self::Start, Self::Finish];

    /// Returns the name of this deadline in Redis.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Finish => "finish",
        }
    }

    /// Returns the deadline with this name. Returns `None` for an unknown name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|deadline| deadline.as_str() == word)
    }

    /// Returns the verb for a message such as "the run has not started": `started` or `ended`.
    pub fn past(self) -> &'static str {
        match self {
            Self::Start => "started",
            Self::Finish => "ended",
        }
    }
}

/// The number of retries of a notice.
const RETRIES: u32 = 5;
const RETRY_DELAY: Duration = Duration::from_secs(10);
const LONGEST_DELAY: Duration = Duration::from_secs(600);
const TIMEOUT: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The first characters of the stamp of a collective notice. A stamp is a text that identifies the
/// reported fact. A collective notice reports several runs without a notice of their own, and the
/// due time of the first of these runs completes its stamp.
const REST: &str = "rest";

/// The number of characters of the digest at the end of a notice's id.
const WORD_LEN: usize = 12;

/// Returns the id of the notice of the kind `kind` about the run `about`. `stamp` identifies the
/// reported fact: two facts about the same run have different stamps.
pub fn notice_id(about: &RunId, kind: NoticeKind, stamp: &str) -> Result<RunId, IdError> {
    let word = sha1_smol::Sha1::from(format!("{about}|{stamp}")).digest().to_string();
    RunId::manual(
        JobName::of_notice(about.job(), kind),
        about.due(),
        word.get(..WORD_LEN).unwrap_or_default(),
    )
}

/// Returns true if `stamp` is the stamp of a collective notice: a notice that reports several runs
/// without a notice of their own.
pub fn is_of_rest(stamp: &str) -> bool {
    stamp.starts_with(REST)
}

/// An entry of the Redis key `notices`: a notice that a node has to plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeEntry {
    /// The run that the notice reports. For a notice about several runs, the first of these runs.
    pub about: RunId,
    /// The kind of the notice.
    pub kind: NoticeKind,
    /// The id of the notice.
    pub run: RunId,
    /// True for a collective notice, which reports several runs without a notice of their own.
    pub is_of_rest: bool,
}

/// Parses an entry of the Redis key `notices`. Returns `None` if the entry is malformed.
pub fn read_notice(entry: &[u8]) -> Option<NoticeEntry> {
    let fields: serde_json::Value = serde_json::from_slice(entry).ok()?;
    let about: RunId = fields["run"].as_str()?.parse().ok()?;
    let kind = NoticeKind::parse(fields["kind"].as_str()?)?;
    let stamp = fields["stamp"].as_str()?;
    let run = notice_id(&about, kind, stamp).ok()?;
    Some(NoticeEntry { about, kind, run, is_of_rest: is_of_rest(stamp) })
}

/// Returns the definition of the hidden job whose runs are the notices of the kind `kind` about the
/// job `subject`. Returns `None` if `subject` has no such notices.
pub fn notice_job(subject: &JobSpec, kind: NoticeKind) -> Option<JobSpec> {
    let action = match kind {
        NoticeKind::Ping => Action::Http(HttpRequest::post(subject.ping_url.clone()?)),
        NoticeKind::Failure | NoticeKind::Success | NoticeKind::Late | NoticeKind::Recovered => {
            subject.notices.get(&kind)?.clone()
        }
    };
    let mut spec = JobSpec::with_defaults(Schedule::Manual, action);
    spec.queue = QueueName::of_notices();
    spec.overlap = Overlap::Allow;
    spec.timeout = if kind == NoticeKind::Ping { PING_TIMEOUT } else { TIMEOUT };
    spec.retry = RetryRule {
        limit: RETRIES,
        delay: RETRY_DELAY,
        backoff: Backoff::Exponential,
        max_delay: LONGEST_DELAY,
        ..RetryRule::default()
    };
    spec.env.clone_from(&subject.env);
    spec.env_files.clone_from(&subject.env_files);
    spec.cwd.clone_from(&subject.cwd);
    // The standard input and the limits of the job do not apply to its notices.
    spec.process =
        ProcessRules { stdin: None, limits: Limits::default(), ..subject.process.clone() }
            .obeyed_by(spec.started());
    if kind != NoticeKind::Ping {
        spec.webhook_secrets.clone_from(&subject.webhook_secrets);
    }
    Some(spec)
}

/// Returns the notifications and deadlines of the job `name` as words for the Lua scripts, such as
/// `on_late late=60000`. A number is a time in ms after the due time of a run. A run that starts
/// after `late` is late, and `start` and `finish` are deadlines. The text is empty if the job has
/// no notifications and no deadlines.
pub fn notify_words(spec: &JobSpec, name: &JobName) -> String {
    let mut words: Vec<String> = spec.notices.keys().map(|kind| kind.as_str().to_owned()).collect();
    if spec.ping_url.is_some() {
        words.push(NoticeKind::Ping.as_str().to_owned());
    }
    let mut timed = |word: &str, within: Duration| {
        words.push(format!(
            "{word}={}",
            within.saturating_add(spec.shape.latest_shift(name)).as_millis()
        ));
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
    fn a_notice_has_one_id_for_a_fact_about_a_run() {
        let about: RunId = "backup@1790000000000".parse().unwrap();
        let id = notice_id(&about, NoticeKind::Failure, "7").unwrap();
        assert_eq!(id.job().as_str(), "backup/on_failure");
        assert_eq!(
            id.job().notice_subject().map(|(job, kind)| (job.to_string(), kind)),
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
    fn a_hidden_job_has_no_notices_and_a_queue_that_every_node_serves() {
        let mut subject =
            JobSpec::with_defaults(Schedule::Manual, Action::Shell("true".to_owned()));
        let name: JobName = "a".parse().unwrap();
        assert_eq!(
            (notice_job(&subject, NoticeKind::Late), notify_words(&subject, &name)),
            (None, String::new())
        );
        subject.notices.insert(NoticeKind::Late, Action::Shell("mail".to_owned()));
        subject.env.insert("TO".to_owned(), "me".to_owned());
        let hidden = notice_job(&subject, NoticeKind::Late).unwrap();
        assert!(
            hidden.notices.is_empty() && hidden.queue.is_of_host() && hidden.env == subject.env
        );
        assert_eq!(notify_words(&subject, &name), "on_late late=60000");
        subject.must_start_within = Some(Duration::from_secs(9));
        subject.must_finish_within = Some(Duration::from_secs(99));
        subject.ping_url = Some("https://h/u".to_owned());
        assert_eq!(notify_words(&subject, &name), "on_late ping late=9000 start=9000 finish=99000");
        assert_eq!(notice_job(&subject, NoticeKind::Ping).unwrap().timeout, PING_TIMEOUT);
    }

    #[test]
    fn an_entry_without_a_run_a_kind_or_a_stamp_is_not_a_notice() {
        let entry =
            read_notice(br#"{"run":"a@5","kind":"on_late","stamp":"start","state":"running"}"#)
                .unwrap();
        assert_eq!(
            (&*entry.about.to_string(), entry.kind, entry.run.job().as_str()),
            ("a@5", NoticeKind::Late, "a/on_late")
        );
        assert!(
            !entry.is_of_rest
                && read_notice(br#"{"run":"a@5","kind":"on_late","stamp":"rest7"}"#)
                    .unwrap()
                    .is_of_rest
        );
        for bad in [
            r#"{"kind":"x"}"#,
            r#"{"run":"a@5","kind":"x","stamp":"1"}"#,
            r#"{"run":"a@5","kind":"ping"}"#,
            "[]",
            "no",
        ] {
            assert_eq!(read_notice(bad.as_bytes()), None, "{bad}");
        }
    }
}
