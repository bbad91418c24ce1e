//! `GET /metrics`: figures of this node and of the whole namespace for Prometheus, as `OpenMetrics`
//! text.
//!
//! - `metrics_route`: the answer
//! - `node_families`: the figures that the node counts itself
//! - `namespace_reader`, `watched_jobs`: the figures in Redis, read at most once per five seconds;
//!   `namespace_families`: these figures as metrics
//! - `metric_family`: a metric with its samples, as text

mod metric_family;
mod metrics_route;
mod namespace_families;
mod namespace_reader;
mod node_families;
mod watched_jobs;

pub(super) use metrics_route::{CONTENT_TYPE, metrics};
pub(super) use namespace_reader::NamespaceReader;
