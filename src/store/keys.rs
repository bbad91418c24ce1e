//! The names of the keys: the one place that knows how a namespace's data is laid out.
//!
//! Invariant: all keys of a namespace share one hash tag, `{namespace}`, so that a script may touch any of them together.
//! Names and run ids are checked types, so no part of a key can hold a brace before its end.

use crate::domain::gate::Gate;
use crate::domain::ids::{Fence, GroupName, IdError, JobName, NodeName, QueueName, RunId};
use crate::domain::lane::Lane;
use crate::domain::source::SourceName;
use crate::domain::time::UnixMillis;
use crate::domain::unique::UniqueKey;

/// The keys of one namespace.
#[derive(Debug, Clone)]
pub struct Keys {
    namespace: String,
}

/// The namespace unless another is asked for.
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
    /// The keys of `namespace`. Fails unless it has the form of a job's name.
    pub fn new(namespace: &str) -> Result<Self, IdError> {
        match namespace.parse::<JobName>().and_then(JobName::for_people) {
            Ok(name) => Ok(Self { namespace: name.as_str().to_owned() }),
            Err(_) => Err(IdError::Name { kind: "namespace", found: namespace.to_owned() }),
        }
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    fn named(&self, rest: &str) -> String {
        format!("{{{}}}:{rest}", self.namespace)
    }

    shared_keys! {
        /// zset `run#fence` -> end of the lease, ms.
        leases;
        /// The last fence issued.
        fence;
        /// zset job name -> next due, ms.
        jobs;
        /// zset job name -> when it ended, ms.
        finished;
        /// hash run id -> why it is asked to stop.
        stops;
        /// zset run id -> when it ended, ms; all jobs.
        history;
        /// zset dead letter -> when it ended, ms; all jobs.
        dead;
        /// hash word -> count.
        totals;
        /// zset `run#attempt` -> last written, ms.
        outputs;
        /// Bytes of output kept.
        output_bytes;
        /// hash job name -> bytes of output kept of it.
        output_sizes;
        /// hash queue that was ever declared -> its concurrency a node.
        queues;
        /// zset lane that is not its queue's plain one -> when it was last known to be used, ms.
        lanes;
        /// hash group that is declared -> its mode.
        groups;
        /// zset job with past occurrences to be made up for -> since when, ms.
        backfills;
        /// zset unique key that was held -> when to look whether it still is, ms.
        uniques;
        /// zset `@HOST BOOT`, a boot whose @reboot jobs are all planted -> when, ms; the newest 1,000.
        boots;
        /// zset `JOB @HOST BOOT`, a job planted for a boot -> when, ms; the newest 10,000.
        boot_runs;
        /// zset node -> last seen, ms.
        nodes;
        /// zset node -> when its events were last written, ms; also of nodes that have left.
        noted_nodes;
        /// The mark of this data: `MS-WORD`, written on its first day and anew after each loss that was noticed.
        epoch;
        /// zset record of a loss, or of what a node gave back, as JSON -> when it was written, ms.
        losses;
        /// Until when nothing is ripe, ms: what nodes know is being written back after a loss.
        settling;
        /// hash Redis server this data was on -> `FENCE:MS`: the last fence and the time when a node first polled it there.
        servers;
        /// hash entry -> what was wrong with it.
        quarantine;
        /// zset what was let go of there and by whom, JSON -> when, ms; the newest 200.
        discarded;
        /// zset `RUN start` or `RUN finish` -> by when, ms, the run is to have started or ended; of jobs that say so.
        deadlines;
        /// zset what people are to be told, JSON -> since when, ms: taken out when a run of it is planted.
        notices;
        /// zset gate -> when it is to be looked at, ms: a place was given up there, or time alone opens it.
        gate_wakes;
        /// zset `B A`, a job that is not to run beside another and that job -> 0.
        shunned;
        /// zset `LANE GATE JOB`, a job with a planned run and the gate that has to pass first -> 0.
        gated;
        /// zset those of `shunned` of which one may yet run that began before there was the rule -> 0.
        shunned_lately;
        /// hash: the slow check of the books, whose turn it was, where it is, what it found.
        audit;
        /// The channel that wakes nodes: `due` something earlier was planted, `stop` a run is asked to stop, `lanes` there is a new
        /// lane, `pools` the settings of a queue or group changed, `told` somebody is to be told something.
        nudge;
    }

    /// zset run id -> ready, ms; one lane.
    pub(crate) fn due(&self, lane: &Lane) -> String {
        self.named(&format!("due:{lane}"))
    }

    /// zset run that has a place at a gate -> since when, ms.
    pub(crate) fn held(&self, gate: &Gate) -> String {
        self.named(&format!("held:{gate}"))
    }

    /// zset run that waits at a gate -> due, ms.
    pub(crate) fn queued(&self, gate: &Gate) -> String {
        self.named(&format!("queued:{gate}"))
    }

    /// zset `JOB LANE DUE RUN` of the same runs, all 0: those of one job and lane by due.
    pub(crate) fn queued_by_job(&self, gate: &Gate) -> String {
        self.named(&format!("queued_by_job:{gate}"))
    }

    /// zset `LANE DUE RUN` of the first of these runs of each job and lane, all 0.
    pub(crate) fn queued_by_lane(&self, gate: &Gate) -> String {
        self.named(&format!("queued_by_lane:{gate}"))
    }

    /// zset `RUN LANE`, the first of these runs in each lane -> due, ms; of a stuck lane until when it is passed over, below zero.
    pub(crate) fn queued_lanes(&self, gate: &Gate) -> String {
        self.named(&format!("queued_lanes:{gate}"))
    }

    /// hash: the state of a gate. `lane:RUN` where one that waits goes, `stuck:LANE` the run of that lane that did not begin and until
    /// when others of the lane are passed over, `tried` when a stuck lane was last tried again, `job:NAME` what a job allows of a key;
    /// of a group `turn`, `since` when it is, `last_ended` and `ended`, whose run that was until the turn has passed.
    pub(crate) fn gate(&self, gate: &Gate) -> String {
        self.named(&format!("gate:{gate}"))
    }

    /// The time up to which the runs of a key that began take up its rate, microseconds.
    pub(crate) fn gate_rate(&self, gate: &Gate) -> String {
        self.named(&format!("gate_rate:{gate}"))
    }

    /// The keys of a gate in the order of the scripts.
    pub(crate) fn of_gate(&self, gate: &Gate) -> [String; 7] {
        let rules = gate.group().map_or_else(|| self.gate_rate(gate), |group| self.group(&group));
        let (by_job, by_lane) = (self.queued_by_job(gate), self.queued_by_lane(gate));
        [self.held(gate), self.queued(gate), by_job, by_lane, self.queued_lanes(gate), self.gate(gate), rules]
    }

    /// hash: what holds for a queue, `src:NODE` the hash of what that node's file says of it.
    pub(crate) fn queue(&self, queue: &QueueName) -> String {
        self.named(&format!("queue:{queue}"))
    }

    /// zset run that executes in a queue -> since when, ms; of every queue, whether it has a limit or not.
    pub(crate) fn running(&self, queue: &QueueName) -> String {
        self.named(&format!("running:{queue}"))
    }

    /// hash: how far a queue's rate is used up: `tat` and `at` in microseconds, `part` of the next one.
    pub(crate) fn queue_state(&self, queue: &QueueName) -> String {
        self.named(&format!("queue_state:{queue}"))
    }

    /// hash: what holds for a group, `src:NODE` as for a queue.
    pub(crate) fn group(&self, group: &GroupName) -> String {
        self.named(&format!("group:{group}"))
    }

    /// hash `queue X` or `group X` -> hash of its text, as that file last said it.
    pub(crate) fn declared(&self, source: &SourceName) -> String {
        self.named(&format!("declared:{source}"))
    }

    /// hash: one job.
    pub(crate) fn job(&self, job: &JobName) -> String {
        self.named(&format!("job:{job}"))
    }

    /// zset open regular run -> due, ms.
    pub(crate) fn open(&self, job: &JobName) -> String {
        self.named(&format!("open:{job}"))
    }

    /// zset manual run that is not over (by hand, for a boot, a backfill or a notice) -> due, ms.
    pub(crate) fn manual(&self, job: &JobName) -> String {
        self.named(&format!("manual:{job}"))
    }

    /// The list on which a run stands until it is over: of the open regular runs of its job, or of the manual ones.
    pub(crate) fn open_list(&self, run: &RunId) -> String {
        if run.is_manual() { self.manual(run.job()) } else { self.open(run.job()) }
    }

    /// zset run waiting for an open one of its job -> due, ms.
    pub(crate) fn waiting(&self, job: &JobName) -> String {
        self.named(&format!("waiting:{job}"))
    }

    /// zset missed run that is to run at a time of its own -> ready, ms.
    pub(crate) fn spread(&self, job: &JobName) -> String {
        self.named(&format!("spread:{job}"))
    }

    /// zset backfill run that is out or still to come -> due, ms; one job.
    pub(crate) fn backfill(&self, job: &JobName) -> String {
        self.named(&format!("backfill:{job}"))
    }

    /// zset run id -> when it ended, ms; one job.
    pub(crate) fn job_history(&self, job: &JobName) -> String {
        self.named(&format!("history:{job}"))
    }

    /// zset dead letter -> when it ended, ms; one job.
    pub(crate) fn job_dead(&self, job: &JobName) -> String {
        self.named(&format!("dead:{job}"))
    }

    /// zset deed, JSON -> when it was done, ms; the newest 100 of what was done to a job.
    pub(crate) fn deeds(&self, job: &JobName) -> String {
        self.named(&format!("deeds:{job}"))
    }

    /// zset `to_ms:count:state:reason` -> from, ms: what the records of runs told that were trimmed; one job.
    pub(crate) fn ledger(&self, job: &JobName) -> String {
        self.named(&format!("ledger:{job}"))
    }

    /// zset by which schedule a job's occurrences came, JSON, before the one it has -> when that ended, ms; one job.
    pub(crate) fn eras(&self, job: &JobName) -> String {
        self.named(&format!("eras:{job}"))
    }

    /// hash state -> how many occurrences older than the ledger ended so, `until` the last of them, ms; and `latest`, the last
    /// that is in the ledger; one job.
    pub(crate) fn ledger_before(&self, job: &JobName) -> String {
        self.named(&format!("ledger_before:{job}"))
    }

    /// zset event, JSON -> when it began, ms; the newest 1,000 of what befell a node.
    pub(crate) fn events(&self, node: &NodeName) -> String {
        self.named(&format!("events:{node}"))
    }

    /// hash: one run.
    pub(crate) fn run(&self, run: &RunId) -> String {
        self.named(&format!("run:{run}"))
    }

    /// hash: what one attempt printed.
    pub(crate) fn output(&self, run: &RunId, attempt: u32) -> String {
        self.named(&format!("output:{run}#{attempt}"))
    }

    /// hash: the job that holds a unique key, since when, and until when if that is told by time. The key is text of people, last in
    /// the name, so that no brace in it is a hash tag.
    pub(crate) fn unique(&self, key: &UniqueKey) -> String {
        self.named(&format!("unique:{key}"))
    }

    /// zset `run#attempt` -> last written, ms; one job.
    pub(crate) fn job_outputs(&self, job: &JobName) -> String {
        self.named(&format!("outputs:{job}"))
    }

    /// hash: one node.
    pub(crate) fn node(&self, node: &NodeName) -> String {
        self.named(&format!("node:{node}"))
    }

    /// Where a key that was moved aside is: `rest` is its name within the namespace.
    pub(crate) fn set_aside(&self, rest: &str, at: UnixMillis) -> String {
        self.named(&format!("quarantined:{rest}:{}", at.as_i64()))
    }

    /// The name a key has within the namespace; none for a key of another.
    pub(crate) fn rest<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(&self.named(""))
    }

    /// The key of the name `rest` within the namespace, or of a pattern of Redis: a namespace has no character that means
    /// something there.
    pub(crate) fn whole(&self, rest: &str) -> String {
        self.named(rest)
    }

    /// The key passed as a source's list where there is none: never written.
    pub(crate) fn sources_of_none(&self) -> String {
        self.named("source:")
    }

    /// hash job name -> hash of its definition, as that file last said it.
    pub(crate) fn source(&self, source: &SourceName) -> String {
        self.named(&format!("source:{source}"))
    }
}

/// The run and fence of a member of `leases`; none if it is not one.
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
