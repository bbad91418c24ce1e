//! Secrets of a node: jobs get them, and nothing anybody can look at holds them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::host::http_sink::{Answer, HttpSink};
use crate::support::redis::TestRedis;
use crate::support::snapshot::snapshot;
use crate::support::wait::{LONG, until};

/// Part of every secret here, so that looking for it finds each.
const SECRET: &str = "hunter2";

/// A daemon with credentials of its own and a command line without.
struct Host {
    // In the order in which they are to end.
    daemon: Schedd,
    ctl: Schedctl,
    redis: TestRedis,
    dir: tempfile::TempDir,
}

impl Host {
    /// The text of its file has `DIR` for the directory with the credentials.
    fn start(jobs: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let redis = TestRedis::start();
        put(dir.path(), "token", "hunter2-token\n");
        put(dir.path(), "path", "hunter2-path");
        put(dir.path(), "backup.env", "# of the backup\nPGPASSWORD='hunter2 $x'\nTOKEN=not this\n");
        let place = dir.path().to_str().unwrap();
        let daemon = Schedd::on(&redis)
            .node("web-1")
            .env("CREDENTIALS_DIRECTORY", place)
            .jobs(&jobs.replace("DIR", place))
            .start();
        daemon.wait_for_log("All jobs of the jobs file are applied");
        let ctl = Schedctl::on(&redis).env("TZ", "UTC");
        Self { daemon, ctl, redis, dir }
    }

    /// Runs it to its end and gives its record.
    fn run(&self, job: &str) -> Value {
        let finished = self.ctl.run(&["run", job, "--wait", "--timeout", "30s"]);
        let id = finished.stdout.lines().next().unwrap_or_default().to_owned();
        self.ctl.run(&["show", &id, "--json"]).good().json()
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    /// The arguments of the daemon and of all its children.
    fn command_lines(&self) -> String {
        let mut pids = vec![self.daemon.pid().to_string()];
        let mut lines = String::new();
        while let Some(pid) = pids.pop() {
            lines += &String::from_utf8_lossy(
                &fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default(),
            );
            let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for thread in threads {
                let children =
                    fs::read_to_string(thread.path().join("children")).unwrap_or_default();
                pids.extend(children.split_whitespace().map(str::to_owned));
            }
        }
        lines
    }

    /// Everything a person, another program or a thief of files can look at has no secret in it.
    fn assert_nothing_is_reported(&self, jobs: &[&str]) {
        let redis = snapshot(&mut self.redis.connection()).unwrap();
        assert!(
            redis.values().any(|kept| kept.contains("${credential")),
            "the reference is what is kept"
        );
        let mut reported = vec![
            format!("redis {redis:?}"),
            format!("log {}", self.daemon.log()),
            self.command_lines(),
        ];
        let exported = self.ctl.run(&["export", "--all"]).good().stdout;
        assert!(
            exported.contains("${credential:token}"),
            "as it is written, to be taken again: {exported}"
        );
        reported.push(format!("export {exported}"));
        let file = self.daemon.jobs_file().to_str().unwrap().to_owned();
        for args in [["diff", &file], ["check", &file]] {
            reported.push(format!("{args:?} {:?}", self.ctl.run(&args)));
        }
        for verb in ["list", "history", "nodes", "doctor", "stats", "queues", "export"] {
            for more in [&[][..], &["--json"]] {
                reported.push(format!("{:?}", self.ctl.run(&[&[verb], more].concat())));
            }
        }
        for job in jobs {
            for args in [
                &["show", job][..],
                &["show", job, "--json"],
                &["explain", job, "--last"],
                &["explain", job, "--json"],
                &["export", job],
            ] {
                reported.push(format!("{args:?} {:?}", self.ctl.run(args)));
            }
            let runs = self.ctl.run(&["history", job, "--json"]).good().json();
            for run in runs.as_array().unwrap() {
                let id = run["run_id"].as_str().unwrap();
                for args in
                    [&["show", id][..], &["show", id, "--json"], &["logs", id], &["explain", id]]
                {
                    reported.push(format!("{args:?} {:?}", self.ctl.run(args)));
                }
            }
        }
        let state = fs::read_dir(self.daemon.state_home().join("schedd")).unwrap().flatten();
        for file in state.filter(|file| file.path().is_file()) {
            reported.push(format!(
                "{file:?} {}",
                String::from_utf8_lossy(&fs::read(file.path()).unwrap())
            ));
        }
        for text in reported {
            assert!(!text.contains(SECRET), "a secret is told: {text}");
        }
    }
}

fn put(dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).unwrap();
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_process_gets_its_secrets_by_its_environment_and_nothing_else_holds_them() {
    let host = Host::start(
        "[jobs.backup]\nenv_file = ['DIR/backup.env', '-DIR/missing.env']\nenv = { TOKEN = 'Bearer ${credential:token}', PLAIN = '$${x} $(id) $PATH' }\n\
         done_check = { shell = 'test \"$TOKEN\" = done', on = 'always' }\n\
         shell = 'printf \"%s|%s|%s\" \"$PGPASSWORD\" \"$TOKEN\" \"$PLAIN\" > DIR/got; test -e DIR/fails && exit 3; while test -e DIR/wait; do sleep 0.05; done'\n\
         [jobs.gone]\nenv = { A = '${credential:gone}' }\nshell = 'touch DIR/started'\n\
         [jobs.nofile]\nenv_file = 'DIR/none.env'\nshell = 'touch DIR/started'\n\
         [jobs.faulty]\nenv_file = 'DIR/faulty.env'\nshell = 'touch DIR/started'\n",
    );
    put(host.dir.path(), "faulty.env", "A=1\nhunter2 is no variable\n");
    put(host.dir.path(), "wait", "");
    host.ctl.run(&["run", "backup"]).good();
    until("the job has its variables", LONG, || {
        Some(()).filter(|()| host.file("got").ends_with("$PATH"))
    });
    assert_eq!(host.file("got"), "hunter2 $x|Bearer hunter2-token|${x} $(id) $PATH");
    assert!(!host.command_lines().contains(SECRET), "while it runs");
    fs::remove_file(host.dir.path().join("wait")).unwrap();

    // Whatever changes counts from the next attempt on, whether something is reloaded or not.
    put(host.dir.path(), "token", "hunter2-new");
    put(host.dir.path(), "backup.env", "PGPASSWORD=hunter2-changed");
    until("the first run is over", LONG, || {
        let runs = host.ctl.run(&["history", "backup", "--json"]).good().json();
        Some(()).filter(|()| runs[0]["state"] == "succeeded")
    });
    assert_eq!(host.run("backup")["state"], "succeeded");
    assert_eq!(host.file("got"), "hunter2-changed|Bearer hunter2-new|${x} $(id) $PATH");
    host.daemon.signal(Signal::HUP);
    put(host.dir.path(), "fails", "");
    assert_eq!(host.run("backup")["exit_code"], 3);

    for (job, words) in [
        ("gone", ["cannot start: env A: credential gone cannot be used: ", "no such file"]),
        ("nofile", ["cannot start: env_file ", "none.env cannot be used: no such file"]),
        (
            "faulty",
            ["cannot start: env_file ", "faulty.env: line 2: the line has no =, wanted NAME=VALUE"],
        ),
    ] {
        let run = host.run(job);
        assert_eq!(run["state"], "failed", "{run}");
        let error = run["attempts"][0]["error"]
            .as_str()
            .or(run["error"].as_str())
            .unwrap_or_default()
            .to_owned();
        assert!(words.iter().all(|word| error.contains(word)), "{job}: {error}");
    }
    assert!(!host.dir.path().join("started").exists());
    host.assert_nothing_is_reported(&["backup", "gone", "nofile", "faulty"]);
    let shown = host.ctl.run(&["show", "backup"]).good().stdout;
    assert!(
        shown.contains("TOKEN=Bearer ${credential:token}")
            && shown.contains("env file")
            && shown.contains("backup.env"),
        "{shown}"
    );
}

#[test]
fn a_request_gets_its_secrets_and_another_host_it_is_sent_to_does_not() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let away = runtime.block_on(HttpSink::start([Answer::status(200)]));
    let answers = [
        Answer::status(200).body("fine"),
        Answer::status(307).header("location", away.url("/away")),
        Answer::status(307).header("location", away.url("/away")),
    ];
    let sink = runtime.block_on(HttpSink::start(answers));
    let jobs = format!(
        "[jobs.hook]\nhttp = {{ url = '{0}', headers = {{ X-Key = '${{credential:token}}' }}, body = 'text=${{credential:path}}' }}\n\
         [jobs.header]\nhttp = {{ url = '{0}', redirects = 1, headers = {{ X-Key = '${{credential:token}}', X-Other = 'x' }} }}\n\
         [jobs.body]\nhttp = {{ url = '{0}', redirects = 1, body = '${{credential:token}}' }}\n\
         [jobs.bad]\nhttp = '${{credential:path}}'\n",
        sink.url("/${credential:path}?x=1")
    );
    let host = Host::start(&jobs);
    assert_eq!(host.run("hook")["state"], "succeeded");
    assert_eq!(host.run("header")["state"], "succeeded");
    let run = host.run("body");
    assert!(run.to_string().contains("status 307 redirects to another origin"), "{run}");
    let run = host.run("bad");
    assert!(run.to_string().contains("URL is not valid: "), "{run}");

    let sent = sink.requests();
    assert_eq!(
        (sent[0].target.as_str(), sent[0].body.as_str()),
        ("/hunter2-path?x=1", "text=hunter2-path")
    );
    assert_eq!(sent[0].header("x-key"), Some("hunter2-token"));
    let [last] = &away.requests()[..] else { panic!("one request goes on") };
    assert_eq!((last.header("x-key"), last.header("x-other")), (None, Some("x")));
    host.assert_nothing_is_reported(&["hook", "header", "body", "bad"]);
}

#[test]
fn what_is_added_by_hand_may_refer_to_secrets_too() {
    let host = Host::start("");
    let env_file = host.dir.path().join("backup.env");
    let got = host.dir.path().join("got");
    let line = format!("printf '%s|%s' \"$PGPASSWORD\" \"$T\" > {}", got.display());
    let file = env_file.to_str().unwrap();
    host.ctl
        .run(&[
            "add",
            "--name",
            "j",
            "--env",
            "T=${credential:token}",
            "--env-file",
            file,
            "--env-file",
            "-/no/x",
            "--shell",
            &line,
        ])
        .good();
    assert_eq!(host.run("j")["state"], "succeeded");
    assert_eq!(host.file("got"), "hunter2 $x|hunter2-token");
    let shown = host.ctl.run(&["show", "j", "--json"]).good().json();
    assert_eq!(shown["definition"]["env_file"], serde_json::json!([file, "-/no/x"]), "{shown}");
    for args in [["--env", "T=${HOME}"], ["--env-file", "x.env"]] {
        let finished = host.ctl.run(&[&["add"], &args[..], &["--", "true"]].concat());
        finished.refused(2, &[args[0], "wanted"]);
    }
    host.assert_nothing_is_reported(&["j"]);
}

#[test]
fn the_address_of_redis_may_refer_to_a_credential() {
    let redis = TestRedis::start();
    let dir = tempfile::tempdir().unwrap();
    let () = redis::cmd("CONFIG")
        .arg(&["SET", "requirepass", "hunter2 &x"])
        .query(&mut redis.connection())
        .unwrap();
    put(dir.path(), "redis", "hunter2 &x\n");
    let place = dir.path().to_str().unwrap();
    let section = format!(
        "[redis]\nurl = '{}?pass=${{credential:redis}}'\n[jobs.a]\nshell = 'true'\n",
        redis.url()
    );
    let daemon =
        Schedd::with_private_redis().env("CREDENTIALS_DIRECTORY", place).jobs(&section).start();
    daemon.wait_for_log("All jobs of the jobs file are applied");
    let with = Schedctl::alone()
        .env("CREDENTIALS_DIRECTORY", place)
        .env("SCHEDD_JOBS", daemon.jobs_file().to_str().unwrap());
    assert_eq!(with.run(&["list", "--json"]).good().json()[0]["name"], "a");
    let without = Schedctl::alone().env("SCHEDD_JOBS", daemon.jobs_file().to_str().unwrap());
    without.run(&["list"]).refused(
        78,
        &["credential redis is missing", "CREDENTIALS_DIRECTORY", "wanted --redis URL"],
    );
    let named = without.env("SCHEDD_REDIS_URL", &format!("{}?pass=hunter2%20%26x", redis.url()));
    assert_eq!(named.run(&["list", "--json"]).good().json()[0]["name"], "a");
    assert!(!daemon.log().contains(SECRET));
    let mut lost = Schedd::with_private_redis().jobs(&section).start();
    assert_eq!(lost.wait_exit().code(), Some(78));
    assert!(lost.log().contains("credential redis is missing"), "{}", lost.log());
}

#[test]
fn a_file_with_the_address_that_everybody_can_read_is_warned_of() {
    let redis = TestRedis::start();
    let () = redis::cmd("CONFIG")
        .arg(&["SET", "requirepass", "hunter2"])
        .query(&mut redis.connection())
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "url", &format!("{}?pass=hunter2\n", redis.url()));
    let section = format!(
        "[redis]\nurl_file = '{}'\n[jobs.a]\nshell = 'true'\n",
        dir.path().join("url").display()
    );
    for (mode, is_open) in [(0o600, false), (0o644, true)] {
        fs::set_permissions(dir.path().join("url"), fs::Permissions::from_mode(mode)).unwrap();
        let daemon = Schedd::with_private_redis().jobs(&section).start();
        daemon.wait_for_log("Started.");
        assert_eq!(
            daemon.log().contains("has a password, and every user of this host can read the file"),
            is_open,
            "{}",
            daemon.log()
        );
        assert!(!daemon.log().contains(SECRET));
    }
}
