//! The reference: due times by plain arithmetic on seconds. It shares nothing with the cron and
//! periods of schedd.

use crate::evidence::{Micros, SECOND};

/// The schedule of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// `*/STEP * * * * *`: at each second of a minute that STEP divides.
    Seconds(i64),
    /// Each PERIOD, counted from a whole second that the first of the nodes chose.
    Every {
        /// The period, in seconds.
        period: i64,
        /// The earliest and the latest possible second of the anchor.
        anchor: (Micros, Micros),
    },
    /// Once, at this time.
    Once(Micros),
    /// Only by hand.
    ByHand,
}

/// An interval in which a job had one schedule.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    pub(crate) when: When,
    /// An occurrence from here ...
    pub(crate) sure_from: Micros,
    /// ... to here is owed.
    pub(crate) sure_to: Micros,
    /// An occurrence from here ...
    pub(crate) maybe_from: Micros,
    /// ... to here may run.
    pub(crate) maybe_to: Micros,
}

impl When {
    /// Returns the due times from `from` to before `to`. `seen` is any observed due time of the
    /// job, which gives a period's anchor.
    pub(crate) fn dues(self, from: Micros, to: Micros, seen: Option<Micros>) -> Vec<Micros> {
        let seconds =
            || (from.div_euclid(SECOND)..=to.div_euclid(SECOND)).map(|second| second * SECOND);
        let within = |due: &Micros| (from..to).contains(due);
        match self {
            Self::Seconds(step) => {
                seconds().filter(|due| (due / SECOND) % 60 % step == 0).filter(within).collect()
            }
            Self::Every { period, .. } => {
                let Some(seen) = seen else { return Vec::new() };
                seconds()
                    .filter(|due| (due - seen) % (period * SECOND) == 0)
                    .filter(within)
                    .collect()
            }
            Self::Once(due) => Some(due).filter(within).into_iter().collect(),
            Self::ByHand => Vec::new(),
        }
    }

    /// Returns true if a job with this schedule may be due at this time.
    pub(crate) fn allows(self, due: Micros, seen: Option<Micros>) -> bool {
        match self {
            Self::Every { period, anchor } => {
                let step = period * SECOND;
                let is_in_step = seen.is_none_or(|seen| (due - seen) % step == 0);
                // The due time must lie whole periods after some second that the nodes may have
                // chosen.
                let first = anchor.0.div_euclid(SECOND)..=anchor.1.div_euclid(SECOND);
                is_in_step
                    && due % SECOND == 0
                    && first.into_iter().any(|second| (due - second * SECOND) % step == 0)
            }
            Self::ByHand => false,
            _ => !self.dues(due, due + 1, seen).is_empty(),
        }
    }
}
