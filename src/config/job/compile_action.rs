//! The compiler of a job's action: exactly one of `command`, `shell` and `http`, within the
//! kernel's limits for a process.

use std::collections::BTreeMap;

use super::compile_http::{compile_http, default_method, write_http};
use crate::config::key::json_sheet::Sheet;
use crate::config::key::origin::Reading;
use crate::config::syntax::problem::{Problems, key_text, one_of};
use crate::config::syntax::reader::{Spot, TableReader};
use crate::config::syntax::typos::Slips;
use crate::domain::job::job_spec::Action;

/// The keys of an action.
pub(crate) const ACTION: &[&str] = &["command", "shell", "http"];

/// The maximum length of a single argument or variable in bytes, with the NUL at its end. This is
/// the kernel's limit `MAX_ARG_STRLEN` of 32 pages (execve(2)).
const MAX_WORD_BYTES: usize = 128 * 1024;
/// The maximum size of all arguments and variables together, in bytes.
const MAX_WORDS_BYTES: usize = 1024 * 1024;

/// Compiles the action of a job's table. `slips` are the table's unknown keys. A missing action is
/// not reported if an unknown key was probably meant as the action.
pub(crate) fn compile_action(
    table: &TableReader<'_>,
    slips: &Slips,
    reading: &mut Reading<'_>,
) -> Option<Action> {
    let given: Vec<(&str, Spot<'_>)> =
        ACTION.iter().filter_map(|key| Some((*key, table.get(key)?))).collect();
    match given.as_slice() {
        [] if !slips.may_be(ACTION) => {
            let message = format!("found no action, wanted exactly one of {}", one_of(ACTION));
            reading.problems.fault(&table.path, table.span.clone(), message);
        }
        [] | [_] => {}
        [_, (_, second), ..] => {
            let found: Vec<&str> = given.iter().map(|(key, _)| *key).collect();
            second.fault(
                reading.problems,
                format!("found {} together, wanted exactly one action", found.join(" and ")),
            );
        }
    }
    let mut action = None;
    for (key, spot) in &given {
        action = match *key {
            "command" => compile_command(spot, reading.problems).map(Action::Command),
            "shell" => compile_shell(spot, reading.problems).map(Action::Shell),
            _ => compile_http(spot, reading).map(Action::Http),
        };
    }
    action
}

/// Writes `action` into `out`, under the key `command`, `shell` or `http`. `unnamed` returns the
/// default method of a request with a given body. A default method is not written.
pub(crate) fn write_action(action: &Action, unnamed: fn(&str) -> &'static str, out: &mut Sheet) {
    match action {
        Action::Command(words) => out.put("command", words.clone()),
        Action::Shell(line) => out.put("shell", line.as_str()),
        Action::Http(request) => out.put("http", write_http(request, unnamed(&request.body))),
    }
}

/// Writes the action of a job or of a `done_check` into `out`, under the key `command`, `shell` or
/// `http`.
pub(crate) fn write_own_action(action: &Action, out: &mut Sheet) {
    write_action(action, default_method, out);
}

fn compile_command(spot: &Spot<'_>, problems: &mut Problems) -> Option<Vec<String>> {
    let Some(items) = spot.as_items() else {
        let wanted = "a list of words such as [\"/bin/echo\", \"hello\"] (the key shell takes a line for the shell)";
        return spot.wanted(problems, wanted);
    };
    let words: Vec<Option<String>> =
        items.map(|item| item.text("hello", problems).map(str::to_owned)).collect();
    let words: Vec<String> = words.into_iter().collect::<Option<_>>()?;
    match words.first() {
        Some(program) if !program.trim().is_empty() => Some(words),
        Some(blank) => {
            spot.fault(problems, format!("found {blank:?} as the first word, wanted a program"));
            None
        }
        None => {
            spot.fault(problems, "found an empty list, wanted at least the program to run");
            None
        }
    }
}

fn compile_shell(spot: &Spot<'_>, problems: &mut Problems) -> Option<String> {
    let line = spot.text("echo hello", problems)?;
    if line.trim().is_empty() {
        spot.wanted(problems, "a line for /bin/sh")
    } else {
        Some(line.to_owned())
    }
}

/// Notes a fault for each argument and variable that the kernel would refuse as too large.
/// Otherwise every attempt would fail.
pub(crate) fn refuse_oversize(
    table: &TableReader<'_>,
    action: &Action,
    env: &BTreeMap<String, String>,
    problems: &mut Problems,
) {
    let word = |path: String, bytes: usize| (path, bytes + 1);
    let arguments: Vec<(String, usize)> = match action {
        Action::Command(words) => words
            .iter()
            .enumerate()
            .map(|(index, text)| word(format!("command[{index}]"), text.len()))
            .collect(),
        Action::Shell(line) => vec![word("shell".to_owned(), line.len())],
        Action::Http(_) => return,
    };
    let variables = env
        .iter()
        .map(|(name, value)| word(format!("env.{}", key_text(name)), name.len() + 1 + value.len()));
    let mut total = 0;
    for (path, bytes) in arguments.into_iter().chain(variables) {
        total += bytes;
        if bytes > MAX_WORD_BYTES {
            let key = path.split(['.', '[']).next().unwrap_or_default();
            let span = table.get(key).map_or_else(|| table.span.clone(), |spot| spot.span());
            let path = if table.path.is_empty() { path } else { format!("{}.{path}", table.path) };
            let message = format!(
                "found {bytes} bytes, wanted at most {MAX_WORD_BYTES} (128 KiB, the kernel's limit for one argument or variable)"
            );
            problems.fault(&path, span, message);
        }
    }
    if total > MAX_WORDS_BYTES {
        let message = format!(
            "found {total} bytes of arguments and env together, wanted at most {MAX_WORDS_BYTES} (1 MiB)"
        );
        problems.fault(&table.path, table.span.clone(), message);
    }
}
