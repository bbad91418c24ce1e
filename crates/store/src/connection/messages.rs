//! The messages of a Redis channel.
//!
//! The channels are sharded: a cluster carries a message only to the nodes that have the slot of the
//! namespace, and not to all. Only connections with RESP3 receive such messages
//! (<https://redis.io/docs/latest/develop/pubsub/#sharded-pubsub>).

use futures_util::{Stream, StreamExt as _, stream};
use redis::{ProtocolVersion, PushInfo, PushKind};
use tokio::sync::mpsc;

use super::redis_link::{CONNECT_LIMIT, OPEN_LIMIT, RedisLink};
use crate::server::reply::text_of;
use crate::server::store_error::StoreError;

impl RedisLink {
    /// Subscribes to a channel of Redis on a connection of its own. Returns the texts of its messages. The
    /// stream ends when the connection breaks, or when the slot of the namespace moves to another node.
    pub(crate) async fn messages(
        &self,
        channel: &str,
    ) -> Result<impl Stream<Item = String> + use<>, StoreError> {
        let client = self.client().await?;
        let info = client.get_connection_info();
        let login = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = redis::Client::open(info.clone().set_redis_settings(login));
        let client = client.map_err(|error| StoreError::from_redis(self.address(), &error))?;
        let (sender, pushed) = mpsc::unbounded_channel();
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_LIMIT))
            .set_response_timeout(None)
            .set_push_sender(sender);
        let subscribed = async {
            let mut connection =
                client.get_multiplexed_async_connection_with_config(&config).await?;
            let () = redis::cmd("SSUBSCRIBE").arg(channel).query_async(&mut connection).await?;
            Ok(connection)
        };
        let connection = self.limited(OPEN_LIMIT, subscribed).await?;
        // The connection lives as long as the stream.
        let messages = stream::unfold((pushed, connection), |(mut pushed, connection)| async {
            let push: PushInfo = pushed.recv().await?;
            // A node that gives a slot away ends the subscriptions of its clients, but keeps their
            // connections open.
            let is_over = matches!(push.kind, PushKind::Disconnection | PushKind::SUnsubscribe);
            (!is_over).then_some((push, (pushed, connection)))
        });
        Ok(messages
            .filter_map(async |push| (push.kind == PushKind::SMessage).then(|| text_in(&push))))
    }
}

/// Returns the text of a message, which follows the name of its channel.
fn text_in(message: &PushInfo) -> String {
    message.data.get(1).and_then(text_of).unwrap_or_default()
}
