//! Calls of scripts over a link. Scripts that the server does not know are loaded, and called again.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Instant;

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

use super::redis_link::{OpenConnection, RedisLink};
use super::refusal::{forbidden, is_raised_in_script};
use crate::server::reply::Reply;
use crate::server::scripts::Invocation;
use crate::server::store_error::StoreError;

/// The number of times one call may load scripts that the server does not know.
const LOADS: usize = 3;

impl RedisLink {
    /// Calls one script and returns its reply.
    pub(crate) async fn invoke(&self, invocation: &Invocation) -> Result<Reply, StoreError> {
        let open = self.open().await?;
        self.invoke_on(&open, invocation).await
    }

    /// Calls one script on the given connection and returns its reply.
    pub(crate) async fn invoke_on(
        &self,
        open: &OpenConnection,
        invocation: &Invocation,
    ) -> Result<Reply, StoreError> {
        let mut replies = self.invoke_all_on(open, std::slice::from_ref(invocation)).await?;
        replies.pop().unwrap_or_else(|| {
            let script = format!("script {}", invocation.script.name);
            Err(StoreError::corrupt(script, "the reply is missing"))
        })
    }

    /// Calls scripts in one pipeline and returns the reply of each script. Scripts unknown to the
    /// server are loaded and called again; no other script is repeated.
    pub(crate) async fn invoke_all(
        &self,
        invocations: &[Invocation],
    ) -> Result<Vec<Result<Reply, StoreError>>, StoreError> {
        if invocations.is_empty() {
            return Ok(Vec::new());
        }
        let open = self.open().await?;
        self.invoke_all_on(&open, invocations).await
    }

    /// Records that the node has checked the data on `server`. From now on
    /// [`RedisLink::invoke_where_trusted`] fails if another server is connected.
    pub(crate) fn trust(&self, server: &str) {
        *self.shared.trusted.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(server.to_owned());
    }

    /// Calls a script on the server named last in [`RedisLink::trust`], and fails if another server
    /// is connected. The arguments of the script come from a poll of that server, and another
    /// server may lack the polled data.
    pub(crate) async fn invoke_where_trusted(
        &self,
        invocation: &Invocation,
    ) -> Result<Reply, StoreError> {
        let open = self.open().await?;
        let trusted = self.shared.trusted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if trusted.is_some_and(|server| server != open.findings.identity) {
            return Err(StoreError::Replaced { address: self.address().to_owned() });
        }
        self.invoke_on(&open, invocation).await
    }

    /// Calls scripts on the given connection and returns the reply of each script.
    pub(crate) async fn invoke_all_on(
        &self,
        open: &OpenConnection,
        invocations: &[Invocation],
    ) -> Result<Vec<Result<Reply, StoreError>>, StoreError> {
        let sent = Instant::now();
        let mut pipeline = redis::pipe();
        for invocation in invocations {
            for command in &invocation.before {
                pipeline.add_command(command.clone());
            }
            pipeline.add_command(invocation.command());
        }
        let mut all = self.ask_on(open.clone(), &mut pipeline).await?.into_iter();
        let mut answers = Vec::with_capacity(invocations.len());
        for Invocation { script, before, .. } in invocations {
            let failed = all.by_ref().take(before.len()).find_map(Result::err);
            if let Some(error) = failed.filter(|error| error.code() != Some("OOM")) {
                tracing::warn!("A command before the script {} failed: {error}.", script.name);
            }
            answers.extend(all.next());
        }
        let unknown = |answer: &Result<Value, RedisError>| {
            answer.as_ref().is_err_and(|e| e.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
        };
        // Another client may flush the scripts again at once.
        for _ in 0..LOADS {
            if !answers.iter().any(unknown) {
                break;
            }
            let mut again = redis::pipe();
            let asked = invocations.iter().zip(&answers).filter(|(_, answer)| unknown(answer));
            let missing: BTreeMap<&str, &str> =
                asked.map(|(asked, _)| (asked.script.name, asked.script.text.as_str())).collect();
            for text in missing.values() {
                again.cmd("SCRIPT").arg("LOAD").arg(*text);
            }
            let loaded = missing.len();
            for (invocation, _) in
                invocations.iter().zip(&answers).filter(|(_, answer)| unknown(answer))
            {
                again.add_command(invocation.command());
            }
            let mut repeated = self.ask_on(open.clone(), &mut again).await?.into_iter();
            let refused = repeated.by_ref().take(loaded).find_map(Result::err);
            for answer in answers.iter_mut().filter(|answer| unknown(answer)) {
                if let Some(second) = repeated.next() {
                    *answer = second;
                }
                // A server without a Lua engine answers NOSCRIPT to EVALSHA. Only its answer to SCRIPT
                // LOAD names the missing engine.
                if let Some(refused) = refused.as_ref().filter(|_| unknown(answer)) {
                    *answer = Err(refused.clone());
                }
            }
        }
        // The scripts of a pipeline are answered together, so the pipeline counts as one call.
        if let Some(first) = invocations.first() {
            self.shared.script_times.add(first.script.name, sent.elapsed());
        }
        let reply = |(invocation, answer): (&Invocation, Result<Value, RedisError>)| match answer {
            Ok(value) => Reply::read(invocation.script, value),
            Err(error) if is_raised_in_script(&error) => Err(StoreError::corrupt(
                format!("data read by script {}", invocation.script.name),
                error.detail().unwrap_or_default(),
            )),
            Err(error) => Err(match forbidden(&error, invocation) {
                Some(what) => StoreError::Denied {
                    address: self.address().to_owned(),
                    why: format!("the ACL forbids this user {what}; extend the ACL of the user"),
                },
                None => StoreError::from_redis(self.address(), &error),
            }),
        };
        Ok(invocations.iter().zip(answers).map(reply).collect())
    }
}
