//! Nodes on a real Redis Cluster follow the primary of their namespace, through a failover on demand
//! and a crash. No run is lost.

use super::cluster_nodes::Cluster;
use super::failover_scene::FailoverScene;
use super::tcp_server::TcpServer;
use crate::support::ctl::Schedctl;
use crate::support::wait::{LONG, until};

#[test]
fn the_primary_of_the_namespace_is_followed_through_two_failovers() {
    let mut cluster = Cluster::start();
    let scene = FailoverScene::start(&cluster.section());
    let (first, second) = cluster.owner();
    let () = cluster.nodes[second].ask(&["CLUSTER", "FAILOVER"]).unwrap();
    until("the replica takes over", LONG, || {
        Some(()).filter(|()| cluster.owner() == (second, first))
    });
    scene.until_beats();
    scene.ctl.run(&["list"]).good();
    let caught_up: u8 = cluster.nodes[second].ask(&["WAIT", "1", "5000"]).unwrap();
    assert_eq!(caught_up, 1);
    cluster.nodes[second].kill9();
    scene.until_beats();
    scene.assert_all_done_once();
}

#[test]
fn a_node_of_a_cluster_given_as_one_server_is_refused_with_the_right_form() {
    let cluster = Cluster::start();
    let ctl = Schedctl::alone();
    let place = format!("127.0.0.1:{}", cluster.nodes[1].port);
    let url = format!("redis://{place}");
    ctl.run(&["--redis", &url, "list"]).refused(69, &["Cluster", "redis+cluster://"]);
    ctl.run(&["--redis", &format!("redis+cluster://{place}"), "list"]).good();
    let numbered = format!("redis+cluster://{place}/1");
    ctl.run(&["--redis", &numbered, "list"]).refused(2, &["only the database 0"]);
}

/// The slot of the keys `{schedd}:...`, by CLUSTER KEYSLOT of a server.
const SLOT: &str = "15156";

/// Moves a key from one node to another.
fn migrate(from: &TcpServer, to: &TcpServer, key: &str) {
    let port = to.port.to_string();
    let moved: String = from.ask(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]).unwrap();
    assert!(moved == "OK" || moved == "NOKEY", "{key}: {moved}");
}

#[test]
fn leases_are_renewed_while_the_slot_of_the_namespace_moves() {
    let cluster = Cluster::start();
    let scene = FailoverScene::start(&cluster.section());
    let long = scene.effects.shell("sleep 14");
    scene.ctl.run(&["add", "--name", "long", "--in", "0s", "--shell", &long]).good();
    until("the long run has begun", LONG, || scene.effects.of("long").pop().map(|_| ()));
    let from = &cluster.nodes[cluster.owner().0];
    let is_other = |node: &&TcpServer| {
        let info: String = node.ask(&["INFO", "replication"]).unwrap();
        node.port != from.port && info.contains("role:master")
    };
    let to = cluster.nodes.iter().find(is_other).unwrap();
    let id = |node: &TcpServer| -> String { node.ask(&["CLUSTER", "MYID"]).unwrap() };
    let (from_id, to_id) = (id(from), id(to));
    let () = to.ask(&["CLUSTER", "SETSLOT", SLOT, "IMPORTING", &from_id]).unwrap();
    let () = from.ask(&["CLUSTER", "SETSLOT", SLOT, "MIGRATING", &to_id]).unwrap();
    // A key that is gone makes scripts with several keys wait for the end of the move.
    migrate(from, to, "{schedd}:fence");
    let lease = |node: &TcpServer| -> Option<f64> {
        let mut connection = node.connection().unwrap();
        let mut pipeline = redis::pipe();
        pipeline.cmd("ASKING").ignore();
        pipeline.cmd("ZRANGE").arg(&["{schedd}:leases", "0", "-1", "WITHSCORES"]);
        let (leases,): (Vec<(String, f64)>,) = pipeline.query(&mut connection).ok()?;
        leases.into_iter().find(|(run, _)| run.starts_with("long@")).map(|(_, end)| end)
    };
    for node in [from, to] {
        if node.port == to.port {
            migrate(from, to, "{schedd}:leases");
        }
        // Two renewals: the first may have been under way before.
        for _ in 0..2 {
            let before = lease(node).unwrap();
            until("the lease is renewed", LONG, || lease(node).filter(|end| *end > before));
        }
    }
    loop {
        let keys: Vec<String> = from.ask(&["CLUSTER", "GETKEYSINSLOT", SLOT, "100"]).unwrap();
        if keys.is_empty() {
            break;
        }
        for key in keys {
            migrate(from, to, &key);
        }
    }
    for node in [to, from] {
        let () = node.ask(&["CLUSTER", "SETSLOT", SLOT, "NODE", &to_id]).unwrap();
    }
    scene.until_beats();
    let ended = || scene.effects.of("long").into_iter().find(|effect| effect.ended.is_some());
    until("the long run has ended", LONG, ended);
    assert_eq!(scene.effects.of("long").len(), 1);
    scene.assert_all_done_once();
}
