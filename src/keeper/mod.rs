//! Layer 2: the small process that owns the jobs' processes.
//!
//! The daemon has one keeper: the same program, started with an argument of its own, joined to it by a socket and to nothing
//! else. Only it starts jobs. When the daemon dies it kills them (`serve`); when it dies, the daemon does (`supervise`).
//! A run's process, from its start until nothing of it is left, is `attend`'s.
//!
//! Invariant: no process of a job outlives the lease of its run, whichever of the two dies or stands still. (Both at once is a
//! frozen host.)

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
