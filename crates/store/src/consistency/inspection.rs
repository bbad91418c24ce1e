//! The facts that the consistency check compares: the index entries of each job, and the sets that
//! contain each run. This module changes nothing in Redis.
//!
//! Invariant: the facts of one job or one run all come from the same moment, unless more than 100
//! lanes are searched for it. Facts read in pages may be old when they are compared, so a finding
//! is checked again before it is reported.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use redis::Value;

use crate::Store;
use crate::jobs::job_records::JobRecord;
use crate::server::reply::{Reply, text_of};
use crate::server::scripts;
use crate::server::scripts::Invocation;
use crate::server::store_error::StoreError;
use schedd_core::domain::consistency::{
    JobPlaces, PendingFacts, PlacedRun, PlannedRun, RecordFacts, RunPlace,
};
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{Fence, JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The number of items in one call of `inspect_runs.lua`. An item is a run in one lane.
const ITEMS: usize = 100;

/// The most jobs that one pipeline inspects.
const CALLS: usize = 100;

/// The number of pages requested at the same time, so that one page is checked while Redis reads
/// the next.
const AT_ONCE: usize = 3;

/// The due sets that are searched for the planned run of a job.
#[derive(Debug, Clone, Copy)]
pub enum Searched<'l> {
    /// The due set of the job's own lane. A run in another due set is found when that set is read.
    Own,
    /// The due sets of these lanes.
    All(&'l [Lane]),
}

/// A job to inspect, with its record as the caller read it.
#[derive(Debug, Clone)]
pub struct JobToInspect<'a> {
    /// The job name.
    pub name: &'a JobName,
    /// The job's record, if it has one.
    pub record: Option<&'a JobRecord>,
    /// The run that the job's definition requires next.
    pub plan: PlannedRun,
    /// The entry `LANE GATE JOB` that the index of jobs by first gate should have for this job.
    /// None if the job has no gate.
    pub gated: Option<String>,
}

impl JobToInspect<'_> {
    fn lane(&self) -> Lane {
        self.record.map_or_else(Lane::default_lane, |record| record.lane.clone())
    }

    fn pending(&self) -> Option<&RunId> {
        self.record.and_then(|record| record.pending.as_ref())
    }
}

impl Store {
    /// Returns the index entries of each of these jobs. All entries of one job are from the same
    /// moment, unless more than 100 lanes are searched. A job that changed since the caller read it
    /// gives None.
    pub async fn inspect_jobs(
        &self,
        jobs: &[JobToInspect<'_>],
        searched: Searched<'_>,
    ) -> Result<Vec<Result<Option<JobPlaces>, StoreError>>, StoreError> {
        let pages: Vec<_> =
            jobs.chunks(CALLS).map(|some| self.inspect_page(some, searched)).collect();
        let pages: Vec<Vec<_>> = stream::iter(pages).buffered(AT_ONCE).try_collect().await?;
        Ok(pages.into_iter().flatten().collect())
    }

    async fn inspect_page(
        &self,
        jobs: &[JobToInspect<'_>],
        searched: Searched<'_>,
    ) -> Result<Vec<Result<Option<JobPlaces>, StoreError>>, StoreError> {
        let mut calls = Vec::new();
        for job in jobs {
            let own = [job.lane()];
            let lanes = match searched {
                Searched::All(lanes) => lanes,
                Searched::Own => &own[..],
            };
            // Without lanes, the job still needs one call.
            calls.push(self.inspection(job, &lanes[..lanes.len().min(ITEMS)]));
            for more in lanes.chunks(ITEMS).skip(1) {
                calls.push(self.inspection(job, more));
            }
        }
        let each = match searched {
            Searched::All(lanes) => lanes.len().div_ceil(ITEMS).max(1),
            Searched::Own => 1,
        };
        let mut replies = self.link.invoke_all(&calls).await?.into_iter();
        let facts = |job: &JobToInspect<'_>| {
            let mut facts = job_facts(next_of(&mut replies)?, job)?;
            for _ in 1..each {
                let more = job_facts(next_of(&mut replies)?, job)?;
                facts = facts.zip(more).map(|(facts, more)| add_due_sets(facts, &more));
            }
            Ok(facts)
        };
        Ok(jobs.iter().map(facts).collect())
    }

    fn inspection(&self, job: &JobToInspect<'_>, lanes: &[Lane]) -> Invocation {
        let (keys, name) = (&self.keys, job.name);
        let pending = job.pending();
        let mut call = self
            .call(&scripts::INSPECT_JOB)
            .of_job(name)
            .of_job_lane(&job.lane())
            .key("pending_run", pending.map_or_else(|| keys.job(name), |run| keys.run(run)))
            .optional("pending", pending)
            .arg("gate_entry", job.gated.as_deref().unwrap_or_default());
        for lane in lanes {
            call = call.item().of_lane(lane);
        }
        call
    }

    /// Returns the record of each of these runs and the sets that contain the run, or the error of
    /// a run that cannot be read. A run that was found by its lease is given with the fence of that
    /// lease.
    ///
    /// `lanes` are the lanes whose due sets are searched for each run, besides the own lane of the
    /// run.
    pub async fn inspect_runs(
        &self,
        runs: &[(RunId, Option<Fence>)],
        lanes: &[Lane],
    ) -> Result<Vec<Result<PlacedRun, StoreError>>, StoreError> {
        self.inspect_runs_in(runs, &vec![lanes; runs.len()]).await
    }

    /// Returns the same facts as [`Self::inspect_runs`], but each run has a list of lanes of its
    /// own. `lanes` has one list for each of `runs`, in the same order. The own lane of a run is
    /// searched too.
    pub async fn inspect_runs_in(
        &self,
        runs: &[(RunId, Option<Fence>)],
        lanes: &[&[Lane]],
    ) -> Result<Vec<Result<PlacedRun, StoreError>>, StoreError> {
        let default = [Lane::default_lane()];
        let lanes: Vec<&[Lane]> =
            lanes.iter().map(|lanes| if lanes.is_empty() { &default[..] } else { lanes }).collect();
        let mut all = self.inspect_in(runs, &lanes).await?;
        // A run becomes due in its own lane, so the due set of that lane must be searched too.
        let own = all.iter().zip(&lanes).enumerate().filter_map(|(at, (facts, lanes))| {
            let own = facts.as_ref().ok()?.own_lane();
            (!lanes.contains(&own)).then(|| (at, [*lanes, &[own][..]].concat()))
        });
        let again: Vec<(usize, Vec<Lane>)> = own.collect();
        if !again.is_empty() {
            let some: Vec<_> = again.iter().map(|(at, _)| runs[*at].clone()).collect();
            let lanes: Vec<&[Lane]> = again.iter().map(|(_, lanes)| lanes.as_slice()).collect();
            for ((at, _), facts) in again.iter().zip(self.inspect_in(&some, &lanes).await?) {
                all[*at] = facts;
            }
        }
        let mut pipeline = redis::pipe();
        let mut asked = Vec::new();
        for (at, facts) in all.iter().enumerate() {
            let Ok(facts) = facts else { continue };
            for gate in &facts.gates {
                pipeline.cmd("ZSCORE").arg(self.keys.gate_waiters(gate)).arg(facts.run.to_string());
                asked.push((at, gate.clone()));
            }
        }
        for ((at, gate), score) in asked.into_iter().zip(self.link.ask(&mut pipeline).await?) {
            // The consistency check reports a key of the wrong type separately.
            if let (Some(Ok(facts)), Ok(score)) = (all.get_mut(at), score) {
                facts.places.insert(RunPlace::Queued(gate), text_of(&score));
            }
        }
        Ok(all)
    }

    async fn inspect_in(
        &self,
        runs: &[(RunId, Option<Fence>)],
        lanes: &[&[Lane]],
    ) -> Result<Vec<Result<PlacedRun, StoreError>>, StoreError> {
        let pages = pages_of(lanes);
        let calls: Vec<_> = pages.iter().map(|items| self.inspect_some(runs, items)).collect();
        let replies: Vec<Vec<_>> = stream::iter(calls).buffered(AT_ONCE).try_collect().await?;
        let mut all: Vec<Result<PlacedRun, StoreError>> = Vec::with_capacity(runs.len());
        for ((at, _), next) in pages.iter().flatten().zip(replies.into_iter().flatten()) {
            // The items of one run follow each other.
            match (all.get_mut(*at), next) {
                (Some(Ok(before)), Ok(next)) => before.places.extend(next.places),
                (Some(_), _) => {}
                (None, next) => all.push(next),
            }
        }
        Ok(all)
    }

    async fn inspect_some(
        &self,
        runs: &[(RunId, Option<Fence>)],
        items: &[(usize, &Lane)],
    ) -> Result<Vec<Result<PlacedRun, StoreError>>, StoreError> {
        let keys = &self.keys;
        let mut call = self.call(&scripts::INSPECT_RUNS);
        for (at, lane) in items {
            let (run, fence) = &runs[*at];
            call = call
                .item()
                .of_run(run)
                .of_lane(lane)
                .key("open_list", keys.open_list(run))
                .optional("fence", fence.as_ref());
        }
        let mut reply = self.link.invoke(&call).await?;
        if reply.word != "items" {
            return Err(reply.unknown());
        }
        items
            .iter()
            .map(|(at, lane)| {
                let (run, fence) = &runs[*at];
                Ok(run_facts(reply.reply()?, run, *fence, lane))
            })
            .collect()
    }
}

/// Returns pages of at most [`ITEMS`] items. `lanes` has the lanes of each run. An item is the
/// position of a run in `lanes`, and one of its lanes. The items of a run are in one page if they
/// fit.
fn pages_of<'l>(lanes: &[&'l [Lane]]) -> Vec<Vec<(usize, &'l Lane)>> {
    let mut pages: Vec<Vec<(usize, &Lane)>> = Vec::new();
    for (at, lanes) in lanes.iter().enumerate() {
        for some in lanes.chunks(ITEMS) {
            if pages.last().is_none_or(|page| page.len() + some.len() > ITEMS) {
                pages.push(Vec::new());
            }
            if let Some(page) = pages.last_mut() {
                page.extend(some.iter().map(|lane| (at, lane)));
            }
        }
    }
    pages
}

fn next_of(
    replies: &mut impl Iterator<Item = Result<Reply, StoreError>>,
) -> Result<Reply, StoreError> {
    replies.next().unwrap_or_else(|| {
        Err(StoreError::corrupt("reply of script inspect_job", "the reply is missing"))
    })
}

/// Adds to `facts` the number of due sets in `more` that contain the planned run of the same job.
fn add_due_sets(mut facts: JobPlaces, more: &JobPlaces) -> JobPlaces {
    if let (Some(pending), Some(more)) = (&mut facts.pending, &more.pending) {
        pending.due_sets += more.due_sets;
    }
    facts
}

fn job_facts(mut reply: Reply, job: &JobToInspect<'_>) -> Result<Option<JobPlaces>, StoreError> {
    match reply.word.as_str() {
        "job" => {}
        "stale" => return Ok(None),
        _ => return Err(reply.unknown()),
    }
    let mut there = || reply.text().map(|text| Some(text).filter(|text| !text.is_empty()));
    let (rev, ended, paused) = (there()?, there()?, there()?);
    let (indexed, among_ended, state, in_own) = (there()?, there()?, there()?, there()?);
    let mut number = || reply.number().map(|number| u64::try_from(number).unwrap_or(0));
    let due_sets = usize::try_from(number()?).unwrap_or(usize::MAX);
    let pending = job.pending().cloned().map(|run| PendingFacts {
        run,
        state: state.map(|word| word.parse::<RunState>().map_err(|error| error.0)),
        due_sets,
        is_in_own: in_own.is_some(),
    });
    Ok(Some(JobPlaces {
        name: job.name.clone(),
        lane: job.lane(),
        is_known: rev.is_some(),
        indexed,
        is_among_ended: among_ended.is_some(),
        has_ended: ended.is_some(),
        is_paused: paused.is_some(),
        pending,
        comes_first: None,
        open: number()?,
        open_unasked: None,
        manual: number()?,
        waiting: number()?,
        spread: number()?,
        backfill: number()?,
        is_among_backfills: !reply.text()?.is_empty(),
        is_gate_unlisted: reply.text()?.is_empty() && job.gated.is_some(),
        listed_by: Vec::new(),
        plan: job.plan.clone(),
    }))
}

fn run_facts(
    mut reply: Reply,
    run: &RunId,
    found_under: Option<Fence>,
    lane: &Lane,
) -> Result<PlacedRun, StoreError> {
    match reply.word.as_str() {
        "run" => {}
        "wrong_type" => {
            return Err(StoreError::WrongType {
                key: reply.text()?,
                found: reply.text()?,
                wanted: reply.text()?,
            });
        }
        _ => return Err(reply.unknown()),
    }
    let has_record = reply.number()? == 1;
    let (state, fence) = (reply.text()?, reply.text()?.parse().ok().and_then(Fence::new));
    let record = match state.parse::<RunState>() {
        _ if !has_record => RecordFacts::None,
        Ok(state) => RecordFacts::Known { state, fence },
        Err(_) if state.is_empty() => {
            RecordFacts::Unreadable("the record of the run has no state".to_owned())
        }
        Err(error) => RecordFacts::Unreadable(error.to_string()),
    };
    let mut facts = PlacedRun {
        run: run.clone(),
        record,
        lane: reply.text()?.parse().ok(),
        gates: Gate::all_in(&reply.text()?),
        ended_at: reply.text()?.parse().ok().and_then(UnixMillis::new),
        is_job_known: !reply.text()?.is_empty(),
        job_lane: reply.text()?.parse().ok(),
        is_pending: reply.number()? == 1,
        is_paused_run: reply.number()? == 1,
        is_first_behind: reply.number()? == 1,
        seen: match reply.value()? {
            Value::BulkString(bytes) => bytes,
            _ => return Err(reply.unknown()),
        },
        places: BTreeMap::new(),
        ready_by: None,
    };
    let mut score = || reply.text().map(|score| Some(score).filter(|score| !score.is_empty()));
    let mut place = |place: RunPlace| score().map(|score| (place, score));
    let due = place(RunPlace::Due(lane.clone()))?;
    // The reply has two lease items even if the run has no lease: the lease of the recorded fence,
    // and the lease by which the run was found.
    let leases = [place(RunPlace::Stops)?.1, place(RunPlace::Stops)?.1];
    for (fence, score) in [fence, found_under]
        .into_iter()
        .zip(leases)
        .filter_map(|(fence, score)| Some((fence?, score)))
    {
        facts.places.insert(RunPlace::Lease(fence), score);
    }
    let others = [
        RunPlace::Open,
        RunPlace::Waiting,
        RunPlace::Spread,
        RunPlace::Stops,
        RunPlace::History,
        RunPlace::JobHistory,
        RunPlace::Dead,
        RunPlace::JobDead,
        RunPlace::Running(lane.queue().clone()),
        RunPlace::StartDeadline,
        RunPlace::EndDeadline,
    ];
    facts
        .places
        .extend(std::iter::once(Ok(due)).chain(others.map(place)).collect::<Result<Vec<_>, _>>()?);
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_at_most_100_items_and_the_lanes_of_a_run_stay_together_if_they_fit() {
        let many: Vec<Lane> = (0..401).map(|at| format!("q{at}").parse().unwrap()).collect();
        let lanes = [&many[..150], &many[..60], &many[..140], &many[..], &many[..1]];
        let pages = pages_of(&lanes);
        let sizes: Vec<usize> = pages.iter().map(Vec::len).collect();
        assert_eq!(sizes, [100, 50, 60, 100, 40, 100, 100, 100, 100, 2]);
        assert_eq!(pages.iter().flatten().count(), 150 + 60 + 140 + 401 + 1);
        assert!(pages[2].iter().all(|(run, _)| *run == 1));
    }
}
