//! The reference: when jobs are due, by plain arithmetic on seconds. It shares nothing with schedd's own cron and periods.

use crate::evidence::{Micros, SECOND};

/// When a job is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// `*/STEP * * * * *`: at each second of a minute that STEP divides.
    Seconds(i64),
    /// Each PERIOD, counted from a whole second the first of the nodes chose between these two.
    Every {
        /// Seconds.
        period: i64,
        /// The earliest and the latest that second can be.
        anchor: (Micros, Micros),
    },
    /// Once.
    Once(Micros),
    /// When a person asks for it.
    ByHand,
}

/// A time in which a job had one schedule.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    pub(crate) when: When,
    /// What is due from here ...
    pub(crate) sure_from: Micros,
    /// ... to here is owed.
    pub(crate) sure_to: Micros,
    /// What is due from here ...
    pub(crate) maybe_from: Micros,
    /// ... to here may run.
    pub(crate) maybe_to: Micros,
}

impl When {
    /// The dues from `from` to before `to`. `seen` is any due seen of it, which tells the anchor of a period.
    pub(crate) fn dues(self, from: Micros, to: Micros, seen: Option<Micros>) -> Vec<Micros> {
        let seconds = || (from.div_euclid(SECOND)..=to.div_euclid(SECOND)).map(|second| second * SECOND);
        let within = |due: &Micros| (from..to).contains(due);
        match self {
            Self::Seconds(step) => seconds().filter(|due| (due / SECOND) % 60 % step == 0).filter(within).collect(),
            Self::Every { period, .. } => {
                let Some(seen) = seen else { return Vec::new() };
                seconds().filter(|due| (due - seen) % (period * SECOND) == 0).filter(within).collect()
            }
            Self::Once(due) => Some(due).filter(within).into_iter().collect(),
            Self::ByHand => Vec::new(),
        }
    }

    /// Whether a job with this schedule may be due then.
    pub(crate) fn allows(self, due: Micros, seen: Option<Micros>) -> bool {
        match self {
            Self::Every { period, anchor } => {
                let step = period * SECOND;
                let is_in_step = seen.is_none_or(|seen| (due - seen) % step == 0);
                // Some whole second the nodes may have chosen is whole periods before it.
                let first = anchor.0.div_euclid(SECOND)..=anchor.1.div_euclid(SECOND);
                is_in_step && due % SECOND == 0 && first.into_iter().any(|second| (due - second * SECOND) % step == 0)
            }
            Self::ByHand => false,
            _ => !self.dues(due, due + 1, seen).is_empty(),
        }
    }
}
