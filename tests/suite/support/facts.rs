//! The facts that a node reports about itself.

use std::collections::BTreeSet;

use schedd_core::domain::queue::lane_serving::Serving;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::BeatFacts;

/// Returns the facts of a node that runs nothing, serves every queue, and reports little about its
/// host.
pub(crate) fn node_facts(started_at: UnixMillis) -> BeatFacts {
    BeatFacts {
        state: "running",
        started_at,
        config_error: String::new(),
        host: "h1".to_owned(),
        pid: 7,
        boot_id: "boot".to_owned(),
        version: "0",
        running: 0,
        clock_offset_ms: None,
        serving: Serving::default(),
        workers: BTreeSet::new(),
        at_limit: None,
        limits: None,
        limits_why: String::new(),
        most_files: None,
        has_cgroups: None,
        users: String::new(),
        users_why: String::new(),
        own_user: String::new(),
    }
}
