//! `check`: every problem of a jobs file, without using it.

use std::io::IsTerminal;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::args::{Check, Global};
use super::connect::{default_files, jobs_file};
use super::failure::Failure;
use super::render::{Console, one_line};
use crate::config::{self, Rendering};
use crate::domain::zone::Zone;

/// The code for a file that cannot be used.
const BAD_FILE: u8 = 78;

/// Checks a file.
pub(super) fn check(global: &Global, args: &Check, console: &mut Console) -> Result<u8, Failure> {
    let path: PathBuf =
        args.file.clone().or_else(|| jobs_file(global)).ok_or_else(|| {
            Failure::Config(vec![format!("no jobs file to check: {} are not there; name one", default_files())])
        })?;
    let file = one_line(&path.display().to_string());
    match config::read_file(&path, &Zone::of_host()) {
        Ok(config) => {
            let jobs = config.jobs.len();
            let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
            for warning in &warnings {
                console.warn(&format!("{file}: {warning}"));
            }
            if console.is_json() {
                console.json(&json!({"file": file, "jobs": jobs, "problems": [], "warnings": warnings}));
            } else if !console.is_quiet() {
                let count = if jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") };
                console.line(&format!("{file}: {count}, no problems"));
            }
            Ok(0)
        }
        Err(error) => {
            let is_terminal = std::io::stderr().is_terminal();
            let shown = error.rendered(if is_terminal { Rendering::Carets } else { Rendering::Lines });
            // Their own form, FILE:LINE:COLUMN, is what editors find the place by.
            shown.lines().for_each(|line| console.aside(&one_line(line)));
            if console.is_json() {
                let problem = |(problem, place): (&config::Problem, Option<(usize, usize)>)| {
                    let (line, column) = place.unzip();
                    json!({"path": problem.path, "message": problem.message, "line": line, "column": column})
                };
                let problems: Vec<Value> = error.problems().iter().zip(error.places()).map(problem).collect();
                console.json(&json!({"file": file, "jobs": null, "problems": problems, "warnings": []}));
            }
            Ok(BAD_FILE)
        }
    }
}
