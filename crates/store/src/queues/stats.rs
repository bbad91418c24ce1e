//! Counts and sizes of the whole namespace.

use std::collections::BTreeMap;

use redis::Value;

use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::time::unix_millis::UnixMillis;

/// Counts and sizes of the whole namespace.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// The number of live jobs.
    pub jobs: u64,
    /// The number of runs that are in a due set or wait, as counted in `waiting`.
    pub scheduled: u64,
    /// The number of executing runs.
    pub running: u64,
    /// The number of runs that wait at a gate or for an open run of their job.
    pub waiting: u64,
    /// The number of notifications that are not delivered yet. Such a notification has no run, or
    /// its run waits for its start or a retry.
    pub notices: u64,
    /// The number of ended runs by state, since the namespace was created, including notices.
    /// `recovered` counts runs taken back from a dead node. `retried` counts dead letters tried
    /// again.
    pub totals: BTreeMap<String, u64>,
    /// The number of runs kept in history.
    pub history: u64,
    /// The number of dead letters kept.
    pub dead: u64,
    /// The bytes of output kept.
    pub output_bytes: u64,
    /// The number of ranges in the ledgers of all jobs.
    pub ledger_ranges: u64,
    /// The number of ended jobs whose definition is still kept.
    pub finished: u64,
    /// The bytes of memory that the whole Redis uses, for all its clients. None if not known.
    pub redis_memory: Option<u64>,
    /// The memory limit of Redis in bytes; None if it has no limit or does not report it.
    pub redis_maxmemory: Option<u64>,
    /// The number of entries in quarantine.
    pub quarantined: u64,
    /// The number of known nodes.
    pub nodes: u64,
    /// The number of findings of the background consistency check.
    pub findings: u64,
    /// The time of the last turn of the background consistency check; None before the first turn. A
    /// turn checks a part of the data.
    pub checked_at: Option<UnixMillis>,
    /// The time the last full consistency check ended; None before the end of the first.
    pub check_round_at: Option<UnixMillis>,
}

impl Stats {
    /// Returns the sums of these counts and those of a shard. The nodes are those of the namespace,
    /// and the memory is that of its Redis. A check is as old as the oldest check of a place.
    #[must_use]
    pub fn with_shard(mut self, shard: Self) -> Self {
        let sums = [
            (&mut self.jobs, shard.jobs),
            (&mut self.scheduled, shard.scheduled),
            (&mut self.running, shard.running),
            (&mut self.waiting, shard.waiting),
            (&mut self.notices, shard.notices),
            (&mut self.history, shard.history),
            (&mut self.dead, shard.dead),
            (&mut self.output_bytes, shard.output_bytes),
            (&mut self.ledger_ranges, shard.ledger_ranges),
            (&mut self.finished, shard.finished),
            (&mut self.quarantined, shard.quarantined),
            (&mut self.findings, shard.findings),
        ];
        for (sum, count) in sums {
            *sum += count;
        }
        for (word, count) in shard.totals {
            *self.totals.entry(word).or_default() += count;
        }
        self.checked_at = self.checked_at.min(shard.checked_at);
        self.check_round_at = self.check_round_at.min(shard.check_round_at);
        self
    }
}

impl Store {
    /// Reads the counts and sizes of the namespace.
    pub async fn read_stats(&self) -> Result<Stats, StoreError> {
        let lanes = self.list_lanes().await?;
        let audit = self.read_check_note().await?;
        let keys = &self.keys;
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZCARD").arg(keys.jobs());
        pipeline.cmd("ZCARD").arg(keys.leases());
        pipeline.cmd("ZCARD").arg(keys.history());
        pipeline.cmd("GET").arg(keys.output_bytes());
        pipeline.cmd("HLEN").arg(keys.quarantine());
        pipeline.cmd("ZCARD").arg(keys.nodes());
        pipeline.cmd("ZCARD").arg(keys.dead());
        pipeline.cmd("ZCARD").arg(keys.finished());
        pipeline.cmd("ZCARD").arg(keys.notices());
        pipeline.cmd("ZCARD").arg(keys.due(&Lane::of_notices()));
        pipeline.cmd("HGETALL").arg(keys.counters());
        for lane in &lanes {
            pipeline.cmd("ZCARD").arg(keys.due(lane));
        }
        let answers = self.link.query(&mut pipeline).await?;
        let number =
            |value: &Value| number_of(value).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let [
            jobs,
            leases,
            history,
            output_bytes,
            quarantined,
            nodes,
            dead,
            finished,
            notices,
            due_notices,
            totals,
            due @ ..,
        ] = answers.as_slice()
        else {
            return Err(StoreError::corrupt(
                "reply about the counts of the namespace",
                format!("found {} values, wanted at least 11", answers.len()),
            ));
        };
        let mut totals: BTreeMap<String, u64> = match totals {
            Value::Array(flat) => flat
                .chunks_exact(2)
                .filter_map(|pair| Some((text_of(&pair[0])?, number(&pair[1]))))
                .collect(),
            _ => BTreeMap::new(),
        };
        let waiting = totals.remove("waiting").unwrap_or(0);
        let ledger_ranges = totals.remove("ledger_ranges").unwrap_or(0);
        let (redis_memory, redis_maxmemory) = self.read_memory().await?;
        Ok(Stats {
            jobs: number(jobs),
            scheduled: due.iter().map(number).sum::<u64>() + waiting,
            running: number(leases),
            waiting,
            notices: number(notices) + number(due_notices),
            totals,
            history: number(history),
            dead: number(dead),
            output_bytes: number(output_bytes),
            ledger_ranges,
            finished: number(finished),
            redis_memory,
            redis_maxmemory,
            quarantined: number(quarantined),
            nodes: number(nodes),
            findings: audit.as_ref().map_or(0, |audit| audit.findings),
            checked_at: audit.as_ref().map(|audit| audit.at),
            check_round_at: audit.and_then(|audit| audit.round_at),
        })
    }

    /// Returns the memory that Redis uses and its memory limit, in bytes. A value is None if this
    /// Redis user may not read it. The limit is also None if there is no limit.
    async fn read_memory(&self) -> Result<(Option<u64>, Option<u64>), StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("INFO").arg("memory");
        let answers = self.link.ask(&mut pipeline).await?;
        let info = answers
            .first()
            .and_then(|answer| answer.as_ref().ok())
            .and_then(text_of)
            .unwrap_or_default();
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
        };
        Ok((field("used_memory"), field("maxmemory").filter(|bytes| *bytes > 0)))
    }
}
