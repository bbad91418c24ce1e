//! Whatever is done to the jobs of a chain, in whatever order, with ends that are given late: each child runs once an occurrence,
//! and the data is consistent.

use std::collections::BTreeSet;

use proptest::prelude::*;
use schedd::engine::maintenance::full_check::examine;
use schedd::engine::planning::planting::Request;
use schedd::engine::planning::{job_operations, planting, retry_order};
use schedd_core::config;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{
    Claim, ClaimOrder, ClaimReply, Ended, Existing, LaneAsk, LanePoll, SkipOrder, SourceKind,
    Store, Successor, Verdict,
};
use serde_json::{Value, json};

use crate::scripts::world::{World, name, t};
use crate::support::cases::cases;

const JOBS: [&str; 5] = ["root", "b", "c", "d", "e"];
const RULES: [&str; 4] = ["after", "after_any", "after_failed", "after_finished"];
/// The jobs that get other parents, each with the parents.
const PARENTS: [(&str, &[&str]); 7] = [
    ("d", &["b", "c"]),
    ("d", &["b"]),
    ("d", &["c", "root"]),
    ("e", &["d", "root"]),
    ("e", &["d"]),
    ("e", &["b", "c"]),
    ("c", &["root", "b"]),
];
const STATES: [RunState; 4] =
    [RunState::Succeeded, RunState::Failed, RunState::TimedOut, RunState::Succeeded];

#[derive(Debug, Clone)]
enum Operation {
    Advance(i64),
    Claim(usize),
    Finish(usize, usize),
    /// A node gives the ends that wait.
    Give,
    Retry(usize),
    Trim(usize),
    Cancel(usize),
    /// The root is asked for by hand.
    ByHand,
    /// The planned run of the root is missed with the one behind it.
    Miss,
    Pause(usize),
    Resume(usize),
    /// Another rule, and other parents, for one of the last two jobs.
    Edit(usize, usize),
    Remove,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let one = prop_oneof![
        8 => (1..40_000_i64).prop_map(Operation::Advance),
        16 => (0..4_usize).prop_map(Operation::Claim),
        16 => (0..4_usize, 0..STATES.len()).prop_map(|(at, state)| Operation::Finish(at, state)),
        12 => Just(Operation::Give),
        4 => (0..3_usize).prop_map(Operation::Retry),
        1 => (0..4_usize).prop_map(Operation::Trim),
        2 => (0..4_usize).prop_map(Operation::Cancel),
        3 => Just(Operation::ByHand),
        2 => Just(Operation::Miss),
        1 => (0..JOBS.len()).prop_map(Operation::Pause),
        1 => (0..JOBS.len()).prop_map(Operation::Resume),
        2 => (0..RULES.len(), 0..PARENTS.len()).prop_map(|(rule, at)| Operation::Edit(rule, at)),
        1 => Just(Operation::Remove),
    ];
    prop::collection::vec(one, 10..80)
}

struct ChainPlay {
    world: World,
    now: i64,
    running: Vec<Claim>,
    /// The runs that succeeded, which must not begin again.
    done: BTreeSet<RunId>,
}

impl ChainPlay {
    async fn begin() -> Self {
        let play = Self { world: World::new(), now: 0, running: Vec::new(), done: BTreeSet::new() };
        play.apply("root", json!({"every": "1m"})).await;
        play.apply("b", json!({"after": "root"})).await;
        play.apply("c", json!({"after": "root"})).await;
        play.apply("d", json!({"after_any": ["b", "c"]})).await;
        play.apply("e", json!({"after_finished": ["d", "root"]})).await;
        play
    }

    fn store(&self) -> Store {
        self.world.at(self.now)
    }

    async fn apply(&self, job: &str, mut keys: Value) {
        (keys["name"], keys["shell"], keys["overlap"]) =
            (json!(job), json!("true"), json!("allow"));
        let job = config::job_from_value(&keys, &Zone::utc()).unwrap();
        let request = Request {
            name: job.name.unwrap(),
            is_drawn: false,
            spec: job.spec,
            start_in: None,
            kind: SourceKind::Api,
            source: "api".to_owned(),
            existing: Existing::Edit,
            seen: None,
        };
        planting::apply_one(&self.store(), &Zone::utc(), &request).await.unwrap();
    }

    async fn due(&self) -> Vec<RunId> {
        let poll = self.store().list_due(&[LaneAsk::new(Lane::default_lane(), 50)]).await.unwrap();
        let LanePoll::Due { due, .. } = &poll.lanes[0] else { panic!("{poll:?}") };
        due.iter().map(|entry| entry.member.parse().unwrap()).collect()
    }

    fn next_minute(run: &RunId) -> Successor {
        let due = UnixMillis::new(run.due().as_i64() + 60_000).unwrap();
        Successor::on_time(run.job(), due)
    }

    async fn claim(&mut self, run: &RunId) {
        let is_of_root = run.job().as_str() == "root" && !run.is_manual();
        let order = ClaimOrder {
            overlap: schedd_core::domain::job::job_spec::Overlap::Allow,
            successor: is_of_root.then(|| Self::next_minute(run)),
            ..self.world.order(run).await
        };
        match self.world.claim(self.now, &order).await {
            ClaimReply::Claimed(claim) => {
                assert!(!self.done.contains(run), "{run} begins again");
                self.running.push(claim);
            }
            ClaimReply::Blocked(_) | ClaimReply::Early | ClaimReply::Occupied => {}
            other => panic!("{run}: {other:?}"),
        }
    }

    async fn finish(&mut self, at: usize, state: RunState) {
        if self.running.is_empty() {
            return;
        }
        let claim = self.running.remove(at % self.running.len());
        self.world.finish(self.now, &claim, Verdict::Final(state)).await;
        if state == RunState::Succeeded {
            self.done.insert(claim.run);
        }
    }

    async fn give(&self) {
        for end in self.store().list_chain_ends(0, 1_000).await.unwrap().0 {
            let given = [(&end, Lane::default_lane())];
            self.store().plant_children(&given).await.unwrap().remove(0).unwrap();
        }
    }

    async fn miss(&self) {
        let Some(run) = self.world.job("root").await.pending else { return };
        let (first, last) = (Self::next_minute(&run), 60_000 + run.due().as_i64() - t(0).as_i64());
        if last >= self.now {
            return;
        }
        let order = SkipOrder {
            rev: self.world.job("root").await.rev,
            lane: Lane::default_lane(),
            reason: "missed",
            last_due: first.run.due(),
            count: 2,
            successor: Some(Self::next_minute(&first.run)),
            run,
        };
        self.store().skip_run(&order).await.unwrap();
    }

    async fn take(&mut self, operation: &Operation) {
        self.now += 1;
        match operation {
            Operation::Advance(ms) => self.now += ms,
            Operation::Claim(at) => {
                let due = self.due().await;
                if let Some(run) = due.get(at % due.len().max(1)) {
                    self.claim(run).await;
                }
            }
            Operation::Finish(at, state) => self.finish(*at, STATES[*state]).await,
            Operation::Give => self.give().await,
            Operation::Retry(at) => {
                let dead = self.store().read_ended(&Ended::dead(), 0, 100).await.unwrap().runs;
                if let Some(run) = dead.get(at % dead.len().max(1)) {
                    retry_order::retry_run(&self.store(), &run.run).await.unwrap();
                }
            }
            Operation::Trim(most) => {
                self.store().forget_runs(None, UnixMillis::EPOCH, *most).await.unwrap();
            }
            Operation::Cancel(at) => {
                let due = self.due().await;
                if let Some(run) = due.get(at % due.len().max(1)) {
                    job_operations::cancel_run(&self.store(), run, "by a test").await.unwrap();
                }
            }
            Operation::ByHand => {
                let run = RunId::manual(name("root"), t(self.now), "hand").unwrap();
                self.store().plant_manual(&run, &Lane::default_lane(), None).await.unwrap();
            }
            Operation::Miss => self.miss().await,
            Operation::Pause(at) => {
                job_operations::pause(&self.store(), &name(JOBS[*at])).await.unwrap();
            }
            Operation::Resume(at) => {
                job_operations::resume(&self.store(), &name(JOBS[*at])).await.unwrap();
            }
            Operation::Edit(rule, at) => {
                let (job, parents) = PARENTS[*at];
                self.apply(job, json!({RULES[*rule]: parents})).await;
            }
            Operation::Remove => {
                let running = schedd_store::StopRunning::No;
                job_operations::cancel_job(&self.store(), &name("e"), running, "removed")
                    .await
                    .unwrap();
            }
        }
    }

    async fn assert_consistent(&self, after: &Operation) {
        let exam = examine(&self.store()).await.unwrap();
        assert!(
            exam.findings.is_empty() && exam.partial.is_none(),
            "after {after:?}: {:#?}",
            exam.findings
        );
        self.world.assert_sound();
    }

    /// Ends all that is due and running, until nothing moves any more. The root starts nothing new.
    async fn come_to_rest(&mut self) {
        for job in JOBS {
            job_operations::resume(&self.store(), &name(job)).await.unwrap();
        }
        for _ in 0..200 {
            self.now += 1;
            self.give().await;
            let planned = self.world.job("root").await.pending;
            let due: Vec<RunId> =
                self.due().await.into_iter().filter(|run| planned.as_ref() != Some(run)).collect();
            let ends = self.store().list_chain_ends(0, 1).await.unwrap().1;
            if due.is_empty() && self.running.is_empty() && ends == 0 {
                return;
            }
            for run in due {
                self.claim(&run).await;
            }
            while !self.running.is_empty() {
                self.finish(0, RunState::Succeeded).await;
            }
        }
        panic!("the chain does not come to rest");
    }
}

async fn walk(operations: &[Operation]) {
    let mut play = ChainPlay::begin().await;
    for (at, operation) in operations.iter().enumerate() {
        Box::pin(play.take(operation)).await;
        if at % 16 == 15 {
            play.assert_consistent(operation).await;
        }
    }
    Box::pin(play.come_to_rest()).await;
    play.assert_consistent(&Operation::Give).await;
    assert_eq!(play.store().list_chain_ends(0, 10).await.unwrap().1, 0);
    let waiting: Vec<String> = play.world.server(&["KEYS", "*}:chain:*"]);
    assert!(waiting.is_empty(), "{waiting:?}");
}

#[test]
fn after_any_operations_each_child_of_a_chain_succeeds_once_and_doctor_is_clean() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig {
        cases: cases(40),
        failure_persistence: None,
        max_shrink_iters: 100,
        ..ProptestConfig::default()
    };
    proptest!(config, |(operations in operations())| {
        runtime.block_on(walk(&operations));
    });
}
