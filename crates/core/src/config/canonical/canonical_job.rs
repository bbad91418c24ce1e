//! The canonical JSON of a job, as stored in Redis: the keys of `[jobs.X]` as one line of JSON.
//!
//! Invariant: equal jobs give equal texts, from any file, line or flags. Keys are sorted, default
//! values are left out, and durations and instants have one spelling. So comparing the texts, or
//! their digests, shows whether a definition changed.
//!
//! A definition was compiled before it was stored. So reading a definition needs neither
//! `[defaults]` nor data of the host such as its zone, and only checks for damage in Redis.

use std::sync::LazyLock;

use serde_json::Value;

use super::node_json;
use crate::config::job::compile_action::{JOB_ACTION, compile_job_action, write_own_action};
use crate::config::job::compile_unique::{compile_unique, write_unique};
use crate::config::job::job_keys::{OWN, RULES};
use crate::config::key::json_sheet::{Form, Sheet};
use crate::config::key::origin::{Origin, Reading};
use crate::config::key::table_key::{names, read_keys, write_keys};
use crate::config::schedule::compile_schedule::{
    DTSTART, SCHEDULE, compile_schedule, write_schedule,
};
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::{Spot, TableReader};
use crate::config::syntax::redaction::Secrecy;
use crate::domain::job::job_spec::{Action, Delivery, JobSpec};
use crate::domain::queue::gate::PerKey;
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::schedule_modifiers::Shape;

/// The maximum size of a definition in Redis, in bytes: the largest payload, and 64 KiB.
pub(crate) const MAX_DEFINITION_BYTES: usize = 320 * 1024;

/// A job with default values only, for comparison with other jobs. Its schedule and action are
/// placeholders, because these have no default.
static PLAIN: LazyLock<JobSpec> =
    LazyLock::new(|| JobSpec::with_defaults(Schedule::Manual, Action::Shell(String::new())));

/// The reason why a text from Redis is not a definition that this version can use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    /// The text differs from every text that [`to_canonical`] writes.
    #[error("definition is damaged: {reason}")]
    Corrupt {
        /// The problem of the stored definition, described in one line.
        reason: String,
    },
    /// The text has a key that this version does not know.
    #[error(
        "definition has the key {key:?}, which this version of schedd does not know: \
         a newer schedd wrote the definition"
    )]
    Newer {
        /// The unknown key, with the names of the tables around it.
        key: String,
    },
}

/// Returns the canonical JSON of the job `spec`.
pub fn to_canonical(spec: &JobSpec) -> String {
    written(spec, Form::Stored).to_string()
}

/// Returns the definition as JSON with the keys of `[jobs.X]`, as `show` prints it. A rule that the
/// definition does not name is shown with its default value. Signing secrets are hidden.
pub fn effective(spec: &JobSpec) -> Value {
    written(spec, Form::Shown)
}

fn written(spec: &JobSpec, form: Form) -> Value {
    let mut out = Sheet::default();
    write_schedule(&spec.schedule, &mut out);
    write_own_action(&spec.action, &mut out);
    write_keys(OWN, spec, &PLAIN, form, &mut out);
    write_keys(RULES, spec, &PLAIN, form, &mut out);
    match (&spec.unique, form) {
        (Some(rule), _) => out.put("unique", write_unique(rule, form)),
        (None, Form::Shown) => out.put("unique", Value::Null),
        (None, Form::Stored) => {}
    }
    out.value()
}

/// Returns the job that the canonical JSON `text` defines. Each value is checked, because another
/// program may have changed the definition in Redis.
pub fn from_canonical(text: &str) -> Result<JobSpec, CanonicalError> {
    let corrupt = |reason: String| CanonicalError::Corrupt { reason };
    if text.len() > MAX_DEFINITION_BYTES {
        return Err(corrupt(format!(
            "found {} bytes, wanted at most {MAX_DEFINITION_BYTES}",
            text.len()
        )));
    }
    let node = node_json::from_text(text).map_err(corrupt)?;
    let root = Spot::root(&node, Secrecy::Action);
    let table = root
        .as_table()
        .ok_or_else(|| corrupt(format!("found {}, wanted an object", root.found())))?;
    let mut problems = Problems::default();
    let spec = read_definition(&table, &mut problems);
    match (problems.unknown_key, problems.faults.first(), spec) {
        (Some(key), _, _) => Err(CanonicalError::Newer { key }),
        (None, None, Some(spec)) => {
            contradiction(&spec).map_or(Ok(spec), |reason| Err(corrupt(reason.to_owned())))
        }
        (None, fault, _) => Err(corrupt(fault.map_or_else(String::new, ToString::to_string))),
    }
}

fn read_definition(table: &TableReader<'_>, problems: &mut Problems) -> Option<JobSpec> {
    let known = [SCHEDULE, &[DTSTART], &names(OWN), JOB_ACTION, &names(RULES), &["unique"]];
    let slips = table.refuse_other_keys(&known, &[], problems);
    let mut reading = Reading::new(Origin::Stored, problems);
    let mut spec = PLAIN.clone();
    spec.schedule = compile_schedule(table, &reading.clock, &slips, reading.problems)?;
    spec.action = compile_job_action(table, &slips, &mut reading)?;
    read_keys(OWN, table, &mut reading, &mut spec);
    read_keys(RULES, table, &mut reading, &mut spec);
    spec.unique = compile_unique(table, Origin::Stored, reading.problems);
    // An older schedd may have stored process rules that this job does not use. These rules are
    // dropped.
    let started = spec.started();
    spec.process = spec.process.obeyed_by(started);
    Some(spec)
}

/// Returns a contradiction in the definition, which shows that the definition is damaged. Returns
/// `None` if there is no contradiction.
fn contradiction(spec: &JobSpec) -> Option<&'static str> {
    let shape = &spec.shape;
    let counted = Shape { max_runs: None, skip_if_late: None, ..shape.clone() };
    let is_misshapen = match &spec.schedule {
        Schedule::Manual | Schedule::After(_) => *shape != Shape::default(),
        Schedule::Delay(_) => counted != Shape::default(),
        other => shape.anchor.is_some() && !other.has_every(),
    };
    let is_unmoved = spec.unique.as_ref().is_some_and(|unique| unique.second.is_debounce());
    let has_loader_variable =
        spec.process.user.is_some() && spec.env.keys().any(|name| name.starts_with("LD_"));
    let found = [
        (is_misshapen, "found a key such as start or anchor that this schedule cannot have"),
        (shape.start.zip(shape.end).is_some_and(|(start, end)| start > end), "end is before start"),
        (
            spec.delivery == Delivery::AtMostOnce && spec.retry.limit > 0,
            "delivery \"at-most-once\" contradicts retry",
        ),
        (spec.key.is_none() && spec.per_key != PerKey::default(), "found per_key without key"),
        (
            is_unmoved && !matches!(spec.schedule, Schedule::At(_)),
            "found debounce on a job that is not a one-shot",
        ),
        (has_loader_variable, "found variables of the dynamic loader together with user"),
    ];
    found.into_iter().find_map(|(is_found, reason)| is_found.then_some(reason))
}
