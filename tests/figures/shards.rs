//! What shards cost: the same work on one Redis server without shards, and with 1, 4 and 8 of them. The
//! shards are on one server, so its processor time for a run shows whether shards add work.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;

use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::until;
use crate::{PATIENCE, add_lines, cpu_seconds, info, usage};

const ADDED: u32 = 20_000;
const DUE: u32 = 4_000;
const ROUNDS: usize = 3;

/// The figures of one round: added jobs a second and Redis time of an add in us; runs a second, Redis
/// time in us, commands, and processor time of the node in us of a run; commands a second of an idle node.
type Figures = [f64; 7];

/// Prints one line for each number of shards and of slots, medians of rounds in turns.
pub(crate) fn shards() {
    let cases = [256, 32].map(|slots| [0, 1, 4, 8].map(|shards| (slots, shards))).concat();
    let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for ((slots, shards), figures) in cases.iter().zip(&mut rounds) {
            figures.push(round(*slots, *shards));
        }
    }
    println!(
        "slots  shards   adds/s  us/add   runs/s  us/run  commands  node us/run  idle commands/s"
    );
    for ((slots, shards), figures) in cases.iter().zip(rounds) {
        let median = |at: usize| {
            let mut column: Vec<f64> = figures.iter().map(|row| row[at]).collect();
            column.sort_by(f64::total_cmp);
            column[column.len() / 2]
        };
        let shards = if *shards == 0 { "none".to_owned() } else { shards.to_string() };
        let [adds, add, runs, run, commands, node, idle] = [0, 1, 2, 3, 4, 5, 6].map(median);
        println!(
            "{slots:>5} {shards:>7} {adds:>8.0} {add:>7.1} {runs:>8.0} {run:>7.1} {commands:>9.1} {node:>12.0} {idle:>16.1}"
        );
    }
}

/// Measures a node with this number of shards, whose queue has this number of slots.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn round(slots: u32, shards: u32) -> Figures {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    let mut file = format!("[queues.q]\nspread = true\nconcurrency = {slots}\n");
    if shards > 0 {
        write!(file, "[redis]\nshards = {shards}\n").unwrap();
    }
    let node = Schedd::on(&redis).jobs(&file).start();
    node.wait_for_log("All jobs of the jobs file are applied");
    until("the node serves all shards", PATIENCE, || {
        let served = node.log().matches("This node serves the shard.").count();
        (served == shards as usize).then_some(())
    });
    let commands = |connection: &mut _| info(connection, "total_commands_processed:") as f64;
    // The first call loads the scripts. After its start a node looks at its data for some seconds.
    add(
        &redis,
        "first",
        shards.max(1) * 10,
        jiff::Timestamp::now() + jiff::SignedDuration::from_hours(9),
    );
    std::thread::sleep(Duration::from_secs(15));
    let before = commands(&mut connection);
    std::thread::sleep(Duration::from_secs(5));
    let idle = (commands(&mut connection) - before) / 5.0;

    let before = cpu_seconds(&mut connection);
    let far = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(10);
    let took = add(&redis, "far", ADDED, far).as_secs_f64();
    let add_us = (cpu_seconds(&mut connection) - before) * 1e6 / f64::from(ADDED);

    let eye = Eye::on(&redis);
    let now = eye.ask(eye.store().now()).unwrap().as_i64();
    let due = jiff::Timestamp::from_second(now / 1_000 + 5).unwrap();
    add(&redis, "due", DUE, due);
    let to_wait = due.duration_since(jiff::Timestamp::now()).unsigned_abs();
    std::thread::sleep(to_wait.saturating_sub(Duration::from_millis(100)));
    let (cpu, used, ticks) =
        (cpu_seconds(&mut connection), commands(&mut connection), usage(node.pid()).0);
    let places = eye.ask(eye.store().with_shards()).unwrap();
    until("all runs have ended", PATIENCE, || {
        let ended = places.iter().map(|place| eye.ask(place.read_stats()).unwrap());
        let ended: u64 = ended.map(|it| it.totals.get("succeeded").copied().unwrap_or(0)).sum();
        (ended == u64::from(DUE)).then_some(())
    });
    let took_runs = (jiff::Timestamp::now().duration_since(due)).as_secs_f64();
    let each = |total: f64| total / f64::from(DUE);
    [
        f64::from(ADDED) / took,
        add_us,
        f64::from(DUE) / took_runs,
        each((cpu_seconds(&mut connection) - cpu) * 1e6),
        each(commands(&mut connection) - used),
        each((usage(node.pid()).0 - ticks) as f64 * 1e4),
        idle,
    ]
}

/// Adds jobs of the spread queue through one `schedctl add --stdin`. Returns how long it took.
fn add(redis: &TestRedis, prefix: &str, count: u32, at: jiff::Timestamp) -> Duration {
    let mut lines = String::new();
    for number in 0..count {
        let name = format!("{prefix}{number}");
        let job =
            json!({"name": name, "at": at.to_string(), "queue": "q", "command": ["/bin/true"]});
        writeln!(lines, "{job}").unwrap();
    }
    add_lines(redis, &lines)
}
