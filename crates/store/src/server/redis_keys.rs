//! The names of all Redis keys. No other code knows the layout of a namespace's data.
//!
//! In the comments, `a -> b` describes a zset as member and score, and a hash as field and value.
//! All times are Unix times.
//!
//! Invariant: all keys of a namespace share the hash tag `{namespace}`, so that one script may
//! touch any of them together. Names and run ids are checked types, so no part of a key before its
//! end can contain a brace.

use schedd_core::domain::consistency::SINGLE_KEYS;
use schedd_core::domain::job::unique_rule::UniqueKey;
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{Fence, GroupName, IdError, JobName, NodeName, QueueName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

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
        #[allow(dead_code, reason = "the headers of scripts are the only users of some keys")]
        pub(crate) fn $name(&self) -> String {
            self.named(stringify!($name))
        })*
    };
}

/// The owner of a key that scripts use, by which the key's full name follows from its short name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyOwner {
    /// The namespace has the key once.
    Namespace,
    /// Each job has the key, in the family with this name.
    Job(&'static str),
    /// Each run has the key.
    Run,
    /// Each lane has the key.
    Lane,
    /// The key is that of the job's own lane, beside the lane of a run.
    JobLane,
    /// Each queue has the key, in the family with this name.
    Queue(&'static str),
}

/// The families of keys that a job has: the short name in scripts, and the name of the family.
const OF_JOB: [(&str, &str); 14] = [
    ("job", "job"),
    ("open", "open"),
    ("manual", "manual"),
    ("waiting", "waiting"),
    ("catch_up", "catch_up"),
    ("backfill", "backfill"),
    ("chain", "chain"),
    ("job_history", "history"),
    ("job_dead", "dead"),
    ("job_outputs", "outputs"),
    ("audit_log", "audit_log"),
    ("ledger", "ledger"),
    ("ledger_before", "ledger_before"),
    ("schedule_versions", "schedule_versions"),
];

/// The families of keys that a queue has.
const OF_QUEUE: [&str; 3] = ["queue", "queue_state", "running"];

impl KeyOwner {
    /// Returns the owner of the key with this short name; None if the caller of a script gives the
    /// key.
    pub(super) fn of(name: &str) -> Option<Self> {
        if SINGLE_KEYS.iter().any(|(single, _)| *single == name) {
            return Some(Self::Namespace);
        }
        if let Some((_, family)) = OF_JOB.iter().find(|(short, _)| *short == name) {
            return Some(Self::Job(family));
        }
        match name {
            "run" => Some(Self::Run),
            "due" => Some(Self::Lane),
            "job_due" => Some(Self::JobLane),
            _ => OF_QUEUE.iter().find(|family| **family == name).map(|family| Self::Queue(family)),
        }
    }
}

impl Keys {
    /// Creates the key names of `namespace`. Fails unless the namespace has the form of a job name.
    pub fn new(namespace: &str) -> Result<Self, IdError> {
        match namespace.parse::<JobName>().and_then(JobName::for_people) {
            Ok(name) => Ok(Self { namespace: name.as_str().to_owned() }),
            Err(_) => Err(IdError::Name { kind: "namespace", found: namespace.to_owned() }),
        }
    }

    /// Returns the key names of a shard of the namespace, which is a namespace of its own.
    pub(crate) fn of_shard(&self, shard: u32) -> Self {
        Self { namespace: format!("{}.{shard}", self.namespace) }
    }

    /// Returns the name of the namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    fn named(&self, rest: &str) -> String {
        format!("{{{}}}:{rest}", self.namespace)
    }

    shared_keys! {
        /// Returns the key of all leases, a zset: `RUN#FENCE` -> end of the lease, ms.
        leases;
        /// Returns the key of the last fence issued, a string.
        fence;
        /// Returns the key of the live jobs, a zset: job name -> next due time, ms.
        jobs;
        /// Returns the key of the ended jobs, a zset: job name -> time the job ended, ms.
        finished;
        /// Returns the key of the stop requests, a hash: run id -> reason why the run must stop.
        stop_requests;
        /// Returns the key of the ended runs of all jobs, a zset: run id -> time the run ended, ms.
        history;
        /// Returns the key of the dead letters of all jobs, a zset: run id -> time the run ended,
        /// ms.
        dead;
        /// Returns the key of the counters of the namespace, a hash: counter name -> count.
        counters;
        /// Returns the key of the kept outputs of all jobs, a zset: `RUN#ATTEMPT` -> time of the
        /// last write, ms.
        outputs;
        /// Returns the key of the number of output bytes kept for all jobs, a string.
        output_bytes;
        /// Returns the key of the output bytes kept for each job, a hash: job name -> bytes.
        output_sizes;
        /// Returns the key of the queues that were ever declared, a hash: queue name -> concurrency
        /// on each node.
        queues;
        /// Returns the key of the lanes that are not the plain lane of a queue, a zset: lane ->
        /// time of its last known use, ms.
        lanes;
        /// Returns the key of the declared groups, a hash: group name -> mode of the group.
        groups;
        /// Returns the key of the jobs with an unfinished backfill, a zset: job name -> time its
        /// backfill was first queued, ms.
        backfills;
        /// Returns the key of the unique keys that jobs own, a zset: unique key -> time of the next
        /// check that a job still owns the key, ms.
        uniques;
        /// Returns the key of the boots for which all @reboot runs were planned, a zset: `@HOST
        /// BOOT` -> time of the planning, ms. Keeps the newest 1,000 boots.
        boots;
        /// Returns the key of the runs that were planned for boots, a zset: `JOB @HOST BOOT` ->
        /// time of the planning, ms. Keeps the newest 10,000.
        boot_runs;
        /// Returns the key of the nodes, a zset: node name -> time the node was last seen, ms.
        nodes;
        /// Returns the key of the nodes with events, a zset: node name -> time its events were last
        /// written, ms. Includes nodes that have left.
        event_nodes;
        /// Returns the key of the epoch, a string that identifies this data. A node writes the
        /// epoch on the first use of the namespace, and a new epoch after each data loss.
        epoch;
        /// Returns the key of the data losses and of the nodes' reports about them, a zset: JSON ->
        /// time of the record, ms.
        data_losses;
        /// Returns the key of the time until which no run is due, a string, ms. Until then nodes
        /// restore data after a data loss.
        restoring_until;
        /// Returns the key of the shards of the namespace, a string: `count 8`, or
        /// `servers HOST:PORT HOST:PORT`. After growth ` after 2 4` follows, with the former numbers of
        /// shards. Missing in a namespace without shards.
        shards;
        /// Returns the key that a node writes before it waits for replicas, an empty string.
        replica_mark;
        /// Returns the key of the Redis servers that had this data, a hash: `RUN_ID/REPLID` of the
        /// server -> `FENCE:MS`. `MS` is the time when a node first polled that server, and `FENCE`
        /// is the last fence at that time.
        known_servers;
        /// Returns the key of the quarantined entries, a hash: entry name -> JSON with the fault.
        quarantine;
        /// Returns the key of the log of discarded quarantine entries, a zset: JSON with the entry
        /// and the operator -> time, ms. Keeps the newest 200.
        discarded;
        /// Returns the key of the deadlines for starts and ends of runs, a zset: `RUN start` or
        /// `RUN finish` -> deadline, ms. Only runs of jobs that set deadlines have entries.
        deadlines;
        /// Returns the key of the notifications that wait for their runs, a zset: JSON -> time
        /// since when, ms. An entry is removed when its run is added to the due set.
        notices;
        /// Returns the key of the children in chains, a zset: `PARENT CHILD` -> 0. The child runs
        /// when its parents have ended. `PARENT CHILD MS` is a link that a change removed.
        chains;
        /// Returns the key of the ends of runs that children have not been given yet, a zset: JSON
        /// -> time of the end, ms. An end has an entry for each child of its job. An entry is
        /// removed when the child has the end.
        chain_ends;
        /// Returns the key of the gates to check, a zset: gate -> time of the check, ms. A gate is
        /// checked when a place becomes free, or when a gap, turn or rate limit ends.
        gate_timers;
        /// Returns the key of the `not_while` rules, a zset: `B A` -> 0. Job A must not run while
        /// job B runs.
        not_while;
        /// Returns the key of the jobs with a planned run that must pass a gate, a zset: `LANE GATE
        /// JOB` -> 0. The gate is the first that the run must pass.
        job_gates;
        /// Returns the key of the new `not_while` rules, a zset: `B A` -> 0. A rule counts as new
        /// while a run may be open that began before the rule existed.
        not_while_recent;
        /// Returns the key of the background consistency check, a hash: the node of the last slice,
        /// the cursor from which the next slice continues, and the findings.
        consistency_check;
        /// Returns the channel whose messages wake nodes, and the key with the counters of changes.
        /// The key is a string of 32-bit counters, one for each word below, in the order of
        /// `CHANGES_COUNTED` in `prelude.lua`. Most changes send a message, and all are counted. Further
        /// counters say which lanes may have an earlier first run (`count_change` in `prelude.lua`).
        ///
        /// - `due`: a due set has a new first run, a gate check was planned, or a queue has room
        ///   again.
        /// - `stop`: a run is asked to stop.
        /// - `lanes`: a lane was added to the lanes that nodes poll.
        /// - `pools`: the settings of a queue or group changed.
        /// - `files`: the nodes must apply their jobs files again.
        /// - `notices`: a notification was recorded, and a node must plan its notice.
        /// - `jobs`: a job was added, edited or removed. No message is sent.
        /// - `deadlines`: a deadline was added that is earlier than all others. No message is sent.
        /// - `chains`: a run ended for which children of its job wait.
        nudge;
    }

    /// Returns the key of the due set of one lane, a zset: run id -> ready time, ms.
    pub(crate) fn due(&self, lane: &Lane) -> String {
        self.named(&format!("due:{lane}"))
    }

    /// Returns the key of the runs that have a place at a gate, a zset: run id -> time since which
    /// the run has its place, ms. The time is negative until the run begins.
    pub(crate) fn gate_holders(&self, gate: &Gate) -> String {
        self.named(&format!("gate_holders:{gate}"))
    }

    /// Returns the key of the runs that wait at a gate, a zset: run id -> due time, ms.
    pub(crate) fn gate_waiters(&self, gate: &Gate) -> String {
        self.named(&format!("gate_waiters:{gate}"))
    }

    /// Returns the key of all runs that wait at a gate, by job, lane and due time. It is a zset:
    /// `JOB LANE DUE RUN` -> 0.
    pub(crate) fn gate_waiters_by_job(&self, gate: &Gate) -> String {
        self.named(&format!("gate_waiters_by_job:{gate}"))
    }

    /// Returns the key of the first run of each job and lane that waits at a gate, a zset: `LANE
    /// DUE RUN` -> 0.
    pub(crate) fn gate_waiters_by_lane(&self, gate: &Gate) -> String {
        self.named(&format!("gate_waiters_by_lane:{gate}"))
    }

    /// Returns the key of the first run that waits at a gate in each lane, a zset: `RUN LANE` ->
    /// due time, ms. A lane is stuck if a run let in from this lane did not begin. The score of a
    /// stuck lane is negative: the time until which the lane is skipped.
    pub(crate) fn gate_waiter_lanes(&self, gate: &Gate) -> String {
        self.named(&format!("gate_waiter_lanes:{gate}"))
    }

    /// Returns the key of the state of a gate, a hash with these fields.
    ///
    /// - `lane:RUN`: the lane from which a run that waits or was let in will start.
    /// - `before:RUN`: the earlier gates at which a waiting run has places.
    /// - `stuck:LANE`: the run of that lane that did not begin, and the time until which other runs
    ///   of the lane are skipped.
    /// - `tried`: the time a stuck lane was last tried again.
    /// - `job:NAME`: the limits that a job sets for a concurrency key.
    /// - `turn`, `since`: the job whose turn it is in a group, and since when.
    /// - `last_ended`: the end of the last run of a group.
    /// - `ended`: the job of that run, until the turn has passed to another job.
    pub(crate) fn gate(&self, gate: &Gate) -> String {
        self.named(&format!("gate:{gate}"))
    }

    /// Returns the key of the state of a concurrency key's rate limits, a string. For each rate
    /// limit, the string has the time in microseconds up to which the begun runs have used the
    /// limit.
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

    /// Returns the key of the effective settings of a queue, a hash. The field `src:NODE` is the
    /// digest of the section that the file of that node has for the queue.
    pub(crate) fn queue(&self, queue: &QueueName) -> String {
        self.named(&format!("queue:{queue}"))
    }

    /// Returns the key of the runs that execute in a queue, a zset: run id -> start time, ms. The
    /// set is written for every queue, with or without a limit.
    pub(crate) fn running(&self, queue: &QueueName) -> String {
        self.named(&format!("running:{queue}"))
    }

    /// Returns the key of the state of a queue's rate limit, a hash. `at` is the time of the last
    /// start, and `tat` is the time up to which begun runs have used the rate, both in
    /// microseconds. `part` is the used fraction of the next microsecond.
    #[allow(dead_code, reason = "only the headers of scripts use the key")]
    pub(crate) fn queue_state(&self, queue: &QueueName) -> String {
        self.named(&format!("queue_state:{queue}"))
    }

    /// Returns the key of the effective settings of a group, a hash. The field `src:NODE` is the
    /// digest of the section that the file of that node has for the group.
    pub(crate) fn group(&self, group: &GroupName) -> String {
        self.named(&format!("group:{group}"))
    }

    /// Returns the key of the queues and groups that a file declares, a hash: `queue X` or
    /// `group X` -> digest of the section's text when the file was last applied.
    pub(crate) fn declared(&self, source: &SourceName) -> String {
        self.named(&format!("declared:{source}"))
    }

    /// Returns the key of the record of one job, a hash.
    pub(crate) fn job(&self, job: &JobName) -> String {
        self.named(&format!("job:{job}"))
    }

    /// Returns the key of the open regular runs of a job, a zset: run id -> due time, ms.
    pub(crate) fn open(&self, job: &JobName) -> String {
        self.named(&format!("open:{job}"))
    }

    /// Returns the key of the manual runs of a job that have not ended, a zset: run id -> due time,
    /// ms. Such runs were planned by hand, for a boot, by a backfill or for a notice.
    pub(crate) fn manual(&self, job: &JobName) -> String {
        self.named(&format!("manual:{job}"))
    }

    /// Returns the key of the set that lists a run until the run ends: the open regular runs or the
    /// manual runs of its job.
    pub(crate) fn open_list(&self, run: &RunId) -> String {
        if run.is_manual() { self.manual(run.job()) } else { self.open(run.job()) }
    }

    /// Returns the key of the runs of a job that wait for an open run of the job, a zset: run id ->
    /// due time, ms.
    pub(crate) fn waiting(&self, job: &JobName) -> String {
        self.named(&format!("waiting:{job}"))
    }

    /// Returns the key of the missed runs of a job that catch-up spread over a window, a zset: run
    /// id -> ready time, ms.
    pub(crate) fn catch_up(&self, job: &JobName) -> String {
        self.named(&format!("catch_up:{job}"))
    }

    /// Returns the key of the backfill runs of a job that have not ended, a zset: run id -> due
    /// time, ms.
    pub(crate) fn backfill(&self, job: &JobName) -> String {
        self.named(&format!("backfill:{job}"))
    }

    /// Returns the key of the occurrences for which not all parents of a child have ended, a hash.
    /// The field is the occurrence: the id of the child's run behind `@`. The value is JSON with
    /// the time at which the occurrence began, the parents, and their ends.
    pub(crate) fn chain(&self, job: &JobName) -> String {
        self.named(&format!("chain:{job}"))
    }

    /// Returns the key of the ended runs of one job, a zset: run id -> time the run ended, ms.
    pub(crate) fn job_history(&self, job: &JobName) -> String {
        self.named(&format!("history:{job}"))
    }

    /// Returns the key of the dead letters of one job, a zset: run id -> time the run ended, ms.
    pub(crate) fn job_dead(&self, job: &JobName) -> String {
        self.named(&format!("dead:{job}"))
    }

    /// Returns the key of an answer to a request of the HTTP API, a string with an expiry.
    pub(crate) fn answer(&self, id: &str) -> String {
        self.named(&format!("answer:{id}"))
    }

    /// Returns the key of a link of `schedctl dashboard` that was used, an empty string with an
    /// expiry. `hash` is the SHA-256 of the code of the link.
    pub(crate) fn used_link(&self, hash: &str) -> String {
        self.named(&format!("used_link:{hash}"))
    }

    /// Returns the channel of the changes of jobs. It is no key.
    pub(crate) fn changes(&self) -> String {
        self.named("changes")
    }

    /// Returns the key of the audit log of one job, a zset: change as JSON -> time of the change,
    /// ms. Keeps the newest 100 changes.
    pub(crate) fn audit_log(&self, job: &JobName) -> String {
        self.named(&format!("audit_log:{job}"))
    }

    /// Returns the key of the ledger of one job, which summarises ended runs whose records were
    /// deleted. The ledger is a zset of ranges: `TO:COUNT:STATE:REASON` -> first occurrence, ms.
    pub(crate) fn ledger(&self, job: &JobName) -> String {
        self.named(&format!("ledger:{job}"))
    }

    /// Returns the key of the earlier schedule versions of one job, a zset: version as JSON -> time
    /// the version ended, ms.
    pub(crate) fn schedule_versions(&self, job: &JobName) -> String {
        self.named(&format!("schedule_versions:{job}"))
    }

    /// Returns the key of the counts of occurrences that are older than the ranges of a job's
    /// ledger, a hash: state -> number of occurrences that ended in this state. The field `until`
    /// is the last of these occurrences, ms, and `latest` is the last occurrence in the ledger, ms.
    pub(crate) fn ledger_before(&self, job: &JobName) -> String {
        self.named(&format!("ledger_before:{job}"))
    }

    /// Returns the key of the events of one node, a zset: event as JSON -> time the event began,
    /// ms. Keeps the newest 1,000 events.
    pub(crate) fn events(&self, node: &NodeName) -> String {
        self.named(&format!("events:{node}"))
    }

    /// Returns the key of the record of one run, a hash.
    pub(crate) fn run(&self, run: &RunId) -> String {
        self.named(&format!("run:{run}"))
    }

    /// Returns the key of the output of one attempt, a hash.
    pub(crate) fn output(&self, run: &RunId, attempt: u32) -> String {
        self.named(&format!("output:{run}#{attempt}"))
    }

    /// Returns the key of the owner of a unique key, a hash: the job, the time since when, and the
    /// time until when if there is a time limit. The unique key is user text, so it is at the end
    /// of the name, where a brace cannot form a hash tag.
    pub(crate) fn unique(&self, key: &UniqueKey) -> String {
        self.named(&format!("unique:{key}"))
    }

    /// Returns the key of the kept outputs of one job, a zset: `RUN#ATTEMPT` -> time of the last
    /// write, ms.
    pub(crate) fn job_outputs(&self, job: &JobName) -> String {
        self.named(&format!("outputs:{job}"))
    }

    /// Returns the key of the record of one node, a hash.
    pub(crate) fn node(&self, node: &NodeName) -> String {
        self.named(&format!("node:{node}"))
    }

    /// Returns the new name of a key that is moved to quarantine at the time `at`. `rest` is the
    /// old name of the key without the namespace.
    pub(crate) fn set_aside(&self, rest: &str, at: UnixMillis) -> String {
        self.named(&format!("quarantined:{rest}:{}", at.as_i64()))
    }

    /// Returns the name of a key without the namespace; None for a key of another namespace.
    pub(crate) fn rest<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(&self.named(""))
    }

    /// Returns the full name of a key from `rest`, its name without the namespace. `rest` may be a
    /// Redis pattern, because a namespace cannot contain pattern characters.
    pub(crate) fn whole(&self, rest: &str) -> String {
        self.named(rest)
    }

    /// Returns the key that stands for the job list of a file in a call about a job without a file.
    /// No script writes this key.
    pub(crate) fn sources_of_none(&self) -> String {
        self.named("source:")
    }

    /// Returns the key of the jobs that a file declares, a hash: job name -> digest of the job's
    /// definition when the file was last applied.
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
