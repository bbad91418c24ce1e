//! The section of the report about the consistency check: the numbers of checked keys, jobs and
//! runs, the findings, and the repairs.

use std::time::Duration;

use serde_json::{Value, json};

use super::node_sections::counted;
use super::report::line;
use crate::cli::render::{Colour, Console, one_line};
use crate::cli::state::node_presence::is_present;
use schedd::engine::maintenance::background_check::{EVERY, UNCHANGED_EVERY};
use schedd::engine::maintenance::full_check::{Examination, Mended};
use schedd_core::domain::consistency::{FindingSubject, Inconsistency, Mend};
use schedd_schedule::names::Fence;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::span;
use schedd_store::{CheckLevel, CheckNote, NodeRecord, ServerCheck, Store};

/// The time since the last background check by any node after which `doctor` warns. Each node
/// checks a part of the data once an hour, even if nothing changes.
const OVERDUE: Duration = UNCHANGED_EVERY.saturating_add(EVERY.saturating_mul(10));

/// Returns a line about the data that this command checked, and a line about the background check
/// by the nodes.
pub(super) async fn summary(
    store: &Store,
    exam: &Examination,
    nodes: &[NodeRecord],
    now: UnixMillis,
) -> Vec<ServerCheck> {
    let looked_at = format!(
        "checked {}, {} and {}",
        counted(exam.keys as u64, "key", "keys"),
        counted(exam.jobs as u64, "job", "jobs"),
        counted(exam.runs as u64, "run", "runs"),
    );
    let mut checks = vec![match (exam.findings.len(), &exam.partial) {
        (_, Some(why)) => {
            ServerCheck::new("consistency", CheckLevel::Fail, format!("{looked_at}; {why}"))
        }
        (0, None) => {
            ServerCheck::new("consistency", CheckLevel::Ok, format!("{looked_at}; no findings"))
        }
        (1, None) => {
            ServerCheck::new("consistency", CheckLevel::Fail, format!("{looked_at}; 1 finding"))
        }
        (count, None) => ServerCheck::new(
            "consistency",
            CheckLevel::Fail,
            format!("{looked_at}; {count} findings"),
        ),
    }];
    checks.push(match store.read_check_note().await {
        Ok(audit) => slow_check(audit.as_ref(), nodes, now),
        Err(error) => ServerCheck::new("slow check", CheckLevel::Warn, error.to_string()),
    });
    checks
}

fn slow_check(audit: Option<&CheckNote>, nodes: &[NodeRecord], now: UnixMillis) -> ServerCheck {
    let ago = |at: UnixMillis| format!("{} ago", span(now.since(at)));
    let text = match audit {
        Some(audit) => {
            let round = audit.round_at.map_or_else(
                || "no check of all data has ended yet".to_owned(),
                |at| format!("the last check of all data ended {}", ago(at)),
            );
            format!("findings: {}, last checked {}; {round}", audit.findings, ago(audit.at))
        }
        None => "no node has checked data yet".to_owned(),
    };
    let is_long = |at: UnixMillis| now.since(at) > OVERDUE;
    let was_there =
        nodes.iter().any(|node| is_present(node, now) && node.started_at.is_some_and(is_long));
    if was_there && audit.is_none_or(|audit| is_long(audit.at)) {
        let why = "no node checked a part of the data in the last hour, although each node should; the logs of the nodes have the cause (\"the consistency of the data is not checked\")";
        return ServerCheck::new("slow check", CheckLevel::Warn, format!("{text}: {why}"));
    }
    ServerCheck::new("slow check", CheckLevel::Ok, text)
}

/// Prints the repairs, then the findings that were not repaired.
pub(super) fn text(mended: &[Mended], exam: &Examination, console: &mut Console) {
    for Mended { finding, done } in mended {
        let word = console.paint("done", Colour::Green);
        let repairs = format!("{}: {}", finding.subject, done.join(", "));
        console.line(&format!("  {word}  {:<14}  {}", finding.code(), one_line(&repairs)));
    }
    for finding in &exam.findings {
        line(CheckLevel::Fail, &finding.code(), &finding.to_string(), console);
    }
}

pub(super) fn finding_json(finding: &Inconsistency) -> Value {
    let (job, run, key, fence) = match &finding.subject {
        FindingSubject::Job(name) => (Some(name.to_string()), None, None, None),
        FindingSubject::Run(run, fence) => {
            (Some(run.job().to_string()), Some(run.to_string()), None, fence.map(Fence::as_u64))
        }
        FindingSubject::Key(key) => (None, None, Some(key.clone()), None),
    };
    let (is_fixable, mend) = match &finding.mend {
        Mend::Fix(what) => (true, format!("schedctl doctor --fix {what}")),
        Mend::Hand(advice) => (false, advice.clone()),
    };
    json!({
        "finding": finding.code(),
        "subject": finding.subject.to_string(),
        "job": job,
        "run_id": run,
        "key": key,
        "fence": fence,
        "found": finding.found,
        "fixable": is_fixable,
        "mend": mend,
    })
}

pub(super) fn mended_json(mended: &Mended) -> Value {
    let mut item = finding_json(&mended.finding);
    item["done"] = json!(mended.done);
    item
}
