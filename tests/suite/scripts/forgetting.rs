//! `forget_runs` and `forget_jobs`: what is over and past its bound goes, in bounded steps, and nothing else.

use schedd::domain::job::Overlap;
use schedd::domain::run::RunState;
use schedd::store::{StopRunning, Verdict};

use super::removing::removal;
use super::world::{World, name, run_of, t};

async fn ended(world: &World, job: &str, times: i64) {
    world.plant(job, 0).await;
    for due in 0..times {
        let claim = world.win_with(due, &run_of(job, due), Overlap::Skip, due + 1).await;
        world.succeed(due, &claim).await;
    }
}

#[tokio::test]
async fn runs_past_their_age_go_and_younger_ones_stay() {
    let world = World::new();
    ended(&world, "a", 5).await;
    assert_eq!(world.at(100).forget_runs(None, t(3), usize::MAX).await.unwrap(), 3);
    assert!(world.store.read_run(&run_of("a", 2)).await.unwrap().is_none());
    assert_eq!(world.state(&run_of("a", 3)).await, RunState::Succeeded);
    world.assert_sound();
    assert_eq!(world.at(100).forget_runs(None, t(3), usize::MAX).await.unwrap(), 0);
}

#[tokio::test]
async fn of_one_job_only_the_oldest_beyond_its_bound_go() {
    let world = World::new();
    ended(&world, "a", 5).await;
    ended(&world, "b", 5).await;
    assert_eq!(world.at(100).forget_runs(Some(&name("a")), t(0), 2).await.unwrap(), 3);
    let newest = world.store.read_history(Some(&name("a")), 0, 100).await.unwrap();
    let newest: Vec<_> = newest.runs.into_iter().map(|record| record.run).collect();
    assert_eq!(newest, [run_of("a", 4), run_of("a", 3)]);
    assert_eq!(world.store.read_history(Some(&name("b")), 0, 100).await.unwrap().runs.len(), 5);
    world.assert_sound();
}

#[tokio::test]
async fn a_hundred_go_in_one_step() {
    let world = World::new();
    ended(&world, "a", 150).await;
    let mut steps = Vec::new();
    while steps.last() != Some(&0) {
        steps.push(world.at(1000).forget_runs(None, t(1000), 0).await.unwrap());
    }
    assert_eq!(steps, [100, 50, 0]);
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_is_not_over_only_leaves_the_index_it_should_not_be_in() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
    for index in ["history", "history:a"] {
        let _: i64 = world.raw("ZADD", index, &["1", &run.to_string()]);
    }
    assert_eq!(world.at(5).forget_runs(None, t(5), 0).await.unwrap(), 1);
    assert_eq!(world.state(&run).await, RunState::Running);
    world.succeed(6, &claim).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_job_that_ended_is_forgotten_when_nothing_of_it_is_open() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let claim = world.win_with(0, &run, Overlap::Skip, 1000).await;
    world.at(1).remove_job(&removal(&world.job("a").await, StopRunning::No)).await.unwrap();
    let before = world.snapshot();
    world.at(2).forget_jobs(t(5000), 0).await.unwrap();
    assert_eq!(world.snapshot(), before, "its open run still needs the definition");
    world.finish(3, &claim, Verdict::Final(RunState::Succeeded)).await;
    assert_eq!(world.at(4).forget_jobs(t(5000), 0).await.unwrap(), 1);
    assert!(world.store.read_job(&name("a")).await.unwrap().is_none());
    assert_eq!(world.state(&run).await, RunState::Succeeded, "its history stays");
    assert_eq!(world.at(5).forget_jobs(t(5000), 0).await.unwrap(), 0);
}

#[tokio::test]
async fn a_job_that_lives_only_leaves_the_index_it_should_not_be_in() {
    let world = World::new();
    world.plant("a", 1000).await;
    let _: i64 = world.raw("ZADD", "finished", &["1", "a"]);
    world.at(0).forget_jobs(t(0), 0).await.unwrap();
    assert!(world.job("a").await.is_live());
    assert_eq!(world.store.list_finished(0, 10).await.unwrap(), []);
    world.assert_sound();
}
