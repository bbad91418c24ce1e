//! The smallest worker of each system: its lines, and one job that it handles.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::system::{System, Worker, packages};
use super::{Bench, Figures};
use crate::PATIENCE;
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::until;

/// The workers: the row, the file in the folder `first`, and the command that starts it there.
const PROGRAMS: [(System, &str, &str, &str); 7] = [
    (System::Schedd, "first.rust", "schedd.rs", "first_worker"),
    (System::Schedd, "first.python", "schedd.py", "python3 schedd.py"),
    (System::Schedd, "first.shell", "schedd.sh", "sh schedd.sh"),
    (System::Bullmq, "first.javascript", "bullmq.cjs", "node bullmq.cjs"),
    (System::Celery, "first.python", "celery_app.py", "celery -A celery_app worker"),
    (System::Sidekiq, "first.ruby", "sidekiq.rb", "sidekiq -r ./sidekiq.rb"),
    (System::Apalis, "first.rust", "apalis.rs", "first_apalis"),
];

/// Counts the lines of the smallest workers of a system, after each has handled a job.
pub(super) fn first(bench: &Bench, system: System) -> Figures {
    let own = PROGRAMS.into_iter().filter(|(of, ..)| *of == system);
    own.map(|(_, row, file, command)| {
        try_out(system, &bench.redis(), command);
        (row, f64::from(lines(&folder().join(file))))
    })
    .collect()
}

/// Starts a worker, adds a job, and waits until the worker has handled it.
fn try_out(system: System, redis: &TestRedis, command: &str) {
    let dir = tempfile::tempdir().unwrap();
    let api = format!("unix:{}", dir.path().join("api.sock").display());
    // The library needs no node.
    let _node = (system == System::Schedd && command != "first_worker").then(|| {
        let node = Schedd::on(redis).env("SCHEDD_API", &api).start();
        node.wait_for_log("The HTTP API answers all requests.");
        node
    });
    let worker = Worker::printing(&mut started_by(command, redis, &api));
    if system == System::Schedd {
        // The output of a process is kept as that of its run, so the end of the run says that it was handled.
        let mut add = Command::new(env!("CARGO_BIN_EXE_schedctl"));
        add.args(["add", "--handler", "greet", "--payload", "\"ann\"", "--in", "0s", "--wait"]);
        let output = add.args(["--redis", &redis.url()]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    } else {
        assert!(system.program(redis, "greet").status().unwrap().success());
        until("the worker greets", PATIENCE, || {
            worker.reported().iter().any(|line| line.contains("hello ann")).then_some(())
        });
    }
}

/// Returns a command line with the variables that the workers and their programs read.
fn started_by(command: &str, redis: &TestRedis, api: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = Path::new(env!("CARGO_BIN_EXE_schedctl")).parent().unwrap();
    let packages = packages();
    let mut path = vec![packages.join("python/bin"), packages.join("apalis/target/release")];
    path.extend([built.to_owned(), built.join("examples")]);
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .current_dir(folder())
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("REDIS_URL", redis.url())
        .env("CELERY_BROKER_URL", redis.url().replace("unix:", "redis+socket:"))
        .env("SCHEDD_API_URL", api)
        .env("NODE_PATH", packages.join("node/node_modules"))
        .env("PYTHONPATH", root.join("clients/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    shell
}

/// Returns the number of lines of a program that are neither empty nor comments.
fn lines(file: &Path) -> u32 {
    let is_script = file.extension().is_some_and(|end| end == "py" || end == "rb" || end == "sh");
    let comment = if is_script { "#" } else { "//" };
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().map(str::trim_start);
    let count = lines.filter(|line| !line.is_empty() && !line.starts_with(comment)).count();
    u32::try_from(count).unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/figures/peers/first")
}
