//! Layer 3: the loops of a node. No node is the leader: every loop runs on every node, and only
//! scripts in Redis decide which node gets a run.
//!
//! - [`dispatch`] goes from the poll to the claim. The ticker polls the lanes of this node, the
//!   dispatcher decides which runs to claim, the claimer claims, and the gatekeeper opens gates.
//! - [`execution`] goes from the claim to the end: the runner, the lease keeper, the verdict.
//! - [`planning`] changes the jobs in Redis as files and operators ask: edits, backfills, boots,
//!   zones.
//! - [`notification`] adds notices to the due set, makes the payload of a notice and checks
//!   deadlines.
//! - [`maintenance`] contains the janitor, the reaper, the presence of the node and the consistency
//!   check.
//! - [`recovery`] detects data loss and restores runs from the journal of the node.
//! - [`status`] has the state of the node: its events, outages and suspensions, and the steps of
//!   Redis' clock.
//! - [`traces`] sends the spans of runs to an OpenTelemetry collector.
//! - [`explanation`] reads the facts for `explain`.
//! - [`workers`] hands runs to workers, and records what they report.
//!
//! `node_engines.rs` starts and stops a node: an engine for its namespace, and one for each shard.
//! `node.rs` is one engine, and `node_parts.rs` gives each loop the handles that it uses.
//! `node_context.rs` has the handles that every loop uses. `wakeups.rs` wakes the loops after a
//! change of the data in Redis. `waiting_entries.rs` has the wait of two loops between their rounds.

pub mod chains;
pub mod dispatch;
mod execution;
pub mod explanation;
mod loops;
pub mod maintenance;
mod node;
mod node_context;
mod node_engines;
mod node_parts;
mod node_share;
mod notification;
pub mod planning;
pub mod recovery;
mod settings;
mod status;
mod traces;
mod waiting_entries;
mod wakeups;
mod workers;

pub use dispatch::definition::{Definition, DefinitionError};
pub use maintenance::presence::{GONE_AFTER, Naming, PresenceError, announce};
pub use node_engines::{NodeEngines, OpenJournal};
pub use notification::notice_payload::said_now;
pub use planning::wanted_file::Removal;
pub use recovery::journal::Journal;
pub use settings::{EngineSettings, HostFacts, ServingChoice, WorkerServing};
pub use status::node_counters::{NodeCounts, QueueCounts};
pub use status::node_figures::NodeFigures;
pub use status::node_status::{NodeStatus, StatusView};
pub use workers::run_report::{Report, ReportedRun, RunToken, RunTokenError, WorkerReply};
pub use workers::waiting_asks::AskError;
pub use workers::worker_ask::{HandedRun, WorkerAsk};
pub use workers::worker_desk::WorkerAnswer;
pub use workers::worker_desks::WorkerDesks;
