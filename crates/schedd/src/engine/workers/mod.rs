//! Hands runs to workers: programs outside schedd that ask a node for runs of handlers.
//!
//! A run of a worker is claimed by the same scripts as any run. Its holder is the worker, so the
//! lease is that of the worker: it lives as long as the worker reports, and ends if the worker dies.
//! The worker may report to any node. The node that handed out the run needs fewer reads
//! ([`handed_claims`]).
//!
//! - [`worker_ask`] has the question of a worker, and the runs that answer it
//! - [`asking_workers`] lists the workers that ask this node, for `explain` and `doctor`
//! - [`worker_desks`] takes the questions, and asks the namespace and its shards
//! - [`ask_turn`] lets one desk of one node claim runs for a question
//! - [`worker_desk`] lets questions wait ([`waiting_asks`]) without a call to Redis
//! - [`worker_claim_loop`] polls for all waiting workers together, and claims runs for them
//! - [`worker_claims`] remembers these claims, finds the runs of an earlier question, and gives back
//!   the runs that no worker got
//! - [`run_report`] and [`worker_reports`] record what workers report about their runs

mod ask_turn;
pub(crate) mod asking_workers;
pub(crate) mod handed_claims;
pub(crate) mod run_report;
pub(crate) mod waiting_asks;
pub(crate) mod worker_ask;
pub(crate) mod worker_claim_loop;
pub(crate) mod worker_claims;
pub(crate) mod worker_desk;
pub(crate) mod worker_desks;
pub(crate) mod worker_reports;
