//! Shards that are added to a running namespace, and files that name other shards.

use super::await_shards;
use super::shard_scene::{SPREAD, ShardScene, live_jobs, names};
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;

#[test]
fn new_shards_are_served_without_a_restart_and_jobs_of_the_old_map_still_run() {
    let redis = TestRedis::start();
    let file =
        |shards: u32| format!("[redis]\nurl = {:?}\nshards = {shards}\n{SPREAD}", redis.url());
    let scene = ShardScene::new(&file(3));
    let node = Schedd::with_private_redis().jobs(&file(3)).start();
    await_shards(&node, 3);
    let before = names("before", 30);
    scene.add(&before, "15s", &[]).good();
    scene.ctl.run(&["queue", "set", "mail", "concurrency=7"]).good();
    scene.ctl.run(&["queue", "pause", "mail"]).good();
    std::fs::write(node.jobs_file(), file(5)).unwrap();
    await_shards(&node, 5);
    for shard in ["3", "4"] {
        let key = format!("{{schedd.{shard}}}:queue:mail");
        let fields: Vec<Option<String>> = redis::cmd("HMGET")
            .arg(key)
            .arg(&["concurrency", "paused_in"])
            .query(&mut redis.connection())
            .unwrap();
        assert_eq!(fields, [Some("7".to_owned()), Some("hand".to_owned())], "shard {shard}");
    }
    scene.ctl.run(&["queue", "resume", "mail"]).good();
    let after = names("after", 30);
    scene.add(&after, "1s", &[]).good();
    let mut connection = redis.connection();
    for shard in 0..3 {
        assert!(!live_jobs(&mut connection, Some(shard)).is_empty(), "shard {shard}");
    }
    scene.assert_each_runs_once(&after);
    let on_new = scene.effects.all().into_iter().filter(|effect| {
        [3, 4].iter().any(|shard| {
            let key = format!("{{schedd.{shard}}}:run:{}", effect.run);
            redis::cmd("EXISTS").arg(key).query(&mut connection).unwrap()
        })
    });
    assert!(on_new.count() >= 3);
    // A job whose place by the new map is another shard is found where it is.
    for name in &before {
        scene.ctl.run(&["show", name]).good();
        scene.ctl.run(&["export", name]).good();
    }
    scene.assert_each_runs_once(&before);
}

#[test]
fn a_file_with_fewer_or_other_shards_changes_nothing_and_the_log_says_so() {
    let redis = TestRedis::start();
    let file =
        |shards: &str| format!("[redis]\nurl = {:?}\nshards = {shards}\n{SPREAD}", redis.url());
    let node = Schedd::with_private_redis().node("one").jobs(&file("3")).start();
    node.wait_for_log("This node serves the shard.");
    let other = Schedd::with_private_redis().node("two").jobs(&file("2")).start();
    other.wait_for_log("The namespace has more shards than");
    let recorded: String =
        redis::cmd("GET").arg("{schedd}:shards").query(&mut redis.connection()).unwrap();
    assert_eq!(recorded, "count 3");
    let () = redis::cmd("SET")
        .arg("{schedd}:shards")
        .arg("servers h:1")
        .query(&mut redis.connection())
        .unwrap();
    let third = Schedd::with_private_redis().node("three").jobs(&file("2")).start();
    third.wait_for_log("shards can only be added at the end");
}
