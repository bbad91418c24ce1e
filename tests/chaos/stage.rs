//! The stage: a Redis with an append-only file, nodes that reach it through a proxy each, and the
//! hub that restarts dead nodes.
//! Everything lives below one directory and ends when the stage is dropped, also after a panic or
//! Ctrl-C.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::evidence::{Micros, now};
use crate::proxy::Proxy;
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::worker::{Worker, api_socket};
use crate::world::grounds::{Footing, Grounds};
use crate::world::jobs::with_shards;

/// The error after Ctrl-C: whoever waits gives up.
#[derive(Debug)]
pub(crate) struct Interrupted;

/// The place where a trial happens.
pub(crate) struct Stage {
    dir: PathBuf,
    redis: Mutex<TestRedis>,
    redis_url: String,
    nodes: Vec<Node>,
    workers: Vec<Worker>,
    /// The number of shards of the namespace.
    shards: u32,
    deaths: Mutex<Vec<Death>>,
    jobs_text: Mutex<JobsText>,
    interrupted: Arc<AtomicBool>,
    is_over: AtomicBool,
}

/// The content of `jobs.toml` on every node.
#[derive(Default)]
struct JobsText {
    shards: u32,
    main: String,
    /// The sections after the main text, by the name of a job.
    sections: BTreeMap<String, String>,
}

/// One node of the stage.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) proxy: Proxy,
    daemon: Mutex<Schedd>,
    /// True while a fault keeps it down: the hub leaves it alone.
    is_held: AtomicBool,
    /// The environment of the node; dropped last.
    footing: Footing,
}

/// The death of a node or worker that no fault caused.
#[derive(Debug, Clone)]
pub(crate) struct Death {
    pub(crate) node: String,
    pub(crate) at: Micros,
    pub(crate) again: Micros,
    pub(crate) how: String,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stage {
    /// Sets the stage on these grounds, with nodes that have this `jobs.toml`.
    pub(crate) fn set(
        grounds: Grounds,
        jobs: &str,
        mutant: Option<&str>,
        interrupted: Arc<AtomicBool>,
    ) -> Self {
        let Grounds { dir, nodes: footings, workers, apps, shards, lease, .. } = grounds;
        let jobs_text = JobsText { shards, main: jobs.to_owned(), sections: BTreeMap::new() };
        let dir = &*dir;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(dir.join("job.bash"), include_str!("job.bash")).unwrap();
        fs::write(dir.join("work.bash"), include_str!("work.bash")).unwrap();
        fs::write(dir.join("effects"), "").unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.join("never"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let redis = TestRedis::with_clock(0);
        let redis_url = redis.url();
        let jobs = jobs_text.whole();
        let start = |(at, footing)| {
            Node::start(&format!("n{}", at + 1), dir, &redis_url, &jobs, mutant, footing)
        };
        let nodes: Vec<Node> = footings.into_iter().enumerate().map(start).collect();
        let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
        let pulling = (0..workers).map(|number| Worker::pulling(number, dir, &names, lease));
        let apps = (0..apps).map(|number| Worker::app(number, dir, &redis_url, lease));
        let workers = pulling.chain(apps).collect();
        Self {
            dir: dir.to_owned(),
            redis: Mutex::new(redis),
            redis_url,
            nodes,
            workers,
            shards,
            deaths: Mutex::default(),
            jobs_text: Mutex::new(jobs_text),
            interrupted,
            is_over: AtomicBool::new(false),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// Returns the places of jobs: the namespace itself as `None`, and its shards.
    pub(crate) fn places(&self) -> impl Iterator<Item = Option<u32>> {
        std::iter::once(None).chain((0..self.shards).map(Some))
    }

    pub(crate) fn redis(&self) -> MutexGuard<'_, TestRedis> {
        locked(&self.redis)
    }

    /// Returns the content of `jobs.toml` on every node.
    pub(crate) fn jobs_text(&self) -> String {
        locked(&self.jobs_text).whole()
    }

    /// Writes the main text of `jobs.toml` on every node and reloads it. The sections of single
    /// jobs stay.
    pub(crate) fn write_jobs(&self, text: &str) {
        self.change_jobs(|kept| text.clone_into(&mut kept.main));
    }

    /// Writes or removes the section of one job.
    pub(crate) fn write_section(&self, job: &str, text: Option<String>) {
        self.change_jobs(|kept| match text {
            Some(text) => drop(kept.sections.insert(job.to_owned(), text)),
            None => drop(kept.sections.remove(job)),
        });
    }

    /// Writes the present content once more.
    pub(crate) fn rewrite_jobs(&self) {
        self.change_jobs(|_| ());
    }

    fn change_jobs(&self, change: impl FnOnce(&mut JobsText)) {
        let mut kept = locked(&self.jobs_text);
        change(&mut kept);
        let text = &kept.whole();
        for node in &self.nodes {
            let file = node.daemon().jobs_file();
            let new = file.with_extension("new");
            fs::write(&new, node.footing.file_of(text)).unwrap();
            fs::rename(new, file).unwrap();
            node.daemon().signal_if_alive(Signal::HUP);
        }
    }

    /// Returns the URL of Redis without a proxy, which no fault hits.
    pub(crate) fn redis_url(&self) -> &str {
        &self.redis_url
    }

    /// Sleeps for this time, unless the trial is interrupted.
    pub(crate) fn pause(&self, length: Duration) -> Result<(), Interrupted> {
        let end = Instant::now() + length;
        loop {
            if self.interrupted.load(Ordering::SeqCst) {
                return Err(Interrupted);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }

    /// Waits for `probe`. Returns false if it did not return true within `limit`.
    pub(crate) fn wait(
        &self,
        limit: Duration,
        mut probe: impl FnMut() -> bool,
    ) -> Result<bool, Interrupted> {
        let end = Instant::now() + limit;
        while !probe() {
            if Instant::now() >= end {
                return Ok(false);
            }
            self.pause(Duration::from_millis(50))?;
        }
        Ok(true)
    }

    /// Returns true if the stage is about to be cleared, so that whoever acts on it must stop.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst) || self.interrupted.load(Ordering::SeqCst)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Restarts dead nodes and workers until the stage is over.
    pub(crate) fn resurrect(&self) {
        while !self.is_over() {
            for node in &self.nodes {
                if node.is_held.load(Ordering::SeqCst) {
                    continue;
                }
                let Some(how) = node.daemon().has_ended() else { continue };
                if node.is_held.load(Ordering::SeqCst) {
                    continue;
                }
                let at = now();
                std::thread::sleep(Duration::from_millis(300));
                node.start_again(&self.dir);
                locked(&self.deaths).push(Death {
                    node: node.name.clone(),
                    at,
                    again: now(),
                    how: how.to_string(),
                });
            }
            for worker in &self.workers {
                let Some(how) = worker.has_ended().filter(|_| !worker.is_held()) else { continue };
                let at = now();
                worker.start_again();
                let (node, how) = (worker.name.clone(), how.to_string());
                locked(&self.deaths).push(Death { node, at, again: now(), how });
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the deaths that no fault caused.
    pub(crate) fn deaths(&self) -> Vec<Death> {
        locked(&self.deaths).clone()
    }

    /// Returns the processes that carry this stage's mark: daemons, keepers, jobs, and what those
    /// left behind.
    pub(crate) fn marked_processes(&self) -> Vec<(i32, String)> {
        let mark = format!("CHAOS={}", self.dir.display());
        let pids = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<i32>().ok());
        let is_ours = |pid: &i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let shown = |pid: i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            (pid, String::from_utf8_lossy(&line).replace('\0', " "))
        };
        pids.filter(is_ours).map(shown).collect()
    }

    /// Copies the logs of the nodes into the directory that is kept.
    pub(crate) fn keep_logs(&self) {
        for node in &self.nodes {
            fs::write(self.dir.join(format!("{}.log", node.name)), node.daemon().log()).unwrap();
        }
    }
}

impl JobsText {
    fn whole(&self) -> String {
        let text = self.sections.values().fold(self.main.clone(), |text, section| text + section);
        with_shards(&text, self.shards)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.end();
        // A process that a fault stopped must be able to die.
        self.redis().stop_signal_if_alive(Signal::CONT);
        self.keep_logs();
        for worker in &self.workers {
            worker.kill();
        }
        for node in &self.nodes {
            node.daemon().signal_if_alive(Signal::KILL);
        }
        // Keepers kill their own processes. Processes that escaped them, or are stopped, are killed
        // here.
        let end = Instant::now() + Duration::from_secs(5);
        while !self.marked_processes().is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        for (pid, _) in self.marked_processes() {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Node {
    fn start(
        name: &str,
        dir: &Path,
        redis_url: &str,
        jobs: &str,
        mutant: Option<&str>,
        footing: Footing,
    ) -> Self {
        let proxy = Proxy::to(redis_url, footing.address.unwrap_or(Ipv4Addr::LOCALHOST));
        let mut builder = Schedd::at(&proxy.url())
            .node(name)
            .jobs(&footing.file_of(jobs))
            .env("SCHEDD_API", &format!("unix:{}", api_socket(dir, name).display()))
            .env("CHAOS", dir.to_str().unwrap());
        builder = builder.played_by(&footing.starter(dir, name));
        for (variable, value) in &footing.vars {
            builder = builder.env(variable, value);
        }
        if let Some(mutant) = mutant {
            builder = builder.env("SCHEDD_MUTANT", mutant);
        }
        let mut daemon = builder.start();
        await_hup_handler(&mut daemon);
        let daemon = Mutex::new(daemon);
        let node =
            Self { name: name.to_owned(), proxy, daemon, is_held: AtomicBool::new(false), footing };
        node.report_pid(dir);
        node
    }

    pub(crate) fn daemon(&self) -> MutexGuard<'_, Schedd> {
        locked(&self.daemon)
    }

    /// Tells the hub that the node may be down until [`Node::start_again`].
    pub(crate) fn hold(&self) {
        self.is_held.store(true, Ordering::SeqCst);
    }

    /// Starts the node again if it is down.
    pub(crate) fn start_again(&self, dir: &Path) {
        let mut daemon = self.daemon();
        if daemon.has_ended().is_some() {
            daemon.start_again();
            await_hup_handler(&mut daemon);
        }
        drop(daemon);
        self.report_pid(dir);
        self.is_held.store(false, Ordering::SeqCst);
    }

    /// Writes the pid for the poisonous job, which kills its node.
    fn report_pid(&self, dir: &Path) {
        let file = dir.join(format!("pid.{}", self.name));
        let new = dir.join(format!("pid.{}.new", self.name));
        fs::write(&new, self.daemon().pid().to_string()).unwrap();
        fs::rename(new, file).unwrap();
    }
}

/// Waits until a daemon has its signal handlers. A SIGHUP before that time would end the daemon.
fn await_hup_handler(daemon: &mut Schedd) {
    let end = Instant::now() + Duration::from_secs(5);
    while !takes_hup(daemon.pid()) && daemon.has_ended().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns true if a process has a handler for HUP: the lowest bit of the signals it catches.
fn takes_hup(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    caught.is_some_and(|set| set & 1 == 1)
}

/// Returns a call of `schedctl` on this stage's Redis.
pub(crate) fn schedctl(stage: &Stage, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedctl"));
    command
        .args(args)
        .env_clear()
        .env("HOME", stage.dir())
        .env("SCHEDD_REDIS_URL", stage.redis_url())
        .env("TZ", "UTC")
        .current_dir(stage.dir())
        .stdin(std::process::Stdio::null());
    command
}
