//! Unique keys: one job holds each, judged by its own record in the step that adds, and what is past is trimmed.

use std::time::Duration;

use schedd_core::domain::job::unique_rule::{Second, Unique};
use schedd_core::domain::run::run_state::RunState;
use schedd_store::{ApplyOrder, ApplyReply, Existing, StopRunning, UniqueOrder, Verdict};

use super::removing::removal;
use crate::scripts::world::{World, definition, name, successor, t, token};

const HELD: Second = Second::Refused { window: None };
const FOR_A_MINUTE: Second = Second::Refused { window: Some(Duration::from_secs(60)) };

/// A one-shot of the key `k`, due at [`t`] of `offset`; `holder` is who was read to hold it.
pub(crate) fn only(job: &str, offset: i64, second: Second, holder: Option<&str>) -> ApplyOrder {
    ApplyOrder {
        is_once: true,
        existing: Existing::Refuse,
        definition: format!("{{\"at\":{offset}}}"),
        unique: Some(UniqueOrder {
            unique: Unique { key: "k".parse().unwrap(), second },
            holder: holder.map(name),
        }),
        ..definition(job, offset)
    }
}

/// The same as a change of the job `first`, as it is now.
async fn moving(world: &World, first: &str, offset: i64) -> ApplyOrder {
    let job = world.job(first).await;
    ApplyOrder {
        read: Some((job.rev, job.lane)),
        planned: job.pending.or(job.paused_run),
        existing: Existing::Edit,
        old_key: job.unique,
        ..only(first, offset, Second::Wins { max_wait: None }, Some(first))
    }
}

async fn apply(world: &World, at: i64, order: &ApplyOrder) -> ApplyReply {
    world.at(at).apply_job(order).await.unwrap()
}

#[tokio::test]
async fn a_second_job_of_a_unique_key_is_taken_and_leaves_nothing_behind() {
    let world = World::new();
    let first = only("a", 0, HELD, None);
    world.plant_as(first.clone()).await;
    let before = world.snapshot();
    assert_eq!(
        apply(&world, 0, &only("b", 5000, HELD, None)).await,
        ApplyReply::Stale,
        "the holder is read first"
    );
    for second in [
        HELD,
        FOR_A_MINUTE,
        Second::Dropped { window: Duration::from_secs(1) },
        Second::Wins { max_wait: None },
    ] {
        assert_eq!(
            apply(&world, 0, &only("b", 5000, second, Some("a"))).await,
            ApplyReply::Taken(name("a")),
            "{second:?}"
        );
    }
    assert_eq!(
        apply(&world, 0, &ApplyOrder { token: token(), ..first.clone() }).await,
        ApplyReply::Stale
    );
    assert_eq!(apply(&world, 0, &first).await, ApplyReply::Created, "the same call again");
    assert_eq!(world.snapshot(), before);
    world.assert_sound();
}

#[tokio::test]
async fn a_call_repeated_after_the_job_is_over_answers_the_same_and_makes_no_second_one() {
    let world = World::new();
    let first = only("a", 0, HELD, None);
    let run = world.plant_as(first.clone()).await;
    let claim = world.win(0, &run).await;
    world.succeed(5, &claim).await;
    let before = world.snapshot();
    assert_eq!(apply(&world, 10, &first).await, ApplyReply::Created);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_key_is_free_once_its_holder_is_over_however_that_came() {
    for end in ["succeeded", "failed", "cancelled", "removed", "lost record", "used again"] {
        let world = World::new();
        let run = world.plant_as(only("a", 0, HELD, None)).await;
        let mut holder = Some("a");
        match end {
            "cancelled" => {
                let order = world.cancelling(&run, None).await;
                world.at(0).cancel_run(&order).await.unwrap();
            }
            "removed" => {
                world
                    .at(0)
                    .remove_job(&removal(&world.job("a").await, StopRunning::Yes))
                    .await
                    .unwrap();
                holder = None;
            }
            "lost record" => {
                let _: i64 = world.raw("DEL", "job:a", &[]);
            }
            _ => {
                let claim = world.win(0, &run).await;
                assert_eq!(
                    apply(&world, 1, &only("b", 5000, HELD, Some("a"))).await,
                    ApplyReply::Taken(name("a")),
                    "it runs"
                );
                let state = if end == "failed" { RunState::Failed } else { RunState::Succeeded };
                world.finish(2, &claim, Verdict::Final(state)).await;
            }
        }
        if end == "used again" {
            // By one that has no key.
            let order = ApplyOrder { is_once: true, ..definition("a", 9000) };
            assert_eq!(apply(&world, 3, &order).await, ApplyReply::Created);
        }
        assert_eq!(
            apply(&world, 4, &only("b", 5000, HELD, holder)).await,
            ApplyReply::Created,
            "{end}"
        );
        assert_eq!(
            apply(&world, 5, &only("c", 5000, HELD, Some("b"))).await,
            ApplyReply::Taken(name("b")),
            "{end}"
        );
        if end != "lost record" {
            world.assert_sound();
        }
    }
}

#[tokio::test]
async fn a_retry_and_a_recovery_do_not_free_the_key() {
    let world = World::new();
    let run = world.plant_as(only("a", 0, HELD, None)).await;
    let claim = world.win(0, &run).await;
    world.finish(1, &claim, Verdict::Retry(Duration::from_secs(1))).await;
    assert_eq!(
        apply(&world, 2, &only("b", 5000, HELD, Some("a"))).await,
        ApplyReply::Taken(name("a"))
    );
}

#[tokio::test]
async fn a_timed_key_lasts_whatever_becomes_of_the_job_unless_the_job_is_removed() {
    let world = World::new();
    let run = world.plant_as(only("a", 0, FOR_A_MINUTE, None)).await;
    let claim = world.win(0, &run).await;
    world.succeed(1, &claim).await;
    // Also under the same name, also when the record is gone, also when another uses the name.
    assert_eq!(
        apply(&world, 2, &only("a", 3, HELD, Some("a"))).await,
        ApplyReply::Taken(name("a"))
    );
    let other = ApplyOrder { is_once: true, ..definition("a", 9000) };
    assert_eq!(apply(&world, 3, &other).await, ApplyReply::Created);
    world.at(4).remove_job(&removal(&world.job("a").await, StopRunning::Yes)).await.unwrap();
    let _: i64 = world.raw("DEL", "job:a", &[]);
    // It was added a second before zero.
    assert_eq!(
        apply(&world, 58_999, &only("b", 60_000, HELD, Some("a"))).await,
        ApplyReply::Taken(name("a"))
    );
    assert_eq!(
        apply(&world, 59_000, &only("b", 60_000, FOR_A_MINUTE, Some("a"))).await,
        ApplyReply::Created
    );
    // Taken back by hand it keeps nobody out.
    world.at(59_001).remove_job(&removal(&world.job("b").await, StopRunning::Yes)).await.unwrap();
    assert_eq!(
        apply(&world, 59_002, &only("c", 60_000, FOR_A_MINUTE, None)).await,
        ApplyReply::Created
    );
    // Nor does one whose time is over, though it is still to run.
    assert_eq!(
        apply(&world, 119_003, &only("d", 120_000, HELD, Some("c"))).await,
        ApplyReply::Created
    );
}

#[tokio::test]
async fn a_change_of_the_holder_keeps_its_key_and_one_to_another_key_frees_the_old_one() {
    let world = World::new();
    world.plant_as(only("a", 5000, FOR_A_MINUTE, None)).await;
    let edit = |order: ApplyOrder, job: schedd_store::JobRecord| ApplyOrder {
        read: Some((job.rev, job.lane)),
        planned: job.pending,
        existing: Existing::Edit,
        old_key: job.unique,
        ..order
    };
    let order = edit(only("a", 6000, FOR_A_MINUTE, Some("a")), world.job("a").await);
    assert_eq!(apply(&world, 0, &order).await, ApplyReply::Updated);
    assert_eq!(world.raw::<String>("HGET", "unique:k", &["until"]), t(59_000).as_i64().to_string());
    let other = Unique { key: "other".parse().unwrap(), second: HELD };
    let order = ApplyOrder {
        unique: Some(UniqueOrder { unique: other, holder: None }),
        ..only("a", 7000, HELD, None)
    };
    assert_eq!(apply(&world, 1, &edit(order, world.job("a").await)).await, ApplyReply::Updated);
    assert_eq!(world.raw::<Vec<String>>("ZRANGE", "uniques", &["0", "-1"]), ["other"]);
    let order =
        edit(ApplyOrder { unique: None, ..only("a", 8000, HELD, None) }, world.job("a").await);
    assert_eq!(apply(&world, 2, &order).await, ApplyReply::Updated);
    assert_eq!(world.job("a").await.unique, None);
    assert!(world.raw::<Vec<String>>("KEYS", "unique*", &[]).is_empty());
    world.assert_sound();
}

#[tokio::test]
async fn a_debounced_job_moves_until_it_begins_even_when_due_and_then_stays() {
    let world = World::new();
    let first = world.plant_as(only("a", 0, Second::Wins { max_wait: None }, None)).await;
    // A new job is not made while that one is to come.
    assert_eq!(
        apply(&world, 5, &only("b", 1000, Second::Wins { max_wait: None }, Some("a"))).await,
        ApplyReply::Stale
    );
    let (older, newer) = (moving(&world, "a", 1000).await, moving(&world, "a", 2000).await);
    assert_eq!(apply(&world, 5, &older).await, ApplyReply::Updated);
    assert_eq!(
        world.score("due:default", &first.to_string()),
        None,
        "it was due, and is not any more"
    );
    // Decided by the rev before, as of many that race.
    assert_eq!(apply(&world, 6, &newer).await, ApplyReply::Updated);
    assert_eq!(apply(&world, 6, &newer).await, ApplyReply::Updated, "the same call again");
    assert_eq!(world.job("a").await.pending, Some(successor("a", 2000).run));
    assert_eq!(world.raw::<Vec<String>>("ZRANGE", "due:default", &["0", "-1"]).len(), 1);
    world.assert_sound();

    let late = moving(&world, "a", 3000).await;
    let claim = world.win(2000, &successor("a", 2000).run).await;
    assert_eq!(apply(&world, 2001, &late).await, ApplyReply::Stale, "it has begun");
    assert_eq!(
        apply(&world, 2001, &only("b", 3000, Second::Wins { max_wait: None }, Some("a"))).await,
        ApplyReply::Created
    );
    assert_eq!(apply(&world, 2002, &late).await, ApplyReply::Stale, "another holds the key");
    world.succeed(2003, &claim).await;
    assert_eq!(world.job("b").await.pending, Some(successor("b", 3000).run));
    world.assert_sound();
}

#[tokio::test]
async fn a_paused_job_that_is_debounced_is_moved_and_stays_paused() {
    let world = World::new();
    world.plant_as(only("a", 0, Second::Wins { max_wait: None }, None)).await;
    world.at(-5).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    assert_eq!(apply(&world, 5, &moving(&world, "a", 1000).await).await, ApplyReply::Updated);
    let job = world.job("a").await;
    assert_eq!((job.pending, job.paused_run), (None, Some(successor("a", 1000).run)));
    world.assert_sound();
}

#[tokio::test]
async fn keys_nobody_holds_go_when_they_are_looked_at_and_the_others_are_looked_at_again() {
    let world = World::new();
    let key = ["k".parse().unwrap()];
    let run = world.plant_as(only("a", 1000, HELD, None)).await;
    assert!(world.store.list_uniques(t(999)).await.unwrap().is_empty(), "not before it is due");
    assert_eq!(world.store.list_uniques(t(1000)).await.unwrap(), key);
    let claim = world.win(1000, &run).await;
    assert_eq!(world.at(1001).forget_uniques(&key).await.unwrap(), 0, "it runs");
    assert_eq!(world.score("uniques", "k"), Some(61_001));
    assert_eq!(world.at(61_001).forget_uniques(&key).await.unwrap(), 0, "it runs on");
    assert_eq!(
        world.score("uniques", "k"),
        Some(61_001 + 62_001),
        "the longer it is held the later"
    );
    world.succeed(61_002, &claim).await;
    assert_eq!(world.at(601_001).forget_uniques(&key).await.unwrap(), 1);
    assert!(world.raw::<Vec<String>>("KEYS", "unique*", &[]).is_empty());

    assert_eq!(
        apply(&world, 601_002, &only("b", 601_003, FOR_A_MINUTE, None)).await,
        ApplyReply::Created
    );
    let claim = world.win(601_003, &successor("b", 601_003).run).await;
    world.succeed(601_004, &claim).await;
    assert_eq!(world.at(661_001).forget_uniques(&key).await.unwrap(), 0, "its time is not over");
    assert_eq!(world.score("uniques", "k"), Some(661_002));
    assert_eq!(world.at(661_002).forget_uniques(&key).await.unwrap(), 1);
}
