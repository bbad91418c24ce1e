//! The choice of the due run that a node takes next: by priority and age within a queue, by share
//! between queues.

mod order;
mod shares;

pub use order::{LaneTurns, OLDEST_EVERY, Pick, WaitingRun};
pub use shares::{Demand, Shares};
