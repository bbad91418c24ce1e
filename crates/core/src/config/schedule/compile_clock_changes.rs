//! The compiler of `dst = { gap = ..., fold = ... }`: the behaviour of a job when the clocks
//! change.

use serde_json::Value;

use crate::config::key::json_sheet::{Form, Sheet};
use crate::config::key::key_kind::{Custom, Maybe};
use crate::config::key::origin::Reading;
use crate::config::key::table_key::{TableKey, key, names, read_keys, write_keys};
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::{Spot, TableReader};
use schedd_schedule::clock_changes::{ClockChanges, Fold, Gap};
use schedd_schedule::schedule_form::Schedule;

/// The keys of `dst = { ... }`.
pub(crate) const DST: &[TableKey<ClockChanges>] = &[
    key!(
        "gap",
        gap,
        Maybe(Custom(
            |spot, reading| spot.choice(&Gap::ALL.map(|gap| (gap.as_str(), gap)), reading.problems),
            |gap, _| gap.as_str().into()
        ))
    ),
    key!(
        "fold",
        fold,
        Maybe(Custom(
            |spot, reading| spot
                .choice(&Fold::ALL.map(|fold| (fold.as_str(), fold)), reading.problems),
            |fold, _| fold.as_str().into()
        ))
    ),
];

/// Compiles the value of `dst`, the job's rule for clock changes.
pub(crate) fn compile_clock_changes(
    spot: &Spot<'_>,
    reading: &mut Reading<'_>,
) -> Option<ClockChanges> {
    let faults = reading.problems.faults.len();
    let table =
        spot.table("a table such as { gap = \"skip\", fold = \"both\" }", reading.problems)?;
    table.refuse_other_keys(&[&names(DST)], &[], reading.problems);
    let mut rule = ClockChanges::default();
    read_keys(DST, &table, reading, &mut rule);
    (reading.problems.faults.len() == faults).then_some(rule)
}

/// Returns the `dst` of a definition as JSON.
pub(crate) fn write_clock_changes(rule: ClockChanges, form: Form) -> Value {
    let mut out = Sheet::default();
    write_keys(DST, &rule, &ClockChanges::default(), form, &mut out);
    out.value()
}

/// Notes a fault for `dst` in the job's own table, if the job's schedule follows no wall clock.
pub(crate) fn refuse_idle_clock_changes(
    table: &TableReader<'_>,
    schedule: &Schedule,
    problems: &mut Problems,
) {
    if let Some(spot) =
        table.get("dst").filter(|_| !schedule.goes_by_clocks() && *schedule != Schedule::Manual)
    {
        spot.fault(
            problems,
            "dst has no effect on this schedule, because only cron, calendar and rrule follow the wall clock: remove dst",
        );
    }
}
