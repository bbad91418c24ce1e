//! A namespace whose consistency is checked: jobs with real definitions, broken by hand.

use std::ops::Deref;

use redis::FromRedisValue;
use schedd::engine::maintenance::full_check::{Mended, examine};
use schedd::engine::planning::planting;
use schedd::engine::planning::planting::Request;
use schedd_core::config;
use schedd_core::domain::consistency::Inconsistency;
use schedd_core::domain::job::job_spec::Overlap;
use schedd_schedule::names::RunId;
use schedd_schedule::time::zone::Zone;
use schedd_store::{Claim, Existing, OutputFrames, OutputStream, SourceKind};
use serde_json::{Value, json};

use crate::scripts::world::{World, name};

pub(super) struct Desk {
    pub(super) world: World,
    now: i64,
}

impl Deref for Desk {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Desk {
    /// At the tests' zero, with nothing in it.
    pub(super) fn new() -> Self {
        Self { world: World::new(), now: 0 }
    }

    /// Adds a job and gives its planned run.
    pub(super) async fn add(&self, job: &str, keys: Value) -> RunId {
        self.add_unplanned(job, keys).await;
        self.world.job(job).await.pending.unwrap()
    }

    /// Adds a job, of which nothing may be planned.
    pub(super) async fn add_unplanned(&self, job: &str, mut keys: Value) {
        keys["name"] = json!(job);
        keys["shell"] = json!("true");
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
        planting::apply_one(&self.world.at(-1000), &Zone::utc(), &request).await.unwrap();
    }

    /// A job of every minute.
    pub(super) async fn minutely(&self, job: &str) -> RunId {
        self.add(job, json!({"every": "1m", "overlap": {"mode": "queue", "max": 3}})).await
    }

    /// Lets the time go on to when `run` is due, and claims it with its successor.
    pub(super) async fn win_due(&mut self, run: &RunId) -> Claim {
        self.now = self.now.max(run.due().as_i64() - crate::scripts::world::t(0).as_i64());
        let next = successor_of(run);
        self.world.win_with(self.now, run, Overlap::Queue { max: 3 }, next).await
    }

    /// The same of one that is to wait.
    pub(super) async fn wait_due(&mut self, run: &RunId) {
        self.now = self.now.max(run.due().as_i64() - crate::scripts::world::t(0).as_i64());
        let order = self.world.order_with(run, Overlap::Queue { max: 3 }, successor_of(run)).await;
        self.world.claim(self.now, &order).await;
    }

    /// Adds a job of every minute and has its first run done. That run.
    pub(super) async fn done(&mut self, job: &str) -> RunId {
        let run = self.minutely(job).await;
        let claim = self.win_due(&run).await;
        self.succeed(self.now, &claim).await;
        run
    }

    /// Adds a job of every minute, of which one run executes and the next waits for it.
    pub(super) async fn one_behind_another(&mut self, job: &str) -> (Claim, RunId) {
        let run = self.minutely(job).await;
        let claim = self.win_due(&run).await;
        let next = self.pending(job).await;
        self.wait_due(&next).await;
        (claim, next)
    }

    /// Adds a job of every minute, whose first run executes and has printed ten bytes as they are counted.
    pub(super) async fn printing(&mut self, job: &str) -> Claim {
        let run = self.minutely(job).await;
        let claim = self.win_due(&run).await;
        let mut frames = OutputFrames::new(0);
        frames.push_head(OutputStream::Stdout, b"hello");
        self.at(self.now).write_output(&claim, &frames).await.unwrap();
        claim
    }

    /// Takes what is planned of a job out of its places.
    #[track_caller]
    pub(super) fn unplan(&self, run: &RunId) {
        self.break_by("ZREM", "due:default", &[&run.to_string()]);
        self.break_by("HSET", &format!("job:{}", run.job()), &["pending", ""]);
    }

    /// Demands that the data is consistent.
    pub(super) async fn demand_sound(&self, when: &str) {
        let findings = self.findings().await;
        assert!(findings.is_empty(), "{when}: {findings:#?}");
    }

    /// Lets the time go on.
    pub(super) fn go_on_to(&mut self, now: i64) {
        self.now = now;
    }

    pub(super) fn now(&self) -> i64 {
        self.now
    }

    pub(super) async fn pending(&self, job: &str) -> RunId {
        self.world.store.read_job(&name(job)).await.unwrap().unwrap().pending.unwrap()
    }

    /// A command on a key of the namespace whose answer does not matter.
    #[track_caller]
    pub(super) fn break_by(&self, command: &str, rest: &str, args: &[&str]) {
        let _: redis::Value = self.world.raw(command, rest, args);
    }

    pub(super) fn get<T: FromRedisValue>(&self, command: &str, rest: &str, args: &[&str]) -> T {
        self.world.raw(command, rest, args)
    }

    pub(super) async fn findings(&self) -> Vec<Inconsistency> {
        examine(&self.world.at(self.now)).await.unwrap().findings
    }

    /// Demands that the finding is told of the subject, mends, and demands that the data is then consistent. What was done.
    pub(super) async fn mend(&self, code: &str, subject: &str) -> Vec<Mended> {
        let store = self.world.at(self.now);
        let exam = examine(&store).await.unwrap();
        demand(&exam.findings, code, subject);
        let (mended, left) = Box::pin(exam.mend(&store)).await.unwrap();
        assert!(left.findings.is_empty(), "left after {mended:#?}: {:#?}", left.findings);
        assert!(!mended.is_empty());
        self.world.assert_sound();
        mended
    }

    /// Demands that the finding is told of the subject, that mending leaves it, and that its advice says `word`.
    pub(super) async fn leaves(&self, code: &str, subject: &str, word: &str) {
        let store = self.world.at(self.now);
        let before = self.world.snapshot();
        let exam = examine(&store).await.unwrap();
        demand(&exam.findings, code, subject);
        let reported =
            exam.findings.iter().find(|finding| finding.code() == code).unwrap().to_string();
        assert!(reported.contains(word), "{reported}");
        let (_, left) = Box::pin(exam.mend(&store)).await.unwrap();
        demand(&left.findings, code, subject);
        assert_eq!(self.world.snapshot(), before, "something was changed");
    }
}

/// When the next occurrence of a job of every minute is due, as ms from the tests' zero.
fn successor_of(run: &RunId) -> i64 {
    run.due().as_i64() - crate::scripts::world::t(0).as_i64() + 60_000
}

/// The code of a finding about a key whose content cannot be read.
pub(super) fn unreadable(key: &str) -> String {
    format!("unreadable:{}", key.split(':').next().unwrap())
}

#[track_caller]
pub(super) fn demand(findings: &[Inconsistency], code: &str, subject: &str) {
    let is_there = findings
        .iter()
        .any(|finding| finding.code() == code && finding.subject.to_string().contains(subject));
    assert!(is_there, "no {code} of {subject}: {findings:#?}");
}
