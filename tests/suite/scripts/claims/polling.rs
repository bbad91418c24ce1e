//! `list_due` and `list_behind`: what is due, what comes next, and entries no run can have.

use schedd_core::domain::queue::lane::Lane;
use schedd_store::{ApplyOrder, Change, DueEntry, LaneAsk, LanePart, LanePoll};

use crate::scripts::world::{World, definition, queue, run_of, t};

fn due(poll: &LanePoll) -> (Vec<String>, Option<i64>) {
    match poll {
        LanePoll::Due { due, next, .. } => {
            let members = due.iter().map(|entry: &DueEntry| entry.member.clone()).collect();
            (members, next.map(|next| next.as_i64() - t(0).as_i64()))
        }
        LanePoll::WrongType(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_poll_reports_the_due_runs_in_order_the_next_one_and_the_leases() {
    let world = World::new();
    for (job, offset) in [("b", 20), ("a", 10), ("c", 30), ("d", 40)] {
        world.plant(job, offset).await;
    }
    world.win(10, &run_of("a", 10)).await;
    let poll = world
        .at(30)
        .list_due(&[LaneAsk::new(queue("default"), 10), LaneAsk::new(queue("empty"), 10)])
        .await
        .unwrap();
    assert_eq!((poll.now, poll.leases), (t(30), 1));
    assert_eq!(
        due(&poll.lanes[0]),
        (vec![format!("b@{}", t(20).as_i64()), format!("c@{}", t(30).as_i64())], Some(40))
    );
    assert_eq!(due(&poll.lanes[1]), (vec![], None));
    world.assert_sound();
}

#[tokio::test]
async fn a_run_is_never_due_early() {
    let world = World::new();
    let run = world.plant("a", 10).await;
    let poll = world.at(9).list_due(&[LaneAsk::new(queue("default"), 10)]).await.unwrap();
    assert_eq!(due(&poll.lanes[0]), (vec![], Some(10)));
    let poll = world.at(10).list_due(&[LaneAsk::new(queue("default"), 10)]).await.unwrap();
    assert_eq!(due(&poll.lanes[0]), (vec![run.to_string()], None));
}

#[tokio::test]
async fn a_poll_gives_no_more_than_its_limit_and_nothing_of_a_queue_left_out() {
    let world = World::new();
    for number in 0..20 {
        world.plant(&format!("j{number:02}"), number).await;
    }
    let poll = world.at(100).list_due(&[LaneAsk::new(queue("default"), 3)]).await.unwrap();
    assert_eq!(
        due(&poll.lanes[0]).0,
        ["j00", "j01", "j02"].map(|job| run_of(job, job[1..].parse().unwrap()).to_string())
    );
    let poll = world.at(100).list_due(&[LaneAsk::new(queue("default"), 0)]).await.unwrap();
    assert_eq!(due(&poll.lanes[0]), (vec![], None));
}

#[tokio::test]
async fn entries_with_a_score_no_instant_has_are_shown_and_hide_nothing() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    for (member, score) in
        [("inf", "+inf"), ("huge", "1e300"), ("minus", "-inf"), ("negative", "-5")]
    {
        let _: i64 = world.raw("ZADD", "due:default", &[score, member]);
    }
    let poll = world.at(0).list_due(&[LaneAsk::new(queue("default"), 10)]).await.unwrap();
    assert_eq!(
        due(&poll.lanes[0]),
        (
            vec!["minus".into(), "negative".into(), run.to_string(), "huge".into(), "inf".into()],
            None
        )
    );
}

#[tokio::test]
async fn a_queue_of_another_type_is_reported_and_hides_no_other_queue() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let _: i64 = world.raw("RPUSH", "due:damaged", &["x"]);
    let poll = world
        .at(0)
        .list_due(&[LaneAsk::new(queue("damaged"), 10), LaneAsk::new(queue("default"), 10)])
        .await
        .unwrap();
    assert!(
        matches!(&poll.lanes[0], LanePoll::WrongType(error) if error.to_string().contains("list"))
    );
    assert_eq!(due(&poll.lanes[1]).0, [run.to_string()]);
}

#[tokio::test]
async fn what_stands_behind_an_entry_is_reported_in_order_and_nothing_that_is_not_due() {
    let world = World::new();
    for number in 0..6 {
        world.plant(&format!("j{number}"), number).await;
    }
    let id = |number: i64| run_of(&format!("j{number}"), number).to_string();
    let behind = async |after: Option<i64>, most: usize| {
        let reported = world
            .at(4)
            .list_behind(&queue("default"), after.map(id).as_deref(), most)
            .await
            .unwrap();
        reported.map(|entries| entries.into_iter().map(|entry| entry.member).collect::<Vec<_>>())
    };
    assert_eq!(behind(None, 2).await, Some(vec![id(0), id(1)]));
    assert_eq!(behind(Some(1), 9).await, Some(vec![id(2), id(3), id(4)]), "the last is not due");
    assert_eq!(behind(Some(4), 9).await, Some(vec![]));
    assert_eq!(behind(Some(9), 9).await, None, "it is not there");
    let texts = world
        .store
        .read_definitions(&["j0".parse().unwrap(), "nobody".parse().unwrap()])
        .await
        .unwrap();
    assert!(texts[0].is_some() && texts[1].is_none(), "{texts:?}");
}

#[tokio::test]
async fn a_short_poll_sees_every_change_and_nothing_where_nothing_changed() {
    let world = World::new();
    world.plant("a", 10).await;
    let asks = [LaneAsk::new(queue("default"), 10)];
    let poll = async || world.at(0).list_due(&asks).await.unwrap().trace.unwrap();
    let first = poll().await;
    let is_unchanged =
        async |trace| world.store.short_poll(&trace).await.unwrap().unwrap().is_unchanged;
    assert!(is_unchanged(first.clone()).await);
    // Even a run that does not come first, because other loops list the jobs.
    world.plant("b", 99).await;
    assert!(!is_unchanged(first.clone()).await);
    let second = poll().await;
    assert_eq!(second.counts().since(first.counts()), [Change::Jobs]);
    world.plant("c", 5).await;
    let third = poll().await;
    assert_eq!(third.counts().since(second.counts()), [Change::Due, Change::Jobs]);
    world.win(5, &run_of("c", 5)).await;
    assert!(!is_unchanged(third.clone()).await, "a fence was issued");
    let fourth = poll().await;
    world.at(5).note_lanes(&["default!5".parse().unwrap()]).await.unwrap();
    assert_eq!(poll().await.counts().since(fourth.counts()), [Change::Lanes]);
    // What cannot be read proves nothing.
    let _: i64 = world.raw("DEL", "nudge", &[]);
    let _: i64 = world.raw("RPUSH", "nudge", &["not ours"]);
    assert!(!is_unchanged(fourth).await);
    assert!(world.at(5).list_due(&asks).await.unwrap().trace.is_none());
    // A step that is counted goes on all the same.
    world.plant("d", 1).await;
}

#[tokio::test]
async fn a_change_names_the_lane_that_has_an_earlier_first_run_or_none() {
    let world = World::new();
    let lanes =
        ["default", "mail!-3", "a-b.c_d!5+eu,gpu"].map(|lane| lane.parse::<Lane>().unwrap());
    let asks = lanes.clone().map(|lane| LaneAsk::new(lane, 9));
    let poll = async || world.at(0).list_due(&asks).await.unwrap().trace.unwrap();
    world.plant("first", 1_000).await;
    for (number, lane) in lanes.iter().enumerate() {
        let before = poll().await;
        // The second run of a lane is not its first.
        for (name, offset, parts) in [("a", 500, vec![LanePart::of(lane)]), ("b", 600, Vec::new())]
        {
            let before = poll().await;
            let order = definition(&format!("{name}{number}"), offset);
            world.plant_as(ApplyOrder { lane: lane.clone(), ..order }).await;
            let found = poll().await.counts().lanes_since(before.counts());
            assert_eq!(found, Some(parts.into_iter().collect()), "{name} of {lane}");
        }
        let found = poll().await.counts().lanes_since(before.counts());
        assert_eq!(found, Some([LanePart::of(lane)].into()), "{lane}");
    }
    let before = poll().await;
    world.win(500, &run_of("a0", 500)).await;
    assert_eq!(poll().await.counts().lanes_since(before.counts()), Some([].into()), "a claim");
    let before = poll().await;
    world.at(501).note_lanes(&["default!5".parse().unwrap()]).await.unwrap();
    assert_eq!(poll().await.counts().lanes_since(before.counts()), Some([].into()), "a new lane");
    // An older schedd names no lanes.
    let _: Vec<i64> = world.raw("BITFIELD", "nudge", &["INCRBY", "u32", "#0", "1"]);
    assert_eq!(poll().await.counts().lanes_since(before.counts()), None);
}

#[tokio::test]
async fn a_poll_of_very_many_lanes_takes_several_calls_and_gives_each_lane_its_own() {
    let world = World::new();
    let lanes: Vec<_> = (0..450).map(|at| queue(&format!("q{at}"))).collect();
    for at in [0, 199, 200, 449] {
        let order = definition(&format!("j{at}"), 7);
        world.plant_as(ApplyOrder { lane: lanes[at].clone(), ..order }).await;
    }
    let calls = || -> u64 {
        let text: String = world.server(&["INFO", "commandstats"]);
        let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.map_or(0, |facts| facts.split(',').next().unwrap().parse().unwrap())
    };
    let before = calls();
    let asks: Vec<LaneAsk> = lanes.iter().map(|lane| LaneAsk::new(lane.clone(), 9)).collect();
    let poll = world.at(7).list_due(&asks).await.unwrap();
    // The first call may find that the server does not know the script yet, so calls may be
    // repeated.
    assert!((5..=10).contains(&(calls() - before)), "{}", calls() - before);
    let found: Vec<(usize, Vec<String>)> = poll
        .lanes
        .iter()
        .enumerate()
        .map(|(at, lane)| (at, due(lane).0))
        .filter(|(_, due)| !due.is_empty())
        .collect();
    let wanted: Vec<(usize, Vec<String>)> =
        [0, 199, 200, 449].map(|at| (at, vec![run_of(&format!("j{at}"), 7).to_string()])).to_vec();
    assert_eq!((poll.lanes.len(), found), (450, wanted));
}
