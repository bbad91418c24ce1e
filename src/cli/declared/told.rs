//! The output of `diff` and `apply`: a line for each job that differs, or one JSON document.

use serde_json::{Value, json};

use crate::cli::render::{Colour, Console, key_change, one_line};
use crate::config::KeyChange;
use crate::domain::source::SourceName;
use crate::engine::applying::{Comparison, Deed, Done, JobStanding, Prune, Said, SectionStanding, Standing};
use crate::store::Section;

/// Prints the differences: a line for each job, and one for each further key.
pub(super) fn comparison(comparison: &Comparison, said: &Said<'_>, prune: Prune, console: &mut Console) {
    for SectionStanding { section, standing } in &comparison.sections {
        let name = match section {
            Section::Queue(queue) => format!("queue {queue}"),
            Section::Group(group) => format!("group {group}"),
        };
        tell(&name, standing, &[], prune, console);
    }
    for JobStanding { name, standing, others, .. } in &comparison.jobs {
        // A list that still names a job that is over is corrected without a message.
        if *standing != Standing::Over || said.jobs.contains_key(name) {
            tell(name.as_str(), standing, others, prune, console);
        }
    }
}

fn tell(name: &str, standing: &Standing, others: &[SourceName], prune: Prune, console: &mut Console) {
    if console.is_json() {
        return;
    }
    let elsewhere = || others.iter().map(SourceName::words).collect::<Vec<_>>().join(" and ");
    let (sign, colour, texts) = match standing {
        Standing::Same => return,
        Standing::New => ('+', Colour::Green, vec!["new".to_owned()]),
        Standing::Changed(keys) => {
            let mut texts: Vec<String> = keys.iter().map(key_change).collect();
            if texts.is_empty() {
                texts.push("its stored definition cannot be read and is replaced".to_owned());
            }
            if !others.is_empty() {
                texts.push(format!("also in {}: the last change wins", elsewhere()));
            }
            ('~', Colour::Yellow, texts)
        }
        Standing::Overruled(_, by) => {
            let by = by.as_ref().map_or_else(|| "another file".to_owned(), SourceName::words);
            return console.note(&format!(
                "job {name}: the node applied this text before; {by} changed the job since, and that change wins"
            ));
        }
        Standing::Held => ('!', Colour::Red, vec!["left out: the name belongs to a job added by schedctl".to_owned()]),
        Standing::Over => return console.note(&format!("job {name}: its last time is past, nothing is planted")),
        Standing::Gone if !others.is_empty() => {
            ('-', Colour::Dim, vec![format!("no longer in the file, and kept: it is also in {}", elsewhere())])
        }
        Standing::Gone if prune == Prune::No => {
            ('-', Colour::Dim, vec!["no longer in the file, and kept: --prune removes it".to_owned()])
        }
        Standing::Gone => ('-', Colour::Red, vec!["no longer in the file".to_owned()]),
    };
    for (index, text) in texts.iter().enumerate() {
        let head = if index == 0 { format!("{sign} {name}") } else { String::new() };
        let head = format!("{head:<26}");
        console.line(&format!("{} {}", console.paint(&head, colour), one_line(text)));
    }
}

/// Prints what could not be done as compared.
pub(super) fn deeds(done: &[Done], console: &mut Console) {
    for Done { name, deed } in done {
        match deed {
            Deed::Failed(why) => console.error(&format!("job {name}: {why}")),
            Deed::Held => console.error(&format!("job {name} left out: its name belongs to a job added by schedctl")),
            Deed::Past(at) => console.note(&format!("job {name}: its time {at} is past; nothing is planted")),
            Deed::Added(_) | Deed::Changed(_) | Deed::Removed | Deed::LeftToOthers | Deed::Nothing => {}
        }
    }
}

/// Returns the summary line: how many jobs were, or would be, changed.
pub(super) fn summary(comparison: &Comparison, said: &Said<'_>, prune: Prune, is_dry: bool) -> String {
    let count = |counts: fn(&JobStanding) -> bool| comparison.jobs.iter().filter(|job| counts(job)).count();
    let added = count(|job| job.standing == Standing::New);
    let changed = count(|job| matches!(job.standing, Standing::Changed(_)));
    let gone = count(|job| job.standing == Standing::Gone && job.others.is_empty());
    let same = count(|job| job.standing == Standing::Same);
    let (removed, kept) = if prune == Prune::Yes { (gone, 0) } else { (0, gone) };
    let kept = if kept > 0 { format!(", {kept} no longer in the file kept") } else { String::new() };
    let dry = if is_dry { " (nothing done: --dry-run)" } else { "" };
    format!("{}: {added} added, {changed} changed, {removed} removed, {same} as before{kept}{dry}", said.source)
}

/// Returns the comparison as one JSON document.
pub(super) fn document(file: &str, said: &Said<'_>, comparison: &Comparison, done: &[Done]) -> Value {
    let job = |job: &JobStanding| {
        let deed = done.iter().find(|done| done.name == job.name);
        let others: Vec<&str> = job.others.iter().map(SourceName::as_str).collect();
        json!({
            "name": job.name.as_str(),
            "change": word(&job.standing),
            "keys": keys(&job.standing),
            "also_in": others,
            "result": deed.map(|done| result(&done.deed)),
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

fn word(standing: &Standing) -> &'static str {
    match standing {
        Standing::Same => "none",
        Standing::New => "added",
        Standing::Changed(_) => "changed",
        Standing::Overruled(..) => "overruled",
        Standing::Held => "left_out",
        Standing::Over => "over",
        Standing::Gone => "removed",
    }
}

fn keys(standing: &Standing) -> Value {
    let (Standing::Changed(keys) | Standing::Overruled(keys, _)) = standing else { return json!([]) };
    keys.iter().map(|KeyChange { key, old, new }| json!({"key": key, "old": old, "new": new})).collect()
}

fn result(deed: &Deed) -> &'static str {
    match deed {
        Deed::Added(_) => "created",
        Deed::Changed(_) => "updated",
        Deed::Removed => "removed",
        Deed::LeftToOthers => "unlisted",
        Deed::Nothing => "unchanged",
        Deed::Held => "left_out",
        Deed::Past(_) => "past",
        Deed::Failed(_) => "failed",
    }
}
