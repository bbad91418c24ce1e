//! `script/install` puts everything where it belongs, keeps a jobs file that is there, and `script/uninstall` takes it away again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn call(script: &str, words: &[&str], home: &Path) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("script").join(script);
    let output = Command::new(program).args(words).env("HOME", home).env_remove("XDG_CONFIG_HOME").output().unwrap();
    assert!(output.status.success(), "{script} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Where the programs of this build are; none, said, if the one that writes the manual is not among them.
fn built() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_BIN_EXE_schedd")).parent().unwrap().to_owned();
    if dir.join("examples/manual").exists() {
        return Some(dir);
    }
    eprintln!("SKIPPED: the example manual is not built (cargo build --example manual), so script/install was not tried");
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
    let words = ["--prefix", "/opt/schedd", "--destdir", dest.path().to_str().unwrap(), "--from", built.to_str().unwrap()];
    call("install", &words, dest.path());
    let place = |path: &str| dest.path().join(path);
    for path in [
        "opt/schedd/bin/schedd",
        "opt/schedd/bin/schedctl",
        "opt/schedd/lib/systemd/system/schedd.service",
        "opt/schedd/lib/systemd/user/schedd.service",
        "opt/schedd/lib/sysusers.d/schedd.conf",
        "opt/schedd/lib/tmpfiles.d/schedd.conf",
        "opt/schedd/share/man/man1/schedctl-add.1",
        "opt/schedd/share/man/man5/jobs.toml.5",
        "opt/schedd/share/man/man8/schedd.8",
        "opt/schedd/share/bash-completion/completions/schedctl",
        "opt/schedd/share/doc/schedd/examples/schedd.service.d/hardened.conf",
        "etc/schedd/jobs.toml",
    ] {
        assert!(place(path).exists(), "{path}");
    }
    let unit = fs::read_to_string(place("opt/schedd/lib/systemd/system/schedd.service")).unwrap();
    assert!(unit.contains("ExecStart=/opt/schedd/bin/schedd\n") && !unit.contains("/usr/bin"), "{unit}");
    let check = Command::new(place("opt/schedd/bin/schedctl")).arg("check").arg(place("etc/schedd/jobs.toml")).output().unwrap();
    assert!(check.status.success(), "{check:?}");

    fs::write(place("etc/schedd/jobs.toml"), "# mine\n").unwrap();
    call("install", &words, dest.path());
    assert_eq!(fs::read_to_string(place("etc/schedd/jobs.toml")).unwrap(), "# mine\n");
    call("uninstall", &words, dest.path());
    assert_eq!(files_below(dest.path()), [place("etc/schedd/jobs.toml")]);
    call("uninstall", &[&["--purge"], &words[..]].concat(), dest.path());
    assert!(files_below(dest.path()).is_empty());
}

#[test]
fn a_person_installs_it_below_their_own_home() {
    let Some(built) = built() else { return };
    let (home, dest) = (Path::new("/home/somebody"), tempfile::tempdir().unwrap());
    let words = ["--user", "--destdir", dest.path().to_str().unwrap(), "--from", built.to_str().unwrap()];
    call("install", &words, home);
    let place = |path: &str| dest.path().join("home/somebody").join(path);
    let unit = fs::read_to_string(place(".config/systemd/user/schedd.service")).unwrap();
    assert!(unit.contains("ExecStart=/home/somebody/.local/bin/schedd\n"), "{unit}");
    for path in [".local/bin/schedctl", ".config/schedd/jobs.toml", ".config/fish/completions/schedctl.fish"] {
        assert!(place(path).exists(), "{path}");
    }
    call("uninstall", &words, home);
    assert_eq!(files_below(dest.path()), [place(".config/schedd/jobs.toml")]);
}
