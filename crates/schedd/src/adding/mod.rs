//! The rules of an add that `schedctl add` and the library share.

mod add_check;
mod add_places;
mod add_pools;
mod drawn_name;

pub use add_check::{fixed_times, past_problem};
pub use add_places::PlacedAnswer;
pub use add_pools::AddPools;
pub use drawn_name::{DRAWS, draw_name};
