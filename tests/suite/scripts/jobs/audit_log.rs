//! What is done to a job is noted with who did it, in the script that does it, once; and a cancelled run says who had it
//! cancelled.

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_store::{
    ApplyOrder, ApplyReply, AuditEntry, CancelReply, ResumeOrder, RunRecord, StopRunning, Verdict,
};

use super::removing::removal;
use super::retrying::retrial;
use crate::scripts::world::{World, definition, name, run_of, successor, t, token, version};

const ANA: &str = "ana@h1";

async fn audit_log(world: &World, job: &str) -> Vec<(String, Option<String>)> {
    let audit_log = world.store.read_audit_log(&name(job)).await.unwrap();
    audit_log.into_iter().map(|entry| (entry.what, entry.by)).collect()
}

fn by(who: &str, what: &[&str]) -> Vec<(String, Option<String>)> {
    what.iter().map(|what| ((*what).to_owned(), Some(who.to_owned()))).collect()
}

async fn by_of(world: &World, run: &schedd_schedule::names::RunId) -> (RunState, Option<String>) {
    let RunRecord { state, by, .. } = world.run(run).await;
    (state, by)
}

#[tokio::test]
async fn each_thing_done_to_a_job_is_noted_once_with_who_did_it() {
    let world = World::new();
    let ana = |at: i64| world.at(at).signed(ANA);
    assert_eq!(ana(-1000).apply_job(&definition("a", 0)).await.unwrap(), ApplyReply::Created);
    let job = world.job("a").await;
    let edit = ApplyOrder {
        definition: version("v2"),
        token: token(),
        read: Some((job.rev.clone(), job.lane.clone())),
        planned: job.pending.clone(),
        schedules: Some(("every 1s".to_owned(), "every 2s".to_owned())),
        ..definition("a", 2000)
    };
    for _ in 0..2 {
        assert_eq!(ana(-900).apply_job(&edit).await.unwrap(), ApplyReply::Updated);
    }
    ana(-800).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    ana(-799).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let job = world.job("a").await;
    let resume = ResumeOrder {
        name: job.name.clone(),
        rev: job.rev.clone(),
        lane: job.lane.clone(),
        paused_run: job.paused_run.clone(),
        skipped: None,
        planted: Some(successor("a", 2000)),
    };
    for _ in 0..2 {
        ana(-700).resume_job(&resume).await.unwrap();
    }
    let run = schedd_schedule::names::RunId::manual(name("a"), crate::scripts::world::t(-600), "x")
        .unwrap();
    for _ in 0..2 {
        ana(-600).plant_manual(&run, &job.lane, None).await.unwrap();
    }
    assert_eq!(world.run(&run).await.asked_by.as_deref(), Some(ANA));
    for _ in 0..2 {
        assert_eq!(
            ana(-500).cancel_run(&world.cancelling(&run, None).await).await.unwrap(),
            CancelReply::Cancelled
        );
    }
    assert_eq!(by_of(&world, &run).await, (RunState::Cancelled, Some(ANA.to_owned())));
    let order = removal(&world.job("a").await, StopRunning::No);
    for _ in 0..2 {
        ana(-400).remove_job(&order).await.unwrap();
    }
    let all = ["added", "edited", "paused", "resumed", "run asked for", "run cancelled", "removed"];
    assert_eq!(audit_log(&world, "a").await, by(ANA, &all));
    let read = world.store.read_audit_log(&name("a")).await.unwrap();
    assert_eq!(read[1].schedules, Some(("every 1s".to_owned(), "every 2s".to_owned())));
    assert_eq!(
        (read[4].run.clone(), read[5].run.clone()),
        (Some(run.to_string()), Some(run.to_string()))
    );
    world.assert_sound();
}

#[tokio::test]
async fn a_running_run_that_a_user_stops_says_who_had_it_stopped() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim =
        world.win_with(0, &run, schedd_core::domain::job::job_spec::Overlap::Skip, 1000).await;
    let order = world.cancelling(&run, None).await;
    for _ in 0..2 {
        assert_eq!(
            world.at(1).signed(ANA).cancel_run(&order).await.unwrap(),
            CancelReply::Requested
        );
    }
    let words = world
        .at(2)
        .renew_leases(crate::scripts::world::LEASE, &[(run.clone(), claim.fence)])
        .await
        .unwrap();
    assert_eq!(
        words,
        [schedd_store::LeaseWord::Stop("by a test".to_owned())],
        "the job is told why, not who"
    );
    world.finish(3, &claim, Verdict::Final(RunState::Cancelled)).await;
    assert_eq!(by_of(&world, &run).await, (RunState::Cancelled, Some(ANA.to_owned())));
    assert_eq!(audit_log(&world, "a").await[1..], by(ANA, &["run cancelled"]));
}

#[tokio::test]
async fn a_run_stopped_while_it_waits_for_its_retry_says_so_too() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim =
        world.win_with(0, &run, schedd_core::domain::job::job_spec::Overlap::Skip, 1000).await;
    world.at(1).signed(ANA).cancel_run(&world.cancelling(&run, None).await).await.unwrap();
    world.finish(2, &claim, Verdict::Retry(std::time::Duration::from_secs(9))).await;
    assert_eq!(by_of(&world, &run).await, (RunState::Cancelled, Some(ANA.to_owned())));
}

#[tokio::test]
async fn what_is_open_of_a_removed_job_says_who_removed_it() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim =
        world.win_with(0, &run, schedd_core::domain::job::job_spec::Overlap::Skip, 1000).await;
    world
        .at(1)
        .signed(ANA)
        .remove_job(&removal(&world.job("a").await, StopRunning::Yes))
        .await
        .unwrap();
    world.finish(2, &claim, Verdict::Final(RunState::Cancelled)).await;
    assert_eq!(by_of(&world, &run).await.1.as_deref(), Some(ANA));
}

#[tokio::test]
async fn a_retried_dead_letter_is_noted_and_a_one_shot_s_own_record_says_who_added_it() {
    let world = World::new();
    let once = ApplyOrder { is_once: true, ..definition("a", 0) };
    world.at(-1).signed(ANA).apply_job(&once).await.unwrap();
    assert_eq!(world.job("a").await.created.unwrap().1.as_deref(), Some(ANA));
    assert!(audit_log(&world, "a").await.is_empty());
    let claim = world.win(0, &run_of("a", 0)).await;
    world.finish(1, &claim, Verdict::Final(RunState::Failed)).await;
    world.at(2).signed(ANA).retry_run(&retrial(&claim, &world.job("a").await)).await.unwrap();
    assert_eq!(audit_log(&world, "a").await, by(ANA, &["run retried"]));
}

#[tokio::test]
async fn the_newest_hundred_are_kept_and_none_outlives_its_job() {
    let world = World::new();
    world.plant("a", 1_000_000).await;
    for at in 0..120 {
        world.by_hand("a", at).await;
    }
    let read = world.store.read_audit_log(&name("a")).await.unwrap();
    assert_eq!(
        (read.len(), read[0].what.as_str(), read[0].by.as_deref()),
        (100, AuditEntry::RUN_ASKED, None)
    );
    for at in 0..120 {
        let run =
            schedd_schedule::names::RunId::manual(name("a"), crate::scripts::world::t(at), "hand")
                .unwrap();
        world.at(200).cancel_run(&world.cancelling(&run, None).await).await.unwrap();
    }
    world.at(300).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    world.at(400).forget_jobs(crate::scripts::world::t(500), 0).await.unwrap();
    assert_eq!(world.raw::<i64>("EXISTS", "audit_log:a", &[]), 0);
}

#[tokio::test]
async fn a_claim_notes_only_what_was_not_as_planned() {
    let world = World::new();
    let first = world.plant("a", 0).await;
    let claim =
        world.win_with(0, &first, schedd_core::domain::job::job_spec::Overlap::Skip, 1000).await;
    let record = world.run(&first).await;
    assert_eq!((record.ready_at, record.behind.clone(), record.first_start), (None, None, None));
    let second = run_of("a", 1000);
    world
        .claim(
            1000,
            &world
                .order_with(
                    &second,
                    schedd_core::domain::job::job_spec::Overlap::Queue { max: 1 },
                    2000,
                )
                .await,
        )
        .await;
    let waiting = world.run(&second).await;
    assert_eq!(
        (waiting.behind.as_ref(), waiting.waited_from),
        (Some(&first), Some(crate::scripts::world::t(1000)))
    );
    let third = run_of("a", 2000);
    world
        .claim(
            2000,
            &world
                .order_with(&third, schedd_core::domain::job::job_spec::Overlap::Skip, 3000)
                .await,
        )
        .await;
    assert_eq!(world.run(&third).await.behind, Some(first.clone()));
    world.succeed(2500, &claim).await;
    let claim = world.win(2600, &second).await;
    assert_eq!(world.run(&second).await.ready_at, Some(crate::scripts::world::t(2500)));
    world.finish(2700, &claim, Verdict::Release).await;
    let again = world.win(2800, &second).await;
    world.succeed(2900, &again).await;
    let record = world.run(&second).await;
    assert_eq!(
        (record.first_start, record.started_at),
        (Some(crate::scripts::world::t(2600)), Some(crate::scripts::world::t(2800)))
    );
    world.assert_sound();
}

#[tokio::test]
async fn letters_that_are_purged_are_one_change_of_each_job_with_how_many_and_by_whom() {
    let world = World::new();
    let mut dead = Vec::new();
    for job in ["a", "b"] {
        let mut run = world.plant(job, 0).await;
        let count = if job == "a" { 130 } else { 1 };
        for at in 0..count {
            let claim = world.win_with(at * 1000, &run, Overlap::Skip, (at + 1) * 1000).await;
            world.finish(at * 1000, &claim, Verdict::Final(RunState::Failed)).await;
            dead.push(run);
            run = run_of(job, (at + 1) * 1000);
        }
    }
    let ana = world.at(200_000).signed(ANA);
    for purged in [131, 0] {
        assert_eq!(ana.purge_dead(&dead).await.unwrap(), purged);
    }
    let audit_log = world.store.read_audit_log(&name("a")).await.unwrap();
    let purged = audit_log
        .iter()
        .filter(|entry| entry.what == AuditEntry::LETTERS_PURGED)
        .collect::<Vec<_>>();
    assert_eq!(purged.len(), 1, "in steps, and still one entry");
    assert_eq!(
        (purged[0].count, purged[0].by.as_deref(), purged[0].run.as_deref()),
        (Some(130), Some(ANA), None)
    );
    let audit_log = world.store.read_audit_log(&name("b")).await.unwrap();
    let last = audit_log.last().unwrap();
    assert_eq!(
        (last.what.as_str(), last.count, last.run.clone()),
        (AuditEntry::LETTERS_PURGED, Some(1), Some(dead[130].to_string()))
    );
    // What only is past its bounds is no change by anybody.
    let run = run_of("b", 1000);
    let claim = world.win_with(300_000, &run, Overlap::Skip, 2000).await;
    world.finish(300_000, &claim, Verdict::Final(RunState::Failed)).await;
    world.at(300_001).forget_dead(None, t(300_001), 0).await.unwrap();
    assert_eq!(world.store.read_audit_log(&name("b")).await.unwrap().len(), audit_log.len());
    world.assert_sound();
}
