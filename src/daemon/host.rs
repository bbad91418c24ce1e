//! What this process knows of its host.

use std::io;
use std::path::PathBuf;

use super::gauges;
use crate::domain::time::UnixMillis;
use crate::engine::HostFacts;

/// The host's name, its present boot, and how to tell whether a process lives.
pub(super) fn facts() -> HostFacts {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // Without the file (no /proc) every start counts as its own boot: leases are then only taken back by watching them.
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| format!("unknown-{:016x}", fastrand::u64(..)), |id| id.trim().to_owned());
    HostFacts { host, boot_id, is_alive, clock, load: gauges::load, free_memory: gauges::free_memory }
}

/// The time by this host's clock.
fn clock() -> UnixMillis {
    UnixMillis::from_timestamp(jiff::Timestamp::now()).unwrap_or(UnixMillis::EPOCH)
}

/// Whether `pid` is a schedd that lives: not another program that got the number later, and not one that only waits to be
/// reaped (proc(5): the state behind the name in `stat`).
fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let Some((head, tail)) = stat.rsplit_once(") ") else { return false };
    head.ends_with("(schedd") && !matches!(tail.chars().next(), Some('Z' | 'X' | 'x'))
}

/// The file of this program, for the keeper; also after it was replaced by an update.
pub(super) fn this_program() -> io::Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { Ok(own) } else { std::env::current_exe() }
}
