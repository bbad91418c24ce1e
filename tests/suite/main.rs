//! Every test that needs real parts: one binary, a module a subject.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; the configuration exempts only the test functions themselves"
)]

mod api;
mod avoided_words;
mod browser;
mod cli;
mod dashboard;
mod docs;
mod doctor;
mod fuzzed;
mod http_executor;
mod import_circles;
mod installing;
mod keeper;
mod logs;
mod manual;
mod metrics;
mod model;
mod node;

mod private_server;
mod rules;
mod scripts;
mod secrets;
mod service_manager;
mod support;
mod support_itself;
mod topology;
mod twins;
mod unit_files;
