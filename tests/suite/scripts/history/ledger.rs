//! The ledger: what a trimmed record told stays told, in ranges and then in counts, whatever the order of ends and trims.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use schedd::engine::explanation::{Ask, gather};
use schedd_core::domain::explain::Subject;
use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    ApplyOrder, CancelReply, Claim, Ledger, LedgerRange, SkipOrder, SkipReply, StopRunning, Verdict,
};

use crate::scripts::jobs::removing::removal;
use crate::scripts::world::{World, definition, name, queue, run_of, successor, t};
use crate::support::cases::cases;

/// From one occurrence to the next, ms.
const STEP: i64 = 1_000;

fn range(from: i64, to: i64, count: u64, state: RunState, reason: &str) -> LedgerRange {
    let reason = Some(reason.to_owned()).filter(|reason| !reason.is_empty());
    LedgerRange { from: t(from), to: t(to), count, state, reason }
}

/// A job `a` of which runs end in these states, one after the other.
async fn ended(world: &World, states: &[RunState]) {
    world.plant("a", 0).await;
    for (due, state) in (0..).zip(states) {
        let claim = world.win_with(due, &run_of("a", due), Overlap::Skip, due + 1).await;
        world.finish(due, &claim, Verdict::Final(*state)).await;
    }
}

async fn ledger_of_a(world: &World) -> Ledger {
    world.store.read_ledger(&name("a")).await.unwrap()
}

#[tokio::test]
async fn trimmed_runs_with_equal_ends_form_one_range_and_another_end_starts_anew() {
    use RunState::{Failed, Succeeded};
    let world = World::new();
    ended(&world, &[Succeeded, Succeeded, Succeeded, Failed, Failed, Succeeded]).await;
    assert_eq!(
        ledger_of_a(&world).await,
        Ledger::default(),
        "a record is its own entry while it is kept"
    );
    world.at(100).forget_runs(None, t(100), usize::MAX).await.unwrap();
    let wanted =
        [range(0, 2, 3, Succeeded, ""), range(3, 4, 2, Failed, ""), range(5, 5, 1, Succeeded, "")];
    assert_eq!(ledger_of_a(&world).await.ranges, wanted);
    assert_eq!(
        (world.total("trimmed_runs"), world.total("ledger_ranges"), world.total("failed")),
        (6, 3, 2)
    );
    assert_eq!(ledger_of_a(&world).await.fate_at(t(6)), None);
    world.assert_sound();
}

#[tokio::test]
async fn a_given_back_run_joins_only_the_range_it_follows_without_the_journal_name() {
    use RunState::Succeeded;
    let world = World::new();
    ended(&world, &[Succeeded; 6]).await;
    let given = |due: i64, node: &str, follows: i64| {
        let reason = format!("restored by the journal of {node}");
        let facts =
            ["reason", &reason, "restored", node, "follows", &t(follows).as_i64().to_string()];
        let _: i64 = world.raw("HSET", &format!("run:{}", run_of("a", due)), &facts);
    };
    given(2, "n1", 1);
    given(3, "n2", 2);
    // Between this one and the one before something is missing.
    given(4, "n1", 9);
    world.at(100).forget_runs(None, t(100), usize::MAX).await.unwrap();
    let wanted = [
        range(0, 3, 4, Succeeded, ""),
        range(4, 4, 1, Succeeded, ""),
        range(5, 5, 1, Succeeded, ""),
    ];
    assert_eq!(ledger_of_a(&world).await.ranges, wanted);
    let claimed = [
        "state",
        "lost",
        "restored",
        "n1",
        "reason",
        "Redis lost the record of the start; the journal of n1 shows that the run started",
    ];
    let _: i64 = world.raw("HSET", &format!("run:{}", run_of("a", 7)), &claimed);
    let _: i64 = world.raw("ZADD", "history", &["1", &run_of("a", 7).to_string()]);
    // Its job has come past it.
    let _: i64 = world.raw("HSET", "job:a", &["pending", &run_of("a", 8).to_string()]);
    world.at(100).forget_runs(None, t(100), usize::MAX).await.unwrap();
    assert_eq!(
        ledger_of_a(&world).await.ranges[3],
        range(7, 7, 1, RunState::Lost, "Redis lost the record of the start")
    );
}

#[tokio::test]
async fn a_run_trimmed_twice_is_in_the_ledger_once() {
    let world = World::new();
    ended(&world, &[RunState::Failed, RunState::Succeeded]).await;
    let dead = run_of("a", 0);
    for _ in 0..2 {
        world.store.purge_dead(std::slice::from_ref(&dead)).await.unwrap();
        let _: i64 = world.raw("ZADD", "dead", &["1", &dead.to_string()]);
    }
    let _: i64 = world.raw("ZREM", "dead", &[&dead.to_string()]);
    assert_eq!(ledger_of_a(&world).await.ranges, [range(0, 0, 1, RunState::Failed, "")]);
}

#[tokio::test]
async fn a_dead_letter_trimmed_from_history_enters_the_ledger_once_its_record_goes() {
    let world = World::new();
    ended(&world, &[RunState::Failed, RunState::Succeeded]).await;
    world.at(10).forget_runs(None, t(0), 0).await.unwrap();
    assert_eq!(ledger_of_a(&world).await.ranges, [range(1, 1, 1, RunState::Succeeded, "")]);
    world.at(10).forget_dead(None, t(0), 0).await.unwrap();
    let wanted = [range(0, 0, 1, RunState::Failed, ""), range(1, 1, 1, RunState::Succeeded, "")];
    assert_eq!(
        ledger_of_a(&world).await.ranges,
        wanted,
        "out of turn, so it has a range of its own"
    );
}

#[tokio::test]
async fn a_range_goes_on_behind_no_dead_letter_that_stays() {
    use RunState::{Failed, Succeeded};
    let world = World::new();
    ended(&world, &[Succeeded, Failed, Succeeded, Succeeded, Failed, Failed, Succeeded]).await;
    world.at(10).forget_runs(None, t(0), 0).await.unwrap();
    let reported = [
        range(0, 0, 1, Succeeded, ""),
        range(2, 3, 2, Succeeded, ""),
        range(6, 6, 1, Succeeded, ""),
    ];
    assert_eq!(ledger_of_a(&world).await.ranges, reported);
    assert!(world.store.read_run(&run_of("a", 1)).await.unwrap().is_some());
    world.assert_sound();
}

#[tokio::test]
async fn a_range_of_skipped_ones_ends_at_the_run_the_next_were_skipped_for() {
    use RunState::{Skipped, Succeeded};
    let world = World::new();
    world.plant("a", 0).await;
    for open in [0, 30] {
        let claim = world.win_with(open, &run_of("a", open), Overlap::Skip, open + 10).await;
        for due in [open + 10, open + 20] {
            let order = world.order_with(&run_of("a", due), Overlap::Skip, due + 10).await;
            world.claim(due, &order).await;
        }
        world.succeed(open + 25, &claim).await;
    }
    world.at(100).forget_runs(None, t(0), 0).await.unwrap();
    let reported = [
        range(0, 0, 1, Succeeded, ""),
        range(10, 20, 2, Skipped, "overlap"),
        range(30, 30, 1, Succeeded, ""),
        range(40, 50, 2, Skipped, "overlap"),
    ];
    assert_eq!(ledger_of_a(&world).await.ranges, reported);
}

#[tokio::test]
async fn past_a_thousand_ranges_the_oldest_are_only_counted() {
    let world = World::new();
    world.plant("a", 100_000).await;
    let mut pipeline = redis::pipe();
    for due in 0..2_100_i64 {
        let id = run_of("a", due).to_string();
        let state = ["succeeded", "failed", "skipped"][usize::try_from(due % 3).unwrap()];
        pipeline.hset_multiple(
            world.key(&format!("run:{id}")),
            &[("state", state), ("reason", ""), ("finished_at", "1")],
        );
        for index in ["history", "history:a"] {
            pipeline.zadd(world.key(index), &id, t(due).as_i64());
        }
    }
    pipeline.exec(&mut world.redis.connection()).unwrap();
    while world.at(9000).forget_runs(None, t(9000), usize::MAX).await.unwrap() > 0 {}
    let ledger = ledger_of_a(&world).await;
    assert_eq!((ledger.ranges.len(), ledger.until), (1_000, Some(t(1_099))));
    assert_eq!(ledger.ranges[0].from, t(1_100));
    let counted: BTreeMap<&str, u64> =
        ledger.before.iter().map(|(state, count)| (state.as_str(), *count)).collect();
    assert_eq!(counted, [("succeeded", 367), ("failed", 367), ("skipped", 366)].into());
    assert_eq!((world.total("ledger_ranges"), world.total("trimmed_ranges")), (1_000, 1_100));
}

#[tokio::test]
async fn the_ledger_of_a_job_goes_with_the_job_and_none_is_begun_for_one_that_is_gone() {
    let world = World::new();
    ended(&world, &[RunState::Succeeded, RunState::Succeeded]).await;
    world.at(10).forget_runs(None, t(0), 1).await.unwrap();
    world.at(11).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    assert_eq!(
        ledger_of_a(&world).await.ranges.len(),
        1,
        "a job that ended is still accounted for"
    );
    assert_eq!(world.at(12).forget_jobs(t(5000), 0).await.unwrap(), 1);
    world.at(13).forget_runs(None, t(5000), 0).await.unwrap();
    assert_eq!(ledger_of_a(&world).await, Ledger::default());
    let keys = world.snapshot();
    assert!(!keys.keys().any(|key| key.contains("ledger")), "{keys:?}");
    assert_eq!(world.total("ledger_ranges"), 0);
}

#[tokio::test]
async fn a_job_without_a_ledger_that_is_forgotten_leaves_the_count_of_the_others() {
    let world = World::new();
    ended(&world, &[RunState::Succeeded, RunState::Failed]).await;
    world.at(10).forget_runs(None, t(10), 0).await.unwrap();
    world.plant("b", 100_000).await;
    world.at(11).remove_job(&removal(&world.job("b").await, StopRunning::No)).await.unwrap();
    assert_eq!(world.at(12).forget_jobs(t(5000), 0).await.unwrap(), 1);
    assert_eq!(world.total("ledger_ranges"), 2);
}

#[tokio::test]
async fn a_damaged_ledger_stops_no_trimming_and_what_it_could_not_take_is_counted() {
    for (key, command) in [("ledger:a", "RPUSH"), ("ledger_before:a", "RPUSH")] {
        let world = World::new();
        ended(&world, &[RunState::Succeeded, RunState::Succeeded]).await;
        let _: i64 = world.raw(command, key, &["not ours"]);
        assert_eq!(world.at(10).forget_runs(None, t(10), 0).await.unwrap(), 2);
        assert_eq!(world.raw::<String>("LINDEX", key, &["0"]), "not ours");
        assert_eq!((world.total("unledgered"), world.total("trimmed_runs")), (2, 2));
    }
    // Members that are no ranges are passed over, and end like others.
    let world = World::new();
    ended(&world, &[RunState::Succeeded]).await;
    for member in ["", "x", "1:2", "9:9:9:", "a:1:succeeded:"] {
        let _: i64 = world.raw("ZADD", "ledger:a", &["9e15", member]);
    }
    world.at(10).forget_runs(None, t(10), 0).await.unwrap();
    assert_eq!(ledger_of_a(&world).await.ranges, [range(0, 0, 1, RunState::Succeeded, "")]);
}

#[tokio::test]
async fn a_reason_may_hold_anything_and_only_its_beginning_is_kept() {
    let world = World::new();
    let long = "x".repeat(500);
    for (at, reason) in (0..).zip(["a:b::c", "zwei\nZeilen ü", &long]) {
        let run = if at == 0 { world.plant("a", 0).await } else { run_of("a", at) };
        let claim = world.win_with(at, &run, Overlap::Skip, at + 1).await;
        world
            .at(at)
            .finish_run(&claim, &Verdict::Final(RunState::Failed), reason, &[], "")
            .await
            .unwrap();
    }
    world.at(10).forget_runs(None, t(10), 0).await.unwrap();
    let reasons: Vec<String> =
        ledger_of_a(&world).await.ranges.into_iter().filter_map(|range| range.reason).collect();
    assert_eq!(reasons, ["a:b::c", "zwei\nZeilen ü", &"x".repeat(200)]);
}

#[derive(Debug, Clone)]
enum Step {
    Run(Option<RunState>),
    Skip(u64),
    Cancel,
    EndOpen(usize, RunState),
    ByHand,
    Trim(usize),
    TrimDead(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let state = || {
        prop::sample::select(vec![
            RunState::Succeeded,
            RunState::Succeeded,
            RunState::Failed,
            RunState::Lost,
        ])
    };
    let one = prop_oneof![
        8 => prop_oneof![4 => state().prop_map(Some), 1 => Just(None)].prop_map(Step::Run),
        2 => (1..6_u64).prop_map(Step::Skip),
        1 => Just(Step::Cancel),
        3 => (0..3_usize, state()).prop_map(|(at, state)| Step::EndOpen(at, state)),
        1 => Just(Step::ByHand),
        3 => (0..6_usize).prop_map(Step::Trim),
        1 => (0..3_usize).prop_map(Step::TrimDead),
    ];
    prop::collection::vec(one, 5..80)
}

/// A job played by hand, and what became of each of its occurrences.
struct Play {
    world: World,
    now: i64,
    next: i64,
    open: Vec<Claim>,
    ended: BTreeMap<UnixMillis, RunState>,
}

impl Play {
    async fn step(&mut self, step: &Step) {
        self.now += 1;
        let (now, due) = (self.now, self.next);
        let run = run_of("a", due);
        match step {
            Step::Run(state) => {
                let claim =
                    self.world.win_with(due.max(now), &run, Overlap::Allow, due + STEP).await;
                self.next += STEP;
                self.now = due.max(now);
                match state {
                    Some(state) => self.end(&claim, *state).await,
                    None => self.open.push(claim),
                }
            }
            Step::Skip(count) => {
                let behind = i64::try_from(count - 1).unwrap() * STEP;
                let order = SkipOrder {
                    run,
                    rev: self.world.job("a").await.rev,
                    lane: queue("default"),
                    reason: "missed",
                    last_due: t(due + behind),
                    count: *count,
                    successor: Some(successor("a", due + behind + STEP)),
                };
                self.now = now.max(due + behind);
                assert_eq!(
                    self.world.at(self.now).skip_run(&order).await.unwrap(),
                    SkipReply::Skipped
                );
                self.next = due + behind + STEP;
                let skipped_range = (due..=due + behind).step_by(usize::try_from(STEP).unwrap());
                self.ended.extend(skipped_range.map(|due| (t(due), RunState::Skipped)));
            }
            Step::Cancel => {
                let order = self.world.cancelling(&run, Some(due + STEP)).await;
                self.now = now.max(due);
                assert_eq!(
                    self.world.at(self.now).cancel_run(&order).await.unwrap(),
                    CancelReply::Cancelled
                );
                self.next += STEP;
                self.ended.insert(t(due), RunState::Cancelled);
            }
            Step::EndOpen(at, state) if *at < self.open.len() => {
                let claim = self.open.remove(*at);
                self.end(&claim, *state).await;
            }
            Step::ByHand => {
                let run = RunId::manual(name("a"), t(now), "hand").unwrap();
                self.world.at(now).plant_manual(&run, &queue("default"), None).await.unwrap();
                let order = schedd_store::ClaimOrder {
                    overlap: Overlap::Allow,
                    ..self.world.order(&run).await
                };
                let claim = World::won(self.world.claim(now, &order).await);
                self.world.succeed(now, &claim).await;
            }
            Step::Trim(most) => {
                self.world.at(now).forget_runs(Some(&name("a")), t(0), *most).await.unwrap();
            }
            Step::TrimDead(most) => {
                self.world.at(now).forget_dead(None, t(0), *most).await.unwrap();
            }
            Step::EndOpen(..) => {}
        }
    }

    async fn end(&mut self, claim: &Claim, state: RunState) {
        self.world.finish(self.now, claim, Verdict::Final(state)).await;
        self.ended.insert(claim.run.due(), state);
    }

    /// Each occurrence is a record, in a range or counted before them; or open, or planned.
    async fn assert_accounted(&self) {
        self.world.assert_sound();
        let (mut trimmed, mut open) = (self.ended.clone(), BTreeSet::new());
        let prefix = self.world.key("run:");
        for key in self.world.snapshot().into_keys() {
            let Some(run) = key.strip_prefix(&prefix).map(|id| id.parse::<RunId>().unwrap()) else {
                continue;
            };
            if run.is_manual() {
                continue;
            }
            let record = self.world.run(&run).await;
            if !record.state.is_final() {
                open.insert(run.due());
                continue;
            }
            let last = record.skipped.map_or(run.due(), |(last, _)| last);
            let reported: Vec<UnixMillis> =
                trimmed.range(run.due()..=last).map(|(due, _)| *due).collect();
            assert_eq!(
                reported.len() as u64,
                record.skipped.map_or(1, |(_, count)| count),
                "{run}"
            );
            for due in reported {
                assert_eq!(
                    trimmed.remove(&due),
                    Some(record.state),
                    "{due} is told twice, or otherwise"
                );
            }
        }
        assert_eq!(open, self.open.iter().map(|claim| claim.run.due()).collect());
        let ledger = ledger_of_a(&self.world).await;
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for (state, count) in ledger.ranges.iter().map(|range| (range.state.as_str(), range.count))
        {
            *counts.entry(state).or_default() += count;
        }
        for (state, count) in &ledger.before {
            *counts.entry(state).or_default() += count;
        }
        let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
        for (due, state) in &trimmed {
            *wanted.entry(state.as_str()).or_default() += 1;
            assert_eq!(
                ledger.fate_at(*due).map(|range| range.state),
                Some(*state),
                "{due} in {ledger:?}"
            );
        }
        assert_eq!(counts, wanted, "{ledger:?}");
        assert_eq!(self.world.total("ledger_ranges"), i64::try_from(ledger.ranges.len()).unwrap());
    }
}

impl Play {
    /// Of each occurrence whose record is gone it is told for sure how it ended, whatever stays between.
    async fn assert_reported_for_sure(&self) {
        let store = self.world.at(self.now.max(self.next));
        for (due, state) in &self.ended {
            if store.read_run(&RunId::regular(name("a"), *due)).await.unwrap().is_some() {
                continue;
            }
            let facts =
                Box::pin(gather(&store, &name("a"), &Ask::At(*due), None)).await.unwrap().unwrap();
            let is_reported = match &facts.subject {
                Subject::Ledger { state: reported, is_sure, .. } => {
                    *is_sure && reported == state.as_str()
                }
                Subject::InRange { run, .. } => run.state == *state,
                _ => false,
            };
            assert!(
                is_reported,
                "{due} {state}: {:?} in {:?}",
                facts.subject,
                ledger_of_a(&self.world).await
            );
        }
    }
}

async fn play(steps: &[Step]) {
    let world = World::new();
    let text = r#"{"every":"1s","shell":"true"}"#.to_owned();
    world.plant_as(ApplyOrder { definition: text, ..definition("a", 0) }).await;
    let mut play = Play { world, now: 0, next: 0, open: Vec::new(), ended: BTreeMap::new() };
    for (at, step) in steps.iter().enumerate() {
        play.step(step).await;
        if at % 8 == 7 {
            play.assert_accounted().await;
        }
    }
    // The dead letters stay.
    play.world.at(play.now).forget_runs(None, t(0), 1).await.unwrap();
    Box::pin(play.assert_reported_for_sure()).await;
    play.world.at(play.now + 1).forget_runs(None, t(play.now + 2), usize::MAX).await.unwrap();
    play.assert_accounted().await;
}

#[test]
fn each_occurrence_is_accounted_for_once_however_its_run_ends_and_is_trimmed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig {
        cases: cases(60),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in steps())| {
        runtime.block_on(play(&steps));
    });
}
