//! Layer 4: the verbs of `schedctl`.
//!
//! [`main`] parses the command line, runs one verb and reports its result to the shell. The result
//! is an exit code, and one JSON document or some lines on standard output. Each error is one line
//! on standard error.
//!
//! From top to bottom:
//!
//! - `verbs`: the list of the verbs and the call of each; `usage`: help texts and errors of usage
//! - one file or folder for each verb, with its flags and its text of `--help`; `jobs`, `runs`,
//!   `dead` and `state` hold verbs of one subject
//! - `runs/run_filter`: the filters for ended runs; `runs/past_time`: times in the past
//! - `runs/run_poller`: repeated reads of a run
//! - `shell/completion`: words for shell completion
//! - `jobs/target`: the job or run that an argument names; `runs/open_runs`: the open runs of a job
//! - `confirmation`: a question to the user before all data of a kind is deleted
//! - `connect`: the choice of a Redis; `merged_places`: the lists of a namespace and its shards
//! - `render`: output on the terminal and as JSON; `failure`: errors and their exit codes
//! - `global`: the flags that every verb takes; `local_zone`: the zone of printed times
//! - `remote`: verbs that a schedd runs for `schedctl --api`
//! - `embedded`: verbs that a schedd runs for HTTP requests, without a command line

mod access;
mod add;
mod apply;
mod confirmation;
mod connect;
mod dead;
mod doctor;
pub(crate) mod embedded;
mod explain;
mod failure;
mod global;
mod import;
mod jobs;
mod list;
mod local_zone;
mod logs;
mod merged_places;
mod next;
mod queue;
mod remote;
mod render;
mod runs;
mod shell;
mod state;
mod top;
mod usage;
mod verbs;
mod work;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser};
use clap_complete::CompleteEnv;

use render::Console;
use tokio::runtime::Builder;
use verbs::{CliArgs, Verb, dispatch};

/// Runs `schedctl` with the arguments of this process. Never panics and never shows a password.
pub fn main() -> ExitCode {
    let words = CompleteEnv::with_factory(CliArgs::command).var(shell::completion::ASKED_BY);
    if matches!(
        words.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()),
        Ok(true)
    ) {
        return ExitCode::SUCCESS;
    }
    let args = match CliArgs::try_parse() {
        Ok(args) => args,
        Err(error) => return usage::report_usage(&error),
    };
    let mut console = Console::new(&args.global);
    // With a second thread, the connection sends a batch of lines while the next is prepared. Every
    // other verb would only start later.
    let mut runtime = match &args.verb {
        Verb::Add(args) if args.reads_lines() => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    let runtime = runtime.worker_threads(2).enable_all().build();
    let answer = match runtime.context("cannot start the async runtime") {
        Ok(runtime) => runtime.block_on(async {
            match remote::address_for(&args) {
                Some(address) => remote::run(&args, &address, &mut console).await,
                None => Box::pin(dispatch(args, &mut console)).await,
            }
        }),
        Err(error) => Err(error.into()),
    };
    let code = answer.unwrap_or_else(|failure| console.failure(&failure));
    ExitCode::from(console.close(code))
}

/// Returns the grammar of the command line, from which the manual pages are built.
pub fn command() -> clap::Command {
    CliArgs::command()
}
