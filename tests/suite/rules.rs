//! Rules that a machine can check: imports only go down, and what the crate's front page says is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of `src`, each with those it may import from beside itself.
const MAY_IMPORT: [(&str, &[&str]); 13] = [
    ("domain", &[]),
    ("files", &[]),
    ("config", &["domain", "files"]),
    ("keeper", &["domain"]),
    ("secrets", &["domain", "files"]),
    ("executor", &["domain", "files", "keeper", "secrets"]),
    ("store", &["domain", "files"]),
    ("private_redis", &["domain", "files"]),
    ("engine", &["domain", "config", "keeper", "secrets", "executor", "store"]),
    (
        "daemon",
        &[
            "domain",
            "files",
            "config",
            "keeper",
            "secrets",
            "executor",
            "store",
            "private_redis",
            "engine",
            "api",
        ],
    ),
    ("api", &["domain", "config", "secrets", "store", "engine", "cli", "dashboard"]),
    ("dashboard", &["domain", "secrets", "store", "cli"]),
    ("cli", &["domain", "config", "secrets", "store", "private_redis", "engine"]),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// The folders a text names as `crate::FOLDER`.
fn imported(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("crate::").map(|(at, found)| {
        let rest = &text[at + found.len()..];
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

#[test]
fn imports_only_go_down() {
    for (folder, allowed) in MAY_IMPORT {
        let files = files_below(&source().join(folder));
        assert!(!files.is_empty(), "{folder} is empty");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for target in imported(&text) {
                let is_folder = MAY_IMPORT.iter().any(|(name, _)| *name == target);
                let is_allowed = target == folder || allowed.contains(&target);
                assert!(!is_folder || is_allowed, "{} imports from {target}", file.display());
            }
        }
    }
}

#[test]
fn only_the_store_speaks_redis_and_only_the_keeper_spawns() {
    for file in files_below(&source()) {
        let text = fs::read_to_string(&file).unwrap();
        let is_below = |folder: &str| file.starts_with(source().join(folder));
        assert!(
            is_below("store")
                || is_below("private_redis")
                || !text.replace("private_redis::", "").contains("redis::"),
            "{} speaks Redis",
            file.display()
        );
        let spawns = text.contains("process::Command") || text.contains("Command::new(");
        assert!(
            !spawns
                || is_below("keeper")
                || is_below("private_redis")
                || is_below("cli")
                // Starts none: it is the same process.
                || is_below("daemon/concealing.rs"),
            "{} spawns",
            file.display()
        );
    }
}

#[test]
fn every_dependency_is_named_in_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest: toml::Table =
        fs::read_to_string(root.join("Cargo.toml")).unwrap().parse().unwrap();
    let code = |folders: &[&str]| {
        let files = folders.iter().flat_map(|folder| files_below(&root.join(folder)));
        let sources = files.filter(|file| file.extension().is_some_and(|end| end == "rs"));
        sources.map(|file| fs::read_to_string(file).unwrap()).collect::<String>()
    };
    let ignored = manifest["package"]["metadata"]["cargo-machete"]["ignored"].as_array().unwrap();
    for (section, folders) in
        [("dependencies", &["src"][..]), ("dev-dependencies", &["src", "tests", "packaging"])]
    {
        let code = code(folders);
        for name in manifest[section].as_table().unwrap().keys() {
            // Only their features matter.
            if ignored.contains(&name.as_str().into()) {
                continue;
            }
            let path = format!("{}::", name.replace('-', "_"));
            let is_named = code.match_indices(&path).any(|(at, _)| {
                let before = code[..at].chars().next_back();
                before.is_none_or(|sign| !sign.is_alphanumeric() && sign != '_')
            });
            assert!(is_named, "{section}: {name} is not used: no {path} in {folders:?}");
        }
    }
}

#[test]
fn every_file_opens_by_saying_what_it_owns() {
    let is_code = |file: &PathBuf| file.extension().is_some_and(|end| end == "rs");
    for file in files_below(&source()).into_iter().filter(is_code) {
        let text = fs::read_to_string(&file).unwrap();
        let is_test = file.components().any(|part| {
            part.as_os_str().to_string_lossy().trim_end_matches(".rs").ends_with("tests")
        });
        assert!(is_test || text.starts_with("//! "), "{}", file.display());
    }
}

#[test]
fn what_decides_never_asks_a_node_for_the_time_of_day() {
    // Redis' TIME says what is due or expired, and a clock that goes on in sleep measures leases.
    for folder in ["domain", "engine", "executor", "keeper", "store"] {
        for file in files_below(&source().join(folder)) {
            // Breaks this very rule, in builds for tests only.
            if file.ends_with("store/server/mutants.rs") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            for clock in ["SystemTime", "Timestamp::now", "Zoned::now", "Utc::now", "Local::now"] {
                assert!(!text.contains(clock), "{} asks {clock}", file.display());
            }
        }
    }
}

#[test]
fn verbs_take_the_zone_of_their_user_from_one_place() {
    for file in files_below(&source().join("cli")) {
        let text = fs::read_to_string(&file).unwrap();
        let is_place = file.ends_with("local_zone.rs");
        assert!(is_place || !text.contains("Zone::of_host"), "{}", file.display());
    }
}

/// The most Rust files in one folder.
const MOST_FILES: usize = 15;

#[test]
fn no_folder_holds_more_files_than_a_reader_can_survey() {
    for root in ["src", "tests"] {
        let files = files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(root));
        let mut count: BTreeMap<&Path, usize> = BTreeMap::new();
        for file in
            files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        {
            *count.entry(file.parent().unwrap()).or_default() += 1;
        }
        let full: Vec<_> = count.into_iter().filter(|(_, count)| *count > MOST_FILES).collect();
        assert!(full.is_empty(), "{full:?}, wanted at most {MOST_FILES} files each");
    }
}

#[test]
fn no_two_source_files_have_one_name() {
    let mut places: BTreeMap<String, PathBuf> = BTreeMap::new();
    for file in files_below(&source()) {
        let is_source = file.extension().is_some_and(|extension| extension == "rs");
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if is_source && name != "mod.rs" {
            let other = places.insert(name, file.clone());
            assert!(
                other.is_none(),
                "{} and {}",
                file.display(),
                other.unwrap_or_default().display()
            );
        }
    }
}

/// The names of the types that a text defines for others to use.
fn public_types(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("pub"));
    let types = lines.filter_map(|line| {
        let line = if line.starts_with('(') { line.split_once(") ")?.1 } else { line.trim_start() };
        ["struct ", "enum ", "trait ", "type ", "union "]
            .iter()
            .find_map(|word| line.strip_prefix(word))
    });
    types.map(|rest| {
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
    })
}

#[test]
fn no_two_public_types_have_one_name() {
    let mut places: BTreeMap<String, PathBuf> = BTreeMap::new();
    for file in files_below(&source()) {
        for name in public_types(&fs::read_to_string(&file).unwrap()) {
            let other = places.insert(name.to_owned(), file.clone());
            assert!(
                other.is_none(),
                "{name}: {} and {}",
                file.display(),
                other.unwrap_or_default().display()
            );
        }
    }
}

#[test]
fn no_doc_comment_begins_with_a_word_that_says_nothing() {
    const AVOIDED: [&str; 3] = ["What ", "Whether ", "Of "];
    for file in files_below(&source()) {
        let text = fs::read_to_string(&file).unwrap();
        let mut before = "";
        for line in text.lines().map(str::trim_start) {
            let is_first = line.starts_with("/// ") && !before.starts_with("///");
            let says = line.trim_start_matches("/// ");
            let is_avoided = is_first && AVOIDED.iter().any(|word| says.starts_with(word));
            assert!(!is_avoided, "{}: {line}", file.display());
            before = line;
        }
    }
}

#[test]
fn no_test_has_a_name_longer_than_its_subject_needs() {
    const MOST: usize = 80;
    for root in ["src", "tests"] {
        for file in files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(root)) {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                    is_test = true;
                } else if is_test
                    && let Some(rest) =
                        line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))
                {
                    let name = rest.split('(').next().unwrap_or_default();
                    assert!(
                        name.len() <= MOST,
                        "{}: {name} has {} characters",
                        file.display(),
                        name.len()
                    );
                    is_test = false;
                }
            }
        }
    }
}
