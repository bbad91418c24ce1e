//! The routes of workers on other hosts: they ask for runs, and report about them.

mod claim_route;
mod report_route;
mod worker_body;

pub(super) use claim_route::{claim_runs, claim_schema};
pub(super) use report_route::{report, report_schema};
