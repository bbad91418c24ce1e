//! All findings in the order in which they answer: what was planned, what became of it, what each node saw, whether it was
//! late and why, by which rule, and what comes next.

use super::became::Became;
use super::facts::Facts;
use super::fate::became;
use super::loss::{Bereft, bereft};
use super::on_time::timing;
use super::planned::{Planned, planned};
use super::rules::{Next, Rule, next, rules};
use super::saw::{Saw, saw};
use super::timing::Timing;
use super::told::{Told, told};
use crate::domain::zone::Zone;

/// A finding: one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// What was planned.
    Planned(Planned),
    /// What became of it.
    Became(Became),
    /// What is known of it since data was lost.
    Bereft(Bereft),
    /// What a node saw.
    Saw(Saw),
    /// Whether it was on time.
    Timing(Timing),
    /// What was late, and who was told.
    Told(Told),
    /// A rule that decided.
    Rule(Rule),
    /// What comes next.
    Next(Next),
}

/// Which question a finding answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What was planned.
    Planned,
    /// What became of it.
    Became,
    /// What each node saw.
    Nodes,
    /// Whether it was on time, and why not.
    Timing,
    /// What the rule was and where it is set.
    Rule,
    /// What comes next.
    Next,
}

impl Part {
    /// The word for it.
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
}

impl Finding {
    /// The question it answers.
    pub fn part(&self) -> Part {
        match self {
            Self::Planned(_) => Part::Planned,
            Self::Became(_) | Self::Bereft(_) => Part::Became,
            Self::Saw(_) => Part::Nodes,
            Self::Timing(_) | Self::Told(_) => Part::Timing,
            Self::Rule(_) => Part::Rule,
            Self::Next(_) => Part::Next,
        }
    }

    /// The word for it, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Planned(found) => found.code(),
            Self::Became(found) => found.code(),
            Self::Bereft(found) => found.code(),
            Self::Saw(found) => found.code(),
            Self::Timing(found) => found.code(),
            Self::Told(found) => found.code(),
            Self::Rule(found) => found.code(),
            Self::Next(found) => found.code(),
        }
    }

    /// In plain words, instants in `zone`.
    pub fn sentence(&self, zone: &Zone) -> String {
        match self {
            Self::Planned(found) => found.sentence(zone),
            Self::Became(found) => found.sentence(zone),
            Self::Bereft(found) => found.sentence(zone),
            Self::Saw(found) => found.sentence(zone),
            Self::Timing(found) => found.sentence(zone),
            Self::Told(found) => found.sentence(zone),
            Self::Rule(found) => found.sentence(zone),
            Self::Next(found) => found.sentence(zone),
        }
    }
}

/// What the facts say.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let became = became(facts);
    let timing = timing(facts);
    let rules = rules(facts, &became, &timing);
    let mut found: Vec<Finding> = planned(facts).into_iter().map(Finding::Planned).collect();
    found.extend(became.into_iter().map(Finding::Became));
    found.extend(bereft(facts).into_iter().map(Finding::Bereft));
    found.extend(saw(facts).into_iter().map(Finding::Saw));
    found.extend(timing.into_iter().map(Finding::Timing));
    found.extend(told(facts).into_iter().map(Finding::Told));
    found.extend(rules.into_iter().map(Finding::Rule));
    found.extend(next(facts).into_iter().map(Finding::Next));
    found
}

/// Why the run asked about did not start when it was to: what it waits for, and what kept it. Nothing where nothing is noted.
pub fn causes(facts: &Facts) -> Vec<Finding> {
    let waits = |found: &Became| {
        matches!(
            found,
            Became::Waits { .. }
                | Became::WaitsAt { .. }
                | Became::LetIn { .. }
                | Became::GaveUpPlace { .. }
                | Became::RetryAt { .. }
                | Became::AskAt { .. }
                | Became::Held
        )
    };
    let keeps = |found: &Timing| {
        !matches!(
            found,
            Timing::OnTime { .. }
                | Timing::Late { .. }
                | Timing::NotStarted { .. }
                | Timing::Unexplained
                | Timing::LostWithData
                | Timing::CaughtUp { .. }
        )
    };
    let kept = timing(facts).into_iter().filter(keeps).map(Finding::Timing);
    became(facts).into_iter().filter(waits).map(Finding::Became).chain(kept).collect()
}
