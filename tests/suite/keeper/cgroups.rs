//! A daemon in a cgroup that is delegated to it, as by `Delegate=yes`. Where this process may make no cgroup the tests say so and
//! test nothing; where there are no controllers those that need one do.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use schedd_core::domain::run::run_state::RunState;
use schedd_store::RunRecord;
use serde_json::json;

use crate::support::ctl::Schedctl;
use crate::support::daemon::{Schedd, ScheddBuilder};
use crate::support::eye::Eye;
use crate::support::host::program::write_program;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// A delegated cgroup, and a program in the daemon's place that starts it in there.
struct Plot {
    base: PathBuf,
    dir: tempfile::TempDir,
}

impl Plot {
    /// One of this test's own; none where that cannot be.
    fn new(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount = mounts
            .lines()
            .find(|line| line.contains(" - cgroup2 "))
            .and_then(|line| line.split(' ').nth(4));
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).map(str::to_owned);
        let (Some(mount), Some(own)) = (mount, own) else {
            eprintln!("not tested: no cgroups of version 2 here");
            return None;
        };
        let base =
            Path::new(mount).join(own).join(format!("schedd-test-{}-{name}", std::process::id()));
        if let Err(error) = fs::create_dir(&base) {
            eprintln!("not tested: {}: {error}", base.display());
            return None;
        }
        rustix::fs::setxattr(&base, "user.delegate", b"1", rustix::fs::XattrFlags::empty())
            .unwrap();
        Some(Self { base, dir: tempfile::tempdir().unwrap() })
    }

    /// As above, where these controllers can be handed on too.
    fn with_controllers(name: &str) -> Option<Self> {
        let plot = Self::new(name)?;
        let there = fs::read_to_string(plot.base.join("cgroup.controllers")).unwrap();
        let is_whole = ["memory", "cpu", "pids"]
            .iter()
            .all(|wanted| there.split_whitespace().any(|found| found == *wanted));
        if !is_whole {
            eprintln!(
                "not tested: the controllers memory, cpu and pids are not in {} ({})",
                plot.base.display(),
                there.trim()
            );
        }
        is_whole.then_some(plot)
    }

    fn daemon(&self, redis: &TestRedis) -> ScheddBuilder {
        let program = self.dir.path().join("schedd");
        let door = self.base.join("cgroup.procs");
        let script = format!(
            "#!/bin/sh\necho 0 >{} && exec {} \"$@\"\n",
            door.display(),
            env!("CARGO_BIN_EXE_schedd")
        );
        write_program(&program, script);
        Schedd::on(redis).played_by(&program)
    }

    /// The cgroups of runs that are there.
    fn runs(&self) -> Vec<PathBuf> {
        let below = |dir: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
        };
        let homes = below(&self.base)
            .into_iter()
            .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("runs-"));
        homes.flat_map(|home| below(&home)).collect()
    }

    /// How many processes live in it, those of the daemon left out.
    fn count(&self) -> usize {
        let count = |dir: &PathBuf| {
            fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines().count()
        };
        self.runs().iter().map(count).sum()
    }
}

impl Drop for Plot {
    fn drop(&mut self) {
        let _ = fs::write(self.base.join("cgroup.kill"), "1");
        until("the test's cgroup is empty", LONG, || {
            let events = fs::read_to_string(self.base.join("cgroup.events")).ok()?;
            events.contains("populated 0").then_some(())
        });
        for dir in self.runs() {
            let _ = fs::remove_dir(dir);
        }
        for entry in fs::read_dir(&self.base).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(&self.base);
    }
}

fn ended(eye: &Eye, job: &str) -> RunRecord {
    eye.wait_for_history(job, 1).remove(0)
}

/// Leaves a process behind that has another session, no environment and a parent that is gone, beside a run that goes on, so
/// that nothing but its cgroup tells whose it is.
const RUNAWAY: &str =
    "(setsid env -i sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' &) ; sleep 0.2";

#[test]
fn a_run_has_its_own_cgroup_that_contains_hidden_processes_and_goes_with_it() {
    let Some(plot) = Plot::new("own") else { return };
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let mut node = plot.daemon(&redis).start();
    node.wait_for_log("Each run has its own cgroup");
    eye.add(&json!({"name": "stays", "in": "0s", "command": ["sleep", "1000"]}));
    until("it runs in its cgroup", LONG, || (plot.count() == 1).then_some(()));
    eye.add(
        &json!({"name": "hides", "in": "0s", "shell": format!("{RUNAWAY}; grep ^0: /proc/self/cgroup"), "kill_grace": "100ms"}),
    );
    let run = ended(&eye, "hides");
    assert_eq!((run.state, run.left_processes), (RunState::Succeeded, true), "{run:?}");
    let output = eye.ask(eye.store().read_output(&run.run, 1)).unwrap().unwrap();
    let inside = String::from_utf8(output.stdout).unwrap();
    assert!(
        inside.contains("/runs-")
            && inside.contains(plot.base.file_name().unwrap().to_str().unwrap()),
        "{inside}"
    );
    assert_eq!(plot.count(), 1, "only the other run is left");
    until("its cgroup is removed", LONG, || (plot.runs().len() == 1).then_some(()));
    node.term();
    node.signal(rustix::process::Signal::TERM);
    node.wait_exit();
    assert_eq!(plot.runs(), Vec::<PathBuf>::new());
}

#[test]
fn runs_die_with_the_daemon_and_the_next_kills_what_a_dead_keeper_left() {
    let Some(plot) = Plot::new("dead") else { return };
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let mut node = plot.daemon(&redis).start();
    eye.add(&json!({"name": "hides", "in": "0s", "shell": format!("{RUNAWAY}; sleep 1000"), "timeout": "1h"}));
    until("it has hidden", LONG, || (plot.count() >= 3).then_some(()));
    let keeper = node.keeper();
    // Frozen first, so that neither can do anything about the death of the other.
    rustix::process::kill_process(keeper, rustix::process::Signal::STOP).unwrap();
    node.kill9();
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
    // A test beside this one may have made this process the heir of orphans, who leaves it unburied.
    until("the keeper is dead", LONG, || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", keeper.as_raw_nonzero()))
            .unwrap_or_default();
        stat.rsplit_once(')')
            .is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
            .then_some(())
    });
    assert!(plot.count() >= 1, "the runaway lives");
    let homes = || {
        fs::read_dir(&plot.base)
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_str().unwrap().starts_with("runs-"))
            .count()
    };
    node.start_again();
    node.wait_for_log("A dead schedd left job processes behind");
    // The log also has the lines of the first schedd.
    let starts = || node.log().matches("msg=Started.").count();
    until("the second has started", LONG, || (starts() == 2).then_some(()));
    assert_eq!(homes(), 1, "the dead one's is removed");

    // A daemon that dies alone: its keeper leaves nobody alive.
    eye.add(&json!({"name": "again", "in": "0s", "shell": format!("{RUNAWAY}; sleep 1000"), "timeout": "1h"}));
    until("it has hidden again", LONG, || (plot.count() >= 3).then_some(()));
    node.kill9();
    until("nobody is alive", LONG, || (plot.count() == 0).then_some(()));
}

#[test]
fn limits_nobody_enforces_are_reported_of_the_run_and_by_the_doctor() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).start();
    node.wait_for_log("The limits memory, cpu and pids of jobs are off");
    let limits = json!({"memory": "64M", "pids": 5, "files": 64, "nice": 7});
    eye.add(&json!({"name": "bound", "in": "0s", "shell": "ulimit -n; ulimit -Hn; nice", "limits": limits}));
    eye.add(&json!({"name": "later", "in": "1h", "shell": "true", "limits": {"cpu": 0.5}}));
    let run = ended(&eye, "bound");
    assert_eq!(
        (run.state, run.not_enforced.as_deref()),
        (RunState::Succeeded, Some("memory, pids"))
    );
    let output = eye.ask(eye.store().read_output(&run.run, 1)).unwrap().unwrap();
    assert_eq!(output.stdout, b"64\n64\n7\n");
    let ctl = Schedctl::on(&redis);
    let shown = ctl.run(&["show", &run.run.to_string()]).good().stdout;
    assert!(shown.contains("not enforced: memory, pids"), "{shown}");
    assert_eq!(
        ctl.run(&["history", "bound", "--json"]).good().json()[0]["not_enforced"],
        "memory, pids"
    );
    // An attempt that another one followed keeps it too.
    let twice = json!({"limit": 1, "delay": "0s"});
    eye.add(&json!({"name": "twice", "in": "0s", "shell": "exit 3", "retry": twice, "limits": {"pids": 5}}));
    let again = ended(&eye, "twice").run.to_string();
    let shown = ctl.run(&["show", &again, "--json"]).good().json();
    let kept: Vec<&str> = shown["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["not_enforced"].as_str().unwrap())
        .collect();
    assert_eq!(kept, ["pids", "pids"]);
    for verb in [["show", &again], ["explain", &again]] {
        let reported = ctl.run(&verb).good().stdout;
        assert!(
            reported.contains("exit code 3 (the node did not enforce these limits: pids)"),
            "{reported}"
        );
    }
    let reported = ctl.run(&["explain", "bound", "--last"]).good().stdout;
    assert!(reported.contains("the node did not enforce these limits: memory, pids"), "{reported}");
    let doctor = until("the node has said what it enforces", LONG, || {
        let text = ctl.run(&["doctor"]).good().stdout;
        text.contains("not enforced: limits of memory, cpu, pids").then_some(text)
    });
    assert!(
        doctor.contains("limits.cpu") && doctor.contains("set by later but not enforced by"),
        "{doctor}"
    );
    assert!(
        !doctor.contains("limits.files") && doctor.contains("without cgroups, processes"),
        "{doctor}"
    );
}

#[test]
fn more_open_files_than_the_node_may_give_are_named_of_the_run_and_by_the_doctor() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).node("few").start();
    let keeper = until("its keeper is there", LONG, || node.keepers().into_iter().next());
    let few = Rlimit { current: Some(300), maximum: Some(300) };
    for pid in [keeper, Pid::from_raw(node.pid().cast_signed()).unwrap()] {
        prlimit(Some(pid), Resource::Nofile, few).unwrap();
    }
    let said = |files: u64| json!({"in": "0s", "shell": "ulimit -n", "limits": {"files": files}});
    for (name, files) in [("many", 400), ("enough", 300)] {
        let mut job = said(files);
        job["name"] = name.into();
        eye.add(&job);
    }
    let (many, enough) = (ended(&eye, "many"), ended(&eye, "enough"));
    for run in [&many, &enough] {
        assert_eq!(
            eye.ask(eye.store().read_output(&run.run, 1)).unwrap().unwrap().stdout,
            b"300\n"
        );
    }
    assert_eq!(
        (many.not_enforced.as_deref(), enough.not_enforced.as_deref()),
        (Some("files (only 300)"), None)
    );
    let ctl = Schedctl::on(&redis);
    let shown = ctl.run(&["show", &many.run.to_string()]).good().stdout;
    assert!(shown.contains("not enforced: files (only 300)"), "{shown}");
    eye.add(&json!({"name": "later", "in": "1h", "shell": "true", "limits": {"files": 301}}));
    eye.add(&json!({"name": "well", "in": "1h", "shell": "true", "limits": {"files": 300}}));
    let doctor = until("the node has said how many it may", LONG, || {
        let text = ctl.run(&["doctor"]).good().stdout;
        text.contains("limits.files").then_some(text)
    });
    assert!(
        doctor.contains("set by later above 300 open files, the hard limit of node few"),
        "{doctor}"
    );
}

#[test]
fn a_limit_whose_controller_is_not_handed_on_is_reported_and_the_run_goes_on() {
    let Some(plot) = Plot::new("partly") else { return };
    let there = fs::read_to_string(plot.base.join("cgroup.controllers")).unwrap();
    if there.split_whitespace().any(|controller| controller == "memory") {
        eprintln!("not tested: the controller memory is in {}", plot.base.display());
        return;
    }
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = plot.daemon(&redis).start();
    node.wait_for_log("This node cannot enforce all limits of jobs");
    let limits = json!({"memory": "64M", "files": 64});
    eye.add(&json!({"name": "bound", "in": "0s", "shell": "ulimit -n; grep ^0: /proc/self/cgroup", "limits": limits}));
    let run = ended(&eye, "bound");
    assert_eq!(
        (run.state, run.not_enforced.as_deref(), run.error.as_deref()),
        (RunState::Succeeded, Some("memory"), None)
    );
    let output = eye.ask(eye.store().read_output(&run.run, 1)).unwrap().unwrap();
    let inside = String::from_utf8(output.stdout).unwrap();
    assert!(inside.starts_with("64\n") && inside.contains("/runs-"), "{inside}");
    let ctl = Schedctl::on(&redis);
    let doctor = until("the node has said what it enforces", LONG, || {
        let text = ctl.run(&["doctor"]).good().stdout;
        text.contains("lacks the controllers for memory").then_some(text)
    });
    assert!(!doctor.contains("without cgroups, processes"), "{doctor}");
}

#[test]
fn a_run_past_its_memory_is_reported_as_such_and_one_past_its_pids_cannot_fork() {
    let Some(plot) = Plot::with_controllers("limits") else { return };
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = plot.daemon(&redis).start();
    node.wait_for_log("This node enforces all limits of jobs");
    eye.add(&json!({"name": "eats", "in": "0s", "shell": "head -c 200m /dev/zero | tail -c 200m >/dev/null", "limits": {"memory": "32M"}}));
    let run = ended(&eye, "eats");
    assert_eq!(
        (run.state, run.signal, run.not_enforced.as_deref()),
        (RunState::Failed, Some(9), None),
        "{run:?}"
    );
    assert_eq!(run.error.as_deref(), Some("killed: out of memory (the limit of the run is 32MiB)"));
    eye.add(&json!({"name": "forks", "in": "0s", "shell": "for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; wait", "limits": {"pids": 4}}));
    let run = ended(&eye, "forks");
    let output = eye.ask(eye.store().read_output(&run.run, 1)).unwrap().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("fork"), "{run:?}");
    let own = "cat \"/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/cpu.max\"";
    eye.add(&json!({"name": "shares", "in": "0s", "shell": own, "limits": {"cpu": 0.5}}));
    let run = ended(&eye, "shares");
    let output = eye.ask(eye.store().read_output(&run.run, 1)).unwrap().unwrap();
    assert_eq!(output.stdout, b"50000 100000\n");
    let doctor = Schedctl::on(&redis).run(&["doctor"]).good().stdout;
    assert!(doctor.contains("all limits of jobs are enforced"), "{doctor}");
}
