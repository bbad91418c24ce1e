//! The compiler of `done_check`, an action that checks before an attempt if the work is already
//! done.

use serde_json::Value;

use super::compile_action::{ACTION, compile_action, write_own_action};
use crate::config::key::json_sheet::{Form, Sheet};
use crate::config::key::key_kind::WordKind;
use crate::config::key::origin::Reading;
use crate::config::key::table_key::{TableKey, key, names, read_keys, write_keys};
use crate::config::syntax::reader::{DurationBounds, Spot};
use crate::domain::job::job_spec::{Action, AskedOn, DoneCheck};

const TIMEOUT: DurationBounds = DurationBounds::millis(100, 3_600_000, "100ms to 1 hour", "1m");

/// The keys of `done_check = { ... }` that do not belong to its action.
pub(crate) const DONE_CHECK: &[TableKey<DoneCheck>] = &[
    key!("on", on, WordKind(&[("retry", AskedOn::Retry), ("always", AskedOn::Always)])),
    key!("timeout", timeout, TIMEOUT),
];

/// Returns a `done_check` with default rules. Its action, in the field `question`, is only a
/// placeholder.
fn plain() -> DoneCheck {
    DoneCheck {
        question: Action::Shell(String::new()),
        on: AskedOn::Retry,
        timeout: DoneCheck::TIMEOUT,
    }
}

/// Compiles the `done_check` of a job. Returns `None` if a fault was noted.
pub(crate) fn compile_done_check(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<DoneCheck> {
    let table =
        spot.table("a table such as { shell = \"test -e /srv/report.pdf\" }", reading.problems)?;
    let slips = table.refuse_other_keys(&[ACTION, &names(DONE_CHECK)], &[], reading.problems);
    // All keys are compiled before any result is used, so that every fault is reported.
    let question = compile_action(&table, &slips, reading);
    let mut check = plain();
    let read = read_keys(DONE_CHECK, &table, reading, &mut check);
    check.question = question?;
    read.faulty.is_empty().then_some(check)
}

/// Returns the `done_check` of a definition as JSON.
pub(crate) fn write_done_check(check: &DoneCheck, form: Form) -> Value {
    let mut out = Sheet::default();
    write_own_action(&check.question, &mut out);
    write_keys(DONE_CHECK, check, &plain(), form, &mut out);
    out.value()
}
