//! The state that the keeper's tasks share: the runs, the queue of messages to the daemon, and the
//! search for orphans.
//!
//! Invariant: the pid of a run's leader is entered in this table before any other task can look. So
//! [`ProcessTable::sweep`] never takes a direct child for an orphan.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::sync::{Notify, mpsc};

use super::process_tree;
use super::process_tree::{ChildList, Identity, Process, ProcessClaim, Snapshot};
use crate::limits::cgroup::Cgroup;
use crate::limits::delegation::seat_beside;
use crate::protocol::keeper_messages::{KeeperNews, Key, LaunchOrder};
use crate::protocol::outbox::{OutboxItem, Pending};
use schedd_core::domain::job::process_limits::Limits;
use schedd_core::domain::run::excerpt::{ExcerptStream, OutputBounds};
use schedd_core::domain::run::resource_use::ResourceUse;
use schedd_core::host::boot_clock::{BootInstant, SharedTimer};

/// An instruction to the task that attends a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ProcessWord {
    /// Extend the end of the run's lease to this instant, because the lease was renewed.
    Extend(BootInstant),
    /// Stop the run: SIGTERM, and SIGKILL after the grace.
    Stop,
    /// Kill the run at once, without grace.
    Abandon,
}

/// The kind of a killed process that does not die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// The program of the process never began and never will. The process is stuck in the kernel,
    /// and dies when the kernel wakes it.
    Unbegun,
    /// The process may still do work: it is stuck in the kernel, or belongs to another user.
    Alive,
}

struct ProcessEntry {
    identity: Identity,
    /// The uid that the run's process becomes; `None` keeps the keeper's user.
    owner: Option<u32>,
    cgroup: Option<Cgroup>,
    /// The pid and start time of each process recognised as this run's. A process stays recognised
    /// after its parent died and its environment was wiped.
    known: HashSet<(i32, u64)>,
    words: mpsc::UnboundedSender<ProcessWord>,
}

/// The shared state of a keeper. A keeper has one thread, so plain cells suffice.
pub(crate) struct ProcessTable {
    entries: RefCell<HashMap<Key, ProcessEntry>>,
    changed: Notify,
    children: ChildList,
    timer: SharedTimer,
    outbox: mpsc::UnboundedSender<OutboxItem>,
    buffer: RefCell<Vec<u8>>,
    /// The last snapshot of all processes, and the instant at which it began.
    read: RefCell<Option<(BootInstant, Rc<Snapshot>)>>,
    output: OutputBounds,
    /// The cgroup in which each run gets its own cgroup. `None` if runs have no cgroups.
    cgroups: Option<Cgroup>,
    /// The cgroups of ended runs that could not be removed yet.
    left_cgroups: RefCell<Vec<Cgroup>>,
    /// The children that were killed and do not die. These children belong to no run, and are kept
    /// until their exit status can be read.
    given_up: RefCell<HashMap<i32, GivenUp>>,
}

const BUFFER: usize = 64 * 1024;
/// The maximum age of a snapshot in which processes for SIGTERM are searched. Runs that are stopped
/// at the same time share one snapshot.
const FRESH: Duration = Duration::from_millis(20);

impl ProcessTable {
    /// Creates the shared state without runs, and the queue of messages for the daemon. Each run
    /// gets its own cgroup below `cgroups`. Fails if descriptors are short.
    pub(crate) fn new(
        output: OutputBounds,
        cgroups: Option<Cgroup>,
    ) -> io::Result<(Rc<Self>, mpsc::UnboundedReceiver<OutboxItem>)> {
        let (outbox, items) = mpsc::unbounded_channel();
        let table = Self {
            entries: RefCell::default(),
            changed: Notify::new(),
            children: ChildList::open(),
            timer: SharedTimer::new()?,
            outbox,
            buffer: RefCell::new(vec![0; BUFFER]),
            read: RefCell::default(),
            output,
            cgroups,
            left_cgroups: RefCell::default(),
            given_up: RefCell::default(),
        };
        Ok((Rc::new(table), items))
    }

    /// Registers a run before it has a process. Returns the receiver of the run's instructions, or
    /// `None` if `key` is in use.
    pub(crate) fn admit(
        &self,
        key: Key,
        launch: &LaunchOrder,
    ) -> Option<mpsc::UnboundedReceiver<ProcessWord>> {
        let mut entries = self.entries.borrow_mut();
        if entries.contains_key(&key) {
            return None;
        }
        let (words, heard) = mpsc::unbounded_channel();
        let identity = Identity { run: launch.run.clone(), fence: launch.fence, leader: None };
        let owner = launch.owner.as_ref().map(|owner| owner.uid);
        entries.insert(
            key,
            ProcessEntry { identity, owner, cgroup: None, known: HashSet::new(), words },
        );
        self.changed.notify_one();
        Some(heard)
    }

    /// Makes the cgroup of a run. Returns `None` if runs have no cgroups.
    ///
    /// If the cgroup cannot be made, a run without limits that need a cgroup starts without a
    /// cgroup. For any other run the failure is an error.
    pub(crate) fn make_cgroup(&self, key: Key, limits: &Limits) -> io::Result<Option<Cgroup>> {
        let Some(cgroups) = &self.cgroups else { return Ok(None) };
        let made = cgroups.make(&key.to_string()).and_then(|made| match made.limit(limits) {
            Ok(()) => Ok(made),
            Err(error) => {
                made.remove();
                Err(error)
            }
        });
        let cgroup = match made {
            Ok(cgroup) => cgroup,
            Err(_) if limits.asked().iter().all(|kind| kind.controller().is_none()) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if let Some(entry) = self.entries.borrow_mut().get_mut(&key) {
            entry.cgroup = Some(cgroup.clone());
        }
        Ok(Some(cgroup))
    }

    /// Returns true if one of a run's processes was killed because memory had run out.
    pub(crate) fn is_out_of_memory(&self, key: Key) -> bool {
        self.cgroup(key).is_some_and(|cgroup| cgroup.oom_kills() > 0)
    }

    /// Returns the resources that a run used. `of_leader` has the resources of its leader and of
    /// the descendants for which the leader waited.
    pub(crate) fn resource_use(
        &self,
        key: Key,
        of_leader: Option<ResourceUse>,
    ) -> Option<ResourceUse> {
        match self.cgroup(key) {
            Some(cgroup) => Some(cgroup.resource_use(of_leader.unwrap_or_default())),
            None => of_leader,
        }
    }

    fn cgroup(&self, key: Key) -> Option<Cgroup> {
        self.entries.borrow().get(&key)?.cgroup.clone()
    }

    /// Notes the pid of a run's leader. The caller must note the pid before the next await after
    /// the fork.
    pub(crate) fn note_leader(&self, key: Key, pid: i32) {
        if let Some(entry) = self.entries.borrow_mut().get_mut(&key) {
            entry.identity.leader = Some(pid);
        }
    }

    /// Stops waiting for the leader of the run `key`, which was killed and does not die. From now
    /// on the leader belongs to no run and blocks no run.
    pub(crate) fn give_up(&self, key: Key, how: GivenUp) {
        let mut entries = self.entries.borrow_mut();
        let Some(entry) = entries.get_mut(&key) else { return };
        let Some(pid) = entry.identity.leader.take() else { return };
        let has_to_move = how == GivenUp::Unbegun && entry.cgroup.is_some();
        if let Some(seat) = self.cgroups.as_ref().filter(|_| has_to_move).and_then(seat_beside) {
            // If the move fails, the cgroup stays until all cgroups are cleared at the end.
            let _ = seat.write("cgroup.procs", &pid.to_string());
        }
        self.given_up.borrow_mut().insert(pid, how);
    }

    /// Returns true if the process with this pid will never run any part of a job.
    pub(crate) fn never_begins(&self, pid: i32) -> bool {
        self.given_up.borrow().get(&pid) == Some(&GivenUp::Unbegun)
    }

    /// Removes a run that has ended from the table.
    pub(crate) fn release(&self, key: Key) {
        let entry = self.entries.borrow_mut().remove(&key);
        self.left_cgroups.borrow_mut().extend(entry.and_then(|entry| entry.cgroup));
        self.remove_left_cgroups();
        self.changed.notify_one();
    }

    fn remove_left_cgroups(&self) {
        self.left_cgroups.borrow_mut().retain(|cgroup| !cgroup.remove());
    }

    /// Kills all processes in the cgroups of all runs. Returns true if these cgroups were already
    /// empty.
    pub(crate) fn clear_cgroups(&self) -> bool {
        self.remove_left_cgroups();
        let Some(cgroups) = self.cgroups.as_ref().filter(|cgroups| cgroups.is_populated()) else {
            return true;
        };
        cgroups.kill();
        false
    }

    /// Passes an instruction to a run, if the run is still registered.
    pub(crate) fn send(&self, key: Key, word: ProcessWord) {
        if let Some(entry) = self.entries.borrow().get(&key) {
            let _ = entry.words.send(word);
        }
    }

    /// Passes an instruction to every run.
    pub(crate) fn send_all(&self, word: ProcessWord) {
        for entry in self.entries.borrow().values() {
            let _ = entry.words.send(word);
        }
    }

    /// Returns the timer that the deadlines of all runs share.
    pub(crate) fn timer(&self) -> &SharedTimer {
        &self.timer
    }

    /// Waits until a run was added or removed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns true if no run is registered.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    /// Returns a buffer for the output of the run `key`.
    pub(crate) fn pending(&self, key: Key) -> Rc<Pending> {
        Rc::new(Pending::new(key, self.output))
    }

    /// Returns true if no run is registered, and no child is left that survived SIGKILL. Only
    /// orphans can then be left, and they end soon.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_empty() && self.given_up.borrow().is_empty()
    }

    /// Queues a message for the daemon.
    pub(crate) fn say(&self, news: KeeperNews) {
        let _ = self.outbox.send(OutboxItem::News(news));
    }

    /// Reads the bytes that a pipe has now into `pending`. Returns true if the pipe is still open.
    /// Fails with `WouldBlock` if the pipe is empty.
    pub(crate) fn drain(
        &self,
        pipe: &tokio::net::unix::pipe::Receiver,
        stream: ExcerptStream,
        pending: &Rc<Pending>,
    ) -> io::Result<bool> {
        let mut buffer = self.buffer.borrow_mut();
        let count = pipe.try_read(&mut buffer)?;
        if pending.append(stream, buffer.get(..count).unwrap_or_default()) {
            let _ = self.outbox.send(OutboxItem::Output(Rc::clone(pending)));
        }
        Ok(count > 0)
    }

    /// Returns the living processes of a run, without its leader. Returns `None` if this process
    /// has no free descriptor to look. The call is cheap if the run has no such process.
    pub(crate) fn remaining(&self, key: Key) -> Option<Vec<Process>> {
        // The processes that a dead leader left are children of this process. So without a living
        // orphan the run has no process left.
        let is_empty = self.cgroup(key).is_none_or(|cgroup| !cgroup.is_populated());
        if self.living_orphans()?.is_empty() && is_empty {
            return Some(Vec::new());
        }
        let remaining = || {
            let (leader, mut members) = self.members(key, &Snapshot::try_take()?);
            members.retain(|process| Some(process.pid) != leader && !process.is_zombie);
            Some(members)
        };
        let found = remaining()?;
        // One scan may miss a process that changed its parent during the scan. Two scans in a row
        // do not.
        if found.is_empty() { remaining() } else { Some(found) }
    }

    /// Sends SIGTERM to all processes of a run.
    pub(crate) fn terminate(&self, key: Key) {
        let snapshot = self.recent_snapshot(self.leader(key));
        process_tree::signal_all(&self.members(key, &snapshot).1, Signal::TERM);
    }

    /// Sends SIGKILL to the process group of a run's leader, without a search in `/proc`. So many
    /// runs can be killed at once.
    ///
    /// The caller must kill the group before the leader is reaped.
    pub(crate) fn kill_group(&self, key: Key) {
        if let Some(leader) = self.leader(key).and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(leader, Signal::KILL);
            let _ = rustix::process::kill_process(leader, Signal::KILL); // A fresh child leads no group yet.
        }
        self.kill_cgroup(key);
    }

    /// Kills all processes in the cgroup of a run, if the run has a cgroup.
    pub(crate) fn kill_cgroup(&self, key: Key) {
        if let Some(cgroup) = self.cgroup(key) {
            cgroup.kill();
        }
    }

    /// Finds all processes of a run in `/proc` and kills these processes.
    pub(crate) fn kill(&self, key: Key) {
        self.kill_cgroup(key);
        process_tree::signal_all(&self.members(key, &Snapshot::take()).1, Signal::KILL);
    }

    fn leader(&self, key: Key) -> Option<i32> {
        self.entries.borrow().get(&key)?.identity.leader
    }

    /// Returns a snapshot that is at most [`FRESH`] old and contains the process `leader`.
    fn recent_snapshot(&self, leader: Option<i32>) -> Rc<Snapshot> {
        let now = BootInstant::now();
        let mut read = self.read.borrow_mut();
        match &*read {
            Some((at, snapshot))
                if now.since(*at) < FRESH && leader.is_none_or(|leader| snapshot.shows(leader)) =>
            {
                Rc::clone(snapshot)
            }
            _ => Rc::clone(&read.insert((now, Rc::new(Snapshot::take()))).1),
        }
    }

    /// Returns the leader of a run and all processes of the run, including dead processes.
    fn members(&self, key: Key, snapshot: &Snapshot) -> (Option<i32>, Vec<Process>) {
        let leaders = self.leaders();
        let mut entries = self.entries.borrow_mut();
        let is_alone = entries.len() == 1;
        // A keeper may not read the environment of a process that became another user. The process
        // still belongs to the run if only one run has that user. A run with a cgroup finds its
        // processes there instead.
        let own_user =
            entries.get(&key).filter(|entry| entry.cgroup.is_none()).and_then(|entry| entry.owner);
        let own_user = own_user
            .filter(|uid| entries.values().filter(|other| other.owner == Some(*uid)).count() == 1);
        let others = entries.values().filter(|_| own_user.is_some());
        let others: Vec<Cgroup> = others.filter_map(|entry| entry.cgroup.clone()).collect();
        let Some(ProcessEntry { identity, cgroup, known, .. }) = entries.get_mut(&key) else {
            return (None, Vec::new());
        };
        let mut members = snapshot.members(identity, &leaders, |orphan, claim| {
            let is_elsewhere = || others.iter().any(|cgroup| cgroup.pids().contains(&orphan.pid));
            let is_of_user = || {
                claim == ProcessClaim::Hidden
                    && own_user.is_some_and(|uid| orphan.is_bound_to(uid))
                    && !is_elsewhere()
            };
            !leaders.contains(&orphan.pid) && (is_alone || is_of_user())
                || known.contains(&(orphan.pid, orphan.started))
        });
        // A process in the run's cgroup belongs to the run, whatever its environment says.
        let seen: HashSet<i32> = members.iter().map(|member| member.pid).collect();
        let inside = cgroup.iter().flat_map(Cgroup::pids).filter(|pid| !seen.contains(pid));
        members.extend(inside.filter_map(Process::read));
        known.extend(members.iter().map(|member| (member.pid, member.started)));
        (identity.leader, members)
    }

    /// Returns the keeper's living children that are not the leader of a run. Reaps dead children.
    /// Returns `None` if this process has no free descriptor to look.
    fn living_orphans(&self) -> Option<Vec<Process>> {
        let leaders = self.leaders();
        let mut pids = self.children.pids()?;
        pids.retain(|pid| !leaders.contains(pid));
        let orphans: Vec<Process> = pids.iter().filter_map(|pid| Process::read(*pid)).collect();
        if orphans.len() < pids.len() && Process::read(process_tree::own_pid()).is_none() {
            return None;
        }
        let (dead, living): (Vec<_>, Vec<_>) =
            orphans.into_iter().partition(|orphan| orphan.is_zombie);
        dead.iter().for_each(Process::reap);
        Some(living)
    }

    /// Returns the pids of the first processes (the leaders) of all runs. Leaders for which the
    /// keeper no longer waits are included.
    fn leaders(&self) -> HashSet<i32> {
        let entries = self.entries.borrow();
        let leaders = entries.values().filter_map(|entry| entry.identity.leader);
        leaders.chain(self.given_up.borrow().keys().copied()).collect()
    }

    /// Returns true if this process has no child, alive or dead.
    pub(crate) fn is_childless(&self) -> bool {
        self.children.pids().is_some_and(|pids| pids.is_empty())
    }

    /// Reaps dead orphans, and kills the orphans whose run has ended. Returns the number of
    /// children that are left, without the leaders of runs. Returns 1 if the children cannot be
    /// listed.
    pub(crate) fn sweep(&self) -> usize {
        self.remove_left_cgroups();
        self.given_up.borrow_mut().retain(|pid, _| {
            let alive = Pid::from_raw(*pid).filter(|pid| process_tree::is_alive_child(*pid));
            alive.is_some_and(|pid| {
                // SIGKILL had no effect so far. The process is not reaped, so no other process has
                // its pid.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                true
            })
        });
        // The orphans cannot be listed, so at least one orphan may exist.
        let Some(orphans) = self.living_orphans() else { return 1 };
        let entries = self.entries.borrow();
        for orphan in &orphans {
            let mut claims = entries.values().map(|entry| entry.identity.claim(orphan.pid));
            // An orphan that names no run may belong to any run that is still here.
            if claims.all(|claim| claim == ProcessClaim::Other) {
                orphan.signal(Signal::KILL);
            }
        }
        orphans.len() + self.given_up.borrow().len()
    }
}
