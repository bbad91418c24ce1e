//! Handles missed runs before the claim: skips a range of missed occurrences, or spreads the start
//! times of missed runs over a period.
//!
//! Invariant: only the planned run of a job can be missed. Any other run in the due set must still
//! run: it waited at a gate, was spread earlier, or was handed back.

use std::time::Duration;

use tracing::{info, warn};

use super::Claimer;
use super::claim_plan::{Dealt, due};
use crate::engine::dispatch::definition::Definition;
use crate::engine::dispatch::dispatcher::run_hints::RunHints;
use crate::engine::planning::passed_ranges;
use schedd_core::domain::run::run_state::RunState;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::lateness;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    RunRecord, SkipOrder, SkipReply, SpreadOrder, SpreadReply, SpreadWindow, StoreError, Successor,
};

/// The most missed runs that one call adds to the due set with spread start times.
const BATCH: usize = 100;

impl Claimer {
    /// Skips the `count` missed occurrences from `run` to `last`, and adds the run of the
    /// occurrence `next` to the due set. The range is cut before the first later occurrence that
    /// already has a run record.
    pub(super) async fn skip(
        &mut self,
        definition: &Definition,
        run: &RunId,
        (last, count, next): (UnixMillis, u64, Option<UnixMillis>),
        now: UnixMillis,
        hints: &mut RunHints,
    ) -> Result<Dealt, StoreError> {
        let since = definition.since_at(definition.judged_at(now));
        let taken = hints.occupied(run).unwrap_or(UnixMillis::EPOCH);
        let skipped_range = passed_ranges::up_to_recorded(
            &self.node.store,
            definition,
            run,
            (last, count, next),
            (taken, since),
        )
        .await;
        let (last, count, next) = match skipped_range {
            Ok(skipped_range) => skipped_range,
            Err(error) => return self.cannot(run, error, hints),
        };
        let order = SkipOrder {
            run: run.clone(),
            rev: definition.record.rev.clone(),
            lane: definition.record.lane.clone(),
            reason: "missed",
            last_due: last,
            count,
            successor: next.map(|due| definition.planned(due)),
        };
        let reply = match self.node.store.skip_run(&order).await {
            Ok(reply) => reply,
            Err(error) => return self.cannot(run, error, hints),
        };
        Ok(match reply {
            SkipReply::Skipped => {
                let queue = definition.record.lane.queue();
                self.node.counters.runs_ended(queue, RunState::Skipped, count);
                self.node.traces.run_ended(Some(definition), || RunRecord {
                    state: RunState::Skipped,
                    finished_at: Some(now),
                    skipped: Some((last, count)),
                    ..RunRecord::planted(run.clone(), definition.record.lane.clone())
                });
                warn!(job = %run.job(), from = %run.due(), to = %last, count, "Missed occurrences of the job were skipped.");
                Dealt::Done
            }
            SkipReply::Stale => {
                self.definitions.forget(run.job());
                Dealt::Again
            }
            SkipReply::Occupied => {
                hints.note_occupied(run, next.unwrap_or(last));
                Dealt::Again
            }
            SkipReply::Gone => Dealt::Owed,
            SkipReply::Over => Dealt::Over,
        })
    }

    /// Adds at most `BATCH` runs to the due set: one for each missed occurrence, beginning with
    /// that of `run`. Their ready times are spread over the period `within`, which begins at `now`.
    pub(super) async fn spread(
        &mut self,
        definition: &Definition,
        run: &RunId,
        within: Duration,
        now: UnixMillis,
        hints: &mut RunHints,
    ) -> Result<Dealt, StoreError> {
        let record = &definition.record;
        let missed = lateness::missed_from(due(definition, run, now, hints), BATCH);
        // A period that began in the past is from a node that died, and starts again at `now`.
        // Otherwise the remaining runs would all start at once.
        let window =
            record.window.as_ref().filter(|window| window.run == *run && window.from >= now);
        let (from, until) = window.map_or_else(
            || (now, now.saturating_add(within)),
            |window| (window.from, window.until),
        );
        let at = |place: f64| {
            #[expect(clippy::cast_precision_loss, reason = "counted to 100,000")]
            let share = (place / missed.count.max(1) as f64).min(1.0);
            from.saturating_add(until.since(from).mul_f64(share))
        };
        #[expect(clippy::cast_precision_loss, reason = "at most 100")]
        let runs = missed.dues.iter().enumerate().map(|(index, due)| Successor {
            run: RunId::regular(run.job().clone(), *due),
            ready: at(index as f64 + fastrand::f64()),
        });
        let next_run = missed.successor.map(|due| RunId::regular(run.job().clone(), due));
        let is_full = missed.count > missed.dues.len() as u64;
        #[expect(clippy::cast_precision_loss, reason = "at most 100")]
        let next_window = next_run.filter(|_| is_full).map(|run| SpreadWindow {
            run,
            from: at(missed.dues.len() as f64),
            until,
        });
        let order = SpreadOrder {
            name: run.job().clone(),
            rev: record.rev.clone(),
            lane: record.lane.clone(),
            window: record.window.clone(),
            next_window,
            runs: runs.collect(),
            successor: missed.successor.map(|due| definition.planned(due)),
        };
        let reply = match self.node.store.spread_runs(&order).await {
            Ok(reply) => reply,
            Err(error) => return self.cannot(run, error, hints),
        };
        Ok(match reply {
            SpreadReply::Spread => {
                info!(job = %run.job(), from = %run.due(), count = order.runs.len(), until = %until, "Late runs are spread over time.");
                // The cached definition is outdated, because the call changed the spread period of
                // the job.
                self.definitions.forget(run.job());
                Dealt::Done
            }
            SpreadReply::Stale => {
                self.definitions.forget(run.job());
                Dealt::Again
            }
            SpreadReply::Occupied => {
                hints.note_occupied(run, missed.successor.unwrap_or(now));
                Dealt::Again
            }
            SpreadReply::Gone => Dealt::Owed,
        })
    }

    /// Postpones `run`, because a key of its job has the wrong type or Redis has no memory left. An
    /// `error` that passes by itself, such as an outage, is returned instead.
    fn cannot(
        &self,
        run: &RunId,
        error: StoreError,
        hints: &mut RunHints,
    ) -> Result<Dealt, StoreError> {
        if error.is_passing() && !matches!(error, StoreError::OutOfMemory { .. }) {
            return Err(error);
        }
        self.definitions.report_unusable(run.job(), &error.to_string());
        hints.refuse(run.clone(), BootInstant::now());
        Ok(Dealt::Left)
    }
}
