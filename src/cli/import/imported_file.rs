//! The text of the jobs file that is made from crontabs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::imported_crontab::{FilePart, ImportedCrontab};
use super::imported_job::ImportedJob;
use super::toml_text::toml_comment;
use schedd_schedule::names::NodeName;

/// The rules of cron that are not the rules of schedd, each with the reason why it is written.
const RULES: [(&str, &str, &str); 4] = [
    (
        "overlap",
        "\"allow\"",
        "cron starts a command although its last run still goes on. \"skip\" would not.",
    ),
    (
        "catch_up",
        "\"skip\"",
        "cron does not run what came due while the host was down. \"latest\" would.",
    ),
    (
        "delivery",
        "\"at-most-once\"",
        "cron never starts a run again. \"at-least-once\" repeats a run whose host died.",
    ),
    ("timeout", "\"30d\"", "cron has no time limit. This is the longest that schedd has."),
];

/// The keys that may move to `[defaults]`, each with the value that stands for a missing key. A key
/// without such a value moves only if all jobs have it.
const SHARED: [(&str, Option<&str>, &str); 8] = [
    ("tz", None, "The zone in which cron counts: that of its host, or CRON_TZ."),
    ("user", None, "The owner of the crontab."),
    ("splay", None, "RANDOM_DELAY."),
    (
        "env",
        Some("{}"),
        "The variables of the crontab. A job with other variables lists all of its own.",
    ),
    ("cwd", None, "HOME, where cron starts a command."),
    ("shell_program", Some("\"/bin/sh\""), "SHELL."),
    ("on_failure", Some("false"), "MAILTO, for a run that failed."),
    ("on_success", Some("false"), "MAILTO, for a run that printed a text."),
];

/// Returns the text of the jobs file. `origin` names the crontabs, and `on` is the node that runs
/// the jobs, or `None` for any node.
pub(super) fn written(imported: &ImportedCrontab, origin: &str, on: Option<&NodeName>) -> String {
    let mut text =
        format!("{}\n", toml_comment(&format!("Made from {origin} by schedctl import crontab.")));
    for remark in &imported.remarks {
        line(&mut text, &toml_comment(remark));
    }
    text.push_str("\n[defaults]\n");
    if let Some(node) = on {
        let why =
            "cron executes a crontab on its own host. Without this key any one host runs a job.";
        line(&mut text, &format!("# {why}\non = \"{node}\""));
    }
    for (key, value, why) in RULES {
        line(&mut text, &format!("# {why}\n{key} = {value}"));
    }
    let defaults = defaults(&imported.jobs);
    for (key, _, what) in SHARED {
        if let Some(value) = defaults.get(key) {
            line(&mut text, &format!("# {what}\n{key} = {value}"));
        }
    }
    text.push('\n');
    let mut is_apart = true;
    for part in &imported.parts {
        match part {
            FilePart::Blank if is_apart => continue,
            FilePart::Blank => text.push('\n'),
            FilePart::Comment(comment) => line(&mut text, &toml_comment(comment)),
            FilePart::Job(index) => {
                if let Some(job) = imported.jobs.get(*index) {
                    text.push_str(&table(job, &defaults));
                }
            }
        }
        is_apart = !matches!(part, FilePart::Comment(_));
    }
    format!("{}\n", text.trim_end())
}

fn line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

/// Returns the most frequent value of each shared key that is worth a default.
fn defaults(jobs: &[ImportedJob]) -> BTreeMap<&'static str, String> {
    let mut defaults = BTreeMap::new();
    for (key, neutral, _) in SHARED {
        let values: Option<Vec<&str>> = jobs.iter().map(|job| job.value(key).or(neutral)).collect();
        let Some(values) = values else { continue };
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for value in values {
            match counts.iter_mut().find(|(known, _)| *known == value) {
                Some((_, count)) => *count += 1,
                None => counts.push((value, 1)),
            }
        }
        // Of several equally frequent values the first wins.
        let most = counts.iter().rev().max_by_key(|(_, count)| *count);
        // A job cannot be without a key that has no value for that, so such a value must be of all.
        if let Some((value, _)) = most.filter(|(value, _)| Some(*value) != neutral) {
            defaults.insert(key, (*value).to_owned());
        }
    }
    defaults
}

/// Returns the table of a job, without the keys that the defaults give.
fn table(job: &ImportedJob, defaults: &BTreeMap<&'static str, String>) -> String {
    let mut text = String::new();
    line(
        &mut text,
        &format!("[jobs.{}]  {}", job.name, toml_comment(&format!("line {}", job.place.number))),
    );
    for (key, value) in &job.keys {
        if defaults.get(key) != Some(value) {
            line(&mut text, &format!("{key} = {value}"));
        }
    }
    for (key, neutral, _) in SHARED {
        if let (None, Some(neutral), true) = (job.value(key), neutral, defaults.contains_key(key)) {
            line(&mut text, &format!("{key} = {neutral}"));
        }
    }
    text.push('\n');
    text
}
