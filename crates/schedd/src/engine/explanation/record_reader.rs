//! Makes the facts for an explanation from the record of a run, including its attempts as text.

use schedd_core::domain::explain::{AtGate, AttemptFacts, LateNotice, Place, RunFacts};
use schedd_core::domain::job::notice::Deadline;
use schedd_core::domain::queue::group_rules::Shut;
use schedd_core::domain::run::end_words::in_words;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{PastAttempt, RunPlacement, RunRecord};

/// Returns the facts from the record of a run and from its place in the indexes.
pub(super) fn run_facts(
    record: RunRecord,
    standing: RunPlacement,
    place: Place,
    waits_at: Option<AtGate>,
) -> RunFacts {
    let last_wait = record.waits.iter().rfind(|wait| wait.is_at_gate() && wait.until.is_some());
    let waited_at = last_wait.filter(|_| record.started_at.is_some()).map(|wait| AtGate {
        rate: None,
        gate: wait.cause.clone(),
        turn: None,
        shut: Shut::default(),
        holder: None,
        stuck: None,
        hindrance: None,
        unserved: None,
        passed_over: Vec::new(),
        until: wait.until,
    });
    let attempts = attempts(&record);
    let was_first = record
        .past
        .first()
        .filter(|past| past.number == 1)
        .and_then(|past| past_instant(past, "started_at_ms"));
    let due = record.run.due();
    RunFacts {
        first_start: record.first_start.or(was_first).or(record.started_at),
        ready_at: record.ready_at.unwrap_or(due),
        ready: standing.ready.or(record.ready),
        is_spread: record.planted_at.is_some()
            && !record.run.is_manual()
            && record.parents.is_empty(),
        parents: record.parents,
        place,
        is_asked_to_stop: standing.stop_asked_by.is_some(),
        by: record.by.or(standing.stop_asked_by.flatten()),
        attempts,
        lane: record.lane,
        state: record.state,
        reason: record
            .reason
            .filter(|reason| !(record.state == RunState::Scheduled && reason == "retry")),
        asked_by: record.asked_by,
        note: record.note,
        finished_at: record.finished_at,
        behind: record.behind,
        gate: waits_at.or(waited_at),
        passed: None,
        handed_back: record.handed_back,
        skipped: record.skipped,
        late_notices: Vec::new(),
        run: record.run,
    }
}

/// Returns the facts from the record of a notice that reported a late run.
pub(super) fn late_notice(of: Deadline, record: &RunRecord) -> LateNotice {
    let last = attempts(record).pop();
    LateNotice {
        of,
        run: record.run.clone(),
        state: record.state,
        node: last.as_ref().and_then(|attempt| attempt.node.clone()),
        finished_at: record.finished_at,
        end: last.and_then(|attempt| attempt.end).or_else(|| record.reason.clone()),
    }
}

fn past_instant(past: &PastAttempt, field: &str) -> Option<UnixMillis> {
    let record: serde_json::Value = serde_json::from_str(&past.record).ok()?;
    UnixMillis::new(record[field].as_i64()?)
}

/// Returns the attempts of a run, oldest first.
fn attempts(record: &RunRecord) -> Vec<AttemptFacts> {
    let past = record.past.iter().map(past_attempt);
    // A run that ended after its `done_check` alone has a record, although no attempt was made.
    let is_asked_only = record.state != RunState::Running
        && record.reason.as_deref().is_some_and(|why| why.starts_with("done_check"));
    let is_reported = is_asked_only || !record.has_current();
    let said =
        in_words(record.error.as_deref(), record.signal, record.exit_code, record.http_status);
    // The end of a lost run is known if it was stopped because its node shut down.
    let is_end_known = record.state != RunState::Lost
        || record.reason.as_deref() == Some("shutdown")
        || in_words(None, record.signal, record.exit_code, record.http_status).is_some();
    let current = (!is_reported).then(|| AttemptFacts {
        is_end_known,
        number: record.attempt,
        node: record.node.clone(),
        started_at: record.started_at,
        finished_at: record.attempt_ended_at(),
        end: (record.state != RunState::Running).then(|| {
            with_unenforced(
                record.not_enforced.as_deref(),
                match record.state {
                    RunState::Succeeded => "succeeded".to_owned(),
                    RunState::TimedOut => "timed out".to_owned(),
                    RunState::Cancelled => "stopped".to_owned(),
                    state => said
                        .or_else(|| record.reason.clone())
                        .unwrap_or_else(|| state.as_str().to_owned()),
                },
            )
        }),
    });
    past.chain(current).collect()
}

/// Returns `end`, a phrase about the end of an attempt, with the limits that its node could not
/// enforce.
fn with_unenforced(not_enforced: Option<&str>, end: String) -> String {
    match not_enforced {
        Some(limits) => format!("{end} (the node did not enforce these limits: {limits})"),
        None => end,
    }
}

fn past_attempt(past: &PastAttempt) -> AttemptFacts {
    let record: serde_json::Value = serde_json::from_str(&past.record).unwrap_or_default();
    let number = |field: &str| record[field].as_i64().and_then(|number| i32::try_from(number).ok());
    let status = record["http_status"].as_u64().and_then(|status| u16::try_from(status).ok());
    let state = record["state"].as_str().unwrap_or("ended").replace('_', " ");
    let said = in_words(record["error"].as_str(), number("signal"), number("exit_code"), status);
    let is_end_known =
        state != "lost" || in_words(None, number("signal"), number("exit_code"), status).is_some();
    let end = if state == "timed out" { state } else { said.unwrap_or(state) };
    AttemptFacts {
        is_end_known,
        number: past.number,
        node: record["node"].as_str().map(str::to_owned),
        started_at: past_instant(past, "started_at_ms"),
        finished_at: past_instant(past, "finished_at_ms"),
        end: Some(with_unenforced(record["not_enforced"].as_str(), end)),
    }
}
