//! Jobs, runs and queues as values and rules, and the compiler of their definitions.
//!
//! - [`domain`] (layer 1) has the pure values and rules
//! - [`config`] (layer 2) compiles texts into these values
//! - [`files`] (layer 2) opens the files that schedd obeys
//! - [`host`] (layer 2) has what a node and its keeper share on a host

pub mod config;
pub mod domain;
pub mod files;
pub mod host;
