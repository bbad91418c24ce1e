//! The supervisor of the keeper: it starts a keeper and listens to the keeper. When the keeper dies
//! or hangs, the supervisor kills the runs and starts another keeper.
//!
//! Invariant: the runs of a dead keeper are reported as ended only after their processes were
//! killed. So a node that takes a run over finds no old process of the run alive. A keeper that
//! hangs counts as dead before another node may get the lease of any of its runs.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::keeper_link::{KeeperError, KeeperLink, KeeperSettings};
use super::keeper_messages::{KeeperOrder, ProcessEnd};
use super::keeper_process::ARGUMENT;
use super::wire;
use crate::limits::cgroup::Cgroup;
use crate::process::process_tree;
use schedd_core::host::boot_clock::BootInstant;

/// The number of messages to the keeper that may wait in the queue.
const ORDERS: usize = 1024;
/// The maximum time in which a stopped keeper kills all runs. It is a little longer than the 60 s
/// that the keeper allows itself.
const LEAVE: Duration = Duration::from_secs(65);
/// The longest wait until the processes of a dead keeper have died.
const BURY: Duration = Duration::from_secs(10);
/// The number of checks of a keeper within the time of one lease, while the keeper has runs. There
/// is at least one check a second.
const LOOKS_A_LEASE: u32 = 20;
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// The longest silence of a keeper before it counts as hanging, once the lease of one of its runs
/// is over. A quarter of a lease is used instead if it is shorter.
const BUSY: Duration = Duration::from_secs(5);
/// The longest silence of a keeper before it counts as hanging, while the leases of all its runs
/// last. During the silence the node still renews the leases, but the keeper stops no run.
///
/// The length of a lease is used instead if it is shorter, but at least [`BUSY`].
const LEFT_ALONE: Duration = Duration::from_secs(10);
/// The shortest wait between two starts of a keeper. The wait doubles with each start that fails
/// soon, up to `LONGEST_WAIT`.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

struct Running {
    process: Child,
    socket: UnixStream,
    link: Arc<KeeperLink>,
    orders: mpsc::Receiver<Vec<u8>>,
}

/// Starts the first keeper, and the task that replaces a dead keeper until `closing` is cancelled.
/// Returns a receiver of the link to the present keeper.
pub(crate) async fn start(
    settings: KeeperSettings,
    closing: CancellationToken,
) -> Result<watch::Receiver<Option<Arc<KeeperLink>>>, KeeperError> {
    let first = launch(&settings)
        .await
        .map_err(|source| KeeperError::Start { program: settings.program.clone(), source })?;
    let (links, link) = watch::channel(Some(Arc::clone(&first.link)));
    tokio::spawn(keep_one_running(settings, closing, first, links));
    Ok(link)
}

async fn launch(settings: &KeeperSettings) -> io::Result<Running> {
    // Processes left by a dying keeper's jobs must become children of this process, not of init.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    let process = Command::new(&settings.program)
        .arg(ARGUMENT)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()?;
    ours.set_nonblocking(true)?;
    let mut socket = UnixStream::from_std(ours)?;
    let serve = KeeperOrder::Serve {
        ended_file: settings.ended_file.clone(),
        node: settings.node.clone(),
        incarnation: settings.incarnation.clone(),
        output: settings.output,
        cgroups: settings.delegation.as_ref().map(|delegation| delegation.runs().dir().to_owned()),
        open_files: settings.open_files,
    };
    socket.write_all(&wire::order_frame(&serve)?).await?;
    let (to, orders) = mpsc::channel(ORDERS);
    let link = Arc::new(KeeperLink::new(process.id().unwrap_or(0), to));
    Ok(Running { process, socket, link, orders })
}

async fn keep_one_running(
    mut settings: KeeperSettings,
    closing: CancellationToken,
    first: Running,
    links: watch::Sender<Option<Arc<KeeperLink>>>,
) {
    let mut present = Some(first);
    let mut wait = FIRST_WAIT;
    loop {
        if let Some(keeper) = present.take() {
            let born = tokio::time::Instant::now();
            let pid = keeper.link.pid;
            let all_gone = accompany(keeper, &settings, &closing, &links).await;
            if closing.is_cancelled() {
                return;
            }
            tracing::error!(
                keeper = pid,
                all_gone,
                "The keeper died and its runs were killed. schedd starts another keeper."
            );
            if !all_gone {
                // The next keeper must not write a mark that all processes of this incarnation are
                // dead.
                settings.ended_file = None;
            }
            if born.elapsed() > LONGEST_WAIT {
                wait = FIRST_WAIT;
            }
        }
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(LONGEST_WAIT),
        }
        match launch(&settings).await {
            Ok(keeper) => {
                tracing::info!(keeper = keeper.link.pid, "The keeper was started again.");
                links.send_replace(Some(Arc::clone(&keeper.link)));
                present = Some(keeper);
            }
            Err(error) => {
                tracing::error!(program = ?settings.program, %error, "The keeper cannot be started. schedd tries again.");
            }
        }
    }
}

/// Serves one keeper until the keeper is gone. Returns true if all processes of the keeper's runs
/// are gone too.
async fn accompany(
    keeper: Running,
    settings: &KeeperSettings,
    closing: &CancellationToken,
    links: &watch::Sender<Option<Arc<KeeperLink>>>,
) -> bool {
    let Running { mut process, socket, link, orders } = keeper;
    let lease = settings.lease;
    let (from, to) = socket.into_split();
    let mut listener = tokio::spawn(listen(from, Arc::clone(&link)));
    let writer = tokio::spawn(write_orders(orders, to));
    tokio::select! {
        _ = &mut listener => {}
        () = stands_still(&link, lease) => {
            tracing::error!(keeper = link.pid, "The keeper hangs. schedd kills the keeper and its runs.");
        }
        () = closing.cancelled() => {
            // Dropping the writing half ends the orders. The keeper still reports how its runs end.
            writer.abort();
            let leaving = async {
                let _ = (&mut listener).await;
                let _ = process.wait().await;
            };
            // A keeper that hangs is killed below.
            tokio::select! {
                _ = tokio::time::timeout(LEAVE, leaving) => {}
                () = out_of_time(&link, lease) => {}
            }
        }
    }
    links.send_replace(None);
    listener.abort();
    writer.abort();
    // The keeper closed its socket, sent something unreadable or hangs. In each case the keeper
    // must not go on.
    let _ = process.start_kill();
    let is_dead = tokio::time::timeout(BURY, process.wait()).await.is_ok();
    let runs = link.identities();
    let cgroups = settings.delegation.as_ref().map(|delegation| delegation.runs().clone());
    let kill_all = move || {
        let killed = runs.is_empty() || process_tree::kill_runs(&runs, BURY);
        killed
            & cgroups.is_none_or(|cgroups| {
                cgroups.clear(BURY) && cgroups.children().iter().all(Cgroup::remove)
            })
    };
    let killed = tokio::task::spawn_blocking(kill_all).await.unwrap_or(false);
    let all_gone = is_dead && killed;
    link.close(if all_gone { ProcessEnd::LeaseLost } else { ProcessEnd::MaybeAlive });
    all_gone
}

/// Waits until the keeper was silent for too long. Such a keeper may fail to stop its runs in time.
///
/// Counts checks and not time, because time also passes while the daemon itself is stopped or does
/// not get the processor.
async fn stands_still(link: &KeeperLink, lease: Duration) {
    let look = (lease / LOOKS_A_LEASE).min(LONGEST_LOOK);
    let looks = |time: Duration| {
        u32::try_from(time.as_millis().div_ceil(look.as_millis().max(1))).unwrap_or(u32::MAX)
    };
    let (busy, left_alone) = (looks(BUSY.min(lease / 4)), looks(LEFT_ALONE.min(lease.max(BUSY))));
    let mut silent: u32 = 0;
    loop {
        tokio::time::sleep(look).await;
        if link.was_heard() || link.first_deadline().is_none() {
            silent = 0;
        } else {
            silent = silent.saturating_add(1);
        }
        link.note_silence(silent);
        if silent >= left_alone || silent >= busy && is_out_of_time(link, look) {
            return;
        }
        if link.first_deadline().is_some() {
            link.ping();
        }
    }
}

/// Waits until the lease ends for any run that the keeper has not reported as ended.
async fn out_of_time(link: &KeeperLink, lease: Duration) {
    let look = (lease / LOOKS_A_LEASE).min(LONGEST_LOOK);
    while !is_out_of_time(link, Duration::ZERO) {
        tokio::time::sleep(look).await;
    }
}

/// Returns true if the lease of one of the keeper's runs ends within `ahead`. The keeper must end a
/// run by the end of its lease. Other nodes take the run over a tenth of a lease later.
fn is_out_of_time(link: &KeeperLink, ahead: Duration) -> bool {
    link.first_deadline()
        .is_some_and(|deadline| BootInstant::now().saturating_add(ahead) >= deadline)
}

async fn listen(from: OwnedReadHalf, link: Arc<KeeperLink>) {
    let mut from = BufReader::with_capacity(wire::BUFFER, from);
    loop {
        match wire::read_news(&mut from).await {
            Ok(Some(news)) => link.hear(news),
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "The keeper sent an unreadable message.");
                return;
            }
        }
    }
}

async fn write_orders(mut orders: mpsc::Receiver<Vec<u8>>, mut to: OwnedWriteHalf) {
    while let Some(mut frame) = orders.recv().await {
        while frame.len() < wire::BUFFER
            && let Ok(next) = orders.try_recv()
        {
            frame.extend(next);
        }
        if to.write_all(&frame).await.is_err() {
            return;
        }
    }
}
