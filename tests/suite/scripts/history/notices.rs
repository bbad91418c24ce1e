//! `plant_notice`, and what asks for it: each end of a run tells whom its job wants told, once, and however much there is to tell.

use schedd::engine::maintenance::full_check::examine;
use schedd::engine::recovery::restored_ends;
use schedd::engine::recovery::restored_ends::Given;
use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::job::notice::NoticeKind;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::RunId;
use schedd_store::{
    ApplyOrder, ApplyReply, ClaimReply, DefinitionChange, MOST_OPEN, NoticeOrder, NoticeRecord,
    NoticeReply, RestoreOrder, RestoreReply, SkipOrder, SkipReply, Verdict,
};

use super::deadlines::TIMED;
use crate::scripts::claims::recovering::{expired, recovery};
use crate::scripts::data::losing::{LATER, restoring};
use crate::scripts::world::{
    World, claimant, definition, queue, run_of, successor, t, token, version,
};

const ALL: &str = "on_failure on_success on_late on_recovered late=60000";

fn wanted() -> NoticeOrder {
    NoticeOrder { definition: Some(r#"{"shell":"true"}"#.to_owned()), tz: "UTC".to_owned() }
}

impl World {
    pub(crate) async fn plant_notifying(&self, notify: &str) -> RunId {
        self.plant_as(ApplyOrder { notify: notify.to_owned(), ..definition("a", 0) }).await
    }

    pub(crate) async fn notices(&self) -> Vec<NoticeRecord> {
        self.store.list_notices(0, 100).await.unwrap().0
    }

    /// The kinds that are to be told, each with its run.
    pub(crate) async fn reported(&self) -> Vec<(&'static str, RunId)> {
        self.notices()
            .await
            .into_iter()
            .map(|notice| (notice.kind.as_str(), notice.about))
            .collect()
    }

    /// Ends the run that is due at `offset` so; the next is due a second later.
    async fn end(&self, offset: i64, run: &RunId, state: RunState) -> RunId {
        let claim = self.win_with(offset, run, Overlap::Skip, offset + 1_000).await;
        self.finish(offset + 1, &claim, Verdict::Final(state)).await;
        crate::scripts::world::run_of("a", offset + 1_000)
    }

    /// A node tells this one.
    async fn report(&self, offset: i64, notice: &str) {
        let order = self.order(&notice.parse().unwrap()).await;
        let replies = self
            .at(offset)
            .claim_runs(usize::MAX, &claimant("n1"), &queue("@@notices"), &token(), &[order])
            .await
            .unwrap();
        let claim = Self::won(replies.into_iter().next().unwrap());
        self.finish(offset + 1, &claim, Verdict::Final(RunState::Succeeded)).await;
    }

    pub(crate) async fn report_all(&self, offset: i64) -> Vec<NoticeReply> {
        let mut replies = Vec::new();
        for notice in self.notices().await {
            replies.push(self.at(offset).plant_notice(&notice, &wanted()).await.unwrap());
        }
        replies
    }
}

#[tokio::test]
async fn the_end_of_a_run_asks_for_the_notices_its_job_wants_and_each_is_planted_once() {
    let world = World::new();
    let first = world.plant_notifying(ALL).await;
    let second = world.end(0, &first, RunState::Failed).await;
    let third = world.end(1_000, &second, RunState::TimedOut).await;
    let fourth = world.end(2_000, &third, RunState::Succeeded).await;
    let fifth = world.end(3_000, &fourth, RunState::Succeeded).await;
    world.end(4_000, &fifth, RunState::Cancelled).await;
    let kinds: Vec<_> = world.reported().await;
    assert_eq!(
        kinds,
        [
            ("on_failure", first.clone()),
            ("on_failure", second),
            ("on_recovered", third.clone()),
            ("on_success", third),
            ("on_success", fourth)
        ]
    );
    let notices = world.notices().await;
    assert_eq!(world.report_all(5_000).await, [NoticeReply::Planted; 5]);
    assert!(world.notices().await.is_empty());
    let before = world.snapshot();
    for notice in &notices {
        assert_eq!(
            world.at(6_000).plant_notice(notice, &wanted()).await.unwrap(),
            NoticeReply::Gone
        );
    }
    assert_eq!(world.snapshot(), before);
    world.assert_sound();
    // A run like others, of a job no list shows.
    let notice = notices[0].run.clone();
    assert_eq!((notice.job().as_str(), notice.due()), ("a/on_failure", first.due()));
    let order = world.order(&notice).await;
    let replies = world
        .at(5_001)
        .claim_runs(usize::MAX, &claimant("n1"), &queue("@@notices"), &token(), &[order])
        .await
        .unwrap();
    let claim = World::won(replies.into_iter().next().unwrap());
    world.assert_sound();
    let about = world.store.read_about(&notice).await.unwrap();
    assert_eq!(
        (about.text("state"), about.text("run"), about.number("exit_code")),
        (Some("failed"), Some(&*first.to_string()), Some(0))
    );
    world.finish(5_002, &claim, Verdict::Final(RunState::Failed)).await;
    assert!(world.notices().await.is_empty(), "a notice tells of no other");
    assert_eq!(world.score("jobs", "a/on_failure"), None);
    world.assert_sound();
    let exam = examine(&world.at(5_003)).await.unwrap();
    let found: Vec<_> =
        exam.findings.iter().filter(|finding| finding.code() != "unreadable:job").collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[tokio::test]
async fn a_job_that_wants_nobody_reported_asks_for_nothing() {
    let world = World::new();
    let first = world.plant_notifying("").await;
    let second = world.end(0, &first, RunState::Failed).await;
    world.end(1_000, &second, RunState::Succeeded).await;
    assert!(world.notices().await.is_empty());
}

#[tokio::test]
async fn an_end_reported_twice_asks_once_and_so_does_a_lost_node() {
    let world = World::new();
    let run = world.plant_notifying("on_failure").await;
    let claim = world.win_with(0, &run, Overlap::Skip, 100_000).await;
    for _ in 0..2 {
        world.finish(1, &claim, Verdict::Final(RunState::Failed)).await;
    }
    assert_eq!(world.reported().await, [("on_failure", run)]);
    let next = crate::scripts::world::run_of("a", 100_000);
    let claim = world.win_with(100_000, &next, Overlap::Skip, 200_000).await;
    for _ in 0..2 {
        let lost = recovery(Some(RunState::Lost));
        let _ = world.at(120_000).recover_run(&expired(&claim, 110_000), &lost).await.unwrap();
    }
    assert_eq!(world.reported().await.len(), 2);
    world.assert_sound();
}

#[tokio::test]
async fn a_notice_asked_for_again_is_not_reported_again() {
    let world = World::new();
    let run = world.plant_notifying("on_failure").await;
    world.end(0, &run, RunState::Failed).await;
    let member: Vec<String> = world.raw("ZRANGE", "notices", &["0", "-1"]);
    assert_eq!(world.report_all(1).await, [NoticeReply::Planted]);
    let _: i64 = world.raw("ZADD", "notices", &["5", &member[0]]);
    assert_eq!(world.report_all(2).await, [NoticeReply::Obsolete]);
    assert!(world.notices().await.is_empty());
    world.assert_sound();
}

#[tokio::test]
async fn beyond_ten_that_wait_a_notice_is_only_counted_and_the_next_one_says_how_many() {
    let world = World::new();
    let mut run = world.plant_notifying("on_failure").await;
    for number in 0..13 {
        run = world.end(number * 1_000, &run, RunState::Failed).await;
    }
    let replies = world.report_all(20_000).await;
    assert_eq!(replies[..MOST_OPEN], [NoticeReply::Planted; MOST_OPEN]);
    assert_eq!(replies[MOST_OPEN..], [NoticeReply::Suppressed; 3]);
    assert_eq!(world.total("suppressed"), 3);
    assert_eq!(world.job("a").await.suppressed, [(NoticeKind::Failure, 3)].into());
    // One of them is told: there is room for another.
    let waiting: Vec<String> = world.raw("ZRANGE", "manual:a/on_failure", &["0", "0"]);
    world.report(20_001, &waiting[0]).await;
    world.end(21_000, &run, RunState::Failed).await;
    let last = world.notices().await.pop().unwrap().run;
    assert_eq!(world.report_all(21_002).await, [NoticeReply::Waits, NoticeReply::Planted]);
    assert_eq!(world.store.read_about(&last).await.unwrap().suppressed, 3);
    assert!(world.job("a").await.suppressed.is_empty());
    assert_eq!(
        world.report_all(21_003).await,
        [NoticeReply::Obsolete],
        "the one that waited has nothing left to tell"
    );
    assert!(world.notices().await.is_empty());
    world.assert_sound();
}

#[tokio::test]
async fn those_only_counted_are_reported_of_in_one_when_no_other_is_open() {
    let world = World::new();
    let mut run = world.plant_notifying("on_failure").await;
    for number in 0..13 {
        run = world.end(number * 1_000, &run, RunState::Failed).await;
    }
    world.report_all(20_000).await;
    let rest = world.notices().await.remove(0);
    assert_eq!((rest.kind, &rest.about), (NoticeKind::Failure, &run_of("a", 10_000)));
    let waiting: Vec<String> = world.raw("ZRANGE", "manual:a/on_failure", &["0", "-1"]);
    for (at, reported) in (20_001..).zip(&waiting) {
        assert_eq!(world.report_all(20_001).await, [NoticeReply::Waits]);
        world.report(at, reported).await;
    }
    assert_eq!(world.report_all(20_020).await, [NoticeReply::Planted]);
    assert_eq!(world.store.read_about(&rest.run).await.unwrap().suppressed, 3);
    assert!(world.job("a").await.suppressed.is_empty() && world.notices().await.is_empty());
    world.report(20_021, &rest.run.to_string()).await;
    world.assert_sound();
}

#[tokio::test]
async fn however_many_ends_there_are_only_so_many_notices_wait_and_the_others_are_counted() {
    const MOST: usize = 10_000;
    let world = World::new();
    let run = world.plant_notifying("on_failure").await;
    let mut pipeline = redis::pipe();
    for number in 0..MOST {
        let entry = format!(r#"{{"run":"b@{number}","kind":"on_failure","stamp":"1"}}"#);
        pipeline.zadd(world.key("notices"), entry, number);
    }
    pipeline.exec(&mut world.redis.connection()).unwrap();
    let next = world.end(0, &run, RunState::Failed).await;
    let waiting: usize = world.raw("ZCARD", "notices", &[]);
    assert_eq!((waiting, world.total("suppressed")), (MOST + 1, 1), "and one that tells of those");
    assert_eq!(world.job("a").await.suppressed, [(NoticeKind::Failure, 1)].into());
    let _: i64 = world.raw("DEL", "notices", &[]);
    world.end(1_000, &next, RunState::Failed).await;
    let notice = world.notices().await.remove(0).run;
    assert_eq!(world.report_all(2_000).await, [NoticeReply::Planted]);
    assert_eq!(world.store.read_about(&notice).await.unwrap().suppressed, 1);
    world.assert_sound();
}

#[tokio::test]
async fn a_look_at_what_is_to_be_named_says_how_much_it_looked_at_and_goes_on_behind_that() {
    let world = World::new();
    let run = world.plant_notifying("on_failure").await;
    for bad in ["no", r#"{"kind":"x"}"#, r#"{"run":"a@5","kind":"on_failure"}"#] {
        let _: i64 = world.raw("ZADD", "notices", &["5", bad]);
    }
    world.end(0, &run, RunState::Failed).await;
    let (notices, entries) = world.store.list_notices(0, 3).await.unwrap();
    assert_eq!((notices.len(), entries), (0, 3));
    let (notices, entries) = world.store.list_notices(3, 3).await.unwrap();
    assert_eq!((notices.len(), entries), (1, 1));
    let exam = examine(&world.at(2)).await.unwrap();
    let reported: Vec<_> = exam
        .findings
        .iter()
        .map(ToString::to_string)
        .filter(|text| text.contains("the entry is not a notice"))
        .collect();
    assert!(!reported.is_empty(), "{:#?}", exam.findings);
}

#[tokio::test]
async fn what_an_edit_says_as_missed_is_named_to_whom_the_job_wanted_named_before() {
    let world = World::new();
    let first = world.plant_notifying("on_late late=60000").await;
    let job = world.job("a").await;
    let order = ApplyOrder {
        read: Some((job.rev.clone(), job.lane.clone())),
        definition: version("another"),
        token: "another".to_owned(),
        change: DefinitionChange::Schedule,
        planned: job.pending.clone(),
        passed: Some(SkippedRange {
            first: crate::scripts::world::t(7),
            last: crate::scripts::world::t(7_000),
            count: 3,
        }),
        ..definition("a", 100_000)
    };
    assert_eq!(world.at(50_000).apply_job(&order).await.unwrap(), ApplyReply::Updated);
    assert_eq!(
        world.reported().await,
        [("on_late", crate::scripts::world::run_of("a", 7))],
        "{first}"
    );
    world.assert_sound();
}

#[tokio::test]
async fn a_notice_nobody_wants_any_more_is_dropped() {
    let world = World::new();
    let run = world.plant_notifying("on_failure").await;
    world.end(0, &run, RunState::Failed).await;
    let notice = world.notices().await.pop().unwrap();
    let nobody = NoticeOrder { definition: None, tz: String::new() };
    assert_eq!(world.at(1).plant_notice(&notice, &nobody).await.unwrap(), NoticeReply::Dropped);
    assert!(world.notices().await.is_empty());
    world.assert_sound();
}

#[tokio::test]
async fn a_late_start_and_a_missed_range_are_reported_and_a_start_on_time_is_not() {
    let world = World::new();
    let first = world.plant_notifying(ALL).await;
    let claim = world.win_with(60_000, &first, Overlap::Skip, 100_000).await;
    assert!(world.notices().await.is_empty(), "as late as it may be");
    world.finish(60_001, &claim, Verdict::Final(RunState::Cancelled)).await;
    let second = crate::scripts::world::run_of("a", 100_000);
    let claim = world.win_with(160_001, &second, Overlap::Skip, 200_000).await;
    assert_eq!(world.reported().await, [("on_late", second.clone())]);
    // Handed back and claimed anew it is told no second time.
    world.finish(160_002, &claim, Verdict::Release).await;
    let claim = world.win(160_003, &second).await;
    assert_eq!(world.reported().await.len(), 1);
    world.finish(160_004, &claim, Verdict::Final(RunState::Cancelled)).await;
    let third = crate::scripts::world::run_of("a", 200_000);
    let order = SkipOrder {
        run: third.clone(),
        rev: world.job("a").await.rev,
        lane: queue("default"),
        reason: "missed",
        last_due: crate::scripts::world::t(400_000),
        count: 3,
        successor: Some(successor("a", 500_000)),
    };
    assert_eq!(world.at(450_000).skip_run(&order).await.unwrap(), SkipReply::Skipped);
    assert_eq!(world.reported().await[1], ("on_late", third));
    world.assert_sound();
}

#[tokio::test]
async fn a_late_start_is_reported_of_a_run_that_was_claimed_in_time_and_handed_back() {
    let world = World::new();
    let run = world.plant_notifying(ALL).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 100_000).await;
    world.at(1).finish_run(&claim, &Verdict::Release, "", &[], "").await.unwrap();
    let claim = world.win(60_001, &run).await;
    assert_eq!(world.reported().await, [("on_late", run.clone())]);
    world.at(60_002).finish_run(&claim, &Verdict::Release, "", &[], "").await.unwrap();
    world.win(60_003, &run).await;
    assert_eq!(world.reported().await.len(), 1);
    world.assert_sound();
}

#[tokio::test]
async fn a_retry_that_comes_too_late_ends_failed_and_is_reported() {
    let world = World::new();
    let run = world.plant_notifying("on_failure").await;
    let claim = world.win_with(0, &run, Overlap::Skip, 900_000).await;
    world.finish(1, &claim, Verdict::Retry(std::time::Duration::ZERO)).await;
    assert!(world.notices().await.is_empty(), "there is another attempt");
    let order = schedd_store::ClaimOrder {
        max_age: Some(std::time::Duration::from_secs(1)),
        ..world.order(&run).await
    };
    assert!(!matches!(world.claim(60_000, &order).await, ClaimReply::Claimed(_)));
    assert_eq!(world.reported().await, [("on_failure", run)]);
    world.assert_sound();
}

#[tokio::test]
async fn a_given_back_end_sends_its_lost_notice_and_leaves_a_later_end_in_charge() {
    let world = World::new();
    let first = world.plant_notifying(ALL).await;
    let second = world.end(0, &first, RunState::Failed).await;
    let third = world.end(1_000, &second, RunState::Succeeded).await;
    world.report_all(2_000).await;
    // Before the loss it was told, and the later success was too.
    let failed = |due: i64, ended: i64, notified_before: i64| RestoreOrder {
        state: RunState::Failed,
        finished_at: t(ended),
        notified_before: t(notified_before),
        ..restoring(&run_of("a", due), "", LATER)
    };
    let give = |order: RestoreOrder| {
        let store = world.at(3_000);
        async move { store.restore_runs(&[order]).await.unwrap().remove(0).unwrap() }
    };
    assert_eq!(give(failed(-2_000, 500, 600)).await, RestoreReply::Restored);
    assert_eq!(world.reported().await, []);
    assert_eq!(give(failed(-1_000, 700, 600)).await, RestoreReply::Restored);
    assert_eq!(world.reported().await, [("on_failure", run_of("a", -1_000))]);
    let fourth = world.end(3_000, &third, RunState::Succeeded).await;
    assert_eq!(
        world.reported().await,
        [("on_failure", run_of("a", -1_000)), ("on_success", third)],
        "it had not failed since"
    );
    // One later than all says how the job stands.
    assert_eq!(give(failed(-3_000, 2_999, 4_000)).await, RestoreReply::Restored);
    assert_eq!(world.raw::<Option<String>>("HGET", "job:a", &["failing"]), None);
    let order = failed(-4_000, 3_500, 4_000);
    assert_eq!(
        world.at(3_600).restore_runs(&[order]).await.unwrap().remove(0).unwrap(),
        RestoreReply::Restored
    );
    world.end(4_000, &fourth, RunState::Succeeded).await;
    assert_eq!(
        world.reported().await[2..],
        [("on_recovered", fourth.clone()), ("on_success", fourth)]
    );
    world.assert_sound();
}

#[tokio::test]
async fn notices_are_given_back_before_the_ends_they_reported_of() {
    let world = World::new();
    let run = world.plant_notifying("on_failure").await;
    world.end(0, &run, RunState::Failed).await;
    let notice = world.notices().await[0].run.clone();
    // What cannot be given back is named in its turn.
    for damaged in [&run, &notice] {
        let _: i64 = world.raw("DEL", &format!("run:{damaged}"), &[]);
        let _: () = world.raw("SET", &format!("run:{damaged}"), &["no record"]);
    }
    let orders = [
        restoring(&run, "", LATER),
        RestoreOrder { finished_at: t(900), ..restoring(&notice, "", LATER) },
    ];
    let named = std::sync::Mutex::new(Vec::new());
    let given = restored_ends::give_back(&world.at(2_000), &orders, |run, _| {
        named.lock().unwrap().push(run.clone());
    })
    .await
    .unwrap();
    assert_eq!(given, Given { failed: 2, ..Given::default() });
    assert_eq!(named.into_inner().unwrap(), [notice, run]);
}

#[tokio::test]
async fn what_is_only_counted_a_second_time_of_one_run_is_reported_a_second_time() {
    let world = World::new();
    let run = world.plant_notifying(TIMED).await;
    let fill = || {
        for number in 0..MOST_OPEN {
            let _: i64 =
                world.raw("ZADD", "manual:a/on_late", &["1", &format!("a/on_late@{number}~x")]);
        }
    };
    world.at(900).watch_run(&run).await.unwrap();
    let mut rests = Vec::new();
    for at in [1_000, 5_000] {
        fill();
        world.judge_all(at).await;
        assert!(world.report_all(at + 1).await.contains(&NoticeReply::Suppressed));
        let _: i64 = world.raw("DEL", "manual:a/on_late", &[]);
        rests.push(world.notices().await.remove(0).run);
        assert_eq!(world.report_all(at + 2).await, [NoticeReply::Planted]);
        world.report(at + 3, &rests[rests.len() - 1].to_string()).await;
    }
    assert_ne!(rests[0], rests[1]);
    assert!(world.job("a").await.suppressed.is_empty());
}

#[tokio::test]
async fn a_notice_that_failed_for_good_is_named_by_doctor_by_its_job_and_in_the_numbers() {
    let world = World::new();
    let run = world.plant_notifying("on_failure").await;
    let ctl = crate::support::ctl::Schedctl::on(&world.redis).namespace(world.namespace());
    assert!(ctl.run(&["doctor"]).stdout.contains("none: no stored notice failed for good"));
    world.end(0, &run, RunState::Failed).await;
    world.report_all(2).await;
    let notice = run_of_notice(&world);
    let order = world.order(&notice).await;
    let replies = world
        .at(3)
        .claim_runs(usize::MAX, &claimant("n1"), &queue("@@notices"), &token(), &[order])
        .await
        .unwrap();
    let claim = World::won(replies.into_iter().next().unwrap());
    world.finish(4, &claim, Verdict::Final(RunState::Failed)).await;
    let failed_notices = world.store.list_failed_notices().await.unwrap();
    assert_eq!(
        (failed_notices.len(), failed_notices[0].count, &failed_notices[0].last),
        (1, 1, &(notice.clone(), t(4)))
    );
    assert_eq!(failed_notices[0].job.as_str(), "a/on_failure");
    let reported = ctl.run(&["doctor"]).stdout;
    assert!(
        reported.contains(&format!("1 notice not delivered: the last, {notice}, failed for good")),
        "{reported}"
    );
    assert!(reported.contains("schedctl retry --dead --job a/on_failure"), "{reported}");
    let shown = ctl.run(&["show", "a"]).stdout;
    assert!(shown.contains("notices       1 of a/on_failure failed for good"), "{shown}");
    assert!(shown.contains(", with exit code 0: schedctl retry "), "{shown}");
    assert_eq!(
        ctl.run(&["show", "a", "--json"]).json()["failed_notices"][0]["run_id"],
        notice.to_string()
    );
    assert_eq!(ctl.run(&["stats", "--json"]).json()["failed_notices"], 1);
    ctl.run(&["purge", "--dead", "--job", "a/on_failure"]).good();
    assert!(world.store.list_failed_notices().await.unwrap().is_empty());
}

/// The one notice that is planned.
fn run_of_notice(world: &World) -> RunId {
    let ids: Vec<String> = world.raw("ZRANGE", "manual:a/on_failure", &["0", "-1"]);
    ids[0].parse().unwrap()
}
