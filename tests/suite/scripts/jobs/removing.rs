//! `remove_job`: a definition goes, what is open ends as it would.

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness::SkippedRange;
use schedd_store::{
    ApplyOrder, ApplyReply, JobRecord, LeaseWord, RemoveOrder, RemoveReply, SourceKind, StopRunning,
};

use crate::scripts::world::{LEASE, World, definition, name, run_of, t, version};

/// An order to take out a job of the command line, as the engine makes it.
pub(crate) fn removal(job: &JobRecord, running: StopRunning) -> RemoveOrder {
    RemoveOrder {
        name: job.name.clone(),
        kind: job.kind,
        source: String::new(),
        read: Some((job.rev.clone(), job.lane.clone())),
        pending: job.pending.clone().or_else(|| job.paused_run.clone()),
        running,
        reason: "removed".to_owned(),
        passed: (None, None),
        gates: Vec::new(),
        unique: job.unique.clone(),
    }
}

fn of_file(node: &str, order: ApplyOrder) -> ApplyOrder {
    ApplyOrder { kind: SourceKind::File, source: node.to_owned(), ..order }
}

async fn unlist(world: &World, node: &str, job: &JobRecord) -> RemoveReply {
    let order = RemoveOrder {
        kind: SourceKind::File,
        source: node.to_owned(),
        ..removal(job, StopRunning::No)
    };
    world.at(0).remove_job(&order).await.unwrap()
}

#[tokio::test]
async fn a_removed_job_is_gone_from_the_list_with_its_planned_run_and_stays_so() {
    let world = World::new();
    let run = world.plant("a", 1000).await;
    let order = removal(&world.job("a").await, StopRunning::No);
    assert_eq!(world.at(0).remove_job(&order).await.unwrap(), RemoveReply::Removed(0));
    assert_eq!(world.store.list_jobs(0, 10).await.unwrap(), []);
    assert_eq!(world.score("due:default", &run.to_string()), None);
    assert!(
        world.store.read_run(&run).await.unwrap().is_none(),
        "nothing is owed of what would have come later"
    );
    world.assert_sound();
    let before = world.snapshot();
    assert_eq!(
        world.at(1).remove_job(&order).await.unwrap(),
        RemoveReply::Over("removed".to_owned())
    );
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn what_was_promised_once_or_already_due_stands_in_history() {
    let world = World::new();
    let once = world.plant_once("a", 1000).await;
    let due = world.plant("b", -1).await;
    for job in ["a", "b"] {
        world.at(0).remove_job(&removal(&world.job(job).await, StopRunning::No)).await.unwrap();
    }
    assert_eq!(
        (world.state(&once).await, world.state(&due).await),
        (RunState::Cancelled, RunState::Cancelled)
    );
    assert_eq!(world.total("cancelled"), 2);
    world.assert_sound();
}

#[tokio::test]
async fn a_one_shot_removed_before_it_ran_can_be_added_again_for_the_same_instant() {
    let world = World::new();
    let run = world.plant_once("a", 1000).await;
    world.at(0).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    assert_eq!(world.plant_once("a", 1000).await, run);
    assert!(world.store.read_run(&run).await.unwrap().is_none());
    world.assert_sound();
    world.win(1000, &run).await;
}

#[tokio::test]
async fn open_runs_are_left_or_asked_to_stop() {
    for (running, word) in [
        (StopRunning::No, LeaseWord::Extended),
        (StopRunning::Yes, LeaseWord::Stop("removed".to_owned())),
    ] {
        let world = World::new();
        let run = world.plant("a", 0).await;
        let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
        let reply = world.at(1).remove_job(&removal(&world.job("a").await, running)).await.unwrap();
        assert_eq!(reply, RemoveReply::Removed(u32::from(running == StopRunning::Yes)));
        assert_eq!(
            world.at(2).renew_leases(LEASE, &[(run.clone(), claim.fence)]).await.unwrap(),
            [word]
        );
        world.succeed(3, &claim).await;
        world.assert_sound();
    }
}

#[tokio::test]
async fn a_job_nobody_has_is_unknown_and_one_of_another_kind_is_held() {
    let world = World::new();
    world.plant("a", 1000).await;
    let mut order = removal(&world.job("a").await, StopRunning::No);
    order.kind = SourceKind::File;
    let before = world.snapshot();
    assert_eq!(
        world.at(0).remove_job(&order).await.unwrap(),
        RemoveReply::OtherKind("api".to_owned())
    );
    order.name = name("b");
    assert_eq!(world.at(0).remove_job(&order).await.unwrap(), RemoveReply::Unknown);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_job_that_changed_since_it_was_read_is_stale_and_nothing_is_touched() {
    let world = World::new();
    world.plant_as(of_file("n1", definition("a", 0))).await;
    let read = world.job("a").await;
    world.win_with(0, &run_of("a", 0), Overlap::Skip, 1000).await;
    let before = world.snapshot();
    assert_eq!(unlist(&world, "n1", &read).await, RemoveReply::Stale);
    // Also the file's own list: the one who asked may die before it asks again.
    assert_eq!(world.snapshot(), before);
    assert_eq!(unlist(&world, "n1", &world.job("a").await).await, RemoveReply::Removed(0));
    assert!(world.store.read_source(&"n1".parse().unwrap()).await.unwrap().is_empty());
    world.assert_sound();
}

#[tokio::test]
async fn a_job_of_two_files_goes_with_the_last_that_lists_it() {
    let world = World::new();
    world.plant_as(of_file("n1", definition("a", 1000))).await;
    let second = of_file("n2", definition("a", 1000));
    assert_eq!(world.at(0).apply_job(&second).await.unwrap(), ApplyReply::Unchanged);
    assert_eq!(world.job("a").await.listed_by.len(), 2);
    assert_eq!(unlist(&world, "n1", &world.job("a").await).await, RemoveReply::Listed);
    assert_eq!(
        unlist(&world, "n1", &world.job("a").await).await,
        RemoveReply::Listed,
        "twice is as good as once"
    );
    assert_eq!(unlist(&world, "n2", &world.job("a").await).await, RemoveReply::Removed(0));
    world.assert_sound();
}

#[tokio::test]
async fn a_text_that_goes_with_its_file_is_to_be_said_again_by_those_that_keep_the_job() {
    let world = World::new();
    world.plant_as(of_file("n1", definition("a", 1000))).await;
    let read = world.job("a").await;
    let other = ApplyOrder {
        definition: version("other"),
        read: Some((read.rev, read.lane)),
        ..definition("a", 1000)
    };
    let other = of_file("apply:o", ApplyOrder { token: "second".to_owned(), ..other });
    assert_eq!(world.at(0).apply_job(&other).await.unwrap(), ApplyReply::Updated);
    let said =
        async || world.store.read_source(&"n1".parse().unwrap()).await.unwrap().remove(&name("a"));
    let own = said().await;
    assert!(own.as_ref().is_some_and(|hash| !hash.is_empty()), "what it said stands");
    assert_eq!(unlist(&world, "apply:o", &world.job("a").await).await, RemoveReply::Listed);
    assert_eq!(said().await.as_deref(), Some(""));
    assert_eq!(
        world.store.list_source(&"n1".parse().unwrap()).await.unwrap().remove(&name("a")),
        own
    );
    // It says it, and then nothing more is to be said.
    let read = world.job("a").await;
    let again = ApplyOrder {
        read: Some((read.rev, read.lane)),
        token: "third".to_owned(),
        ..definition("a", 1000)
    };
    assert_eq!(world.at(1).apply_job(&of_file("n1", again)).await.unwrap(), ApplyReply::Updated);
    assert_eq!(said().await, own);
    assert_eq!(unlist(&world, "apply:o", &world.job("a").await).await, RemoveReply::Listed);
    assert_eq!(said().await, own);
    world.assert_sound();
}

#[tokio::test]
async fn a_job_made_anew_by_the_command_line_is_listed_by_no_file() {
    let world = World::new();
    let once = ApplyOrder { is_once: true, ..definition("a", 0) };
    let run = world.plant_as(of_file("n1", once)).await;
    let claim = world.win(0, &run).await;
    world.succeed(1, &claim).await;
    let run = world.plant("a", 1000).await;
    assert!(world.job("a").await.listed_by.is_empty());
    // And so a later file job of that name goes when its only file drops it.
    world.at(2).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    assert!(world.store.read_run(&run).await.unwrap().is_none());
    world.plant_as(of_file("n2", definition("a", 3000))).await;
    assert_eq!(unlist(&world, "n2", &world.job("a").await).await, RemoveReply::Removed(0));
}

#[tokio::test]
async fn a_paused_job_can_be_removed() {
    let world = World::new();
    world.plant_once("a", 1000).await;
    world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let reply =
        world.at(1).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    assert_eq!(reply, RemoveReply::Removed(0));
    assert_eq!(world.state(&run_of("a", 1000)).await, RunState::Cancelled);
    world.assert_sound();
}

#[tokio::test]
async fn a_job_removed_leaves_its_planned_run_the_end_it_has() {
    let world = World::new();
    let run = world.plant_once("a", 0).await;
    let _: i64 =
        world.raw("HSET", &format!("run:{run}"), &["state", "failed", "reason", "its own"]);
    let reply =
        world.at(5).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    assert_eq!(reply, RemoveReply::Removed(0));
    let record = world.run(&run).await;
    assert_eq!((record.state, record.reason.as_deref()), (RunState::Failed, Some("its own")));
    assert_eq!((world.total("cancelled"), world.score("due:default", &run.to_string())), (0, None));
}

#[tokio::test]
async fn what_passed_behind_an_owed_or_paused_run_is_reported_when_its_job_goes() {
    for reason in ["missed", "paused"] {
        let world = World::new();
        let run = world.plant("a", 0).await;
        if reason == "paused" {
            world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
        }
        let skipped_range = SkippedRange { first: t(1000), last: t(3000), count: 3 };
        let order = RemoveOrder {
            passed: (Some(skipped_range), Some(t(4000))),
            ..removal(&world.job("a").await, StopRunning::No)
        };
        let before = world.snapshot();
        assert_eq!(
            world.at(4000).remove_job(&order).await.unwrap(),
            RemoveReply::Stale,
            "one more has passed"
        );
        assert_eq!(world.snapshot(), before);
        assert_eq!(world.at(3999).remove_job(&order).await.unwrap(), RemoveReply::Removed(0));
        assert_eq!(world.state(&run).await, RunState::Cancelled);
        let reported = world.run(&run_of("a", 1000)).await;
        assert_eq!(
            (reported.state, reported.skipped, reported.reason.as_deref()),
            (RunState::Skipped, Some((t(3000), 3)), Some(reason))
        );
        assert_eq!((world.total("cancelled"), world.total("skipped")), (1, 3));
        world.assert_sound();
    }
}
