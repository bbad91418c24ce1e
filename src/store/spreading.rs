//! Missed runs that are not to start all at once: each gets a ready time of its own within a window.
//!
//! Invariant: a stretch too long for one call is spread over one window, whoever makes the next call: what is left of it
//! stands with the job, for the run that comes next and for no other.

use super::Store;
use super::error::StoreError;
use super::jobs::Rev;
use super::runs::Successor;
use super::scripts::{self, Invocation};
use crate::domain::ids::{JobName, RunId};
use crate::domain::lane::Lane;
use crate::domain::time::UnixMillis;

/// What is left of the time missed runs are spread over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The next of them.
    pub run: RunId,
    /// From when it may start.
    pub from: UnixMillis,
    /// Until when the last of them starts.
    pub until: UnixMillis,
}

impl Window {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let [run, from, until] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let instant = |text: &str| UnixMillis::new(text.parse().ok()?);
        Some(Self { run: run.parse().ok()?, from: instant(from)?, until: instant(until)? })
    }

    fn text(window: Option<&Self>) -> String {
        window.map_or_else(String::new, |Self { run, from, until }| format!("{run} {} {}", from.as_i64(), until.as_i64()))
    }
}

/// Missed runs of one job and when each is to start.
#[derive(Debug, Clone)]
pub struct SpreadOrder {
    /// The job.
    pub name: JobName,
    /// Its rev this was computed from.
    pub rev: Rev,
    /// Its queue.
    pub lane: Lane,
    /// Its window as read.
    pub window: Option<Window>,
    /// The window for those left over.
    pub next_window: Option<Window>,
    /// The runs, the pending one first; 1 to 100.
    pub runs: Vec<Successor>,
    /// What comes after them.
    pub successor: Option<Successor>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpreadReply {
    /// They are owed from now on.
    Spread,
    /// The first is not the job's pending run.
    Gone,
    /// The job changed: read it and decide again.
    Stale,
    /// The successor's occurrence has a record already: decide on the one after it.
    Occupied,
}

impl Store {
    /// Gives missed runs ready times of their own and plants what comes after them.
    pub async fn spread_runs(&self, order: &SpreadOrder) -> Result<SpreadReply, StoreError> {
        let (keys, name, next) = (&self.keys, &order.name, order.successor.as_ref());
        let mut call = Invocation::new(&scripts::SPREAD_RUNS)
            .key("job", keys.job(name))
            .key("jobs", keys.jobs())
            .key("job_due", keys.due(&order.lane))
            .key("nudge", keys.nudge())
            .key("successor_run", self.successor_key(next, name))
            .key("spread", keys.spread(name))
            .arg("now", self.now_arg())
            .arg("job_name", name.as_str())
            .arg("rev", order.rev.as_str())
            .arg("lane", order.lane.as_str())
            .arg("window", Window::text(order.window.as_ref()))
            .arg("next_window", Window::text(order.next_window.as_ref()))
            .arg("successor", Successor::id(next))
            .arg("successor_due", Successor::due(next))
            .arg("successor_ready", Successor::ready(next));
        for run in &order.runs {
            call = call
                .key("run", keys.run(&run.run))
                .arg("id", run.run.to_string())
                .arg("due_ms", run.run.due().as_i64())
                .arg("ready", run.ready.as_i64());
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
