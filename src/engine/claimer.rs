//! Decides what becomes of each ripe run, and claims those that are to run.
//!
//! Invariant: what was won is started, whatever else fails: nothing that can fail stands between a claim's answer and the start
//! of its runs. A claim whose answer got lost is repeated with its token until Redis says what became of it, as long as the
//! lease it may have taken is worth anything. A run that cannot be dealt with holds up no other, and is not tried at every poll.

mod aside;
mod missed;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, error};

use super::definition::Definition;
use super::definitions::{Definitions, KEPT};
use super::ripe::{Ripe, well_formed};
use super::runner;
use super::shared::{Phase, Shared};
use crate::domain::ids::{QueueName, RunId, RunKind};
use crate::domain::lateness::Decision;
use crate::domain::schedule::Schedule;
use crate::domain::time::UnixMillis;
use crate::keeper::BootInstant;
use crate::store::{ClaimOrder, ClaimReply, Claimant, RipeEntry, StoreError};

/// Rounds before a run is left to the next poll.
const ROUNDS: usize = 5;
/// How long a run that could not be dealt with is left alone.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// How often a claim without an answer is asked for again once the node is to stop.
const LAST_TRIES: u32 = 3;

/// Decides and claims.
pub(super) struct Claimer {
    shared: Arc<Shared>,
    definitions: Definitions,
    left: HashMap<QueueName, usize>,
    claimant: Claimant,
    /// Occurrences found to have a record already: their job's next is computed from the later of these.
    occupied: HashMap<RunId, UnixMillis>,
    /// Runs that could not be dealt with, and when that was found.
    refused: HashMap<RunId, BootInstant>,
}

/// A ripe run that is to run.
struct Planned {
    ripe: Ripe,
    order: ClaimOrder,
    definition: Arc<Definition>,
}

/// What became of ripe entries.
#[derive(Default)]
struct Tally {
    /// Gone from the due set.
    done: usize,
    /// Still in it, and nothing can be done about it now.
    left: usize,
}

impl Claimer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let claimant = Claimant {
            node: shared.settings.node.clone(),
            incarnation: shared.settings.incarnation.clone(),
            lease: shared.settings.lease,
        };
        let definitions = Definitions::new(shared.clone());
        Self { shared, definitions, left: HashMap::new(), claimant, occupied: HashMap::new(), refused: HashMap::new() }
    }

    /// How many ripe runs of `queue` this node could do nothing about at its last look.
    pub(super) fn left_in(&self, queue: &QueueName) -> usize {
        self.left.get(queue).copied().unwrap_or(0)
    }

    /// A queue's key holds something else than it is to.
    pub(super) fn report_spoilt_queue(&self, queue: &QueueName, error: &StoreError) {
        if self.shared.said.is_news(&format!("spoilt queue {queue}")) {
            error!(queue = %queue, "{error}; nothing of this queue runs until then.");
        }
    }

    /// Deals with ripe entries of `queue`: starts what is to run, skips what is missed, puts aside what is no run. Gives how
    /// many it could do something about.
    pub(super) async fn take(
        &mut self,
        queue: &QueueName,
        entries: Vec<RipeEntry>,
        slots: usize,
        now: UnixMillis,
    ) -> Result<usize, StoreError> {
        let mut tally = Tally::default();
        let mut open = Vec::with_capacity(entries.len());
        for entry in entries {
            match well_formed(&entry) {
                Ok(run) if self.is_refused(&run) => tally.left += 1,
                Ok(run) => open.push(Ripe::new(run, entry)),
                Err(why) => self.put_aside(queue, &entry, &why, &mut tally).await?,
            }
        }
        let mut free = slots;
        for _ in 0..ROUNDS {
            if open.is_empty() || free == 0 || self.shared.phase() != Phase::Running {
                break;
            }
            let (mut planned, again) = self.decide(queue, open, now, &mut tally).await?;
            let later = planned.split_off(free.min(planned.len()));
            open = again;
            let (mut orphans, mut foreign, mut is_held) = (Vec::new(), Vec::new(), false);
            if !planned.is_empty() {
                let sent = BootInstant::now();
                let replies = self.claim(queue, &planned).await?;
                for (planned, reply) in planned.into_iter().zip(replies) {
                    match self.settle(planned, reply, sent) {
                        Settled::Started => (free, tally.done) = (free - 1, tally.done + 1),
                        Settled::Done => tally.done += 1,
                        Settled::Left => tally.left += 1,
                        Settled::Held => is_held = true,
                        Settled::Again(ripe) => open.push(ripe),
                        Settled::Orphan(entry) => orphans.push(entry),
                        Settled::Foreign(entry) => foreign.push(entry),
                    }
                }
            }
            open.extend(later.into_iter().map(|planned| planned.ripe));
            for entry in orphans {
                self.end_orphan(queue, &entry, &mut tally).await?;
            }
            for entry in foreign {
                self.put_aside(queue, &entry, "its job does not plan it", &mut tally).await?;
            }
            if is_held {
                open.clear();
            }
        }
        if free > 0 {
            tally.left += open.len();
        }
        self.left.insert(queue.clone(), tally.left);
        Ok(tally.done)
    }

    /// Makes an order of each run that is to run; skips the others. Gives also those to be decided again.
    async fn decide(
        &mut self,
        queue: &QueueName,
        open: Vec<Ripe>,
        now: UnixMillis,
        tally: &mut Tally,
    ) -> Result<(Vec<Planned>, Vec<Ripe>), StoreError> {
        let unusable = self.definitions.read_missing(open.iter().map(|ripe| ripe.run.job())).await?;
        let (mut planned, mut again) = (Vec::new(), Vec::new());
        // Taken before any is dealt with: one forgotten on the way is not unknown for those behind.
        let definitions: Vec<_> = open.iter().map(|ripe| self.definitions.get(ripe.run.job())).collect();
        for (mut ripe, definition) in open.into_iter().zip(definitions) {
            let Some(definition) = definition else {
                if unusable.contains(ripe.run.job()) {
                    self.refuse(ripe.run);
                    tally.left += 1;
                } else {
                    self.end_orphan(queue, &ripe.entry, tally).await?;
                }
                continue;
            };
            let mut successor = None;
            let mut overlap = definition.spec.overlap;
            if !ripe.run.is_manual() && !ripe.is_owed {
                let mut dealt = Dealt::ToClaim;
                match self.judge(&definition, &ripe.run, now) {
                    Decision::Run { successor: next, is_missed } => {
                        successor = next;
                        let is_alone = matches!(definition.spec.schedule, Schedule::Delay(_));
                        if is_missed
                            && !is_alone
                            && let Some(within) = definition.spec.catch_up.spread
                        {
                            dealt = self.spread(&definition, &ripe.run, within, now).await?;
                        }
                        if is_missed {
                            overlap = definition.spec.overlap_when_missed();
                        }
                    }
                    Decision::Skip { last, count, successor: next } => {
                        dealt = self.skip(&definition, &ripe.run, last, count, next).await?;
                    }
                }
                match dealt {
                    Dealt::Done => {
                        tally.done += 1;
                        continue;
                    }
                    Dealt::Again => {
                        again.push(ripe);
                        continue;
                    }
                    Dealt::Left => {
                        tally.left += 1;
                        continue;
                    }
                    Dealt::Owed => (ripe.is_owed, overlap, successor) = (true, definition.spec.overlap_when_missed(), None),
                    Dealt::ToClaim => {}
                }
            } else if ripe.run.kind() == RunKind::Backfill {
                overlap = definition.spec.overlap_when_backfilled();
            } else if ripe.is_owed {
                overlap = definition.spec.overlap_when_missed();
            }
            let order = ClaimOrder {
                run: ripe.run.clone(),
                rev: definition.record.rev.clone(),
                overlap,
                max_age: definition.spec.catch_up.max_age,
                latest_start: definition.latest_start(&ripe.run),
                max_runs: definition.spec.shape.max_runs,
                successor: successor.map(|due| definition.planned(due)),
                job_queue: definition.record.queue.clone(),
            };
            planned.push(Planned { ripe, order, definition });
        }
        Ok((planned, again))
    }

    /// Claims, and asks again with the same token while no answer comes: the call may have been done.
    async fn claim(&self, queue: &QueueName, planned: &[Planned]) -> Result<Vec<ClaimReply>, StoreError> {
        let token = super::planting::token();
        let orders: Vec<ClaimOrder> = planned.iter().map(|planned| planned.order.clone()).collect();
        let answer = self.claim_by(&token, queue, &orders).await;
        if answer.is_err() {
            self.shared.abandoned.note(&token, orders.iter().map(|order| &order.run));
        }
        answer
    }

    async fn claim_by(&self, token: &str, queue: &QueueName, orders: &[ClaimOrder]) -> Result<Vec<ClaimReply>, StoreError> {
        let give_up = BootInstant::now().saturating_add(self.shared.settings.lease / 2);
        let mut last_tries = LAST_TRIES;
        loop {
            let error = match self.shared.store.claim_runs(&self.claimant, queue, token, orders).await {
                // Whether the server in its place knows of a call before is for a poll to find out.
                Err(error @ StoreError::Replaced { .. }) => return Err(error),
                Err(error) if error.is_passing() && BootInstant::now() < give_up => error,
                other => return other,
            };
            if self.shared.phase() != Phase::Running {
                if last_tries == 0 {
                    return Err(error);
                }
                last_tries -= 1;
            }
            self.shared.weather.failed(&error, "what a claim won is not known");
            tokio::time::sleep(self.shared.settings.tick.max(Duration::from_millis(50))).await;
        }
    }

    /// Acts on one reply. Neither waits nor fails: a run won stands behind each that was not.
    fn settle(&mut self, planned: Planned, reply: ClaimReply, sent: BootInstant) -> Settled {
        let Planned { ripe, order, definition } = planned;
        match reply {
            ClaimReply::Claimed(claim) => {
                self.occupied.remove(&ripe.run);
                self.shared.watch.journal().claimed(claim.fence.as_u64());
                if definition.record.is_once {
                    // There are the most of these, and what is due once is not asked for again.
                    self.definitions.forget(ripe.run.job());
                }
                runner::start(&self.shared, definition, claim, self.shared.deadline(sent));
                Settled::Started
            }
            ClaimReply::Stale => {
                self.definitions.forget(ripe.run.job());
                Settled::Again(ripe)
            }
            ClaimReply::Occupied => {
                if let Some(next) = &order.successor {
                    self.note_occupied(&ripe.run, next.run.due());
                }
                Settled::Again(ripe)
            }
            ClaimReply::Orphan => Settled::Orphan(ripe.entry),
            ClaimReply::Foreign => Settled::Foreign(ripe.entry),
            ClaimReply::WrongType(error) => {
                self.definitions.report_unusable(ripe.run.job(), &error.to_string());
                self.refuse(ripe.run);
                Settled::Left
            }
            ClaimReply::Blocked(how) => {
                debug!(run = %ripe.run, ?how, "Not started.");
                Settled::Done
            }
            ClaimReply::Gone => Settled::Done,
            // It stays where it is, and a poll shows it again when its queue has room.
            ClaimReply::Held => Settled::Held,
            ClaimReply::Early => Settled::Left,
        }
    }

    fn note_occupied(&mut self, run: &RunId, until: UnixMillis) {
        if self.occupied.len() > KEPT {
            self.occupied.clear();
        }
        self.occupied.insert(run.clone(), until);
    }

    fn refuse(&mut self, run: RunId) {
        if self.refused.len() > KEPT {
            self.refused.clear();
        }
        self.refused.insert(run, BootInstant::now());
    }

    /// Whether a run is one found lately that cannot be dealt with.
    fn is_refused(&mut self, run: &RunId) -> bool {
        let Some(at) = self.refused.get(run) else { return false };
        let is_refused = BootInstant::now().since(*at) < REFUSED_FOR;
        if !is_refused {
            self.refused.remove(run);
        }
        is_refused
    }
}

/// What became of a run that was judged.
enum Dealt {
    /// It is to be claimed.
    ToClaim,
    /// It is to be claimed, and nothing is planted for it: it is not its job's pending run.
    Owed,
    /// Skipped, or spread.
    Done,
    /// To be judged again.
    Again,
    /// It cannot be dealt with, and is left alone for a while.
    Left,
}

/// What became of one order.
enum Settled {
    Started,
    Done,
    Left,
    Held,
    Again(Ripe),
    Orphan(RipeEntry),
    Foreign(RipeEntry),
}
