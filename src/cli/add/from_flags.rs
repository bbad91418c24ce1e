//! Conversion of the flags of `add` to a checked job. The flags become keys of `[jobs.X]` and are
//! checked by the same rules as those keys.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;

use serde_json::{Map, Value, json};

use super::add_flags::AddArgs;
use super::instant::AddBounds;
use crate::cli::failure::CliFailure;
use crate::config::{self, MAX_JSON_BYTES, NamedJob, Problem};
use crate::domain::time::human_time::Instant;
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::zone::Zone;

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
        let line = problems.iter().map(|problem| told(args, problem)).collect::<Vec<_>>().join("; ");
        // The caret marks the first problem that has a position.
        match problems.into_iter().find_map(|problem| problem.within) {
            Some((text, offset)) => CliFailure::Pointed { line, text, offset },
            None => CliFailure::Invalid(line),
        }
    })
}

/// Refuses flags whose required flag is missing. clap does not require a flag that another given
/// flag excludes.
fn refuse_flags_alone(args: &AddArgs) -> Result<(), CliFailure> {
    let (has_request, has_time) = (args.http.is_some(), !args.at.is_empty());
    let given = [
        ("--method", args.method.is_some(), has_request, "--http URL"),
        ("--header", !args.header.is_empty(), has_request, "--http URL"),
        ("--body", args.body.is_some(), has_request, "--http URL"),
        ("--expect", !args.expect.is_empty(), has_request, "--http URL"),
        ("--fold", args.fold.is_some(), has_time, "--at TIME"),
        ("--allow-past", args.allow_past, has_time, "--at TIME"),
    ];
    match given.into_iter().find(|(_, is_given, has_other, _)| *is_given && !has_other) {
        Some((flag, _, _, other)) => Err(CliFailure::Invalid(format!("{flag} requires {other}"))),
        None => Ok(()),
    }
}

fn keys_of(args: &AddArgs, at: &[UnixMillis], bounds: &AddBounds) -> Result<Value, CliFailure> {
    let mut keys = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            keys.insert(key.to_owned(), value);
        }
    };
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    put("name", text(&args.name));
    put("in", text(&args.start_in));
    put("at", list_of(at.iter().map(ToString::to_string)));
    put("cron", list_of(args.cron.iter().cloned()));
    put("calendar", list_of(args.calendar.iter().cloned()));
    put("rrule", list_of(args.rrule.iter().cloned()));
    put("dtstart", text(&args.dtstart));
    let instant = |bound: &Option<Instant>| bound.as_ref().map(|bound| Value::from(bound.at.to_string()));
    put("anchor", instant(&bounds.anchor));
    put("start", instant(&bounds.start));
    put("end", instant(&bounds.end));
    put("max_runs", args.max_runs.map(Value::from));
    put("jitter", text(&args.jitter));
    put("splay", text(&args.splay));
    put("exclude", list_of(args.exclude.iter().cloned()));
    put("only_on", list_of(args.only_on.iter().cloned()));
    put("skip_if_late", text(&args.skip_if_late));
    put("every", text(&args.every));
    put("delay", text(&args.delay));
    put("tz", text(&args.tz));
    put("dst", clock_changes_of(args));
    put("command", (!args.command.is_empty()).then(|| json!(args.command)));
    put("shell", text(&args.shell));
    put("http", args.http.as_deref().map(|url| http_of(args, url)).transpose()?);
    put("env", (!args.env.is_empty()).then(|| env_of(&args.env)).transpose()?);
    put("env_file", list_of(args.env_file.iter().cloned()));
    put("log_output", args.log_output.then(|| true.into()));
    put("cwd", text(&args.cwd));
    put("user", text(&args.user));
    put("limits", limits_of(args));
    put("umask", text(&args.umask));
    put("stdin", args.stdin_text.as_deref().map(|text| text_of("--stdin-text", text)).transpose()?.map(Value::from));
    put("shell_program", text(&args.shell_program));
    put("queue", text(&args.queue));
    put("priority", args.priority.map(Value::from));
    put("requires", (!args.requires.is_empty()).then(|| json!(args.requires)));
    put("group", text(&args.group));
    put("key", text(&args.key));
    put("per_key", per_key_of(args));
    put("not_while", (!args.not_while.is_empty()).then(|| json!(args.not_while)));
    put("timeout", text(&args.timeout));
    put("kill_grace", text(&args.kill_grace));
    put("retry", args.retry.map(|limit| retry_of(args, limit)));
    put("overlap", text(&args.overlap));
    put("catch_up", catch_up_of(args));
    put("delivery", text(&args.delivery));
    put("done_check", args.done_check.as_deref().map(|line| done_check_of(args, line)));
    put("unique", unique_of(args));
    for (key, told) in [
        ("on_failure", &args.on_failure),
        ("on_success", &args.on_success),
        ("on_late", &args.on_late),
        ("on_recovered", &args.on_recovered),
    ] {
        put(key, told.as_deref().map(|text| notice_of(key, text)).transpose()?);
    }
    put("must_start_within", text(&args.must_start_within));
    put("must_finish_within", text(&args.must_finish_within));
    put("ping_url", text(&args.ping_url));
    put("webhook_secret", list_of(args.webhook_secret.iter().cloned()));
    Ok(Value::Object(keys))
}

/// Returns the JSON of a list flag: a string for a single text, a list for several, `None` without
/// texts.
fn list_of(texts: impl Iterator<Item = String>) -> Option<Value> {
    let texts: Vec<String> = texts.collect();
    match texts.as_slice() {
        [] => None,
        [one] => Some(one.as_str().into()),
        many => Some(json!(many)),
    }
}

fn clock_changes_of(args: &AddArgs) -> Option<Value> {
    let is_given = args.dst_gap.is_some() || args.dst_fold.is_some();
    is_given.then(|| without_nulls(json!({"gap": args.dst_gap, "fold": args.dst_fold})))
}

fn retry_of(args: &AddArgs, limit: i64) -> Value {
    let codes = |codes: &[u16]| (!codes.is_empty()).then(|| json!(codes));
    let (on, never_on) = (codes(&args.retry_on), codes(&args.retry_never_on));
    let waits = json!({"limit": limit, "delay": args.retry_delay, "backoff": args.retry_backoff, "on": on, "never_on": never_on});
    without_nulls(waits)
}

/// Returns the JSON for `per_key`: a number if no rate is given, otherwise a table.
fn per_key_of(args: &AddArgs) -> Option<Value> {
    let table = || without_nulls(json!({"limit": args.per_key, "rate": args.per_key_rate, "burst": args.per_key_burst}));
    match (args.per_key, &args.per_key_rate, args.per_key_burst) {
        (limit, None, None) => limit.map(Value::from),
        _ => Some(table()),
    }
}

/// Returns the given flags that make up `limits`, as a list in words.
fn limit_flags(args: &AddArgs) -> String {
    let given = [
        ("--limit-memory", args.limit_memory.is_some()),
        ("--limit-cpu", args.limit_cpu.is_some()),
        ("--limit-pids", args.limit_pids.is_some()),
        ("--limit-files", args.limit_files.is_some()),
        ("--nice", args.nice.is_some()),
    ];
    given.into_iter().filter_map(|(flag, is_given)| is_given.then_some(flag)).collect::<Vec<_>>().join(", ")
}

fn limits_of(args: &AddArgs) -> Option<Value> {
    let limits = without_nulls(json!({
        "memory": args.limit_memory,
        "cpu": args.limit_cpu,
        "pids": args.limit_pids,
        "files": args.limit_files,
        "nice": args.nice,
    }));
    limits.as_object().is_some_and(|limits| !limits.is_empty()).then_some(limits)
}

fn done_check_of(args: &AddArgs, line: &str) -> Value {
    without_nulls(json!({"shell": line, "on": args.done_check_on}))
}

/// Returns the JSON of a notice: an HTTP notice for a URL, a shell notice for any other text. A
/// text that is almost a URL is refused.
fn notice_of(key: &str, text: &str) -> Result<Value, CliFailure> {
    let is_url = ["http://", "https://"]
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme)));
    if is_url {
        return Ok(json!({"http": text}));
    }
    if is_almost_url(text) {
        let flag = key.replace('_', "-");
        return Err(CliFailure::Invalid(format!(
            "--{flag}: found {text:?}, which looks like a URL, wanted http:// or https:// before a URL, and ./ or / before the path of a program"
        )));
    }
    Ok(json!({"shell": text}))
}

/// Returns true for a single word that begins with a scheme other than HTTP, or with a host name
/// and a path. Such a word is no shell line.
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
    let is_label = |label: &str| !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let ends_as_host = |(_, last): (&str, &str)| last.len() > 1 && last.chars().all(|c| c.is_ascii_alphabetic());
    host.split('.').all(is_label) && host.rsplit_once('.').is_some_and(ends_as_host)
}

/// Returns the flag that gave a unique key, the mode of the key, and the key.
fn given_key(args: &AddArgs) -> Option<(&'static str, &'static str, &str)> {
    let flags = [
        ("--unique", "refuse", &args.unique),
        ("--debounce", "debounce", &args.debounce),
        ("--throttle", "throttle", &args.throttle),
    ];
    flags.into_iter().find_map(|(flag, mode, key)| Some((flag, mode, key.as_deref()?)))
}

fn unique_of(args: &AddArgs) -> Option<Value> {
    let (_, mode, key) = given_key(args)?;
    Some(without_nulls(json!({"key": key, "mode": mode, "for": args.unique_for, "max_wait": args.max_wait})))
}

fn catch_up_of(args: &AddArgs) -> Option<Value> {
    let is_given = args.catch_up.is_some() || args.max_age.is_some() || args.spread.is_some();
    is_given.then(|| without_nulls(json!({"mode": args.catch_up, "max_age": args.max_age, "spread": args.spread})))
}

fn http_of(args: &AddArgs, url: &str) -> Result<Value, CliFailure> {
    let mut headers = Map::new();
    let mut seen = BTreeSet::new();
    for header in &args.header {
        let Some((name, value)) = header.split_once(':') else {
            return Err(CliFailure::Invalid(format!("--header {header:?} has no colon, wanted NAME:VALUE")));
        };
        let name = name.trim();
        if !seen.insert(name.to_ascii_lowercase()) {
            return Err(CliFailure::Invalid(format!("--header {name} is given twice, wanted once")));
        }
        headers.insert(name.to_owned(), value.trim_matches([' ', '\t']).into());
    }
    let headers = (!headers.is_empty()).then_some(headers);
    let expect = (!args.expect.is_empty()).then_some(&args.expect);
    let body = args.body.as_deref().map(|text| text_of("--body", text)).transpose()?;
    Ok(without_nulls(json!({"url": url, "method": args.method, "headers": headers, "body": body, "expect": expect})))
}

/// Returns the value of a flag: `text` itself, or the content of the file if `text` is `@FILE`.
fn text_of(flag: &str, text: &str) -> Result<String, CliFailure> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let refuse = |why: String| CliFailure::Invalid(format!("{flag} {text:?} {why}"));
    let limit = u64::try_from(MAX_JSON_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    read.map_err(|error| refuse(format!("cannot be read: {error}")))?;
    if bytes.len() > MAX_JSON_BYTES {
        return Err(refuse(format!("has more than {MAX_JSON_BYTES} bytes, wanted at most 256 KiB")));
    }
    String::from_utf8(bytes).map_err(|_| refuse("is not UTF-8, wanted text".to_owned()))
}

fn env_of(pairs: &[String]) -> Result<Value, CliFailure> {
    let mut env = Map::new();
    for pair in pairs {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(CliFailure::Invalid(format!("--env {pair:?} has no =, wanted NAME=VALUE")));
        };
        if env.insert(name.to_owned(), value.into()).is_some() {
            return Err(CliFailure::Invalid(format!("--env {name:?} is given twice, wanted once")));
        }
    }
    Ok(Value::Object(env))
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(map.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}

/// Returns the message of a problem, in which the flag replaces the key of the definition.
pub(super) fn told(args: &AddArgs, problem: &Problem) -> String {
    if problem.path.is_empty() {
        return problem.message.clone();
    }
    if problem.path == "limits" {
        return format!("{}: {}", limit_flags(args), problem.message);
    }
    if let ("unique" | "unique.key" | "unique.mode", Some((flag, ..))) = (problem.path.as_str(), given_key(args)) {
        return format!("{flag}: {}", problem.message);
    }
    format!("{}: {}", flag_of(&problem.path), problem.message)
}

fn flag_of(path: &str) -> String {
    let first = path.split(['.', '[']).next().unwrap_or(path);
    match path {
        "retry.delay" => return "--retry-delay".to_owned(),
        "retry.backoff" => return "--retry-backoff".to_owned(),
        "dst.gap" => return "--dst-gap".to_owned(),
        "dst.fold" => return "--dst-fold".to_owned(),
        "unique.for" => return "--unique-for".to_owned(),
        "unique.max_wait" => return "--max-wait".to_owned(),
        "per_key.rate" => return "--per-key-rate".to_owned(),
        "per_key.burst" => return "--per-key-burst".to_owned(),
        "done_check.on" => return "--done-check-on".to_owned(),
        "catch_up.max_age" => return "--max-age".to_owned(),
        "catch_up.spread" => return "--spread".to_owned(),
        "http.method" => return "--method".to_owned(),
        "http.body" => return "--body".to_owned(),
        "stdin" => return "--stdin-text".to_owned(),
        "limits.nice" => return "--nice".to_owned(),
        _ => {}
    }
    match first {
        "http" if path.starts_with("http.headers") => "--header".to_owned(),
        "http" if path.starts_with("http.expect") => "--expect".to_owned(),
        "retry" if path.starts_with("retry.on") => "--retry-on".to_owned(),
        "retry" if path.starts_with("retry.never_on") => "--retry-never-on".to_owned(),
        "command" => "the command".to_owned(),
        "env" => path.replacen("env.", "--env ", 1),
        "limits" => path.replacen("limits.", "--limit-", 1),
        first => format!("--{}", first.replace('_', "-")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_looks_like_a_url_is_no_line_for_the_shell() {
        for text in ["htps://typo/x", "ftp://h/x", "HTTP+X://h", "hc-ping.com/uuid", "hooks.example.com:8080/a?b=c"] {
            let Err(CliFailure::Invalid(why)) = notice_of("on_failure", text) else { panic!("{text}") };
            assert!(why.starts_with(&format!("--on-failure: found {text:?}, which looks like a URL")), "{why}");
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
            assert_eq!(notice_of("on_late", text).ok(), Some(json!({"shell": text})), "{text}");
        }
        assert_eq!(notice_of("on_late", "HTTPS://h/x").ok(), Some(json!({"http": "HTTPS://h/x"})));
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
        let told = flags.map(flag_of);
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
        assert_eq!(told, wanted);
    }

    #[test]
    fn pairs_are_taken_apart_once_and_only_once() {
        assert_eq!(env_of(&["A=b=c".to_owned(), "B=".to_owned()]).unwrap(), json!({"A": "b=c", "B": ""}));
        for bad in [vec!["A".to_owned()], vec!["A=1".to_owned(), "A=2".to_owned()]] {
            assert_eq!(env_of(&bad).unwrap_err().code(), 2, "{bad:?}");
        }
    }
}
