//! The faults, one file a family. A new one is a type with [`Fault`] in a file here and its line in [`DECK`].
//!
//! Each names its row of the fault table and says by [`Fault::harm`] what that row lets it do to schedd's promises: the checker
//! allows that much around the interval in which it was inflicted, and nothing else.

mod clock;
mod crowd;
mod disk;
mod downtime;
mod files;
mod frozen;
mod keeper;
mod limits;
mod namespace;
pub(crate) mod needs;
mod network;
mod nodes;
mod outside;
mod power;
mod redis;
mod server;

pub(crate) use downtime::late_after;

use std::time::Duration;

use fastrand::Rng;

use crate::evidence::{Delay, Excuse, Harm, Hit, SECOND};
use crate::grounds::Grounds;
use crate::jobs::Job;
use crate::stage::{Node, Stage};

/// The lease the nodes are set up with.
pub(crate) const LEASE: Duration = Duration::from_secs(6);
/// An outage no longer than this costs no lease: renewed each third of it, given up a tenth before its end, and a call that
/// waits for its answer in vain takes a second.
const HARMLESS: Duration = Duration::from_millis(1_500);

/// Something that goes wrong for a while.
pub(crate) trait Fault: Send {
    /// Its row in the table of faults.
    fn row(&self) -> &'static str;
    /// What it does to what, in words.
    fn what(&self) -> String;
    /// How long it lasts before it is healed.
    fn lasts(&self) -> Duration;
    /// What it may do to schedd's promises.
    fn harm(&self) -> Harm;
    /// What else it allows; asked when it is over.
    fn excuse(&self) -> Option<Excuse> {
        None
    }
    /// The jobs it made; asked when it is over.
    fn jobs(&mut self) -> Vec<Job> {
        Vec::new()
    }
    /// Lays what nodes must stand on for it, before they are started.
    fn prepare(&self, _grounds: &mut Grounds) {}
    /// Looks for what it is to hit, for seconds at most.
    fn seek(&mut self, _stage: &Stage) {}
    /// Begins.
    fn inflict(&mut self, stage: &Stage);
    /// Ends, whatever became of it meanwhile.
    fn heal(&mut self, stage: &Stage);
}

/// Draws one of a kind, for so many nodes.
pub(crate) type Draw = fn(&mut Rng, usize) -> Box<dyn Fault>;

/// Which faults can be drawn: a name to ask for it by `--faults`, whether it leaves nodes and processes alone, and how to draw it.
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
    ("power-cut", Reaches::Redis, power::Cut::draw),
    ("partition", Reaches::Redis, namespace::Partition::draw),
    ("clock", Reaches::Processes, clock::Steps::draw),
    ("full-disk", Reaches::Processes, disk::Full::draw),
    ("no-files", Reaches::Processes, limits::NoFiles::draw),
    ("kill-job", Reaches::Processes, outside::KillJobs::draw),
    ("fork-storm", Reaches::Processes, outside::ForkStorm::draw),
    ("crowd", Reaches::Files, crowd::Crowd::draw),
    ("downtime", Reaches::Processes, downtime::Downtime::draw),
    ("bad-files", Reaches::Files, files::Storm::draw),
];

/// What a fault lays hands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaches {
    /// Daemons or keepers.
    Processes,
    /// Redis, or the way to it.
    Redis,
    /// The jobs files.
    Files,
}

/// A node drawn by lot.
fn some_node(rng: &mut Rng, nodes: usize) -> usize {
    rng.usize(..nodes)
}

fn name(node: usize) -> String {
    format!("n{}", node + 1)
}

fn node(stage: &Stage, number: usize) -> &Node {
    &stage.nodes()[number]
}

/// What it does to one node to be lost at once.
fn lost_node(node: usize) -> Harm {
    Harm { hit: Hit::Nodes(vec![name(node)]), delay: Delay::AtBegin, may_repeat: true, may_overlap: false }
}

/// What it does if Redis cannot be used for so long by those hit.
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
