//! `docs/json.md` is true: each document of `--json` has exactly the fields of its table.

mod field_tables;

use std::collections::BTreeSet;

use redis::Commands as _;
use serde_json::{Value, json};

use crate::support::ctl::{Finished, Schedctl};
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};
use field_tables::FieldTables;

/// The file of a node: a recurring job, members of a group, a job on each node, a chain,
/// and a long run.
const JOBS: &str = r#"
[daemon]
queues = ["default", "mail"]
[defaults]
tz = "Europe/Berlin"
[queues.mail]
limit = 2
[groups.pair]
mode = "alternate"
order = ["ga", "gb"]
[jobs.tick]
cron = "0 9 1 1 *"
shell = "true"
[jobs.ga]
cron = "0 9 1 1 *"
group = "pair"
shell = "true"
[jobs.gb]
cron = "0 9 1 1 *"
group = "pair"
shell = "true"
[jobs.sweep]
cron = "0 9 1 1 *"
on = "each-node"
shell = "true"
[jobs.pace]
shell = "echo next=1h > $SCHEDD_RESULT"
[jobs.first]
shell = "true"
[jobs.second]
after = "first"
shell = "true"
[jobs.slow]
shell = "sleep 600"
"#;
/// The file of a node that starts no runs, and defines the recurring job differently.
const LIMITED: &str = r#"
[daemon]
min_free_memory = "1000000GiB"
queues = ["narrow"]
[queues.narrow]
[jobs.tick]
cron = "0 9 1 2 *"
tz = "Europe/Berlin"
shell = "true"
"#;
const BERLIN: &str = "Europe/Berlin";
/// The objects that the scene does not make: notices that failed for good after many retries, an
/// occurrence that a backfill ran, a wait, and the progress of a worker.
const NOT_MADE: [&str; 4] = [
    "explanation.backfilled_by",
    "whole-job.failed_notices",
    "whole-run.progress",
    "whole-run.waits",
];

/// Two nodes and their jobs, and the tables to compare with.
struct Scene {
    redis: TestRedis,
    ctl: Schedctl,
    tables: FieldTables,
    nodes: [Schedd; 2],
}

impl Scene {
    fn start() -> Self {
        let redis = TestRedis::start();
        let ctl = Schedctl::on(&redis).env("TZ", "UTC");
        // A node knows the jobs that were there at its start, so it can report them as lost.
        let early = ["add", "--name", "early", "--in", "1d", "--tz", BERLIN, "--shell", "true"];
        ctl.run(&early).good();
        let node = |name, jobs| Schedd::on(&redis).node(name).jobs(jobs).env("TZ", "UTC").start();
        let first = node("n1", JOBS);
        first.wait_for_log("All jobs of the jobs file are applied");
        let second = node("n2", LIMITED);
        second.wait_for_log("All jobs of the jobs file are applied");
        Self { redis, ctl, tables: FieldTables::read(), nodes: [first, second] }
    }

    /// Runs a verb with `--json` and compares its document with the row `row` of the table.
    #[track_caller]
    fn look(&self, row: &str, args: &[&str]) -> Value {
        let document = self.ctl.run(&[args, &["--json"]].concat()).json();
        self.tables.check(row, &document);
        document
    }

    /// Does the same for a row that is the only argument of `schedctl`.
    #[track_caller]
    fn look_at(&self, verb: &str) -> Value {
        self.look(verb, &[verb])
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.ctl.home().join(file), text).unwrap();
    }

    #[track_caller]
    fn wait(&self, what: &str, args: &[&str], is_there: impl Fn(&Value) -> bool) -> Value {
        until(what, LONG, || Some(self.ctl.run(args).json()).filter(&is_there))
    }

    fn adds(&self) {
        let later = ["--name", "later", "--at", "2099-01-01T00:00:00Z", "--tz", BERLIN];
        self.look("add", &[&["add"], &later[..], &["--shell", "true"]].concat());
        let line =
            json!({"name": "line", "at": "2099-01-01T00:00:00Z", "tz": BERLIN, "shell": "true"});
        let added =
            self.ctl.run_with_input(&["add", "--stdin", "--json"], line.to_string().as_bytes());
        self.tables.check("add --stdin", &added.good().json());
        let bad = ["--name", "bad", "--in", "0s", "--tz", BERLIN, "--on-failure", "exit 1"];
        let bad = [&["add", "--wait"], &bad[..], &["--shell", "echo out; exit 3"]].concat();
        self.look("add --wait", &bad);
        for [name, key] in [["gpu", "--requires"], ["narrow", "--queue"]] {
            let words =
                ["--name", name, "--in", "0s", key, name, "--tz", BERLIN, "--shell", "true"];
            self.ctl.run(&[&["add"], &words[..]].concat()).good();
        }
    }

    fn jobs_and_runs(&self) {
        self.wait("a notice is retried", &["show", "bad", "--json"], |job| {
            job["notices_retried"][0].is_object()
        });
        self.ctl.run(&["run", "sweep", "--wait"]).good();
        self.look("run", &["run", "slow"]);
        self.wait("a run goes on", &["history", "slow", "--json"], |runs| {
            runs[0]["state"] == "running"
        });
        self.look("run --wait", &["run", "tick", "--wait"]);
        let paced = self.look("run --wait", &["run", "pace", "--wait"]);
        assert!(paced["next"].is_string(), "{paced}");
        self.look("rerun --wait", &["rerun", "tick@last", "--wait"]);
        self.look("rerun", &["rerun", "tick@last"]);
        self.look("next --set", &["next", "ga", "--set", "1h"]);
        self.look_at("list");
        for job in ["tick", "sweep", "bad", "ga", "pace", "later"] {
            self.look("show JOB", &["show", job]);
        }
        self.look("show RUN", &["show", "bad@last"]);
        self.look("graph", &["graph"]);
        self.look("show JOB", &["show", "second"]);
        self.ctl.run(&["run", "first", "--wait"]).good();
        self.wait("the child runs", &["history", "second", "--json"], |runs| {
            runs[0]["state"] == "succeeded"
        });
        self.look("show RUN", &["show", "second@last"]);
        self.look_at("history");
        for explained in [&["explain", "tick"][..], &["explain", "sweep"], &["explain", "slow"]] {
            self.look("explain", explained);
        }
        self.look("explain", &["explain", "bad", "--last"]);
        self.look("logs", &["logs", "bad"]);
        self.look("logs", &["logs", "later"]);
        let Finished { stdout, .. } = self.ctl.run(&["logs", "-f", "bad@last", "--json"]).good();
        let pieces: Vec<Value> =
            stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(pieces.len() > 1, "{stdout}");
        self.tables.check("logs -f", &pieces.into());
        self.look("next", &["next", "tick"]);
        self.look("next --long", &["next", "tick", "--long"]);
        self.look("describe", &["describe", "tick"]);
        self.look("backfill", &["backfill", "tick", "--from", "800d", "--max", "1", "--yes"]);
    }

    fn changes(&self) {
        self.look("cancel", &["cancel", "line", "slow@last"]);
        self.look("retry", &["retry", "bad@last", "--dry-run"]);
        self.look("purge", &["purge", "--dead", "--dry-run"]);
        self.look("pause", &["pause", "tick"]);
        self.look("resume", &["resume", "tick"]);
        self.look("queue pause", &["queue", "pause", "mail"]);
        self.look_at("queues");
        self.look("queue resume", &["queue", "resume", "mail"]);
        self.look("queue set", &["queue", "set", "mail", "limit=3"]);
    }

    fn whole(&self) {
        let is_limited = |queues: &Value| {
            let any = |field: &str| {
                queues.as_array().unwrap().iter().any(|queue| queue[field][0].is_object())
            };
            any("at_limit") && any("unserved")
        };
        self.wait("a queue is at its limit", &["queues", "--json"], is_limited);
        self.look_at("queues");
        self.look_at("groups");
        self.look_at("nodes");
        self.look_at("stats");
    }

    fn files(&self) {
        self.write("jobs.toml", &JOBS.replace("limit = 2", "limit = 4").replace("600", "601"));
        self.write("bad.toml", "[jobs.a]\nshell = 5\n");
        self.write("crontab", "0 9 * * * a\n60 * * * * b\n");
        self.look("check", &["check", "jobs.toml"]);
        self.look("check", &["check", "bad.toml"]);
        self.look("next --file", &["next", "--file", "jobs.toml"]);
        self.look("diff", &["diff", "jobs.toml", "--node", "n1"]);
        self.look("apply", &["apply", "jobs.toml", "--source", "more"]);
        let exported = self.look("export", &["export", "--all"]);
        assert!(exported["jobs"].as_object().unwrap().keys().all(|job| !job.contains('/')));
        self.look("import crontab", &["import", "crontab", "crontab", "--compare", "1"]);
    }

    fn repairs(&self) {
        let mut redis = self.redis.connection();
        let _: () = redis.set("{schedd}:x", 1).unwrap();
        let _: () = redis.expire("{schedd}:job:later", 100_000).unwrap();
        let entry = json!({"key": "{schedd}:due:default", "score": "2", "why": "w", "at": "5"});
        for member in ["a@99", "b@99"] {
            let _: () = redis.hset("{schedd}:quarantine", member, entry.to_string()).unwrap();
        }
        self.look("doctor --discard", &["doctor", "--discard", "a@99"]);
        self.look("doctor", &["doctor", "--fix"]);
        let definition: String = redis.hget("{schedd}:job:later", "def").unwrap();
        let _: () = redis.hset("{schedd}:job:later", "def", "{").unwrap();
        let aside = self.look("doctor --set-aside", &["doctor", "--set-aside", "later"]);
        let _: () = redis.hset(aside["aside"].as_str().unwrap(), "def", definition).unwrap();
        let report = self.look_at("doctor");
        let entries = report["quarantine"]["entries"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["aside"] == aside["aside"]).unwrap();
        self.look("doctor --restore", &["doctor", "--restore", entry["name"].as_str().unwrap()]);
    }

    fn access(&self) {
        let file = "--tokens-file=tokens";
        let new = ["token", "new", "--role", "viewer", "--expires", "1d", "--name", "v", file];
        self.look("token new", &new);
        self.look("token list", &["token", "list", file]);
        self.look("token revoke", &["token", "revoke", "v", file]);
        self.look("acl", &["acl"]);
        self.look("dashboard", &["dashboard", "--url", "http://127.0.0.1:1", file]);
    }

    fn loss(&self) {
        let before = self.ctl.run(&["explain", "tick", "--json"]).good().json()["now"].clone();
        for node in &self.nodes {
            until("a journal knows the job of the command line", LONG, || {
                let files = std::fs::read_dir(node.state_home().join("schedd")).ok()?;
                files
                    .filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok())
                    .any(|text| text.contains("\"n\":\"early\""))
                    .then_some(())
            });
        }
        let _: () = redis::cmd("FLUSHALL").query(&mut self.redis.connection()).unwrap();
        self.wait("the loss is reported", &["data-loss", "--json"], |losses| {
            losses[0]["reported_by"][1].is_string()
        });
        self.look_at("data-loss");
        self.wait("tick is defined again", &["list", "tick", "--json"], |jobs| jobs[0].is_object());
        self.look("explain", &["explain", "tick", "--at", before.as_str().unwrap()]);
    }
}

#[test]
fn each_json_document_has_the_fields_and_types_of_its_table() {
    let scene = Scene::start();
    scene.adds();
    scene.jobs_and_runs();
    scene.changes();
    scene.whole();
    scene.files();
    scene.repairs();
    scene.access();
    scene.loss();
    let unseen: BTreeSet<String> = scene.tables.unseen().into_iter().collect();
    assert_eq!(unseen, NOT_MADE.map(str::to_owned).into(), "tables without a document");
}

#[test]
fn each_verb_with_json_is_in_the_table_of_documents() {
    let command = schedd_programs::cli::command();
    let verbs = command.get_subcommands().flat_map(|verb| {
        let name = verb.get_name();
        let inner = verb.get_subcommands().map(|inner| format!("{name} {}", inner.get_name()));
        let inner: Vec<String> = inner.collect();
        if inner.is_empty() { vec![name.to_owned()] } else { inner }
    });
    let verbs: BTreeSet<String> =
        verbs.filter(|verb| !["top", "work", "completions"].contains(&verb.as_str())).collect();
    let tables = FieldTables::read();
    let of_row = |row: &str| {
        let words: Vec<&str> = row
            .split(' ')
            .take_while(|word| !word.starts_with('-') && word.chars().any(char::is_lowercase))
            .collect();
        words.join(" ")
    };
    assert_eq!(tables.verbs().map(of_row).collect::<BTreeSet<_>>(), verbs);
}
