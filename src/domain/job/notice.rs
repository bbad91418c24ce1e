//! Notices: runs that deliver notifications about the runs of a job. A notice is a run of a hidden
//! job such as `JOB/on_failure`. No user can define a job of that name.
//!
//! The work is divided as follows:
//!
//! * `prelude.lua` records in `notices` that a notification is due, in the step that writes the end
//!   of a run. It adds before it removes, and decides nothing else.
//! * Any node's `engine::teller` makes a run of the record by `plant_notice.lua`. That script
//!   writes the hidden job from the job's definition at that time.
//! * Each attempt follows the definition at its own time, and `engine::notification` gives it its
//!   content.
//!
//! From then on a notice is a run like any other: it is claimed, retried and recorded, and may
//! become a dead letter.
//!
//! Invariant: the id of a notice is made of the run, the kind, and the fact about the run. So each
//! notice is planted once however often it is requested, and a receiver recognizes a repeated
//! notice by its id. A hidden job requests no notices.

use std::time::Duration;

use super::job_spec::{Action, Backoff, HttpRequest, JobSpec, Overlap, RetryRule};
use super::process_limits::Limits;
use super::process_rules::ProcessRules;
use crate::domain::name::names::{IdError, JobName, QueueName, RunId};
use crate::domain::schedule::schedule_form::Schedule;

pub use crate::domain::name::names::NoticeKind;

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

    /// Returns the name of this deadline.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Finish => "finish",
        }
    }

    /// Returns the deadline with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|deadline| deadline.as_str() == word)
    }

    /// Returns the verb for the step that a run has not done when the run misses this deadline.
    pub fn past(self) -> &'static str {
        match self {
            Self::Start => "started",
            Self::Finish => "ended",
        }
    }
}

/// The number of retries of a notice. The constants that follow are the waits between attempts and
/// the timeouts of an attempt.
const RETRIES: u32 = 5;
const RETRY_DELAY: Duration = Duration::from_secs(10);
const LONGEST_DELAY: Duration = Duration::from_secs(600);
const TIMEOUT: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// The prefix of the stamp of a notice about runs that were only counted. The time of the first
/// such run follows the prefix.
const REST: &str = "rest";

/// The length of the hash at the end of a notice's id.
const WORD_LEN: usize = 12;

/// Returns the id of the notice of `kind` about the run `about`. `stamp` distinguishes two facts
/// about the same run.
pub fn notice_id(about: &RunId, kind: NoticeKind, stamp: &str) -> Result<RunId, IdError> {
    let word = sha1_smol::Sha1::from(format!("{about}|{stamp}")).digest().to_string();
    RunId::manual(
        JobName::of_notice(about.job(), kind),
        about.due(),
        word.get(..WORD_LEN).unwrap_or_default(),
    )
}

/// Returns true if a notice with this stamp is about runs that were only counted.
pub fn is_of_rest(stamp: &str) -> bool {
    stamp.starts_with(REST)
}

/// A parsed entry of `notices`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeEntry {
    /// The run that the notice is about. A notice about runs that were only counted names the
    /// first of these runs.
    pub about: RunId,
    /// The kind of the notice.
    pub kind: NoticeKind,
    /// The run that delivers the notice.
    pub run: RunId,
    /// True if the notice is about runs that were only counted.
    pub is_of_rest: bool,
}

/// Parses an entry of `notices`, or returns `None` if it is malformed.
pub fn read_notice(entry: &[u8]) -> Option<NoticeEntry> {
    let fields: serde_json::Value = serde_json::from_slice(entry).ok()?;
    let about: RunId = fields["run"].as_str()?.parse().ok()?;
    let kind = NoticeKind::parse(fields["kind"].as_str()?)?;
    let stamp = fields["stamp"].as_str()?;
    let run = notice_id(&about, kind, stamp).ok()?;
    Some(NoticeEntry { about, kind, run, is_of_rest: is_of_rest(stamp) })
}

/// Returns the hidden job whose runs are the notices of `kind` about the job `subject`. Returns
/// `None` if `subject` requests no such notice.
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
    // The standard input and the limits of the work do not apply to its notices.
    spec.process =
        ProcessRules { stdin: None, limits: Limits::default(), ..subject.process.clone() }
            .obeyed_by(spec.started());
    if kind != NoticeKind::Ping {
        spec.webhook_secrets.clone_from(&subject.webhook_secrets);
    }
    Some(spec)
}

/// Returns the text by which scripts know the notifications of a job: the names of the kinds, and
/// timed entries. `late=` is the time in ms after the due time from which a start is late. `start=`
/// and `finish=` are the times in ms after which the run must have started and ended. The text is
/// empty if the job requests no notifications.
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
    fn a_notice_has_one_id_for_what_happened_to_a_run() {
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
    fn a_hidden_job_reports_nobody_and_waits_in_a_queue_every_node_serves() {
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
    fn an_entry_without_a_run_a_kind_or_a_stamp_is_no_notice() {
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
