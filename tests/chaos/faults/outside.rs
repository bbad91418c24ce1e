//! F22: jobs suffer from outside, or harm their host.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use super::{Fault, harmless};
use crate::evidence::{Harm, KILLED, SECOND, now};
use crate::stage::Stage;
use crate::world::adding::add;
use crate::world::jobs::{Job, forking};

/// F22: processes of jobs are killed one by one, as a kernel out of memory does.
pub(super) struct KillJobs {
    rng: Rng,
}

impl KillJobs {
    pub(super) fn draw(rng: &mut Rng, _nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { rng: rng.fork() })
    }
}

impl Fault for KillJobs {
    fn row(&self) -> &'static str {
        "F22"
    }
    fn what(&self) -> String {
        "kill -9 of jobs, one each half second".to_owned()
    }
    fn lasts(&self) -> Duration {
        Duration::from_secs(1)
    }
    fn harm(&self) -> Harm {
        // Each killed attempt is reported in `effects` as a failed one.
        harmless()
    }
    fn inflict(&mut self, stage: &Stage) {
        for _ in 0..8 {
            let jobs: Vec<i32> = stage
                .marked_processes()
                .into_iter()
                .filter_map(|(pid, line)| is_job(&line).then_some(pid))
                .collect();
            if !jobs.is_empty() {
                kill(stage, jobs[self.rng.usize(..jobs.len())]);
            }
            if stage.pause(Duration::from_millis(500)).is_err() {
                return;
            }
        }
    }
    fn heal(&mut self, _stage: &Stage) {}
}

/// Returns true if this is the process of an attempt, not one that it left behind or that will
/// become it.
fn is_job(line: &str) -> bool {
    line.contains("job.bash")
        && ![" ghost ", " fork ", " poison "].iter().any(|what| line.contains(what))
}

/// Kills the process and reports its end in its place, unless the process reported its end itself.
fn kill(stage: &Stage, pid: i32) {
    let environ = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
    let value = |name: &str| {
        environ.split('\0').find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='))
    };
    let reported = ["SCHEDD_RUN_ID", "SCHEDD_ATTEMPT", "SCHEDD_FENCE", "SCHEDD_NODE"].map(value);
    let [Some(run), Some(attempt), Some(fence), Some(node)] = reported else { return };
    let effects = stage.dir().join("effects");
    let has_reported = |word: &str| {
        let start = format!("{word} {run} {attempt} {fence} ");
        fs::read_to_string(&effects).unwrap().lines().any(|line| line.starts_with(&start))
    };
    let Some(process) = Pid::from_raw(pid) else { return };
    // While stopped, the process can neither begin nor end.
    let _ = kill_process(process, Signal::STOP);
    let is_stopped =
        || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "));
    let _ = stage.wait(Duration::from_millis(500), is_stopped);
    if !is_stopped() || !has_reported("B") || has_reported("E") {
        let _ = kill_process(process, Signal::CONT);
        return;
    }
    let line = format!("E {run} {attempt} {fence} {node} {pid} {} 0 {KILLED} -\n", now());
    if kill_process(process, Signal::KILL).is_ok() {
        OpenOptions::new().append(true).open(effects).unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// F22: a job starts 300 processes and leaves them behind.
pub(super) struct ForkStorm {
    number: u32,
    added: Vec<Job>,
}

impl ForkStorm {
    pub(super) fn draw(rng: &mut Rng, _nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { number: rng.u32(..), added: Vec::new() })
    }
}

impl Fault for ForkStorm {
    fn row(&self) -> &'static str {
        "F22"
    }
    fn what(&self) -> String {
        "a job starts 300 processes and leaves them behind".to_owned()
    }
    fn lasts(&self) -> Duration {
        Duration::from_secs(6)
    }
    fn harm(&self) -> Harm {
        harmless()
    }
    fn jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.added)
    }
    fn inflict(&mut self, stage: &Stage) {
        self.added = vec![forking(&format!("forking-{}", self.number), 300, now() + SECOND)];
        add(stage, &mut self.added);
    }
    fn heal(&mut self, _stage: &Stage) {}
}
