//! The meaning of a seed: the jobs of the file, the faults one after the other, and the actions of
//! operators in between.

use std::path::Path;
use std::time::Duration;

use fastrand::Rng;

use super::chain;
use super::jobs::{Job, head, zoo};
use super::pulled::{APPS, WORKERS};
use crate::evidence::Micros;
use crate::faults::{APP_DECK, DECK, Draw, Fault, Reaches, WORKER_DECK, needs};
use crate::proof::trial::TIMING;

/// The time that the end of a trial takes besides its faults: owed runs are awaited, everything is
/// stopped and read.
pub(crate) const RESTORING: Duration = Duration::from_secs(25);

/// A fault, with the calm before it.
pub(crate) type Planned = (Duration, Box<dyn Fault>);

/// A planned trial.
pub(crate) struct Plan {
    pub(crate) jobs: Vec<Job>,
    pub(crate) faults: Vec<Planned>,
    /// The faults of workers, which come at the same time.
    pub(crate) worker_faults: Vec<Planned>,
    /// The faults of apps, which come at the same time too.
    pub(crate) app_faults: Vec<Planned>,
    /// The number of workers that ask the nodes.
    pub(crate) workers: usize,
    /// The number of apps.
    pub(crate) apps: usize,
    /// The random numbers for decisions during the trial.
    pub(crate) rng: Rng,
}

/// The request of the command line.
#[derive(Debug, Clone)]
pub(crate) struct Wanted<'a> {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    /// The time during which faults go on.
    pub(crate) length: Duration,
    /// Names of faults; empty for all.
    pub(crate) faults: &'a [String],
    /// Names of jobs; empty for all.
    pub(crate) jobs: &'a [String],
    /// The number of jobs in the chain.
    pub(crate) chain: usize,
    /// True if daemons and keepers are left alone.
    pub(crate) steady: bool,
}

impl Plan {
    /// Returns the plan of a seed, with a store at `url`. Fails with the name of an unknown fault.
    pub(crate) fn draw(wanted: &Wanted<'_>, url: &str) -> Result<Self, String> {
        let mut rng = Rng::with_seed(wanted.seed);
        let mut jobs = zoo(&mut rng, url);
        jobs.extend(chain::zoo(wanted.chain));
        if !wanted.jobs.is_empty() {
            jobs.retain(|job| wanted.jobs.iter().any(|name| job.name.starts_with(name.as_str())));
        }
        let of_workers = WORKER_DECK.iter().chain(APP_DECK).map(|(name, _)| *name);
        let known: Vec<&str> = DECK.iter().map(|(name, _, _)| *name).chain(of_workers).collect();
        if let Some(unknown) =
            wanted.faults.iter().find(|name| !known.contains(&name.as_str()) && *name != "none")
        {
            return Err(format!("no fault {unknown:?}; there are {}", known.join(", ")));
        }
        let is_wanted = |name: &str| {
            wanted.faults.is_empty() || wanted.faults.iter().any(|wanted| wanted == name)
        };
        let deck = |(name, reaches, draw): &(&str, Reaches, Draw)| {
            if wanted.steady && *reaches == Reaches::Processes {
                return None;
            }
            is_wanted(name).then_some(*draw)
        };
        let is_possible = |(name, ..): &&(&str, Reaches, Draw)| {
            needs::missing(name).inspect(|why| println!("left out: {name}: {why}")).is_none()
        };
        let deck: Vec<Draw> = DECK
            .iter()
            .filter(|one| deck(one).is_some())
            .filter(is_possible)
            .filter_map(deck)
            .collect();
        let faults = Self::schedule(&mut rng, &deck, (wanted.nodes, wanted.length));
        let is_served = jobs.iter().any(|job| job.is_pulled);
        let (workers, apps) = if is_served { (WORKERS, APPS) } else { (0, 0) };
        // The faults of a seed do not depend on those of workers.
        let beside = |deck: &[(&str, Draw)], seed: u64, targets: usize| {
            let is_hit =
                |(name, _): &&(&str, Draw)| targets > 0 && !wanted.steady && is_wanted(name);
            let deck: Vec<Draw> = deck.iter().filter(is_hit).map(|(_, draw)| *draw).collect();
            Self::schedule(&mut Rng::with_seed(seed), &deck, (targets, wanted.length))
        };
        let worker_faults = beside(WORKER_DECK, wanted.seed ^ 2, workers);
        let app_faults = beside(APP_DECK, wanted.seed ^ 3, apps);
        Ok(Self { jobs, faults, worker_faults, app_faults, workers, apps, rng })
    }

    /// Returns the faults of so many nodes or workers until the time is used up, each after a calm.
    /// The kinds come in a random order, which is drawn anew when all have been used.
    fn schedule(
        rng: &mut Rng,
        deck: &[Draw],
        (targets, length): (usize, Duration),
    ) -> Vec<Planned> {
        let (mut faults, mut left, mut hand) = (Vec::new(), length, Vec::new());
        while !deck.is_empty() {
            if hand.is_empty() {
                hand = deck.to_vec();
                rng.shuffle(&mut hand);
            }
            let Some(draw) = hand.pop() else { break };
            let fault = draw(rng, targets);
            // Now and then the next fault comes before schedd can have recovered from the last.
            let calm = Duration::from_millis(if rng.u32(..3) == 0 {
                rng.u64(0..500)
            } else {
                rng.u64(2_000..6_000)
            });
            let takes = calm + fault.lasts();
            if takes > left {
                break;
            }
            left -= takes;
            faults.push((calm, fault));
        }
        faults
    }

    /// Returns the `jobs.toml` of all nodes.
    pub(crate) fn toml(&self, dir: &Path) -> String {
        toml_of(&self.jobs, dir, TIMING.lease)
    }
}

/// Returns a `jobs.toml` with these jobs.
pub(crate) fn toml_of(jobs: &[Job], dir: &Path, lease: Micros) -> String {
    jobs.iter().fold(head(dir, lease), |text, job| text + &job.toml(dir))
}
