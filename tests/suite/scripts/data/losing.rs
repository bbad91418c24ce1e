//! `begin_epoch`, `report_loss`, `restore_run` and `return_run`: data that was lost is marked, and what nodes know of it goes back.

use std::time::Duration;

use schedd::engine::recovery::restored_ends;
use schedd::engine::recovery::restored_ends::Given;
use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::{Fence, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    ApplyOrder, DataLoss, EpochReply, KnownRun, LaneAsk, LanePoll, LossKind, LossReport,
    ReportReply, RestoreOrder, RestoreReply, ReturnReply, SkipOrder, SkipReply, Successor,
    TakenFrom, Verdict,
};

use crate::scripts::world::{
    LEASE, World, claimant, definition, queue, run_of, successor, t, token,
};

/// A loss that gave the mark `epoch`.
pub(crate) fn loss(epoch: &str) -> DataLoss {
    DataLoss {
        epoch: epoch.to_owned(),
        before: "10-n1-a".to_owned(),
        found: String::new(),
        kind: LossKind::Flushed,
        by: "n1".to_owned(),
        whole_at_ms: t(-5).as_i64(),
        kept_to_ms: 0,
    }
}

/// A report of n2 on the loss that gave the mark `epoch`.
pub(crate) fn report(epoch: &str) -> LossReport {
    let gone = vec![("api".to_owned(), "every 1h".to_owned())];
    LossReport {
        epoch: epoch.to_owned(),
        node: "n2".to_owned(),
        restored: 3,
        lost: 1,
        jobs_gone: 1,
        gone,
    }
}

/// A successful end of `run` at 500, as a journal knows it.
pub(crate) fn restoring(run: &RunId, epoch: &str, fence: u64) -> RestoreOrder {
    RestoreOrder {
        run: run.clone(),
        epoch: epoch.to_owned(),
        lane: queue("default"),
        job_lane: Some(queue("default")),
        known: KnownRun::Ended,
        state: RunState::Succeeded,
        reason: "restored".to_owned(),
        finished_at: t(500),
        fence: Fence::new(fence).unwrap(),
        planned: None,
        ranges_mark: String::new(),
        taken_from: None,
        in_ledger: None,
        notified_before: UnixMillis::EPOCH,
        facts: vec![
            ("attempt".to_owned(), "1".to_owned()),
            ("restored".to_owned(), "n1".to_owned()),
        ],
    }
}

pub(crate) async fn restore(world: &World, at: i64, order: &RestoreOrder) -> RestoreReply {
    world.at(at).restore_runs(std::slice::from_ref(order)).await.unwrap().remove(0).unwrap()
}

/// A fence past all that claims of a test's time give.
pub(crate) const LATER: u64 = 1_800_000_000_000_000;

#[tokio::test]
async fn a_loss_noticed_by_several_nodes_is_marked_once_also_on_a_repeated_call() {
    let world = World::new();
    let store = world.at(0);
    assert_eq!(
        store.begin_epoch("", "5-n1-first", None, 0, LEASE).await.unwrap(),
        EpochReply::Begun
    );
    assert!(store.read_losses().await.unwrap().is_empty(), "a first day is no loss");
    assert_eq!(world.raw::<i64>("EXISTS", "restoring_until", &[]), 0);
    let _: () = world.server(&["FLUSHALL"]);
    for _ in 0..2 {
        let first =
            store.begin_epoch("", "20-n1-b", Some(&loss("20-n1-b")), LATER, LEASE).await.unwrap();
        assert_eq!(first, EpochReply::Begun);
    }
    let second =
        store.begin_epoch("", "20-n2-c", Some(&loss("20-n2-c")), LATER, LEASE).await.unwrap();
    assert_eq!(second, EpochReply::Another);
    let losses = store.read_losses().await.unwrap();
    assert_eq!((losses.len(), losses[0].at, &losses[0].loss), (1, Some(t(0)), &loss("20-n1-b")));
    assert_eq!(world.raw::<u64>("GET", "fence", &[]), LATER);
}

#[tokio::test]
async fn nothing_is_due_until_the_data_has_settled_and_the_poll_says_when() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    world.at(0).begin_epoch("", "20-n1-b", Some(&loss("20-n1-b")), 7, LEASE).await.unwrap();
    let poll = world.at(9_999).list_due(&[LaneAsk::new(queue("default"), 5)]).await.unwrap();
    assert_eq!(
        (poll.marks.epoch.as_str(), poll.marks.fence, poll.marks.is_damaged),
        ("20-n1-b", 7, false)
    );
    let LanePoll::Due { due, next, .. } = &poll.lanes[0] else { panic!("{poll:?}") };
    assert_eq!((due.len(), *next), (0, Some(t(10_000))));
    let poll = world.at(10_000).list_due(&[LaneAsk::new(queue("default"), 5)]).await.unwrap();
    let LanePoll::Due { due, .. } = &poll.lanes[0] else { panic!("{poll:?}") };
    assert_eq!(due[0].member, run.to_string());
    // A clock set back by hours must not hold everything for hours.
    let poll = world.at(-9_000_000).list_due(&[LaneAsk::new(queue("default"), 5)]).await.unwrap();
    let LanePoll::Due { next, .. } = &poll.lanes[0] else { panic!("{poll:?}") };
    assert_eq!(*next, Some(t(0)));
}

#[tokio::test]
async fn a_poll_reports_marks_that_are_damaged() {
    let world = World::new();
    for (key, value) in [
        ("epoch", None),
        ("fence", Some("nonsense")),
        ("fence", Some("-5")),
        ("fence", Some("1e300")),
    ] {
        let _: i64 = world.raw("DEL", key, &[]);
        match value {
            Some(value) => world.raw::<()>("SET", key, &[value]),
            None => drop(world.raw::<i64>("RPUSH", key, &["x"])),
        }
        assert!(world.at(0).list_due(&[]).await.unwrap().marks.is_damaged, "{key} {value:?}");
        let _: i64 = world.raw("DEL", key, &[]);
    }
    let marks = world.at(0).list_due(&[]).await.unwrap().marks;
    assert_eq!((marks.epoch.as_str(), marks.fence, marks.is_damaged), ("", 0, false));
    let no_text: &[u8] = b"\xff\xfe no text";
    let () = redis::cmd("SET")
        .arg(world.key("epoch"))
        .arg(no_text)
        .query(&mut world.redis.connection())
        .unwrap();
    assert!(world.at(0).list_due(&[]).await.unwrap().marks.is_damaged);
}

#[tokio::test]
async fn a_report_stands_once_with_its_loss_and_raises_the_fence() {
    let world = World::new();
    let store = world.at(0);
    store.begin_epoch("", "20-n1-b", Some(&loss("20-n1-b")), 7, LEASE).await.unwrap();
    for _ in 0..2 {
        assert_eq!(
            store.report_loss(&report("20-n1-b"), 9).await.unwrap(),
            ReportReply::Reported(9)
        );
    }
    assert_eq!(store.report_loss(&report("20-n1-b"), 8).await.unwrap(), ReportReply::Reported(9));
    assert_eq!(store.report_loss(&report("30-n1-c"), 99).await.unwrap(), ReportReply::Moved);
    let losses = store.read_losses().await.unwrap();
    assert_eq!((losses.len(), losses[0].reports.as_slice()), (1, [report("20-n1-b")].as_slice()));
    assert_eq!(losses[0].jobs_gone()[0].0.as_str(), "api");
    assert_eq!(world.raw::<u64>("GET", "fence", &[]), 9);
}

#[tokio::test]
async fn of_many_losses_the_oldest_are_forgotten() {
    let world = World::new();
    let mut last = String::new();
    for number in 0..230 {
        let epoch = format!("{number}-n1-x");
        world.at(number).begin_epoch(&last, &epoch, Some(&loss(&epoch)), 7, LEASE).await.unwrap();
        last = epoch;
    }
    assert_eq!(world.raw::<i64>("ZCARD", "data_losses", &[]), 200);
    assert_eq!(world.store.read_losses().await.unwrap()[0].loss.epoch, last);
}

#[tokio::test]
async fn an_ended_run_is_written_back_wherever_it_stands_and_its_job_goes_on() {
    // Planned.
    let world = World::new();
    let run = world.plant("a", 0).await;
    let rev = world.job("a").await.rev;
    let order = RestoreOrder {
        planned: Some((rev, Some(successor("a", 1000)))),
        ..restoring(&run, "", LATER)
    };
    assert_eq!(restore(&world, 900, &order).await, RestoreReply::Restored);
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 1000)));
    let record = world.run(&run).await;
    assert_eq!(
        (record.state, record.finished_at, record.attempt),
        (RunState::Succeeded, Some(t(500)), 1)
    );
    assert_eq!(
        (world.score("history", &run.to_string()), world.total("succeeded")),
        (Some(500), 1)
    );
    world.assert_sound();
    // Being executed, by a claim of the older state; another run of its job waits for it.
    let world = World::new();
    let run = world.plant("a", 0).await;
    world.win_with(0, &run, Overlap::Queue { max: 5 }, 1000).await;
    let _: schedd_store::ClaimReply = {
        let order = world.order(&run_of("a", 1000)).await;
        world
            .claim(1000, &schedd_store::ClaimOrder { overlap: Overlap::Queue { max: 5 }, ..order })
            .await
    };
    assert_eq!(world.total("waiting"), 1);
    assert_eq!(restore(&world, 2000, &restoring(&run, "", LATER)).await, RestoreReply::Restored);
    assert_eq!(world.total("waiting"), 0, "the one that waited has its turn");
    world.assert_sound();
    // Waiting itself, behind the one before.
    let world = World::new();
    let first = world.plant("a", 0).await;
    world.win_with(0, &first, Overlap::Queue { max: 5 }, 1000).await;
    let order = world.order(&run_of("a", 1000)).await;
    world
        .claim(1000, &schedd_store::ClaimOrder { overlap: Overlap::Queue { max: 5 }, ..order })
        .await;
    assert_eq!(
        restore(&world, 2000, &restoring(&run_of("a", 1000), "", LATER)).await,
        RestoreReply::Restored
    );
    assert_eq!(world.total("waiting"), 0);
    world.assert_sound();
    // Held back by a pause.
    let world = World::new();
    let run = world.plant("a", 0).await;
    world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let rev = world.job("a").await.rev;
    let order = RestoreOrder {
        planned: Some((rev, Some(successor("a", 1000)))),
        ..restoring(&run, "", LATER)
    };
    assert_eq!(restore(&world, 900, &order).await, RestoreReply::Restored);
    assert_eq!(world.job("a").await.paused_run, Some(run_of("a", 1000)));
    world.assert_sound();
    // A one-shot is over with it.
    let world = World::new();
    let run = world.plant_once("a", 0).await;
    let rev = world.job("a").await.rev;
    let order = RestoreOrder { planned: Some((rev, None)), ..restoring(&run, "", LATER) };
    assert_eq!(restore(&world, 900, &order).await, RestoreReply::Restored);
    assert_eq!(world.job("a").await.ended.as_deref(), Some("finished"));
    world.assert_sound();
    // Nowhere: all is gone. What ended badly is a dead letter again.
    let world = World::new();
    let order =
        RestoreOrder { state: RunState::Failed, ..restoring(&run_of("gone", 0), "", LATER) };
    assert_eq!(restore(&world, 900, &order).await, RestoreReply::Restored);
    assert_eq!(world.raw::<i64>("ZCARD", "dead", &[]), 1);
    world.assert_sound();
}

#[tokio::test]
async fn a_run_written_back_is_not_planted_again() {
    let world = World::new();
    let run = run_of("a", 0);
    assert_eq!(restore(&world, 900, &restoring(&run, "", LATER)).await, RestoreReply::Restored);
    let reply =
        world.at(-1000).apply_job(&crate::scripts::world::definition("a", 0)).await.unwrap();
    assert_eq!(reply, schedd_store::ApplyReply::Occupied);
}

#[tokio::test]
async fn of_the_ends_in_several_journals_that_of_the_last_claim_stands() {
    let run = run_of("a", 0);
    let assumed = |fence| RestoreOrder {
        known: KnownRun::Claimed,
        state: RunState::Lost,
        ..restoring(&run, "", fence)
    };
    let failed = |fence| RestoreOrder { state: RunState::Failed, ..restoring(&run, "", fence) };
    let succeeded = |fence| restoring(&run, "", fence);
    for orders in [
        [assumed(LATER), succeeded(LATER)],
        [failed(LATER - 1), succeeded(LATER)],
        [assumed(LATER - 1), succeeded(LATER)],
        [succeeded(LATER - 1), failed(LATER)],
        [failed(LATER - 1), assumed(LATER)],
    ] {
        let [first, second] = &orders;
        for (order, other) in [(first, second), (second, first)] {
            let world = World::new();
            world.plant("a", 1_000).await;
            assert_eq!(restore(&world, 900, order).await, RestoreReply::Restored);
            restore(&world, 910, other).await;
            let record = world.store.read_run(&run).await.unwrap().unwrap();
            assert_eq!((record.state, record.fence), (second.state, Some(second.fence)));
            let snapshot = world.snapshot();
            for again in &orders {
                assert_eq!(restore(&world, 920, again).await, RestoreReply::Known);
            }
            assert_eq!(world.snapshot(), snapshot);
            world.assert_sound();
        }
    }
}

#[tokio::test]
async fn what_redis_knows_better_stays_as_it_is() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win(0, &run).await;
    // A later claim than the journal's.
    let earlier = restoring(&run, "", claim.fence.as_u64() - 1);
    assert_eq!(restore(&world, 10, &earlier).await, RestoreReply::Known);
    // A start mark whose lease is alive is its holder's, or recovery's.
    let marked = RestoreOrder {
        known: KnownRun::Claimed,
        state: RunState::Lost,
        ..restoring(&run, "", claim.fence.as_u64())
    };
    assert_eq!(restore(&world, 10, &marked).await, RestoreReply::Known);
    // The very end the journal tells of, tried again by a person since.
    world.finish(20, &claim, Verdict::Final(RunState::Failed)).await;
    let reported = restoring(&run, "", claim.fence.as_u64());
    assert_eq!(restore(&world, 30, &reported).await, RestoreReply::Known);
    let job = world.job("a").await;
    world.at(40).retry_run(&crate::scripts::jobs::retrying::retrial(&claim, &job)).await.unwrap();
    let before = world.snapshot();
    assert_eq!(restore(&world, 50, &reported).await, RestoreReply::Known);
    assert_eq!(world.snapshot(), before);
    world.assert_sound();
}

#[tokio::test]
async fn a_restore_by_an_older_definition_or_over_a_taken_occurrence_is_refused() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let before = world.snapshot();
    assert_eq!(restore(&world, 900, &restoring(&run, "", LATER)).await, RestoreReply::Stale);
    assert_eq!(world.snapshot(), before);
    let ended = run_of("a", 1000);
    assert_eq!(restore(&world, 900, &restoring(&ended, "", LATER)).await, RestoreReply::Restored);
    let before = world.snapshot();
    let next = Successor { run: ended, ready: t(1000) };
    let order = RestoreOrder {
        planned: Some((world.job("a").await.rev, Some(next))),
        ..restoring(&run, "", LATER)
    };
    assert_eq!(restore(&world, 900, &order).await, RestoreReply::Occupied);
    assert_eq!(world.snapshot(), before);
}

/// A job `a` of every second, of which those due at 0 to 5 s were skipped, as one stretch.
pub(crate) async fn skipped() -> World {
    let world = World::new();
    skip_six(&world, r#"{"every":"1s","shell":"true"}"#).await;
    world
}

/// Plants `a` of this definition, and skips those due at 0 to 5 s as one stretch.
pub(crate) async fn skip_six(world: &World, text: &str) {
    let run =
        world.plant_as(ApplyOrder { definition: text.to_owned(), ..definition("a", 0) }).await;
    let order = SkipOrder {
        run,
        rev: world.job("a").await.rev,
        lane: queue("default"),
        reason: "missed",
        last_due: t(5000),
        count: 6,
        successor: Some(successor("a", 6000)),
    };
    assert_eq!(world.at(6000).skip_run(&order).await.unwrap(), SkipReply::Skipped);
}

/// Gives back runs of the job `a` due at these times, in this order, as a node does.
pub(crate) async fn give_back(world: &World, dues: &[i64]) -> Given {
    let orders: Vec<RestoreOrder> =
        dues.iter().map(|due| restoring(&run_of("a", *due), "", LATER)).collect();
    restored_ends::give_back(&world.at(7000), &orders, |run, error| panic!("{run}: {error}"))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_run_given_back_into_a_range_that_was_skipped_leaves_it_and_is_named_once() {
    let skipped_range = |world: &World, first: i64| {
        let (run, store) = (run_of("a", first), world.store.clone());
        async move {
            store
                .read_run(&run)
                .await
                .unwrap()
                .and_then(|run| run.skipped)
                .map(|(last, count)| (last.as_i64(), count))
        }
    };
    let left = |last: i64, count: u64| Some((t(last).as_i64(), count));
    // In the middle, at the end, and the first one, whose record was that of the stretch.
    for (out, first, rest) in
        [(2000, 0, left(5000, 5)), (5000, 0, left(4000, 5)), (0, 1000, left(5000, 5))]
    {
        let world = skipped().await;
        assert_eq!(give_back(&world, &[out]).await, Given { restored: 1, ..Given::default() });
        assert_eq!(world.run(&run_of("a", out)).await.state, RunState::Succeeded);
        assert_eq!(skipped_range(&world, first).await, rest, "without {out}");
        assert_eq!((world.total("skipped"), world.total("succeeded")), (5, 1));
        assert_eq!(world.run(&run_of("a", first)).await.reason.as_deref(), Some("missed"));
        world.assert_sound();
        // Once more changes nothing.
        assert_eq!(give_back(&world, &[out]).await, Given { known: 1, ..Given::default() });
        assert_eq!((skipped_range(&world, first).await, world.total("skipped")), (rest, 5));
    }
    // All of them: nothing is left of it.
    let world = skipped().await;
    assert_eq!(
        give_back(&world, &[3000, 0, 5000, 1000, 4000, 2000]).await,
        Given { restored: 6, ..Given::default() }
    );
    for due in 0..6 {
        assert_eq!(world.run(&run_of("a", due * 1000)).await.state, RunState::Succeeded);
    }
    assert_eq!((world.total("skipped"), world.total("succeeded")), (0, 6));
    world.assert_sound();
}

#[tokio::test]
async fn a_run_is_given_back_only_out_of_the_range_that_was_read() {
    let world = skipped().await;
    let skipped_range = SkippedRange { first: t(0), last: t(5000), count: 6 };
    let rest = SkippedRange { count: 5, ..skipped_range };
    let mark = world.job("a").await.ranges_mark;
    let order = |mark: &str, taken: Option<(SkippedRange, SkippedRange)>, due| RestoreOrder {
        ranges_mark: mark.to_owned(),
        taken_from: taken
            .map(|(skipped_range, rest)| TakenFrom { skipped_range, rest: Some(rest) }),
        ..restoring(&run_of("a", due), "", LATER)
    };
    let before = world.snapshot();
    for wrong in [
        // A stretch has been told since.
        order("", None, 2000),
        // It tells of another number, or to another end.
        order(&mark, Some((SkippedRange { count: 7, ..skipped_range }, rest)), 2000),
        order(&mark, Some((SkippedRange { last: t(4000), ..skipped_range }, rest)), 2000),
        // Its first is told as skipped, and nobody saw that.
        order(&mark, None, 0),
        // What was to begin with another now has a record.
        order(&mark, Some((skipped_range, SkippedRange { first: t(6000), ..rest })), 0),
    ] {
        if wrong
            .taken_from
            .is_some_and(|taken| taken.rest.is_some_and(|rest| rest.first == t(6000)))
        {
            world.raw::<i64>("HSET", &format!("run:{}", run_of("a", 6000)), &["state", "running"]);
            assert_eq!(restore(&world, 7000, &wrong).await, RestoreReply::Stale);
            world.raw::<i64>("DEL", &format!("run:{}", run_of("a", 6000)), &[]);
        } else {
            assert_eq!(restore(&world, 7000, &wrong).await, RestoreReply::Stale);
        }
        assert_eq!(world.snapshot(), before);
    }
    let first = order(&mark, Some((skipped_range, rest)), 2000);
    assert_eq!(restore(&world, 7000, &first).await, RestoreReply::Restored);
    // Another node has read the ranges before, and its first order takes another occurrence. Its second
    // order counts on the range that its first would have left, which has the same count.
    let of_other = order(&mark, Some((skipped_range, rest)), 1000);
    let second = SkippedRange { last: t(4000), count: 4, ..rest };
    let mark = of_other.ranges_mark_after();
    let second = order(&mark, Some((rest, second)), 5000);
    assert_eq!(restore(&world, 7000, &second).await, RestoreReply::Stale);
    let mark = first.ranges_mark_after();
    let second = RestoreOrder { ranges_mark: mark, ..second };
    assert_eq!(restore(&world, 7000, &second).await, RestoreReply::Restored);
}

#[tokio::test]
async fn a_range_keeps_what_reports_its_occurrences_and_nothing_else_of_its_job() {
    let day = r#""exclude":["2026-12-24","sat"],"only_on":["mon","tue","fri"],"start":"2026-01-01T00:00:00Z","end":"2030-01-01T00:00:00Z""#;
    for timing in [
        r#""every":"1s","anchor":"2026-01-01T00:00:00Z""#.to_owned(),
        format!(
            r#""cron":["0 4 * * *","H 5 * * *"],"dst":{{"gap":"skip","fold":"both"}},"tz":"Europe/Berlin",{day}"#
        ),
        r#""calendar":"daily","tz":"Asia/Tokyo""#.to_owned(),
        r#""rrule":"FREQ=DAILY;BYHOUR=9","dtstart":"2026-01-01T09:00:00""#.to_owned(),
        r#""schedules":[{"every":"1h"},{"cron":"5 4 * * *"}]"#.to_owned(),
        r#""at":["2026-01-01T00:00:00Z","2027-01-01T00:00:00Z"]"#.to_owned(),
    ] {
        let world = World::new();
        let text = format!(
            r#"{{{timing},"http":{{"url":"http://127.0.0.1/","headers":{{"Authorization":"Bearer hush"}}}},"env":{{"PASSWORD":"hush{}"}}}}"#,
            "x".repeat(5_000)
        );
        skip_six(&world, &text).await;
        let run = run_of("a", 0);
        let fields: Vec<String> = world.raw("HGETALL", &format!("run:{run}"), &[]);
        assert!(
            !fields.iter().any(|field| field.contains("hush") || field.len() > 1_024),
            "{fields:?}"
        );
        let kept = world.store.read_skipped_ranges(&[run]).await.unwrap().remove(0).unwrap();
        let kept =
            schedd_core::config::from_canonical(&kept.counted_by.expect("it is kept").definition)
                .unwrap();
        let whole = schedd_core::config::from_canonical(&text)
            .unwrap_or_else(|error| panic!("{timing}: {error}"));
        assert_eq!(
            (&kept.schedule, &kept.shape, &kept.tz, kept.dst),
            (&whole.schedule, &whole.shape, &whole.tz, whole.dst)
        );
    }
    // One whose days are too many to be kept with each stretch.
    let world = World::new();
    let days: Vec<String> = (1..=28)
        .flat_map(|day| (1..=9).map(move |month| format!("\"2026-0{month}-{day:02}\"")))
        .collect();
    skip_six(&world, &format!(r#"{{"every":"1s","exclude":[{}],"shell":"true"}}"#, days.join(",")))
        .await;
    let kept = world.store.read_skipped_ranges(&[run_of("a", 0)]).await.unwrap().remove(0).unwrap();
    assert_eq!((kept.skipped_range.count, kept.counted_by), (6, None));
}

#[tokio::test]
async fn a_skipped_run_in_no_range_is_known_and_a_run_read_two_ways_is_named() {
    // One by hand, which waited for none and was skipped; another node says that it ran.
    let world = World::new();
    let first = world.plant("a", 0).await;
    world.win_with(0, &first, Overlap::Skip, 100_000).await;
    let by_hand = world.by_hand("a", 10).await;
    let order = world.order(&by_hand).await;
    assert!(matches!(world.claim(20, &order).await, schedd_store::ClaimReply::Blocked(_)));
    assert_eq!(world.state(&by_hand).await, RunState::Skipped);
    let orders = [restoring(&by_hand, "", LATER)];
    let given =
        restored_ends::give_back(&world.at(7000), &orders, |run, error| panic!("{run}: {error}"))
            .await
            .unwrap();
    assert_eq!(given, Given { known: 1, ..Given::default() });
    // An occurrence that the history of its job names no more.
    let world = skipped().await;
    let _: i64 = world.raw("ZREM", "history:a", &[&run_of("a", 0).to_string()]);
    assert_eq!(give_back(&world, &[0]).await, Given { known: 1, ..Given::default() });
    // What the script reads otherwise than the node does.
    let world = skipped().await;
    let damaged = format!("0{}", t(5000).as_i64());
    let _: i64 = world.raw("HSET", &format!("run:{}", run_of("a", 0)), &["skipped_to", &damaged]);
    let (orders, named) =
        ([restoring(&run_of("a", 2000), "", LATER)], std::sync::Mutex::new(Vec::new()));
    let failed = |run: &RunId, error: &schedd_store::StoreError| {
        named.lock().unwrap().push((run.clone(), error.to_string()));
    };
    let given = restored_ends::give_back(&world.at(7000), &orders, failed).await.unwrap();
    assert_eq!(given, Given { failed: 1, ..Given::default() });
    let named = named.into_inner().unwrap();
    assert!(
        named.len() == 1 && named[0].0 == orders[0].run && named[0].1.contains("at each attempt"),
        "{named:?}"
    );
}

#[tokio::test]
async fn a_range_is_set_right_only_while_it_reports_what_was_read() {
    let world = skipped().await;
    let (run, store) = (run_of("a", 0), world.at(7000));
    let reported = SkippedRange { first: t(0), last: t(5000), count: 6 };
    let wanted = SkippedRange { last: t(4000), count: 4, ..reported };
    let before = world.snapshot();
    for read in [SkippedRange { count: 5, ..reported }, SkippedRange { last: t(4000), ..reported }]
    {
        assert!(!store.repair_skipped_range(&run, read, wanted).await.unwrap());
    }
    assert!(!store.repair_skipped_range(&run_of("a", 6000), reported, wanted).await.unwrap());
    assert_eq!(world.snapshot(), before);
    assert!(store.repair_skipped_range(&run, reported, wanted).await.unwrap());
    assert_eq!((world.run(&run).await.skipped, world.total("skipped")), (Some((t(4000), 4)), 4));
}

#[tokio::test]
async fn a_range_is_not_reported_from_what_was_read_before_a_run_was_given_back() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let read = world.job("a").await.rev;
    assert_eq!(
        restore(&world, 900, &restoring(&run_of("a", 1000), "", LATER)).await,
        RestoreReply::Restored
    );
    let order = SkipOrder {
        run,
        rev: read,
        lane: queue("default"),
        reason: "missed",
        last_due: t(2000),
        count: 3,
        successor: Some(successor("a", 3000)),
    };
    assert_eq!(world.at(5000).skip_run(&order).await.unwrap(), SkipReply::Stale);
}

#[tokio::test]
async fn a_restored_end_frees_the_next_run_in_its_jobs_queue_and_a_stray_entry_none() {
    // The job moves to another queue while a run of it waits behind the one that is given back.
    let world = World::new();
    let first = world.plant("a", 0).await;
    world.win_with(0, &first, Overlap::Queue { max: 5 }, 1000).await;
    let order = world.order(&run_of("a", 1000)).await;
    world
        .claim(1000, &schedd_store::ClaimOrder { overlap: Overlap::Queue { max: 5 }, ..order })
        .await;
    world.raw::<i64>("HSET", "job:a", &["queue", "other"]);
    assert_eq!(restore(&world, 2000, &restoring(&first, "", LATER)).await, RestoreReply::Stale);
    let read = RestoreOrder { job_lane: Some(queue("other")), ..restoring(&first, "", LATER) };
    assert_eq!(restore(&world, 2000, &read).await, RestoreReply::Restored);
    assert_eq!(world.score("due:other", "a@0"), None);
    assert!(
        world.score("due:other", &run_of("a", 1000).to_string()).is_some(),
        "its turn has come, where its job is"
    );
    // One that is over and due somewhere is not claimed, and not due any more.
    let _: i64 =
        world.raw("ZADD", "due:default", &[&t(0).as_i64().to_string(), &first.to_string()]);
    let order = world.order(&first).await;
    let replies = world
        .at(3000)
        .claim_runs(usize::MAX, &claimant("n1"), &queue("default"), &token(), &[order])
        .await
        .unwrap();
    assert!(matches!(replies[..], [schedd_store::ClaimReply::Gone]));
    assert_eq!(world.score("due:default", &first.to_string()), None);
}

#[tokio::test]
async fn nothing_is_written_back_under_another_mark() {
    let world = World::new();
    world.at(0).begin_epoch("", "20-n1-b", None, 0, LEASE).await.unwrap();
    let before = world.snapshot();
    assert_eq!(
        restore(&world, 900, &restoring(&run_of("a", 0), "10-n1-a", LATER)).await,
        RestoreReply::Moved
    );
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_run_said_to_have_ended_in_the_future_ended_now() {
    let world = World::new();
    let order = RestoreOrder {
        finished_at: UnixMillis::new(t(0).as_i64() * 2).unwrap(),
        ..restoring(&run_of("a", 0), "", LATER)
    };
    assert_eq!(restore(&world, 900, &order).await, RestoreReply::Restored);
    assert_eq!(world.run(&order.run).await.finished_at, Some(t(900)));
}

#[tokio::test]
async fn a_run_lost_while_it_ran_is_due_again_as_one_that_was_claimed() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win(0, &run).await;
    let _: () = world.server(&["FLUSHALL"]);
    world.plant("a", 5000).await;
    world
        .at(1)
        .begin_epoch("", "20-n1-b", Some(&loss("20-n1-b")), claim.fence.as_u64(), LEASE)
        .await
        .unwrap();
    for wanted in [ReturnReply::Returned, ReturnReply::Known] {
        assert_eq!(world.at(2).return_run(&claim, "10-n1-a", "lost").await.unwrap(), wanted);
    }
    world.assert_sound();
    let again = world.win(20_000, &run).await;
    assert_eq!(
        (again.attempt, again.claimed_before, again.fence > claim.fence),
        (claim.attempt + 1, true, true)
    );
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 5000)));
    world.assert_sound();
}

#[tokio::test]
async fn a_job_with_a_delay_goes_on_after_the_end_of_the_run_that_was_given_back() {
    let delayed = || ApplyOrder { delay: Some(Duration::from_millis(500)), ..definition("a", 0) };
    // An end that Redis lost.
    let world = World::new();
    let run = world.plant_as(delayed()).await;
    let rev = world.job("a").await.rev;
    let order = RestoreOrder { planned: Some((rev, None)), ..restoring(&run, "", LATER) };
    assert_eq!(restore(&world, 900, &order).await, RestoreReply::Restored);
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 1_400)));
    world.assert_sound();

    // A run that was going on.
    let world = World::new();
    let run = world.plant_as(delayed()).await;
    let claim = world.win(0, &run).await;
    let _: () = world.server(&["FLUSHALL"]);
    world
        .plant_as(ApplyOrder { delay: Some(Duration::from_millis(500)), ..definition("a", 700) })
        .await;
    world
        .at(1)
        .begin_epoch("", "20-n1-b", Some(&loss("20-n1-b")), claim.fence.as_u64(), LEASE)
        .await
        .unwrap();
    assert_eq!(
        world.at(2).return_run(&claim, "10-n1-a", "lost").await.unwrap(),
        ReturnReply::Returned
    );
    assert_eq!(world.job("a").await.pending, None, "its end plants the next");
    world.assert_sound();
    let again = world.win(20_000, &run).await;
    world.succeed(20_100, &again).await;
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 20_600)));
    world.assert_sound();
}

#[tokio::test]
async fn a_beginning_that_redis_lost_counts_for_max_runs() {
    let world = World::new();
    let run = world.plant_as(ApplyOrder { max_runs: Some(1), ..definition("a", 0) }).await;
    let rev = world.job("a").await.rev;
    let order = RestoreOrder {
        planned: Some((rev, Some(successor("a", 1000)))),
        ..restoring(&run, "", LATER)
    };
    assert_eq!(restore(&world, 900, &order).await, RestoreReply::Restored);
    let job = world.job("a").await;
    assert_eq!((job.begun, job.pending), (1, None));
    world.assert_sound();
}

#[tokio::test]
async fn a_run_is_not_put_back_into_data_that_was_not_lost_or_knows_it_or_has_no_job() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win(0, &run).await;
    let give = |epoch: &'static str| {
        let (store, claim) = (world.at(2), claim.clone());
        async move { store.return_run(&claim, epoch, "lost").await.unwrap() }
    };
    assert_eq!(give("10-n1-a").await, ReturnReply::Known);
    let _: () = world.server(&["FLUSHALL"]);
    assert_eq!(give("10-n1-a").await, ReturnReply::Same, "nobody has noticed yet");
    world.at(1).begin_epoch("", "20-n1-b", None, 0, LEASE).await.unwrap();
    let before = world.snapshot();
    assert_eq!(give("20-n1-b").await, ReturnReply::Same);
    assert_eq!(give("10-n1-a").await, ReturnReply::Unknown);
    assert_eq!(world.snapshot(), before);
    // The job's new first run is this one.
    world.plant("a", 0).await;
    assert_eq!(give("10-n1-a").await, ReturnReply::Known);
    world.assert_sound();
}
