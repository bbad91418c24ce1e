//! `check`: reports every problem of a jobs file without applying it.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::io::IsTerminal;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::access::tls_files::tls_server;
use crate::cli::connect::jobs_file;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::local_zone::local_zone;
use crate::cli::render::{Console, one_line, rfc3339};
use crate::secrets;
use schedd_core::config;
use schedd_core::config::{Config, FilePlace, Rendering};
use schedd_core::domain::job::job_spec::JobSpec;
use schedd_core::domain::job::process_rules::RunAs;
use schedd_schedule::names::JobName;
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;

/// The exit code for a jobs file that cannot be used.
const BAD_FILE: u8 = 78;

/// Checks a jobs file and prints every problem with its line; changes nothing and needs no Redis.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  schedctl check /etc/schedd/jobs.toml\n\nExit codes: 0 no problems; 78 problems, or no such file."
)]
pub(crate) struct CheckArgs {
    /// Path of the jobs file [default: the jobs file that schedctl uses, see --jobs]
    file: Option<PathBuf>,
}

/// Checks a jobs file and prints its problems and warnings. Returns the exit code.
pub(crate) fn check(
    global: &Global,
    args: &CheckArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let named = args.file.clone().map(FilePlace::named);
    let place = named.or_else(|| jobs_file(global)).ok_or_else(|| {
        CliFailure::Config(vec![format!(
            "no jobs file to check: {} do not exist; name a file",
            FilePlace::usual()
        )])
    })?;
    let file = one_line(&place.path().display().to_string());
    match config::read_file(&place, &local_zone()) {
        Ok(config) => {
            let jobs = config.jobs.len();
            let mut warnings: Vec<String> =
                config.warnings.iter().map(ToString::to_string).collect();
            warnings.extend(certificate_warning(&config));
            warnings.extend(job_warnings(&config));
            for warning in &warnings {
                console.warn(&format!("{file}: {warning}"));
            }
            if console.is_json() {
                console.json(
                    &json!({"file": file, "jobs": jobs, "problems": [], "warnings": warnings}),
                );
            } else if !console.is_quiet() {
                let count = if jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") };
                console.line(&format!("{file}: {count}, no problems"));
            }
            Ok(0)
        }
        Err(error) => {
            if console.is_json() {
                let problem = |(problem, place): (&config::Problem, Option<(usize, usize)>)| {
                    let (line, column) = place.unzip();
                    json!({"path": problem.path, "message": problem.message, "line": line, "column": column})
                };
                let problems: Vec<Value> =
                    error.problems().iter().zip(error.places()).map(problem).collect();
                console.json(
                    &json!({"file": file, "jobs": null, "problems": problems, "warnings": []}),
                );
                let lines = error.rendered(Rendering::Lines);
                return Err(CliFailure::Config(lines.lines().map(str::to_owned).collect()));
            }
            let is_terminal = std::io::stderr().is_terminal();
            let shown =
                error.rendered(if is_terminal { Rendering::Carets } else { Rendering::Lines });
            // The problems keep the form FILE:LINE:COLUMN, by which editors find the place.
            shown.lines().for_each(|line| console.aside(&one_line(line)));
            Ok(BAD_FILE)
        }
    }
}

/// Returns a warning if the API cannot use its certificate. The file may be right on another host.
fn certificate_warning(config: &Config) -> Option<String> {
    let (cert, key) = config.api.tls.as_ref()?;
    let error = tls_server(cert, key).err()?;
    Some(format!("{error:#}; the HTTP API cannot start on this host"))
}

/// Returns the warnings about the jobs of the file, by kind and by name.
fn job_warnings(config: &Config) -> Vec<String> {
    let now = UnixMillis::from_timestamp(jiff::Timestamp::now());
    let mut warnings = [Vec::new(), Vec::new(), Vec::new()];
    for (name, job) in &*config.jobs {
        let Ok(spec) = job.spec() else { continue };
        warnings[0].extend(now.and_then(|now| without_a_time_to_come(name, &spec, now)));
        warnings[1].extend(cannot_start(config, name, &spec));
        warnings[2].extend(strangers(config, name, &spec));
    }
    warnings.concat()
}

/// Returns a warning with the last time of the schedule if the schedule has no time after `now`.
fn without_a_time_to_come(name: &JobName, spec: &JobSpec, now: UnixMillis) -> Option<String> {
    if matches!(spec.schedule, Schedule::Manual | Schedule::Delay(_) | Schedule::After(_))
        || spec.schedule.is_at_boot()
    {
        return None;
    }
    let zone = spec.tz.as_ref().map_or_else(|| Some(local_zone()), |name| Zone::load(name).ok())?;
    let table = Timetable::shaped(spec.schedule.for_job(name, spec.dst), &spec.shape, zone, now);
    if table.next_after(now).is_some() {
        return None;
    }
    let last = table
        .latest_in(UnixMillis::EPOCH, now)
        .map(|at| format!(": the last was {}", rfc3339(at, table.zone())));
    let last = last.unwrap_or_default();
    // A node does not add such a job, and removes a job that becomes such a job.
    if table.is_one_shot() {
        return Some(format!(
            "jobs.{name}: no future time{last}; schedd does not add a job whose only time is past, and removes a job that an edit gives such a time"
        ));
    }
    Some(format!("jobs.{name}: no future time{last}; the job runs only by schedctl run {name}"))
}

/// Returns a warning for each job in `not_while` that this file does not define. The name may be
/// mistyped, or another file may declare the job.
fn strangers(config: &Config, name: &JobName, spec: &JobSpec) -> Vec<String> {
    let others = spec.not_while.iter().filter(|other| !config.jobs.contains_key(other));
    let warnings = others.map(|other| {
        let names = config.jobs.keys().filter(|job| *job != name).map(JobName::as_str);
        let meant = config::nearest(other.as_str(), names);
        let meant = meant.map_or_else(String::new, |meant| format!(", did you mean {meant:?}?"));
        format!("jobs.{name}.not_while: this file has no job {other}{meant}; the name has no effect unless another file or schedctl add defines job {other}")
    });
    warnings.collect()
}

/// Returns the problems that would prevent the runs of a job from starting on a node on this host.
fn cannot_start(config: &Config, name: &JobName, spec: &JobSpec) -> Vec<String> {
    let user = spec.process.user.as_ref().map(RunAs::user);
    let faults = spec.env_files.iter().filter_map(|file| secrets::fault_of(file, user));
    let mut warnings: Vec<String> = faults
        .map(|fault| format!("jobs.{name}: {fault}; the runs of the job cannot start"))
        .collect();
    if let (Some(users), Some(run_as)) = (&config.daemon.users, &spec.process.user)
        && !users.contains(run_as.user())
    {
        let listed = users.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let listed = if listed.is_empty() { "nobody".to_owned() } else { listed };
        let user = run_as.user();
        warnings.push(format!(
            "jobs.{name}.user: {user} is not among [daemon] users of this file, which lists {listed}; the runs of the job cannot start, unless schedd itself runs as {user}"
        ));
    }
    warnings
}
