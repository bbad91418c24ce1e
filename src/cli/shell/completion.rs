//! Shell completion of a word: names of jobs, queues and groups and ids of runs, read from the
//! chosen Redis. Time zones and words of a list need no Redis.
//!
//! Invariant: a lookup takes at most [`PATIENCE`] and prints no errors. If Redis is out of reach,
//! no words are offered.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use crate::cli::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::jobs::target::runs_of;
use crate::cli::render::Console;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{JobName, QueueName};
use schedd_schedule::time::zone;
use schedd_store::{Ended, Store, StoreError};

/// The environment variable by which a shell asks for completions.
pub(crate) const ASKED_BY: &str = "SCHEDCTL_COMPLETE";
const PATIENCE: Duration = Duration::from_millis(500);
/// The number of jobs read in one call.
const PAGE: usize = 2_000;
/// The maximum number of words offered.
const MOST: usize = 200;
/// The number of last ended runs whose ids are offered.
const NEWEST_RUNS: usize = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Jobs,
    Runs,
    DeadRuns,
    JobsAndRuns,
    AllJobsAndRuns,
    Queues,
    Groups,
}

/// Returns a completer for names of jobs.
pub(crate) fn jobs() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offered(word, Of::Jobs))
}

/// Returns a completer for ids of the runs that ended last. After `JOB@` the ids of all runs of
/// that job are offered.
pub(crate) fn runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offered(word, Of::Runs))
}

/// Returns a completer for ids of dead letters.
pub(crate) fn dead_runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offered(word, Of::DeadRuns))
}

/// Returns a completer for names of jobs. After `JOB@` the ids of the runs of that job are offered.
pub(crate) fn jobs_and_runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offered(word, Of::JobsAndRuns))
}

/// Returns a completer for names of jobs, including finished one-shots. After `JOB@` the ids of the
/// runs of that job are offered.
pub(crate) fn all_jobs_and_runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offered(word, Of::AllJobsAndRuns))
}

/// Returns a completer for names of queues.
pub(crate) fn queues() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offered(word, Of::Queues))
}

/// Returns a completer for names of groups.
pub(crate) fn groups() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offered(word, Of::Groups))
}

/// Returns a completer for the names of the time zones of this host.
pub(crate) fn zones() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| {
        let begin = word.to_string_lossy().to_ascii_lowercase();
        let names =
            zone::names().into_iter().filter(|name| name.to_ascii_lowercase().starts_with(&begin));
        names.map(CompletionCandidate::new).collect()
    })
}

/// Returns a completer for `words`, such as the values of an enumeration.
pub(crate) fn words(words: &'static [&'static str]) -> ArgValueCompleter {
    ArgValueCompleter::new(move |begin: &OsStr| {
        let begin = begin.to_string_lossy();
        let found = words.iter().filter(|word| word.starts_with(&*begin));
        found.map(CompletionCandidate::new).collect()
    })
}

fn offered(word: &OsStr, of: Of) -> Vec<CompletionCandidate> {
    let Some(begin) = word.to_str() else { return Vec::new() };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let found = runtime.block_on(async { tokio::time::timeout(PATIENCE, find(begin, of)).await });
    // A host name lookup that is still in progress is not waited for.
    runtime.shutdown_background();
    found
        .ok()
        .and_then(Result::ok)
        .unwrap_or_default()
        .into_iter()
        .map(CompletionCandidate::new)
        .collect()
}

async fn find(begin: &str, of: Of) -> Result<Vec<String>, CliFailure> {
    let global = global(std::env::args_os());
    let store = connect::meant(&global, &mut Console::new(&global))?.store;
    let mut found = match (begin.split_once('@'), of) {
        (_, Of::DeadRuns) => dead_beginning(&store, begin).await?,
        (Some(_), Of::Jobs | Of::Queues | Of::Groups) => Vec::new(),
        (Some((job, _)), _) => match job.parse::<JobName>() {
            Ok(job) => runs_of(&store, &job, NEWEST_RUNS)
                .await?
                .iter()
                .map(ToString::to_string)
                .filter(|run| run.starts_with(begin))
                .collect(),
            Err(_) => Vec::new(),
        },
        (None, Of::Runs) => {
            let ended = store.read_history(None, 0, NEWEST_RUNS).await?;
            beginning(begin, ended.runs.iter().map(|run| &run.run))
        }
        (None, Of::Jobs | Of::JobsAndRuns) => {
            paged(begin, async |offset| store.list_jobs(offset, PAGE).await).await?
        }
        (None, Of::AllJobsAndRuns) => {
            let mut found =
                paged(begin, async |offset| store.list_jobs(offset, PAGE).await).await?;
            found.extend(
                paged(begin, async |offset| store.list_finished(offset, PAGE).await).await?,
            );
            found
        }
        (None, Of::Queues) => {
            let mut found = beginning(begin, store.read_queues().await?.keys());
            found.extend(beginning(begin, store.list_lanes().await?.iter().map(Lane::queue)));
            found.extend(beginning(begin, [QueueName::default_queue()].iter()));
            found
        }
        (None, Of::Groups) => {
            let mut found = beginning(begin, store.read_groups().await?.keys());
            found.extend(beginning(begin, store.list_groups_named().await?.keys()));
            found
        }
    };
    if !matches!(of, Of::Runs | Of::DeadRuns) && !begin.contains('@') {
        found.sort();
        found.dedup();
    }
    found.truncate(MOST);
    Ok(found)
}

/// Returns those of `names` that begin with `begin`.
fn beginning(begin: &str, names: impl Iterator<Item = impl ToString>) -> Vec<String> {
    names.map(|name| name.to_string()).filter(|name| name.starts_with(begin)).collect()
}

/// Returns the ids of the newest dead letters that begin with `begin`.
async fn dead_beginning(store: &Store, begin: &str) -> Result<Vec<String>, CliFailure> {
    let job: Option<JobName> = begin.split_once('@').and_then(|(job, _)| job.parse().ok());
    let jobs = job.into_iter().collect();
    let dead = store.read_ended(&Ended { jobs, ..Ended::dead() }, 0, NEWEST_RUNS).await?;
    Ok(beginning(begin, dead.runs.iter().map(|run| &run.run)))
}

/// Returns the names that begin with `begin` from a list in pages. `page` returns the page that
/// starts at an offset.
async fn paged(
    begin: &str,
    page: impl AsyncFn(usize) -> Result<Vec<JobName>, StoreError>,
) -> Result<Vec<String>, CliFailure> {
    let mut found = Vec::new();
    for offset in (0..).step_by(PAGE) {
        let names = page(offset).await?;
        found.extend(beginning(begin, names.iter()));
        if names.len() < PAGE || found.len() >= MOST {
            break;
        }
    }
    Ok(found)
}

/// Reads the flags that choose a Redis from an unfinished command line. Other words of the line are
/// ignored.
fn global(line: impl Iterator<Item = OsString>) -> Global {
    let mut global = Global {
        redis: None,
        namespace: None,
        jobs: None,
        json: false,
        no_headers: false,
        quiet: true,
        api: None,
        token_file: None,
        store: None,
        request: None,
    };
    let mut words = line.filter_map(|word| word.into_string().ok());
    while let Some(word) = words.next() {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (&*word, None),
        };
        match flag {
            "--redis" => global.redis = value.or_else(|| words.next()),
            "--namespace" => global.namespace = value.or_else(|| words.next()),
            "--jobs" => global.jobs = value.or_else(|| words.next()).map(Into::into),
            _ => {}
        }
    }
    global
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_being_written_says_which_redis_is_meant() {
        let line =
            ["schedctl", "show", "--redis=unix:///a", "--namespace", "n", "ba"].map(OsString::from);
        let meant = global(line.into_iter());
        assert_eq!(
            (meant.redis.as_deref(), meant.namespace.as_deref(), meant.jobs),
            (Some("unix:///a"), Some("n"), None)
        );
        assert!(global(["schedctl", "--redis"].map(OsString::from).into_iter()).redis.is_none());
    }
}
