//! Commands on one key while the slot of the namespace moves between two nodes of a cluster.
//!
//! Meanwhile each key is on one of the two nodes, and scripts with several keys are refused with
//! TRYAGAIN. A command on one key works on the node that has the key. The other node answers ASK, and
//! names it (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#ask-redirection>).

use redis::{RedisError, Value};

use super::redis_link::{ANSWER_LIMIT, CONNECT_LIMIT, OPEN_LIMIT, RedisLink};
use crate::server::store_error::StoreError;

impl RedisLink {
    /// Runs commands on the same single key, on the node that has the key. Returns the answers. The
    /// first refused command fails the call.
    pub(crate) async fn query_in_move(
        &self,
        commands: &[redis::Cmd],
    ) -> Result<Vec<Value>, StoreError> {
        let refused = |error: &RedisError| StoreError::from_redis(self.address(), error);
        let mut pipeline = redis::pipe();
        for command in commands {
            pipeline.add_command(command.clone());
        }
        let answers: Result<Vec<Value>, RedisError> =
            self.ask(&mut pipeline).await?.into_iter().collect();
        match answers {
            Ok(answers) => Ok(answers),
            Err(error) if error.code() == Some("ASK") => {
                let place = error.redirect_node().and_then(|(place, _)| place.rsplit_once(':'));
                let place = place.and_then(|(host, port)| Some((host, port.parse().ok()?)));
                let (host, port) = place.ok_or_else(|| refused(&error))?;
                self.query_asking(host, port, commands).await
            }
            Err(error) => Err(refused(&error)),
        }
    }

    /// Runs commands on the node to which the slot moves. The connection is for this call only.
    async fn query_asking(
        &self,
        host: &str,
        port: u16,
        commands: &[redis::Cmd],
    ) -> Result<Vec<Value>, StoreError> {
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_LIMIT))
            .set_response_timeout(None);
        let client = self.shared.address.node(host, port).await?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = self.limited(OPEN_LIMIT, connecting).await?;
        let mut pipeline = redis::pipe();
        for command in commands {
            // The permission holds for one command.
            pipeline.cmd("ASKING").ignore().add_command(command.clone());
        }
        self.limited(ANSWER_LIMIT, pipeline.query_async(&mut connection)).await
    }
}
