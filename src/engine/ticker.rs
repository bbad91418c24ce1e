//! Polls for ripe runs, and sleeps until the next one is ready.
//!
//! Redis alone says what is ripe: a poll answers its time and the head's ready time, and this node's monotonic clock only
//! measures the sleep between, to the microsecond: the runtime's own timers round up to milliseconds, which would be most of a
//! run's lateness. A nudge or a slot given back ends the sleep; a lost nudge costs at most [`LONGEST_SLEEP`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::claimer::Claimer;
use super::notes::{Claims, Data};
use super::shared::{Phase, Shared};
use crate::domain::ids::QueueName;
use crate::keeper::{BootInstant, BootTimer};
use crate::store::{Met, QueuePoll};

const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Polls until `stop`. A claim under way is brought to its end first: what it won is known, and runs.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut claimer = Claimer::new(shared.clone());
    let timer = BootTimer::new().inspect_err(|error| warn!("No timer of our own ({error}); runs start up to 2 ms later.")).ok();
    let mut connections_made = 0;
    while !stop.is_cancelled() {
        let sleep = round(&shared, &mut claimer).await;
        // A server that is back after a power cut may have forgotten what it last acknowledged, the push of a file among it.
        let made = shared.store.connections_made();
        if std::mem::replace(&mut connections_made, made) != made {
            shared.reconcile_now.notify_one();
        }
        if sleep.is_zero() {
            continue;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = rest(timer.as_ref(), sleep) => {}
            () = shared.poll_now.notified() => {}
        }
    }
}

async fn rest(timer: Option<&BootTimer>, time: Duration) {
    let until = BootInstant::now().saturating_add(time);
    let rested = match timer {
        Some(timer) => timer.until(until).await.is_ok(),
        None => false,
    };
    if !rested {
        tokio::time::sleep(time).await;
    }
}

/// Polls once and takes what it can. Gives how long nothing more is to be done: until the next run is ready, or for a tick
/// while runs are ripe that could not be taken, or nobody answered.
async fn round(shared: &Shared, claimer: &mut Claimer) -> Duration {
    let tick = shared.settings.tick;
    if !shared.executors.are_ready() {
        // What cannot be started here is left to nodes that can.
        shared.notes.claims(Claims::Held);
        return tick;
    }
    shared.notes.claims(Claims::Taken);
    let free = shared.slots.free();
    shared.notes.slots(&free);
    // Entries this node had to leave must not hide those behind them.
    let with_left = |(queue, slots): &(QueueName, usize)| {
        let limit = if *slots == 0 { 0 } else { slots + claimer.left_in(queue) };
        (queue.clone(), limit)
    };
    let queues: Vec<(QueueName, usize)> = free.iter().map(with_left).collect();
    let highest = shared.watch.highest();
    let sent = BootInstant::now();
    let poll = match shared.store.list_ripe(&queues).await {
        Ok(poll) => poll,
        Err(error) => {
            shared.weather.failed(&error, "nothing is started");
            shared.notes.redis_silent(sent);
            return tick;
        }
    };
    shared.weather.answered();
    shared.notes.redis_answered(poll.now);
    shared.notes.data(match (poll.is_settling, poll.is_held || poll.marks.met == Met::No) {
        (true, _) => Data::Settles,
        (false, true) => Data::IsLookedAt,
        (false, false) => Data::IsSettled,
    });
    shared.leases_seen.store(poll.leases, Ordering::Relaxed);
    if !shared.watch.knows(&poll, highest) {
        // Data that is not what it was: nothing of it is started before that is dealt with.
        return tick;
    }
    shared.store.trust(&poll.marks.server);
    let mut next = LONGEST_SLEEP;
    for ((queue, slots), found) in free.iter().zip(poll.queues) {
        if shared.phase() != Phase::Running {
            break;
        }
        match found {
            QueuePoll::WrongType(error) => claimer.report_spoilt_queue(queue, &error),
            QueuePoll::Due { ripe, next: head, room, held } => {
                shared.notes.queue(queue, held.map(|hold| shared.slots.why_held(queue, hold)));
                if !ripe.is_empty() {
                    match claimer.take(queue, ripe, room.map_or(*slots, |room| room.min(*slots)), poll.now).await {
                        // Something else may have become ripe behind what was taken.
                        Ok(taken) if taken > 0 => next = Duration::ZERO,
                        Ok(_) => next = next.min(tick),
                        Err(error) => {
                            shared.weather.failed(&error, &format!("queue {queue} stands still"));
                            next = next.min(tick);
                        }
                    }
                }
                if let Some(head) = head {
                    next = next.min(head.since(poll.now).saturating_sub(poll.past_now));
                }
            }
        }
    }
    next
}
