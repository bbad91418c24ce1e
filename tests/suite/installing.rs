//! `script/install` puts everything where it belongs, keeps a jobs file that is there, and `script/uninstall` takes it away again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("script").join(name)
}

fn call(name: &str, words: &[&str], home: &Path) -> String {
    succeed(Command::new(script(name)).args(words).env("HOME", home).env_remove("XDG_CONFIG_HOME"))
}

/// What a command that succeeds says.
#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Where the programs of this build are; none, said, if the one that writes the manual is not among them.
fn built() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_BIN_EXE_schedd")).parent().unwrap().to_owned();
    if dir.join("examples/manual").exists() {
        return Some(dir);
    }
    eprintln!(
        "SKIPPED: the example manual is not built (cargo build --example manual), so script/install was not tried"
    );
    None
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn all_is_installed_below_a_prefix_and_goes_again_but_for_the_jobs_file() {
    let Some(built) = built() else { return };
    let dest = tempfile::tempdir().unwrap();
    let words = [
        "--prefix",
        "/opt/schedd",
        "--destdir",
        dest.path().to_str().unwrap(),
        "--from",
        built.to_str().unwrap(),
    ];
    call("install", &words, dest.path());
    let place = |path: &str| dest.path().join(path);
    for path in [
        "opt/schedd/bin/schedd",
        "opt/schedd/bin/schedctl",
        // Systemd does not look below /opt.
        "etc/systemd/system/schedd.service",
        "etc/systemd/user/schedd.service",
        "etc/sysusers.d/schedd.conf",
        "etc/tmpfiles.d/schedd.conf",
        "opt/schedd/share/man/man1/schedctl-add.1",
        "opt/schedd/share/man/man5/jobs.toml.5",
        "opt/schedd/share/man/man8/schedd.8",
        "opt/schedd/share/bash-completion/completions/schedctl",
        "opt/schedd/share/doc/schedd/examples/schedd.service.d/hardened.conf",
        "opt/schedd/share/doc/schedd/README.md",
        "opt/schedd/share/doc/schedd/docs/jobs-toml.md",
        "etc/schedd/jobs.toml",
    ] {
        assert!(place(path).exists(), "{path}");
    }
    let unit = fs::read_to_string(place("etc/systemd/system/schedd.service")).unwrap();
    assert!(
        unit.contains("ExecStart=/opt/schedd/bin/schedd\n") && !unit.contains("/usr/bin"),
        "{unit}"
    );
    let check = Command::new(place("opt/schedd/bin/schedctl"))
        .arg("check")
        .arg(place("etc/schedd/jobs.toml"))
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");

    fs::write(place("etc/schedd/jobs.toml"), "# mine\n").unwrap();
    call("install", &words, dest.path());
    assert_eq!(fs::read_to_string(place("etc/schedd/jobs.toml")).unwrap(), "# mine\n");
    call("uninstall", &words, dest.path());
    assert_eq!(files_below(dest.path()), [place("etc/schedd/jobs.toml")]);
    fs::write(place("etc/schedd/backup.env"), "PGPASSWORD=x\n").unwrap();
    let said = call("uninstall", &[&["--purge"], &words[..]].concat(), dest.path());
    assert_eq!(files_below(dest.path()), [place("etc/schedd/backup.env")], "{said}");
    assert!(said.contains("etc/schedd has other files and stays"), "{said}");
    fs::remove_file(place("etc/schedd/backup.env")).unwrap();
    call("uninstall", &[&["--purge"], &words[..]].concat(), dest.path());
    assert!(!place("etc/schedd").exists());
}

#[test]
fn units_go_where_systemd_looks_for_those_of_a_package_and_of_the_host() {
    let Some(built) = built() else { return };
    for prefix in ["usr", "usr/local"] {
        let dest = tempfile::tempdir().unwrap();
        let (to, from) = (dest.path().to_str().unwrap(), built.to_str().unwrap());
        call(
            "install",
            &["--prefix", &format!("/{prefix}/"), "--destdir", to, "--from", from],
            dest.path(),
        );
        for kind in [
            "systemd/system/schedd.service",
            "systemd/user/schedd.service",
            "sysusers.d/schedd.conf",
            "tmpfiles.d/schedd.conf",
        ] {
            assert!(dest.path().join(prefix).join("lib").join(kind).exists(), "{prefix} {kind}");
        }
    }
}

#[test]
fn a_user_installs_it_below_their_own_home() {
    let Some(built) = built() else { return };
    let (home, dest) = (Path::new("/home/somebody"), tempfile::tempdir().unwrap());
    let words =
        ["--user", "--destdir", dest.path().to_str().unwrap(), "--from", built.to_str().unwrap()];
    call("install", &words, home);
    let place = |path: &str| dest.path().join("home/somebody").join(path);
    let unit = fs::read_to_string(place(".config/systemd/user/schedd.service")).unwrap();
    assert!(unit.contains("ExecStart=/home/somebody/.local/bin/schedd\n"), "{unit}");
    for path in [
        ".local/bin/schedctl",
        ".config/schedd/jobs.toml",
        ".config/fish/completions/schedctl.fish",
    ] {
        assert!(place(path).exists(), "{path}");
    }
    call("uninstall", &words, home);
    assert_eq!(files_below(dest.path()), [place(".config/schedd/jobs.toml")]);
}

#[test]
fn a_user_with_another_config_directory_has_unit_and_jobs_file_there() {
    let Some(built) = built() else { return };
    let dest = tempfile::tempdir().unwrap();
    let words =
        ["--user", "--destdir", dest.path().to_str().unwrap(), "--from", built.to_str().unwrap()];
    succeed(
        Command::new(script("install"))
            .args(words)
            .env("HOME", "/home/b")
            .env("XDG_CONFIG_HOME", "/home/b/.conf"),
    );
    let place = |path: &str| dest.path().join("home/b/.conf").join(path);
    let unit = fs::read_to_string(place("systemd/user/schedd.service")).unwrap();
    // %E is that directory, as the person's own systemd knows it.
    assert!(unit.contains("SCHEDD_JOBS=%E/schedd/jobs.toml\n"), "{unit}");
    assert!(place("schedd/jobs.toml").exists());
}

#[test]
fn without_a_way_to_systemd_a_user_is_reported_what_is_left_to_do() {
    let Some(built) = built() else { return };
    // A host booted by systemd, and no session on it.
    let booted = "mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec \"$@\"";
    let within = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", booted, "sh"]).args(words);
        command
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("DBUS_SESSION_BUS_ADDRESS");
        command
    };
    if !within(&["systemctl", "--version"]).output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no /run of its own can be mounted here, or there is no systemctl");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let install = script("install");
    let words = [install.to_str().unwrap(), "--user", "--from", built.to_str().unwrap()];
    let said = succeed(within(&words).env("HOME", home.path()));
    assert!(
        said.ends_with("systemctl --user daemon-reload && systemctl --user enable --now schedd\n"),
        "{said}"
    );
    assert!(home.path().join(".local/bin/schedd").exists());
    succeed(within(&[&words[..], &["--remove", "--purge"]].concat()).env("HOME", home.path()));
    assert!(files_below(home.path()).is_empty());
}
