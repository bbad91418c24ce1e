//! The part of the library that adds jobs and follows their runs.

mod add;
mod added;
mod client_error;
mod client_handle;
mod run_end;
mod shared_adds;

pub use add::Add;
pub use added::{Added, AddedJob};
pub use client_error::ClientError;
pub use client_handle::Client;
pub(crate) use client_handle::parsed;
pub use run_end::{RunEnd, RunOutcome};
