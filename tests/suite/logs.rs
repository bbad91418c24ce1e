//! The log in each of its forms, as whoever reads it gets it: a file, a program that reads JSON, the journal.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::host::program::write_program;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

const OUTPUT: &str = "[jobs.talk]\nlog_output = true\n\
     shell = 'echo one; printf \"\\\\033[31m\\\"two\\\" \\\\377\\\\n\"; echo three >&2; head -c 9000 /dev/zero | tr \"\\\\0\" x; exit 3'\n\
     [jobs.still]\nshell = 'echo unheard'\n\
     [jobs.flood]\nlog_output = true\nshell = 'seq 1 3000'\n";

/// Each line of a log of JSON.
fn objects(log: &str) -> Vec<Value> {
    log.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

#[test]
fn every_line_of_json_is_an_object_with_the_facts_of_its_run() {
    let redis = TestRedis::start();
    let daemon =
        Schedd::on(&redis).node("web-1").env("SCHEDD_LOG_FORMAT", "json").jobs(OUTPUT).start();
    daemon.wait_for_log("All jobs of the jobs file are applied");
    let ctl = Schedctl::on(&redis);
    assert_eq!(ctl.run(&["run", "talk", "--wait"]).code, 3);
    ctl.run(&["run", "still", "--wait"]).good();
    until("the run is reported", LONG, || {
        Some(()).filter(|()| daemon.log().contains("Run ended as failed"))
    });
    let lines = objects(&daemon.log());
    let of_talk: Vec<&Value> =
        lines.iter().filter(|line| line["job"] == "talk" && line["attempt"] == 1).collect();
    let run = of_talk[0]["run_id"].as_str().unwrap();
    assert!(run.starts_with("talk@"), "{run}");
    for line in &of_talk {
        assert!(
            line["ts"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok()
                && line["fence"].is_u64(),
            "{line}"
        );
        assert_eq!(
            (&line["run_id"], &line["node"]),
            (&Value::from(run), &Value::from("web-1")),
            "{line}"
        );
    }
    let said = |stream: &str| -> Vec<(&str, String)> {
        let of_stream = of_talk.iter().filter(|line| line["stream"] == stream);
        of_stream
            .map(|line| {
                (line["level"].as_str().unwrap(), line["message"].as_str().unwrap().to_owned())
            })
            .collect()
    };
    let x = |count: usize| ("info", "x".repeat(count));
    assert_eq!(
        said("stdout"),
        [
            ("info", "one".to_owned()),
            ("info", "\u{1b}[31m\"two\" \u{fffd}".to_owned()),
            x(8_192),
            x(808)
        ]
    );
    assert_eq!(said("stderr"), [("error", "three".to_owned())]);
    let ended = of_talk
        .iter()
        .position(|line| line["message"].as_str().unwrap().starts_with("Run ended as failed"))
        .unwrap();
    assert!(
        of_talk.iter().rposition(|line| !line["stream"].is_null()).unwrap() < ended,
        "all it said comes before its end"
    );
    assert!(!daemon.log().contains("unheard"));
    assert_eq!(
        ctl.run(&["show", "talk", "--json"]).good().json()["definition"]["log_output"],
        true
    );
}

#[test]
fn a_job_that_writes_without_end_does_not_fill_the_log() {
    let redis = TestRedis::start();
    let mut daemon =
        Schedd::on(&redis).node("web-1").env("SCHEDD_LOG_FORMAT", "json").jobs(OUTPUT).start();
    daemon.wait_for_log("All jobs of the jobs file are applied");
    let ctl = Schedctl::on(&redis);
    ctl.run(&["run", "flood", "--wait"]).good();
    daemon.term();
    assert!(daemon.wait_exit().success());
    let lines = objects(&daemon.log());
    let written = lines.iter().filter(|line| line["stream"] == "stdout").count();
    let held_back: u64 = lines.iter().filter_map(|line| line["held_back"].as_u64()).sum();
    let lost: u64 = lines.iter().filter_map(|line| line["count"].as_u64()).sum();
    assert!(written <= 1_000, "{written}");
    assert_eq!(written as u64 + held_back + lost, 3_000);
    assert!(lines.iter().any(|line| line["message"] == "Run succeeded." && line["job"] == "flood"));
    assert!(lines.iter().any(|line| line["message"] == "Stopped."));
    assert_eq!(ctl.run(&["logs", "flood"]).good().stdout.lines().count(), 3_000);
}

#[test]
fn the_level_and_the_form_are_asked_for_in_their_words() {
    let redis = TestRedis::start();
    let daemon =
        Schedd::on(&redis).env("SCHEDD_LOG", "warn").jobs("[jobs.a]\nshell = 'exit 1'\n").start();
    let ctl = Schedctl::on(&redis);
    until("the job is there", LONG, || Some(()).filter(|()| ctl.run(&["show", "a"]).code == 0));
    assert_eq!(ctl.run(&["run", "a", "--wait"]).code, 1);
    daemon.wait_for_log("level=warn msg=\"Run ended as failed with exit code 1.\"");
    assert!(!daemon.log().contains("level=info"), "{}", daemon.log());
    for (name, value) in [("SCHEDD_LOG", "verbose"), ("SCHEDD_LOG_FORMAT", "xml")] {
        let mut refused = Schedd::on(&redis).env(name, value).start();
        assert_eq!(refused.wait_exit().code(), Some(2));
        assert!(refused.log().contains(value), "{}", refused.log());
    }
}

#[test]
fn a_password_given_as_an_argument_is_taken_out_of_the_list_of_processes() {
    let redis = TestRedis::start();
    let () = redis::cmd("CONFIG")
        .arg(&["SET", "requirepass", "hunter2"])
        .query(&mut redis.connection())
        .unwrap();
    let daemon = Schedd::at(&format!("{}?pass=hunter2", redis.url()))
        .node("web-1")
        .jobs("[jobs.a]\nshell = 'true'\n")
        .start();
    let warned = daemon.wait_for_log("--redis has a password");
    assert!(warned.contains("url_file") && warned.contains("${credential:NAME}"), "{warned}");
    daemon.wait_for_log("All jobs of the jobs file are applied");
    let arguments =
        String::from_utf8(fs::read(format!("/proc/{}/cmdline", daemon.pid())).unwrap()).unwrap();
    assert!(
        arguments.contains("--node")
            && !arguments.contains("--redis")
            && !arguments.contains("hunter2"),
        "{arguments}"
    );
    let name = fs::read_to_string(format!("/proc/{}/comm", daemon.pid())).unwrap();
    assert_eq!(name.trim(), "schedd");
    assert!(!daemon.log().contains("hunter2"));
}

/// An entry of the journal: its fields.
type Entry = BTreeMap<String, String>;

/// A journal of a test's own, at the one place where there can be one: it is there in a mount namespace.
struct Journal {
    dir: tempfile::TempDir,
    socket: Arc<UnixDatagram>,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Journal {
    /// Nobody reads it yet. None where namespaces are not allowed.
    fn bind() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let allowed =
            Command::new("unshare").args(namespace()).arg("true").stderr(Stdio::null()).status();
        if !allowed.is_ok_and(|status| status.success()) {
            eprintln!(
                "skipped: this user may make no mount namespace, so there is no place for a journal of the test's own"
            );
            return None;
        }
        let socket = Arc::new(UnixDatagram::bind(dir.path().join("socket")).unwrap());
        Some(Self { dir, socket, entries: Arc::default() })
    }

    /// Reads from now on.
    fn read(&self) {
        let (socket, entries) = (self.socket.clone(), self.entries.clone());
        std::thread::spawn(move || {
            let mut bytes = vec![0; 256 * 1024];
            while let Ok(length) = socket.recv(&mut bytes) {
                let text = String::from_utf8(bytes[..length].to_vec()).unwrap();
                let pair = |line: &str| {
                    line.split_once('=')
                        .map(|(name, value)| (name.to_owned(), value.to_owned()))
                        .unwrap()
                };
                entries.lock().unwrap().push(text.lines().map(pair).collect());
            }
        });
    }

    fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap().clone()
    }

    /// Waits for an entry whose message begins so.
    #[track_caller]
    fn wait_for(&self, message: &str) -> Entry {
        let find =
            || self.entries().into_iter().find(|entry| entry["MESSAGE"].starts_with(message));
        until(&format!("the journal has {message:?}"), LONG, find)
    }

    /// A program that is the daemon, where this is the journal.
    fn daemon(&self) -> PathBuf {
        let program = self.dir.path().join("schedd");
        let (dir, schedd, flags) =
            (self.dir.path().display(), env!("CARGO_BIN_EXE_schedd"), namespace().join(" "));
        let steps = format!(
            "mount -t tmpfs tmpfs /run && mkdir /run/systemd && ln -s {dir} /run/systemd/journal && exec {schedd} \"$@\""
        );
        write_program(
            &program,
            format!("#!/bin/sh\nexec unshare {flags} sh -c '{steps}' sh \"$@\"\n"),
        );
        program
    }
}

fn namespace() -> Vec<&'static str> {
    if rustix::process::geteuid().is_root() {
        vec!["--mount"]
    } else {
        vec!["--map-root-user", "--mount"]
    }
}

/// One end of a stream for a daemon's standard error, what systemd would say of it, and the other end.
fn stream() -> (OwnedFd, String, UnixStream) {
    let (theirs, ours) = UnixStream::pair().unwrap();
    let about = rustix::fs::fstat(&theirs).unwrap();
    (theirs.into(), format!("{}:{}", about.st_dev, about.st_ino), ours)
}

#[test]
fn under_systemd_the_journal_gets_entries_with_fields() {
    let Some(journal) = Journal::bind() else { return };
    journal.read();
    let redis = TestRedis::start();
    let (theirs, said, _ours) = stream();
    let daemon = Schedd::on(&redis)
        .node("web-1")
        .played_by(&journal.daemon())
        .env("JOURNAL_STREAM", &said)
        .outputs(theirs);
    let mut daemon = daemon.jobs(OUTPUT).start();
    journal.wait_for("All jobs of the jobs file are applied");
    let ctl = Schedctl::on(&redis);
    assert_eq!(ctl.run(&["run", "talk", "--wait"]).code, 3);
    let ended = journal.wait_for("Run ended as failed with exit code 3");
    let run = ctl.run(&["history", "talk", "--json"]).good().json()[0].clone();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let wanted = [
        ("PRIORITY", "4".to_owned()),
        ("SYSLOG_IDENTIFIER", "schedd".to_owned()),
        ("NODE", "web-1".to_owned()),
        ("JOB", "talk".to_owned()),
        ("RUN_ID", text(&run["run_id"])),
        ("ATTEMPT", "1".to_owned()),
        ("FENCE", text(&run["fence"])),
    ];
    for (name, value) in wanted {
        assert_eq!(ended.get(name), Some(&value), "{name} of {ended:?}");
    }
    let three = journal.wait_for("three");
    assert_eq!([&three["STREAM"], &three["PRIORITY"], &three["JOB"]], ["stderr", "3", "talk"]);
    let two = journal.wait_for("\\u{1b}[31m\"two\"");
    assert_eq!([&two["STREAM"], &two["PRIORITY"]], ["stdout", "6"]);
    daemon.term();
    assert!(daemon.wait_exit().success());
    journal.wait_for("Stopped.");
    assert_eq!(daemon.log(), "", "nothing goes two ways");
}

#[test]
fn another_stream_than_the_one_systemd_named_gets_text() {
    let Some(journal) = Journal::bind() else { return };
    journal.read();
    let redis = TestRedis::start();
    let daemon =
        Schedd::on(&redis).played_by(&journal.daemon()).env("JOURNAL_STREAM", "1:1").start();
    daemon.wait_for_log("level=info msg=Started.");
    assert!(journal.entries().is_empty());
}

#[test]
fn a_journal_that_stands_still_holds_up_nothing_and_is_named_later_what_it_missed() {
    let Some(journal) = Journal::bind() else { return };
    let redis = TestRedis::start();
    let (theirs, said, _ours) = stream();
    let daemon = Schedd::on(&redis)
        .node("web-1")
        .played_by(&journal.daemon())
        .env("JOURNAL_STREAM", &said)
        .outputs(theirs);
    let daemon = daemon.jobs(OUTPUT).start();
    let ctl = Schedctl::on(&redis);
    until("the job is there", LONG, || Some(()).filter(|()| ctl.run(&["show", "flood"]).code == 0));
    // More than a socket takes and than may wait.
    for _ in 0..4 {
        let begun = Instant::now();
        ctl.run(&["run", "flood", "--wait", "--timeout", "60s"]).good();
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
    journal.read();
    journal.wait_for("Started.");
    journal.wait_for("Run succeeded.");
    drop(daemon);
}

#[test]
fn a_journal_that_is_asked_for_and_not_there_is_reported() {
    if Path::new("/run/systemd/journal/socket").exists() {
        return;
    }
    let redis = TestRedis::start();
    let mut daemon = Schedd::on(&redis).env("SCHEDD_LOG_FORMAT", "journal").start();
    assert_eq!(daemon.wait_exit().code(), Some(1));
    assert!(daemon.log().contains("/run/systemd/journal/socket"), "{}", daemon.log());
}
