//! Which ripe run a node takes next: within a queue by priority and age, between queues by their shares.

mod order;
mod shares;

pub use order::{OLDEST_EVERY, Pick, Turns, Waiting};
pub use shares::{Demand, Shares};
