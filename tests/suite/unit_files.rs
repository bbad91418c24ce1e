//! The unit files are ones that systemd takes, and as tight as they say.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::ctl::Schedctl;

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd");
const DROP_INS: [&str; 3] = ["hardened", "hardened-run-as", "jobs-relaxed"];

/// A copy of a unit that names the programs of this build, with a drop-in beside it.
struct Unit {
    _dir: TempDir,
    file: PathBuf,
}

impl Unit {
    fn new(name: &str, drop_in: Option<&str>) -> Self {
        // The verifier wants the programs to be there and the user to be known, which is so only on a host that has schedd.
        let text = fs::read_to_string(Path::new(DIR).join(name)).unwrap();
        let programs = text
            .replace("=/usr/bin/schedd\n", &format!("={}\n", env!("CARGO_BIN_EXE_schedd")))
            .replace("=/usr/bin/schedctl ", &format!("={} ", env!("CARGO_BIN_EXE_schedctl")));
        assert!(!programs.contains("/usr/bin/sched"), "{programs}");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("schedd.service");
        fs::write(&file, programs.replace("User=schedd", "User=daemon")).unwrap();
        if let Some(drop_in) = drop_in {
            let beside = dir.path().join("schedd.service.d");
            fs::create_dir(&beside).unwrap();
            let name = format!("{drop_in}.conf");
            fs::copy(Path::new(DIR).join("schedd.service.d").join(&name), beside.join(name))
                .unwrap();
        }
        Self { _dir: dir, file }
    }

    /// What `systemd-analyze` says, and whether it is content; none where there is no such program.
    fn analyzed(&self, words: &[&str]) -> Option<(bool, String)> {
        run("systemd-analyze", &[words, &[self.file.to_str().unwrap()]].concat())
    }
}

/// What a program says, and whether it is content; none, said, where it is not there.
fn run(program: &str, words: &[&str]) -> Option<(bool, String)> {
    match Command::new(program)
        .args(words)
        .env("SYSTEMD_PAGER", "")
        .env("XDG_RUNTIME_DIR", "/tmp")
        .output()
    {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!(
                "SKIPPED: no {program} here, so the files of systemd/ were not held against it"
            );
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

#[test]
fn systemd_has_nothing_to_say_about_the_units() {
    let of_system = [None]
        .into_iter()
        .chain(DROP_INS.map(Some))
        .map(|drop_in| ("schedd.service", "--system", drop_in));
    for (name, manager, drop_in) in of_system.chain([("user/schedd.service", "--user", None)]) {
        let Some((is_content, said)) =
            Unit::new(name, drop_in).analyzed(&[manager, "--man=no", "verify"])
        else {
            return;
        };
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("schedd")).collect();
        assert!(is_content && ours.is_empty(), "{name} {drop_in:?}: {said}");
    }
}

#[test]
fn the_hardened_units_are_as_tight_as_they_say() {
    for (drop_in, tenths) in DROP_INS.into_iter().zip([16, 25, 40]) {
        let threshold = format!("--threshold={tenths}");
        let unit = Unit::new("schedd.service", Some(drop_in));
        let Some((is_content, said)) =
            unit.analyzed(&["security", "--offline=yes", "--no-pager", &threshold])
        else {
            return;
        };
        assert!(is_content, "{drop_in}: {said}");
    }
}

/// The system calls by which the keeper makes a process into a job's, and whether only a job with `user` wants them.
const CALLS: [(&str, bool); 16] = [
    ("setsid", false),
    ("prctl", false),
    ("prlimit64", false),
    ("setpriority", false),
    ("umask", false),
    ("chdir", false),
    ("close_range", false),
    ("rt_sigaction", false),
    ("memfd_create", false),
    ("pidfd_open", false),
    ("pidfd_send_signal", false),
    ("setgroups", true),
    ("setresgid", true),
    ("setresuid", true),
    ("capset", true),
    ("fchmod", true),
];

/// The system calls a set of systemd's stands for.
fn expanded(set: &str) -> Option<BTreeSet<String>> {
    let (is_content, said) = run("systemd-analyze", &["--no-pager", "syscall-filter", set])?;
    assert!(is_content, "{set}: {said}");
    let members = said
        .lines()
        .skip(1)
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut calls = BTreeSet::new();
    for member in members {
        let named = if member.starts_with('@') {
            expanded(member)?
        } else {
            BTreeSet::from([member.to_owned()])
        };
        calls.extend(named);
    }
    Some(calls)
}

/// The system calls that are taken out of, or else the only ones left by, the lines of a drop-in, in their order.
fn filtered(text: &str) -> Option<(bool, BTreeSet<String>)> {
    let mut filter: Option<(bool, BTreeSet<String>)> = None;
    for line in text.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (is_taking, words) =
            line.strip_prefix('~').map_or((false, line), |words| (true, words));
        // The first line says which of the two the filter is.
        let (is_of_refused, calls) = filter.get_or_insert((is_taking, BTreeSet::new()));
        for word in words.split_whitespace() {
            let named = if word.starts_with('@') {
                expanded(word)?
            } else {
                BTreeSet::from([word.to_owned()])
            };
            if *is_of_refused == is_taking {
                calls.extend(named);
            } else {
                calls.retain(|call| !named.contains(call));
            }
        }
    }
    filter
}

#[test]
fn what_the_keeper_does_to_start_a_job_no_drop_in_refuses() {
    for drop_in in DROP_INS {
        let text =
            fs::read_to_string(Path::new(DIR).join(format!("schedd.service.d/{drop_in}.conf")))
                .unwrap();
        let Some((is_of_refused, calls)) = filtered(&text) else { return };
        let may_become = text.contains("CapabilityBoundingSet=CAP_SETUID");
        let wanted = CALLS.iter().filter(|(_, for_user)| !for_user || may_become);
        let refused: Vec<_> =
            wanted.filter(|(call, _)| calls.contains(*call) == is_of_refused).collect();
        assert!(refused.is_empty(), "{drop_in} refuses {refused:?}");
    }
}

#[test]
fn the_user_and_the_directories_are_made_as_the_unit_wants_them() {
    if !rustix::process::geteuid().is_root() {
        eprintln!(
            "SKIPPED: only root may make users and directories of others in a root of its own"
        );
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let within = |path: &str| root.path().join(path);
    for dir in ["etc/schedd", "var/lib", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d"] {
        fs::create_dir_all(within(dir)).unwrap();
    }
    fs::write(within("etc/schedd/jobs.toml"), "").unwrap();
    for kind in ["sysusers", "tmpfiles"] {
        fs::copy(
            Path::new(DIR).join(format!("{kind}.d/schedd.conf")),
            within(&format!("usr/lib/{kind}.d/schedd.conf")),
        )
        .unwrap();
    }
    let at = format!("--root={}", root.path().display());
    for words in [&["systemd-sysusers"][..], &["systemd-tmpfiles", "--create"]] {
        let Some((is_content, said)) =
            run(words[0], &[&words[1..], &[&at, "schedd.conf"]].concat())
        else {
            return;
        };
        assert!(is_content, "{words:?}: {said}");
    }
    let passwd = fs::read_to_string(within("etc/passwd")).unwrap();
    let line = passwd.lines().find(|line| line.starts_with("schedd:")).unwrap();
    assert!(line.ends_with(":/var/lib/schedd:/usr/sbin/nologin"), "{line}");
    let ids: Vec<u32> = line.split(':').filter_map(|field| field.parse().ok()).collect();
    let made = |path: &str| {
        use std::os::unix::fs::MetadataExt;
        let meta = fs::metadata(within(path)).unwrap();
        (meta.uid(), meta.gid(), meta.mode() & 0o777)
    };
    assert_eq!(made("etc/schedd"), (0, ids[1], 0o750));
    assert_eq!(made("etc/schedd/jobs.toml"), (0, ids[1], 0o640));
    assert_eq!(made("var/lib/schedd"), (ids[0], ids[1], 0o750));
}

#[test]
fn the_check_of_the_unit_takes_the_file_of_its_environment() {
    let ctl = Schedctl::alone();
    let file = ctl.home().join("jobs.toml");
    let ctl = ctl.env("SCHEDD_JOBS", file.to_str().unwrap());
    assert_eq!(ctl.run(&["check", "--quiet"]).code, 78, "there is none");
    fs::write(&file, "[jobs.a]\nshell = \"true\"\n").unwrap();
    let said = ctl.run(&["check", "--quiet"]).good();
    assert_eq!((&*said.stdout, &*said.stderr), ("", ""));
    fs::write(&file, "[jobs.a]\nshel = \"true\"\n").unwrap();
    let said = ctl.run(&["check", "--quiet"]);
    assert!(said.code == 78 && said.stderr.contains("jobs.toml:2"), "{said:?}");
}
