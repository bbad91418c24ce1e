//! The choice of the due run that a node claims next: by priority and waiting time within a queue,
//! and by share between queues.

mod order;
mod shares;

pub use order::{LaneTurns, OLDEST_EVERY, Pick, WaitingRun};
pub use shares::{Demand, Shares};
