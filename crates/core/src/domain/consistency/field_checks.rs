//! The check of the fields in Redis hashes whose fields are independent of each other, such as the
//! hashes of queues, counters, nodes, groups and gates.
//!
//! `doctor --fix` deletes each field that this check finds unreadable. The deletion loses nothing.
//! Either a node writes the field again, or all readers already treat the field as missing.
//!
//! Hashes that could lose data by a deletion are left out. For example, the deletion of a queue's
//! setting could lift a pause, so `doctor` only warns of an invalid setting. Jobs, runs, unique
//! keys and sizes of outputs have their own checks. Free text is always valid, such as the reason
//! for a quarantine or the output of a program.

use super::inconsistency::{FindingSubject, Inconsistency};
use super::key_checks::family_of;
use crate::domain::queue::lane::Lane;
use schedd_schedule::names::{GroupName, JobName, QueueName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The maximum number of characters of a field or value in a message.
const SHOWN: usize = 60;

const NOT_A_QUEUE: &str = "the name of the field is not a valid queue name";
const NOT_A_GROUP: &str = "the name of the field is not a valid group name";
const NOT_A_JOB: &str = "the name of the field is not a valid job name";
const NOT_A_RUN: &str = "the name of the field is not a valid run id";
const NOT_AN_OCCURRENCE: &str =
    "the name of the field is not an occurrence (the part of a run id behind @)";
const NOT_A_CHAIN_STATE: &str = "the value has no ends of parents (JSON)";
const NOT_A_SECTION: &str = "the name of the field does not have the form queue NAME or group NAME";
const NOT_A_WORD: &str =
    "the name of the field is not a word of lower-case letters and underscores";
const NOT_A_CONCURRENCY: &str = "the value is not a concurrency (a whole number above 0)";
const NOT_A_COUNT: &str = "the value is not 0 or a larger whole number";
const NOT_AN_INSTANT: &str = "the value is not a Unix time in ms";
const NOT_A_FENCE_AT: &str = "the value is not a fence with a Unix time in ms (FENCE:MS)";
const NOT_A_TIME_IN_MS: &str = "the value is not a whole number of milliseconds";
const NOT_A_HASH: &str = "the value is not a hash of 40 hexadecimal digits";

/// A field with an unreadable name or value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadField {
    /// The name of the field, with `\xNN` for each byte that is not text.
    pub field: String,
    /// The value of the field, with `\xNN` for each byte that is not text.
    pub value: String,
    /// The reason why the name or value is unreadable, as a clause for a message.
    pub why: &'static str,
}

/// Returns true if this check judges the fields of the Redis key `rest`. `rest` is the name without
/// the prefix of the namespace.
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
            | "chain"
    )
}

/// Returns the reason why a field of the Redis hash `rest` is unreadable. Returns `None` if the
/// field is readable, or if this version of schedd does not know the field. `rest` is the name of
/// the hash without the prefix of the namespace.
pub fn judge_field(rest: &str, field: &str, value: &str) -> Option<&'static str> {
    let is_count = || value.parse::<u64>().is_ok();
    match rest.split(':').next().unwrap_or_default() {
        "queues" if field.parse::<QueueName>().is_err() => Some(NOT_A_QUEUE),
        "queues" => {
            (!value.parse::<u32>().is_ok_and(|count| count > 0)).then_some(NOT_A_CONCURRENCY)
        }
        "groups" => field.parse::<GroupName>().is_err().then_some(NOT_A_GROUP),
        // A state that cannot be read is treated as missing, so the child would wait for ever.
        "chain" if format!("x@{field}").parse::<RunId>().is_err() => Some(NOT_AN_OCCURRENCE),
        "chain" => {
            let state: serde_json::Value = serde_json::from_str(value).unwrap_or_default();
            (!state["ends"].is_object() && !state["ends"].is_array()).then_some(NOT_A_CHAIN_STATE)
        }
        "stop_requests" => field.parse::<RunId>().is_err().then_some(NOT_A_RUN),
        "known_servers" => (!is_count_at(value)).then_some(NOT_A_FENCE_AT),
        "consistency_check" if matches!(field, "taken_at" | "at" | "round_at") => {
            (!is_instant(value)).then_some(NOT_AN_INSTANT)
        }
        "consistency_check" if field == "findings" => (!is_count()).then_some(NOT_A_COUNT),
        "source" if field.parse::<JobName>().is_err() => Some(NOT_A_JOB),
        "declared" if !is_section(field) => Some(NOT_A_SECTION),
        "source" | "declared" => (!is_hash(value)).then_some(NOT_A_HASH),
        "group" => judge_group(field, value),
        "gate" => judge_gate_state(field, value),
        "output" if matches!(field, "size" | "dropped") => (!is_count()).then_some(NOT_A_COUNT),
        // `count_checks` compares these two counters with the data that they count.
        "counters" if matches!(field, "waiting" | "ledger_ranges") => None,
        "counters" | "ledger_before" if !is_word(field) => Some(NOT_A_WORD),
        "ledger_before" if matches!(field, "until" | "latest") => {
            (!is_instant(value)).then_some(NOT_AN_INSTANT)
        }
        "queue_state" | "counters" | "ledger_before" => (!is_count()).then_some(NOT_A_COUNT),
        "node" => judge_node(field, value),
        _ => None,
    }
}

/// Returns the reason why a setting of a group is invalid. Returns `None` if the setting is valid.
/// schedd treats a group with an invalid `mode` or `order` as exclusive.
fn judge_group(field: &str, value: &str) -> Option<&'static str> {
    let (is_sound, fault) = match field {
        "mode" => {
            (matches!(value, "exclusive" | "alternate"), "the value is not exclusive or alternate")
        }
        "order" => (
            value.split(' ').all(|name| name.parse::<JobName>().is_ok()),
            "the value is not a list of job names with single spaces between the names",
        ),
        "gap_ms" | "turn_timeout_ms" => (value.parse::<u32>().is_ok(), NOT_A_TIME_IN_MS),
        // An empty digest means that the file must be applied again.
        _ if field.starts_with("src:") => (is_hash(value) || value.is_empty(), NOT_A_HASH),
        _ => (true, ""),
    };
    (!is_sound).then_some(fault)
}

/// Returns the reason why a field of a gate's state is invalid. Such a field has the turn, the lane
/// of a waiting run, or the limits of a job. `None` if the field is valid.
fn judge_gate_state(field: &str, value: &str) -> Option<&'static str> {
    let is_limits = || {
        value.split(' ').count() == 3 && value.split(' ').all(|part| part.parse::<u64>().is_ok())
    };
    let (is_sound, fault) = match (field.split_once(':'), field) {
        (Some(("lane", run)), _) => (
            run.parse::<RunId>().is_ok() && value.parse::<Lane>().is_ok(),
            "a field of this kind must be named lane:RUN and have the lane of that run as its value",
        ),
        (Some(("job", job)), _) => (
            job.parse::<JobName>().is_ok() && is_limits(),
            "a field of this kind must be named job:JOB and have the three limits of that job as its value",
        ),
        (None, "turn" | "ended") => {
            (value.parse::<JobName>().is_ok(), "the value is not a valid job name")
        }
        (None, "since" | "last_ended" | "tried") => (is_instant(value), NOT_AN_INSTANT),
        _ => (true, ""),
    };
    (!is_sound).then_some(fault)
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
    const NOT_PLAIN: &str =
        "the value is not a text of one line with at most 300 bytes of printable characters";
    let (is_whole, fault) = match field {
        "started_at" => (is_instant(value), NOT_AN_INSTANT),
        "pid" | "running" => (value.parse::<u32>().is_ok(), NOT_A_COUNT),
        "clock_offset_ms" => (value.is_empty() || value.parse::<i64>().is_ok(), NOT_A_TIME_IN_MS),
        "state" => {
            (is_word(value), "the value is not a word of lower-case letters and underscores")
        }
        "incarnation" | "version" if value.is_empty() => (false, "the value must not be empty"),
        "incarnation" | "version" | "host" | "boot_id" => (is_plain(value), NOT_PLAIN),
        _ if !is_word(field) => return Some(NOT_A_WORD),
        // The field `config_error`, the error of a jobs file, is text of any length. A newer node
        // may write fields that this version does not know.
        _ => (true, ""),
    };
    (!is_whole).then_some(fault)
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 100
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Returns true for a text of one line with at most 300 bytes and without `\xNN`, which stands for
/// a byte that is not text.
fn is_plain(text: &str) -> bool {
    text.len() <= 300 && !text.contains("\\x") && !text.chars().any(char::is_control)
}

/// Returns true for the 40 hexadecimal digits of a SHA-1. Returns false for any other text, also
/// for an empty text.
fn is_hash(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the finding for a Redis hash with the unreadable fields `bad`. `key` is the full name of
/// the hash, and `rest` is the name without the prefix of the namespace. Returns `None` if `bad` is
/// empty.
pub fn bad_fields(rest: &str, key: &str, bad: &[BadField]) -> Option<Inconsistency> {
    let BadField { field, value, why } = bad.first()?;
    let first = format!(
        "{name} has the value {value}, but {why}",
        name = shown(field),
        value = shown(value)
    );
    let why = match bad.len() {
        1 => format!("field {first}"),
        count => format!("{count} of its fields are not valid; for example, field {first}"),
    };
    let fix = "deletes each unreadable field and prints its value; \
               schedd writes the field again if schedd needs it";
    Some(
        Inconsistency::unreadable(
            FindingSubject::Key(key.to_owned()),
            family_of(rest),
            why,
            "only readable fields",
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
    fn fields_of_schedd_are_valid_and_other_fields_are_reported() {
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
            ("group:lock", "src:n2", ""),
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
    fn a_long_value_is_cut_in_the_message() {
        let bad = BadField { field: "pid".to_owned(), value: "x".repeat(100_000), why: "no" };
        let message = bad_fields("counters", "k", &[bad]).unwrap().to_string();
        assert!(message.len() < 350 && message.contains("(100000 bytes)"), "{message}");
        assert_eq!(bad_fields("counters", "k", &[]), None);
    }
}
