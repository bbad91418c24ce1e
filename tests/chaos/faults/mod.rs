//! The faults, one file for each family. A new fault is a type with [`Fault`] in a file here and a
//! line in [`DECK`].
//!
//! Each fault names its row in the table of faults, and says by [`Fault::harm`] what that row may
//! do to schedd's promises.
//! The checker allows that much around the time of the fault, and nothing else.

mod crowd;
mod downtime;
mod frozen;
mod host;
mod keeper;
mod namespace;
pub(crate) mod needs;
mod network;
mod nodes;
mod outside;
mod redis;
mod server;
mod workers;

pub(crate) use downtime::late_after;

use std::time::Duration;

use fastrand::Rng;

use crate::evidence::{Delay, Excuse, Harm, Hit, SECOND};
use crate::stage::{Node, Stage};
use crate::worker::Crew;
use crate::world::grounds::Grounds;
use crate::world::jobs::Job;

/// The lease of the nodes.
pub(crate) const LEASE: Duration = Duration::from_secs(6);
/// The longest outage that costs no lease.
/// A lease is renewed each third of it and given up a tenth before its end, and a call without an
/// answer takes a second.
const HARMLESS: Duration = Duration::from_millis(1_500);

/// Something that goes wrong for a while.
pub(crate) trait Fault: Send {
    /// Returns its row in the table of faults.
    fn row(&self) -> &'static str;
    /// Describes what it does and to what.
    fn what(&self) -> String;
    /// Returns how long it lasts before it is healed.
    fn lasts(&self) -> Duration;
    /// Returns what it may do to schedd's promises.
    fn harm(&self) -> Harm;
    /// Returns what else it allows; called when it is over.
    fn excuse(&self) -> Option<Excuse> {
        None
    }
    /// Returns the jobs it added; called when it is over.
    fn jobs(&mut self) -> Vec<Job> {
        Vec::new()
    }
    /// Prepares the environment of the nodes that it needs, before they start.
    fn prepare(&self, _grounds: &mut Grounds) {}
    /// Looks for its target, for some seconds at most.
    fn seek(&mut self, _stage: &Stage) {}
    /// Begins the fault.
    fn inflict(&mut self, stage: &Stage);
    /// Ends the fault, whatever happened meanwhile.
    fn heal(&mut self, stage: &Stage);
}

/// Draws one fault of a kind, for this number of nodes.
pub(crate) type Draw = fn(&mut Rng, usize) -> Box<dyn Fault>;

/// The faults that can be drawn: the name for `--faults`, what the fault reaches, and the function
/// that draws it.
pub(crate) const DECK: &[(&str, Reaches, Draw)] = &[
    ("kill-node", Reaches::Processes, nodes::Kill::draw),
    ("kill-all", Reaches::Processes, nodes::KillAll::draw),
    ("stop-node", Reaches::Processes, nodes::Freeze::draw),
    ("term-node", Reaches::Processes, nodes::Term::draw),
    ("rolling", Reaches::Processes, nodes::Rolling::draw),
    ("kill-keeper", Reaches::Processes, keeper::KillKeeper::draw),
    ("stop-keeper", Reaches::Processes, keeper::StopKeeper::draw),
    ("kill-redis", Reaches::Redis, redis::Kill::draw),
    ("stall-redis", Reaches::Redis, redis::Stall::draw),
    ("lost-replies", Reaches::Redis, network::Bad::lost_replies),
    ("cut-replies", Reaches::Redis, network::Bad::cut_replies),
    ("slow", Reaches::Redis, network::Bad::slow),
    ("trickle", Reaches::Redis, network::Bad::trickle),
    ("blackhole", Reaches::Redis, network::Bad::blackhole),
    ("flush-scripts", Reaches::Redis, server::Flush::draw),
    ("full-memory", Reaches::Redis, server::Full::draw),
    ("frozen-host", Reaches::Processes, frozen::Host::draw),
    ("suspend", Reaches::Processes, frozen::Suspend::draw),
    ("power-cut", Reaches::Redis, host::power::Cut::draw),
    ("partition", Reaches::Redis, namespace::Partition::draw),
    ("clock", Reaches::Processes, host::clock::Steps::draw),
    ("full-disk", Reaches::Processes, host::disk::Full::draw),
    ("no-files", Reaches::Processes, host::limits::NoFiles::draw),
    ("kill-job", Reaches::Processes, outside::KillJobs::draw),
    ("fork-storm", Reaches::Processes, outside::ForkStorm::draw),
    ("crowd", Reaches::Files, crowd::Crowd::draw),
    ("downtime", Reaches::Processes, downtime::Downtime::draw),
    ("bad-files", Reaches::Files, host::files::Storm::draw),
];

/// The faults of workers that ask the nodes, which come beside those of the deck.
pub(crate) const WORKER_DECK: &[(&str, Draw)] = &[
    ("kill-worker", |rng, workers| workers::Kill::draw(Crew::Pulling, rng, workers)),
    ("stop-worker", workers::Freeze::draw),
    ("frozen-worker", |rng, workers| workers::Freeze::draw_whole(Crew::Pulling, rng, workers)),
    ("term-worker", |rng, workers| workers::Term::draw(Crew::Pulling, rng, workers)),
    ("worker-lost-answers", |rng, workers| workers::Bad::lost_answers(Crew::Pulling, rng, workers)),
    ("worker-cut-answers", |rng, workers| workers::Bad::cut_answers(Crew::Pulling, rng, workers)),
    ("worker-slow", workers::Bad::slow),
    ("worker-blackhole", |rng, workers| workers::Bad::blackhole(Crew::Pulling, rng, workers)),
];

/// The faults of apps, which come beside both.
pub(crate) const APP_DECK: &[(&str, Draw)] = &[
    ("kill-app", |rng, apps| workers::Kill::draw(Crew::Apps, rng, apps)),
    ("frozen-app", |rng, apps| workers::Freeze::draw_whole(Crew::Apps, rng, apps)),
    ("term-app", |rng, apps| workers::Term::draw(Crew::Apps, rng, apps)),
    ("interrupt-app", workers::Term::draw_at_once),
    ("app-lost-answers", |rng, apps| workers::Bad::lost_answers(Crew::Apps, rng, apps)),
    ("app-cut-answers", |rng, apps| workers::Bad::cut_answers(Crew::Apps, rng, apps)),
    ("app-slow", workers::Bad::slow_app),
    ("app-blackhole", |rng, apps| workers::Bad::blackhole(Crew::Apps, rng, apps)),
];

/// The target of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaches {
    /// Daemons, keepers or jobs.
    Processes,
    /// Redis, or the connection to it.
    Redis,
    /// The jobs files.
    Files,
}

/// Returns a random node.
fn some_node(rng: &mut Rng, nodes: usize) -> usize {
    rng.usize(..nodes)
}

fn name(node: usize) -> String {
    format!("n{}", node + 1)
}

fn node(stage: &Stage, number: usize) -> &Node {
    &stage.nodes()[number]
}

/// Returns the harm of the sudden loss of one node.
fn lost_node(node: usize) -> Harm {
    Harm {
        hit: Hit::Nodes(vec![name(node)]),
        delay: Delay::AtBegin,
        may_repeat: true,
        may_overlap: false,
    }
}

/// Returns the harm of an outage of Redis of this length for the hit nodes.
fn outage(hit: Hit, length: Duration) -> Harm {
    if length <= HARMLESS {
        Harm { hit, delay: Delay::Brief(3 * SECOND), may_repeat: false, may_overlap: false }
    } else {
        Harm { hit, delay: Delay::Throughout, may_repeat: true, may_overlap: false }
    }
}

fn harmless() -> Harm {
    Harm { hit: Hit::Everyone, delay: Delay::None, may_repeat: false, may_overlap: false }
}
