//! README.md, `docs/` and `examples/` hold together: jobs files, links, and the names of verbs and
//! keys.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use schedd_core::config::{compile_text, job_from_json, job_keys, other_keys};
use schedd_schedule::time::zone::Zone;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const README_LINES: usize = 200;
const COLUMNS: usize = 120;

struct Page {
    path: PathBuf,
    text: String,
}

/// A block between fences: the word behind the first fence, and its text.
struct Block {
    kind: String,
    text: String,
}

fn page(path: PathBuf) -> Page {
    Page { text: fs::read_to_string(&path).unwrap(), path }
}

fn readme() -> Page {
    page(Path::new(ROOT).join("README.md"))
}

fn pages() -> Vec<Page> {
    let entries =
        fs::read_dir(Path::new(ROOT).join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    paths.sort();
    assert!(paths.len() > 10, "{paths:?}");
    paths.push(Path::new(ROOT).join("examples/README.md"));
    std::iter::once(readme()).chain(paths.into_iter().map(page)).collect()
}

impl Page {
    fn name(&self) -> String {
        self.path.strip_prefix(ROOT).unwrap().display().to_string()
    }

    fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut is_inside = false;
        for line in self.text.lines() {
            match line.strip_prefix("```") {
                Some(kind) if !is_inside => {
                    blocks.push(Block { kind: kind.to_owned(), text: String::new() });
                }
                Some(_) => {}
                None if is_inside => blocks.last_mut().unwrap().text.extend([line, "\n"]),
                None => continue,
            }
            is_inside ^= line.starts_with("```");
        }
        assert!(!is_inside, "{}: a block without an end", self.name());
        blocks
    }

    /// The lines outside blocks.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut is_inside = false;
        self.text.lines().filter(move |line| {
            let is_fence = line.starts_with("```");
            is_inside ^= is_fence;
            !is_inside && !is_fence
        })
    }

    /// The places that links to this page may name behind `#`.
    fn anchors(&self) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        for line in self.prose().filter(|line| line.starts_with('#')) {
            let anchor = anchor(line.trim_start_matches('#').trim());
            assert!(anchors.insert(anchor), "{}: two headings {line:?}", self.name());
        }
        anchors
    }

    fn links(&self) -> Vec<&str> {
        let mut links = Vec::new();
        for line in self.prose() {
            links.extend(
                line.split("](")
                    .skip(1)
                    .map(|rest| rest.split_once(')').expect("a link ends on its line").0),
            );
        }
        links
    }
}

/// The anchor of a heading, as the usual viewers of Markdown make it.
fn anchor(heading: &str) -> String {
    let is_kept = |sign: &char| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_');
    heading
        .to_lowercase()
        .chars()
        .filter(is_kept)
        .map(|sign| if sign == ' ' { '-' } else { sign })
        .collect()
}

#[test]
fn every_jobs_file_in_the_docs_is_one_that_is_taken() {
    let mut count = 0;
    for page in pages() {
        for block in page.blocks() {
            // A file that a shell line writes is a jobs file too.
            let text = match block.kind.as_str() {
                "toml" => block.text.as_str(),
                _ => match block.text.split_once("<<'TOML'\n") {
                    Some((_, rest)) => rest.split_once("\nTOML\n").unwrap().0,
                    None => continue,
                },
            };
            if let Err(error) = compile_text(text, &page.name(), &Zone::utc()) {
                panic!("{error}\n{text}");
            }
            count += 1;
        }
    }
    assert!(count >= 9, "only {count} jobs files were found");
}

/// Returns the files of `examples/` with this extension.
fn examples(end: &str) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(Path::new(ROOT).join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|found| found == end)).collect();
    assert!(!files.is_empty(), "no example ends in .{end}");
    files
}

#[test]
fn every_example_passes_the_check_without_a_warning() {
    // A copy, as a user makes one: the permissions of this checkout must not matter.
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("jobs.toml");
    for file in examples("toml") {
        fs::write(&copy, fs::read(&file).unwrap()).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_schedctl"));
        let checked = check.args(["check", "--json"]).arg(&copy).output().unwrap();
        let found: serde_json::Value =
            serde_json::from_slice(&checked.stdout).unwrap_or_else(|_| panic!("{checked:?}"));
        assert_eq!(checked.status.code(), Some(0), "{}: {found}", file.display());
        assert_eq!(found["warnings"], serde_json::json!([]), "{}", file.display());
        assert!(found["jobs"].as_u64() >= Some(3), "{found}");
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.starts_with("# ") && text.contains("schedctl check"),
            "{}: its head says nothing",
            file.display()
        );
    }
}

#[test]
fn every_line_of_the_examples_for_add_is_a_job() {
    for file in examples("ndjson") {
        for line in fs::read_to_string(&file).unwrap().lines() {
            let job = job_from_json(line, &Zone::utc())
                .unwrap_or_else(|problems| panic!("{line}: {problems:?}"));
            assert!(job.warnings.is_empty(), "{line}: {:?}", job.warnings);
        }
    }
}

#[test]
fn every_example_is_in_the_table_of_examples() {
    let table = page(Path::new(ROOT).join("examples/README.md"));
    for file in ["toml", "ndjson"].into_iter().flat_map(examples) {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(table.links().contains(&name), "examples/README.md does not link to {name}");
    }
}

#[test]
fn every_link_in_the_docs_leads_somewhere() {
    for from in pages() {
        for link in from.links().into_iter().filter(|link| !link.contains("://")) {
            let (path, place) =
                link.split_once('#').map_or((link, None), |(path, place)| (path, Some(place)));
            let to = if path.is_empty() {
                from.path.clone()
            } else {
                from.path.parent().unwrap().join(path)
            };
            assert!(to.exists(), "{}: no file for the link {link}", from.name());
            if let Some(place) = place {
                let anchors = page(to).anchors();
                assert!(
                    anchors.contains(place),
                    "{}: no heading for the link {link}: {anchors:?}",
                    from.name()
                );
            }
        }
    }
}

#[test]
fn the_readme_is_short_and_links_to_every_page() {
    let readme = readme();
    let count = readme.text.lines().count();
    assert!(count <= README_LINES, "README.md has {count} lines, at most {README_LINES}");
    let links = readme.links();
    for page in pages().iter().skip(1) {
        assert!(
            links.contains(&page.name().as_str()),
            "README.md does not link to {}",
            page.name()
        );
    }
}

#[test]
fn no_line_of_the_docs_is_long_outside_tables_and_blocks() {
    for page in pages() {
        for line in page.prose().filter(|line| !line.starts_with('|')) {
            assert!(
                line.chars().count() <= COLUMNS,
                "{}: more than {COLUMNS} columns: {line}",
                page.name()
            );
        }
    }
}

#[test]
fn every_verb_of_schedctl_in_the_docs_exists() {
    let command = schedd_programs::cli::command();
    let verbs: BTreeSet<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let mut seen = BTreeSet::new();
    for page in pages() {
        let blocks = page.blocks();
        let lines = blocks
            .iter()
            .flat_map(|block| block.text.lines())
            .map(|line| line.trim_start_matches("$ "));
        let quoted = page.prose().flat_map(|line| line.split('`').skip(1).step_by(2));
        for text in lines.chain(quoted) {
            let Some(rest) = text.strip_prefix("schedctl ") else { continue };
            let verb: String =
                rest.chars().take_while(|sign| sign.is_ascii_lowercase() || *sign == '-').collect();
            if verb.is_empty() || verb.starts_with('-') {
                continue;
            }
            assert!(verbs.contains(verb.as_str()), "{}: no verb {verb:?} in {text:?}", page.name());
            seen.insert(verb);
        }
    }
    assert!(seen.len() > 20, "{seen:?}");
}

#[test]
fn every_key_of_a_jobs_file_is_in_the_docs() {
    let docs: String = pages().into_iter().map(|page| page.text).collect();
    let keys = [job_keys(), other_keys()].concat();
    assert!(keys.len() > 120, "only {} keys were found", keys.len());
    for key in keys {
        let is_named = docs.match_indices(key).any(|(at, _)| {
            let is_edge =
                |sign: Option<char>| sign.is_none_or(|sign| !sign.is_alphanumeric() && sign != '_');
            is_edge(docs[..at].chars().next_back())
                && is_edge(docs[at + key.len()..].chars().next())
        });
        assert!(is_named, "the key {key} is on no page of docs/");
    }
}

#[test]
fn the_tables_of_job_keys_hold_each_key_once() {
    let text = page(Path::new(ROOT).join("docs/jobs-toml.md")).text;
    let (_, rest) = text.split_once("## Keys of a job\n").unwrap();
    let (tables, _) = rest.split_once("\n## ").unwrap();
    let first_cells = tables
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').nth(1).unwrap());
    let mut listed: Vec<&str> =
        first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let mut known = job_keys();
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}

#[test]
fn every_key_in_redis_is_in_the_docs() {
    let code =
        fs::read_to_string(Path::new(ROOT).join("crates/store/src/server/redis_keys.rs")).unwrap();
    let (code, _tests) = code.split_once("#[cfg(test)]").unwrap();
    let layout = page(Path::new(ROOT).join("docs/redis-layout.md")).text;
    let (_, shared) = code.split_once("    shared_keys! {\n").unwrap();
    let (shared, rest) = shared.split_once("\n    }\n").unwrap();
    let plain = shared
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'))
        .map(|name| format!("`{name}`"));
    let formatted = rest
        .split("self.named(&format!(\"")
        .skip(1)
        .map(|rest| format!("`{}:", rest.split_once(':').unwrap().0));
    let names: Vec<String> = plain.chain(formatted).collect();
    assert!(names.len() > 60, "{names:?}");
    for name in names {
        assert!(layout.contains(&name), "docs/redis-layout.md does not have the key {name}");
    }
}
