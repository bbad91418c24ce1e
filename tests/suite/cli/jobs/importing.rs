//! `import crontab`: crontabs of Debian's packages and of a user, as jobs files that `check` takes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::ctl::{Finished, Schedctl};
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use schedd_core::config::{Config, compile_text};
use schedd_core::domain::job::job_spec::{Action, JobSpec, Overlap};
use schedd_schedule::time::zone::Zone;

const USER: &str = include_str!("../crontabs/user.crontab");

fn berlin() -> Schedctl {
    Schedctl::alone().env("TZ", "Europe/Berlin")
}

fn import(ctl: &Schedctl, args: &[&str]) -> Finished {
    ctl.run(&[&["import", "crontab"], args].concat())
}

/// Imports this text from standard input.
fn imported(ctl: &Schedctl, text: &str, args: &[&str]) -> Finished {
    ctl.run_with_input(&[&["import", "crontab", "-"], args].concat(), text.as_bytes())
}

/// Compiles a written file and demands that `schedctl check` takes it.
#[track_caller]
fn taken(ctl: &Schedctl, text: &str) -> Config {
    let file = ctl.home().join("taken.toml");
    fs::write(&file, text).unwrap();
    let checked = ctl.run(&["check", "--json", file.to_str().unwrap()]);
    assert_eq!(checked.code, 0, "{checked:?}\n{text}");
    compile_text(text, "taken.toml", &Zone::utc()).unwrap()
}

fn specs(config: &Config) -> BTreeMap<String, JobSpec> {
    config.jobs.iter().map(|(name, job)| (name.to_string(), job.spec().unwrap())).collect()
}

fn shell(spec: &JobSpec) -> &str {
    match &spec.action {
        Action::Shell(line) => line,
        other => panic!("{other:?}"),
    }
}

/// The lines of a crontab that are neither blank nor comments nor settings.
fn entries(text: &str) -> Vec<&str> {
    let is_entry =
        |line: &&str| line.starts_with(|sign: char| sign.is_ascii_digit() || "*@".contains(sign));
    text.lines().filter(is_entry).collect()
}

#[test]
fn the_crontabs_of_debian_packages_are_carried_over_with_equal_times() {
    let ctl = berlin();
    let drop_ins = ctl.home().join("cron.d");
    fs::create_dir(&drop_ins).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/cli/crontabs/debian");
    let mut count = 0;
    for fixture in fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&fixture).unwrap();
        let copy = drop_ins.join(fixture.file_name().unwrap());
        fs::write(&copy, &text).unwrap();
        let finished = import(&ctl, &[copy.to_str().unwrap(), "--compare", "50"]).good();
        let specs = specs(&taken(&ctl, &finished.stdout));
        let lines = entries(&text);
        assert_eq!(specs.len(), lines.len(), "{finished:?}");
        let equal = finished.stderr.lines().filter(|line| line.contains(": equal: ")).count();
        assert_eq!(equal, lines.len(), "{finished:?}");
        for comment in text.lines().filter(|line| line.starts_with('#') && line.len() > 1) {
            assert!(finished.stdout.contains(comment.trim_end()), "{comment}: {finished:?}");
        }
        for line in lines {
            // The command is all behind the times and the user.
            let times = if line.starts_with('@') { 1 } else { 5 };
            let user = line.split_ascii_whitespace().nth(times).unwrap();
            let command = line
                .split_once(&format!("{user} "))
                .or_else(|| line.split_once(&format!("{user}\t")));
            let command = command.unwrap().1.trim_start().replace("\\%", "%");
            let spec = specs.values().find(|spec| shell(spec) == command);
            let spec = spec.unwrap_or_else(|| panic!("no job for {command}: {finished:?}"));
            let run_as = spec.process.user.as_ref().map_or("root", |run_as| run_as.user());
            assert_eq!(run_as, user, "{line}");
        }
        count += 1;
    }
    assert!(count > 12, "only {count} crontabs were found");
}

#[test]
fn a_crontab_of_a_user_with_every_trap_is_carried_over_or_reported() {
    let ctl = berlin();
    let finished = imported(&ctl, USER, &["--compare", "50"]);
    assert_eq!(finished.code, 1, "{finished:?}");
    let specs = specs(&taken(&ctl, &finished.stdout));
    let reported = |word: &str| finished.stderr.lines().filter(|line| line.contains(word)).count();
    assert_eq!(
        (specs.len(), reported(": equal: "), reported(": differs")),
        (22, 22, 0),
        "{finished:?}"
    );
    let refused = [
        (37, "minute 60 is out of range"),
        (38, "step without a range"),
        (39, "runs backwards"),
        (40, "weekday \"echo\" is not known"),
        (41, "\"@sometimes\" is not known"),
        (42, "matches no day before 2100"),
        (43, "is no name of a variable"),
        (44, "no command"),
        (45, "text behind its end"),
    ];
    assert_eq!(reported("not carried over: "), refused.len(), "{finished:?}");
    for (number, why) in refused {
        let line = format!("schedctl: crontab:{number}: not carried over: ");
        let found = finished.stderr.lines().find(|found| found.starts_with(&line));
        assert!(found.is_some_and(|found| found.contains(why)), "{line}{why}: {finished:?}");
        let text = USER.lines().nth(number - 1).unwrap();
        assert!(finished.stdout.contains(&format!("#   {text}\n")), "{text}: {finished:?}");
    }
    let lines: BTreeMap<&str, (&str, Option<&str>)> = specs
        .iter()
        .map(|(name, spec)| (name.as_str(), (shell(spec), spec.process.stdin.as_deref())))
        .collect();
    for (name, line, stdin) in [
        ("pg_dump", "pg_dump app | gzip > \"/backup/app-$(date +%F).sql.gz\"", None),
        ("mail", "mail -s 'It is 9 o''clock' joe", Some("Joe,\n\nWhere are your reports?\n")),
        ("poll-2", "/usr/bin/env python3 /srv/poll.py # not a comment", None),
        ("awk", "awk '{ print \"it'\\''s $1\" }' /etc/passwd", None),
        ("rotate", "/usr/local/bin/rotate.sh '''quoted thrice''' \"\\\"", None),
        ("find", "find /tmp -name '*.tmp' -mtime +7 -exec rm -- {} \\;", None),
    ] {
        assert_eq!(lines[name], (line, stdin), "{name}");
    }
    let env = |name: &str| {
        specs[name].env.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
    };
    let greeting = "GREETING=  it's me, joe?\t$${HOME} \\ ";
    let path = "PATH=/home/joe/bin:/usr/local/bin:/usr/bin:/bin";
    assert_eq!(env("pg_dump"), [greeting, path]);
    // CRON_TZ moves the times only, so the commands keep the zone of the host.
    assert_eq!(env("date"), [greeting, "HOME=/srv/joe", path, "TZ=Europe/Berlin"]);
    assert_eq!(env("date-2"), [greeting, "HOME=/srv/joe", path, "TZ=Asia/Tokyo"]);
    let zone = |name: &str| specs[name].tz.as_ref().unwrap().as_str();
    assert_eq!(
        [zone("mail"), zone("echo-5"), zone("date-2")],
        ["Europe/Berlin", "America/New_York", "Asia/Tokyo"]
    );
    let notices = |name: &str| specs[name].notices.len();
    assert_eq!(["mail", "poll", "leap-day", "date-2"].map(notices), [2, 1, 0, 2]);
    assert_eq!(specs["leap-day"].cwd.as_deref(), Some(Path::new("/srv/joe")));
    assert!(
        specs
            .values()
            .all(|spec| spec.process.shell() == "/bin/bash" && spec.overlap == Overlap::Allow)
    );
    assert!(specs["agent"].schedule.is_at_boot());
}

#[test]
fn settings_that_cannot_be_kept_are_reported_with_the_lines_that_need_them() {
    let ctl = berlin();
    let text = "CRON_TZ=Mars/Phobos\n0 0 * * * true\nCRON_TZ=\n1 0 * * * true\nMAILTO=-oQ/tmp\n\
                HOME=here\nSHELL=bash\n2 0 * * * true \\\\%\nX=1\r\n3 0 * * * true\r\n4 0 * * * root true\n";
    let finished = imported(&ctl, text, &[]);
    assert_eq!(finished.code, 1, "{finished:?}");
    for words in [
        "crontab:1: not carried over: time zone \"Mars/Phobos\" is unknown",
        "crontab:2: not carried over: CRON_TZ above this line: time zone",
        "crontab:5: not carried over: \"-oQ/tmp\" is not an address",
        "crontab:6: not carried over: HOME is \"here\", wanted an absolute path",
        "crontab:7: not carried over: SHELL is \"bash\"",
        "crontab:8: not carried over: the command has \\\\%",
        "crontab:11: not carried over: the command begins with the word root, as in a system crontab: give --user-column",
        "note: crontab: line ends of Windows are left out",
        "2 jobs, 7 lines not carried over",
    ] {
        assert!(finished.stderr.contains(words), "{words}: {finished:?}");
    }
    assert_eq!(specs(&taken(&ctl, &finished.stdout))["true-2"].env["X"], "1");
    let column =
        imported(&ctl, "4 0 * * * root true\n5 0 * * * news true", &["--user-column"]).good();
    let specs = specs(&taken(&ctl, &column.stdout));
    assert!(specs["true"].process.user.is_none());
    assert_eq!(specs["true-2"].process.user.as_ref().unwrap().user(), "news");
    for words in [
        "jobs of root have no user key",
        "jobs with a user key need",
        "the last line has no newline",
    ] {
        assert!(column.stderr.contains(words), "{words}: {column:?}");
    }
}

#[test]
fn mailto_sends_what_the_run_printed_to_all_addresses() {
    let ctl = berlin();
    let text = "MAILTO=joe@example.com,root\n@daily date\nSHELL=/usr/bin/fish\n@daily date\n";
    let specs = specs(&taken(&ctl, &imported(&ctl, text, &[]).good().stdout));
    let sendmail = ctl.home().join("sendmail");
    fs::write(&sendmail, "#!/bin/sh\necho \"$@\" > args; cat > mail\n").unwrap();
    fs::set_permissions(&sendmail, fs::Permissions::from_mode(0o755)).unwrap();
    for (name, action) in specs.values().flat_map(|spec| &spec.notices) {
        let line = match action {
            Action::Shell(line) => line,
            Action::Command(words) => &words[2],
            Action::Http(_) | Action::Handler(_) => panic!("{action:?}"),
        };
        let line = line.replace("/usr/sbin/sendmail", sendmail.to_str().unwrap());
        let run = |output: &str| {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &line]).current_dir(ctl.home());
            for (variable, value) in
                [("JOB", "date"), ("STATE", "failed"), ("TEXT", "it % failed"), ("OUTPUT", output)]
            {
                shell.env(format!("SCHEDD_ABOUT_{variable}"), value);
            }
            assert!(shell.status().unwrap().success(), "{line}");
            let read = |file: &str| fs::read_to_string(ctl.home().join(file)).ok();
            let sent = (read("args"), read("mail"));
            let _ = ["args", "mail"].map(|file| fs::remove_file(ctl.home().join(file)));
            sent
        };
        let (args, mail) = run("a\n50 %\n");
        assert_eq!(args.as_deref(), Some("-i -- joe@example.com root\n"), "{line}");
        assert_eq!(
            mail.as_deref(),
            Some("To: joe@example.com, root\nSubject: date failed\n\nit % failed\n\na\n50 %\n\n")
        );
        assert_eq!(run("").0.is_some(), name.as_str() == "on_failure", "{line}");
    }
}

#[test]
fn an_imported_job_runs_with_the_input_and_the_variables_of_its_line() {
    let redis = TestRedis::start();
    let ctl = Schedctl::on(&redis).env("TZ", "Asia/Tokyo");
    let text = format!(
        "HOME={0}\nWORDS='a  \"b\" ${{c}}'\n* * * * * cat > got; echo \"$WORDS\" $TZ \\% >> got%one%two \\% three\n",
        ctl.home().display()
    );
    let jobs = imported(&ctl, &text, &[]).good().stdout;
    let daemon = Schedd::on(&redis).jobs(&jobs).start();
    daemon.wait_for_log("All jobs of the jobs file are applied");
    ctl.run(&["run", "cat", "--wait", "--timeout", "30s"]).good();
    let got = fs::read_to_string(ctl.home().join("got")).unwrap();
    assert_eq!(got, "one\ntwo % three\na  \"b\" ${c} Asia/Tokyo %\n");
}

#[test]
fn the_crontab_of_a_user_comes_from_the_program_crontab() {
    let fake = |script: &str| {
        let bin = tempfile::tempdir().unwrap();
        let program = bin.path().join("crontab");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let ctl = berlin().env("PATH", &format!("{}:/bin:/usr/bin", bin.path().display()));
        (ctl, bin)
    };
    let (ctl, _bin) = fake("echo \"0 0 * * * echo $*\"");
    let of = |args: &[&str]| {
        let specs = specs(&taken(&ctl, &import(&ctl, args).good().stdout));
        let spec = specs["echo"].clone();
        (shell(&spec).to_owned(), spec.process.user.map(|run_as| run_as.to_string()))
    };
    assert_eq!(of(&[]), ("echo -l".to_owned(), None));
    assert_eq!(of(&["--user", "news"]), ("echo -l -u news".to_owned(), Some("news".to_owned())));
    assert_eq!(of(&["--user", "root"]), ("echo -l -u root".to_owned(), None));
    import(&ctl, &["--user", "../x"]).refused(2, &["--user", "\"../x\""]);
    let (none, _bin) = fake("echo no crontab for news >&2; exit 1");
    import(&none, &["--user", "news"])
        .refused(1, &["the crontab of news", "no crontab for news", "name a FILE"]);
    let (no_right, _bin) = fake("echo 'must be privileged to use -u' >&2; exit 1");
    import(&no_right, &["--user", "news"])
        .refused(1, &["must be privileged", "call schedctl as root"]);
    let empty = tempfile::tempdir().unwrap();
    let no_program = berlin().env("PATH", empty.path().to_str().unwrap());
    import(&no_program, &[]).refused(1, &["no program crontab", "name a FILE"]);
    import(&no_program, &["--user", "nobody-here"])
        .refused(1, &["/var/spool/cron/crontabs/nobody-here"]);
}

#[test]
fn the_file_of_o_is_new_and_json_has_the_whole_report() {
    let ctl = berlin();
    fs::write(ctl.home().join("in"), "0 5 * * * a\n60 * * * * b\n").unwrap();
    let finished = import(&ctl, &["in", "-o", "jobs.toml"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (1, ""), "{finished:?}");
    let written = fs::read_to_string(ctl.home().join("jobs.toml")).unwrap();
    assert_eq!(written, import(&ctl, &["in"]).stdout);
    import(&ctl, &["in", "-o", "jobs.toml"]).refused(4, &["jobs.toml exists already"]);
    import(&ctl, &["missing"]).refused(2, &["missing cannot be read", "wanted a crontab"]);
    import(&ctl, &["in", "--system"]).refused(2, &["--system"]);
    import(&ctl, &["--user-column"]).refused(2, &["FILE"]);
    let finished = import(&ctl, &["in", "--json", "--compare", "3"]);
    let document = finished.json();
    assert_eq!(document["jobs"], json!([{"job": "a", "line": "in:1"}]));
    let refused = &document["not_carried_over"][0];
    assert_eq!((&refused["line"], &refused["text"]), (&json!("in:2"), &json!("60 * * * * b")));
    assert_eq!(document["compared"][0]["equal"], Value::Bool(true));
    assert_eq!(document["text"].as_str(), Some(written.as_str()));
}
