//! `docs/migration.md`: each of our lines there is run against a real schedd, with the worker of the page.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use serde_json::Value;

use super::clients::{DOCS_ADDRESS, ROOT, ended, has};
use crate::api::{ApiScene, DEFINING};
use crate::support::ctl::{Finished, Schedctl};

/// The worker of the page. It gets SIGKILL when the test ends.
struct PageWorker(Child);

impl Drop for PageWorker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A block of the page: the number of its section, the word behind its fence, and its text.
struct Block {
    section: usize,
    kind: String,
    text: String,
}

fn blocks(address: &str) -> Vec<Block> {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/migration.md")).unwrap();
    let page = page.replace(DOCS_ADDRESS, address);
    let mut blocks = Vec::new();
    let mut section = 0;
    for (number, part) in page.split("\n```").enumerate() {
        if number % 2 == 0 {
            let headings = part.lines().filter_map(|line| line.strip_prefix("## "));
            let mut numbers = headings.filter_map(|line| line.split_once(". ")?.0.parse().ok());
            section = numbers.next_back().unwrap_or(section);
        } else {
            let (kind, text) = part.split_once('\n').unwrap();
            blocks.push(Block { section, kind: kind.to_owned(), text: format!("{text}\n") });
        }
    }
    blocks
}

/// Returns a call of `program` where the page has its files: the tokens and the packages.
fn call(ctl: &Schedctl, program: &str, text: &str) -> Command {
    let programs = Path::new(env!("CARGO_BIN_EXE_schedctl")).parent().unwrap();
    let mut command = ctl.command_of(program);
    command.args(["-c", text]);
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()));
    command.env("PYTHONPATH", format!("{ROOT}/clients/python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn every_line_of_ours_on_the_page_about_migration_works() {
    if !has(&["python3", "curl"]) {
        return;
    }
    let jobs: String = blocks("")
        .into_iter()
        .filter(|block| block.kind == "toml" && block.section > 0)
        .map(|block| block.text)
        .collect();
    let scene = ApiScene::start(DEFINING, &jobs);
    let ctl = scene.ctl("admin");
    for (file, role) in [("admin.token", "admin"), ("worker.token", "worker")] {
        fs::write(ctl.home().join(file), scene.probe.token(role)).unwrap();
    }
    let blocks = blocks(&format!("http://{}", scene.probe.address()));
    let worker = blocks.iter().find(|block| block.text.contains("worker.run()")).unwrap();
    let _worker = PageWorker(call(&ctl, "python3", &worker.text).spawn().unwrap());
    let mut done = 0;
    for block in blocks.iter().filter(|block| block.section > 0 && block.kind != "toml") {
        let program = if block.kind == "sh" { "sh" } else { "python3" };
        let stop_at_faults = if program == "sh" { "set -e\n" } else { "" };
        let text = format!("{stop_at_faults}{}", block.text);
        let said = Finished::of(call(&ctl, program, &text).output().unwrap());
        assert_eq!(said.code, 0, "section {}: {said:?}\n{text}", block.section);
        judge(&scene, block.section, &said);
        done += 1;
    }
    assert_eq!(blocks.last().unwrap().section, 10);
    assert!(done >= 12, "only {done} blocks were run");
    judge_ends(&scene);
}

fn job(scene: &ApiScene, name: &str) -> Value {
    scene.get("viewer", &format!("/v1/jobs/{name}")).of(200)
}

/// Asserts what the lines of a section print.
fn judge(scene: &ApiScene, section: usize, said: &Finished) {
    let wanted: &[&str] = match section {
        2 => &["digest@", "succeeded"],
        3 => &["sync-1"],
        5 => &["import-1", "imports"],
        7 => &["trial-ends", "slow"],
        8 => &["extract", "load"],
        10 => &["code 1", "broken@", "no room left"],
        _ => &[],
    };
    let lines = [&*said.stdout, &*said.stderr].concat();
    for word in wanted {
        assert!(lines.contains(word), "section {section}: no {word:?} in {said:?}");
    }
    if section == 3 {
        scene.get("viewer", "/v1/jobs/sync-2").of(404);
    }
}

/// Asserts what became of the jobs of all sections.
fn judge_ends(scene: &ApiScene) {
    for (name, is_worked) in [
        ("digest", true),
        ("flaky", false),
        ("import-1", false),
        ("invoice-1", false),
        ("invoice-2", false),
        ("extract", false),
        ("load", false),
        ("news-ann", true),
        ("news-bob", true),
        ("news-eve", true),
        ("news-zoe", true),
    ] {
        let run = ended(scene, name);
        assert_eq!(run["state"], "succeeded", "{run}");
        let node = run["node"].as_str().unwrap();
        assert_eq!(node == "worker:mailer-1", is_worked, "{run}");
    }
    assert_eq!(ended(scene, "flaky")["attempt"], 3);
    for name in ["remind-ann", "remind-bob"] {
        assert_eq!(job(scene, name)["state"], "scheduled");
    }
    assert_eq!(job(scene, "digest")["tz"], "Europe/Berlin");
    let slow = scene.get("viewer", "/v1/runs?job=slow").of(200);
    assert_eq!(slow["items"][0]["state"], "cancelled", "{slow}");
    let broken = crate::support::wait::until("broken succeeds", crate::support::wait::LONG, || {
        let run = scene.get("viewer", "/v1/runs/broken@last").json();
        (run["state"] == "succeeded").then_some(run)
    });
    assert_eq!(broken["attempt"], 2, "{broken}");
}
