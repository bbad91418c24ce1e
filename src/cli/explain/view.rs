//! The output of `explain`: lines for users, or a JSON document for programs.

use serde_json::{Value, json};

use crate::cli::render::{Console, one_line, rfc3339, shown};
use schedd_core::domain::explain::{
    AttemptFacts, Facts, Finding, Loss, NodeFacts, Part, RunFacts, Source, Subject,
};
use schedd_core::domain::job::audit_entry::AuditEntry;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;

/// Returns the label before the sentences of one part of an explanation.
fn word(part: Part) -> &'static str {
    match part {
        Part::Planned => "planned",
        Part::Became => "outcome",
        Part::Nodes => "nodes",
        Part::Timing => "timing",
        Part::Rule => "rule",
        Part::Next => "next",
    }
}

/// Prints the sentences of an explanation. Sentences of one part are printed below each other under
/// one label.
pub(super) fn text(facts: &Facts, findings: &[Finding], console: &mut Console) {
    let what = match (facts.at(), facts.run()) {
        (Some(at), Some(run)) if run.run.is_manual() => {
            format!("{}, requested {}", run.run, shown(at, &facts.local))
        }
        (Some(at), _) => format!("{} at {}", facts.name, facts.shown_for_job(at)),
        (None, _) => facts.name.to_string(),
    };
    line("job", &what, console);
    let mut before = None;
    for finding in findings {
        let part = finding.part;
        let label = if before == Some(part) { "" } else { word(part) };
        line(label, &finding.text, console);
        before = Some(part);
    }
}

fn line(label: &str, text: &str, console: &mut Console) {
    console.line(&format!("{label:<9} {}", one_line(text)));
}

/// Returns the entries of an audit log as JSON documents, with times in `zone`.
pub(crate) fn audit_documents(entries: &[AuditEntry], zone: &Zone) -> Vec<Value> {
    let time = |at: UnixMillis| rfc3339(at, zone);
    let document = |entry: &AuditEntry| {
        let (old, new) = entry.schedules.clone().unzip();
        json!({
            "at": time(entry.at),
            "what": entry.what,
            "by": entry.by,
            "run_id": entry.run,
            "note": entry.note,
            "count": entry.count,
            "old": old,
            "new": new,
            "first_due": entry.dues.map(|(first, _)| time(first)),
            "last_due": entry.dues.map(|(_, last)| time(last)),
        })
    };
    entries.iter().map(document).collect()
}

/// Returns the explanation as one JSON document in which every field is always present. Its times
/// are in the zone of the job.
pub(super) fn document(facts: &Facts, findings: &[Finding]) -> Value {
    let time = |at: UnixMillis| rfc3339(at, &facts.zone);
    let job = facts.job.as_ref();
    let definition = job.and_then(|job| job.definition.as_ref().ok());
    let listed_by = match job.map(|job| &job.source) {
        Some(Source::File(names)) => names.clone(),
        Some(Source::Api) | None => Vec::new(),
    };
    let findings: Vec<Value> =
        findings.iter().map(|found| json!({"part": found.part.as_str(), "code": found.code, "sentence": found.text})).collect();
    let audit_log = audit_documents(&facts.audit_log, &facts.zone);
    let next = job
        .filter(|job| job.ended.is_none())
        .and_then(|job| job.pending.into_iter().chain(job.next_run).min());
    json!({
        "job": facts.name.as_str(),
        "now": time(facts.now),
        "subject": subject(&facts.subject),
        "at": facts.at().map(time),
        "tz": facts.zone.name().as_str(),
        "schedule": definition.map(|(spec, timetable)| spec.schedule.text(timetable.zone())),
        "since": job.map(|job| time(job.since)),
        "source": job.map(|job| if job.source == Source::Api { "api" } else { "file" }),
        "listed_by": listed_by,
        "created_at": job.and_then(|job| job.created.as_ref()).map(|(at, _)| time(*at)),
        "created_by": job.and_then(|job| job.created.as_ref()).and_then(|(_, by)| by.clone()),
        "paused_at": job.and_then(|job| job.paused_at).map(time),
        "ended": job.and_then(|job| job.ended.as_ref()).map(|(how, _)| how),
        "next_due": next.map(time),
        "losses": facts.losses.iter().map(|loss| loss_json(loss, &facts.zone)).collect::<Vec<_>>(),
        "backfills_waiting": facts.making_up,
        "backfilled_by": facts.made_up_by.as_ref().map(|(run, state)| json!({"run_id": run.to_string(), "state": state.as_str()})),
        "run": facts.run().map(|run| run_json(facts, run)),
        "open": match &facts.subject {
            Subject::Job { open, .. } => open.iter().map(|run| run_json(facts, run)).collect(),
            _ => Vec::new(),
        },
        "open_more": match &facts.subject {
            Subject::Job { more, .. } => *more,
            _ => 0,
        },
        "findings": findings,
        "nodes": facts.nodes.iter().map(|node| node_json(node, &facts.zone)).collect::<Vec<_>>(),
        "audit_log": audit_log,
    })
}

fn loss_json(loss: &Loss, zone: &Zone) -> Value {
    let time = |at: UnixMillis| rfc3339(at, zone);
    json!({
        "noticed_at": time(loss.noticed),
        "noticed_by": loss.by,
        "what": loss.what,
        "data_until": loss.kept.map(time),
        "last_complete_at": loss.whole.map(time),
        "reported_by": loss.reported_by,
    })
}

fn subject(subject: &Subject) -> &'static str {
    match subject {
        Subject::Job { .. } => "job",
        Subject::Run(_) => "run",
        Subject::InRange { .. } => "skipped_range",
        Subject::Ledger { .. } => "ledger",
        Subject::BeforeLedger { .. } => "before_ledger",
        Subject::Behind { .. } => "behind",
        Subject::Over { .. } => "over",
        Subject::Unrecorded { .. } => "unrecorded",
        Subject::ToCome { .. } => "future",
        Subject::ToMakeUp { .. } => "backfill_waiting",
        Subject::NotDue { .. } => "not_due",
        Subject::Never => "never",
    }
}

fn run_json(facts: &Facts, run: &RunFacts) -> Value {
    let time = |at: UnixMillis| rfc3339(at, &facts.zone);
    json!({
        "run_id": run.run.to_string(),
        "due": time(run.run.due()),
        "state": run.state.as_str(),
        "reason": run.reason,
        "by": run.by,
        "created_by": run.asked_by,
        "note": run.note,
        "ready_at": time(run.ready.unwrap_or(run.ready_at)),
        "first_start": run.first_start.map(time),
        "late_ms": run.late().map(|late| u64::try_from(late.as_millis()).unwrap_or(u64::MAX)),
        "finished_at": run.finished_at.map(time),
        "behind": run.behind.as_ref().map(ToString::to_string),
        "skipped_to": run.skipped.map(|(last, _)| time(last)),
        "skipped_count": run.skipped.map(|(_, count)| count),
        "attempts": run.attempts.iter().map(|attempt| attempt_json(attempt, &facts.zone)).collect::<Vec<_>>(),
    })
}

fn attempt_json(attempt: &AttemptFacts, zone: &Zone) -> Value {
    let time = |at: UnixMillis| rfc3339(at, zone);
    json!({
        "attempt": attempt.number,
        "node": attempt.node,
        "started_at": attempt.started_at.map(time),
        "finished_at": attempt.finished_at.map(time),
        "end": attempt.end,
    })
}

fn node_json(node: &NodeFacts, zone: &Zone) -> Value {
    let time = |at: UnixMillis| rfc3339(at, zone);
    json!({
        "node": node.name,
        "last_seen": node.last_seen.map(time),
        "started_at": node.started_at.map(time),
        "events": node.events.iter().map(|event| json!({
            "what": event.what.word(),
            "from": time(event.from),
            "to": event.to.map(time),
        })).collect::<Vec<_>>(),
    })
}
