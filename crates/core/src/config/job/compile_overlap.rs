//! The compilers of `overlap` and `catch_up`, the rules for a job with several due runs.

use serde_json::Value;

use crate::config::key::json_sheet::{Form, Sheet};
use crate::config::key::key_kind::{IntegerKind, Maybe, WordKind};
use crate::config::key::origin::Reading;
use crate::config::key::table_key::{TableKey, key, names, read_keys, write_keys};
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::{DurationBounds, Spot};
use crate::domain::job::job_spec::Overlap;
use schedd_schedule::lateness::{CatchUp, CatchUpMode};

const SPREAD: DurationBounds =
    DurationBounds::millis(1, 86_400_000, "more than 0s, up to 1 day", "10m");
const MAX_AGE: DurationBounds = DurationBounds::to_days(1, 3_650, "1s to 10 years", "12h");

/// The maximum of `overlap.max`, the number of waiting runs of one job.
const MOST_WAITING: u32 = 100_000;

/// The keys of `overlap = { ... }`.
pub(crate) const OVERLAP: &[&str] = &["mode", "max"];

const MODES: &[(&str, CatchUpMode)] =
    &[("skip", CatchUpMode::Skip), ("latest", CatchUpMode::Latest), ("all", CatchUpMode::All)];

/// The keys of `catch_up = { ... }`.
pub(crate) const CATCH_UP: &[TableKey<CatchUp>] = &[
    key!("mode", mode, WordKind(MODES)),
    key!("max_age", max_age, Maybe(MAX_AGE)),
    key!("max_count", max_count, IntegerKind(1..=100_000)),
    key!("spread", spread, Maybe(SPREAD)),
];

/// Compiles the value of `catch_up`: a mode such as `"latest"`, or a table with a mode and limits.
/// `None` means that a fault was noted.
pub(crate) fn compile_catch_up(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<CatchUp> {
    let Some(table) = spot.as_table() else {
        return Some(CatchUp { mode: spot.choice(MODES, reading.problems)?, ..CatchUp::default() });
    };
    table.refuse_other_keys(&[&names(CATCH_UP)], &[], reading.problems);
    let mut rule = CatchUp::default();
    let read = read_keys(CATCH_UP, &table, reading, &mut rule);
    read.faulty.is_empty().then_some(rule)
}

/// Returns the `catch_up` of a definition as JSON.
pub(crate) fn write_catch_up(rule: &CatchUp, form: Form) -> Value {
    let mut out = Sheet::default();
    write_keys(CATCH_UP, rule, &CatchUp::default(), form, &mut out);
    out.value()
}

/// Compiles the value of `overlap`: a mode such as `"skip"`, or a table with `mode` and `max`.
/// `None` means that a fault was noted.
pub(crate) fn compile_overlap(spot: &Spot<'_>, problems: &mut Problems) -> Option<Overlap> {
    let modes = [
        ("skip", Overlap::Skip),
        ("queue", Overlap::Queue { max: 1 }),
        ("replace", Overlap::Replace),
        ("allow", Overlap::Allow),
    ];
    let Some(table) = spot.as_table() else {
        return spot.choice(&modes, problems);
    };
    let slips = table.refuse_other_keys(&[OVERLAP], &[], problems);
    if table.get("mode").is_none() && !slips.may_be(&["mode"]) {
        spot.fault(problems, "found no mode, wanted a mode such as mode = \"queue\"");
    }
    let mode = table.get("mode").and_then(|mode| mode.choice(&modes, problems));
    match (mode, table.get("max")) {
        (mode, None) => mode,
        (Some(Overlap::Queue { .. }) | None, Some(max)) => {
            let max = max.integer(&(1..=MOST_WAITING), problems)?;
            mode.map(|_| Overlap::Queue { max })
        }
        (Some(_), Some(max)) => {
            let message = "max applies only to mode = \"queue\": change the mode or remove max";
            max.fault(problems, message);
            None
        }
    }
}

/// Returns the `overlap` of a definition as JSON.
pub(crate) fn write_overlap(overlap: Overlap) -> Value {
    match overlap {
        Overlap::Skip => "skip".into(),
        Overlap::Queue { max: 1 } => "queue".into(),
        Overlap::Queue { max } => {
            Sheet::of([("mode", "queue".into()), ("max", max.into())]).value()
        }
        Overlap::Replace => "replace".into(),
        Overlap::Allow => "allow".into(),
    }
}
