//! `set_next`: a run or an operator sets the time of a job's next run.

use schedd_store::{NextReply, PauseReply};

use crate::scripts::world::{World, name, run_of, t};

/// Sets the time `at` for the job, as an operator asks for it at the time `now`.
async fn set(world: &World, now: i64, job: &str, at: i64) -> NextReply {
    let record = world.job(job).await;
    let run = format!("{job}@{}~next", t(at).as_i64()).parse().unwrap();
    world.at(now).set_next(&record, t(at), &run, None, None).await.unwrap()
}

#[tokio::test]
async fn a_planned_run_starts_no_earlier_than_the_time_that_was_set() {
    let world = World::new();
    let run = world.plant("a", 1000).await;
    for (now, at) in [(0, 5000), (0, 5000), (10, 7000)] {
        assert_eq!(set(&world, now, "a", at).await, NextReply::Postponed(Some(run.clone())));
        assert_eq!(world.score("due:default", &run.to_string()), Some(at));
    }
    let job = world.job("a").await;
    assert_eq!(job.next_set.unwrap().0, t(7000));
    assert_eq!((job.pending, job.next_run), (Some(run.clone()), None));
    world.assert_sound();
    // A node that read the job before, or plans the run again, does not claim it earlier.
    let _: i64 = world.raw("ZADD", "due:default", &["0", &run.to_string()]);
    let order = world.order(&run).await;
    let reply = world.claim(6000, &order).await;
    assert!(format!("{reply:?}").contains("Early"), "{reply:?}");
    assert_eq!(world.score("due:default", &run.to_string()), Some(7000));
    World::won(world.claim(7000, &order).await);
    world.assert_sound();
}

#[tokio::test]
async fn an_earlier_time_replaces_a_later_time() {
    let world = World::new();
    let run = world.plant("a", 5000).await;
    assert_eq!(set(&world, 0, "a", 9000).await, NextReply::Postponed(Some(run.clone())));
    let NextReply::Planted(extra) = set(&world, 1, "a", 2000).await else { panic!() };
    assert_eq!(world.score("due:default", &extra.to_string()), Some(2000));
    assert_eq!(world.score("due:default", &run.to_string()), Some(5000), "as it was planned");
    assert_eq!(set(&world, 2, "a", 6000).await, NextReply::Postponed(Some(run.clone())));
    assert_eq!(world.score("due:default", &extra.to_string()), None);
    assert_eq!(world.score("due:default", &run.to_string()), Some(6000));
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_lost_its_lease_sets_no_time() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win(0, &run).await;
    let extra = run_of("a", 500);
    let ask = async |at: i64, fence| {
        let record = world.job("a").await;
        let asked_by = Some((&claim.run, fence));
        world.at(at).set_next(&record, t(9000), &extra, None, asked_by).await.unwrap()
    };
    let before = world.snapshot();
    let other = schedd_schedule::names::Fence::new(claim.fence.as_u64() + 1).unwrap();
    assert_eq!(ask(1, other).await, NextReply::Lost);
    assert_eq!(world.snapshot(), before);
    assert!(matches!(ask(1, claim.fence).await, NextReply::Postponed(_) | NextReply::Planted(_)));
    world.succeed(2, &claim).await;
    assert_eq!(ask(3, claim.fence).await, NextReply::Lost);
}

#[tokio::test]
async fn a_run_is_planned_beside_the_schedule_for_an_earlier_time() {
    let world = World::new();
    let run = world.plant("a", 9000).await;
    let NextReply::Planted(first) = set(&world, 0, "a", 2000).await else { panic!() };
    assert_eq!(set(&world, 1, "a", 2000).await, NextReply::Planted(first.clone()), "once");
    // A later time replaces the run of the earlier time.
    let NextReply::Planted(second) = set(&world, 10, "a", 3000).await else { panic!() };
    assert_eq!(world.score("due:default", &first.to_string()), None);
    assert_eq!(world.score("due:default", &second.to_string()), Some(3000));
    assert_eq!(world.score("due:default", &run.to_string()), Some(9000), "the schedule goes on");
    world.assert_sound();
    let claim = world.win(3000, &second).await;
    // The run that has begun stays, and the planned run is the next one.
    assert_eq!(set(&world, 3001, "a", 9500).await, NextReply::Postponed(Some(run)));
    world.succeed(3002, &claim).await;
    world.assert_sound();
}

#[tokio::test]
async fn the_next_turn_of_a_group_waits_for_the_time_that_was_set() {
    let world = World::new();
    let settings = ["mode", "alternate", "order", "a b", "gap_ms", "0", "turn_timeout_ms", "0"];
    let _: i64 = world.raw("HSET", "group:g", &settings);
    let run = world.plant("a", 0).await;
    let record = world.job("a").await;
    let own = run_of("a", 5000);
    let group = "g".parse().unwrap();
    let reply = world.at(0).set_next(&record, t(5000), &own, Some(&group), None).await.unwrap();
    assert_eq!(reply, NextReply::Turn("g".to_owned()));
    assert_eq!(world.score("due:default", &run.to_string()), Some(0), "only the turn waits");
    let order = world.order_at(&run, &["group:g"]).await;
    let reply = world.claim(10, &order).await;
    assert!(format!("{reply:?}").contains("AtGate"), "{reply:?}");
    assert_eq!(world.score("gate_timers", "group:g"), Some(0));
    world.open_all(11).await;
    assert_eq!(world.score("gate_timers", "group:g"), Some(5000));
    world.open_all(5000).await;
    World::won(world.claim(5000, &order).await);
    world.assert_sound();
}

#[tokio::test]
async fn a_time_for_a_paused_ended_or_changed_job_changes_nothing() {
    let world = World::new();
    world.plant("a", 1000).await;
    let before_pause = world.job("a").await;
    assert_eq!(world.at(0).pause_job(&before_pause, None, &[]).await.unwrap(), PauseReply::Paused);
    let before = world.snapshot();
    assert_eq!(set(&world, 1, "a", 5000).await, NextReply::Paused);
    let run = run_of("b", 5000);
    let other = schedd_store::JobRecord { name: name("b"), ..before_pause.clone() };
    let store = world.at(1);
    assert_eq!(
        store.set_next(&other, t(5000), &run, None, None).await.unwrap(),
        NextReply::Unknown
    );
    assert_eq!(world.snapshot(), before);

    let planned = world.plant("c", 1000).await;
    let read = world.job("c").await;
    world.win(1000, &planned).await;
    let before = world.snapshot();
    let run = run_of("c", 5000);
    assert_eq!(
        world.at(1001).set_next(&read, t(5000), &run, None, None).await.unwrap(),
        NextReply::Stale
    );
    assert_eq!(world.snapshot(), before);
}
