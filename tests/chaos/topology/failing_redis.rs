//! The servers of a trial, and what happens to them. The same faults hit both kinds.

use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use super::cluster_nodes::Cluster;
use super::tcp_server::TcpServer;
use super::watched::Watched;
use crate::support::wait::{LONG, until};

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
}

impl ServerFault {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        [Self::Kill, Self::Freeze, Self::OnDemand][rng.usize(..3)]
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

    /// Lets the primary fail, and waits until the replica is the primary and has a replica itself.
    pub(super) fn suffer(&mut self, fault: ServerFault) {
        let (primary, replica) = self.owner();
        match fault {
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
            (ServerFault::OnDemand, _) => {}
        }
        self.owner();
    }
}
