//! Findings about a change of the clock that moved, left out or repeated an occurrence.

use std::time::Duration;

use crate::domain::explain::facts::{Facts, Subject};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::explain::schedule_then::past_at;
use schedd_schedule::clock_notes::clock_notes;
use schedd_schedule::names::RunKind;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The code of the finding for a clock change.
pub(super) const CLOCK_CHANGE: &str = "clock_change";

/// The longest time between a clock change and a time without an occurrence that the change may
/// explain.
const NEAR: Duration = Duration::from_secs(24 * 3600);

/// Returns the findings about the clock changes that affect the occurrence that the user asks
/// about. For a time without an occurrence, returns the clock changes within a day of that time
/// that left out or repeated an occurrence.
pub(super) fn clock_changes(facts: &Facts) -> Vec<Finding> {
    let (Some(at), Some(job)) = (facts.at(), &facts.job) else { return Vec::new() };
    if facts.run().is_some_and(|run| run.run.kind() != RunKind::Regular) {
        return Vec::new();
    }
    let then = past_at(&facts.past, job.since, at);
    let Some((_, timetable)) = then.or(job.definition.as_ref().ok()) else { return Vec::new() };
    let notes_on = |from, to| clock_notes(timetable, from, to, &facts.local);
    let mut notes: Vec<String> = if let Subject::NotDue { before, after, .. } = &facts.subject {
        let (from, to) = (at.saturating_sub(NEAR), at.saturating_add(NEAR));
        let near = before.iter().chain(after).filter(|due| from <= **due && **due <= to);
        let on_near = near.flat_map(|due| notes_on(before_it(*due), *due));
        notes_on(from, to).into_iter().chain(on_near).collect()
    } else {
        let previous = timetable.latest_in(UnixMillis::EPOCH, before_it(at));
        notes_on(previous.unwrap_or_else(|| at.saturating_sub(NEAR)), at)
    };
    notes.dedup();
    notes.into_iter().map(|note| Part::Planned.finding(CLOCK_CHANGE, sentence(&note))).collect()
}

fn before_it(at: UnixMillis) -> UnixMillis {
    at.saturating_sub(Duration::from_millis(1))
}

/// Returns a note as a sentence.
fn sentence(note: &str) -> String {
    match note.strip_prefix("in ") {
        Some(rest) => format!("In {rest}."),
        None => format!("{note}."),
    }
}
