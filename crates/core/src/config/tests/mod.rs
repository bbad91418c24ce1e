//! Tests of files, lines and definitions in Redis, through the public functions of this folder.

mod all_at_once;
mod bad_files;
mod bad_jobs;
mod bad_notices;
mod canonical_jobs;
mod disk;
mod exports;
mod good_files;
mod ics_files;
mod lines;
mod schedules;
mod secrets;
mod serving;

use super::{Config, ConfigError, compile_text};
use crate::domain::job::job_spec::JobSpec;
use schedd_schedule::names::{JobName, QueueName};
use schedd_schedule::time::zone::Zone;

/// Returns the zone that the host has in these tests.
fn host() -> Zone {
    Zone::load(&"America/New_York".parse().unwrap()).unwrap()
}

fn compile(text: &str) -> Result<Config, ConfigError> {
    compile_text(text, "jobs.toml", &host())
}

fn good(text: &str) -> Config {
    compile(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Returns the problems of `text`, each as one line.
fn faults(text: &str) -> Vec<String> {
    match compile(text) {
        Ok(config) => panic!("taken: {text}\n{config:?}"),
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}

/// Returns the problem of `text`, which must have only one problem.
fn fault(text: &str) -> String {
    let faults = faults(text);
    assert_eq!(faults.len(), 1, "{text}\n{faults:#?}");
    faults[0].clone()
}

/// Returns the warnings of `text`, which must have no fault.
fn warnings(text: &str) -> Vec<String> {
    good(text).warnings.iter().map(ToString::to_string).collect()
}

fn job(config: &Config, name: &str) -> JobSpec {
    config.jobs[&name.parse::<JobName>().unwrap()].spec().unwrap()
}

fn queue(name: &str) -> QueueName {
    name.parse().unwrap()
}
