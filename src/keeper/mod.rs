//! Layer 2: the small process that owns the jobs' processes.
//!
//! The daemon has one keeper: the same program, started with an argument of its own. A socket to
//! the daemon is its only connection. Only the keeper starts jobs. When the daemon dies, the keeper
//! kills them (`serve`). When the keeper dies, the daemon kills them (`supervise`). `attend`
//! follows a run's process from its start until nothing of it is left.
//!
//! Invariant: no process of a job outlives the lease of its run, whichever of the two processes
//! dies or hangs. (If both hang at once, the host is frozen.)

mod attend;
mod becoming;
mod bounds;
mod cgroup;
pub mod clock;
mod delegation;
mod ended;
pub(crate) mod excerpt;
mod house;
mod link;
mod marks;
mod outbox;
mod program;
mod serve;
mod spawn;
mod starting;
mod supervise;
mod tree;
mod variables;
mod wire;

pub use clock::{BootInstant, BootTimer};
pub use delegation::{Delegation, NotDelegated};
pub use ended::EndedMark;
pub use excerpt::{Chunk, Output, OutputBounds, Stream};
pub use link::{Child, Keeper, KeeperError, KeeperSettings, OutputSink};
pub use serve::run_from_args;
pub use variables::Variables;
pub use wire::{End, Key, Launch, News, Order, Owner, Report, Wanting, news_frame, order_frame, read_news, read_order};
