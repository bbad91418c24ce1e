//! What a person sees: help, colour, and nothing that steers the terminal.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use schedd_core::domain::run::run_state::RunState;

use super::Bench;
use crate::support::ctl::{Finished, Schedctl};

const VERBS: [&str; 18] = [
    "add", "list", "cancel", "show", "history", "logs", "next", "describe", "graph", "run",
    "rerun", "backfill", "pause", "resume", "check", "stats", "top", "nodes",
];

#[test]
fn no_words_give_the_help_and_wrong_ones_the_nearest_verb() {
    let alone = Schedctl::alone();
    let bare = alone.run(&[]);
    assert_eq!(bare.code, 2);
    assert!(VERBS.iter().all(|verb| bare.stderr.contains(&format!("\n  {verb} "))), "{bare:?}");
    alone.run(&["ad"]).refused(2, &["'ad'", "'add'"]);
    alone.run(&["frobnicate"]).refused(2, &["frobnicate"]);
    alone.run(&["rm", "list"]).refused(2, &["unknown verb \"rm\"", "schedctl cancel JOB"]);
    alone.run(&["status"]).refused(2, &["schedctl show JOB, or schedctl list"]);
    alone.run(&["queue", "rm", "x"]).refused(2, &["'rm'", "schedctl queue --help"]);
    alone.run(&["list", "--jsn"]).refused(2, &["--jsn", "--json"]);
    assert!(alone.run(&["--version"]).good().stdout.starts_with("schedctl "));
    assert!(!bare.stderr.contains("simulate"), "verbs of later versions are not promised");
}

#[test]
fn every_verb_explains_itself_with_an_example() {
    let alone = Schedctl::alone();
    for verb in VERBS {
        let help = alone.run(&[verb, "--help"]).good().stdout;
        assert!(help.contains(&format!("  schedctl {verb}")) && help.contains("--json"), "{help}");
        assert!(help.lines().all(|line| line.len() <= 100), "{help}");
    }
}

#[test]
fn no_help_is_broken_in_its_middle_on_a_terminal_wide_enough() {
    fn walk(command: &clap::Command, path: &str) {
        let texts = [command.get_after_help(), command.get_after_long_help()];
        for text in texts.into_iter().flatten().map(ToString::to_string) {
            let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 100).collect();
            assert!(
                long.is_empty(),
                "{path}: longer than the 100 columns it is broken at: {long:#?}"
            );
        }
        command
            .get_subcommands()
            .for_each(|inner| walk(inner, &format!("{path} {}", inner.get_name())));
    }
    walk(&schedd_programs::cli::command(), "schedctl");
}

#[test]
fn on_a_narrow_terminal_a_job_has_room_on_one_line() {
    let bench = Bench::start();
    bench.add(&["--name", "daily-backup", "--at", "2099-01-01T02:30:00Z", "--", "x"]);
    let line = |columns: u32| {
        let seen = bench.ctl.run_on_terminal_of(columns, &["list"]).good().stdout;
        assert_eq!(seen.contains("times in UTC"), columns == 80, "{seen}");
        seen.lines().find(|line| line.contains("daily-backup")).unwrap().trim_end().to_owned()
    };
    let (narrow, wide) = (line(80), line(200));
    assert!(narrow.len() <= 80 && narrow.starts_with("2099-01-01 02:30:00  "), "{narrow}");
    assert!(wide.starts_with("Thu 2099-01-01 02:30:00 UTC "), "{wide}");
}

#[test]
fn a_mistyped_flag_of_add_is_reported_with_the_help_to_read() {
    let alone = Schedctl::alone();
    let finished = alone.run(&["add", "--nam", "a", "--", "x"]);
    finished.refused(2, &["'--nam'", "'--name'", "see schedctl add --help"]);
    assert!(!finished.stderr.contains("as a value"), "{finished:?}");
    alone.run(&["add", "--in", "5m"]).refused(2, &["a command goes after --", "schedctl add"]);
    alone
        .run(&["list", "--state", "bad"])
        .refused(2, &["scheduled, running, retrying, paused", "see schedctl list --help"]);
}

#[test]
fn an_argument_that_is_not_utf_8_is_a_usage_error_in_one_line() {
    let alone = Schedctl::alone();
    let bytes = OsStr::from_bytes(b"\xff");
    for words in [&["list"][..], &["--redis"], &["add", "--"], &["queue"]] {
        let finished = Finished::of(alone.command(words).arg(bytes).output().unwrap());
        finished.refused(2, &["schedctl"]);
        assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    }
    let mut command = alone.command(&["--json", "add", "--"]);
    let finished = Finished::of(command.arg(bytes).output().unwrap());
    let error: serde_json::Value = serde_json::from_str(&finished.stderr).unwrap();
    assert_eq!((finished.code, &error["kind"]), (2, &"invalid".into()), "{finished:?}");
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    let bench = Bench::start();
    let on_terminal = |vars: &[(&str, &str)]| {
        let ctl = Schedctl::on(&bench.redis).env("TZ", "UTC");
        let ctl = vars.iter().fold(ctl, |ctl, (name, value)| ctl.env(name, value));
        ctl.run_on_terminal(&["list"]).good().stdout
    };
    bench.add(&["--name", "a", "--every", "1h", "--", "x"]);
    bench.ctl.run(&["pause", "a"]).good();
    assert!(on_terminal(&[("TERM", "xterm")]).contains("\u{1b}[33mpaused"));
    for vars in [&[("TERM", "xterm"), ("NO_COLOR", "1")][..], &[("TERM", "dumb")], &[]] {
        let seen = on_terminal(vars);
        assert!(!seen.contains('\u{1b}') && seen.contains("paused"), "{vars:?}: {seen}");
    }
    assert!(!bench.ctl.run(&["list"]).stdout.contains('\u{1b}'));
}

#[test]
fn a_narrow_terminal_or_none_loses_nothing() {
    let bench = Bench::start();
    let name = "a".repeat(63);
    bench.add(&["--name", &name, "--in", "1h", "--", "x"]);
    for vars in [
        &[("COLUMNS", "20"), ("TERM", "xterm"), ("NO_COLOR", "1")][..],
        &[("LANG", "C"), ("TERM", "dumb")],
    ] {
        let ctl =
            vars.iter().fold(Schedctl::on(&bench.redis), |ctl, (var, value)| ctl.env(var, value));
        for seen in [ctl.run(&["list"]).good().stdout, ctl.run_on_terminal(&["list"]).good().stdout]
        {
            assert!(seen.contains(&name) && seen.contains("scheduled"), "{seen}");
        }
    }
}

#[test]
fn a_count_is_said_on_a_terminal_only_and_that_there_is_nothing_always() {
    let bench = Bench::start();
    bench.node.beat("");
    assert!(bench.ctl.run_on_terminal(&["list"]).good().stdout.contains("no jobs"));
    let empty = bench.ctl.run(&["list"]).good();
    assert_eq!((empty.stdout.as_str(), empty.stderr.as_str()), ("", "no jobs\n"));
    bench.add(&["--name", "a", "--", "x"]);
    assert!(bench.ctl.run_on_terminal(&["list"]).good().stdout.contains("1 job"));
    assert_eq!(bench.ctl.run(&["list"]).good().stderr, "");
}

#[test]
fn what_a_job_wrote_cannot_steer_the_terminal_unless_it_may() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--in", "0s", "--", "x"]);
    let claim = bench.node.claim("a");
    let nasty = "one\u{1b}]52;c;eA==\u{7}two\rthree\u{202e}four\u{9b}five\ttab\nlast\n";
    bench.node.write(&claim, nasty.as_bytes(), "e\u{1b}[2J\n".as_bytes(), 0);
    let error = "no \u{1b}[31mred\n\u{202e}line";
    bench.node.finish(&claim, RunState::Failed, &[("error", error)]);

    let seen = bench.ctl.run_on_terminal(&["logs", "a"]).good().stdout;
    assert!(!seen.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{9b}']), "{seen:?}");
    assert!(seen.contains("two\\rthree") && seen.contains("\ttab\r\nlast"), "{seen:?}");
    let raw = bench.ctl.run_on_terminal(&["logs", "a", "--raw"]).good().stdout;
    assert!(raw.contains("\u{1b}]52;c;eA=="), "{raw:?}");
    assert_eq!(bench.ctl.run(&["logs", "a"]).good().stdout, nasty);
    let json = bench.ctl.run_on_terminal(&["logs", "a", "--json"]).good().stdout;
    assert!(!json.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{9b}']), "{json:?}");
    let document: serde_json::Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!(document["stdout"], nasty, "escaped, and the same");

    for args in [&["history", "a"][..], &["show", "a"], &["show", &claim.run.to_string()]] {
        let seen = bench.ctl.run(args).good().stdout;
        assert!(
            !seen.contains(['\u{1b}', '\u{202e}'])
                && seen.contains("no \\u{1b}[31mred\\n\\u{202e}line"),
            "{seen}"
        );
    }
}

#[test]
fn no_verb_minds_a_reader_that_has_gone() {
    let bench = Bench::start();
    bench.node.beat("");
    bench.add(&["--name", "a", "--every", "1s", "--", "x"]);
    let claim = bench.node.claim("a");
    bench.node.write(&claim, b"out\n", b"", 0);
    bench.node.finish(&claim, RunState::Failed, &[("exit_code", "3")]);
    let id = claim.run.to_string();
    std::fs::write(bench.ctl.home().join("jobs.toml"), "[jobs.f]\nevery = \"1h\"\nshell = \"x\"\n")
        .unwrap();
    for args in [
        &["--help"][..],
        &["--version"],
        &["list"],
        &["list", "--json"],
        &["list", "--watch"],
        &["show", "a"],
        &["show", &id, "--json"],
        &["history", "a"],
        &["history", "--dead", "--json"],
        &["logs", &id],
        &["logs", &id, "--json"],
        &["logs", "-f", &id, "--quiet"],
        &["explain", "a", "--last"],
        &["next", "a", "-n", "100"],
        &["next", "@hourly", "-n", "5000"],
        &["next", "--file", "jobs.toml"],
        &["describe", "@daily"],
        &["check", "jobs.toml"],
        &["stats"],
        &["nodes"],
        &["queues"],
        &["groups"],
        &["graph"],
        &["data-loss"],
        &["doctor"],
        &["pause", "a"],
        &["resume", "a"],
        &["run", "a"],
        &["retry", &id],
        &["queue", "pause", "default"],
        &["add", "--in", "1h", "--", "x"],
        &["cancel", "a"],
    ] {
        let mut child =
            bench.ctl.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !said.contains("panicked") && !said.contains("cannot be written"),
            "{args:?}: {said}"
        );
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    }
}

#[test]
fn a_text_that_cannot_be_read_is_pointed_at_on_a_terminal() {
    let alone = Schedctl::alone();
    for (args, shown) in [
        (&["describe", "0 0 * * *1"][..], "  0 0 * * *1\r\n          ^\r\n"),
        (&["next", "0 60 * * *"], "  0 60 * * *\r\n    ^\r\n"),
        (&["add", "--at", "tomorow 9", "--", "x"], "  tomorow 9\r\n  ^\r\n"),
        (&["add", "--cron", "0 60 * * *", "--", "x"], "  0 60 * * *\r\n    ^\r\n"),
        (
            &["add", "--cron", "@daily", "--cron", "0 9 * * 8", "--", "x"],
            "  0 9 * * 8\r\n          ^\r\n",
        ),
        (&["add", "--cron", "@every 0s", "--", "x"], "  @every 0s\r\n         ^\r\n"),
        (
            &["add", "--calendar", "Mon..Fri 25:00", "--", "x"],
            "  Mon..Fri 25:00\r\n           ^\r\n",
        ),
        (
            &["add", "--rrule", "FREQ=DAILLY", "--dtstart", "2026-01-05T09:00", "--", "x"],
            "  FREQ=DAILLY\r\n       ^\r\n",
        ),
        (
            &["next", "@daily", "--from", "tomorrow 9am sharp"],
            "  tomorrow 9am sharp\r\n               ^\r\n",
        ),
    ] {
        let seen = alone.run_on_terminal(args);
        assert_eq!(seen.code, 2);
        assert!(seen.stdout.ends_with(shown), "{seen:?}");
    }
}

#[test]
fn problems_of_a_file_are_pointed_at_on_a_terminal() {
    let alone = Schedctl::alone();
    std::fs::write(alone.home().join("jobs.toml"), "[jobs.a]\ncomand = \"x\"\n").unwrap();
    let seen = alone.run_on_terminal(&["check"]);
    assert_eq!(seen.code, 78);
    assert!(seen.stdout.contains("2 | comand") && seen.stdout.contains("^^^^^^"), "{seen:?}");
}

#[test]
fn with_json_every_error_is_one_object_on_standard_error() {
    let bench = Bench::start();
    let alone = Schedctl::alone();
    let error = |ctl: &Schedctl, args: &[&str]| -> serde_json::Value {
        let finished = ctl.run(args);
        assert_eq!(finished.stdout, "", "{finished:?}");
        let error: serde_json::Value = serde_json::from_str(&finished.stderr)
            .unwrap_or_else(|error| panic!("{error}: {finished:?}"));
        assert_eq!(error["exit_code"], finished.code, "{finished:?}");
        error
    };
    for (args, kind, word) in [
        (&["show", "nosuch", "--json"][..], "not_found", "no job nosuch"),
        (&["list", "--json", "--namespace", "A B"], "invalid", "namespace"),
        (&["rm", "x", "--json"], "invalid", "schedctl cancel JOB"),
        (&["list", "--limit", "x", "--json"], "invalid", "a whole number"),
    ] {
        let error = error(&bench.ctl, args);
        assert_eq!(error["kind"], kind, "{error}");
        assert!(error["error"].as_str().unwrap().contains(word), "{error}");
    }
    let away = ["list", "--json", "--redis", "unix:///nonexistent/redis.sock"];
    assert_eq!(error(&alone, &away)["kind"], "unreachable");
    // Words behind `--` belong to the job.
    alone.run(&["add", "--nosuch", "--", "x", "--json"]).refused(2, &["schedctl: ", "--nosuch"]);
    // The error of one line does not end the command, so it has no exit code.
    bench.node.beat("");
    let lines = bench.ctl.run_with_input(&["add", "--stdin", "--json"], b"{}\n");
    let error: serde_json::Value = serde_json::from_str(&lines.stderr).unwrap();
    assert!(error["error"].as_str().unwrap().starts_with("line 1: "), "{lines:?}");
    assert_eq!(error["exit_code"], serde_json::Value::Null);
}
