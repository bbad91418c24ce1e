//! Findings about a data loss in which Redis may have lost the record of a run or occurrence.
//!
//! Invariant: if Redis may have lost a record, no finding says that this record never existed.

use crate::domain::explain::explain_words::list;
use crate::domain::explain::facts::{Facts, Loss, RunFacts, Subject};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::run::run_state::RunState;
use schedd_schedule::time::unix_millis::UnixMillis;

fn finding(code: &'static str, text: impl Into<String>) -> Finding {
    Part::Became.finding(code, text)
}

/// Returns the clause "the journals of these nodes have no record of this occurrence".
fn silent(nodes: &[String]) -> String {
    match nodes {
        [] => "No node has reported yet whether its journal has a record of this occurrence"
            .to_owned(),
        [node] => format!("The journal of node {node} has no record of this occurrence"),
        _ => format!("The journals of nodes {} have no record of this occurrence", list(nodes)),
    }
}

/// Returns the first data loss in which Redis may have lost the record that the question is about.
/// Returns `None` if no such loss is known.
fn of(facts: &Facts) -> Option<&Loss> {
    if matches!(&facts.subject, Subject::Job { .. }) || facts.added_later().is_some() {
        return None;
    }
    let at = facts.at().unwrap_or(UnixMillis::EPOCH);
    let is_of = |loss: &&Loss| match facts.run().filter(|run| !run.attempts.is_empty()) {
        Some(run) => loss.hides(at) && !loss.was_before(run),
        None => loss.concerns(at),
    };
    facts.losses.iter().find(is_of)
}

/// Returns the data loss because of which it is not known if the occurrence ran before the loss.
/// Either Redis has no record of the occurrence, or its run started or was skipped as missed after
/// the loss. Returns `None` if there is no such loss.
pub(super) fn hidden(facts: &Facts) -> Option<&Loss> {
    let at = facts.at()?;
    let loss = of(facts).filter(|loss| loss.hides(at))?;
    let is_since = |run: &RunFacts| run.finished_at.is_none_or(|ended| ended >= loss.until());
    let is_missed = |run: &RunFacts| {
        run.state == RunState::Skipped && run.reason.as_deref() == Some("missed") && is_since(run)
    };
    let is_unknown = match &facts.subject {
        Subject::Run(run) | Subject::InRange { run, .. } => {
            is_missed(run) || !run.attempts.is_empty()
        }
        Subject::Ledger { state, reason, .. } => state == "skipped" && reason == "missed",
        Subject::Unrecorded { .. } => true,
        _ => false,
    };
    is_unknown.then_some(loss)
}

/// Returns the findings about the data loss that concerns the occurrence, and about a record that a
/// journal restored.
pub(super) fn losses(facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        of(facts).map(|loss| data_lost(facts, loss)).into_iter().collect();
    let has_run = facts.run().is_some_and(|run| !run.attempts.is_empty());
    found.extend(hidden(facts).map(|Loss { kept, reported_by, .. }| {
        let no_journal_record = silent(reported_by);
        if !has_run {
            return finding(
                "journals_silent",
                format!("{no_journal_record}, so it is not known if the occurrence ran."),
            );
        }
        let lost_records = match kept {
            Some(kept) => format!("Redis went back to its data of {}", facts.shown(*kept)),
            None => "All earlier records are gone".to_owned(),
        };
        finding(
            "may_have_run",
            format!("{lost_records}, so this occurrence may also have run before the data loss. {no_journal_record}."),
        )
    }));
    let restored_by = facts
        .run()
        .filter(|_| matches!(facts.subject, Subject::Run(_)))
        .and_then(RunFacts::restored_by);
    let restored = |node| {
        finding(
            "given_back",
            format!(
                "Redis had lost the record of this run. The journal of node {node} restored the record."
            ),
        )
    };
    found.extend(restored_by.map(restored));
    found
}

fn data_lost(facts: &Facts, loss: &Loss) -> Finding {
    let Loss { noticed, by, what, kept, .. } = loss;
    let until = facts.shown(loss.until());
    let period = match kept {
        Some(kept) => format!("between {} and {until}", facts.shown(*kept)),
        None => format!("up to {until}"),
    };
    let noticed = facts.shown(*noticed);
    let text = format!(
        "Node {by} noticed on {noticed} that Redis had lost data: {what}. Records made {period} are gone, unless a journal restored them."
    );
    finding("data_lost", text)
}
