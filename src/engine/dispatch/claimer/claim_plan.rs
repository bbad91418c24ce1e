//! Decides about each due run, and makes a claim order for each run that is to start. The order
//! includes the next occurrence of the job.
//!
//! Invariant: each entry becomes an order, or is handled, or decided again, or counted as left. No
//! entry is forgotten.

use std::time::Duration;

use super::{Claimer, Planned, Tally};
use crate::domain::job::job_spec::gates_of;
use crate::domain::name::names::RunKind;
use crate::domain::queue::lane::Lane;
use crate::domain::schedule::lateness::Decision;
use crate::domain::schedule::schedule_form::Schedule;
use crate::domain::time::unix_millis::UnixMillis;
use crate::engine::dispatch::due_entry::Ripe;
use crate::store::{ClaimOrder, StoreError};

/// The age below which a run counts as on time. An older run came due when no node could start that
/// run. If its job makes up for all missed occurrences, the run then waits for the missed runs
/// before it. The run waits although it does not count as missed itself.
const ON_TIME: Duration = Duration::from_secs(1);

/// The result of deciding about a due run.
pub(super) enum Dealt {
    /// The run is to be claimed.
    ToClaim,
    /// The run is to be claimed. No next run is planned, because this run is not the pending run of
    /// its job.
    Owed,
    /// The run must not start, because its record says that the run ran, or cannot be read. A claim
    /// call passes over the run and plans the next run.
    Over,
    /// The run was skipped or spread.
    Done,
    /// The run is to be decided about again, because the job or its records changed meanwhile.
    Again,
    /// The run cannot be handled, and is left alone for a while.
    Left,
}

impl Claimer {
    /// Decides about each due run in `open`: makes a claim order, or skips, spreads or ends the
    /// run. Returns the orders, and the runs to decide about again.
    pub(super) async fn decide(
        &mut self,
        lane: &Lane,
        open: Vec<Ripe>,
        now: UnixMillis,
        tally: &mut Tally,
    ) -> Result<(Vec<Planned>, Vec<Ripe>), StoreError> {
        let unusable = self.definitions.read_missing(open.iter().map(|ripe| ripe.run.job())).await?;
        let (mut planned, mut again) = (Vec::new(), Vec::new());
        // Collected before any run is handled: a definition forgotten on the way must not look like
        // an unknown job.
        let definitions: Vec<_> = open.iter().map(|ripe| self.definitions.get(ripe.run.job())).collect();
        for (mut ripe, definition) in open.into_iter().zip(definitions) {
            let Some(definition) = definition else {
                if unusable.contains(ripe.run.job()) {
                    self.refuse(ripe.run);
                    tally.left += 1;
                } else {
                    self.end_orphan(lane, &ripe.entry, tally).await?;
                }
                continue;
            };
            let mut successor = None;
            let mut overlap = definition.spec.overlap_on_time();
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
                        if is_missed || definition.judged_at(now).since(ripe.run.due()) > ON_TIME {
                            overlap = definition.spec.overlap_when_missed();
                        }
                    }
                    Decision::Skip { last, count, successor: next } => {
                        dealt = self.skip(&definition, &ripe.run, (last, count, next), now).await?;
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
                    Dealt::Over => successor = definition.next_after(self.taken_behind(&ripe.run)),
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
                delivery: definition.spec.delivery,
                overlap,
                max_age: definition.spec.catch_up.max_age,
                latest_start: definition.latest_start(&ripe.run),
                max_runs: definition.spec.shape.max_runs,
                successor: successor.map(|due| definition.planned(due)),
                job_lane: definition.record.lane.clone(),
                gates: gates_of(ripe.run.job(), &definition.spec, self.shunned.contains(ripe.run.job())),
                stands_at: self.stands_at.remove(&ripe.run).unwrap_or_default(),
                per_key: definition.spec.per_key,
            };
            planned.push(Planned { ripe, order, definition });
        }
        Ok((planned, again))
    }
}
