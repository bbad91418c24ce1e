//! What a job's processes are held to.
//!
//! Invariant: each value is within its bounds. Memory, processor and processes are limits of all of a run together, which only a
//! cgroup can enforce; files and niceness are those of each process, which every host can.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// The limits of a job; none where nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of the whole run, in bytes; past it all of it is killed. Within [`Limits::MEMORY`].
    pub memory: Option<u64>,
    /// Processor time of the whole run, in thousandths of one processor. Within [`Limits::CPU`].
    pub cpu: Option<u32>,
    /// Processes and threads of the whole run. Within [`Limits::PIDS`].
    pub pids: Option<u32>,
    /// Open files of each process. Within [`Limits::FILES`].
    pub files: Option<u64>,
    /// How far it gives way to others (`nice(1)`). Within [`Limits::NICE`].
    pub nice: Option<u8>,
}

/// One kind of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitKind {
    /// `memory`
    Memory,
    /// `cpu`
    Cpu,
    /// `pids`
    Pids,
    /// `files`
    Files,
    /// `nice`
    Nice,
}

impl Limits {
    /// 1 MiB to 1024 TiB.
    pub const MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 50;
    /// A hundredth of a processor to a thousand.
    pub const CPU: RangeInclusive<u32> = 10..=1_000_000;
    /// 1 to the most the kernel can count.
    pub const PIDS: RangeInclusive<u32> = 1..=4_194_304;
    /// Those of a process that only starts, to the most the kernel takes by default.
    pub const FILES: RangeInclusive<u64> = 16..=1_048_576;
    /// Never before others: that is for the host to allow.
    pub const NICE: RangeInclusive<u8> = 0..=19;

    /// These, and `below` where they are silent.
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

    /// Which kinds are set.
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

    /// These but for those `kinds`.
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

    /// Which of those set a host cannot enforce whose cgroups hold to `enforced`.
    pub fn unenforced(self, enforced: &BTreeSet<LimitKind>) -> BTreeSet<LimitKind> {
        self.asked().into_iter().filter(|kind| kind.controller().is_some() && !enforced.contains(kind)).collect()
    }
}

impl LimitKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Memory, Self::Cpu, Self::Pids, Self::Files, Self::Nice];

    /// Its key.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
            Self::Files => "files",
            Self::Nice => "nice",
        }
    }

    /// The controller of cgroups it takes; none = any host can enforce it.
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

/// Kinds of limits as they are listed: `memory, cpu`.
pub fn listed(kinds: &BTreeSet<LimitKind>) -> String {
    kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ")
}

/// The kinds of a list of [`listed`]; a word of a newer version is left out.
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
