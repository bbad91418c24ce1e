//! Findings about the rules of a job that decided the outcome: the value of each rule and the place
//! where the rule is set.

use super::clock_findings::CLOCK_CHANGE;
use super::outcome_findings::{cause_of_skip, decided};
use super::timing_findings::mode_word;
use crate::domain::explain::explain_words::{by, files};
use crate::domain::explain::facts::{Facts, Source, Subject};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::job::job_spec::{Action, Delivery, JobSpec, Overlap, RetryRule};
use crate::domain::queue::lane::Priority;
use schedd_schedule::lateness::SkipCause;
use schedd_schedule::lateness::{CatchUp, CatchUpMode};
use schedd_schedule::names::Label;
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::duration::format_duration;

/// Returns a finding for each rule that led to a finding of `plan`, `outcome` or `timing`.
pub(super) fn rules(
    facts: &Facts,
    plan: &[Finding],
    outcome: &[Finding],
    timing: &[Finding],
) -> Vec<Finding> {
    let Some((spec, _)) = facts.definition() else { return Vec::new() };
    let defaults = JobSpec::with_defaults(spec.schedule.clone(), Action::Shell(String::new()));
    let mut keys: Vec<&'static str> =
        plan.iter().flat_map(|found| keys_of(found.code)).copied().collect();
    keys.extend(decided(facts, outcome).into_iter().flat_map(|code| match code {
        "skipped_missed" => keys_of_cause(facts),
        code => keys_of(code),
    }));
    keys.extend(timing.iter().flat_map(|found| keys_of(found.code)));
    if matches!(facts.subject, Subject::Job { .. }) && spec.schedule != Schedule::Manual {
        keys.push("overlap");
        // No run of a child is missed.
        keys.extend(spec.schedule.parents().is_none().then_some("catch_up"));
    }
    let mut seen: Vec<&'static str> = Vec::new();
    keys.retain(|key| {
        !seen.contains(key) && {
            seen.push(key);
            true
        }
    });
    keys.into_iter()
        .filter_map(|key| rule(facts, key, &value(spec, key)?, value(&defaults, key).as_ref()))
        .collect()
}

/// Returns the keys of the rule because of which a missed run was skipped.
fn keys_of_cause(facts: &Facts) -> &'static [&'static str] {
    match facts.run().and_then(|run| cause_of_skip(facts, run)) {
        Some(SkipCause::OlderThanSkipIfLate(_)) => &["skip_if_late"],
        Some(SkipCause::Late) => &["catch_up", "late_after"],
        Some(_) => &["catch_up"],
        None => &["skip_if_late", "catch_up"],
    }
}

/// Returns the keys of a definition that can cause a finding with this code.
fn keys_of(code: &str) -> &'static [&'static str] {
    match code {
        "skipped_overlap" | "waits" | "replaced" | "late_behind" => &["overlap"],
        "waits_at" | "gave_up_place" | "late_at_gate" => &["group", "not_while", "key", "per_key"],
        CLOCK_CHANGE => &["dst"],
        "skipped_after_loss" => &["skip_if_late", "catch_up", "late_after"],
        "skipped_used_up" => &["max_runs"],
        "behind_owed" | "spread_to" | "late_spread" | "caught_up" => &["catch_up", "late_after"],
        "failed" | "retry_at" => &["retry"],
        "timed_out" => &["timeout", "retry"],
        "lost" => &["delivery"],
        "asked_in_vain" => &["done_check", "retry"],
        "already_done" | "ask_at" => &["done_check"],
        "late_shifted" => &["jitter", "splay"],
        "late_slots" | "slots_now" => &["queue", "priority"],
        "late_unserved" => &["queue", "requires"],
        _ => &[],
    }
}

fn rule(
    facts: &Facts,
    key: &'static str,
    value: &String,
    default: Option<&String>,
) -> Option<Finding> {
    let job = facts.job.as_ref()?;
    // No user sets the rules of a notice.
    if default == Some(value) || facts.name.is_hidden() {
        return Some(Part::Rule.finding("default", format!("{key} = {value} is the default.")));
    }
    if let Some((defined, _)) = facts.name.instance() {
        let text = format!("{key} = {value}, set for job {defined}.");
        return Some(Part::Rule.finding("set_for_job", text));
    }
    Some(match &job.source {
        Source::File(nodes) => {
            let text = format!(
                "{key} = {value}, set in [jobs.{job}] or [defaults] of {files}.",
                job = facts.name,
                files = files(nodes)
            );
            Part::Rule.finding("set_in_file", text)
        }
        Source::Api => {
            let edited = facts
                .entry_before(AuditEntry::EDITED, facts.now)
                .and_then(|entry| entry.by.as_ref());
            let who = edited.or_else(|| job.created.as_ref().and_then(|(_, by)| by.as_ref()));
            Part::Rule
                .finding("set_by", format!("{key} = {value}, set with schedctl add{}.", by(who)))
        }
    })
}

/// Returns the value of the rule `key` as in `jobs.toml`. Returns `None` if the job has no value
/// for this key.
fn value(spec: &JobSpec, key: &str) -> Option<String> {
    Some(match key {
        "overlap" => match spec.overlap {
            Overlap::Skip => "skip".to_owned(),
            Overlap::Queue { max: 1 } => "queue with max = 1 (the default of max)".to_owned(),
            Overlap::Queue { max } => format!("queue with max = {max}"),
            Overlap::Replace => "replace".to_owned(),
            Overlap::Allow => "allow".to_owned(),
        },
        "catch_up" => catch_up(&spec.catch_up),
        "dst" => {
            let (gap, fold) = if spec.schedule.follows_real_time() {
                spec.dst.of_real_time()
            } else {
                spec.dst.of_fixed_times()
            };
            format!("{{ gap = {:?}, fold = {:?} }}", gap.as_str(), fold.as_str())
        }
        "late_after" => format_duration(spec.late_after),
        "retry" => retry(&spec.retry),
        "timeout" => format_duration(spec.timeout),
        "delivery" => match spec.delivery {
            Delivery::AtLeastOnce => "at-least-once".to_owned(),
            Delivery::AtMostOnce => "at-most-once".to_owned(),
        },
        "queue" => spec.queue.to_string(),
        "priority" => (spec.priority != Priority::default()).then(|| spec.priority.to_string())?,
        "requires" => {
            let labels: Vec<&str> = spec.requires.iter().map(Label::as_str).collect();
            (!labels.is_empty()).then(|| labels.join(", "))?
        }
        "jitter" | "splay" => {
            let shift = if key == "jitter" { spec.shape.jitter } else { spec.shape.splay };
            (!shift.is_zero()).then(|| format_duration(shift))?
        }
        "skip_if_late" => format_duration(spec.shape.skip_if_late?),
        "max_runs" => spec.shape.max_runs?.to_string(),
        "done_check" => spec.done_check.as_ref().map(|_| "a command or request".to_owned())?,
        _ => return None,
    })
}

fn catch_up(rule: &CatchUp) -> String {
    let age = rule
        .max_age
        .map(|age| format!(", not older than {}", format_duration(age)))
        .unwrap_or_default();
    let spread = rule
        .spread
        .map(|time| format!(", spread over {}", format_duration(time)))
        .unwrap_or_default();
    let most = match rule.mode {
        CatchUpMode::All => format!(", max_count = {}", rule.max_count),
        CatchUpMode::Skip | CatchUpMode::Latest => String::new(),
    };
    format!("{}{age}{most}{spread}", mode_word(rule.mode))
}

fn retry(rule: &RetryRule) -> String {
    match rule.limit {
        0 => "0".to_owned(),
        1 => format!("once, after {delay}", delay = format_duration(rule.delay)),
        limit => format!(
            "{limit} times, the first time after {delay}",
            delay = format_duration(rule.delay)
        ),
    }
}
