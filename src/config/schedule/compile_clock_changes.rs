//! The compiler of `dst = { gap = ..., fold = ... }`: the behaviour of a job when the clocks
//! change.

use crate::config::syntax::known_keys;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::{Spot, TableReader};
use crate::domain::schedule::clock_changes::{ClockChanges, Fold, Gap};
use crate::domain::schedule::schedule_form::Schedule;

pub(crate) fn compile_clock_changes(spot: &Spot<'_>, problems: &mut Problems) -> Option<ClockChanges> {
    let table = spot.table("a table such as { gap = \"skip\", fold = \"both\" }", problems)?;
    table.refuse_other_keys(&[known_keys::DST], &[], problems);
    let faults = problems.faults.len();
    let gap = table.get("gap").and_then(|spot| spot.choice(&Gap::ALL.map(|gap| (gap.as_str(), gap)), problems));
    let fold = table.get("fold").and_then(|spot| spot.choice(&Fold::ALL.map(|fold| (fold.as_str(), fold)), problems));
    (problems.faults.len() == faults).then_some(ClockChanges { gap, fold })
}

/// Notes a `dst` rule in the job's own table that the job's schedule never uses.
pub(crate) fn refuse_idle_clock_changes(table: &TableReader<'_>, schedule: &Schedule, problems: &mut Problems) {
    if let Some(spot) = table.get("dst").filter(|_| !schedule.goes_by_clocks() && *schedule != Schedule::Manual) {
        spot.fault(problems, "is the rule of cron, calendar and rrule, and there is none: every, delay and at know no clock");
    }
}
