//! The servers of a trial, and what happens to them. The same faults hit both kinds.

use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use super::cluster_nodes::Cluster;
use super::tcp_server::TcpServer;
use super::watched::Watched;
use crate::support::wait::{LONG, until};

/// The time for which a slot is on its way. It is longer than the lease of the nodes.
const MOVING: Duration = Duration::from_secs(8);

/// Who chooses the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Topology {
    /// Three Sentinels, for a primary with a replica.
    Sentinel,
    /// The nodes of a cluster: three primaries with a replica each.
    Cluster,
}

/// A Redis whose primary can fail.
pub(super) enum FailingRedis {
    Watched(Watched),
    Cluster(Cluster),
}

/// What happens to the primary of the namespace.
#[derive(Debug, Clone, Copy)]
pub(super) enum ServerFault {
    Kill,
    Freeze,
    OnDemand,
    /// The slot of the namespace moves to another primary; in a cluster only.
    Move,
}

impl ServerFault {
    pub(super) fn draw(rng: &mut Rng, topology: Topology) -> Self {
        let all = [Self::Kill, Self::Freeze, Self::OnDemand, Self::Move];
        all[rng.usize(..if topology == Topology::Cluster { 4 } else { 3 })]
    }
}

impl FailingRedis {
    pub(super) fn start(topology: Topology) -> Self {
        match topology {
            Topology::Sentinel => Self::Watched(Watched::start()),
            Topology::Cluster => Self::Cluster(Cluster::start()),
        }
    }

    /// Returns the keys of `[redis]` that name the servers.
    pub(super) fn section(&self) -> String {
        match self {
            Self::Watched(watched) => watched.section(),
            Self::Cluster(cluster) => cluster.section(),
        }
    }

    fn servers(&mut self) -> &mut Vec<TcpServer> {
        match self {
            Self::Watched(watched) => &mut watched.servers,
            Self::Cluster(cluster) => &mut cluster.nodes,
        }
    }

    /// Waits until the namespace has a primary with a replica. Returns the places of both.
    fn owner(&self) -> (usize, usize) {
        match self {
            Self::Cluster(cluster) => cluster.owner(),
            Self::Watched(watched) => {
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
                let asked: redis::RedisResult<()> = match self {
                    Self::Watched(watched) => {
                        watched.sentinels[0].ask(&["SENTINEL", "FAILOVER", "prime"])
                    }
                    Self::Cluster(cluster) => cluster.nodes[replica].ask(&["CLUSTER", "FAILOVER"]),
                };
                asked.unwrap();
            }
        }
        if lags {
            self.servers()[replica].signal(Signal::CONT);
        }
        until("the replica is the primary", LONG, || {
            let info: String = self.servers()[replica].ask(&["INFO", "replication"]).ok()?;
            info.contains("role:master").then_some(())
        });
        match (fault, &mut *self) {
            (ServerFault::Kill, Self::Watched(watched)) => {
                watched.until_named(replica);
                let port = watched.servers[replica].port;
                watched.servers[primary].restart_as_replica_of(port);
            }
            (ServerFault::Kill, Self::Cluster(cluster)) => cluster.nodes[primary].restart(),
            (ServerFault::Freeze, _) => {
                std::thread::sleep(Duration::from_secs(1));
                self.servers()[primary].signal(Signal::CONT);
            }
            (ServerFault::OnDemand | ServerFault::Move, _) => {}
        }
        self.owner();
    }

    /// Moves the slot of the namespace to another primary, which takes [`MOVING`].
    fn move_slot(&self, from: usize) {
        let Self::Cluster(cluster) = self else { return };
        let to = cluster.other_primary(from);
        cluster.begin_move(from, to);
        std::thread::sleep(MOVING);
        cluster.end_move(from, to);
        self.owner();
    }
}
