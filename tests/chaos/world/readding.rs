//! Jobs that are removed and added again under their name while runs of them are owed.
//! The definition is another or the same. Some jobs are added by `schedctl`, some are in
//! `jobs.toml`.
//! A change that was not acknowledged is repeated until it is seen to be done.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use super::adding::add_lines;
use super::jobs::{Act, Job};
use super::schedule::{Phase, When};
use super::sharing::{READDING, Sharing};
use crate::evidence::{Doing, Generation, Micros, Operation, SECOND, now, span};
use crate::stage::{Interrupted, Stage, schedctl};

/// The time within which a change of the file, an addition or a removal must be seen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The place where a job is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// By `schedctl`.
    Api,
    /// In `jobs.toml`.
    File,
}

/// A name, and the generations of jobs that had it.
#[derive(Debug, Clone)]
pub(crate) struct Readded {
    /// The part of the job that does not change with the definition.
    job: Job,
    place: Place,
    generations: Vec<Generation>,
}

/// The presence of a job in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Gone,
    /// Present, with the version asked about.
    Same,
    Other,
}

impl Readded {
    pub(crate) fn new(job: Job, place: Place) -> Self {
        Self { job, place, generations: Vec::new() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.job.name
    }

    fn version(&self) -> u32 {
        self.generations.last().map_or(0, |last| last.version)
    }

    fn is_there(&self) -> bool {
        self.generations.last().is_some_and(|last| last.removed.1 == Micros::MAX)
    }

    /// Adds the job with this version of its definition, and waits until that is seen.
    pub(crate) fn add(
        &mut self,
        stage: &Stage,
        when: When,
        version: u32,
    ) -> Result<(), Interrupted> {
        let phase = Phase {
            when,
            sure_from: Micros::MAX,
            sure_to: Micros::MAX,
            maybe_from: 0,
            maybe_to: Micros::MAX,
        };
        let job = Job { phases: vec![phase], version: Some(version), ..self.job.clone() };
        let from = now();
        self.generations.push(Generation {
            version,
            when,
            added: (from, Micros::MAX),
            removed: (Micros::MAX, Micros::MAX),
            may_be_edited: false,
        });
        let text = job.toml(stage.dir());
        if self.place == Place::File {
            stage.write_section(&job.name, Some(text.clone()));
        }
        let line = line(&job, &text, stage);
        let is_added = || {
            if self.place == Place::Api
                && add_lines(stage, std::slice::from_ref(&line)) == [job.name.clone()]
            {
                return true;
            }
            match seen(stage, &job.name, version) {
                Some(Seen::Same) => true,
                // Redis lost the removal, so it is repeated.
                Some(Seen::Other) if self.place == Place::Api => {
                    let _ = schedctl(stage, &["cancel", &job.name]).output();
                    false
                }
                _ => false,
            }
        };
        let is_done = stage.wait(PATIENCE, is_added)?;
        if let (true, Some(last)) = (is_done, self.generations.last_mut()) {
            last.added.1 = now();
        }
        Ok(())
    }

    /// Removes the job, and waits until that is seen.
    pub(crate) fn remove(&mut self, stage: &Stage) -> Result<(), Interrupted> {
        self.begin_to_remove(stage);
        let (name, place) = (&self.job.name, self.place);
        let is_removed = || {
            place == Place::Api
                && schedctl(stage, &["cancel", name]).output().unwrap().status.success()
                || seen(stage, name, 0) == Some(Seen::Gone)
        };
        let is_done = stage.wait(PATIENCE, is_removed)?;
        if let (true, Some(last)) = (is_done, self.generations.last_mut()) {
            last.removed.1 = now();
        }
        Ok(())
    }

    fn begin_to_remove(&mut self, stage: &Stage) {
        if let Some(last) = self.generations.last_mut() {
            last.removed.0 = last.removed.0.min(now());
        }
        if self.place == Place::File {
            stage.write_section(&self.job.name, None);
        }
    }

    /// Removes the job from the file and adds it again at once with another definition. Some nodes
    /// may see only an edit.
    fn exchange(&mut self, stage: &Stage, when: When) -> Result<(), Interrupted> {
        let version = self.version() + 1;
        self.begin_to_remove(stage);
        self.add(stage, when, version)?;
        if let [.., before, last] = &mut *self.generations {
            (before.removed.1, before.may_be_edited) = (last.added.1, true);
        }
        Ok(())
    }

    /// Returns the job as the checker must know it, with its generations.
    pub(crate) fn reported(self) -> (Job, Vec<Generation>) {
        let phase = |generation: &Generation| {
            let is_once = matches!(generation.when, When::Once(_));
            Phase {
                when: generation.when,
                sure_from: generation.added.1,
                sure_to: generation.removed.0,
                maybe_from: if is_once { 0 } else { generation.added.0 },
                // A one-shot is owed once: its record says when it was taken back.
                maybe_to: if is_once { Micros::MAX } else { generation.removed.1 },
            }
        };
        let phases = self.generations.iter().map(phase).collect();
        (Job { phases, ..self.job }, self.generations)
    }
}

/// Returns what Redis has under this name; `None` if that is unknown.
fn seen(stage: &Stage, name: &str, version: u32) -> Option<Seen> {
    let listed = schedctl(stage, &["list", "--json"]).output().unwrap();
    let jobs: Value =
        serde_json::from_slice(&listed.stdout).ok().filter(|_| listed.status.success())?;
    if !jobs.as_array()?.iter().any(|job| job["name"] == name) {
        return Some(Seen::Gone);
    }
    let shown = schedctl(stage, &["show", name, "--json"]).output().unwrap();
    let text = String::from_utf8_lossy(&shown.stdout);
    let wanted = format!("\"{}{version}\"", super::jobs::VERSION);
    shown.status.success().then_some(if text.contains(&wanted) { Seen::Same } else { Seen::Other })
}

/// Returns the line for `schedctl add --stdin` of a job with this table.
fn line(job: &Job, table: &str, stage: &Stage) -> Value {
    let mut file: Value = toml::from_str(table).unwrap();
    let mut line = file["jobs"][&job.name].take();
    line["name"] = json!(job.name);
    line["timeout"] = json!("60s");
    line["kill_grace"] = json!("1s");
    line["env"] = json!({"CHAOS": stage.dir().display().to_string()});
    if let Some(Phase { when: When::Once(due), .. }) = job.phases.first() {
        line["at"] = json!(jiff::Timestamp::from_microsecond(*due).unwrap().to_string());
        // A one-shot has no missed occurrences.
        if let Some(line) = line.as_object_mut() {
            line.remove("catch_up");
            line.remove("late_after");
        }
    } else {
        line["tz"] = json!("UTC");
    }
    line
}

/// The operator who removes jobs and adds them again.
pub(crate) struct Readding<'a> {
    stage: &'a Stage,
    rng: Rng,
    readded: Vec<Readded>,
    pub(crate) operations: Vec<Operation>,
}

impl<'a> Readding<'a> {
    pub(crate) fn new(stage: &'a Stage, rng: Rng, readded: Vec<Readded>) -> Self {
        Self { stage, rng, readded, operations: Vec::new() }
    }

    /// Removes a job and adds it again, until `is_enough` returns true; then removes all.
    pub(crate) fn work(&mut self, is_enough: impl Fn() -> bool) -> Result<(), Interrupted> {
        while !is_enough() && !self.readded.is_empty() {
            let at = self.rng.usize(..self.readded.len());
            self.step(at)?;
            self.stage.pause(Duration::from_millis(self.rng.u64(100..500)))?;
        }
        for readded in self.readded.iter_mut().filter(|readded| readded.is_there()) {
            readded.remove(self.stage)?;
        }
        Ok(())
    }

    fn step(&mut self, at: usize) -> Result<(), Interrupted> {
        let is_changed = self.rng.u32(..4) > 0;
        if self.readded[at].is_there() {
            self.owe(at)?;
            if self.readded[at].place == Place::File && self.rng.u32(..4) == 0 {
                let when = self.when(at);
                return self.readded[at].exchange(self.stage, when);
            }
            self.readded[at].remove(self.stage)?;
            if self.rng.bool() {
                self.stage.pause(Duration::from_millis(self.rng.u64(200..2_000)))?;
            }
        }
        let when = self.when(at);
        let readded = &mut self.readded[at];
        if readded.generations.last().is_some_and(|last| last.removed.1 == Micros::MAX) {
            // Nobody has seen the removal, so the effect of an addition would be unknown.
            return Ok(());
        }
        let version = readded.version() + u32::from(is_changed || readded.version() == 0);
        readded.add(self.stage, when, version)
    }

    /// Returns the next due time of this name: soon or far ahead for a one-shot, otherwise the
    /// former schedule.
    fn when(&mut self, at: usize) -> When {
        match self.readded[at].job.phases.first().map(|phase| phase.when) {
            Some(When::Once(_)) => {
                let ahead =
                    if self.rng.u32(..3) == 0 { 600_000 } else { self.rng.i64(1_000..3_000) };
                When::Once((now() / 1000 + ahead) * 1000)
            }
            Some(when) => when,
            None => When::ByHand,
        }
    }

    /// Asks for a manual run or a backfill, so that runs are owed when the job is removed.
    fn owe(&mut self, at: usize) -> Result<(), Interrupted> {
        let name = self.readded[at].job.name.clone();
        let from = now();
        if self.readded[at].job.is_recurring() && self.rng.bool() {
            let ago = format!("{:.0}s", span(6 * SECOND));
            let _ = schedctl(self.stage, &["backfill", &name, "--from", &ago, "--yes"]).output();
            self.operations.push(Operation { from, to: now(), what: Doing::Backfilled(name) });
        } else if self.rng.bool() {
            let asked = schedctl(self.stage, &["run", &name, "--quiet"]).output().unwrap();
            if asked.status.success() {
                let run = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
                self.operations.push(Operation { from, to: now(), what: Doing::Ran(run) });
            }
        }
        self.stage.pause(Duration::ZERO)
    }

    /// Returns the operator's actions, and the jobs as the checker must know them.
    pub(crate) fn reported(self) -> (Vec<Operation>, Vec<Job>, BTreeMap<String, Vec<Generation>>) {
        let (jobs, generations): (Vec<Job>, Vec<Vec<Generation>>) =
            self.readded.into_iter().map(Readded::reported).unzip();
        let generations = jobs.iter().map(|job| job.name.clone()).zip(generations).collect();
        (self.operations, jobs, generations)
    }
}

/// Returns the jobs that are removed and added again.
/// Their owed runs wait at a group or a queue's limit, spread, for a retry, or by hand.
pub(crate) fn zoo() -> Vec<Readded> {
    let in_group = Sharing { group: Some(READDING), ..Sharing::default() };
    let in_queue = Sharing { queue: Some("narrow"), ..Sharing::default() };
    let one = |name: &str, place: Place, when: When, job: Job, sharing: &Sharing| {
        let job =
            Job { name: format!("readded-{name}"), sharing: sharing.clone(), ..job }.due(when);
        Readded::new(job, place)
    };
    let work = |ms: i64| Job::new("", Act::Work, ms);
    // The delay is so long that a run nearly always waits for its next attempt.
    let failing =
        || Job { retries: 3, retry_delay: 2 * SECOND, ..Job::new("", Act::FailFirst(2), 100) };
    let spread = Job { catch_up: "all", spread: 4 * SECOND, ..work(100) };
    let (alone, due_once) = (&Sharing::default(), When::Once(0));
    vec![
        one("once", Place::Api, due_once, work(200), &in_group),
        one("narrow", Place::Api, due_once, work(300), &in_queue),
        one("cron", Place::Api, When::Seconds(2), work(100), &in_group),
        one("failing", Place::Api, When::Seconds(3), failing(), alone),
        one("file", Place::File, When::Seconds(3), work(100), &in_group),
        one("file-hand", Place::File, When::ByHand, work(300), &in_queue),
        one("file-failing", Place::File, When::Seconds(4), failing(), alone),
        one("file-spread", Place::File, When::Seconds(2), spread, alone),
    ]
}
