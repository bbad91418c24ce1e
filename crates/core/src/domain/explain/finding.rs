//! A finding of `explain`: one or more sentences with a code for programs.

/// A finding: a part of the answer of `explain`, as text and as a code for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The part of the answer to which the finding belongs.
    pub part: Part,
    /// The code of the finding in JSON.
    pub code: &'static str,
    /// The finding in words. Times are in the zone of the reader.
    pub text: String,
}

/// A part of the answer of `explain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The plan: the schedule of the job, its author and its changes.
    Planned,
    /// The outcome: the end of the run, or the reason why the run waits.
    Became,
    /// The state of each node at the time that the user asks about.
    Nodes,
    /// The delay of the run and its causes.
    Timing,
    /// The rules of the job that decided the outcome, and where each rule is set.
    Rule,
    /// The next run of the job.
    Next,
}

impl Part {
    /// Returns the name of this part in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Became => "outcome",
            Self::Nodes => "nodes",
            Self::Timing => "timing",
            Self::Rule => "rule",
            Self::Next => "next",
        }
    }

    /// Returns a finding in this part of the answer, with this code and text.
    pub(super) fn finding(self, code: &'static str, text: impl Into<String>) -> Finding {
        Finding { part: self, code, text: text.into() }
    }
}
