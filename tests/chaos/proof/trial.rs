//! One seed from its plan to its findings: set the stage, let faults and operators work, settle,
//! read and judge.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::{report, soak};
use crate::checker;
use crate::evidence::{
    Delay, Evidence, Harm, Hit, Inflicted, Micros, Recorded, SECOND, Timing, now,
};
use crate::stage::{Death, Interrupted, Stage};
use crate::worker::Worker;
use crate::world::chain::CHAIN;
use crate::world::each_node;
use crate::world::each_node::Nodes;
use crate::world::grounds::Grounds;
use crate::world::hands::{Hands, Spite};
use crate::world::http_store::HttpStore;
use crate::world::jobs::Job;
use crate::world::keys;
use crate::world::plan::{Plan, Planned, Wanted};
use crate::world::readding;
use crate::world::readding::Readding;
use crate::world::schedule::When;
use crate::world::{sharing, small};
use crate::{effects, metronome, settle};

/// The promised times, with the lease that the nodes have.
pub(crate) const TIMING: Timing =
    Timing { lease: 6 * SECOND, reap: SECOND, kill_grace: SECOND, clean: SECOND };
/// The calm after the last fault, in which everything must return to normal.
const CALM: Duration = Duration::from_secs(8);

/// The settings of a trial.
pub(crate) struct Trial {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) length: Duration,
    pub(crate) faults: Vec<String>,
    pub(crate) jobs: Vec<String>,
    /// The number of jobs in the chain.
    pub(crate) chain: usize,
    /// The number of shards of the namespace.
    pub(crate) shards: u32,
    pub(crate) keep: bool,
    pub(crate) mode: Mode,
}

/// The purpose of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything suffers faults; no promise may break.
    Chaos,
    /// Daemons and keepers are left alone; no resource may grow.
    Soak,
}

/// The reason why there is no judgement.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An operator pressed Ctrl-C.
    Interrupted,
    /// The test could not do its work.
    Test(String),
}

impl From<Interrupted> for Failure {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl Trial {
    /// Runs the trial and prints its result. The directory is kept if there is any finding.
    pub(crate) fn run(&self, interrupted: Arc<AtomicBool>) -> Result<ExitCode, Failure> {
        println!("chaos: seed={} nodes={} faults for {:?}", self.seed, self.nodes, self.length);
        let dir = tempfile::Builder::new().prefix("schedd-chaos-").tempdir_in("/tmp").unwrap();
        let begun = now();
        let evidence = self.play(dir.path(), interrupted)?;
        let findings = checker::check(&evidence);
        report::print(&evidence, &findings, begun);
        let is_kept = self.keep || !findings.is_empty();
        if is_kept {
            let kept: PathBuf = dir.keep();
            println!("\nlogs, effects and history are kept in {}", kept.display());
        }
        let (seed, runs, attempts, faults) =
            (self.seed, evidence.history.len(), evidence.attempts.len(), evidence.faults.len());
        let took = (now() - begun) / SECOND;
        let of_shards = report::of_shards(&evidence);
        if let Some(unused) = of_shards.iter().position(|runs| *runs == 0) {
            return Err(Failure::Test(format!("shard {unused} had no run")));
        }
        let shards = match self.shards {
            0 => String::new(),
            count => format!(" shards={count} runs_of_shards={of_shards:?}"),
        };
        let summary = format!(
            "seed={seed}{shards} runs={runs} attempts={attempts} faults={faults} seconds={took}"
        );
        if findings.is_empty() {
            println!("\nchaos: PASS {summary}");
            return Ok(ExitCode::SUCCESS);
        }
        println!("\nchaos: FAIL {summary} {}", report::raised(&findings));
        Ok(ExitCode::FAILURE)
    }

    fn play(&self, dir: &Path, interrupted: Arc<AtomicBool>) -> Result<Evidence, Failure> {
        let store = HttpStore::start();
        let is_soak = self.mode == Mode::Soak;
        let wanted = Wanted {
            seed: self.seed,
            // Faults can hit the small node as well.
            nodes: self.nodes + 1,
            length: self.length,
            faults: &self.faults,
            jobs: &self.jobs,
            chain: self.chain,
            steady: is_soak,
        };
        let mut plan = Plan::draw(&wanted, &store.url()).map_err(Failure::Test)?;
        let set_at = now();
        let mut grounds = Grounds::plain(dir, store.address(), self.nodes + 1);
        plan.faults.iter().for_each(|(_, fault)| fault.prepare(&mut grounds));
        (grounds.workers, grounds.apps) = (plan.workers, plan.apps);
        (grounds.lease, grounds.shards) = (TIMING.lease, self.shards);
        let labelled = sharing::label(&mut grounds.nodes[..self.nodes]);
        grounds.nodes.last_mut().map(small::make);
        let stage = Stage::set(grounds, &plan.toml(dir), None, interrupted);
        let all: Vec<String> = stage.nodes().iter().map(|node| node.name.clone()).collect();
        // The small node serves only some queues.
        let serving = &all[..self.nodes];
        let instances = |jobs: Vec<Job>| each_node::instances(jobs, serving, &labelled);
        let of_each = plan.jobs.iter().filter(|job| matches!(job.nodes, Nodes::Each { .. }));
        let ready = await_jobs(&stage, instances(plan.jobs.clone()).len() + of_each.count())?;
        open_phases(&mut plan.jobs, set_at, ready);
        let usage = soak::usage(&stage);
        let mut chain = plan.jobs.clone();
        chain.retain(|job| job.name.starts_with(CHAIN));
        let mut hands = Hands::new(
            &stage,
            plan.rng.fork(),
            plan.jobs,
            if is_soak || !self.jobs.is_empty() { Spite::None } else { Spite::Poison },
        );
        let mut readded = readding::zoo();
        readded.retain(|readded| {
            self.jobs.is_empty()
                || self.jobs.iter().any(|name| readded.name().starts_with(name.as_str()))
        });
        let mut readding = Readding::new(&stage, Rng::with_seed(self.seed ^ 1), readded);
        let is_enough = AtomicBool::new(false);
        let played = std::thread::scope(|scope| {
            let metronome = scope.spawn(|| metronome::tick(&stage));
            let watch = scope.spawn(|| if is_soak { soak::watch(&stage) } else { Vec::new() });
            let hub = scope.spawn(|| stage.resurrect());
            let people = scope.spawn(|| hands.work(|| is_enough.load(Ordering::SeqCst)));
            let others = scope.spawn(|| readding.work(|| is_enough.load(Ordering::SeqCst)));
            // Whatever happens in here, the other threads are told to end, because the scope waits
            // for them.
            let ended = Ended(&stage);
            let (of_workers, of_apps) = (plan.worker_faults, plan.app_faults);
            let workers = scope.spawn(|| conduct(&stage, of_workers, self.length));
            let apps = scope.spawn(|| conduct(&stage, of_apps, self.length));
            let log = conduct(&stage, plan.faults, self.length);
            let beside = [workers.join().unwrap(), apps.join().unwrap()];
            is_enough.store(true, Ordering::SeqCst);
            let (people, others) = (people.join().unwrap(), others.join().unwrap());
            let (mut log, added, mut reported) = log?;
            for conducted in beside {
                let (more, _, seen) = conducted?;
                log.extend(more);
                reported.extend(seen);
            }
            people?;
            others?;
            stage.pause(CALM)?;
            let chain_stopped = settle::stop_chain(&stage, &chain, TIMING.lease)?;
            let stopped = settle::stop_recurring(&stage, TIMING.lease)?;
            let mut leftovers = settle::await_owed(&stage, settle::OWED)?;
            let mut ended_badly = settle::stop_workers(&stage)?;
            leftovers.extend(settle::leftovers(&stage, &usage)?);
            leftovers.extend(settle::findings_of_doctor(&stage));
            let mut history = settle::read_history(&stage).map_err(Failure::Test)?;
            settle::read_records(&stage, &mut history);
            drop(ended);
            hub.join().unwrap();
            leftovers.extend(watch.join().unwrap());
            let (crashes, left) = settle::stop_nodes(&stage)?;
            leftovers.extend(left);
            ended_badly.extend(crashes);
            Ok::<_, Failure>((
                log,
                added,
                reported,
                (chain_stopped, stopped),
                history,
                leftovers,
                ended_badly,
                metronome.join().unwrap(),
            ))
        });
        let (mut log, added, reported, stopped, history, leftovers, mut crashes, host_lags) =
            played?;
        let Hands { mut jobs, mut operations, .. } = hands;
        let (chain_stopped, stopped) = stopped;
        if let Some(stopped) = chain_stopped {
            close_phases(&mut jobs, stopped);
        }
        close_phases(&mut jobs, stopped);
        jobs = instances(jobs);
        jobs.extend(added);
        let (more, readded, generations) = readding.reported();
        operations.extend(more);
        jobs.extend(readded);
        let text = std::fs::read_to_string(dir.join("effects")).unwrap();
        let mut attempts = effects::read(&text).map_err(Failure::Test)?;
        for death in stage.deaths() {
            match attempts.iter().find(|attempt| is_poisoned(attempt, &death)) {
                Some(_) => log.push(poisoning(&death)),
                None => crashes.push(format!(
                    "{} ended by itself ({}) at {}",
                    death.node, death.how, death.at
                )),
            }
        }
        log.sort_by_key(|fault| fault.from);
        attempts.extend(store.requests());
        let jobs = jobs.into_iter().map(|job| (job.name.clone(), job)).collect();
        Ok(Evidence {
            timing: TIMING,
            jobs,
            attempts,
            history,
            reported,
            faults: log,
            operations,
            generations,
            host_lags,
            small: all.last().cloned(),
            nodes: all,
            labelled,
            shards: self.shards,
            late_reports: stage.workers().iter().map(Worker::refused).sum(),
            stopped_handlers: stage.workers().iter().map(Worker::stopped).sum(),
            leftovers,
            crashes,
        })
    }
}

/// Marks the stage as over when dropped, also when its owner gives up.
pub(crate) struct Ended<'a>(pub(crate) &'a Stage);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Waits until all jobs of the file and their instances are known, and all nodes serve all shards.
/// Returns the time at which that was so.
pub(crate) fn await_jobs(stage: &Stage, count: usize) -> Result<Micros, Failure> {
    let mut connection = stage.redis().connection();
    let are_known = || {
        let mut is_served = |shard: u32| {
            let mut nodes = stage.nodes().iter();
            nodes.all(|node| keys::is_served(&mut connection, Some(shard), &node.name))
        };
        stage.places().flatten().all(&mut is_served) && keys::jobs(&mut connection).len() == count
    };
    if stage.wait(Duration::from_secs(30), are_known)? {
        return Ok(now());
    }
    stage.keep_logs();
    Err(Failure::Test(format!(
        "the nodes do not know the {count} jobs or not all shards after 30 s: {}",
        stage.nodes()[0].daemon().log()
    )))
}

/// Sets the time from which recurring jobs are owed, and the bounds of their anchors.
pub(crate) fn open_phases(jobs: &mut [Job], set_at: Micros, ready: Micros) {
    for phase in jobs.iter_mut().flat_map(|job| &mut job.phases) {
        phase.sure_from = ready;
        phase.maybe_from = set_at;
        if let When::Every { anchor, .. } = &mut phase.when {
            *anchor = (set_at - SECOND, ready);
        }
    }
}

/// Sets the time until which recurring jobs are owed.
pub(crate) fn close_phases(jobs: &mut [Job], stopped: (Micros, Micros)) {
    for job in jobs.iter_mut().filter(|job| job.is_recurring()) {
        for phase in &mut job.phases {
            phase.sure_to = phase.sure_to.min(stopped.0);
            phase.maybe_to = phase.maybe_to.min(stopped.1 + SECOND);
        }
    }
}

/// The inflicted faults, the jobs that some of them added, and the history that was read meanwhile.
type Conducted = (Vec<Inflicted>, Vec<Job>, Vec<Recorded>);

/// Inflicts the faults one after the other and heals each, also when interrupted.
fn conduct(stage: &Stage, faults: Vec<Planned>, length: Duration) -> Result<Conducted, Failure> {
    let (mut log, mut jobs, mut reported, end) =
        (Vec::new(), Vec::new(), Vec::new(), Instant::now() + length);
    for (calm, mut fault) in faults {
        stage.pause(calm)?;
        fault.seek(stage);
        println!("  {} {}", fault.row(), fault.what());
        let from = now();
        fault.inflict(stage);
        let paused = stage.pause(fault.lasts());
        fault.heal(stage);
        log.push(Inflicted {
            row: fault.row().to_owned(),
            what: fault.what(),
            from,
            to: now(),
            harm: fault.harm(),
            excuse: fault.excuse(),
        });
        jobs.extend(fault.jobs());
        // Redis may still be out of reach.
        reported.extend(settle::read_history(stage).unwrap_or_default());
        paused?;
    }
    stage.pause(end.saturating_duration_since(Instant::now()))?;
    Ok((log, jobs, reported))
}

/// Returns true if this attempt killed that node.
fn is_poisoned(attempt: &crate::evidence::Attempt, death: &Death) -> bool {
    let is_there = attempt.run.job == "poison" && attempt.node == death.node;
    is_there && attempt.began <= death.at && death.at <= attempt.began + 2 * SECOND
}

/// Returns the death of a node by the poisonous job as a fault.
fn poisoning(death: &Death) -> Inflicted {
    let hit = Hit::Nodes(vec![death.node.clone()]);
    Inflicted {
        row: "F23".to_owned(),
        what: format!("{} killed by the poisonous job", death.node),
        // A death is noticed within a twentieth of a second.
        from: death.at - SECOND / 10,
        to: death.again,
        harm: Harm { hit, delay: Delay::AtBegin, may_repeat: true, may_overlap: false },
        excuse: None,
    }
}
