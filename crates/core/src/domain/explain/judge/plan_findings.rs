//! Findings about the plan: the schedule of the job, its author, and its changes.

use super::chain_findings;
use super::clock_findings::clock_changes;
use crate::domain::explain::explain_words::{after, by, files};
use crate::domain::explain::facts::{Facts, JobFacts, Source, Subject};
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::explain::schedule_then::{past_at, schedule_since};
use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::job::job_spec::JobSpec;
use schedd_schedule::day_sets::DaySet;
use schedd_schedule::left_out::LeftOut;
use schedd_schedule::names::{RunId, RunKind};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::shown_exactly;
use schedd_schedule::timetable::Timetable;

/// The maximum number of changes of the schedule in the answer. Older changes are left out.
const EDITS: usize = 5;

fn finding(code: &'static str, text: impl Into<String>) -> Finding {
    Part::Planned.finding(code, text)
}

/// Returns ` on ` followed by the time `at`. Returns an empty text if the time is not known.
fn on(facts: &Facts, at: Option<UnixMillis>) -> String {
    after(" on ", at.map(|at| facts.shown(at)))
}

/// Returns the findings about the plan of the job.
pub(super) fn plan(facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> = kind_of_run(facts).into_iter().collect();
    if let Subject::NotDue { at, .. } = facts.subject {
        found.push(finding(
            "not_due",
            format!("The job was not due at {}.", shown_exactly(at, &facts.local)),
        ));
        found.extend(facts.job.as_ref().and_then(|job| left_out(facts, job, at)));
    }
    if let Some((at, who)) = facts.added_later() {
        let (at, by) = (facts.shown(at), by(who.as_ref()));
        found.push(finding(
            "not_there_yet",
            format!("The job did not exist yet. The job was added on {at}{by}."),
        ));
    }
    match (&facts.job, &facts.gone) {
        (Some(job), _) => of_job(facts, job, &mut found),
        (None, Some((noticed, schedule))) => {
            let noticed = facts.shown(*noticed);
            let text = format!(
                "The job was added by schedctl ({schedule}). Redis lost the job in the data loss noticed on {noticed}. No jobs file restores the job."
            );
            found.push(finding("gone_at_loss", text));
        }
        (None, None) => {
            found.push(finding(
                "forgotten",
                "The job is no longer defined, and its definition is no longer kept.",
            ));
        }
    }
    found.extend(clock_changes(facts));
    found.extend(next_set(facts));
    let unreadable = |why| {
        finding("audit_log_unreadable", format!("The audit log of the job cannot be read: {why}."))
    };
    found.extend(facts.audit_log_error.as_ref().map(unreadable));
    if let Subject::NotDue { before, after, .. } = facts.subject {
        let earlier = before
            .map(|at| format!("The previous time of the schedule is {}", facts.shown_for_job(at)));
        let later = after.map(|at| format!("the next time is {}", facts.shown_for_job(at)));
        let earlier_time = earlier.unwrap_or_else(|| "The schedule has no earlier time".to_owned());
        let later_time = later.unwrap_or_else(|| "there is no later time".to_owned());
        found.push(finding("nearest", format!("{earlier_time}, and {later_time}.")));
    }
    if let Some(at) = facts.at() {
        let edits: Vec<Finding> = edits_after(facts, at)
            .map(|(entry, schedules)| edited(facts, entry, schedules))
            .collect();
        found.extend(edits.into_iter().rev().take(EDITS).rev());
    }
    found
}

/// Returns the finding for the time that a run or a user set for the next run. Returns `None` if
/// there is no such time, or if it does not concern the run.
fn next_set(facts: &Facts) -> Option<Finding> {
    let (at, by) = facts.job.as_ref()?.next_set.as_ref()?;
    let concerns = match facts.run() {
        Some(run) => run.run.due() <= *at && run.finished_at.is_none_or(|end| end >= *at),
        None => *at > facts.now,
    };
    let (at, who) = (facts.shown(*at), if by.parse::<RunId>().is_ok() { "Run" } else { "User" });
    let text = format!("{who} {by} set the next run of the job to start no earlier than {at}.");
    concerns.then(|| finding("next_set", text))
}

/// Returns the finding for the origin of the run, such as a backfill. Returns `None` for a regular
/// run.
fn kind_of_run(facts: &Facts) -> Option<Finding> {
    let run = facts.run()?;
    let (by, due) = (by(run.asked_by.as_ref()), facts.shown(run.run.due()));
    let note = run.note.as_ref().map(|note| format!(", with the note {note:?}"));
    let note = note.unwrap_or_default();
    Some(match run.run.kind() {
        RunKind::Regular => return None,
        // No user requests the run of a notice.
        RunKind::Manual if facts.name.is_hidden() => return None,
        RunKind::Manual => {
            let asking = run.asked_by.as_ref().filter(|by| by.parse::<RunId>().is_ok());
            let text = match asking {
                Some(asking) => format!("Run {asking} of the job set the time of this run."),
                None => format!("The run was requested by hand{by} on {due}{note}."),
            };
            finding("asked_for", text)
        }
        RunKind::Backfill => finding(
            "made_up",
            format!(
                "The run is a backfill of the occurrence of {due}, requested with schedctl backfill."
            ),
        ),
        RunKind::Rerun => finding(
            "done_anew",
            format!(
                "The run repeats the run of {due}, as requested with schedctl rerun{by}{note}."
            ),
        ),
        RunKind::Boot => finding(
            "booted",
            format!(
                "The run belongs to a boot of its host. The first schedd after that boot started on {due}."
            ),
        ),
    })
}

fn edited(facts: &Facts, entry: &AuditEntry, (old, new): &(String, String)) -> Finding {
    let (by, at) = (by(entry.by.as_ref()), facts.shown(entry.at));
    // The schedules in the audit log do not contain the keys `exclude`, `only_on`, `start`, `end`,
    // `anchor` and `dst`.
    let text = if old == new {
        format!(
            "The schedule {new} was changed{by} on {at}: exclude, only_on, start, end, anchor or dst got another value."
        )
    } else {
        format!("The schedule was changed{by} on {at} from {old} to {new}.")
    };
    finding("edited", text)
}

/// Returns the finding for the key, such as `exclude`, that keeps the time `at` from being an
/// occurrence. Returns `None` if no key does so.
fn left_out(facts: &Facts, job: &JobFacts, at: UnixMillis) -> Option<Finding> {
    let then = past_at(&facts.past, job.since, at);
    if then.is_none() && edits_after(facts, at).next().is_some() {
        return None;
    }
    let (spec, timetable) = then.or(job.definition.as_ref().ok())?;
    let by = timetable.left_out_by(at)?;
    let days = |days: &DaySet| days.texts().join(", ");
    let value = match by {
        LeftOut::Start => facts.shown(spec.shape.start?),
        LeftOut::End => facts.shown(spec.shape.end?),
        LeftOut::OnlyOn => days(spec.shape.only_on.as_ref()?),
        LeftOut::Exclude => days(&spec.shape.exclude),
    };
    let key = by.key();
    Some(finding(
        "left_out",
        format!("The schedule has this time, but {key} = {value} excludes the time."),
    ))
}

/// Returns the audit log entries that changed the schedule after the time `at`, oldest first. Each
/// comes with the schedule before the change and the schedule after it.
fn edits_after(
    facts: &Facts,
    at: UnixMillis,
) -> impl Iterator<Item = (&AuditEntry, &(String, String))> {
    facts
        .audit_log
        .iter()
        .filter(move |entry| entry.at > at)
        .filter_map(|entry| Some((entry, entry.schedules.as_ref()?)))
}

fn of_job(facts: &Facts, job: &JobFacts, found: &mut Vec<Finding>) {
    if let Some((of, kind)) = facts.name.notice_subject() {
        let of = of.words();
        let text = format!(
            "The job delivers the {kind} notices of {of}. It has no schedule: each of its runs reports a run of {of}.",
            kind = kind.as_str()
        );
        return found.push(finding("notice", text));
    }
    found.push(match &job.definition {
        Err(why) => finding(
            "unreadable",
            format!("The stored definition cannot be read, so the job does not run: {why}."),
        ),
        Ok((spec, _)) if spec.schedule == Schedule::Manual => {
            finding("manual", "The job has no schedule. It runs only on request.")
        }
        Ok((spec, timetable)) => match spec.schedule.parents() {
            Some(parents) => chain_findings::parents(parents),
            None => schedule(facts, job, spec, timetable),
        },
    });
    found.extend(chain_findings::lost_parents(facts));
    let is_removed = job.ended.as_ref().is_some_and(|(how, _)| how != "finished");
    match (facts.name.instance(), &job.source) {
        (Some((defined, node)), _) => {
            let text = format!("This is job {defined} on node {node} (on = \"each-node\").");
            found.push(finding("of_job", text));
        }
        (None, Source::File(nodes)) if !nodes.is_empty() && !is_removed => {
            found.push(finding(
                "of_file",
                format!("The job is defined in [jobs.{}] of {}.", facts.name, files(nodes)),
            ));
        }
        (None, Source::File(_)) => {}
        (None, Source::Api) if facts.added_later().is_some() => {}
        (None, Source::Api) => {
            let (at, who) = job.created.clone().map_or((None, None), |(at, who)| (Some(at), who));
            let on = on(facts, at);
            found.push(finding(
                "added",
                match who {
                    Some(who) => format!("The job was added by {who}{on}."),
                    None => format!(
                        "The job was added by schedctl{on}. The user who added the job is not known."
                    ),
                },
            ));
        }
    }
    let last = |what| by(facts.entry_before(what, facts.now).and_then(|entry| entry.by.as_ref()));
    if let Some((how, at)) = &job.ended {
        let on = on(facts, *at);
        found.push(if how == "finished" {
            finding("finished", format!("The job was a one-shot, which finished{on}."))
        } else {
            let by = last(AuditEntry::REMOVED);
            finding(
                "removed",
                format!("The job is no longer defined. The job was removed{by}{on}."),
            )
        });
    } else if let Some(since) = job.paused_at {
        let (by, since) = (last(AuditEntry::PAUSED), facts.shown(since));
        found.push(finding("paused", format!("The job has been paused{by} since {since}.")));
    }
}

/// Returns the finding for the schedule at the time that the user asks about. If that schedule is
/// not known, the finding is for the present schedule.
fn schedule(facts: &Facts, job: &JobFacts, spec: &JobSpec, timetable: &Timetable) -> Finding {
    let is_new = facts.added_later().is_some();
    let since = schedule_since(&facts.past, &facts.audit_log, (spec, timetable), job.since);
    let asked = facts.at().filter(|_| !is_new);
    let kept = asked.filter(|at| *at <= since).and_then(|at| past_at(&facts.past, job.since, at));
    let kept = kept.map(|(spec, timetable)| spec.schedule.text_with_zone(timetable.zone()));
    let edited = || Some(edits_after(facts, asked?).next()?.1.0.clone());
    if let Some(text) = kept.or_else(edited) {
        return finding("schedule_then", format!("The schedule at that time was {text}."));
    }
    let text = spec.schedule.text_with_zone(timetable.zone());
    let is_regular =
        facts.run().is_none_or(|run| !run.run.is_manual()) && !timetable.is_one_shot() && !is_new;
    let is_before = is_regular && facts.at().is_some_and(|at| at < since);
    let since = facts.shown(since);
    if is_before {
        let text = format!(
            "The schedule at that time is not known. The job has had its present schedule, {text}, since {since}."
        );
        return finding("schedule_unknown", text);
    }
    finding("schedule", format!("The schedule has been {text} since {since}."))
}
