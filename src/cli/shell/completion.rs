//! Shell completion of a word: names of jobs and ids of runs, read from the chosen Redis.
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
use crate::domain::name::names::JobName;
use crate::store::Store;

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
    JobsAndRuns,
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

/// Returns a completer for names of jobs. After `JOB@` the ids of the runs of that job are offered.
pub(crate) fn jobs_and_runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| offered(word, Of::JobsAndRuns))
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
        (Some(_), Of::Jobs) => Vec::new(),
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
            ended
                .runs
                .iter()
                .map(|run| run.run.to_string())
                .filter(|run| run.starts_with(begin))
                .collect()
        }
        (None, Of::Jobs | Of::JobsAndRuns) => jobs_beginning(&store, begin).await?,
    };
    found.truncate(MOST);
    Ok(found)
}

async fn jobs_beginning(store: &Store, begin: &str) -> Result<Vec<String>, CliFailure> {
    let mut found = Vec::new();
    for offset in (0..).step_by(PAGE) {
        let page = store.list_jobs(offset, PAGE).await?;
        let is_last = page.len() < PAGE;
        found.extend(page.iter().map(ToString::to_string).filter(|name| name.starts_with(begin)));
        if is_last || found.len() >= MOST {
            break;
        }
    }
    found.sort();
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
