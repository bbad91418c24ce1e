//! The choice of the due run that a node takes next: by priority and age within a queue, by share
//! between queues.

mod order;
mod shares;

pub use order::{OLDEST_EVERY, Pick, Turns, Waiting};
pub use shares::{Demand, Shares};
