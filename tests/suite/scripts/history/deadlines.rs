//! `judge_deadline` and `watch_run`: a run that has not started, or not ended, when it was to is told of once.

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::job::notice::Deadline as DeadlineKind;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::{
    ApplyOrder, ApplyReply, Blocking, Claim, ClaimOrder, ClaimReply, DeadlineReply, DueRange,
    NoticeReply, RemoveReply, RestoreOrder, RestoreReply, ResumeReply, RetryReply, SkipOrder,
    SkipReply, StopRunning, Verdict, WatchReply,
};

use crate::scripts::data::losing::{LATER, restore, restoring};
use crate::scripts::world::{World, definition, queue, run_of, successor, t, version};

pub(crate) const TIMED: &str = "on_late late=1000 start=1000 finish=5000";

impl World {
    pub(crate) async fn judge_all(&self, offset: i64) -> Vec<DeadlineReply> {
        let mut replies = Vec::new();
        for deadline in self.store.list_deadlines(0, 100).await.unwrap().into_iter().flatten() {
            replies.push(self.at(offset).judge_deadline(&deadline).await.unwrap());
        }
        replies
    }
}

#[tokio::test]
async fn pages_of_overdue_runs_leave_none_out_and_have_none_twice() {
    let world = World::new();
    let mut planned = Vec::new();
    for (job, due) in [("a", 0), ("b", 5), ("c", 5), ("d", 5), ("e", 5), ("f", 7)] {
        let order = ApplyOrder { notify: TIMED.to_owned(), ..definition(job, due) };
        planned.push(world.plant_as(order).await);
    }
    for limit in 1..=7 {
        let mut range = Some(DueRange { from: t(-9), skip: 0, before: t(100) });
        let mut found = Vec::new();
        while let Some(page) = range {
            let read = world.store.list_overdue(page, limit).await.unwrap();
            found.extend(read.runs);
            range = read.next_page;
        }
        assert_eq!(found, planned, "pages of {limit}");
    }
}

#[tokio::test]
async fn a_run_that_has_not_started_or_ended_in_time_is_reported_of_once_whoever_looks() {
    let world = World::new();
    let run = world.plant_notifying(TIMED).await;
    let overdue = async |from, before| {
        let range = DueRange { from: t(from), skip: 0, before: t(before) };
        let found = world.store.list_overdue(range, 10).await.unwrap();
        (found.runs, found.next_page.is_none(), found.next_due)
    };
    assert_eq!(overdue(-1_000, 900).await, (vec![run.clone()], true, None));
    assert_eq!(overdue(-1_000, 0).await, (vec![], true, Some(t(0))), "it is due then");
    assert_eq!(overdue(1, 900).await, (vec![], true, None), "it was due before");
    assert_eq!(world.at(900).watch_run(&run).await.unwrap(), WatchReply::Watched);
    assert_eq!(world.at(900).watch_run(&run).await.unwrap(), WatchReply::Known);
    assert_eq!(overdue(-1_000, 900).await, (vec![], true, None));
    let deadlines: Vec<_> =
        world.store.list_deadlines(0, 10).await.unwrap().into_iter().flatten().collect();
    assert_eq!(
        deadlines.iter().map(|deadline| deadline.at).collect::<Vec<_>>(),
        [t(1_000), t(5_000)]
    );
    assert_eq!(world.judge_all(999).await, [DeadlineReply::Early; 2]);
    assert_eq!(world.judge_all(1_000).await, [DeadlineReply::Notified, DeadlineReply::Early]);
    assert_eq!(world.at(1_001).judge_deadline(&deadlines[0]).await.unwrap(), DeadlineReply::Gone);
    assert_eq!(world.reported().await, [("on_late", run.clone())]);
    let claim = world.win_with(2_000, &run, Overlap::Skip, 100_000).await;
    assert_eq!(world.judge_all(5_000).await, [DeadlineReply::Notified]);
    world.finish(5_001, &claim, Verdict::Final(RunState::Cancelled)).await;
    let replies = world.report_all(6_000).await;
    // The late start, and that it did not start in time, are one notice.
    assert_eq!(
        replies.iter().filter(|reply| **reply == NoticeReply::Planted).count(),
        2,
        "{replies:?}"
    );
    assert_eq!((replies.len(), world.total("late")), (3, 2));
    world.assert_sound();
}

#[tokio::test]
async fn a_run_in_time_a_paused_and_a_removed_one_are_not_reported_of() {
    let world = World::new();
    let run = world.plant_notifying(TIMED).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 10_000).await;
    assert_eq!(world.store.list_deadlines(0, 10).await.unwrap().len(), 1, "it has started");
    world.finish(1, &claim, Verdict::Final(RunState::Succeeded)).await;
    assert!(world.store.list_deadlines(0, 10).await.unwrap().is_empty(), "it is over");
    let next = crate::scripts::world::run_of("a", 10_000);
    world.at(11_000).watch_run(&next).await.unwrap();
    world.at(11_000).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    assert_eq!(world.judge_all(20_000).await, [DeadlineReply::Met; 2]);
    assert_eq!(world.at(20_000).watch_run(&next).await.unwrap(), WatchReply::Gone);
    assert!(world.notices().await.is_empty());
    world.assert_sound();
}

#[tokio::test]
async fn an_edit_that_gives_an_open_run_longer_puts_its_time_off() {
    let world = World::new();
    let run = world.plant_notifying(TIMED).await;
    world.win_with(0, &run, Overlap::Skip, 100_000).await;
    let _: i64 = world.raw("HSET", "job:a", &["notify", "on_late finish=9000"]);
    assert_eq!(world.judge_all(5_000).await, [DeadlineReply::Early]);
    assert_eq!(world.judge_all(8_999).await, [DeadlineReply::Early]);
    assert_eq!(world.judge_all(9_000).await, [DeadlineReply::Notified]);
    world.assert_sound();
}

#[tokio::test]
async fn one_that_waits_behind_another_is_reported_of_too() {
    let world = World::new();
    let first = world.plant_notifying(TIMED).await;
    world.win_with(0, &first, Overlap::Skip, 100).await;
    let second = crate::scripts::world::run_of("a", 100);
    let order = world.order_with(&second, Overlap::Queue { max: 1 }, 100_000).await;
    world.claim(100, &order).await;
    assert_eq!(
        world.judge_all(2_000).await,
        [DeadlineReply::Notified, DeadlineReply::Early, DeadlineReply::Early]
    );
    assert_eq!(world.reported().await, [("on_late", second)]);
    world.assert_sound();
}

#[tokio::test]
async fn one_that_was_claimed_and_never_executed_has_not_started() {
    let world = World::new();
    let hand_back = async |offset: i64, claim: &Claim, verdict: Verdict, past: &str| {
        world.at(offset).finish_run(claim, &verdict, "", &[], past).await.unwrap();
    };
    let later = || Verdict::AskLater(std::time::Duration::ZERO);
    let asked = world.plant_notifying(TIMED).await;
    let claim = world.win_with(0, &asked, Overlap::Skip, 100_000).await;
    hand_back(10, &claim, later(), "").await;
    assert_eq!(
        world.judge_all(900).await,
        [DeadlineReply::Early; 2],
        "its start is looked at again"
    );
    // A question that is open when the time comes may be the attempt by now; handed back, it was not.
    let claim = world.win(950, &asked).await;
    assert_eq!(world.judge_all(1_000).await, [DeadlineReply::Met, DeadlineReply::Early]);
    hand_back(1_010, &claim, later(), "").await;
    assert_eq!(world.judge_all(1_020).await, [DeadlineReply::Notified, DeadlineReply::Early]);
    assert_eq!(world.reported().await, [("on_late", asked.clone())]);
    for at in [1_100, 1_200] {
        let claim = world.win(at, &asked).await;
        hand_back(at + 10, &claim, Verdict::Release, "").await;
        assert_eq!(world.judge_all(at + 20).await, [DeadlineReply::Early], "it was told of");
    }
    world.assert_sound();
    let world = World::new();
    let cut = world.plant_notifying(TIMED).await;
    let claim = world.win_with(0, &cut, Overlap::Skip, 100_000).await;
    world.at(10).finish_run(&claim, &Verdict::Release, "shutdown", &[], "{\"x\":1}").await.unwrap();
    assert_eq!(
        world.judge_all(1_500).await,
        [DeadlineReply::Early],
        "it was cut short, and had started"
    );
    let claim = world.win(1_600, &cut).await;
    world.at(1_610).finish_run(&claim, &later(), "", &[], "").await.unwrap();
    assert_eq!(world.judge_all(1_700).await, [DeadlineReply::Early]);
    assert!(world.notices().await.is_empty());
    world.assert_sound();
}

#[tokio::test]
async fn one_claimed_again_after_its_time_without_a_start_before_is_reported_of() {
    let world = World::new();
    let run = world.plant_notifying(TIMED).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 100_000).await;
    world.at(10).finish_run(&claim, &Verdict::Release, "", &[], "").await.unwrap();
    world.win(1_001, &run).await;
    assert_eq!(world.judge_all(1_002).await, [DeadlineReply::Notified, DeadlineReply::Early]);
    world.assert_sound();
}

/// Three runs of job `a`: one open since 0 ms, and two skipped behind it.
async fn two_skipped_behind_one(world: &World) -> (Claim, [RunId; 2]) {
    let open = world.plant_notifying(TIMED).await;
    let open = world.win_with(0, &open, Overlap::Skip, 100).await;
    let skipped = [100, 200].map(|due| run_of("a", due));
    for (run, at) in skipped.iter().zip([100, 200]) {
        let order = world.order_with(run, Overlap::Skip, at + 100).await;
        assert!(matches!(world.claim(at, &order).await, ClaimReply::Blocked(Blocking::Skipped)));
    }
    (open, skipped)
}

#[tokio::test]
async fn the_first_run_skipped_behind_a_hanging_run_gets_its_notice_even_if_trimmed() {
    for is_trimmed in [false, true] {
        let world = World::new();
        let (_open, [first, _second]) = two_skipped_behind_one(&world).await;
        if is_trimmed {
            let _: i64 = world.raw("DEL", &format!("run:{first}"), &[]);
        }
        assert_eq!(
            world.judge_all(1_099).await,
            [DeadlineReply::Early; 2],
            "its start and the end of what is open"
        );
        assert_eq!(world.judge_all(1_100).await, [DeadlineReply::Notified, DeadlineReply::Early]);
        assert_eq!(world.reported().await, [("on_late", first)]);
    }
}

#[tokio::test]
async fn one_skipped_behind_what_has_ended_or_was_paused_since_is_not_reported_of() {
    for is_paused in [false, true] {
        let world = World::new();
        let (open, _) = two_skipped_behind_one(&world).await;
        if is_paused {
            world.at(500).pause_job(&world.job("a").await, None, &[]).await.unwrap();
            assert_eq!(world.judge_all(1_100).await, [DeadlineReply::Met, DeadlineReply::Early]);
        } else {
            world.finish(500, &open, Verdict::Final(RunState::Cancelled)).await;
            assert_eq!(world.judge_all(1_100).await, [], "nobody looks any more");
        }
        assert!(world.notices().await.is_empty());
        world.assert_sound();
    }
}

#[tokio::test]
async fn a_retried_run_keeps_its_finish_deadline_unless_that_has_passed() {
    let world = World::new();
    let run = world.plant_notifying(TIMED).await;
    let again = async |ended: i64, at: i64| {
        let claim = world.win_with(ended, &run, Overlap::Skip, 100_000).await;
        world.finish(ended + 1, &claim, Verdict::Final(RunState::Failed)).await;
        assert!(world.store.list_deadlines(0, 10).await.unwrap().is_empty(), "it is over");
        let order = crate::scripts::jobs::retrying::retrial(&claim, &world.job("a").await);
        assert_eq!(world.at(at).retry_run(&order).await.unwrap(), RetryReply::Retried);
        world.assert_sound();
    };
    again(0, 10).await;
    let deadlines: Vec<_> =
        world.store.list_deadlines(0, 10).await.unwrap().into_iter().flatten().collect();
    assert_eq!(
        (deadlines.len(), deadlines[0].kind, deadlines[0].at),
        (1, DeadlineKind::Finish, t(5_000))
    );
    assert_eq!(world.judge_all(5_000).await, [DeadlineReply::Notified]);
    assert_eq!(world.reported().await, [("on_late", run.clone())]);
    again(6_000, 6_010).await;
    assert!(
        world.store.list_deadlines(0, 10).await.unwrap().is_empty(),
        "a person asked for it after that time"
    );
}

/// Runs are to have ended within 300 days.
const IN_A_YEAR: &str = "on_late start=17280000000 finish=25920000000";

impl World {
    /// Whose times are kept, as they stand there.
    fn watched(&self) -> Vec<String> {
        self.raw("ZRANGE", "deadlines", &["0", "-1"])
    }
}

#[tokio::test]
async fn no_time_is_kept_of_a_run_that_was_cancelled_while_it_waited() {
    let world = World::new();
    let first = world.plant_notifying(IN_A_YEAR).await;
    world.win_with(0, &first, Overlap::Skip, 100).await;
    let open = [format!("{first} finish")];
    for is_claimed in [false, true] {
        let at = if is_claimed { 200 } else { 100 };
        let second = run_of("a", at);
        let order = world.order_with(&second, Overlap::Queue { max: 1 }, at + 100).await;
        assert!(matches!(world.claim(at, &order).await, ClaimReply::Blocked(Blocking::Waiting)));
        assert_eq!(world.watched().len(), 3);
        if is_claimed {
            // As `cancel --stop` has it: the first that waits is made due, and its claim ends it.
            let _: i64 = world.raw("HSET", "stop_requests", &[&second.to_string(), "cancelled"]);
            let _: i64 = world.raw("ZREM", "waiting:a", &[&second.to_string()]);
            let _: i64 = world.raw("HINCRBY", "counters", &["waiting", "-1"]);
            let _: i64 = world.raw("ZADD", "due:default", &["0", &second.to_string()]);
            world.claim(at, &ClaimOrder { successor: None, ..order }).await;
        } else {
            world.at(at).cancel_run(&world.cancelling(&second, None).await).await.unwrap();
        }
        assert_eq!(world.state(&second).await, RunState::Cancelled);
        assert_eq!(world.watched(), open, "claimed: {is_claimed}");
    }
    world.assert_sound();
}

#[tokio::test]
async fn no_time_is_kept_of_an_overdue_run_that_is_skipped_removed_or_given_back() {
    for way in ["skipped", "removed", "given back", "resumed"] {
        let world = World::new();
        let run = world.plant_notifying(IN_A_YEAR).await;
        assert_eq!(world.at(900).watch_run(&run).await.unwrap(), WatchReply::Watched);
        let job = world.job("a").await;
        match way {
            "skipped" => {
                let order = SkipOrder {
                    run: run.clone(),
                    rev: job.rev,
                    lane: queue("default"),
                    reason: "missed",
                    last_due: t(0),
                    count: 1,
                    successor: Some(successor("a", 60_000)),
                };
                assert_eq!(world.at(1_000).skip_run(&order).await.unwrap(), SkipReply::Skipped);
            }
            "removed" => {
                let order = crate::scripts::jobs::removing::removal(&job, StopRunning::No);
                assert_eq!(
                    world.at(1_000).remove_job(&order).await.unwrap(),
                    RemoveReply::Removed(0)
                );
            }
            "given back" => {
                let planned = Some((job.rev, Some(successor("a", 60_000))));
                let order = RestoreOrder { planned, ..restoring(&run, "", LATER) };
                assert_eq!(restore(&world, 1_000, &order).await, RestoreReply::Restored);
            }
            _ => {
                world.at(1_000).pause_job(&job, None, &[]).await.unwrap();
                assert_eq!(world.watched().len(), 2, "its pause may end in time");
                let order = crate::scripts::jobs::pausing::resuming(
                    &world.job("a").await,
                    Some((0, 1)),
                    Some(60_000),
                );
                assert_eq!(world.at(2_000).resume_job(&order).await.unwrap(), ResumeReply::Resumed);
            }
        }
        assert!(world.state(&run).await.is_final());
        assert_eq!(world.watched(), Vec::<String>::new(), "{way}");
        world.assert_sound();
    }
}

#[tokio::test]
async fn no_time_is_kept_of_a_planned_run_that_an_edit_replaced_and_a_new_one_is_watched() {
    let world = World::new();
    let run = world.plant_notifying(IN_A_YEAR).await;
    // Due, and not ready yet: an edit replaces it.
    let _: i64 =
        world.raw("ZADD", "due:default", &[&t(5_000).as_i64().to_string(), &run.to_string()]);
    assert_eq!(world.at(900).watch_run(&run).await.unwrap(), WatchReply::Watched);
    let edit = async |text: &str, due: i64| {
        let job = world.job("a").await;
        let order = ApplyOrder {
            read: Some((job.rev, job.lane)),
            definition: version(text),
            planned: job.pending,
            notify: IN_A_YEAR.to_owned(),
            ..definition("a", due)
        };
        assert_eq!(world.at(1_000).apply_job(&order).await.unwrap(), ApplyReply::Updated);
    };
    edit("v2", 4_000).await;
    assert_eq!(world.watched(), Vec::<String>::new());
    edit("v3", 0).await;
    assert_eq!(
        world.at(1_001).watch_run(&run).await.unwrap(),
        WatchReply::Watched,
        "it is planned again"
    );
    world.assert_sound();
}

#[tokio::test]
async fn no_time_is_kept_of_one_skipped_behind_a_run_that_goes_on_no_more() {
    let world = World::new();
    let open = world.plant_notifying(IN_A_YEAR).await;
    let open = world.win_with(0, &open, Overlap::Skip, 100).await;
    let skipped = run_of("a", 100);
    let order = world.order_with(&skipped, Overlap::Skip, 60_000).await;
    assert!(matches!(world.claim(100, &order).await, ClaimReply::Blocked(Blocking::Skipped)));
    assert_eq!(world.watched(), [format!("{skipped} start"), format!("{} finish", open.run)]);
    world.succeed(200, &open).await;
    assert_eq!(world.watched(), Vec::<String>::new());
    world.assert_sound();
}
