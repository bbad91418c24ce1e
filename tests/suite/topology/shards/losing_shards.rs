//! A shard on a server that does not answer: only its own jobs wait.

use rustix::process::Signal;

use super::await_shards;
use super::shard_scene::{SPREAD, ShardScene, names};
use crate::support::daemon::Schedd;
use crate::support::wait::{LONG, until};
use crate::topology::place::Place;
use crate::topology::tcp_server::TcpServer;

#[test]
fn a_lost_shard_stops_only_its_own_jobs_and_loses_none() {
    let here = Place::here();
    let [home, first, second] = [0; 3].map(|_| TcpServer::of_data(&here, &[]));
    let file = format!(
        "[daemon]\nlease = \"5s\"\n[redis]\nurl = \"redis://{}/0\"\nshards = [{:?}, {:?}]\n{SPREAD}",
        home.address(),
        first.address(),
        second.address()
    );
    let scene = ShardScene::new(&file);
    let node = Schedd::with_private_redis().jobs(&file).start();
    await_shards(&node, 2);
    let jobs = names("job", 24);
    scene.add(&jobs, "4s", &[]).good();
    let jobs_of = |server: &TcpServer, shard: u32| -> Vec<String> {
        server.ask(&["ZRANGE", &format!("{{schedd.{shard}}}:jobs"), "0", "-1"]).unwrap()
    };
    let (of_first, of_second) = (jobs_of(&first, 0), jobs_of(&second, 1));
    assert!(of_first.len() >= 3 && of_second.len() >= 3, "{of_first:?} {of_second:?}");
    first.signal(Signal::STOP);
    scene.assert_each_runs_once(&of_second);
    scene.ctl.run(&["add", "--in", "0s", "--name", "at-home", "--", "true"]).good();
    until("a job at home has run", LONG, || {
        let history = scene.ctl.run(&["history", "at-home"]);
        history.stdout.contains("succeeded").then_some(())
    });
    let ran = scene.effects.all().len();
    assert_eq!(ran, of_second.len(), "no job of the lost shard runs");
    first.signal(Signal::CONT);
    scene.assert_each_runs_once(&jobs);
}

#[test]
fn a_new_server_becomes_a_shard_when_it_answers_and_may_be_away_later() {
    let here = Place::here();
    let [home, shard] = [0; 2].map(|_| TcpServer::of_data(&here, &[]));
    let file = format!(
        "[redis]\nurl = \"redis://{}/0\"\nshards = [{:?}]\n{SPREAD}",
        home.address(),
        shard.address()
    );
    shard.signal(Signal::STOP);
    let scene = ShardScene::new(&file);
    let mut node = Schedd::with_private_redis().jobs(&file).start();
    until("the node names the new server", LONG, || {
        let nodes = scene.ctl.run(&["nodes", "--json"]).good().json();
        let error = nodes[0]["config_error"].as_str()?;
        error.contains(&format!("the new server {}", shard.address())).then_some(())
    });
    assert!(!home.ask::<bool>(&["EXISTS", "{schedd}:shards"]).unwrap());
    shard.signal(Signal::CONT);
    node.wait_for_log("This node serves the shard.");
    until("the problem is over", LONG, || {
        let nodes = scene.ctl.run(&["nodes", "--json"]).good().json();
        nodes[0]["config_error"].is_null().then_some(())
    });
    node.term();
    node.wait_exit();
    shard.signal(Signal::STOP);
    let node = Schedd::with_private_redis().jobs(&file).start();
    node.wait_for_log(&format!("{}/0 cannot be reached", shard.address()));
    let refused = scene.add(&names("early", 1), "0s", &[]);
    refused.refused(69, &[&shard.address()]);
    shard.signal(Signal::CONT);
    node.wait_for_log("This node serves the shard.");
    let jobs = names("job", 3);
    scene.add(&jobs, "0s", &[]).good();
    scene.assert_each_runs_once(&jobs);
    // The node writes a lost record again, though the shard does not answer.
    shard.signal(Signal::STOP);
    let () = home.ask(&["DEL", "{schedd}:shards"]).unwrap();
    until("the record is back", LONG, || {
        let record: Option<String> = home.ask(&["GET", "{schedd}:shards"]).ok()?;
        (record? == format!("servers {}", shard.address())).then_some(())
    });
    shard.signal(Signal::CONT);
}
