//! Runs that were let in at a gate and do not begin: they keep nobody out, and come to their right when their queue takes them. And
//! the rate of a key, which counts those that begin.

use schedd_core::domain::queue::gate::PerKey;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::rate::Rate;
use schedd_schedule::names::RunId;
use schedd_store::{
    ApplyOrder, Blocking, CancelReply, ClaimOrder, ClaimReply, DefinitionChange, Verdict,
};

use crate::scripts::world::{World, definition, gate, name, run_of, version};

const GROUP: &[&str] = &["group:g"];
const KEY: &[&str] = &["key:k"];
/// So long one that was let in may take, in ms.
const MOMENT: i64 = 2_000;
/// So long no other of its lane is tried.
const TRY: i64 = 60_000;

/// Jobs that are each due once, at these offsets, in these lanes.
async fn yard(jobs: &[(&str, i64, &str)]) -> World {
    let world = World::new();
    for (job, offset, lane) in jobs {
        let lane: Lane = lane.parse().unwrap();
        world.plant_as(ApplyOrder { lane, is_once: true, ..definition(job, *offset) }).await;
    }
    world
}

async fn try_at(world: &World, offset: i64, run: &RunId, gates: &[&str]) -> ClaimReply {
    let known_places =
        world.store.read_run(run).await.unwrap().map(|record| record.places).unwrap_or_default();
    let order = ClaimOrder { known_places, ..world.order_at(run, gates).await };
    world.claim(offset, &order).await
}

async fn wait_at(world: &World, offset: i64, run: &RunId, gates: &[&str]) {
    let reply = try_at(world, offset, run, gates).await;
    assert!(matches!(reply, ClaimReply::Blocked(Blocking::AtGate)), "{run}: {reply:?}");
    world.assert_sound();
}

fn stands(world: &World, run: &RunId, sets: &[&str]) -> Vec<String> {
    let is_in = |set: &&&str| world.score_text(set, &run.to_string()).is_some();
    sets.iter().filter(is_in).map(|set| (*set).to_owned()).collect()
}

fn has_place(world: &World, gate: &str, run: &RunId) -> bool {
    world.score_text(&format!("gate_holders:{gate}"), &run.to_string()).is_some()
}

/// `a` ran at `gates`; `b` of a queue that takes nothing was let in when it ended, at 10, and `c` of the default one waits.
async fn shut(gates: &[&str], more: &[(&str, i64, &str)]) -> World {
    let jobs: Vec<_> = [("a", 0, "default"), ("b", 1, "shut"), ("c", 2, "default")]
        .iter()
        .chain(more)
        .copied()
        .collect();
    let world = yard(&jobs).await;
    let a = world.win_at(5, &run_of("a", 0), gates).await;
    for (job, offset, _) in &jobs[1..] {
        wait_at(&world, 6, &run_of(job, *offset), gates).await;
    }
    world.succeed(10, &a).await;
    world.open_all(10).await;
    assert!(has_place(&world, gates[0], &run_of("b", 1)));
    world.assert_sound();
    world
}

#[tokio::test]
async fn a_run_slow_to_begin_yields_its_place_to_a_ready_run_and_begins_later() {
    for gates in [GROUP, KEY] {
        let world = shut(gates, &[]).await;
        let (b, c) = (run_of("b", 1), run_of("c", 2));
        assert_eq!(world.score("gate_timers", gates[0]), Some(10 + MOMENT), "nobody polls for it");
        world.open_all(9 + MOMENT).await;
        assert!(has_place(&world, gates[0], &b) && !has_place(&world, gates[0], &c));
        world.open_all(10 + MOMENT).await;
        assert!(!has_place(&world, gates[0], &b) && has_place(&world, gates[0], &c));
        assert_eq!(
            stands(&world, &b, &["due:shut", "open:b"]),
            ["due:shut", "open:b"],
            "it stays where it is"
        );
        world.assert_sound();
        let claim = world.win_at(20 + MOMENT, &c, gates).await;
        // Its queue takes it while another has the place: it waits like any other, by its due time.
        wait_at(&world, 21 + MOMENT, &b, gates).await;
        world.succeed(22 + MOMENT, &claim).await;
        world.open_all(22 + MOMENT).await;
        let claim = world.win_at(23 + MOMENT, &b, gates).await;
        world.succeed(24 + MOMENT, &claim).await;
        world.open_all(24 + MOMENT).await;
        world.assert_sound();
        let (queued, held) = world.at_gates();
        assert!(queued.is_empty() && held.is_empty(), "{queued:?} {held:?}");
    }
}

#[tokio::test]
async fn a_run_keeps_its_place_if_it_began_in_time_or_nobody_waits_behind_it() {
    let world = shut(GROUP, &[]).await;
    let (b, c) = (run_of("b", 1), run_of("c", 2));
    let claim = world.win_at(1_999, &b, GROUP).await;
    world.open(900_000, "group:g").await;
    assert!(has_place(&world, "group:g", &b) && !has_place(&world, "group:g", &c));
    world.succeed(900_001, &claim).await;
    world.open_all(900_001).await;
    world.open_all(1_900_000).await;
    assert!(has_place(&world, "group:g", &c), "it takes its time, and nobody else wants it");
    world.plant_once("d", 1_900_000).await;
    wait_at(&world, 1_900_000, &run_of("d", 1_900_000), GROUP).await;
    world.open_all(1_900_000).await;
    assert!(!has_place(&world, "group:g", &c), "now there is one");
    // Of the same lane: it would not begin either, and the one that gave its place up comes first.
    assert!(!has_place(&world, "group:g", &run_of("d", 1_900_000)));
    world.win_at(1_900_001, &c, GROUP).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_stuck_lane_gets_no_place_until_its_first_run_is_gone_or_it_is_retried() {
    let world = shut(GROUP, &[("d", 3, "shut"), ("e", 4, "default")]).await;
    let [b, c, d, e] =
        [("b", 1), ("c", 2), ("d", 3), ("e", 4)].map(|(job, offset)| run_of(job, offset));
    let mut now = 10 + MOMENT;
    for run in [&c, &e] {
        world.open_all(now).await;
        let claim = world.win_at(now, run, GROUP).await;
        now += 1;
        world.succeed(now, &claim).await;
    }
    world.open_all(now).await;
    let (queued, held) = world.at_gates();
    assert_eq!((queued.len(), held.len()), (1, 0), "d waits, and nobody has the place");
    let tried = world.score("gate_timers", "group:g").unwrap();
    assert_eq!(tried, 10 + MOMENT + TRY);
    world.open_all(tried).await;
    assert!(has_place(&world, "group:g", &d), "it may have been b alone");
    // b comes first by due, and finds the place taken for now.
    wait_at(&world, tried + 1, &b, GROUP).await;
    world.open_all(tried + MOMENT).await;
    assert!(!has_place(&world, "group:g", &d) && !has_place(&world, "group:g", &b));
    wait_at(&world, tried + MOMENT + 2, &d, GROUP).await;
    world.open_all(tried + MOMENT + 2).await;
    assert!(has_place(&world, "group:g", &b), "their queue takes runs again, in due order");
    world.win_at(tried + MOMENT + 3, &b, GROUP).await;
    world.assert_sound();
}

#[tokio::test]
async fn when_one_that_gave_its_place_up_is_cancelled_the_next_of_its_lane_is_let_in() {
    let world = shut(GROUP, &[("d", 3, "shut")]).await;
    let [b, c, d] = [("b", 1), ("c", 2), ("d", 3)].map(|(job, offset)| run_of(job, offset));
    world.open_all(10 + MOMENT).await;
    let claim = world.win_at(11 + MOMENT, &c, GROUP).await;
    world.succeed(12 + MOMENT, &claim).await;
    world.open_all(12 + MOMENT).await;
    assert!(!has_place(&world, "group:g", &d));
    let order = world.cancelling(&b, None).await;
    assert_eq!(world.at(13 + MOMENT).cancel_run(&order).await.unwrap(), CancelReply::Cancelled);
    world.open_all(13 + MOMENT).await;
    assert!(has_place(&world, "group:g", &d));
    world.assert_sound();
}

#[tokio::test]
async fn the_places_at_earlier_gates_are_given_up_as_well() {
    let both = ["group:g", "key:k"];
    let world =
        yard(&[("a", 0, "default"), ("b", 1, "shut"), ("c", 2, "default"), ("d", 3, "default")])
            .await;
    let [b, c, d] = [("b", 1), ("c", 2), ("d", 3)].map(|(job, offset)| run_of(job, offset));
    let a = world.win_at(5, &run_of("a", 0), KEY).await;
    wait_at(&world, 6, &b, &both).await;
    wait_at(&world, 6, &c, GROUP).await;
    wait_at(&world, 6, &d, KEY).await;
    world.open_all(900_000).await;
    assert!(has_place(&world, "group:g", &b), "while it waits for its key it keeps what it has");
    world.succeed(900_001, &a).await;
    world.open_all(900_001).await;
    assert!(has_place(&world, "key:k", &b));
    world.open_all(900_000 + MOMENT).await;
    assert!(has_place(&world, "group:g", &b) && has_place(&world, "key:k", &b));
    world.open_all(900_001 + MOMENT).await;
    assert!(
        has_place(&world, "group:g", &c) && has_place(&world, "key:k", &d),
        "both are given up"
    );
    world.assert_sound();
    let claims = [
        world.win_at(900_002 + MOMENT, &c, GROUP).await,
        world.win_at(900_002 + MOMENT, &d, KEY).await,
    ];
    for claim in &claims {
        world.succeed(900_003 + MOMENT, claim).await;
    }
    world.open_all(900_003 + MOMENT).await;
    world.win_at(900_004 + MOMENT, &b, &both).await;
    world.assert_sound();
}

#[tokio::test]
async fn an_owner_of_a_job_s_gate_and_its_guests_keep_nobody_out_if_they_do_not_begin() {
    let world = World::new();
    let guest = |job: &str, offset, lane: &str| ApplyOrder {
        is_once: true,
        not_while: [name("p")].into(),
        lane: lane.parse().unwrap(),
        ..definition(job, offset)
    };
    world.plant("p", 0).await;
    world.plant_as(guest("n", 1, "shut")).await;
    let at = &["job:p"];
    let owner = world.win_at(1, &run_of("p", 0), at).await;
    wait_at(&world, 2, &run_of("n", 1), at).await;
    world.succeed(3, &owner).await;
    world.open_all(3).await;
    assert!(has_place(&world, "job:p", &run_of("n", 1)));
    let hand = world.by_hand("p", 4).await;
    wait_at(&world, 4, &hand, at).await;
    world.open_all(3 + MOMENT).await;
    assert!(has_place(&world, "job:p", &hand));
    let owner = world.win_at(4 + MOMENT, &hand, at).await;
    wait_at(&world, 5 + MOMENT, &run_of("n", 1), at).await;
    world.succeed(6 + MOMENT, &owner).await;
    world.open_all(6 + MOMENT).await;
    world.win_at(7 + MOMENT, &run_of("n", 1), at).await;
    world.assert_sound();
}

#[tokio::test]
async fn a_turn_passes_when_the_patience_with_a_member_whose_queue_takes_nothing_is_over() {
    let world = World::new();
    let settings =
        ["mode", "alternate", "order", "c d", "gap_ms", "100", "turn_timeout_ms", "3000"];
    let _: i64 = world.raw("HSET", "group:g", &settings);
    world.plant("c", 0).await;
    world.plant_as(ApplyOrder { lane: "shut".parse().unwrap(), ..definition("d", 0) }).await;
    let claim = async |offset: i64, run: &RunId, next: i64| {
        let order =
            world.order_with(run, schedd_core::domain::job::job_spec::Overlap::Allow, next).await;
        let reply =
            world.claim(offset, &ClaimOrder { gates: vec![gate("group:g")], ..order }).await;
        world.open_all(offset).await;
        world.assert_sound();
        reply
    };
    let (c, d) = (run_of("c", 0), run_of("d", 0));
    let first = World::won(claim(0, &c, 1_000).await);
    assert!(matches!(claim(0, &d, 500_000).await, ClaimReply::Blocked(Blocking::AtGate)));
    assert!(matches!(
        claim(1_000, &run_of("c", 1_000), 500_000).await,
        ClaimReply::Blocked(Blocking::AtGate)
    ));
    world.succeed(1_100, &first).await;
    world.open_all(1_100).await;
    world.open_all(1_200).await;
    assert!(has_place(&world, "group:g", &d), "its turn, and the gap is over");
    let turn = || world.raw::<String>("HGET", "gate:group:g", &["turn"]);
    world.open_all(1_200 + MOMENT).await;
    assert_eq!((has_place(&world, "group:g", &d), turn().as_str()), (false, "d"), "still its turn");
    assert_eq!(
        world.score("gate_timers", "group:g"),
        Some(1_100 + 3_000),
        "from when its turn began"
    );
    world.open_all(4_100).await;
    assert!(has_place(&world, "group:g", &run_of("c", 1_000)));
    let second = World::won(claim(4_101, &run_of("c", 1_000), 500_000).await);
    world.succeed(4_200, &second).await;
    world.open_all(4_200).await;
    // Its queue is open again: it is its turn still.
    World::won(claim(4_300, &d, 500_000).await);
}

#[tokio::test]
async fn an_edit_that_moves_a_run_to_another_lane_lets_its_earlier_places_lapse() {
    let both = ["group:g", "key:k"];
    let world = yard(&[("a", 0, "default"), ("b", 1, "default"), ("c", 2, "default")]).await;
    let (b, c) = (run_of("b", 1), run_of("c", 2));
    world.win_at(5, &run_of("a", 0), KEY).await;
    wait_at(&world, 6, &b, &both).await;
    wait_at(&world, 6, &c, GROUP).await;
    let job = world.job("b").await;
    let edited = ApplyOrder {
        read: Some((job.rev, job.lane)),
        definition: version("other"),
        change: DefinitionChange::Rest,
        planted: None,
        is_once: true,
        lane: "shut".parse().unwrap(),
        old_gates: both.iter().map(|name| gate(name)).collect(),
        ..definition("b", 1)
    };
    assert_eq!(world.at(10).apply_job(&edited).await.unwrap(), schedd_store::ApplyReply::Updated);
    assert_eq!(
        stands(&world, &b, &["due:shut", "gate_holders:group:g"]),
        ["due:shut", "gate_holders:group:g"]
    );
    world.open_all(10 + MOMENT).await;
    assert!(has_place(&world, "group:g", &c) && !has_place(&world, "group:g", &b));
    world.assert_sound();
}

fn rated(rate: &str, burst: u32) -> PerKey {
    PerKey { limit: None, rate: Some(rate.parse::<Rate>().unwrap().with_burst(burst)) }
}

#[tokio::test]
async fn the_rate_of_a_key_is_kept_by_those_that_begin_after_their_queue_was_shut() {
    let world = yard(&[("a", 0, "default"), ("b", 1, "q"), ("c", 2, "q"), ("d", 3, "q")]).await;
    let per_key = rated("1/2s", 1);
    let claim = async |offset: i64, job: &str, due: i64| {
        world
            .claim(offset, &ClaimOrder { per_key, ..world.order_at(&run_of(job, due), KEY).await })
            .await
    };
    World::won(claim(5, "a", 0).await);
    for (job, due) in [("b", 1), ("c", 2), ("d", 3)] {
        assert!(matches!(claim(6, job, due).await, ClaimReply::Blocked(Blocking::AtGate)));
    }
    // For long nothing of the queue begins; whoever is let in there is counted when he begins.
    for offset in (0..12_000).step_by(100) {
        world.open_all(offset).await;
        world.assert_sound();
    }
    let mut begun = Vec::new();
    let mut left = vec![("b", 1), ("c", 2), ("d", 3)];
    for offset in (12_000..20_000).step_by(100) {
        world.open_all(offset).await;
        for (job, due) in left.clone() {
            if matches!(claim(offset, job, due).await, ClaimReply::Claimed(_)) {
                begun.push(offset);
                left.retain(|other| *other != (job, due));
            }
        }
    }
    assert_eq!(begun, [12_000, 14_000, 16_000]);
    world.assert_sound();
}

/// Whoever passes a gate, waits, is held up, killed or handed back: of what begins no stretch of time sees more than the rate and
/// one burst, and all of it begins.
#[tokio::test]
async fn by_when_runs_begin_no_range_sees_more_than_the_rate_of_their_key_and_one_burst() {
    for (seed, (count, per, burst)) in
        [(2_i64, 1_000_i64, 2_u32), (3, 1_000, 1), (1, 700, 3)].into_iter().enumerate()
    {
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        let per_key =
            PerKey { limit: rng.bool().then_some(2), ..rated(&format!("{count}/{per}ms"), burst) };
        let jobs: Vec<String> = (0..12).map(|number| format!("j{number}")).collect();
        let dues: Vec<i64> = (0..12).map(|_| rng.i64(0..2_000)).collect();
        let lanes = ["default", "q", "r"];
        let planted: Vec<(&str, i64, &str)> = jobs
            .iter()
            .zip(&dues)
            .enumerate()
            .map(|(at, (job, due))| (job.as_str(), *due, lanes[at % 3]))
            .collect();
        let world = yard(&planted).await;
        let (mut now, mut begun, mut running) = (0, Vec::new(), Vec::new());
        let mut open = [true; 3];
        for step in 0.. {
            assert!(step < 4_000, "seed {seed}: it comes to no end, {} have begun", begun.len());
            now += rng.i64(1..150);
            let at = rng.usize(0..3);
            // In the end all queues take runs.
            open[at] = step > 120 || rng.u8(0..3) > 0;
            if step % 40 == 39 && step < 120 {
                now += 5_000;
            }
            world.open_all(now).await;
            for (job, due, lane) in &planted {
                let run = run_of(job, *due);
                let is_due = world
                    .score(&format!("due:{lane}"), &run.to_string())
                    .is_some_and(|ready| ready <= now);
                if !is_due || !open[lanes.iter().position(|one| one == lane).unwrap()] {
                    continue;
                }
                let order = ClaimOrder { per_key, ..world.order_at(&run, KEY).await };
                if let ClaimReply::Claimed(claim) = world.claim(now, &order).await {
                    begun.push(now);
                    running.push(claim);
                }
            }
            while !running.is_empty() && rng.u8(0..3) > 0 {
                let claim = running.swap_remove(rng.usize(0..running.len()));
                let verdict = match rng.u8(0..8) {
                    0 => Verdict::Release,
                    1 => Verdict::Retry(std::time::Duration::from_millis(50)),
                    _ => Verdict::Final(schedd_core::domain::run::run_state::RunState::Succeeded),
                };
                world.finish(now, &claim, verdict).await;
            }
            let queued: usize = world.raw("ZCARD", "gate_waiters:key:k", &[]);
            let left = lanes
                .iter()
                .map(|lane| world.raw::<usize>("ZCARD", &format!("due:{lane}"), &[]))
                .sum::<usize>();
            if queued == 0 && left + running.len() == 0 {
                break;
            }
        }
        world.assert_sound();
        for (first, from) in begun.iter().enumerate() {
            for (last, to) in begun.iter().enumerate().skip(first) {
                let most = i64::from(burst) * per + (to - from) * count;
                let found = i64::try_from(last - first + 1).unwrap() * per;
                assert!(
                    found <= most,
                    "seed {seed}: {} begin from {from} to {to} ms",
                    last - first + 1
                );
            }
        }
    }
}
