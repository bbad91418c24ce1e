//! A namespace with a million one-shots that wait, 4,000 queues and nearly as many lanes as it may have: the start of a node, a run in each
//! queue, and the longest calls to Redis meanwhile.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use redis::{Connection, Value};
use serde_json::json;

use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::until;
use crate::{PATIENCE, add_lines};

const QUEUES: u32 = 4_000;
/// The queues with three further lanes each, one for each priority.
const URGENT: u32 = 3_330;
const WAITING: u32 = 1_000_000;
const LINES: u32 = 100_000;
/// The calls that are listed, in microseconds.
const LONG: u64 = 2_000;
/// The time in which a node looks at all its data after its start.
const LOOKED: Duration = Duration::from_secs(60);

/// Prints the figures.
pub(crate) fn crowd() {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    let mut file = String::new();
    for queue in 0..QUEUES {
        writeln!(file, "[queues.q{queue}]").unwrap();
    }
    let started = Instant::now();
    let node = Schedd::on(&redis).jobs(&file).start();
    node.wait_for_log("All jobs of the jobs file are applied");
    println!("{QUEUES} new queues: a node starts in {:.1} s", started.elapsed().as_secs_f64());
    drop(node);
    let far = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(30);
    for first in (0..WAITING).step_by(LINES as usize) {
        add(&redis, first..first + LINES, far);
    }
    let of_slow_log =
        [["slowlog-log-slower-than", &LONG.to_string()], ["slowlog-max-len", "10000"]];
    for setting in of_slow_log {
        let () = redis::cmd("CONFIG").arg("SET").arg(&setting).query(&mut connection).unwrap();
    }
    let () = redis::cmd("SLOWLOG").arg("RESET").query(&mut connection).unwrap();
    let started = Instant::now();
    let node = Schedd::on(&redis).jobs(&file).start();
    node.wait_for_log("All jobs of the jobs file are applied");
    println!(
        "{WAITING} jobs wait in {} lanes: a node starts in {:.1} s",
        QUEUES + 3 * URGENT,
        started.elapsed().as_secs_f64()
    );
    std::thread::sleep(LOOKED);
    print_long_calls("after the start", &mut connection);
    let eye = Eye::on(&redis);
    let due = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(5);
    add(&redis, WAITING..WAITING + QUEUES, due);
    until("all runs have ended", PATIENCE, || {
        let stats = eye.ask(eye.store().read_stats()).unwrap();
        (stats.totals.get("succeeded") == Some(&u64::from(QUEUES))).then_some(())
    });
    let took = jiff::Timestamp::now().duration_since(due);
    println!("{QUEUES} programs due at once, one in each queue: {:.1} s", took.as_secs_f64());
    print_long_calls("while they ran", &mut connection);
}

/// Adds one-shots due at `at` to all queues in turns. Every fourth time a job has no priority.
fn add(redis: &TestRedis, numbers: std::ops::Range<u32>, at: jiff::Timestamp) {
    let mut lines = String::new();
    for number in numbers {
        let queue = number % QUEUES;
        let priority = if queue < URGENT { number / QUEUES % 4 } else { 0 };
        let job = json!({"name": format!("n{number}"), "at": at.to_string(), "queue": format!("q{queue}"), "priority": priority, "command": ["/bin/true"]});
        writeln!(lines, "{job}").unwrap();
    }
    add_lines(redis, &lines);
}

/// Prints the long calls since the last time: for each command, or script and its first key, their number and the longest.
fn print_long_calls(when: &str, connection: &mut Connection) {
    let entries: Vec<Vec<Value>> =
        redis::cmd("SLOWLOG").arg("GET").arg(-1).query(connection).unwrap();
    let () = redis::cmd("SLOWLOG").arg("RESET").query(connection).unwrap();
    let mut calls: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for entry in entries {
        let micros: u64 = redis::from_redis_value(entry[2].clone()).unwrap();
        let words: Vec<String> = redis::from_redis_value(entry[3].clone()).unwrap();
        let name = words.iter().take(5).map(|word| &word[..word.len().min(30)]).collect::<Vec<_>>();
        calls.entry(name.join(" ")).or_default().push(micros);
    }
    println!(
        "calls of {} ms and more {when}: {}",
        LONG / 1_000,
        calls.values().map(Vec::len).sum::<usize>()
    );
    for (name, micros) in calls {
        #[expect(clippy::cast_precision_loss, reason = "microseconds")]
        let longest = micros.iter().copied().max().unwrap_or(0) as f64 / 1e3;
        println!("  {:>5} up to {longest:.1} ms: {name}", micros.len());
    }
}
