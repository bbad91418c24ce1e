//! The start of a run's process: the preparation, the fork, and the handles by which the keeper
//! watches the child.
//!
//! Invariant: nothing in this module waits for a file system that a job may name. Only the child
//! waits for such a file system.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::child_setup::ChildSetup;
use super::process_table::{GivenUp, ProcessTable, ProcessWord};
use super::process_tree;
use super::program_file;
use super::program_file::Candidates;
use super::spawn::{ChildFiles, Image, SpawnPlan, spawn};
use super::start_progress;
use super::start_progress::StartProgress;
use crate::limits::bounds::RunBounds;
use crate::limits::cgroup::Cgroup;
use crate::protocol::keeper_messages::{Key, LaunchOrder, ProcessEnd, RunReport};
use crate::protocol::outbox::Pending;
use schedd_core::domain::run::excerpt::ExcerptStream;
use schedd_core::host::awaited::Awaited;
use schedd_core::host::boot_clock::BootInstant;

/// The wait between two checks whether a child without a pidfd is dead.
const LOOK: Duration = Duration::from_millis(10);
/// The most checks whether a child without a pidfd is dead.
const MOST_LOOKS: u32 = 100;

/// A forked child that will become the program of a run.
pub(crate) struct StartingProcess {
    pub(crate) leader: Pid,
    /// The descriptor that becomes readable once the child is dead.
    pub(crate) exit: Awaited,
    pub(crate) bounds: RunBounds,
    pub(crate) marks: StartProgress,
    pub(crate) pipes: Vec<JoinHandle<()>>,
}

/// Applies the instructions in `words` that came before the start. Returns a report if one of them
/// forbids the start.
fn may_start(
    launch: &mut LaunchOrder,
    words: &mut mpsc::UnboundedReceiver<ProcessWord>,
) -> Result<(), RunReport> {
    while let Ok(word) = words.try_recv() {
        match word {
            ProcessWord::Extend(deadline) => launch.deadline = launch.deadline.max(deadline),
            ProcessWord::Stop => {
                return Err(RunReport::of(ProcessEnd::Stopped, "stopped before the start"));
            }
            ProcessWord::Abandon => {
                return Err(RunReport::of(ProcessEnd::LeaseLost, "abandoned before the start"));
            }
        }
    }
    if BootInstant::now() < launch.deadline.saturating_sub(launch.margin) {
        Ok(())
    } else {
        Err(RunReport::of(ProcessEnd::Refused, "not started: the lease expired before the start"))
    }
}

/// Forks the child of `launch`. After the fork the child finds and executes its program by itself.
/// The error is the report of a run that was not started.
pub(crate) async fn start(
    table: &Rc<ProcessTable>,
    key: Key,
    launch: &mut LaunchOrder,
    words: &mut mpsc::UnboundedReceiver<ProcessWord>,
) -> Result<StartingProcess, RunReport> {
    may_start(launch, words)?;
    let name = launch.argv.first().cloned().unwrap_or_default();
    let not_executed = |error: io::Error| {
        program_file::short_of(&error).unwrap_or_else(|| program_file::not_executed(&name, &error))
    };
    let no_cgroup = |error: io::Error| {
        program_file::short_of(&error).unwrap_or_else(|| program_file::no_cgroup(&error))
    };
    let cgroup = table.make_cgroup(key, &launch.limits).map_err(no_cgroup)?;
    let door = cgroup.as_ref().map(Cgroup::door).transpose().map_err(no_cgroup)?;
    let (mut marks, teller) = start_progress::marks().map_err(not_executed)?;
    let ready = || -> io::Result<_> {
        let (stdout, stderr) = (pipe_with(PipeFlags::CLOEXEC)?, pipe_with(PipeFlags::CLOEXEC)?);
        let variables = || launch.env.0.iter().map(|(name, value)| format!("{name}={value}"));
        let without_shell = |program| -> io::Result<_> {
            let words = launch.direct.as_deref().unwrap_or_default();
            // A shell sets this variable too.
            let directory = format!("PWD={}", launch.cwd.display());
            let directory = Some(directory).filter(|_| !launch.env.0.contains_key("PWD"));
            Ok((Image::new(words, variables().chain(directory))?, program))
        };
        let plan = SpawnPlan {
            image: Image::new(&launch.argv, variables())?,
            program: Candidates::of(launch)?,
            direct: Candidates::without_shell(launch)?.map(without_shell).transpose()?,
            becoming: ChildSetup::new(launch, door)?,
            files: ManuallyDrop::new(ChildFiles {
                stdin: input(launch)?,
                stdout: stdout.1,
                stderr: stderr.1,
                teller,
            }),
        };
        let outputs = [(ExcerptStream::Stdout, stdout.0), (ExcerptStream::Stderr, stderr.0)];
        let mut receivers = Vec::new();
        for (stream, pipe) in outputs {
            rustix::io::ioctl_fionbio(&pipe, true)?;
            receivers.push((stream, pipe::Receiver::from_owned_fd_unchecked(pipe)?));
        }
        Ok((plan, receivers))
    };
    let (plan, receivers) = ready().map_err(not_executed)?;
    let bounds = RunBounds::of_start(launch);
    let (leader, exit) = spawn(plan, &mut marks).map_err(not_executed)?;
    table.note_leader(key, leader.as_raw_nonzero().get());
    let exit = match Awaited::new(exit) {
        Ok(exit) => exit,
        Err(error) => {
            // A child that cannot be watched must not run. The child may have begun, so the run
            // fails here and no other node may start the run.
            undo(table, key, leader).await;
            return Err(program_file::not_executed(&name, &error));
        }
    };
    let pending = table.pending(key);
    let read_it = |(stream, pipe)| {
        tokio::task::spawn_local(read(Rc::clone(table), pipe, stream, Rc::clone(&pending)))
    };
    let pipes = receivers.into_iter().map(read_it).collect();
    Ok(StartingProcess { leader, exit, bounds, marks, pipes })
}

/// Kills a child that cannot be watched, and polls until it is dead.
async fn undo(table: &ProcessTable, key: Key, leader: Pid) {
    for _ in 0..MOST_LOOKS {
        // The search for all processes of a run needs descriptors, but `kill_group` does not.
        table.kill_group(key);
        table.kill(key);
        if !process_tree::is_alive_child(leader) {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    table.give_up(key, GivenUp::Alive);
}

/// Returns the standard input of a child. A text becomes a file in memory, so that the keeper does
/// not wait until the job reads the text.
fn input(launch: &LaunchOrder) -> io::Result<OwnedFd> {
    let Some(text) = &launch.stdin else { return Ok(File::open("/dev/null")?.into()) };
    let mut file = File::from(rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

async fn read(
    table: Rc<ProcessTable>,
    pipe: pipe::Receiver,
    stream: ExcerptStream,
    pending: Rc<Pending>,
) {
    while pipe.readable().await.is_ok() {
        match table.drain(&pipe, stream, &pending) {
            Ok(true) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(false) | Err(_) => return,
        }
    }
}
