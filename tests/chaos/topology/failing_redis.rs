//! The servers of a trial, and what happens to them. The same faults hit both kinds.

use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use super::cluster_nodes::Cluster;
use super::net_host::Network;
use super::place::Place;
use super::tcp_server::TcpServer;
use super::watched::Watched;
use crate::support::wait::{LONG, until};
use crate::world::keys::namespace;

/// The time for which a slot is on its way. It is longer than the lease of the nodes.
const MOVING: Duration = Duration::from_secs(8);

/// The time for which a host stays cut off after its primary has a successor.
const CUT: Duration = Duration::from_secs(3);

/// Who chooses the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Topology {
    /// Three Sentinels, for a primary with a replica.
    Sentinel,
    /// The nodes of a cluster: three primaries with a replica each.
    Cluster,
}

/// A Redis whose primary can fail.
pub(super) struct FailingRedis<'n> {
    servers: Servers,
    /// The network that connects the hosts of the servers. `None` if all servers run on this host.
    network: Option<&'n Network>,
    /// The number of shards of the namespace.
    shards: u32,
    /// The shard whose primary suffers; `None` for that of the namespace itself.
    pub(super) target: Option<u32>,
}

enum Servers {
    Watched(Watched),
    Cluster(Cluster),
}

/// What happens to the primary of the namespace, or of a shard.
#[derive(Debug, Clone, Copy)]
pub(super) enum ServerFault {
    Kill,
    Freeze,
    OnDemand,
    /// The network of its host is cut, and the primary goes on without the others. Only on hosts of a
    /// [`Network`].
    Cut,
    /// The cluster slot of the namespace or shard that suffers moves to another primary.
    Move,
}

impl<'n> FailingRedis<'n> {
    /// Starts the servers on the three hosts of `network`, or on this host.
    pub(super) fn start(topology: Topology, network: Option<&'n Network>, shards: u32) -> Self {
        let here = Place::here();
        let places = [0, 1, 2].map(|at| network.map_or(&here, |network| &network.hosts[at].place));
        let servers = match topology {
            Topology::Sentinel => Servers::Watched(Watched::start_at(&places)),
            Topology::Cluster => Servers::Cluster(Cluster::start_at(&places)),
        };
        Self { servers, network, shards, target: None }
    }

    /// Draws a fault, and the shard whose primary suffers it.
    pub(super) fn draw_fault(&mut self, rng: &mut Rng) -> ServerFault {
        if self.shards > 0 {
            self.target = rng.u32(..=self.shards).checked_sub(1);
        }
        let mut all = vec![ServerFault::Kill, ServerFault::Freeze, ServerFault::OnDemand];
        all.extend(self.may_cut().then_some(ServerFault::Cut));
        let is_cluster = matches!(self.servers, Servers::Cluster(_));
        all.extend(is_cluster.then_some(ServerFault::Move));
        all[rng.usize(..all.len())]
    }

    /// Returns true if the other hosts choose a successor when the host of the primary is cut off. In a
    /// cluster, they must have most of the primaries.
    fn may_cut(&self) -> bool {
        match (&self.servers, self.network) {
            (_, None) => false,
            (Servers::Watched(_), Some(_)) => true,
            (Servers::Cluster(cluster), Some(network)) => {
                let host = |node: usize| node % network.hosts.len();
                let owner = host(self.owner().0);
                let (with_owner, others): (Vec<_>, Vec<_>) =
                    cluster.primaries().partition(|node| host(*node) == owner);
                others.len() > with_owner.len()
            }
        }
    }

    /// Returns the keys of `[redis]` that name the servers.
    pub(super) fn section(&self) -> String {
        match &self.servers {
            Servers::Watched(watched) => watched.section(),
            Servers::Cluster(cluster) => cluster.section(),
        }
    }

    fn servers(&mut self) -> &mut Vec<TcpServer> {
        match &mut self.servers {
            Servers::Watched(watched) => &mut watched.servers,
            Servers::Cluster(cluster) => &mut cluster.nodes,
        }
    }

    /// Waits until the target has a primary with a replica. Returns the places of both.
    fn owner(&self) -> (usize, usize) {
        match &self.servers {
            Servers::Cluster(cluster) => cluster.owner_of(&namespace(self.target)),
            Servers::Watched(watched) => {
                watched.until_complete();
                until("the primary has a replica", LONG, || {
                    let is = |server: &TcpServer, words: &str| {
                        let info: Option<String> = server.ask(&["INFO", "replication"]).ok();
                        info.is_some_and(|info| info.contains(words))
                    };
                    let servers = &watched.servers;
                    let primary = servers.iter().position(|one| is(one, "role:master"))?;
                    let replica =
                        servers.iter().position(|one| is(one, "master_link_status:up"))?;
                    Some((primary, replica))
                })
            }
        }
    }

    /// Lets the primary fail, and waits until the replica is the primary and has a replica itself. The
    /// replica first gets no changes for the time `lag`, unless it is asked to take over.
    pub(super) fn suffer(&mut self, fault: ServerFault, lag: Duration) {
        let (primary, replica) = self.owner();
        let lags = !lag.is_zero() && matches!(fault, ServerFault::Kill | ServerFault::Freeze);
        if lags {
            self.servers()[replica].signal(Signal::STOP);
            // Else what is sent meanwhile waits for the replica in its socket.
            let _: redis::RedisResult<u32> =
                self.servers()[primary].ask(&["CLIENT", "KILL", "TYPE", "replica"]);
            std::thread::sleep(lag);
        }
        match fault {
            ServerFault::Move => return self.move_slot(primary),
            ServerFault::Kill => self.servers()[primary].kill9(),
            ServerFault::Freeze => self.servers()[primary].signal(Signal::STOP),
            ServerFault::OnDemand => {
                let asked: redis::RedisResult<()> = match &self.servers {
                    Servers::Watched(watched) => {
                        watched.sentinels[0].ask(&["SENTINEL", "FAILOVER", "prime"])
                    }
                    Servers::Cluster(cluster) => {
                        cluster.nodes[replica].ask(&["CLUSTER", "FAILOVER"])
                    }
                };
                asked.unwrap();
            }
            ServerFault::Cut => self.join_host_of(primary, false),
        }
        if lags {
            self.servers()[replica].signal(Signal::CONT);
        }
        until("the replica is the primary", LONG, || {
            let info: String = self.servers()[replica].ask(&["INFO", "replication"]).ok()?;
            info.contains("role:master").then_some(())
        });
        match (fault, &mut self.servers) {
            (ServerFault::Kill, Servers::Watched(watched)) => {
                watched.until_named(replica);
                watched.restart_as_replica(primary, replica);
            }
            (ServerFault::Kill, Servers::Cluster(cluster)) => cluster.nodes[primary].restart(),
            (ServerFault::Freeze, _) => {
                std::thread::sleep(Duration::from_secs(1));
                self.servers()[primary].signal(Signal::CONT);
            }
            (ServerFault::Cut, _) => {
                std::thread::sleep(CUT);
                self.join_host_of(primary, true);
            }
            (ServerFault::OnDemand | ServerFault::Move, _) => {}
        }
        self.owner();
    }

    /// Joins the host of a server to the network, or cuts it off.
    fn join_host_of(&self, server: usize, is_joined: bool) {
        let Some(network) = self.network else { return };
        // The servers are on the hosts in turn.
        network.join(server % network.hosts.len(), is_joined);
    }

    /// Moves the cluster slot of the namespace or shard that suffers. The move takes [`MOVING`].
    fn move_slot(&self, from: usize) {
        let Servers::Cluster(cluster) = &self.servers else { return };
        let (namespace, to) = (namespace(self.target), cluster.other_primary(from));
        cluster.begin_move(&namespace, from, to);
        std::thread::sleep(MOVING);
        cluster.end_move(&namespace, from, to);
        self.owner();
    }
}
