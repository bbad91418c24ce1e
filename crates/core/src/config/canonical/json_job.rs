//! A job as a JSON object: a line of `schedctl add --stdin`, or the flags of `schedctl add`.
//!
//! The object has the keys of `[jobs.X]` plus `name` and `in`. The caller checks that the queue
//! exists and that the name is free.

use std::sync::Arc;
use std::time::Duration;

use super::node_json;
use crate::config::job::compile_job::{JobContext, compile_job};
use crate::config::job::job_rules::Rules;
use crate::config::key::origin::Origin;
use crate::config::schedule::compile_schedule::compile_in;
use crate::config::syntax::problem::{Problem, Problems};
use crate::config::syntax::reader::Spot;
use crate::config::syntax::redaction::Secrecy;
use crate::config::syntax::text_node::Node;
use crate::domain::job::job_spec::JobSpec;
use schedd_schedule::names::JobName;
use schedd_schedule::time::zone::Zone;

/// The maximum size of a JSON text, in bytes.
pub const MAX_JSON_BYTES: usize = 320 * 1024;

/// A job compiled from a line of JSON. Its name and `in` are separate, because a definition has
/// neither.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedJob {
    /// The name of the job. `None` if the line has no name.
    pub name: Option<JobName>,
    /// The value of `in`: the time from the adding of the job to its run. `None` if the line has no
    /// `in`. The caller knows the moment of adding and must then set the schedule in `spec`.
    pub start_in: Option<Duration>,
    /// The definition of the job. Its schedule is only a placeholder if `start_in` is set.
    pub spec: Arc<JobSpec>,
    /// The warnings about problems that do not make the job unusable.
    pub warnings: Vec<Problem>,
}

/// Compiles the job of a line of JSON. `host_zone` is the zone of a local time in a job without
/// `tz`. Fails with every problem.
pub fn job_from_json(text: &str, host_zone: &Zone) -> Result<NamedJob, Vec<Problem>> {
    if text.len() > MAX_JSON_BYTES {
        return Err(whole(format!(
            "found {} bytes, wanted at most {MAX_JSON_BYTES} (320 KiB)",
            text.len()
        )));
    }
    compile(&node_json::from_text(text).map_err(whole)?, host_zone)
}

/// Fails with the problem if a JSON text has a key twice in one object, or is no JSON.
pub fn check_keys(text: &str) -> Result<(), Vec<Problem>> {
    node_json::from_text(text).map(drop).map_err(whole)
}

/// Compiles the job of a parsed JSON value. `host_zone` is the zone of a local time in a job
/// without `tz`. Fails with every problem.
pub fn job_from_value(
    value: &serde_json::Value,
    host_zone: &Zone,
) -> Result<NamedJob, Vec<Problem>> {
    compile(&node_json::from_value(value).map_err(whole)?, host_zone)
}

fn whole(message: String) -> Vec<Problem> {
    vec![Problem::new("", None, message)]
}

fn compile_name(spot: &Spot<'_>, problems: &mut Problems) -> Option<JobName> {
    let name: JobName = spot.parsed("backup", problems)?;
    name.for_people().map_err(|error| spot.fault(problems, error.to_string())).ok()
}

fn compile(node: &Node<'_>, host_zone: &Zone) -> Result<NamedJob, Vec<Problem>> {
    let root = Spot::root(node, Secrecy::Action);
    let Some(table) = root.as_table() else {
        return Err(whole(format!(
            "found {}, wanted an object such as {{\"shell\": \"echo hello\", \"in\": \"10m\"}}",
            root.found()
        )));
    };
    let mut problems = Problems::default();
    let name = table.get("name").and_then(|spot| compile_name(&spot, &mut problems));
    let start_in = table.get("in").and_then(|spot| compile_in(&spot, &mut problems));
    let context = JobContext {
        name: name.as_ref(),
        defaults: &Rules::default(),
        host_zone: Some(host_zone),
        origin: Origin::Line,
    };
    let spec = compile_job(&table, context, &mut problems);
    match spec {
        Some(spec) if problems.faults.is_empty() => {
            Ok(NamedJob { name, start_in, spec: Arc::new(spec), warnings: problems.warnings })
        }
        _ => Err(problems.faults),
    }
}
