//! Decides about each due run, and makes a claim order for each run that is to start. A claim order
//! asks Redis to claim the run, and to plan the next occurrence of its job.
//!
//! Invariants:
//! - No due entry is lost. Each entry gets a claim order, leaves the due set, needs another
//!   decision, or stays in the due set.
//! - Only the planned run of a job can be missed. Any other run in the due set must still run: it
//!   waited at a gate, was spread earlier, or was handed back.

use std::time::Duration;

use super::{Claimer, Planned};
use crate::engine::dispatch::definition::Definition;
use crate::engine::dispatch::dispatcher::ClaimReport;
use crate::engine::dispatch::dispatcher::run_hints::RunHints;
use crate::engine::dispatch::due_entry::DueRun;
use crate::engine::planning::corrections::far_plans;
use schedd_core::domain::job::job_spec::{Overlap, gates_of};
use schedd_core::domain::queue::lane::Lane;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::lateness;
use schedd_schedule::lateness::{Decision, Due};
use schedd_schedule::names::{RunId, RunKind};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{ClaimOrder, StoreError};

/// The longest delay with which a run counts as on time. A run with a longer delay became due when
/// no node could start it. If the job catches up all missed occurrences, a run with a longer delay
/// waits for the missed runs before it, even if it is not missed itself.
const ON_TIME: Duration = Duration::from_secs(1);

/// The decision about a due run.
pub(super) enum Dealt {
    /// The run is to be claimed.
    ToClaim,
    /// The run is to be claimed, and the claim plans no next run, because this run is not the
    /// planned run of its job.
    Owed,
    /// The run must not start, because its record is unreadable, or says that the run was executed.
    /// The claim call removes the run from the due set and plans the next run.
    Over,
    /// The run was skipped, or got a spread start time.
    Done,
    /// The run needs another decision, because the job or its records changed meanwhile.
    Again,
    /// The run can be neither claimed nor skipped, because its job is unusable, a key has the wrong
    /// type, or Redis has no memory left. The run stays in the due set, and a later poll tries it
    /// again.
    Left,
}

impl Claimer {
    /// Decides about each due run in `open`: makes a claim order, or skips, spreads or ends the
    /// run. Returns the runs to claim and their orders. Adds the runs that need another decision to
    /// `report`.
    pub(super) async fn decide(
        &mut self,
        lane: &Lane,
        open: Vec<DueRun>,
        now: UnixMillis,
        hints: &mut RunHints,
        report: &mut ClaimReport,
    ) -> Result<(Vec<Planned>, Vec<ClaimOrder>), StoreError> {
        let unusable =
            self.definitions.read_missing(open.iter().map(|due_run| due_run.run.job())).await?;
        let (mut planned, mut orders) = (Vec::new(), Vec::new());
        // The definitions are looked up before the first decision. A decision may drop a definition
        // from the cache, and its job must not count as unknown afterwards.
        let definitions: Vec<_> =
            open.iter().map(|due_run| self.definitions.get(due_run.run.job())).collect();
        for (mut due_run, definition) in open.into_iter().zip(definitions) {
            let Some(definition) = definition else {
                if unusable.contains(due_run.run.job()) {
                    hints.refuse(due_run.run, BootInstant::now());
                    report.left += 1;
                } else {
                    self.end_orphan(lane, &due_run.entry, report).await?;
                }
                continue;
            };
            let mut successor = None;
            let mut overlap = definition.spec.overlap_on_time();
            // A child starts when its parents have ended, so no run of it is late or missed.
            let is_child = definition.spec.schedule.parents().is_some();
            if !due_run.run.is_manual() && !due_run.is_owed && !is_child {
                let mut dealt = Dealt::ToClaim;
                let decision = lateness::judge(due(&definition, &due_run.run, now, hints));
                match without_successor_on_each_node(&definition, decision) {
                    Decision::Run { successor: next, is_missed } => {
                        successor =
                            far_plans::not_run_early(&self.node.store, &definition, next).await?;
                        let is_alone = matches!(definition.spec.schedule, Schedule::Delay(_));
                        if is_missed
                            && !is_alone
                            && let Some(within) = definition.spec.catch_up.spread
                        {
                            dealt =
                                self.spread(&definition, &due_run.run, within, now, hints).await?;
                        }
                        if is_missed || definition.judged_at(now).since(due_run.run.due()) > ON_TIME
                        {
                            overlap = definition.spec.overlap_when_missed();
                        }
                    }
                    Decision::Skip { last, count, successor: next } => {
                        let next =
                            far_plans::not_run_early(&self.node.store, &definition, next).await?;
                        dealt = self
                            .skip(&definition, &due_run.run, (last, count, next), now, hints)
                            .await?;
                    }
                }
                match dealt {
                    Dealt::Done => {
                        report.done += 1;
                        continue;
                    }
                    Dealt::Again => {
                        report.again.push(due_run);
                        continue;
                    }
                    Dealt::Left => {
                        report.left += 1;
                        continue;
                    }
                    Dealt::Owed => {
                        (due_run.is_owed, overlap, successor) =
                            (true, definition.spec.overlap_when_missed(), None);
                    }
                    Dealt::Over => {
                        successor = definition.next_after(taken_behind(&due_run.run, hints));
                    }
                    Dealt::ToClaim => {}
                }
            } else if due_run.run.kind() == RunKind::Backfill {
                overlap = definition.spec.overlap_when_backfilled();
            } else if due_run.is_owed && !is_child {
                overlap = definition.spec.overlap_when_missed();
            }
            let order = ClaimOrder {
                run: due_run.run.clone(),
                rev: definition.record.rev.clone(),
                delivery: definition.spec.delivery,
                overlap,
                max_caught_up: max_caught_up(&definition, &due_run.run),
                max_age: definition.spec.catch_up.max_age,
                latest_start: definition.latest_start(&due_run.run),
                max_runs: definition.spec.shape.max_runs,
                successor: successor.map(|due| definition.planned(due)),
                job_lane: definition.record.lane.clone(),
                gates: gates_of(
                    due_run.run.job(),
                    &definition.spec,
                    hints.is_excluded(due_run.run.job()),
                ),
                known_places: hints.take_gates(&due_run.run),
                per_key: definition.spec.per_key,
            };
            orders.push(order);
            planned.push(Planned { due_run, definition });
        }
        Ok((planned, orders))
    }
}

/// Returns the due time of a later occurrence of the job that has a run record according to
/// `hints`. Returns the due time of `run` if no such occurrence is known.
fn taken_behind(run: &RunId, hints: &RunHints) -> UnixMillis {
    hints.occupied(run).map_or(run.due(), |taken| taken.max(run.due()))
}

/// Returns the decision about a run that the job owed before it had an instance on each node. Only
/// the instances have further runs.
fn without_successor_on_each_node(definition: &Definition, decision: Decision) -> Decision {
    match decision {
        _ if !definition.spec.is_on_each_node() => decision,
        Decision::Run { .. } => Decision::Run { successor: None, is_missed: false },
        Decision::Skip { last, count, .. } => Decision::Skip { last, count, successor: None },
    }
}

/// Returns the facts by which `run` is judged on time, late or missed at `now`.
pub(super) fn due<'a>(
    definition: &'a Definition,
    run: &RunId,
    now: UnixMillis,
    hints: &RunHints,
) -> Due<'a> {
    let now = definition.judged_at(now);
    Due {
        timetable: &definition.timetable,
        since: definition.since_at(now),
        taken: hints.occupied(run).unwrap_or(UnixMillis::EPOCH),
        catch_up: &definition.spec.catch_up,
        skip_if_late: definition.spec.shape.skip_if_late,
        late_after: definition.spec.late_after,
        due: run.due(),
        not_before: definition.not_before(),
        now,
    }
}

/// Returns the most runs of the job that may wait behind a run that is caught up. `None` if the rule
/// for runs on time applies: to manual runs, and to children, which start after their parents.
fn max_caught_up(definition: &Definition, run: &RunId) -> Option<u32> {
    let is_regular = !run.is_manual() && definition.spec.schedule.parents().is_none();
    match definition.spec.overlap_when_missed() {
        Overlap::Queue { max } if is_regular => Some(max),
        _ => None,
    }
}
