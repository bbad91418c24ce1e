//! The payload of a notice: variables for a process, or a JSON body for an HTTP request that
//! defines no body.
//!
//! Each attempt uses the present definition of the job (`on_failure` and its inherited settings).
//! So a corrected definition also applies to notices that wait or are retried by hand.
//!
//! Invariant: a notice describes the state at the end of its run, however late the notice is
//! delivered. The output of the run is bounded, and is valid text even if the job printed other
//! bytes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, debug, warn};

use crate::attempts::{Attempt, Execute, NoticeFacts};
use crate::engine::dispatch::definition::Definition;
use crate::engine::explanation::{Ask, gather};
use schedd_core::domain::explain::causes;
use schedd_core::domain::job::job_spec::{Action, JobSpec};
use schedd_core::domain::job::notice::{Deadline, NoticeKind, is_of_rest, notice_job};
use schedd_core::domain::job::ping::Ping;
use schedd_core::domain::queue::gate::Gate;
use schedd_schedule::names::{JobName, RunId, RunKind};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::{shown, span};
use schedd_schedule::time::zone::Zone;
use schedd_store::{About, JobRecord, Store, StoreError};

/// The most bytes of a run's output in a notice. These are the last bytes of the output.
const OUTPUT: usize = 8 * 1024;

/// Adds the payload of a notice to `attempt`, if this attempt delivers a notice. Returns an error
/// only for a cause that passes by itself, such as an outage.
pub(crate) async fn notice_facts_of(
    store: &Store,
    attempt: &mut Attempt,
) -> Result<(), StoreError> {
    let Some((job, kind)) = attempt.run.job().notice_subject() else { return Ok(()) };
    let zone = do_as_said_now(store, attempt, &job, kind).await?;
    let about = unless_wrong_type(&attempt.run, store.read_about(&attempt.run).await)?;
    // A notice that counts several runs has no single run as its subject.
    let subject = about.text("run").filter(|_| !about.text("stamp").is_some_and(is_of_rest));
    let subject: Option<RunId> = subject.and_then(|run| run.parse().ok());
    let number = about.number("attempt").and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    let printed = match &subject {
        Some(subject) => {
            unless_wrong_type(&attempt.run, store.read_output_tail(subject, number, OUTPUT).await)?
        }
        None => Vec::new(),
    };
    if let (NoticeKind::Ping, Some(subject)) = (kind, &subject) {
        let ended = match about.text("state") {
            Some("succeeded") => Ping::Success,
            Some("cancelled") => Ping::Cancelled,
            _ => Ping::Failure(about.number("exit_code")),
        };
        attempt.notice_facts = NoticeFacts {
            body: readable(&printed),
            ping: Some((subject.clone(), ended)),
            ..NoticeFacts::default()
        };
        return Ok(());
    }
    let causes = match &subject {
        Some(subject) if kind == NoticeKind::Late => {
            unless_wrong_type(&attempt.run, why_late(store, subject).await)?
        }
        _ => Vec::new(),
    };
    let payload = PayloadSource {
        kind,
        job,
        about: &about,
        subject: subject.as_ref(),
        number,
        output: readable(&printed),
        zone,
        causes,
    };
    let body = match attempt.action {
        Action::Http(_) => payload.body(&attempt.run).to_string(),
        Action::Command(_) | Action::Shell(_) | Action::Handler(_) => String::new(),
    };
    attempt.notice_facts =
        NoticeFacts { variables: payload.variables().into_iter().collect(), body, ping: None };
    Ok(())
}

/// Replaces the action and settings of `attempt` by those in the present definition of `job`. If
/// `job` is gone or unreadable, or no longer has notices of `kind`, `attempt` stays as it was
/// planned. Returns the time zone of `job`, or else the zone of this host.
async fn do_as_said_now(
    store: &Store,
    attempt: &mut Attempt,
    job: &JobName,
    kind: NoticeKind,
) -> Result<Zone, StoreError> {
    let record = unless_wrong_type(&attempt.run, store.read_job(job).await)?;
    let Some(definition) = record.and_then(|record| Definition::of(record).ok()) else {
        return Ok(Zone::of_host());
    };
    let zone = definition.timetable.zone().clone();
    let Some(hidden) = notice_job(&definition.spec, kind) else { return Ok(zone) };
    attempt.action = hidden.action;
    attempt.env = hidden.env;
    attempt.env_files = hidden.env_files;
    attempt.webhook_secrets = hidden.webhook_secrets;
    attempt.cwd = hidden.cwd;
    attempt.process = hidden.process;
    Ok(zone)
}

/// Returns the present definition of the hidden job for notices of `kind` about the job `subject`.
/// Returns `None` if `subject` is gone or unreadable, or no longer has notices of `kind`.
pub fn said_now(subject: Option<JobRecord>, kind: NoticeKind) -> Option<JobSpec> {
    let definition = Definition::of(subject?).ok()?;
    notice_job(&definition.spec, kind)
}

/// Returns the causes why a run did not start in time, as `schedctl explain` gives them. Returns
/// no causes if the job is gone.
async fn why_late(store: &Store, run: &RunId) -> Result<Vec<String>, StoreError> {
    let facts = Box::pin(gather(store, run.job(), &Ask::Run(run.clone()), None)).await?;
    Ok(facts.map_or_else(Vec::new, |facts| {
        causes(&facts).iter().map(|cause| cause.text.clone()).collect()
    }))
}

/// Returns the value that was read for `notice`. If the data is unreadable (wrong type or corrupt),
/// returns an empty value, because an incomplete notice is better than none.
fn unless_wrong_type<T: Default>(
    notice: &RunId,
    read: Result<T, StoreError>,
) -> Result<T, StoreError> {
    match read {
        Err(error) if !error.is_passing() => {
            warn!(run = %notice, "A part of the data of a notice is unreadable, so the notice is sent without it: {error}.");
            Ok(T::default())
        }
        read => read,
    }
}

/// Sends the start ping of an attempt in the background and does not repeat it. Returns `None` if
/// the job has no `ping_url`. Dropping the returned handle aborts the ping, because a start ping
/// after the end would report a running job.
pub(crate) fn ping_start(
    executors: &Arc<dyn Execute>,
    spec: &JobSpec,
    run: &RunId,
) -> Option<AbortOnDropHandle<()>> {
    let (base, run, executors) = (spec.ping_url.clone()?, run.clone(), executors.clone());
    let ping = async move {
        if let Err(error) = executors.ping(&base, &run, Ping::Start).await {
            debug!("The ping at the start of the run failed: {error}.");
        }
    };
    Some(AbortOnDropHandle::new(tokio::spawn(ping.in_current_span())))
}

/// Returns a phrase that names `what` a run waits for: the open run or gate.
fn waits_for(what: &str) -> String {
    match what {
        "overlap" => "an open run of its job".to_owned(),
        gate => Gate::from_name(&gate.replacen(' ', ":", 1))
            .map_or_else(|| gate.to_owned(), |gate| gate.words()),
    }
}

struct PayloadSource<'a> {
    kind: NoticeKind,
    job: JobName,
    about: &'a About,
    subject: Option<&'a RunId>,
    number: u32,
    output: String,
    zone: Zone,
    /// The sentences that explain why a late run is late.
    causes: Vec<String>,
}

impl PayloadSource<'_> {
    fn instant(&self, field: &str) -> Option<UnixMillis> {
        self.about.number(field).and_then(UnixMillis::new)
    }

    fn due(&self) -> Option<UnixMillis> {
        self.subject.map(RunId::due)
    }

    fn duration_ms(&self) -> Option<u64> {
        let took = self.instant("finished_at")?.since(self.instant("started_at")?);
        u64::try_from(took.as_millis()).ok()
    }

    /// Returns the time from the due time of the run to its first start. For a notice about a late
    /// run that has not started, returns the time until a node noticed the delay. Returns `None`
    /// for other runs without a start, and for reruns and backfill runs, which are never late.
    fn late(&self) -> Option<Duration> {
        if self.kind != NoticeKind::Late {
            let run = self.subject.filter(|run| {
                matches!(run.kind(), RunKind::Regular | RunKind::Manual | RunKind::Boot)
            })?;
            let start = self.instant("first_start").or_else(|| self.instant("started_at"))?;
            return Some(start.since(run.due()));
        }
        let is_finish = self.about.text("stamp") == Some(Deadline::Finish.as_str());
        // A claim that was handed back before any execution does not count as a start.
        let is_planned = self.state() == Some("scheduled");
        let began = if is_finish || is_planned { None } else { self.instant("started_at") };
        let at = began.or_else(|| self.instant("at"))?;
        Some(at.since(self.due()?))
    }

    /// Returns the state of the run that the notice is about. A late run without a record counts as
    /// planned (`scheduled`). Returns `None` if the state is not known.
    fn state(&self) -> Option<&str> {
        let planned =
            (self.kind == NoticeKind::Late && self.subject.is_some()).then_some("scheduled");
        self.about.text("state").or(planned)
    }

    /// Returns the reason for the state of an ended run, or the reason why a run is late. Returns
    /// `None` if no reason is known.
    fn reason(&self) -> Option<String> {
        let ended = self.ended_by();
        if self.causes.is_empty() {
            // Once the run has started, the reason of its earlier wait is not reported.
            let waits =
                self.about.text("waiting_for").filter(|_| self.state() == Some("scheduled"));
            return ended.or_else(|| Some(format!("the run waits for {}", waits_for(waits?))));
        }
        Some(
            ended
                .into_iter()
                .map(|ended| format!("{ended}. "))
                .chain([self.causes.join(" ")])
                .collect(),
        )
    }

    /// Returns the id of the open run because of which this run was skipped. Returns `None` if it
    /// was not skipped for this reason.
    fn behind(&self) -> Option<&str> {
        self.about.text("behind").filter(|_| self.about.text("state") == Some("skipped"))
    }

    fn ended_by(&self) -> Option<String> {
        if let Some(open) = self.behind() {
            return Some(format!("run {open} was still open"));
        }
        let text = |field| self.about.text(field).map(str::to_owned);
        let coded =
            |word: &str, field| self.about.number(field).map(|code| format!("{word} {code}"));
        let said = text("reason").or_else(|| text("error"));
        said.or_else(|| coded("signal", "signal"))
            .or_else(|| coded("exit code", "exit_code"))
            .or_else(|| coded("status", "http_status"))
    }

    /// Returns a sentence that says what the notice reports.
    fn sentence(&self) -> String {
        if self.about.text("stamp").is_some_and(is_of_rest) {
            let (count, job) = (self.about.suppressed, &self.job);
            let one = |word: &str, words: &str| {
                if count == 1 { word.to_owned() } else { words.to_owned() }
            };
            let failures_or_other = match self.kind {
                NoticeKind::Failure => one("failure", "failures"),
                NoticeKind::Recovered => one("recovery", "recoveries"),
                NoticeKind::Success => one("success", "successes"),
                NoticeKind::Late | NoticeKind::Ping => one("late run", "late runs"),
            };
            let was_or_were = if count == 1 { "was" } else { "were" };
            return format!(
                "{count} more {failures_or_other} of {job} {was_or_were} not reported individually"
            );
        }
        let state = self.state().unwrap_or("unknown").replace('_', " ");
        let due = self.due().map(|due| shown(due, &self.zone));
        if self.kind == NoticeKind::Late {
            return self.late_sentence(due, &state);
        }
        let node = self.about.text("node").map(|node| format!(" on node {node}"));
        let what = match self.kind {
            NoticeKind::Recovered => ", after a failure".to_owned(),
            _ if state == "succeeded" => String::new(),
            _ => self.why_ended(),
        };
        let due = due.map(|due| format!("due {due}"));
        let run = self.subject.map(|run| format!("run {run}"));
        let facts: Vec<String> = due.into_iter().chain(run).collect();
        let facts =
            if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        format!("job {} {state}{}{what}{facts}", self.job, node.unwrap_or_default())
    }

    /// Returns the reason for the end of a run as the end of a sentence, with its exit code.
    fn why_ended(&self) -> String {
        let Some(reason) = self.reason() else { return String::new() };
        match self.about.number("exit_code") {
            Some(code) if code != 0 && !reason.contains("exit code") => {
                format!(": {reason}, exit code {code}")
            }
            _ => format!(": {reason}"),
        }
    }

    fn late_sentence(&self, due: Option<String>, state: &str) -> String {
        let was_due = due.map_or_else(String::new, |due| format!(" was due on {due} and"));
        let after = self.late().map(span).unwrap_or_default();
        let what_happened = match state {
            _ if self.about.text("stamp") == Some(Deadline::Finish.as_str()) => {
                format!("did not end by its deadline and is {state}, {after} after its due time")
            }
            "running" => format!("started {after} late"),
            "scheduled" => format!("did not start by its deadline and is {after} late"),
            "skipped" if self.behind().is_some() => {
                format!("did not start by its deadline and was skipped, {after} after its due time")
            }
            ended => format!("was {ended} {after} after its due time"),
        };
        let why = self.reason().map(|reason| format!(": {reason}")).unwrap_or_default();
        let run = self.subject.map(|run| format!(" (run {run})")).unwrap_or_default();
        format!("job {}{was_due} {what_happened}{why}{run}", self.job)
    }

    fn variables(&self) -> Vec<(String, String)> {
        let number =
            |field| self.about.number(field).map_or_else(String::new, |number| number.to_string());
        let facts = [
            ("KIND", self.kind.as_str().to_owned()),
            ("JOB", self.job.to_string()),
            ("RUN", self.subject.map_or_else(String::new, ToString::to_string)),
            ("STATE", self.state().unwrap_or_default().to_owned()),
            ("REASON", self.reason().unwrap_or_default()),
            ("DUE", self.due().map_or_else(String::new, |due| due.to_string())),
            ("LATE_MS", self.late().map_or_else(String::new, |late| late.as_millis().to_string())),
            ("ATTEMPTS", self.number.to_string()),
            ("EXIT_CODE", number("exit_code")),
            ("HTTP_STATUS", number("http_status")),
            ("DURATION_MS", self.duration_ms().map_or_else(String::new, |took| took.to_string())),
            ("NODE", self.about.text("node").unwrap_or_default().to_owned()),
            ("SUPPRESSED", self.about.suppressed.to_string()),
            ("TEXT", self.sentence()),
            ("OUTPUT", self.output.clone()),
            // The executor sets this variable. It lists the data that could not be provided.
            ("WITHOUT", String::new()),
        ];
        // A variable of a process cannot contain a NUL byte.
        facts
            .into_iter()
            .map(|(name, value)| (format!("SCHEDD_ABOUT_{name}"), value.replace('\0', "\u{fffd}")))
            .collect()
    }

    fn body(&self, run: &RunId) -> Value {
        let instant = |field| self.instant(field).map(|at| at.to_string());
        json!({
            "kind": self.kind.as_str(),
            "text": self.sentence(),
            "notice": run.to_string(),
            "job": self.job.as_str(),
            "run_id": self.subject.map(ToString::to_string),
            "state": self.state(),
            "reason": self.reason(),
            "due": self.due().map(|due| due.to_string()),
            "late_ms": self.late().and_then(|late| u64::try_from(late.as_millis()).ok()),
            "started_at": instant("started_at"),
            "finished_at": instant("finished_at"),
            "duration_ms": self.duration_ms(),
            "attempts": self.number,
            "exit_code": self.about.number("exit_code"),
            "signal": self.about.number("signal"),
            "http_status": self.about.number("http_status"),
            "node": self.about.text("node"),
            "skipped": self.about.number("skipped_count"),
            "suppressed": self.about.suppressed,
            "output": self.output,
            "without": Value::Null,
        })
    }
}

/// Returns bytes as text. If the first bytes are the rest of a cut UTF-8 character, they are
/// dropped.
fn readable(bytes: &[u8]) -> String {
    let halves = bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    String::from_utf8_lossy(bytes.get(halves..).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn what_is_cut_within_a_letter_begins_with_the_next() {
        assert_eq!(readable(&"äb".as_bytes()[1..]), "b");
        assert_eq!(readable(b"a\xff"), "a\u{fffd}");
        assert_eq!(readable(b""), "");
    }
}
