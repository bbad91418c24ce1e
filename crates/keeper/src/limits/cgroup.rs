//! A cgroup of version 2, accessed by the files in its directory.
//!
//! Invariant: a process cannot leave a cgroup by forking, by its own session or by wiping its
//! environment. So every process started in a cgroup is found there. The kernel kills a whole
//! cgroup at once (`cgroup.kill`), so a process cannot escape by forking.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use schedd_core::domain::job::process_limits::Limits;
use schedd_core::domain::run::resource_use::ResourceUse;

/// The period in which a share of the processor is measured, in microseconds.
const CPU_PERIOD: u64 = 100_000;
/// The maximum depth to which cgroups made by a job itself are searched.
const DEEPEST: u32 = 8;
/// The time between two checks whether a cgroup has become empty.
const LOOK: Duration = Duration::from_millis(5);

/// A cgroup of version 2, known by its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// Returns the cgroup with the directory `dir`.
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Returns the directory of the cgroup.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes a child cgroup. Fails as `mkdir(2)` does.
    pub(crate) fn make(&self, name: &str) -> io::Result<Self> {
        let made = Self::at(self.dir.join(name));
        fs::create_dir(&made.dir)?;
        Ok(made)
    }

    /// Applies the limits in `limits` that a cgroup can enforce. Fails if a controller is missing.
    pub(crate) fn limit(&self, limits: &Limits) -> io::Result<()> {
        if let Some(bytes) = limits.memory {
            self.write("memory.max", &bytes.to_string())?;
            // Swap would only delay the end of a process without memory. A kernel without swap
            // lacks this file.
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

    /// Opens `cgroup.procs`. A process moves itself into the cgroup by writing `0` to this file.
    pub(crate) fn door(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.dir.join("cgroup.procs"))
    }

    /// Writes `value` into the file `file` of the cgroup.
    pub(crate) fn write(&self, file: &str, value: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.dir.join(file))?.write_all(value.as_bytes())
    }

    /// Returns the text of the file `file` of the cgroup.
    pub(crate) fn read(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.dir.join(file))
    }

    /// Returns true if a process is alive in the cgroup or in a cgroup below. A cgroup that is gone
    /// counts as empty.
    pub(crate) fn is_populated(&self) -> bool {
        match self.read("cgroup.events") {
            Ok(text) => !text.lines().any(|line| line == "populated 0"),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Returns the number of processes in the cgroup that the kernel killed because memory had run
    /// out.
    pub(crate) fn oom_kills(&self) -> u64 {
        let events = self.read("memory.events").unwrap_or_default();
        events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Returns the resources that all processes of the cgroup used. A number that the cgroup does
    /// not have is taken from `of_leader`, the resources of the first process.
    ///
    /// The kernel counts a written byte for the cgroup only when the byte reaches the disk, which
    /// may be after the end of the run. So the higher number of bytes counts.
    pub(crate) fn resource_use(&self, of_leader: ResourceUse) -> ResourceUse {
        let (cpu, io) =
            (self.read("cpu.stat").unwrap_or_default(), self.read("io.stat").unwrap_or_default());
        let time = |word: &str| cpu.lines().find_map(|line| line.strip_prefix(word)?.parse().ok());
        let bytes = |word: &str| -> u64 {
            let counts = io.split_whitespace().filter_map(|part| part.strip_prefix(word));
            counts.filter_map(|count| count.parse::<u64>().ok()).sum()
        };
        let peak = self.read("memory.peak").ok().and_then(|text| text.trim().parse::<u64>().ok());
        ResourceUse {
            user_us: time("user_usec ").unwrap_or(of_leader.user_us),
            system_us: time("system_usec ").unwrap_or(of_leader.system_us),
            peak_kib: peak.map_or(of_leader.peak_kib, |bytes| bytes.div_ceil(1024)),
            read_bytes: bytes("rbytes=").max(of_leader.read_bytes),
            written_bytes: bytes("wbytes=").max(of_leader.written_bytes),
        }
    }

    /// Returns the direct children of the cgroup.
    pub(crate) fn children(&self) -> Vec<Self> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| Self::at(entry.path()))
            .collect()
    }

    /// Returns the pids of the processes in the cgroup and in the cgroups below.
    pub(crate) fn pids(&self) -> Vec<i32> {
        self.pids_to(DEEPEST)
    }

    fn pids_to(&self, depth: u32) -> Vec<i32> {
        let text = self.read("cgroup.procs").unwrap_or_default();
        // The kernel writes 0 for a process that this process cannot see.
        let mut pids: Vec<i32> =
            text.lines().filter_map(|line| line.parse().ok().filter(|pid| *pid > 0)).collect();
        if depth > 0 {
            pids.extend(self.children().iter().flat_map(|child| child.pids_to(depth - 1)));
        }
        pids
    }

    /// Kills all processes in the cgroup and in the cgroups below.
    pub(crate) fn kill(&self) {
        // Kernels before 5.14 lack `cgroup.kill`.
        if self.write("cgroup.kill", "1").is_err() {
            for pid in self.pids().into_iter().filter_map(Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Kills all processes in the cgroup and waits until they are gone, for `patience` at most.
    /// Returns true if the processes are gone. Blocks.
    pub(crate) fn clear(&self, patience: Duration) -> bool {
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

    /// Removes the cgroup and its children, as far as they are empty. Returns true if the cgroup is
    /// gone.
    pub(crate) fn remove(&self) -> bool {
        let is_gone = || match fs::remove_dir(&self.dir) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        // Few cgroups of runs have children.
        is_gone() || {
            for child in self.children() {
                let _ = child.remove();
            }
            is_gone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_of_a_cgroup_are_completed_by_those_of_its_first_process() {
        let dir = tempfile::tempdir().unwrap();
        let cgroup = Cgroup::at(dir.path().to_owned());
        let of_leader = ResourceUse {
            user_us: 1,
            system_us: 2,
            peak_kib: 3,
            read_bytes: 4_096,
            written_bytes: 8_192,
        };
        assert_eq!(cgroup.resource_use(of_leader), of_leader);
        for (file, text) in [
            ("cpu.stat", "usage_usec 30\nuser_usec 20\nsystem_usec 10\nnr_periods 0\n"),
            ("memory.peak", "1048577\n"),
            ("io.stat", "8:0 rbytes=4096 wbytes=512 rios=1\n8:16 rbytes=4096 wbytes=0 rios=1\n"),
        ] {
            fs::write(dir.path().join(file), text).unwrap();
        }
        let whole = ResourceUse {
            user_us: 20,
            system_us: 10,
            peak_kib: 1_025,
            read_bytes: 8_192,
            written_bytes: 8_192,
        };
        assert_eq!(cgroup.resource_use(of_leader), whole);
    }
}
