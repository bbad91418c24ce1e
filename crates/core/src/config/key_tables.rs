//! The names of all keys of a jobs file. A test compares these names with the documentation.

use super::job::compile_action::JOB_ACTION;
use super::job::compile_done_check::DONE_CHECK;
use super::job::compile_gates::PER_KEY;
use super::job::compile_http::HTTP;
use super::job::compile_overlap::{CATCH_UP, OVERLAP};
use super::job::compile_process::LIMITS;
use super::job::compile_retry::RETRY;
use super::job::compile_unique::{ADDED, UNIQUE};
use super::job::job_keys::{OWN, RULES};
use super::key::table_key::names;
use super::schedule::compile_clock_changes::DST;
use super::schedule::compile_schedule::{DTSTART, SCHEDULE};
use super::syntax::known_keys;

/// Returns the keys that `[jobs.NAME]` of a file may have.
pub fn job_keys() -> Vec<&'static str> {
    [SCHEDULE, &[DTSTART], &names(OWN), JOB_ACTION, &names(RULES)].concat()
}

/// Returns the keys of all tables of a file except `[jobs.NAME]`, and the keys that only a job of
/// `schedctl add` may have.
pub fn other_keys() -> Vec<&'static str> {
    let of_file = [
        known_keys::SECTIONS,
        known_keys::REDIS,
        known_keys::DAEMON,
        known_keys::API,
        known_keys::METRICS,
        known_keys::HISTORY,
        known_keys::OUTPUT,
        known_keys::QUEUE,
        known_keys::GROUP,
        known_keys::CALENDAR,
    ];
    let of_jobs = [
        ADDED,
        UNIQUE,
        PER_KEY,
        OVERLAP,
        &names(HTTP),
        &names(RETRY),
        &names(DONE_CHECK),
        &names(LIMITS),
    ];
    [of_file.concat(), of_jobs.concat(), names(DST), names(CATCH_UP)].concat()
}
