//! `list`: jobs by the time of their next run. Jobs are read and printed page by page, so that a
//! million jobs need little memory.
//!
//! The index in Redis orders jobs by their schedule, and each page is then sorted by the time that
//! NEXT shows. So a job with a retry has its place within its page. A job whose next time changes
//! meanwhile may appear twice or not at all.

mod job_sheet;
mod list_flags;
mod listed_jobs;
mod watch;

use super::connect::{answering_places, connect};
use super::failure::CliFailure;
use super::global::Global;
use super::render::Console;
use super::state::node_presence::warn_if_none_runs;
use job_sheet::print;

pub(crate) use list_flags::ListArgs;
pub(crate) use listed_jobs::{Wanted, belongs};

/// Lists jobs once, or repeatedly with `--watch`. Returns the exit code.
pub(crate) async fn list(
    global: &Global,
    args: &ListArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    if let Some(text) = &args.watch {
        return watch::watch(global, args, watch::interval(text)?, console).await;
    }
    let wanted = Wanted::of(args)?;
    let store = connect(global, console).await?;
    warn_if_none_runs(&store, console).await;
    let places = answering_places(&store, console).await?;
    Ok(print(&places, args, &wanted, usize::MAX, console).await?.code)
}
