//! `claim_plain_runs` and `finish_plain_runs`: they leave the same data as `claim_runs` and `finish_run`, and leave other runs alone.

use std::time::Duration;

use schedd_core::domain::job::job_spec::{Delivery, Overlap};
use schedd_core::domain::run::run_state::RunState;
use schedd_store::{
    ApplyOrder, Claim, ClaimOrder, ClaimReply, FinishReply, PlainEnd, Store, Verdict,
};

use crate::scripts::world::{World, claimant, definition, queue, run_of, t};

/// A change of the data: the command, the key and its arguments. `RUN` is the run, `@N` a time.
type Change = (&'static str, &'static str, &'static [&'static str]);

/// What differs from a recurring job whose run is due, in words; whether its run is plain all the same.
type Case = (&'static str, bool, &'static [Change]);

const CLAIMS: &[Case] = &[
    ("nothing", true, &[]),
    ("a later ready time", true, &[("ZADD", "due:default", &["@3", "RUN"])]),
    ("a limit with room", true, &[("HSET", "queue:default", &["limit", "2"])]),
    (
        "a rate",
        true,
        &[("HSET", "queue:default", &["rate_count", "2", "rate_ms", "1000", "burst", "2"])],
    ),
    ("another run's stop request", true, &[("HSET", "stop_requests", &["b@1", "why"])]),
    ("another job's rule", true, &[("ZADD", "not_while", &["0", "b a"])]),
    ("a stop request", false, &[("HSET", "stop_requests", &["RUN", "why by ana"])]),
    ("a pause", false, &[("HSET", "job:a", &["paused", "1"])]),
    ("a removal", false, &[("HSET", "job:a", &["ended", "removed"])]),
    ("a notice", false, &[("HSET", "job:a", &["notify", "on_late late=1 finish=50"])]),
    ("an open run", false, &[("ZADD", "open:a", &["@-9", "a@1"])]),
    ("another planned run", false, &[("HSET", "job:a", &["pending", "a@1"])]),
    ("another revision", false, &[("HSET", "job:a", &["rev", "1"])]),
    ("no job", false, &[("DEL", "job:a", &[])]),
    ("a rule against it", false, &[("ZADD", "not_while", &["0", "a b"])]),
    (
        "a record",
        false,
        &[("HSET", "run:RUN", &["state", "scheduled", "fence", "7", "attempt", "1"])],
    ),
    ("an ended run", false, &[("HSET", "run:RUN", &["state", "succeeded"])]),
    ("a taken successor", false, &[("HSET", "run:a@1790000001000", &["state", "succeeded"])]),
    ("no due entry", true, &[("ZREM", "due:default", &["RUN"])]),
    (
        "a claim of this call",
        true,
        &[
            ("ZREM", "due:default", &["RUN"]),
            (
                "HSET",
                "run:RUN",
                &[
                    "state",
                    "running",
                    "claim",
                    "claim",
                    "fence",
                    "7",
                    "attempt",
                    "1",
                    "claimed_before",
                    "0",
                    "incarnation",
                    "n1-1",
                ],
            ),
        ],
    ),
    (
        "a claim of this call for a later attempt",
        false,
        &[
            ("ZREM", "due:default", &["RUN"]),
            (
                "HSET",
                "run:RUN",
                &[
                    "state",
                    "running",
                    "claim",
                    "claim",
                    "fence",
                    "7",
                    "attempt",
                    "2",
                    "claimed_before",
                    "1",
                    "incarnation",
                    "n1-1",
                ],
            ),
        ],
    ),
    ("a ready time to come", false, &[("ZADD", "due:default", &["@100", "RUN"])]),
    ("a corrupt fence counter", false, &[("SET", "fence", &["garbage"])]),
    ("a paused queue", false, &[("HSET", "queue:default", &["paused", "1"])]),
    (
        "a full queue",
        false,
        &[("HSET", "queue:default", &["limit", "1"]), ("ZADD", "running:default", &["1", "b@1"])],
    ),
];

const ENDS: &[Case] = &[
    ("nothing", true, &[]),
    ("a limit", true, &[("HSET", "queue:default", &["limit", "1"])]),
    ("deadlines", true, &[("ZADD", "deadlines", &["1", "RUN finish"])]),
    ("another open run", true, &[("ZADD", "open:a", &["@1", "a@1"])]),
    ("a stop request", false, &[("HSET", "stop_requests", &["RUN", "why"])]),
    ("a notice", false, &[("HSET", "job:a", &["notify", "on_success"])]),
    ("a delay", false, &[("HSET", "job:a", &["delay", "500"])]),
    ("a run that waits", false, &[("ZADD", "waiting:a", &["@1", "a@1"])]),
    ("a run skipped behind it", false, &[("HSET", "job:a", &["skipped_behind", "RUN a@1"])]),
    ("no job", false, &[("DEL", "job:a", &[])]),
    ("no lease", false, &[("DEL", "leases", &[])]),
    ("a later fence", false, &[("HSET", "run:RUN", &["fence", "9007199254740990"])]),
    ("another end", false, &[("HSET", "run:RUN", &["state", "cancelled"])]),
];

async fn world(is_once: bool, changes: &[Change]) -> World {
    let world = World::new();
    let order = ApplyOrder { is_once, token: "add".to_owned(), ..definition("a", 0) };
    world.plant_as(order).await;
    change(&world, changes);
    world
}

fn change(world: &World, changes: &[Change]) {
    let text = |word: &str| match word.strip_prefix('@') {
        Some(offset) => t(offset.parse().unwrap()).as_i64().to_string(),
        None => word.replace("RUN", &run_of("a", 0).to_string()),
    };
    for (command, key, args) in changes {
        let args: Vec<String> = args.iter().map(|arg| text(arg)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let _: redis::Value = world.raw(command, &text(key), &args);
    }
}

/// The order as the definition said it before the changes. A long `max_age` has no effect but that the run is not plain.
async fn order(is_once: bool, is_plain: bool) -> ClaimOrder {
    let sound = world(is_once, &[]).await;
    let order = if is_once {
        sound.order(&run_of("a", 0)).await
    } else {
        sound.order_with(&run_of("a", 0), Overlap::Skip, 1000).await
    };
    let max_age = (!is_plain).then_some(Duration::from_secs(86_400));
    ClaimOrder { max_age, delivery: Delivery::AtMostOnce, ..order }
}

async fn claim(store: &Store, order: ClaimOrder) -> ClaimReply {
    let (node, lane) = (claimant("n1"), queue("default"));
    store.claim_runs(usize::MAX, &node, &lane, "claim", &[order]).await.unwrap().remove(0)
}

/// The scripts that Redis has run. A script that Redis does not know yet fails, and is called again.
fn calls(world: &World) -> usize {
    let stats: String = world.server(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).unwrap_or("");
    let number = |name: &str| {
        let text = line.split(',').find_map(|pair| pair.strip_prefix(name));
        text.map_or(0, |text| text.parse::<usize>().unwrap())
    };
    number("calls=") - number("failed_calls=")
}

#[tokio::test]
async fn a_plain_claim_leaves_what_the_judged_claim_leaves_and_other_runs_go_there() {
    for is_once in [false, true] {
        for (what, is_plain, changes) in CLAIMS {
            let (plain, judged) = (world(is_once, changes).await, world(is_once, changes).await);
            let before = calls(&plain);
            let reply = claim(&plain.at(5), order(is_once, true).await).await;
            // The judged claim needs a second call. A one-shot plans no successor that could be taken.
            let is_alone = *is_plain || is_once && *what == "a taken successor";
            assert_eq!(calls(&plain) - before, if is_alone { 1 } else { 2 }, "{what} {is_once}");
            let wanted = claim(&judged.at(5), order(is_once, false).await).await;
            assert_eq!(format!("{reply:?}"), format!("{wanted:?}"), "{what} {is_once}");
            assert_eq!(plain.snapshot(), judged.snapshot(), "{what} {is_once}");
        }
    }
}

#[tokio::test]
async fn a_plain_claim_passes_over_runs_that_another_node_claimed() {
    let world = World::new();
    let mut orders = Vec::new();
    for name in ["a", "b", "c"] {
        world.plant_as(ApplyOrder { is_once: true, ..definition(name, 0) }).await;
        orders.push(world.order(&run_of(name, 0)).await);
    }
    let (store, lane) = (world.at(5), queue("default"));
    store.claim_runs(usize::MAX, &claimant("n1"), &lane, "first", &orders[..2]).await.unwrap();
    let before = calls(&world);
    let replies = store.claim_runs(1, &claimant("n2"), &lane, "second", &orders).await.unwrap();
    assert!(
        matches!(&replies[..], [ClaimReply::Gone, ClaimReply::Gone, ClaimReply::Claimed(_)]),
        "{replies:?}"
    );
    assert_eq!(calls(&world) - before, 1);
}

async fn claimed(is_once: bool, changes: &[Change]) -> (World, Claim) {
    let world = world(is_once, &[]).await;
    let claim = World::won(claim(&world.at(5), order(is_once, false).await).await);
    change(&world, changes);
    (world, claim)
}

async fn finish(world: &World, claim: &Claim) -> FinishReply {
    let (verdict, facts) = (Verdict::Final(RunState::Succeeded), [("exit_code", "0".to_owned())]);
    world.at(9).finish_run(claim, &verdict, "why", &facts, "").await.unwrap()
}

async fn finish_plain(world: &World, claims: &[&Claim]) -> Vec<Option<u32>> {
    let facts = vec![("exit_code", "0".to_owned())];
    let end = |claim: &&Claim| PlainEnd {
        claim: (*claim).clone(),
        reason: "why".to_owned(),
        facts: facts.clone(),
    };
    let ends: Vec<PlainEnd> = claims.iter().map(end).collect();
    world.at(9).finish_plain_runs(&"default".parse().unwrap(), &ends).await.unwrap()
}

#[tokio::test]
async fn a_plain_end_leaves_what_the_judged_end_leaves_and_other_runs_stay() {
    for is_once in [false, true] {
        for (what, is_plain, changes) in ENDS {
            let (plain, claim) = claimed(is_once, changes).await;
            let before = plain.snapshot();
            let kept = finish_plain(&plain, &[&claim]).await[0];
            assert_eq!(kept.is_some(), *is_plain, "{what} {is_once}");
            if let Some(kept) = kept {
                let (judged, claim) = claimed(is_once, changes).await;
                assert_eq!(finish(&judged, &claim).await, FinishReply::Finished(kept), "{what}");
                assert_eq!(plain.snapshot(), judged.snapshot(), "{what} {is_once}");
                // A repeated call finds no lease; the answer then comes from `finish_run`.
                assert_eq!(finish_plain(&plain, &[&claim]).await, [None], "{what}");
                assert_eq!(finish(&plain, &claim).await, FinishReply::Finished(kept), "{what}");
                assert_eq!(plain.snapshot(), judged.snapshot(), "{what} {is_once}");
            } else {
                assert_eq!(plain.snapshot(), before, "{what} {is_once}");
            }
        }
    }
}

#[tokio::test]
async fn many_plain_runs_are_claimed_and_ended_in_one_call_each() {
    let world = World::new();
    let mut orders = Vec::new();
    for job in ["a", "b", "c", "d", "e"] {
        let run = world.plant_once(job, 0).await;
        orders.push(world.order(&run).await);
    }
    // The third run is judged, and so are the runs after it.
    let _: i64 = world.raw("HSET", "job:c", &["paused", "1"]);
    let before = calls(&world);
    let (node, lane) = (claimant("n1"), queue("default"));
    let mut replies = world.at(5).claim_runs(4, &node, &lane, "once", &orders).await.unwrap();
    assert_eq!(calls(&world) - before, 2);
    let last = replies.pop().unwrap();
    assert!(matches!(last, ClaimReply::Full), "{last:?}");
    let claims: Vec<Claim> = replies.into_iter().map(World::won).collect();
    assert!(claims.windows(2).all(|pair| pair[0].fence < pair[1].fence), "{claims:?}");
    let (before, ended) =
        (calls(&world), finish_plain(&world, &claims.iter().collect::<Vec<_>>()).await);
    assert_eq!((calls(&world) - before, ended), (1, vec![Some(1); 4]));
    assert_eq!(world.total("succeeded"), 4);
    world.assert_sound();
}

#[tokio::test]
async fn slots_that_plain_runs_fill_leave_the_rest_due_without_a_second_call() {
    let world = World::new();
    let mut orders = Vec::new();
    for job in ["a", "b", "c"] {
        let run = world.plant_once(job, 0).await;
        orders.push(world.order(&run).await);
    }
    let before = calls(&world);
    let (node, lane) = (claimant("n1"), queue("default"));
    let replies = world.at(5).claim_runs(2, &node, &lane, "once", &orders).await.unwrap();
    assert_eq!(calls(&world) - before, 1);
    assert!(matches!(replies[2], ClaimReply::Full), "{replies:?}");
    assert_eq!(world.score("due:default", &orders[2].run.to_string()), Some(0));
}
