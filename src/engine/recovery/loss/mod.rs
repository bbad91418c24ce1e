//! Data loss: detects it, reports it, and limits its damage.
//!
//! Every poll brings the marks of the data: epoch, fence and server. While they differ from what
//! this node knows, it claims nothing. It reports the loss, begins a new epoch if it is the first
//! to notice, and restores what its [`Journal`] knows. Meanwhile no run is due for any node, for as
//! long as a lease lasts. So nothing started before the loss is alive when claims begin again.
//!
//! A failover, or a restart, may lose the last writes. A node that had not seen these writes cannot
//! notice that, because the marks match its knowledge. So the first node to poll a Redis server of
//! a new identity stores the last fence of that moment. The identity is the process of the server
//! and the count of its promotions to primary. For 1.5 s nothing is due on that server. Each node
//! polls at least each second, so any node that has seen a higher fence reports it in that time. A
//! node that comes later compares with the stored fence. It notices the loss although fences have
//! risen since. Claims and skips made from a poll go only to the polled server.
//!
//! - [`data_state`] decides what the data is
//! - [`upload`] restores from the journal
//! - [`catalog`] keeps the names of jobs that no file would restore
//!
//! Invariant: a journal never writes into data that is not its own.

pub(crate) mod catalog;
mod data_state;
mod upload;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tracing::{error, info, warn};

use super::journal::{Journal, JournalLine};
use super::restored_ends::Given;
use crate::domain::time::unix_millis::UnixMillis;
use crate::engine::node_context::NodeContext;
use crate::store::{
    DataLoss, DataMarks, EpochReply, JOBS_NAMED, LossKind, LossReport, Met, Poll, ReportReply, StoreError, begun_at, new_epoch,
};
use data_state::{DataState, Remembered, judge};
pub(crate) use upload::give_back_end;

/// The bounds of the time without claims after a loss. That time is the length of a lease. Redis
/// accepts no more than the upper bound.
const SETTLE: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(60)];
/// The interval at which a higher fence is written to the journal.
const WRITE_SEEN: Duration = Duration::from_secs(5);
/// The time for other nodes to restore what they know, before this node reports which jobs are
/// gone. Nodes notice a loss within a second of each other.
const OTHERS_GIVE_BACK: Duration = Duration::from_millis(1500);
/// The most jobs named in one log line.
const NAMED_IN_LOG: usize = 20;

/// The knowledge of this node about its data, and the check of each poll against that knowledge.
pub(crate) struct LossWatch {
    journal: Journal,
    address: String,
    /// Unknown marks of data that wait to be judged.
    found: Mutex<Option<Found>>,
    is_news: Notify,
    /// The number of times that this node accepted data as known.
    accepted: AtomicU64,
    written: Mutex<(u64, Instant)>,
}

#[derive(Clone)]
struct Found {
    marks: DataMarks,
    now: UnixMillis,
    known: LossQuestion,
}

/// The knowledge of this node when a poll was sent. The answer to the poll is judged by this
/// knowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LossQuestion {
    highest: u64,
    accepted: u64,
}

impl LossWatch {
    pub(crate) fn new(journal: Journal, address: &str) -> Self {
        let written = (journal.with(|memory| memory.highest), Instant::now());
        Self {
            journal,
            address: address.to_owned(),
            found: Mutex::default(),
            is_news: Notify::new(),
            accepted: AtomicU64::new(0),
            written: Mutex::new(written),
        }
    }

    /// Returns the journal of this node.
    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the epoch of the data that this node knows.
    pub(crate) fn epoch(&self) -> String {
        self.journal.with(|memory| memory.epoch.clone().unwrap_or_default())
    }

    fn remembered(&self) -> Remembered {
        self.journal.with(|memory| Remembered {
            epoch: memory.epoch.clone(),
            past_epochs: memory.past_epochs.clone(),
            highest: memory.highest,
            whole_at: memory.whole_at,
            address: memory.address.clone(),
            server: memory.server.clone(),
        })
    }

    fn found(&self) -> MutexGuard<'_, Option<Found>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the present knowledge. The fence in the answer to a poll sent from now on may not
    /// fall below this knowledge.
    pub(crate) fn known_now(&self) -> LossQuestion {
        let accepted = self.accepted.load(Ordering::Acquire);
        LossQuestion { highest: self.journal.with(|memory| memory.highest), accepted }
    }

    /// Returns true if a poll found the data that this node knows. `known` must be taken before the
    /// poll was sent. After false, the caller may act on nothing in the poll.
    pub(crate) fn knows(&self, poll: &Poll, known: LossQuestion) -> bool {
        if self.accepted.load(Ordering::Acquire) != known.accepted {
            // The poll was sent before the last acceptance: the fence was lower then, and nothing
            // is lost.
            return false;
        }
        let marks = &poll.marks;
        let is_known = marks.met != Met::No
            && (marks.is_spoilt
                || self.journal.with(|memory| {
                    let is_here = marks.server.is_empty() || memory.server.as_ref() == Some(&marks.server);
                    is_here && memory.epoch.as_ref() == Some(&marks.epoch) && marks.fence >= known.highest
                }));
        if !is_known {
            *self.found() = Some(Found { marks: marks.clone(), now: poll.now, known });
            self.is_news.notify_one();
            return false;
        }
        if marks.is_spoilt {
            if self.mark_to_write_back(marks, known.highest).is_some() {
                *self.found() = Some(Found { marks: marks.clone(), now: poll.now, known });
                self.is_news.notify_one();
            }
            return true;
        }
        self.journal.raise(marks.fence, poll.now.as_i64(), &self.address);
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.fence > written.0 && written.1.elapsed() >= WRITE_SEEN {
            *written = (marks.fence, Instant::now());
            self.journal.note([self.seen(marks.fence, poll.now)]);
        }
        true
    }

    /// Returns the epoch to write back if the epoch key has a bad value and the data is otherwise
    /// known. Known data has the same server and no fence below the highest fence seen.
    fn mark_to_write_back(&self, marks: &DataMarks, highest: u64) -> Option<String> {
        let is_spoilt = !marks.epoch.is_empty() && begun_at(&marks.epoch).is_none();
        self.journal.with(|memory| {
            let is_here = memory.server.as_ref() == Some(&marks.server) && memory.address == self.address;
            memory.epoch.clone().filter(|_| is_spoilt && is_here && marks.fence >= highest)
        })
    }

    fn seen(&self, fence: u64, now: UnixMillis) -> JournalLine {
        JournalLine::Seen(fence, now.as_i64(), self.address.clone())
    }

    /// Accepts the data with this epoch and fence, on this server, from now on.
    fn accept(&self, epoch: &str, fence: u64, server: &str, now: UnixMillis) {
        let server = JournalLine::Server(server.to_owned());
        self.journal.note([JournalLine::Epoch(epoch.to_owned()), server, self.seen(fence, now)]);
        self.accepted.fetch_add(1, Ordering::AcqRel);
    }
}

/// Judges unknown data that polls have found, for ever.
pub(crate) async fn run(shared: Arc<NodeContext>) {
    let watch = &shared.watch;
    loop {
        watch.is_news.notified().await;
        let Some(found) = watch.found().take() else { continue };
        match deal(&shared, &found).await {
            Ok(()) => shared.poll_now.notify_one(),
            // The next poll finds it again.
            Err(error) => shared.weather.failed(&error, "this node does not know whether data was lost, so it starts no runs"),
        }
    }
}

async fn deal(shared: &Arc<NodeContext>, found: &Found) -> Result<(), StoreError> {
    let (store, watch) = (&shared.store, &shared.watch);
    if found.known.accepted != watch.accepted.load(Ordering::Acquire) {
        return Ok(());
    }
    let (known, marks) = (watch.remembered(), &found.marks);
    if marks.met == Met::No {
        store.meet_server(&marks.server).await?;
        // The next poll brings what the server had then, unless it has no epoch.
        if !marks.epoch.is_empty() {
            return Ok(());
        }
    }
    let is_other = known.epoch.as_ref().is_some_and(|epoch| !marks.epoch.is_empty() && *epoch != marks.epoch);
    let losses = if is_other { store.read_losses().await? } else { Vec::new() };
    let fresh = || new_epoch(found.now, &shared.settings.node);
    match judge(&known, marks, &watch.address, &losses) {
        DataState::Same if marks.is_spoilt => {
            let Some(epoch) = watch.mark_to_write_back(marks, found.known.highest) else { return Ok(()) };
            if store.begin_epoch(&marks.epoch, &epoch, None, 0, Duration::ZERO).await? == EpochReply::Begun {
                warn!("The epoch key had an invalid value. This node wrote the known epoch back.");
            }
            Ok(())
        }
        DataState::Same => {
            if known.server.as_ref() != Some(&marks.server) {
                watch.accept(&marks.epoch, marks.fence.max(watch.known_now().highest), &marks.server, found.now);
            }
            Ok(())
        }
        DataState::FirstDay => {
            let epoch = fresh();
            if store.begin_epoch("", &epoch, None, 0, Duration::ZERO).await? == EpochReply::Begun {
                watch.accept(&epoch, marks.fence, &marks.server, found.now);
            }
            Ok(())
        }
        DataState::New => {
            watch.accept(&marks.epoch, marks.fence, &marks.server, found.now);
            Ok(())
        }
        DataState::Another => {
            warn!(
                redis = watch.address,
                was_at = known.address,
                "This Redis has data that this node does not know, so this node treats it as another server. The journal of the earlier data was set aside and is not restored here."
            );
            watch.journal.set_aside();
            Ok(())
        }
        DataState::Lost(kind) => {
            let kept_to = match UnixMillis::new(known.whole_at) {
                Some(whole) if kind != LossKind::Flushed => store.newest_trace(whole).await?,
                _ => None,
            };
            let loss = DataLoss {
                epoch: fresh(),
                before: known.epoch.clone().unwrap_or_default(),
                found: marks.epoch.clone(),
                kind,
                by: shared.settings.node.as_str().to_owned(),
                whole_at_ms: known.whole_at,
                kept_to_ms: kept_to.map_or(0, UnixMillis::as_i64),
            };
            let settle = shared.settings.lease.clamp(SETTLE[0], SETTLE[1]);
            match store.begin_epoch(&marks.epoch, &loss.epoch, Some(&loss), known.highest, settle).await? {
                EpochReply::Begun => mend(shared, &loss.epoch, kind, &known, found).await,
                // The next poll shows its epoch.
                EpochReply::Another => Ok(()),
            }
        }
        DataState::Joined(kind) => mend(shared, &marks.epoch, kind, &known, found).await,
    }
}

/// Reports the loss, restores the facts in the journal, and accepts the data again.
async fn mend(
    shared: &Arc<NodeContext>,
    epoch: &str,
    kind: LossKind,
    known: &Remembered,
    found: &Found,
) -> Result<(), StoreError> {
    let (watch, now) = (&shared.watch, found.now);
    let whole_at = UnixMillis::new(known.whole_at);
    // Logged once, however many tries the restore takes.
    if shared.said.is_news(&format!("loss {epoch}")) {
        error!(
            namespace = shared.store.namespace(),
            last_whole_at = whole_at.map(|at| at.to_string()).unwrap_or_default(),
            "Redis lost data: {}. No run starts until this node has restored its journal. Jobs of jobs.toml are planned again. Open runs are stopped and retried, but open at-most-once runs end as lost.",
            kind.words()
        );
    }
    // A run here without a lease must be stopped before any node may start it again.
    shared.renew_now.notify_one();
    shared.reconcile_now.notify_one();
    let given = upload::give_back(shared, epoch, whole_at.unwrap_or(UnixMillis::EPOCH), now).await?;
    tokio::time::sleep(OTHERS_GIVE_BACK).await;
    let gone = catalog::missing(shared).await?;
    tell(&given, &gone);
    let report = LossReport {
        epoch: epoch.to_owned(),
        node: shared.settings.node.as_str().to_owned(),
        restored: given.restored,
        lost: given.lost,
        jobs_gone: gone.len() as u64,
        gone: gone.iter().take(JOBS_NAMED).map(|job| (job.name.clone(), job.schedule.clone())).collect(),
    };
    match shared.store.report_loss(&report, known.highest).await? {
        ReportReply::Reported(fence) => {
            watch.journal.note(gone.into_iter().map(|job| JournalLine::JobOver(job.name)));
            watch.accept(epoch, fence, &found.marks.server, now);
        }
        // Lost again meanwhile: the next poll shows it.
        ReportReply::Moved => {}
    }
    Ok(())
}

fn tell(given: &Given, gone: &[super::journal::ApiJob]) {
    let Given { restored, known, lost, failed } = *given;
    info!(restored, lost, known, "This node has restored the runs of its journal.");
    if failed > 0 {
        warn!(failed, "Some runs of the journal could not be restored. These runs may execute again.");
    }
    if gone.is_empty() {
        return;
    }
    let named: Vec<String> = gone.iter().take(NAMED_IN_LOG).map(|job| format!("{} ({})", job.name, job.schedule)).collect();
    error!(
        jobs = gone.len(),
        "Redis lost jobs that were added by schedctl. Add the jobs again if you need them: {}{}",
        named.join(", "),
        if gone.len() > NAMED_IN_LOG { ", ... (schedctl data-loss lists more)" } else { "" }
    );
}
