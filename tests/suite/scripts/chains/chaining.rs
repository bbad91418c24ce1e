//! `plant_child`, and what asks for it: each end of a parent is given to its children once, and a child runs once an occurrence.

use schedd_core::domain::consistency::ChainPlaces;
use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::{
    ApplyOrder, ApplyReply, ChainEndRecord, ChildReply, Claim, JobRecord, MendReply, RetryReply,
    SkipOrder, SkipReply, Store, Verdict,
};

use crate::scripts::jobs::retrying::retrial;
use crate::scripts::world::{World, definition, name, run_of, successor, t, token, version};

/// A child with this rule and these parents.
pub(crate) fn child(job: &str, after: &str) -> ApplyOrder {
    ApplyOrder { planted: None, after: after.to_owned(), ..definition(job, 0) }
}

/// Gives the job `job` other parents.
pub(super) async fn edit(world: &World, at: i64, job: &str, after: &str) {
    let record = world.job(job).await;
    let edit = ApplyOrder {
        definition: version(&format!("v{after}")),
        read: Some((record.rev, record.lane)),
        token: token(),
        ..child(job, after)
    };
    assert_eq!(world.at(at).apply_job(&edit).await.unwrap(), ApplyReply::Updated);
}

pub(super) async fn add(world: &World, job: &str, after: &str) {
    add_at(world, -1000, job, after).await;
}

async fn add_at(world: &World, at: i64, job: &str, after: &str) {
    world.at(at).apply_job(&child(job, after)).await.unwrap();
}

async fn waiting(store: &Store) -> Vec<ChainEndRecord> {
    store.list_chain_ends(0, 100).await.unwrap().0
}

/// Gives all waiting ends to children, also those that this leads to.
pub(super) async fn give(world: &World, offset: i64) -> Vec<ChildReply> {
    let (store, mut replies) = (world.at(offset), Vec::new());
    loop {
        let ends = waiting(&store).await;
        if ends.is_empty() {
            return replies;
        }
        for end in &ends {
            let reply =
                store.plant_children(&[(end, Lane::default_lane())]).await.unwrap().remove(0);
            replies.push(reply.unwrap());
        }
    }
}

async fn end(world: &World, offset: i64, claim: &Claim, state: RunState) {
    world.finish(offset, claim, Verdict::Final(state)).await;
}

/// Claims the run `run`, which ends in `state`.
pub(super) async fn run_to(world: &World, offset: i64, run: &RunId, state: RunState) -> Claim {
    let claim = world.win(offset, run).await;
    end(world, offset + 1, &claim, state).await;
    claim
}

#[tokio::test]
async fn a_child_runs_once_when_all_parents_have_succeeded() {
    let world = World::new();
    let root = world.plant("root", 0).await;
    add(&world, "a", "after root").await;
    add(&world, "b", "after root").await;
    add(&world, "c", "after a b").await;
    run_to(&world, 0, &root, RunState::Succeeded).await;
    assert_eq!(give(&world, 2).await, [ChildReply::Planted, ChildReply::Planted]);
    run_to(&world, 3, &run_of("a", 0), RunState::Succeeded).await;
    assert_eq!(give(&world, 5).await, [ChildReply::Awaits(1)]);
    run_to(&world, 6, &run_of("b", 0), RunState::Succeeded).await;
    assert_eq!(give(&world, 8).await, [ChildReply::Planted]);
    let ends = world.store.read_parent_ends(&run_of("c", 0)).await.unwrap();
    let said: Vec<_> =
        ends.iter().map(|end| (end.job.as_str(), &*end.state, end.exit_code)).collect();
    assert_eq!(said, [("a", "succeeded", Some(0)), ("b", "succeeded", Some(0))]);
    run_to(&world, 9, &run_of("c", 0), RunState::Succeeded).await;
    assert_eq!(waiting(&world.store).await.len(), 0);
    let left: Vec<String> = world.server(&["KEYS", "*chain:*"]);
    assert_eq!(left, [] as [String; 0]);
    world.assert_sound();
}

#[tokio::test]
async fn an_end_is_given_once_however_many_nodes_give_it() {
    let world = World::new();
    let root = world.plant("root", 0).await;
    add(&world, "a", "after root").await;
    run_to(&world, 0, &root, RunState::Succeeded).await;
    let ends = waiting(&world.store).await;
    assert_eq!(give(&world, 1).await, [ChildReply::Planted]);
    let before = world.snapshot();
    let again = world.at(2).plant_children(&[(&ends[0], Lane::default_lane())]).await.unwrap();
    assert!(matches!(again[..], [Ok(ChildReply::Gone)]), "{again:?}");
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn each_rule_decides_by_the_ends_of_all_parents() {
    for (rule, states, runs) in [
        ("after", [RunState::Succeeded, RunState::Failed], false),
        ("after_any", [RunState::Succeeded, RunState::Failed], true),
        ("after_any", [RunState::Failed, RunState::TimedOut], false),
        ("after_failed", [RunState::Succeeded, RunState::Lost], true),
        ("after_failed", [RunState::Succeeded, RunState::Cancelled], false),
        ("after_finished", [RunState::Cancelled, RunState::Failed], true),
    ] {
        let world = World::new();
        let root = world.plant("root", 0).await;
        for parent in ["a", "b"] {
            add(&world, parent, "after root").await;
        }
        add(&world, "c", &format!("{rule} a b")).await;
        run_to(&world, 0, &root, RunState::Succeeded).await;
        give(&world, 2).await;
        for (parent, state) in ["a", "b"].into_iter().zip(states) {
            run_to(&world, 3, &run_of(parent, 0), state).await;
        }
        let replies = give(&world, 5).await;
        let last = if runs { ChildReply::Planted } else { ChildReply::Skipped };
        assert_eq!(replies, [ChildReply::Awaits(1), last], "{rule} {states:?}");
        let record = world.run(&run_of("c", 0)).await;
        assert_eq!(record.state == RunState::Scheduled, runs, "{rule} {states:?}");
        if !runs {
            assert_eq!(record.reason.as_deref(), Some("parent"));
        }
        world.assert_sound();
    }
}

#[tokio::test]
async fn a_child_that_is_skipped_ends_its_own_children_too() {
    let world = World::new();
    let root = world.plant("root", 0).await;
    add(&world, "a", "after root").await;
    add(&world, "b", "after a").await;
    add(&world, "report", "after_finished b").await;
    run_to(&world, 0, &root, RunState::Failed).await;
    let replies = give(&world, 2).await;
    assert_eq!(replies, [ChildReply::Skipped, ChildReply::Skipped, ChildReply::Planted]);
    assert_eq!(world.total("skipped"), 2);
    world.assert_sound();
}

#[tokio::test]
async fn a_skipped_range_of_the_root_is_one_skipped_range_of_its_child() {
    let world = World::new();
    let root = world.plant("root", 0).await;
    add(&world, "a", "after root").await;
    add(&world, "b", "after_finished a").await;
    let order = SkipOrder {
        run: root,
        rev: world.job("root").await.rev,
        lane: Lane::default_lane(),
        reason: "missed",
        last_due: t(5000),
        count: 6,
        successor: Some(successor("root", 6000)),
    };
    assert_eq!(world.at(5500).skip_run(&order).await.unwrap(), SkipReply::Skipped);
    assert_eq!(give(&world, 5501).await, [ChildReply::Skipped, ChildReply::Planted]);
    let record = world.run(&run_of("a", 0)).await;
    assert_eq!(record.skipped, Some((t(5000), 6)));
    assert_eq!(world.total("skipped"), 12);
    world.assert_sound();
}

#[tokio::test]
async fn a_retried_parent_that_succeeds_lets_its_skipped_child_run() {
    let world = World::new();
    let root = world.plant("root", 0).await;
    add(&world, "a", "after root").await;
    add(&world, "b", "after a").await;
    let claim = run_to(&world, 0, &root, RunState::Failed).await;
    assert_eq!(give(&world, 2).await, [ChildReply::Skipped, ChildReply::Skipped]);
    let order = retrial(&claim, &world.job("root").await);
    assert_eq!(world.at(3).retry_run(&order).await.unwrap(), RetryReply::Retried);
    run_to(&world, 4, &root, RunState::Succeeded).await;
    assert_eq!(give(&world, 6).await, [ChildReply::Planted]);
    run_to(&world, 7, &run_of("a", 0), RunState::Succeeded).await;
    assert_eq!(give(&world, 9).await, [ChildReply::Planted]);
    assert_eq!(world.total("skipped"), 0);
    world.assert_sound();
}

#[tokio::test]
async fn a_retried_parent_runs_no_child_a_second_time() {
    let world = World::new();
    let root = world.plant("root", 0).await;
    add(&world, "a", "after_finished root").await;
    let mut claim = run_to(&world, 0, &root, RunState::Failed).await;
    assert_eq!(give(&world, 2).await, [ChildReply::Planted]);
    run_to(&world, 3, &run_of("a", 0), RunState::Succeeded).await;
    // The record of the child is trimmed meanwhile.
    for is_trimmed in [false, true] {
        if is_trimmed {
            world.at(50).forget_runs(Some(&name("a")), t(40), usize::MAX).await.unwrap();
        }
        let order = retrial(&claim, &world.job("root").await);
        assert_eq!(world.at(60).retry_run(&order).await.unwrap(), RetryReply::Retried);
        claim = run_to(&world, 61, &root, RunState::Failed).await;
        assert_eq!(give(&world, 63).await, [ChildReply::Known], "{is_trimmed}");
    }
    world.assert_sound();
}

#[tokio::test]
async fn manual_runs_and_backfills_of_the_root_bring_their_children() {
    let world = World::new();
    world.plant("root", 9000).await;
    add(&world, "a", "after root").await;
    add(&world, "b", "after a").await;
    let run = world.by_hand("root", 5).await;
    run_to(&world, 5, &run, RunState::Succeeded).await;
    assert_eq!(give(&world, 7).await, [ChildReply::Planted]);
    let of_child = run.of_job(name("a"));
    run_to(&world, 8, &of_child, RunState::Succeeded).await;
    assert_eq!(give(&world, 9).await, [ChildReply::Planted]);
    run_to(&world, 10, &run.of_job(name("b")), RunState::Succeeded).await;
    // A manual run of a child, and a rerun, are runs of their own.
    let alone = world.by_hand("a", 20).await;
    run_to(&world, 20, &alone, RunState::Succeeded).await;
    let rerun = RunId::rerun(name("root"), t(5), "abc123").unwrap();
    world.at(30).plant_manual(&rerun, &Lane::default_lane(), None).await.unwrap();
    run_to(&world, 30, &rerun, RunState::Succeeded).await;
    assert_eq!(give(&world, 40).await, []);
    world.assert_sound();
}

#[tokio::test]
async fn a_child_without_this_parent_or_with_another_lane_gets_no_end() {
    let world = World::new();
    let root = world.plant("root", 0).await;
    add(&world, "a", "after root").await;
    run_to(&world, 0, &root, RunState::Succeeded).await;
    let ends = waiting(&world.store).await;
    let other = "other".parse().unwrap();
    let reply = world.at(2).plant_children(&[(&ends[0], other)]).await.unwrap();
    assert!(matches!(reply[..], [Ok(ChildReply::Stale)]), "{reply:?}");
    assert_eq!(give(&world, 3).await, [ChildReply::Planted]);
    // A child that was added after the occurrence began takes part in the next one.
    add_at(&world, 4, "b", "after_finished root a").await;
    run_to(&world, 5, &run_of("a", 0), RunState::Succeeded).await;
    assert_eq!(give(&world, 7).await, [ChildReply::Unrelated]);
    world.assert_sound();
}

#[tokio::test]
async fn an_end_waits_while_too_many_occurrences_wait_for_parents() {
    let world = World::new();
    let root = world.plant("root", 0).await;
    add(&world, "a", "after root other").await;
    for at in 0..10_000 {
        let _: i64 = world.raw("HSET", "chain:a", &[&at.to_string(), "{}"]);
    }
    run_to(&world, 0, &root, RunState::Succeeded).await;
    let ends = waiting(&world.store).await;
    let reply = world.at(2).plant_children(&[(&ends[0], Lane::default_lane())]).await.unwrap();
    assert!(matches!(reply[..], [Ok(ChildReply::Full)]), "{reply:?}");
    assert_eq!(waiting(&world.store).await.len(), 1);
}

#[tokio::test]
async fn an_edit_moves_the_links_and_a_job_without_parents_has_none() {
    let world = World::new();
    world.plant("root", 0).await;
    world.plant("other", 0).await;
    add(&world, "a", "after root").await;
    let former = [format!("other a {}", t(3).as_i64()), format!("root a {}", t(2).as_i64())];
    for (at, after, links) in [
        (1, "after_any other root", vec!["other a", "root a"]),
        (2, "after other", vec!["other a", &former[1]]),
        (3, "", vec![&*former[0], &*former[1]]),
    ] {
        edit(&world, at, "a", after).await;
        let found: Vec<String> = world.raw("ZRANGE", "chains", &["0", "-1"]);
        assert_eq!(found, links);
    }
    world.assert_sound();
}

#[tokio::test]
async fn a_child_is_claimed_by_its_overlap_rule_and_not_as_late() {
    let world = World::new();
    let root = world.plant("root", 0).await;
    add(&world, "a", "after root").await;
    for (offset, run) in [(0, root), (1000, run_of("root", 1000))] {
        let claim = world.win_with(offset, &run, Overlap::Skip, offset + 1000).await;
        end(&world, offset + 1, &claim, RunState::Succeeded).await;
        give(&world, offset + 2).await;
    }
    world.win(90_000, &run_of("a", 0)).await;
    let order = world.order(&run_of("a", 1000)).await;
    world.claim(90_001, &order).await;
    assert_eq!(world.run(&run_of("a", 1000)).await.reason.as_deref(), Some("overlap"));
    world.assert_sound();
}

#[tokio::test]
async fn links_and_occurrences_that_disagree_with_the_definition_are_repaired() {
    let world = World::new();
    world.plant("root", 0).await;
    add(&world, "a", "after root").await;
    let record = world.job("a").await;
    let facts = |strays: &[RunId]| ChainPlaces {
        name: name("a"),
        wanted: "after root".to_owned(),
        stored: String::new(),
        listed: [name("gone")].into(),
        strays: strays.to_vec(),
        lost_ends: Vec::new(),
    };
    let repair = async |record: &JobRecord, facts: &ChainPlaces| {
        world.store.repair_chain(Some(record), facts).await.unwrap()
    };
    assert_eq!(repair(&record, &facts(&[])).await, MendReply::Sound);
    let _: i64 = world.raw("DEL", "chains", &[]);
    let _: i64 = world.raw("ZADD", "chains", &["0", "gone a"]);
    let _: i64 = world.raw("HDEL", "job:a", &["after"]);
    let id = run_of("a", 0).to_string();
    let occurrence = id.split_once('@').unwrap().1;
    let _: i64 = world.raw("HSET", "chain:a", &[occurrence, "{}"]);
    let _: i64 = world.raw("HSET", &format!("run:{id}"), &["state", "succeeded"]);
    let reply = repair(&record, &facts(&[run_of("a", 0), run_of("a", 9)])).await;
    let MendReply::Mended(done) = reply else { panic!("{reply:?}") };
    assert_eq!(done.len(), 4, "{done:?}");
    let links: Vec<String> = world.raw("ZRANGE", "chains", &["0", "-1"]);
    assert_eq!(links, ["root a"]);
    assert_eq!(world.raw::<i64>("EXISTS", "chain:a", &[]), 0);
    let _: i64 = world.raw("HSET", "job:a", &["rev", "7"]);
    assert_eq!(repair(&record, &facts(&[])).await, MendReply::Stale);
}
