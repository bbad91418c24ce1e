//! One worker of the stage: `schedctl work`, which reaches the nodes through a proxy of its own, or an
//! app, which reaches Redis so.

use std::fs;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

use crate::app;
use crate::evidence::{Micros, SECOND};
use crate::proxy::Proxy;
use crate::support::daemon::keepers_of;
use crate::world::pulled::{HANDLER, QUEUE};

/// The beginning of the names of workers that ask the nodes, as history shows them.
pub(crate) const WORKER: &str = "worker:";
/// The beginning of the names of apps.
const APP: &str = "app";
/// The number of runs that a worker has at once.
pub(crate) const SLOTS: usize = 3;

/// The kind of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crew {
    /// `schedctl work`, which asks the nodes for runs.
    Pulling,
    /// A program with handlers of the Rust library, which is a node itself.
    Apps,
}

impl Crew {
    /// Returns the name of the worker of this number, as history shows it.
    pub(crate) fn name(self, number: usize) -> String {
        match self {
            Self::Pulling => format!("{WORKER}w{}", number + 1),
            Self::Apps => format!("{APP}{}", number + 1),
        }
    }

    /// Returns true if a worker of this kind has this name.
    pub(crate) fn has(self, name: &str) -> bool {
        name.starts_with(match self {
            Self::Pulling => WORKER,
            Self::Apps => APP,
        })
    }
}

/// A worker of the stage.
pub(crate) struct Worker {
    pub(crate) crew: Crew,
    /// The name as history shows it.
    pub(crate) name: String,
    pub(crate) proxy: Proxy,
    command: Mutex<Command>,
    process: Mutex<Child>,
    /// True while a fault keeps it down: the hub leaves it alone.
    is_held: AtomicBool,
    log: PathBuf,
}

/// Returns the path of the socket of a node's API.
pub(crate) fn api_socket(dir: &Path, node: &str) -> PathBuf {
    dir.join(format!("api.{node}"))
}

impl Worker {
    /// Starts a `schedctl work` of this number, which begins with the node of the same number.
    pub(crate) fn pulling(number: usize, dir: &Path, nodes: &[String], lease: Micros) -> Self {
        let mut sockets: Vec<PathBuf> = nodes.iter().map(|node| api_socket(dir, node)).collect();
        sockets.rotate_left(number % nodes.len());
        let proxy = Proxy::between(sockets, Ipv4Addr::LOCALHOST);
        let name = Crew::Pulling.name(number);
        let short = name.trim_start_matches(WORKER);
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedctl"));
        let (slots, lease) = (SLOTS.to_string(), format!("{}s", lease / SECOND));
        command
            .args(["--api", &format!("http://{}", proxy.address()), "work", "--queue", QUEUE])
            .args(["--handlers", HANDLER, "--name", short, "--slots", &slots, "--lease", &lease])
            .args(["--", "/bin/bash"])
            .args([&dir.join("work.bash"), dir])
            .arg(&name);
        let log = dir.join(format!("{short}.log"));
        Self::start(Crew::Pulling, name, proxy, command, dir, log)
    }

    /// Starts the app of this number.
    pub(crate) fn app(number: usize, dir: &Path, redis_url: &str, lease: Micros) -> Self {
        let proxy = Proxy::to(redis_url, Ipv4Addr::LOCALHOST);
        let name = Crew::Apps.name(number);
        // This very program, also if its file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg("--app").arg(dir).args([&proxy.url(), &name, &(lease / SECOND).to_string()]);
        let log = dir.join(format!("{name}.log"));
        Self::start(Crew::Apps, name, proxy, command, dir, log)
    }

    fn start(
        crew: Crew,
        name: String,
        proxy: Proxy,
        mut command: Command,
        dir: &Path,
        log: PathBuf,
    ) -> Self {
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", dir)
            .env("CHAOS", dir)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let process = spawn(&mut command, &log);
        Self {
            crew,
            name,
            proxy,
            command: Mutex::new(command),
            process: Mutex::new(process),
            is_held: AtomicBool::new(false),
            log,
        }
    }

    fn process(&self) -> MutexGuard<'_, Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process())
    }

    /// Returns its keepers: one, or none after its death.
    pub(crate) fn keepers(&self) -> Vec<Pid> {
        let dirs = keepers_of(self.process().id());
        dirs.iter().filter_map(|dir| Pid::from_raw(dir.rsplit('/').next()?.parse().ok()?)).collect()
    }

    pub(crate) fn signal_if_alive(&self, signal: Signal) {
        let mut process = self.process();
        if matches!(process.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&process), signal);
        }
    }

    /// Returns its exit status if it has ended.
    pub(crate) fn has_ended(&self) -> Option<ExitStatus> {
        self.process().try_wait().unwrap()
    }

    /// Tells the hub that the worker may be down until [`Worker::start_again`].
    pub(crate) fn hold(&self) {
        self.is_held.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::SeqCst)
    }

    /// Kills it, and waits for its end.
    pub(crate) fn kill(&self) {
        self.hold();
        let mut process = self.process();
        let _ = process.kill();
        let _ = process.wait();
    }

    /// Starts the worker again if it is down.
    pub(crate) fn start_again(&self) {
        let mut process = self.process();
        if process.try_wait().unwrap().is_some() {
            let mut command = self.command.lock().unwrap_or_else(PoisonError::into_inner);
            *process = spawn(&mut command, &self.log);
        }
        drop(process);
        self.is_held.store(false, Ordering::SeqCst);
    }

    /// Returns how many ends of runs it reported that were refused as stale.
    pub(crate) fn refused(&self) -> usize {
        self.logged(match self.crew {
            Crew::Pulling => "was refused: stale",
            Crew::Apps => app::REFUSED,
        })
    }

    /// Returns how many handlers the library stopped in it because their leases were gone.
    pub(crate) fn stopped(&self) -> usize {
        self.logged(app::STOPPED)
    }

    fn logged(&self, words: &str) -> usize {
        fs::read_to_string(&self.log).unwrap_or_default().matches(words).count()
    }
}

fn spawn(command: &mut Command, log: &Path) -> Child {
    let log = File::options().create(true).append(true).open(log).unwrap();
    command.stderr(log).spawn().unwrap()
}
