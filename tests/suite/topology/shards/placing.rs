//! The place of each job: a shard for one-shots of a spread queue, else the namespace itself.

use std::collections::BTreeSet;

use super::await_shards;
use super::shard_scene::{SPREAD, ShardScene, live_jobs, names};
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::topology::cluster_nodes::Cluster;

fn file_of(redis: &TestRedis) -> String {
    format!(
        "[redis]\nurl = {:?}\nshards = 4\n{SPREAD}[groups.g]\nmode = \"exclusive\"\n",
        redis.url()
    )
}

#[test]
fn one_shots_of_a_spread_queue_run_once_each_on_all_shards_and_others_stay_at_home() {
    let redis = TestRedis::start();
    let file = file_of(&redis);
    let scene = ShardScene::new(&file);
    let node = Schedd::with_private_redis().jobs(&file).start();
    await_shards(&node, 4);
    let spread = names("spread", 40);
    scene.add(&spread, "3s", &[]).good();
    scene.add(&names("grouped", 2), "1h", &[("group", "g")]).good();
    for args in [
        ["--name", "recurring", "--every", "1h", "--queue", "mail"],
        ["--name", "other-queue", "--in", "1h", "--queue", "default"],
    ] {
        let add = [&["add"], &args[..], &["--", "true"]].concat();
        scene.ctl.run(&add).good();
    }
    let mut connection = redis.connection();
    let mut placed = BTreeSet::new();
    for shard in 0..4 {
        let jobs = live_jobs(&mut connection, Some(shard));
        assert!(jobs.len() >= 3, "shard {shard} has {jobs:?}");
        placed.extend(jobs);
    }
    assert_eq!(placed, spread.iter().cloned().collect());
    let at_home = live_jobs(&mut connection, None);
    let wanted = ["grouped0", "grouped1", "other-queue", "recurring"];
    assert_eq!(at_home, wanted.map(str::to_owned).into());
    scene.assert_each_runs_once(&spread);
}

#[test]
fn jobs_of_one_key_or_unique_key_are_on_one_shard_whatever_their_names_are() {
    let redis = TestRedis::start();
    let file = file_of(&redis);
    let scene = ShardScene::new(&file);
    let node = Schedd::with_private_redis().jobs(&file).start();
    node.wait_for_log("This node serves the shard.");
    scene.add(&names("keyed", 12), "1h", &[("key", "customer-7")]).good();
    let mut connection = redis.connection();
    let counts = [0, 1, 2, 3].map(|shard| live_jobs(&mut connection, Some(shard)).len());
    assert_eq!(counts.iter().filter(|count| **count > 0).collect::<Vec<_>>(), [&12]);
    let both = [("key", "customer-7"), ("unique", "welcome-42")];
    scene.add(&names("both", 1), "1h", &both).refused(1, &["wanted only one of them"]);
    let unique = |name: &str| scene.add(&[name.to_owned()], "1h", &[("unique", "welcome-42")]);
    unique("first").good();
    for number in 0..6 {
        unique(&format!("again{number}")).refused(1, &["welcome-42", "held by job first"]);
    }
}

#[test]
fn shards_on_a_cluster_are_on_several_primaries() {
    let cluster = Cluster::start();
    let file = format!("[redis]\n{}shards = 8\n{SPREAD}", cluster.section());
    let scene = ShardScene::new(&file);
    let node = Schedd::with_private_redis().jobs(&file).start();
    node.wait_for_log("All jobs of the jobs file are applied");
    let jobs = names("job", 40);
    scene.add(&jobs, "2s", &[]).good();
    let with_jobs = cluster.nodes.iter().filter(|node| {
        let role: String = node.ask(&["INFO", "replication"]).unwrap();
        let keys: Vec<String> = node.ask(&["KEYS", "{schedd.*}:jobs"]).unwrap();
        role.contains("role:master") && !keys.is_empty()
    });
    assert!(with_jobs.count() >= 2);
    scene.assert_each_runs_once(&jobs);
}
