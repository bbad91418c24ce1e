//! The rule because of which a missed run was skipped.

use std::time::Duration;

use super::catch_up::CatchUpMode;
use super::{Decision, Due, judge, latest_after};
use crate::time::unix_millis::UnixMillis;

/// The rule because of which a missed run was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipCause {
    /// The modes `latest` and `skip` start only the newest occurrence, and this newer occurrence
    /// was due too.
    NewerDue(UnixMillis),
    /// The mode `all` starts only the newest `max_count` occurrences.
    TooMany,
    /// The run was older than `catch_up.max_age` allows.
    OlderThanMaxAge(Duration),
    /// The run was older than `skip_if_late` allows.
    OlderThanSkipIfLate(Duration),
    /// The mode `skip` starts no run that is later than `late_after` allows.
    Late,
}

/// Returns the rule because of which [`judge`] skips `run`. Returns `None` if `judge` starts it.
pub fn skip_cause(run: Due<'_>) -> Option<SkipCause> {
    let Decision::Skip { .. } = judge(run) else { return None };
    let too_old = || {
        let by_age = run.catch_up.max_age.map(|most| (most, SkipCause::OlderThanMaxAge(most)));
        let by_late = run.skip_if_late.map(|most| (most, SkipCause::OlderThanSkipIfLate(most)));
        let rules = [by_age, by_late].into_iter().flatten();
        rules.min_by_key(|(most, _)| *most).map(|(_, cause)| cause)
    };
    let is_too_old = |at: UnixMillis| {
        [run.catch_up.max_age, run.skip_if_late]
            .into_iter()
            .flatten()
            .any(|most| run.age_of(at) > most)
    };
    let newer = latest_after(run.timetable, run.due.max(run.since), run.now)
        .filter(|_| !run.timetable.is_one_shot());
    let newest = newer.unwrap_or(run.due);
    match run.catch_up.mode {
        _ if is_too_old(newest) => too_old(),
        CatchUpMode::Skip if run.age_of(newest) > run.late_after => Some(SkipCause::Late),
        CatchUpMode::Skip | CatchUpMode::Latest => newer.map(SkipCause::NewerDue),
        CatchUpMode::All if is_too_old(run.due) => too_old(),
        CatchUpMode::All => Some(SkipCause::TooMany),
    }
}
