//! The Lua code that scripts share: each script is loaded with the parts that it uses.
//!
//! Redis executes the whole text of a script in each call, so a part without a use would cost each
//! call time.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The files with the Lua code that scripts share. [`parts_of`] splits each file into parts, one
/// part for each definition. A part may use only parts before it, in the same file or in an earlier
/// file. The reason is that Lua knows a local name only after its definition.
const FILES: [&str; 7] = [
    include_str!("../../../../lua/shared/prelude.lua"),
    include_str!("../../../../lua/shared/lanes.lua"),
    include_str!("../../../../lua/shared/job_records.lua"),
    include_str!("../../../../lua/shared/run_ends.lua"),
    include_str!("../../../../lua/shared/job_runs.lua"),
    include_str!("../../../../lua/shared/gates.lua"),
    include_str!("../../../../lua/shared/ledger.lua"),
];

pub(super) static PARTS: LazyLock<Vec<LuaPart>> =
    LazyLock::new(|| FILES.iter().flat_map(|file| parts_of(file)).collect());

/// A definition in a shared file: functions or values that the file makes local.
pub(super) struct LuaPart {
    pub(super) text: String,
    pub(super) names: Vec<&'static str>,
    words: BTreeSet<&'static str>,
}

/// Returns the shared code that the script `body` uses, directly or through other shared code.
pub(super) fn used_by(body: &str) -> String {
    let mut words: BTreeSet<&str> = code_of(body).flat_map(words_of).collect();
    let mut used: Vec<&str> = Vec::new();
    for part in PARTS.iter().rev() {
        if part.names.iter().any(|name| words.contains(name)) {
            words.extend(&part.words);
            used.push(&part.text);
        }
    }
    used.reverse();
    used.concat()
}

/// Splits a shared file at the lines that begin a definition.
fn parts_of(file: &'static str) -> Vec<LuaPart> {
    let mut parts: Vec<LuaPart> = Vec::new();
    for line in code_of(file) {
        if let Some(defined) = line.strip_prefix("local ") {
            let names = match defined.strip_prefix("function ") {
                Some(function) => words_of(function).take(1).collect(),
                None => words_of(defined.split('=').next().unwrap_or_default()).collect(),
            };
            parts.push(LuaPart { text: String::new(), names, words: BTreeSet::new() });
        }
        if let Some(part) = parts.last_mut() {
            part.text.push_str(line);
            part.text.push('\n');
            part.words.extend(words_of(line));
        }
    }
    parts
}

/// Returns the lines that are neither empty nor a comment.
fn code_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.trim_start().starts_with("--"))
}

fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_gets_what_it_uses_and_what_that_uses_in_the_order_of_the_files() {
        let code = used_by("-- leave_queue(k, id)\nlocal ready = int(1)\nunwatch_behind(k, id)");
        assert!(code.starts_with("local function int(number)"), "{code}");
        let (first, second) = (code.find("local function unwatch("), code.find("unwatch_behind"));
        assert!(first.is_some() && first < second, "{code}");
        assert!(!code.contains("leave_queue") && !code.contains("wrong_type"), "{code}");
    }
}
