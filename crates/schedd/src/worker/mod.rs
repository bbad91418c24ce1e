//! The part of the library that executes runs in this program.
//!
//! A worker is a node of its own: an engine that serves only the lanes of its handlers. So claims,
//! leases, retries, gates and groups are those of any node. `handler_executor` takes the place of
//! the processes of a daemon.

mod handler_executor;
mod handler_failure;
mod handlers;
mod run_handle;
mod run_output;
mod worker_builder;
mod worker_node;

pub use handler_failure::{Again, Failure, Result, Stop};
pub use run_handle::Run;
pub use run_output::RunOutput;
pub use worker_builder::{RunningWorker, Worker};
pub use worker_node::WorkerNode;
