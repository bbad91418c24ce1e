//! Conversion of the flags of `add` to a checked job. The flags become keys of `[jobs.X]`, so flags
//! and jobs files are checked by the same rules.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;

use serde_json::{Map, Value, json};

use super::add_flags::AddArgs;
use super::flags::key_flag::{KeyFlag, ValueForm};
use super::flags::key_flags::KEY_FLAGS;
use super::instant::AddBounds;
use crate::cli::failure::CliFailure;
use schedd_core::config;
use schedd_core::config::{MAX_JSON_BYTES, NamedJob, Problem};
use schedd_schedule::time::human_time::Instant;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;

/// Returns the job that the flags describe. `at` contains the instants of `--at`. All problems are
/// reported in one line.
pub(super) fn job_of_flags(
    args: &AddArgs,
    at: &[UnixMillis],
    bounds: &AddBounds,
    host_zone: &Zone,
) -> Result<NamedJob, CliFailure> {
    refuse_flags_alone(args)?;
    let value = keys_of(args, at, bounds)?;
    config::job_from_value(&value, host_zone).map_err(|problems| {
        let line = problems
            .iter()
            .map(|problem| flag_message(args, problem))
            .collect::<Vec<_>>()
            .join("; ");
        // On a terminal, a caret marks the first problem that has a position.
        match problems.into_iter().find_map(|problem| problem.within) {
            Some((text, offset)) => CliFailure::Pointed { line, text, offset },
            None => CliFailure::Invalid(line),
        }
    })
}

/// Fails if a flag is given without the flag that it requires. clap does not check this requirement
/// if another given flag excludes the required flag.
fn refuse_flags_alone(args: &AddArgs) -> Result<(), CliFailure> {
    let needs = |flag: &KeyFlag| match flag.name {
        "method" | "header" | "body" | "expect" => Some(("http", "--http URL")),
        "fold" | "allow-past" => Some(("at", "--at TIME")),
        _ => None,
    };
    let lacking = |(flag, _): (&'static KeyFlag, &Value)| {
        needs(flag).filter(|(other, _)| !args.keys.has(other)).map(|(_, other)| (flag.name, other))
    };
    match args.keys.all().find_map(lacking) {
        Some((flag, other)) => Err(CliFailure::Invalid(format!("--{flag} requires {other}"))),
        None => Ok(()),
    }
}

/// Returns the keys that the flags set as a JSON object, in the form of `[jobs.X]`.
fn keys_of(args: &AddArgs, at: &[UnixMillis], bounds: &AddBounds) -> Result<Value, CliFailure> {
    let mut keys = Map::new();
    for (flag, given) in args.keys.all().filter(|(flag, _)| !flag.key.is_empty()) {
        let instant = |bound: &Option<Instant>| {
            bound.as_ref().map_or(Value::Null, |bound| bound.at.to_string().into())
        };
        let value = match flag.form {
            ValueForm::Times => at.iter().map(ToString::to_string).collect(),
            ValueForm::Time => match flag.name {
                "anchor" => instant(&bounds.anchor),
                "start" => instant(&bounds.start),
                _ => instant(&bounds.end),
            },
            ValueForm::Headers => headers_of(&args.keys.texts(flag.name))?,
            ValueForm::Variables => texts_by_name(flag.name, &args.keys.texts(flag.name))?,
            ValueForm::Content => text_of(flag, given.as_str().unwrap_or_default())?.into(),
            ValueForm::Json => json_of(flag, given.as_str().unwrap_or_default())?,
            ValueForm::Notice => notice_of(flag, given.as_str().unwrap_or_default())?,
            ValueForm::UniqueKey(mode) => {
                put(&mut keys, "unique.mode", mode.into());
                given.clone()
            }
            _ => given.clone(),
        };
        put(&mut keys, flag.key, value);
    }
    Ok(Value::Object(keys))
}

/// Sets the key `path`, such as `every`, or `retry.delay` for a key in a table. A list with a
/// single text is stored as that text, except for the keys `command` and `payload`.
fn put(keys: &mut Map<String, Value>, path: &str, value: Value) {
    if let Some((table, key)) = path.split_once('.') {
        let table = keys.entry(table).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(table) = table {
            table.insert(key.to_owned(), value);
        }
        return;
    }
    let value = match value {
        Value::Array(mut list) if list.len() == 1 && !matches!(path, "command" | "payload") => {
            list.pop().unwrap_or_default()
        }
        value => value,
    };
    keys.insert(path.to_owned(), value);
}

/// Returns the JSON of a notice: an HTTP notice for a URL, a shell notice for any other text. A
/// text that looks like a URL with a missing or wrong scheme is refused.
fn notice_of(flag: &KeyFlag, text: &str) -> Result<Value, CliFailure> {
    let is_url = ["http://", "https://"].iter().any(|scheme| {
        text.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme))
    });
    if is_url {
        return Ok(json!({"http": text}));
    }
    if is_almost_url(text) {
        let name = flag.name;
        return Err(CliFailure::Invalid(format!(
            "--{name}: found {text:?}, which looks like a URL; wanted a URL with http:// or https://, or the path of a program with ./ or /"
        )));
    }
    Ok(json!({"shell": text}))
}

/// Returns true if `text` is a single word that begins with another scheme than HTTP, or with a
/// host name and a path. Users hardly ever mean such a text as a shell line.
fn is_almost_url(text: &str) -> bool {
    if text.trim().contains(char::is_whitespace) {
        return false;
    }
    let Some((head, rest)) = text.trim().split_once('/') else { return false };
    if let Some(scheme) = head.strip_suffix(':') {
        return rest.starts_with('/')
            && !scheme.is_empty()
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
    }
    let host = head.split_once(':').map_or(head, |(host, _)| host);
    let is_label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let ends_as_host =
        |(_, last): (&str, &str)| last.len() > 1 && last.chars().all(|c| c.is_ascii_alphabetic());
    host.split('.').all(is_label) && host.rsplit_once('.').is_some_and(ends_as_host)
}

/// Returns the header fields of the request as a JSON object. Each field is given as `NAME:VALUE`.
fn headers_of(fields: &[&str]) -> Result<Value, CliFailure> {
    let mut headers = Map::new();
    let mut seen = BTreeSet::new();
    for header in fields {
        let Some((name, value)) = header.split_once(':') else {
            return Err(CliFailure::Invalid(format!(
                "--header {header:?} has no colon, wanted NAME:VALUE"
            )));
        };
        let name = name.trim();
        if !seen.insert(name.to_ascii_lowercase()) {
            return Err(CliFailure::Invalid(format!(
                "--header {name} is given twice, wanted once"
            )));
        }
        headers.insert(name.to_owned(), value.trim_matches([' ', '\t']).into());
    }
    Ok(Value::Object(headers))
}

/// Returns the value of a flag: `text` itself, or the content of the file if `text` is `@FILE`.
fn text_of(flag: &KeyFlag, text: &str) -> Result<String, CliFailure> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let refuse = |why: String| CliFailure::Invalid(format!("--{} {text:?} {why}", flag.name));
    let limit = u64::try_from(MAX_JSON_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    read.map_err(|error| refuse(format!("cannot be read: {error}")))?;
    if bytes.len() > MAX_JSON_BYTES {
        return Err(refuse(format!(
            "has more than {MAX_JSON_BYTES} bytes, wanted at most 320 KiB"
        )));
    }
    String::from_utf8(bytes).map_err(|_| refuse("is not UTF-8, wanted text".to_owned()))
}

/// Returns the value of a flag: the JSON in `text`, or in the file if `text` is `@FILE`.
fn json_of(flag: &KeyFlag, text: &str) -> Result<Value, CliFailure> {
    serde_json::from_str(&text_of(flag, text)?).map_err(|error| {
        CliFailure::Invalid(format!(
            "--{}: found text that is no JSON ({error}), wanted a value such as '{{\"to\": \"ann\"}}'",
            flag.name
        ))
    })
}

fn texts_by_name(flag: &str, pairs: &[&str]) -> Result<Value, CliFailure> {
    let mut env = Map::new();
    for pair in pairs {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(CliFailure::Invalid(format!(
                "--{flag} {pair:?} has no =, wanted NAME=VALUE"
            )));
        };
        if env.insert(name.to_owned(), value.into()).is_some() {
            return Err(CliFailure::Invalid(format!(
                "--{flag} {name:?} is given twice, wanted once"
            )));
        }
    }
    Ok(Value::Object(env))
}

/// Returns the message of `problem`, with the name of the flag instead of the key of the
/// definition.
pub(super) fn flag_message(args: &AddArgs, problem: &Problem) -> String {
    let Problem { path, message, .. } = problem;
    if path.is_empty() {
        return message.clone();
    }
    let given = |is_meant: fn(&KeyFlag) -> bool| {
        let flags = args.keys.all().filter(|(flag, _)| is_meant(flag));
        flags.map(|(flag, _)| format!("--{}", flag.name)).collect::<Vec<_>>().join(", ")
    };
    let flag = match path.as_str() {
        "limits" => given(|flag| flag.key.starts_with("limits.")),
        "unique" | "unique.key" | "unique.mode" => {
            given(|flag| matches!(flag.form, ValueForm::UniqueKey(_)))
        }
        path => flag_of(path),
    };
    format!("{flag}: {message}")
}

/// Returns the flag that sets the key at `path`, as text such as `--retry-delay`. If no flag sets
/// the key, the name of the flag is made from the name of the key.
fn flag_of(path: &str) -> String {
    if let Some(variable) = path.strip_prefix("env.") {
        return format!("--env {variable}");
    }
    let is_within = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
    match KEY_FLAGS
        .iter()
        .find(|flag| !flag.key.is_empty() && path.strip_prefix(flag.key).is_some_and(is_within))
    {
        Some(flag) if flag.form == ValueForm::Command => "the command".to_owned(),
        Some(flag) => format!("--{}", flag.name),
        None => format!("--{}", path.split(['.', '[']).next().unwrap_or(path).replace('_', "-")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(name: &str) -> &'static KeyFlag {
        KEY_FLAGS.iter().find(|flag| flag.name == name).unwrap()
    }

    #[test]
    fn what_only_looks_like_a_url_is_no_line_for_the_shell() {
        for text in [
            "htps://typo/x",
            "ftp://h/x",
            "HTTP+X://h",
            "hc-ping.com/uuid",
            "hooks.example.com:8080/a?b=c",
        ] {
            let Err(CliFailure::Invalid(why)) = notice_of(flag("on-failure"), text) else {
                panic!("{text}")
            };
            assert!(
                why.starts_with(&format!("--on-failure: found {text:?}, which looks like a URL")),
                "{why}"
            );
        }
        for text in [
            "./my.sh/x",
            "/usr/bin/mail.sh",
            "bin/tell",
            "mail -s x ops@h.example",
            "tell",
            "../a.b/c",
            "curl ftp://h/x",
            "a=b.cd/e;tell",
        ] {
            assert_eq!(
                notice_of(flag("on-late"), text).ok(),
                Some(json!({"shell": text})),
                "{text}"
            );
        }
        assert_eq!(
            notice_of(flag("on-late"), "HTTPS://h/x").ok(),
            Some(json!({"http": "HTTPS://h/x"}))
        );
    }

    #[test]
    fn a_problem_names_the_flag_it_is_about() {
        let flags = [
            "name",
            "in",
            "retry",
            "retry.limit",
            "retry.delay",
            "retry.on[0]",
            "retry.never_on",
            "dst.gap",
            "dst.fold",
            "done_check.shell",
            "done_check.on",
            "unique.for",
            "catch_up.mode",
            "catch_up.max_age",
            "catch_up.spread",
            "kill_grace",
            "cron[1]",
            "http.url",
            "http.headers.X-A",
            "http.expect[0]",
            "command[2]",
            "env.A",
            "stdin",
            "limits.memory",
            "limits.nice",
        ];
        let found = flags.map(flag_of);
        let wanted = [
            "--name",
            "--in",
            "--retry",
            "--retry",
            "--retry-delay",
            "--retry-on",
            "--retry-never-on",
            "--dst-gap",
            "--dst-fold",
            "--done-check",
            "--done-check-on",
            "--unique-for",
            "--catch-up",
            "--max-age",
            "--spread",
            "--kill-grace",
            "--cron",
            "--http",
            "--header",
            "--expect",
            "the command",
            "--env A",
            "--stdin-text",
            "--limit-memory",
            "--nice",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn pairs_are_taken_apart_once_and_only_once() {
        assert_eq!(texts_by_name("env", &["A=b=c", "B="]).unwrap(), json!({"A": "b=c", "B": ""}));
        for bad in [vec!["A"], vec!["A=1", "A=2"]] {
            assert_eq!(texts_by_name("env", &bad).unwrap_err().code(), 2, "{bad:?}");
        }
    }
}
