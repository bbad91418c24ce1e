//! Why a run did or did not start when it was due: from facts to findings, each of which is one sentence.
//!
//! Invariant: pure. [`mod@judge`] is a function of the [`Facts`] somebody gathered; what they do not say is not guessed, and a
//! finding says so. Every sentence there is has an example among the tests.

mod among;
mod at_gate;
mod became;
mod facts;
mod fate;
mod held;
mod hindered;
mod judge;
mod keeps;
mod life;
mod loss;
mod making_up;
mod on_time;
mod planned;
mod rules;
mod saw;
mod sentences;
mod timing;
mod told;

#[cfg(test)]
mod examples;

pub use facts::{AtGate, AttemptFacts, Facts, JobFacts, LateNotice, NodeFacts, Passed, Place, RunFacts, Source, Subject};
pub use held::{Held, PastSchedule};
pub use judge::{Finding, Part, causes, judge};
pub use keeps::{Executing, Keeps};
pub use loss::Loss;

use std::time::Duration;

/// A node that was not seen for so long is taken for gone.
pub const GONE_AFTER: Duration = Duration::from_secs(15);

/// A run that started within this time from its due time was on time.
pub const ON_TIME: Duration = Duration::from_secs(1);
