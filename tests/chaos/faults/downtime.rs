//! F25: all nodes are down while jobs that are due every second or two miss up to 20 occurrences.
//! The fault has jobs of its own, so that their round of catching up can be counted exactly.

use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::Fault;
use crate::evidence::{Delay, Excuse, Harm, Hit, Micros, SECOND, now};
use crate::stage::{Stage, schedctl};
use crate::world::adding::add_lines;
use crate::world::jobs::{Act, Job, Overlap};
use crate::world::schedule::{Phase, When};

/// The `catch_up` of each job, its period and its `late_after` (both in seconds), and the most
/// missed runs it may make up for.
const MODES: [(&str, i64, i64, i64); 3] =
    [("skip", 2, 1, 0), ("latest", 1, 3, 1), ("all", 1, 3, 5)];

/// F25.
pub(super) struct Downtime {
    number: u32,
    down: Duration,
    jobs: Vec<Job>,
}

impl Downtime {
    pub(super) fn draw(rng: &mut Rng, _nodes: usize) -> Box<dyn Fault> {
        Box::new(Self {
            number: rng.u32(..),
            down: Duration::from_millis(rng.u64(15_500..19_500)),
            jobs: Vec::new(),
        })
    }

    fn line(stage: &Stage, job: &Job) -> Value {
        let (mode, period, late_after, max_count) =
            *MODES.iter().find(|(mode, ..)| *mode == job.catch_up).unwrap();
        let catch_up =
            if max_count > 1 { json!({"mode": mode, "max_count": max_count}) } else { json!(mode) };
        json!({
            "name": job.name, "every": format!("{period}s"), "overlap": "allow", "catch_up": catch_up,
            "late_after": format!("{late_after}s"),
            "command": job.command(stage.dir()), "kill_grace": "1s", "env": {"CHAOS": stage.dir().display().to_string()},
        })
    }
}

impl Fault for Downtime {
    fn row(&self) -> &'static str {
        "F25"
    }
    fn what(&self) -> String {
        format!(
            "all nodes ended for {:?} while jobs of each catch_up are due every second or two",
            self.down
        )
    }
    fn lasts(&self) -> Duration {
        self.down
    }
    fn harm(&self) -> Harm {
        Harm { hit: Hit::Everyone, delay: Delay::Throughout, may_repeat: true, may_overlap: false }
    }
    fn excuse(&self) -> Option<Excuse> {
        Some(Excuse::AllDown)
    }
    fn jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.jobs)
    }
    fn inflict(&mut self, stage: &Stage) {
        let before = now();
        let named = |(mode, period, _, max_count): &(&'static str, i64, i64, i64)| Job {
            phases: vec![Phase {
                when: When::Every { period: *period, anchor: (before - SECOND, before) },
                sure_from: Micros::MAX,
                sure_to: Micros::MAX,
                maybe_from: before,
                maybe_to: Micros::MAX,
            }],
            overlap: Overlap::Allow,
            catch_up: mode,
            max_count: Some(*max_count),
            ..Job::new(&format!("down-{mode}-{}", self.number), Act::Work, 0)
        };
        self.jobs = MODES.iter().map(named).collect();
        let lines: Vec<Value> = self.jobs.iter().map(|job| Self::line(stage, job)).collect();
        let accepted = add_lines(stage, &lines);
        assert_eq!(accepted.len(), lines.len(), "not all jobs of F25 were taken: {accepted:?}");
        let added = now();
        for job in &mut self.jobs {
            job.is_sure = accepted.contains(&job.name);
            for phase in &mut job.phases {
                phase.sure_from = added + SECOND;
                if let When::Every { anchor, .. } = &mut phase.when {
                    anchor.1 = added;
                }
            }
        }
        let _ = stage.pause(Duration::from_secs(4));
        for node in stage.nodes() {
            node.hold();
            node.daemon().signal_if_alive(Signal::TERM);
        }
        for node in stage.nodes() {
            let _ = stage.wait(Duration::from_secs(20), || node.daemon().has_ended().is_some());
        }
    }
    fn heal(&mut self, stage: &Stage) {
        for node in stage.nodes() {
            node.start_again(stage.dir());
        }
        let _ = stage.pause(Duration::from_secs(4));
        for job in &mut self.jobs {
            let begun = now();
            let is_gone =
                || schedctl(stage, &["cancel", &job.name]).output().unwrap().status.success();
            let _ = stage.wait(Duration::from_secs(20), is_gone);
            for phase in &mut job.phases {
                (phase.sure_to, phase.maybe_to) = (begun, now() + SECOND);
            }
        }
    }
}

/// Returns the time after which a run of a job with this mode counts as missed.
pub(crate) fn late_after(catch_up: &str) -> Micros {
    MODES.iter().find(|(mode, ..)| *mode == catch_up).map_or(0, |mode| mode.2 * SECOND)
}
