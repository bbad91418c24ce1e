//! The compiler of `retry`: a number of retries after a failed attempt, or a table with delays and
//! codes.
//!
//! Lists of codes are stored as sets, so that equal sets give equal definitions.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::Value;

use crate::config::key::json_sheet::{Form, Sheet};
use crate::config::key::key_kind::{Custom, FlagKind, IntegerKind, WordKind};
use crate::config::key::origin::Reading;
use crate::config::key::table_key::{TableKey, always, key, names, read_keys, write_keys};
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::{DurationBounds, Spot, TableReader};
use crate::domain::job::job_spec::{Action, Backoff, RetryRule};

const RETRY_DELAY: DurationBounds = DurationBounds::to_days(0, 30, "0s to 30 days", "10s");
/// The bounds of the number of retries.
const LIMITS: RangeInclusive<u32> = 0..=1_000;
/// The allowed codes of a failure: exit codes and HTTP statuses.
const CODES: RangeInclusive<u16> = 1..=599;

/// The keys of `retry = { ... }`.
pub(crate) const RETRY: &[TableKey<RetryRule>] = &[
    always(key!("limit", limit, IntegerKind(LIMITS))),
    key!("delay", delay, RETRY_DELAY),
    key!("max_delay", max_delay, RETRY_DELAY),
    key!(
        "backoff",
        backoff,
        WordKind(&[
            ("fixed", Backoff::Fixed),
            ("linear", Backoff::Linear),
            ("exponential", Backoff::Exponential)
        ])
    ),
    key!("jitter", jitter, FlagKind),
    key!("on", on, Custom(|spot, reading| compile_on(spot, reading.problems), write_codes)),
    key!(
        "never_on",
        never_on,
        Custom(|spot, reading| compile_codes(spot, reading.problems), write_codes)
    ),
];

/// Compiles `retry`: a number of retries, or a table. `None` means that a fault was noted.
pub(crate) fn compile_retry(spot: &Spot<'_>, reading: &mut Reading<'_>) -> Option<RetryRule> {
    let mut rule = RetryRule::default();
    if spot.is_integer() {
        rule.limit = spot.integer(&LIMITS, reading.problems)?;
        return Some(rule);
    }
    let table = spot.table(
        "a number of retries, or a table such as { limit = 3, delay = \"10s\" }",
        reading.problems,
    )?;
    let slips = table.refuse_other_keys(&[&names(RETRY)], &[], reading.problems);
    if table.get("limit").is_none() && !slips.are_of(&["limit"]) {
        reading.problems.warning(
            &spot.path,
            spot.span(),
            "found no limit, so no attempt is retried: add a limit such as limit = 3",
        );
    }
    let read = read_keys(RETRY, &table, reading, &mut rule);
    if let (Some(code), Some(spot)) =
        (rule.on.intersection(&rule.never_on).next(), table.get("never_on"))
    {
        spot.fault(
            reading.problems,
            format!(
                "found code {code} in both on and never_on, wanted it in only one of these lists"
            ),
        );
    }
    if let Some(spot) = table.get("max_delay") {
        let is_delay_unknown = read.faulty.contains("delay")
            || slips.are_of(&["delay"]) && table.get("delay").is_none();
        if read.good.contains("max_delay") && rule.max_delay < rule.delay && !is_delay_unknown {
            spot.wanted::<()>(reading.problems, "a max_delay not shorter than delay");
        }
    } else {
        rule.max_delay = default_max_delay(rule.delay);
    }
    read.faulty.is_empty().then_some(rule)
}

/// Returns the `retry` of a definition as JSON.
pub(crate) fn write_retry(rule: &RetryRule, form: Form) -> Value {
    let plain = RetryRule { max_delay: default_max_delay(rule.delay), ..RetryRule::default() };
    let mut out = Sheet::default();
    write_keys(RETRY, rule, &plain, form, &mut out);
    out.value()
}

fn write_codes(codes: &BTreeSet<u16>, _form: Form) -> Value {
    if codes.is_empty() { Value::Null } else { codes.iter().copied().collect() }
}

/// Returns the default of `max_delay`: an hour, or `delay` if `delay` is longer.
fn default_max_delay(delay: Duration) -> Duration {
    RetryRule::default().max_delay.max(delay)
}

fn compile_on(spot: &Spot<'_>, problems: &mut Problems) -> Option<BTreeSet<u16>> {
    let codes = compile_codes(spot, problems)?;
    if codes.is_empty() {
        spot.fault(
            problems,
            "found an empty list, wanted the codes to retry on, or limit = 0 for no retries",
        );
        return None;
    }
    Some(codes)
}

fn compile_codes(spot: &Spot<'_>, problems: &mut Problems) -> Option<BTreeSet<u16>> {
    let Some(items) = spot.as_items() else {
        return spot.wanted(problems, "a list of exit codes or statuses such as [75, 503]");
    };
    let codes: Vec<Option<u16>> = items.map(|item| item.integer(&CODES, problems)).collect();
    codes.into_iter().collect()
}

/// Notes a fault for each code in a job's own `retry` that no attempt of `action` can have. For
/// example, a process never ends with an HTTP status.
pub(crate) fn refuse_impossible_codes(
    table: &TableReader<'_>,
    action: &Action,
    problems: &mut Problems,
) {
    let Some(retry) = table.get("retry").and_then(|spot| spot.as_table()) else { return };
    let (range, words) = match action {
        Action::Http(_) => (100..=599, "a status from 100 to 599: this job makes an HTTP request"),
        Action::Command(_) | Action::Shell(_) => {
            (1..=255, "an exit code from 1 to 255: this job runs a process")
        }
        Action::Handler(_) => {
            for spot in ["on", "never_on"].iter().filter_map(|key| retry.get(key)) {
                let message = "a worker reports no code: remove the key, and let the worker fail \
                               with retry = false";
                spot.fault(problems, message);
            }
            return;
        }
    };
    for item in ["on", "never_on"].iter().filter_map(|key| retry.get(key)?.as_items()).flatten() {
        // A value that is not a code was noted as a fault before.
        let code = item.integer(&CODES, &mut Problems::default());
        if code.is_some_and(|code| !range.contains(&code)) {
            item.wanted::<()>(problems, words);
        }
    }
}
