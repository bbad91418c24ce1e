//! Nodes on a real Redis Cluster follow the primary of their namespace, through a failover on demand
//! and a crash. No run is lost.

use super::cluster_nodes::Cluster;
use super::failover_scene::FailoverScene;
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
