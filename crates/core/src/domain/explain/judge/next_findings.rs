//! Findings about the next run of the job.

use crate::domain::explain::explain_words::after;
use crate::domain::explain::facts::Facts;
use crate::domain::explain::finding::{Finding, Part};
use crate::domain::job::job_spec::JobSpec;
use schedd_schedule::clock_notes::clock_notes;
use schedd_schedule::lateness::CatchUpMode;
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::duration::format_duration;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::timetable::Timetable;

fn finding(code: &'static str, text: impl Into<String>) -> Finding {
    Part::Next.finding(code, text)
}

/// Returns the findings about the next run of the job.
pub(super) fn next(facts: &Facts) -> Vec<Finding> {
    let extra = facts.job.as_ref().and_then(|job| job.next_run).map(|at| {
        let text = format!("A run or a user planned a run on {}.", facts.shown_for_job(at));
        finding("next_extra", text)
    });
    let mut found: Vec<Finding> = by_schedule(facts).into_iter().chain(extra).collect();
    let text = match facts.making_up {
        0 => return found,
        1 => {
            "One past occurrence still waits for its backfill. A pause does not stop the backfill."
                .to_owned()
        }
        count => {
            format!(
                "{count} past occurrences still wait for their backfill, one after the other. A pause does not stop the backfill."
            )
        }
    };
    found.push(finding("next_made_up", text));
    found
}

/// Returns the finding for the next run by the schedule. Returns `None` if the definition of the
/// job is unreadable.
fn by_schedule(facts: &Facts) -> Option<Finding> {
    let Some(job) = facts.job.as_ref().filter(|job| job.ended.is_none()) else {
        return Some(finding("next_over", "The job has no further runs."));
    };
    if job.paused_at.is_some() {
        let text = format!(
            "The schedule starts no runs while the job is paused. \
             schedctl resume {} resumes the job.",
            facts.name
        );
        return Some(finding("next_paused", text));
    }
    let (spec, timetable) = job.definition.as_ref().ok()?;
    if spec.schedule == Schedule::Manual {
        let text = format!("The job has no schedule. schedctl run {} starts a run.", facts.name);
        return Some(finding("next_manual", text));
    }
    if let Some(parents) = spec.schedule.parents() {
        let text = format!(
            "The next run starts {}, in the next occurrence of the chain. schedctl next {} prints its time.",
            parents.text(),
            facts.name
        );
        return Some(finding("next_after_parents", text));
    }
    let at = |at: UnixMillis| {
        let notes = notes_on(facts, timetable, at);
        finding(
            "next",
            format!("The next occurrence is due on {}{notes}.", facts.shown_for_job(at)),
        )
    };
    let owed = |at: UnixMillis| {
        finding(
            "next_owed",
            format!("The next run has been due since {} and has not started.", facts.shown(at)),
        )
    };
    let is_subject = |due: UnixMillis| {
        facts.run().is_some_and(|run| !run.run.is_manual() && run.run.due() == due)
    };
    // If the planned run is the run that the user asks about, the next run is the run after it.
    let is_known = job.pending.is_some_and(is_subject);
    let is_used_up =
        job.pending.is_none() && job.runs_left == Some(0) || is_known && job.runs_left == Some(1);
    Some(match job.pending {
        _ if is_used_up && spec.schedule.is_at_boot() => at_boot(),
        _ if is_used_up => {
            finding("next_used_up", "The job has had as many runs as max_runs allows.")
        }
        Some(due) if is_known => match timetable.next_after(due.max(job.since)) {
            Some(next) if next <= facts.now && spec.catch_up.mode == CatchUpMode::All => owed(next),
            Some(next) if next <= facts.now => {
                timetable.next_after(facts.now).map_or_else(none, at)
            }
            Some(next) => at(next),
            None => without_time(spec),
        },
        Some(due) if due > facts.now => at(due),
        Some(due) => owed(due),
        None => without_time(spec),
    })
}

/// Returns the notes on the clock changes that affect the occurrence `at`, which is in the future.
fn notes_on(facts: &Facts, timetable: &Timetable, at: UnixMillis) -> String {
    let notes = clock_notes(timetable, facts.now, at, &facts.local);
    after("; ", (!notes.is_empty()).then(|| notes.join("; ")))
}

fn at_boot() -> Finding {
    finding("next_boot", "The job runs again after the next boot of a host.")
}

fn none() -> Finding {
    finding("next_none", "The schedule of the job has no further times.")
}

/// Returns the finding for a job whose schedule has no further time.
fn without_time(spec: &JobSpec) -> Finding {
    match spec.schedule {
        Schedule::Delay(delay) => {
            let delay = format_duration(delay);
            finding(
                "next_after_end",
                format!("The next run is due {delay} after the end of the open run."),
            )
        }
        _ if spec.schedule.is_at_boot() => at_boot(),
        _ => none(),
    }
}
