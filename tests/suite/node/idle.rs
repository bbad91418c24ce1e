//! What an idle node costs: the commands of Redis' own statistics, counted by polls and not by time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// The polls of one count.
const POLLS: u64 = 6;
/// The commands that a short poll sends.
const OF_A_POLL: u64 = 2;
/// The commands of all other loops during so many polls: a heartbeat with all facts, a short
/// heartbeat, the look for overdue runs, and the reading of this node's file in Redis.
const OF_THE_REST: u64 = 24;

/// Returns how often each command was called, also in scripts, less those of this test itself.
fn calls(connection: &mut redis::Connection) -> BTreeMap<String, u64> {
    let text: String = redis::cmd("INFO").arg("commandstats").query(connection).unwrap();
    let read = |line: &str| {
        let (command, facts) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((command.to_owned(), facts.split(',').next()?.parse().ok()?))
    };
    let mut calls: BTreeMap<String, u64> = text.lines().filter_map(read).collect();
    calls.remove("info");
    calls
}

#[test]
fn an_idle_node_sends_two_commands_a_poll_whatever_waits_and_in_however_many_lanes() {
    let redis = TestRedis::start();
    let mut file = String::new();
    for number in 0..40 {
        writeln!(file, "[queues.q{number}]\nwarn_depth = 1000\nwarn_oldest = \"5m\"").unwrap();
    }
    let node = Schedd::on(&redis).jobs(&file).start();
    node.wait_for_log("All jobs of the jobs file are applied");
    let lines: String = (0..400)
        .map(|number| {
            let (queue, priority) = (number % 40, number % 7);
            format!(
                r#"{{"name":"w{number}","at":"2035-01-01T00:00:00Z","shell":"true","queue":"q{queue}","priority":{priority}}}"#
            ) + "\n"
        })
        .collect();
    Schedctl::on(&redis).run_with_input(&["add", "--stdin"], lines.as_bytes()).good();
    // After its start, a node looks some times at all plans.
    let mut connection = redis.connection();
    let (mut since, mut last) = (calls(&mut connection), String::new());
    until("the node is idle", LONG * 2, || {
        let now = calls(&mut connection);
        let count =
            |calls: &BTreeMap<String, u64>, command: &str| calls.get(command).copied().unwrap_or(0);
        let polls = count(&now, "mget") - count(&since, "mget");
        if polls < POLLS {
            return None;
        }
        let sent: BTreeMap<&String, u64> =
            now.iter().map(|(command, calls)| (command, calls - count(&since, command))).collect();
        let all: u64 = sent.values().sum();
        last = format!("{sent:?}");
        since = now.clone();
        Some(()).filter(|()| all <= polls * OF_A_POLL + OF_THE_REST)
    });
    println!("{last}");
}
