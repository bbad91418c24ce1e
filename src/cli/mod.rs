//! Layer 4: the verbs of `schedctl`.
//!
//! [`main`] parses the command line, runs one verb and reports its result to the shell. The result
//! is an exit code, and one JSON document or some lines on standard output. Each error is one line
//! on standard error.
//!
//! - `args`: the grammar of the command line and the texts of `--help`
//! - `connect`: which Redis to use; `target`: which job or run is named
//! - `ended`: the filters for ended runs; `past`: time texts that look back; `sight`: polling a run
//! - one file a verb: `add` `list` `show` `history` `explain` `logs` `next` `describe` `run`
//!   `rerun` `backfill` `cancel` `dead` `switch` `queue` `check` `declared` `export` `stats` `top`
//!   `nodes` `groups` `data-loss` `doctor` `completions`
//! - `asking`: a confirmation before all data of a kind is deleted; `complete`: words for shell
//!   completion
//! - `render`: output on the terminal and as JSON; `failure`: errors and their exit codes

mod add;
mod args;
mod asking;
mod backfill;
mod cancel;
mod check;
mod complete;
mod completions;
mod connect;
mod dead;
mod declared;
mod describe;
mod doctor;
mod ended;
mod explain;
mod export;
mod failure;
mod groups;
mod history;
mod list;
mod logs;
mod losses;
mod next;
mod nodes;
mod notices;
mod past;
mod queue;
mod render;
mod rerun;
mod run;
mod show;
mod sight;
mod stats;
mod switch;
mod target;
mod top;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser};
use clap_complete::CompleteEnv;

use args::{Args, Verb};
use failure::Failure;
use render::Console;

/// Runs `schedctl` with the arguments of this process. Never panics and never shows a password.
pub fn main() -> ExitCode {
    let words = CompleteEnv::with_factory(Args::command).var(complete::ASKED_BY);
    if matches!(words.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()), Ok(true)) {
        return ExitCode::SUCCESS;
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return failure::tell_usage(&error),
    };
    let mut console = Console::new(&args.global);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answer = match runtime.context("cannot start the async runtime") {
        Ok(runtime) => runtime.block_on(dispatch(args, &mut console)),
        Err(error) => Err(error.into()),
    };
    let code = answer.unwrap_or_else(|failure| console.failure(&failure));
    ExitCode::from(console.close(code))
}

/// Returns the grammar of the command line, from which the manual pages are built.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs one verb. Returns the exit code.
async fn dispatch(args: Args, console: &mut Console) -> Result<u8, Failure> {
    let global = &args.global;
    match args.verb {
        Verb::Add(add) => add::add(global, &add, console).await,
        Verb::List(list) => list::list(global, &list, console).await,
        Verb::Show(show) => show::show(global, &show, console).await,
        Verb::History(history) => history::history(global, &history, console).await,
        Verb::Explain(explain) => Box::pin(explain::explain(global, &explain, console)).await,
        Verb::Logs(logs) => logs::logs(global, &logs, console).await,
        Verb::Next(next) => next::next(global, &next, console).await,
        Verb::Describe(describe) => describe::describe(global, &describe, console).await,
        Verb::Run(run) => run::run(global, &run, console).await,
        Verb::Rerun(args) => rerun::rerun(global, &args, console).await,
        Verb::Backfill(args) => backfill::backfill(global, &args, console).await,
        Verb::Cancel(cancel) => cancel::cancel(global, &cancel, console).await,
        Verb::Retry(retry) => dead::retry(global, &retry, console).await,
        Verb::Purge(purge) => dead::purge(global, &purge, console).await,
        Verb::Pause(jobs) => switch::switch(global, &jobs, switch::To::Paused, console).await,
        Verb::Resume(jobs) => switch::switch(global, &jobs, switch::To::Resumed, console).await,
        Verb::Queue(verb) => queue::queue(global, &verb, console).await,
        Verb::Queues => queue::queues(global, console).await,
        Verb::Check(check) => check::check(global, &check, console),
        Verb::Diff(args) => declared::diff(global, &args, console).await,
        Verb::Apply(args) => declared::apply(global, &args, console).await,
        Verb::Export(args) => export::export(global, &args, console).await,
        Verb::Stats => stats::stats(global, console).await,
        Verb::Top => top::top(global, console).await,
        Verb::Nodes => nodes::nodes(global, console).await,
        Verb::Groups => groups::groups(global, console).await,
        Verb::Doctor(args) => doctor::doctor(global, &args, console).await,
        Verb::DataLoss => losses::losses(global, console).await,
        Verb::Completions(args) => completions::completions(&args, console),
    }
}
