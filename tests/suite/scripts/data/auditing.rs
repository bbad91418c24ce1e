//! `inspect_job`, `inspect_runs`, `repair_job`, `repair_run`, `repair_counts`, `take_check_turn`: facts of one moment, what agrees left alone,
//! and one turn at a time. What each finding is mended by stands in `doctor`.

use std::time::Duration;

use schedd_core::domain::consistency::{CountFacts, JobPlaces, PlannedRun, judge_job, judge_run};
use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{Fence, RunId};
use schedd_store::{
    CheckNote, JobMending, JobRecord, JobToInspect, MendReply, Searched, Store, Verdict,
};

use crate::scripts::world::{World, queue, run_of, successor, t};

async fn repair_job(
    store: &Store,
    job: &JobRecord,
    planted: Option<i64>,
    queues: &[Lane],
) -> MendReply {
    let planted = planted.map(|due| successor("a", due));
    let mending = JobMending {
        name: job.name.clone(),
        record: Some(job.clone()),
        planted,
        pending_ready: None,
        gated: None,
        anchor: None,
        unique: None,
    };
    store.mend_jobs(&[mending], queues).await.unwrap().remove(0).unwrap()
}

async fn repair_run(
    store: &Store,
    run: &RunId,
    found_under: Option<Fence>,
    queues: &[Lane],
) -> MendReply {
    let facts =
        store.inspect_runs(&[(run.clone(), found_under)], queues).await.unwrap().remove(0).unwrap();
    store.mend_runs(&[facts]).await.unwrap().remove(0).unwrap()
}

async fn inspect(store: &Store, job: &JobRecord, queues: &[Lane]) -> Option<JobPlaces> {
    let to_inspect = JobToInspect {
        name: &job.name,
        record: Some(job),
        plan: PlannedRun::Recurring,
        gated: None,
    };
    store.inspect_jobs(&[to_inspect], Searched::All(queues)).await.unwrap().remove(0).unwrap()
}

#[tokio::test]
async fn the_facts_of_a_sound_job_and_of_its_runs_are_no_findings_and_nothing_is_to_mend() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
    let queues = [queue("default"), queue("other")];
    let (store, job) = (world.at(1), world.job("a").await);
    let before = world.snapshot();
    assert_eq!(judge_job(&inspect(&store, &job, &queues).await.unwrap()), []);
    for facts in store
        .inspect_runs(&[(run.clone(), Some(claim.fence)), (run_of("a", 1000), None)], &queues)
        .await
        .unwrap()
    {
        assert_eq!(judge_run(&facts.unwrap()), []);
    }
    assert_eq!(repair_job(&store, &job, None, &queues).await, MendReply::Sound);
    assert_eq!(repair_run(&store, &run, Some(claim.fence), &queues).await, MendReply::Sound);
    assert_eq!(store.repair_counts(&CountFacts::default()).await.unwrap(), MendReply::Sound);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_job_that_changed_since_it_was_read_is_neither_judged_nor_mended() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let job = world.job("a").await;
    world.win_with(0, &run, Overlap::Skip, 1000).await;
    let before = world.snapshot();
    let queues = [queue("default")];
    assert!(inspect(&world.at(1), &job, &queues).await.is_none());
    assert_eq!(repair_job(&world.at(1), &job, None, &queues).await, MendReply::Stale);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn what_is_missing_is_mended_and_never_planted_over_a_record() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    world.win_with(0, &run, Overlap::Skip, 1000).await;
    let _: i64 = world.raw("ZREM", "due:default", &[&run_of("a", 1000).to_string()]);
    let _: i64 = world.raw("HSET", "job:a", &["pending", ""]);
    let (job, queues) = (world.job("a").await, [queue("default")]);
    assert_eq!(repair_job(&world.at(1), &job, Some(0), &queues).await, MendReply::Occupied);
    let reply = repair_job(&world.at(1), &job, Some(1000), &queues).await;
    assert!(matches!(reply, MendReply::Mended(_)), "{reply:?}");
    let _: i64 = world.raw("DEL", "leases", &[]);
    let reply = repair_run(&world.at(1), &run, None, &queues).await;
    assert_eq!(reply, MendReply::Mended(vec!["put into leases".to_owned()]));
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_changed_since_it_was_read_is_not_mended() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
    let _: i64 = world.raw("ZADD", "history", &["5", &run.to_string()]);
    let queues = [queue("default")];
    let read =
        world.at(1).inspect_runs(&[(run.clone(), None)], &queues).await.unwrap().remove(0).unwrap();
    world.finish(1, &claim, Verdict::Retry(Duration::from_secs(5))).await;
    let scheduled =
        world.at(1).inspect_runs(&[(run.clone(), None)], &queues).await.unwrap().remove(0).unwrap();
    let _: i64 = world.raw("ZREM", "due:default", &[&run.to_string()]);
    // Its record is another in the first facts, and one of its entries in the second.
    for facts in [read, scheduled] {
        let before = world.snapshot();
        assert_eq!(
            world.at(2).mend_runs(&[facts]).await.unwrap().remove(0).unwrap(),
            MendReply::Stale
        );
        assert_eq!(world.snapshot(), before);
    }
    repair_run(&world.at(2), &run, None, &queues).await;
    assert_eq!(world.score("due:default", &run.to_string()), Some(2));
    world.assert_sound();
}

#[tokio::test]
async fn a_counter_that_moved_since_it_was_counted_is_left() {
    let world = World::new();
    let facts = CountFacts {
        output_bytes: Some("5".to_owned()),
        output_counted: Some(7),
        ..CountFacts::default()
    };
    let _: () = world.raw("SET", "output_bytes", &["6"]);
    assert_eq!(world.at(0).repair_counts(&facts).await.unwrap(), MendReply::Sound);
    let _: () = world.raw("SET", "output_bytes", &["5"]);
    assert!(matches!(world.at(0).repair_counts(&facts).await.unwrap(), MendReply::Mended(_)));
    assert_eq!(world.raw::<String>("GET", "output_bytes", &[]), "7");
}

#[tokio::test]
async fn one_node_has_the_turn_and_the_next_goes_on_where_it_ended() {
    let world = World::new();
    let (one, two) = ("one".parse().unwrap(), "two".parse().unwrap());
    let every = Duration::from_secs(60);
    assert_eq!(world.at(0).take_check_turn(&one, every).await.unwrap().unwrap().place, "");
    assert_eq!(
        world.at(59_999).take_check_turn(&two, every).await.unwrap().unwrap_err().as_millis(),
        1
    );
    let note = CheckNote {
        at: t(0),
        round_at: Some(t(-9)),
        place: "history 7".to_owned(),
        list: "[]".to_owned(),
        findings: 3,
    };
    world.store.write_check_note(&note).await.unwrap();
    assert_eq!(
        world.at(60_000).take_check_turn(&two, every).await.unwrap().unwrap().place,
        "history 7"
    );
    // A clock that was set back keeps nobody waiting.
    assert!(world.at(0).take_check_turn(&one, every).await.unwrap().is_ok());
    let stats = world.store.read_stats().await.unwrap();
    assert_eq!(
        (stats.findings, stats.checked_at, stats.check_round_at),
        (3, Some(t(0)), Some(t(-9)))
    );
    // One in the midst of a round keeps when the last ended.
    world.store.write_check_note(&CheckNote { round_at: None, ..note }).await.unwrap();
    assert_eq!(world.store.read_stats().await.unwrap().check_round_at, Some(t(-9)));
    assert_eq!(
        world.at(120_000).take_check_turn(&two, every).await.unwrap().unwrap().round_at,
        Some(t(-9))
    );
}

#[tokio::test]
async fn a_field_that_holds_something_else_by_now_is_not_taken_out() {
    let world = World::new();
    let _: i64 = world.raw("HSET", "counters", &["failed", "x", "lost", "y", "succeeded", "7"]);
    let key = world.key("counters");
    let seen = [("failed", "x"), ("lost", "1"), ("gone", "x")]
        .map(|(field, seen)| (field.to_owned(), seen.to_owned()));
    assert_eq!(world.store.drop_fields(&key, &seen).await.unwrap(), seen[..1]);
    assert_eq!(world.store.drop_fields(&key, &seen).await.unwrap(), []);
    let mut left = world.store.read_fields(&[key]).await.unwrap().remove(0);
    left.sort();
    assert_eq!(
        left,
        [("lost", "y"), ("succeeded", "7")]
            .map(|(field, value)| (field.to_owned(), value.to_owned()))
    );
}
