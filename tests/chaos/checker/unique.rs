//! ABOVE of unique keys: no second job of a key begins before the first is over.
//!
//! The key is held from the add to the end of a job, and a job is added before it begins.
//! So a job that began before another job of its key was over had been added while the other held
//! the key.
//! A job that began is over when its last attempt is.
//! The excuses are those of a queue's limit, and a data loss, which may have removed the key.

use std::collections::BTreeMap;

use super::shared::{counts, lost_between};
use super::view::View;
use super::{Finding, Verdict};
use crate::evidence::{Attempt, Micros};

/// ABOVE: a job began while another job of its unique key existed.
pub(super) fn unique(view: &View<'_>, findings: &mut Vec<Finding>) {
    let mut by_key: BTreeMap<&str, Vec<&[&Attempt]>> = BTreeMap::new();
    for (name, attempts) in &view.of_job {
        if let Some(key) = view.evidence.jobs.get(*name).and_then(|job| job.sharing.unique) {
            by_key.entry(key).or_default().push(attempts);
        }
    }
    for (key, jobs) in by_key {
        for first in &jobs {
            let others = jobs
                .iter()
                .filter(|other| other[0].run.job != first[0].run.job)
                .filter_map(|other| other.first());
            for second in others.filter(|second| is_within(view, first, second.began)) {
                let what = format!(
                    "{} began while {} held the unique key {key}",
                    second.run.id, first[0].run.job
                );
                let mut about = first.to_vec();
                about.push(second);
                findings.push(Finding::new(Verdict::Above, second.began, what, &about));
            }
        }
    }
}

/// Returns true if a job with these attempts had begun and was not over at `at`.
fn is_within(view: &View<'_>, attempts: &[&Attempt], at: Micros) -> bool {
    let Some(first) = attempts.first().filter(|first| first.began < at) else { return false };
    let is_to_end = attempts
        .iter()
        .any(|attempt| attempt.began > at || attempt.last_sign > at && counts(view, attempt, at));
    is_to_end && !lost_between(view, first.run.due.min(first.began), at)
}
