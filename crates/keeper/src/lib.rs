//! The keeper (layer 2 of the layers in `src/lib.rs`): the small process that starts, watches and
//! ends the jobs' processes.
//!
//! The daemon has one keeper: the same program, started with the argument `__keeper`. A socket to
//! the daemon is the keeper's only connection. Only the keeper starts jobs. When the daemon dies,
//! the keeper kills the jobs (`serve`). When the keeper dies, the daemon kills the jobs
//! (`supervise`). `attend` follows a run's process from its start until no process of the run is
//! left. `schedctl work` has a keeper as a daemon has.
//!
//! Invariant: no process of a job outlives the lease of its run, even if the keeper or the daemon
//! dies or hangs. (Both hang at once only if the host is frozen.)

pub mod limits;
mod process;
mod protocol;

pub use limits::delegation::{Delegation, NotDelegated};
pub use process::environment_text::Variables;
pub use protocol::keeper_handle::{Keeper, this_program};
pub use protocol::keeper_link::{Child, KeeperError, KeeperSettings};
pub use protocol::keeper_messages::{
    KeeperNews, KeeperOrder, Key, LaunchOrder, Owner, ProcessEnd, RunReport, Wanting,
};
pub use protocol::keeper_process::run_from_args;
pub use protocol::wire::{news_frame, order_frame, read_news, read_order};
