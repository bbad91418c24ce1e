//! A finding: a part of the answer of `explain`, as a plain sentence with a code for programs.

/// A sentence in the answer of `explain`, with a code for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The question that the finding answers.
    pub part: Part,
    /// The code by which programs recognise the finding.
    pub code: &'static str,
    /// The text of the finding for people. Times in the text are in the zone of the job.
    pub text: String,
}

/// The question that a finding answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The question what was planned.
    Planned,
    /// The question how the run ended, or what the run waits for.
    Became,
    /// The question how each node was at that time.
    Nodes,
    /// The question if the run was on time, and if not, why not.
    Timing,
    /// The question which rule of the job decided, and where that rule is set.
    Rule,
    /// The question when the job runs next.
    Next,
}

impl Part {
    /// The name of this question in JSON.
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

    /// Returns a finding that answers this question.
    pub(super) fn finding(self, code: &'static str, text: impl Into<String>) -> Finding {
        Finding { part: self, code, text: text.into() }
    }
}
