//! What a service manager hears of a real daemon on a real socket: when it is up, how it stands, that it reloads and stops, and
//! a watchdog's sign that comes only while its loops come round.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::support::daemon::{Schedd, ScheddBuilder};
use crate::support::eye::Eye;
use crate::support::host::notified::Notified;
use crate::support::host::program::write_program;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

const JOBS: &str = "[jobs.a]\ncron = \"30 2 * * *\"\nshell = \"true\"\n";
/// More than a loop may be late before it counts as stuck.
const STUCK: Duration = Duration::from_secs(7);

/// Told to `manager`, whose watchdog wants a sign each second.
fn watched(schedd: ScheddBuilder, manager: &Notified) -> ScheddBuilder {
    schedd.env("NOTIFY_SOCKET", &manager.address()).env("WATCHDOG_USEC", "1000000")
}

fn has_sign(heard: &[String]) -> bool {
    heard.iter().any(|message| message.contains("WATCHDOG=1"))
}

#[test]
fn ready_is_reported_once_the_node_is_in_redis_and_its_state_in_words() {
    let (redis, manager) = (TestRedis::start(), Notified::new());
    let mut node = watched(Schedd::on(&redis), &manager).jobs(JOBS).start();
    manager.wait_for("READY=1");
    let eye = Eye::on(&redis);
    assert_eq!(eye.ask(eye.store().list_nodes()).unwrap().1.len(), 1);
    let status = manager.wait_for("STATUS=1 job in the jobs file, no run is running, next run at ");
    assert!(status.contains(":30:00"), "{status}");
    manager.wait_for("WATCHDOG=1");
    node.term();
    manager.wait_for("STOPPING=1");
    manager.wait_for("EXTEND_TIMEOUT_USEC=");
    assert!(node.wait_exit().success());
}

#[test]
fn a_start_without_redis_counts_as_done_after_a_while_and_says_what_it_waits_for() {
    let manager = Notified::new();
    let mut node = watched(Schedd::at("unix:///tmp/schedd-test-none/redis.sock"), &manager).start();
    manager.wait_for("STATUS=Waiting for Redis: ");
    assert!(
        !manager
            .all_within(Duration::from_secs(2))
            .iter()
            .any(|message| message.contains("READY=1"))
    );
    manager.wait_for("READY=1");
    manager.wait_for("WATCHDOG=1");
    node.term();
    manager.wait_for("STOPPING=1");
    assert!(node.wait_exit().success());
}

#[test]
fn a_reload_sends_reloading_then_ready_also_when_the_file_is_refused() {
    let (redis, manager) = (TestRedis::start(), Notified::new());
    let node = watched(Schedd::on(&redis), &manager).jobs(JOBS).start();
    manager.wait_for("READY=1");
    node.hup();
    let began = manager.wait_for("RELOADING=1");
    let usec = began.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
    assert!(usec.parse::<u64>().unwrap() > 0);
    manager.wait_for("READY=1");
    fs::write(node.jobs_file(), "[jobs.a]\nshel = \"true\"\n").unwrap();
    node.hup();
    manager.wait_for("RELOADING=1");
    manager.wait_for("READY=1");
    let status = manager.wait_for("jobs.toml:2");
    assert!(
        status.starts_with("STATUS=1 job in the jobs file") && status.lines().count() == 1,
        "{status}"
    );
}

#[test]
fn a_redis_that_stands_still_is_no_reason_to_be_restarted() {
    let (redis, manager) = (TestRedis::start(), Notified::new());
    let _node = watched(Schedd::on(&redis), &manager).jobs(JOBS).start();
    manager.wait_for("READY=1");
    redis.stop_signal(Signal::STOP);
    manager.all_within(STUCK);
    let heard = manager.all_within(Duration::from_secs(2));
    redis.stop_signal(Signal::CONT);
    assert!(has_sign(&heard), "{heard:?}");
}

#[test]
fn loops_that_stand_still_are_left_to_the_watchdog_though_the_process_lives() {
    let Some(freezer) = Freezer::new() else {
        eprintln!(
            "SKIPPED: no cgroup here that freezes single threads, so no loop was made to stand still"
        );
        return;
    };
    let (redis, manager) = (TestRedis::start(), Notified::new());
    let node = watched(Schedd::on(&redis), &manager).jobs(JOBS).start();
    manager.wait_for("WATCHDOG=1");
    freezer.freeze_workers_of(node.pid());
    manager.all_within(STUCK);
    let heard = manager.all_within(Duration::from_secs(2));
    assert!(!has_sign(&heard), "{heard:?}");
    node.wait_for_log("A loop of this node hangs");
    freezer.thaw();
    manager.wait_for("WATCHDOG=1");
}

#[test]
fn what_systemd_gives_the_service_never_reaches_a_job() {
    let (redis, manager) = (TestRedis::start(), Notified::new());
    let eye = Eye::on(&redis);
    let given = [
        "LISTEN_PID",
        "LISTEN_FDS",
        "LISTEN_FDNAMES",
        "CREDENTIALS_DIRECTORY",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
    ];
    let mut node = watched(Schedd::on(&redis), &manager);
    for name in given {
        node = node.env(name, "1");
    }
    let _node = node.start();
    eye.add(&json!({"name": "env", "in": "0s", "command": ["/usr/bin/env"]}));
    let run = eye.wait_for_history("env", 1).remove(0);
    let output = eye.ask(eye.store().read_output(&run.run, 1)).unwrap().unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    assert!(names.contains("SCHEDD_JOB=env"), "{names}");
    for name in given.into_iter().chain(["NOTIFY_SOCKET", "WATCHDOG_USEC"]) {
        assert!(!names.contains(name), "{name}: {names}");
    }
}

#[test]
fn capabilities_of_the_service_never_reach_a_job() {
    let redis = TestRedis::start();
    let socket = redis.url().strip_prefix("unix://").unwrap().to_owned();
    let Some(service) =
        Service::with_capabilities(&format!("chmod 777 {socket} \"$(dirname {socket})\""))
    else {
        return;
    };
    let node = Schedd::on(&redis).played_by(&service.program()).start();
    node.wait_for_log("Started.");
    let of_node = fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    assert!(of_node.contains("CapAmb:\t00000000000000e0"), "{of_node}");
    let eye = Eye::on(&redis);
    eye.add(&json!({"name": "caps", "in": "0s", "command": ["cat", "/proc/self/status"]}));
    let run = eye.wait_for_history("caps", 1).remove(0);
    let output = eye.ask(eye.store().read_output(&run.run, 1)).unwrap().unwrap();
    assert_powerless(&String::from_utf8(output.stdout).unwrap());
}

#[test]
fn capabilities_of_the_service_never_reach_its_private_redis() {
    let Some(service) = Service::with_capabilities("true") else { return };
    // Asked for its version, and started, by what notes down who it is.
    let reported = service.dir.path().join("told");
    fs::write(&reported, "").unwrap();
    fs::set_permissions(&reported, fs::Permissions::from_mode(0o666)).unwrap();
    let server = format!(
        "#!/bin/sh\ncat /proc/self/status >>{}\nPATH=${{PATH#*:}} exec redis-server \"$@\"\n",
        reported.display()
    );
    service.write("redis-server", &server);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", service.dir.path().display());
    let node =
        Schedd::with_private_redis().played_by(&service.program()).env("PATH", &path).start();
    node.wait_for_log("Started.");
    let pid_file = node.state_home().join("schedd/redis.pid");
    let server = || fs::read_to_string(&pid_file).ok()?.trim().parse().ok().and_then(Pid::from_raw);
    let first = server().unwrap();
    kill_process(first, Signal::KILL).unwrap();
    let next = until("the server was started again", LONG, || {
        let next = server().filter(|next| *next != first)?;
        let name = fs::read_to_string(format!("/proc/{}/comm", next.as_raw_nonzero())).ok()?;
        name.starts_with("redis-server").then_some(next)
    });
    assert_powerless(
        &fs::read_to_string(format!("/proc/{}/status", next.as_raw_nonzero())).unwrap(),
    );
    // A process has the name of its script from its first instant on, before that has written anything.
    let reported = until("both were asked and started", LONG, || {
        fs::read_to_string(&reported)
            .ok()
            .filter(|reported| reported.matches("nonvoluntary_ctxt_switches").count() == 4)
    });
    reported.split("Name:").skip(1).for_each(assert_powerless);
}

#[track_caller]
fn assert_powerless(status: &str) {
    for set in ["CapPrm", "CapEff", "CapAmb"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
    }
}

/// What starts schedd as systemd does with `AmbientCapabilities=CAP_SETUID CAP_SETGID CAP_KILL` and a user of its own.
struct Service {
    dir: TempDir,
}

impl Service {
    /// Runs `before` as root first. None, said, where there is no root to give capabilities.
    fn with_capabilities(before: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root may start a service with capabilities");
            return None;
        }
        let service = Self {
            dir: tempfile::Builder::new().prefix("schedd-test-").tempdir_in("/tmp").unwrap(),
        };
        fs::set_permissions(service.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let caps = "+setuid,+setgid,+kill";
        let becomes = format!(
            "--reuid 65534 --regid 65534 --clear-groups --inh-caps {caps} --ambient-caps {caps}"
        );
        let schedd = env!("CARGO_BIN_EXE_schedd");
        service.write(
            "service",
            &format!("#!/bin/sh\nchmod 777 .\n{before}\nexec setpriv {becomes} {schedd} \"$@\"\n"),
        );
        Some(service)
    }

    fn program(&self) -> PathBuf {
        self.dir.path().join("service")
    }

    fn write(&self, name: &str, script: &str) {
        write_program(&self.dir.path().join(name), script);
    }
}

/// A cgroup of version 1 that stops single threads of a process, which no signal can.
struct Freezer(PathBuf);

impl Freezer {
    fn new() -> Option<Self> {
        let dir =
            Path::new("/sys/fs/cgroup/freezer").join(format!("schedd-test-{}", std::process::id()));
        if !Path::new("/sys/fs/cgroup/freezer/tasks").exists() {
            return None;
        }
        fs::create_dir(&dir).ok()?;
        Some(Self(dir))
    }

    fn freeze_workers_of(&self, pid: u32) {
        for thread in fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
            let name = fs::read_to_string(thread.path().join("comm")).unwrap();
            if name.starts_with("tokio") {
                fs::write(self.0.join("tasks"), thread.file_name().to_str().unwrap()).unwrap();
            }
        }
        assert!(
            !fs::read_to_string(self.0.join("tasks")).unwrap().is_empty(),
            "no thread of the runtime was found"
        );
        self.set("FROZEN");
    }

    fn thaw(&self) {
        self.set("THAWED");
    }

    fn set(&self, state: &str) {
        fs::write(self.0.join("freezer.state"), state).unwrap();
        until("the threads obey", LONG, || {
            Some(()).filter(|()| {
                fs::read_to_string(self.0.join("freezer.state")).unwrap().trim() == state
            })
        });
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("freezer.state"), "THAWED");
        for thread in fs::read_to_string(self.0.join("tasks")).unwrap_or_default().lines() {
            let _ = fs::write("/sys/fs/cgroup/freezer/tasks", thread);
        }
        let _ = fs::remove_dir(&self.0);
    }
}
