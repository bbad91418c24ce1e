//! Which rule decided, what it says and where it is set; and what comes next.

use std::time::Duration;

use super::became::Became;
use super::facts::{Facts, Source, Subject};
use super::on_time::mode_word;
use super::sentences::{by_words, files, findings};
use super::timing::Timing;
use crate::domain::deed::Deed;
use crate::domain::duration::format_duration;
use crate::domain::ids::Label;
use crate::domain::job::{Action, CatchUp, CatchUpMode, Delivery, JobSpec, Overlap, Retry};
use crate::domain::lane::Priority;
use crate::domain::run::RunState;
use crate::domain::schedule::Schedule;
use crate::domain::time::UnixMillis;
use crate::domain::wording::shown;
use crate::domain::zone::Zone;

findings! {
    /// A rule that decided.
    Rule {
        /// One no text names.
        "default" Default {
            /// The key.
            key: &'static str,
            /// What it says.
            value: String,
        },
        /// One that files set.
        "set_in_file" SetInFile {
            /// The key.
            key: &'static str,
            /// What it says.
            value: String,
            /// The job.
            job: String,
            /// The files that list it, by their sources.
            nodes: Vec<String>,
        },
        /// One that was set on the command line.
        "set_by" SetBy {
            /// The key.
            key: &'static str,
            /// What it says.
            value: String,
            /// Who changed the job last.
            by: Option<String>,
        },
    }
}

impl Rule {
    /// In plain words.
    pub fn sentence(&self, _: &Zone) -> String {
        match self {
            Self::Default { key, value } => format!("{key} = {value}, which is the default."),
            Self::SetInFile { key, value, job, nodes } => {
                format!("{key} = {value}, set in [jobs.{job}] or [defaults] of {}.", files(nodes))
            }
            Self::SetBy { key, value, by } => format!("{key} = {value}, set with schedctl add{}.", by_words(by.as_ref())),
        }
    }
}

findings! {
    /// What comes next.
    Next {
        /// The next occurrence.
        "next" At {
            /// When.
            at: UnixMillis,
        },
        /// It is due already.
        "next_owed" Owed {
            /// Since when.
            at: UnixMillis,
        },
        /// Nothing while it is paused.
        "next_paused" Paused,
        /// What is made up for goes on by itself.
        "next_made_up" MadeUp {
            /// How many occurrences.
            count: u64,
        },
        /// Only what is asked for.
        "next_manual" Manual {
            /// The job.
            job: String,
        },
        /// Nothing: the job is over.
        "next_over" Over,
        /// With the next boot of a host.
        "next_boot" AtBoot,
        /// Nothing: the schedule has come to its end.
        "next_none" Nothing,
        /// One after the end of a run that is not over.
        "next_after_end" AfterEnd {
            /// How long after it.
            delay: Duration,
        },
        /// Nothing: as many runs have begun as may.
        "next_used_up" UsedUp,
    }
}

impl Next {
    /// In plain words.
    pub fn sentence(&self, zone: &Zone) -> String {
        match self {
            Self::At { at } => format!("The next occurrence is due {}.", shown(*at, zone)),
            Self::Owed { at } => format!("The next to start has been due since {}.", shown(*at, zone)),
            Self::Paused => "Nothing comes by its schedule while it is paused; schedctl resume lets it go on.".to_owned(),
            Self::MadeUp { count: 1 } => "One past occurrence is still to be made up for, which no pause holds.".to_owned(),
            Self::MadeUp { count } => {
                format!("{count} past occurrences are still to be made up for, one after the other, which no pause holds.")
            }
            Self::Manual { job } => format!("Nothing comes by itself; schedctl run {job} runs it."),
            Self::Over => "Nothing comes any more.".to_owned(),
            Self::AtBoot => "It runs again after the next boot of a host.".to_owned(),
            Self::Nothing => "Its schedule has no further time.".to_owned(),
            Self::AfterEnd { delay } => {
                format!("The next is due {} after the end of a run that is not over.", format_duration(*delay))
            }
            Self::UsedUp => "As many of its runs have begun as max_runs lets.".to_owned(),
        }
    }
}

/// The rules that decided what is told in `became` and `timing`, each once.
pub(super) fn rules(facts: &Facts, became: &[Became], timing: &[Timing]) -> Vec<Rule> {
    let Some(Ok((spec, _))) = facts.job.as_ref().map(|job| job.definition.as_ref()) else { return Vec::new() };
    let plain = JobSpec::with_defaults(Schedule::Manual, Action::Shell(String::new()));
    let mut keys: Vec<&'static str> = became.iter().flat_map(|found| keys_of(found)).copied().collect();
    if !late_after_skipped(facts, spec) {
        keys.retain(|key| *key != "late_after");
    }
    keys.extend(timing.iter().flat_map(|found| keys_of_timing(found)).copied());
    if matches!(facts.subject, Subject::Job { .. }) && spec.schedule != Schedule::Manual {
        keys.extend(["overlap", "catch_up"]);
    }
    let mut seen: Vec<&'static str> = Vec::new();
    keys.retain(|key| {
        !seen.contains(key) && {
            seen.push(key);
            true
        }
    });
    keys.into_iter().filter_map(|key| rule(facts, key, value(spec, key)?, value(&plain, key).as_ref())).collect()
}

/// Whether what was skipped was so because it was late, and not because a later occurrence was due too.
fn late_after_skipped(facts: &Facts, spec: &JobSpec) -> bool {
    let Some(run) = facts.run().filter(|run| run.state == RunState::Skipped) else { return true };
    let last = run.skipped.map_or_else(|| run.run.due(), |(last, _)| last);
    let Some(Ok((_, timetable))) = facts.job.as_ref().map(|job| job.definition.as_ref()) else { return true };
    let is_newest = timetable.next_after(last).is_none_or(|next| run.finished_at.is_none_or(|ended| ended < next));
    spec.catch_up.mode == CatchUpMode::Skip && is_newest
}

fn keys_of(found: &Became) -> &'static [&'static str] {
    match found {
        Became::SkippedOverlap { .. } | Became::Waits { .. } | Became::Replaced => &["overlap"],
        Became::WaitsAt { .. } | Became::GaveUpPlace { .. } => &["group", "not_while", "key", "per_key"],
        Became::SkippedMissed | Became::SkippedAfterLoss => &["skip_if_late", "catch_up", "late_after"],
        Became::SkippedUsedUp => &["max_runs"],
        Became::BehindOwed { .. } | Became::SpreadTo { .. } => &["catch_up", "late_after"],
        Became::Failed { .. } | Became::RetryAt { .. } => &["retry"],
        Became::TimedOut => &["timeout", "retry"],
        Became::Lost { .. } => &["delivery"],
        Became::AskedInVain { .. } => &["done_check", "retry"],
        Became::AlreadyDone | Became::AskAt { .. } => &["done_check"],
        Became::Open { what, .. } => keys_of(what),
        _ => &[],
    }
}

fn keys_of_timing(found: &Timing) -> &'static [&'static str] {
    match found {
        Timing::Behind { .. } => &["overlap"],
        Timing::AtGate { .. } => &["group", "not_while", "key", "per_key"],
        Timing::Spread { .. } | Timing::CaughtUp { .. } => &["catch_up", "late_after"],
        Timing::Shifted { .. } => &["jitter", "splay"],
        Timing::Slots { .. } | Timing::SlotsNow { .. } => &["queue", "priority"],
        Timing::Unserved { .. } => &["queue", "requires"],
        _ => &[],
    }
}

fn rule(facts: &Facts, key: &'static str, value: String, default: Option<&String>) -> Option<Rule> {
    let job = facts.job.as_ref()?;
    // Nobody sets a rule of what tells of a job.
    if default == Some(&value) || facts.name.is_hidden() {
        return Some(Rule::Default { key, value });
    }
    Some(match &job.source {
        Source::File(nodes) => Rule::SetInFile { key, value, job: facts.name.to_string(), nodes: nodes.clone() },
        Source::Api => {
            let edited = facts.deed_before(Deed::EDITED, facts.now).and_then(|deed| deed.by.clone());
            let by = edited.or_else(|| job.created.as_ref().and_then(|(_, by)| by.clone()));
            Rule::SetBy { key, value, by }
        }
    })
}

/// What a rule says, in the words of `jobs.toml`; none for one the job does not have.
fn value(spec: &JobSpec, key: &str) -> Option<String> {
    Some(match key {
        "overlap" => match spec.overlap {
            Overlap::Skip => "skip".to_owned(),
            Overlap::Queue { max: 1 } => "queue".to_owned(),
            Overlap::Queue { max } => format!("queue, at most {max} waiting"),
            Overlap::Replace => "replace".to_owned(),
            Overlap::Allow => "allow".to_owned(),
        },
        "catch_up" => catch_up(&spec.catch_up),
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
        "done_check" => spec.done_check.as_ref().map(|_| "a question of its own".to_owned())?,
        _ => return None,
    })
}

fn catch_up(rule: &CatchUp) -> String {
    let age = rule.max_age.map(|age| format!(", not older than {}", format_duration(age))).unwrap_or_default();
    let spread = rule.spread.map(|time| format!(", spread over {}", format_duration(time))).unwrap_or_default();
    format!("{}{age}{spread}", mode_word(rule.mode))
}

fn retry(rule: &Retry) -> String {
    match rule.limit {
        0 => "0".to_owned(),
        1 => format!("once, after {}", format_duration(rule.delay)),
        limit => format!("{limit} times, after {} at first", format_duration(rule.delay)),
    }
}

/// What comes next.
pub(super) fn next(facts: &Facts) -> Vec<Next> {
    let mut found = by_schedule(facts);
    if facts.making_up > 0 {
        found.push(Next::MadeUp { count: facts.making_up });
    }
    found
}

/// What comes next by the schedule.
fn by_schedule(facts: &Facts) -> Vec<Next> {
    let Some(job) = facts.job.as_ref().filter(|job| job.ended.is_none()) else { return vec![Next::Over] };
    if job.paused_at.is_some() {
        return vec![Next::Paused];
    }
    let Ok((spec, timetable)) = &job.definition else { return Vec::new() };
    if spec.schedule == Schedule::Manual {
        return vec![Next::Manual { job: facts.name.to_string() }];
    }
    let is_subject = |due: UnixMillis| facts.run().is_some_and(|run| !run.run.is_manual() && run.run.due() == due);
    let is_planned = job.pending.is_some();
    let is_told = job.pending.is_some_and(is_subject);
    let is_used_up = !is_planned && job.runs_left == Some(0) || is_told && job.runs_left == Some(1);
    vec![match job.pending {
        _ if is_used_up && spec.schedule.is_at_boot() => Next::AtBoot,
        _ if is_used_up => Next::UsedUp,
        Some(due) if is_told => match timetable.next_after(due.max(job.since)) {
            Some(at) if at <= facts.now && spec.catch_up.mode == CatchUpMode::All => Next::Owed { at },
            Some(at) if at <= facts.now => timetable.next_after(facts.now).map_or(Next::Nothing, |at| Next::At { at }),
            Some(at) => Next::At { at },
            None => without_time(spec),
        },
        Some(due) if due > facts.now => Next::At { at: due },
        Some(at) => Next::Owed { at },
        None => without_time(spec),
    }]
}

/// What comes of a schedule that names no further time.
fn without_time(spec: &JobSpec) -> Next {
    match spec.schedule {
        Schedule::Delay(delay) => Next::AfterEnd { delay },
        _ if spec.schedule.is_at_boot() => Next::AtBoot,
        _ => Next::Nothing,
    }
}
