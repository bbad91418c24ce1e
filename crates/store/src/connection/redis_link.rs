//! A Redis connection that is restored after a failure. Every call has a time limit. The next call
//! replaces a broken or silent connection.
//!
//! Invariant: a failed call may still have been executed (measured: commands sent during a stall
//! ran later). A caller that repeats a call therefore passes the same token.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{ConnectionAddr, RedisError, Value};

use super::address::Address;
use super::preflight;
use super::preflight::Findings;
use super::refusal::{wants_another_connection, with_hint, wrong_type_of};
use crate::script_times::ScriptTimes;
use crate::server::reply::time_of_answer;
use crate::server::store_error::StoreError;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The longest time of an answer by which later calls may know the time of Redis.
const PROMPT: Duration = Duration::from_millis(5);
/// The time limit for making a connection.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// The time limit for the answer to a small pipeline. Each further [`COMMANDS`] commands, each
/// further [`ARGUMENTS`] and each further [`BYTES`] in one pipeline add the same time again.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// The number of commands that Redis on a loaded host still executes within [`ANSWER_LIMIT`].
const COMMANDS: usize = 100;
/// The number of arguments of scripts that Redis on a loaded host still handles within
/// [`ANSWER_LIMIT`]. A script call for many items is one command.
const ARGUMENTS: usize = 2_000;
/// The number of argument bytes that a slow network still transfers within [`ANSWER_LIMIT`].
const BYTES: usize = 1024 * 1024;
/// The total time a call may wait for a connection, including attempts to connect made by other
/// calls.
pub(super) const OPEN_LIMIT: Duration = CONNECT_LIMIT.saturating_add(ANSWER_LIMIT);
/// The pause after a call of a gentle link, as a multiple of the duration of the call.
const REST: u32 = 4;
/// The time between two searches for the primary while a connection is in use.
pub(super) const SEARCH_EVERY: Duration = Duration::from_secs(10);
/// If connecting to the primary takes longer, the Sentinels or the cluster are asked again whether the
/// server still is the primary.
const FRESH: Duration = Duration::from_millis(50);
/// The number of unanswered calls in a row after which the connection counts as dead. A single
/// time-out does not prove that the connection is dead.
const SILENT_CALLS: u32 = 3;
/// The number of unanswered calls after which a link with one call at a time counts as dead. Three
/// calls would take longer than a short lease lasts.
const SILENT_CALLS_ALONE: u32 = 1;

/// Returns the time limit for the answer to a pipeline. The limit grows with the size of the
/// pipeline; an empty pipeline gets `limit`.
fn limit_for(pipeline: &redis::Pipeline, limit: Duration) -> Duration {
    let (mut commands, mut arguments, mut bytes) = (0, 0, 0);
    for command in pipeline.cmd_iter() {
        commands += 1;
        for argument in command.args_iter() {
            arguments += 1;
            bytes += if let redis::Arg::Simple(bytes) = argument { bytes.len() } else { 0 };
        }
    }
    let times = 1 + commands / COMMANDS + arguments / ARGUMENTS + bytes / BYTES;
    limit.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX))
}

/// A connection to Redis that is restored after a failure. Clones share the connection.
#[derive(Clone)]
pub(crate) struct RedisLink {
    pub(super) shared: Arc<Shared>,
    /// The pause after each call, as a multiple of the duration of the call.
    pub(super) rest: u32,
}

pub(super) struct Shared {
    pub(super) address: Address,
    /// The slot of the namespace in a cluster.
    slot: u16,
    open: Mutex<Option<OpenConnection>>,
    /// A lock taken by the one call that connects on behalf of all waiting calls.
    connecting: tokio::sync::Mutex<()>,
    connections_made: AtomicU64,
    silent_calls: AtomicU32,
    most_silent_calls: u32,
    answer_limit: Duration,
    /// The only server to which claims, skips and spreads are sent, as `RUN_ID/REPLID`. None means
    /// any server.
    pub(super) trusted: Mutex<Option<String>>,
    /// The time at which the Sentinels or the cluster were last asked for the primary.
    searched: Mutex<Instant>,
    /// True once a task listens to a Sentinel for announcements of another primary.
    pub(super) hears_sentinels: AtomicBool,
    /// The durations of calls, shared with all links that were made from this link.
    pub(super) script_times: Arc<ScriptTimes>,
    /// The last known time of Redis, and when it was asked for.
    clock: Mutex<Option<(UnixMillis, BootInstant)>>,
}

/// The connection that a call uses, as the link had it when the call began.
#[derive(Clone)]
pub(crate) struct OpenConnection {
    connection: MultiplexedConnection,
    pub(super) findings: Findings,
    number: u64,
    /// The connected server.
    server: ConnectionAddr,
}

impl OpenConnection {
    /// Returns the number of the connection. It differs for each connection.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the run id and the replication id of the connected server, as `RUN_ID/REPLID`. The
    /// text is empty if the server does not report both.
    pub(crate) fn identity(&self) -> &str {
        &self.findings.identity
    }

    /// Returns true if both connections lead to the same server, which has been a primary all the
    /// time between them: its replication id changes when it becomes one.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        self.number == other.number
            || !self.identity().is_empty()
                && self.server == other.server
                && self.identity() == other.identity()
    }
}

impl RedisLink {
    /// Creates a link to the server at `address` that has the keys of `slot`. It connects at the
    /// first call. Fails if no Redis client can be made for the address.
    pub(crate) fn new(address: &Address, slot: u16) -> Result<Self, StoreError> {
        Self::with(address, slot, SILENT_CALLS, ANSWER_LIMIT, Arc::default())
    }

    /// Creates a link to the same address for one call at a time. The first unanswered call of the
    /// link closes the connection.
    pub(crate) fn for_one_call(&self) -> Result<Self, StoreError> {
        let Shared { address, slot, script_times, .. } = &*self.shared;
        Self::with(address, *slot, SILENT_CALLS_ALONE, ANSWER_LIMIT, script_times.clone())
    }

    /// Creates a link to the same address for commands that Redis answers after at most `wait`.
    pub(crate) fn for_waits(&self, wait: Duration) -> Result<Self, StoreError> {
        let Shared { address, slot, script_times, .. } = &*self.shared;
        let limit = ANSWER_LIMIT.saturating_add(wait);
        Self::with(address, *slot, SILENT_CALLS_ALONE, limit, script_times.clone())
    }

    /// Creates a link to the same address, with a connection of its own.
    pub(crate) fn apart(&self) -> Result<Self, StoreError> {
        let Shared { address, slot, most_silent_calls, script_times, .. } = &*self.shared;
        Self::with(address, *slot, *most_silent_calls, ANSWER_LIMIT, script_times.clone())
    }

    /// Returns a link to the same connection that pauses after each call, so that a long series of
    /// reads takes a part of the time of Redis.
    pub(crate) fn gently(&self) -> Self {
        Self { rest: REST, ..self.clone() }
    }

    fn with(
        address: &Address,
        slot: u16,
        most_silent_calls: u32,
        answer_limit: Duration,
        script_times: Arc<ScriptTimes>,
    ) -> Result<Self, StoreError> {
        redis::Client::open(address.given().clone())
            .map_err(|error| StoreError::from_redis(address.shown(), &error))?;
        let shared = Shared {
            address: address.clone(),
            slot,
            open: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(()),
            connections_made: AtomicU64::new(0),
            silent_calls: AtomicU32::new(0),
            most_silent_calls,
            answer_limit,
            trusted: Mutex::default(),
            searched: Mutex::new(Instant::now()),
            hears_sentinels: AtomicBool::new(false),
            script_times,
            clock: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared), rest: 0 })
    }

    /// Creates a Redis client for the server that has the data now, with the current user and
    /// password.
    pub(super) async fn client(&self) -> Result<redis::Client, StoreError> {
        self.shared.address.primary(self.shared.slot).await
    }

    /// Searches for the primary again if the last search is long ago. Gives up `open` if another
    /// server is the primary now. The call does not wait for the search.
    fn search_again(&self, open: &OpenConnection) {
        if !self.shared.address.is_routed() {
            return;
        }
        let mut searched = self.shared.searched.lock().unwrap_or_else(PoisonError::into_inner);
        if searched.elapsed() < SEARCH_EVERY {
            return;
        }
        *searched = Instant::now();
        let (link, open) = (self.clone(), open.clone());
        tokio::spawn(async move { link.leave_former_primary(&open).await });
    }

    /// Searches for the primary, and gives up `open` if that is another server.
    pub(super) async fn leave_former_primary(&self, open: &OpenConnection) {
        let found = self.client().await;
        if found.is_ok_and(|client| *client.get_connection_info().addr() != open.server) {
            self.let_go(open);
        }
    }

    /// Returns the number of connections that the link has made so far.
    pub(crate) fn connections_made(&self) -> u64 {
        self.shared.connections_made.load(Ordering::Relaxed)
    }

    /// Returns the durations of the calls of this link and of all links made from it.
    pub(crate) fn script_times(&self) -> &ScriptTimes {
        &self.shared.script_times
    }

    /// Returns the address of Redis, without secrets.
    pub(crate) fn address(&self) -> &str {
        self.shared.address.shown()
    }

    /// Returns the address of Redis.
    pub(crate) fn place(&self) -> &Address {
        &self.shared.address
    }

    /// Returns the number of replicas that must have a change before schedd acknowledges it. 0 means that
    /// schedd waits for no replica.
    pub(crate) fn replicas(&self) -> u8 {
        self.shared.address.replicas()
    }

    /// Returns true if the address is that of a cluster.
    pub(crate) fn is_in_cluster(&self) -> bool {
        self.shared.address.is_of_cluster()
    }

    /// Returns the facts that the server reported when the current connection was made. Connects
    /// first if there is no connection.
    pub(crate) async fn findings(&self) -> Result<Findings, StoreError> {
        Ok(self.open().await?.findings)
    }

    /// Returns the current connection. Connects first if there is no connection.
    pub(crate) async fn open(&self) -> Result<OpenConnection, StoreError> {
        if let Some(open) = self.slot().clone() {
            self.search_again(&open);
            return Ok(open);
        }
        // A call waits for the connection attempt of another call no longer than for its own.
        // Otherwise calls would queue up during an outage. The attempt is in a box, because it would
        // make the future of each call ten times as large.
        let opened = Box::pin(tokio::time::timeout(OPEN_LIMIT, self.open_in_turn())).await;
        opened.unwrap_or_else(|_| Err(StoreError::timed_out(self.address(), OPEN_LIMIT)))
    }

    /// Locks and returns the current connection, which is None while not connected. The lock is
    /// never kept across an await.
    pub(super) fn slot(&self) -> MutexGuard<'_, Option<OpenConnection>> {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects, unless another call has connected meanwhile.
    async fn open_in_turn(&self) -> Result<OpenConnection, StoreError> {
        let _turn = self.shared.connecting.lock().await;
        if let Some(open) = self.slot().clone() {
            return Ok(open);
        }
        let address = &self.shared.address;
        let mut client = self.client().await?;
        let (mut connection, info) = loop {
            let found = Instant::now();
            let connected = self.connect(&client).await?;
            if !address.is_routed() || found.elapsed() < FRESH {
                break connected;
            }
            // A server that stood still meanwhile may have lost its place, and does not know it yet.
            let now = self.client().await?;
            if now.get_connection_info().addr() == client.get_connection_info().addr() {
                break connected;
            }
            client = now;
        };
        if address.is_routed() && preflight::is_replica(&info) {
            return Err(StoreError::Unavailable {
                address: self.address().to_owned(),
                why:
                    "the server that was the primary is a replica now; a failover may be under way"
                        .to_owned(),
            });
        }
        // The ACL may forbid CONFIG. The server is then used without a check of `appendfsync`.
        let fsync: Result<Vec<String>, _> = self
            .limited(
                ANSWER_LIMIT,
                redis::cmd("CONFIG").arg("GET").arg("appendfsync").query_async(&mut connection),
            )
            .await;
        let fsync = fsync.ok().and_then(|pair| pair.into_iter().nth(1));
        let judged = preflight::judge(&info, fsync.as_deref(), address);
        let findings =
            judged.map_err(|why| StoreError::Unfit { address: self.address().to_owned(), why })?;
        if let Some(policy) = &findings.evicts_by {
            tracing::warn!(
                policy,
                "Redis at {} deletes keys when memory is short, so jobs and runs may vanish; set maxmemory-policy noeviction.",
                self.address()
            );
        }
        self.shared.silent_calls.store(0, Ordering::Relaxed);
        self.shared.connections_made.fetch_add(1, Ordering::Relaxed);
        *self.shared.searched.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let server = client.get_connection_info().addr().clone();
        let made = OpenConnection { connection, findings, number: fastrand::u64(..), server };
        *self.slot() = Some(made.clone());
        self.hear_sentinels();
        Ok(made)
    }

    /// Connects to the server of `client`. Returns the connection, and what the server reports of
    /// itself.
    async fn connect(
        &self,
        client: &redis::Client,
    ) -> Result<(MultiplexedConnection, String), StoreError> {
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_LIMIT))
            // Each call has a time limit of its own.
            .set_response_timeout(None);
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = self.limited(OPEN_LIMIT, connecting).await.map_err(with_hint)?;
        let info =
            self.limited(ANSWER_LIMIT, redis::cmd("INFO").query_async(&mut connection)).await?;
        Ok((connection, info))
    }

    pub(super) async fn limited<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(StoreError::from_redis(self.address(), &error)),
            Err(_) => Err(StoreError::timed_out(self.address(), limit)),
        }
    }

    /// Removes the connection `broken` from the link, unless another call has already replaced that
    /// connection.
    pub(crate) fn let_go(&self, broken: &OpenConnection) {
        let mut open = self.slot();
        if open.as_ref().is_some_and(|now| now.number == broken.number) {
            // The next connection may lead to another server, whose clock may differ.
            *self.clock() = None;
            *open = None;
        }
    }

    /// Runs commands in one pipeline and returns the answer to each command, which may be an error.
    /// Fails only if the pipeline could not be sent, or got no answers in time. An empty pipeline is
    /// not sent, because the client takes it for a broken connection.
    pub(crate) async fn ask(
        &self,
        pipeline: &mut redis::Pipeline,
    ) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        let open = self.open().await?;
        self.ask_on(open, pipeline).await
    }

    /// Runs commands in one pipeline on the given connection. Returns the answer to each command.
    pub(crate) async fn ask_on(
        &self,
        mut open: OpenConnection,
        pipeline: &mut redis::Pipeline,
    ) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
        let limit = limit_for(pipeline, self.shared.answer_limit);
        let sent = Instant::now();
        pipeline.ignore_errors();
        let asked = tokio::time::timeout(
            limit,
            pipeline.query_async::<Vec<Result<Value, RedisError>>>(&mut open.connection),
        );
        match asked.await {
            Ok(Ok(answers)) => {
                self.shared.silent_calls.store(0, Ordering::Relaxed);
                if self.rest > 0 {
                    tokio::time::sleep(sent.elapsed() * self.rest).await;
                }
                let is_routed = self.shared.address.is_routed();
                let wants_another = |error| wants_another_connection(error, is_routed);
                if answers.iter().any(|answer| answer.as_ref().is_err_and(wants_another)) {
                    self.let_go(&open);
                }
                Ok(answers)
            }
            Ok(Err(error)) => {
                if error.is_timeout() {
                    return Err(self.note_silence(&open, limit));
                }
                self.let_go(&open);
                Err(StoreError::from_redis(self.address(), &error))
            }
            Err(_) => Err(self.note_silence(&open, limit)),
        }
    }

    fn note_silence(&self, open: &OpenConnection, limit: Duration) -> StoreError {
        if self.shared.silent_calls.fetch_add(1, Ordering::Relaxed) + 1
            >= self.shared.most_silent_calls
        {
            self.let_go(open);
        }
        StoreError::timed_out(self.address(), limit)
    }

    /// Returns the time of Redis.
    pub(crate) async fn read_time(&self) -> Result<UnixMillis, StoreError> {
        let asked = BootInstant::now();
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME");
        let now = time_of_answer(self.query(&mut pipeline).await?.first())?;
        // The time counts from the question. After a slow answer, the computed time would be ahead of
        // the clock of Redis by the time that the answer took.
        *self.clock() = (BootInstant::now().since(asked) < PROMPT).then_some((now, asked));
        Ok(now)
    }

    fn clock(&self) -> MutexGuard<'_, Option<(UnixMillis, BootInstant)>> {
        self.shared.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of Redis by an answer that is younger than `age`, or `None` if there is none.
    /// This time is not behind that of Redis, unless the clock of Redis was set meanwhile.
    pub(crate) fn time_by_last_answer(&self, age: Duration) -> Option<UnixMillis> {
        let (then, asked) = (*self.clock())?;
        let since = BootInstant::now().since(asked);
        (since < age).then(|| then.saturating_add(since))
    }

    /// Runs commands in one pipeline and returns their answers. The first refused command fails the
    /// call.
    pub(crate) async fn query(
        &self,
        pipeline: &mut redis::Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        let answers = self.ask(pipeline).await?;
        let read = |(command, answer): (&redis::Cmd, Result<Value, RedisError>)| match answer {
            Err(error) if error.code() == Some("WRONGTYPE") => Err(wrong_type_of(command)),
            answer => answer.map_err(|error| StoreError::from_redis(self.address(), &error)),
        };
        pipeline.cmd_iter().zip(answers).map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_call_for_many_items_may_take_longer() {
        let limit = |arguments: usize, bytes: usize| {
            let mut pipeline = redis::pipe();
            let command = pipeline.cmd("EVALSHA");
            for _ in 0..arguments {
                command.arg("x".repeat(bytes));
            }
            limit_for(&pipeline, Duration::from_secs(1)).as_secs()
        };
        assert_eq!((limit(10, 1), limit(4_100, 1), limit(3, 1024 * 1024)), (1, 3, 4));
    }
}
