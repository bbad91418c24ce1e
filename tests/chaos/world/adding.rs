//! Adds jobs with one `schedctl add --stdin`.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use super::jobs::Job;
use crate::evidence::now;
use crate::stage::{Stage, schedctl};

/// Adds the jobs of these lines and returns the names that were acknowledged. The others may have
/// been added or not.
pub(crate) fn add_lines(stage: &Stage, lines: &[Value]) -> Vec<String> {
    let mut adding = schedctl(stage, &["add", "--stdin", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let text: String = lines.iter().map(|line| line.to_string() + "\n").collect();
    // `schedctl` may have ended already, because it could not reach Redis.
    let _ = adding.stdin.take().unwrap().write_all(text.as_bytes());
    let output = adding.wait_with_output().unwrap();
    let reported: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    reported
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|added| added["name"].as_str())
        .map(str::to_owned)
        .collect()
}

/// Adds these jobs, which are due once, and marks those that were acknowledged.
pub(crate) fn add(stage: &Stage, jobs: &mut [Job]) {
    let lines: Vec<Value> = jobs.iter().filter_map(|job| job.json(stage.dir())).collect();
    let names = add_lines(stage, &lines);
    let added = now();
    for job in jobs {
        job.added = added;
        job.is_sure = names.contains(&job.name);
    }
}
