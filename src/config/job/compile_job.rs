//! The compiler of a job's table: schedule, action and rules, each checked alone and together.

use std::collections::BTreeMap;

use super::compile_action::{compile_action, refuse_oversize};
use super::compile_gates::refuse_itself;
use super::compile_notices::{refuse_late_without_notice, refuse_oversize_notices};
use super::compile_process::refuse_idle_rules;
use super::compile_references::refuse_faulty_references;
use super::compile_retry::refuse_impossible_codes;
use super::compile_unique::{compile_unique, refuse_unmoved};
use super::policies::{Policies, compile_policies, refuse_contradictions};
use crate::config::canonical::canonical_job::to_surface;
use crate::config::key::origin::Origin;
use crate::config::schedule::clock_choice::ClockChoice;
use crate::config::schedule::compile_clock_changes::refuse_idle_clock_changes;
use crate::config::schedule::compile_schedule::compile_schedule;
use crate::config::schedule::compile_shape::{compile_shape, refuse_nothing_left};
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::TableReader;
use crate::domain::job::job_spec::JobSpec;
use crate::domain::name::names::JobName;
use crate::domain::time::zone::Zone;

/// The maximum size of a definition in Redis, in bytes.
pub(crate) const MAX_DEFINITION_BYTES: usize = 256 * 1024;

/// The context in which a job's table is compiled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobContext<'a> {
    /// The job's name, if it is known.
    pub(crate) name: Option<&'a JobName>,
    /// The rules of `[defaults]`.
    pub(crate) defaults: &'a Policies,
    /// The zone of a local time if neither the job nor `[defaults]` names a zone.
    pub(crate) host_zone: Option<&'a Zone>,
    /// The source of the table.
    pub(crate) origin: Origin<'a>,
}

/// Compiles the job of `table`. Returns `None` if a fault was noted.
pub(crate) fn compile_job(table: &TableReader<'_>, context: JobContext<'_>, problems: &mut Problems) -> Option<JobSpec> {
    let faults_before = problems.faults.len();
    let (beside, misplaced): (&[&str], &[&str]) = match context.origin {
        Origin::File { .. } => (&[], &["in", "unique", "unique_for"]),
        Origin::Line => (&["name", "in", "unique", "unique_for"], &[]),
        Origin::Surface => (&["unique"], &[]),
    };
    let known = [known_keys::SCHEDULE, known_keys::SHAPE, known_keys::ACTION, known_keys::POLICY, beside];
    let slips = table.refuse_keys_beyond(&known, misplaced, known_keys::LATER_JOB, problems);
    if let (Origin::File { .. }, Some(spot)) = (context.origin, table.get("in")) {
        spot.fault(problems, "a file is not a moment from which time could be counted, wanted at = \"2026-12-24T09:00\"");
    }

    let own = compile_policies(table, slips.clone(), context.origin, problems);
    let mut merged = own.clone().over(context.defaults);
    refuse_contradictions(table, &own, &merged, problems);
    if own.per_key.is_some()
        && merged.key.is_none()
        && table.get("key").is_none()
        && !merged.slips.are_of(&["key"])
        && let Some(spot) = table.get("per_key")
    {
        spot.fault(problems, "per_key without a key, wanted it together with key = \"customer-42\"");
    }
    // `[defaults]` may name the job itself, for the sake of other jobs.
    if let (Some(name), Some(others)) = (context.name, &mut merged.not_while)
        && others.remove(name)
        && let Some(spot) = table.get("not_while")
    {
        refuse_itself(&spot, problems);
    }
    let clock = ClockChoice::new(merged.tz.as_ref(), context.host_zone);
    let schedule = compile_schedule(table, &clock, &slips, problems);
    let shape = compile_shape(table, schedule.as_ref(), &merged.shaping, &clock, problems);
    let action = compile_action(table, &slips, problems);
    let unique = compile_unique(table, context.origin, problems);
    if let Some(schedule) = &schedule {
        refuse_unmoved(table, unique.as_ref(), schedule, problems);
    }
    // A definition in Redis may have its codes from `[defaults]`, which holds for every kind of
    // job.
    if let (Origin::File { .. } | Origin::Line, Some(action)) = (context.origin, &action) {
        refuse_impossible_codes(table, action, problems);
    }

    // A definition in Redis passed these checks earlier, and its zone may be stored with the job
    // instead.
    if !matches!(context.origin, Origin::Surface) {
        if let (Some(schedule), Some(shape)) = (&schedule, &shape) {
            refuse_nothing_left(table, schedule, shape, &clock, problems);
        }
        if let Some(schedule) = &schedule {
            refuse_idle_clock_changes(table, schedule, problems);
        }
        refuse_late_without_notice(table, &merged.notices, &merged.slips, problems);
        refuse_faulty_references(table, problems);
    }
    if let (Origin::File { .. } | Origin::Line, Some(action)) = (context.origin, &action) {
        refuse_idle_rules(table, action, &merged, problems);
    }
    let none = BTreeMap::new();
    if let Some(action) = &action {
        refuse_oversize(table, action, merged.env.as_ref().unwrap_or(&none), problems);
    }
    refuse_oversize_notices(table, &merged.notices, problems);
    if let (Some(check), Some(own)) = (&merged.done_check, table.get("done_check").and_then(|spot| spot.as_table())) {
        refuse_oversize(&own, &check.question, &none, problems);
    }
    if problems.faults.len() > faults_before {
        return None;
    }
    let mut spec = JobSpec::with_defaults(schedule?, action?);
    merged.apply_to(&mut spec);
    spec.shape = shape?;
    spec.unique = unique;
    // Rules that nothing of this job uses come from `[defaults]`, where other jobs need them, or
    // from an older schedd. They are dropped.
    let started = spec.started();
    spec.process = spec.process.obeyed_by(started);
    let bytes = to_surface(&spec).len();
    if bytes > MAX_DEFINITION_BYTES {
        let message = format!("found a definition of {bytes} bytes, wanted at most {MAX_DEFINITION_BYTES} (256 KiB)");
        problems.fault(&table.path, table.span.clone(), message);
        return None;
    }
    Some(spec)
}
