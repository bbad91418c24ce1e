//! The interface through which a node executes attempts.

use std::collections::BTreeSet;

use futures_util::future::BoxFuture;

use super::attempt::{Attempt, Control};
use super::output::OutputBuffer;
use schedd_core::domain::job::job_spec::Action;
use schedd_core::domain::job::ping::Ping;
use schedd_core::domain::job::process_limits::LimitKind;
use schedd_core::domain::run::run_state::AttemptOutcome;
use schedd_schedule::names::RunId;

/// The execution of attempts. A node uses `Executors`. A test of a node may use a list of outcomes
/// instead, and then no process starts.
pub trait Execute: Send + Sync {
    /// Runs `attempt` to its end and returns its outcome. Never fails: every problem is an outcome.
    /// If the future is dropped before the end, the attempt is ended.
    fn execute<'a>(
        &'a self,
        attempt: &'a Attempt,
        control: Control,
        output: &'a OutputBuffer,
    ) -> BoxFuture<'a, AttemptOutcome>;

    /// Sends one ping about `run` to the job's ping URL `base`. The error is the reason why no
    /// answer with a status below 400 came. An executor without an HTTP client sends nothing. The
    /// pings about the end of a run are notices, which a daemon sends.
    fn ping<'a>(
        &'a self,
        _base: &'a str,
        _run: &'a RunId,
        _ping: Ping,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns true if an attempt that begins now would start at once.
    fn are_ready(&self) -> bool {
        true
    }

    /// Returns the reason why this node cannot start runs, such as a lack of descriptors. Returns
    /// `None` if there was no such shortage, or the shortage counts as over.
    fn short_of(&self) -> Option<String> {
        None
    }

    /// Notes that a run with this action was claimed. After a shortage of resources, the start of
    /// this run tests whether this node can start runs again.
    fn note_claimed(&self, _action: &Action) {}

    /// Returns how many runs this node may claim now. After a shortage of resources this is 0 for a
    /// pause, and then 1 for a test. Without a shortage it is `usize::MAX`.
    fn capacity(&self) -> usize {
        usize::MAX
    }

    /// Returns the limits and the users of jobs that this node supports, for its record in Redis.
    fn abilities(&self) -> ExecutorAbilities {
        ExecutorAbilities::default()
    }
}

/// The limits and the users of jobs that a node supports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutorAbilities {
    /// The limits of jobs that this host can enforce.
    pub limits: BTreeSet<LimitKind>,
    /// The maximum number of open files of a process on this host. `None` means no limit.
    pub most_files: Option<u64>,
    /// True if each run has its own cgroup.
    pub has_cgroups: bool,
    /// The users that jobs may name on this node: `*` for all users, else a list with commas. Empty
    /// if jobs may not name a user.
    pub users: String,
    /// The reason why no job can run as another user. Empty if some job can.
    pub users_why: String,
    /// The user of this process. A job that names no user runs as this user.
    pub own_user: String,
}
