//! What was planned: by which schedule, who put it there, and what was done to it since.

use super::facts::{Facts, JobFacts, Source, Subject};
use super::held::{past_at, schedule_since};
use super::sentences::{by_words, files, findings};
use crate::domain::days::Days;
use crate::domain::deed::Deed;
use crate::domain::ids::RunKind;
use crate::domain::schedule::{LeftOut, Schedule};
use crate::domain::time::UnixMillis;
use crate::domain::wording::{shown, shown_exactly};
use crate::domain::zone::Zone;

/// Changes of a schedule that are told, the newest.
const EDITS: usize = 5;

findings! {
    /// What was planned.
    Planned {
        /// The schedule that holds now.
        "schedule" Schedule {
            /// In words.
            text: String,
            /// Since when.
            since: UnixMillis,
        },
        /// The schedule that held at the time, which is another now.
        "schedule_then" ScheduleThen {
            /// In words.
            text: String,
        },
        /// The schedule that held at the time is not known.
        "schedule_unknown" ScheduleUnknown {
            /// The one of now, in words.
            text: String,
            /// Since when that holds.
            since: UnixMillis,
        },
        /// It has none.
        "manual" Manual,
        /// It tells of the runs of another job.
        "notice" Notice {
            /// That job.
            of: String,
            /// In which case, by its key.
            kind: &'static str,
        },
        /// Its definition is spoilt.
        "unreadable" Unreadable {
            /// Why.
            why: String,
        },
        /// It comes from files.
        "of_file" OfFile {
            /// The job.
            job: String,
            /// The files that list it, by their sources.
            nodes: Vec<String>,
        },
        /// It comes from the command line.
        "added" Added {
            /// Who.
            by: Option<String>,
            /// When.
            at: Option<UnixMillis>,
        },
        /// It was a one-shot, which is over.
        "finished" Finished {
            /// When.
            at: Option<UnixMillis>,
        },
        /// It was taken out.
        "removed" Removed {
            /// Who.
            by: Option<String>,
            /// When.
            at: Option<UnixMillis>,
        },
        /// Only its runs are kept.
        "forgotten" Forgotten,
        /// It was added by `schedctl`, and went with data that Redis lost.
        "gone_at_loss" GoneAtLoss {
            /// When it was to run.
            schedule: String,
            /// When the loss was noticed.
            noticed: UnixMillis,
        },
        /// What was done to it cannot be read.
        "spoilt_deeds" SpoiltDeeds {
            /// Why.
            why: String,
        },
        /// It is paused now.
        "paused" Paused {
            /// Who.
            by: Option<String>,
            /// Since when.
            since: UnixMillis,
        },
        /// The run was asked for by hand.
        "asked_for" AskedFor {
            /// Who.
            by: Option<String>,
            /// When.
            at: UnixMillis,
        },
        /// The run makes up for an occurrence of the past.
        "made_up" MadeUp {
            /// The occurrence.
            due: UnixMillis,
        },
        /// The run does the work of another anew.
        "done_anew" DoneAnew {
            /// Who asked for it.
            by: Option<String>,
            /// The due time of that run.
            due: UnixMillis,
        },
        /// The run came with a boot of a host.
        "booted" Booted {
            /// When schedd started.
            at: UnixMillis,
        },
        /// Nothing was due at that instant.
        "not_due" NotDue {
            /// The instant.
            at: UnixMillis,
        },
        /// It was added after that instant.
        "not_there_yet" NotThereYet {
            /// Who added it.
            by: Option<String>,
            /// When.
            at: UnixMillis,
        },
        /// The schedule names that instant, and a key leaves it out.
        "left_out" LeftOut {
            /// The key.
            key: &'static str,
            /// What it says.
            value: String,
        },
        /// The occurrences around it.
        "nearest" Nearest {
            /// Before.
            before: Option<UnixMillis>,
            /// After.
            after: Option<UnixMillis>,
        },
        /// The schedule was changed after that instant.
        "edited" Edited {
            /// When.
            at: UnixMillis,
            /// Who.
            by: Option<String>,
            /// What it was.
            old: String,
            /// What it became.
            new: String,
        },
    }
}

impl Planned {
    /// In plain words.
    pub fn sentence(&self, zone: &Zone) -> String {
        let on = |at: &Option<UnixMillis>| at.map_or_else(String::new, |at| format!(" on {}", shown(at, zone)));
        match self {
            Self::Schedule { text, since } => format!("Its schedule is {text}, since {}.", shown(*since, zone)),
            Self::ScheduleThen { text } => format!("Its schedule at that time was {text}."),
            Self::ScheduleUnknown { text, since } => format!(
                "Which schedule it had at that time is not known; that of now, {text}, holds since {}.",
                shown(*since, zone)
            ),
            Self::Manual => "It has no schedule: it runs only when asked.".to_owned(),
            Self::Notice { of, kind } => {
                format!(
                    "It is a notice, {kind} of job {of}: it has no schedule, and each of its runs tells of a run of that job."
                )
            }
            Self::Unreadable { why } => format!("Its definition cannot be read, so nothing of it runs: {why}."),
            Self::OfFile { job, nodes } => {
                format!("It is set in [jobs.{job}] of {}.", files(nodes))
            }
            Self::Added { by: None, at } => format!("It was added by schedctl{}; by whom is not known.", on(at)),
            Self::Added { by: Some(by), at } => format!("It was added by {by}{}.", on(at)),
            Self::Finished { at } => format!("It was a one-shot and is over{}.", on(at)),
            Self::Removed { by, at } => {
                format!("The job is no longer defined: it was removed{}{}.", by_words(by.as_ref()), on(at))
            }
            Self::GoneAtLoss { schedule, noticed } => format!(
                "It was added by schedctl ({schedule}) and is gone since Redis lost data, noticed on {}; no file brings it back.",
                shown(*noticed, zone)
            ),
            Self::Forgotten => "The job is no longer defined, and its definition is no longer kept.".to_owned(),
            Self::SpoiltDeeds { why } => format!("What was done to it, and by whom, cannot be told: {why}."),
            Self::Paused { by, since } => format!("It is paused{} since {}.", by_words(by.as_ref()), shown(*since, zone)),
            Self::AskedFor { by, at } => format!("It was asked for by hand{} on {}.", by_words(by.as_ref()), shown(*at, zone)),
            Self::MadeUp { due } => {
                format!("It makes up for the occurrence of {}: schedctl backfill asked for it.", shown(*due, zone))
            }
            Self::DoneAnew { by, due } => {
                format!("It does the work of {} anew: schedctl rerun asked for it{}.", shown(*due, zone), by_words(by.as_ref()))
            }
            Self::Booted { at } => {
                format!("It came with a boot of its host: the first schedd there started on {}.", shown(*at, zone))
            }
            Self::NotDue { at } => format!("It was not due at {}.", shown_exactly(*at, zone)),
            Self::NotThereYet { by, at } => {
                format!("It was not there yet: it was added on {}{}.", shown(*at, zone), by_words(by.as_ref()))
            }
            Self::LeftOut { key, value } => format!("Its schedule names that time, and {key} = {value} leaves it out."),
            Self::Nearest { before, after } => {
                let told = |word: &str, at: &Option<UnixMillis>| match at {
                    Some(at) => format!("the time {word} is {}", shown(*at, zone)),
                    None => format!("there is no time {word}"),
                };
                let text = format!("{}, {}.", told("before", before), told("after", after));
                text.replacen('t', "T", 1)
            }
            // The text of a schedule says neither what is left out of it nor what it counts from.
            Self::Edited { at, by, old, new } if old == new => format!(
                "What of its schedule {new} counts was changed{} on {}: exclude, only_on, start, end, anchor or dst.",
                by_words(by.as_ref()),
                shown(*at, zone)
            ),
            Self::Edited { at, by, old, new } => {
                format!("Its schedule was changed{} on {} from {old} to {new}.", by_words(by.as_ref()), shown(*at, zone))
            }
        }
    }
}

/// What was planned.
pub(super) fn planned(facts: &Facts) -> Vec<Planned> {
    let mut found = Vec::new();
    if let Some(run) = facts.run() {
        let (by, due) = (run.asked_by.clone(), run.run.due());
        match run.run.kind() {
            RunKind::Regular => {}
            // A run that tells of another is asked for by nobody.
            RunKind::Manual if facts.name.is_hidden() => {}
            RunKind::Manual => found.push(Planned::AskedFor { by, at: due }),
            RunKind::Backfill => found.push(Planned::MadeUp { due }),
            RunKind::Rerun => found.push(Planned::DoneAnew { by, due }),
            RunKind::Boot => found.push(Planned::Booted { at: due }),
        }
    }
    if let Subject::NotDue { at, .. } = facts.subject {
        found.push(Planned::NotDue { at });
        found.extend(facts.job.as_ref().and_then(|job| left_out(facts, job, at)));
    }
    found.extend(facts.not_there_yet().map(|(at, by)| Planned::NotThereYet { by, at }));
    match &facts.job {
        None => found.push(match &facts.gone {
            Some((noticed, schedule)) => Planned::GoneAtLoss { schedule: schedule.clone(), noticed: *noticed },
            None => Planned::Forgotten,
        }),
        Some(job) => of_job(facts, job, &mut found),
    }
    found.extend(facts.spoilt_deeds.clone().map(|why| Planned::SpoiltDeeds { why }));
    if let Subject::NotDue { before, after, .. } = facts.subject {
        found.push(Planned::Nearest { before, after });
    }
    if let Some(at) = facts.at() {
        let edits: Vec<Planned> = edits_after(facts, at)
            .map(|(deed, (old, new))| Planned::Edited { at: deed.at, by: deed.by.clone(), old: old.clone(), new: new.clone() })
            .collect();
        found.extend(edits.into_iter().rev().take(EDITS).rev());
    }
    found
}

/// What left an instant of the schedule that held then out.
fn left_out(facts: &Facts, job: &JobFacts, at: UnixMillis) -> Option<Planned> {
    let then = past_at(&facts.past, job.since, at);
    if then.is_none() && edits_after(facts, at).next().is_some() {
        return None;
    }
    let (spec, timetable) = then.or(job.definition.as_ref().ok())?;
    let by = timetable.left_out_by(at)?;
    let days = |days: &Days| days.texts().join(", ");
    let value = match by {
        LeftOut::Start => shown(spec.shape.start?, timetable.zone()),
        LeftOut::End => shown(spec.shape.end?, timetable.zone()),
        LeftOut::OnlyOn => days(spec.shape.only_on.as_ref()?),
        LeftOut::Exclude => days(&spec.shape.exclude),
    };
    Some(Planned::LeftOut { key: by.key(), value })
}

/// Changes of the schedule after an instant, oldest first.
fn edits_after(facts: &Facts, at: UnixMillis) -> impl Iterator<Item = (&Deed, &(String, String))> {
    facts.deeds.iter().filter(move |deed| deed.at > at).filter_map(|deed| Some((deed, deed.schedules.as_ref()?)))
}

fn of_job(facts: &Facts, job: &JobFacts, found: &mut Vec<Planned>) {
    if let Some((of, kind)) = facts.name.told_of() {
        return found.push(Planned::Notice { of: of.to_string(), kind: kind.as_str() });
    }
    match &job.definition {
        Err(why) => found.push(Planned::Unreadable { why: why.clone() }),
        Ok((spec, _)) if spec.schedule == Schedule::Manual => found.push(Planned::Manual),
        Ok((spec, timetable)) => {
            let is_new = facts.not_there_yet().is_some();
            let since = schedule_since(&facts.past, &facts.deeds, (spec, timetable), job.since);
            let asked = facts.at().filter(|_| !is_new);
            let kept = asked.filter(|at| *at <= since).and_then(|at| past_at(&facts.past, job.since, at));
            let kept = kept.map(|(spec, timetable)| spec.schedule.text_with_zone(timetable.zone()));
            let told = || Some(edits_after(facts, asked?).next()?.1.0.clone());
            if let Some(text) = kept.or_else(told) {
                found.push(Planned::ScheduleThen { text });
            } else {
                let text = spec.schedule.text_with_zone(timetable.zone());
                let is_regular = facts.run().is_none_or(|run| !run.run.is_manual()) && !timetable.is_one_shot() && !is_new;
                let is_before = is_regular && facts.at().is_some_and(|at| at < since);
                found.push(if is_before { Planned::ScheduleUnknown { text, since } } else { Planned::Schedule { text, since } });
            }
        }
    }
    match &job.source {
        Source::File(nodes) if !nodes.is_empty() => {
            found.push(Planned::OfFile { job: facts.name.to_string(), nodes: nodes.clone() });
        }
        Source::File(_) => {}
        Source::Api if facts.not_there_yet().is_some() => {}
        Source::Api => {
            let (at, by) = job.created.clone().map_or((None, None), |(at, by)| (Some(at), by));
            found.push(Planned::Added { by, at });
        }
    }
    if let Some((how, at)) = &job.ended {
        let removed = facts.deed_before(Deed::REMOVED, facts.now);
        found.push(if how == "finished" {
            Planned::Finished { at: *at }
        } else {
            Planned::Removed { by: removed.and_then(|deed| deed.by.clone()), at: *at }
        });
    } else if let Some(since) = job.paused_at {
        let paused = facts.deed_before(Deed::PAUSED, facts.now);
        found.push(Planned::Paused { by: paused.and_then(|deed| deed.by.clone()), since });
    }
}
