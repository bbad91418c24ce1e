//! The Lua scripts against a real Redis, each through the store's method of its name, with the time given by the test.
//!
//! [`world`] is what the tests share; [`coverage`] holds the replies the headers declare against the tests there are.

pub(crate) mod accounting;
mod applying;
mod auditing;
mod backfilling;
mod cancelling;
mod claiming;
mod concurrency;
mod coverage;
mod deeds;
mod delaying;
mod events;
mod fences;
mod finishing;
mod flushes;
mod forgetting;
mod gate_turns;
mod gate_walk;
mod gating;
mod lanes;
mod ledger;
mod link;
mod losing;
mod meeting;
mod memory;
mod nodes;
mod outputs;
mod overlap;
mod pausing;
mod polling;
mod quarantine;
mod queues;
mod rates;
mod rebooting;
pub(crate) mod recovering;
mod removing;
mod renewing;
mod retrying;
mod sections;
mod skipping;
mod spoilt;
mod spreading;
mod timeliness;
mod uniques;
pub(crate) mod world;
mod wrong_types;
