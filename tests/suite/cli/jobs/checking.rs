//! `check`.

use std::fs;
use std::path::PathBuf;

use crate::support::ctl::Schedctl;

fn with_file(text: &str) -> (Schedctl, PathBuf) {
    let ctl = Schedctl::alone();
    let file = ctl.home().join("jobs.toml");
    fs::write(&file, text).unwrap();
    (ctl, file)
}

#[test]
fn a_good_file_is_counted_without_any_redis() {
    let (ctl, file) =
        with_file("[jobs.a]\nshell = \"x\"\n[jobs.b]\nshell = \"y\"\nevery = \"1m\"\n");
    let named = ctl.run(&["check", file.to_str().unwrap()]).good();
    assert_eq!(named.stdout, format!("{}: 2 jobs, no problems\n", file.display()));
    assert_eq!(ctl.run(&["check"]).good().stdout, "jobs.toml: 2 jobs, no problems\n");
    let json = ctl.run(&["check", "--json"]).good().json();
    assert_eq!((&json["jobs"], &json["problems"]), (&2.into(), &serde_json::json!([])));
}

#[test]
fn every_problem_is_reported_with_its_place_and_what_was_meant() {
    let (ctl, _) =
        with_file("[jobs.a]\ncomand = \"x\"\n[jobs.b]\nshell = \"y\"\ntimeout = \"30\"\n");
    let finished = ctl.run(&["check"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (78, ""));
    let lines: Vec<&str> = finished.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{finished:?}");
    assert!(
        lines[0].starts_with("jobs.toml:2:1: jobs.a.comand: ")
            && lines[0].contains("did you mean \"command\""),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("jobs.toml:5:11: jobs.b.timeout: ") && lines[1].contains("\"30s\""),
        "{lines:?}"
    );
    let with_json = ctl.run(&["check", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&with_json.stderr).unwrap();
    assert_eq!((&error["exit_code"], &error["kind"]), (&78.into(), &"config".into()));
    let absent = ctl.run(&["check", "--json", "absent.toml"]);
    let error: serde_json::Value = serde_json::from_str(&absent.stderr).unwrap();
    assert!(error["error"].as_str().unwrap().contains("absent.toml"), "{absent:?}");
    let problem = &with_json.json()["problems"][1];
    assert_eq!(problem["path"], "jobs.b.timeout");
    assert!(
        lines[1].starts_with(&format!("jobs.toml:{}:{}: ", problem["line"], problem["column"])),
        "{problem} {lines:?}"
    );
    let (ctl, _) = with_file("[jobs.a\n");
    assert_eq!(ctl.run(&["check"]).code, 78);
}

#[test]
fn keys_of_other_programs_lead_to_the_right_keys() {
    let text = "[jobs.a]\ncmd = ['x']\nschedule = '@daily'\ntimezone = 'UTC'\nretries = 3\n\
                working_dir = '/'\nconcurrencyPolicy = 'Forbid'\nmailto = 'root'\n";
    let (ctl, _) = with_file(text);
    let said = ctl.run(&["check"]);
    for (found, meant) in [
        ("cmd", "command"),
        ("schedule", "cron"),
        ("timezone", "tz"),
        ("retries", "retry"),
        ("working_dir", "cwd"),
        ("concurrencyPolicy", "overlap"),
        ("mailto", "on_failure"),
    ] {
        let line = format!("jobs.a.{found}: unknown key, did you mean \"{meant}\"?");
        assert!(said.stderr.contains(&line), "{said:?}");
    }
    assert_eq!(said.stderr.lines().count(), 7, "no key is reported as missing too: {said:?}");
}

#[test]
fn a_job_is_not_suggested_in_its_own_not_while() {
    let (ctl, _) = with_file("[jobs.a]\nshell = 'x'\nnot_while = ['b']\n");
    let said = ctl.run(&["check"]).good();
    assert!(said.stderr.contains("this file has no job b; the name has no effect"), "{said:?}");
}

#[test]
fn a_schedule_whose_last_time_is_past_is_reported_and_no_problem() {
    let jobs = [
        ("at", "at = '2020-05-06T07:08:09Z'"),
        ("ended", "cron = '0 9 * * *'\nend = '2021-01-01'"),
        ("daily", "cron = '0 9 * * *'"),
        ("pausing", "delay = '1h'"),
        ("by-hand", ""),
        ("boot", "cron = '@reboot'"),
    ];
    let tables =
        jobs.map(|(name, lines)| format!("[jobs.{name}]\ntz = 'UTC'\nshell = 'x'\n{lines}\n"));
    let (ctl, _) = with_file(&tables.concat());
    let checked = ctl.run(&["check"]).good();
    assert_eq!(checked.stdout, "jobs.toml: 6 jobs, no problems\n", "{checked:?}");
    let reported: Vec<&str> = checked.stderr.lines().collect();
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert!(
        reported[0]
            .contains("jobs.toml: jobs.at: no future time: the last was 2020-05-06T07:08:09.000"),
        "{reported:?}"
    );
    assert!(reported[0].contains("does not add a job whose only time is past"), "{reported:?}");
    assert!(reported[1].contains("runs only by schedctl run ended"), "{reported:?}");
    assert!(
        reported[1].contains("jobs.ended: no future time: the last was 2020-12-31T09:00:00.000"),
        "{reported:?}"
    );
    assert_eq!(
        ctl.run(&["check", "--json"]).good().json()["warnings"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn what_keeps_every_run_of_a_job_from_starting_here_is_reported_and_no_problem() {
    use std::os::unix::fs::PermissionsExt as _;
    let (ctl, file) = with_file("");
    let home = ctl.home().display().to_string();
    for (name, text, mode) in [
        ("good", "A=1\n", 0o600),
        ("faulty", "A=1\nno variable\n", 0o600),
        ("open", "A=1\n", 0o666),
    ] {
        let path = ctl.home().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(
        file,
        format!(
            "[daemon]\nusers = ['nobody']\n[jobs.a]\nshell = 'x'\nuser = 'daemon'\nenv_file = ['{home}/good', '{home}/faulty']\n\
             [jobs.b]\nshell = 'x'\nuser = 'nobody'\nenv_file = '{home}/open'\nping_url = 'http://h/{{jb}}'\n\
             [jobs.c]\nshell = 'x'\nping_url = 'http://h/{{job}}/${{credential:x}}'\n"
        ),
    )
    .unwrap();
    let checked = ctl.run(&["check"]).good();
    let reported: Vec<&str> = checked.stderr.lines().collect();
    for wanted in [
        "jobs.b.ping_url: found \"{jb}\", which schedd does not replace, wanted {job}",
        "jobs.a: env_file ",
        "jobs.a.user: daemon is not among [daemon] users of this file, which lists nobody; the runs of the job cannot start, unless schedd itself runs as daemon",
        "open cannot be used: everybody can write the file (mode 0666)",
    ] {
        assert!(reported.iter().any(|line| line.contains(wanted)), "no {wanted}: {reported:#?}");
    }
    assert_eq!(reported.len(), 4, "{reported:#?}");
}

#[test]
fn a_missing_file_is_a_bad_one() {
    let ctl = Schedctl::alone();
    let finished = ctl.run(&["check", "/no/such.toml"]);
    assert_eq!(finished.code, 78);
    assert!(finished.stderr.contains("/no/such.toml: no such file"), "{finished:?}");
    ctl.run(&["check"]).refused(78, &["./jobs.toml", "/etc/schedd/jobs.toml"]);
}

#[test]
fn the_example_has_no_problems() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/jobs.toml");
    Schedctl::alone().run(&["check", example]).good();
}
