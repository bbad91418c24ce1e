//! Redis beyond one plain server: Sentinels, a cluster, and connections by TLS.

mod cluster;
mod cluster_nodes;
mod durability;
mod encrypted;
mod failover_scene;
mod least_rights;
mod net_host;
mod partition;
pub(crate) mod place;
mod sentinels;
mod servers;
mod shards;
pub(crate) mod tcp_server;
mod watched;

pub(crate) use shards::await_shards;
