//! Shells are offered verbs, flags, names of jobs and ids of runs; each by the script that `completions` prints for it.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use schedd_core::domain::run::run_state::RunState;

use super::Bench;
use crate::support::ctl::Schedctl;

/// What a shell says to this script, with `schedctl` on its PATH; none, said, where there is no such shell.
fn in_shell(ctl: &Schedctl, shell: &str, words: &[&str]) -> Option<String> {
    let bin = ctl.home().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let _ = symlink(env!("CARGO_BIN_EXE_schedctl"), bin.join("schedctl"));
    let settings = ctl.command(&[]);
    let mut command = Command::new(shell);
    command.args(words).env_clear().current_dir(ctl.home());
    for (name, value) in settings.get_envs() {
        command.env(name, value.unwrap());
    }
    match command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).output() {
        Ok(output) => {
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{shell} {words:?}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("SKIPPED: no {shell} here, so its completions were not tried");
            None
        }
        Err(error) => panic!("{shell}: {error}"),
    }
}

/// The file with the script for a shell.
fn script(ctl: &Schedctl, shell: &str) -> String {
    let file = ctl.home().join(format!("schedctl.{shell}"));
    std::fs::write(&file, ctl.run(&["completions", shell]).good().stdout).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn the_script_of_each_shell_is_one_that_it_reads() {
    let ctl = Schedctl::alone();
    for shell in ["bash", "zsh", "fish"] {
        let file = script(&ctl, shell);
        assert_ne!(in_shell(&ctl, shell, &["-n", &file]), Some("x".to_owned()));
    }
    ctl.run(&["completions", "tcsh"]).refused(2, &["tcsh", "bash"]);
}

/// What bash would put behind these pieces of a line, the last of which is being written.
fn bash(ctl: &Schedctl, pieces: &str) -> Vec<String> {
    let line = format!(
        "source {}; COMP_WORDS=({pieces}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _schedctl; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script(ctl, "bash")
    );
    in_shell(ctl, "bash", &["-c", &line]).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn names_of_jobs_and_ids_of_runs_are_offered() {
    let bench = Bench::start();
    for name in ["backup", "basic", "report"] {
        bench.add(&["--name", name, "--cron", "30 2 * * *", "--shell", "true"]);
    }
    assert_eq!(bash(&bench.ctl, "schedctl show ba"), ["backup", "basic"]);
    assert_eq!(bash(&bench.ctl, "schedctl pause backup r"), ["report"]);
    // Bash takes an id apart, and is given what belongs behind the sign.
    let planned = bash(&bench.ctl, "schedctl logs backup @");
    assert!(planned.len() == 1 && planned[0].parse::<i64>().is_ok(), "{planned:?}");
    assert_eq!(
        bash(&bench.ctl, &format!("schedctl cancel backup @ {}", &planned[0][..5])),
        planned
    );
    assert!(bash(&bench.ctl, "schedctl que").contains(&"queues".to_owned()));
    assert_eq!(bash(&bench.ctl, "schedctl show --no-h"), ["--no-headers"]);
    let fish = script(&bench.ctl, "fish");
    if let Some(offered) = in_shell(
        &bench.ctl,
        "fish",
        &["-c", &format!("source {fish}; complete -C 'schedctl show ba'")],
    ) {
        assert_eq!(offered.split_whitespace().collect::<Vec<_>>(), ["backup", "basic"]);
    }
}

#[test]
fn queues_zones_words_dead_letters_and_ended_jobs_are_offered() {
    let bench = Bench::start();
    bench.add(&["--name", "once", "--in", "0s", "--", "x"]);
    let claim = bench.node.claim("once");
    bench.node.finish(&claim, RunState::Failed, &[("exit_code", "1")]);
    bench.add(&["--name", "fine", "--in", "0s", "--", "x"]);
    let claim = bench.node.claim("fine");
    bench.node.finish(&claim, RunState::Succeeded, &[("exit_code", "0")]);
    let offered = |line: &str| bash(&bench.ctl, line);
    assert_eq!(offered("schedctl show on"), ["once"]);
    assert_eq!(offered("schedctl logs fi"), ["fine"]);
    assert_eq!(offered("schedctl pause on"), [""; 0], "it is over");
    let dead = offered("schedctl retry o");
    assert!(dead.len() == 1 && dead[0].starts_with("once@"), "{dead:?}");
    assert_eq!(offered("schedctl retry fi"), [""; 0], "it succeeded");
    assert_eq!(offered("schedctl queue pause de"), ["default"]);
    assert_eq!(offered("schedctl queue set default li"), ["limit="]);
    assert_eq!(offered("schedctl list --queue de"), ["default"]);
    assert_eq!(offered("schedctl add --queue de"), ["default"]);
    assert_eq!(offered("schedctl add --overlap re"), ["replace"]);
    assert_eq!(offered("schedctl add --tz europe/berl"), ["Europe/Berlin"]);
    assert_eq!(offered("schedctl next x --tz Europe/Berl"), ["Europe/Berlin"]);
    assert_eq!(offered("schedctl history --state fa"), ["failed"]);
}

#[test]
fn without_a_redis_no_job_is_offered_and_nothing_is_said() {
    let ctl = Schedctl::alone().env("SCHEDD_REDIS_URL", "redis://192.0.2.1:6379/0");
    let began = Instant::now();
    assert_eq!(bash(&ctl, "schedctl show ba"), [""; 0]);
    assert!(began.elapsed() < Duration::from_secs(20), "it waited for the Redis");
    assert_eq!(bash(&Schedctl::alone(), "schedctl show ba"), [""; 0]);
}
