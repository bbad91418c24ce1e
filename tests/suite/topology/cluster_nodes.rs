//! A Redis Cluster of six nodes.

use std::process::Command;

use super::place::Place;
use super::tcp_server::TcpServer;
use crate::support::wait::{LONG, until};

/// Three primaries with a replica each.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<TcpServer>,
}

impl Cluster {
    /// Starts all on this host.
    pub(crate) fn start() -> Self {
        let here = Place::here();
        Self::start_at(&[&here; 3])
    }

    /// Starts two nodes at each place. A primary and its replica are at different places as far as there
    /// are.
    pub(crate) fn start_at(places: &[&Place; 3]) -> Self {
        let words = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500"];
        let start = |at: usize| TcpServer::of_data(places[at % places.len()], &words);
        let nodes: Vec<TcpServer> = (0..6).map(start).collect();
        let hosts = nodes.iter().map(TcpServer::address);
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(hosts)
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let cluster = Self { nodes };
        until("all nodes know the cluster and follow", LONG, || {
            let is_well = |node: &TcpServer| {
                let info: String = node.ask(&["CLUSTER", "INFO"]).ok()?;
                let table: String = node.ask(&["CLUSTER", "NODES"]).ok()?;
                let replication: String = node.ask(&["INFO", "replication"]).ok()?;
                let follows = !replication.contains("role:slave")
                    || replication.contains("master_link_status:up");
                let replicas = table.lines().filter(|line| line.contains("slave")).count();
                (info.contains("cluster_state:ok") && replicas == 3 && follows).then_some(())
            };
            cluster.nodes.iter().all(|node| is_well(node).is_some()).then_some(())
        });
        cluster
    }

    pub(crate) fn section(&self) -> String {
        // The nodes learn the others.
        format!("cluster = [{:?}]\n", self.nodes[0].address())
    }

    /// Returns the primary of the namespace `schedd` and its replica.
    pub(crate) fn owner(&self) -> (usize, usize) {
        self.owner_of("schedd")
    }

    /// Returns the primary of a namespace and its replica.
    pub(crate) fn owner_of(&self, namespace: &str) -> (usize, usize) {
        let key = format!("{{{namespace}}}:epoch");
        until("the namespace has a primary with a replica", LONG, || {
            let has_data = |node: &&TcpServer| {
                let info: Option<String> = node.ask(&["INFO", "replication"]).ok();
                info.is_some_and(|info| info.contains("role:master"))
                    && node.ask::<Option<String>>(&["GET", &key]).is_ok()
            };
            let owner = self.nodes.iter().position(|node| has_data(&node))?;
            let follows = format!("master_port:{}", self.nodes[owner].port);
            let is_replica = |node: &&TcpServer| {
                let info: Option<String> = node.ask(&["INFO", "replication"]).ok();
                info.is_some_and(|info| {
                    info.contains(&follows) && info.contains("master_link_status:up")
                })
            };
            let replica = self.nodes.iter().position(|node| is_replica(&node))?;
            Some((owner, replica))
        })
    }

    /// Returns a primary other than `owner`.
    pub(crate) fn other_primary(&self, owner: usize) -> usize {
        self.primaries().find(|at| *at != owner).unwrap()
    }

    /// Returns the places of all primaries.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = usize> {
        let is_primary = |node: &TcpServer| {
            let info: Option<String> = node.ask(&["INFO", "replication"]).ok();
            info.is_some_and(|info| info.contains("role:master"))
        };
        (0..self.nodes.len()).filter(move |at| is_primary(&self.nodes[*at]))
    }

    fn slot_of(&self, namespace: &str) -> String {
        let key = format!("{{{namespace}}}:epoch");
        // Any node that lives knows the answer.
        let slot = |node: &TcpServer| node.ask::<u16>(&["CLUSTER", "KEYSLOT", &key]).ok();
        self.nodes.iter().find_map(slot).unwrap().to_string()
    }

    /// Lets the slot of the namespace begin to move to another primary.
    pub(crate) fn begin_move(&self, namespace: &str, from: usize, to: usize) {
        let slot = &self.slot_of(namespace);
        let id = |at: usize| -> String { self.nodes[at].ask(&["CLUSTER", "MYID"]).unwrap() };
        let (from_id, to_id) = (id(from), id(to));
        let () = self.nodes[to].ask(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &from_id]).unwrap();
        let () = self.nodes[from].ask(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &to_id]).unwrap();
    }

    /// Moves keys, from one node to another.
    pub(crate) fn move_keys(&self, from: usize, to: usize, keys: &[String]) {
        let port = self.nodes[to].port.to_string();
        let address = &self.nodes[to].place.address;
        let mut words = vec!["MIGRATE", address, &port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        let moved: String = self.nodes[from].ask(&words).unwrap();
        assert!(moved == "OK" || moved == "NOKEY", "{moved}");
    }

    /// Moves the other keys of the namespace, and then the slot. Waits until a replica has the keys.
    pub(crate) fn end_move(&self, namespace: &str, from: usize, to: usize) {
        let slot = &self.slot_of(namespace);
        loop {
            let words = ["CLUSTER", "GETKEYSINSLOT", slot, "50"];
            let keys: Vec<String> = self.nodes[from].ask(&words).unwrap();
            if keys.is_empty() {
                break;
            }
            self.move_keys(from, to, &keys);
        }
        let id: String = self.nodes[to].ask(&["CLUSTER", "MYID"]).unwrap();
        for node in [to, from] {
            let () = self.nodes[node].ask(&["CLUSTER", "SETSLOT", slot, "NODE", &id]).unwrap();
        }
        // WAIT counts replicas that have the last change of its own connection.
        let mut connection = self.nodes[to].connection().unwrap();
        let mut pipeline = redis::pipe();
        pipeline.cmd("SET").arg(format!("{{{namespace}}}:replica_mark")).arg("").ignore();
        pipeline.cmd("WAIT").arg(1).arg(5_000);
        until("a replica has the keys", LONG, || {
            let (count,): (u8,) = pipeline.query(&mut connection).ok()?;
            (count > 0).then_some(())
        });
    }
}
