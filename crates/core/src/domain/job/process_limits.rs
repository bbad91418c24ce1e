//! The resource limits of a job's processes.
//!
//! Invariant: each value is within its bounds.
//!
//! The limits of memory, processor time and processes apply to all processes of a run together, and
//! need a cgroup. The limits of open files and niceness apply to each process, and need no cgroup.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// The resource limits of a job. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// The maximum memory of the whole run, in bytes. If a run uses more, the kernel kills all of
    /// its processes. Within [`Limits::MEMORY`].
    pub memory: Option<u64>,
    /// The maximum processor time of the whole run, in thousandths of a processor. Within
    /// [`Limits::CPU`].
    pub cpu: Option<u32>,
    /// The maximum number of processes and threads of the whole run. Within [`Limits::PIDS`].
    pub pids: Option<u32>,
    /// The maximum number of open files of each process. Within [`Limits::FILES`].
    pub files: Option<u64>,
    /// The niceness of each process (`nice(1)`). Within [`Limits::NICE`].
    pub nice: Option<u8>,
}

/// A kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitKind {
    /// The limit on memory, with the key `memory`.
    Memory,
    /// The limit on processor time, with the key `cpu`.
    Cpu,
    /// The limit on the number of processes, with the key `pids`.
    Pids,
    /// The limit on open files, with the key `files`.
    Files,
    /// The niceness, with the key `nice`.
    Nice,
}

impl Limits {
    /// The bounds of the memory limit: from 1 MiB to 1024 TiB.
    pub const MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 50;
    /// The bounds of the processor limit: from a hundredth of a processor to a thousand
    /// processors.
    pub const CPU: RangeInclusive<u32> = 10..=1_000_000;
    /// The bounds of the process limit: from 1 to the maximum that the kernel can count.
    pub const PIDS: RangeInclusive<u32> = 1..=4_194_304;
    /// The bounds of the limit on open files: from the number that a process needs to start, to
    /// the default maximum of the kernel.
    pub const FILES: RangeInclusive<u64> = 16..=1_048_576;
    /// The bounds of the niceness: from 0 to 19. A negative niceness is not allowed, because it
    /// would slow the other processes of the host.
    pub const NICE: RangeInclusive<u8> = 0..=19;

    /// Returns the kinds of limits that are set.
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

    /// Returns these limits without the limits of the kinds `kinds`.
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

    /// Returns the kinds of limits that are set but that the host cannot enforce. `enforced` has
    /// the kinds that the cgroups of the host can enforce. A kind that needs no cgroup is never in
    /// the result.
    pub fn unenforced(self, enforced: &BTreeSet<LimitKind>) -> BTreeSet<LimitKind> {
        self.asked()
            .into_iter()
            .filter(|kind| kind.controller().is_some() && !enforced.contains(kind))
            .collect()
    }
}

impl LimitKind {
    /// All kinds of limits.
    pub const ALL: [Self; 5] = [Self::Memory, Self::Cpu, Self::Pids, Self::Files, Self::Nice];

    /// Returns the key of this kind in a definition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
            Self::Files => "files",
            Self::Nice => "nice",
        }
    }

    /// Returns the cgroup controller that this kind of limit needs. `None` means that any host can
    /// enforce the limit.
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

/// Returns `kinds` as text: `memory, cpu`.
pub fn listed(kinds: &BTreeSet<LimitKind>) -> String {
    kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ")
}

/// Returns the kinds of limits in a list such as `memory, cpu`. Kinds that this version does not
/// know are left out.
pub fn kinds_in(text: &str) -> BTreeSet<LimitKind> {
    text.split(',')
        .filter_map(|word| LimitKind::ALL.into_iter().find(|kind| kind.as_str() == word.trim()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_that_need_a_cgroup_can_be_unenforced() {
        let limits = Limits {
            memory: Some(1 << 20),
            pids: Some(3),
            files: Some(64),
            nice: Some(1),
            cpu: None,
        };
        let unenforced = limits.unenforced(&BTreeSet::from([LimitKind::Pids, LimitKind::Cpu]));
        assert_eq!(listed(&unenforced), "memory");
        assert_eq!(
            kinds_in("memory, nice, colour"),
            BTreeSet::from([LimitKind::Memory, LimitKind::Nice])
        );
        assert!(Limits::default().asked().is_empty() && kinds_in("").is_empty());
    }
}
