//! The scripts of gates and queues.

pub(crate) mod gate_edits;
pub(crate) mod gate_idle;
pub(crate) mod gate_rates;
pub(crate) mod gate_turns;
pub(crate) mod gate_unserved;
pub(crate) mod gate_walk;
pub(crate) mod gated;
pub(crate) mod gating;
pub(crate) mod queues;
pub(crate) mod rates;
