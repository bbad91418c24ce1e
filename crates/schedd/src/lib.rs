//! Delayed and cron jobs on Redis, from any program.
//!
//! Each due run is executed once, by any of the programs that have its handler, also if programs and
//! hosts fail. No program is the leader, and no daemon is needed. A `schedd` on the same Redis sees
//! the same jobs, and so do `schedctl` and the dashboard.
//!
//! A program that only adds jobs:
//!
//! ```
//! # schedd::testing::block_on(async |bench| {
//! # let url = bench.url();
//! use std::time::Duration;
//!
//! use schedd::{Add, Client};
//!
//! let client = Client::connect(&url).await?; // redis://127.0.0.1:6379
//! client.add(Add::to("send-mail", &"ann@example.org").in_(Duration::from_secs(600))).await?;
//! # Ok(())
//! # });
//! ```
//!
//! A program that executes them:
//!
//! ```no_run
//! use schedd::{Client, Run, Worker};
//!
//! async fn send_mail(to: String, run: Run) -> schedd::Result<()> {
//!     run.print(format_args!("a mail to {to}"));
//!     Ok(())
//! }
//!
//! # async fn main_of_program() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! Worker::on(client)
//!     .handle("send-mail", send_mail)
//!     .run_until(async {
//!         let _ = tokio::signal::ctrl_c().await;
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Client`] adds jobs, starts and cancels runs, and waits for their ends
//! - [`Add`] is a job: its handler, its payload, its time and its rules
//! - [`Worker`] executes runs by handlers: async functions of a payload and a [`Run`]
//! - [`Stop`] and [`Again`] are the results of a handler beside `Ok` and any error
//! - `testing`, with the feature `testing`, has a private Redis, and time that a test can advance

#[doc(hidden)]
pub mod adding;
#[doc(hidden)]
pub mod attempts;
mod client;
#[doc(hidden)]
pub mod engine;
#[cfg(feature = "http-client")]
#[doc(hidden)]
pub mod http_client;
mod instants;
mod program_host;
#[cfg(feature = "testing")]
pub mod testing;
mod worker;

pub use client::{Add, Added, AddedJob, Client, ClientError, RunEnd, RunOutcome};
#[doc(hidden)]
pub use worker::WorkerNode;
pub use worker::{Again, Failure, Result, Run, RunOutput, RunningWorker, Stop, Worker};
