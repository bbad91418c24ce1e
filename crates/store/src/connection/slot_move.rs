//! Scripts with one key while the slot of the namespace moves between two nodes of a cluster.
//!
//! Meanwhile each key is on one of the two nodes, and scripts with several keys are refused with
//! TRYAGAIN. A script with one key runs on the node that has the key. The other node answers ASK, and
//! names that node (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#ask-redirection>).

use redis::{RedisError, Value};

use super::primary_search;
use super::redis_link::{ANSWER_LIMIT, CONNECT_LIMIT, OPEN_LIMIT, RedisLink};
use crate::server::reply::{Reply, text_of};
use crate::server::scripts::Invocation;
use crate::server::store_error::StoreError;

impl RedisLink {
    /// Calls a script with one key on the node that has the key, and returns its reply.
    pub(crate) async fn invoke_in_move(&self, call: &Invocation) -> Result<Reply, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("SCRIPT").arg("LOAD").arg(call.script.text.as_str());
        pipeline.add_command(call.command());
        let value = match self.ask(&mut pipeline).await?.pop() {
            Some(Ok(value)) => value,
            Some(Err(error)) if error.code() == Some("ASK") => {
                self.invoke_asking(&error, call).await?
            }
            Some(Err(error)) => return Err(StoreError::from_redis(self.address(), &error)),
            None => Value::Nil,
        };
        Reply::read(call.script, value)
    }

    /// Calls the script on the node that `redirect` names. The connection is for this call only.
    async fn invoke_asking(
        &self,
        redirect: &RedisError,
        call: &Invocation,
    ) -> Result<Value, StoreError> {
        let address = &self.shared.address;
        let refused = || StoreError::from_redis(self.address(), redirect);
        let (place, _) = redirect.redirect_node().ok_or_else(refused)?;
        let mut nodes = redis::pipe();
        nodes.cmd("CLUSTER").arg("NODES");
        let nodes = self.query(&mut nodes).await?.first().and_then(text_of).unwrap_or_default();
        let server = primary_search::node_at(&nodes, place, address.given().addr());
        let client = address.node(server.ok_or_else(refused)?).await?;
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_LIMIT))
            .set_response_timeout(None);
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = self.limited(OPEN_LIMIT, connecting).await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("SCRIPT").arg("LOAD").arg(call.script.text.as_str()).ignore();
        // ASKING permits the next command only.
        pipeline.cmd("ASKING").ignore().add_command(call.command());
        let (value,) = self.limited(ANSWER_LIMIT, pipeline.query_async(&mut connection)).await?;
        Ok(value)
    }
}
