//! The facts that the consistency check compares: how the keys of a job agree, and in which sets a
//! run is. This module changes nothing in Redis.
//!
//! Invariant: the facts of one job or one run all come from the same moment. Facts read in pages
//! may be old when they are judged, so a finding is checked again before it is reported.

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::domain::consistency::{
    CountedIn, JobPlaces, PendingFacts, PlacedRun, Placement, PlannedRun, RecordFacts, WatchedDeadline,
};
use crate::domain::name::names::{Fence, JobName, RunId};
use crate::domain::queue::lane::Lane;
use crate::domain::run::run_state::RunState;
use crate::domain::time::unix_millis::UnixMillis;
use crate::store::Store;
use crate::store::jobs::job_records::JobRecord;
use crate::store::server::reply::Reply;
use crate::store::server::scripts;
use crate::store::server::scripts::Invocation;
use crate::store::server::store_error::StoreError;

/// The number of items in one call of `inspect_runs.lua`. An item is a run in one lane.
const ITEMS: usize = 200;

/// The most jobs that one pipeline inspects.
const CALLS: usize = 100;

/// The number of pages requested at the same time, so that one page is judged while Redis reads the
/// next.
const AT_ONCE: usize = 3;

/// A job to inspect, with its record as the caller read it.
#[derive(Debug, Clone)]
pub struct JobToInspect<'a> {
    /// The job name.
    pub name: &'a JobName,
    /// The job's record, if it has one.
    pub record: Option<&'a JobRecord>,
    /// The planned run that the job's definition gives.
    pub plan: PlannedRun,
    /// The entry that the job should have in the index by first gate; None if it should have none.
    pub gated: Option<String>,
}

impl JobToInspect<'_> {
    fn pending(&self) -> Option<&RunId> {
        self.record.and_then(|record| record.pending.as_ref())
    }
}

impl Store {
    /// Returns the facts of each of these jobs, all facts of a job from the same moment. A job that
    /// changed since the caller read it gives None.
    pub async fn inspect_jobs(
        &self,
        jobs: &[JobToInspect<'_>],
        lanes: &[Lane],
    ) -> Result<Vec<Result<Option<JobPlaces>, StoreError>>, StoreError> {
        let pages: Vec<_> = jobs.chunks(CALLS).map(|some| self.inspect_page(some, lanes)).collect();
        let pages: Vec<Vec<_>> = stream::iter(pages).buffered(AT_ONCE).try_collect().await?;
        Ok(pages.into_iter().flatten().collect())
    }

    async fn inspect_page(
        &self,
        jobs: &[JobToInspect<'_>],
        lanes: &[Lane],
    ) -> Result<Vec<Result<Option<JobPlaces>, StoreError>>, StoreError> {
        let calls: Vec<Invocation> = jobs.iter().map(|job| self.inspection(job, lanes)).collect();
        let replies = self.link.invoke_all(&calls).await?;
        Ok(jobs.iter().zip(replies).map(|(job, reply)| job_facts(reply?, job)).collect())
    }

    fn inspection(&self, job: &JobToInspect<'_>, lanes: &[Lane]) -> Invocation {
        let (keys, name) = (&self.keys, job.name);
        let pending = job.pending();
        let lane = job.record.map_or_else(Lane::default_lane, |record| record.lane.clone());
        let mut call = Invocation::new(&scripts::INSPECT_JOB)
            .key("job", keys.job(name))
            .key("jobs", keys.jobs())
            .key("finished", keys.finished())
            .key("job_due", keys.due(&lane))
            .key("open", keys.open(name))
            .key("manual", keys.manual(name))
            .key("waiting", keys.waiting(name))
            .key("spread", keys.spread(name))
            .key("pending_run", pending.map_or_else(|| keys.job(name), |run| keys.run(run)))
            .key("backfill", keys.backfill(name))
            .key("backfills", keys.backfills())
            .key("gated", keys.gated())
            .arg("job_name", name.as_str())
            .arg("pending", pending.map_or_else(String::new, RunId::to_string))
            .arg("gated", job.gated.as_deref().unwrap_or_default());
        for lane in lanes {
            call = call.key("due", keys.due(lane));
        }
        call
    }

    /// Returns the facts of each of these runs, or the error that prevents reading the run. A run
    /// found by a lease comes with the fence of that lease.
    pub async fn inspect_runs(
        &self,
        runs: &[(RunId, Option<Fence>)],
        lanes: &[Lane],
    ) -> Result<Vec<Result<PlacedRun, StoreError>>, StoreError> {
        let pages: Vec<_> = runs.chunks((ITEMS / lanes.len().max(1)).max(1)).map(|some| self.inspect_some(some, lanes)).collect();
        let pages: Vec<Vec<_>> = stream::iter(pages).buffered(AT_ONCE).try_collect().await?;
        let mut all: Vec<Result<PlacedRun, StoreError>> = pages.into_iter().flatten().collect();
        // A run that waits at a gate is in no other set.
        let unfound: Vec<usize> = all
            .iter()
            .enumerate()
            .filter(|(_, facts)| facts.as_ref().is_ok_and(|facts| !facts.is_waiting))
            .map(|(at, _)| at)
            .collect();
        let names: Vec<&RunId> = unfound.iter().filter_map(|at| runs.get(*at)).map(|(run, _)| run).collect();
        for (at, is_queued) in unfound.iter().zip(self.queued_among(&names).await?) {
            if let Some(Ok(facts)) = all.get_mut(*at) {
                facts.is_waiting = is_queued;
            }
        }
        Ok(all)
    }

    async fn inspect_some(
        &self,
        runs: &[(RunId, Option<Fence>)],
        lanes: &[Lane],
    ) -> Result<Vec<Result<PlacedRun, StoreError>>, StoreError> {
        let keys = &self.keys;
        let mut call = Invocation::new(&scripts::INSPECT_RUNS)
            .key("leases", keys.leases())
            .key("stops", keys.stops())
            .key("history", keys.history())
            .key("dead", keys.dead())
            .key("deadlines", keys.deadlines());
        for (run, fence) in runs {
            let job = run.job();
            for lane in lanes {
                call = call
                    .key("run", keys.run(run))
                    .key("job", keys.job(job))
                    .key("open", keys.open_list(run))
                    .key("waiting", keys.waiting(job))
                    .key("spread", keys.spread(job))
                    .key("job_history", keys.job_history(job))
                    .key("job_dead", keys.job_dead(job))
                    .key("due", keys.due(lane))
                    .key("running", keys.running(lane.queue()))
                    .arg("id", run.to_string())
                    .arg("fence", fence.map_or_else(String::new, |fence| fence.to_string()));
            }
        }
        let mut reply = self.link.invoke(&call).await?;
        if reply.word != "items" {
            return Err(reply.unknown());
        }
        let mut all = Vec::with_capacity(runs.len());
        for (run, fence) in runs {
            let mut facts: Option<Result<PlacedRun, StoreError>> = None;
            for lane in lanes {
                let next = run_facts(reply.reply()?, run, *fence, lane);
                match (&mut facts, next) {
                    (Some(Ok(before)), Ok(next)) => {
                        before.due_sets += next.due_sets;
                        before.ready = before.ready.max(next.ready);
                        before.counted = before.counted.and(next.counted);
                    }
                    (Some(Err(_)), _) => {}
                    (facts, next) => *facts = Some(next),
                }
            }
            all.extend(facts);
        }
        Ok(all)
    }
}

fn job_facts(mut reply: Reply, job: &JobToInspect<'_>) -> Result<Option<JobPlaces>, StoreError> {
    match reply.word.as_str() {
        "job" => {}
        "stale" => return Ok(None),
        _ => return Err(reply.unknown()),
    }
    let mut there = || reply.text().map(|text| Some(text).filter(|text| !text.is_empty()));
    let (rev, ended, paused, held) = (there()?, there()?, there()?, there()?);
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
        is_known: rev.is_some(),
        indexed,
        is_among_ended: among_ended.is_some(),
        has_ended: ended.is_some(),
        is_paused: paused.is_some(),
        pending,
        comes_first: None,
        has_held: held.is_some(),
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

fn run_facts(mut reply: Reply, run: &RunId, found_under: Option<Fence>, lane: &Lane) -> Result<PlacedRun, StoreError> {
    match reply.word.as_str() {
        "run" => {}
        "wrong_type" => return Err(StoreError::WrongType { key: reply.text()?, found: reply.text()?, wanted: reply.text()? }),
        _ => return Err(reply.unknown()),
    }
    let has_record = reply.number()? == 1;
    let (state, fence) = (reply.text()?, reply.text()?);
    let record = match state.parse::<RunState>() {
        _ if !has_record => RecordFacts::None,
        Ok(state) => RecordFacts::Known { state, fence: fence.parse().ok().and_then(Fence::new) },
        Err(_) if state.is_empty() => RecordFacts::Unreadable("its record names no state".to_owned()),
        Err(error) => RecordFacts::Unreadable(error.to_string()),
    };
    let own = match &record {
        RecordFacts::Known { fence, .. } => *fence,
        _ => None,
    };
    let is_known = !reply.text()?.is_empty();
    let has_ended = !reply.text()?.is_empty();
    let is_pending = reply.number()? == 1;
    let score = reply.text()?;
    let due_sets = usize::from(!score.is_empty());
    let mut there = || reply.text().map(|text| !text.is_empty());
    let is_leased = there()?;
    let is_found = there()?;
    let (is_open, is_waiting, is_spread, is_stopped) = (there()?, there()?, there()?, there()?);
    Ok(PlacedRun {
        run: run.clone(),
        record,
        job: match (is_known, has_ended) {
            (false, _) => Placement::Unknown,
            (true, true) => Placement::Ended,
            (true, false) => Placement::Live,
        },
        is_pending,
        due_sets,
        ready: score.parse().ok().and_then(UnixMillis::new),
        ready_by: None,
        is_leased,
        stray: found_under.filter(|fence| is_found && Some(*fence) != own),
        is_open,
        is_waiting,
        is_spread,
        is_stopped,
        history: [there()?, there()?],
        dead: [there()?, there()?],
        counted: {
            let is_counted = there()?;
            let is_own = reply.text()?.parse::<Lane>().is_ok_and(|own| own.queue() == lane.queue());
            CountedIn { in_own: is_own.then_some(is_counted), elsewhere: usize::from(is_counted && !is_own) }
        },
        watched: WatchedDeadline {
            start: !reply.text()?.is_empty(),
            finish: !reply.text()?.is_empty(),
            is_held: reply.number()? == 1,
            is_first_behind: reply.number()? == 1,
        },
    })
}
