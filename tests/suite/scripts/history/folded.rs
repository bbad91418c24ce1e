//! `restore_run` of occurrences whose records were trimmed: the ledger tells of each once, before and after.

use std::collections::BTreeMap;

use proptest::prelude::*;
use schedd::engine::Definition;
use schedd::engine::maintenance::full_check::examine;
use schedd::engine::planning::passed_ranges;
use schedd::engine::recovery::restored_ends::Given;
use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    ApplyOrder, ClaimOrder, ClaimReply, InLedger, LedgerAnswer, LedgerRange, RestoreOrder,
    RestoreReply, SkipOrder, SkipReply,
};

use crate::scripts::data::losing::{LATER, give_back, restore, restoring, skipped};
use crate::scripts::world::{World, definition, name, queue, run_of, successor, t};
use crate::support::cases::cases;

fn range(from: i64, to: i64, count: u64, state: RunState, reason: &str) -> LedgerRange {
    let reason = Some(reason.to_owned()).filter(|reason| !reason.is_empty());
    LedgerRange { from: t(from), to: t(to), count, state, reason }
}

async fn ranges(world: &World) -> Vec<LedgerRange> {
    world.store.read_ledger(&name("a")).await.unwrap().ranges
}

/// Trims all that ended of the job `a`.
async fn fold(world: &World) {
    while world.at(8000).forget_runs(Some(&name("a")), t(8000), 0).await.unwrap() > 0 {}
}

#[tokio::test]
async fn a_run_given_back_leaves_the_range_that_counts_it_as_skipped() {
    use RunState::{Skipped, Succeeded};
    // In the middle, at the end, and the first one.
    for (out, from, to) in [(2000, 0, 5000), (5000, 0, 4000), (0, 1000, 5000)] {
        let world = skipped().await;
        fold(&world).await;
        assert_eq!(ranges(&world).await, [range(0, 5000, 6, Skipped, "missed")]);
        assert_eq!(give_back(&world, &[out]).await, Given { restored: 1, ..Given::default() });
        assert_eq!(ranges(&world).await, [range(from, to, 5, Skipped, "missed")], "without {out}");
        assert_eq!(
            (world.total("skipped"), world.total("succeeded"), world.total("ledger_ranges")),
            (5, 1, 1)
        );
        world.assert_sound();
        // Once more changes nothing, neither while it has a record nor when the ledger tells of it.
        for _ in 0..2 {
            let before = world.snapshot();
            assert_eq!(give_back(&world, &[out]).await, Given { known: 1, ..Given::default() });
            assert_eq!(world.snapshot(), before);
            fold(&world).await;
        }
        let mut wanted =
            vec![range(from, to, 5, Skipped, "missed"), range(out, out, 1, Succeeded, "restored")];
        wanted.sort_by_key(|range| range.from);
        assert_eq!(ranges(&world).await, wanted);
        assert!(world.store.read_run(&run_of("a", out)).await.unwrap().is_none());
    }
}

/// A job `a` of every second, due first at 6 s, whose ledger has this range.
async fn with_range(range: &LedgerRange) -> World {
    let world = World::new();
    let text = r#"{"every":"1s","shell":"true"}"#.to_owned();
    world.plant_as(ApplyOrder { definition: text, ..definition("a", 6000) }).await;
    let member = format!("{}:{}:{}:", range.to.as_i64(), range.count, range.state);
    let _: i64 = world.raw("ZADD", "ledger:a", &[&range.from.as_i64().to_string(), &member]);
    world
}

#[tokio::test]
async fn an_end_that_the_ledger_knows_is_not_written_again() {
    // All from 0 to 4 s are there; also at the ends of a range where others may be missing.
    for (count, out) in [(5, 0), (5, 2000), (5, 4000), (4, 0), (4, 4000)] {
        let world = with_range(&range(0, 4000, count, RunState::Failed, "")).await;
        let before = world.snapshot();
        assert_eq!(
            give_back(&world, &[out]).await,
            Given { known: 1, ..Given::default() },
            "{count} {out}"
        );
        assert_eq!(world.snapshot(), before);
    }
    // One is missing, and this may be it.
    let reported = range(0, 4000, 4, RunState::Failed, "");
    let world = with_range(&reported).await;
    assert_eq!(give_back(&world, &[2000]).await, Given { restored: 1, ..Given::default() });
    assert_eq!(ranges(&world).await, [reported]);
    // Between its ends, and no occurrence of the schedule.
    let reported = range(0, 4000, 5, RunState::Skipped, "");
    let world = with_range(&reported).await;
    assert_eq!(give_back(&world, &[2500]).await, Given { restored: 1, ..Given::default() });
    assert_eq!(ranges(&world).await, [reported]);
}

#[tokio::test]
async fn an_end_between_dead_letters_is_known_by_the_range_that_reaches_over_them() {
    let world = with_range(&range(0, 4000, 3, RunState::Succeeded, "")).await;
    for due in [1000, 3000] {
        let id = run_of("a", due).to_string();
        let _: i64 = world.raw(
            "HSET",
            &format!("run:{id}"),
            &["state", "failed", "job", "a", "finished_at", "1"],
        );
        for key in ["dead", "dead:a"] {
            let _: i64 = world.raw("ZADD", key, &["1", &id]);
        }
    }
    let before = world.snapshot();
    assert_eq!(give_back(&world, &[2000]).await, Given { known: 1, ..Given::default() });
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_planned_run_is_given_back_whatever_the_ledger_reports() {
    let reported = range(6000, 6000, 1, RunState::Skipped, "");
    let world = with_range(&reported).await;
    assert_eq!(give_back(&world, &[6000]).await, Given { restored: 1, ..Given::default() });
    assert_eq!(
        (ranges(&world).await, world.job("a").await.pending),
        (vec![reported], Some(run_of("a", 7000)))
    );
}

#[tokio::test]
async fn a_run_older_than_the_ledger_is_one_less_that_was_skipped() {
    let world = skipped().await;
    fold(&world).await;
    let _: i64 = world.raw("DEL", "ledger:a", &[]);
    let _: i64 = world.raw("HDEL", "counters", &["ledger_ranges"]);
    let _: i64 = world.raw(
        "HSET",
        "ledger_before:a",
        &["until", &t(5000).as_i64().to_string(), "skipped", "2"],
    );
    assert_eq!(
        give_back(&world, &[1000, 2000, 3000]).await,
        Given { restored: 3, ..Given::default() }
    );
    assert_eq!(world.raw::<String>("HGET", "ledger_before:a", &["skipped"]), "0");
    assert_eq!((world.total("skipped"), world.total("succeeded")), (4, 3));
    // Later than that it is counted nowhere.
    let _: i64 = world.raw("HSET", "ledger_before:a", &["skipped", "2"]);
    assert_eq!(give_back(&world, &[5001]).await, Given { restored: 1, ..Given::default() });
    assert_eq!(world.raw::<String>("HGET", "ledger_before:a", &["skipped"]), "2");
}

#[tokio::test]
async fn a_run_is_given_back_only_out_of_the_range_that_was_read_and_past_a_bad_ledger() {
    let world = skipped().await;
    fold(&world).await;
    let read = range(0, 5000, 6, RunState::Skipped, "missed");
    let left = Some(SkippedRange { first: t(0), last: t(5000), count: 5 });
    let mark = world.job("a").await.ranges_mark;
    let order = |range: Option<&LedgerRange>| RestoreOrder {
        ranges_mark: mark.clone(),
        in_ledger: range
            .map(|range| InLedger { range: range.clone(), answer: LedgerAnswer::Skipped(left) }),
        ..restoring(&run_of("a", 2000), "", LATER)
    };
    let before = world.snapshot();
    let others =
        [LedgerRange { count: 7, ..read.clone() }, LedgerRange { to: t(4000), ..read.clone() }];
    for wrong in [None, Some(&others[0]), Some(&others[1])] {
        assert_eq!(restore(&world, 7000, &order(wrong)).await, RestoreReply::Stale);
        assert_eq!(world.snapshot(), before);
    }
    assert_eq!(restore(&world, 7000, &order(Some(&read))).await, RestoreReply::Restored);
    for key in ["ledger:a", "ledger_before:a"] {
        let world = skipped().await;
        fold(&world).await;
        let _: i64 = world.raw("DEL", key, &[]);
        let _: i64 = world.raw("RPUSH", key, &["not ours"]);
        assert_eq!(give_back(&world, &[2000]).await.restored, 1);
        assert_eq!(world.raw::<String>("LINDEX", key, &["0"]), "not ours");
    }
}

#[tokio::test]
async fn a_range_is_set_right_only_while_it_reports_what_was_read() {
    let world = skipped().await;
    fold(&world).await;
    let (run, read) = (run_of("a", 2000), range(0, 5000, 6, RunState::Skipped, "missed"));
    let left = Some(SkippedRange { first: t(0), last: t(5000), count: 5 });
    let before = world.snapshot();
    for (run, read) in
        [(&run, LedgerRange { count: 5, ..read.clone() }), (&run_of("a", 6000), read.clone())]
    {
        assert!(!world.store.repair_ledger_range(run, &read, left).await.unwrap());
        assert_eq!(world.snapshot(), before);
    }
    assert!(world.store.repair_ledger_range(&run, &read, left).await.unwrap());
    assert_eq!(
        (ranges(&world).await, world.total("skipped")),
        (vec![LedgerRange { count: 5, ..read }], 5)
    );
}

#[tokio::test]
async fn the_last_of_a_range_is_taken_out_of_it_though_nobody_knows_its_schedule_any_more() {
    let world = with_range(&range(1, 3999, 1, RunState::Skipped, "")).await;
    // The name was used again since, so by which schedule that was is not known.
    let since = t(6000).as_i64();
    let added = format!(r#"{{"at":{since},"what":"added"}}"#);
    let _: i64 = world.raw("ZADD", "audit_log:a", &[&since.to_string(), &added]);
    let _: i64 = world.raw("HSET", "job:a", &["since", &since.to_string()]);
    assert_eq!(give_back(&world, &[2000]).await, Given { restored: 1, ..Given::default() });
    assert_eq!(ranges(&world).await, []);
}

#[tokio::test]
async fn a_run_given_back_before_its_turn_keeps_its_record_until_its_job_has_come_past_it() {
    let world = World::new();
    let text = r#"{"every":"1s","shell":"true"}"#.to_owned();
    let planned = world.plant_as(ApplyOrder { definition: text, ..definition("a", 0) }).await;
    assert_eq!(give_back(&world, &[1000, 3000]).await, Given { restored: 2, ..Given::default() });
    // Each is past what is kept, and would else be planted again, or told as skipped with those beside it.
    fold(&world).await;
    let order = ClaimOrder { successor: Some(successor("a", 1000)), ..world.order(&planned).await };
    assert!(matches!(world.claim(7000, &order).await, ClaimReply::Occupied));
    let definition = Definition::of(world.job("a").await).unwrap();
    let reported = passed_ranges::up_to_recorded(
        &world.at(7000),
        &definition,
        &planned,
        (t(5000), 6, Some(t(6000))),
        (t(0), definition.since()),
    )
    .await;
    assert_eq!(reported.unwrap(), (t(0), 1, Some(t(2000))));
    assert_eq!(ranges(&world).await, []);
    // Its job comes past the first of them.
    let claim = world.win_with(7000, &planned, Overlap::Skip, 2000).await;
    world.succeed(7001, &claim).await;
    fold(&world).await;
    let ended = [
        range(0, 0, 1, RunState::Succeeded, ""),
        range(1000, 1000, 1, RunState::Succeeded, "restored"),
    ];
    assert_eq!(ranges(&world).await, ended);
    assert_eq!(world.state(&run_of("a", 3000)).await, RunState::Succeeded);
    world.assert_sound();
}

#[derive(Debug, Clone)]
enum Step {
    Skip(u64),
    GiveBack(Vec<usize>),
    Trim(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        2 => (1..8_u64).prop_map(Step::Skip),
        3 => prop::collection::vec(0..40_usize, 1..6).prop_map(Step::GiveBack),
        3 => (0..4_usize).prop_map(Step::Trim),
    ];
    prop::collection::vec(one, 4..24)
}

/// Skips stretches of a job, gives some of their runs back in any order and trims in between; then each occurrence is told of once.
async fn play(steps: &[Step]) {
    let world = World::new();
    let text = r#"{"every":"1s","shell":"true"}"#.to_owned();
    let mut next = 0;
    let mut ended: BTreeMap<UnixMillis, RunState> = BTreeMap::new();
    world.plant_as(ApplyOrder { definition: text, ..definition("a", 0) }).await;
    for step in steps {
        match step {
            Step::Skip(count) => {
                let last = next + i64::try_from(count - 1).unwrap() * 1000;
                let order = SkipOrder {
                    run: run_of("a", next),
                    rev: world.job("a").await.rev,
                    lane: queue("default"),
                    reason: "missed",
                    last_due: t(last),
                    count: *count,
                    successor: Some(successor("a", last + 1000)),
                };
                assert_eq!(world.at(last).skip_run(&order).await.unwrap(), SkipReply::Skipped);
                ended.extend((next..=last).step_by(1000).map(|due| (t(due), RunState::Skipped)));
                next = last + 1000;
            }
            Step::GiveBack(places) => {
                let dues = places
                    .iter()
                    .map(|place| i64::try_from(*place).unwrap() * 1000)
                    .filter(|due| *due < next);
                let dues: Vec<i64> = dues.collect();
                let given = give_back(&world, &dues).await;
                assert_eq!(given.restored + given.known, dues.len() as u64);
                ended.extend(dues.into_iter().map(|due| (t(due), RunState::Succeeded)));
            }
            Step::Trim(most) => {
                world.at(next).forget_runs(Some(&name("a")), t(0), *most).await.unwrap();
            }
        }
    }
    world.assert_sound();
    assert_reported_once(&world, &ended).await;
    let found = examine(&world.at(next)).await.unwrap().findings;
    assert!(found.is_empty(), "{found:?}");
    fold(&world).await;
    assert_reported_once(&world, &ended).await;
}

async fn assert_reported_once(world: &World, ended: &BTreeMap<UnixMillis, RunState>) {
    let ledger = world.store.read_ledger(&name("a")).await.unwrap();
    let mut reported: BTreeMap<&str, u64> = BTreeMap::new();
    for range in &ledger.ranges {
        *reported.entry(range.state.as_str()).or_default() += range.count;
    }
    let mut in_ledger = ended.clone();
    for record in world.store.read_history(Some(&name("a")), 0, 1000).await.unwrap().runs {
        let (last, count) = record.skipped.unwrap_or((record.run.due(), 1));
        *reported.entry(record.state.as_str()).or_default() += count;
        in_ledger.remove(&record.run.due());
        in_ledger.retain(|due, state| {
            *state != RunState::Skipped || *due < record.run.due() || last < *due
        });
    }
    let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
    for state in ended.values() {
        *wanted.entry(state.as_str()).or_default() += 1;
    }
    assert_eq!(reported, wanted, "{ledger:?}");
    for (state, count) in
        [("skipped", wanted.get("skipped")), ("succeeded", wanted.get("succeeded"))]
    {
        assert_eq!(
            world.total(state),
            i64::try_from(count.copied().unwrap_or(0)).unwrap(),
            "{state}"
        );
    }
    for (due, state) in &in_ledger {
        assert_eq!(
            ledger.fate_at(*due).map(|range| range.state),
            Some(*state),
            "{due} in {ledger:?}"
        );
    }
    assert_eq!(world.total("ledger_ranges"), i64::try_from(ledger.ranges.len()).unwrap());
}

#[test]
fn each_occurrence_counts_once_in_any_order_of_giving_back_and_trimming() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig {
        cases: cases(40),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in steps())| {
        runtime.block_on(play(&steps));
    });
}
