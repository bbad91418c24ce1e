//! One connection to Redis that mends itself: every call has a time limit, a broken or silent connection is replaced by
//! the next call, and scripts the server forgot are loaded again.
//!
//! Invariant: a call that fails may have been done all the same (measured: commands sent during a stall ran later), so
//! whoever repeats one gives it the same token.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

use super::address::Address;
use super::error::StoreError;
use super::preflight::{self, Findings};
use super::refusals::{forbidden, is_raised_in_script, spoilt_key, wants_another_connection, with_hint};
use super::reply::Reply;
use super::scripts::Invocation;

/// How long a connection may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// How long an answer may take: so long, and as long again for each [`COMMANDS`] and each [`BYTES`] asked in one go.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// Commands a Redis on a loaded host does within [`ANSWER_LIMIT`] all the same.
const COMMANDS: usize = 100;
/// Bytes of arguments a slow network takes within [`ANSWER_LIMIT`].
const BYTES: usize = 1024 * 1024;
/// How long a call may wait for a connection, its own attempts and those of others together.
const OPEN_LIMIT: Duration = CONNECT_LIMIT.saturating_add(ANSWER_LIMIT);
/// How often the scripts are loaded for one call.
const LOADS: usize = 3;
/// After so many calls in a row without an answer the connection is taken for dead: a time-out alone never tells.
const SILENT_CALLS: u32 = 3;
/// The same on a link that has one call at a time: waiting for three would take longer than a short lease lasts.
const SILENT_CALLS_ALONE: u32 = 1;

/// How long the answer to a pipeline may take, one of no size at most `limit`.
fn limit_for(pipeline: &redis::Pipeline, limit: Duration) -> Duration {
    let (mut commands, mut bytes) = (0, 0);
    for command in pipeline.cmd_iter() {
        commands += 1;
        bytes += command
            .args_iter()
            .map(|argument| if let redis::Arg::Simple(bytes) = argument { bytes.len() } else { 0 })
            .sum::<usize>();
    }
    limit.saturating_mul(u32::try_from(1 + commands / COMMANDS + bytes / BYTES).unwrap_or(u32::MAX))
}

/// A connection that mends itself. Clones share it.
#[derive(Clone)]
pub(crate) struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    address: Address,
    open: Mutex<Option<Open>>,
    /// Held by the one call that connects for all.
    connecting: tokio::sync::Mutex<()>,
    connections_made: AtomicU64,
    silent_calls: AtomicU32,
    most_silent_calls: u32,
    answer_limit: Duration,
    /// The server whose data is known; none if nobody minds.
    trusted: Mutex<Option<String>>,
}

/// A connection as it was at one call.
#[derive(Clone)]
pub(crate) struct Open {
    connection: MultiplexedConnection,
    findings: Findings,
    number: u64,
}

impl Open {
    /// The server it leads to, see [`Findings::identity`].
    pub(crate) fn identity(&self) -> &str {
        &self.findings.identity
    }
}

impl Link {
    /// A link to `address`; nothing is connected before the first call. Fails if the address cannot be used at all.
    pub(crate) fn new(address: &Address) -> Result<Self, StoreError> {
        Self::with(address, SILENT_CALLS)
    }

    /// A link for one call at a time, which is not to wait for others to find its connection dead.
    pub(crate) fn for_one_call(address: &Address) -> Result<Self, StoreError> {
        Self::with(address, SILENT_CALLS_ALONE)
    }

    fn with(address: &Address, most_silent_calls: u32) -> Result<Self, StoreError> {
        redis::Client::open(address.given().clone()).map_err(|error| StoreError::from_redis(address.shown(), &error))?;
        let shared = Shared {
            address: address.clone(),
            open: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(()),
            connections_made: AtomicU64::new(0),
            silent_calls: AtomicU32::new(0),
            most_silent_calls,
            answer_limit: ANSWER_LIMIT,
            trusted: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What connects: with the password as it is now.
    async fn client(&self) -> Result<redis::Client, StoreError> {
        let info = self.shared.address.info().await;
        redis::Client::open(info).map_err(|error| StoreError::from_redis(self.address(), &error))
    }

    /// How many connections were made so far.
    pub(crate) fn connections_made(&self) -> u64 {
        self.shared.connections_made.load(Ordering::Relaxed)
    }

    /// Where it leads, as it may be shown.
    pub(crate) fn address(&self) -> &str {
        self.shared.address.shown()
    }

    /// A connection of its own that receives the messages of `channel`.
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<redis::aio::PubSub, StoreError> {
        let client = self.client().await?;
        let subscribed = async {
            let mut connection = client.get_async_pubsub().await?;
            connection.subscribe(channel).await?;
            Ok(connection)
        };
        self.limited(OPEN_LIMIT, subscribed).await
    }

    /// What the server said of itself when the connection in use was made; connects if there is none.
    pub(crate) async fn findings(&self) -> Result<Findings, StoreError> {
        Ok(self.open().await?.findings)
    }

    /// The connection in use; connects if there is none.
    pub(crate) async fn open(&self) -> Result<Open, StoreError> {
        // Whoever waits for another's attempt may wait no longer than for its own, or an outage would queue up all calls.
        let opened = tokio::time::timeout(OPEN_LIMIT, self.open_in_turn()).await;
        opened.unwrap_or_else(|_| Err(StoreError::timed_out(self.address(), OPEN_LIMIT)))
    }

    /// The slot of the connection in use. Never held across an await.
    fn slot(&self) -> MutexGuard<'_, Option<Open>> {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open_in_turn(&self) -> Result<Open, StoreError> {
        if let Some(open) = self.slot().clone() {
            return Ok(open);
        }
        let _turn = self.shared.connecting.lock().await;
        if let Some(open) = self.slot().clone() {
            return Ok(open);
        }
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_LIMIT))
            // Each call has a limit of its own.
            .set_response_timeout(None);
        let client = self.client().await?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = self.limited(OPEN_LIMIT, connecting).await.map_err(with_hint)?;
        let info: String = self.limited(ANSWER_LIMIT, redis::cmd("INFO").query_async(&mut connection)).await?;
        // Not every user may ask this, and not knowing it is no reason to refuse.
        let fsync: Result<Vec<String>, _> =
            self.limited(ANSWER_LIMIT, redis::cmd("CONFIG").arg("GET").arg("appendfsync").query_async(&mut connection)).await;
        let fsync = fsync.ok().and_then(|pair| pair.into_iter().nth(1));
        let judged = preflight::judge(&info, fsync.as_deref(), self.shared.address.eviction());
        let findings = judged.map_err(|why| StoreError::Unfit { address: self.address().to_owned(), why })?;
        if let Some(policy) = &findings.evicts_by {
            tracing::warn!(
                policy,
                "Redis at {} drops keys when its memory is short (allow_eviction): jobs and runs may vanish.",
                self.address()
            );
        }
        self.shared.silent_calls.store(0, Ordering::Relaxed);
        self.shared.connections_made.fetch_add(1, Ordering::Relaxed);
        let made = Open { connection, findings, number: fastrand::u64(..) };
        *self.slot() = Some(made.clone());
        Ok(made)
    }

    async fn limited<T>(&self, limit: Duration, call: impl Future<Output = Result<T, RedisError>>) -> Result<T, StoreError> {
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(StoreError::from_redis(self.address(), &error)),
            Err(_) => Err(StoreError::timed_out(self.address(), limit)),
        }
    }

    /// Lets go of the connection `broken` is, unless another call has replaced it already.
    fn let_go(&self, broken: &Open) {
        let mut open = self.slot();
        if open.as_ref().is_some_and(|now| now.number == broken.number) {
            *open = None;
        }
    }

    /// Runs commands in one go and gives each one's own answer. The whole fails only when nothing could be asked.
    pub(crate) async fn ask(&self, pipeline: &mut redis::Pipeline) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
        let open = self.open().await?;
        self.ask_on(open, pipeline).await
    }

    async fn ask_on(&self, mut open: Open, pipeline: &mut redis::Pipeline) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
        let limit = limit_for(pipeline, self.shared.answer_limit);
        pipeline.ignore_errors();
        let asked = tokio::time::timeout(limit, pipeline.query_async::<Vec<Result<Value, RedisError>>>(&mut open.connection));
        match asked.await {
            Ok(Ok(answers)) => {
                self.shared.silent_calls.store(0, Ordering::Relaxed);
                if answers.iter().any(|answer| answer.as_ref().is_err_and(wants_another_connection)) {
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

    fn note_silence(&self, open: &Open, limit: Duration) -> StoreError {
        if self.shared.silent_calls.fetch_add(1, Ordering::Relaxed) + 1 >= self.shared.most_silent_calls {
            self.let_go(open);
        }
        StoreError::timed_out(self.address(), limit)
    }

    /// Runs commands in one go; the first refused one fails the whole.
    pub(crate) async fn query(&self, pipeline: &mut redis::Pipeline) -> Result<Vec<Value>, StoreError> {
        let answers = self.ask(pipeline).await?;
        let read = |(command, answer): (&redis::Cmd, Result<Value, RedisError>)| match answer {
            Err(error) if error.code() == Some("WRONGTYPE") => Err(spoilt_key(command)),
            answer => answer.map_err(|error| StoreError::from_redis(self.address(), &error)),
        };
        pipeline.cmd_iter().zip(answers).map(read).collect()
    }

    /// Calls one script.
    pub(crate) async fn invoke(&self, invocation: &Invocation) -> Result<Reply, StoreError> {
        let open = self.open().await?;
        self.invoke_on(&open, invocation).await
    }

    /// Calls one script on one connection.
    pub(crate) async fn invoke_on(&self, open: &Open, invocation: &Invocation) -> Result<Reply, StoreError> {
        let mut replies = self.invoke_all_on(open, std::slice::from_ref(invocation)).await?;
        replies.pop().unwrap_or_else(|| Err(StoreError::corrupt(invocation.script.name, "no reply")))
    }

    /// Calls scripts in one go and gives each one's own answer. Those the server did not know are loaded and called again;
    /// the others are not repeated.
    pub(crate) async fn invoke_all(&self, invocations: &[Invocation]) -> Result<Vec<Result<Reply, StoreError>>, StoreError> {
        let open = self.open().await?;
        self.invoke_all_on(&open, invocations).await
    }

    /// Says on which server the data is known: from now on [`Link::invoke_where_trusted`] calls no other.
    pub(crate) fn trust(&self, server: &str) {
        *self.shared.trusted.lock().unwrap_or_else(PoisonError::into_inner) = Some(server.to_owned());
    }

    /// Calls a script whose arguments were made from what a poll found, on the server trusted then. One that came in its place
    /// since is not called: it may not have what was found.
    pub(crate) async fn invoke_where_trusted(&self, invocation: &Invocation) -> Result<Reply, StoreError> {
        let open = self.open().await?;
        let trusted = self.shared.trusted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if trusted.is_some_and(|server| server != open.findings.identity) {
            return Err(StoreError::Replaced { address: self.address().to_owned() });
        }
        self.invoke_on(&open, invocation).await
    }

    /// Calls scripts on one connection.
    async fn invoke_all_on(&self, open: &Open, invocations: &[Invocation]) -> Result<Vec<Result<Reply, StoreError>>, StoreError> {
        let mut pipeline = redis::pipe();
        for invocation in invocations {
            pipeline.add_command(invocation.command());
        }
        let mut answers = self.ask_on(open.clone(), &mut pipeline).await?;
        let unknown = |answer: &Result<Value, RedisError>| {
            answer.as_ref().is_err_and(|e| e.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
        };
        // Somebody may make the server forget them again at once.
        for _ in 0..LOADS {
            if !answers.iter().any(unknown) {
                break;
            }
            let mut again = redis::pipe();
            let asked = invocations.iter().zip(&answers).filter(|(_, answer)| unknown(answer));
            let missing: BTreeMap<&str, &str> = asked.map(|(asked, _)| (asked.script.name, asked.script.text.as_str())).collect();
            for text in missing.values() {
                again.cmd("SCRIPT").arg("LOAD").arg(*text);
            }
            let loaded = missing.len();
            for (invocation, _) in invocations.iter().zip(&answers).filter(|(_, answer)| unknown(answer)) {
                again.add_command(invocation.command());
            }
            let mut repeated = self.ask_on(open.clone(), &mut again).await?.into_iter().skip(loaded);
            for answer in answers.iter_mut().filter(|answer| unknown(answer)) {
                if let Some(second) = repeated.next() {
                    *answer = second;
                }
            }
        }
        let reply = |(invocation, answer): (&Invocation, Result<Value, RedisError>)| match answer {
            Ok(value) => Reply::read(invocation.script, value),
            Err(error) if is_raised_in_script(&error) => {
                Err(StoreError::corrupt(format!("script {}'s error", invocation.script.name), error.detail().unwrap_or_default()))
            }
            Err(error) => Err(match forbidden(&error, invocation) {
                Some(what) => {
                    StoreError::Denied { address: self.address().to_owned(), why: format!("its ACL forbids this user {what}") }
                }
                None => StoreError::from_redis(self.address(), &error),
            }),
        };
        Ok(invocations.iter().zip(answers).map(reply).collect())
    }
}
