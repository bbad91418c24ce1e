//! What waits at gates and is paused or edited meanwhile: a one-shot is held and gives its places up, and an edit judges it anew.

use schedd_core::domain::job::job_spec::Overlap;
use schedd_schedule::names::RunId;
use schedd_store::{
    ApplyOrder, ApplyReply, Blocking, ClaimReply, DefinitionChange, Existing, PauseReply,
    ResumeOrder, ResumeReply, Successor,
};

use crate::scripts::world::{World, definition, gate, queue, run_of, t, token, version};

const GATES: &[&str] = &["group:g", "key:k"];

/// `a` runs with the key; the one-shot `b` has its place in the group and waits for the key.
async fn one_waits() -> (World, schedd_store::Claim, RunId) {
    let world = World::new();
    let a = world.plant_once("a", 0).await;
    let b = world.plant_once("b", 1).await;
    let held = world.win_at(1, &a, &["key:k"]).await;
    let reply = world.claim(2, &world.order_at(&b, GATES).await).await;
    assert!(matches!(reply, ClaimReply::Blocked(Blocking::AtGate)), "{reply:?}");
    world.assert_sound();
    (world, held, b)
}

fn stands(world: &World, run: &RunId) -> Vec<String> {
    let all = [
        "gate_holders:group:g",
        "gate_holders:key:k",
        "gate_waiters:key:k",
        "due:default",
        "open:b",
    ];
    all.into_iter()
        .filter(|set| world.score(set, &run.to_string()).is_some())
        .map(str::to_owned)
        .collect()
}

async fn pause(world: &World, offset: i64, run: &RunId) -> PauseReply {
    let record = world.run(run).await;
    world.at(offset).pause_job(&world.job("b").await, Some(&record), &[]).await.unwrap()
}

#[tokio::test]
async fn a_one_shot_that_waits_at_a_gate_is_held_by_a_pause_and_runs_after_the_resume() {
    let (world, held, b) = one_waits().await;
    assert_eq!(stands(&world, &b), ["gate_holders:group:g", "gate_waiters:key:k", "open:b"]);
    assert_eq!(
        world.at(3).pause_job(&world.job("b").await, None, &[]).await.unwrap(),
        PauseReply::Stale,
        "its run was not read"
    );
    let unread = schedd_store::RunRecord { places: Vec::new(), ..world.run(&b).await };
    let paused = world.at(3).pause_job(&world.job("b").await, Some(&unread), &[]).await.unwrap();
    assert_eq!(paused, PauseReply::Paused, "the gates it stands at are asked for");
    assert!(stands(&world, &b).is_empty(), "{:?}", stands(&world, &b));
    assert_eq!((world.job("b").await.paused_run, world.total("waiting")), (Some(b.clone()), 0));
    world.assert_sound();
    world.succeed(4, &held).await;
    world.open_all(5).await;
    assert!(stands(&world, &b).is_empty(), "it stays where it is");
    let job = world.job("b").await;
    let planted = Some(Successor { run: b.clone(), ready: b.due() });
    let order = ResumeOrder {
        name: job.name,
        rev: job.rev,
        lane: job.lane,
        paused_run: job.paused_run,
        skipped: None,
        planted,
    };
    assert_eq!(world.at(6).resume_job(&order).await.unwrap(), ResumeReply::Resumed);
    world.assert_sound();
    let claim = world.win_at(7, &b, GATES).await;
    world.succeed(8, &claim).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_woken_one_shot_is_paused_and_yields_its_place_but_a_begun_one_goes_on() {
    let (world, held, b) = one_waits().await;
    let c = world.plant_once("c", 5).await;
    world.claim(5, &world.order_at(&c, &["key:k"]).await).await;
    world.succeed(6, &held).await;
    world.open_all(6).await;
    assert_eq!(
        stands(&world, &b),
        ["gate_holders:group:g", "gate_holders:key:k", "due:default", "open:b"]
    );
    assert_eq!(pause(&world, 7, &b).await, PauseReply::Paused);
    assert!(stands(&world, &b).is_empty());
    world.open_all(7).await;
    assert!(world.score("gate_holders:key:k", &c.to_string()).is_some(), "the next was woken");
    world.assert_sound();
    let claim = world.win_at(8, &c, &["key:k"]).await;
    let record = world.run(&c).await;
    assert_eq!(
        world.at(9).pause_job(&world.job("c").await, Some(&record), &[]).await.unwrap(),
        PauseReply::Paused
    );
    assert_eq!(world.job("c").await.paused_run, None, "it goes on");
    world.succeed(10, &claim).await;
    world.assert_sound();
}

/// An edit of `b` that leaves its schedule, by which its runs pass other gates.
async fn edit(world: &World, offset: i64) -> ApplyReply {
    let job = world.job("b").await;
    let order = ApplyOrder {
        read: Some((job.rev, job.lane)),
        definition: version("other"),
        token: token(),
        change: DefinitionChange::Rest,
        existing: Existing::Edit,
        planted: None,
        is_once: true,
        lane: queue("default"),
        old_gates: GATES.iter().map(|name| gate(name)).collect(),
        ..definition("b", 1)
    };
    world.at(offset).apply_job(&order).await.unwrap()
}

#[tokio::test]
async fn an_edit_that_changes_what_a_waiting_run_has_to_pass_has_it_judged_anew() {
    let (world, held, b) = one_waits().await;
    assert_eq!(edit(&world, 3).await, ApplyReply::Updated);
    assert_eq!(
        stands(&world, &b),
        ["gate_holders:group:g", "due:default", "open:b"],
        "ready now, with the places it has"
    );
    assert_eq!((world.score("due:default", &b.to_string()), world.total("waiting")), (Some(3), 0));
    world.assert_sound();
    let known_places = GATES.iter().map(|name| gate(name)).collect();
    let order = schedd_store::ClaimOrder { known_places, ..world.order_at(&b, &["group:g"]).await };
    let claim = World::won(world.claim(4, &order).await);
    assert_eq!(world.run(&b).await.waiting_for, None);
    world.succeed(5, &claim).await;
    world.succeed(6, &held).await;
    world.open_all(6).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_run_judged_anew_that_still_finds_its_gate_shut_waits_by_its_due_time() {
    let (world, held, b) = one_waits().await;
    let c = world.plant_once("c", 5).await;
    world.claim(5, &world.order_at(&c, &["key:k"]).await).await;
    let by_hand = world.by_hand("b", 6).await;
    let order = schedd_store::ClaimOrder {
        overlap: Overlap::Allow,
        ..world.order_at(&by_hand, &["key:k"]).await
    };
    world.claim(6, &order).await;
    assert_eq!(edit(&world, 7).await, ApplyReply::Updated);
    assert!(
        world.score("due:default", &by_hand.to_string()).is_some(),
        "one asked for by hand too"
    );
    let reply = world.claim(8, &world.order_at(&b, GATES).await).await;
    assert!(matches!(reply, ClaimReply::Blocked(Blocking::AtGate)), "{reply:?}");
    let first: Vec<String> = world.raw("ZRANGE", "gate_waiters:key:k", &["0", "0"]);
    assert_eq!(first, [b.to_string()], "before c, which is due later");
    assert_eq!(world.run(&b).await.waited_from, Some(t(2)));
    world.succeed(9, &held).await;
    world.open_all(9).await;
    assert!(world.score("gate_holders:key:k", &run_of("b", 1).to_string()).is_some());
    world.assert_sound();
}
