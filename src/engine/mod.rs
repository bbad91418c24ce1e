//! Layer 3: the loops of a node. There is no leader: every loop runs on every node, and only
//! scripts in Redis decide which node gets a run.
//!
//! - [`dispatch`] goes from the poll to the claim: the ticker polls the lanes that this node
//!   serves. The dispatcher says what to claim, the claimer claims, and the gatekeeper opens gates.
//! - [`execution`] goes from the claim to the end: the runner, the lease keeper, the verdict.
//! - [`planning`] brings the jobs in Redis in line with files and operators: edits, backfills,
//!   boots, zones.
//! - [`notification`] adds notices to the due set, builds the payload of a notice and watches
//!   deadlines.
//! - [`maintenance`] is the janitor, the reaper, the presence of the node and the consistency check.
//! - [`recovery`] detects data loss and restores from the journal of the node.
//! - [`status`] holds the state of the node: its events, outages and suspensions, and the steps of
//!   Redis' clock.
//! - [`explanation`] gathers the facts for `explain`.
//!
//! `node.rs` starts and stops a node, and `node_parts.rs` hands each loop the parts that it uses.
//! `node_context.rs` has the five handles that every loop uses.

pub mod dispatch;
mod execution;
pub mod explanation;
mod loops;
pub mod maintenance;
mod node;
mod node_context;
mod node_parts;
mod notification;
pub mod planning;
pub mod recovery;
mod settings;
mod status;
mod wakeups;

pub use dispatch::definition::{Definition, DefinitionError};
pub use maintenance::presence::{GONE_AFTER, Naming, PresenceError, announce};
pub use node::Engine;
pub use notification::notice_payload::said_now;
pub use planning::reconciler::Removal;
pub use recovery::journal::Journal;
pub use settings::{EngineSettings, HostFacts, ServingChoice};
pub use status::node_status::{NodeStatus, StatusView};
