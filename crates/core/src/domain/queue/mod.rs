//! The limits that runs share: queues, lanes, groups, gates and rate limits.

pub mod backlog;
pub mod dispatch;
pub mod gate;
pub mod group_rules;
pub mod lane;
pub mod lane_serving;
pub mod queue_rules;
pub mod rate;
pub mod shard_map;
