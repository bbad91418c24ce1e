//! Reads the name, the boot id, the clock, the load and the free memory of the host.

use super::gauges;
use schedd::engine::HostFacts;
use schedd_schedule::time::unix_millis::UnixMillis;

/// Returns the name and boot id of the host, and functions. One function checks that a pid is a
/// live schedd. The others read the clock, the load and the free memory.
pub(super) fn facts() -> HostFacts {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // Without /proc, each start gets a new boot id. Runs of an earlier start are then recovered
    // only when their leases end.
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

/// Returns true if the process `pid` is a live schedd.
///
/// Another program that later got the same process id does not count. A zombie does not count
/// either; `/proc/PID/stat` has the state after the name (proc(5)).
fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let Some((head, tail)) = stat.rsplit_once(") ") else { return false };
    head.ends_with("(schedd") && !matches!(tail.chars().next(), Some('Z' | 'X' | 'x'))
}
