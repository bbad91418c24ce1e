//! The lines of `show` for a job's definition, including default values.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::action_line::action_line;
use super::lane_words::queue_words;
use super::notification_lines::reporting_lines;
use schedd_core::config;
use schedd_core::domain::job::job_spec::{AskedOn, Backoff, Delivery, JobSpec, Overlap, RetryRule};
use schedd_core::domain::job::node_choice::NodeChoice;
use schedd_core::domain::job::process_limits::Limits;
use schedd_core::domain::job::process_rules::ProcessRules;
use schedd_core::domain::job::unique_rule::Second;
use schedd_core::domain::name::byte_size::format_size;
use schedd_core::domain::queue::gate::{Gate, PerKey};
use schedd_schedule::clock_changes::{ClockChanges, Fold, Gap};
use schedd_schedule::day_sets::DaySet;
use schedd_schedule::lateness::CatchUpMode;
use schedd_schedule::names::JobName;
use schedd_schedule::names::NodeName;
use schedd_schedule::schedule_form::{CronExpr, Schedule};
use schedd_schedule::schedule_modifiers::Shape;
use schedd_schedule::time::duration::format_duration;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;

/// Returns the nodes that run the job, in words. Returns `None` if any node may run it.
fn placement_words(spec: &JobSpec) -> Option<String> {
    let most =
        spec.max_parallel.map_or_else(String::new, |most| format!(", at most {most} at once"));
    match &spec.on {
        NodeChoice::Anywhere => None,
        NodeChoice::Nodes(nodes) => {
            let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
            Some(format!("node {}", names.join(" or ")))
        }
        NodeChoice::EachNode => Some(format!("each node{most}")),
    }
}

/// Returns the lines of `show` for concurrency keys and `not_while`.
fn gate_lines(spec: &JobSpec) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(key) = &spec.key {
        let PerKey { limit, rate } = spec.per_key;
        let limit = limit.map(|limit| format!(", {limit} at once")).unwrap_or_default();
        let rate = rate
            .map(|rate| format!(", {rate} with a burst of {}", rate.burst()))
            .unwrap_or_default();
        let of = Gate::of_key(key).words();
        let of = of.strip_prefix("key ").unwrap_or(&of);
        lines.push(("key", format!("{of}{limit}{rate}")));
    }
    if !spec.not_while.is_empty() {
        let jobs: Vec<&str> = spec.not_while.iter().map(JobName::as_str).collect();
        lines.push(("not while", jobs.join(", ")));
    }
    lines
}

/// Returns a remark for each cron expression that restricts both day fields. In such an expression
/// a match of one day field is enough, which surprises many users.
pub(crate) fn day_rules(schedule: &Schedule) -> Vec<String> {
    let expressions = match schedule {
        Schedule::Cron(expressions) => expressions,
        Schedule::Several(list) => return list.iter().flat_map(day_rules).collect(),
        _ => return Vec::new(),
    };
    let rule = |expression: &CronExpr| {
        expression.either_day().map(|(day, weekday)| {
            format!("{expression} is due on day of month {day} and also on weekday {weekday}: as in crontab, either is enough")
        })
    };
    expressions.iter().filter_map(rule).collect()
}

/// Returns the lines of `show` for the modifiers of the schedule that are set, such as `jitter` and
/// `exclude`.
fn shape_lines(shape: &Shape) -> Vec<(&'static str, String)> {
    const SHOWN: usize = 6;
    let instant = |word, at: Option<UnixMillis>| at.map(|at| (word, at.to_string()));
    let moved = |word, by: Duration, how: &str| {
        (!by.is_zero()).then(|| (word, format!("up to {}, {how}", format_duration(by))))
    };
    let days = |word, days: &DaySet| {
        let texts = days.texts();
        let rest = if texts.len() > SHOWN {
            format!(" and {} more", texts.len() - SHOWN)
        } else {
            String::new()
        };
        (!texts.is_empty()).then(|| {
            (
                word,
                format!(
                    "{}{rest}",
                    texts.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(" ")
                ),
            )
        })
    };
    let lines = [
        instant("anchor", shape.anchor),
        instant("start", shape.start),
        instant("end", shape.end),
        shape.max_runs.map(|most| ("max runs", most.to_string())),
        moved("jitter", shape.jitter, "drawn for each run"),
        moved("splay", shape.splay, "the same for each run"),
        days("exclude", &shape.exclude),
        shape.only_on.as_ref().and_then(|only_on| days("only on", only_on)),
        shape
            .skip_if_late
            .map(|late| ("skip if late", format!("by more than {}", format_duration(late)))),
    ];
    lines.into_iter().flatten().collect()
}

/// Returns the definition as JSON with the keys of `[jobs.X]`. A key that the definition lacks has
/// its default value.
pub(crate) fn effective(spec: &JobSpec, zone: &Zone) -> Value {
    let mut keys = config::effective(spec);
    keys["tz"] = zone.name().as_str().into();
    keys
}

/// Returns the keys of [`effective`] with their default values, as JSON. Canonical JSON leaves these
/// keys out.
pub(crate) fn default_keys(spec: &JobSpec) -> Value {
    let set: Value = serde_json::from_str(&config::to_canonical(spec)).unwrap_or_default();
    let keys = config::effective(spec);
    let keys = keys.as_object().into_iter().flatten();
    keys.map(|(key, _)| key.as_str()).filter(|key| set.get(*key).is_none()).collect()
}

/// The keys of a definition that `show` prints in a special form, separated by blanks. `show`
/// prints each other key as it is, with its value.
const WORDED: &str = "\
    after after_any after_failed after_finished anchor at calendar catch_up command cron cwd delay delivery done_check \
    dst dtstart end env env_file every exclude group http jitter key kill_grace late_after limits log_output \
    max_parallel max_runs must_finish_within must_start_within not_while on on_failure on_late on_recovered on_success \
    only_on overlap per_key ping_url priority queue requires retry rrule schedules shell shell_program skip_if_late \
    splay start stdin tags timeout tz umask unique user webhook_secret";

/// Returns the lines of `show` for all keys that are not in [`WORDED`]: the key and its value.
fn plain_lines(spec: &JobSpec) -> Vec<(&'static str, String)> {
    let shown = config::effective(spec);
    let value = |key: &str| shown.get(key).filter(|value| !value.is_null());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let plain = config::job_keys()
        .into_iter()
        .filter(|key| !WORDED.split(' ').any(|worded| worded == *key));
    plain.filter_map(|key| Some((key, text(value(key)?)))).collect()
}

/// Returns the lines of `show` for every rule of the job: a label and the value.
#[expect(clippy::too_many_lines, reason = "a list of lines in their order")]
pub(crate) fn policy_lines(spec: &JobSpec) -> Vec<(&'static str, String)> {
    let retry = &spec.retry;
    let retries = if retry.limit == 0 {
        "none".to_owned()
    } else {
        let jitter = if retry.jitter { ", jitter" } else { "" };
        format!(
            "{}, delay {}, {}, delay at most {}{jitter}{}",
            if retry.limit == 1 { "once".to_owned() } else { format!("{} times", retry.limit) },
            format_duration(retry.delay),
            backoff(retry.backoff),
            format_duration(retry.max_delay),
            code_words(retry)
        )
    };
    let age = spec
        .catch_up
        .max_age
        .map(|age| format!(", not older than {}", format_duration(age)))
        .unwrap_or_default();
    let spread = spec
        .catch_up
        .spread
        .map(|spread| format!(", spread over {}", format_duration(spread)))
        .unwrap_or_default();
    let most = match spec.catch_up.mode {
        CatchUpMode::All => format!(", at most {} runs", spec.catch_up.max_count),
        CatchUpMode::Skip | CatchUpMode::Latest => String::new(),
    };
    let overlap = match spec.overlap {
        Overlap::Skip => "skip".to_owned(),
        Overlap::Queue { max } => format!("queue, at most {max} waiting runs"),
        Overlap::Replace => "replace".to_owned(),
        Overlap::Allow => "allow".to_owned(),
    };
    let mut lines = vec![
        ("queue", queue_words(&spec.lane_in(spec.queue.clone()))),
        ("group", spec.group.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string)),
        (
            "timeout",
            format!(
                "{}, then TERM and after {} KILL",
                format_duration(spec.timeout),
                format_duration(spec.kill_grace)
            ),
        ),
        ("retry", retries),
        ("overlap", overlap),
        ("catch up", format!("{}{age}{most}{spread}", catch_up_mode(spec.catch_up.mode))),
        ("late after", format_duration(spec.late_after)),
        ("delivery", delivery(spec.delivery).to_owned()),
    ];
    lines.splice(2..2, gate_lines(spec));
    if let Some(nodes) = placement_words(spec) {
        lines.insert(1, ("on", nodes));
    }
    if !spec.tags.is_empty() {
        let tags: Vec<String> =
            spec.tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
        lines.insert(1, ("tags", tags.join(", ")));
    }
    lines.extend(shape_lines(&spec.shape));
    if !spec.dst.is_default() {
        lines.push(("clock changes", clock_changes(spec.dst)));
    }
    if let Some(check) = &spec.done_check {
        let timeout = format_duration(check.timeout);
        lines.push((
            "done check",
            format!(
                "{}, {}, for at most {timeout}",
                action_line(&check.question, &spec.process),
                asked_on(check.on)
            ),
        ));
    }
    lines.extend(reporting_lines(spec));
    if let Some(unique) = &spec.unique {
        let duration = match unique.second {
            Second::Refused { window: None } => {
                "until the job is over; a second add is refused".to_owned()
            }
            Second::Refused { window: Some(window) } => {
                format!("for {} from the add; a second add is refused", format_duration(window))
            }
            Second::Wins { max_wait } => {
                let longest = max_wait.map_or_else(String::new, |longest| {
                    format!(", due at most {} after the first add", format_duration(longest))
                });
                format!(
                    "until the job starts; a later add replaces definition and time (debounce{longest})"
                )
            }
            Second::Dropped { window } => {
                format!(
                    "for {} from the add; a second add is dropped (throttle)",
                    format_duration(window)
                )
            }
        };
        lines.push(("unique", format!("{:?}, {duration}", unique.key.as_str())));
    }
    lines.extend(spec.env_files.iter().map(|file| ("env file", file.to_string())));
    if spec.log_output {
        lines.push(("output", "also written to the log of the node".to_owned()));
    }
    if let Some(cwd) = &spec.cwd {
        lines.push(("cwd", cwd.display().to_string()));
    }
    lines.extend(process_lines(&spec.process));
    lines.extend(plain_lines(spec));
    for (name, value) in &spec.env {
        lines.push(("env", format!("{name}={value}")));
    }
    lines
}

/// Returns the line of `show` for the limits of processes, if there are limits.
fn limit_words(limits: Limits) -> Option<(&'static str, String)> {
    let processors = |thousandths: u32| f64::from(thousandths) / 1_000.0;
    let words = [
        limits.memory.map(|bytes| format!("memory {}", format_size(bytes))),
        limits.cpu.map(|thousandths| format!("cpu {}", processors(thousandths))),
        limits.pids.map(|most| format!("pids {most}")),
        limits.files.map(|most| format!("files {most}")),
        limits.nice.map(|nice| format!("nice {nice}")),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| ("limits", words.join(", ")))
}

/// Returns the lines of `show` for the user, limits, umask and standard input, if set.
fn process_lines(rules: &ProcessRules) -> Vec<(&'static str, String)> {
    let lines = [
        rules.user.as_ref().map(|user| ("user", user.to_string())),
        limit_words(rules.limits),
        rules.umask.map(|umask| ("umask", umask.to_string())),
        rules.stdin.as_ref().map(|text| ("stdin", shown_text(text))),
    ];
    lines.into_iter().flatten().collect()
}

/// Returns the beginning of a text on one line, and the length of the whole text in bytes.
fn shown_text(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        None => format!("{text:?}"),
        Some((end, _)) => {
            format!("{:?} and more, {} bytes", text.get(..end).unwrap_or_default(), text.len())
        }
    }
}

/// Returns the rules for clock changes as text. A default rule is left out.
fn clock_changes(rule: ClockChanges) -> String {
    let gap = rule.gap.map(|gap| match gap {
        Gap::RunAfter => "times that the clock skips run once, right after the gap",
        Gap::Skip => "times that the clock skips do not run",
    });
    let fold = rule.fold.map(|fold| match fold {
        Fold::First => "a time that the clock shows twice runs only the first time",
        Fold::Last => "a time that the clock shows twice runs only the second time",
        Fold::Both => "a time that the clock shows twice runs both times",
    });
    gap.into_iter().chain(fold).collect::<Vec<_>>().join(", ")
}

fn backoff(backoff: Backoff) -> &'static str {
    match backoff {
        Backoff::Fixed => "fixed",
        Backoff::Linear => "linear",
        Backoff::Exponential => "exponential",
    }
}

fn catch_up_mode(mode: CatchUpMode) -> &'static str {
    match mode {
        CatchUpMode::Skip => "skip",
        CatchUpMode::Latest => "latest",
        CatchUpMode::All => "all",
    }
}

/// Returns the attempts before which a `done_check` runs, as a phrase.
fn asked_on(on: AskedOn) -> &'static str {
    match on {
        AskedOn::Retry => "before each attempt but the first",
        AskedOn::Always => "before each attempt",
    }
}

fn code_words(retry: &RetryRule) -> String {
    let words = |word: &str, codes: &BTreeSet<u16>| {
        let codes: Vec<String> = codes.iter().map(u16::to_string).collect();
        if codes.is_empty() { String::new() } else { format!(", {word} on {}", codes.join(" ")) }
    };
    words("only", &retry.on) + &words("never", &retry.never_on)
}

fn delivery(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::AtLeastOnce => "at-least-once",
        Delivery::AtMostOnce => "at-most-once",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use schedd_core::domain::job::job_spec::{Action, DoneCheck};

    #[test]
    fn every_rule_is_there_though_the_definition_names_none() {
        let spec = JobSpec::with_defaults(Schedule::Manual, Action::Shell("true".to_owned()));
        let shown = effective(&spec, &Zone::utc());
        assert_eq!(shown["shell"], "true");
        assert_eq!(shown["timeout"], "1h");
        assert_eq!(shown["retry"]["limit"], 0);
        assert_eq!(shown["delivery"], "at-least-once");
        assert!(
            shown["cwd"].is_null()
                && shown["done_check"].is_null()
                && shown["retry"]["on"].is_null()
        );
        for kind in
            ["on_failure", "on_success", "on_late", "on_recovered", "ping_url", "webhook_secret"]
        {
            assert_eq!(shown.get(kind), Some(&Value::Null), "{kind}");
        }
    }

    #[test]
    fn the_codes_of_retries_and_the_question_before_an_attempt_are_shown() {
        let mut spec = JobSpec::with_defaults(Schedule::Manual, Action::Shell("true".to_owned()));
        spec.retry = RetryRule {
            limit: 2,
            on: [75, 3].into(),
            never_on: [4].into(),
            ..RetryRule::default()
        };
        let question = Action::Shell("test -e out".to_owned());
        spec.done_check =
            Some(DoneCheck { question, on: AskedOn::Always, timeout: DoneCheck::TIMEOUT });
        let shown = effective(&spec, &Zone::utc());
        assert_eq!(
            (&shown["retry"]["on"], &shown["retry"]["never_on"]),
            (&json!([3, 75]), &json!([4]))
        );
        assert_eq!(
            shown["done_check"],
            json!({"shell": "test -e out", "on": "always", "timeout": "1m"})
        );
        let lines = policy_lines(&spec);
        let line =
            |word| lines.iter().find(|(found, _)| *found == word).map(|(_, text)| text.as_str());
        assert_eq!(
            line("retry"),
            Some(
                "2 times, delay 10s, exponential, delay at most 1h, jitter, only on 3 75, never on 4"
            )
        );
        assert_eq!(
            line("done check"),
            Some("/bin/sh -c 'test -e out', before each attempt, for at most 1m")
        );
    }

    #[test]
    fn two_restricted_day_fields_are_explained_and_one_is_not() {
        let rules = |text: &str| day_rules(&Schedule::Cron(vec![text.parse().unwrap()]));
        for text in ["0 0 1 * 1", "0 0 0 1 * 1", "0 0 0 1 * 1 2099"] {
            assert!(rules(text)[0].contains("day of month 1 and also on weekday 1"), "{text}");
        }
        for text in
            ["0 0 * * 1", "0 0 1 * *", "0 0 */2 * 1", "0 0 ? * 1", "@weekly", "0 0 0 1 * * 2099"]
        {
            assert!(rules(text).is_empty(), "{text}");
        }
        assert!(day_rules(&Schedule::Manual).is_empty());
    }
}
