//! A namespace with shards: where jobs are, and what happens if shards are lost or added.

mod changing_shards;
mod losing_shards;
mod placing;
mod shard_scene;
mod sharing_slots;
