//! The retries after a failed attempt: `retry` as a number of times, or a table with waits and
//! codes.
//!
//! Lists of codes are sets: two ways to write a set give one definition.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::syntax::known_keys;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::{DurationBounds, Spot, TableReader};
use crate::domain::job::job_spec::{Action, Backoff, RetryRule};

const RETRY_DELAY: DurationBounds = DurationBounds::to_days(0, 30, "0s to 30 days", "10s");
/// The range of exit codes and statuses together.
const CODES: RangeInclusive<u16> = 1..=599;

/// Compiles the `retry` of a table: a number, or a table.
pub(crate) fn compile_retry(spot: &Spot<'_>, problems: &mut Problems) -> Option<RetryRule> {
    let limits = 0..=1_000;
    if spot.is_integer() {
        return Some(RetryRule { limit: spot.integer(&limits, problems)?, ..RetryRule::default() });
    }
    let table = spot.table("how many times, or a table such as { limit = 3, delay = \"10s\" }", problems)?;
    let slips = table.refuse_other_keys(&[known_keys::RETRY], &[], problems);
    let defaults = RetryRule::default();
    if table.get("limit").is_none() && !slips.are_of(&["limit"]) {
        problems.warning(&spot.path, spot.span(), "without limit, which is 0 then: nothing is tried again");
    }
    let backoffs = [("fixed", Backoff::Fixed), ("linear", Backoff::Linear), ("exponential", Backoff::Exponential)];
    // All keys are compiled before any result is used, so that every fault is reported.
    let limit = table.get("limit").map_or(Some(defaults.limit), |spot| spot.integer(&limits, problems));
    let delay = table.get("delay").map_or(Some(defaults.delay), |spot| spot.duration(&RETRY_DELAY, problems));
    let longest = table.get("max_delay").map(|spot| spot.duration(&RETRY_DELAY, problems));
    let backoff = table.get("backoff").map_or(Some(defaults.backoff), |spot| spot.choice(&backoffs, problems));
    let jitter = table.get("jitter").map_or(Some(defaults.jitter), |spot| spot.flag(problems));
    let on = table.get("on").map_or(Some(BTreeSet::new()), |spot| compile_on(&spot, problems));
    let never_on = table.get("never_on").map_or(Some(BTreeSet::new()), |spot| compile_codes(&spot, problems));
    if let (Some(on), Some(never_on), Some(spot)) = (&on, &never_on, table.get("never_on"))
        && let Some(code) = on.intersection(never_on).next()
    {
        spot.fault(problems, format!("found {code} in on and in never_on, wanted it in one of them"));
    }
    let max_delay = longest.unwrap_or_else(|| delay.map(default_max_delay));
    if let (Some(delay), Some(max_delay), Some(spot)) = (delay, max_delay, table.get("max_delay"))
        && max_delay < delay
        && !(slips.are_of(&["delay"]) && table.get("delay").is_none())
    {
        spot.wanted::<()>(problems, "a max_delay not shorter than delay");
    }
    Some(RetryRule {
        limit: limit?,
        delay: delay?,
        backoff: backoff?,
        max_delay: max_delay?,
        jitter: jitter?,
        on: on?,
        never_on: never_on?,
    })
}

/// Returns the maximum wait of a `retry` that names no maximum: an hour, or `delay` if `delay` is
/// longer.
pub(crate) fn default_max_delay(delay: Duration) -> Duration {
    RetryRule::default().max_delay.max(delay)
}

fn compile_on(spot: &Spot<'_>, problems: &mut Problems) -> Option<BTreeSet<u16>> {
    let codes = compile_codes(spot, problems)?;
    if codes.is_empty() {
        spot.fault(problems, "found an empty list, wanted the codes to retry on, or limit = 0 for none");
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

/// Notes codes in a job's own `retry` that no attempt of `action` can have, because they belong to
/// another kind of job.
pub(crate) fn refuse_impossible_codes(table: &TableReader<'_>, action: &Action, problems: &mut Problems) {
    let Some(retry) = table.get("retry").and_then(|spot| spot.as_table()) else { return };
    let (range, words) = match action {
        Action::Http(_) => (100..=599, "a status from 100 to 599: this job makes a request"),
        Action::Command(_) | Action::Shell(_) => (1..=255, "an exit code from 1 to 255: this job runs a process"),
    };
    for item in ["on", "never_on"].iter().filter_map(|key| retry.get(key)?.as_items()).flatten() {
        // A value that is no code at all was noted before.
        let code = item.integer(&CODES, &mut Problems::default());
        if code.is_some_and(|code| !range.contains(&code)) {
            item.wanted::<()>(problems, words);
        }
    }
}
