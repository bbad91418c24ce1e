//! The search for the processes of a run in `/proc`, and signals to all of them.
//!
//! Invariant: signals go only to descendants of the calling process, and to processes in the cgroup
//! of one of its runs. Both the keeper and the daemon are subreapers (`prctl(2)`). So a process
//! that a job leaves behind becomes a child of the keeper or the daemon and cannot leave the tree.
//!
//! An orphan is recognised by its session, or by `SCHEDD_RUN_ID` and `SCHEDD_FENCE` in its
//! environment. An orphan that wiped these variables is recognised only if there is just one run.
//! An orphan whose environment this process may not read is also recognised if only one run has the
//! orphan's user.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

/// The values by which the processes of a run are recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The run's id.
    pub(crate) run: String,
    /// The fence of the run's lease.
    pub(crate) fence: u64,
    /// The pid of the run's direct child, which leads the session; `None` while the pid is unknown.
    pub(crate) leader: Option<i32>,
}

/// The run that an orphan's environment names, compared with a given run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessClaim {
    /// The environment names this run.
    This,
    /// The environment names another run.
    Other,
    /// The environment names no run, or cannot be found.
    Nothing,
    /// The environment may not be read by this process.
    Hidden,
}

impl Identity {
    /// Compares the run that the environment of the process `pid` names with this run.
    pub(crate) fn claim(&self, pid: i32) -> ProcessClaim {
        let environment = match std::fs::read(format!("/proc/{pid}/environ")) {
            Ok(environment) => environment,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return ProcessClaim::Hidden;
            }
            Err(_) => return ProcessClaim::Nothing,
        };
        let value = |name: &str| {
            let mut variables = environment.split(|byte| *byte == 0);
            variables
                .find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        };
        match (value("SCHEDD_RUN_ID"), value("SCHEDD_FENCE")) {
            (Some(run), Some(fence))
                if run == self.run.as_bytes() && fence == self.fence.to_string().as_bytes() =>
            {
                ProcessClaim::This
            }
            (None, None) => ProcessClaim::Nothing,
            _ => ProcessClaim::Other,
        }
    }
}

/// A process, as `/proc/PID/stat` describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    session: i32,
    /// The start time in clock ticks since the boot. The pid and the start time together identify
    /// the process for good.
    pub(crate) started: u64,
    pub(crate) is_zombie: bool,
}

impl Process {
    /// Returns the process with this pid, if there is one.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain anything, even spaces and parentheses.
        let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let rest = std::str::from_utf8(stat.get(after_name..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            is_zombie: matches!(*fields.first()?, "Z" | "X"),
        })
    }

    /// Returns true if the process runs as `uid` and cannot gain other rights (`no_new_privs`).
    ///
    /// This is true for each process of a job with the key `user`. It is false for a process of a
    /// job without `user` that changed to that user, for example with `sudo`.
    pub(crate) fn is_bound_to(&self, uid: u32) -> bool {
        let own = format!("/proc/{}", self.pid);
        let is_bound = |status: String| status.lines().any(|line| line == "NoNewPrivs:\t1");
        std::fs::metadata(&own).is_ok_and(|process| process.uid() == uid)
            && std::fs::read_to_string(format!("{own}/status")).is_ok_and(is_bound)
    }

    /// Sends the process a signal, unless the process has ended and its pid names another process.
    pub(crate) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        if let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            && Self::read(self.pid).is_some_and(|now| now.started == self.started)
        {
            // The process may have ended, or belong to another user. In both cases there is nothing
            // to do.
            let _ = rustix::process::pidfd_send_signal(&handle, signal);
        }
    }

    /// Reaps the process if it is a dead child of the calling process.
    pub(crate) fn reap(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = rustix::process::waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
            );
        }
    }
}

/// Returns the pid of the calling process.
pub(crate) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Returns true if `pid`, a child of the calling process, is alive. Reaps a dead child.
pub(crate) fn is_alive_child(pid: Pid) -> bool {
    matches!(
        rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG),
        Ok(None)
    )
}

/// The kernel's list of the children of one thread (`/proc/thread-self/children`).
///
/// The list stays open, so that a look costs two system calls and needs no free descriptor.
pub(crate) struct ChildList {
    /// The open file of the list. `None` if the kernel does not have this file.
    file: Option<File>,
}

impl ChildList {
    /// Opens the list of the calling thread. In a process with one thread, the list has all
    /// children of the process.
    pub(crate) fn open() -> Self {
        Self { file: File::open("/proc/thread-self/children").ok() }
    }

    /// Returns the pids of the children, including dead children. Returns `None` if this process
    /// has no free descriptor to look.
    pub(crate) fn pids(&self) -> Option<Vec<i32>> {
        let Some(file) = &self.file else {
            let snapshot = Snapshot::try_take()?;
            return Some(snapshot.children(own_pid()).map(|child| child.pid).collect());
        };
        let (mut text, mut length) = (vec![0; 4096], 0);
        loop {
            match file.read_at(text.get_mut(length..)?, length as u64).ok()? {
                0 => break,
                count => length += count,
            }
            text.resize(length + 4096, 0);
        }
        let pids = std::str::from_utf8(text.get(..length)?).ok()?.split_ascii_whitespace();
        pids.map(|pid| pid.parse().ok()).collect()
    }
}

/// A snapshot of all processes at one moment.
pub(crate) struct Snapshot {
    processes: HashMap<i32, Process>,
    children: HashMap<i32, Vec<i32>>,
}

impl Snapshot {
    /// Returns the processes in `/proc`, without those that cannot be read. The snapshot is empty
    /// if this process has no free descriptor to look.
    pub(crate) fn take() -> Self {
        Self::try_take()
            .unwrap_or_else(|| Self { processes: HashMap::new(), children: HashMap::new() })
    }

    /// Returns the processes in `/proc`. Returns `None` if this process has no free descriptor to
    /// read them: then not even its own entry is found.
    pub(crate) fn try_take() -> Option<Self> {
        let pids = std::fs::read_dir("/proc").ok()?.flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let processes: HashMap<i32, Process> =
            pids.filter_map(|pid| Some((pid, Process::read(pid)?))).collect();
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for process in processes.values() {
            children.entry(process.parent).or_default().push(process.pid);
        }
        processes.contains_key(&own_pid()).then_some(Self { processes, children })
    }

    /// Returns the child processes of the process `pid`.
    pub(crate) fn children(&self, pid: i32) -> impl Iterator<Item = Process> {
        self.children
            .get(&pid)
            .into_iter()
            .flatten()
            .filter_map(|child| self.processes.get(child))
            .copied()
    }

    /// Returns the children of the calling process that belong to `run`, and all descendants of
    /// these children. The first process of `run`, its leader, is among these children.
    ///
    /// A process in the session of one of `leaders` belongs to the run of that leader, so its
    /// environment is not read. If an orphan names no run, or its environment cannot be read,
    /// `takes` decides whether the orphan belongs to the run.
    pub(crate) fn members(
        &self,
        run: &Identity,
        leaders: &HashSet<i32>,
        takes: impl Fn(&Process, ProcessClaim) -> bool,
    ) -> Vec<Process> {
        let roots = self.children(own_pid()).filter(|child| {
            let by_session =
                run.leader.is_some_and(|leader| child.pid == leader || child.session == leader);
            let is_known = leaders.contains(&child.pid) || leaders.contains(&child.session);
            by_session
                || !is_known
                    && match run.claim(child.pid) {
                        ProcessClaim::This => true,
                        ProcessClaim::Other => false,
                        claim @ (ProcessClaim::Nothing | ProcessClaim::Hidden) => {
                            takes(child, claim)
                        }
                    }
        });
        self.below(roots.collect())
    }

    /// Returns true if the snapshot contains the process `pid`.
    pub(crate) fn shows(&self, pid: i32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Returns all descendants of the calling process.
    pub(crate) fn descendants(&self) -> Vec<Process> {
        self.below(self.children(own_pid()).collect())
    }

    fn below(&self, roots: Vec<Process>) -> Vec<Process> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut open = roots;
        while let Some(process) = open.pop() {
            if seen.insert(process.pid) {
                found.push(process);
                open.extend(self.children(process.pid));
            }
        }
        found
    }
}

/// Kills all processes of `runs` below the calling process and waits until they are gone, for
/// `patience` at most. Returns true if the processes are gone. Blocks.
pub(crate) fn kill_runs(runs: &[Identity], patience: Duration) -> bool {
    let end = Instant::now() + patience;
    // A dead process' environment cannot be read, so processes recognised while alive are
    // remembered.
    let mut known = HashSet::new();
    let mut empty_scans = 0;
    while Instant::now() < end {
        let Some(snapshot) = Snapshot::try_take() else {
            empty_scans = 0;
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let of_run = |run| {
            snapshot.members(run, &HashSet::new(), |orphan, _| {
                known.contains(&(orphan.pid, orphan.started))
            })
        };
        let members: Vec<Process> = runs.iter().flat_map(of_run).collect();
        known.extend(members.iter().map(|member| (member.pid, member.started)));
        // One scan may miss a process that changed its parent during the scan. Two scans in a row
        // do not.
        empty_scans = if members.is_empty() { empty_scans + 1 } else { 0 };
        if empty_scans == 2 {
            return true;
        }
        signal_all(&members, Signal::KILL);
        members.iter().filter(|member| member.is_zombie).for_each(Process::reap);
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Sends `signal` to all `processes`. Each process is also continued, so that a stopped process can
/// handle the signal.
pub(crate) fn signal_all(processes: &[Process], signal: Signal) {
    for process in processes.iter().filter(|process| !process.is_zombie) {
        process.signal(signal);
        process.signal(Signal::CONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_reads_itself_and_knows_no_run() {
        let me = Process::read(own_pid()).unwrap();
        assert!(!me.is_zombie && me.started > 0);
        let nobody = Identity { run: "no@0".to_owned(), fence: 1, leader: None };
        assert_ne!(nobody.claim(me.pid), ProcessClaim::This);
        assert!(Snapshot::take().members(&nobody, &HashSet::new(), |_, _| false).is_empty());
        assert!(Process::read(0).is_none());
    }
}
