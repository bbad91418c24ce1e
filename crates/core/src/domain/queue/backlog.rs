//! The backlog of a queue: many runs are due, or a run has been due for long.

use std::time::Duration;

use schedd_schedule::names::JobName;
use schedd_schedule::time::duration::format_duration;
use schedd_schedule::time::wording::span;

/// The bounds from which a queue has a backlog, and the job that reports it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BacklogRules {
    /// The number of due runs from which the queue has a backlog. 1 to
    /// [`BacklogRules::MOST_DEPTH`]. `None` means no bound.
    pub depth: Option<u32>,
    /// The age of the oldest due run from which the queue has a backlog. 1 s to 30 days. `None`
    /// means no bound.
    pub oldest: Option<Duration>,
    /// The job of which a run starts when the backlog begins. `None` means no job.
    pub job: Option<JobName>,
}

impl BacklogRules {
    /// The maximum value of `depth`.
    pub const MOST_DEPTH: u32 = 10_000_000;

    /// Returns true if the rules have a bound.
    pub fn has_bound(&self) -> bool {
        self.depth.is_some() || self.oldest.is_some()
    }

    /// Returns a phrase about the bounds that a queue with `ready` due runs reaches. `age` is the
    /// time for which the oldest of them has been due. Returns `None` if the queue has no backlog.
    pub fn backlog(&self, ready: u64, age: Option<Duration>) -> Option<String> {
        let depth = self.depth.filter(|depth| ready >= u64::from(*depth));
        let oldest = self.oldest.zip(age).filter(|(oldest, age)| age >= oldest);
        let runs = if ready == 1 { "run is" } else { "runs are" };
        let depth = depth.map(|depth| format!("{ready} {runs} due, warn_depth is {depth}"));
        let oldest = oldest.map(|(oldest, age)| {
            let bound = format_duration(oldest);
            format!("the oldest run has been due for {}, warn_oldest is {bound}", span(age))
        });
        depth.into_iter().chain(oldest).reduce(|depth, oldest| format!("{depth}; {oldest}"))
    }

    /// Returns true if a backlog is over: both numbers are below half of their bounds. So a queue
    /// that stays near a bound is reported once.
    pub fn is_over(&self, ready: u64, age: Option<Duration>) -> bool {
        self.depth.is_none_or(|depth| ready.saturating_mul(2) < u64::from(depth))
            && self.oldest.is_none_or(|oldest| age.is_none_or(|age| age.saturating_mul(2) < oldest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_begins_at_a_bound_and_ends_below_half_of_both() {
        let secs = |secs| Some(Duration::from_secs(secs));
        let rules = BacklogRules { depth: Some(10), oldest: secs(60), job: None };
        assert_eq!(rules.backlog(9, secs(59)), None);
        assert_eq!(rules.backlog(10, None).unwrap(), "10 runs are due, warn_depth is 10");
        assert_eq!(
            rules.backlog(1, secs(90)).unwrap(),
            "the oldest run has been due for 1m 30s, warn_oldest is 1m"
        );
        assert!(rules.backlog(10, secs(60)).unwrap().contains("; the oldest run"));
        assert!(!rules.is_over(5, None) && !rules.is_over(4, secs(30)));
        assert!(rules.is_over(4, secs(29)) && rules.is_over(0, None));
        let rules = BacklogRules { depth: Some(1), ..BacklogRules::default() };
        assert_eq!(rules.backlog(1, None).unwrap(), "1 run is due, warn_depth is 1");
        assert!(!rules.is_over(1, None) && rules.is_over(0, None));
        assert!(!BacklogRules::default().has_bound());
    }
}
