//! The output of `diff` and `apply`: lines for each job that differs, or one JSON document.

use serde_json::{Value, json};

use crate::cli::failure::CliFailure;
use crate::cli::render::{Colour, Console, key_change, one_line};
use schedd::engine::planning::file_change::{
    AppliedChange, ApplyState, Comparison, JobStanding, LastChange, PlannedChange, Prune,
    SectionStanding,
};
use schedd_core::config::KeyChange;
use schedd_core::domain::name::job_source::SourceName;
use schedd_store::Section;

/// Prints the differences between the jobs file and the live jobs: a line for each job that
/// differs, and one more line for each further key that differs.
pub(super) fn comparison(
    comparison: &Comparison,
    said: &LastChange<'_>,
    prune: Prune,
    console: &mut Console,
) {
    for SectionStanding { section, standing } in &comparison.sections {
        let (kind, name) = match section {
            Section::Queue(queue) => ("queue", format!("queue {queue}")),
            Section::Group(group) => ("group", format!("group {group}")),
        };
        report((kind, &name), standing, &[], prune, console);
    }
    for JobStanding { name, standing, others, .. } in &comparison.jobs {
        // A job that is over is reported only if the file still has the job. `apply` removes any
        // other job that is over from the file's list of jobs without a message.
        if *standing != ApplyState::Over || said.jobs.contains_key(name) {
            report(("job", name.as_str()), standing, others, prune, console);
        }
    }
}

/// Prints how a job, queue or group differs from the file. The pair is its kind and its name.
fn report(
    (kind, name): (&str, &str),
    standing: &ApplyState,
    others: &[SourceName],
    prune: Prune,
    console: &mut Console,
) {
    if console.is_json() {
        return;
    }
    let elsewhere = || others.iter().map(SourceName::words).collect::<Vec<_>>().join(" and ");
    let (sign, colour, texts) = match standing {
        ApplyState::Same => return,
        ApplyState::New => ('+', Colour::Green, vec!["new".to_owned()]),
        ApplyState::Changed(keys) => {
            let mut texts: Vec<String> = keys.iter().map(key_change).collect();
            if texts.is_empty() {
                texts.push("the stored definition cannot be read and is replaced".to_owned());
            }
            if !others.is_empty() {
                texts.push(format!("also defined in {}; the last change wins", elsewhere()));
            }
            ('~', Colour::Yellow, texts)
        }
        ApplyState::Overruled(_, by) => {
            let by = by.as_ref().map_or_else(|| "another file".to_owned(), SourceName::words);
            return console.note(&format!(
                "job {name}: the node already applied this definition; {by} changed the job later, and that change wins"
            ));
        }
        ApplyState::NameTaken => (
            '!',
            Colour::Red,
            vec!["not applied: the name belongs to a job added with schedctl add".to_owned()],
        ),
        ApplyState::Over => {
            return console.note(&format!("job {name} gets no run, because its last time is past"));
        }
        ApplyState::Gone if !others.is_empty() => (
            '-',
            Colour::Dim,
            vec![format!(
                "no longer in the file, but kept because the job is also in {}",
                elsewhere()
            )],
        ),
        ApplyState::Gone if prune == Prune::No => (
            '-',
            Colour::Dim,
            vec![format!("no longer in the file, but kept; --prune removes the {kind}")],
        ),
        ApplyState::Gone => ('-', Colour::Red, vec!["no longer in the file".to_owned()]),
    };
    for (index, text) in texts.iter().enumerate() {
        let head = if index == 0 { format!("{sign} {name}") } else { String::new() };
        let head = format!("{head:<26}");
        console.line(&format!("{} {}", console.paint(&head, colour), one_line(text)));
    }
}

/// Prints the planned changes that `apply` could not make.
pub(super) fn changes(done: &[AppliedChange], console: &mut Console) {
    for AppliedChange { name, change } in done {
        match change {
            PlannedChange::Failed(why) => {
                console.failure(&CliFailure::Failed(format!("job {name}: {why}")));
            }
            PlannedChange::NameTaken => {
                console.failure(&CliFailure::Conflict(format!(
                    "job {name} is not applied: the name belongs to a job added with schedctl add"
                )));
            }
            PlannedChange::Past(at) => {
                console.note(&format!("job {name} gets no run, because its time {at} is past"));
            }
            PlannedChange::Added(_)
            | PlannedChange::Changed(_)
            | PlannedChange::Removed
            | PlannedChange::LeftToOthers
            | PlannedChange::Nothing => {}
        }
    }
}

/// Returns the summary line of `apply`: the numbers of jobs that were added, changed, removed and
/// unchanged. For `--dry-run`, these are the numbers of jobs that would be added, and so on.
pub(super) fn summary(
    comparison: &Comparison,
    said: &LastChange<'_>,
    prune: Prune,
    is_dry: bool,
) -> String {
    let count =
        |counts: fn(&JobStanding) -> bool| comparison.jobs.iter().filter(|job| counts(job)).count();
    let added = count(|job| job.standing == ApplyState::New);
    let changed = count(|job| matches!(job.standing, ApplyState::Changed(_)));
    let gone = count(|job| job.standing == ApplyState::Gone && job.others.is_empty());
    let same = count(|job| job.standing == ApplyState::Same);
    let (removed, kept) = if prune == Prune::Yes { (gone, 0) } else { (0, gone) };
    let kept =
        if kept > 0 { format!(", {kept} no longer in the file but kept") } else { String::new() };
    let dry = if is_dry { " (--dry-run: nothing was changed)" } else { "" };
    format!(
        "{}: {added} added, {changed} changed, {removed} removed, {same} unchanged{kept}{dry}",
        said.source
    )
}

/// Returns the comparison of file and live jobs as one JSON document.
pub(super) fn document(
    file: &str,
    said: &LastChange<'_>,
    comparison: &Comparison,
    done: &[AppliedChange],
) -> Value {
    let job = |job: &JobStanding| {
        let change = done.iter().find(|done| done.name == job.name);
        let others: Vec<&str> = job.others.iter().map(SourceName::as_str).collect();
        json!({
            "job": job.name.as_str(),
            "change": word(&job.standing),
            "keys": keys(&job.standing),
            "also_in": others,
            "result": change.map(|done| result(&done.change)),
        })
    };
    let section = |section: &SectionStanding| {
        let (kind, name) = match &section.section {
            Section::Queue(queue) => ("queue", queue.as_str()),
            Section::Group(group) => ("group", group.as_str()),
        };
        json!({"kind": kind, "name": name, "change": word(&section.standing), "keys": keys(&section.standing)})
    };
    json!({
        "file": file,
        "source": said.source.as_str(),
        "differs": comparison.differs(Prune::Yes),
        "jobs": comparison.jobs.iter().map(job).collect::<Vec<_>>(),
        "sections": comparison.sections.iter().map(section).collect::<Vec<_>>(),
    })
}

fn word(standing: &ApplyState) -> &'static str {
    match standing {
        ApplyState::Same => "none",
        ApplyState::New => "added",
        ApplyState::Changed(_) => "changed",
        ApplyState::Overruled(..) => "overruled",
        ApplyState::NameTaken => "name_taken",
        ApplyState::Over => "over",
        ApplyState::Gone => "removed",
    }
}

fn keys(standing: &ApplyState) -> Value {
    let (ApplyState::Changed(keys) | ApplyState::Overruled(keys, _)) = standing else {
        return json!([]);
    };
    keys.iter()
        .map(|KeyChange { key, old, new }| json!({"key": key, "old": old, "new": new}))
        .collect()
}

fn result(change: &PlannedChange) -> &'static str {
    match change {
        PlannedChange::Added(_) => "created",
        PlannedChange::Changed(_) => "updated",
        PlannedChange::Removed => "removed",
        PlannedChange::LeftToOthers => "unlisted",
        PlannedChange::Nothing => "unchanged",
        PlannedChange::NameTaken => "name_taken",
        PlannedChange::Past(_) => "past",
        PlannedChange::Failed(_) => "failed",
    }
}
