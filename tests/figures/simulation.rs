//! A simulation of 1,000,000,000 jobs on 1,000 shards with 10,000 nodes, which no test bed here can hold.
//!
//! One shard is simulated: a Redis server that answers one call after the other, and the nodes that
//! serve the shard. Like the ticker of a node, a simulated node sleeps until the next ready run that it
//! knows of, at most a second, then polls, claims the due run if no other node did, and records its
//! end. The times of these calls are measured on a real Redis first. All jobs are due evenly over a day.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::shard_map::ShardMap;
use schedd_store::LaneAsk;

use crate::percentile;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;

const JOBS: f64 = 1e9;
const NODES: usize = 10_000;
/// Redis time of the claim and end of a run that starts a program (docs/benchmarks.md, kinds).
const RUN_US: f64 = 109.0;
/// The time between two polls of an idle node.
const TICK_US: f64 = 1e6;
/// The simulated time.
const SPAN_US: f64 = 60e6;
/// The connections of a node to a shard: calls, renewals of leases, messages.
const CONNECTIONS: usize = 3;
/// The names that are placed on shards.
const NAMES: u32 = 20_000_000;

/// Prints the placement, and for several numbers of nodes what a shard has to do.
pub(crate) fn simulation() {
    let shards = f64::from(ShardMap::MOST);
    let (least, most) = spread_of(NAMES);
    println!(
        "{NAMES} names on {shards} shards: {:.3} to {:.3} of the mean",
        f64::from(least) * shards / f64::from(NAMES),
        f64::from(most) * shards / f64::from(NAMES)
    );
    let poll_us = poll_us();
    let rate = JOBS / 86_400.0 / shards;
    println!(
        "1,000,000,000 jobs a day: {rate:.1} runs/s on each shard; Redis time of a poll {poll_us:.1} us, of a run {RUN_US} us"
    );
    println!("nodes of a shard  Redis busy  polls a run  late p50 ms  p99 ms  connections");
    for nodes in [10, 100, 300, 1_000, 3_000, NODES] {
        let Outcome { busy, polls, mut late } = simulate(nodes, rate, poll_us);
        late.sort_by(f64::total_cmp);
        #[expect(clippy::cast_precision_loss, reason = "a count of some thousand runs")]
        let polls = polls as f64 / late.len().max(1) as f64;
        println!(
            "{nodes:>16} {:>10.1}% {polls:>12.1} {:>12.2} {:>7.2} {:>12}",
            busy * 100.0,
            percentile(&late, 0.5) / 1e3,
            percentile(&late, 0.99) / 1e3,
            nodes * CONNECTIONS
        );
    }
}

/// Returns how many of the names the shard with the fewest has, and that with the most, of 1,000 shards.
fn spread_of(names: u32) -> (u32, u32) {
    let map = ShardMap::Count(ShardMap::MOST);
    let mut counts = vec![0_u32; ShardMap::MOST as usize];
    for number in 0..names {
        counts[map.shard_of(&format!("job-{number}")) as usize] += 1;
    }
    let least = counts.iter().copied().min().unwrap_or_default();
    (least, counts.into_iter().max().unwrap_or_default())
}

/// Returns the processor time of Redis for a poll that finds nothing, in us.
fn poll_us() -> f64 {
    const POLLS: u32 = 20_000;
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let mut connection = redis.connection();
    let ask = [LaneAsk::new(Lane::default_lane(), 1)];
    eye.ask(eye.store().list_due(&ask)).unwrap();
    let before = crate::cpu_seconds(&mut connection);
    for _ in 0..POLLS {
        eye.ask(eye.store().list_due(&ask)).unwrap();
    }
    (crate::cpu_seconds(&mut connection) - before) * 1e6 / f64::from(POLLS)
}

/// The result of a simulation.
struct Outcome {
    /// The part of the time in which Redis worked.
    busy: f64,
    polls: u64,
    /// The time from due to claim of each run, in us.
    late: Vec<f64>,
}

/// Simulates the nodes of one shard that is due for `rate` runs a second.
fn simulate(nodes: usize, rate: f64, poll_us: f64) -> Outcome {
    let gap = 1e6 / rate;
    let mut random = fastrand::Rng::with_seed(nodes as u64);
    let mut due: VecDeque<f64> = VecDeque::new();
    let mut at = 0.0;
    while at < SPAN_US {
        at += -gap * (1.0 - random.f64()).ln();
        due.push_back(at);
    }
    // The wake-ups of the nodes, in tenths of a microsecond so that they have an order.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times of a minute in tenths of a microsecond"
    )]
    let tenths = |us: f64| Reverse((us * 10.0) as u64);
    #[expect(clippy::cast_precision_loss, reason = "times of a minute in tenths of a microsecond")]
    let us = |tenths: u64| tenths as f64 / 10.0;
    let mut wakeups: BinaryHeap<Reverse<u64>> =
        (0..nodes).map(|_| tenths(random.f64() * TICK_US)).collect();
    let (mut free_at, mut busy, mut polls, mut late) = (0.0_f64, 0.0, 0, Vec::new());
    while let Some(Reverse(wakeup)) = wakeups.pop() {
        let asked = us(wakeup);
        if asked > SPAN_US {
            break;
        }
        let begin = free_at.max(asked);
        let mut end = begin + poll_us;
        polls += 1;
        // The poll finds the due runs, and the claim of one follows in the turn of this node.
        while due.front().is_some_and(|first| *first <= begin) {
            late.push(end - due.pop_front().unwrap_or_default());
            end += RUN_US;
        }
        busy += end - begin;
        free_at = end;
        let next = due.front().copied().unwrap_or(f64::MAX);
        wakeups.push(tenths(next.min(end + TICK_US).max(end)));
    }
    Outcome { busy: busy / free_at.max(SPAN_US), polls, late }
}
