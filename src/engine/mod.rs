//! Layer 3: the loops of a node. No leader: every loop runs on every node, and only scripts in Redis decide who wins.
//!
//! - [`ticker`] polls for ripe runs in the lanes this node serves ([`slots`]) and sleeps until the next, unless the host is past a
//!   limit ([`flow`]); [`claimer`] decides about each and claims; [`runner`] takes a
//!   won claim through execution to its end; [`offering`] offers back what Redis lost of it meanwhile
//! - [`gatekeeper`] gives free places to runs that wait at a gate
//! - [`lease_keeper`] renews what this node holds ([`holdings`]); [`reaper`] takes back what dead nodes held, and
//!   [`pulse`] tells it whether this node itself stood still
//! - [`teller`] makes runs of what people are to be told, [`telling`] gives those what they tell,
//!   [`lookout`] sees runs that have not started or ended in time; [`hidden`] forgets whose job was taken out
//! - [`rebooting`] plants what is to run once after a boot of this host
//! - [`rezoning`] moves planned runs when the zone data has changed
//! - [`redis_clock`] holds Redis' clock against the node's own, [`replanning`] plans anew what one planned that was ahead
//!   ([`far_plans`])
//! - [`reconciler`] makes Redis say what `jobs.toml` says; [`janitor`] forgets what is past its time; [`presence`] says that
//!   this node is there
//! - [`auditor`] checks the books slowly; [`books`] is one look at them, [`mending`] what makes them agree
//! - [`loss`] notices data that is not what it was, and gives back what the node's own [`journal`] knows
//! - [`progress`] tells whether the loops come round, and [`standing`] how the node stands, for whoever watches over it
//! - [`notes`] keeps what befalls this node, for `explain`
//! - [`planting`], [`person`] and [`retrying`] carry out what files and people ask, for the command line too; [`explaining`]
//!   gathers what `explain` judges

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
