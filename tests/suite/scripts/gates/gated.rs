//! The list of jobs with gates: kept by each edit, told by lane and gate.

use schedd_core::domain::job::job_spec::Overlap;
use schedd_store::{ApplyOrder, ApplyReply, PlannedAtGate, StopRunning};

use crate::scripts::jobs::removing::removal;
use crate::scripts::world::{World, definition, gate, name, queue, run_of, t, version};

fn listed(world: &World) -> Vec<String> {
    world.raw("ZRANGE", "job_gates", &["0", "-1"])
}

fn gated(job: &str, gate: &str) -> ApplyOrder {
    ApplyOrder { gated: Some(format!("default {gate} {job}")), ..definition(job, 0) }
}

#[tokio::test]
async fn a_job_is_listed_by_its_first_gate_until_it_has_none_or_is_over() {
    let world = World::new();
    world.plant_as(gated("a", "key:k")).await;
    world.plant_as(gated("b", "key:k")).await;
    assert_eq!(listed(&world), ["default key:k a", "default key:k b"]);
    let edit = async |job: &str, entry: Option<&str>| {
        let read = world.job(job).await;
        let (definition, gated) = (version(entry.unwrap_or("none")), entry.map(str::to_owned));
        let order = ApplyOrder {
            read: Some((read.rev, read.lane)),
            definition,
            gated,
            ..self::definition(job, 0)
        };
        assert_eq!(world.at(0).apply_job(&order).await.unwrap(), ApplyReply::Updated);
    };
    edit("a", Some("default group:g a")).await;
    assert_eq!(listed(&world), ["default group:g a", "default key:k b"]);
    edit("a", None).await;
    assert_eq!(listed(&world), ["default key:k b"]);
    world.at(1).remove_job(&removal(&world.job("b").await, StopRunning::No)).await.unwrap();
    assert!(listed(&world).is_empty());
    world.assert_sound();
}

#[tokio::test]
async fn a_job_that_is_forgotten_is_listed_with_no_gate_any_more() {
    let world = World::new();
    world.plant_as(gated("a", "key:k")).await;
    let _: i64 = world.raw("HSET", "job:a", &["ended", "finished", "ended_at", "1"]);
    let _: i64 = world.raw("ZADD", "finished", &["1", "a"]);
    assert_eq!(world.at(1000).forget_jobs(t(500), 0).await.unwrap(), 1);
    assert!(listed(&world).is_empty());
}

#[tokio::test]
async fn gates_of_a_lane_are_listed_with_their_jobs_and_crowded_gates_passed_over() {
    let world = World::new();
    let entries = [
        "default!1~3 key:b x",
        "default group:g a",
        "default key:k b",
        "default key:k c",
        "default key:k d",
        "default key:k-2 e",
        "default key:z f",
        "default nonsense",
        "defaulu key:a y",
    ];
    for entry in entries {
        let _: i64 = world.raw("ZADD", "job_gates", &["0", entry]);
    }
    let reported = async |after: Option<&str>, most: usize, few: usize| {
        let reported = world
            .store
            .list_job_gates(&queue("default"), after.map(gate).as_ref(), most, few)
            .await
            .unwrap();
        let jobs = |(gate, jobs): &(schedd_core::domain::queue::gate::Gate, Vec<_>)| {
            let jobs: Vec<String> =
                jobs.iter().map(schedd_schedule::names::JobName::to_string).collect();
            format!("{} {}", gate.as_str(), jobs.join(","))
        };
        (
            reported.gates.iter().map(jobs).collect::<Vec<_>>(),
            reported.last.map(|gate| gate.as_str().to_owned()),
        )
    };
    let all = ["group:g a", "key:k b,c,d", "key:k-2 e", "key:z f"].map(str::to_owned);
    assert_eq!(reported(None, 100, 3).await, (all.to_vec(), None));
    assert_eq!(
        reported(None, 100, 2).await,
        ([&all[0], &all[2], &all[3]].map(String::clone).to_vec(), None)
    );
    assert_eq!(
        reported(None, 100, 1).await,
        ([&all[0], &all[2], &all[3]].map(String::clone).to_vec(), None),
        "read two by two"
    );
    assert_eq!(
        reported(None, 2, 3).await,
        (all[..2].to_vec(), Some("key:k".to_owned())),
        "no more than were asked for"
    );
    assert_eq!(reported(Some("key:k"), 100, 3).await, (all[2..].to_vec(), None));
}

#[tokio::test]
async fn what_is_planned_and_open_of_a_job_is_reported_if_it_is_due_in_that_lane() {
    let world = World::new();
    for (job, offset) in [("due", 0), ("early", 900), ("running", 0), ("over", 0), ("busy", 0)] {
        world.plant(job, offset).await;
    }
    world.win_with(0, &run_of("running", 0), Overlap::Allow, 5).await;
    world.at(1).remove_job(&removal(&world.job("over").await, StopRunning::No)).await.unwrap();
    for number in 0..11 {
        let _: i64 = world.raw("ZADD", "open:busy", &["1", &run_of("busy", number).to_string()]);
    }
    let jobs: Vec<_> = ["due", "early", "running", "over", "busy", "nobody"].map(name).to_vec();
    let due = async |lane: &str| {
        let reported = world.store.list_planned(&queue(lane), &jobs, t(10)).await.unwrap();
        let shown = reported.into_iter().map(|planned| match planned {
            PlannedAtGate::DueRun(entries) => {
                entries.into_iter().map(|entry| entry.member).collect::<Vec<_>>().join(" ")
            }
            other => format!("{other:?}"),
        });
        shown.collect::<Vec<_>>()
    };
    let next = run_of("running", 5).to_string();
    assert_eq!(
        due("default").await,
        [&run_of("due", 0).to_string(), "", &next, "Gone", "Unclear", "Gone"]
    );
    assert_eq!(due("other").await, ["", "", "", "Gone", "Unclear", "Gone"]);
}

#[tokio::test]
async fn a_job_that_ran_once_is_taken_off_the_list_of_those_with_gates_and_no_other_is() {
    let world = World::new();
    let once = ApplyOrder { is_once: true, ..gated("once", "key:k") };
    let run = world.plant_as(once).await;
    world.plant_as(gated("again", "key:k")).await;
    let _: i64 = world.raw("ZADD", "job_gates", &["0", "default key:k nobody"]);
    let entries: Vec<_> =
        ["once", "again", "nobody"].map(|job| (name(job), format!("default key:k {job}"))).to_vec();
    assert_eq!(world.at(0).unlist_job_gates(&entries).await.unwrap(), 1, "nobody is not there");
    assert_eq!(listed(&world), ["default key:k again", "default key:k once"], "it is planned");
    world.win(0, &run).await;
    assert_eq!(world.at(0).unlist_job_gates(&entries).await.unwrap(), 1);
    assert_eq!(listed(&world), ["default key:k again"]);
}
