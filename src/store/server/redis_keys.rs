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
        /// zset `run#fence` -> end of the lease, ms.
        leases;
        /// string: the last fence issued.
        fence;
        /// zset job name -> next due time, ms.
        jobs;
        /// zset job name -> time the job ended, ms.
        finished;
        /// hash run id -> reason why the run is asked to stop.
        stops;
        /// zset run id -> time the run ended, ms; all jobs.
        history;
        /// zset dead letter -> time the run ended, ms; all jobs.
        dead;
        /// hash counter name -> count.
        totals;
        /// zset `run#attempt` -> time of the last write, ms.
        outputs;
        /// string: bytes of output kept.
        output_bytes;
        /// hash job name -> bytes of output kept for the job.
        output_sizes;
        /// hash queue that was ever declared -> its concurrency on each node.
        queues;
        /// zset lane other than a queue's plain lane -> time of the last known use, ms.
        lanes;
        /// hash declared group -> its mode.
        groups;
        /// zset job with an unfinished backfill -> time it was first queued, ms.
        backfills;
        /// zset claimed unique key -> next time to check that its job still owns it, ms.
        uniques;
        /// zset `@HOST BOOT` -> ms. Each entry is a boot whose @reboot jobs are all planted. Keeps
        /// the newest 1,000.
        boots;
        /// zset `JOB @HOST BOOT`, a job planted for a boot -> time, ms. Keeps the newest 10,000.
        boot_runs;
        /// zset node -> time the node was last seen, ms.
        nodes;
        /// zset node -> time its events were last written, ms. Includes nodes that have left.
        noted_nodes;
        /// string `MS-WORD`: the mark of this data. It is written on the first day and again after
        /// each data loss that was noticed.
        epoch;
        /// zset JSON record of a data loss, or of what a node restored -> time of the record, ms.
        losses;
        /// string: the time until which no run is due, ms. It lets nodes restore what they know
        /// after a data loss.
        settling;
        /// hash Redis server that had this data -> `FENCE:MS`. These are the last fence and the
        /// time when a node first polled that server.
        servers;
        /// hash quarantined entry -> its fault.
        quarantine;
        /// zset discarded quarantine entry with its author, JSON -> time, ms. Keeps the newest 200.
        discarded;
        /// zset `RUN start` or `RUN finish` -> deadline for that start or end, ms. Only jobs that
        /// set such deadlines have entries.
        deadlines;
        /// zset notice that waits to be planted, JSON -> since when, ms. The entry goes when its
        /// run is planted.
        notices;
        /// zset gate -> time to check it, ms: a place became free there, or time alone opens it.
        gate_wakes;
        /// zset `B A` -> 0: job A must not run while job B runs.
        shunned;
        /// zset `LANE GATE JOB` -> 0: a job with a planned run, and the first gate that the run
        /// must pass.
        gated;
        /// zset -> 0: the entries of `shunned` for which a run may still be open that began before
        /// the rule existed.
        shunned_lately;
        /// hash: the state of the background consistency check: the node whose turn it was, the
        /// position, the findings.
        audit;
        /// The channel that wakes nodes.
        ///
        /// - `due`: an earlier run was planted.
        /// - `stop`: a run is asked to stop.
        /// - `lanes`: there is a new lane.
        /// - `pools`: the settings of a queue or group changed.
        /// - `told`: a notification waits.
        nudge;
    }

    /// zset run id -> ready time, ms; one lane.
    pub(crate) fn due(&self, lane: &Lane) -> String {
        self.named(&format!("due:{lane}"))
    }

    /// zset run that has a place at a gate -> time since which it has the place, ms.
    pub(crate) fn held(&self, gate: &Gate) -> String {
        self.named(&format!("held:{gate}"))
    }

    /// zset run that waits at a gate -> due time, ms.
    pub(crate) fn queued(&self, gate: &Gate) -> String {
        self.named(&format!("queued:{gate}"))
    }

    /// zset `JOB LANE DUE RUN` of all runs in `queued`, all scores 0: sorts the runs of one job and
    /// lane by due time.
    pub(crate) fn queued_by_job(&self, gate: &Gate) -> String {
        self.named(&format!("queued_by_job:{gate}"))
    }

    /// zset `LANE DUE RUN`, all scores 0: the first waiting run of each job and lane.
    pub(crate) fn queued_by_lane(&self, gate: &Gate) -> String {
        self.named(&format!("queued_by_lane:{gate}"))
    }

    /// zset `RUN LANE` -> due time, ms: the first waiting run in each lane. For a stuck lane the
    /// score is negative: the time until which the lane is skipped.
    pub(crate) fn queued_lanes(&self, gate: &Gate) -> String {
        self.named(&format!("queued_lanes:{gate}"))
    }

    /// hash: the state of a gate.
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

    /// string: for each rate of a concurrency key, the microsecond up to which started runs use it
    /// up.
    pub(crate) fn gate_rate(&self, gate: &Gate) -> String {
        self.named(&format!("gate_rate:{gate}"))
    }

    /// Returns the keys of a gate in the order that scripts expect.
    pub(crate) fn of_gate(&self, gate: &Gate) -> [String; 7] {
        let rules = gate.group().map_or_else(|| self.gate_rate(gate), |group| self.group(&group));
        let (by_job, by_lane) = (self.queued_by_job(gate), self.queued_by_lane(gate));
        [self.held(gate), self.queued(gate), by_job, by_lane, self.queued_lanes(gate), self.gate(gate), rules]
    }

    /// hash: the effective settings of a queue; `src:NODE` is the hash of what that node's file
    /// declares for it.
    pub(crate) fn queue(&self, queue: &QueueName) -> String {
        self.named(&format!("queue:{queue}"))
    }

    /// zset run that executes in a queue -> start time, ms. Written for every queue, with or
    /// without a limit.
    pub(crate) fn running(&self, queue: &QueueName) -> String {
        self.named(&format!("running:{queue}"))
    }

    /// hash: how far a queue's rate limit is used up: `tat` and `at` in microseconds, `part` of the
    /// next one.
    pub(crate) fn queue_state(&self, queue: &QueueName) -> String {
        self.named(&format!("queue_state:{queue}"))
    }

    /// hash: the effective settings of a group; `src:NODE` as in [`Keys::queue`].
    pub(crate) fn group(&self, group: &GroupName) -> String {
        self.named(&format!("group:{group}"))
    }

    /// hash `queue X` or `group X` -> hash of the section's text at the last push of that file.
    pub(crate) fn declared(&self, source: &SourceName) -> String {
        self.named(&format!("declared:{source}"))
    }

    /// hash: one job.
    pub(crate) fn job(&self, job: &JobName) -> String {
        self.named(&format!("job:{job}"))
    }

    /// zset open regular run -> due time, ms.
    pub(crate) fn open(&self, job: &JobName) -> String {
        self.named(&format!("open:{job}"))
    }

    /// zset manual run that has not ended (by hand, for a boot, a backfill or a notice) -> due
    /// time, ms.
    pub(crate) fn manual(&self, job: &JobName) -> String {
        self.named(&format!("manual:{job}"))
    }

    /// Returns the key that lists a run until it ends: the open regular runs of its job, or the
    /// manual runs.
    pub(crate) fn open_list(&self, run: &RunId) -> String {
        if run.is_manual() { self.manual(run.job()) } else { self.open(run.job()) }
    }

    /// zset run that waits for an open run of its job -> due time, ms.
    pub(crate) fn waiting(&self, job: &JobName) -> String {
        self.named(&format!("waiting:{job}"))
    }

    /// zset missed run with a start time of its own (spread catch-up) -> ready time, ms.
    pub(crate) fn spread(&self, job: &JobName) -> String {
        self.named(&format!("spread:{job}"))
    }

    /// zset backfill run that has not ended -> due time, ms; one job.
    pub(crate) fn backfill(&self, job: &JobName) -> String {
        self.named(&format!("backfill:{job}"))
    }

    /// zset run id -> time the run ended, ms; one job.
    pub(crate) fn job_history(&self, job: &JobName) -> String {
        self.named(&format!("history:{job}"))
    }

    /// zset dead letter -> time the run ended, ms; one job.
    pub(crate) fn job_dead(&self, job: &JobName) -> String {
        self.named(&format!("dead:{job}"))
    }

    /// zset change of a job, JSON -> time of the change, ms. Keeps the newest 100 of each job.
    pub(crate) fn deeds(&self, job: &JobName) -> String {
        self.named(&format!("deeds:{job}"))
    }

    /// zset `to_ms:count:state:reason` -> start of the range, ms: a summary of run records that
    /// were trimmed; one job.
    pub(crate) fn ledger(&self, job: &JobName) -> String {
        self.named(&format!("ledger:{job}"))
    }

    /// zset earlier schedule version of a job, JSON -> time it ended, ms; one job.
    pub(crate) fn eras(&self, job: &JobName) -> String {
        self.named(&format!("eras:{job}"))
    }

    /// hash state -> number of occurrences older than the ledger that ended so; one job. `until` is
    /// the last of them, ms. `latest` is the last occurrence in the ledger.
    pub(crate) fn ledger_before(&self, job: &JobName) -> String {
        self.named(&format!("ledger_before:{job}"))
    }

    /// zset node event, JSON -> time it began, ms. Keeps the newest 1,000 of each node.
    pub(crate) fn events(&self, node: &NodeName) -> String {
        self.named(&format!("events:{node}"))
    }

    /// hash: one run.
    pub(crate) fn run(&self, run: &RunId) -> String {
        self.named(&format!("run:{run}"))
    }

    /// hash: the output of one attempt.
    pub(crate) fn output(&self, run: &RunId, attempt: u32) -> String {
        self.named(&format!("output:{run}#{attempt}"))
    }

    /// hash: the job that owns a unique key, since when, and until when if a time limit applies.
    /// User text ends the name, so that a brace in it is never a hash tag.
    pub(crate) fn unique(&self, key: &UniqueKey) -> String {
        self.named(&format!("unique:{key}"))
    }

    /// zset `run#attempt` -> time of the last write, ms; one job.
    pub(crate) fn job_outputs(&self, job: &JobName) -> String {
        self.named(&format!("outputs:{job}"))
    }

    /// hash: one node.
    pub(crate) fn node(&self, node: &NodeName) -> String {
        self.named(&format!("node:{node}"))
    }

    /// Returns the name of a key moved to quarantine at `at`. `rest` is its name within the
    /// namespace.
    pub(crate) fn set_aside(&self, rest: &str, at: UnixMillis) -> String {
        self.named(&format!("quarantined:{rest}:{}", at.as_i64()))
    }

    /// Returns the name of a key within the namespace; None for a key of another namespace.
    pub(crate) fn rest<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(&self.named(""))
    }

    /// Returns the full key for `rest`, a name within the namespace or a Redis pattern. A namespace
    /// cannot contain pattern characters.
    pub(crate) fn whole(&self, rest: &str) -> String {
        self.named(rest)
    }

    /// Returns the key to pass as a source's list if there is no source. It is never written.
    pub(crate) fn sources_of_none(&self) -> String {
        self.named("source:")
    }

    /// hash job name -> hash of its definition at the last push of that file.
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
