//! The words that CONTRIBUTING.md avoids are in no text of the project, or in no name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that no code, comment, message or page has, alone or as a part of a name.
const NOWHERE: [&str; 16] = [
    "befell", "befallen", "books", "deed", "deeds", "eras", "lest", "ripe", "shunned", "spoilt",
    "strand", "strands", "tidings", "untold", "wish", "wishes",
];

/// Words that are no part of a name in code. In comments and messages they are plain English.
const NO_NAMES: [&str; 14] = [
    "era", "glance", "holdings", "house", "person", "pour", "sight", "tally", "tell", "telling",
    "tells", "tenure", "told", "weather",
];

/// A word that is no name in `src` and `crates`: it means too many things.
const NO_WHOLE_NAME: &str = "held";

/// The calendar has eras, and the kernel tells positions.
const EXCEPTIONS: [(&str, &str); 2] =
    [("crates/schedule/src/time/civil.rs", "era"), ("src/cli/add/progress_bar.rs", "tell")];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text files below a folder, or the file itself.
fn files_below(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| files_below(&path)).collect()
}

/// Returns the files of these folders, each as its path below the root and its text.
fn texts(folders: &[&str]) -> Vec<(String, String)> {
    let files = folders.iter().flat_map(|folder| files_below(&root().join(folder)));
    let texts = files.filter_map(|file| {
        let path = file.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        (path != "tests/suite/avoided_words.rs").then_some(())?;
        Some((path, fs::read_to_string(file).ok()?))
    });
    texts.collect()
}

/// Splits a text into words, and each name into its parts: `RunState` and `run_state` have `run` and `state`.
fn words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for name in text.split(|c: char| !c.is_alphanumeric()) {
        let is_all_capital = !name.chars().any(char::is_lowercase);
        let mut word = String::new();
        for c in name.chars() {
            if c.is_uppercase() && !is_all_capital && !word.is_empty() {
                words.insert(std::mem::take(&mut word));
            }
            word.extend(c.to_lowercase());
        }
        words.insert(word);
    }
    words
}

/// Returns the code of a Rust or Lua text, without comments and without what is in quotes.
fn code_of(path: &str, text: &str) -> String {
    let is_lua = Path::new(path).extension().is_some_and(|extension| extension == "lua");
    let (comment, quotes) = if is_lua { ("--", "'\"") } else { ("//", "\"") };
    let (mut code, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        if rest.starts_with(comment) {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if let Some(raw) =
            rest.strip_prefix("r#\"").filter(|_| !code.ends_with(char::is_alphanumeric))
        {
            rest = raw.split_once("\"#").map_or("", |(_, behind)| behind);
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") && !is_lua {
            rest = &rest[3..];
        } else if quotes.contains(c) {
            let mut is_escaped = false;
            let end = rest[1..].find(|next: char| {
                let is_end = next == c && !is_escaped;
                is_escaped = next == '\\' && !is_escaped;
                is_end
            });
            rest = end.map_or("", |end| &rest[end + 2..]);
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    code
}

fn is_exception(path: &str, word: &str) -> bool {
    EXCEPTIONS.contains(&(path, word))
}

#[test]
fn no_text_has_a_private_or_poetic_word() {
    let mut found = Vec::new();
    for (path, text) in texts(&[
        "src",
        "crates",
        "lua",
        "docs",
        "tests",
        "examples",
        "script",
        "README.md",
        "SECURITY.md",
    ]) {
        let words = words(&text);
        found.extend(
            NOWHERE
                .iter()
                .filter(|word| words.contains(**word))
                .map(|word| format!("{path}: {word}")),
        );
    }
    assert!(found.is_empty(), "CONTRIBUTING.md says what to write instead: {found:#?}");
}

#[test]
fn no_name_has_a_word_that_says_too_little() {
    let mut found = Vec::new();
    for (path, text) in texts(&["src", "crates", "lua", "tests"]) {
        let is_code = [".rs", ".lua"].iter().any(|end| path.ends_with(end));
        if !is_code {
            continue;
        }
        let code = code_of(&path, &text);
        let words = words(&code);
        let bad =
            NO_NAMES.iter().filter(|word| words.contains(**word) && !is_exception(&path, word));
        found.extend(bad.map(|word| format!("{path}: {word}")));
        let is_name = |name: &str| name.eq_ignore_ascii_case(NO_WHOLE_NAME);
        if !path.starts_with("tests")
            && code.split(|c: char| !c.is_alphanumeric() && c != '_').any(is_name)
        {
            found.push(format!("{path}: {NO_WHOLE_NAME}"));
        }
    }
    assert!(found.is_empty(), "CONTRIBUTING.md says what to write instead: {found:#?}");
}

#[test]
fn names_and_comments_are_separated() {
    let rust = "let wide = \"a \\\" tell\"; // told\nlet c = '\"'; fn tell_all<'a>(x: &'a str) { r#\"pour \" \"# }";
    let code = code_of("a.rs", rust);
    assert_eq!(words(&code).intersection(&words("tell told pour")).collect::<Vec<_>>(), ["tell"]);
    assert_eq!(
        words("RunState run_state RUN_STATE").into_iter().collect::<Vec<_>>(),
        ["run", "state"]
    );
}
