//! Which processes belong to a run, read from `/proc`, and signals to all of them.
//!
//! Invariant: only descendants of the calling process are ever touched, and what is in the cgroup of one of its runs. Both the keeper and the daemon are subreapers
//! (`prctl(2)`), so what a job leaves behind becomes the child of one of them and cannot leave the tree. An orphan is known by
//! its session, or by `SCHEDD_RUN_ID` and `SCHEDD_FENCE` in its environment; one that wiped them only by being the only run's, one we
//! may not ask for them also by being that of the only run of its user.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

/// What a run's processes are known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// The run's id.
    pub(super) run: String,
    /// The fence of its lease.
    pub(super) fence: u64,
    /// The direct child, which leads the session; none while it is not known.
    pub(super) leader: Option<i32>,
}

/// What an orphan's environment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is this run's.
    This,
    /// It is another run's.
    Other,
    /// It says nothing, or there is none.
    Nothing,
    /// We may not read it.
    Hidden,
}

impl Identity {
    /// What the environment of `pid` says about this run.
    pub(super) fn claim(&self, pid: i32) -> Claim {
        let environment = match std::fs::read(format!("/proc/{pid}/environ")) {
            Ok(environment) => environment,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Claim::Hidden,
            Err(_) => return Claim::Nothing,
        };
        let value = |name: &str| {
            let mut variables = environment.split(|byte| *byte == 0);
            variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        };
        match (value("SCHEDD_RUN_ID"), value("SCHEDD_FENCE")) {
            (Some(run), Some(fence)) if run == self.run.as_bytes() && fence == self.fence.to_string().as_bytes() => Claim::This,
            (None, None) => Claim::Nothing,
            _ => Claim::Other,
        }
    }
}

/// One process as `/proc/PID/stat` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    session: i32,
    /// In clock ticks since the boot: with the number it names the process for good.
    pub(super) started: u64,
    pub(super) is_zombie: bool,
}

impl Process {
    /// The process of that number, if there is one.
    pub(super) fn read(pid: i32) -> Option<Self> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything, even spaces and parentheses.
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

    /// Whether it is that user with no way to other rights (`no_new_privs`), as all below a job with `user`. What a job without
    /// made that user, as with `sudo`, is not.
    pub(super) fn is_bound_to(&self, uid: u32) -> bool {
        let own = format!("/proc/{}", self.pid);
        let is_bound = |status: String| status.lines().any(|line| line == "NoNewPrivs:\t1");
        std::fs::metadata(&own).is_ok_and(|process| process.uid() == uid)
            && std::fs::read_to_string(format!("{own}/status")).is_ok_and(is_bound)
    }

    /// Sends it a signal, unless it ended meanwhile and its number names another.
    pub(super) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        if let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            && Self::read(self.pid).is_some_and(|now| now.started == self.started)
        {
            // It may have ended, or belong to another user: then there is nothing we can do about it.
            let _ = rustix::process::pidfd_send_signal(&handle, signal);
        }
    }

    /// Reaps it if it is a dead child of the calling process.
    pub(super) fn reap(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

/// This process' own number.
pub(super) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Whether that child of the calling process lives; a dead one is reaped.
pub(super) fn is_alive_child(pid: Pid) -> bool {
    matches!(rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG), Ok(None))
}

/// The children of the calling thread, all of them if the process has one thread. `None` if this process lacks the descriptors to look.
pub(super) fn own_children() -> Option<Vec<Process>> {
    if let Ok(pids) = std::fs::read_to_string("/proc/thread-self/children") {
        let pids: Vec<&str> = pids.split_ascii_whitespace().collect();
        let children: Vec<Process> = pids.iter().filter_map(|pid| Process::read(pid.parse().ok()?)).collect();
        return (children.len() == pids.len() || Process::read(own_pid()).is_some()).then_some(children);
    }
    // The kernel was built without that file, or no descriptor is left to open it.
    let me = own_pid();
    Some(Snapshot::try_take()?.processes.into_values().filter(|process| process.parent == me).collect())
}

/// All processes at one moment.
pub(super) struct Snapshot {
    processes: HashMap<i32, Process>,
    children: HashMap<i32, Vec<i32>>,
}

impl Snapshot {
    /// Reads `/proc`. What cannot be seen is not there.
    pub(super) fn take() -> Self {
        Self::try_take().unwrap_or_else(|| Self { processes: HashMap::new(), children: HashMap::new() })
    }

    /// Reads `/proc`. `None` if this process lacks the descriptors to do so: then it does not see even itself.
    pub(super) fn try_take() -> Option<Self> {
        let pids = std::fs::read_dir("/proc").ok()?.flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let processes: HashMap<i32, Process> = pids.filter_map(|pid| Some((pid, Process::read(pid)?))).collect();
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for process in processes.values() {
            children.entry(process.parent).or_default().push(process.pid);
        }
        processes.contains_key(&own_pid()).then_some(Self { processes, children })
    }

    /// The children of `pid`.
    pub(super) fn children(&self, pid: i32) -> impl Iterator<Item = Process> {
        self.children.get(&pid).into_iter().flatten().filter_map(|child| self.processes.get(child)).copied()
    }

    /// The children of the calling process that belong to `run`, and all below them; the leader is among them. Those in the
    /// session of one of `leaders` are asked nothing. An orphan that says nothing, or to us, belongs to the run if `takes` says so.
    pub(super) fn members(
        &self,
        run: &Identity,
        leaders: &HashSet<i32>,
        takes: impl Fn(&Process, Claim) -> bool,
    ) -> Vec<Process> {
        let roots = self.children(own_pid()).filter(|child| {
            let by_session = run.leader.is_some_and(|leader| child.pid == leader || child.session == leader);
            let is_known = leaders.contains(&child.pid) || leaders.contains(&child.session);
            by_session
                || !is_known
                    && match run.claim(child.pid) {
                        Claim::This => true,
                        Claim::Other => false,
                        claim @ (Claim::Nothing | Claim::Hidden) => takes(child, claim),
                    }
        });
        self.below(roots.collect())
    }

    /// Whether it shows this process.
    pub(super) fn shows(&self, pid: i32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// All below the calling process.
    pub(super) fn descendants(&self) -> Vec<Process> {
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

/// Kills all of these runs below the calling process and waits until they are gone, `patience` at most; whether they are.
/// Blocks.
pub(super) fn kill_runs(runs: &[Identity], patience: Duration) -> bool {
    let end = Instant::now() + patience;
    // A dead process' environment cannot be read: what was known alive is still known dead.
    let mut known = HashSet::new();
    let mut empty_scans = 0;
    while Instant::now() < end {
        let Some(snapshot) = Snapshot::try_take() else {
            empty_scans = 0;
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let of_run = |run| snapshot.members(run, &HashSet::new(), |orphan, _| known.contains(&(orphan.pid, orphan.started)));
        let members: Vec<Process> = runs.iter().flat_map(of_run).collect();
        known.extend(members.iter().map(|member| (member.pid, member.started)));
        // One that changed its parent while we read may have been missed; twice it will not be.
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

/// Sends all of them a signal; one that stops is made to run on so that it can take it.
pub(super) fn signal_all(processes: &[Process], signal: Signal) {
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
        assert_ne!(nobody.claim(me.pid), Claim::This);
        assert!(Snapshot::take().members(&nobody, &HashSet::new(), |_, _| false).is_empty());
        assert!(Process::read(0).is_none());
    }
}
