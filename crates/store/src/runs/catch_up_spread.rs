//! Spread catch-up: missed runs that must not all start at once. Each missed run gets a ready time
//! of its own within a window.
//!
//! Invariant: a range of missed runs too long for one call is spread over one window, even if
//! another node makes the next call. The job's record stores the rest of the window and the first
//! run that is not spread yet.

use super::successor::Successor;
use crate::Store;
use crate::jobs::rev::Rev;
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The rest of the time window over which a job's missed runs are spread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpreadWindow {
    /// The missed run that is spread next.
    pub run: RunId,
    /// The time from which `run` may start.
    pub from: UnixMillis,
    /// The latest time at which the last missed run may start.
    pub until: UnixMillis,
}

impl SpreadWindow {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let [run, from, until] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let instant = |text: &str| UnixMillis::new(text.parse().ok()?);
        Some(Self { run: run.parse().ok()?, from: instant(from)?, until: instant(until)? })
    }

    fn text(window: Option<&Self>) -> String {
        window.map_or_else(String::new, |Self { run, from, until }| {
            format!("{run} {} {}", from.as_i64(), until.as_i64())
        })
    }
}

/// An order to spread missed runs of a job: to give each of them a start time of its own.
#[derive(Debug, Clone)]
pub struct SpreadOrder {
    /// The name of the job whose missed runs are spread.
    pub name: JobName,
    /// The revision of the job that the order was computed from.
    pub rev: Rev,
    /// The lane of the job.
    pub lane: Lane,
    /// The spread window in the job's record as the caller read it; None if the record has none.
    pub window: Option<SpreadWindow>,
    /// The window for the missed runs that remain after this call; None if none remain.
    pub next_window: Option<SpreadWindow>,
    /// The 1 to 100 missed runs to spread. The job's pending run is the first.
    pub runs: Vec<Successor>,
    /// The run that becomes the job's pending run after the spread runs, if any.
    pub successor: Option<Successor>,
}

/// The result of spreading missed runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpreadReply {
    /// The runs are now in the due set with their own ready times.
    Spread,
    /// The first run of the order is no longer the job's pending run, or has left the due set.
    /// Nothing changed.
    Gone,
    /// The job changed. The caller must read the job and decide again.
    Stale,
    /// The successor's occurrence already has a record. The caller must choose the next occurrence.
    Occupied,
}

impl Store {
    /// Gives missed runs ready times of their own and adds their successor to the due set.
    pub async fn spread_runs(&self, order: &SpreadOrder) -> Result<SpreadReply, StoreError> {
        let (name, next) = (&order.name, order.successor.as_ref());
        let mut call = self
            .call(&scripts::SPREAD_RUNS)
            .of_job(name)
            .of_job_lane(&order.lane)
            .key("successor_run", self.successor_key(next, name))
            .arg("rev", order.rev.as_str())
            .arg("lane", order.lane.as_str())
            .arg("window", SpreadWindow::text(order.window.as_ref()))
            .arg("next_window", SpreadWindow::text(order.next_window.as_ref()))
            .successor("successor", next);
        for run in &order.runs {
            call = call.item().of_run(&run.run).arg("ready", run.ready.as_i64());
        }
        let reply = self.link.invoke_where_trusted(&call).await?;
        Ok(match reply.word.as_str() {
            "spread" => SpreadReply::Spread,
            "gone" => SpreadReply::Gone,
            "stale" => SpreadReply::Stale,
            "occupied" => SpreadReply::Occupied,
            _ => return Err(reply.unknown()),
        })
    }
}
