//! A namespace with shards: where jobs are, what verbs and the API show of it, and what happens if
//! shards are lost or added.

mod changing_shards;
mod lists;
mod losing_shards;
mod placing;
mod shard_scene;
mod sharing_slots;
mod verbs;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// A jobs file with four shards and a queue whose one-shots are placed on them.
const FILE: &str = "[redis]\nshards = 4\n[queues.mail]\nspread = true\n";

/// Waits until the node serves this number of shards.
pub(crate) fn await_shards(node: &Schedd, count: usize) {
    until("the node serves all shards", LONG, || {
        (node.log().matches("This node serves the shard").count() == count).then_some(())
    });
}

/// Starts a node with four shards and waits until it serves them.
fn start(redis: &TestRedis) -> Schedd {
    let node = Schedd::on(redis).jobs(FILE).start();
    await_shards(&node, 4);
    node
}

/// Adds a one-shot of the spread queue that prints `out` in an hour. Returns its name.
fn add(ctl: &Schedctl, number: usize, when: &str) -> String {
    let name = format!("mail-{number}");
    let shell = format!("echo out {number}");
    ctl.run(&["add", "--name", &name, "--queue", "mail", "--in", when, "--shell", &shell]).good();
    name
}

/// Adds eight one-shots, the first due first, and checks that several shards have them.
fn add_eight(redis: &TestRedis, ctl: &Schedctl, when: impl Fn(usize) -> String) -> Vec<String> {
    let names: Vec<String> = (0..8).map(|number| add(ctl, number, &when(number))).collect();
    let mut connection = redis.connection();
    let mut count =
        |key: String| -> usize { redis::cmd("ZCARD").arg(key).query(&mut connection).unwrap() };
    let live =
        |shard: usize| [format!("{{schedd.{shard}}}:jobs"), format!("{{schedd.{shard}}}:finished")];
    let used = (0..4).filter(|shard| live(*shard).into_iter().any(|key| count(key) > 0)).count();
    assert!(used > 1, "the jobs are on {used} shards");
    names
}
