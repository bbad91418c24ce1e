//! The notification settings of a job, as `show` prints them. Secrets are not shown.

use super::action_line::action_line;
use schedd_core::domain::job::job_spec::JobSpec;
use schedd_core::domain::job::notice::NoticeKind;
use schedd_core::domain::job::webhook::SigningSecret;
use schedd_schedule::time::duration::format_duration;

/// Returns the lines of `show` for the given notification settings: a label and the value.
pub(super) fn reporting_lines(spec: &JobSpec) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&'static str, String)> = spec
        .notices
        .iter()
        .map(|(kind, action)| (word_of(*kind), action_line(action, &spec.process)))
        .collect();
    let times = [("must start", spec.must_start_within), ("must finish", spec.must_finish_within)];
    lines.extend(
        times.into_iter().filter_map(|(word, within)| {
            Some((word, format!("within {}", format_duration(within?))))
        }),
    );
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
