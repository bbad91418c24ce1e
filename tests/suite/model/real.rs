//! The real scripts beside the model: the model's calls, made through the store. The module `held`
//! compares the content.
//!
//! The model counts fences from 1. Here each of them stands for the fence that the real claim got.
//! The real fences must rise as the model's do.

use std::collections::HashMap;
use std::time::Duration;

use redis::Connection;
use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::{Fence, RunId};
use schedd_store::{
    ApplyOrder, ApplyReply, Beside, Blocking, CancelReply, Claim, ClaimOrder, ClaimReply, Claimant,
    ExpiredLease, FinishReply, LeaseWord, RecoverReply, RemoveReply, RetryOrder, RetryReply, Rev,
    SkipOrder, SkipReply, StopRunning, Store, Verdict as RealVerdict,
};

use super::redis::{Call, ONCE, Redis, Reply, Token, Verdict};
use super::rules::Rules;
use super::state::State;
use crate::scripts::claims::recovering::recovery;
use crate::scripts::jobs::removing::removal;
use crate::scripts::world::{LEASE, World, definition, queue, run_of, successor, t, token};

/// A real Redis, and the mapping of the model's fences and leases to its own.
pub(super) struct Real {
    pub(super) world: World,
    pub(super) connection: Connection,
    pub(super) rules: Rules,
    /// The revision of each job by the model's number. A late call uses it after the job is removed
    /// or added again.
    revs: HashMap<(&'static str, u8), Rev>,
    calls: i64,
    /// The real fences of the walk; the model's fence 1 is the first.
    fences: Vec<Fence>,
    /// The end of each lease when it was watched, by run, fence and the model's end.
    watched: HashMap<(usize, u8, u8), String>,
    replica: Vec<(Vec<u8>, Vec<u8>)>,
}

pub(super) fn job_of(run: usize) -> &'static str {
    if run == ONCE { "once" } else { "cron" }
}

/// Returns the due time of a run, in ms from zero.
fn due_of(run: usize) -> i64 {
    if run == ONCE { 0 } else { i64::try_from(run).unwrap() * 1000 }
}

pub(super) fn id(run: usize) -> RunId {
    run_of(job_of(run), due_of(run))
}

impl Real {
    pub(super) fn start() -> Self {
        let world = World::new();
        let connection = world.redis.connection();
        Self {
            world,
            connection,
            rules: Rules::CALM,
            revs: HashMap::new(),
            calls: 0,
            fences: Vec::new(),
            watched: HashMap::new(),
            replica: Vec::new(),
        }
    }

    /// Empties Redis and plants the cron job's first run.
    pub(super) async fn begin(&mut self, rules: &Rules) {
        self.world.server::<()>(&["FLUSHALL"]);
        self.world.plant("cron", 0).await;
        self.rules = *rules;
        self.revs = HashMap::from([(("cron", 1), self.world.job("cron").await.rev)]);
        self.calls = 0;
        self.fences.clear();
        self.watched.clear();
    }

    pub(super) fn assert_sound(&self) {
        self.world.assert_sound();
    }

    /// Records the end of a lease, as a node that watches it sees it.
    pub(super) fn watch(&mut self, redis: &Redis, run: usize) {
        let Some(lease) = redis.runs[run].lease else { return };
        let member = format!("{}#{}", id(run), self.fence(lease.fence));
        let key = self.world.key("leases");
        let end = redis::cmd("ZSCORE").arg(key).arg(member).query(&mut self.connection).unwrap();
        self.watched.insert((run, lease.fence, lease.end), end);
    }

    pub(super) fn replicate(&mut self) {
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut self.connection).unwrap();
        let dump = |key: Vec<u8>| {
            let value = redis::cmd("DUMP").arg(&key).query(&mut self.connection).unwrap();
            (key, value)
        };
        self.replica = keys.into_iter().map(dump).collect();
    }

    /// Replaces the data by the replica's. `redis` is the content of the model's replica.
    pub(super) fn fail_over(&mut self, redis: &Redis) {
        let mut pipeline = redis::pipe();
        pipeline.cmd("FLUSHALL").ignore();
        for (key, value) in self.replica.drain(..) {
            pipeline.cmd("RESTORE").arg(key).arg(0).arg(value).ignore();
        }
        pipeline.query::<()>(&mut self.connection).unwrap();
        // Renewals in the lost tail moved the ends of leases, which the model does not count.
        State::runs(&self.rules).for_each(|run| self.watch(redis, run));
    }

    pub(super) fn fence(&self, fence: u8) -> Fence {
        self.fences[usize::from(fence) - 1]
    }

    /// Makes the model's `call` and returns the real answer.
    /// `reply` is the model's answer, and `after` the model's content after the call.
    pub(super) async fn call(&mut self, call: Call, reply: Reply, after: &Redis) -> Reply {
        self.calls += 1;
        // The time is past every due time and later with each call, so that a renewal changes the
        // end of a lease.
        let store = self.world.at(20_000 + self.calls);
        match call {
            Call::Add => {
                let order = ApplyOrder { is_once: true, ..definition("once", 0) };
                assert_eq!(store.apply_job(&order).await.unwrap(), ApplyReply::Created);
                self.revs.insert(("once", 0), self.world.job("once").await.rev);
                Reply::Planted
            }
            Call::Claim { run, token, rev } => {
                self.claim(&store, run.into(), (token, rev), reply).await
            }
            Call::Renew { run, fence } => {
                let held = [(id(run.into()), self.fence(fence))];
                match &store.renew_leases(LEASE, &held).await.unwrap()[..] {
                    [LeaseWord::Extended] => Reply::Held,
                    [LeaseWord::Stop(_)] => Reply::Stop,
                    [LeaseWord::Lost] => Reply::Lost,
                    other => panic!("{other:?}"),
                }
            }
            Call::Finish { run, fence, verdict } => {
                self.finish(&store, run.into(), fence, verdict).await
            }
            Call::Recover { run, fence, end, is_poison } => {
                self.recover(&store, run.into(), (fence, end), is_poison).await
            }
            Call::Skip { run } => self.skip(&store, run.into()).await,
            Call::Cancel { run } => {
                let order =
                    self.world.cancelling(&id(run.into()), self.due_after(run.into())).await;
                match store.cancel_run(&order).await.unwrap() {
                    CancelReply::Cancelled => Reply::Cancelled,
                    CancelReply::Requested => Reply::Requested,
                    CancelReply::Over { .. } => Reply::Over,
                    other => panic!("{other:?}"),
                }
            }
            Call::Retry { run, fence, rev } => {
                let order = RetryOrder {
                    run: id(run.into()),
                    fence: Some(self.fence(fence)),
                    job: Some((
                        self.revs[&(job_of(run.into()), rev)].clone(),
                        Lane::default_lane(),
                    )),
                    beside: if self.rules.overlap == Overlap::Allow {
                        Beside::Allowed
                    } else {
                        Beside::Waits
                    },
                    past: "{}".to_owned(),
                };
                match store.retry_run(&order).await.unwrap() {
                    RetryReply::Retried => Reply::Retried,
                    RetryReply::Waiting => Reply::Waiting,
                    RetryReply::Already => Reply::Already,
                    RetryReply::Over { .. } => Reply::Over,
                    RetryReply::Unknown => Reply::Unknown,
                    RetryReply::Gone(_) => Reply::NoJob,
                    RetryReply::Former => Reply::Former,
                    RetryReply::Stale => Reply::Stale,
                }
            }
            Call::Remove => {
                let order = removal(&self.world.job("cron").await, StopRunning::No);
                assert!(matches!(store.remove_job(&order).await.unwrap(), RemoveReply::Removed(0)));
                Reply::Removed
            }
            Call::Readd { is_same } => self.readd(&store, is_same, after).await,
            Call::Zrem { .. } => unreachable!("only a broken claim is made of two calls"),
        }
    }

    /// Adds the cron job again, with the run that the model planted.
    async fn readd(&mut self, store: &Store, is_same: bool, after: &Redis) -> Reply {
        let former = self.world.job("cron").await;
        let order = ApplyOrder {
            definition: if is_same { former.definition } else { format!("{} ", former.definition) },
            planted: after.pending.map(|run| successor("cron", due_of(run.into()))),
            ..definition("cron", 0)
        };
        assert_eq!(store.apply_job(&order).await.unwrap(), ApplyReply::Created);
        self.revs.insert(("cron", after.cron.rev), self.world.job("cron").await.rev);
        Reply::Planted
    }

    /// Returns the due time of the run after `run`, as the engine computes it.
    fn due_after(&self, run: usize) -> Option<i64> {
        (run + 1 < self.rules.occurrences).then(|| due_of(run + 1))
    }

    async fn claim(
        &mut self,
        store: &Store,
        run: usize,
        (by, rev): (Token, u8),
        wanted: Reply,
    ) -> Reply {
        let order = ClaimOrder {
            run: id(run),
            rev: self.revs[&(job_of(run), rev)].clone(),
            delivery: self.rules.delivery,
            overlap: self.rules.overlap,
            max_caught_up: None,
            max_age: None,
            latest_start: None,
            max_runs: None,
            successor: self.due_after(run).map(|due| successor(job_of(run), due)),
            job_lane: Lane::default_lane(),
            gates: Vec::new(),
            known_places: Vec::new(),
            per_key: schedd_core::domain::queue::gate::PerKey::default(),
        };
        let claimant = Claimant {
            holder: format!("n{}", by.node),
            incarnation: by.incarnation.to_string(),
            lease: LEASE,
            claim_note: None,
        };
        let call = if by.number == 0 { token() } else { format!("{by:?} of {run}") };
        let replies = store
            .claim_runs(usize::MAX, &claimant, &queue("default"), &call, &[order])
            .await
            .unwrap();
        match &replies[..] {
            [ClaimReply::Claimed(claim)] => {
                let Reply::Claimed(fence) = wanted else { return Reply::Claimed(0) };
                if usize::from(fence) == self.fences.len() + 1 {
                    assert!(
                        self.fences.last().is_none_or(|last| *last < claim.fence),
                        "fences rise"
                    );
                    self.fences.push(claim.fence);
                }
                assert_eq!(self.fence(fence), claim.fence);
                wanted
            }
            [ClaimReply::Gone] => Reply::Gone,
            [ClaimReply::Stale] => Reply::Stale,
            [ClaimReply::Blocked(Blocking::Skipped)] => Reply::Skipped,
            [ClaimReply::Blocked(Blocking::Waiting)] => Reply::Waiting,
            [ClaimReply::Blocked(Blocking::Cancelled)] => Reply::Cancelled,
            other => panic!("{other:?}"),
        }
    }

    async fn finish(&self, store: &Store, run: usize, fence: u8, verdict: Verdict) -> Reply {
        let claim = Claim {
            run: id(run),
            lane: Lane::default_lane(),
            job_lane: Lane::default_lane(),
            fence: self.fence(fence),
            attempt: 1,
            recoveries: 0,
            failures: 0,
            unclear: 0,
            claimed_before: false,
            claimed_at: t(0),
            places: Vec::new(),
        };
        // The count in the record is the one its claim answered: nobody else writes it while the
        // lease is held.
        let unclear: Option<u8> =
            self.world.raw("HGET", &format!("run:{}", claim.run), &["unclear"]);
        let facts = [("unclear", verdict.unclear_after(unclear.unwrap_or(0)).to_string())];
        let verdict = match verdict {
            Verdict::Succeeded => RealVerdict::Final(RunState::Succeeded),
            Verdict::Cancelled => RealVerdict::Final(RunState::Cancelled),
            Verdict::Failed => RealVerdict::Final(RunState::Failed),
            Verdict::Lost => RealVerdict::Final(RunState::Lost),
            Verdict::Retry => RealVerdict::Retry(Duration::ZERO),
            Verdict::Release => RealVerdict::Release,
            Verdict::AskLater => RealVerdict::AskLater(Duration::ZERO),
        };
        match store.finish_run(&claim, &verdict, "", &facts, "").await.unwrap() {
            FinishReply::Finished(_) => Reply::Finished,
            FinishReply::Retrying(_) => Reply::Retrying,
            FinishReply::Released => Reply::Released,
            FinishReply::Lost => Reply::Lost,
            FinishReply::AskingLater(_) => Reply::AskingLater,
        }
    }

    async fn recover(
        &self,
        store: &Store,
        run: usize,
        (fence, end): (u8, u8),
        is_poison: bool,
    ) -> Reply {
        let lease = ExpiredLease {
            run: id(run),
            fence: self.fence(fence),
            end: self.watched[&(run, fence, end)].clone(),
        };
        let verdict = if self.rules.is_at_most_once() {
            Some(RunState::Lost)
        } else {
            is_poison.then_some(RunState::Failed)
        };
        match store.recover_run(&lease, &recovery(verdict)).await.unwrap() {
            RecoverReply::Recovered => Reply::Recovered,
            RecoverReply::Ended => Reply::Ended,
            RecoverReply::Alive => Reply::Alive,
            RecoverReply::Gone => Reply::Gone,
        }
    }

    async fn skip(&self, store: &Store, run: usize) -> Reply {
        let order = SkipOrder {
            run: id(run),
            rev: self.world.job(job_of(run)).await.rev,
            lane: Lane::default_lane(),
            reason: "missed",
            last_due: id(run).due(),
            count: 1,
            successor: self.due_after(run).map(|due| successor(job_of(run), due)),
        };
        match store.skip_run(&order).await.unwrap() {
            SkipReply::Skipped => Reply::Skipped,
            SkipReply::Gone => Reply::Gone,
            other => panic!("{other:?}"),
        }
    }
}
