//! The host of this program.

use std::fs;

use schedd_schedule::time::unix_millis::UnixMillis;

use crate::engine::HostFacts;

/// Returns the name of this host.
pub(crate) fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the facts about this host for a worker. A worker has no limits of its own, so it reports
/// neither load nor memory.
pub(crate) fn facts() -> HostFacts {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| format!("unknown-{:016x}", fastrand::u64(..)), |id| id.trim().to_owned());
    HostFacts {
        host: name(),
        boot_id,
        is_alive: |pid| fs::exists(format!("/proc/{pid}")).unwrap_or(false),
        clock: || UnixMillis::from_timestamp(jiff::Timestamp::now()).unwrap_or(UnixMillis::EPOCH),
        load: || None,
        free_memory: || None,
    }
}
