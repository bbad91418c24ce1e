//! The manual pages are whole, and ones that a reader of pages takes.

use std::io::ErrorKind;
use std::process::Command;

#[path = "../../packaging/manual/markdown.rs"]
mod markdown;
#[path = "../../packaging/manual/pages.rs"]
mod pages;

#[test]
fn every_verb_has_a_page_and_the_file_has_one() {
    let pages = pages::all();
    let text = |name: &str| {
        &pages.iter().find(|(page, _)| page == name).unwrap_or_else(|| panic!("no {name}")).1
    };
    for verb in schedd_programs::cli::command().get_subcommands() {
        text(&format!("schedctl-{}.1", verb.get_name()));
    }
    assert!(text("schedctl-queue-set.1").contains("EXAMPLES"));
    assert!(
        text("schedctl.1").contains("\"JSON OUTPUT\"") && text("schedctl.1").contains("late_ms")
    );
    assert!(
        text("schedctl-add.1").contains("pg\\_dump")
            || text("schedctl-add.1").contains("\\-\\-cron")
    );
    for word in ["hardened.conf", "ENVIRONMENT", "FILES", "SIGNALS", "\"EXIT STATUS\""] {
        assert!(text("schedd.8").contains(word), "{word}");
    }
    assert!(!text("schedd.8").contains("./script/"));
    assert!(!text("schedd.8").contains("see Secrets."), "a reader of the page has no such section");
    for word in [
        "catch_up",
        "max_running",
        "not_while",
        "keep_per_job",
        "on_recovered",
        "SECRETS",
        "LOGS",
        "EXAMPLES",
    ] {
        assert!(text("jobs.toml.5").contains(word), "{word}");
    }
}

#[test]
fn no_page_is_found_fault_with() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in pages::all() {
        assert!(!text.contains("```") && !text.contains("**") && !text.contains("]("), "{name}");
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        let said = match Command::new("mandoc")
            .args(["-T", "lint", "-W", "warning"])
            .arg(&file)
            .output()
        {
            Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!("SKIPPED: no mandoc here, so the manual pages were not held against it");
                return;
            }
            Err(error) => panic!("mandoc: {error}"),
        };
        // A page is as new as its version, and an empty line more is none to the reader.
        let is_fault = |line: &&str| {
            !line.contains("missing date") && !line.contains("skipping paragraph macro")
        };
        let faults: Vec<&str> = said.lines().filter(is_fault).collect();
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
