//! Whatever is done to a job, in whatever order: each of its occurrences stands in exactly one place, indexes and records
//! agree, and no two of its runs execute at once unless that is allowed.

mod judging;
mod play;

use crate::support::cases::cases;
use proptest::prelude::*;
use schedd::engine::maintenance::full_check::examine;
use serde_json::{Value, json};

pub(crate) use play::Play;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Advance(i64),
    Claim,
    Finish(usize),
    Fail(usize),
    Die(usize),
    Lose(usize),
    Pause,
    Resume,
    EditSchedule(usize),
    EditRest,
    Cancel(usize),
    Manual,
    Remove,
    /// A node that was away gives back that it executed one of the occurrences so far, which Redis lost.
    GiveBack(usize),
    /// What is past so many is trimmed.
    Trim(usize),
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        6 => prop_oneof![1_000..40_000_i64, 60_000..900_000_i64].prop_map(Step::Advance),
        8 => Just(Step::Claim),
        3 => (0..4_usize).prop_map(Step::Finish),
        1 => (0..4_usize).prop_map(Step::Fail),
        1 => (0..4_usize).prop_map(Step::Die),
        1 => (0..4_usize).prop_map(Step::Lose),
        1 => Just(Step::Pause),
        2 => Just(Step::Resume),
        2 => (0..5_usize).prop_map(Step::EditSchedule),
        1 => Just(Step::EditRest),
        1 => (0..4_usize).prop_map(Step::Cancel),
        1 => Just(Step::Manual),
        1 => (0..6_usize).prop_map(Step::Trim),
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

/// Steps with losses of data in between, of which what was done comes back at any time and in any order.
fn steps_with_losses() -> impl Strategy<Value = Vec<Step>> {
    let losses = prop::collection::vec((any::<prop::sample::Index>(), 0..40_usize), 0..25);
    (steps(), losses).prop_map(|(mut steps, losses)| {
        for (at, which) in losses {
            steps.insert(at.index(steps.len() + 1), Step::GiveBack(which));
        }
        steps
    })
}

/// Nine occurrences that were skipped and are told of by the ledger alone, and what became of their schedule since.
async fn folded_long_ago(since: &[Step]) -> Play {
    let rules = json!({"overlap": "skip", "catch_up": {"mode": "skip"}});
    let mut play = Play::begin(rules).await;
    for step in [Step::Advance(599_000), Step::Claim, Step::Trim(0)].iter().chain(since) {
        Box::pin(play.step(step)).await;
    }
    play.assert_accounted().await;
    play
}

#[tokio::test]
async fn a_given_back_run_leaves_its_ledger_range_whatever_became_of_its_schedule() {
    let anew = |which| vec![Step::Remove, Step::EditSchedule(which)];
    let edits = vec![
        Step::EditSchedule(1),
        Step::Advance(1_000),
        Step::EditSchedule(4),
        Step::Advance(1_000),
        Step::EditSchedule(2),
    ];
    let paused = vec![
        Step::Pause,
        Step::Advance(90_000),
        Step::Resume,
        Step::EditSchedule(1),
        Step::Trim(0),
    ];
    for since in [vec![Step::Remove], anew(1), anew(4), edits, paused] {
        let mut play = folded_long_ago(&since).await;
        let reported = play.reported_in_ranges().await;
        for given in 1..=3 {
            Box::pin(play.step(&Step::GiveBack(3 + given))).await;
            assert_eq!(
                (play.given_back.len(), play.reported_in_ranges().await),
                (given, reported - given as u64),
                "{since:?}"
            );
        }
        play.assert_accounted().await;
        let exam = examine(&play.world.at(play.now)).await.unwrap();
        assert!(exam.findings.is_empty(), "{since:?}: {:#?}", exam.findings);
    }
}

#[tokio::test]
async fn doctor_sees_a_range_that_reports_otherwise_than_the_schedule_of_then_had() {
    let mut play = folded_long_ago(&[Step::Remove, Step::EditSchedule(4)]).await;
    let range = play
        .world
        .store
        .read_ledger(&crate::scripts::world::name("a"))
        .await
        .unwrap()
        .ranges
        .remove(0);
    let (from, to) = (range.from.as_i64().to_string(), range.to.as_i64());
    let _: i64 =
        play.world.raw("ZREM", "ledger:a", &[&format!("{to}:{}:skipped:missed", range.count)]);
    let _: i64 = play.world.raw(
        "ZADD",
        "ledger:a",
        &[&from, &format!("{to}:{}:skipped:missed", range.count + 1)],
    );
    play.now += 1;
    let exam = examine(&play.world.at(play.now)).await.unwrap();
    let reported: Vec<String> = exam.findings.iter().map(ToString::to_string).collect();
    let wanted = format!("its schedule has {} in that time", range.count);
    assert!(reported.len() == 1 && reported[0].contains(&wanted), "{reported:?}");
}

/// A spread run stands between the ends of a range that does not count it.
#[tokio::test]
async fn a_run_given_back_leaves_a_range_that_does_not_count_a_spread_run() {
    use Step::{Advance, Claim, EditRest, EditSchedule, GiveBack, Resume, Trim};
    let catch_up = json!({"max_age": null, "max_count": 3, "mode": "all", "spread": "1m"});
    let rules = json!({"catch_up": catch_up, "overlap": "skip"});
    let mut steps = vec![Claim; 4];
    steps.extend([GiveBack(1), Claim, Advance(3_513), GiveBack(6), Advance(1_000), EditRest]);
    steps.extend([Resume, GiveBack(31), Claim, Advance(88_415), Claim, GiveBack(23), GiveBack(27)]);
    steps.extend([Advance(138_449), Advance(32_170), EditSchedule(3), Advance(347_321), Claim]);
    steps.extend([GiveBack(9), Claim, Claim, Claim, GiveBack(35), Claim, Advance(509_102), Claim]);
    steps.extend([Advance(274_965), Trim(0), GiveBack(10), Claim]);
    play(rules, &steps).await;
}

async fn play(rules: Value, steps: &[Step]) {
    let mut play = Play::begin(rules).await;
    for (at, step) in steps.iter().enumerate() {
        Box::pin(play.step(step)).await;
        if at % 6 == 5 {
            play.assert_accounted().await;
        }
    }
    play.assert_accounted().await;
    let exam = examine(&play.world.at(play.now)).await.unwrap();
    assert!(exam.findings.is_empty() && exam.partial.is_none(), "{:#?}", exam.findings);
}

#[test]
fn given_back_runs_stand_in_exactly_one_place_whatever_the_time_and_order() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig {
        cases: cases(60),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    };
    proptest!(config, |(rules in rules(), steps in steps_with_losses())| {
        runtime.block_on(play(rules, &steps));
    });
}

#[test]
fn each_occurrence_of_a_job_stands_in_exactly_one_place_whatever_is_done_to_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig {
        cases: cases(120),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    };
    proptest!(config, |(rules in rules(), steps in steps())| {
        runtime.block_on(play(rules, &steps));
    });
}

#[tokio::test]
async fn a_given_back_run_leaves_a_range_that_overlaps_another() {
    let mut play = Play::begin(json!({"overlap": "skip", "catch_up": {"mode": "skip"}})).await;
    for step in [
        Step::Advance(119_998),
        Step::Claim,
        Step::Advance(119_998),
        Step::EditSchedule(1),
        Step::Advance(370_998),
        Step::Claim,
        Step::Trim(0),
    ] {
        Box::pin(play.step(&step)).await;
    }
    let reported = play.reported_in_ranges().await;
    Box::pin(play.step(&Step::GiveBack(19))).await;
    assert_eq!((play.given_back.len(), play.reported_in_ranges().await), (1, reported - 1));
    play.assert_accounted().await;
}
