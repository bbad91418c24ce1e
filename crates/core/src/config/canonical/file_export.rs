//! The writer of jobs, queues and groups as the text of a `jobs.toml`.
//!
//! Invariant: [`crate::config::compile_text`] reads the written text as the same definitions. Keys
//! that no file may have are mentioned in a comment instead.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value};

use super::canonical_job::to_canonical;
use crate::domain::job::job_spec::JobSpec;
use crate::domain::queue::backlog::BacklogRules;
use crate::domain::queue::group_rules::{GroupSettings, TurnRules};
use crate::domain::queue::queue_rules::{QueueSettings, Share};
use schedd_schedule::names::{GroupName, JobName, QueueName};
use schedd_schedule::time::duration::format_duration;
use schedd_schedule::time::zone::ZoneName;

/// The keys that come first in a written table, in this order. All other keys follow in the order
/// of their names.
const FIRST: [&str; 25] = [
    "cron",
    "calendar",
    "rrule",
    "dtstart",
    "every",
    "delay",
    "at",
    "schedules",
    "after",
    "after_any",
    "after_failed",
    "after_finished",
    "anchor",
    "start",
    "end",
    "max_runs",
    "only_on",
    "exclude",
    "tz",
    "dst",
    "command",
    "shell",
    "http",
    "handler",
    "payload",
];

/// The form in which a job's table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableForm {
    /// The job is written as a table, which schedd reads.
    Table,
    /// The job is written as a comment that begins with this reason.
    Comment(&'static str),
}

/// Returns the keys and values of `[jobs.X]` for `spec`, without the keys that only an added job
/// may have.
///
/// `kept_zone` is the zone that Redis stores with the job. It is written as `tz` if the job depends
/// on a zone and names no zone.
pub fn file_keys(spec: &JobSpec, kept_zone: &ZoneName) -> Map<String, Value> {
    let mut spec = spec.clone();
    (spec.unique, spec.traceparent) = (None, None);
    let has_days = !spec.shape.exclude.is_empty() || spec.shape.only_on.is_some();
    if spec.tz.is_none() && (spec.schedule.goes_by_clocks() || has_days) {
        spec.tz = Some(kept_zone.clone());
    }
    match serde_json::from_str(&to_canonical(&spec)) {
        Ok(Value::Object(keys)) => keys,
        _ => Map::new(),
    }
}

/// Returns true if the payload of `spec` contains null. TOML has no null, so no table can hold the
/// payload.
pub fn has_null(spec: &JobSpec) -> bool {
    fn contains_null(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(items) => items.iter().any(contains_null),
            Value::Object(keys) => keys.values().any(contains_null),
            _ => false,
        }
    }
    serde_json::from_str(&to_canonical(spec)).is_ok_and(|value: Value| contains_null(&value))
}

/// Returns the text of the table `[jobs.NAME]` with the keys and values of `spec`. `kept_zone` is
/// the zone that Redis stores with the job.
pub fn job_table(name: &JobName, spec: &JobSpec, kept_zone: &ZoneName, form: TableForm) -> String {
    let mut text = table("jobs", name.as_str(), &file_keys(spec, kept_zone));
    if let Some(unique) = &spec.unique {
        // A jobs file cannot have a unique key, so the key is written as a comment.
        let _ = writeln!(
            text,
            "# unique key {}: a jobs file cannot have a unique key",
            toml_string(unique.key.as_str())
        );
    }
    if let Some(traceparent) = &spec.traceparent {
        let _ =
            writeln!(text, "# traceparent {traceparent}: a jobs file cannot have a traceparent");
    }
    match form {
        TableForm::Table => text,
        TableForm::Comment(reason) => {
            let lines = text.lines().map(|line| format!("# {line}\n")).collect::<Vec<_>>().concat();
            format!("# {reason}\n{lines}")
        }
    }
}

/// Returns the text of the table `[queues.NAME]` with the keys and values of `settings`.
pub fn queue_table(name: &QueueName, settings: &QueueSettings) -> String {
    table("queues", name.as_str(), &queue_keys(settings))
}

/// Returns the keys and values of `[queues.X]` for `settings`.
pub fn queue_keys(settings: &QueueSettings) -> Map<String, Value> {
    let QueueSettings { concurrency, limit, rate, share, is_paused, backlog, is_spread } = settings;
    let mut keys = Map::from_iter([("concurrency".to_owned(), (*concurrency).into())]);
    let mut put = |key: &str, value: Value| keys.insert(key.to_owned(), value);
    if let Some(limit) = limit {
        put("limit", (*limit).into());
    }
    if let Some(rate) = rate {
        put("rate", rate.to_string().into());
        if rate.burst() != rate.count() {
            put("burst", rate.burst().into());
        }
    }
    match share {
        Share::Strict => put("strict", true.into()),
        Share::Weight(1) => None,
        Share::Weight(weight) => put("weight", (*weight).into()),
    };
    if *is_paused {
        put("paused", true.into());
    }
    if *is_spread {
        put("spread", true.into());
    }
    keys.extend(backlog_keys(backlog));
    keys
}

/// Returns the keys of `[queues.X]` about the backlog of a queue, each with its value.
pub(crate) fn backlog_keys(backlog: &BacklogRules) -> Map<String, Value> {
    let BacklogRules { depth, oldest, job } = backlog;
    let keys = [
        ("warn_depth", depth.map(Value::from)),
        ("warn_oldest", oldest.map(|oldest| format_duration(oldest).into())),
        ("on_backlog", job.as_ref().map(|job| job.as_str().into())),
    ];
    keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Returns the text of the table `[groups.NAME]` with the keys and values of `settings`.
pub fn group_table(name: &GroupName, settings: &GroupSettings) -> String {
    table("groups", name.as_str(), &group_keys(settings))
}

/// Returns the keys and values of `[groups.X]` for `settings`.
pub fn group_keys(settings: &GroupSettings) -> Map<String, Value> {
    let mut keys = Map::from_iter([("mode".to_owned(), settings.mode().into())]);
    if let GroupSettings::Alternate(TurnRules { order, gap, turn_timeout }) = settings {
        let time = |time: &Duration| Value::from(format_duration(*time));
        keys.insert(
            "order".to_owned(),
            order.iter().map(JobName::as_str).collect::<Vec<_>>().into(),
        );
        keys.insert("gap".to_owned(), time(gap));
        keys.insert("turn_timeout".to_owned(), time(turn_timeout));
    }
    keys
}

fn table(section: &str, name: &str, keys: &Map<String, Value>) -> String {
    let place = |key: &str| FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len());
    let mut sorted: Vec<(&String, &Value)> = keys.iter().collect();
    sorted.sort_by(|(left, _), (right, _)| {
        place(left).cmp(&place(right)).then_with(|| left.cmp(right))
    });
    let lines =
        sorted.into_iter().map(|(key, value)| format!("{} = {}\n", bare(key), written(value)));
    format!("[{section}.{}]\n{}", bare(name), lines.collect::<Vec<_>>().concat())
}

/// Formats a value of TOML on a single line.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => toml_string(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        Value::Object(keys) if keys.is_empty() => "{}".to_owned(),
        Value::Object(keys) => {
            let pairs =
                keys.iter().map(|(key, value)| format!("{} = {}", bare(key), written(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        // Other values are written as in JSON. TOML has no null, so a job whose payload contains null
        // is written as a comment.
        other => other.to_string(),
    }
}

/// Formats a key of TOML, in quotes only if the key needs quotes.
fn bare(key: &str) -> String {
    let is_bare = !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_bare { key.to_owned() } else { toml_string(key) }
}

/// Formats a string in the quotes of TOML.
pub fn toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for sign in text.chars() {
        match sign {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            // Control characters are escaped even where TOML allows them, because the text may be
            // shown on a terminal.
            sign if sign.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(sign));
            }
            sign => quoted.push(sign),
        }
    }
    quoted.push('"');
    quoted
}
