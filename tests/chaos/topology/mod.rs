//! Trials on a Redis that fails over: Sentinels or a cluster choose the primary.

#[allow(dead_code, reason = "the suite's servers, of which this needs a part")]
#[path = "../../suite/topology/cluster_nodes.rs"]
mod cluster_nodes;
pub(crate) mod failing_redis;
#[path = "../../suite/topology/net_host.rs"]
mod net_host;
#[path = "../../suite/topology/place.rs"]
mod place;
#[path = "../../suite/topology/tcp_server.rs"]
mod tcp_server;
pub(crate) mod trial_of_failovers;
#[allow(dead_code, reason = "the suite's servers, of which this needs a part")]
#[path = "../../suite/topology/watched.rs"]
mod watched;
