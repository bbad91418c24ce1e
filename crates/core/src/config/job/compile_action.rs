//! The compiler of a job's action: exactly one of `command`, `shell`, `http` and `handler`, within
//! the kernel's limits for a process.

use std::collections::BTreeMap;

use serde_json::Value;

use super::compile_http::{compile_http, default_method, write_http};
use crate::config::key::json_sheet::Sheet;
use crate::config::key::origin::Reading;
use crate::config::syntax::problem::{Problems, key_text, one_of};
use crate::config::syntax::reader::{Spot, TableReader};
use crate::config::syntax::typos::Slips;
use crate::domain::job::job_spec::{Action, HandlerCall};
use schedd_schedule::names::HandlerName;

/// The keys of an action that a node carries out.
pub(crate) const ACTION: &[&str] = &["command", "shell", "http"];
/// The keys of a job's action.
pub(crate) const JOB_ACTION: &[&str] = &["command", "shell", "http", HANDLER, PAYLOAD];
/// The key of the work of a worker, and the key of its input.
const HANDLER: &str = "handler";
const PAYLOAD: &str = "payload";
/// The maximum size of a payload as JSON, in bytes.
const MAX_PAYLOAD_BYTES: usize = 256 * 1024;

/// The maximum length of a single argument or variable in bytes, with the NUL at its end. This is
/// the kernel's limit `MAX_ARG_STRLEN` of 32 pages (execve(2)).
const MAX_WORD_BYTES: usize = 128 * 1024;
/// The maximum size of all arguments and variables together, in bytes.
const MAX_WORDS_BYTES: usize = 1024 * 1024;

/// Compiles the action of a job's table. `slips` are the table's unknown keys. A missing action is
/// not reported if an unknown key was probably meant as the action.
pub(crate) fn compile_job_action(
    table: &TableReader<'_>,
    slips: &Slips,
    reading: &mut Reading<'_>,
) -> Option<Action> {
    if let Some(payload) = table.get(PAYLOAD).filter(|_| table.get(HANDLER).is_none()) {
        payload.fault(
            reading.problems,
            "found payload without handler: only the work of a worker has a payload; add handler = \"NAME\"",
        );
    }
    compile_one_of(&["command", "shell", "http", HANDLER], table, slips, reading)
}

/// Compiles the action of a notice or of a `done_check`, which a node carries out.
pub(crate) fn compile_action(
    table: &TableReader<'_>,
    slips: &Slips,
    reading: &mut Reading<'_>,
) -> Option<Action> {
    compile_one_of(ACTION, table, slips, reading)
}

/// Compiles the action of which exactly one of `keys` is the key.
fn compile_one_of(
    keys: &[&'static str],
    table: &TableReader<'_>,
    slips: &Slips,
    reading: &mut Reading<'_>,
) -> Option<Action> {
    let given: Vec<(&str, Spot<'_>)> =
        keys.iter().filter_map(|key| Some((*key, table.get(key)?))).collect();
    match given.as_slice() {
        [] if !slips.may_be(keys) => {
            let message = format!("found no action, wanted exactly one of {}", one_of(keys));
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
            HANDLER => compile_handler(spot, table.get(PAYLOAD).as_ref(), reading.problems),
            _ => compile_http(spot, reading).map(Action::Http),
        };
    }
    action
}

/// Writes `action` into `out`, under the keys of [`JOB_ACTION`]. `unnamed` returns the default method of
/// a request with a given body. A default method is not written.
pub(crate) fn write_action(action: &Action, unnamed: fn(&str) -> &'static str, out: &mut Sheet) {
    match action {
        Action::Command(words) => out.put("command", words.clone()),
        Action::Shell(line) => out.put("shell", line.as_str()),
        Action::Http(request) => out.put("http", write_http(request, unnamed(&request.body))),
        Action::Handler(call) => {
            out.put(HANDLER, call.handler.as_str());
            let payload: Value = serde_json::from_str(&call.payload).unwrap_or_default();
            if payload != Value::Null {
                out.put(PAYLOAD, payload);
            }
        }
    }
}

/// Writes the action of a job or of a `done_check` into `out`, under the keys of [`JOB_ACTION`].
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

/// Compiles the work of a worker. Without `payload` the input of the work is null.
fn compile_handler(
    spot: &Spot<'_>,
    payload: Option<&Spot<'_>>,
    problems: &mut Problems,
) -> Option<Action> {
    let handler: Option<HandlerName> = spot.parsed("send-mail", problems);
    let text = payload.map_or_else(|| "null".to_owned(), Spot::json_text);
    if let Some(payload) = payload.filter(|_| text.len() > MAX_PAYLOAD_BYTES) {
        let message = format!(
            "found {} bytes of JSON, wanted at most {MAX_PAYLOAD_BYTES} (256 KiB): store more \
             data elsewhere, and name its place in the payload",
            text.len()
        );
        payload.fault(problems, message);
        return None;
    }
    Some(Action::Handler(HandlerCall { handler: handler?, payload: text }))
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
        Action::Http(_) | Action::Handler(_) => return,
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
