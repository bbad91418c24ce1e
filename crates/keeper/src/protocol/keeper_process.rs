//! The process of the keeper. The keeper takes orders until the daemon is gone, then kills all
//! jobs, writes the end mark and exits.
//!
//! Invariant: the process has one thread, because the death signal of the jobs is tied to the
//! thread that started them. The mark is written only when nothing this process ever started is
//! alive.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::io::BufReader;
use tokio::net::unix::OwnedReadHalf;
use tokio::task::LocalSet;

use super::keeper_messages::{KeeperNews, KeeperOrder, ProcessEnd, RunReport};
use super::outbox;
use super::wire;
use super::wire::BUFFER;
use crate::limits::cgroup::Cgroup;
use crate::process::attendance::attend;
use crate::process::process_table::{ProcessTable, ProcessWord};
use crate::process::process_tree;
use crate::process::process_tree::{Process, Snapshot};
use crate::process::spawn::{CAUGHT, default_signals};
use schedd_core::host::boot_clock::BootInstant;
use schedd_core::host::end_mark::EndedMark;

/// The argument that makes the program `schedd` a keeper.
pub(crate) const ARGUMENT: &str = "__keeper";

/// The longest wait for processes that do not die. After this time the keeper exits. It then leaves
/// no end mark, the file that says that all processes of the node are dead.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs as the keeper if the command line says so, and returns when the keeper is done. Returns
/// `None` for any other command line.
///
/// The program must call this function first, before any thread is started.
pub fn run_from_args() -> Option<ExitCode> {
    if std::env::args_os().nth(1).as_deref() != Some(OsStr::new(ARGUMENT)) {
        return None;
    }
    // A panic ends the keeper, because a run whose task panicked would be attended by no task. The
    // daemon replaces a keeper that is gone, but not a keeper that works in part.
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default_hook(panic);
        std::process::abort();
    }));
    Some(match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A closed standard error must not change the exit code.
            let _ = writeln!(io::stderr(), "schedd: keeper: {error}");
            ExitCode::FAILURE
        }
    })
}

fn run() -> io::Result<()> {
    // The name only helps readers of the process list.
    let _ = rustix::thread::set_name(c"schedd-keeper");
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    if socket.peer_addr().is_err() {
        return Err(io::Error::other(
            "standard input is not a socket: only schedd can start the keeper",
        ));
    }
    // `setsid` fails if the process already leads a group, because a shell started the keeper. The
    // process then has its own group too, so the error does no harm.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    // The jobs inherit this. An ignored SIGCHLD would also discard exit codes.
    default_signals();
    for signal in CAUGHT {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    socket.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, serve(socket))
}

async fn serve(socket: UnixStream) -> io::Result<()> {
    let (orders, to) = tokio::net::UnixStream::from_std(socket)?.into_split();
    let mut orders = BufReader::with_capacity(BUFFER, orders);
    let Some(KeeperOrder::Serve { ended_file, node, incarnation, output, cgroups, open_files }) =
        wire::read_order(&mut orders).await?
    else {
        return Ok(());
    };
    if let Some(files) = open_files {
        limit_open_files(files)?;
    }
    let (table, items) = ProcessTable::new(output, cgroups.map(Cgroup::at))?;
    let delivery = tokio::task::spawn_local(outbox::deliver(items, to));
    let sweeper = tokio::task::spawn_local(sweep_now_and_then(Rc::clone(&table)));
    let shared = Rc::clone(&table);
    let timer = tokio::task::spawn_local(async move { shared.timer().run().await });
    let result = obey(&table, &mut orders).await;
    sweeper.abort();
    table.send_all(ProcessWord::Abandon);
    let all_gone = clear_table(&table).await;
    timer.abort();
    // If the daemon only closed its writing side, it still listens and gets the ends of its runs.
    drop(table);
    let _ = tokio::time::timeout(Duration::from_secs(1), delivery).await;
    // A daemon that sent an unreadable order is alive and may still make HTTP requests for its
    // runs. So the keeper writes no mark.
    if let (true, Ok(()), Some(file)) = (all_gone, &result, ended_file) {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        EndedMark { node, incarnation, boot_id }.write(&file)?;
    }
    result
}

/// Gives this process and its children the soft limit `files` of open files. Programs that use
/// select(2) fail if they have more than 1024 files.
fn limit_open_files(files: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum.map_or(files, |most| files.min(most));
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit })?;
    Ok(())
}

/// Takes orders until the daemon closes the connection. Fails at the first order that is not
/// readable.
async fn obey(table: &Rc<ProcessTable>, orders: &mut BufReader<OwnedReadHalf>) -> io::Result<()> {
    loop {
        let order = match wire::read_order(orders).await {
            Ok(Some(order)) => order,
            Ok(None) => return Ok(()),
            // If the daemon was killed, reading fails with one of these errors. Either the daemon
            // had not read all news, or it died while it sent an order.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof
                ) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        match order {
            KeeperOrder::Serve { .. } => {
                return Err(io::Error::other("the keeper got the order to serve twice"));
            }
            KeeperOrder::Start { key, launch } => match table.admit(key, &launch) {
                Some(words) => {
                    drop(tokio::task::spawn_local(attend(Rc::clone(table), key, *launch, words)));
                }
                None => table.say(KeeperNews::Ended(
                    key,
                    RunReport::of(
                        ProcessEnd::Refused,
                        "not started: this keeper already runs a process of the same attempt",
                    ),
                )),
            },
            KeeperOrder::Extend { key, deadline } => table.send(key, ProcessWord::Extend(deadline)),
            KeeperOrder::Stop { key } => table.send(key, ProcessWord::Stop),
            KeeperOrder::Abandon { key } => table.send(key, ProcessWord::Abandon),
            KeeperOrder::Ping => table.say(KeeperNews::Pong),
        }
    }
}

/// Kills all descendants of this process and waits until they are gone. Returns true if the
/// descendants are gone.
async fn clear_table(table: &ProcessTable) -> bool {
    let end = BootInstant::now().saturating_add(PATIENCE);
    loop {
        let seen = if table.is_childless() {
            Some(Vec::new())
        } else {
            Snapshot::try_take().map(|snapshot| snapshot.descendants())
        };
        let is_seen = seen.is_some();
        let mut below = seen.unwrap_or_default();
        below.retain(|process| !table.never_begins(process.pid));
        if is_seen && table.clear_cgroups() && below.is_empty() && table.is_empty() {
            return true;
        }
        if BootInstant::now() >= end {
            return false;
        }
        process_tree::signal_all(&below, Signal::KILL);
        if table.is_empty() {
            // The tasks of the runs reap the leaders, because they need the exit status. Only
            // orphans are left here.
            below.iter().filter(|process| process.is_zombie).for_each(Process::reap);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sweeps orphans once a second while there is a run, and afterwards until no process is left.
/// Sleeps at other times.
async fn sweep_now_and_then(table: Rc<ProcessTable>) {
    loop {
        table.changed().await;
        loop {
            let pause =
                if table.is_ending() { Duration::from_millis(50) } else { Duration::from_secs(1) };
            tokio::time::sleep(pause).await;
            if table.sweep() == 0 && table.is_empty() {
                break;
            }
        }
    }
}
