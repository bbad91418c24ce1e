//! The interface between a node and the code that executes its attempts (layer 2).
//!
//! The engine makes an [`Attempt`], and an [`Execute`] runs it to its end. The output goes into an
//! [`OutputBuffer`]. A [`Control`] carries each new end of the lease and the request to stop.
//!
//! Invariant: an attempt is ended when its lease ends ([`lease_guard`]).

mod attempt;
mod execute;
pub mod lease_guard;
pub mod output;
mod output_lines;

pub use attempt::{Attempt, Control, NoticeFacts, StopReason};
pub use execute::{Execute, ExecutorAbilities};
pub use output::OutputBuffer;
