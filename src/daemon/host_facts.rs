//! The facts that this process knows of its host.

use std::io;
use std::path::PathBuf;

use super::gauges;
use crate::domain::time::unix_millis::UnixMillis;
use crate::engine::HostFacts;

/// Returns the host's name, its present boot, and three functions. The functions check that a
/// process lives, read the clock and read the load.
pub(super) fn facts() -> HostFacts {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // Without the file (no /proc) every start counts as its own boot. Then leases are taken back
    // only by watching them.
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| format!("unknown-{:016x}", fastrand::u64(..)), |id| id.trim().to_owned());
    HostFacts {
        host,
        boot_id,
        is_alive,
        clock,
        load: gauges::load,
        free_memory: gauges::free_memory,
    }
}

/// Returns the time by this host's clock.
fn clock() -> UnixMillis {
    UnixMillis::from_timestamp(jiff::Timestamp::now()).unwrap_or(UnixMillis::EPOCH)
}

/// Returns true if `pid` is a living schedd.
///
/// Another program that got the process id later does not count as schedd. A zombie does not count
/// as living (proc(5): the state after the name in `stat`).
fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let Some((head, tail)) = stat.rsplit_once(") ") else { return false };
    head.ends_with("(schedd") && !matches!(tail.chars().next(), Some('Z' | 'X' | 'x'))
}

/// Returns the path of the file of this program, from which the keeper is started. The path also
/// works after an update replaced the file.
pub(super) fn this_program() -> io::Result<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { Ok(own) } else { std::env::current_exe() }
}
