//! The messages between the daemon and its keeper: orders to the keeper, and news of runs to the
//! daemon.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::process::environment_text::Variables;
use schedd_core::domain::job::process_limits::Limits;
use schedd_core::domain::run::excerpt::{ExcerptStream, OutputBounds};
use schedd_core::domain::run::resource_use::ResourceUse;
use schedd_core::host::boot_clock::BootInstant;

/// The number of a run on one connection between daemon and keeper.
pub type Key = u64;

/// A message from the daemon to the keeper.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeeperOrder {
    /// The first order on a connection, sent once, with the settings of the keeper.
    Serve {
        /// The file for the end mark, which the keeper writes when all its jobs are dead.
        ended_file: Option<PathBuf>,
        /// The name of the node, which the end mark contains.
        node: String,
        /// The incarnation of the node, which the end mark contains.
        incarnation: String,
        /// The number of bytes kept of a run's output while the daemon is slow. An older daemon
        /// does not send this field.
        #[serde(default)]
        output: OutputBounds,
        /// The directory in which each run gets its own cgroup. `None` if runs have no cgroups.
        cgroups: Option<PathBuf>,
        /// The soft limit of open files of the keeper and its jobs. `None` keeps the inherited limit.
        open_files: Option<u64>,
    },
    /// Starts a program as a run.
    Start {
        /// The key by which later messages name the run.
        key: Key,
        /// The program to start, with its limits.
        launch: Box<LaunchOrder>,
    },
    /// Extends the time by which a run must be dead, because its lease was renewed.
    Extend {
        /// The key of the run.
        key: Key,
        /// The new end of the run's lease.
        deadline: BootInstant,
    },
    /// Sends SIGTERM to the run, and SIGKILL after the grace of the run.
    Stop {
        /// The key of the run.
        key: Key,
    },
    /// Kills the run at once, because its lease was lost or the daemon no longer waits for its end.
    Abandon {
        /// The key of the run.
        key: Key,
    },
    /// Asks the keeper for a sign of life.
    Ping,
}

/// A program to start as a run, and the limits of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchOrder {
    /// The id of the run. Orphaned processes of the run are recognised by this id.
    pub run: String,
    /// The fence of the run's lease. Orphaned processes of the run are recognised by this fence.
    pub fence: u64,
    /// The program and its arguments; at least one entry.
    pub argv: Vec<String>,
    /// The program and its arguments that the shell in `argv` would execute. The keeper executes
    /// the shell if this program cannot be executed. An older daemon does not send this field.
    #[serde(default)]
    pub direct: Option<Vec<String>>,
    /// The whole environment of the program. No other variable is inherited.
    pub env: Variables,
    /// The working directory of the program.
    pub cwd: PathBuf,
    /// The working directory to use if `cwd` is missing or not a directory. With `None` the program
    /// cannot start in this case.
    #[serde(default)]
    pub cwd_else: Option<PathBuf>,
    /// The user the process becomes; `None` keeps the keeper's user.
    pub owner: Option<Owner>,
    /// The limits of the process. An older daemon does not send these limits.
    #[serde(default)]
    pub limits: Limits,
    /// The umask of the process; `None` keeps the keeper's umask.
    pub umask: Option<u16>,
    /// The text on the standard input of the program; `None` for an empty input.
    pub stdin: Option<String>,
    /// The longest time for the start: entering the directory, finding and executing the program.
    /// An older daemon does not send this time.
    #[serde(default = "start_within")]
    pub start_within: Duration,
    /// The longest time the program may run, counted from its start.
    pub timeout: Duration,
    /// The time between the signals SIGTERM and SIGKILL.
    pub kill_grace: Duration,
    /// The end of the run's lease. All processes of the run are killed by then.
    pub deadline: BootInstant,
    /// The time before the end of the lease at which the run gets SIGTERM.
    pub margin: Duration,
}

fn start_within() -> Duration {
    Duration::from_secs(10)
}

/// A user of this host, as numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The user id; never 0.
    pub uid: u32,
    /// The id of the user's primary group.
    pub gid: u32,
    /// The ids of all the user's groups.
    pub groups: Vec<u32>,
}

/// A message from the keeper to the daemon.
#[derive(Debug, PartialEq, Eq)]
pub enum KeeperNews {
    /// The program runs, with this pid.
    Started(Key, i32),
    /// The program of the run wrote these bytes to this stream.
    Output(Key, ExcerptStream, Vec<u8>),
    /// The program of the run wrote this many more bytes, which were dropped.
    Dropped(Key, u64),
    /// The run is over and none of its processes is left.
    Ended(Key, RunReport),
    /// The answer to a `Ping` of the daemon.
    Pong,
}

/// The end of a run's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// The reason why the process of the run is over.
    pub end: ProcessEnd,
    /// The direct child's exit code; 126 or 127 if its program cannot be found or executed. `None`
    /// if there is no exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended the direct child, if a signal ended it.
    pub signal: Option<i32>,
    /// The error as text, if there was an error.
    pub error: Option<String>,
    /// True if the run left processes behind that had to be killed.
    pub left_processes: bool,
    /// True if a process of the run was killed because memory had run out, according to the run's
    /// cgroup.
    #[serde(default)]
    pub out_of_memory: bool,
    /// The part of the job (directory or program) that prevented the start, if one of them did.
    #[serde(default)]
    pub wanting: Option<Wanting>,
    /// The resources that the run used, if its program began.
    #[serde(default)]
    pub resources: Option<ResourceUse>,
}

/// The part of a job that prevented the start: its directory or its program. A notice can be
/// started again without this part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanting {
    /// The directory of the job is missing, cannot be entered or does not answer.
    Directory,
    /// The program of the job is missing, cannot be executed or does not answer.
    Program,
}

impl RunReport {
    /// Returns a report with this reason and this error text, and no other facts.
    pub(crate) fn of(end: ProcessEnd, error: impl Into<String>) -> Self {
        Self {
            end,
            exit_code: None,
            signal: None,
            error: Some(error.into()),
            left_processes: false,
            out_of_memory: false,
            wanting: None,
            resources: None,
        }
    }
}

/// The reason why a run's process is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessEnd {
    /// The process ended by itself.
    ByItself,
    /// The process ran longer than its timeout and was killed.
    TimedOut,
    /// The process was asked to stop.
    Stopped,
    /// The process was killed, because the lease of the run ended, or because the daemon or the
    /// keeper died.
    LeaseLost,
    /// The processes of the run were to be killed, because its lease ended or the keeper died. Some
    /// of them may still be alive.
    MaybeAlive,
    /// The program cannot be started.
    CannotStart,
    /// The keeper lacked resources to start the program: descriptors, processes, memory. Nothing of
    /// the program ran.
    Short,
    /// The program was not started, because the lease was nearly over, the key was in use, or no
    /// keeper ran.
    Refused,
}
