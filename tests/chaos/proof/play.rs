//! One scene: a fixed small plan that makes one broken rule visible, on a stage of its own.
//! The same checker judges it as everything else. Leases are short, so that a scene takes seconds.
//!
//! Invariant: whatever a scene does to nodes is in its fault log, with the harm of its row. The
//! checker knows no more of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::Signal;

use super::soak;
use super::trial::{Ended, Failure, await_jobs, close_phases, open_phases};
use crate::evidence::{
    Attempt, Delay, Evidence, Harm, Hit, Inflicted, Micros, Recorded, SECOND, Timing, now,
};
use crate::stage::{Interrupted, Node, Stage};
use crate::worker::Worker;
use crate::world::adding;
use crate::world::grounds::Grounds;
use crate::world::http_store::HttpStore;
use crate::world::jobs::Job;
use crate::world::plan::toml_of;
use crate::world::readding::Readded;
use crate::world::schedule::When;
use crate::world::small;
use crate::{effects, metronome, settle};

const TIMING: Timing =
    Timing { lease: 3 * SECOND, reap: SECOND, kill_grace: SECOND, clean: SECOND };
/// The time a scene waits for a job's line, and in the end for owed runs. With a broken rule it may
/// wait in vain.
const PATIENCE: Duration = Duration::from_secs(12);

/// The nodes and jobs of a scene, and the actions in it.
pub(crate) struct Scene {
    pub(crate) nodes: usize,
    pub(crate) workers: usize,
    /// A variable in the environment of the last node.
    pub(crate) var: Option<(&'static str, &'static str)>,
    /// True if the last node is the small one.
    pub(crate) has_small: bool,
    /// The jobs of the file.
    pub(crate) jobs: fn() -> Vec<Job>,
    pub(crate) act: fn(&mut Play<'_>) -> Result<(), Interrupted>,
}

/// A scene that is being played.
pub(crate) struct Play<'a> {
    stage: &'a Stage,
    jobs: Vec<Job>,
    readded: Vec<Readded>,
    log: Vec<Inflicted>,
}

impl Scene {
    /// Plays the scene in `dir`, with daemons that break a rule or none.
    pub(crate) fn play(
        &self,
        dir: &Path,
        mutant: Option<&str>,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Evidence, Failure> {
        let store = HttpStore::start();
        let mut jobs = (self.jobs)();
        let set_at = now();
        let mut grounds = Grounds::plain(dir, store.address(), self.nodes);
        (grounds.workers, grounds.lease) = (self.workers, TIMING.lease);
        if let (Some((name, value)), Some(last)) = (self.var, grounds.nodes.last_mut()) {
            last.vars.push((name.to_owned(), value.to_owned()));
        }
        if self.has_small {
            grounds.nodes.last_mut().map(small::make);
        }
        let stage = Stage::set(grounds, &toml_of(&jobs, dir, TIMING.lease), mutant, interrupted);
        let ready = await_jobs(&stage, jobs.len())?;
        open_phases(&mut jobs, set_at, ready);
        let usage = soak::usage(&stage);
        let mut play = Play { stage: &stage, jobs, readded: Vec::new(), log: Vec::new() };
        let (stopped, history, reported, leftovers, crashes, host_lags) =
            std::thread::scope(|scope| {
                let metronome = scope.spawn(|| metronome::tick(&stage));
                let reader = scope.spawn(|| read_on(&stage));
                let ended = Ended(&stage);
                (self.act)(&mut play)?;
                play.readded.iter_mut().try_for_each(|readded| readded.remove(&stage))?;
                for node in stage.nodes() {
                    node.start_again(stage.dir());
                }
                let stopped = settle::stop_recurring(&stage, TIMING.lease)?;
                let mut leftovers = settle::await_owed(&stage, PATIENCE)?;
                let mut ended_badly = settle::stop_workers(&stage)?;
                leftovers.extend(settle::leftovers(&stage, &usage)?);
                let mut history = settle::read_history(&stage).map_err(Failure::Test)?;
                settle::read_records(&stage, &mut history);
                let (crashes, left) = settle::stop_nodes(&stage)?;
                leftovers.extend(left);
                ended_badly.extend(crashes);
                drop(ended);
                Ok::<_, Failure>((
                    stopped,
                    history,
                    reader.join().unwrap(),
                    leftovers,
                    ended_badly,
                    metronome.join().unwrap(),
                ))
            })?;
        let Play { mut jobs, readded, log, .. } = play;
        close_phases(&mut jobs, stopped);
        let mut generations = BTreeMap::new();
        for (job, of_name) in readded.into_iter().map(Readded::reported) {
            generations.insert(job.name.clone(), of_name);
            jobs.push(job);
        }
        let jobs = jobs.into_iter().map(|job| (job.name.clone(), job)).collect();
        let attempts = effects::so_far(dir);
        Ok(Evidence {
            timing: TIMING,
            jobs,
            attempts,
            history,
            reported,
            faults: log,
            operations: Vec::new(),
            generations,
            host_lags,
            nodes: stage.nodes().iter().map(|node| node.name.clone()).collect(),
            labelled: Vec::new(),
            shards: 0,
            small: stage.nodes().last().filter(|_| self.has_small).map(|node| node.name.clone()),
            late_reports: stage.workers().iter().map(Worker::refused).sum(),
            stopped_handlers: stage.workers().iter().map(Worker::stopped).sum(),
            leftovers,
            crashes,
        })
    }
}

/// Reads history again and again until the stage is over.
fn read_on(stage: &Stage) -> Vec<Recorded> {
    let mut reported = Vec::new();
    while !stage.is_over() {
        reported.extend(settle::read_history(stage).unwrap_or_default());
        let _ = stage.pause(Duration::from_millis(300));
    }
    reported
}

impl Play<'_> {
    /// Returns the time one second from now, in whole milliseconds.
    pub(crate) fn soon() -> Micros {
        (now() + SECOND) / 1000 * 1000
    }

    /// Adds jobs that are due once.
    pub(crate) fn add(&mut self, mut jobs: Vec<Job>) {
        adding::add(self.stage, &mut jobs);
        self.jobs.append(&mut jobs);
    }

    /// Adds this job with its first definition.
    pub(crate) fn add_first(
        &mut self,
        mut readded: Readded,
        when: When,
    ) -> Result<(), Interrupted> {
        readded.add(self.stage, when, 1)?;
        self.readded.push(readded);
        Ok(())
    }

    /// Removes these jobs and adds each again with another definition.
    pub(crate) fn readd(&mut self, when: When) -> Result<(), Interrupted> {
        for readded in &mut self.readded {
            readded.remove(self.stage)?;
            readded.add(self.stage, when, 2)?;
        }
        Ok(())
    }

    pub(crate) fn pause(&self, length: Duration) -> Result<(), Interrupted> {
        self.stage.pause(length)
    }

    /// Waits until this many attempts have begun. Returns the last of them, or `None` if it never
    /// began.
    pub(crate) fn await_begin(&self, number: usize) -> Result<Option<Attempt>, Interrupted> {
        let mut found = None;
        self.stage.wait(PATIENCE, || {
            found = effects::so_far(self.stage.dir()).into_iter().nth(number - 1);
            found.is_some()
        })?;
        Ok(found)
    }

    /// Kills a node that has nothing to do. The fault log gets no entry, so nothing is excused by
    /// it.
    pub(crate) fn take_away(&self, node: usize) {
        kill(&self.stage.nodes()[node]);
    }

    pub(crate) fn bring_back(&self, node: usize) {
        self.stage.nodes()[node].start_again(self.stage.dir());
    }

    /// Inflicts F1 on this node, which is started again when the act ends.
    pub(crate) fn kill_until_the_end(&mut self, node: &str) {
        let from = now();
        kill(self.named(node));
        self.note("F1", format!("kill -9 of {node}"), node, from);
    }

    /// Inflicts F3 on this node until `until` returns.
    pub(crate) fn freeze(
        &mut self,
        node: &str,
        until: impl FnOnce(&Self) -> Result<(), Interrupted>,
    ) -> Result<(), Interrupted> {
        let from = now();
        self.named(node).daemon().signal_if_alive(Signal::STOP);
        let waited = until(self);
        self.named(node).daemon().signal_if_alive(Signal::CONT);
        self.note("F3", format!("SIGSTOP of the daemon of {node}"), node, from);
        waited
    }

    /// Stops this worker, but not its keeper and its work, until `until` returns.
    pub(crate) fn freeze_worker(
        &mut self,
        name: &str,
        until: impl FnOnce(&Self) -> Result<(), Interrupted>,
    ) -> Result<(), Interrupted> {
        let Some(worker) = self.stage.workers().iter().find(|worker| worker.name == name) else {
            return Ok(());
        };
        let from = now();
        worker.signal_if_alive(Signal::STOP);
        let waited = until(self);
        worker.signal_if_alive(Signal::CONT);
        self.note("FW", format!("SIGSTOP of {name} alone"), name, from);
        waited
    }

    fn named(&self, name: &str) -> &Node {
        self.stage.nodes().iter().find(|node| node.name == name).unwrap()
    }

    fn note(&mut self, row: &str, what: String, node: &str, from: Micros) {
        let hit = Hit::Nodes(vec![node.to_owned()]);
        let harm = Harm { hit, delay: Delay::AtBegin, may_repeat: true, may_overlap: false };
        self.log.push(Inflicted { row: row.to_owned(), what, from, to: now(), harm, excuse: None });
    }
}

fn kill(node: &Node) {
    node.hold();
    let mut daemon = node.daemon();
    daemon.signal_if_alive(Signal::KILL);
    daemon.wait_exit();
}
