//! Whatever is done to a job, in whatever order: each of its occurrences stands in exactly one place, indexes and records
//! agree, and no two of its runs execute at once unless that is allowed.

use std::collections::BTreeSet;

use proptest::prelude::*;
use schedd::config;
use schedd::domain::ids::RunId;
use schedd::domain::lateness::{self, Decision, Due};
use schedd::domain::run::RunState;
use schedd::domain::schedule::Timetable;
use schedd::domain::time::UnixMillis;
use schedd::domain::zone::Zone;
use schedd::engine::planting::{self, Applied, Request};
use schedd::engine::{Definition, orphans, person};
use schedd::store::{
    Claim, ClaimOrder, ClaimReply, Existing, LaneAsk, LanePoll, Ledger, ManualReply, RecoverReply, SkipOrder, SkipReply,
    SourceKind, SpreadOrder, SpreadReply, StopRunning, Successor, Verdict,
};
use serde_json::{Value, json};

use super::recovering::{expired, recovery};
use super::world::{LEASE, World, claimant, name, queue, t, token};

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Advance(i64),
    Claim,
    Finish(usize),
    Fail(usize),
    Lose(usize),
    Pause,
    Resume,
    EditSchedule(usize),
    EditRest,
    Cancel(usize),
    Manual,
    Remove,
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        6 => prop_oneof![1_000..40_000_i64, 60_000..900_000_i64].prop_map(Step::Advance),
        8 => Just(Step::Claim),
        3 => (0..4_usize).prop_map(Step::Finish),
        1 => (0..4_usize).prop_map(Step::Fail),
        1 => (0..4_usize).prop_map(Step::Lose),
        1 => Just(Step::Pause),
        2 => Just(Step::Resume),
        2 => (0..5_usize).prop_map(Step::EditSchedule),
        1 => Just(Step::EditRest),
        1 => (0..4_usize).prop_map(Step::Cancel),
        1 => Just(Step::Manual),
        1 => prop_oneof![3 => Just(Step::Claim), 1 => Just(Step::Remove)],
    ];
    prop::collection::vec(one, 5..45)
}

pub(crate) fn rules() -> impl Strategy<Value = Value> {
    let overlap = prop::sample::select(vec![
        json!("skip"),
        json!("queue"),
        json!({"mode": "queue", "max": 3}),
        json!("replace"),
        json!("allow"),
    ]);
    let mode = prop::sample::select(vec!["skip", "latest", "all"]);
    let age = prop::option::of(prop::sample::select(vec!["30s", "5m"]));
    let spread = prop::option::of(Just("1m"));
    (overlap, mode, age, prop::sample::select(vec![3, 1000]), spread).prop_map(|(overlap, mode, age, most, spread)| {
        json!({"overlap": overlap, "catch_up": {"mode": mode, "max_age": age, "max_count": most, "spread": spread}})
    })
}

/// A time in which one schedule held.
struct Era {
    timetable: Timetable,
    from: UnixMillis,
    /// To the end, this one included; none = it still holds.
    until: Option<UnixMillis>,
}

pub(crate) struct Play {
    pub(crate) world: World,
    pub(crate) now: i64,
    rules: Value,
    edits: u32,
    schedule: usize,
    eras: Vec<Era>,
    pub(crate) running: Vec<(Claim, i64)>,
    is_allowed: bool,
    is_forgotten: bool,
}

impl Play {
    /// A job of these rules, just added.
    pub(crate) async fn begin(rules: Value) -> Self {
        let world = World::new();
        let is_allowed = rules["overlap"] == "allow";
        let mut play = Self {
            world,
            now: 0,
            rules,
            edits: 0,
            schedule: 0,
            eras: Vec::new(),
            running: Vec::new(),
            is_allowed,
            is_forgotten: false,
        };
        let spec = play.spec();
        play.apply(&spec).await;
        play
    }

    fn instant(&self) -> UnixMillis {
        t(self.now)
    }

    async fn definition(&self) -> Option<Definition> {
        self.world.store.read_job(&name("a")).await.unwrap().map(|record| Definition::of(record).unwrap())
    }

    fn spec(&self) -> Value {
        let mut spec = self.rules.clone();
        let keys = spec.as_object_mut().unwrap();
        keys.insert("name".to_owned(), json!("a"));
        keys.insert("shell".to_owned(), json!("true"));
        keys.insert("timeout".to_owned(), json!(format!("{}s", 60 + self.edits)));
        let (key, value) = match self.schedule {
            0 => ("every", json!("1m")),
            1 => ("every", json!("47s")),
            2 => ("cron", json!("* * * * *")),
            3 => ("cron", json!(["*/2 * * * *", "*/3 * * * *"])),
            _ => ("at", json!(t(self.now + 100_000).to_string())),
        };
        keys.insert(key.to_owned(), value);
        spec
    }

    async fn apply(&mut self, spec: &Value) {
        let job = config::job_from_value(spec, &Zone::utc()).unwrap();
        let request = Request {
            name: name("a"),
            spec: job.spec,
            start_in: None,
            kind: SourceKind::Api,
            source: "api".to_owned(),
            existing: Existing::Edit,
        };
        let before = self.definition().await.filter(|old| old.record.is_live());
        let applied = planting::apply_one(&self.world.at(self.now), &Zone::utc(), &request).await.unwrap();
        let after = self.definition().await.unwrap();
        let is_same = before.is_some_and(|before| before.spec.schedule == after.spec.schedule);
        match applied {
            Applied::Updated(_) if is_same => {}
            Applied::Created(_) | Applied::Updated(_) => {
                let now = self.instant();
                if let Some(era) = self.eras.last_mut().filter(|era| era.until.is_none()) {
                    era.until = Some(now);
                }
                self.eras.push(Era { timetable: after.timetable, from: now, until: None });
            }
            _ => {}
        }
    }

    pub(crate) async fn step(&mut self, step: &Step) {
        self.now += 1;
        let store = self.world.at(self.now);
        match step {
            Step::Advance(by) => self.now += by,
            Step::Claim => self.claim_all().await,
            Step::Finish(at) => self.settle(*at, Verdict::Final(RunState::Succeeded)).await,
            Step::Fail(at) => self.settle(*at, Verdict::Retry(std::time::Duration::from_secs(30))).await,
            Step::Lose(at) => {
                if *at < self.running.len() {
                    let (claim, claimed) = self.running.remove(*at);
                    let end = claimed + i64::try_from(LEASE.as_millis()).unwrap();
                    self.now = self.now.max(end + 1);
                    let reply = self.world.at(self.now).recover_run(&expired(&claim, end), &recovery(None)).await.unwrap();
                    assert!(matches!(reply, RecoverReply::Recovered | RecoverReply::Ended), "{reply:?}");
                }
            }
            Step::Pause => drop(person::pause(&store, &name("a")).await.unwrap()),
            Step::Resume => drop(person::resume(&store, &name("a")).await.unwrap()),
            Step::EditSchedule(which) => {
                (self.schedule, self.edits) = (*which, self.edits + 1);
                let spec = self.spec();
                self.apply(&spec).await;
            }
            Step::EditRest => {
                let Some(definition) = self.definition().await.filter(|old| old.record.is_live()) else { return };
                let mut spec: Value = serde_json::from_str(&definition.record.definition).unwrap();
                self.edits += 1;
                spec["name"] = json!("a");
                spec["timeout"] = json!(format!("{}s", 60 + self.edits));
                self.apply(&spec).await;
            }
            Step::Cancel(at) => self.cancel(*at).await,
            Step::Manual => {
                let Some(definition) = self.definition().await.filter(|old| old.record.is_live()) else { return };
                let run = RunId::manual(name("a"), self.instant(), "hand").unwrap();
                assert_eq!(store.plant_manual(&run, &definition.record.lane).await.unwrap(), ManualReply::Planted);
            }
            Step::Remove => {
                let Some(definition) = self.definition().await.filter(|old| old.record.is_live()) else { return };
                let planned = definition.record.pending.or(definition.record.held);
                person::cancel_job(&store, &name("a"), StopRunning::Yes, "by a test").await.unwrap();
                let now = self.instant();
                let era = self.eras.last_mut().unwrap();
                // Of what would have come after the planned run nothing is owed any more.
                let before = |due: UnixMillis| due.saturating_sub(std::time::Duration::from_millis(1));
                era.until = Some(planned.map_or(now, |run| {
                    if run.due() <= now || definition.record.is_once { run.due() } else { before(run.due()) }
                }));
            }
        }
    }

    pub(crate) async fn settle(&mut self, at: usize, verdict: Verdict) {
        if at < self.running.len() {
            let (claim, _) = self.running.remove(at);
            self.world.finish(self.now, &claim, verdict).await;
        }
    }

    /// Cancels a run that is ripe, waits or runs.
    async fn cancel(&mut self, at: usize) {
        let mut ids: Vec<String> =
            self.world.raw("ZRANGE", "due:default", &["-inf", &t(self.now).as_i64().to_string(), "BYSCORE"]);
        ids.extend(self.world.raw::<Vec<String>>("ZRANGE", "waiting:a", &["0", "-1"]));
        ids.extend(self.running.iter().map(|(claim, _)| claim.run.to_string()));
        if let Some(id) = ids.get(at) {
            person::cancel_run(&self.world.at(self.now), &id.parse().unwrap(), "by a test").await.unwrap();
        }
    }

    /// Takes what is ripe as a node does, until nothing more is.
    async fn claim_all(&mut self) {
        for _ in 0..60 {
            let poll = self.world.at(self.now).list_ripe(&[LaneAsk::new(queue("default"), 50)]).await.unwrap();
            let LanePoll::Due { ripe, .. } = &poll.lanes[0] else { panic!("{poll:?}") };
            if ripe.is_empty() {
                return;
            }
            for entry in ripe {
                self.take(&entry.member.parse().unwrap()).await;
            }
        }
        panic!("the queue does not drain");
    }

    async fn take(&mut self, run: &RunId) {
        let store = self.world.at(self.now);
        let Some(definition) = self.definition().await else {
            // Its job was forgotten: it ends in history, as a node ends it.
            self.is_forgotten = true;
            assert!(orphans::end_orphan(&store, run).await.unwrap(), "{run} is left to quarantine");
            return;
        };
        let (record, spec) = (&definition.record, &definition.spec);
        let mut order = ClaimOrder {
            run: run.clone(),
            rev: record.rev.clone(),
            overlap: spec.overlap,
            max_age: spec.catch_up.max_age,
            latest_start: None,
            max_runs: None,
            successor: None,
            job_lane: record.lane.clone(),
            gates: Vec::new(),
            stands_at: Vec::new(),
            per_key: schedd::domain::gate::PerKey::default(),
        };
        let next = |due: Option<UnixMillis>| due.map(|due| Successor::on_time(run.job(), due));
        if !run.is_manual() {
            let due = Due {
                timetable: &definition.timetable,
                since: definition.since(),
                taken: UnixMillis::EPOCH,
                catch_up: &spec.catch_up,
                skip_if_late: None,
                late_after: spec.late_after,
                due: run.due(),
                now: self.instant(),
            };
            match lateness::judge(due) {
                Decision::Skip { last, count, successor } => {
                    let skip = SkipOrder {
                        run: run.clone(),
                        rev: record.rev.clone(),
                        lane: record.lane.clone(),
                        reason: "missed",
                        last_due: last,
                        count,
                        successor: next(successor),
                    };
                    match store.skip_run(&skip).await.unwrap() {
                        SkipReply::Skipped => return,
                        SkipReply::Gone => order.overlap = spec.overlap_when_missed(),
                        other => panic!("{other:?}"),
                    }
                }
                Decision::Run { is_missed: true, .. } if spec.catch_up.spread.is_some() => {
                    let missed = lateness::missed_from(due, 4);
                    let ready =
                        |place: usize| self.instant().saturating_add(std::time::Duration::from_millis(200 * place as u64));
                    let runs = missed.dues.iter().enumerate();
                    let spread = SpreadOrder {
                        name: name("a"),
                        rev: record.rev.clone(),
                        lane: record.lane.clone(),
                        window: record.window.clone(),
                        next_window: None,
                        runs: runs
                            .map(|(at, due)| Successor { run: RunId::regular(name("a"), *due), ready: ready(at) })
                            .collect(),
                        successor: next(missed.successor),
                    };
                    match store.spread_runs(&spread).await.unwrap() {
                        SpreadReply::Spread => return,
                        SpreadReply::Gone => order.overlap = spec.overlap_when_missed(),
                        other => panic!("{other:?}"),
                    }
                }
                Decision::Run { successor, is_missed } => {
                    order.successor = next(successor);
                    if is_missed {
                        order.overlap = spec.overlap_when_missed();
                    }
                }
            }
        }
        let is_first = self.world.raw::<Option<String>>("HGET", &format!("run:{run}"), &["fence"]).is_none();
        let replies = store.claim_runs(&claimant("n1"), &queue("default"), &token(), &[order]).await.unwrap();
        match replies.into_iter().next().unwrap() {
            ClaimReply::Claimed(claim) => {
                let others = self.running.iter().filter(|(other, _)| !other.run.is_manual()).count();
                assert!(self.is_allowed || !is_first || run.is_manual() || others == 0, "{run} beside {:?}", self.running);
                self.running.push((claim, self.now));
            }
            ClaimReply::Blocked(_) | ClaimReply::Gone => {}
            other => panic!("{run}: {other:?}"),
        }
    }

    /// Forgets the job if it is over and idle.
    pub(crate) async fn forget_job(&mut self) {
        self.world.at(self.now).forget_jobs(UnixMillis::EPOCH, 0).await.unwrap();
        self.is_forgotten |= self.definition().await.is_none();
    }

    /// Every occurrence there was, those before the planned one of the schedule that holds.
    async fn expected(&self) -> BTreeSet<UnixMillis> {
        let record = self.definition().await.unwrap().record;
        let planned = record.pending.clone().or(record.held.clone()).filter(|_| record.is_live());
        let mut dues = BTreeSet::new();
        for era in &self.eras {
            let all = std::iter::successors(era.timetable.next_after(era.from), |at| era.timetable.next_after(*at));
            dues.extend(all.take_while(|due| match (era.until, &planned) {
                (Some(until), _) => *due <= until,
                (None, Some(planned)) => *due < planned.due(),
                (None, None) => era.timetable.is_one_shot() || *due <= self.instant(),
            }));
        }
        // Owed from an older schedule, so not yet in any place but this.
        if let Some(planned) = &planned {
            dues.remove(&planned.due());
        }
        dues
    }

    /// Each occurrence stands in exactly one place: planned, in a record, in a range of the ledger, or counted before those.
    pub(crate) async fn assert_accounted(&self) {
        self.world.assert_sound();
        // What was forgotten with its job is told of no more.
        if self.is_forgotten {
            return;
        }
        let ledger = self.world.store.read_ledger(&name("a")).await.unwrap();
        if !ledger.ranges.is_empty() {
            return self.assert_told_once(&ledger).await;
        }
        let mut left = self.expected().await;
        let mut records = self.records().await;
        for (due, _) in &records {
            assert!(left.remove(due), "{} has a record and is no occurrence, or two", due.as_i64());
        }
        // Of two stretches that overlap by their ends the one that begins later was told first.
        records.sort();
        for (due, skipped) in records.into_iter().rev() {
            let Some((to, count)) = skipped else { continue };
            let covered: Vec<UnixMillis> = left.range(due..=to).copied().collect();
            assert_eq!(covered.len() as u64 + 1, count, "the stretch from {} to {}", due.as_i64(), to.as_i64());
            for at in covered {
                left.remove(&at);
            }
        }
        assert!(left.is_empty(), "in no place: {left:?}");
    }

    /// The due times of the regular runs that have a record, with the stretches of those that were skipped.
    async fn records(&self) -> Vec<(UnixMillis, Option<(UnixMillis, u64)>)> {
        let mut records = Vec::new();
        let prefix = self.world.key("run:");
        for key in self.world.snapshot().into_keys() {
            let Some(id) = key.strip_prefix(&prefix) else { continue };
            let run: RunId = id.parse().unwrap();
            if !run.is_manual() {
                records.push((run.due(), self.world.run(&run).await.skipped));
            }
        }
        records
    }

    /// With ranges in the ledger: as many are told of as there were, and each is told of by what holds its time.
    async fn assert_told_once(&self, ledger: &Ledger) {
        let (expected, records) = (self.expected().await, self.records().await);
        let in_records: u64 = records.iter().map(|(_, skipped)| skipped.map_or(1, |(_, count)| count)).sum();
        let in_ranges: u64 = ledger.ranges.iter().map(|range| range.count).sum();
        let told = in_records + in_ranges + ledger.before.values().sum::<u64>();
        assert_eq!(told, expected.len() as u64, "{records:?} and {ledger:?} of {expected:?}");
        for due in expected {
            let is_in_record = records.iter().any(|(from, skipped)| *from <= due && due <= skipped.map_or(*from, |(to, _)| to));
            let is_told = is_in_record || ledger.fate_at(due).is_some() || ledger.until.is_some_and(|until| due <= until);
            assert!(is_told, "in no place: {due:?}");
        }
        assert_eq!(self.world.total("ledger_ranges"), i64::try_from(ledger.ranges.len()).unwrap());
    }
}

async fn play(rules: Value, steps: &[Step]) {
    let mut play = Play::begin(rules).await;
    for (at, step) in steps.iter().enumerate() {
        play.step(step).await;
        if at % 6 == 5 {
            play.assert_accounted().await;
        }
    }
    play.assert_accounted().await;
}

#[test]
fn each_occurrence_of_a_job_stands_in_exactly_one_place_whatever_is_done_to_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases: 400, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() };
    proptest!(config, |(rules in rules(), steps in steps())| {
        runtime.block_on(play(rules, &steps));
    });
}
