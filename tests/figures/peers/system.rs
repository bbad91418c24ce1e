//! The systems that are measured: how jobs get into them, and how their workers start and end.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::until;
use crate::{PATIENCE, add_lines, ended};

/// schedd, the floor, or a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum System {
    Schedd,
    Floor,
    Bullmq,
    Celery,
    Sidekiq,
    Apalis,
}

/// A one-shot: its due time in milliseconds since 1970, and `command`, `shell` or `http` as in a definition of schedd.
pub(super) struct Job {
    pub(super) at: i64,
    pub(super) action: Value,
}

/// A running worker. It is killed and awaited on drop, with all its descendants.
pub(super) enum Worker {
    Node(Box<Schedd>, Eye),
    Peer(Child, TempDir),
}

impl System {
    pub(super) const ALL: [Self; 6] =
        [Self::Schedd, Self::Floor, Self::Bullmq, Self::Celery, Self::Sidekiq, Self::Apalis];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Schedd => "schedd",
            Self::Floor => "floor",
            Self::Bullmq => "BullMQ",
            Self::Celery => "Celery",
            Self::Sidekiq => "Sidekiq",
            Self::Apalis => "apalis",
        }
    }

    /// Returns its version, or the reason why it is not installed. `script/bench` writes both to a file.
    pub(super) fn version(self) -> Result<String, String> {
        if matches!(self, Self::Schedd | Self::Floor) {
            return Ok(String::new());
        }
        let versions = fs::read_to_string(packages().join("versions")).unwrap_or_default();
        let found =
            versions.lines().find_map(|line| line.strip_prefix(&format!("{} ", self.name())));
        match found.map(|text| (text, text.strip_prefix("not installed: "))) {
            Some((_, Some(reason))) => Err(reason.to_owned()),
            Some((version, None)) => Ok(version.to_owned()),
            None => Err("script/bench did not try it".to_owned()),
        }
    }

    /// Returns the jobs that it surely adds in a second, also on a busy machine.
    fn adds_a_second(self) -> usize {
        if self == Self::Celery { 1_000 } else { 5_000 }
    }

    /// Returns a time that leaves enough milliseconds to add `count` jobs before it.
    pub(super) fn lead(self, count: usize) -> i64 {
        i64::try_from(3_000 + count * 1_000 / self.adds_a_second()).unwrap()
    }

    /// Adds jobs through one client, in bulk where the system can. Returns the time of adding: of `schedctl` as a whole, and of a peer
    /// without the start of its program and the reading of its input.
    pub(super) fn add(self, redis: &TestRedis, prefix: &str, jobs: &[Job]) -> Duration {
        if self != Self::Schedd {
            return self.add_by_peer(redis, None, jobs);
        }
        let mut lines = String::new();
        for (number, job) in jobs.iter().enumerate() {
            let mut line = job.action.clone();
            line["name"] = json!(format!("{prefix}{number}"));
            line["at"] = json!(jiff::Timestamp::from_millisecond(job.at).unwrap().to_string());
            writeln!(lines, "{line}").unwrap();
        }
        add_lines(redis, &lines)
    }

    /// Adds jobs by the program of a peer, in bulk, or one by one if there are callers. Returns the time of adding.
    pub(super) fn add_by_peer(
        self,
        redis: &TestRedis,
        callers: Option<usize>,
        jobs: &[Job],
    ) -> Duration {
        let mut lines = String::new();
        for job in jobs {
            writeln!(lines, "{}", json!({"at": job.at, "action": job.action})).unwrap();
        }
        let mut command = self.program(redis, "add");
        command.args(callers.map(|callers| callers.to_string()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{} could not add", self.name());
        Duration::from_secs_f64(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap())
    }

    /// Starts a worker and waits until it is ready. `mode` is `handle` for handlers that do nothing, and otherwise `work`.
    pub(super) fn start(self, redis: &TestRedis, mode: &str) -> Worker {
        if self == Self::Schedd {
            let node = Schedd::on(redis).start();
            node.wait_for_log("Started.");
            return Worker::Node(Box::new(node), Eye::on(redis));
        }
        let dir = tempfile::tempdir().unwrap();
        let mut command = self.program(redis, mode);
        command.env("PEER_ENDS", ends_file(&dir)).stdin(Stdio::null()).stdout(Stdio::null());
        let worker = Worker::Peer(command.spawn().unwrap(), dir);
        until("the peer's worker is ready", PATIENCE, || worker.reported().into_iter().next());
        worker
    }

    /// Returns a call of a peer's program, which lies beside this file.
    pub(super) fn program(self, redis: &TestRedis, mode: &str) -> Command {
        let (program, file) = match self {
            Self::Bullmq => ("node".into(), Some("bullmq_worker.mjs")),
            Self::Celery => (packages().join("python/bin/python"), Some("celery_worker.py")),
            Self::Sidekiq => ("ruby".into(), Some("sidekiq_worker.rb")),
            Self::Apalis => (packages().join("apalis/target/release/peer-apalis"), None),
            Self::Schedd | Self::Floor => unreachable!("no peer"),
        };
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/figures/peers");
        let mut command = Command::new(program);
        command
            .args(file.map(|file| dir.join(file)))
            .arg(mode)
            .env("PEER_PACKAGES", packages())
            .env("PEER_SOCKET", redis.url().trim_start_matches("unix://"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONWARNINGS", "ignore");
        command
    }
}

impl Worker {
    /// Starts a program as a worker. Each line that it prints is a report of the worker.
    pub(super) fn printing(command: &mut Command) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(ends_file(&dir)).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Self::Peer(command.spawn().unwrap(), dir)
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Node(node, _) => node.pid(),
            Self::Peer(child, _) => child.id(),
        }
    }

    /// Returns what a peer's worker has reported: `ready`, then the end of each job that started a process, or of the last handler.
    pub(super) fn reported(&self) -> Vec<String> {
        let Self::Peer(_, dir) = self else { return Vec::new() };
        fs::read_to_string(ends_file(dir)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Returns the time at which the last of `count` reported jobs had ended, in milliseconds since 1970.
    pub(super) fn last_end(&self, count: usize) -> Option<f64> {
        if let Self::Node(_, eye) = self {
            let stats = eye.ask(eye.store().read_stats()).unwrap();
            let is_done = stats.totals.get("succeeded").is_some_and(|done| *done >= count as u64);
            #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
            return is_done.then(|| ended(eye, 1)[0].finished_at.unwrap().as_i64() as f64);
        }
        let reported = self.reported();
        let ends = reported.iter().skip(1).map(|line| line.parse().unwrap());
        (reported.len() > count).then(|| ends.fold(0.0, f64::max))
    }

    /// Returns the CPU ticks of 10 ms that its processes have used, and their resident KiB (proc(5)).
    pub(super) fn usage(&self) -> (u64, u64) {
        descendants(self.pid()).into_iter().fold((0, 0), |(ticks, kib), pid| {
            let read =
                |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let stat = read("stat");
            let fields: Vec<u64> = stat.rsplit_once(") ").map_or_else(Vec::new, |(_, rest)| {
                rest.split(' ').map(|field| field.parse().unwrap_or(0)).collect()
            });
            let status = read("status");
            let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let resident =
                resident.map_or(0, |text| text.trim().trim_end_matches(" kB").parse().unwrap());
            (ticks + fields.get(11..13).map_or(0, |used| used.iter().sum::<u64>()), kib + resident)
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Self::Peer(child, _) = self {
            for pid in descendants(child.id())
                .into_iter()
                .filter_map(|pid| Pid::from_raw(pid.cast_signed()))
            {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}

/// Returns this process and all processes below it.
fn descendants(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads
        .map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let children: Vec<u32> = children
        .flat_map(|text| {
            text.split_whitespace().map(|child| child.parse().unwrap()).collect::<Vec<_>>()
        })
        .collect();
    std::iter::once(pid).chain(children.into_iter().flat_map(descendants)).collect()
}

fn ends_file(dir: &TempDir) -> PathBuf {
    dir.path().join("ends")
}

/// The folder into which `script/bench` installs the peers.
pub(super) fn packages() -> PathBuf {
    std::env::var_os("SCHEDD_PEERS").expect("script/bench sets SCHEDD_PEERS").into()
}
