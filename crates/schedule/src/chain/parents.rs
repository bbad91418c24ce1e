//! The parents of a job in a chain, and the rule by which their ends let the job run.

use std::collections::BTreeSet;

use crate::names::JobName;

/// The rule by which the ends of all parents let a child run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParentRule {
    /// All parents succeeded.
    Succeeded,
    /// At least one parent succeeded.
    AnySucceeded,
    /// At least one parent failed, timed out or was lost.
    AnyFailed,
    /// The parents ended in any way.
    Ended,
}

impl ParentRule {
    /// All rules, each with the key of `[jobs.X]` that names its parents.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Succeeded, "after"),
        (Self::AnySucceeded, "after_any"),
        (Self::AnyFailed, "after_failed"),
        (Self::Ended, "after_finished"),
    ];

    /// Returns the key of `[jobs.X]` that names the parents of this rule.
    pub fn key(self) -> &'static str {
        Self::ALL.into_iter().find(|(rule, _)| *rule == self).map_or("after", |(_, key)| key)
    }

    /// Returns the rule as a short text before the names of the parents.
    fn text(self) -> &'static str {
        match self {
            Self::Succeeded => "after",
            Self::AnySucceeded => "after any of",
            Self::AnyFailed => "after a failure of",
            Self::Ended => "after the end of",
        }
    }

    /// Returns the condition in words, as the end of the sentence `The job runs when`.
    pub fn condition(self) -> &'static str {
        match self {
            Self::Succeeded => "all parents have succeeded",
            Self::AnySucceeded => "all parents have ended and at least one has succeeded",
            Self::AnyFailed => "all parents have ended and at least one has failed",
            Self::Ended => "all parents have ended",
        }
    }
}

/// The parents of a job: the jobs after whose ends the job runs, at most 16.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parents {
    /// The rule by which the ends of the parents let the job run.
    pub rule: ParentRule,
    /// The parents. At least one.
    pub jobs: BTreeSet<JobName>,
}

impl Parents {
    /// The maximum number of parents of a job.
    pub const MOST: usize = 16;

    /// Returns the parents as a short text, such as `after extract, load`.
    pub fn text(&self) -> String {
        format!("{} {}", self.rule.text(), self.names(", "))
    }

    /// Returns the parents as Redis stores them with the job: the key and the names, such as
    /// `after_any extract load`.
    pub fn stored(&self) -> String {
        format!("{} {}", self.rule.key(), self.names(" "))
    }

    fn names(&self, between: &str) -> String {
        self.jobs.iter().map(JobName::as_str).collect::<Vec<_>>().join(between)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_shown_and_stored_with_their_rule() {
        let jobs = ["load", "extract"].map(|name| name.parse().unwrap()).into();
        let parents = Parents { rule: ParentRule::AnyFailed, jobs };
        assert_eq!(parents.text(), "after a failure of extract, load");
        assert_eq!(parents.stored(), "after_failed extract load");
    }
}
