//! Tools for the tests of programs: a private Redis, and time that a test can advance. Only with
//! the feature `testing`, which belongs into the dev-dependencies.

mod bench;
mod test_server;

pub use bench::{Bench, BenchError, block_on, in_run};
