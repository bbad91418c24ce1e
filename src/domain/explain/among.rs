//! The sentences of what became of an occurrence together with others: in a stretch, or in a range of the ledger.

use super::became::Became;
use crate::domain::run::RunState;
use crate::domain::timetable::Timetable;
use crate::domain::wording::{shown, skipped_count};
use crate::domain::zone::Zone;

/// How a range of the ledger says that runs were missed: why they were, their records said.
const MISSED: &str = "skipped (missed)";

impl Became {
    /// The sentence of one that is among others; nothing of any other.
    pub(super) fn among_others(&self, zone: &Zone) -> String {
        match self {
            Self::InStretch { first, last, count } => {
                let all = if *count < u64::from(Timetable::COUNTED) { "all " } else { "" };
                let (count, first, last) = (skipped_count(*count), shown(*first, zone), shown(*last, zone));
                format!("So were {all}{count} occurrences from {first} to {last}.")
            }
            Self::Trimmed { state, count: 1, .. } if state == MISSED => {
                format!("It ended {state}; its record is no longer kept, nor is what kept it from starting.")
            }
            Self::Trimmed { state, first, last, count } if state == MISSED => format!(
                "It ended {state}; its record is no longer kept, nor is what kept it from starting. So did {} runs due between {} and {}.",
                skipped_count(*count),
                shown(*first, zone),
                shown(*last, zone)
            ),
            Self::Trimmed { state, count: 1, .. } => format!("It ended {state}; its record is no longer kept."),
            Self::Trimmed { state, first, last, count } => format!(
                "It ended {state}; its record is no longer kept. So did {} runs due between {} and {}.",
                ended_count(state, *count),
                shown(*first, zone),
                shown(*last, zone)
            ),
            Self::PerhapsTrimmed { state, first, last, count } => format!(
                "Of the runs due between {} and {} {} ended {state}; whether one was due then, and was among them, is no longer known.",
                shown(*first, zone),
                shown(*last, zone),
                ended_count(state, *count)
            ),
            _ => String::new(),
        }
    }
}

/// How many runs of a range ended so: those that were skipped together are counted only so far.
fn ended_count(state: &str, count: u64) -> String {
    if state.starts_with(RunState::Skipped.as_str()) { skipped_count(count) } else { count.to_string() }
}
