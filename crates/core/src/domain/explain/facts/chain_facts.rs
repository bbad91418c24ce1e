//! The facts of an occurrence of a job in a chain: how its parents ended, and which are awaited.

use crate::domain::run::run_state::RunState;
use schedd_schedule::chain::chain_end::ParentEnd;
use schedd_schedule::names::{JobName, RunId};

/// An occurrence of a child for which not all parents have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainFacts {
    /// The run of the child, which is planned when its parents have ended.
    pub run: RunId,
    /// The ends of the parents that have ended.
    pub ends: Vec<ParentEnd>,
    /// The parents that have not ended, each with the state of its run. `None` if the parent has no
    /// run for this occurrence yet.
    pub awaited: Vec<(JobName, Option<RunState>)>,
    /// True if no run of the chain goes on for this occurrence, so the wait is in vain.
    pub is_stuck: bool,
}
