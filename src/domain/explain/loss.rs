//! What a loss of Redis' data leaves to be told of an occurrence: which loss, what it took, what journals gave back.
//!
//! Invariant: what may have been recorded and is gone is not told as if it never was.

use super::ON_TIME;
use super::facts::{Facts, RunFacts, Subject};
use super::sentences::{findings, names};
use crate::domain::run::RunState;
use crate::domain::time::UnixMillis;
use crate::domain::wording::shown;
use crate::domain::zone::Zone;

/// The end of the reason of a run that a journal gave back.
const GIVEN_BACK: &str = "restored by the journal of ";

/// A time when Redis had lost data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// When a node noticed it.
    pub noticed: UnixMillis,
    /// The node.
    pub by: String,
    /// What had happened, in words.
    pub what: &'static str,
    /// Up to when the data is there all the same; none if all of it was gone, or if that is not known.
    pub kept: Option<UnixMillis>,
    /// When that node had last seen all of it.
    pub whole: Option<UnixMillis>,
    /// The nodes whose journals have given back what they knew.
    pub told_by: Vec<String>,
}

impl Loss {
    /// Whether what was recorded of an occurrence at `at` may be gone.
    pub fn concerns(&self, at: UnixMillis) -> bool {
        at < self.noticed && self.kept.is_none_or(|kept| kept < at.saturating_add(ON_TIME))
    }

    /// Until when what was recorded is gone, as far as that is known.
    fn until(&self) -> UnixMillis {
        self.whole.unwrap_or(self.noticed)
    }

    /// Whether what is recorded of `run` was there before.
    fn was_before(&self, run: &RunFacts) -> bool {
        let is_given_back = run.reason.as_deref().is_some_and(|reason| reason.contains(GIVEN_BACK));
        let until = self.until().max(self.kept.unwrap_or(UnixMillis::EPOCH));
        is_given_back || run.attempts.iter().any(|attempt| attempt.started_at.is_none_or(|at| at <= until))
    }

    /// Whether an occurrence at `at` came due while the data that is gone was still there, so that it may have run.
    pub fn hides(&self, at: UnixMillis) -> bool {
        let until = self.whole.map_or(self.noticed, |whole| whole.saturating_add(ON_TIME));
        self.concerns(at) && at <= until
    }
}

findings! {
    /// What is known of an occurrence whose record may be gone.
    Bereft {
        /// Redis lost data.
        "data_lost" DataLost {
            /// The loss.
            loss: Loss,
        },
        /// No journal knows of the occurrence.
        "journals_silent" JournalsSilent {
            /// The nodes whose journals told what they know.
            nodes: Vec<String>,
        },
        /// All its attempts came after the loss, and no journal knows of an earlier one.
        "may_have_run" MayHaveRun {
            /// Up to when the data was there, if any was.
            kept: Option<UnixMillis>,
            /// The nodes whose journals told what they know.
            nodes: Vec<String>,
        },
        /// A journal knew how it ended.
        "given_back" GivenBack {
            /// Its node.
            node: String,
        },
    }
}

impl Bereft {
    /// In plain words.
    pub fn sentence(&self, zone: &Zone) -> String {
        match self {
            Self::DataLost { loss } => {
                let Loss { noticed, by, what, kept, whole, .. } = loss;
                let until = shown(whole.unwrap_or(*noticed), zone);
                let gone = match kept {
                    Some(kept) => format!("between {} and {until}", shown(*kept, zone)),
                    None => format!("up to {until}"),
                };
                format!(
                    "Redis lost data, noticed by {by} on {}: {what}. What was recorded {gone} is gone, but for what journals gave back.",
                    shown(*noticed, zone)
                )
            }
            Self::JournalsSilent { nodes } => format!("{}, so whether it ran is not known.", silent(nodes)),
            Self::MayHaveRun { kept, nodes } => {
                let back = match kept {
                    Some(kept) => format!("All was put back to how it was on {}", shown(*kept, zone)),
                    None => "All that was recorded before was gone".to_owned(),
                };
                format!("{back}, so it may have run before. {}, so whether it did is not known.", silent(nodes))
            }
            Self::GivenBack { node } => format!("Redis had lost this record; the journal of {node} gave it back."),
        }
    }
}

/// That no journal tells of it.
fn silent(nodes: &[String]) -> String {
    match nodes {
        [] => "No journal has told anything of this occurrence yet".to_owned(),
        [node] => format!("The journal of {node} tells nothing of it"),
        _ => format!("The journals of {} tell nothing of it", names(nodes)),
    }
}

/// The first loss that may have taken what was recorded of what is asked about, if its own record does not tell.
fn of(facts: &Facts) -> Option<&Loss> {
    if matches!(&facts.subject, Subject::Job { .. }) || facts.not_there_yet().is_some() {
        return None;
    }
    let at = facts.at().unwrap_or(UnixMillis::EPOCH);
    let is_of = |loss: &&Loss| match facts.run().filter(|run| !run.attempts.is_empty()) {
        Some(run) => loss.hides(at) && !loss.was_before(run),
        None => loss.concerns(at),
    };
    facts.losses.iter().find(is_of)
}

/// The loss that makes it unknown whether a run that was skipped as missed or begun since, or has no record, had run before.
pub(super) fn hidden(facts: &Facts) -> Option<&Loss> {
    let at = facts.at()?;
    let loss = of(facts).filter(|loss| loss.hides(at))?;
    let is_since = |run: &RunFacts| run.finished_at.is_none_or(|ended| ended >= loss.until());
    let is_missed = |run: &RunFacts| run.state == RunState::Skipped && run.reason.as_deref() == Some("missed") && is_since(run);
    let is_unknown = match &facts.subject {
        Subject::Run(run) | Subject::Stretch { run, .. } => is_missed(run) || !run.attempts.is_empty(),
        Subject::Ledger { state, reason, .. } => state == "skipped" && reason == "missed",
        Subject::Unrecorded { .. } => true,
        _ => false,
    };
    is_unknown.then_some(loss)
}

/// What is to be said of losses.
pub(super) fn bereft(facts: &Facts) -> Vec<Bereft> {
    let mut found: Vec<Bereft> = of(facts).map(|loss| Bereft::DataLost { loss: loss.clone() }).into_iter().collect();
    let has_run = facts.run().is_some_and(|run| !run.attempts.is_empty());
    found.extend(hidden(facts).map(|Loss { kept, told_by, .. }| match (has_run, told_by.clone()) {
        (true, nodes) => Bereft::MayHaveRun { kept: *kept, nodes },
        (false, nodes) => Bereft::JournalsSilent { nodes },
    }));
    let reason = facts.run().filter(|_| matches!(facts.subject, Subject::Run(_))).and_then(|run| run.reason.as_deref());
    let journal = reason.and_then(|reason| reason.rsplit("; ").next()).and_then(|last| last.strip_prefix(GIVEN_BACK));
    found.extend(journal.map(|node| Bereft::GivenBack { node: node.to_owned() }));
    found
}
