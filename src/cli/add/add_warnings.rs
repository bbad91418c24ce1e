//! Warnings about jobs that `add` adds nevertheless: one job given by flags, or many jobs given by
//! lines of standard input.
//!
//! Invariant: at most [`MOST`] warnings about lines are printed, and the memory for warnings is
//! bounded. The number of omitted warnings is always printed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::added_job::AddResult;
use super::instant::past_without_run;
use crate::cli::failure::CliFailure;
use crate::cli::render::Console;
use crate::secrets;
use schedd_core::config;
use schedd_core::config::{NamedJob, Problem};
use schedd_core::domain::job::env_file::Absence;
use schedd_core::domain::job::process_rules::{RunAs, Started};
use schedd_schedule::names::JobName;
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{JobRecord, Store};

/// The maximum number of warnings about input lines that one `add --stdin` prints.
const MOST: usize = 20;
/// The maximum number of distinct names in `not_while` that one `add --stdin` looks up in Redis.
const OTHERS: usize = 1_000;
/// The maximum number of users whose lookup is cached.
const USERS: usize = 1_000;

/// A checker that warns about users, files and programs which a job needs and this host lacks.
/// Lookups of users may be slow, so their results are cached.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// The problem with each `USER:GROUP` that was looked up; `None` if there is no problem.
    users: BTreeMap<String, Option<String>>,
}

impl Host {
    /// Returns a warning for each user, file, directory or program that `job` needs and this host
    /// lacks. A lack is not an error, because the job may be meant for other hosts. The sender of an
    /// HTTP request gets no such warning, because it would show which files this host has.
    pub(super) fn lacks(&mut self, job: &NamedJob, console: &Console) -> Vec<Problem> {
        if !console.is_local() {
            return Vec::new();
        }
        let spec = &job.spec;
        if spec.started() == Started::Nothing {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut note = |key: &str, message: String| {
            found.push(Problem { path: key.to_owned(), span: None, message, within: None });
        };
        if let Some(problem) =
            spec.process.user.as_ref().and_then(|run_as| self.lack_of_user(run_as))
        {
            note("user", format!("{problem}; a run starts only on hosts without this problem"));
        }
        let user = spec.process.user.as_ref().map(RunAs::user);
        for problem in spec.env_files.iter().filter_map(|file| secrets::fault_of(file, user)) {
            note("env_file", format!("{problem}; a run starts only on hosts without this problem"));
        }
        let mut lack = |key: &str, what: &str, name: &str| {
            note(
                key,
                format!(
                    "this host has no {what} {name:?}; a run starts only on hosts that have it"
                ),
            );
        };
        if let Some(cwd) = spec.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
            lack("cwd", "directory", &cwd.display().to_string());
        }
        if let Some(program) =
            spec.process.shell_program.as_ref().filter(|program| is_missing(program))
        {
            lack("shell_program", "program", &program.display().to_string());
        }
        for file in spec
            .env_files
            .iter()
            .filter(|file| file.absence() == Absence::Fault && is_missing(file.path()))
        {
            lack("env_file", "file", &file.path().display().to_string());
        }
        found
    }

    /// Returns why this host cannot run processes as `run_as`, or `None` if no reason is known.
    fn lack_of_user(&mut self, run_as: &RunAs) -> Option<String> {
        let name = run_as.to_string();
        if let Some(known) = self.users.get(&name) {
            return known.clone();
        }
        let lack = config::account_lack(run_as);
        if self.users.len() < USERS {
            self.users.insert(name, lack.clone());
        }
        lack
    }
}

/// Returns true if `path` certainly does not exist. Returns false for a path in an unreadable
/// directory, because the content of the directory is unknown.
fn is_missing(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

/// Returns a warning if the job was created with a schedule that has no future time. Manual jobs,
/// `@reboot` jobs, jobs on each node and jobs with `in` get no warning.
pub(super) fn timeless(job: &NamedJob, (name, result, next_due): &AddResult) -> Option<String> {
    let schedule = &job.spec.schedule;
    // The instances of a job on each node have its planned runs.
    let has_none_by_nature = matches!(schedule, Schedule::Manual | Schedule::After(_))
        || schedule.is_at_boot()
        || job.spec.is_on_each_node();
    let is_timeless =
        *result == "created" && next_due.is_none() && job.start_in.is_none() && !has_none_by_nature;
    is_timeless
        .then(|| format!("job {name} has no future time, so it runs only by schedctl run {name}"))
}

/// Returns those of `names` that no existing job has.
pub(super) async fn strangers(
    store: &Store,
    names: &[JobName],
) -> Result<BTreeSet<JobName>, CliFailure> {
    let records = store.read_jobs(names).await?;
    // A record that cannot be read belongs to an existing job.
    let is_there = |record: &Result<Option<JobRecord>, _>| match record {
        Ok(record) => record.as_ref().is_some_and(JobRecord::is_live),
        Err(_) => true,
    };
    Ok(names
        .iter()
        .zip(&records)
        .filter(|(_, record)| !is_there(record))
        .map(|(name, _)| name.clone())
        .collect())
}

/// Returns the warning for a name in `not_while` that no job has.
pub(super) fn stranger_words(name: &JobName) -> String {
    format!("no job {name} exists: the name has no effect until job {name} is added")
}

/// A collector of the warnings about the lines of `add --stdin`.
#[derive(Debug, Default)]
pub(super) struct LineDoubts {
    host: Host,
    shown_count: usize,
    failed_notices: u64,
    /// The jobs named in `not_while`, each with the number of the first line that names the job.
    /// Names are looked up at the end, because a later line may add the named job.
    others: BTreeMap<JobName, usize>,
    /// The warnings about the last line, if they go into the result of the line. `None` if they are
    /// printed.
    of_line: Option<Vec<String>>,
}

impl LineDoubts {
    /// Creates a collector that prints no warnings, but returns them for each line.
    pub(super) fn by_line() -> Self {
        Self { of_line: Some(Vec::new()), ..Self::default() }
    }

    /// Returns the warnings about the last line, which are then forgotten.
    pub(super) fn take(&mut self) -> Vec<String> {
        self.of_line.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Prints the warnings about the job that line `line` added at `now`. Local times are in
    /// `host_zone` if the job names no zone.
    pub(super) fn warn(
        &mut self,
        line: usize,
        (job, added): (&NamedJob, &AddResult),
        (now, host_zone): (UnixMillis, &Zone),
        console: &mut Console,
    ) {
        for doubt in job.warnings.iter().chain(&self.host.lacks(job, console)) {
            self.say(line, &doubt.to_string(), console);
        }
        // An existing job may have run for its past times before, so only a created job gets the
        // warning.
        let past = past_without_run(&job.spec, now, host_zone).filter(|_| added.1 == "created");
        if let Some(doubt) = past {
            self.say(line, &format!("job {} does not run {doubt}", added.0), console);
        } else if let Some(doubt) = timeless(job, added) {
            self.say(line, &doubt, console);
        }
        for other in &job.spec.not_while {
            if self.of_line.is_none() && self.others.len() < OTHERS {
                self.others.entry(other.clone()).or_insert(line);
            }
        }
    }

    /// Prints the warnings that depend on all lines, and the number of warnings that were not
    /// printed.
    pub(super) async fn end(
        mut self,
        store: &Store,
        console: &mut Console,
    ) -> Result<(), CliFailure> {
        let others = std::mem::take(&mut self.others);
        let names: Vec<JobName> = others.keys().cloned().collect();
        let missing = strangers(store, &names).await?;
        let mut missing: Vec<(usize, JobName)> = others
            .into_iter()
            .filter(|(name, _)| missing.contains(name))
            .map(|(name, line)| (line, name))
            .collect();
        missing.sort_unstable();
        for (line, name) in missing {
            self.say(line, &format!("not_while: {}", stranger_words(&name)), console);
        }
        match self.failed_notices {
            0 => {}
            1 => console.warn("one more warning about a line is not shown"),
            more => console.warn(&format!("{more} more warnings about lines are not shown")),
        }
        Ok(())
    }

    fn say(&mut self, line: usize, doubt: &str, console: &mut Console) {
        if let Some(of_line) = &mut self.of_line {
            of_line.push(doubt.to_owned());
        } else if self.shown_count < MOST {
            self.shown_count += 1;
            console.warn(&format!("line {line}: {doubt}"));
        } else {
            self.failed_notices += 1;
        }
    }
}
