//! The names of all Redis keys. No other code knows the layout of a namespace's data.
//!
//! Invariant: all keys of a namespace share the hash tag `{namespace}`, so that one script may
//! touch any of them together. Names and run ids are checked types, so no part of a key before its
//! end can contain a brace.

use crate::domain::job::unique_rule::UniqueKey;
use crate::domain::name::job_source::SourceName;
use crate::domain::name::names::{Fence, GroupName, IdError, JobName, NodeName, QueueName, RunId};
use crate::domain::queue::gate::Gate;
use crate::domain::queue::lane::Lane;
use crate::domain::time::unix_millis::UnixMillis;

/// The key names of one namespace.
#[derive(Debug, Clone)]
pub struct Keys {
    namespace: String,
}

/// The namespace used if no other is given.
pub const DEFAULT_NAMESPACE: &str = "schedd";

macro_rules! shared_keys {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])*
        pub(crate) fn $name(&self) -> String {
            self.named(stringify!($name))
        })*
    };
}

impl Keys {
    /// Creates the key names of `namespace`. Fails unless the namespace has the form of a job name.
    pub fn new(namespace: &str) -> Result<Self, IdError> {
        match namespace.parse::<JobName>().and_then(JobName::for_people) {
            Ok(name) => Ok(Self { namespace: name.as_str().to_owned() }),
            Err(_) => Err(IdError::Name { kind: "namespace", found: namespace.to_owned() }),
        }
    }

    /// Returns the name of the namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    fn named(&self, rest: &str) -> String {
        format!("{{{}}}:{rest}", self.namespace)
    }

    shared_keys! {
        /// The leases of all claims, a zset: `run#fence` -> end of the lease, ms.
        leases;
        /// The last fence issued, a string.
        fence;
        /// The jobs that plan runs, a zset: job name -> next due time, ms.
        jobs;
        /// The ended jobs, a zset: job name -> time the job ended, ms.
        finished;
        /// The stop requests, a hash: run id -> reason why the run is asked to stop.
        stop_requests;
        /// The ended runs of all jobs, a zset: run id -> time the run ended, ms.
        history;
        /// The dead letters of all jobs, a zset: run id -> time the run ended, ms.
        dead;
        /// The counters of the namespace, a hash: counter name -> count.
        counters;
        /// The kept outputs of all jobs, a zset: `run#attempt` -> time of the last write, ms.
        outputs;
        /// The number of bytes of output kept for all jobs, a string.
        output_bytes;
        /// The bytes of output kept for each job, a hash: job name -> bytes.
        output_sizes;
        /// The queues that were ever declared, a hash: queue name -> concurrency of the queue on
        /// each node.
        queues;
        /// The lanes other than the plain lane of a queue, a zset: lane -> time of its last known
        /// use, ms.
        lanes;
        /// The declared groups, a hash: group name -> mode of the group.
        groups;
        /// The jobs with an unfinished backfill, a zset: job name -> time its backfill was first
        /// queued, ms.
        backfills;
        /// The claimed unique keys, a zset: unique key -> next time to check that its job still
        /// owns the key, ms.
        uniques;
        /// The boots whose @reboot jobs are all planned, a zset: `@HOST BOOT` -> time, ms. Keeps
        /// the newest 1,000 boots.
        boots;
        /// The jobs for which a run was planned for a boot, a zset: `JOB @HOST BOOT` -> time, ms.
        /// Keeps the newest 10,000.
        boot_runs;
        /// The nodes, a zset: node name -> time the node was last seen, ms.
        nodes;
        /// The nodes with events, a zset: node name -> time events of the node were last written,
        /// ms. Includes nodes that have left.
        event_nodes;
        /// The epoch, a string `MS-WORD` that identifies this data. It is written on the first day
        /// and again after each data loss that was noticed.
        epoch;
        /// The data losses and the restorations by nodes, a zset: JSON record -> time of the
        /// record, ms.
        data_losses;
        /// The time until which no run is due, a string, ms. Until then nodes restore what they
        /// know after a data loss.
        restoring_until;
        /// The Redis servers that had this data, a hash: server -> `FENCE:MS`. These are the last
        /// fence and the time when a node first polled that server.
        known_servers;
        /// The quarantined entries, a hash: entry -> fault of the entry.
        quarantine;
        /// The discarded quarantine entries, a zset: entry with the author of the discarding, JSON
        /// -> time, ms. Keeps the newest 200 entries.
        discarded;
        /// The deadlines for starts and ends of runs, a zset: `RUN start` or `RUN finish` ->
        /// deadline, ms. Only runs of jobs that set such deadlines have entries.
        deadlines;
        /// The notifications that wait for the run that delivers them, a zset: JSON -> time since
        /// when, ms. The entry is removed when its run is added to the due set.
        notices;
        /// The gates to check, a zset: gate -> time of the check, ms. A check is due when a place
        /// becomes free at the gate, or when time alone opens the gate.
        gate_timers;
        /// The `not_while` rules, a zset: `B A` -> 0. Job A must not run while job B runs.
        not_while;
        /// The jobs with a planned run that must pass a gate, a zset: `LANE GATE JOB` -> 0. The
        /// gate is the first that the run must pass.
        job_gates;
        /// The entries of `not_while` that are still new, a zset with scores 0. A run that began
        /// before such a rule existed may still be open.
        not_while_recent;
        /// The state of the background consistency check, a hash: the node that last made the
        /// check, the position of the check, the findings.
        consistency_check;
        /// The channel whose messages wake nodes.
        ///
        /// - `due`: the due set got a run earlier than its first run.
        /// - `stop`: a run is asked to stop.
        /// - `lanes`: there is a new lane.
        /// - `pools`: the settings of a queue or group changed.
        /// - `notices`: a notification waits.
        nudge;
    }

    /// The due set of one lane, a zset: run id -> ready time, ms.
    pub(crate) fn due(&self, lane: &Lane) -> String {
        self.named(&format!("due:{lane}"))
    }

    /// The runs that have a place at a gate, a zset: run id -> time since which the run has its
    /// place, ms.
    pub(crate) fn gate_holders(&self, gate: &Gate) -> String {
        self.named(&format!("gate_holders:{gate}"))
    }

    /// The runs that wait at a gate, a zset: run id -> due time, ms.
    pub(crate) fn gate_waiters(&self, gate: &Gate) -> String {
        self.named(&format!("gate_waiters:{gate}"))
    }

    /// The runs that wait at a gate, a zset: `JOB LANE DUE RUN` -> 0. It sorts the runs of one job
    /// and lane by due time, and has all runs of `gate_waiters`.
    pub(crate) fn gate_waiters_by_job(&self, gate: &Gate) -> String {
        self.named(&format!("gate_waiters_by_job:{gate}"))
    }

    /// The first run of each job and lane that waits at a gate, a zset: `LANE DUE RUN` -> 0.
    pub(crate) fn gate_waiters_by_lane(&self, gate: &Gate) -> String {
        self.named(&format!("gate_waiters_by_lane:{gate}"))
    }

    /// The first run that waits at a gate in each lane, a zset: `RUN LANE` -> due time, ms. For a
    /// stuck lane the score is negative: the time until which the lane is skipped.
    pub(crate) fn gate_waiter_lanes(&self, gate: &Gate) -> String {
        self.named(&format!("gate_waiter_lanes:{gate}"))
    }

    /// The state of a gate, a hash with these fields.
    ///
    /// - `lane:RUN`: the lane from which a run that waits or was let in will start.
    /// - `before:RUN`: the earlier gates at which a waiting run has places.
    /// - `stuck:LANE`: the run of that lane that did not begin, and the time until which other runs
    ///   of the lane are skipped.
    /// - `tried`: the time a stuck lane was last tried again.
    /// - `job:NAME`: the limits that a job sets for a concurrency key.
    /// - `turn`, `since`: the job whose turn it is in a group, and since when.
    /// - `last_ended`, `ended`: the end of the last run of a group, and its job until the turn has
    ///   passed.
    pub(crate) fn gate(&self, gate: &Gate) -> String {
        self.named(&format!("gate:{gate}"))
    }

    /// The use of the rate limits of a concurrency key, a string. It has for each rate the
    /// microsecond up to which started runs use up the rate.
    pub(crate) fn gate_rate(&self, gate: &Gate) -> String {
        self.named(&format!("gate_rate:{gate}"))
    }

    /// Returns the keys of a gate in the order in which scripts expect them.
    pub(crate) fn of_gate(&self, gate: &Gate) -> [String; 7] {
        let rules = gate.group().map_or_else(|| self.gate_rate(gate), |group| self.group(&group));
        let (by_job, by_lane) = (self.gate_waiters_by_job(gate), self.gate_waiters_by_lane(gate));
        [
            self.gate_holders(gate),
            self.gate_waiters(gate),
            by_job,
            by_lane,
            self.gate_waiter_lanes(gate),
            self.gate(gate),
            rules,
        ]
    }

    /// The effective settings of a queue, a hash. The field `src:NODE` is the hash of what the file
    /// of that node declares for the queue.
    pub(crate) fn queue(&self, queue: &QueueName) -> String {
        self.named(&format!("queue:{queue}"))
    }

    /// The runs that execute in a queue, a zset: run -> start time, ms. It is written for every
    /// queue, with or without a limit.
    pub(crate) fn running(&self, queue: &QueueName) -> String {
        self.named(&format!("running:{queue}"))
    }

    /// The use of a queue's rate limit, a hash: `tat` and `at` in microseconds, and `part`, the
    /// fraction of the next microsecond.
    pub(crate) fn queue_state(&self, queue: &QueueName) -> String {
        self.named(&format!("queue_state:{queue}"))
    }

    /// The effective settings of a group, a hash. The field `src:NODE` is as in [`Keys::queue`].
    pub(crate) fn group(&self, group: &GroupName) -> String {
        self.named(&format!("group:{group}"))
    }

    /// The queues and groups that a file declares, a hash: `queue X` or `group X` -> hash of the
    /// section's text at the last push of that file.
    pub(crate) fn declared(&self, source: &SourceName) -> String {
        self.named(&format!("declared:{source}"))
    }

    /// The record of one job, a hash.
    pub(crate) fn job(&self, job: &JobName) -> String {
        self.named(&format!("job:{job}"))
    }

    /// The open regular runs of a job, a zset: run id -> due time, ms.
    pub(crate) fn open(&self, job: &JobName) -> String {
        self.named(&format!("open:{job}"))
    }

    /// The manual runs of a job that have not ended, a zset: run id -> due time, ms. They were
    /// planned by hand, for a boot, by a backfill or for a notice.
    pub(crate) fn manual(&self, job: &JobName) -> String {
        self.named(&format!("manual:{job}"))
    }

    /// Returns the key that lists a run until the run ends: the open regular runs of its job, or
    /// the manual runs of its job.
    pub(crate) fn open_list(&self, run: &RunId) -> String {
        if run.is_manual() { self.manual(run.job()) } else { self.open(run.job()) }
    }

    /// The runs of a job that wait for an open run of the job, a zset: run id -> due time, ms.
    pub(crate) fn waiting(&self, job: &JobName) -> String {
        self.named(&format!("waiting:{job}"))
    }

    /// The missed runs of a job that got a start time of their own by spread catch-up, a zset: run
    /// id -> ready time, ms.
    pub(crate) fn catch_up(&self, job: &JobName) -> String {
        self.named(&format!("catch_up:{job}"))
    }

    /// The backfill runs of a job that have not ended, a zset: run id -> due time, ms.
    pub(crate) fn backfill(&self, job: &JobName) -> String {
        self.named(&format!("backfill:{job}"))
    }

    /// The ended runs of one job, a zset: run id -> time the run ended, ms.
    pub(crate) fn job_history(&self, job: &JobName) -> String {
        self.named(&format!("history:{job}"))
    }

    /// The dead letters of one job, a zset: run id -> time the run ended, ms.
    pub(crate) fn job_dead(&self, job: &JobName) -> String {
        self.named(&format!("dead:{job}"))
    }

    /// The audit log of one job, a zset: change as JSON -> time of the change, ms. Keeps the newest
    /// 100 changes.
    pub(crate) fn audit_log(&self, job: &JobName) -> String {
        self.named(&format!("audit_log:{job}"))
    }

    /// The ledger of one job, a summary of trimmed run records, a zset: `to_ms:count:state:reason`
    /// -> start of the range, ms.
    pub(crate) fn ledger(&self, job: &JobName) -> String {
        self.named(&format!("ledger:{job}"))
    }

    /// The earlier schedule versions of one job, a zset: version as JSON -> time the version ended,
    /// ms.
    pub(crate) fn schedule_versions(&self, job: &JobName) -> String {
        self.named(&format!("schedule_versions:{job}"))
    }

    /// The occurrences of one job that are older than its ledger, a hash: state -> number of
    /// occurrences that ended in this state. `until` is the last of these occurrences, ms. `latest`
    /// is the last occurrence in the ledger.
    pub(crate) fn ledger_before(&self, job: &JobName) -> String {
        self.named(&format!("ledger_before:{job}"))
    }

    /// The events of one node, a zset: event as JSON -> time the event began, ms. Keeps the newest
    /// 1,000 events.
    pub(crate) fn events(&self, node: &NodeName) -> String {
        self.named(&format!("events:{node}"))
    }

    /// The record of one run, a hash.
    pub(crate) fn run(&self, run: &RunId) -> String {
        self.named(&format!("run:{run}"))
    }

    /// The output of one attempt, a hash.
    pub(crate) fn output(&self, run: &RunId, attempt: u32) -> String {
        self.named(&format!("output:{run}#{attempt}"))
    }

    /// The owner of a unique key, a hash: the job, the time since when, and the time until when if
    /// a time limit applies. User text ends the key's name, so that a brace in the text is never a
    /// hash tag.
    pub(crate) fn unique(&self, key: &UniqueKey) -> String {
        self.named(&format!("unique:{key}"))
    }

    /// The kept outputs of one job, a zset: `run#attempt` -> time of the last write, ms.
    pub(crate) fn job_outputs(&self, job: &JobName) -> String {
        self.named(&format!("outputs:{job}"))
    }

    /// The record of one node, a hash.
    pub(crate) fn node(&self, node: &NodeName) -> String {
        self.named(&format!("node:{node}"))
    }

    /// Returns the name of a key that was moved to quarantine at `at`. `rest` is the former name of
    /// the key within the namespace.
    pub(crate) fn set_aside(&self, rest: &str, at: UnixMillis) -> String {
        self.named(&format!("quarantined:{rest}:{}", at.as_i64()))
    }

    /// Returns the name of a key within the namespace; None for a key of another namespace.
    pub(crate) fn rest<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(&self.named(""))
    }

    /// Returns the full key for `rest`, which is a name within the namespace or a Redis pattern. A
    /// namespace cannot contain pattern characters.
    pub(crate) fn whole(&self, rest: &str) -> String {
        self.named(rest)
    }

    /// Returns the key that is passed as the list of a source if there is no source. The key is
    /// never written.
    pub(crate) fn sources_of_none(&self) -> String {
        self.named("source:")
    }

    /// The jobs that a file declares, a hash: job name -> hash of the job's definition at the last
    /// push of that file.
    pub(crate) fn source(&self, source: &SourceName) -> String {
        self.named(&format!("source:{source}"))
    }
}

/// Returns the run and the fence in a member of `leases`; None if the member is malformed.
pub(crate) fn parse_lease_member(member: &str) -> Option<(RunId, Fence)> {
    let (run, fence) = member.split_once('#')?;
    Some((run.parse().ok()?, Fence::new(fence.parse().ok()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_carries_the_namespace_as_its_hash_tag() {
        let keys = Keys::new("prod").unwrap();
        assert_eq!(keys.leases(), "{prod}:leases");
        assert_eq!(keys.due(&"default".parse().unwrap()), "{prod}:due:default");
        assert_eq!(keys.run(&"a@5".parse().unwrap()), "{prod}:run:a@5");
    }

    #[test]
    fn a_namespace_with_a_brace_is_refused() {
        for bad in ["", "a{b}", "a b", "A"] {
            assert!(Keys::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_lease_member_reads_back() {
        let run: RunId = "a@5".parse().unwrap();
        let fence = Fence::new(7).unwrap();
        assert_eq!(parse_lease_member("a@5#7"), Some((run, fence)));
        assert_eq!(parse_lease_member("a@5"), None);
        assert_eq!(parse_lease_member("a@5#x"), None);
    }
}
