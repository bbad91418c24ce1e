//! `plant_reboot`: a job's run for one boot of one host, planted once.

use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::RunId;
use schedd_store::{LaneAsk, RebootReply};

use crate::scripts::world::{World, name, queue, t};

fn boot_run(job: &str, word: &str) -> RunId {
    RunId::manual(name(job), t(5), word).unwrap()
}

#[tokio::test]
async fn a_job_is_planted_once_for_each_boot_of_each_host() {
    let world = World::new();
    world.plant("a", 1000).await;
    let (one, two) = (Lane::of_host("one"), Lane::of_host("two"));
    let first = boot_run("a", "first");
    assert_eq!(world.at(5).plant_reboot(&first, &one, "b1").await.unwrap(), RebootReply::Planted);
    let before = world.snapshot();
    assert_eq!(world.at(6).plant_reboot(&first, &one, "b1").await.unwrap(), RebootReply::Known);
    assert_eq!(
        world.at(6).plant_reboot(&boot_run("a", "other"), &one, "b1").await.unwrap(),
        RebootReply::Known
    );
    assert_eq!(world.snapshot(), before);
    assert_eq!(
        world.at(7).plant_reboot(&boot_run("a", "far"), &two, "c1").await.unwrap(),
        RebootReply::Planted
    );
    assert_eq!(
        world.at(8).plant_reboot(&boot_run("a", "second"), &one, "b2").await.unwrap(),
        RebootReply::Planted
    );

    // Each stands where only its host looks.
    let due = |queue: Lane| {
        let store = world.at(10);
        async move {
            match store.list_due(&[LaneAsk::new(queue, 9)]).await.unwrap().lanes.remove(0) {
                schedd_store::LanePoll::Due { due, .. } => {
                    due.into_iter().map(|entry| entry.member).collect::<Vec<_>>()
                }
                other @ schedd_store::LanePoll::WrongType(_) => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(due(queue("default")).await, [""; 0]);
    assert_eq!(due(one).await, [first.to_string(), boot_run("a", "second").to_string()]);
    assert_eq!(due(two).await, [boot_run("a", "far").to_string()]);
    assert_eq!(world.indexed("a"), Some(1000), "the schedule is left alone");
    world.assert_sound();
}

#[tokio::test]
async fn a_job_that_is_gone_or_paused_is_not_planted_for_a_boot() {
    let world = World::new();
    world.plant("a", 1000).await;
    let host = Lane::of_host("one");
    assert_eq!(
        world.at(1).plant_reboot(&boot_run("b", "x"), &host, "b1").await.unwrap(),
        RebootReply::Unknown
    );
    world.at(2).pause_job(&world.job("a").await, None, &[]).await.unwrap();
    let before = world.snapshot();
    assert_eq!(
        world.at(3).plant_reboot(&boot_run("a", "x"), &host, "b1").await.unwrap(),
        RebootReply::Paused
    );
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn a_boot_is_noted_by_host() {
    let world = World::new();
    let (one, two) = (Lane::of_host("one"), Lane::of_host("two"));
    let store = world.at(0);
    assert!(!store.is_boot_noted(&one, "b1").await.unwrap());
    store.note_boot(&one, "b1", t(0)).await.unwrap();
    assert!(store.is_boot_noted(&one, "b1").await.unwrap());
    assert!(
        !store.is_boot_noted(&one, "b2").await.unwrap()
            && !store.is_boot_noted(&two, "b1").await.unwrap()
    );
    for number in 1..=1_000 {
        store.note_boot(&two, &format!("c{number}"), t(number)).await.unwrap();
    }
    assert_eq!(world.raw::<i64>("ZCARD", "boots", &[]), 1_000);
    assert!(!store.is_boot_noted(&one, "b1").await.unwrap(), "the oldest goes");
}
