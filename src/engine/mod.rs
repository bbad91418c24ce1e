//! Layer 3: the loops of a node. There is no leader: every loop runs on every node, and only
//! scripts in Redis decide who wins.
//!
//! - [`ticker`] polls for due runs in the lanes this node serves ([`slots`]), and sleeps until the
//!   next. It claims nothing while the host is past a limit ([`flow`]). [`claimer`] decides about
//!   each run and claims it. [`runner`] executes a claimed run to its end. [`offering`] offers late
//!   results again that Redis lost meanwhile.
//! - [`gatekeeper`] gives free places to runs that wait at a gate
//! - [`lease_keeper`] renews the leases this node holds ([`holdings`]). [`reaper`] takes back runs
//!   of dead nodes. [`pulse`] reports to it whether this node itself was suspended.
//! - [`teller`] plants notices, and [`telling`] builds their payload. [`lookout`] finds runs that
//!   have not started or ended in time. [`hidden`] forgets the hidden jobs of removed jobs.
//! - [`rebooting`] plants jobs that run once after a boot of this host
//! - [`rezoning`] moves planned runs when the zone data has changed
//! - [`redis_clock`] compares Redis' clock with the clock of the node. [`replanning`] plans anew
//!   what a clock that was ahead planned ([`far_plans`]).
//! - [`reconciler`] applies `jobs.toml` to Redis. [`janitor`] removes old records. [`presence`]
//!   announces this node.
//! - [`auditor`] is the consistency check in the background. [`books`] is one pass of it, and
//!   [`mending`] repairs its findings.
//! - [`loss`] detects data loss, and restores from the [`journal`] of the node
//! - [`progress`] watches whether the loops make progress, and [`standing`] reports the status of
//!   the node
//! - [`notes`] keeps the node events, for `explain`
//! - [`planting`], [`person`] and [`retrying`] carry out the requests of files and operators, for
//!   the command line too. [`explaining`] gathers the facts for `explain`.

mod abandoned;
pub mod applying;
pub mod auditor;
pub mod backfilling;
pub mod books;
mod claimer;
mod definition;
mod definitions;
mod done_check;
mod earlier_output;
pub mod examination;
pub mod explaining;
mod far_plans;
mod flow;
mod folded;
mod gatekeeper;
pub mod giving_back;
mod hidden;
mod holdings;
mod janitor;
mod journal;
mod lease_keeper;
mod lookout;
mod loss;
pub mod mending;
mod node;
mod notes;
mod nudges;
mod offering;
pub mod orphans;
pub mod passed;
pub mod person;
pub mod planting;
mod presence;
mod progress;
mod pulse;
mod reaper;
mod rebooting;
mod reconciler;
mod redis_clock;
mod replanning;
pub mod retrying;
mod rezoning;
mod ripe;
mod runner;
mod settling;
mod shared;
mod slots;
mod standing;
mod teller;
mod telling;
mod ticker;
mod uniqueness;
mod weather;
mod whole;

pub use definition::{Definition, DefinitionError};
pub use journal::Journal;
pub use node::{Engine, EngineSettings, Told};
pub use presence::{GONE_AFTER, HostFacts, Naming, PresenceError, announce};
pub use reconciler::Removal;
pub use standing::{Glance, Standing};
pub use telling::said_now;
