//! The protocol as a small model, every state of it visited: two nodes, a cron job and a one-shot, and a fault at any step.
//!
//! - [`redis`] is what Redis holds, [`scripts`] what each script does to it; [`state`] adds nodes, keepers and calls on their
//!   way; [`steps`] is what can happen next, [`taking`] what it does; [`rules`] says which policies, how many faults, and which
//!   rule is broken if one is.
//! - [`search`] visits all of it, nearest first; [`properties`] are the promises. A promise that is broken is told with the
//!   shortest way there, one step a line, each with the word the script answered ([`told`]).
//! - A person may remove the cron job and add it again under its name, with the same definition or another.
//! - Left out: what else changes a job or needs its clock (edits, pauses, `max_age`, runs freed because the rule became `allow`), and
//!   manual runs. The script tests have those.
//! - A lease may run out at any step. That one step stands for a pause, a stopped process, a skewed clock and a partition.
//! - [`guarantees`] holds the promises against the rules as they are, [`broken`] shows that the model sees each broken rule, and
//!   [`conformance`] walks through the model at random and holds the real scripts in a real Redis ([`real`], [`held`]) against it.
//!
//! `cargo test --test suite model -- --nocapture` shows how many states each configuration has.

mod broken;
mod conformance;
mod guarantees;
mod held;
mod properties;
mod real;
mod redis;
mod rules;
mod scripts;
mod search;
mod state;
mod steps;
mod taking;
mod told;
