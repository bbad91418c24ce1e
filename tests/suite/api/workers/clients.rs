//! The clients in `clients/` with a real schedd, and the program that checks clients and servers.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};
use schedd_programs::secrets::tokens::{TokenRole, TokenText};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{QUEUE, add, claim};
use crate::api::{ApiScene, DEFINING, entry};
use crate::support::wait::{LONG, until};

pub(super) const ROOT: &str = env!("CARGO_MANIFEST_DIR");
pub(super) const DOCS_ADDRESS: &str = "http://127.0.0.1:7341";

/// Returns true if all these programs are there. Otherwise says that the test is skipped.
pub(super) fn has(programs: &[&str]) -> bool {
    let is_missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    let missing: Vec<_> = programs.iter().filter(is_missing).collect();
    if !missing.is_empty() {
        eprintln!("skipped, because of missing programs: {missing:?}; see script/setup --tests");
    }
    missing.is_empty()
}

/// A worker in a process and a directory of its own, which has the file `token`.
struct WorkerProcess {
    child: Child,
    dir: TempDir,
}

impl WorkerProcess {
    /// Starts a program from the text of `docs/workers.md`. It speaks to `scene`.
    fn start(scene: &ApiScene, token: &str, program: &str, text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("token"), token).unwrap();
        let address = format!("http://{}", scene.probe.address());
        let text = text
            .replace(DOCS_ADDRESS, &address)
            .replace("clients/sh/", &format!("exec {ROOT}/clients/sh/"));
        let mut command = Command::new(program);
        command.args(["-c", &text]).current_dir(dir.path());
        command.env("PYTHONPATH", format!("{ROOT}/clients/python"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        Self { child: command.spawn().unwrap(), dir }
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops the worker with TERM. It ends as a success.
    fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Returns the block of `docs/workers.md` that has this text.
fn docs_block(text: &str) -> String {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/workers.md")).unwrap();
    let blocks = page.split("\n```").skip(1).step_by(2);
    let block = blocks.into_iter().find(|block| block.contains(text)).unwrap();
    block.split_once('\n').unwrap().1.to_owned()
}

/// Waits for the end of the last run of a job. Returns the run.
pub(super) fn ended(scene: &ApiScene, job: &str) -> Value {
    until("the run has ended", LONG, || {
        let run = scene.get("viewer", &format!("/v1/runs/{job}@last")).json();
        ["succeeded", "failed"].iter().any(|state| run["state"] == *state).then_some(run)
    })
}

/// Returns the first line of the output of the last run of a job.
fn first_line(scene: &ApiScene, job: &str) -> String {
    let output = scene.get("viewer", &format!("/v1/runs/{job}@last/logs")).text();
    output.lines().next().unwrap_or_default().to_owned()
}

/// Runs the program that checks clients and servers. All checks must be good.
fn conforms(args: &[&str], checks: usize) {
    let program = format!("{ROOT}/clients/conformance/conformance.py");
    let done = Command::new("python3").arg(program).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}{errors}");
    assert_eq!(said.lines().filter(|line| line.starts_with("ok ")).count(), checks, "{said}");
}

#[test]
fn the_python_worker_of_the_docs_executes_runs_and_ends_at_term() {
    if !has(&["python3"]) {
        return;
    }
    let scene = ApiScene::start(DEFINING, QUEUE);
    let token = scene.probe.token("worker");
    let worker = WorkerProcess::start(&scene, token, "python3", &docs_block("@worker.handler"));
    add(&scene, json!({"name": "good", "handler": "send-mail"}));
    assert_eq!(ended(&scene, "good")["state"], "succeeded");
    assert_eq!(first_line(&scene, "good"), "sent to ann");
    let retry = json!({"limit": 5, "delay": "0s"});
    add(&scene, json!({"name": "bad", "handler": "send-mail", "payload": {}, "retry": retry}));
    let run = ended(&scene, "bad");
    assert_eq!((&run["attempt"], &run["error"]), (&json!(1), &json!("the payload has no address")));
    worker.stop();
}

#[test]
fn the_python_client_of_the_docs_adds_a_job_once() {
    if !has(&["python3"]) {
        return;
    }
    let scene = ApiScene::start(DEFINING, QUEUE);
    let token = scene.probe.token("admin");
    for _ in 0..2 {
        let mut adding = WorkerProcess::start(&scene, token, "python3", &docs_block("client.add("));
        assert!(adding.child.wait().unwrap().success());
    }
    let runs = claim(&scene, "c1", json!({"handlers": ["send-mail"]}));
    assert_eq!((runs.len(), &runs[0]["payload"]["to"]), (1, &json!("ann@example.org")));
}

/// Debian's Python, for which `script/setup --tests` installs what builds wheels.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn the_python_client_builds_as_a_wheel_that_works() {
    let python = |text: &str, words: &[&str], dir: &Path| {
        let mut command = Command::new(PYTHON);
        command.args(["-c", text]).args(words).current_dir(dir);
        let done = command.output().ok()?;
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        Some((done.status.success(), String::from_utf8(done.stdout).unwrap(), errors))
    };
    let dir = tempfile::tempdir().unwrap();
    if !python("import setuptools, wheel", &[], dir.path()).is_some_and(|(is_there, ..)| is_there) {
        eprintln!("skipped: {PYTHON} builds no wheels; see script/setup --tests");
        return;
    }
    // The build writes beside the sources.
    let copied = Command::new("cp")
        .args(["-r", &format!("{ROOT}/clients/python"), "source"])
        .current_dir(dir.path())
        .status();
    assert!(copied.unwrap().success());
    let build = "import setuptools.build_meta as build; build.build_wheel('..')";
    let (is_built, _, errors) = python(build, &[], &dir.path().join("source")).unwrap();
    assert!(is_built, "{errors}");
    let wheel = "schedd_client-0.1.0-py3-none-any.whl";
    let text = "import sys; sys.path.insert(0, sys.argv[1]); import schedd_client as s; \
        print(s.__file__, s.Worker.__name__, s.Client.__name__)";
    let (is_imported, said, errors) = python(text, &[wheel], dir.path()).unwrap();
    assert!(
        is_imported && said.contains(wheel) && said.contains("Worker Client"),
        "{said}{errors}"
    );
}

#[test]
fn the_shell_worker_of_the_docs_executes_runs_and_ends_at_term() {
    if !has(&["curl", "jq"]) {
        return;
    }
    let scene = ApiScene::start(DEFINING, QUEUE);
    let token = scene.probe.token("worker");
    let worker = WorkerProcess::start(&scene, token, "sh", &docs_block("clients/sh/schedd-worker"));
    add(&scene, json!({"name": "good", "handler": "send-mail"}));
    assert_eq!(ended(&scene, "good")["state"], "succeeded");
    assert_eq!(first_line(&scene, "good"), "mail to ann");
    add(&scene, json!({"name": "bad", "handler": "send-mail", "payload": 7}));
    let run = ended(&scene, "bad");
    assert!(run["error"].as_str().unwrap().contains("Cannot index number"), "{run}");
    worker.stop();
}

#[test]
fn the_python_client_passes_all_checks_of_a_client() {
    if has(&["python3"]) {
        let worker = format!("{ROOT}/clients/conformance/python_worker.py");
        let words = ["client", "--", "python3", &worker, "{url}", "{queue}", "{token_file}"];
        conforms(&words, 15);
    }
}

#[test]
fn the_shell_client_passes_all_checks_of_a_client() {
    if has(&["python3", "curl", "jq"]) {
        let worker = format!("{ROOT}/clients/sh/schedd-worker");
        let handler = format!("{ROOT}/clients/conformance/sh_handler");
        let to = ["--url", "{url}", "--queue", "{queue}", "--token-file", "{token_file}"];
        let how = ["--lease", "6", "--handlers", "conformance", "--", "sh", &handler];
        conforms(&[&["client", "--", &worker], &to[..], &how[..]].concat(), 15);
    }
}

#[test]
fn schedd_passes_all_checks_of_a_server() {
    if !has(&["python3"]) {
        return;
    }
    let mut scene = ApiScene::start(DEFINING, QUEUE);
    let dir = tempfile::tempdir().unwrap();
    let file = |caller: &str| {
        let path = dir.path().join(caller);
        fs::write(&path, scene.probe.token(caller)).unwrap();
        path.display().to_string()
    };
    let (worker, admin) = (file("worker"), file("admin"));
    let url = format!("http://{}", scene.probe.address());
    let stop = format!("kill -TERM {}", scene.daemon.pid());
    let tokens = ["--token-file", &worker, "--admin-token-file", &admin];
    let target = ["server", "--url", &url, "--queue", "mail", "--stop", &stop];
    conforms(&[&target[..], &tokens[..]].concat(), 16);
    scene.daemon.wait_exit();
}

/// Adds a token of a worker that may serve only this queue. Returns its text.
fn add_bound_token(scene: &mut ApiScene, queue: &str) -> String {
    let text = TokenText::random().unwrap().as_str().to_owned();
    let mut bound = entry(queue, TokenRole::Worker, &text, None);
    bound.queues = vec![queue.to_owned()];
    scene.tokens.add(|_| bound).unwrap();
    scene.probe.add_token(queue, &text);
    text
}

#[test]
fn two_collectors_alternate_and_one_goes_on_when_the_other_is_killed() {
    if !has(&["python3"]) {
        return;
    }
    let jobs = fs::read_to_string(Path::new(ROOT).join("examples/collectors.toml")).unwrap();
    let jobs = jobs.replace("[api]\nlisten = \"127.0.0.1:7341\"\n", "");
    let jobs = jobs.replace("\"30s\"", "\"1s\"").replace("\"5s\"", "\"100ms\"");
    assert!(jobs.contains("\"100ms\"") && !jobs.contains("[api]"), "{jobs}");
    let mut scene = ApiScene::start(DEFINING, &jobs);
    let north = add_bound_token(&mut scene, "north");
    add_bound_token(&mut scene, "south");
    let ask = |queue: &str, id: &str, wait: u32| {
        let body = json!({"claim_id": id, "worker": {"name": queue}, "max": 1, "wait_ms": wait});
        let path = format!("/v1/queues/{queue}/claim");
        scene.post(queue, &path, &body.to_string()).of(200)["runs"].as_array().unwrap().clone()
    };
    let foreign = json!({"claim_id": "x", "worker": {"name": "south"}, "max": 1}).to_string();
    scene.post("south", "/v1/queues/north/claim", &foreign).problem(403, "forbidden");
    let group = || scene.get("viewer", "/v1/groups/collectors").of(200);
    // The first turn is that of the north, whoever asks first.
    assert!(ask("south", "s1", 3_000).is_empty());
    let worker = "import time\nfrom schedd_client import Client, Worker\n\
        client = Client('http://127.0.0.1:7341', open('token').read())\n\
        worker = Worker(client, 'north', 'north', slots=1, lease=1)\n\
        @worker.handler('collect')\n\
        def collect(payload, run):\n    \
            run.progress(10, payload['source'])\n    \
            print(payload['source'], file=open('began', 'w'), flush=True)\n    \
            time.sleep(600)\n\
        worker.run()\n";
    let worker = WorkerProcess::start(&scene, &north, "python3", worker);
    until("the north collects", LONG, || worker.file("began").contains("north").then_some(()));
    let shown = group();
    assert_eq!((&shown["mode"], &shown["turn"]), (&json!("alternate"), &json!("collect-north")));
    assert!(shown["running"][0].as_str().unwrap().starts_with("collect-north@"), "{shown}");
    assert!(shown["members"][1]["next_due"].is_string(), "the planned time of the next: {shown}");
    assert!(ask("south", "s2", 0).is_empty(), "it is not the turn of the south");
    let run = shown["running"][0].as_str().unwrap().replace('@', "%40");
    until("the run shows its progress", LONG, || {
        let progress = scene.get("viewer", &format!("/v1/runs/{run}")).of(200)["progress"].clone();
        (progress["percent"] == 10).then_some(())
    });
    worker.signal(Signal::KILL);
    let mut number = 0;
    let mut next = |queue: &str| {
        until("the next turn", LONG, || {
            number += 1;
            ask(queue, &format!("{queue}{number}"), 20_000).first().cloned()
        })
    };
    let done = |queue: &str, run: &Value| {
        let body = json!({"runs": [{"run_id": run["run_id"], "token": run["token"]}]}).to_string();
        let answer = scene.post(queue, "/v1/runs/complete", &body).of(200);
        assert_eq!(answer["runs"][0]["result"], "ok");
    };
    let south = next("south");
    assert_eq!(south["job"], "collect-south");
    assert!(ask("north", "n1", 0).is_empty(), "it is not the turn of the north");
    done("south", &south);
    let north = next("north");
    assert_eq!((&north["job"], &north["attempt"]), (&json!("collect-north"), &json!(2)));
    done("north", &north);
    assert_eq!(next("south")["job"], "collect-south");
}
