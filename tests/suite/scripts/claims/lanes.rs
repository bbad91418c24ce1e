//! Lanes: a job's runs are due in the one of its priority and labels, nodes know of it, and a poll tells the most urgent first.

use schedd_core::domain::run::run_state::RunState;
use schedd_store::{ApplyOrder, ApplyReply, LaneAsk, LanePoll, Verdict};

use crate::scripts::world::{World, claimant, definition, queue, run_of, t, token, version};

fn in_lane(job: &str, offset: i64, lane: &str) -> ApplyOrder {
    ApplyOrder { lane: queue(lane), ..definition(job, offset) }
}

/// The jobs a poll for `limit` runs of one queue told, lane by lane.
async fn reported(world: &World, lanes: &[(&str, usize)], limit: usize) -> Vec<Vec<String>> {
    let asks: Vec<LaneAsk> = lanes
        .iter()
        .map(|(lane, more)| LaneAsk { more: *more, ..LaneAsk::new(queue(lane), limit) })
        .collect();
    let poll = world.at(1_000_000).list_due(&asks).await.unwrap();
    let jobs = |poll: LanePoll| match poll {
        LanePoll::Due { due, .. } => {
            due.iter().map(|entry| entry.member.split_once('@').unwrap().0.to_owned()).collect()
        }
        LanePoll::WrongType(error) => panic!("{error}"),
    };
    poll.lanes.into_iter().map(jobs).collect()
}

#[tokio::test]
async fn the_lane_of_a_job_is_written_down_with_it_and_that_of_a_plain_one_is_not() {
    let world = World::new();
    world.plant_as(in_lane("a", 0, "default!5+gpu")).await;
    world.plant("b", 0).await;
    assert_eq!(world.score("due:default!5+gpu", &run_of("a", 0).to_string()), Some(0));
    assert_eq!(world.store.read_lanes().await.unwrap(), [queue("default!5+gpu")].into());
    assert_eq!(
        world.store.list_lanes().await.unwrap(),
        [queue("default"), queue("default!5+gpu")].into()
    );
    assert_eq!(
        (world.job("a").await.lane, world.job("b").await.lane),
        (queue("default!5+gpu"), queue("default"))
    );
    world.assert_sound();
}

#[tokio::test]
async fn a_changed_priority_or_label_moves_the_planned_run_as_a_changed_queue_does() {
    let world = World::new();
    let run = world.plant("a", 100).await;
    for (lane, before) in
        [("default!7", "default"), ("default!7+eu", "default!7"), ("other", "default!7+eu")]
    {
        let job = world.job("a").await;
        let read = Some((job.rev, job.lane));
        let change = schedd_store::DefinitionChange::Rest;
        let edit = ApplyOrder {
            read,
            change,
            planted: None,
            definition: version(lane),
            ..in_lane("a", 0, lane)
        };
        assert_eq!(world.at(1).apply_job(&edit).await.unwrap(), ApplyReply::Updated);
        assert_eq!(world.score(&format!("due:{lane}"), &run.to_string()), Some(100));
        assert_eq!(world.score(&format!("due:{before}"), &run.to_string()), None);
        world.assert_sound();
    }
}

#[tokio::test]
async fn a_run_keeps_its_lane_for_a_retry_and_its_successor_takes_the_job_s() {
    let world = World::new();
    let run = world.plant_as(in_lane("a", 0, "default!2")).await;
    let order = world.order_with(&run, schedd_core::domain::job::job_spec::Overlap::Skip, 50).await;
    let replies = world
        .at(0)
        .claim_runs(usize::MAX, &claimant("n1"), &queue("default!2"), &token(), &[order])
        .await
        .unwrap();
    let claim = World::won(replies.into_iter().next().unwrap());
    assert_eq!(world.score("due:default!2", &run_of("a", 50).to_string()), Some(50));
    world.finish(5, &claim, Verdict::Retry(std::time::Duration::from_millis(20))).await;
    assert_eq!(world.score("due:default!2", &run.to_string()), Some(25));
    assert_eq!(
        (world.run(&run).await.lane, world.state(&run).await),
        (queue("default!2"), RunState::Scheduled)
    );
    world.assert_sound();
}

#[tokio::test]
async fn a_poll_reports_the_most_urgent_runs_up_to_its_limit_and_of_each_lane_the_first() {
    let world = World::new();
    for (lane, job) in [("default!5", "high"), ("default", "plain"), ("default!-5", "low")] {
        for number in 0..30 {
            world.plant_as(in_lane(&format!("{job}{number:02}"), number, lane)).await;
        }
    }
    let lanes = [("default!5", 0), ("default", 0), ("default!-5", 0)];
    let counts = async |limit| {
        reported(&world, &lanes, limit).await.iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(
        counts(20).await,
        [20, 3, 3],
        "each tenth slot may be for the oldest, whatever its lane"
    );
    assert_eq!(counts(40).await, [30, 10, 5]);
    assert_eq!(counts(1).await, [1, 1, 1]);
    assert_eq!(counts(0).await, [0, 0, 0]);
    assert_eq!(reported(&world, &lanes, 1).await, [["high00"], ["plain00"], ["low00"]]);
    let with_left = reported(&world, &[("default!5", 2), ("default", 4)], 1).await;
    assert_eq!(
        with_left.iter().map(Vec::len).collect::<Vec<_>>(),
        [3, 5],
        "what has to be left hides nothing"
    );
}

#[tokio::test]
async fn lanes_of_one_priority_are_named_alike_and_those_of_another_queue_for_themselves() {
    let world = World::new();
    for (lane, job) in
        [("default!5", "a"), ("default!5+gpu", "b"), ("default", "c"), ("other", "d")]
    {
        for number in 0..9 {
            world.plant_as(in_lane(&format!("{job}{number}"), number, lane)).await;
        }
    }
    let lanes = [("default!5", 0), ("default!5+gpu", 0), ("default", 0), ("other", 0)];
    let counts: Vec<usize> = reported(&world, &lanes, 5).await.iter().map(Vec::len).collect();
    assert_eq!(counts, [5, 5, 1, 5]);
}

#[tokio::test]
async fn a_lane_of_which_few_runs_are_asked_for_hides_none_of_another_lane() {
    let world = World::new();
    let lanes = ["default!5", "default+cpu", "default+gpu"].map(queue);
    for lane in &lanes {
        for number in 0..9 {
            world
                .plant_as(in_lane(
                    &format!("{}{number}", lane.as_str().replace(['!', '+'], "-")),
                    number,
                    lane.as_str(),
                ))
                .await;
        }
    }
    let asks = lanes.iter().zip([2, 1, 6]).map(|(lane, limit)| LaneAsk::new(lane.clone(), limit));
    let poll = world.at(100).list_due(&asks.collect::<Vec<_>>()).await.unwrap();
    let count = |lane: &LanePoll| match lane {
        LanePoll::Due { due, .. } => due.len(),
        LanePoll::WrongType(error) => panic!("{error}"),
    };
    let counts: Vec<usize> = poll.lanes.iter().map(count).collect();
    assert_eq!(counts, [2, 1, 4], "only the runs of the urgent lane take from the limits");
}

#[tokio::test]
async fn a_lane_nobody_used_for_long_is_forgotten_unless_something_is_due_there() {
    let world = World::new();
    world.plant_as(in_lane("a", 0, "default!1")).await;
    world.at(10).note_lanes(&[queue("default!2"), queue("default")]).await.unwrap();
    world.at(2_000).note_lanes([&queue("default!3")]).await.unwrap();
    assert_eq!(world.store.forget_lanes(t(1_000)).await.unwrap(), 1);
    assert_eq!(
        world.store.read_lanes().await.unwrap(),
        [queue("default!1"), queue("default!3")].into()
    );
    assert_eq!(world.store.forget_lanes(t(1_000)).await.unwrap(), 0);
}

#[tokio::test]
async fn whoever_puts_a_run_back_writes_its_lane_down_before() {
    let world = World::new();
    let run = world.plant_as(in_lane("a", 0, "default!4")).await;
    let _: i64 = world.raw("DEL", "lanes", &[]);
    world.at(0).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let resume = schedd_store::ResumeOrder {
        name: "a".parse().unwrap(),
        rev: world.job("a").await.rev,
        lane: queue("default!4"),
        paused_run: Some(run.clone()),
        skipped: None,
        planted: Some(schedd_store::Successor::on_time(run.job(), run.due())),
    };
    world.at(0).resume_job(&resume).await.unwrap();
    assert_eq!(world.store.read_lanes().await.unwrap(), [queue("default!4")].into());
}

#[tokio::test]
async fn a_job_that_needs_one_lane_more_than_nodes_read_is_refused() {
    let world = World::new();
    world.plant_as(in_lane("a", 0, "default!1")).await;
    let others: Vec<String> =
        (0..9_999).flat_map(|at| ["1".to_owned(), format!("default+l{at}")]).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let _: i64 = world.raw("ZADD", "lanes", &others);
    let before = world.snapshot();
    let refused = in_lane("b", 0, "default!2");
    assert_eq!(world.at(0).apply_job(&refused).await.unwrap(), ApplyReply::NoLane);
    assert_eq!(world.at(0).add_jobs(&[refused]).await.unwrap(), [false]);
    assert_eq!(world.snapshot(), before);
    // A lane that nodes read, and a plain lane, take new jobs.
    world.plant_as(in_lane("c", 0, "default!1")).await;
    world.plant_as(in_lane("d", 0, "default")).await;
    // A job whose lane is lost from the index keeps it.
    let _: i64 = world.raw("ZREM", "lanes", &["default!1"]);
    let _: i64 = world.raw("ZADD", "lanes", &["1", "default+other"]);
    let edit = ApplyOrder {
        definition: version("v2"),
        token: token(),
        read: Some((world.job("a").await.rev, queue("default!1"))),
        ..in_lane("a", 0, "default!1")
    };
    assert_eq!(world.at(0).apply_job(&edit).await.unwrap(), ApplyReply::Updated);
}
