//! The notification settings of a job, as `show` prints them. Secrets are not shown.

use std::time::Duration;

use serde_json::{Value, json};

use super::action_line::action_line;
use crate::domain::job::job_spec::JobSpec;
use crate::domain::job::notice::NoticeKind;
use crate::domain::job::webhook::SigningSecret;
use crate::domain::time::duration::format_duration;

/// Returns the lines of `show` for the given notification settings: a label and the value.
pub(super) fn telling_lines(spec: &JobSpec) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&'static str, String)> =
        spec.notices.iter().map(|(kind, action)| (word_of(*kind), action_line(action, &spec.process))).collect();
    let times = [("must start", spec.must_start_within), ("must finish", spec.must_finish_within)];
    lines.extend(times.into_iter().filter_map(|(word, within)| Some((word, format!("within {}", format_duration(within?))))));
    lines.extend(spec.ping_url.iter().map(|url| (word_of(NoticeKind::Ping), url.clone())));
    if !spec.webhook_secrets.is_empty() {
        lines.push(("signed by", shown(spec).join(", ")));
    }
    lines
}

fn word_of(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Failure => "on failure",
        NoticeKind::Success => "on success",
        NoticeKind::Late => "on late",
        NoticeKind::Recovered => "on recovered",
        NoticeKind::Ping => "ping url",
    }
}

fn shown(spec: &JobSpec) -> Vec<&str> {
    spec.webhook_secrets.iter().map(SigningSecret::shown).collect()
}

/// Returns the notification settings as JSON by the keys of `[jobs.X]`, null if not given. Notices
/// that are given have the form of the definition.
pub(super) fn telling_json(spec: &JobSpec) -> Vec<(&'static str, Value)> {
    let within = |within: Option<Duration>| json!(within.map(format_duration));
    let nobody = NoticeKind::ASKED.into_iter().filter(|kind| !spec.notices.contains_key(kind));
    let mut keys: Vec<(&'static str, Value)> = nobody.map(|kind| (kind.as_str(), Value::Null)).collect();
    keys.extend([
        ("must_start_within", within(spec.must_start_within)),
        ("must_finish_within", within(spec.must_finish_within)),
        ("ping_url", json!(spec.ping_url)),
        ("webhook_secret", if spec.webhook_secrets.is_empty() { Value::Null } else { json!(shown(spec)) }),
    ]);
    keys
}
