//! `schedctl` beside a `schedd` that runs: what it waits for, stops and shows has really happened.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::ctl::{Finished, Schedctl};
use crate::support::daemon::Schedd;
use crate::support::host::http_sink::{Answer, HttpSink};
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// A Redis, a daemon on it and a command line that finds it.
struct Host {
    // In the order in which they are to end.
    daemon: Schedd,
    ctl: Schedctl,
    _redis: TestRedis,
}

impl Host {
    fn start(jobs: &str) -> Self {
        let redis = TestRedis::start();
        let daemon = Schedd::on(&redis).node("web-1").jobs(jobs).start();
        let ctl = Schedctl::on(&redis).env("TZ", "UTC");
        daemon.wait_for_log("All jobs of the jobs file are applied");
        Self { daemon, ctl, _redis: redis }
    }

    /// Adds a job by flags.
    #[track_caller]
    fn add(&self, args: &[&str]) {
        self.ctl.run(&[&["add"], args].concat()).good();
    }

    /// The first line of stdout of `run JOB --wait`, and all of it.
    fn run_and_wait(&self, job: &str) -> (String, Finished) {
        let finished = self.ctl.run(&["run", job, "--wait", "--timeout", "30s"]);
        (finished.stdout.lines().next().unwrap_or_default().to_owned(), finished)
    }

    #[track_caller]
    fn history(&self, job: &str) -> Vec<Value> {
        self.ctl.run(&["history", job, "--json"]).good().json().as_array().unwrap().clone()
    }

    /// Waits until a run of the job is in this state and gives it.
    #[track_caller]
    fn wait_for(&self, job: &str, state: &str) -> Value {
        let find = || self.history(job).into_iter().find(|run| run["state"] == state);
        until(&format!("a run of {job} is {state}"), LONG, find)
    }
}

#[test]
fn the_resources_of_a_run_are_recorded_at_its_end() {
    let host = Host::start("");
    let line = "x=$(head -c 30000000 /dev/zero | tr '\\0' a); i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    for (name, line) in [("fine", line.to_owned()), ("failing", format!("{line}; exit 3"))] {
        host.add(&["--name", name, "--shell", &line]);
        host.run_and_wait(name);
        let run = &host.history(name)[0];
        assert!(run["peak_memory_bytes"].as_u64().unwrap() >= 29_000_000, "{run}");
        let cpu = run["user_ms"].as_u64().unwrap() + run["system_ms"].as_u64().unwrap();
        assert!(cpu > 0 && run["written_bytes"].is_u64(), "{run}");
        assert!(run["waited_ms"].is_u64(), "{run}");
    }
}

#[test]
fn waiting_for_a_run_ends_with_the_jobs_own_code() {
    let host = Host::start("");
    for (name, line, code) in
        [("fine", "true", 0), ("three", "exit 3", 3), ("killed", "kill -9 $$", 128 + 9)]
    {
        host.add(&["--name", name, "--shell", line]);
        let (id, finished) = host.run_and_wait(name);
        assert_eq!(finished.code, code, "{finished:?}");
        let run = &host.history(name)[0];
        assert_eq!(run["run_id"], id.as_str());
        let wanted = match code {
            0 => json!(["succeeded", 0, null]),
            3 => json!(["failed", 3, null]),
            _ => json!(["failed", null, 9]),
        };
        assert_eq!(json!([run["state"], run["exit_code"], run["signal"]]), wanted);
        assert_eq!(
            finished.stderr.contains(&format!("schedctl logs {id}")),
            code != 0,
            "{finished:?}"
        );
    }
}

#[test]
fn waiting_for_a_job_that_takes_too_long_ends_with_124_whoever_lost_patience() {
    let host = Host::start("");
    host.add(&["--name", "hangs", "--timeout", "300ms", "--kill-grace", "1s", "--", "sleep", "60"]);
    let (id, finished) = host.run_and_wait("hangs");
    assert_eq!(finished.code, 124, "{finished:?}");
    assert!(finished.stderr.contains(&format!("{id} timed out after")), "{finished:?}");
    assert_eq!(host.history("hangs")[0]["state"], "timed_out");

    host.add(&["--name", "long", "--", "sleep", "60"]);
    let finished = host.ctl.run(&["run", "long", "--wait", "--timeout", "500ms"]);
    assert_eq!(finished.code, 124, "{finished:?}");
    assert!(finished.stderr.contains("the run continues"), "{finished:?}");
    assert_eq!(host.wait_for("long", "running")["run_id"], finished.stdout.trim_end());
    host.ctl.run(&["cancel", finished.stdout.trim_end()]).good();
}

#[test]
fn waiting_for_a_run_that_is_skipped_or_cancelled_ends_with_75() {
    let host = Host::start("[jobs.busy]\nevery = \"1s\"\nshell = \"sleep 60\"\n");
    let open = host.wait_for("busy", "running");
    let (id, finished) = host.run_and_wait("busy");
    assert_eq!(finished.code, 75, "{finished:?}");
    assert!(finished.stderr.contains(&format!("{id} skipped: overlap")), "{finished:?}");

    host.add(&["--name", "long", "--", "sleep", "60"]);
    let mut command = host.ctl.command(&["run", "long", "--wait"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let run = host.wait_for("long", "running");
    let asked = host
        .ctl
        .run(&["cancel", run["run_id"].as_str().unwrap(), open["run_id"].as_str().unwrap()])
        .good();
    assert!(asked.stdout.lines().all(|line| line.contains("asked to stop")), "{asked:?}");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{output:?}");
}

#[test]
fn an_interrupt_ends_the_waiting_and_the_run_goes_on_to_its_end() {
    let host = Host::start("");
    let release = host.ctl.home().join("release");
    let line = format!("until [ -e {} ]; do sleep 0.05; done; echo let go", release.display());
    host.add(&["--name", "waits", "--shell", &line]);
    let mut command = host.ctl.command(&["run", "waits", "--wait"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut id = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut id).unwrap();
    let id = id.trim_end();
    host.wait_for("waits", "running");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(
        String::from_utf8(output.stderr).unwrap().contains(&format!("run {id} is not stopped"))
    );
    assert_eq!(host.history("waits")[0]["state"], "running");
    let early = host.ctl.run(&["logs", id]).good();
    assert!(
        early.stdout.is_empty() && early.stderr.contains("has written nothing yet"),
        "{early:?}"
    );
    fs::write(release, "").unwrap();
    assert_eq!(host.wait_for("waits", "succeeded")["run_id"], id);
    assert_eq!(host.ctl.run(&["logs", id]).good().stdout, "let go\n");
}

#[test]
fn logs_are_what_a_run_wrote_each_stream_to_its_own_with_the_bytes_left_out_counted() {
    let host = Host::start("");
    host.add(&["--name", "talks", "--shell", "echo out; echo err >&2"]);
    let (id, _) = host.run_and_wait("talks");
    let logs = host.ctl.run(&["logs", &id]).good();
    assert_eq!((logs.stdout.as_str(), logs.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(host.ctl.run(&["logs", "talks"]).good().stdout, "out\n");

    host.add(&[
        "--name",
        "floods",
        "--shell",
        "printf first; head -c 200000 /dev/zero | tr '\\0' x; printf last",
    ]);
    let (id, finished) = host.run_and_wait("floods");
    finished.good();
    let json = host.ctl.run(&["logs", &id, "--json"]).good().json();
    let kept = json["stdout"].as_str().unwrap();
    assert!(kept.starts_with("firstx") && kept.ends_with("xlast"));
    let dropped = json["dropped_bytes"].as_u64().unwrap();
    assert_eq!(kept.len() as u64 + dropped, 200_009);
    let logs = host.ctl.run(&["logs", &id]).good();
    assert_eq!(logs.stdout, kept);
    assert!(
        logs.stderr
            .contains(&format!("{dropped} bytes in the middle of the output were not stored")),
        "{logs:?}"
    );
}

#[test]
fn the_private_redis_of_a_daemon_is_found_by_home_and_by_the_state_directory() {
    let daemon = Schedd::with_private_redis().start();
    daemon.wait_for_log("Started.");
    let state = daemon.state_home();
    let by_variable = Schedctl::alone().env("XDG_STATE_HOME", state.to_str().unwrap());
    by_variable.run(&["add", "--name", "later", "--in", "0s", "--", "echo", "ran"]).good();
    until("the job has run", LONG, || {
        let runs = by_variable.run(&["history", "later", "--json"]).good().json();
        (runs[0]["state"] == "succeeded").then_some(())
    });
    assert_eq!(by_variable.run(&["logs", "later"]).good().stdout, "ran\n");

    let by_home = Schedctl::alone();
    fs::create_dir_all(by_home.home().join(".local")).unwrap();
    std::os::unix::fs::symlink(&state, by_home.home().join(".local/state")).unwrap();
    assert_eq!(by_home.run(&["history", "--json"]).good().json()[0]["job"], "later");
    let by_unit = Schedctl::alone().env("STATE_DIRECTORY", state.join("schedd").to_str().unwrap());
    assert_eq!(by_unit.run(&["history", "--json"]).good().json()[0]["job"], "later");
}

#[test]
fn a_cancelled_run_is_stopped_and_its_recurring_job_goes_on() {
    let host = Host::start("");
    let mark = host.ctl.home().join("mark").display().to_string();
    let line = format!("test -e {mark} || {{ touch {mark}; exec sleep 60; }}");
    host.add(&["--name", "beat", "--every", "1s", "--shell", &line]);
    let run = host.wait_for("beat", "running");
    // One that is stopped before its start leaves no mark, and the next would sleep.
    until("it has begun", LONG, || fs::exists(&mark).unwrap().then_some(()));
    let id = run["run_id"].as_str().unwrap();
    let asked = host.ctl.run(&["cancel", id, "--json"]).good().json();
    assert_eq!(asked, json!([{"job": "beat", "run_id": id, "result": "requested"}]));
    let ended = host.wait_for("beat", "cancelled");
    assert_eq!(json!([ended["run_id"], ended["reason"]]), json!([id, "cancelled"]));
    assert_eq!(host.ctl.run(&["cancel", id]).good().stdout, format!("run {id} cancelled\n"));
    host.wait_for("beat", "succeeded");
}

#[test]
fn a_cancelled_recurring_job_leaves_its_run_alone_unless_reported_to_stop_it() {
    let host = Host::start("");
    host.add(&["--name", "beat", "--every", "1s", "--", "sleep", "60"]);
    let run = host.wait_for("beat", "running");
    let id = run["run_id"].as_str().unwrap();
    let said = host.ctl.run(&["cancel", "beat"]).good().stdout;
    assert!(said.contains(&format!("its run {id} continues")) && said.contains("--stop"), "{said}");
    assert_eq!(host.history("beat")[0]["state"], "running");
    let said = host.ctl.run(&["cancel", "beat", "--stop"]).good().stdout;
    assert!(said.contains("was already cancelled; its run is being stopped"), "{said}");
    assert_eq!(host.wait_for("beat", "cancelled")["run_id"], id);
    assert_eq!(
        host.ctl.run(&["cancel", "beat", "--stop"]).good().stdout,
        "job beat was already cancelled\n"
    );
}

#[test]
fn a_run_that_was_tried_again_shows_each_of_its_attempts() {
    let host = Host::start("");
    let line = "echo try $SCHEDD_ATTEMPT; test $SCHEDD_ATTEMPT -ge 3";
    host.add(&["--name", "mends", "--retry", "3", "--retry-delay", "100ms", "--shell", line]);
    let (id, finished) = host.run_and_wait("mends");
    finished.good();
    let run = host.ctl.run(&["show", &id, "--json"]).good().json();
    assert_eq!(json!([run["state"], run["attempt"], run["failures"]]), json!(["succeeded", 3, 2]));
    let attempts = run["attempts"].as_array().unwrap();
    let facts: Vec<Value> = attempts
        .iter()
        .map(|it| json!([it["attempt"], it["state"], it["exit_code"], it["node"]]))
        .collect();
    let wanted = [
        json!([1, "failed", 1, "web-1"]),
        json!([2, "failed", 1, "web-1"]),
        json!([3, "succeeded", 0, "web-1"]),
    ];
    assert_eq!(facts, wanted);
    let fences: Vec<u64> = attempts.iter().map(|it| it["fence"].as_u64().unwrap()).collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    let text = host.ctl.run(&["show", &id]).good().stdout;
    assert_eq!(text.lines().filter(|line| line.contains("exit code 1")).count(), 2, "{text}");
    assert_eq!(host.ctl.run(&["logs", &id, "--attempt", "1"]).good().stdout, "try 1\n");
    assert_eq!(host.ctl.run(&["logs", &id]).good().stdout, "try 3\n");
}

#[test]
fn a_live_node_is_listed_with_its_bad_file_and_the_numbers_add_up() {
    let host = Host::start("[jobs.ok]\nshell = \"true\"\n[jobs.bad]\nshell = \"false\"\n");
    host.run_and_wait("ok").1.good();
    assert_eq!(host.run_and_wait("bad").1.code, 1);
    let nodes = host.ctl.run(&["nodes", "--json"]).good().json();
    let node = &nodes[0];
    assert_eq!(
        json!([nodes.as_array().unwrap().len(), node["name"], node["state"]]),
        json!([1, "web-1", "running"])
    );
    assert!(node["config_error"].is_null() && node["pid"].as_u64().is_some(), "{node}");
    for field in ["started_at", "last_seen"] {
        node[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    }
    let stats = host.ctl.run(&["stats", "--json"]).good().json();
    let numbers = ["jobs", "running", "scheduled", "succeeded", "failed", "nodes", "history"]
        .map(|word| stats[word].clone());
    assert_eq!(json!(numbers), json!([2, 0, 0, 1, 1, 1, 2]));

    fs::write(host.daemon.jobs_file(), "[jobs.ok]\nshel = \"true\"\n").unwrap();
    host.daemon.hup();
    let reported = until("the node tells of its bad file", LONG, || {
        let nodes = host.ctl.run(&["nodes", "--json"]).good().json();
        nodes[0]["config_error"].as_str().map(str::to_owned)
    });
    assert!(reported.contains("shel") && reported.contains("shell"), "{reported}");
    assert_eq!(host.ctl.run(&["stats", "--json"]).good().json()["jobs"], 2);
}

#[test]
fn nodes_whose_files_differ_in_a_job_say_so_until_they_agree() {
    let redis = TestRedis::start();
    let same = "[jobs.same]\nshell = \"same\"\n";
    let jobs = |line: &str| format!("{same}[jobs.both]\nshell = \"{line}\"\n");
    let first = Schedd::on(&redis).node("na").jobs(&jobs("one")).start();
    first.wait_for_log("All jobs of the jobs file are applied");
    let second = Schedd::on(&redis).node("nb").jobs(&jobs("two")).start();
    second.wait_for_log("All jobs of the jobs file are applied");
    let ctl = Schedctl::on(&redis);
    let differs = |node: &str| {
        let nodes = ctl.run(&["nodes", "--json"]).good().json();
        nodes.as_array().unwrap().iter().find(|it| it["name"] == node).unwrap()["differs"].clone()
    };
    assert_eq!(differs("na"), json!([{"job": "both", "from": ["nb"]}]));
    assert_eq!(differs("nb"), json!([{"job": "both", "from": ["na"]}]));
    assert!(ctl.run(&["nodes"]).good().stdout.contains("job both differs from the files of nb"));
    let shown = ctl.run(&["show", "both"]).good().stdout;
    assert!(
        shown.contains("file of nodes na, nb, last changed by nb")
            && shown.contains("/bin/sh -c two"),
        "{shown}"
    );
    fs::write(first.jobs_file(), jobs("two")).unwrap();
    first.hup();
    until("the nodes agree", LONG, || (differs("na") == json!([])).then_some(()));
    assert_eq!(differs("nb"), json!([]));
}

#[test]
fn an_http_job_sends_what_it_is_reported_and_the_status_is_its_result() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let sink =
        runtime.block_on(HttpSink::start([Answer::status(204), Answer::status(503).body("busy")]));
    let host = Host::start("");
    let url = sink.url("/ping?x=1");
    host.add(&[
        "--name",
        "ping",
        "--http",
        &url,
        "--method",
        "PUT",
        "--header",
        "X-From: schedd",
        "--body",
        "hello",
    ]);
    let (id, finished) = host.run_and_wait("ping");
    finished.good();
    let request = sink.requests().remove(0);
    assert_eq!(
        (request.method.as_str(), request.target.as_str(), request.body.as_str()),
        ("PUT", "/ping?x=1", "hello")
    );
    let run = host.ctl.run(&["show", &id, "--json"]).good().json();
    let sent = |name: &str| request.header(name).unwrap_or_default().to_owned();
    assert_eq!(
        [sent("x-from"), sent("idempotency-key"), sent("schedd-job")],
        ["schedd", id.as_str(), "ping"]
    );
    assert_eq!(
        [sent("schedd-attempt"), sent("schedd-fence")],
        ["1".to_owned(), run["fence"].to_string()]
    );
    let due: jiff::Timestamp = run["due"].as_str().unwrap().parse().unwrap();
    assert_eq!(sent("schedd-due").parse::<jiff::Timestamp>().unwrap(), due);
    assert_eq!(
        json!([run["state"], run["http_status"], run["exit_code"]]),
        json!(["succeeded", 204, null])
    );

    let (id, finished) = host.run_and_wait("ping");
    assert_eq!(finished.code, 1, "{finished:?}");
    let run = host.ctl.run(&["show", &id, "--json"]).good().json();
    assert_eq!(json!([run["state"], run["http_status"]]), json!(["failed", 503]));
    assert_eq!(host.ctl.run(&["logs", &id]).good().stdout, "busy");
}

#[test]
fn a_job_is_given_the_small_fixed_environment_and_nothing_of_the_daemons() {
    let redis = TestRedis::start();
    let daemon = Schedd::on(&redis).node("web-1").env("SECRET", "of the daemon").start();
    daemon.wait_for_log("Started.");
    let ctl = Schedctl::on(&redis);
    ctl.run(&[
        "add",
        "--name",
        "e",
        "--env",
        "TEAM=ops",
        "--cwd",
        "/tmp",
        "--shell",
        "/bin/pwd; exec env",
    ])
    .good();
    let id = ctl.run(&["run", "e", "--wait"]).good().stdout.trim_end().to_owned();
    let said = ctl.run(&["logs", &id]).good().stdout;
    let (cwd, lines) = said.split_once('\n').unwrap();
    assert_eq!(cwd, "/tmp");
    // The shell itself adds where it is.
    let mut names: Vec<&str> = lines
        .lines()
        .map(|line| line.split_once('=').unwrap().0)
        .filter(|name| *name != "PWD")
        .collect();
    names.sort_unstable();
    let wanted = "HOME LANG PATH SCHEDD_ATTEMPT SCHEDD_DUE SCHEDD_DUE_MS SCHEDD_FENCE SCHEDD_JOB SCHEDD_NAMESPACE SCHEDD_NODE SCHEDD_REDIS_URL SCHEDD_RESULT SCHEDD_RUN_ID SHELL TEAM TZ USER";
    assert_eq!(names.join(" "), wanted);
    let has = |line: &str| lines.lines().any(|found| found == line);
    assert!(
        has("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            && has("SHELL=/bin/sh"),
        "{lines}"
    );
    assert!(
        has("LANG=C.UTF-8") && has("TEAM=ops") && has("SCHEDD_JOB=e") && has("SCHEDD_NODE=web-1"),
        "{lines}"
    );
    assert!(has(&format!("SCHEDD_RUN_ID={id}")) && has("SCHEDD_ATTEMPT=1"), "{lines}");
}

#[test]
fn a_job_calls_schedctl_without_naming_the_private_redis_of_its_node() {
    let line = format!("exec {} add --name child --in 0s -- true", env!("CARGO_BIN_EXE_schedctl"));
    let jobs = format!("[jobs.parent]\nevery = '1s'\nmax_runs = 1\nshell = '{line}'\n");
    let daemon = Schedd::with_private_redis().env("SCHEDD_NAMESPACE", "team").jobs(&jobs).start();
    let state = daemon.state_home();
    let ctl = Schedctl::alone()
        .env("XDG_STATE_HOME", state.to_str().unwrap())
        .env("SCHEDD_NAMESPACE", "team");
    for job in ["child", "parent"] {
        until("the job has run", LONG, || {
            let runs = ctl.run(&["history", job, "--json"]);
            (runs.code == 0 && runs.json()[0]["state"] == "succeeded").then_some(())
        });
    }
}

#[test]
fn a_redis_url_with_a_password_is_not_in_the_environment_of_jobs() {
    let redis = TestRedis::start();
    let rules = ["SETUSER", "node", "on", ">s3cret", "~*", "&*", "+@all"];
    let () = redis::cmd("ACL").arg(&rules).query(&mut redis.connection()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{}?user=node&pass=s3cret", redis.url())).unwrap();
    let section = format!("[redis]\nurl_file = '{}'\n", file.path().display());
    let job = "[jobs.e]\nevery = '1s'\nmax_runs = 1\nshell = 'exec env'\n";
    let daemon = Schedd::with_private_redis().jobs(&(section + job)).start();
    let ctl = Schedctl::on(&redis);
    let said = until("the job has run", LONG, || {
        let logs = ctl.run(&["logs", "e"]);
        logs.stdout.contains("SCHEDD_JOB=e").then_some(logs.stdout)
    });
    assert!(!said.contains("s3cret") && !said.contains("SCHEDD_REDIS_URL"), "{said}");
    let file = format!("SCHEDD_JOBS={}\n", daemon.jobs_file().display());
    assert!(said.contains(&file) && said.contains("SCHEDD_NAMESPACE=schedd\n"), "{said}");
}

#[test]
fn a_process_has_the_zone_of_its_job_as_tz_unless_env_sets_another() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = format!(
        r#"
        [defaults]
        cwd = "{}"

        [jobs.zoned]
        tz = "Asia/Tokyo"
        shell = "echo $TZ; exit 3"
        done_check = {{ shell = "echo $TZ > asked; exit 1", on = "always" }}
        on_failure = {{ shell = "echo $TZ > noticed" }}

        [jobs.own]
        tz = "Asia/Tokyo"
        env = {{ TZ = "America/Lima" }}
        shell = "echo $TZ"

        [jobs.kept]
        shell = "echo $TZ"
        "#,
        dir.path().display()
    );
    let redis = TestRedis::start();
    let daemon = Schedd::on(&redis).node("web-1").env("TZ", "Asia/Kathmandu").jobs(&jobs).start();
    daemon.wait_for_log("All jobs of the jobs file are applied");
    let host = Host { daemon, ctl: Schedctl::on(&redis), _redis: redis };
    let logged = |name: &str| {
        let (id, _) = host.run_and_wait(name);
        host.ctl.run(&["logs", &id]).good().stdout
    };
    let zones = ["zoned", "own", "kept"].map(logged).concat();
    assert_eq!(zones, "Asia/Tokyo\nAmerica/Lima\nAsia/Kathmandu\n");
    for name in ["asked", "noticed"] {
        let zone = until(name, LONG, || {
            let text = fs::read_to_string(dir.path().join(name)).ok()?;
            Some(text).filter(|text| text.ends_with('\n'))
        });
        assert_eq!(zone, "Asia/Tokyo\n", "{name}");
    }
}

#[test]
fn an_empty_variable_is_one_that_is_not_set() {
    let redis = TestRedis::start();
    let names = ["JOBS", "NAMESPACE", "NODE", "QUEUES", "LABELS", "LOG_FORMAT", "LOG"];
    let daemon = names
        .iter()
        .fold(Schedd::on(&redis), |daemon, name| daemon.env(&format!("SCHEDD_{name}"), ""));
    daemon.jobs("").start().wait_for_log("All jobs of the jobs file are applied");
}

#[test]
fn what_reports_of_a_job_is_shown_as_the_job_says_now() {
    let host = Host::start("");
    host.add(&["--name", "a", "--on-failure", "echo before", "--shell", "exit 1"]);
    host.run_and_wait("a");
    host.wait_for("a/on_failure", "succeeded");
    let action =
        |text: &str| text.lines().find(|line| line.starts_with("action ")).unwrap().to_owned();
    let shown = || host.ctl.run(&["show", "a/on_failure"]).good().stdout;
    assert!(action(&shown()).contains("echo before"), "{}", shown());

    // No run of it has been planted since.
    host.add(&["--name", "a", "--replace", "--on-failure", "echo after", "--shell", "exit 1"]);
    assert!(action(&shown()).contains("echo after"), "{}", shown());
    let definition =
        host.ctl.run(&["show", "a/on_failure", "--json"]).good().json()["definition"].clone();
    assert_eq!(definition["shell"], "echo after", "{definition}");
    host.add(&["--name", "a", "--replace", "--shell", "exit 1"]);
    assert!(
        action(&shown()).contains("echo before"),
        "one taken out leaves what was planted: {}",
        shown()
    );
}

#[test]
fn show_and_doctor_report_a_notice_that_cannot_be_signed_while_it_retries() {
    let host = Host::start("");
    let secret = "${credential:no-such-secret}";
    host.add(&[
        "--name",
        "a",
        "--on-failure",
        "http://127.0.0.1:9/",
        "--webhook-secret",
        secret,
        "--shell",
        "exit 1",
    ]);
    host.run_and_wait("a");
    let failed_notice = until("its notice is tried again", LONG, || {
        let shown = host.ctl.run(&["show", "a", "--json"]).good().json();
        Some(shown["notices_retried"][0].clone()).filter(Value::is_object)
    });
    assert!(
        failed_notice["retry_at"].is_string()
            && failed_notice["reason"].as_str().unwrap().contains("no-such-secret"),
        "{failed_notice}"
    );
    let id = failed_notice["run_id"].as_str().unwrap();
    // Either may catch it at a try: then it is tried again soon after.
    for args in [&["show", "a"][..], &["doctor"]] {
        let line = until("it is told of", LONG, || {
            let reported = host.ctl.run(args).stdout;
            reported
                .lines()
                .find(|line| line.contains(id) && line.contains("is retried"))
                .map(str::to_owned)
        });
        assert!(line.contains("no-such-secret"), "{line}");
    }
    // It says what it is and by whom.
    let shown = host.ctl.run(&["show", "a/on_failure"]).good().stdout;
    assert!(shown.contains("source        the notices of job a"), "{shown}");
    let reported = host.ctl.run(&["explain", id]).good().stdout;
    assert!(!reported.contains("set with schedctl add"), "{reported}");
}
