//! `forget_runs`, also of dead letters, and `forget_jobs`: what is over and past its bound goes, in bounded steps, and nothing else.

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::names::RunId;
use schedd_store::{ApplyOrder, Ended, SkipOrder, SkipReply, SourceKind, StopRunning, Verdict};

use crate::scripts::jobs::removing::removal;
use crate::scripts::world::{World, definition, name, queue, run_of, successor, t};

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
    world.at(2).forget_jobs(t(5000), 0).await.unwrap();
    assert!(
        world.store.read_job(&name("a")).await.unwrap().is_some(),
        "its open run still needs the definition"
    );
    world.finish(3, &claim, Verdict::Final(RunState::Succeeded)).await;
    assert_eq!(world.at(4).forget_jobs(t(5000), 0).await.unwrap(), 1);
    assert!(world.store.read_job(&name("a")).await.unwrap().is_none());
    assert_eq!(world.state(&run).await, RunState::Succeeded, "its history stays");
    assert_eq!(world.at(5).forget_jobs(t(5000), 0).await.unwrap(), 0);
}

#[tokio::test]
async fn ended_jobs_with_an_open_run_do_not_block_forgetting_the_jobs_behind_them() {
    let world = World::new();
    let jobs: Vec<String> = (0..101).map(|number| format!("j{number}")).collect();
    for (at, job) in jobs.iter().enumerate() {
        let run = world.plant(job, 0).await;
        if at < 100 {
            world.win_with(0, &run, Overlap::Skip, 9000).await;
        }
        world.at(1).remove_job(&removal(&world.job(job).await, StopRunning::No)).await.unwrap();
    }
    // Which of them stands last is up to their names.
    let _: i64 = world.raw("ZADD", "finished", &[&t(2).as_i64().to_string(), &jobs[100]]);
    assert_eq!(world.at(1000).forget_jobs(t(500), usize::MAX).await.unwrap(), 100);
    assert_eq!(world.at(1000).forget_jobs(t(500), usize::MAX).await.unwrap(), 1);
    assert!(world.store.read_job(&name(&jobs[100])).await.unwrap().is_none());
    assert_eq!(
        world.at(1000).forget_jobs(t(500), usize::MAX).await.unwrap(),
        0,
        "the others count as ended just now"
    );
    world.assert_sound();
}

#[tokio::test]
async fn a_job_that_is_forgotten_is_listed_by_no_file_any_more() {
    let world = World::new();
    let order =
        ApplyOrder { kind: SourceKind::File, source: "n1".to_owned(), ..definition("a", 5000) };
    world.at(0).apply_job(&order).await.unwrap();
    let _: i64 = world.raw("HSET", "job:a", &["ended", "finished", "ended_at", "1"]);
    let _: i64 = world.raw("ZADD", "finished", &["1", "a"]);
    assert_eq!(world.at(4).forget_jobs(t(5000), 0).await.unwrap(), 1);
    assert_eq!(world.raw::<i64>("HLEN", "source:n1", &[]), 0);
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

/// The first run of job `a` fails, those after it succeed.
async fn one_dead_and(world: &World, successes: i64) -> RunId {
    let first = world.plant("a", 0).await;
    for due in 0..=successes {
        let claim = world.win_with(due, &run_of("a", due), Overlap::Skip, due + 1).await;
        let state = if due == 0 { RunState::Failed } else { RunState::Succeeded };
        world.finish(due, &claim, Verdict::Final(state)).await;
    }
    first
}

#[tokio::test]
async fn a_dead_letter_is_not_pushed_out_by_later_successes() {
    for job in [None, Some(name("a"))] {
        let world = World::new();
        let dead = one_dead_and(&world, 5).await;
        assert_eq!(world.at(100).forget_runs(job.as_ref(), t(0), 2).await.unwrap(), 4);
        assert_eq!(world.state(&dead).await, RunState::Failed);
        assert!(world.store.read_run(&run_of("a", 3)).await.unwrap().is_none());
        assert_eq!(world.store.read_history(Some(&name("a")), 0, 100).await.unwrap().runs.len(), 2);
        for dead_of in [None, Some(name("a"))] {
            let page = world
                .store
                .read_ended(&Ended { jobs: dead_of.into_iter().collect(), ..Ended::dead() }, 0, 100)
                .await
                .unwrap();
            let kept: Vec<_> = page.runs.into_iter().map(|run| run.run).collect();
            assert_eq!(kept, std::slice::from_ref(&dead));
        }
        assert_eq!(
            world.at(100).forget_runs(None, t(0), 2).await.unwrap(),
            0,
            "it stands in no trimming's way"
        );
        world.assert_sound();
    }
}

#[tokio::test]
async fn dead_letters_go_by_age_and_by_count_of_their_own() {
    let world = World::new();
    one_dead_and(&world, 2).await;
    assert_eq!(
        world.at(100).forget_runs(None, t(1), usize::MAX).await.unwrap(),
        1,
        "by age at once"
    );
    world.assert_sound();
    for job in [None, Some(name("b"))] {
        let world = World::new();
        world.plant("b", 0).await;
        for due in 0..5 {
            let claim = world.win_with(due, &run_of("b", due), Overlap::Skip, due + 1).await;
            world.finish(due, &claim, Verdict::Final(RunState::TimedOut)).await;
        }
        assert_eq!(world.at(100).forget_dead(job.as_ref(), t(1), 3).await.unwrap(), 2);
        let left = world.store.read_ended(&Ended::dead(), 0, 100).await.unwrap().runs;
        assert_eq!(
            left.into_iter().map(|run| run.run).collect::<Vec<_>>(),
            [4, 3, 2].map(|due| run_of("b", due))
        );
        assert_eq!(world.store.read_history(None, 0, 100).await.unwrap().runs.len(), 3);
        assert_eq!(world.at(100).forget_dead(job.as_ref(), t(1), 3).await.unwrap(), 0);
        world.assert_sound();
    }
}

#[tokio::test]
async fn only_what_still_is_a_dead_letter_is_purged() {
    let world = World::new();
    let dead = one_dead_and(&world, 1).await;
    let claim = world.win_with(2, &run_of("a", 2), Overlap::Skip, 3).await;
    let before = world.snapshot();
    let others = [run_of("a", 1), claim.run.clone(), run_of("a", 999)];
    assert_eq!(world.store.purge_dead(&others).await.unwrap(), 0);
    assert_eq!(world.snapshot(), before);
    let twice: Vec<_> = (0..150).map(|_| dead.clone()).collect();
    assert_eq!(world.store.purge_dead(&twice).await.unwrap(), 1);
    assert!(world.store.read_run(&dead).await.unwrap().is_none());
    assert_eq!(world.store.read_stats().await.unwrap().dead, 0);
    world.succeed(4, &claim).await;
    world.assert_sound();
}

#[tokio::test]
async fn jobs_with_too_much_kept_are_found_however_their_runs_ended() {
    let world = World::new();
    ended(&world, "few", 2).await;
    ended(&world, "many", 5).await;
    world.plant("skipped", 0).await;
    for due in 0..5 {
        let order = SkipOrder {
            run: run_of("skipped", due),
            rev: world.job("skipped").await.rev,
            lane: queue("default"),
            reason: "missed",
            last_due: t(due),
            count: 1,
            successor: Some(successor("skipped", due + 1)),
        };
        assert_eq!(world.at(due).skip_run(&order).await.unwrap(), SkipReply::Skipped);
    }
    world.plant("dead", 0).await;
    for due in 0..3 {
        let claim = world.win_with(due, &run_of("dead", due), Overlap::Skip, due + 1).await;
        world.finish(due, &claim, Verdict::Final(RunState::Failed)).await;
    }
    let (jobs, next) = world.store.list_overfull(t(-1), |_| (4, 2)).await.unwrap();
    assert_eq!(jobs, ["dead", "many", "skipped"].map(name));
    assert_eq!(next, Some(t(4)));
    assert_eq!(world.store.list_overfull(t(4), |_| (0, 0)).await.unwrap(), (vec![], None));
}

#[tokio::test]
async fn a_scan_for_full_jobs_resumes_at_its_page_and_passes_a_crowded_millisecond() {
    let world = World::new();
    for (from, to, job) in [(0, 1_500, "a"), (1_500, 3_000, "b")] {
        let mut pipeline = redis::pipe();
        for due in from..to {
            let id = run_of(job, due).to_string();
            // All of `a` ended in one millisecond, those of `b` two in each.
            let at = if job == "a" { t(0) } else { t(due / 2) };
            pipeline.zadd(world.key("history"), &id, at.as_i64()).zadd(
                world.key(&format!("history:{job}")),
                &id,
                at.as_i64(),
            );
        }
        pipeline.exec(&mut world.redis.connection()).unwrap();
    }
    let (mut seen, mut found) = (t(-1), Vec::new());
    while let (jobs, Some(next)) =
        world.store.list_overfull(seen, |_| (1_000, 1_000)).await.unwrap()
    {
        assert!(next > seen);
        (seen, found) = (next, [found, jobs].concat());
    }
    assert_eq!(found, ["a", "b", "b"].map(name));
    assert_eq!(seen, t(1_499));
}

#[tokio::test]
async fn nodes_long_gone_are_forgotten_unless_their_file_still_lists_a_job() {
    let world = World::new();
    for (node, seen) in [("gone", 1), ("lists", 2), ("there", 900)] {
        let _: i64 = world.raw("ZADD", "nodes", &[&t(seen).as_i64().to_string(), node]);
        let _: i64 = world.raw("HSET", &format!("node:{node}"), &["state", "running"]);
    }
    let _: i64 = world.raw("HSET", "source:lists", &["a", "hash"]);
    let gone = world.store.list_gone_nodes(t(500)).await.unwrap();
    assert_eq!(
        gone.iter().map(schedd_schedule::names::NodeName::as_str).collect::<Vec<_>>(),
        ["gone", "lists"]
    );
    let all = ["gone", "lists", "there"].map(|node| node.parse().unwrap());
    assert_eq!(world.store.forget_nodes(&all, t(500)).await.unwrap(), 1);
    let keys: Vec<String> =
        world.snapshot().into_keys().filter(|key| key.contains("node:")).collect();
    assert_eq!(keys, ["lists", "there"].map(|node| world.key(&format!("node:{node}"))));
    assert_eq!(world.store.forget_nodes(&all, t(500)).await.unwrap(), 0);
}
