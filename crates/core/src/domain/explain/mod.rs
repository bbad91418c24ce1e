//! Explains why a run did or did not start when it was due.
//!
//! Invariant: this module does no I/O. [`mod@judge`] makes findings only from the [`Facts`] that
//! `engine::explanation` gathered. No finding is a guess: if the facts give no answer, a finding
//! says that the answer is not known.

mod explain_words;
mod facts;
mod finding;
pub mod judge;
mod schedule_then;

#[cfg(test)]
mod tests;

pub use facts::{
    AtGate, AttemptFacts, Blocker, ChainFacts, Executing, Facts, GONE_AFTER, JobFacts, LateNotice,
    Loss, NodeFacts, ON_TIME, Passed, Place, RunFacts, Source, Subject,
};
pub use finding::{Finding, Part};
pub use judge::{causes, judge};
pub use schedule_then::{PastSchedule, ScheduleThen};
