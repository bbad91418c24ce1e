//! `quarantine_run`: what cannot be understood is put aside whole, and only as it was seen.

use schedd_store::{
    Blocking, ClaimReply, DueEntry, LaneAsk, LanePoll, PutBackReply, QuarantineEntry, Quarantined,
    RecoverReply, SetAside,
};

use crate::scripts::claims::recovering::recovery;
use crate::scripts::world::{World, queue, run_of, t};

async fn first_due(world: &World) -> Option<DueEntry> {
    let poll = world.at(0).list_due(&[LaneAsk::new(queue("default"), 5)]).await.unwrap();
    match poll.lanes.into_iter().next() {
        Some(LanePoll::Due { due, .. }) => due.into_iter().next(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn any_entry_is_put_aside_once_whatever_its_bytes_and_its_score() {
    let world = World::new();
    let members = [&b"garbage"[..], b"", b"\xff\xfe\x00", b"a\\x41", b"a\n\"b\"", b"a@5"];
    let scores = ["+inf", "-inf", "1e300", "-5", "0.1", "4102444800000"];
    for (member, score) in members.into_iter().zip(scores) {
        let mut connection = world.redis.connection();
        let () = redis::cmd("ZADD")
            .arg(world.key("due:default"))
            .arg(score)
            .arg(member)
            .query(&mut connection)
            .unwrap();
    }
    while let Some(entry) = first_due(&world).await {
        let put_aside =
            async || world.at(0).quarantine_run(&queue("default"), &entry, "a test").await.unwrap();
        assert_eq!(put_aside().await, Quarantined::Kept, "{entry:?}");
        assert_eq!(put_aside().await, Quarantined::Gone, "{entry:?}");
    }
    let mut kept: Vec<Vec<u8>> = world.raw("HKEYS", "quarantine", &[]);
    let mut wanted: Vec<Vec<u8>> = members.into_iter().map(<[u8]>::to_vec).collect();
    kept.sort();
    wanted.sort();
    assert_eq!(kept, wanted, "nothing is lost");
    assert_eq!(world.store.read_stats().await.unwrap().quarantined, 6);
}

#[tokio::test]
async fn an_entry_that_has_moved_meanwhile_is_left() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let entry = first_due(&world).await.unwrap();
    let _: i64 = world.raw("ZADD", "due:default", &["5", &run.to_string()]);
    let before = world.snapshot();
    assert_eq!(
        world.at(0).quarantine_run(&queue("default"), &entry, "a test").await.unwrap(),
        Quarantined::Gone
    );
    assert_eq!(world.snapshot(), before);
}

#[tokio::test]
async fn what_is_no_lease_is_reported_as_it_stands_and_put_aside() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    world.win(0, &run).await;
    for member in ["a@5", "nothing#5", "a@5#x", "a@5#99999999999999999999"] {
        let _: i64 = world.raw("ZADD", "leases", &["5", member]);
    }
    let bad: Vec<(String, String)> =
        world.store.list_leases(10).await.unwrap().into_iter().filter_map(Result::err).collect();
    assert_eq!(bad.len(), 4);
    for (member, score) in bad {
        let put_aside =
            world.at(0).quarantine_lease(&DueEntry { member, score }, "a test").await.unwrap();
        assert_eq!(put_aside, Quarantined::Kept);
    }
    assert_eq!(world.store.list_leases(10).await.unwrap().len(), 1);
    world.assert_sound();
}

/// As many entries as there is room for.
fn fill(world: &World) {
    let flat: Vec<String> =
        (0..10_000).flat_map(|number| [format!("entry{number}"), "{}".to_owned()]).collect();
    let args: Vec<&str> = flat.iter().map(String::as_str).collect();
    let _: i64 = world.raw("HSET", "quarantine", &args);
}

#[tokio::test]
async fn an_entry_beyond_the_bound_is_taken_out_and_counted_and_a_key_stays_where_it_is() {
    let world = World::new();
    fill(&world);
    let _: i64 = world.raw("ZADD", "due:default", &["-5", "garbage"]);
    let entry = first_due(&world).await.unwrap();
    assert_eq!(
        world.at(0).quarantine_run(&queue("default"), &entry, "a test").await.unwrap(),
        Quarantined::Dropped
    );
    assert_eq!(
        (world.total("quarantine_dropped"), world.store.read_stats().await.unwrap().quarantined),
        (1, 10_000)
    );
    let _: i64 = world.raw("RPUSH", "leases", &["not ours"]);
    assert_eq!(world.at(0).quarantine_key("leases", "a test", None).await.unwrap(), SetAside::Full);
    assert_eq!(world.raw::<i64>("LLEN", "leases", &[]), 1);
    let (count, oldest) = world.store.list_quarantine(10).await.unwrap();
    assert_eq!((count, oldest.len()), (10_000, 10));
}

#[tokio::test]
async fn the_same_bytes_out_of_two_sets_are_kept_twice() {
    let world = World::new();
    for score in ["-5", "-6"] {
        let _: i64 = world.raw("ZADD", "due:default", &[score, "garbage"]);
        let entry = first_due(&world).await.unwrap();
        assert_eq!(
            world.at(0).quarantine_run(&queue("default"), &entry, "a test").await.unwrap(),
            Quarantined::Kept
        );
    }
    assert_eq!(world.store.list_quarantine(10).await.unwrap().1.len(), 2);
}

#[tokio::test]
async fn a_key_is_moved_aside_whole_to_a_place_that_is_free_and_noted() {
    let world = World::new();
    for times in 1..=2 {
        let _: i64 = world.raw("RPUSH", "leases", &["not ours"]);
        let SetAside::Kept(aside) =
            world.at(0).quarantine_key("leases", "a test", None).await.unwrap()
        else {
            panic!("{times}")
        };
        assert!(world.snapshot().contains_key(&aside));
        assert_eq!(world.store.list_quarantine(10).await.unwrap().0, times);
    }
    assert_eq!(world.at(0).quarantine_key("leases", "a test", None).await.unwrap(), SetAside::Gone);
}

/// What the one entry in quarantine is.
async fn only(world: &World) -> QuarantineEntry {
    let (count, mut entries) = world.store.list_quarantine(10).await.unwrap();
    assert_eq!(count, 1);
    entries.remove(0)
}

#[tokio::test]
async fn a_due_run_put_back_is_due_at_its_own_time_once() {
    let world = World::new();
    let run = world.plant("a", 1000).await;
    let before = world.snapshot();
    let _: i64 = world.raw("ZADD", "due:default", &["-inf", &run.to_string()]);
    let entry = first_due(&world).await.unwrap();
    world.at(0).quarantine_run(&queue("default"), &entry, "a test").await.unwrap();
    let kept = only(&world).await;
    assert!(
        matches!(world.at(0).restore(&kept).await.unwrap(), PutBackReply::Restored(Some(at)) if at == run.due())
    );
    assert_eq!(world.snapshot(), before);
    assert_eq!(world.at(0).restore(&kept).await.unwrap(), PutBackReply::Gone);
}

#[tokio::test]
async fn an_entry_that_cannot_be_used_or_has_its_place_taken_stays_in_quarantine() {
    let world = World::new();
    let run = world.plant("a", 0).await;
    let refused = async |member: &str, wanted: &str| {
        let _: i64 = world.raw("DEL", "quarantine", &[]);
        let set = if member.contains('#') { "leases" } else { "due:default" };
        let entry =
            format!("{{\"key\":\"{}\",\"score\":\"5\",\"why\":\"\",\"at\":\"5\"}}", world.key(set));
        let _: i64 = world.raw("HSET", "quarantine", &[member, &entry]);
        let reply = world.at(0).restore(&only(&world).await).await.unwrap();
        assert!(format!("{reply:?}").contains(wanted), "{member}: {reply:?}");
        only(&world).await;
    };
    refused("garbage", "not valid").await;
    refused("nobody@5", "the job of the run is unknown").await;
    refused("a@5#7", "does not execute").await;
    refused("a@5#x", "not a lease").await;
    refused(&run.to_string(), "Taken").await;
    world.win(0, &run).await;
    refused(&run.to_string(), "the state of the run is running").await;
}

#[tokio::test]
async fn a_key_comes_back_only_if_it_holds_what_its_name_says_and_the_name_is_free() {
    let world = World::new();
    world.plant("a", 0).await;
    let before = world.snapshot();
    world.at(0).quarantine_key("job:a", "a test", Some("a")).await.unwrap();
    let kept = only(&world).await;
    let _: i64 = world.raw("HSET", "job:a", &["rev", "5"]);
    assert_eq!(world.at(0).restore(&kept).await.unwrap(), PutBackReply::Taken);
    let _: i64 = world.raw("DEL", "job:a", &[]);
    assert_eq!(world.at(0).restore(&kept).await.unwrap(), PutBackReply::Restored(None));
    assert_eq!(world.snapshot(), before);
    assert_eq!(world.at(0).restore(&kept).await.unwrap(), PutBackReply::Gone);
    let _: i64 = world.raw("DEL", "fence", &[]);
    let _: i64 = world.raw("RPUSH", "fence", &["not ours"]);
    world.at(0).quarantine_key("fence", "a test", None).await.unwrap();
    let reply = world.at(0).restore(&only(&world).await).await.unwrap();
    assert!(matches!(reply, PutBackReply::Refused(why) if why.contains("wanted a string")));
}

const KEY: &[&str] = &["key:k"];

async fn waits(world: &World, offset: i64, job: &str, due: i64) {
    let reply = world.claim(offset, &world.order_at(&run_of(job, due), KEY).await).await;
    assert!(matches!(reply, ClaimReply::Blocked(Blocking::AtGate)), "{job}: {reply:?}");
}

fn has_place(world: &World, job: &str, due: i64) -> bool {
    world.score("gate_holders:key:k", &run_of(job, due).to_string()).is_some()
}

#[tokio::test]
async fn a_woken_run_put_aside_gives_its_place_up_and_is_judged_anew_once_it_is_back() {
    let world = World::new();
    for (job, offset) in [("a", 0), ("b", 1), ("c", 2)] {
        world.plant_once(job, offset).await;
    }
    let held = world.win_at(5, &run_of("a", 0), KEY).await;
    waits(&world, 5, "b", 1).await;
    waits(&world, 5, "c", 2).await;
    world.succeed(6, &held).await;
    assert_eq!(world.open(6, "key:k").await, 1);
    assert!(has_place(&world, "b", 1));
    let _: i64 = world.raw("ZADD", "due:default", &["-5", &run_of("b", 1).to_string()]);
    let entry = first_due(&world).await.unwrap();
    assert_eq!(
        world.at(7).quarantine_run(&queue("default"), &entry, "a test").await.unwrap(),
        Quarantined::Kept
    );
    assert!(!has_place(&world, "b", 1));
    assert_eq!(world.score("gate_timers", "key:k"), Some(7), "the gate is to be looked at");
    assert_eq!(world.open(8, "key:k").await, 1);
    assert!(has_place(&world, "c", 2), "the next has the place");
    let kept = only(&world).await;
    assert!(
        matches!(world.at(9).restore(&kept).await.unwrap(), PutBackReply::Restored(Some(at)) if at == t(1))
    );
    world.assert_sound();
    waits(&world, 10, "b", 1).await;
    let held = world.win_at(11, &run_of("c", 2), KEY).await;
    world.succeed(12, &held).await;
    world.open_all(12).await;
    let held = world.win_at(13, &run_of("b", 1), KEY).await;
    world.succeed(14, &held).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_run_that_executes_or_waits_keeps_its_places_though_an_entry_of_it_is_put_aside() {
    let world = World::new();
    for (job, offset) in [("a", 0), ("b", 1)] {
        world.plant_once(job, offset).await;
    }
    world.win_at(5, &run_of("a", 0), KEY).await;
    waits(&world, 5, "b", 1).await;
    let before = (world.snapshot(), world.at_gates());
    for (job, due) in [("a", 0), ("b", 1)] {
        let _: i64 = world.raw("ZADD", "due:default", &["-5", &run_of(job, due).to_string()]);
        let entry = first_due(&world).await.unwrap();
        assert_eq!(
            world.at(7).quarantine_run(&queue("default"), &entry, "a test").await.unwrap(),
            Quarantined::Kept
        );
    }
    let _: i64 = world.raw("DEL", "quarantine", &[]);
    assert_eq!((world.snapshot(), world.at_gates()), before);
}

#[tokio::test]
async fn a_lease_put_back_counts_in_its_queue_and_its_run_has_its_places() {
    let world = World::new();
    let run = world.plant_once("a", 0).await;
    let claim = world.win_at(5, &run, KEY).await;
    let member = format!("{run}#{}", claim.fence);
    let score: String = world.raw("ZSCORE", "leases", &[&member]);
    let entry = DueEntry { member, score };
    assert_eq!(world.at(6).quarantine_lease(&entry, "a test").await.unwrap(), Quarantined::Kept);
    // As the doctor leaves it while it is away.
    let _: i64 = world.raw("ZREM", "running:default", &[&run.to_string()]);
    let _: i64 = world.raw("ZREM", "gate_holders:key:k", &[&run.to_string()]);
    let kept = only(&world).await;
    assert!(matches!(world.at(7).restore(&kept).await.unwrap(), PutBackReply::Restored(Some(_))));
    assert!(
        has_place(&world, "a", 0) && world.score("running:default", &run.to_string()).is_some()
    );
    world.assert_sound();
    let lease = world.store.list_leases(10).await.unwrap().remove(0).unwrap();
    assert_eq!(
        world.at(100_000).recover_run(&lease, &recovery(None)).await.unwrap(),
        RecoverReply::Recovered
    );
    assert!(!has_place(&world, "a", 0));
    world.assert_sound();
}

#[tokio::test]
async fn what_is_discarded_goes_with_its_key_and_is_noted_once_though_it_is_asked_twice() {
    let world = World::new();
    let _: i64 = world.raw("ZADD", "due:default", &["-5", "garbage"]);
    let before = world.snapshot();
    let entry = first_due(&world).await.unwrap();
    world.at(0).quarantine_run(&queue("default"), &entry, "a test").await.unwrap();
    let _: i64 = world.raw("RPUSH", "leases", &["not ours"]);
    world.at(0).quarantine_key("leases", "another", None).await.unwrap();
    let (_, entries) = world.store.list_quarantine(10).await.unwrap();
    let store = world.at(5).signed("ana@h");
    for _ in 0..2 {
        // The same request, as it is asked again when no answer came.
        fastrand::seed(7);
        assert_eq!(store.discard(&entries, None).await.unwrap(), [true, true]);
        let notes = store.list_discarded().await.unwrap();
        let mut reported: Vec<_> =
            notes.iter().map(|note| (note.why.as_str(), note.at, note.by.as_deref())).collect();
        reported.sort_unstable();
        assert_eq!(
            reported,
            [("a test", Some(t(5)), Some("ana@h")), ("another", Some(t(5)), Some("ana@h"))]
        );
    }
    assert_eq!(
        store.discard(&entries, None).await.unwrap(),
        [false, false],
        "another request finds nothing"
    );
    let left: Vec<String> =
        world.snapshot().into_keys().filter(|key| !before.contains_key(key)).collect();
    assert_eq!(left, [world.key("discarded")]);
}

#[tokio::test]
async fn an_entry_changed_since_it_was_read_and_a_key_not_moved_aside_are_kept() {
    let world = World::new();
    world.plant("a", 0).await;
    let forged = format!(
        "{{\"key\":\"{0}\",\"aside\":\"{0}\",\"why\":\"\",\"at\":\"5\"}}",
        world.key("job:a")
    );
    let _: i64 = world.raw("HSET", "quarantine", &["changed", "{}", "forged", &forged]);
    let (_, entries) = world.store.list_quarantine(10).await.unwrap();
    let _: i64 = world.raw("HSET", "quarantine", &["changed", "{\"why\":\"else\"}"]);
    let done = world.at(5).discard(&entries, None).await.unwrap();
    let gone: Vec<&str> = entries
        .iter()
        .zip(done)
        .filter_map(|(entry, is)| is.then_some(entry.name.as_str()))
        .collect();
    assert_eq!(gone, ["forged"]);
    assert_eq!(only(&world).await.name, "changed");
    assert!(world.snapshot().contains_key(&world.key("job:a")));
}

#[tokio::test]
async fn discarding_all_in_steps_keeps_the_newest_notes_and_resets_the_drop_count() {
    let world = World::new();
    fill(&world);
    let _: i64 = world.raw("HSET", "counters", &["quarantine_dropped", "3"]);
    let (count, entries) = world.store.list_quarantine(usize::MAX).await.unwrap();
    assert_eq!((count, entries.len()), (10_000, 10_000));
    // One more was dropped since it was read.
    assert!(world.at(5).discard(&entries, Some(2)).await.unwrap().into_iter().all(|is| is));
    assert_eq!(
        (world.total("quarantine_dropped"), world.store.list_discarded().await.unwrap().len()),
        (3, 200)
    );
    assert_eq!(world.raw::<i64>("ZCARD", "discarded", &[]), 200);
    assert!(world.at(5).discard(&[], Some(3)).await.unwrap().is_empty());
    assert_eq!(
        (world.total("quarantine_dropped"), world.store.read_stats().await.unwrap().quarantined),
        (0, 0)
    );
}
