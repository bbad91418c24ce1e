//! The rule of fields in hashes of many separate facts: queues, counters, nodes, lists of files,
//! groups, gates, and the counts of what ledgers dropped.
//!
//! Invariant: a field that this rule finds unreadable may be deleted. Its writer writes the field
//! again, or readers already treat the field as missing.
//!
//! Some hashes are therefore not judged here. The settings of queues are left out because a
//! deletion would lift a pause. A bad setting has its own warning. Jobs and runs (`definition`,
//! `record`), unique keys (`unique_wrong`) and sizes of outputs (`count`) have their own rules.
//! Fields with free text have no wrong form. Such a field gives the reason for a quarantine or a
//! stop, a program's output, a file's error, or the position of the background check.

use super::inconsistency::{FindingSubject, Inconsistency};
use super::key_checks::family_of;
use crate::domain::name::names::{GroupName, JobName, QueueName, RunId};
use crate::domain::queue::lane::Lane;
use crate::domain::time::unix_millis::UnixMillis;

/// The maximum number of characters of a field or value in a message.
const SHOWN: usize = 60;

/// A field with an unreadable name or value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadField {
    /// The name of the field, in the form for a message.
    pub field: String,
    /// The value of the field, in the form for a message.
    pub value: String,
    /// The reason why the name or value is unreadable.
    pub why: &'static str,
}

/// Returns true if this rule judges each field of the hash `rest` of a namespace.
pub fn has_judged_fields(rest: &str) -> bool {
    let (family, _) = rest.split_once(':').unwrap_or((rest, ""));
    matches!(
        family,
        "queues"
            | "counters"
            | "groups"
            | "stop_requests"
            | "known_servers"
            | "consistency_check"
            | "node"
            | "source"
            | "ledger_before"
            | "declared"
            | "group"
            | "gate"
            | "queue_state"
            | "output"
    )
}

/// Returns the fault of a field of the hash `rest`. Returns `None` if the field is readable, or
/// unknown to this version.
pub fn judge_field(rest: &str, field: &str, value: &str) -> Option<&'static str> {
    let is_count = || value.parse::<u64>().is_ok();
    match rest.split(':').next().unwrap_or_default() {
        "queues" if field.parse::<QueueName>().is_err() => Some("it is no name of a queue"),
        "queues" => {
            (!value.parse::<u32>().is_ok_and(|count| count > 0)).then_some("it is no concurrency")
        }
        "groups" => field.parse::<GroupName>().is_err().then_some("it is no name of a group"),
        "stop_requests" => field.parse::<RunId>().is_err().then_some("it is no run"),
        "known_servers" => (!is_count_at(value)).then_some("it is no fence with a time (FENCE:MS)"),
        "consistency_check" if matches!(field, "taken_at" | "at" | "round_at") => {
            (!is_instant(value)).then_some("it is no instant")
        }
        "consistency_check" if field == "findings" => (!is_count()).then_some("it is no count"),
        "source" if field.parse::<JobName>().is_err() => Some("it is no name of a job"),
        "source" => (!is_hash(value)).then_some("it is no hash of a definition"),
        "declared" if !is_section(field) => Some("it is no queue or group"),
        "declared" => (!is_hash(value) || value.is_empty()).then_some("it is no hash of a text"),
        "group" => judge_group(field, value),
        "gate" => judge_gate_state(field, value),
        "queue_state" => (!is_count()).then_some("it is no number"),
        "output" if matches!(field, "size" | "dropped") => {
            (!is_count()).then_some("it is no count")
        }
        // The rule of counters compares these two with what they count.
        "counters" if matches!(field, "waiting" | "ledger_ranges") => None,
        "counters" | "ledger_before" if !is_word(field) => Some("it is no word"),
        "ledger_before" if matches!(field, "until" | "latest") => {
            (!is_instant(value)).then_some("it is no instant")
        }
        "counters" | "ledger_before" => (!is_count()).then_some("it is no count"),
        "node" => judge_node(field, value),
        _ => None,
    }
}

/// Returns the fault of a setting of a group. A group with a bad setting counts as exclusive.
fn judge_group(field: &str, value: &str) -> Option<&'static str> {
    let is_sound = match field {
        "mode" => matches!(value, "exclusive" | "alternate"),
        "order" => value.split(' ').all(|name| name.parse::<JobName>().is_ok()),
        "gap_ms" | "turn_timeout_ms" => value.parse::<u32>().is_ok(),
        _ if field.starts_with("src:") => is_hash(value) && !value.is_empty(),
        _ => true,
    };
    (!is_sound).then_some("it is no valid setting of a group")
}

/// Returns the fault of a field of a gate's state: the turn, the lanes of waiting runs, or the
/// limits of a job.
fn judge_gate_state(field: &str, value: &str) -> Option<&'static str> {
    let is_limits = || {
        value.split(' ').count() == 3 && value.split(' ').all(|part| part.parse::<u64>().is_ok())
    };
    let is_sound = match (field.split_once(':'), field) {
        (Some(("lane", run)), _) => run.parse::<RunId>().is_ok() && value.parse::<Lane>().is_ok(),
        (Some(("job", job)), _) => job.parse::<JobName>().is_ok() && is_limits(),
        (None, "turn" | "ended") => value.parse::<JobName>().is_ok(),
        (None, "since" | "last_ended" | "tried") => is_instant(value),
        _ => true,
    };
    (!is_sound).then_some("it is no valid state of a gate")
}

fn is_instant(text: &str) -> bool {
    text.parse().ok().and_then(UnixMillis::new).is_some()
}

fn is_count_at(text: &str) -> bool {
    text.split_once(':')
        .is_some_and(|(count, at)| count.parse::<u64>().is_ok() && at.parse::<u64>().is_ok())
}

fn is_section(text: &str) -> bool {
    match text.split_once(' ') {
        Some(("queue", name)) => name.parse::<QueueName>().is_ok(),
        Some(("group", name)) => name.parse::<GroupName>().is_ok(),
        _ => false,
    }
}

fn judge_node(field: &str, value: &str) -> Option<&'static str> {
    let is_whole = match field {
        "started_at" => is_instant(value),
        "pid" | "running" => value.parse::<u32>().is_ok(),
        "clock_offset_ms" => value.is_empty() || value.parse::<i64>().is_ok(),
        "state" => is_word(value),
        "incarnation" | "version" => is_plain(value) && !value.is_empty(),
        "host" | "boot_id" => is_plain(value),
        _ if !is_word(field) => return Some("it is no word"),
        // A file's error is text of any length; a newer node may write fields that are unknown
        // here.
        _ => true,
    };
    (!is_whole).then_some("no node writes such a value")
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 100
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Returns true if the text is short, has one line, and has only bytes that are text.
fn is_plain(text: &str) -> bool {
    text.len() <= 300 && !text.contains("\\x") && !text.chars().any(char::is_control)
}

/// Returns true for a SHA-1 in hexadecimal. An empty text, which is the hash of a removed job, is
/// refused.
fn is_hash(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the finding for the hash `rest` with the unreadable fields `bad`. `key` is the full name
/// of the hash. Returns `None` if `bad` is empty.
pub fn bad_fields(rest: &str, key: &str, bad: &[BadField]) -> Option<Inconsistency> {
    let BadField { field, value, why } = bad.first()?;
    let first = format!("{} = {}: {why}", shown(field), shown(value));
    let why = match bad.len() {
        1 => format!("its field {first}"),
        count => format!("{count} of its fields, such as {first}"),
    };
    let fix = "deletes such fields and prints their values; their writers write them again";
    Some(
        Inconsistency::unreadable(
            FindingSubject::Key(key.to_owned()),
            family_of(rest),
            why,
            "fields that can be read",
        )
        .fixed_by(fix),
    )
}

/// Formats a name or value for a message: in quotes, and cut to `SHOWN` characters.
pub fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("\"{}...\" ({} bytes)", &text[..at], text.len()),
        None => format!("\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_schedd_writes_is_sound_and_what_it_never_writes_is_reported() {
        let hash = "0123456789abcdef0123456789abcdef01234567";
        for (rest, field, value) in [
            ("queues", "default", "32"),
            ("counters", "succeeded", "7"),
            ("counters", "waiting", "x"),
            ("node:n1", "clock_offset_ms", ""),
            ("node:n1", "state", "running"),
            ("node:n1", "config_error", "line 3: no; wanted yes"),
            ("source:n1", "backup", hash),
            ("ledger_before:a", "failed", "3"),
            ("ledger_before:a", "until", "1700000000000"),
            ("job:a", "rev", "x"),
            ("declared:n1", "group lock", hash),
            ("group:lock", "order", "a b"),
            ("group:lock", "src:n1", hash),
            ("gate:group:lock", "turn", "a"),
            ("gate:key:k", "lane:a@5", "default!5"),
            ("gate:key:k", "job:a", "1 0 1"),
            ("output:a@5#1", "head", "\\xff"),
            ("known_servers", "any", "7:0"),
            ("stop_requests", "a@5", "whatever"),
            ("queue:default", "limit", "x"),
        ] {
            assert_eq!(judge_field(rest, field, value), None, "{rest} {field}");
        }
        for (rest, field, value) in [
            ("queues", "No Queue", "32"),
            ("queues", "default", "many"),
            ("queues", "default", "0"),
            ("counters", "succeeded", "-1"),
            ("counters", "\\xff\\xfe", "7"),
            ("node:n1", "started_at", "then"),
            ("node:n1", "incarnation", ""),
            ("node:n1", "host", "\\xff"),
            ("source:n1", "No Name", hash),
            ("source:n1", "backup", "abc"),
            ("ledger_before:a", "failed", "1e300"),
            ("ledger_before:a", "until", "-1"),
            ("declared:n1", "group", hash),
            ("declared:n1", "queue q", ""),
            ("group:lock", "mode", "both"),
            ("group:lock", "gap_ms", "-1"),
            ("gate:group:lock", "since", "then"),
            ("gate:key:k", "lane:a@5", "No Lane"),
            ("gate:key:k", "job:a", "1 0"),
            ("queue_state:default", "tat", "1e300"),
            ("output:a@5#1", "size", "-1"),
            ("known_servers", "any", "7"),
            ("stop_requests", "No Run", "cancelled"),
            ("groups", "No Group", "exclusive"),
            ("consistency_check", "at", "x"),
        ] {
            assert!(judge_field(rest, field, value).is_some(), "{rest} {field}");
        }
    }

    #[test]
    fn a_long_value_is_cut_where_it_is_shown() {
        let bad = BadField { field: "pid".to_owned(), value: "x".repeat(100_000), why: "no" };
        let message = bad_fields("counters", "k", &[bad]).unwrap().to_string();
        assert!(message.len() < 300 && message.contains("(100000 bytes)"), "{message}");
        assert_eq!(bad_fields("counters", "k", &[]), None);
    }
}
