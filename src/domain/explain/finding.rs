//! A finding: one answer of `explain` in plain words, with a code for programs.

/// One answer of `explain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The question it answers.
    pub part: Part,
    /// Its code, for programs.
    pub code: &'static str,
    /// Its text for people, with instants in the zone of the job.
    pub text: String,
}

/// The question that a finding answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The plan.
    Planned,
    /// The outcome.
    Became,
    /// The life of each node at that time.
    Nodes,
    /// The timing: on time or not, and why not.
    Timing,
    /// The rule that decided, and where it is set.
    Rule,
    /// The next run.
    Next,
}

impl Part {
    /// The word for this part in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Became => "became",
            Self::Nodes => "nodes",
            Self::Timing => "timing",
            Self::Rule => "rule",
            Self::Next => "next",
        }
    }

    /// A finding that answers this question.
    pub(super) fn finding(self, code: &'static str, text: impl Into<String>) -> Finding {
        Finding { part: self, code, text: text.into() }
    }
}
