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
            Self::JournalsSilent { nodes } if nodes.is_empty() => {
                "No journal has told anything of this occurrence yet, so whether it ran is not known.".to_owned()
            }
            Self::JournalsSilent { nodes } => {
                let journals = if nodes.len() == 1 { "journal" } else { "journals" };
                let tell = if nodes.len() == 1 { "tells" } else { "tell" };
                format!("The {journals} of {} {tell} nothing of it, so whether it ran is not known.", names(nodes))
            }
            Self::GivenBack { node } => format!("Redis had lost this record; the journal of {node} gave it back."),
        }
    }
}

/// The first loss that may have taken what was recorded of what is asked about, if its own record does not tell.
fn of(facts: &Facts) -> Option<&Loss> {
    let is_told = matches!(&facts.subject, Subject::Job { .. }) || facts.run().is_some_and(|run| !run.attempts.is_empty());
    let is_told = is_told || facts.not_there_yet().is_some();
    let at = facts.at().unwrap_or(UnixMillis::EPOCH);
    facts.losses.iter().find(|loss| !is_told && loss.concerns(at))
}

/// The loss that makes it unknown whether a run that was skipped as missed since, or has no record, had run before.
pub(super) fn hidden(facts: &Facts) -> Option<&Loss> {
    let at = facts.at()?;
    let loss = of(facts).filter(|loss| loss.hides(at))?;
    let is_since = |run: &RunFacts| run.finished_at.is_none_or(|ended| ended >= loss.noticed);
    let is_missed = |run: &RunFacts| run.state == RunState::Skipped && run.reason.as_deref() == Some("missed") && is_since(run);
    let is_unknown = match &facts.subject {
        Subject::Run(run) | Subject::Stretch { run, .. } => is_missed(run),
        Subject::Ledger { state, reason, .. } => state == "skipped" && reason == "missed",
        Subject::Unrecorded { .. } => true,
        _ => false,
    };
    is_unknown.then_some(loss)
}

/// What is to be said of losses.
pub(super) fn bereft(facts: &Facts) -> Vec<Bereft> {
    let mut found: Vec<Bereft> = of(facts).map(|loss| Bereft::DataLost { loss: loss.clone() }).into_iter().collect();
    found.extend(hidden(facts).map(|loss| Bereft::JournalsSilent { nodes: loss.told_by.clone() }));
    let reason = facts.run().filter(|_| matches!(facts.subject, Subject::Run(_))).and_then(|run| run.reason.as_deref());
    let journal = reason.and_then(|reason| reason.rsplit("; ").next()).and_then(|last| last.strip_prefix(GIVEN_BACK));
    found.extend(journal.map(|node| Bereft::GivenBack { node: node.to_owned() }));
    found
}
