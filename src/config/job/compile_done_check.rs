//! The compiler of `done_check`: the check made before an attempt, written like an action.

use super::compile_action::compile_action;
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::{DurationBounds, Spot};
use crate::domain::job::job_spec::{AskedOn, DoneCheck};

const TIMEOUT: DurationBounds = DurationBounds::millis(100, 3_600_000, "100ms to 1 hour", "1m");

/// Compiles the `done_check` of a table.
pub(crate) fn compile_done_check(spot: &Spot<'_>, problems: &mut Problems) -> Option<DoneCheck> {
    let table = spot.table("a table such as { shell = \"test -e /srv/report.pdf\" }", problems)?;
    let slips = table.refuse_other_keys(&[known_keys::ACTION, known_keys::DONE_CHECK], &[], problems);
    // All keys are compiled before any result is used, so that every fault is reported.
    let question = compile_action(&table, &slips, problems);
    let moments = [("retry", AskedOn::Retry), ("always", AskedOn::Always)];
    let on = table.get("on").map_or(Some(AskedOn::Retry), |spot| spot.choice(&moments, problems));
    let timeout = table.get("timeout").map_or(Some(DoneCheck::TIMEOUT), |spot| spot.duration(&TIMEOUT, problems));
    Some(DoneCheck { question: question?, on: on?, timeout: timeout? })
}
