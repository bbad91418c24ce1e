//! What can happen to one run beside being claimed: skipped, finished, taken back, asked for by hand.

use std::time::Duration;

use super::Store;
use super::claims::{Claim, count, millis};
use super::error::StoreError;
use super::gates::names_of;
use super::jobs::Rev;
use super::keys::parse_lease_member;
use super::quarantine::shown_member;
use super::reply::{Reply, text_of};
use super::scripts::{self, Invocation};
use crate::domain::gate::Gate;
use crate::domain::ids::{Fence, JobName, RunId};
use crate::domain::lane::Lane;
use crate::domain::run::RunState;
use crate::domain::time::UnixMillis;

/// The run to be planted next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Successor {
    /// Its id, with its due time in it.
    pub run: RunId,
    /// From when it may be claimed.
    pub ready: UnixMillis,
}

impl Successor {
    /// The regular run of `job` due at `due`, ready then.
    pub fn on_time(job: &JobName, due: UnixMillis) -> Self {
        Self { run: RunId::regular(job.clone(), due), ready: due }
    }

    pub(super) fn id(next: Option<&Self>) -> String {
        next.map_or_else(String::new, |next| next.run.to_string())
    }

    pub(super) fn due(next: Option<&Self>) -> i64 {
        next.map_or(0, |next| next.run.due().as_i64())
    }

    pub(super) fn ready(next: Option<&Self>) -> i64 {
        next.map_or(0, |next| next.ready.as_i64())
    }
}

/// A stretch of occurrences that is not to run.
#[derive(Debug, Clone)]
pub struct SkipOrder {
    /// The pending run: the first of the stretch.
    pub run: RunId,
    /// The job's rev this was computed from.
    pub rev: Rev,
    /// The job's lane.
    pub lane: Lane,
    /// Why: `missed`.
    pub reason: &'static str,
    /// The last occurrence of the stretch.
    pub last_due: UnixMillis,
    /// How many there are, exact to 100,000.
    pub count: u64,
    /// What comes next.
    pub successor: Option<Successor>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReply {
    /// Recorded.
    Skipped,
    /// Another node was first.
    Gone,
    /// Its record says that it began or is over, or cannot be read: a claim passes over it.
    Over,
    /// The job changed: read it and decide again.
    Stale,
    /// The successor's occurrence has a record already: decide on the one after it.
    Occupied,
}

/// How an attempt ends in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The run is over.
    Final(RunState),
    /// It failed and is tried again after this long.
    Retry(Duration),
    /// It is handed back, unexecuted or cut short, for another node to take at once.
    Release,
    /// It is handed back unexecuted, for its `done_check` to be asked again after this long.
    AskLater(Duration),
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishReply {
    /// The run is over; so many runs of its job are in history.
    Finished(u32),
    /// It waits for another attempt.
    Retrying(UnixMillis),
    /// It waits for another node.
    Released,
    /// It waits for its `done_check` to be asked again.
    AskingLater(UnixMillis),
    /// The lease is another's, or nobody's: nothing was changed.
    Lost,
}

/// A lease as the reaper sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredLease {
    /// The run.
    pub run: RunId,
    /// Its fence.
    pub fence: Fence,
    /// The end of the lease, ms, as text: what must not have moved.
    pub end: String,
}

/// What to do with a run taken back.
#[derive(Debug, Clone)]
pub struct Recovery {
    /// Try it again, or end it in this state.
    pub verdict: Option<RunState>,
    /// Why.
    pub reason: String,
    /// The lost attempt's record, as JSON.
    pub past: String,
    /// The lane it was claimed from.
    pub lane: Lane,
    /// The lane of its job.
    pub job_lane: Lane,
    /// The gates at which it holds places, as read.
    pub places: Vec<Gate>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoverReply {
    /// It is due again.
    Recovered,
    /// It is over.
    Ended,
    /// Its holder renewed it meanwhile.
    Alive,
    /// Somebody else was first.
    Gone,
}

/// What became of a run asked for by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManualReply {
    /// It is due now.
    Planted,
    /// No such job.
    Unknown,
    /// The job's lane changed: read it again.
    Stale,
}

impl Store {
    /// Takes a job's pending run out with the stretch behind it, and plants what comes next.
    pub async fn skip_run(&self, order: &SkipOrder) -> Result<SkipReply, StoreError> {
        let (keys, job) = (&self.keys, order.run.job());
        let next = order.successor.as_ref();
        let call = Invocation::new(&scripts::SKIP_RUN)
            .key("run", keys.run(&order.run))
            .key("job", keys.job(job))
            .key("jobs", keys.jobs())
            .key("job_due", keys.due(&order.lane))
            .key("history", keys.history())
            .key("job_history", keys.job_history(job))
            .key("finished", keys.finished())
            .key("totals", keys.totals())
            .key("nudge", keys.nudge())
            .key("successor_run", self.successor_key(next, job))
            .key("open", keys.open(job))
            .key("waiting", keys.waiting(job))
            .key("notices", keys.notices())
            .key("deadlines", keys.deadlines())
            .arg("now", self.now_arg())
            .arg("id", order.run.to_string())
            .arg("job_name", job.as_str())
            .arg("due_ms", order.run.due().as_i64())
            .arg("rev", order.rev.as_str())
            .arg("lane", order.lane.as_str())
            .arg("reason", order.reason)
            .arg("last_due_ms", order.last_due.as_i64())
            .arg("count", order.count)
            .arg("successor", Successor::id(next))
            .arg("successor_due", Successor::due(next))
            .arg("successor_ready", Successor::ready(next));
        let reply = self.link.invoke_where_trusted(&call).await?;
        Ok(match reply.word.as_str() {
            "skipped" => SkipReply::Skipped,
            "gone" => SkipReply::Gone,
            "over" => SkipReply::Over,
            "stale" => SkipReply::Stale,
            "occupied" => SkipReply::Occupied,
            _ => return Err(reply.unknown()),
        })
    }

    /// Ends an attempt. `facts` are fields of the run's record; `past` is the attempt's own record as JSON, kept when
    /// another attempt will write over the run's.
    pub async fn finish_run(
        &self,
        claim: &Claim,
        verdict: &Verdict,
        reason: &str,
        facts: &[(&str, String)],
        past: &str,
    ) -> Result<FinishReply, StoreError> {
        let (word, ready_in) = match verdict {
            Verdict::Final(state) => (state.as_str(), Duration::ZERO),
            Verdict::Retry(delay) => ("retry", *delay),
            Verdict::Release => ("release", Duration::ZERO),
            Verdict::AskLater(delay) => ("ask_later", *delay),
        };
        let call = |lane: &Lane, read: &str, places: &[Gate]| {
            let call = self.settling_keys(Invocation::new(&scripts::FINISH_RUN), &claim.run, &claim.lane, lane);
            let call = call
                .key("deadlines", self.keys.deadlines())
                .key("manual", self.keys.manual(claim.run.job()))
                .arg("now", self.now_arg())
                .arg("id", claim.run.to_string())
                .arg("job_name", claim.run.job().as_str())
                .arg("fence", claim.fence.as_u64())
                .arg("verdict", word)
                .arg("reason", reason)
                .arg("ready", millis(ready_in))
                .arg("past", past)
                .arg("job_lane", read)
                .arg("gates", names_of(places))
                .gate_keys(&self.keys, places);
            facts.iter().fold(call, |call, (field, value)| call.arg("field", *field).arg("value", value))
        };
        let mut reply = self.settle_in(&claim.job_lane, &claim.places, call).await?;
        Ok(match reply.word.as_str() {
            "finished" => FinishReply::Finished(count(&mut reply)?),
            "retrying" => FinishReply::Retrying(super::claims::instant(&mut reply)?),
            "released" => FinishReply::Released,
            "asking_later" => FinishReply::AskingLater(super::claims::instant(&mut reply)?),
            "lost" => FinishReply::Lost,
            _ => return Err(reply.unknown()),
        })
    }

    /// Takes a run back from a node that stopped renewing its lease.
    pub async fn recover_run(&self, lease: &ExpiredLease, recovery: &Recovery) -> Result<RecoverReply, StoreError> {
        let call = |lane: &Lane, read: &str, places: &[Gate]| {
            self.settling_keys(Invocation::new(&scripts::RECOVER_RUN), &lease.run, &recovery.lane, lane)
                .key("deadlines", self.keys.deadlines())
                .key("manual", self.keys.manual(lease.run.job()))
                .arg("now", self.now_arg())
                .arg("id", lease.run.to_string())
                .arg("job_name", lease.run.job().as_str())
                .arg("fence", lease.fence.as_u64())
                .arg("seen", &lease.end)
                .arg("verdict", recovery.verdict.map_or("retry", RunState::as_str))
                .arg("reason", &recovery.reason)
                .arg("past", &recovery.past)
                .arg("job_lane", read)
                .arg("gates", names_of(places))
                .gate_keys(&self.keys, places)
        };
        let reply = self.settle_in(&recovery.job_lane, &recovery.places, call).await?;
        Ok(match reply.word.as_str() {
            "recovered" => RecoverReply::Recovered,
            "ended" => RecoverReply::Ended,
            "alive" => RecoverReply::Alive,
            "gone" => RecoverReply::Gone,
            _ => return Err(reply.unknown()),
        })
    }

    /// Calls one of them with the lane of the run's job as it was read and the gates the run stands at, and again where the job has
    /// another lane meanwhile: a run may take long. Each further call needs another change of the job between two.
    async fn settle_in(
        &self,
        read: &Lane,
        places: &[Gate],
        call: impl Fn(&Lane, &str, &[Gate]) -> Invocation,
    ) -> Result<Reply, StoreError> {
        let (mut lane, mut said) = (read.clone(), read.to_string());
        loop {
            let mut reply = self.invoke_at_gates(places, |places| call(&lane, &said, places)).await?;
            if reply.word != "moved" {
                return Ok(reply);
            }
            said = reply.text()?;
            // A name nobody can have given is spoilt: the run ends all the same, and what comes next lies where it was to.
            lane = said.parse().unwrap_or(lane);
        }
    }

    /// The keys of the scripts that settle an attempt.
    pub(super) fn settling_keys(&self, call: Invocation, run: &RunId, lane: &Lane, job_lane: &Lane) -> Invocation {
        let (keys, job) = (&self.keys, run.job());
        call.key("run", keys.run(run))
            .key("job", keys.job(job))
            .key("jobs", keys.jobs())
            .key("due", keys.due(lane))
            .key("job_due", keys.due(job_lane))
            .key("leases", keys.leases())
            .key("open", keys.open(job))
            .key("waiting", keys.waiting(job))
            .key("stops", keys.stops())
            .key("history", keys.history())
            .key("job_history", keys.job_history(job))
            .key("finished", keys.finished())
            .key("totals", keys.totals())
            .key("nudge", keys.nudge())
            .key("dead", keys.dead())
            .key("job_dead", keys.job_dead(job))
            .key("running", keys.running(lane.queue()))
            .key("queue", keys.queue(lane.queue()))
            .key("notices", keys.notices())
    }

    /// Leases from the one with the earliest end on, at most `limit`, each with its end as text. A member that is no lease
    /// comes back as its text.
    pub async fn list_leases(&self, limit: usize) -> Result<Vec<Result<ExpiredLease, (String, String)>>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.leases()).arg(0).arg(limit.saturating_sub(1)).arg("WITHSCORES");
        let answer = self.link.query(&mut pipeline).await?;
        let Some(redis::Value::Array(flat)) = answer.first() else { return Ok(Vec::new()) };
        let read = |pair: &[redis::Value]| {
            let (member, end) = (shown_member(&pair[0])?, text_of(&pair[1])?);
            // One with an end no lease has is a lease all the same: its run would stay open for ever without it.
            Some(match parse_lease_member(&member) {
                Some((run, fence)) => Ok(ExpiredLease { run, fence, end }),
                None => Err((member, end)),
            })
        };
        Ok(flat.chunks_exact(2).filter_map(read).collect())
    }

    /// Plants a run asked for by hand, ready now. `lane` is the job's, as read.
    pub async fn plant_manual(&self, run: &RunId, lane: &Lane) -> Result<ManualReply, StoreError> {
        self.note_lanes([lane]).await?;
        let call = Invocation::new(&scripts::PLANT_MANUAL)
            .key("job", self.keys.job(run.job()))
            .key("run", self.keys.run(run))
            .key("job_due", self.keys.due(lane))
            .key("nudge", self.keys.nudge())
            .key("deeds", self.keys.deeds(run.job()))
            .key("manual", self.keys.manual(run.job()))
            .arg("now", self.now_arg())
            .arg("id", run.to_string())
            .arg("job_name", run.job().as_str())
            .arg("due_ms", run.due().as_i64())
            .arg("lane", lane.as_str())
            .arg("by", &*self.by);
        let reply = self.link.invoke(&call).await?;
        Ok(match reply.word.as_str() {
            "planted" => ManualReply::Planted,
            "unknown" => ManualReply::Unknown,
            "stale" => ManualReply::Stale,
            _ => return Err(reply.unknown()),
        })
    }
}
