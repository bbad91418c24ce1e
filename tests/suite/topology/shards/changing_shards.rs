//! Shards that are added to a running namespace, and files that name other shards.

use std::collections::BTreeSet;

use super::await_shards;
use super::shard_scene::{SPREAD, ShardScene, live_jobs, names};
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};
use crate::topology::place::Place;
use crate::topology::tcp_server::TcpServer;

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
    // A job whose place by the new map is another shard is found where it is.
    for name in &before {
        scene.ctl.run(&["show", name]).good();
        scene.ctl.run(&["export", name]).good();
    }
    let mut connection = redis.connection();
    for shard in 0..3 {
        assert!(!live_jobs(&mut connection, Some(shard)).is_empty(), "shard {shard}");
    }
    // Until now, no run could begin: the queue was paused.
    scene.ctl.run(&["queue", "resume", "mail"]).good();
    let after = names("after", 30);
    scene.add(&after, "1s", &[]).good();
    scene.assert_each_runs_once(&after);
    let on_new = scene.effects.all().into_iter().filter(|effect| {
        [3, 4].iter().any(|shard| {
            let key = format!("{{schedd.{shard}}}:run:{}", effect.run);
            redis::cmd("EXISTS").arg(key).query(&mut connection).unwrap()
        })
    });
    assert!(on_new.count() >= 3);
    scene.assert_each_runs_once(&before);
}

#[test]
fn a_file_with_fewer_shards_changes_nothing_and_the_log_says_so() {
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
}

#[test]
fn a_file_with_other_servers_changes_nothing_and_the_node_says_so() {
    let here = Place::here();
    let [home, first, second] = [0; 3].map(|_| TcpServer::of_data(&here, &[]));
    let file = |shard: &TcpServer| {
        format!(
            "[redis]\nurl = \"redis://{}/0\"\nshards = [{:?}]\n{SPREAD}",
            home.address(),
            shard.address()
        )
    };
    let node = Schedd::with_private_redis().node("one").jobs(&file(&first)).start();
    await_shards(&node, 1);
    let other = Schedd::with_private_redis().node("two").jobs(&file(&second)).start();
    other.wait_for_log("shards can only be added at the end");
    let recorded: String = home.ask(&["GET", "{schedd}:shards"]).unwrap();
    assert_eq!(recorded, format!("servers {}", first.address()));
    let scene = ShardScene::new(&file(&first));
    until("the node names the problem", LONG, || {
        let nodes = scene.ctl.run(&["nodes", "--json"]).good().stdout;
        nodes.contains("[redis] shards was refused").then_some(())
    });
    let report = scene.ctl.run(&["doctor"]);
    assert!(report.stdout.contains("[redis] shards was refused"), "{report:?}");
    let without = format!("[redis]\nurl = \"redis://{}/0\"\n{SPREAD}", home.address());
    std::fs::write(other.jobs_file(), without).unwrap();
    until("the problem is over", LONG, || {
        let nodes = scene.ctl.run(&["nodes", "--json"]).good().stdout;
        (!nodes.contains("[redis] shards was refused")).then_some(())
    });
}

#[test]
fn an_add_after_growth_finds_the_job_where_it_is() {
    let redis = TestRedis::start();
    let file =
        |shards: u32| format!("[redis]\nurl = {:?}\nshards = {shards}\n{SPREAD}", redis.url());
    let scene = ShardScene::new(&file(2));
    let node = Schedd::with_private_redis().jobs(&file(2)).start();
    await_shards(&node, 2);
    let jobs = names("mail", 20);
    scene.add(&jobs, "1h", &[]).good();
    for number in 0..20 {
        scene.add_unique(number).good();
    }
    std::fs::write(node.jobs_file(), file(6)).unwrap();
    await_shards(&node, 6);
    let mut connection = redis.connection();
    let recorded: String = redis::cmd("GET").arg("{schedd}:shards").query(&mut connection).unwrap();
    assert_eq!(recorded, "count 6 after 2");
    let live = |connection: &mut redis::Connection| -> Vec<BTreeSet<String>> {
        (0..6).map(|shard| live_jobs(connection, Some(shard))).collect()
    };
    let before = live(&mut connection);
    // An add of the same jobs finds all of them, and an edit changes them where they are.
    for more in ["--if-absent", "--replace"] {
        let lines = scene.lines(&jobs, "2h", &[]);
        scene.ctl.run_with_input(&["add", "--stdin", more], &lines).good();
    }
    let again = scene.add(&jobs, "1h", &[]);
    assert_eq!((again.code, again.stderr.matches("exists already").count()), (1, 20), "{again:?}");
    for number in 0..20 {
        scene.add_unique(number).refused(4, &[&format!("only-{number}")]);
    }
    let edit = ["add", "--replace", "--name", "mail3", "--in", "3h", "--queue", "mail"];
    scene.ctl.run(&[&edit[..], &["--", "true"]].concat()).good();
    assert_eq!(live(&mut connection), before);
    // Jobs of new names are placed by the new map.
    scene.add(&names("new", 20), "1h", &[]).good();
    assert!((2..6).any(|shard| !live_jobs(&mut connection, Some(shard)).is_empty()));
}

#[test]
fn a_verb_refuses_a_name_that_two_shards_have_and_names_both() {
    let redis = TestRedis::start();
    let file = format!("[redis]\nurl = {:?}\nshards = 4\n{SPREAD}", redis.url());
    let scene = ShardScene::new(&file);
    let node = Schedd::with_private_redis().jobs(&file).start();
    await_shards(&node, 4);
    let name = ["twice".to_owned()];
    // By these keys the jobs belong to two shards.
    for key in ["a", "mail-1"] {
        scene.add(&name, "1h", &[("key", key)]).good();
    }
    let places: Vec<String> = (0..4)
        .filter(|shard| live_jobs(&mut redis.connection(), Some(*shard)).contains("twice"))
        .map(|shard| format!("schedd.{shard}"))
        .collect();
    assert_eq!(places.len(), 2);
    scene.ctl.run(&["cancel", "twice"]).refused(4, &[&places[0], &places[1], "--namespace"]);
    scene.ctl.run(&["--namespace", &places[0], "cancel", "twice"]).good();
    let shown = scene.ctl.run(&["show", "twice", "--json"]).good().json();
    assert_eq!(format!("schedd.{}", shown["shard"]), places[1]);
    let shown = scene.ctl.run(&["show", "twice"]).good().stdout;
    assert!(shown.contains(&format!("namespace {} at", places[1])), "{shown}");
    scene.ctl.run(&["cancel", "twice"]).good();
    // A job does not change its shard by an edit.
    let moved = ["moved".to_owned()];
    scene.add(&moved, "1h", &[("key", "a")]).good();
    let edit = ["add", "--replace", "--name", "moved", "--in", "1h", "--queue", "mail", "--key"];
    let why = "the new definition belongs to";
    scene.ctl.run(&[&edit[..], &["mail-1", "--", "true"]].concat()).refused(4, &[why]);
    let lines = scene.lines(&moved, "1h", &[("key", "mail-1")]);
    let refused = scene.ctl.run_with_input(&["add", "--stdin", "--replace"], &lines);
    refused.refused(1, &[why]);
    scene.ctl.run(&[&edit[..], &["a", "--", "true"]].concat()).good();
}

#[test]
fn a_live_job_of_the_namespace_itself_keeps_its_name_from_shards() {
    let redis = TestRedis::start();
    let file = format!("[redis]\nurl = {:?}\nshards = 4\n{SPREAD}", redis.url());
    let scene = ShardScene::new(&file);
    let node = Schedd::with_private_redis().jobs(&file).start();
    await_shards(&node, 4);
    let name = ["report".to_owned()];
    let at_home = |more: &[&str]| {
        let add = ["add", "--name", "report", "--unique", "of-report"];
        scene.ctl.run(&[&add[..], more, &["--", "true"]].concat()).good();
    };
    at_home(&["--every", "1h"]);
    scene.add(&name, "1h", &[]).refused(1, &["job report exists already"]);
    let unique = [("unique", "of-report")];
    scene.add(&names("other", 1), "1h", &unique).refused(1, &["of-report"]);
    scene.ctl.run(&["cancel", "report"]).good();
    scene.add(&name, "1h", &[]).good();
    scene.add(&names("other", 1), "1h", &unique).good();
    let mut connection = redis.connection();
    let on_shards: BTreeSet<String> =
        (0..4).flat_map(|shard| live_jobs(&mut connection, Some(shard))).collect();
    assert_eq!(on_shards, BTreeSet::from(["other0".to_owned(), "report".to_owned()]));
    // A job that is added to the namespace itself asks no shard. Then verbs take this job.
    let add = ["add", "--name", "report", "--every", "1h", "--", "true"];
    scene.ctl.run(&add).good();
    let shard = || scene.ctl.run(&["show", "report", "--json"]).good().json()["shard"].clone();
    assert!(shard().is_null());
    // An edit by flags changes the job of the shard, to which its queue belongs.
    let edit = ["add", "--replace", "--name", "report", "--in", "2h", "--queue", "mail"];
    scene.ctl.run(&[&edit[..], &["--", "true"]].concat()).good();
    scene.ctl.run(&["cancel", "report"]).good();
    assert!(shard().is_u64());
    // An ended job with a fixed time keeps no later job from another key.
    let is_refused = |key: &str| {
        let time = ["add", "--replace", "--name", "fixed", "--at", "2099-01-01T00:00:00Z"];
        let added =
            scene.ctl.run(&[&time[..], &["--queue", "mail", "--key", key, "--", "true"]].concat());
        assert!([0, 4].contains(&added.code), "{added:?}");
        added.stderr.contains("the new definition belongs to")
    };
    assert_eq!(["a", "mail-1"].map(is_refused), [false, true]);
    scene.ctl.run(&["cancel", "fixed"]).good();
    assert_eq!(["mail-1", "a"].map(is_refused), [false, true]);
}
