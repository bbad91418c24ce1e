//! Layer 4: the HTTP API of a node, on top of the verbs of [`crate::cli`].
//!
//! A route is one row of a table (`route/route_table.rs`): its method, path, role and parameters, and
//! the verb that answers it. The verb prints the same JSON document as for `schedctl --json`. So one
//! type serves both, and a new verb needs one row here.
//!
//! From top to bottom:
//!
//! - `api_server`: the start and the stop; `listener`: the address, with TLS; `connections`: the
//!   limits of each connection
//! - `router`: the routes as a service, also before the node is in Redis; `auth`: who sends a request, and what the sender may do
//! - `route`: the table, the parameters, and the answer of each route; `api_problem`: error documents
//! - `browser`: the pages of [`crate::dashboard`], and refusals as pages
//! - `stream`: answers that go on: added lines, logs, events; `line_places`: how many take lines
//! - `worker`: runs for workers on other hosts, and what they report
//! - `metrics`: figures for Prometheus
//! - `openapi`: the description of all routes, made from the table and `docs/json.md`; `route_guide`: the
//!   same for the page of the API

mod api_problem;
mod api_server;
mod api_state;
mod auth;
mod browser;
mod connections;
mod health;
mod line_places;
mod listener;
mod metrics;
mod openapi;
mod request_check;
mod route;
mod route_guide;
mod router;
mod stream;
mod worker;

pub use api_server::{ApiNode, ApiServer};
pub use request_check::check_request;
