//! The claim protocol as a small model whose every state is visited.
//! It has two nodes, a cron job and a one-shot, and a fault at any step.
//!
//! - [`redis`] is the content of Redis, and [`scripts`] is what each script does to it.
//! - [`state`] adds nodes, keepers and calls that are still on their way.
//! - [`steps`] lists what can happen next, and [`taking`] does it.
//! - [`rules`] sets the policies, the number of faults, and the rule that is broken, if any.
//! - [`search`] visits all states, nearest first; [`properties`] are the promises.
//! - A broken promise is reported with the shortest way to it, one step a line, each with the
//!   script's reply ([`reported`]).
//! - An operator may remove the cron job and add it again under its name, with the same definition
//!   or another.
//! - Not in the model: other changes of a job and whatever needs its clock (edits, pauses,
//!   `max_age`, runs freed because the rule became `allow`, runs withdrawn after a wrong clock), and
//!   manual runs. The script tests
//!   cover them.
//! - A lease may run out at any step. This step stands for a pause, a stopped process, a skewed
//!   clock and a partition.
//! - [`guarantees`] checks the promises under the real rules; [`broken`] shows that the model
//!   notices each broken rule.
//! - [`conformance`] walks through the model at random, and compares the real scripts in a real
//!   Redis ([`real`], [`held`]) with it.
//!
//! `cargo test --test suite model -- --nocapture` prints how many states each configuration has.

mod broken;
mod conformance;
mod content;
mod guarantees;
mod properties;
mod real;
mod redis;
mod rules;
mod scripts;
mod search;
mod state;
mod step_words;
mod steps;
mod taking;
