//! The tour of README.md works word by word: its file, and each command that it shows.

use crate::support::ctl::{Finished, Schedctl};
use crate::support::daemon::Schedd;
use crate::support::wait::{LONG, until};

/// The section of README.md that is the tour.
const TITLE: &str = "## The first minute\n";

#[test]
fn each_command_of_the_tour_prints_what_the_readme_shows() {
    let readme = include_str!("../../../README.md");
    let tour = readme.split_once(TITLE).unwrap().1.split("\n## ").next().unwrap();
    let jobs = tour.split_once("<<'TOML'\n").unwrap().1.split_once("TOML\n").unwrap().0;
    let daemon = Schedd::with_private_redis().jobs(jobs).start();
    let state = daemon.state_home();
    let ctl = Schedctl::alone().env("XDG_STATE_HOME", state.to_str().unwrap());
    std::fs::write(ctl.home().join("jobs.toml"), jobs).unwrap();
    assert_eq!(ctl.run(&["check", "jobs.toml"]).good().stdout, "jobs.toml: 1 job, no problems\n");
    until("the first run of the tour has ended", LONG, || {
        (ctl.run(&["logs", "hello"]).code == 0).then_some(())
    });
    let shown = tour.split("```\n").filter(|block| block.starts_with("$ "));
    let calls: Vec<&str> = shown.flat_map(|block| block.split("$ ").skip(1)).collect();
    assert!(calls.len() > 6, "{calls:?}");
    for call in calls {
        let (line, printed) = call.split_once('\n').unwrap();
        let finished = in_shell(&ctl, line);
        let wanted_code = if line.contains("exit 3") { 3 } else { 0 };
        assert_eq!(finished.code, wanted_code, "{line}: {finished:?}");
        let lines = |text: &str| text.lines().count();
        let found = lines(&finished.stdout) + lines(&finished.stderr);
        assert!(found >= lines(printed.trim_end()), "{line}: {finished:?}");
    }
}

/// Runs a line as a shell would, with `schedctl` on its PATH.
fn in_shell(ctl: &Schedctl, line: &str) -> Finished {
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_schedctl")).parent().unwrap();
    let mut command = ctl.command_of("/bin/sh");
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).args(["-c", line]);
    Finished::of(command.output().unwrap())
}
