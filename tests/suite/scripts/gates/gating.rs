//! Gates as the scripts judge them: keys, groups and `not_while`, who waits, who is woken, and who gives a place up.

use std::collections::BTreeSet;
use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::queue::gate::PerKey;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::{
    ApplyOrder, Blocking, CancelReply, Claim, ClaimOrder, ClaimReply, FinishReply, RecoverReply,
    RemoveReply, RunWait, StopRunning, Verdict,
};

use crate::scripts::claims::recovering::{expired, recovery};
use crate::scripts::jobs::removing::removal;
use crate::scripts::world::{
    World, claimant, definition, gate, name, queue, run_of, t, token, version,
};

pub(crate) const KEY: &[&str] = &["key:k"];

pub(crate) fn is_queued(reply: &ClaimReply) -> bool {
    matches!(reply, ClaimReply::Blocked(Blocking::AtGate))
}

/// Jobs that are each due once, at these offsets, and pass these gates.
pub(crate) async fn yard(jobs: &[(&str, i64)]) -> World {
    let world = World::new();
    for (job, offset) in jobs {
        world.plant_once(job, *offset).await;
    }
    world
}

async fn try_at(world: &World, offset: i64, run: &RunId, gates: &[&str]) -> ClaimReply {
    world.claim(offset, &world.order_at(run, gates).await).await
}

async fn wait_at(world: &World, offset: i64, run: &RunId, gates: &[&str]) {
    let reply = try_at(world, offset, run, gates).await;
    assert!(is_queued(&reply), "{run}: {reply:?}");
    world.assert_sound();
}

fn has_place(world: &World, gate: &str, run: &RunId) -> bool {
    world.score(&format!("gate_holders:{gate}"), &run.to_string()).is_some()
}

fn waits(world: &World, gate: &str, run: &RunId) -> bool {
    world.score(&format!("gate_waiters:{gate}"), &run.to_string()).is_some()
}

/// When the gate is to be looked at, as ms from zero.
pub(crate) fn wake(world: &World, gate: &str) -> Option<i64> {
    world.score("gate_timers", gate)
}

#[tokio::test]
async fn a_run_whose_key_is_taken_waits_and_is_woken_by_its_release_with_its_place() {
    let world = yard(&[("a", 0), ("b", 1)]).await;
    let (a, b) = (run_of("a", 0), run_of("b", 1));
    let held = world.win_at(1, &a, KEY).await;
    wait_at(&world, 2, &b, KEY).await;
    let record = world.run(&b).await;
    assert_eq!((record.state, record.waiting_for.as_deref()), (RunState::Scheduled, Some("key k")));
    assert_eq!((record.behind, record.waited_from), (Some(a.clone()), Some(t(2))));
    assert_eq!(world.score("open:b", &b.to_string()), Some(1), "it is open while it waits");
    assert_eq!((world.total("waiting"), wake(&world, "key:k")), (1, None));
    world.succeed(10, &held).await;
    assert_eq!(wake(&world, "key:k"), Some(10), "a place is free");
    world.assert_sound();
    assert_eq!(world.open(10, "key:k").await, 1);
    assert_eq!(
        (world.score("due:default", &b.to_string()), wake(&world, "key:k")),
        (Some(10), None)
    );
    assert!(has_place(&world, "key:k", &b), "reserved until its claim");
    assert_eq!(world.open(11, "key:k").await, 0, "a call repeated gives nothing");
    world.assert_sound();
    let held = world.win_at(12, &b, KEY).await;
    assert_eq!(world.run(&b).await.waiting_for, None);
    world.succeed(13, &held).await;
    world.assert_sound();
    assert!(
        world.raw::<Vec<String>>("KEYS", "*key:k", &[]).is_empty(),
        "nothing is left of a key nobody uses"
    );
}

#[tokio::test]
async fn the_record_of_a_run_has_each_of_its_waits() {
    const BOTH: &[&str] = &["group:g", "key:k"];
    let world = yard(&[("a", 0), ("b", 1), ("c", 0)]).await;
    let (a, b, c) = (run_of("a", 0), run_of("b", 1), run_of("c", 0));
    let wait = |from, until: Option<i64>, cause: &str| RunWait {
        from: t(from),
        until: until.map(t),
        cause: cause.to_owned(),
    };
    let by_key = world.win_at(1, &a, KEY).await;
    let by_group = world.win_at(1, &c, &["group:g"]).await;
    wait_at(&world, 2, &b, BOTH).await;
    assert_eq!(world.run(&b).await.waits, [wait(2, None, "group g")]);
    world.succeed(10, &by_group).await;
    assert_eq!(world.open(11, "group:g").await, 1);
    wait_at(&world, 12, &b, BOTH).await;
    world.succeed(20, &by_key).await;
    assert_eq!(world.open(21, "key:k").await, 1);
    let held = world.win_at(22, &b, BOTH).await;
    let both = [wait(2, Some(11), "group g"), wait(12, Some(21), "key k")];
    assert_eq!(world.run(&b).await.waits, both);
    world.succeed(23, &held).await;
    world.assert_sound();
    assert_eq!(world.run(&b).await.waits, both, "they stay after its end");
}

#[tokio::test]
async fn a_one_shot_that_a_clock_ahead_brought_to_a_gate_waits_for_its_time_after_all() {
    let world = yard(&[("a", 0), ("b", 100_000)]).await;
    let (a, b) = (run_of("a", 0), run_of("b", 100_000));
    let held = world.win_at(1, &a, KEY).await;
    wait_at(&world, 100_001, &b, KEY).await;
    // The clock is right again, and the key is free.
    world.succeed(10, &held).await;
    assert_eq!(world.open(10, "key:k").await, 1);
    let reply = try_at(&world, 11, &b, KEY).await;
    assert!(matches!(reply, ClaimReply::Blocked(Blocking::Withdrawn)), "{reply:?}");
    world.assert_sound();
    assert!(!has_place(&world, "key:k", &b), "the key is free for others meanwhile");
    assert_eq!(world.job("b").await.pending, Some(b.clone()));
    assert_eq!(world.score("due:default", &b.to_string()), Some(100_000));
    let listed: Vec<String> = world.raw("ZRANGE", "job_gates", &["0", "-1"]);
    assert_eq!(listed, ["default key:k b"], "nodes find the run behind others of the key");
    let claim = world.win_at(100_000, &b, KEY).await;
    world.succeed(100_010, &claim).await;
    world.assert_sound();
}

#[tokio::test]
async fn runs_that_a_clock_ahead_had_wait_for_each_other_are_planned_again_in_order() {
    let world = World::new();
    world.plant("a", 0).await;
    let one = Overlap::Queue { max: 2 };
    let first = world.win_with(0, &run_of("a", 0), one, 50_000).await;
    for due in [50_000, 60_000] {
        let order = world.order_with(&run_of("a", due), one, due + 10_000).await;
        let reply = world.claim(60_001, &order).await;
        assert!(matches!(reply, ClaimReply::Blocked(Blocking::Waiting)), "{reply:?}");
    }
    world.assert_sound();
    world.succeed(10, &first).await;
    for due in [50_000, 60_000] {
        let reply = world.claim(11, &world.order(&run_of("a", due)).await).await;
        assert!(matches!(reply, ClaimReply::Blocked(Blocking::Withdrawn)), "{reply:?}");
        world.assert_sound();
    }
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 50_000)));
    assert_eq!(world.score("due:default", "a@1790000070000"), None, "the later run is not due");
    let held = world.win_with(50_000, &run_of("a", 50_000), one, 60_000).await;
    world.succeed(50_010, &held).await;
    world.win_with(60_000, &run_of("a", 60_000), one, 70_000).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_later_run_does_not_take_the_place_an_earlier_one_was_woken_for() {
    let world = yard(&[("a", 0), ("b", 1), ("c", 2), ("d", 3)]).await;
    let held = world.win_at(5, &run_of("a", 0), KEY).await;
    wait_at(&world, 5, &run_of("c", 2), KEY).await;
    wait_at(&world, 5, &run_of("b", 1), KEY).await;
    world.succeed(6, &held).await;
    // Nobody has looked at the gate yet: there is room, and one that came before waits.
    wait_at(&world, 6, &run_of("d", 3), KEY).await;
    world.open(7, "key:k").await;
    assert!(has_place(&world, "key:k", &run_of("b", 1)), "the first by due, not by when it came");
    for (job, offset) in [("b", 1), ("c", 2), ("d", 3)] {
        let claim = world.win_at(10 * offset, &run_of(job, offset), KEY).await;
        world.succeed(10 * offset + 1, &claim).await;
        world.open_all(10 * offset + 1).await;
    }
    world.assert_sound();
}

#[tokio::test]
async fn an_earlier_run_takes_a_free_place_before_later_ones_that_wait() {
    let world = yard(&[("a", 0), ("b", 1), ("c", 2)]).await;
    let held = world.win_at(5, &run_of("a", 0), KEY).await;
    wait_at(&world, 5, &run_of("c", 2), KEY).await;
    world.succeed(6, &held).await;
    let held = world.win_at(6, &run_of("b", 1), KEY).await;
    assert_eq!(world.open(7, "key:k").await, 0);
    world.succeed(8, &held).await;
    assert_eq!(world.open(8, "key:k").await, 1);
    world.assert_sound();
}

#[tokio::test]
async fn so_many_of_a_key_run_at_once_as_it_allows() {
    let world = yard(&[("a", 0), ("b", 1), ("c", 2), ("d", 3)]).await;
    let two = PerKey { limit: Some(2), rate: None };
    let mut claims = Vec::new();
    for (job, offset) in [("a", 0), ("b", 1), ("c", 2), ("d", 3)] {
        let order = ClaimOrder { per_key: two, ..world.order_at(&run_of(job, offset), KEY).await };
        match world.claim(5, &order).await {
            ClaimReply::Claimed(claim) => claims.push(claim),
            reply => assert!(is_queued(&reply), "{reply:?}"),
        }
    }
    assert_eq!(claims.len(), 2);
    world.succeed(6, &claims[0]).await;
    assert_eq!(world.open(6, "key:k").await, 1);
    world.succeed(7, &claims[1]).await;
    assert_eq!(world.open(7, "key:k").await, 1);
    world.assert_sound();
}

#[tokio::test]
async fn the_rate_of_a_key_opens_its_gate_at_the_time_it_allows() {
    let world = yard(&[("a", 0), ("b", 1), ("c", 2), ("d", 3)]).await;
    let rate: schedd_core::domain::queue::rate::Rate = "2/1s".parse().unwrap();
    let rated = PerKey { limit: None, rate: Some(rate) };
    let try_one = async |offset: i64, job: &str, due: i64| {
        let order = ClaimOrder { per_key: rated, ..world.order_at(&run_of(job, due), KEY).await };
        world.claim(offset, &order).await
    };
    for (job, due) in [("a", 0), ("b", 1)] {
        World::won(try_one(10, job, due).await);
    }
    assert!(is_queued(&try_one(10, "c", 2).await), "the burst is used up");
    assert!(is_queued(&try_one(10, "d", 3).await));
    assert_eq!(wake(&world, "key:k"), Some(510), "half a second a run");
    assert_eq!(world.open(509, "key:k").await, 0);
    assert_eq!(wake(&world, "key:k"), Some(510));
    assert_eq!(world.open(510, "key:k").await, 1);
    assert_eq!(wake(&world, "key:k"), Some(1010));
    World::won(try_one(511, "c", 2).await);
    assert_eq!(world.open(1010, "key:k").await, 1);
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_waits_at_a_later_gate_keeps_the_places_it_has() {
    let world = yard(&[("a", 0), ("b", 1), ("c", 2)]).await;
    let both = ["group:g", "key:k"];
    let held = world.win_at(5, &run_of("a", 0), KEY).await;
    wait_at(&world, 5, &run_of("b", 1), &both).await;
    assert!(
        has_place(&world, "group:g", &run_of("b", 1)) && waits(&world, "key:k", &run_of("b", 1))
    );
    wait_at(&world, 5, &run_of("c", 2), &["group:g"]).await;
    world.succeed(6, &held).await;
    world.open_all(6).await;
    let held = world.win_at(7, &run_of("b", 1), &both).await;
    assert_eq!(held.places, [gate("group:g"), gate("key:k")]);
    assert!(
        is_queued(&try_at(&world, 7, &run_of("c", 2), &["group:g"]).await)
            || waits(&world, "group:g", &run_of("c", 2))
    );
    world.succeed(8, &held).await;
    world.open_all(8).await;
    world.win_at(9, &run_of("c", 2), &["group:g"]).await;
    world.assert_sound();
}

#[tokio::test]
async fn places_a_definition_needs_no_more_are_given_up_at_the_claim() {
    let world = yard(&[("a", 0), ("b", 1), ("c", 2)]).await;
    let held = world.win_at(5, &run_of("a", 0), KEY).await;
    wait_at(&world, 5, &run_of("b", 1), &["group:g", "key:k"]).await;
    wait_at(&world, 5, &run_of("c", 2), &["group:g"]).await;
    world.succeed(6, &held).await;
    world.open_all(6).await;
    let order = world.order_at(&run_of("b", 1), &["key:other"]).await;
    let reply = world.claim(7, &order).await;
    let ClaimReply::Places(gates) = reply else { panic!("{reply:?}") };
    assert_eq!(gates, [gate("group:g"), gate("key:k")]);
    world.assert_sound();
    let claim = World::won(world.claim(7, &ClaimOrder { known_places: gates, ..order }).await);
    assert_eq!(world.run(&claim.run).await.places, [gate("key:other")]);
    world.open_all(7).await;
    assert!(has_place(&world, "group:g", &run_of("c", 2)));
    world.assert_sound();
}

/// Two jobs of which `a` is not to run while `b` does.
async fn apart() -> World {
    let world = World::new();
    let shy = |job: &str, offset| ApplyOrder {
        is_once: true,
        not_while: [name("b")].into(),
        ..definition(job, offset)
    };
    world.plant_as(shy("a", 0)).await;
    world.plant_as(shy("a2", 1)).await;
    for (job, offset) in [("b", 2), ("b2", 3)] {
        world.plant_once(job, offset).await;
    }
    world
}

const APART: &[&str] = &["job:b"];

#[tokio::test]
async fn a_job_others_are_not_to_run_beside_has_to_pass_the_gate_of_its_own_name() {
    let world = apart().await;
    let reply = try_at(&world, 5, &run_of("b", 2), &[]).await;
    assert!(matches!(reply, ClaimReply::NeedsOwnGate), "{reply:?}");
    world.win_at(5, &run_of("b", 2), APART).await;
    wait_at(&world, 6, &run_of("a", 0), APART).await;
    assert_eq!(world.run(&run_of("a", 0)).await.waiting_for.as_deref(), Some("job b"));
    World::won(try_at(&world, 6, &run_of("b2", 3), &[]).await);
    // What is gone shuns nobody.
    world.plant_once("z", 9).await;
    let edited =
        ApplyOrder { not_while: BTreeSet::new(), definition: version("h2"), ..definition("a", 0) };
    let job = world.job("a2").await;
    let edited = ApplyOrder {
        name: name("a2"),
        read: Some((job.rev, job.lane)),
        change: schedd_store::DefinitionChange::Rest,
        planted: None,
        ..edited
    };
    assert_eq!(world.at(7).apply_job(&edited).await.unwrap(), schedd_store::ApplyReply::Updated);
    assert_eq!(world.raw::<Vec<String>>("ZRANGE", "not_while", &["0", "-1"]), ["b a"]);
}

#[tokio::test]
async fn owners_and_guests_of_a_job_s_gate_never_run_together_and_take_it_in_due_order() {
    let world = apart().await;
    let first = world.win_at(5, &run_of("a", 0), APART).await;
    let second = world.win_at(5, &run_of("a2", 1), APART).await;
    wait_at(&world, 5, &run_of("b", 2), APART).await;
    world
        .plant_as(ApplyOrder {
            is_once: true,
            not_while: [name("b")].into(),
            ..definition("a3", 4)
        })
        .await;
    wait_at(&world, 6, &run_of("a3", 4), APART).await;
    world.succeed(7, &first).await;
    world.open_all(7).await;
    assert!(waits(&world, "job:b", &run_of("b", 2)), "one guest is still in");
    world.succeed(8, &second).await;
    world.open_all(8).await;
    assert!(
        has_place(&world, "job:b", &run_of("b", 2)) && waits(&world, "job:b", &run_of("a3", 4))
    );
    let owner = world.win_at(9, &run_of("b", 2), APART).await;
    world.succeed(10, &owner).await;
    world.open_all(10).await;
    world.win_at(11, &run_of("a3", 4), APART).await;
    world.assert_sound();
}

#[tokio::test]
async fn one_that_began_before_there_was_the_rule_is_waited_for() {
    let world = yard(&[("b", 0)]).await;
    let running = world.win(1, &run_of("b", 0)).await;
    world
        .plant_as(ApplyOrder { is_once: true, not_while: [name("b")].into(), ..definition("a", 2) })
        .await;
    wait_at(&world, 5, &run_of("a", 2), APART).await;
    assert_eq!(wake(&world, "job:b"), Some(1_005), "its end wakes nobody");
    assert_eq!(world.open(1_005, "job:b").await, 0);
    world.succeed(1_500, &running).await;
    assert_eq!(world.open(2_005, "job:b").await, 1);
    assert_eq!(world.raw::<i64>("EXISTS", "not_while_recent", &[]), 0, "that was once");
    world.win_at(2_006, &run_of("a", 2), APART).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_waits_or_was_woken_can_be_cancelled_and_the_next_gets_its_place() {
    let world = yard(&[("a", 0), ("b", 1), ("c", 2), ("d", 3)]).await;
    let held = world.win_at(5, &run_of("a", 0), KEY).await;
    for (job, due) in [("b", 1), ("c", 2), ("d", 3)] {
        wait_at(&world, 5, &run_of(job, due), KEY).await;
    }
    for _ in 0..2 {
        let order = world.cancelling(&run_of("b", 1), None).await;
        assert_eq!(world.at(6).cancel_run(&order).await.unwrap(), CancelReply::Cancelled);
        world.assert_sound();
    }
    world.succeed(7, &held).await;
    world.open_all(7).await;
    assert!(has_place(&world, "key:k", &run_of("c", 2)));
    let order = world.cancelling(&run_of("c", 2), None).await;
    assert_eq!(world.at(8).cancel_run(&order).await.unwrap(), CancelReply::Cancelled);
    world.open_all(8).await;
    assert!(has_place(&world, "key:k", &run_of("d", 3)));
    world.assert_sound();
}

#[tokio::test]
async fn a_lost_and_a_handed_back_run_give_their_places_up() {
    let world = yard(&[("a", 0), ("b", 1)]).await;
    let held = world.win_at(5, &run_of("a", 0), KEY).await;
    wait_at(&world, 5, &run_of("b", 1), KEY).await;
    // As one that does not know of the places asks.
    let reply =
        world.at(20_000).recover_run(&expired(&held, 10_005), &recovery(None)).await.unwrap();
    assert_eq!(reply, RecoverReply::Recovered);
    world.assert_sound();
    world.open_all(20_000).await;
    let second = world.win_at(20_001, &run_of("b", 1), KEY).await;
    wait_at(&world, 20_001, &run_of("a", 0), KEY).await;
    let known = Claim { places: Vec::new(), ..second };
    assert_eq!(world.finish(20_002, &known, Verdict::Release).await, FinishReply::Released);
    assert_eq!(
        world.finish(20_002, &known, Verdict::Release).await,
        FinishReply::Released,
        "however often"
    );
    world.assert_sound();
    world.open_all(20_003).await;
    let first = world.win_at(20_004, &run_of("a", 0), KEY).await;
    assert_eq!(
        world.finish(20_005, &first, Verdict::Retry(Duration::from_secs(60))).await,
        FinishReply::Retrying(t(80_005))
    );
    world.open_all(20_005).await;
    world.win_at(20_006, &run_of("b", 1), KEY).await;
    world.assert_sound();
}

#[tokio::test]
async fn an_end_written_back_after_a_loss_gives_up_what_the_run_stood_at() {
    let world = yard(&[("a", 0), ("b", 1), ("c", 2)]).await;
    let held = world.win_at(5, &run_of("a", 0), KEY).await;
    wait_at(&world, 5, &run_of("b", 1), KEY).await;
    wait_at(&world, 5, &run_of("c", 2), KEY).await;
    let _: () = world.raw("SET", "epoch", &["20-n1-b"]);
    for run in [run_of("b", 1), run_of("a", 0)] {
        let order =
            crate::scripts::data::losing::restoring(&run, "20-n1-b", held.fence.as_u64() + 5);
        let replies = world.at(30).restore_runs(&[order]).await.unwrap();
        assert!(matches!(replies[0], Ok(schedd_store::RestoreReply::Restored)), "{replies:?}");
        world.assert_sound();
    }
    world.open_all(30).await;
    assert!(has_place(&world, "key:k", &run_of("c", 2)));
}

#[tokio::test]
async fn a_claim_repeated_with_its_token_neither_waits_twice_nor_gives_a_place_up() {
    let world = yard(&[("a", 0), ("b", 1)]).await;
    let order = world.order_at(&run_of("a", 0), KEY).await;
    let orders = [order, world.order_at(&run_of("b", 1), KEY).await];
    for round in 0..2 {
        let replies = world
            .at(5)
            .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), "one", &orders)
            .await
            .unwrap();
        assert!(matches!(&replies[0], ClaimReply::Claimed(_)), "{replies:?}");
        assert!(
            if round == 0 {
                is_queued(&replies[1])
            } else {
                matches!(replies[1], ClaimReply::Gone)
            },
            "{replies:?}"
        );
        world.assert_sound();
    }
}

#[tokio::test]
async fn blocked_runs_take_no_slot_and_nothing_is_claimed_beyond_the_slots() {
    let world = yard(&[("a", 0), ("b", 1), ("c", 2), ("d", 3)]).await;
    let _held = world.win_at(5, &run_of("a", 0), KEY).await;
    let mut orders = vec![world.order_at(&run_of("b", 1), KEY).await];
    for (job, due) in [("c", 2), ("d", 3)] {
        orders.push(world.order(&run_of(job, due)).await);
    }
    for _ in 0..2 {
        let replies = world
            .at(6)
            .claim_runs(1, &claimant("n1"), &queue("default"), "one", &orders)
            .await
            .unwrap();
        assert!(matches!(&replies[1..], [ClaimReply::Claimed(_), ClaimReply::Full]), "{replies:?}");
    }
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_waits_goes_back_to_its_own_lane() {
    let world = yard(&[("a", 0)]).await;
    let lane: Lane = "batch!5".parse().unwrap();
    world.plant_as(ApplyOrder { lane: lane.clone(), is_once: true, ..definition("b", 1) }).await;
    let held = world.win_at(5, &run_of("a", 0), KEY).await;
    let order = world.order_at(&run_of("b", 1), KEY).await;
    let replies = world
        .at(5)
        .claim_runs(usize::MAX, &claimant("n1"), &lane, &token(), std::slice::from_ref(&order))
        .await
        .unwrap();
    assert!(is_queued(&replies[0]));
    world.succeed(6, &held).await;
    // The call begins without any lane, and asks for the one it needs.
    assert_eq!(world.open(6, "key:k").await, 1);
    assert_eq!(world.score("due:batch!5", &run_of("b", 1).to_string()), Some(6));
    world.assert_sound();
}

#[tokio::test]
async fn of_a_job_that_waits_at_a_gate_later_runs_are_judged_by_its_overlap_rule() {
    let world = yard(&[("x", 0)]).await;
    world.plant("a", 0).await;
    let held = world.win_at(0, &run_of("x", 0), KEY).await;
    let order = |order: ClaimOrder| ClaimOrder { gates: vec![gate("key:k")], ..order };
    let first = order(world.order_with(&run_of("a", 0), Overlap::Skip, 1000).await);
    assert!(is_queued(&world.claim(0, &first).await));
    world.assert_sound();
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 1000)), "its successor is planted");
    let second = order(world.order_with(&run_of("a", 1000), Overlap::Skip, 2000).await);
    assert!(matches!(world.claim(1000, &second).await, ClaimReply::Blocked(Blocking::Skipped)));
    // Under `replace` the one that waits is claimed at once and ends there.
    let third = order(world.order_with(&run_of("a", 2000), Overlap::Replace, 3000).await);
    assert!(matches!(world.claim(2000, &third).await, ClaimReply::Blocked(Blocking::Waiting)));
    world.assert_sound();
    let again = order(world.order(&run_of("a", 0)).await);
    assert!(matches!(world.claim(2001, &again).await, ClaimReply::Blocked(Blocking::Cancelled)));
    assert!(is_queued(&world.claim(2002, &order(world.order(&run_of("a", 2000)).await)).await));
    world.succeed(2003, &held).await;
    world.open_all(2003).await;
    world.win_at(2004, &run_of("a", 2000), KEY).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_waits_and_is_replaced_in_one_call_is_counted_right() {
    let world = yard(&[("x", 0)]).await;
    world.plant("a", 0).await;
    world.win_at(0, &run_of("x", 0), KEY).await;
    let order = |order: ClaimOrder| ClaimOrder { gates: vec![gate("key:k")], ..order };
    let orders = [
        order(world.order_with(&run_of("a", 0), Overlap::Replace, 1000).await),
        order(world.order_with(&run_of("a", 1000), Overlap::Replace, 2000).await),
    ];
    let (node, lane) = (claimant("n1"), queue("default"));
    let replies =
        world.at(1000).claim_runs(usize::MAX, &node, &lane, &token(), &orders).await.unwrap();
    assert!(is_queued(&replies[0]), "{replies:?}");
    assert!(matches!(replies[1], ClaimReply::Blocked(Blocking::Waiting)), "{replies:?}");
    world.assert_sound();
}

#[tokio::test]
async fn a_run_by_hand_gives_its_place_up_when_it_finds_its_job_open() {
    let world = yard(&[("x", 0)]).await;
    world.plant("a", 100).await;
    let hand = world.by_hand("a", 1).await;
    let held = world.win_at(5, &run_of("x", 0), KEY).await;
    wait_at(&world, 5, &hand, KEY).await;
    world.succeed(6, &held).await;
    world.open_all(6).await;
    assert!(has_place(&world, "key:k", &hand));
    // Before it is claimed, a regular run of its job begins.
    let open = world.win_with(100, &run_of("a", 100), Overlap::Skip, 1000).await;
    let order =
        ClaimOrder { overlap: Overlap::Queue { max: 1 }, ..world.order_at(&hand, KEY).await };
    assert!(matches!(world.claim(101, &order).await, ClaimReply::Blocked(Blocking::Waiting)));
    assert!(!has_place(&world, "key:k", &hand));
    world.assert_sound();
    world.succeed(102, &open).await;
    world.win_at(103, &hand, KEY).await;
    world.assert_sound();
}

#[tokio::test]
async fn the_time_a_run_waits_at_a_gate_counts_for_max_age() {
    let world = yard(&[("a", 0), ("b", 1)]).await;
    let held = world.win_at(5, &run_of("a", 0), KEY).await;
    wait_at(&world, 5, &run_of("b", 1), KEY).await;
    world.succeed(60_000, &held).await;
    world.open_all(60_000).await;
    let old = ClaimOrder {
        max_age: Some(Duration::from_secs(30)),
        ..world.order_at(&run_of("b", 1), KEY).await
    };
    assert!(matches!(world.claim(60_001, &old).await, ClaimReply::Blocked(Blocking::Skipped)));
    assert_eq!(world.run(&run_of("b", 1)).await.reason.as_deref(), Some("missed"));
    world.assert_sound();
}

#[tokio::test]
async fn what_waits_of_a_removed_job_ends_at_once() {
    let world = yard(&[("a", 0)]).await;
    world.plant("b", 1).await;
    let _held = world.win_at(5, &run_of("a", 0), KEY).await;
    let order = ClaimOrder {
        gates: vec![gate("key:k")],
        ..world.order_with(&run_of("b", 1), Overlap::Skip, 1000).await
    };
    assert!(is_queued(&world.claim(5, &order).await));
    let removal = schedd_store::RemoveOrder {
        gates: vec![gate("key:k")],
        ..removal(&world.job("b").await, StopRunning::No)
    };
    assert_eq!(world.at(6).remove_job(&removal).await.unwrap(), RemoveReply::Removed(0));
    assert_eq!(world.score("due:default", &run_of("b", 1).to_string()), Some(6));
    assert!(matches!(
        try_at(&world, 7, &run_of("b", 1), KEY).await,
        ClaimReply::Blocked(Blocking::Cancelled)
    ));
    world.assert_sound();
}

#[tokio::test]
async fn a_damaged_gate_keeps_out_its_own_runs_only() {
    for damaged in [
        "gate_holders:key:k",
        "gate_waiters:key:k",
        "gate_waiters_by_job:key:k",
        "gate_waiters_by_lane:key:k",
        "gate_waiter_lanes:key:k",
        "gate:key:k",
        "gate_timers",
    ] {
        let world = yard(&[("a", 0), ("b", 1)]).await;
        let _: () = world.raw("SET", damaged, &["x"]);
        let before = world.snapshot();
        let orders =
            [world.order_at(&run_of("a", 0), KEY).await, world.order(&run_of("b", 1)).await];
        let replies = world
            .at(5)
            .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), &token(), &orders)
            .await
            .unwrap();
        let reported = matches!(&replies[0], ClaimReply::WrongType(error) if error.to_string().contains(&world.key(damaged)));
        assert!(reported && matches!(replies[1], ClaimReply::Claimed(_)), "{damaged}: {replies:?}");
        let _: () = world.raw("DEL", damaged, &[]);
        assert!(before.len() > 1);
        world.assert_sound();
    }
}

#[tokio::test]
async fn a_run_found_in_two_places_at_a_gate_is_left_in_one() {
    let world = yard(&[("a", 0), ("b", 1)]).await;
    let held = world.win_at(5, &run_of("a", 0), KEY).await;
    wait_at(&world, 5, &run_of("b", 1), KEY).await;
    let b = run_of("b", 1);
    let mend = async || {
        let facts = world
            .at(6)
            .inspect_runs(&[(b.clone(), None)], &[queue("default")])
            .await
            .unwrap()
            .remove(0)
            .unwrap();
        world.at(6).mend_runs(&[facts]).await.unwrap().remove(0).unwrap()
    };
    assert_eq!(mend().await, schedd_store::MendReply::Sound);
    let _: i64 = world.raw("ZADD", "due:default", &[&t(6).as_i64().to_string(), &b.to_string()]);
    assert_eq!(
        mend().await,
        schedd_store::MendReply::Mended(vec!["taken out of gate_waiters:key:k".to_owned()])
    );
    world.assert_sound();
    wait_at(&world, 7, &b, KEY).await;
    world.succeed(8, &held).await;
    world.open_all(8).await;
    world.win_at(9, &b, KEY).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_run_at_a_gate_against_its_record_is_removed_and_an_unnoticed_gate_opens() {
    let world = yard(&[("a", 0), ("b", 1), ("c", 2)]).await;
    let held = world.win_at(5, &run_of("a", 0), KEY).await;
    wait_at(&world, 5, &run_of("b", 1), KEY).await;
    assert_eq!(world.store.inspect_gate(&gate("key:k")).await.unwrap().strays, []);
    // A place of a run that knows nothing of it, an order that lost an entry, and a wake-up that got lost.
    let stray = run_of("c", 2).to_string();
    let _: i64 = world.raw("ZADD", "gate_holders:key:k", &["5", &stray]);
    let _: i64 = world.raw("DEL", "gate_waiters_by_job:key:k", &[]);
    world.succeed(6, &held).await;
    let _: i64 = world.raw("DEL", "gate_timers", &[]);
    let facts = world.store.inspect_gate(&gate("key:k")).await.unwrap();
    assert_eq!((facts.strays.as_slice(), facts.is_unsorted), (&[run_of("c", 2)][..], true));
    let runs: Vec<RunId> = facts.strays.into_iter().chain(facts.queued).collect();
    assert_eq!(world.at(7).repair_gate(&gate("key:k"), &runs).await.unwrap(), 1);
    world.assert_sound();
    let _: i64 = world.raw("DEL", "gate_timers", &[]);
    assert!(world.store.inspect_gate(&gate("key:k")).await.unwrap().is_open_unnoticed);
    world.at(8).repair_gate(&gate("key:k"), &runs).await.unwrap();
    // Orders by lane that lost an entry, and that name one which does not wait, or not first.
    let due = run_of("b", 1).due().as_i64().to_string();
    let later = format!("default {:015} b@9", 9);
    for (command, key, args) in [
        ("DEL", "gate_waiters_by_lane:key:k", &[][..]),
        ("DEL", "gate_waiter_lanes:key:k", &[]),
        ("ZADD", "gate_waiters_by_lane:key:k", &["0", &later]),
        ("ZADD", "gate_waiter_lanes:key:k", &[&due, "b@9 default"]),
        ("ZADD", "gate_waiters_by_job:key:k", &["0", &format!("b {later}")]),
    ] {
        let _: i64 = world.raw(command, key, args);
        assert!(
            world.store.inspect_gate(&gate("key:k")).await.unwrap().is_unsorted,
            "{command} {key}"
        );
        world.at(8).repair_gate(&gate("key:k"), &runs).await.unwrap();
        world.assert_sound();
        assert!(
            !world.store.inspect_gate(&gate("key:k")).await.unwrap().is_unsorted,
            "{command} {key}"
        );
    }
    world.open_all(8).await;
    world.win_at(9, &run_of("b", 1), KEY).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_finds_its_gate_shut_costs_redis_a_bounded_number_of_commands() {
    const RUNS: u64 = 50;
    let world = World::new();
    let holder = world.plant_once("a", 0).await;
    world.win_at(1, &holder, KEY).await;
    let mut orders = Vec::new();
    for number in 0..RUNS {
        let run = world.plant_once(&format!("b{number}"), 1).await;
        orders.push(world.order_at(&run, KEY).await);
    }
    let commands = || -> u64 {
        let info: String = world.server(&["INFO", "stats"]);
        info.lines()
            .find_map(|line| line.strip_prefix("total_commands_processed:"))
            .unwrap()
            .parse()
            .unwrap()
    };
    let before = commands();
    let replies = world
        .at(2)
        .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), &token(), &orders)
        .await
        .unwrap();
    assert!(replies.iter().all(is_queued), "{replies:?}");
    let asked = commands() - before;
    assert!(
        asked <= RUNS * 29,
        "a mass of such runs holds up all others for so long: {asked} commands for {RUNS} runs"
    );
    world.assert_sound();
}
