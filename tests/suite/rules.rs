//! Rules that a machine can check: imports only go down, and what the crate's front page says is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of the sources, each with those it may import from beside itself. A folder of the
/// same crate has its own name, and another crate the name of its library. Cargo refuses what no
/// manifest names, and circles of crates.
const MAY_IMPORT: [(&str, &[&str]); 20] = [
    ("crates/schedule/src", &[]),
    ("crates/core/src/domain", &["schedd_schedule"]),
    ("crates/core/src/files", &[]),
    ("crates/core/src/host", &["schedd_schedule"]),
    ("crates/core/src/config", &["domain", "files", "schedd_schedule"]),
    ("crates/store/src", &["schedd_core", "schedd_schedule"]),
    ("crates/keeper/src", &["schedd_core", "schedd_schedule"]),
    ("crates/schedd/src/attempts", &["schedd_core", "schedd_schedule"]),
    (
        "crates/schedd/src/engine",
        &["attempts", "http_client", "schedd_core", "schedd_schedule", "schedd_store"],
    ),
    ("crates/schedd/src/adding", &["engine", "schedd_core", "schedd_schedule", "schedd_store"]),
    (
        "crates/schedd/src/client",
        &["adding", "engine", "schedd_core", "schedd_schedule", "schedd_store"],
    ),
    (
        "crates/schedd/src/worker",
        &[
            "attempts",
            "client",
            "engine",
            "program_host",
            "schedd_core",
            "schedd_schedule",
            "schedd_store",
        ],
    ),
    ("crates/schedd/src/testing", &["client", "worker", "schedd_schedule", "schedd_store"]),
    ("src/secrets", &["schedd_core", "schedd_schedule"]),
    ("src/private_redis", &["schedd_core", "schedd_schedule"]),
    (
        "src/executor",
        &[
            "secrets",
            "schedd::attempts",
            "schedd::http_client",
            "schedd_core",
            "schedd_keeper",
            "schedd_schedule",
        ],
    ),
    (
        "src/daemon",
        &[
            "secrets",
            "executor",
            "private_redis",
            "api",
            "schedd::attempts",
            "schedd::engine",
            "schedd_core",
            "schedd_keeper",
            "schedd_schedule",
            "schedd_store",
        ],
    ),
    (
        "src/api",
        &[
            "secrets",
            "cli",
            "dashboard",
            "schedd::engine",
            "schedd_core",
            "schedd_schedule",
            "schedd_store",
        ],
    ),
    ("src/dashboard", &["secrets", "cli", "schedd_core", "schedd_schedule", "schedd_store"]),
    (
        "src/cli",
        &[
            "secrets",
            "private_redis",
            "schedd::ClientError",
            "schedd::WorkerNode",
            "schedd::adding",
            "schedd::attempts",
            "schedd::engine",
            "schedd_core",
            "schedd_keeper",
            "schedd_schedule",
            "schedd_store",
        ],
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The sources of the programs and of all crates.
fn sources() -> Vec<PathBuf> {
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().path().join("src"));
    crates.chain([root().join("src")]).collect()
}

fn source_files() -> impl Iterator<Item = PathBuf> {
    sources().into_iter().flat_map(|source| files_below(&source))
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// The folders and crates of the project that a text names in its paths. A module of the library
/// `schedd` is named with the library: `schedd::engine`.
fn imported(text: &str) -> impl Iterator<Item = String> {
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices("::").filter_map(move |(at, separator)| {
        let before = &text[..at];
        let start = before.rfind(|c| !is_in_name(c)).map_or(0, |at| at + 1);
        let name = &before[start..];
        let rest = &text[at + separator.len()..];
        let next = &rest[..rest.find(|c| !is_in_name(c)).unwrap_or(rest.len())];
        let is_first = !before[..start].ends_with("::");
        match name {
            "crate" => Some(next.to_owned()),
            "schedd" if is_first => Some(format!("schedd::{next}")),
            _ if is_first && name.starts_with("schedd_") => Some(name.to_owned()),
            _ => None,
        }
    })
}

#[test]
fn imports_only_go_down() {
    for (folder, allowed) in MAY_IMPORT {
        let files = files_below(&root().join(folder));
        assert!(!files.is_empty(), "{folder} is empty");
        let (parent, own) = folder.rsplit_once('/').unwrap();
        let beside: Vec<&str> = MAY_IMPORT
            .iter()
            .filter_map(|(other, _)| other.strip_prefix(parent)?.strip_prefix('/'))
            .collect();
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for target in imported(&text) {
                let is_inner = beside.contains(&target.as_str()) && target != own;
                let is_checked = is_inner || target.starts_with("schedd");
                // The library names itself in the examples of its documentation.
                let is_example = parent == "crates/schedd/src" && target.starts_with("schedd::");
                let is_allowed = allowed.contains(&target.as_str()) || is_example;
                assert!(!is_checked || is_allowed, "{} imports from {target}", file.display());
            }
        }
    }
}

#[test]
fn only_the_store_speaks_redis_and_only_the_keeper_spawns() {
    for file in source_files() {
        let text = fs::read_to_string(&file).unwrap();
        let is_below = |folder: &str| file.starts_with(root().join(folder));
        assert!(
            is_below("crates/store")
                || is_below("src/private_redis")
                || !text.replace("private_redis::", "").contains("redis::"),
            "{} speaks Redis",
            file.display()
        );
        let spawns = text.contains("process::Command") || text.contains("Command::new(");
        assert!(
            !spawns
                || is_below("crates/keeper")
                || is_below("src/private_redis")
                || is_below("crates/schedd/src/testing")
                || is_below("src/cli")
                // Starts none: it is the same process.
                || is_below("src/daemon/concealing.rs"),
            "{} spawns",
            file.display()
        );
    }
}

#[test]
fn every_dependency_is_named_in_the_code() {
    let code = |folders: &[PathBuf]| {
        let files = folders.iter().filter(|folder| folder.exists()).flat_map(|f| files_below(f));
        let sources = files.filter(|file| file.extension().is_some_and(|end| end == "rs"));
        sources.map(|file| fs::read_to_string(file).unwrap()).collect::<String>()
    };
    for source in sources() {
        let package = source.parent().unwrap();
        let manifest: toml::Table =
            fs::read_to_string(package.join("Cargo.toml")).unwrap().parse().unwrap();
        let ignored = manifest["package"].get("metadata").and_then(|metadata| {
            metadata.get("cargo-machete")?.get("ignored")?.as_array().cloned()
        });
        let ignored = ignored.unwrap_or_default();
        for (section, folders) in [
            ("dependencies", &["src"][..]),
            ("dev-dependencies", &["src", "tests", "examples", "packaging"]),
        ] {
            let folders: Vec<PathBuf> = folders.iter().map(|folder| package.join(folder)).collect();
            let code = code(&folders);
            for name in manifest.get(section).and_then(toml::Value::as_table).into_iter().flatten()
            {
                let name = name.0;
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
}

#[test]
fn every_public_item_of_the_library_has_an_example() {
    const ITEMS: [&str; 5] = ["pub fn ", "pub async fn ", "pub struct ", "pub enum ", "pub type "];
    let folders = ["client", "worker", "testing"].map(|name| format!("crates/schedd/src/{name}"));
    let mut items = 0;
    for file in folders.iter().flat_map(|folder| files_below(Path::new(folder))) {
        let text = fs::read_to_string(&file).unwrap();
        // The comment and the attributes above an item.
        let mut above = String::new();
        for line in text.lines().map(str::trim_start) {
            if line.starts_with("///") || line.starts_with("#[") {
                above.push_str(line);
                continue;
            }
            if ITEMS.iter().any(|item| line.starts_with(item)) && !above.contains("doc(hidden)") {
                items += 1;
                assert!(above.contains("```"), "{}: {line}", file.display());
            }
            above.clear();
        }
    }
    assert!(items > 60, "only {items} items");
}

#[test]
fn every_file_opens_by_saying_what_it_owns() {
    let is_code = |file: &PathBuf| file.extension().is_some_and(|end| end == "rs");
    for file in source_files().filter(is_code) {
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
    for folder in [
        "core/src/domain",
        "core/src/host",
        "keeper/src",
        "schedd/src/attempts",
        "schedd/src/engine",
        "schedule/src",
        "store/src",
    ] {
        for file in files_below(&root().join("crates").join(folder)) {
            // They break this very rule, in builds for tests only.
            if file.ends_with("server/mutants.rs") || file.ends_with("store/src/test_clock.rs") {
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
    for file in files_below(&root().join("src/cli")) {
        let text = fs::read_to_string(&file).unwrap();
        let is_place = file.ends_with("local_zone.rs");
        assert!(is_place || !text.contains("Zone::of_host"), "{}", file.display());
    }
}

/// The most Rust files in one folder.
const MOST_FILES: usize = 15;

#[test]
fn no_folder_holds_more_files_than_a_reader_can_survey() {
    for folder in ["crates", "src", "tests"] {
        let files = files_below(&root().join(folder));
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
    for file in source_files() {
        let is_source = file.extension().is_some_and(|extension| extension == "rs");
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if is_source && name != "mod.rs" && name != "lib.rs" {
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
    for file in source_files() {
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
    for file in source_files() {
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
    for folder in ["crates", "src", "tests"] {
        for file in files_below(&root().join(folder)) {
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
