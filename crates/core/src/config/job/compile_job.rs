//! The compiler of a job's table: schedule, action and rules, each checked alone and together.

use super::compile_action::{JOB_ACTION, compile_job_action};
use super::compile_gates::refuse_itself;
use super::compile_retry::refuse_impossible_codes;
use super::compile_unique::{compile_unique, refuse_unmoved};
use super::job_keys::{OWN, RULES};
use super::job_rules::{
    Rules, refuse_beside_each_node, refuse_beside_handler, refuse_contradictions,
    refuse_idle_rules, refuse_late_without_notice, refuse_oversize_words, refuse_per_key_alone,
};
use crate::config::canonical::canonical_job::{MAX_DEFINITION_BYTES, to_canonical};
use crate::config::key::origin::{Origin, Reading};
use crate::config::key::table_key::{names, read_keys};
use crate::config::schedule::clock_choice::ClockChoice;
use crate::config::schedule::compile_clock_changes::refuse_idle_clock_changes;
use crate::config::schedule::compile_schedule::{DTSTART, SCHEDULE, compile_schedule};
use crate::config::schedule::compile_shape::{
    fit_shape, refuse_end_before_start, refuse_nothing_left,
};
use crate::config::syntax::compile_references::refuse_faulty_references;
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::TableReader;
use crate::domain::job::job_spec::JobSpec;
use crate::domain::job::process_rules::Started;
use crate::domain::queue::gate::PerKey;
use schedd_schedule::names::JobName;
use schedd_schedule::time::zone::Zone;

/// The context in which a job's table is compiled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobContext<'a> {
    /// The job's name, if it is known.
    pub(crate) name: Option<&'a JobName>,
    /// The rules of `[defaults]`.
    pub(crate) defaults: &'a Rules,
    /// The zone of a local time if neither the job nor `[defaults]` names a zone. `None` makes such
    /// a local time a fault.
    pub(crate) host_zone: Option<&'a Zone>,
    /// The source of the table.
    pub(crate) origin: Origin<'a>,
}

/// The keys that say how jobs are added. They are parameters of the request that adds the jobs.
const OF_REQUEST: &[&str] = &["replace", "if_absent", "allow_past"];

/// Compiles the job of `table`. Returns `None` if a fault was noted.
pub(crate) fn compile_job(
    table: &TableReader<'_>,
    context: JobContext<'_>,
    problems: &mut Problems,
) -> Option<JobSpec> {
    let faults_before = problems.faults.len();
    let (beside, misplaced): (&[&str], &[&str]) = match context.origin {
        Origin::File { .. } => (&[], &["in", "unique", "unique_for"]),
        Origin::Line => (&["name", "in", "unique", "unique_for"], OF_REQUEST),
        Origin::Stored => (&["name", "in", "unique", "unique_for"], &[]),
    };
    let known = [SCHEDULE, &[DTSTART], &names(OWN), JOB_ACTION, &names(RULES), beside];
    let slips = table.refuse_keys_beyond(&known, misplaced, known_keys::LATER_JOB, problems);
    if let (Origin::File { .. }, Some(spot)) = (context.origin, table.get("in")) {
        spot.fault(
            problems,
            "a jobs file cannot have the key in, which counts from the time of schedctl add: write a fixed time such as at = \"2026-12-24T09:00\"",
        );
    }
    if let Origin::Line = context.origin {
        for (key, spot) in OF_REQUEST.iter().filter_map(|key| Some((key, table.get(key)?))) {
            spot.fault(
                problems,
                format!("found a key that holds for all lines, wanted ?{key}=1 in the query of the request, or the flag of schedctl add"),
            );
        }
    }

    let mut reading = Reading::new(context.origin, problems);
    let mut rules = Rules::read(table, slips.clone(), context.defaults, &mut reading);
    refuse_contradictions(table, &rules, reading.problems);
    refuse_per_key_alone(table, &rules, reading.problems);
    // `not_while` of `[defaults]` may name this job, because other jobs use the same `[defaults]`.
    // That name is dropped here.
    if let Some(name) = context.name
        && rules.spec.not_while.remove(name)
        && let Some(spot) = table.get("not_while")
    {
        refuse_itself(&spot, reading.problems);
    }
    reading.clock = ClockChoice::new(rules.spec.tz.as_ref(), context.host_zone);
    let schedule = compile_schedule(table, &reading.clock, &slips, reading.problems);
    let own = read_keys(OWN, table, &mut reading, &mut rules.spec);
    let shape = &mut rules.spec.shape;
    let mut is_shaped =
        own.faulty.is_empty() && !refuse_end_before_start(table, shape, reading.problems);
    if let Some(schedule) = &schedule {
        is_shaped &= fit_shape(table, schedule, shape, reading.problems).is_some();
    }
    let action = compile_job_action(table, &slips, &mut reading);
    let Reading { clock, problems, .. } = reading;
    let unique = compile_unique(table, context.origin, problems);
    if let Some(schedule) = &schedule {
        refuse_unmoved(table, unique.as_ref(), schedule, problems);
        if is_shaped {
            refuse_nothing_left(table, schedule, &rules.spec.shape, &clock, problems);
        }
        refuse_idle_clock_changes(table, schedule, problems);
    }
    refuse_late_without_notice(table, &rules, problems);
    refuse_faulty_references(table, problems);
    if let Some(action) = &action {
        refuse_impossible_codes(table, action, problems);
        refuse_idle_rules(table, action, &rules, problems);
    }
    refuse_oversize_words(table, action.as_ref(), &rules, problems);
    if problems.faults.len() > faults_before {
        return None;
    }
    let mut spec = JobSpec { schedule: schedule?, action: action?, unique, ..rules.spec };
    // `per_key` has no effect without a key. A value from `[defaults]` is meant for other jobs.
    if spec.key.is_none() {
        spec.per_key = PerKey::default();
    }
    // `max_parallel` of `[defaults]` is meant for jobs on each node.
    if !spec.is_on_each_node() && table.get("max_parallel").is_none() {
        spec.max_parallel = None;
    }
    // Process rules that this job does not use come from `[defaults]` for other jobs, and are
    // dropped.
    let started = spec.started();
    spec.process = spec.process.obeyed_by(started);
    if started == Started::Nothing {
        // Without a process, no run needs the directory or the files.
        let needless = ["cwd", "env_file"].iter().filter_map(|key| Some(table.get(key)?.path));
        let needless: Vec<String> = needless.collect();
        let is_needless = |path: &str| needless.iter().any(|needless| path.starts_with(needless));
        problems.warnings.retain(|warning| !is_needless(&warning.path));
    }
    refuse_beside_each_node(table, &spec, problems);
    refuse_beside_handler(table, &spec, problems);
    if problems.faults.len() > faults_before {
        return None;
    }
    let bytes = to_canonical(&spec).len();
    if bytes > MAX_DEFINITION_BYTES {
        let message = format!(
            "found a definition of {bytes} bytes, wanted at most {MAX_DEFINITION_BYTES} (320 KiB)"
        );
        problems.fault(&table.path, table.span.clone(), message);
        return None;
    }
    Some(spec)
}
