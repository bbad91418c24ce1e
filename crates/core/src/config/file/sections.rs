//! The checked contents of a `jobs.toml`, and the compiler of its `[daemon]`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::api_section::ApiConfig;
use super::kept_amounts::{HistoryConfig, OutputConfig};
use super::metrics_section::MetricsConfig;
use super::node_serving::ServingConfig;
use super::redis_section::RedisConfig;
use crate::config::canonical::stored_job::StoredJob;
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::{Problem, Problems};
use crate::config::syntax::reader::{DurationBounds, Spot, TableReader};
use crate::domain::job::process_rules::is_account_name;
use crate::domain::queue::group_rules::GroupSettings;
use crate::domain::queue::queue_rules::QueueSettings;
use schedd_schedule::names::{GroupName, JobName, QueueName};
use schedd_schedule::time::duration::format_duration;

/// The checked contents of a `jobs.toml`.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The settings of `[redis]`.
    pub redis: RedisConfig,
    /// The settings of `[daemon]`, except the keys in `serving`.
    pub daemon: DaemonConfig,
    /// The settings of `[daemon]` about the runs that the node takes.
    pub serving: ServingConfig,
    /// The settings of `[api]`.
    pub api: ApiConfig,
    /// The settings of `[metrics]`.
    pub metrics: MetricsConfig,
    /// The settings of `[history]`.
    pub history: HistoryConfig,
    /// The settings of `[output]`.
    pub output: OutputConfig,
    /// The settings of each `[queues.X]`, by the name of the queue.
    pub queues: BTreeMap<QueueName, QueueSettings>,
    /// The settings of each `[groups.X]`, by the name of the group.
    pub groups: BTreeMap<GroupName, GroupSettings>,
    /// The definition of each `[jobs.X]` with `[defaults]` applied, by the name of the job.
    pub jobs: Arc<BTreeMap<JobName, StoredJob>>,
    /// True if the file has no key or section at all.
    pub is_blank: bool,
    /// The warnings about the file, in the order of the text.
    pub warnings: Vec<Problem>,
}

impl Config {
    /// Returns true if the file has lost all its jobs, or its whole content, since its earlier
    /// contents `before`. The file may have been emptied by accident.
    pub fn is_emptied_of(&self, before: &Self) -> bool {
        self.jobs.is_empty() && !before.jobs.is_empty() || self.is_blank && !before.is_blank
    }
}

/// The settings of `[daemon]` about the node itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonConfig {
    /// The time that the node sleeps between two polls while any run is ready. 10 ms to 10 s.
    pub tick: Duration,
    /// The time that a claim lasts unless it is renewed. 1 s to 10 minutes, at least 10 ticks.
    pub lease: Duration,
    /// The time that runs may continue after the daemon is asked to stop. 0 to 1 hour.
    pub shutdown_grace: Duration,
    /// The users that jobs may name. `None` means any user but root if the daemon runs as root,
    /// else no user.
    pub users: Option<BTreeSet<String>>,
}

impl Default for DaemonConfig {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(100),
            lease: Duration::from_secs(10),
            shutdown_grace: Duration::from_secs(30),
            users: None,
        }
    }
}

/// The minimum number of ticks in a lease. A lease is renewed after a third of its time. So a lease
/// of fewer ticks could end during one or two slow ticks.
const TICKS_A_LEASE: u32 = 10;

fn compile_users(spot: &Spot<'_>, problems: &mut Problems) -> Option<BTreeSet<String>> {
    let Some(items) = spot.as_items() else {
        return spot.wanted(problems, "a list of users such as [\"backup\", \"www-data\"]");
    };
    let mut users = BTreeSet::new();
    for item in items {
        match item.text("backup", problems) {
            Some("root") => {
                item.wanted::<()>(problems, "users other than root: no job may name root");
            }
            Some(name) if is_account_name(name) => drop(users.insert(name.to_owned())),
            Some(_) => drop(item.wanted::<()>(problems, "the name of a user, such as \"backup\"")),
            None => {}
        }
    }
    Some(users)
}

/// Compiles the section `[daemon]`. A key with a fault gets its default.
pub(crate) fn compile_daemon(table: &TableReader<'_>, problems: &mut Problems) -> DaemonConfig {
    let slips = table.refuse_other_keys(&[known_keys::DAEMON], &[], problems);
    let faults_before = problems.faults.len();
    let mut ask = |key: &str, bounds: &DurationBounds, or: Duration| {
        table.get(key).and_then(|spot| spot.duration(bounds, problems)).unwrap_or(or)
    };
    let plain = DaemonConfig::default();
    let daemon = DaemonConfig {
        tick: ask("tick", &DurationBounds::millis(10, 10_000, "10ms to 10s", "100ms"), plain.tick),
        lease: ask("lease", &DurationBounds::secs(1, 600, "1s to 10 minutes", "10s"), plain.lease),
        shutdown_grace: ask(
            "shutdown_grace",
            &DurationBounds::secs(0, 3_600, "0s to 1 hour", "30s"),
            plain.shutdown_grace,
        ),
        users: table.get("users").and_then(|spot| compile_users(&spot, problems)),
    };
    if daemon.lease < daemon.tick * TICKS_A_LEASE
        && problems.faults.len() == faults_before
        && !slips.are_of(&["lease", "tick"])
        && let Some(spot) = table.get("lease").or_else(|| table.get("tick"))
    {
        let (lease, tick) = (format_duration(daemon.lease), format_duration(daemon.tick));
        let shortest = format_duration(daemon.tick * TICKS_A_LEASE);
        spot.fault(
            problems,
            format!(
                "found a lease of {lease} with a tick of {tick}, wanted a lease of at least {TICKS_A_LEASE} ticks ({shortest}): \
                 a shorter lease could end before a slow tick renews the lease"
            ),
        );
    }
    daemon
}
