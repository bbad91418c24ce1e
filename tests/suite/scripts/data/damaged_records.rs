//! Records with fields missing, unknown or damaged: no script stops between two writes, and one record hides no other.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_store::{FinishReply, OutputFrames, RecoverReply, StoreError, Verdict};

use crate::scripts::claims::recovering::{expired, recovery};
use crate::scripts::world::{World, claimant, definition, name, queue, run_of, version};

const DAMAGED: [&str; 6] = ["", "x", "-1", "inf", "nan", "1e300"];

async fn running(world: &World) -> schedd_store::Claim {
    let run = world.plant("a", 0).await;
    world.win_with(0, &run, Overlap::Skip, 1_000_000).await
}

#[tokio::test]
async fn damaged_counts_in_a_run_s_record_stop_neither_claim_nor_end_nor_recovery() {
    for damaged in DAMAGED {
        let world = World::new();
        let claim = running(&world).await;
        let record = format!("run:{}", claim.run);
        let spoil = || {
            let fields = ["attempt", "failures", "recoveries", "ready", "lease_end", "unclear"];
            let args: Vec<&str> = fields.iter().flat_map(|field| [*field, damaged]).collect();
            let _: i64 = world.raw("HSET", &record, &args);
        };
        spoil();
        assert!(matches!(
            world.finish(1, &claim, Verdict::Retry(Duration::ZERO)).await,
            FinishReply::Retrying(_)
        ));
        spoil();
        let claim = world.win(2, &claim.run).await;
        assert_eq!(
            (claim.attempt, claim.failures, claim.recoveries, claim.unclear),
            (1, 0, 0, 0),
            "{damaged:?}"
        );
        spoil();
        let asked = world.finish(3, &claim, Verdict::AskLater(Duration::ZERO)).await;
        assert!(matches!(asked, FinishReply::AskingLater(_)), "{damaged:?}");
        spoil();
        assert!(matches!(
            world.finish(3, &claim, Verdict::AskLater(Duration::ZERO)).await,
            FinishReply::AskingLater(_)
        ));
        let claim = world.win(3, &claim.run).await;
        spoil();
        assert_eq!(world.finish(3, &claim, Verdict::Release).await, FinishReply::Released);
        spoil();
        let claim = world.win(4, &claim.run).await;
        spoil();
        let reply =
            world.at(20_000).recover_run(&expired(&claim, 10_004), &recovery(None)).await.unwrap();
        assert_eq!(reply, RecoverReply::Recovered, "{damaged:?}");
        let claim = world.win(20_001, &claim.run).await;
        world.succeed(20_002, &claim).await;
        world.assert_sound();
    }
}

#[tokio::test]
async fn a_run_whose_fence_is_lost_or_damaged_still_ends_or_is_taken_back() {
    for damaged in DAMAGED {
        for is_lost in [false, true] {
            let world = World::new();
            let claim = running(&world).await;
            let record = format!("run:{}", claim.run);
            let spoil = || {
                let _: i64 = world.raw("HSET", &record, &["fence", damaged]);
                if is_lost {
                    let _: i64 = world.raw("HDEL", &record, &["fence"]);
                }
            };
            spoil();
            let reply = world
                .at(20_000)
                .recover_run(&expired(&claim, 10_000), &recovery(None))
                .await
                .unwrap();
            assert_eq!(reply, RecoverReply::Recovered, "{damaged:?}");
            let again = world.win(20_000, &claim.run).await;
            assert!(again.claimed_before && again.fence > claim.fence, "{damaged:?}");
            spoil();
            world.succeed(20_001, &again).await;
            world.succeed(20_001, &again).await;
            world.assert_sound();
        }
    }
}

#[tokio::test]
async fn a_claim_asked_for_twice_is_answered_although_its_record_is_damaged() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let order = world.order(&run).await;
    let ask = || async {
        let orders = std::slice::from_ref(&order);
        World::won(
            world
                .at(0)
                .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), "one", orders)
                .await
                .unwrap()
                .remove(0),
        )
        .fence
    };
    let first = ask().await;
    let _: i64 = world.raw("HDEL", &format!("run:{run}"), &["lease_end", "attempt"]);
    assert_eq!(ask().await, first);
}

#[tokio::test]
async fn damaged_totals_begin_anew_and_stop_no_end() {
    for damaged in DAMAGED {
        let world = World::new();
        let overlap = Overlap::Queue { max: 1 };
        for word in ["succeeded", "waiting", "skipped", "cancelled", "recovered"] {
            let _: i64 = world.raw("HSET", "counters", &[word, damaged]);
        }
        let first = world.plant("a", 0).await;
        let open = world.win_with(0, &first, overlap, 1000).await;
        world.claim(1000, &world.order_with(&run_of("a", 1000), overlap, 2000).await).await;
        world.claim(2000, &world.order_with(&run_of("a", 2000), overlap, 3000).await).await;
        world.succeed(2001, &open).await;
        world.at(2002).cancel_run(&world.cancelling(&run_of("a", 1000), None).await).await.unwrap();
        world.assert_sound();
        // "-1" is a number, if no count: only what is none begins anew at once.
        let skipped = i64::from(damaged != "-1");
        assert_eq!(
            (world.total("succeeded"), world.total("skipped")),
            (skipped, skipped),
            "{damaged:?}"
        );
    }
}

#[tokio::test]
async fn lost_totals_do_not_count_below_nothing() {
    let world = World::new();
    let overlap = Overlap::Queue { max: 1 };
    let first = world.plant("a", 0).await;
    let open = world.win_with(0, &first, overlap, 1000).await;
    world.claim(1000, &world.order_with(&run_of("a", 1000), overlap, 2000).await).await;
    let _: i64 = world.raw("DEL", "counters", &[]);
    world.succeed(1001, &open).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_run_whose_record_was_lost_while_it_ran_ends_all_the_same() {
    for verdict in
        [Verdict::Final(RunState::Succeeded), Verdict::Retry(Duration::ZERO), Verdict::Release]
    {
        let world = World::new();
        let claim = running(&world).await;
        let _: i64 = world.raw("DEL", &format!("run:{}", claim.run), &[]);
        let reply = world.finish(1, &claim, verdict.clone()).await;
        assert_ne!(reply, FinishReply::Lost, "{verdict:?}");
        world.assert_sound();
    }
}

#[tokio::test]
async fn fields_of_a_newer_schedd_are_kept() {
    let world = World::new();
    let claim = running(&world).await;
    let record = format!("run:{}", claim.run);
    for key in [record.as_str(), "job:a"] {
        let _: i64 = world.raw("HSET", key, &["of_tomorrow", "kept"]);
    }
    world.finish(1, &claim, Verdict::Retry(Duration::ZERO)).await;
    let claim = world.win(2, &claim.run).await;
    world.succeed(3, &claim).await;
    for key in [record.as_str(), "job:a"] {
        assert_eq!(world.raw::<String>("HGET", key, &["of_tomorrow"]), "kept");
    }
}

#[tokio::test]
async fn a_job_with_a_damaged_rev_can_be_defined_anew() {
    for damaged in DAMAGED {
        let world = World::new();
        world.plant("a", 1000).await;
        let _: i64 = world.raw("HSET", "job:a", &["rev", damaged]);
        let job = world.job("a").await;
        let mut edit = definition("a", 2000);
        (edit.definition, edit.read) = (version("v2"), Some((job.rev, job.lane)));
        if damaged.is_empty() {
            continue; // Taken for a free name, so told as stale: the name must be removed by hand.
        }
        assert_eq!(
            world.at(0).apply_job(&edit).await.unwrap(),
            schedd_store::ApplyReply::Updated,
            "{damaged:?}"
        );
        world.assert_sound();
    }
}

#[tokio::test]
async fn a_job_s_record_that_is_truncated_or_of_another_type_is_named_and_hides_no_other() {
    let world = World::new();
    world.plant("good", 1000).await;
    let _: i64 = world.raw("HSET", "job:cut", &["rev", "5"]);
    let _: i64 = world.raw("RPUSH", "job:list", &["x"]);
    let names = [name("cut"), name("list"), name("nobody"), name("good")];
    let records = world.store.read_jobs(&names).await.unwrap();
    assert!(matches!(&records[0], Err(StoreError::Corrupt { .. })), "{:?}", records[0]);
    assert!(matches!(&records[1], Err(StoreError::WrongType { .. })), "{:?}", records[1]);
    assert!(matches!(&records[2], Ok(None)));
    assert!(matches!(&records[3], Ok(Some(_))));
}

#[tokio::test]
async fn a_run_s_record_in_a_state_nobody_knows_is_reported_and_hides_no_other() {
    let world = World::new();
    let claim = running(&world).await;
    let _: i64 = world.raw("HSET", "run:b@5", &["state", "dead"]);
    let _: () = world.raw("SET", "run:b@6", &["x"]);
    let ids = ["b@5".parse().unwrap(), "b@6".parse().unwrap(), claim.run];
    let records = world.store.read_runs(&ids).await.unwrap();
    assert!(matches!(&records[0], Err(StoreError::Corrupt { .. })));
    assert!(matches!(&records[1], Err(StoreError::WrongType { .. })));
    assert!(matches!(&records[2], Ok(Some(_))));
}

#[tokio::test]
async fn damaged_sizes_of_output_stop_no_writing() {
    for damaged in DAMAGED {
        let world = World::new();
        let claim = running(&world).await;
        let _: () = world.raw("SET", "output_bytes", &[damaged]);
        let _: i64 = world.raw("HSET", &format!("output:{}#1", claim.run), &["size", damaged]);
        let mut frames = OutputFrames::new(0);
        frames.push_head(schedd_store::OutputStream::Stdout, b"hello");
        assert_eq!(
            world.at(1).write_output(&claim, &frames).await.unwrap(),
            Some(10),
            "{damaged:?}"
        );
    }
}
