//! `work`: makes any program a worker. Each run that it gets is one process of the program.

mod redis_worker;
mod warning_log;
pub(crate) mod work_verb;
mod worker_client;
mod worker_process;

pub(crate) use work_verb::{WorkArgs, work};
