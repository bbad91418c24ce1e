//! The Lua scripts against a real Redis, each through the store's method of its name, with the time given by the test.
//!
//! [`world`] is what the tests share; [`coverage`] holds the replies the headers declare against the tests there are.

pub(crate) mod chains;
pub(crate) mod claims;
pub(crate) mod data;
pub(crate) mod gates;
pub(crate) mod history;
pub(crate) mod jobs;
pub(crate) mod world;
