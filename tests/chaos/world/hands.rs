//! The actions of operators while faults come and go, through `schedctl` and `jobs.toml`.
//! They add bursts, run by hand, pause and resume, cancel, and edit.
//! An action that was not acknowledged is recorded as such: it may have been done or not.

use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use super::adding::add;
use super::jobs::{Job, burst, paced, poison, unique};
use super::plan::toml_of;
use super::pulled;
use super::schedule::{Phase, When};
use super::sharing::ORDER;
use super::small;
use crate::evidence::{Doing, Micros, Operation, SECOND, now};
use crate::proof::trial::TIMING;
use crate::stage::{Interrupted, Stage, schedctl};

/// An operator at work.
pub(crate) struct Hands<'a> {
    stage: &'a Stage,
    rng: Rng,
    /// The jobs of the file and, as time goes on, the jobs added.
    pub(crate) jobs: Vec<Job>,
    pub(crate) operations: Vec<Operation>,
    bursts: usize,
    /// The permission to add a job that kills its node.
    spite: Spite,
}

/// The choice whether an operator adds a poisonous job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spite {
    None,
    Poison,
}

impl<'a> Hands<'a> {
    pub(crate) fn new(stage: &'a Stage, rng: Rng, jobs: Vec<Job>, spite: Spite) -> Self {
        Self { stage, rng, jobs, operations: Vec::new(), bursts: 0, spite }
    }

    /// Does something every two or three seconds until `is_enough` returns true.
    pub(crate) fn work(&mut self, is_enough: impl Fn() -> bool) -> Result<(), Interrupted> {
        let mut step = 0;
        while !is_enough() {
            match step % 6 {
                0 => self.add_burst()?,
                1 => self.run_by_hand()?,
                2 => self.pause_for_a_while()?,
                3 => self.cancel_one()?,
                4 => self.edit()?,
                _ if step == 5 && self.spite == Spite::Poison => self.add_poison()?,
                _ => {}
            }
            step += 1;
            let nap = Duration::from_millis(self.rng.u64(1_000..2_500));
            self.stage.pause(nap)?;
        }
        Ok(())
    }

    fn has(&self, job: &str) -> bool {
        self.jobs.iter().any(|known| known.name == job)
    }

    /// Repeats the call for a while until it succeeds. Returns `None` if it never did.
    fn insist(&self, args: &[&str]) -> Result<Option<String>, Interrupted> {
        for _ in 0..60 {
            let output = schedctl(self.stage, args).output().unwrap();
            if output.status.success() {
                return Ok(Some(String::from_utf8(output.stdout).unwrap()));
            }
            self.stage.pause(Duration::from_millis(300))?;
        }
        Ok(None)
    }

    fn add_burst(&mut self) -> Result<(), Interrupted> {
        let count = self.rng.usize(20..40);
        let mut jobs = burst(&mut self.rng, self.bursts, count, now() + 3 * SECOND);
        jobs.extend(paced(self.bursts, 10, now() + 3 * SECOND));
        jobs.extend(small::batch(self.bursts, now() + 4 * SECOND));
        if self.jobs.iter().any(|job| job.is_pulled) {
            // The other choices of a seed do not depend on these jobs.
            let mut rng = self.rng.clone();
            jobs.extend(pulled::batch(&mut rng, self.bursts, 8, now() + 3 * SECOND));
        }
        let mut alike = unique(self.bursts, 3, now() + 3 * SECOND);
        self.bursts += 1;
        self.add(jobs)?;
        // Each job has a call of its own, because a refusal is the answer of its own call.
        while let Some(job) = alike.pop() {
            self.add(vec![job])?;
        }
        Ok(())
    }

    fn add_poison(&mut self) -> Result<(), Interrupted> {
        self.add(vec![poison(now() + 2 * SECOND)])
    }

    /// Adds all jobs with one `schedctl add --stdin`. Jobs that it does not acknowledge may have
    /// been added too.
    fn add(&mut self, mut jobs: Vec<Job>) -> Result<(), Interrupted> {
        add(self.stage, &mut jobs);
        self.jobs.append(&mut jobs);
        self.stage.pause(Duration::ZERO)
    }

    fn run_by_hand(&mut self) -> Result<(), Interrupted> {
        for job in ["by-hand", "quick-0"] {
            let from = now();
            if self.has(job)
                && let Some(reported) = self.insist(&["run", job, "--quiet"])?
            {
                self.operations.push(Operation {
                    from,
                    to: now(),
                    what: Doing::Ran(reported.trim().to_owned()),
                });
            }
        }
        Ok(())
    }

    fn pause_for_a_while(&mut self) -> Result<(), Interrupted> {
        let jobs: Vec<&str> =
            ["pausing", ORDER[1]].into_iter().filter(|job| self.has(job)).collect();
        let from = now();
        let mut is_paused = false;
        for job in &jobs {
            is_paused |= self.insist(&["pause", job])?.is_some();
        }
        if is_paused {
            self.stage.pause(Duration::from_secs(4))?;
        }
        // The resume follows a pause without acknowledgement too, because the pause may have been
        // made.
        for job in jobs {
            self.insist(&["resume", job])?;
            self.operations.push(Operation {
                from,
                to: now(),
                what: Doing::Paused(job.to_owned()),
            });
        }
        Ok(())
    }

    fn cancel_one(&mut self) -> Result<(), Interrupted> {
        if !self.has("stopping") {
            return Ok(());
        }
        let Some(text) = self.insist(&["history", "stopping", "--json", "--limit", "3"])? else {
            return Ok(());
        };
        let runs: Value = serde_json::from_str(&text).unwrap_or_default();
        let running = runs.as_array().into_iter().flatten().find(|run| run["state"] == "running");
        if let Some(run) = running.and_then(|run| run["run_id"].as_str()) {
            let from = now();
            // The call is made once: by a second try the run may be over, which gives another exit
            // code.
            let _ = schedctl(self.stage, &["cancel", run]).output();
            self.operations.push(Operation {
                from,
                to: now(),
                what: Doing::Cancelled(run.to_owned()),
            });
        }
        Ok(())
    }

    /// Changes the schedule of the job `edited` in the file and waits until the change is seen.
    fn edit(&mut self) -> Result<(), Interrupted> {
        let Some(at) = self.jobs.iter().position(|job| job.name == "edited") else { return Ok(()) };
        let job = &mut self.jobs[at];
        let last = job.phases.last_mut().unwrap();
        let new = if last.when == When::Seconds(4) { 6 } else { 4 };
        let begun = now();
        last.sure_to = begun;
        job.phases.push(Phase {
            when: When::Seconds(new),
            sure_from: Micros::MAX,
            sure_to: Micros::MAX,
            maybe_from: begun,
            maybe_to: Micros::MAX,
        });
        let of_file: Vec<Job> = self
            .jobs
            .iter()
            .filter(|job| !matches!(job.phases[0].when, When::Once(_)))
            .cloned()
            .collect();
        self.stage.write_jobs(&toml_of(&of_file, self.stage.dir(), TIMING.lease));
        let wanted = format!("*/{new} * * * * *");
        let is_seen = || {
            let shown = schedctl(self.stage, &["show", "edited", "--json"]).output().unwrap();
            String::from_utf8_lossy(&shown.stdout).contains(&wanted)
        };
        let is_done = self.stage.wait(Duration::from_secs(40), is_seen)?;
        let phases = &mut self.jobs[at].phases;
        let count = phases.len();
        if is_done {
            // A run that is already due under the old schedule stays owed.
            phases[count - 2].maybe_to = now() + SECOND;
            phases[count - 1].sure_from = now() + SECOND;
        }
        Ok(())
    }
}
