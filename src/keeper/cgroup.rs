//! A cgroup of version 2, as the files of its directory: made, limited, asked who is in it, killed and removed.
//!
//! Invariant: a process cannot leave one by forking, by a session of its own or by wiping its environment, so what was started
//! in one is found there. A kill is the kernel's own (`cgroup.kill`) and misses nobody who forks meanwhile.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::domain::limits::Limits;

/// The period a share of the processor is measured in, microseconds.
const CPU_PERIOD: u64 = 100_000;
/// How deep cgroups that a job made itself are looked into.
const DEEPEST: u32 = 8;
/// The wait between looks at one that is to become empty.
const LOOK: Duration = Duration::from_millis(5);

/// One cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// The one of that directory.
    pub(super) fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Its directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes one below it. Fails as `mkdir(2)` does.
    pub(super) fn make(&self, name: &str) -> io::Result<Self> {
        let made = Self::at(self.dir.join(name));
        fs::create_dir(&made.dir)?;
        Ok(made)
    }

    /// Holds all in it to those of `limits` that a cgroup can. Fails if a controller is not there.
    pub(super) fn limit(&self, limits: &Limits) -> io::Result<()> {
        if let Some(bytes) = limits.memory {
            self.write("memory.max", &bytes.to_string())?;
            // Swap would only put the end off; a kernel without it has no such file.
            if let Err(error) = self.write("memory.swap.max", "0")
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
            self.write("memory.oom.group", "1")?;
        }
        if let Some(thousandths) = limits.cpu {
            let quota = u64::from(thousandths) * CPU_PERIOD / 1_000;
            self.write("cpu.max", &format!("{quota} {CPU_PERIOD}"))?;
        }
        if let Some(most) = limits.pids {
            self.write("pids.max", &most.to_string())?;
        }
        Ok(())
    }

    /// The file through which a process moves itself in, by writing `0`.
    pub(super) fn door(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.dir.join("cgroup.procs"))
    }

    /// Writes `value` into one of its files.
    pub(super) fn write(&self, file: &str, value: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.dir.join(file))?.write_all(value.as_bytes())
    }

    /// What one of its files says.
    pub(super) fn read(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.dir.join(file))
    }

    /// Whether a process is alive in it or below; one that is gone is empty.
    pub(super) fn is_populated(&self) -> bool {
        match self.read("cgroup.events") {
            Ok(text) => !text.lines().any(|line| line == "populated 0"),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// How many processes in it were killed because memory had run out.
    pub(super) fn oom_kills(&self) -> u64 {
        let events = self.read("memory.events").unwrap_or_default();
        events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
    }

    /// The cgroups directly below it.
    pub(super) fn children(&self) -> Vec<Self> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| Self::at(entry.path())).collect()
    }

    /// The processes in it and below.
    pub(super) fn pids(&self) -> Vec<i32> {
        self.pids_to(DEEPEST)
    }

    fn pids_to(&self, depth: u32) -> Vec<i32> {
        let text = self.read("cgroup.procs").unwrap_or_default();
        // 0 stands for one this process cannot see.
        let mut pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok().filter(|pid| *pid > 0)).collect();
        if depth > 0 {
            pids.extend(self.children().iter().flat_map(|child| child.pids_to(depth - 1)));
        }
        pids
    }

    /// Kills all in it and below.
    pub(super) fn kill(&self) {
        // Kernels before 5.14 have no such file.
        if self.write("cgroup.kill", "1").is_err() {
            for pid in self.pids().into_iter().filter_map(Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Kills all in it and waits until they are gone, `patience` at most; whether they are. Blocks.
    pub(super) fn clear(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        while self.is_populated() {
            if Instant::now() >= end {
                return false;
            }
            self.kill();
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Removes it and those below, as far as they are empty; whether it is gone.
    pub(super) fn remove(&self) -> bool {
        for child in self.children() {
            let _ = child.remove();
        }
        match fs::remove_dir(&self.dir) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}
