//! Layer 4: the verbs of `schedctl`.
//!
//! [`main`] parses the command line, runs one verb and reports its result to the shell. The result
//! is an exit code, and one JSON document or some lines on standard output. Each error is one line
//! on standard error.
//!
//! - `args`: the grammar of the command line and the texts of `--help`
//! - `connect`: the choice of a Redis; `jobs/target`: the job or run that an argument names
//! - `runs/run_filter`: the filters for ended runs; `runs/past_time`: times in the past
//! - `runs/run_poller`: repeated reads of a run
//! - one file or folder for each verb; `jobs`, `runs`, `dead` and `state` hold verbs of one subject
//! - `confirmation`: a question to the user before all data of a kind is deleted
//! - `shell`: words for shell completion
//! - `render`: output on the terminal and as JSON; `failure`: errors and their exit codes

mod add;
mod apply;
mod args;
mod confirmation;
mod connect;
mod dead;
mod doctor;
mod explain;
mod failure;
mod jobs;
mod list;
mod logs;
mod next;
mod queue;
mod render;
mod runs;
mod shell;
mod state;
mod top;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser};
use clap_complete::CompleteEnv;

use args::{CliArgs, Verb};
use failure::CliFailure;
use render::Console;

/// Runs `schedctl` with the arguments of this process. Never panics and never shows a password.
pub fn main() -> ExitCode {
    let words = CompleteEnv::with_factory(CliArgs::command).var(shell::completion::ASKED_BY);
    if matches!(words.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()), Ok(true)) {
        return ExitCode::SUCCESS;
    }
    let args = match CliArgs::try_parse() {
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
    CliArgs::command()
}

/// Runs one verb. Returns the exit code.
async fn dispatch(args: CliArgs, console: &mut Console) -> Result<u8, CliFailure> {
    let global = &args.global;
    match args.verb {
        Verb::Add(add) => add::add(global, &add, console).await,
        Verb::List(list) => list::list(global, &list, console).await,
        Verb::Show(show) => jobs::show::show(global, &show, console).await,
        Verb::History(history) => runs::history_verb::history(global, &history, console).await,
        Verb::Explain(explain) => Box::pin(explain::explain(global, &explain, console)).await,
        Verb::Logs(logs) => logs::logs(global, &logs, console).await,
        Verb::Next(next) => next::next(global, &next, console).await,
        Verb::Describe(describe) => jobs::describe_verb::describe(global, &describe, console).await,
        Verb::Run(run) => runs::run_verb::run(global, &run, console).await,
        Verb::Rerun(args) => runs::rerun::rerun(global, &args, console).await,
        Verb::Backfill(args) => runs::backfill::backfill(global, &args, console).await,
        Verb::Cancel(cancel) => runs::cancel::cancel(global, &cancel, console).await,
        Verb::Retry(retry) => dead::retry(global, &retry, console).await,
        Verb::Purge(purge) => dead::purge(global, &purge, console).await,
        Verb::Pause(jobs) => jobs::pause_resume::switch(global, &jobs, jobs::pause_resume::To::Paused, console).await,
        Verb::Resume(jobs) => jobs::pause_resume::switch(global, &jobs, jobs::pause_resume::To::Resumed, console).await,
        Verb::Queue(verb) => queue::queue(global, &verb, console).await,
        Verb::Queues => queue::queues(global, console).await,
        Verb::Check(check) => jobs::check::check(global, &check, console),
        Verb::Diff(args) => apply::diff(global, &args, console).await,
        Verb::Apply(args) => apply::apply(global, &args, console).await,
        Verb::Export(args) => jobs::export_verb::export(global, &args, console).await,
        Verb::Stats => state::stats_verb::stats(global, console).await,
        Verb::Top => top::top(global, console).await,
        Verb::Nodes => state::nodes_verb::nodes(global, console).await,
        Verb::Groups => state::groups::groups(global, console).await,
        Verb::Doctor(args) => doctor::doctor(global, &args, console).await,
        Verb::DataLoss => state::data_loss_verb::losses(global, console).await,
        Verb::Completions(args) => shell::completions_verb::completions(&args, console),
    }
}
