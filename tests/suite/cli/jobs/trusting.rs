//! Files of somebody else: what they say is not done, and no secret goes where they say.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Output;

use crate::cli::Bench;
use crate::support::ctl::Schedctl;
use crate::support::host::program::copy_program;

/// The user nobody.
const STRANGER: u32 = 65_534;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: not root, so no file of another user was tried");
    }
    is_root
}

/// A command line in a directory with a jobs file that sends a credential to a server of somebody else.
struct Trap {
    ctl: Schedctl,
    server: TcpListener,
}

impl Trap {
    fn set() -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let ctl = Schedctl::alone();
        let credentials = ctl.home().join("credentials");
        fs::create_dir(&credentials).unwrap();
        fs::write(credentials.join("pg"), "PGSECRET").unwrap();
        let address = server.local_addr().unwrap();
        let text = format!(
            "[redis]\nurl = \"redis://x:${{credential:pg}}@{address}/0\"\n[jobs.a]\nshell = \"touch pwned\"\nevery = \"1s\"\n"
        );
        fs::write(ctl.home().join("jobs.toml"), text).unwrap();
        fs::set_permissions(ctl.home().join("jobs.toml"), Permissions::from_mode(0o644)).unwrap();
        let ctl = ctl.env("CREDENTIALS_DIRECTORY", credentials.to_str().unwrap());
        Self { ctl, server }
    }

    fn chmod(&self, name: &str, mode: u32) {
        fs::set_permissions(self.ctl.home().join(name), Permissions::from_mode(mode)).unwrap();
    }

    fn chown(&self, name: &str, user: u32) {
        chown(self.ctl.home().join(name), Some(user), None).unwrap();
    }

    /// What a shell is offered where a job's name is wanted.
    fn complete(&self, words: &[&str]) -> Output {
        let index = words.len() + 1;
        let mut command = self.ctl.command(&[]);
        command.args(["--", "schedctl"]).args(words).arg("");
        command
            .env("SCHEDCTL_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", index.to_string())
            .output()
            .unwrap()
    }

    /// Runs the daemon, which does not start.
    fn schedd(&self, args: &[&str]) -> Output {
        self.ctl.command_of(env!("CARGO_BIN_EXE_schedd")).args(args).output().unwrap()
    }

    /// Demands that nobody has connected.
    #[track_caller]
    fn assert_nothing_was_sent(&self) {
        self.server.set_nonblocking(true).unwrap();
        assert_eq!(
            self.server.accept().map(drop).unwrap_err().kind(),
            ErrorKind::WouldBlock,
            "somebody connected"
        );
        self.server.set_nonblocking(false).unwrap();
    }

    /// Demands that each way to use the file is refused with these words.
    #[track_caller]
    fn assert_refused(&self, words: &[&str]) {
        for args in [&["list"][..], &["add", "--env", "TOKEN=x", "--", "x"], &["check"]] {
            let finished = self.ctl.run(args);
            assert_eq!(
                (finished.code, finished.stderr.lines().count()),
                (78, 1),
                "{args:?} {finished:?}"
            );
            assert!(
                words.iter().all(|word| finished.stderr.contains(word)),
                "{args:?} {finished:?}"
            );
            assert_eq!(finished.stdout, "");
        }
        let offered = self.complete(&["show"]);
        assert_eq!(String::from_utf8_lossy(&offered.stderr), "");
        assert!(
            String::from_utf8_lossy(&offered.stdout).lines().all(|word| word.starts_with("--")),
            "{offered:?}"
        );
        let ended = self.schedd(&[]);
        let reported = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(
            ended.status.code() == Some(78) && words.iter().all(|word| reported.contains(word)),
            "{reported}"
        );
        assert!(!self.ctl.home().join("pwned").exists());
        self.assert_nothing_was_sent();
    }
}

#[test]
fn a_found_file_of_ones_own_is_used_with_its_credential() {
    let trap = Trap::set();
    let server = trap.server.try_clone().unwrap();
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut sent = [0; 64];
        let length = stream.read(&mut sent).unwrap();
        String::from_utf8_lossy(&sent[..length]).into_owned()
    });
    trap.complete(&["show"]);
    assert!(asked.join().unwrap().contains("PGSECRET"));
}

#[test]
fn a_found_file_where_everybody_may_write_is_refused_and_nothing_is_sent() {
    for (name, mode) in [("jobs.toml", 0o666), (".", 0o777), (".", 0o1777)] {
        let trap = Trap::set();
        trap.chmod(name, mode);
        trap.assert_refused(&[
            "jobs.toml: this file was found but not used",
            "everybody can write",
            &format!("(mode {mode:04o})"),
            "name the file by --jobs",
        ]);
        // Who names a Redis does not need the file.
        let bench = Bench::start();
        trap.ctl.run(&["list", "--redis", &bench.redis.url()]).good();
    }
}

#[test]
fn a_found_file_of_a_stranger_or_in_a_directory_of_one_is_refused() {
    if !is_root() {
        return;
    }
    for name in ["jobs.toml", "."] {
        let trap = Trap::set();
        trap.chown(name, STRANGER);
        trap.assert_refused(&[
            "jobs.toml: this file was found but not used",
            "belongs to user 65534, wanted chown to root",
        ]);
    }
    let trap = Trap::set();
    fs::create_dir(trap.ctl.home().join("theirs")).unwrap();
    fs::rename(trap.ctl.home().join("jobs.toml"), trap.ctl.home().join("theirs/jobs.toml"))
        .unwrap();
    std::os::unix::fs::symlink("theirs/jobs.toml", trap.ctl.home().join("jobs.toml")).unwrap();
    trap.chown("theirs", STRANGER);
    trap.assert_refused(&[
        "jobs.toml: this file was found",
        "the directory ./theirs belongs to user 65534",
    ]);
}

#[test]
fn a_private_redis_in_the_home_of_a_stranger_is_not_used() {
    if !is_root() {
        return;
    }
    let ctl = Schedctl::alone();
    let state = ctl.home().join(".local/state/schedd");
    fs::create_dir_all(&state).unwrap();
    let server = std::os::unix::net::UnixListener::bind(state.join("redis.sock")).unwrap();
    server.set_nonblocking(true).unwrap();
    chown(&state, Some(STRANGER), None).unwrap();
    let finished = ctl.run(&["list"]);
    assert_eq!((finished.code, finished.stderr.lines().count()), (78, 1), "{finished:?}");
    for words in
        ["found but not used", "belongs to user 65534, wanted chown to root", "give --redis"]
    {
        assert!(finished.stderr.contains(words), "{finished:?}");
    }
    assert_eq!(server.accept().map(drop).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn root_refuses_a_file_of_a_stranger_that_is_named() {
    if !is_root() {
        return;
    }
    let trap = Trap::set();
    trap.chown("jobs.toml", STRANGER);
    for args in [&["list", "--jobs", "jobs.toml"][..], &["check", "jobs.toml"]] {
        let finished = trap.ctl.run(args);
        assert!(
            finished.code == 78
                && finished.stderr.contains("as root: the file belongs to user 65534"),
            "{args:?} {finished:?}"
        );
    }
    trap.complete(&["--jobs", "jobs.toml", "show"]);
    let ended = trap.schedd(&["--jobs", "jobs.toml"]);
    assert_eq!(ended.status.code(), Some(78), "{ended:?}");
    trap.assert_nothing_was_sent();
    // A group that others are in may not write it either; it may read it, as the package has it.
    trap.chown("jobs.toml", 0);
    chown(trap.ctl.home().join("jobs.toml"), None, Some(STRANGER)).unwrap();
    trap.chmod("jobs.toml", 0o660);
    assert!(
        trap.ctl
            .run(&["check", "jobs.toml"])
            .stderr
            .contains("group 65534 can write the file (mode 0660), wanted chmod g-w")
    );
    trap.chmod("jobs.toml", 0o640);
    trap.ctl.run(&["check", "jobs.toml"]).good();
}

/// As the user nobody; none, said, where that cannot be.
fn as_nobody(ctl: &Schedctl, args: &[&str]) -> Option<Output> {
    if !is_root() || !Path::new("/usr/bin/setpriv").exists() {
        return None;
    }
    let user = STRANGER.to_string();
    let mut command = ctl.command_of("/usr/bin/setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).args(args);
    Some(command.output().unwrap())
}

#[test]
fn a_user_is_warned_of_a_named_file_of_another_and_its_address_gets_no_credential() {
    let trap = Trap::set();
    let plain = format!("[redis]\nurl = \"redis://{}/0\"\n", trap.server.local_addr().unwrap());
    trap.chmod(".", 0o755);
    trap.chown("jobs.toml", 1);
    let copy = trap.ctl.home().join("schedctl");
    copy_program(env!("CARGO_BIN_EXE_schedctl"), &copy, "755");
    let Some(ended) =
        as_nobody(&trap.ctl, &[copy.to_str().unwrap(), "list", "--jobs", "jobs.toml"])
    else {
        return;
    };
    let reported = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        ended.status.code() == Some(78)
            && reported.contains("no credential is sent to an address that another user may"),
        "{reported}"
    );
    trap.assert_nothing_was_sent();
    fs::write(trap.ctl.home().join("jobs.toml"), plain).unwrap();
    let ended = as_nobody(&trap.ctl, &[copy.to_str().unwrap(), "check", "jobs.toml"]).unwrap();
    let reported = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        ended.status.success()
            && reported
                .contains("warning: jobs.toml: another user may write this file and so run commands here: the file belongs to"),
        "{reported}"
    );
}

#[test]
fn what_this_host_would_refuse_of_a_job_is_warned_of_when_it_is_added() {
    let bench = Bench::start();
    let file = bench.ctl.home().join("x.env");
    fs::write(&file, "A=1\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    let file = file.to_str().unwrap();
    let added = bench.ctl.run(&["add", "--env-file", file, "--", "x"]).good();
    assert!(
        added.stderr.contains("warning: --env-file: ")
            && added.stderr.contains("everybody can write the file (mode 0666)"),
        "{added:?}"
    );
    let added = bench.ctl.run(&["add", "--user", "nobody:root", "--", "x"]).good();
    let reported =
        "warning: --user: user \"nobody\" is not a member of group \"root\" on this host";
    assert!(added.stderr.contains(reported), "{added:?}");
    let line = format!(
        "{{\"shell\": \"x\", \"user\": \"nobody:nosuchgroup\", \"env_file\": \"{file}\"}}\n"
    );
    let added = bench.ctl.run_with_input(&["add", "--stdin"], line.as_bytes()).good();
    assert!(
        added.stderr.contains("this host has no group \"nosuchgroup\"")
            && added.stderr.contains("everybody can write the file"),
        "{added:?}"
    );
    // What a person names as data may be anybody's.
    bench.ctl.run(&["add", "--http", "http://h/", "--body", &format!("@{file}")]).good();
}

#[test]
fn a_calendar_of_a_stranger_is_refused_by_root() {
    if !is_root() {
        return;
    }
    let ctl = Schedctl::alone();
    fs::write(ctl.home().join("jobs.toml"), "[calendars.c]\nfile = \"c.ics\"\n").unwrap();
    let calendar = ctl.home().join("c.ics");
    fs::write(
        &calendar,
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20991224\nEND:VEVENT\nEND:VCALENDAR\n",
    )
    .unwrap();
    ctl.run(&["check"]).good();
    chown(&calendar, Some(STRANGER), None).unwrap();
    let finished = ctl.run(&["check"]);
    assert!(
        finished.code == 78
            && finished.stderr.contains(
                "c.ics\" may be written by another user, so jobs of root cannot use the file"
            ),
        "{finished:?}"
    );
}

/// Starts schedd on the state directory of `ctl` and returns its refusal.
#[track_caller]
fn refused_state(ctl: &Schedctl) -> String {
    let ended = ctl.command_of(env!("CARGO_BIN_EXE_schedd")).output().unwrap();
    let reported = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(69), "{reported}");
    reported
}

#[test]
fn root_keeps_no_state_in_a_directory_of_a_stranger() {
    if !is_root() {
        return;
    }
    let ctl = Schedctl::alone();
    let state = ctl.home().join(".local/state/schedd");
    fs::create_dir_all(&state).unwrap();
    chown(&state, Some(STRANGER), None).unwrap();
    let reported = refused_state(&ctl);
    assert!(reported.contains("belongs to user 65534, wanted chown to root"), "{reported}");
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0, "something was put there");
}

#[test]
fn root_loads_no_data_that_others_could_put_into_its_state_directory() {
    if !is_root() {
        return;
    }
    let ctl = Schedctl::alone();
    let state = ctl.home().join(".local/state/schedd");
    fs::create_dir_all(state.join("appendonlydir")).unwrap();
    for mode in [0o777, 0o1777] {
        fs::set_permissions(&state, Permissions::from_mode(mode)).unwrap();
        let reported = refused_state(&ctl);
        assert!(reported.contains("everybody can write the directory"), "{reported}");
    }
    chown(&state, None, Some(STRANGER)).unwrap();
    fs::set_permissions(&state, Permissions::from_mode(0o775)).unwrap();
    let reported = refused_state(&ctl);
    assert!(reported.contains("group 65534 can write the directory"), "{reported}");
    // The directory was mended, and what a stranger left there was not.
    fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
    chown(state.join("appendonlydir"), Some(STRANGER), None).unwrap();
    let reported = refused_state(&ctl);
    assert!(
        reported.contains("appendonlydir belongs to user 65534, wanted chown to root"),
        "{reported}"
    );
}
