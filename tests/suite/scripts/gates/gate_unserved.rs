//! Runs that wait at a gate in a lane nobody serves: however many they are, one look passes them, and a free run behind them is let in.

use std::time::Duration;

use schedd_core::domain::job::job_spec::Overlap;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::RunId;
use schedd_store::{
    ApplyOrder, BeatFacts, BeatReply, Blocking, Claim, ClaimOrder, ClaimReply, NameClaim, NodeBeat,
};

use crate::scripts::world::{World, claimant, definition, gate, name, run_of, t, token};
use crate::support::facts::node_facts;

const GPU: &str = "default+gpu";
/// So long one that was let in may take, in ms.
const MOMENT: i64 = 2_000;
/// More than were ever passed one by one.
const MANY: usize = 11_000;
/// Runs of one claim: with more a busy machine has no answer in time.
const BATCH: usize = 100;
/// Redis commands of one look at a gate and all that leads to it, at most.
const COMMANDS: u64 = 250;

/// A node that carries these labels says that it is there.
async fn beat(world: &World, offset: i64, node: &str, labels: &str) {
    let mut facts = BeatFacts { running: 0, ..node_facts(t(0)) };
    facts.serving.labels = labels.split_whitespace().map(|label| label.parse().unwrap()).collect();
    let node = node.parse().unwrap();
    let beat = NodeBeat {
        node: &node,
        incarnation: "i",
        gone_after: Duration::from_secs(15),
        claim: NameClaim::Ask,
        facts: &facts,
    };
    assert!(matches!(world.at(offset).beat_node(&beat).await.unwrap(), BeatReply::Present { .. }));
}

/// `count` runs by hand of up to a hundred jobs in `lane`, due from 1 ms on, come to these gates and find them shut.
async fn crowd(world: &World, count: usize, lane: &str, gates: &[&str]) {
    let of: Lane = lane.parse().unwrap();
    let jobs = count.div_ceil(1_000);
    let mut of_jobs = Vec::new();
    for number in 0..jobs {
        let order =
            ApplyOrder { lane: of.clone(), ..definition(&format!("crowd{number}"), 900_000_000) };
        let run = world.plant_as(order).await;
        of_jobs.push(ClaimOrder { overlap: Overlap::Allow, ..world.order_at(&run, gates).await });
    }
    let runs: Vec<RunId> = (0..count)
        .map(|at| {
            RunId::manual(
                name(&format!("crowd{}", at % jobs)),
                t(1 + i64::try_from(at / jobs).unwrap()),
                "x",
            )
            .unwrap()
        })
        .collect();
    for (some, at) in runs.chunks(BATCH).zip((0..).step_by(BATCH)) {
        let mut pipeline = redis::pipe();
        for run in some {
            // As a run asked for by hand is planted.
            let record = pipeline.cmd("HSET").arg(world.key(&format!("run:{run}")));
            record
                .arg("job")
                .arg(run.job().as_str())
                .arg("due")
                .arg(run.due().as_i64())
                .arg("queue")
                .arg(lane);
            record.arg("kind").arg("manual").arg("state").arg("scheduled").ignore();
            pipeline
                .cmd("ZADD")
                .arg(world.key(&format!("due:{lane}")))
                .arg(run.due().as_i64())
                .arg(run.to_string())
                .ignore();
        }
        let () = pipeline.query(&mut world.redis.connection()).unwrap();
        let orders: Vec<ClaimOrder> = some
            .iter()
            .zip(at..)
            .map(|(run, at)| ClaimOrder { run: run.clone(), ..of_jobs[at % jobs].clone() })
            .collect();
        let replies = world
            .at(1_500)
            .claim_runs(usize::MAX, &claimant("n1"), &of, &token(), &orders)
            .await
            .unwrap();
        let is_waiting =
            |reply: &ClaimReply| matches!(reply, ClaimReply::Blocked(Blocking::AtGate));
        assert!(
            replies.iter().all(is_waiting),
            "{:?}",
            replies.iter().find(|reply| !is_waiting(reply))
        );
    }
}

async fn wait_at(world: &World, offset: i64, run: &RunId, gates: &[&str]) {
    let reply = world.claim(offset, &world.order_at(run, gates).await).await;
    assert!(matches!(reply, ClaimReply::Blocked(Blocking::AtGate)), "{run}: {reply:?}");
}

/// Claims a run of the group that alternates, which the gate has to let in first.
async fn win_turn(world: &World, offset: i64, run: &RunId) -> Claim {
    wait_at(world, offset, run, &["group:g"]).await;
    world.open_all(offset).await;
    world.win_at(offset, run, &["group:g"]).await
}

fn has_place(world: &World, gate: &str, run: &RunId) -> bool {
    world.score_text(&format!("gate_holders:{gate}"), &run.to_string()).is_some()
}

fn commands(world: &World) -> u64 {
    let info: String = world.server(&["INFO", "stats"]);
    info.lines()
        .find_map(|line| line.strip_prefix("total_commands_processed:"))
        .unwrap()
        .parse()
        .unwrap()
}

/// `p` has the place at `gates`, a crowd in the lane of a label waits behind it, and then `free` of the default lane.
async fn crowded(count: usize, gates: &[&str]) -> (World, Claim, RunId) {
    let world = World::new();
    world.plant_once("p", 0).await;
    world.plant_once("free", 1_600).await;
    let holder = world.win_at(0, &run_of("p", 0), gates).await;
    crowd(&world, count, GPU, gates).await;
    wait_at(&world, 1_600, &run_of("free", 1_600), gates).await;
    (world, holder, run_of("free", 1_600))
}

#[tokio::test]
async fn one_look_lets_a_free_run_in_behind_100_000_that_no_node_serves() {
    let (world, holder, free) = crowded(100_000, &["key:k"]).await;
    beat(&world, 5_000, "n1", "").await;
    world.succeed(5_000, &holder).await;
    let before = commands(&world);
    world.open_all(5_000).await;
    let asked = commands(&world) - before;
    assert!(has_place(&world, "key:k", &free), "it is let in at once");
    assert!(asked <= COMMANDS, "{asked} commands");
    assert_eq!(
        world.raw::<usize>("ZCARD", &format!("due:{GPU}"), &[]),
        101,
        "one of them, and what is planned of their jobs"
    );
    let claim = world.win_at(5_001, &free, &["key:k"]).await;
    world.plant_once("next", 5_100).await;
    world.succeed(5_050, &claim).await;
    world.open_all(5_050).await;
    let before = commands(&world);
    world.win_at(5_100, &run_of("next", 5_100), &["key:k"]).await;
    assert!(
        commands(&world) - before <= COMMANDS,
        "one that comes when the gate is free begins at once"
    );
}

#[tokio::test]
async fn a_group_and_a_job_s_gate_are_closed_by_no_crowd_either() {
    for gates in [&["group:one"][..], &["job:p"]] {
        let (world, holder, free) = crowded(MANY, gates).await;
        beat(&world, 5_000, "n1", "").await;
        world.succeed(5_000, &holder).await;
        let before = commands(&world);
        world.open_all(5_000).await;
        let asked = commands(&world) - before;
        assert!(has_place(&world, gates[0], &free), "{gates:?}");
        assert!(asked <= COMMANDS, "{gates:?}: {asked} commands");
    }
}

#[tokio::test]
async fn a_free_run_behind_many_that_do_not_begin_is_let_in_a_moment_later() {
    for gates in [&["key:k"][..], &["group:one"]] {
        let (world, holder, free) = crowded(MANY, gates).await;
        world.succeed(5_000, &holder).await;
        // Nothing is known of nodes: one is tried.
        world.open_all(5_000).await;
        assert!(!has_place(&world, gates[0], &free));
        let before = commands(&world);
        world.open_all(5_000 + MOMENT).await;
        let asked = commands(&world) - before;
        assert!(has_place(&world, gates[0], &free), "{gates:?}");
        assert!(asked <= COMMANDS, "{gates:?}: {asked} commands");
    }
}

#[tokio::test]
async fn of_members_that_take_turns_and_of_others_the_first_that_is_served_comes_in() {
    let world = World::new();
    let settings =
        ["mode", "alternate", "order", "crowd0 c", "gap_ms", "0", "turn_timeout_ms", "1000"];
    let _: i64 = world.raw("HSET", "group:g", &settings);
    let gates = ["group:g"];
    world.plant_once("holder", 0).await;
    world.plant_once("c", 1_600).await;
    world.plant_once("stranger", 1_601).await;
    let holder = win_turn(&world, 0, &run_of("holder", 0)).await;
    // Of a member and of many that are none.
    crowd(&world, MANY, GPU, &gates).await;
    wait_at(&world, 1_601, &run_of("c", 1_600), &gates).await;
    wait_at(&world, 1_601, &run_of("stranger", 1_601), &gates).await;
    beat(&world, 5_000, "n1", "").await;
    world.succeed(5_000, &holder).await;
    for (offset, job, due) in [(6_000, "c", 1_600), (8_000, "stranger", 1_601)] {
        world.open_all(5_000.max(offset - 1_000)).await;
        let before = commands(&world);
        world.open_all(offset).await;
        assert!(has_place(&world, gates[0], &run_of(job, due)), "{job}");
        assert!(commands(&world) - before <= COMMANDS);
        let claim = world.win_at(offset, &run_of(job, due), &gates).await;
        world.succeed(offset + 1, &claim).await;
    }
}

#[tokio::test]
async fn a_run_that_is_no_member_is_found_behind_many_that_are() {
    let world = World::new();
    let members: Vec<String> = (0..MANY / 1_000).map(|number| format!("crowd{number}")).collect();
    let settings = [
        "mode",
        "alternate",
        "order",
        &members.join(" "),
        "gap_ms",
        "0",
        "turn_timeout_ms",
        "1000",
    ];
    let _: i64 = world.raw("HSET", "group:g", &settings);
    let gates = ["group:g"];
    world.plant_once("holder", 0).await;
    world.plant_once("stranger", 1_600).await;
    let mut claim = win_turn(&world, 0, &run_of("holder", 0)).await;
    crowd(&world, MANY, "default", &gates).await;
    wait_at(&world, 1_600, &run_of("stranger", 1_600), &gates).await;
    let mut begun = Vec::new();
    for offset in (5_000..).step_by(10).take(members.len() + 1) {
        world.succeed(offset, &claim).await;
        world.open_all(offset).await;
        let [run] = &world.raw::<Vec<String>>("ZRANGE", "gate_holders:group:g", &["0", "-1"])[..]
        else {
            panic!("nobody has the place")
        };
        let run: RunId = run.parse().unwrap();
        let order = ClaimOrder { overlap: Overlap::Allow, ..world.order_at(&run, &gates).await };
        claim = World::won(world.claim(offset + 1, &order).await);
        begun.push(run.job().to_string());
    }
    assert_eq!(begun, members.into_iter().chain(["stranger".to_owned()]).collect::<Vec<_>>());
}

#[tokio::test]
async fn many_lanes_that_no_node_serves_cost_no_time_each() {
    let world = World::new();
    let gates = ["key:k"];
    world.plant_once("holder", 0).await;
    let holder = world.win_at(0, &run_of("holder", 0), &gates).await;
    for number in 0..300_i64 {
        let lane: Lane = format!("default+l{number:03}").parse().unwrap();
        let job = format!("b{number:03}");
        world
            .plant_as(ApplyOrder { lane: lane.clone(), is_once: true, ..definition(&job, number) })
            .await;
        wait_at(&world, 500, &run_of(&job, number), &gates).await;
    }
    world.plant_once("free", 600).await;
    wait_at(&world, 600, &run_of("free", 600), &gates).await;
    beat(&world, 1_000, "n1", "").await;
    world.succeed(1_000, &holder).await;
    world.open_all(1_000).await;
    assert!(has_place(&world, "key:k", &run_of("free", 600)));
    world.assert_sound();
    let claim = world.win_at(1_001, &run_of("free", 600), &gates).await;
    // Each minute their lanes are looked at again, and no more of them is let go.
    world.plant_once("later", 200_000).await;
    beat(&world, 200_000, "n1", "").await;
    wait_at(&world, 200_000, &run_of("later", 200_000), &gates).await;
    world.succeed(200_001, &claim).await;
    world.open_all(200_001).await;
    assert!(has_place(&world, "key:k", &run_of("later", 200_000)));
    world.assert_sound();
}

#[tokio::test]
async fn unserved_runs_waiting_at_a_later_gate_give_up_their_earlier_places() {
    let world = World::new();
    let both = ["job:p", "key:k"];
    world.plant_once("holder", 0).await;
    let _holder = world.win_at(0, &run_of("holder", 0), &["key:k"]).await;
    crowd(&world, 150, GPU, &both).await;
    assert_eq!(
        world.raw::<usize>("ZCARD", "gate_holders:job:p", &[]),
        150,
        "they pass the gate of p and wait for their key"
    );
    world.plant("p", 1_600).await;
    wait_at(&world, 1_600, &run_of("p", 1_600), &["job:p"]).await;
    beat(&world, 5_000, "n1", "").await;
    world.open_all(5_000).await;
    assert!(
        has_place(&world, "job:p", &run_of("p", 1_600)),
        "p is kept out by nobody who may begin"
    );
    assert_eq!(
        world.raw::<usize>("ZCARD", "gate_waiters:key:k", &[]),
        150,
        "they wait for their key as before"
    );
    world.win_at(5_001, &run_of("p", 1_600), &["job:p"]).await;
}

#[tokio::test]
async fn a_lane_that_is_served_again_comes_to_its_right_by_due_order() {
    let (world, holder, free) = crowded(3, &["key:k"]).await;
    let gates = ["key:k"];
    beat(&world, 5_000, "n1", "").await;
    world.succeed(5_000, &holder).await;
    world.open_all(5_000).await;
    let claim = world.win_at(5_001, &free, &gates).await;
    let sent: Vec<String> = world.raw("ZRANGE", &format!("due:{GPU}"), &["0", "5000", "BYSCORE"]);
    let now = t(5_001).as_i64().to_string();
    let sent = if sent.is_empty() {
        world.raw("ZRANGE", &format!("due:{GPU}"), &["-inf", &now, "BYSCORE"])
    } else {
        sent
    };
    let [first] = &sent[..] else { panic!("one stands where a node would find it: {sent:?}") };
    beat(&world, 5_002, "n2", "gpu").await;
    // The node that has come finds it; the place is taken for now.
    let of: Lane = GPU.parse().unwrap();
    let mut order = ClaimOrder {
        overlap: Overlap::Allow,
        ..world.order_at(&first.parse().unwrap(), &gates).await
    };
    order.known_places = gates.iter().map(|name| gate(name)).collect();
    let try_it = async |offset: i64, order: &ClaimOrder| {
        let at = world.at(offset);
        at.claim_runs(usize::MAX, &claimant("n2"), &of, &token(), std::slice::from_ref(order))
            .await
            .unwrap()
            .remove(0)
    };
    assert!(matches!(try_it(5_003, &order).await, ClaimReply::Blocked(Blocking::AtGate)));
    world.succeed(5_004, &claim).await;
    for (offset, due) in [(5_010, 1), (5_020, 2), (5_030, 3)] {
        world.open_all(offset).await;
        let run = RunId::manual(name("crowd0"), t(due), "x").unwrap();
        assert!(has_place(&world, "key:k", &run), "in due order: {run}");
        order.run = run;
        let claim = World::won(try_it(offset + 1, &order).await);
        world.succeed(offset + 2, &claim).await;
    }
    world.assert_sound();
}

#[tokio::test]
async fn among_lanes_that_are_served_the_first_by_due_and_id_is_let_in() {
    for seed in 0..4 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let world = World::new();
        let lanes = ["default", "default!5", "q", "default+eu", "default~3"];
        world.plant_once("holder", 0).await;
        let mut claim = world.win_at(0, &run_of("holder", 0), &["key:k"]).await;
        let mut left: Vec<(i64, String, &str)> = Vec::new();
        for number in 0..40 {
            let (job, due, lane) =
                (format!("j{number}"), rng.i64(1..12), lanes[rng.usize(0..lanes.len())]);
            world
                .plant_as(ApplyOrder {
                    lane: lane.parse().unwrap(),
                    is_once: true,
                    ..definition(&job, due)
                })
                .await;
            left.push((due, run_of(&job, due).to_string(), lane));
        }
        rng.shuffle(&mut left);
        for (_, run, lane) in &left {
            let order = world.order_at(&run.parse().unwrap(), &["key:k"]).await;
            let of: Lane = lane.parse().unwrap();
            let reply = world
                .at(20)
                .claim_runs(usize::MAX, &claimant("n1"), &of, &token(), &[order])
                .await
                .unwrap()
                .remove(0);
            assert!(matches!(reply, ClaimReply::Blocked(Blocking::AtGate)), "{reply:?}");
        }
        left.sort();
        world.assert_sound();
        for (at, (_, run, lane)) in (0..).zip(&left) {
            let now = 30 + at * 2;
            world.succeed(now, &claim).await;
            world.open_all(now).await;
            let held: Vec<String> = world.raw("ZRANGE", "gate_holders:key:k", &["0", "-1"]);
            assert_eq!(held, std::slice::from_ref(run), "seed {seed}");
            let order = world.order_at(&run.parse().unwrap(), &["key:k"]).await;
            let of: Lane = lane.parse().unwrap();
            let reply = world
                .at(now + 1)
                .claim_runs(usize::MAX, &claimant("n1"), &of, &token(), &[order])
                .await
                .unwrap()
                .remove(0);
            claim = World::won(reply);
        }
        world.assert_sound();
    }
}
