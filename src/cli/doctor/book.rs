//! The books in the report: how much was looked at, what does not agree, and what was done about it.

use serde_json::{Value, json};

use super::report::line;
use crate::cli::render::{Colour, Console, one_line};
use crate::domain::books::{Finding, Mend, Subject};
use crate::domain::ids::Fence;
use crate::domain::time::UnixMillis;
use crate::engine::examination::{Examination, Mended};
use crate::store::{Check, Level, Store};

/// How much was looked at, and what the nodes found meanwhile.
pub(super) async fn summary(store: &Store, exam: &Examination, now: UnixMillis) -> Vec<Check> {
    let looked_at = format!("{} keys, {} jobs, {} runs looked at", exam.keys, exam.jobs, exam.runs);
    let mut checks = vec![match (exam.findings.len(), &exam.partial) {
        (_, Some(why)) => Check::new("books", Level::Fail, format!("{looked_at}; {why}")),
        (0, None) => Check::new("books", Level::Ok, format!("{looked_at}; they agree")),
        (1, None) => Check::new("books", Level::Fail, format!("{looked_at}; 1 finding")),
        (count, None) => Check::new("books", Level::Fail, format!("{looked_at}; {count} findings")),
    }];
    checks.push(match store.read_audit().await {
        Ok(Some(audit)) => {
            let text = format!("{} findings, last looked {} s ago", audit.findings, now.since(audit.at).as_secs());
            Check::new("slow check", Level::Ok, text)
        }
        Ok(None) => Check::new("slow check", Level::Ok, "no node has looked yet"),
        Err(error) => Check::new("slow check", Level::Warn, error.to_string()),
    });
    checks
}

/// What was mended, then what is left.
pub(super) fn text(mended: &[Mended], exam: &Examination, console: &mut Console) {
    for Mended { finding, done } in mended {
        let word = console.paint("done", Colour::Green);
        let told = format!("{}: {}", finding.subject, done.join(", "));
        console.line(&format!("  {word}  {:<14}  {}", finding.rule.as_str(), one_line(&told)));
    }
    for finding in &exam.findings {
        line(Level::Fail, finding.rule.as_str(), &finding.to_string(), console);
    }
}

pub(super) fn finding_json(finding: &Finding) -> Value {
    let (job, run, key, fence) = match &finding.subject {
        Subject::Job(name) => (Some(name.to_string()), None, None, None),
        Subject::Run(run, fence) => (Some(run.job().to_string()), Some(run.to_string()), None, fence.map(Fence::as_u64)),
        Subject::Key(key) => (None, None, Some(key.clone()), None),
    };
    let (is_fixable, mend) = match &finding.mend {
        Mend::Fix(what) => (true, format!("schedctl doctor --fix {what}")),
        Mend::Hand(advice) => (false, advice.clone()),
    };
    json!({
        "rule": finding.rule.as_str(),
        "subject": finding.subject.to_string(),
        "job": job,
        "run": run,
        "key": key,
        "fence": fence,
        "found": finding.found,
        "wanted": finding.wanted,
        "fixable": is_fixable,
        "mend": mend,
    })
}

pub(super) fn mended_json(mended: &Mended) -> Value {
    let mut item = finding_json(&mended.finding);
    item["done"] = json!(mended.done);
    item
}
