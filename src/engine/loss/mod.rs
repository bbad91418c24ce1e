//! Loss of data: noticed, said, and not made worse.
//!
//! Every poll brings the marks by which data is known again. While they are not what this node knows, it claims nothing. It says
//! what is lost, marks the data anew if it is the first to notice, and gives back what its [`Journal`] knows; meanwhile nothing
//! is ripe for any node, for as long as a lease lasts, so that nothing started before the loss is alive when claims begin again.
//!
//! A failover, or a restart that lost the end, may be met first by a node that had not seen that end: its marks fit. So the first
//! to poll a Redis server of another identity (its process, and which of the times it became a primary) writes down what the last
//! fence was then, and for 1.5 s nothing is ripe there: a node polls at least each second, so whoever has seen a higher fence
//! has said so by then. One that comes later compares with what was written down, and notices the loss all the same, although
//! fences have risen since. Claims and skips made from a poll go to the server that was polled only.
//!
//! - [`mod@judge`] what the data is; [`upload`] what the journal gives back; [`catalog`] keeps the names of the jobs no file would bring back
//!
//! Invariant: nothing of a journal goes into data that it is not the journal of.

pub(super) mod catalog;
mod judge;
mod upload;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tracing::{error, info, warn};

use self::judge::{Finding, Remembered, judge};
pub(super) use self::upload::give_back_end;
use super::giving_back::Given;
use super::journal::{Journal, Line};
use super::shared::Shared;
use crate::domain::time::UnixMillis;
use crate::store::{
    EpochReply, JOBS_NAMED, Loss, LossKind, LossReport, Marks, Met, Poll, ReportReply, StoreError, begun_at, new_epoch,
};

/// The data settles for a lease, within these bounds. Redis believes no more than the upper.
const SETTLE: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(60)];
/// How often the highest fence is written down, if it rose.
const WRITE_SEEN: Duration = Duration::from_secs(5);
/// How long other nodes are given to give back what they know, before this one says which jobs are gone: they notice a loss within
/// a second of each other.
const OTHERS_GIVE_BACK: Duration = Duration::from_millis(1500);
/// Jobs named in one line of the log.
const NAMED_IN_LOG: usize = 20;

/// What this node goes by to know its data again.
pub(super) struct Watch {
    journal: Journal,
    address: String,
    /// Marks that are not what was known, waiting to be judged.
    found: Mutex<Option<Found>>,
    is_news: Notify,
    /// How often data was taken for what is known.
    accepted: AtomicU64,
    written: Mutex<(u64, Instant)>,
}

#[derive(Clone)]
struct Found {
    marks: Marks,
    now: UnixMillis,
    known: Asked,
}

/// What was known when a poll was sent: by that its answer is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    highest: u64,
    accepted: u64,
}

impl Watch {
    pub(super) fn new(journal: Journal, address: &str) -> Self {
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

    /// This node's journal.
    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The mark of the data as known.
    pub(super) fn epoch(&self) -> String {
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

    /// What is known now: what a poll sent from here on may not fall below.
    pub(super) fn known_now(&self) -> Asked {
        let accepted = self.accepted.load(Ordering::Acquire);
        Asked { highest: self.journal.with(|memory| memory.highest), accepted }
    }

    /// Whether what a poll found is the data this node knows; `known` was asked for before it was sent. If not, nothing of it is to
    /// be acted on.
    pub(super) fn knows(&self, poll: &Poll, known: Asked) -> bool {
        if self.accepted.load(Ordering::Acquire) != known.accepted {
            // It tells of the time before: the fence was lower then, and nothing is lost.
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

    /// The mark that the data had, if it has something else now that is none and is by all else what this node knew: on the same
    /// server, with no fence below the highest one seen.
    fn mark_to_write_back(&self, marks: &Marks, highest: u64) -> Option<String> {
        let is_spoilt = !marks.epoch.is_empty() && begun_at(&marks.epoch).is_none();
        self.journal.with(|memory| {
            let is_here = memory.server.as_ref() == Some(&marks.server) && memory.address == self.address;
            memory.epoch.clone().filter(|_| is_spoilt && is_here && marks.fence >= highest)
        })
    }

    fn seen(&self, fence: u64, now: UnixMillis) -> Line {
        Line::Seen(fence, now.as_i64(), self.address.clone())
    }

    /// Knows the data by these marks from now on, on this server.
    fn accept(&self, epoch: &str, fence: u64, server: &str, now: UnixMillis) {
        let server = Line::Server(server.to_owned());
        self.journal.note([Line::Epoch(epoch.to_owned()), server, self.seen(fence, now)]);
        self.accepted.fetch_add(1, Ordering::AcqRel);
    }
}

/// Judges what polls find that is not known, for ever.
pub(super) async fn run(shared: Arc<Shared>) {
    let watch = &shared.watch;
    loop {
        watch.is_news.notified().await;
        let Some(found) = watch.found().take() else { continue };
        match deal(&shared, &found).await {
            Ok(()) => shared.poll_now.notify_one(),
            // The next poll finds it again.
            Err(error) => shared.weather.failed(&error, "whether data was lost is not known, so nothing is started"),
        }
    }
}

async fn deal(shared: &Arc<Shared>, found: &Found) -> Result<(), StoreError> {
    let (store, watch) = (&shared.store, &shared.watch);
    if found.known.accepted != watch.accepted.load(Ordering::Acquire) {
        return Ok(());
    }
    let (known, marks) = (watch.remembered(), &found.marks);
    if marks.met == Met::No {
        store.meet_server(&marks.server).await?;
        // What it had then is told by the next poll, unless there is nothing.
        if !marks.epoch.is_empty() {
            return Ok(());
        }
    }
    let is_other = known.epoch.as_ref().is_some_and(|epoch| !marks.epoch.is_empty() && *epoch != marks.epoch);
    let losses = if is_other { store.read_losses().await? } else { Vec::new() };
    let fresh = || new_epoch(found.now, &shared.settings.node);
    match judge(&known, marks, &watch.address, &losses) {
        Finding::Same if marks.is_spoilt => {
            let Some(epoch) = watch.mark_to_write_back(marks, found.known.highest) else { return Ok(()) };
            if store.begin_epoch(&marks.epoch, &epoch, None, 0, Duration::ZERO).await? == EpochReply::Begun {
                warn!("The mark of the data held something else; it is written back as this node knew it.");
            }
            Ok(())
        }
        Finding::Same => {
            if known.server.as_ref() != Some(&marks.server) {
                watch.accept(&marks.epoch, marks.fence.max(watch.known_now().highest), &marks.server, found.now);
            }
            Ok(())
        }
        Finding::FirstDay => {
            let epoch = fresh();
            if store.begin_epoch("", &epoch, None, 0, Duration::ZERO).await? == EpochReply::Begun {
                watch.accept(&epoch, marks.fence, &marks.server, found.now);
            }
            Ok(())
        }
        Finding::New => {
            watch.accept(&marks.epoch, marks.fence, &marks.server, found.now);
            Ok(())
        }
        Finding::Another => {
            warn!(
                redis = watch.address,
                was_at = known.address,
                "This Redis holds other data than this node knew: taken for another server. Its journal is set aside, and nothing of it is written here."
            );
            watch.journal.set_aside();
            Ok(())
        }
        Finding::Lost(kind) => {
            let kept_to = match UnixMillis::new(known.whole_at) {
                Some(whole) if kind != LossKind::Flushed => store.newest_trace(whole).await?,
                _ => None,
            };
            let loss = Loss {
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
                // The next poll shows its mark.
                EpochReply::Another => Ok(()),
            }
        }
        Finding::Joined(kind) => mend(shared, &marks.epoch, kind, &known, found).await,
    }
}

/// Says the loss, gives back what the journal knows, and knows the data again.
async fn mend(shared: &Arc<Shared>, epoch: &str, kind: LossKind, known: &Remembered, found: &Found) -> Result<(), StoreError> {
    let (watch, now) = (&shared.watch, found.now);
    let whole_at = UnixMillis::new(known.whole_at);
    // Said once, however often it takes to mend.
    if shared.said.is_news(&format!("loss {epoch}")) {
        error!(
            namespace = shared.store.namespace(),
            last_whole_at = whole_at.map(|at| at.to_string()).unwrap_or_default(),
            "The data in Redis is not what it was: {}. Nothing starts until what this node knows is given back; jobs of jobs.toml are planted again; runs that were going on are stopped and tried again, at-most-once ones end lost.",
            kind.words()
        );
    }
    // What runs here without a lease is to be stopped before anybody may start it again.
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
            watch.journal.note(gone.into_iter().map(|job| Line::JobOver(job.name)));
            watch.accept(epoch, fence, &found.marks.server, now);
        }
        // Lost again meanwhile: the next poll shows it.
        ReportReply::Moved => {}
    }
    Ok(())
}

fn tell(given: &Given, gone: &[super::journal::ApiJob]) {
    let Given { restored, known, lost, failed } = *given;
    info!(restored, lost, known, "What this node's journal knew is given back.");
    if failed > 0 {
        warn!(failed, "Some of it could not be given back: those runs may run again.");
    }
    if gone.is_empty() {
        return;
    }
    let named: Vec<String> = gone.iter().take(NAMED_IN_LOG).map(|job| format!("{} ({})", job.name, job.schedule)).collect();
    error!(
        jobs = gone.len(),
        "Jobs added by schedctl are gone from Redis; add them again if they are wanted: {}{}",
        named.join(", "),
        if gone.len() > NAMED_IN_LOG { ", ... (schedctl losses names more)" } else { "" }
    );
}
