//! Nodes on a real Redis Cluster follow the primary of their namespace, through a failover on demand
//! and a crash. No run is lost.

use futures_util::{Stream, StreamExt as _};
use schedd_store::{Address, Keys, Store};

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

#[test]
fn leases_are_renewed_while_the_slot_of_the_namespace_moves() {
    let cluster = Cluster::start();
    let scene = FailoverScene::start(&cluster.section());
    let long = scene.effects.shell("sleep 14");
    scene.ctl.run(&["add", "--name", "long", "--in", "0s", "--shell", &long]).good();
    until("the long run has begun", LONG, || scene.effects.of("long").pop().map(|_| ()));
    let from = cluster.owner().0;
    let to = cluster.other_primary(from);
    cluster.begin_move("schedd", from, to);
    // A key that is gone makes scripts with several keys wait for the end of the move.
    cluster.move_keys(from, to, &["{schedd}:fence".to_owned()]);
    let lease = |node: &TcpServer| -> Option<f64> {
        let mut connection = node.connection().unwrap();
        let mut pipeline = redis::pipe();
        pipeline.cmd("ASKING").ignore();
        pipeline.cmd("ZRANGE").arg(&["{schedd}:leases", "0", "-1", "WITHSCORES"]);
        let (leases,): (Vec<(String, f64)>,) = pipeline.query(&mut connection).ok()?;
        leases.into_iter().find(|(run, _)| run.starts_with("long@")).map(|(_, end)| end)
    };
    for place in [from, to] {
        if place == to {
            cluster.move_keys(from, to, &["{schedd}:leases".to_owned()]);
        }
        let node = &cluster.nodes[place];
        // Two renewals: the first may have been under way before.
        for _ in 0..2 {
            let before = lease(node).unwrap();
            until("the lease is renewed", LONG, || lease(node).filter(|end| *end > before));
        }
    }
    cluster.end_move("schedd", from, to);
    scene.until_beats();
    let ended = || scene.effects.of("long").into_iter().find(|effect| effect.ended.is_some());
    until("the long run has ended", LONG, ended);
    assert_eq!(scene.effects.of("long").len(), 1);
    scene.assert_all_done_once();
}

/// Subscribes when a node names the new primary.
async fn resubscribed(store: &Store) -> impl Stream<Item = String> + use<> {
    let subscribing = async {
        loop {
            if let Ok(nudges) = store.nudges().await {
                break nudges;
            }
        }
    };
    tokio::time::timeout(LONG, subscribing).await.unwrap()
}

async fn first(messages: impl Stream<Item = String>) -> String {
    let mut messages = std::pin::pin!(messages);
    tokio::time::timeout(LONG, messages.next()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_reach_the_nodes_without_all_of_the_cluster() {
    let cluster = Cluster::start();
    let url = format!("redis+cluster://127.0.0.1:{}", cluster.nodes[0].port);
    let keys = Keys::new("schedd").unwrap();
    let store = Store::new(&Address::parse(&url).unwrap(), keys).unwrap();
    let (nudges, changes) = (store.nudges().await.unwrap(), store.job_changes().await.unwrap());
    let add = ["--redis", &url, "add", "--name", "hourly", "--every", "1h", "--shell", "true"];
    tokio::task::block_in_place(|| Schedctl::alone().run(&add).good());
    assert_eq!(first(nudges).await, "due");
    assert!(first(changes).await.starts_with("hourly {"));
    let nudges = store.nudges().await.unwrap();
    let from = cluster.owner().0;
    let to = cluster.other_primary(from);
    tokio::task::block_in_place(|| {
        cluster.begin_move("schedd", from, to);
        cluster.end_move("schedd", from, to);
    });
    let mut nudges = std::pin::pin!(nudges);
    let is_over = async { while nudges.next().await.is_some() {} };
    tokio::time::timeout(LONG, is_over).await.unwrap();
    let nudges = resubscribed(&store).await;
    let add = ["--redis", &url, "add", "--name", "minutely", "--every", "1m", "--shell", "true"];
    tokio::task::block_in_place(|| Schedctl::alone().run(&add).good());
    assert_eq!(first(nudges).await, "due");
    for node in &cluster.nodes {
        let info: String = node.ask(&["CLUSTER", "INFO"]).unwrap();
        assert!(!info.contains("messages_publish_sent"), "{info}");
    }
}
