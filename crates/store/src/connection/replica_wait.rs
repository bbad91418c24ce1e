//! Waits until replicas have the changes that were made before.
//!
//! `WAIT` counts the replicas that have the last change of its own connection. So each wait first
//! writes a key of its own, on a connection of its own: `WAIT` blocks its connection. A Redis without
//! memory for the key still sends a message to its replicas, but not in a cluster.
//!
//! Invariant: a wait counts only if the server that waits is the server that took the changes. After
//! a failover the new server may lack them.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{RedisError, Value};

use super::redis_link::{OpenConnection, RedisLink};
use crate::server::store_error::StoreError;
use crate::shared_calls::{CallSender, SharedCalls};

/// The time that replicas have to report the changes.
const LIMIT: Duration = Duration::from_secs(1);

/// The connection that waits for replicas. Callers that come during a wait share the next wait.
pub(crate) struct ReplicaWait {
    link: RedisLink,
    /// The key that each wait writes.
    mark: String,
    /// The number of replicas that must have the changes, at least 1.
    wanted: u8,
    /// The callers that no wait serves yet, each with the server on which its changes were made.
    callers: SharedCalls<OpenConnection, Result<(), StoreError>>,
}

impl ReplicaWait {
    pub(crate) fn new(link: &RedisLink, mark: String, wanted: u8) -> Result<Self, StoreError> {
        Ok(Self { link: link.for_waits(LIMIT)?, mark, wanted, callers: SharedCalls::default() })
    }

    /// Waits until the replicas have all changes that were made through `server` before. Fails with
    /// [`StoreError::NotReplicated`] if too few replicas report them in time.
    pub(crate) async fn wait(self: &Arc<Self>, server: OpenConnection) -> Result<(), StoreError> {
        let (answered, sender) = self.callers.add(server);
        if let Some(sender) = sender {
            tokio::spawn(self.clone().serve(sender));
        }
        answered.await.unwrap_or_else(|_| Err(self.fault("the wait for replicas was broken off")))
    }

    async fn serve(
        self: Arc<Self>,
        mut sender: CallSender<OpenConnection, Result<(), StoreError>>,
    ) {
        while let Some(callers) = sender.next_call(mem::take) {
            let (servers, answers): (Vec<_>, Vec<_>) = callers.into_iter().unzip();
            let waited = self.wait_once(&servers).await;
            for (server, answer) in servers.iter().zip(answers) {
                let result = match &waited {
                    Ok(open) if open.is_same_server(server) => Ok(()),
                    Ok(_) => Err(self.fault("another server took over during the change")),
                    Err(error) => Err(error.clone()),
                };
                let _ = answer.send(result);
            }
        }
    }

    /// Waits for the replicas of the server that the callers used. Returns the connection on which it
    /// waited.
    async fn wait_once(&self, servers: &[OpenConnection]) -> Result<OpenConnection, StoreError> {
        let mut open = self.link.open().await?;
        // After a failover, this connection may still lead to the former server.
        if servers.iter().all(|server| !open.is_same_server(server)) {
            self.link.let_go(&open);
            open = self.link.open().await?;
        }
        let asked = Instant::now();
        let mut answers = self.ask(&open).await;
        // Redis closes a connection that was idle for long.
        if answers.is_err() && asked.elapsed() < LIMIT {
            open = self.link.open().await?;
            answers = self.ask(&open).await;
        }
        let from_redis = |error| StoreError::from_redis(self.link.address(), &error);
        let mut answers = answers?.into_iter();
        if let Some(Err(error)) = answers.next()
            && (error.code() != Some("OOM") || self.link.is_in_cluster())
        {
            return Err(from_redis(error));
        }
        match answers.nth(1).transpose().map_err(from_redis)? {
            Some(Value::Int(found)) if found >= i64::from(self.wanted) => Ok(open),
            Some(Value::Int(found)) => Err(self.fault(&format!(
                "{found} of {} replicas have the change after {} ms",
                self.wanted,
                LIMIT.as_millis()
            ))),
            _ => Err(self.fault("the server gave no number of replicas")),
        }
    }

    async fn ask(
        &self,
        open: &OpenConnection,
    ) -> Result<Vec<Result<Value, RedisError>>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("SET").arg(&self.mark).arg("");
        pipeline.cmd("SPUBLISH").arg(&self.mark).arg("");
        let limit = u64::try_from(LIMIT.as_millis()).unwrap_or(u64::MAX);
        pipeline.cmd("WAIT").arg(self.wanted).arg(limit);
        self.link.ask_on(open.clone(), &mut pipeline).await
    }

    fn fault(&self, why: &str) -> StoreError {
        StoreError::NotReplicated { address: self.link.address().to_owned(), why: why.to_owned() }
    }
}
