//! `pull_scores_back`, and what `repair_job`, `repair_run` and `forget_uniques` do about a time that is still to come: Redis' clock was ahead.

use std::collections::BTreeSet;
use std::time::Duration;

use schedd_core::domain::job::unique_rule::Second;
use schedd_store::{ApplyReply, JobMending, MendReply, SkipOrder, SkipReply, Verdict};

use crate::scripts::jobs::uniques::only;
use crate::scripts::world::{World, definition, name, queue, run_of, successor, t};

const DAY: i64 = 86_400_000;

async fn replant(world: &World, at: i64, planted: i64) -> MendReply {
    let job = world.job("a").await;
    let mending = JobMending {
        name: job.name.clone(),
        record: Some(job),
        planted: Some(successor("a", planted)),
        pending_ready: None,
        gated: None,
        anchor: Some(t(-5_000)),
        unique: None,
    };
    world.at(at).mend_jobs(&[mending], &[queue("default")]).await.unwrap().remove(0).unwrap()
}

#[tokio::test]
async fn a_run_planned_too_late_gives_way_once_and_the_job_counts_from_before_the_new_one() {
    let world = World::new();
    assert_eq!(
        world.at(DAY).apply_job(&definition("a", DAY + 1000)).await.unwrap(),
        ApplyReply::Created
    );
    let before = world.job("a").await;
    assert_eq!(
        replant(&world, 0, 500).await,
        MendReply::Mended(vec![format!("run {} planned instead of a later run", run_of("a", 500))])
    );
    let job = world.job("a").await;
    assert_eq!(job.pending, Some(run_of("a", 500)));
    assert!(job.since < t(500) && job.anchor == t(-5_000), "{job:?}");
    assert_eq!(
        job.handled,
        [t(DAY + 999)],
        "what comes up to the run that gave way was dealt with"
    );
    assert_ne!(job.rev, before.rev, "what was computed before is stale");
    assert_eq!(world.indexed("a"), Some(500));
    world.assert_sound();
    assert_eq!(replant(&world, 0, 500).await, MendReply::Sound);
}

#[tokio::test]
async fn a_planned_run_that_is_ready_recorded_due_first_or_paused_is_not_replanted() {
    let world = World::new();
    world.plant("a", 1000).await;
    for (at, planted) in [(0, 1000), (0, 2000), (1000, 500)] {
        assert_eq!(replant(&world, at, planted).await, MendReply::Sound, "at {at}, {planted}");
    }
    let run = run_of("a", 1000);
    let _: i64 = world.raw("HSET", &format!("run:{run}"), &["state", "scheduled"]);
    assert_eq!(replant(&world, 0, 500).await, MendReply::Sound);
    let _: i64 = world.raw("DEL", &format!("run:{run}"), &[]);
    // One that has run is not planted again.
    let _: i64 = world.raw("HSET", &format!("run:{}", run_of("a", 500)), &["state", "succeeded"]);
    assert_eq!(replant(&world, 0, 500).await, MendReply::Occupied);
    world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    assert_eq!(replant(&world, 0, 500).await, MendReply::Sound);
}

#[tokio::test]
async fn an_occurrence_recorded_as_missed_before_its_time_came_is_planned_again() {
    let world = World::new();
    world.plant("a", 500).await;
    let order = SkipOrder {
        run: run_of("a", 500),
        rev: world.job("a").await.rev,
        lane: queue("default"),
        reason: "missed",
        last_due: t(1500),
        count: 2,
        successor: Some(successor("a", DAY + 500)),
    };
    assert_eq!(world.at(DAY).skip_run(&order).await.unwrap(), SkipReply::Skipped);
    assert_eq!(replant(&world, 500, 500).await, MendReply::Occupied, "its time has come");
    assert_eq!(
        replant(&world, 0, 500).await,
        MendReply::Mended(vec![format!("run {} planned instead of a later run", run_of("a", 500))])
    );
    assert_eq!(
        (world.store.read_run(&run_of("a", 500)).await.unwrap().is_none(), world.total("skipped")),
        (true, 0)
    );
    world.assert_sound();
    world.win(500, &run_of("a", 500)).await;
}

#[tokio::test]
async fn a_run_that_is_due_too_late_is_due_in_time_and_never_later() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_at(DAY, &run, &[]).await;
    world.finish(DAY + 1, &claim, Verdict::Retry(Duration::from_secs(5))).await;
    let mend = async |run: &schedd_schedule::names::RunId, ready: i64| {
        let mut facts = world
            .at(0)
            .inspect_runs(&[(run.clone(), None)], &[queue("default")])
            .await
            .unwrap()
            .remove(0)
            .unwrap();
        facts.ready_by = Some(t(ready));
        world.at(0).mend_runs(&[facts]).await.unwrap().remove(0).unwrap()
    };
    assert_eq!(mend(&run, 5000).await, MendReply::Mended(vec![format!("ready at {}", t(5000))]));
    assert_eq!(
        (world.score("due:default", &run.to_string()), world.run(&run).await.ready),
        (Some(5000), Some(t(5000)))
    );
    assert_eq!(mend(&run, 6000).await, MendReply::Sound);
    // A planned run waits for its time.
    let next = world.plant("b", DAY).await;
    assert_eq!(mend(&next, 0).await, MendReply::Sound);
}

#[tokio::test]
async fn future_marks_are_pulled_in_in_order_and_marks_without_a_time_stay() {
    let world = World::new();
    let ended = |number: i64| run_of("a", number).to_string();
    for (number, at) in [(1, -50), (2, DAY), (3, 2 * DAY)] {
        for key in ["history", "history:a"] {
            let _: i64 = world.raw("ZADD", key, &[&t(at).as_i64().to_string(), &ended(number)]);
        }
    }
    let _: i64 = world.raw(
        "ZADD",
        "nodes",
        &[&t(DAY).as_i64().to_string(), "n1", &t(-5).as_i64().to_string(), "n2"],
    );
    let _: i64 = world.raw(
        "ZADD",
        "gate_timers",
        &[&t(DAY).as_i64().to_string(), "group:g", "4102444800000", "group:h"],
    );
    let jobs = world.at(0).list_ended_after(t(0)).await.unwrap();
    assert_eq!(jobs, BTreeSet::from([name("a")]));
    assert_eq!(world.at(0).pull_scores_back(&jobs).await.unwrap(), 6);
    for key in ["history", "history:a"] {
        let scores: Vec<Option<i64>> =
            (1..=3).map(|number| world.score(key, &ended(number))).collect();
        assert_eq!(scores, [Some(-50), Some(-1), Some(0)], "{key}");
    }
    assert_eq!((world.score("nodes", "n1"), world.score("nodes", "n2")), (Some(0), Some(-5)));
    assert_eq!(world.score("gate_timers", "group:g"), Some(0));
    assert_eq!(world.score_text("gate_timers", "group:h").as_deref(), Some("4102444800000"));
    assert_eq!(world.at(0).pull_scores_back(&jobs).await.unwrap(), 0);
}

#[tokio::test]
async fn a_unique_key_taken_by_a_clock_ahead_lasts_as_long_once_the_clock_is_right() {
    let world = World::new();
    let second = Second::Refused { window: Some(Duration::from_secs(60)) };
    assert_eq!(
        world.at(DAY).apply_job(&only("a", DAY + 1000, second, None)).await.unwrap(),
        ApplyReply::Created
    );
    let keys = world.at(0).list_uniques_after(t(0), 0).await.unwrap();
    assert_eq!(world.at(0).forget_uniques(&keys).await.unwrap(), 0);
    assert_eq!(world.at(0).list_uniques_after(t(0), 0).await.unwrap(), keys);
    let other = |at: i64| only("b", at + 1000, second, Some("a"));
    assert_eq!(
        world.at(59_999).apply_job(&other(59_999)).await.unwrap(),
        ApplyReply::Taken(name("a"))
    );
    assert_eq!(world.at(60_000).apply_job(&other(60_000)).await.unwrap(), ApplyReply::Created);
}

#[tokio::test]
async fn up_to_when_was_dealt_with_is_forgotten_only_if_that_is_still_to_come() {
    let world = World::new();
    for job in ["a", "b"] {
        world.plant(job, 0).await;
    }
    let _: i64 = world.raw("HSET", "job:a", &["handled", &t(DAY).as_i64().to_string()]);
    let _: i64 = world.raw("HSET", "job:b", &["handled", &t(-1).as_i64().to_string()]);
    world.at(0).forget_dealt(&[name("a"), name("b"), name("none")], t(0)).await.unwrap();
    assert_eq!(
        (world.job("a").await.handled, world.job("b").await.handled),
        (Vec::new(), vec![t(-1)])
    );
}
