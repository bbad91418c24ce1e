//! `write_output`, `forget_outputs` and `note_progress`: what was printed is kept under its fence, and accounted to the byte.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_progress::RunProgress;
use schedd_store::{OutputFrames, OutputStream, Verdict};

use crate::scripts::world::{World, name, run_of, t};

fn printed(text: &str) -> OutputFrames {
    let mut frames = OutputFrames::new(7);
    frames.push_head(OutputStream::Stdout, text.as_bytes());
    frames.push_tail(OutputStream::Stderr, b"\xff");
    frames
}

/// Bytes a frame takes beside what is in it: both of [`printed`].
const FRAMES: u64 = 5 + 5 + 1;

#[tokio::test]
async fn what_was_printed_reads_back_and_a_second_writing_replaces_the_first() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win(0, &run).await;
    assert_eq!(
        world.at(1).write_output(&claim, &printed("hello")).await.unwrap(),
        Some(FRAMES + 5)
    );
    assert_eq!(
        world.at(2).write_output(&claim, &printed("hello, world")).await.unwrap(),
        Some(FRAMES + 12)
    );
    let kept = world.store.read_output(&run, 1).await.unwrap().unwrap();
    assert_eq!(
        (&*kept.stdout, &*kept.stderr, kept.dropped_bytes),
        (&b"hello, world"[..], &b"\xff"[..], 7)
    );
    assert!(world.store.read_output(&run, 2).await.unwrap().is_none());
}

#[tokio::test]
async fn a_stale_holder_writes_nothing_over_its_successor_s() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let old = world.win(0, &run).await;
    world.finish(1, &old, Verdict::Retry(Duration::ZERO)).await;
    let new = world.win(2, &run).await;
    world.at(3).write_output(&new, &printed("new")).await.unwrap();
    let before = world.snapshot();
    assert_eq!(world.at(4).write_output(&old, &printed("old")).await.unwrap(), None);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_progress_is_that_of_the_attempt_that_reported_it() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let old = world.win(0, &run).await;
    let half = RunProgress::new(Some(50), "half of it");
    world.at(1).note_progress(&old, &half).await.unwrap();
    assert_eq!(world.run(&run).await.progress, Some(half.clone()));
    world.finish(1, &old, Verdict::Retry(Duration::ZERO)).await;
    let new = world.win(2, &run).await;
    assert_eq!(world.run(&run).await.progress, None, "the next attempt has reported nothing");
    let before = world.snapshot();
    world.at(3).note_progress(&old, &half).await.unwrap();
    assert_eq!(world.snapshot(), before);
    let words = RunProgress::new(None, "nearly");
    world.at(4).note_progress(&new, &words).await.unwrap();
    world.succeed(5, &new).await;
    let before = world.snapshot();
    world.at(6).note_progress(&new, &half).await.unwrap();
    assert_eq!(world.snapshot(), before, "the run has ended");
    assert_eq!(world.run(&run).await.progress, Some(words));
}

#[tokio::test]
async fn the_oldest_outputs_go_first_by_age_and_by_size_and_the_account_ends_at_nothing() {
    let world = World::new();
    let first = world.plant("a", 0).await;
    let mut due = 0;
    for text in ["a", "bb", "ccc", "dddd"] {
        let claim = world.win_with(due, &run_of("a", due), Overlap::Allow, due + 1000).await;
        world.at(due).write_output(&claim, &printed(text)).await.unwrap();
        due += 1000;
    }
    assert_eq!(world.store.read_stats().await.unwrap().output_bytes, FRAMES * 4 + 10);
    assert_eq!(
        world.at(9000).forget_outputs(None, t(1), u64::MAX).await.unwrap(),
        1,
        "the one written before"
    );
    assert!(world.store.read_output(&first, 1).await.unwrap().is_none());
    assert_eq!(
        world.at(9000).forget_outputs(None, t(0), FRAMES * 2 + 7).await.unwrap(),
        1,
        "the one too many"
    );
    assert_eq!(world.store.read_stats().await.unwrap().output_bytes, FRAMES * 2 + 7);
    assert_eq!(world.at(9000).forget_outputs(None, t(0), 0).await.unwrap(), 2);
    assert_eq!(world.store.read_stats().await.unwrap().output_bytes, 0);
    assert_eq!(world.at(9000).forget_outputs(None, t(9000), 0).await.unwrap(), 0);
}

#[tokio::test]
async fn what_is_no_output_is_left_alone_and_keeps_no_other_from_going() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win(0, &run).await;
    world.at(1).write_output(&claim, &printed("mine")).await.unwrap();
    let _: i64 = world.raw("RPUSH", "output:b@5#1", &["not ours"]);
    let _: i64 = world.raw("ZADD", "outputs", &["5", "b@5#1"]);
    let _: i64 = world.raw("HSET", &format!("output:{run}#2"), &["size", "damaged"]);
    let _: i64 = world.raw("ZADD", "outputs", &["6", &format!("{run}#2")]);
    assert_eq!(world.at(9000).forget_outputs(None, t(9000), 0).await.unwrap(), 3);
    assert_eq!(world.raw::<i64>("LLEN", "output:b@5#1", &[]), 1);
    assert_eq!(world.raw::<i64>("ZCARD", "outputs", &[]), 0);
    assert_eq!(world.store.read_stats().await.unwrap().output_bytes, 0);
}

/// Keeps `text` as the output of the run of `job` at `due`, which is open with the next.
async fn keep(world: &World, job: &str, due: i64, text: &str) -> Option<u64> {
    let run = run_of(job, due);
    let claim = world.win_with(due, &run, Overlap::Allow, due + 1).await;
    world.at(due).write_output(&claim, &printed(text)).await.unwrap()
}

#[tokio::test]
async fn a_job_that_floods_loses_its_own_oldest_output_and_no_other_job_loses_any() {
    let world = World::new();
    world.plant("quiet", 0).await;
    world.plant("loud", 0).await;
    keep(&world, "quiet", 0, "the oldest of all").await;
    let mut kept = Vec::new();
    for due in 0..150 {
        kept.push(keep(&world, "loud", due, "12345").await.unwrap());
    }
    let each = FRAMES + 5;
    assert_eq!((kept[0], kept[149]), (each, each * 150), "told at each writing, of this job alone");
    let loud = name("loud");
    for (most, forgotten) in [(u64::MAX, 0), (each * 20, 100), (each * 20, 30), (each * 20, 0)] {
        assert_eq!(world.at(900).forget_outputs(Some(&loud), t(0), most).await.unwrap(), forgotten);
    }
    assert!(world.store.read_output(&run_of("loud", 129), 1).await.unwrap().is_none());
    assert!(world.store.read_output(&run_of("loud", 130), 1).await.unwrap().is_some());
    assert!(world.store.read_output(&run_of("quiet", 0), 1).await.unwrap().is_some());
    let bytes: u64 = world.raw("GET", "output_bytes", &[]);
    assert_eq!(bytes, each * 20 + FRAMES + 17);
    assert_eq!(world.raw::<Option<u64>>("HGET", "output_sizes", &["loud"]), Some(each * 20));
    assert_eq!(world.total("trimmed_outputs"), 130);
    assert_eq!(world.at(900).forget_outputs(None, t(900), 0).await.unwrap(), 21);
    let keys = world.snapshot();
    assert!(
        !keys.keys().any(|key| key.contains("output_sizes") || key.contains(":outputs:")),
        "{keys:?}"
    );
}
