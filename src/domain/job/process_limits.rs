//! The resource limits of a job's processes.
//!
//! Invariant: each value is within its bounds. Memory, processor and process limits apply to all
//! processes of a run together, and only a cgroup can enforce them. File and niceness limits apply
//! to each process, and every host can enforce them.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// The limits of a job. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// The memory of the whole run, in bytes. The whole run is killed if it uses more. Within
    /// [`Limits::MEMORY`].
    pub memory: Option<u64>,
    /// The processor time of the whole run, in thousandths of a processor. Within [`Limits::CPU`].
    pub cpu: Option<u32>,
    /// The processes and threads of the whole run. Within [`Limits::PIDS`].
    pub pids: Option<u32>,
    /// The open files of each process. Within [`Limits::FILES`].
    pub files: Option<u64>,
    /// The niceness of each process (`nice(1)`). Within [`Limits::NICE`].
    pub nice: Option<u8>,
}

/// A kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitKind {
    /// The key `memory`.
    Memory,
    /// The key `cpu`.
    Cpu,
    /// The key `pids`.
    Pids,
    /// The key `files`.
    Files,
    /// The key `nice`.
    Nice,
}

impl Limits {
    /// From 1 MiB to 1024 TiB.
    pub const MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 50;
    /// From a hundredth of a processor to a thousand processors.
    pub const CPU: RangeInclusive<u32> = 10..=1_000_000;
    /// From 1 to the maximum that the kernel can count.
    pub const PIDS: RangeInclusive<u32> = 1..=4_194_304;
    /// From the number that a process needs to start, to the default maximum of the kernel.
    pub const FILES: RangeInclusive<u64> = 16..=1_048_576;
    /// From 0 to 19. A negative niceness takes precedence over other processes, which only the host
    /// may allow.
    pub const NICE: RangeInclusive<u8> = 0..=19;

    /// Returns these limits, with the limits of `below` where these have none.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            memory: self.memory.or(below.memory),
            cpu: self.cpu.or(below.cpu),
            pids: self.pids.or(below.pids),
            files: self.files.or(below.files),
            nice: self.nice.or(below.nice),
        }
    }

    /// The kinds of limits that are set.
    pub fn asked(self) -> BTreeSet<LimitKind> {
        let is_set = |kind: &LimitKind| match kind {
            LimitKind::Memory => self.memory.is_some(),
            LimitKind::Cpu => self.cpu.is_some(),
            LimitKind::Pids => self.pids.is_some(),
            LimitKind::Files => self.files.is_some(),
            LimitKind::Nice => self.nice.is_some(),
        };
        LimitKind::ALL.into_iter().filter(is_set).collect()
    }

    /// Returns these limits without `kinds`.
    #[must_use]
    pub fn without(mut self, kinds: &BTreeSet<LimitKind>) -> Self {
        for kind in kinds {
            match kind {
                LimitKind::Memory => self.memory = None,
                LimitKind::Cpu => self.cpu = None,
                LimitKind::Pids => self.pids = None,
                LimitKind::Files => self.files = None,
                LimitKind::Nice => self.nice = None,
            }
        }
        self
    }

    /// Returns the limits that are set but that a host cannot enforce. The cgroups of the host can
    /// enforce `enforced`.
    pub fn unenforced(self, enforced: &BTreeSet<LimitKind>) -> BTreeSet<LimitKind> {
        self.asked().into_iter().filter(|kind| kind.controller().is_some() && !enforced.contains(kind)).collect()
    }
}

impl LimitKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Memory, Self::Cpu, Self::Pids, Self::Files, Self::Nice];

    /// The key of this kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
            Self::Files => "files",
            Self::Nice => "nice",
        }
    }

    /// The cgroup controller that this kind needs. `None` means that any host can enforce it.
    pub fn controller(self) -> Option<&'static str> {
        match self {
            Self::Memory | Self::Cpu | Self::Pids => Some(self.as_str()),
            Self::Files | Self::Nice => None,
        }
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Lists kinds of limits as text: `memory, cpu`.
pub fn listed(kinds: &BTreeSet<LimitKind>) -> String {
    kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ")
}

/// Parses the text of [`listed`]. Kinds of a newer version are ignored.
pub fn kinds_in(text: &str) -> BTreeSet<LimitKind> {
    text.split(',').filter_map(|word| LimitKind::ALL.into_iter().find(|kind| kind.as_str() == word.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_a_cgroup_can_be_unenforced() {
        let limits = Limits { memory: Some(1 << 20), pids: Some(3), files: Some(64), nice: Some(1), cpu: None };
        let unenforced = limits.unenforced(&BTreeSet::from([LimitKind::Pids, LimitKind::Cpu]));
        assert_eq!(listed(&unenforced), "memory");
        assert_eq!(kinds_in("memory, nice, colour"), BTreeSet::from([LimitKind::Memory, LimitKind::Nice]));
        assert!(Limits::default().asked().is_empty() && kinds_in("").is_empty());
        let own = Limits { files: Some(32), ..Limits::default() };
        assert_eq!(own.over(limits), Limits { files: Some(32), ..limits });
    }
}
