//! `pause_job` and `resume_job`: the pending run is held, and what passed meanwhile is told in one record.

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::RunId;
use schedd_store::{JobRecord, PauseReply, ResumeOrder, ResumeReply};

use crate::scripts::world::{World, definition, run_of, successor, t};

pub(crate) fn resuming(
    job: &JobRecord,
    skipped: Option<(i64, u64)>,
    next: Option<i64>,
) -> ResumeOrder {
    ResumeOrder {
        name: job.name.clone(),
        rev: job.rev.clone(),
        lane: job.lane.clone(),
        paused_run: job.paused_run.clone(),
        skipped: skipped.map(|(last, count)| SkippedRange {
            first: job.paused_run.as_ref().map_or(t(0), RunId::due),
            last: t(last),
            count,
        }),
        planted: next.map(|next| successor(job.name.as_str(), next)),
    }
}

#[tokio::test]
async fn a_paused_job_keeps_its_planned_run_out_of_the_due_set() {
    let world = World::new();
    let run = world.plant("a", 1000).await;
    let read = world.job("a").await;
    assert_eq!(world.at(0).pause_job(&read, None, &[]).await.unwrap(), PauseReply::Paused);
    let job = world.job("a").await;
    assert_eq!(
        (job.pending, job.paused_run.as_ref(), job.paused_at),
        (None, Some(&run), Some(t(0)))
    );
    assert_eq!((world.indexed("a"), world.score("due:default", &run.to_string())), (None, None));
    world.assert_sound();
    let before = world.snapshot();
    assert_eq!(world.at(1).pause_job(&read, None, &[]).await.unwrap(), PauseReply::Already);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn pausing_what_is_not_there_or_has_moved_on_changes_nothing() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let read = world.job("a").await;
    world.win_with(0, &run, Overlap::Skip, 1000).await;
    let before = world.snapshot();
    assert_eq!(world.at(1).pause_job(&read, None, &[]).await.unwrap(), PauseReply::Stale);
    let unknown = JobRecord { name: "b".parse().unwrap(), ..read };
    assert_eq!(world.at(1).pause_job(&unknown, None, &[]).await.unwrap(), PauseReply::Unknown);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_resume_reports_the_range_once_and_plants_the_next() {
    let world = World::new();
    let held = world.plant("a", 1000).await;
    world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let order = resuming(&world.job("a").await, Some((5000, 5)), Some(6000));
    assert_eq!(world.at(5500).resume_job(&order).await.unwrap(), ResumeReply::Resumed);
    let record = world.run(&held).await;
    assert_eq!((record.state, record.reason.as_deref()), (RunState::Skipped, Some("paused")));
    assert_eq!(record.skipped, Some((t(5000), 5)));
    assert_eq!(world.total("skipped"), 5);
    let job = world.job("a").await;
    assert_eq!((job.pending, job.paused_run, job.paused_at), (Some(run_of("a", 6000)), None, None));
    assert_eq!(world.indexed("a"), Some(6000));
    world.assert_sound();
    let before = world.snapshot();
    assert_eq!(world.at(5501).resume_job(&order).await.unwrap(), ResumeReply::Already);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_held_run_still_to_come_is_planted_again_as_it_was() {
    let world = World::new();
    let held = world.plant_once("a", 1000).await;
    world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let order = resuming(&world.job("a").await, None, Some(1000));
    assert_eq!(world.at(2000).resume_job(&order).await.unwrap(), ResumeReply::Resumed);
    world.assert_sound();
    let claim = world.win(2000, &held).await;
    world.succeed(2001, &claim).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_resume_made_from_another_state_of_the_job_changes_nothing() {
    let world = World::new();
    world.plant("a", 1000).await;
    world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let paused = world.job("a").await;
    let mut stale = resuming(&paused, None, Some(2000));
    stale.paused_run = Some(run_of("a", 7));
    let before = world.snapshot();
    assert_eq!(world.at(1).resume_job(&stale).await.unwrap(), ResumeReply::Stale);
    let unknown = ResumeOrder { name: "b".parse().unwrap(), ..resuming(&paused, None, None) };
    assert_eq!(world.at(1).resume_job(&unknown).await.unwrap(), ResumeReply::Unknown);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_resume_does_not_plant_an_occurrence_that_has_a_record() {
    let world = World::new();
    let first = world.plant("a", 0).await;
    let claim = world.win_with(0, &first, Overlap::Skip, 1000).await;
    world.succeed(1, &claim).await;
    world.at(2).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let before = world.snapshot();
    let order = resuming(&world.job("a").await, None, Some(0));
    assert_eq!(world.at(3).resume_job(&order).await.unwrap(), ResumeReply::Occupied);
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_range_without_a_held_run_is_written_nowhere() {
    let world = World::new();
    let once = world.plant_once("a", 0).await;
    let claim = world.win(0, &once).await;
    let running = world.run(&once).await;
    assert_eq!(
        world.at(1).pause_job(&world.job("a").await, Some(&running), &[]).await.unwrap(),
        PauseReply::Paused
    );
    let order = resuming(&world.job("a").await, Some((5, 1)), None);
    assert_eq!(world.at(2).resume_job(&order).await.unwrap(), ResumeReply::Resumed);
    world.assert_sound();
    world.succeed(3, &claim).await;
    world.assert_sound();
}

#[tokio::test]
async fn manual_runs_and_retries_of_a_paused_job_go_on() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Allow, 1000).await;
    world.finish(1, &claim, schedd_store::Verdict::Retry(std::time::Duration::ZERO)).await;
    world.at(2).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let again = world.win(3, &run).await;
    world.succeed(4, &again).await;
    let hand = world.by_hand("a", 5).await;
    let hand = world.win(5, &hand).await;
    world.succeed(6, &hand).await;
    assert_eq!(world.job("a").await.pending, None, "nothing is planted while the job is paused");
    assert_eq!(
        world.at(7).apply_job(&definition("a", 0)).await.unwrap(),
        schedd_store::ApplyReply::Unchanged
    );
    world.assert_sound();
}

#[tokio::test]
async fn a_resume_reports_no_range_over_a_run_that_has_its_own_end() {
    let world = World::new();
    let held = world.plant("a", 1000).await;
    world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let _: i64 = world.raw("HSET", &format!("run:{held}"), &["state", "succeeded"]);
    let order = resuming(&world.job("a").await, Some((5000, 5)), Some(6000));
    assert_eq!(world.at(5500).resume_job(&order).await.unwrap(), ResumeReply::Resumed);
    assert_eq!((world.state(&held).await, world.total("skipped")), (RunState::Succeeded, 0));
    assert_eq!(world.job("a").await.pending, Some(run_of("a", 6000)));
    // Behind it the stretch has a record of its own.
    let world = World::new();
    let held = world.plant("a", 1000).await;
    world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let order = resuming(&world.job("a").await, Some((5000, 4)), Some(6000));
    let skipped =
        order.skipped.map(|skipped_range| SkippedRange { first: t(2000), ..skipped_range });
    assert_eq!(
        world.at(5500).resume_job(&ResumeOrder { skipped, ..order }).await.unwrap(),
        ResumeReply::Resumed
    );
    assert_eq!(world.run(&run_of("a", 2000)).await.skipped, Some((t(5000), 4)));
    assert!(world.store.read_run(&held).await.unwrap().is_none());
}

#[tokio::test]
async fn a_run_a_resume_plants_by_an_earlier_clock_reading_belongs_to_the_schedule() {
    let world = World::new();
    world.plant("a", 1000).await;
    world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let order = resuming(&world.job("a").await, Some((5000, 5)), Some(6000));
    assert_eq!(world.at(6500).resume_job(&order).await.unwrap(), ResumeReply::Resumed);
    assert_eq!(world.job("a").await.since, t(5999));
}
