//! A `schedd` of a test's own, with its own HOME, state and jobs file, and its log in a file.
//! On drop it is killed and awaited, with the private redis-server it may have left.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::redis::TestRedis;
use super::wait::{LONG, until};

/// The settings of a daemon to start.
pub(crate) struct ScheddBuilder {
    program: PathBuf,
    args: Vec<String>,
    vars: Vec<(String, String)>,
    jobs: Option<String>,
    outputs: Option<OwnedFd>,
}

/// A running daemon.
pub(crate) struct Schedd {
    dir: TempDir,
    command: Command,
    child: Child,
}

impl Schedd {
    /// A daemon on `redis`.
    pub(crate) fn on(redis: &TestRedis) -> ScheddBuilder {
        Self::at(&redis.url())
    }

    /// A daemon on the Redis at this URL.
    pub(crate) fn at(url: &str) -> ScheddBuilder {
        Self::with_private_redis().arg("--redis", url)
    }

    /// A daemon without a given Redis, which starts its own.
    pub(crate) fn with_private_redis() -> ScheddBuilder {
        ScheddBuilder {
            program: env!("CARGO_BIN_EXE_schedd").into(),
            args: Vec::new(),
            vars: Vec::new(),
            jobs: None,
            outputs: None,
        }
    }

    /// The path of its jobs file, even if it was started without jobs.
    pub(crate) fn jobs_file(&self) -> PathBuf {
        jobs_file(&self.dir)
    }

    /// The daemon's `$XDG_STATE_HOME`; its state is in `schedd` below.
    pub(crate) fn state_home(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Returns its whole log.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(log_file(&self.dir)).unwrap()).into_owned()
    }

    /// Waits until it has logged a line with `text` and returns the line.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, text: &str) -> String {
        let find = || self.log().lines().find(|line| line.contains(text)).map(str::to_owned);
        if let Some(line) = find() {
            return line;
        }
        until(
            &format!("schedd logs {text:?}; its log is in {}", self.dir.path().display()),
            LONG,
            find,
        )
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the process id of its keeper. Waits for it, because a node starts a keeper again.
    pub(crate) fn keeper(&self) -> Pid {
        until("the node has a keeper", LONG, || {
            let keepers = keepers_of(self.pid());
            let number = keepers.first().and_then(|dir| dir.strip_prefix("/proc/")?.parse().ok());
            number.and_then(Pid::from_raw)
        })
    }

    pub(crate) fn term(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn hup(&self) {
        self.signal(Signal::HUP);
    }

    /// Kills the daemon as a crash would and waits for its end.
    pub(crate) fn kill9(&mut self) {
        self.signal(Signal::KILL);
        self.wait_exit();
    }

    /// Starts the daemon again, with the same arguments, files and state. It must have ended. The
    /// log continues.
    pub(crate) fn start_again(&mut self) {
        assert!(self.child.try_wait().unwrap().is_some(), "schedd still runs");
        self.child = spawn(&mut self.command, &self.dir);
    }

    /// Sends a signal. After SIGSTOP all threads stand still: each goes on until the kernel stops it.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        if signal == Signal::STOP {
            let threads = format!("/proc/{}/task", self.child.id());
            until("all threads stand still", LONG, || {
                let mut threads = fs::read_dir(&threads).into_iter().flatten().flatten();
                threads.all(|thread| stands_still(&thread.path())).then_some(())
            });
        }
    }

    /// Sends a signal to a daemon that may have ended.
    #[allow(dead_code, reason = "the chaos test's")]
    pub(crate) fn signal_if_alive(&mut self, signal: Signal) {
        if self.has_ended().is_none() {
            self.signal(signal);
        }
    }

    /// Returns its exit status if it has ended.
    #[allow(dead_code, reason = "the chaos test's")]
    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Returns its keepers: one, or none for a moment after a keeper's death.
    #[allow(dead_code, reason = "the chaos test's")]
    pub(crate) fn keepers(&self) -> Vec<Pid> {
        keepers_of(self.pid())
            .iter()
            .filter_map(|dir| Pid::from_raw(dir.rsplit('/').next()?.parse().ok()?))
            .collect()
    }

    /// Waits for the end of the daemon.
    #[track_caller]
    pub(crate) fn wait_exit(&mut self) -> ExitStatus {
        until("schedd ends", Duration::from_secs(60), || self.child.try_wait().unwrap())
    }
}

impl ScheddBuilder {
    pub(crate) fn namespace(self, namespace: &str) -> Self {
        self.arg("--namespace", namespace)
    }

    pub(crate) fn node(self, node: &str) -> Self {
        self.arg("--node", node)
    }

    /// Sets the text of its `jobs.toml`.
    pub(crate) fn jobs(mut self, toml: &str) -> Self {
        self.jobs = Some(toml.to_owned());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Replaces the program that is started.
    pub(crate) fn played_by(mut self, program: &Path) -> Self {
        program.clone_into(&mut self.program);
        self
    }

    /// Sends its standard output and error there instead of to the log.
    pub(crate) fn outputs(mut self, to: OwnedFd) -> Self {
        self.outputs = Some(to);
        self
    }

    fn arg(mut self, flag: &str, value: &str) -> Self {
        self.args.extend([flag.to_owned(), value.to_owned()]);
        self
    }

    pub(crate) fn start(mut self) -> Schedd {
        let dir = tempfile::Builder::new().prefix("schedd-test-").tempdir_in("/tmp").unwrap();
        if let Some(toml) = self.jobs.take() {
            fs::write(jobs_file(&dir), toml).unwrap();
            self = self.arg("--jobs", jobs_file(&dir).to_str().unwrap());
        }
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", dir.path())
            .env("XDG_STATE_HOME", dir.path().join("state"))
            .envs(self.vars)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = match self.outputs {
            Some(to) => {
                fs::write(log_file(&dir), "").unwrap();
                let child = command.stdout(to.try_clone().unwrap()).stderr(to).spawn().unwrap();
                // The command would keep the descriptors open.
                command.stdout(Stdio::null()).stderr(Stdio::null());
                child
            }
            None => spawn(&mut command, &dir),
        };
        Schedd { dir, command, child }
    }
}

impl Drop for Schedd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of schedd pid {}\n{}", self.pid(), self.log());
        }
        let keepers = keepers_of(self.pid());
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Ending keepers write their last report into the directory that is about to be deleted.
        let end = Instant::now() + LONG;
        while keepers.iter().any(|keeper| lives(keeper)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        end_private_server(&self.state_home().join("schedd"));
    }
}

/// Returns the `/proc` directories of the keepers of a daemon or a worker.
pub(crate) fn keepers_of(pid: u32) -> Vec<String> {
    // A new keeper is the child of whichever thread started it.
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children: String = threads
        .map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default())
        .collect();
    let is_keeper = |dir: &String| {
        fs::read_to_string(format!("{dir}/comm")).is_ok_and(|name| name.trim() == "schedd-keeper")
    };
    children.split_whitespace().map(|child| format!("/proc/{child}")).filter(is_keeper).collect()
}

/// Returns true if the process lives. A zombie, whoever inherited it, counts as ended.
fn lives(dir: &str) -> bool {
    fs::read_to_string(format!("{dir}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Returns true if the thread of this directory below `/proc` is stopped or has ended.
fn stands_still(dir: &Path) -> bool {
    let stat = fs::read_to_string(dir.join("stat"));
    stat.is_ok_and(|stat| [") T ", ") Z ", ") X "].iter().any(|state| stat.contains(state)))
        || !dir.exists()
}

fn spawn(command: &mut Command, dir: &TempDir) -> Child {
    let log = File::options().create(true).append(true).open(log_file(dir)).unwrap();
    command.stderr(log).spawn().unwrap()
}

fn log_file(dir: &TempDir) -> PathBuf {
    dir.path().join("log")
}

fn jobs_file(dir: &TempDir) -> PathBuf {
    dir.path().join("jobs.toml")
}

/// Kills the private server of a state directory, if one runs.
/// That is the process in its pid file, if the process works in that directory.
pub(crate) fn end_private_server(state_dir: &Path) {
    let Ok(text) = fs::read_to_string(state_dir.join("redis.pid")) else { return };
    let process = Path::new("/proc").join(text.trim());
    let works_there =
        || Some(fs::read_link(process.join("cwd")).ok()? == state_dir.canonicalize().ok()?);
    if works_there() == Some(true)
        && let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw)
    {
        let _ = kill_process(pid, Signal::KILL);
        until("the private redis-server ends", LONG, || {
            (works_there() != Some(true)).then_some(())
        });
    }
}
