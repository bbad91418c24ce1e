//! Descriptions of schedules in plain English, with which users check their schedules.
//!
//! Invariant: a description is exact rather than pretty. The description of a cron expression is
//! made from the values of its fields. So two expressions with the same description have the same
//! times. [`crate::clock_notes`] describes the effect of clock changes.

mod calendar_words;
mod cron_words;
mod day_words;
#[cfg(test)]
mod describe_tests;
mod field_words;
mod modifier_words;
mod number_words;
mod rule_words;
mod time_of_day;

pub use modifier_words::shape_in_words;

use super::chain::parents::{ParentRule, Parents};
use super::schedule_form::Schedule;
use crate::names::JobName;
use crate::time::duration::format_duration;
use crate::time::unix_millis::UnixMillis;
use crate::time::wording::moment;
use crate::time::zone::Zone;
use number_words::list;

/// The maximum number of instants that a description lists individually.
const INSTANTS: usize = 6;

/// The zone, name and anchor of a job, on which the description of its schedule depends.
#[derive(Debug, Clone, Copy)]
pub struct PhraseOf<'a> {
    /// The zone in which single instants are shown.
    pub zone: &'a Zone,
    /// The name of the job. The name decides the numbers for `H`.
    pub job: Option<&'a JobName>,
    /// The `anchor` of the job, from which `every` counts. With `None`, `every` counts from the
    /// first apply of the job.
    pub anchor: Option<UnixMillis>,
}

/// A description of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// The text, for example `at 02:30 every day`.
    pub words: String,
    /// True if the schedule follows the wall clock of the job's zone.
    pub is_on_the_wall: bool,
}

/// Returns a description of each part of `schedule`, such as each expression of `cron`. `of` has
/// the zone, name and anchor of the job.
pub fn in_words(schedule: &Schedule, of: PhraseOf<'_>) -> Vec<Phrase> {
    let by_itself = |words: String| vec![Phrase { words, is_on_the_wall: false }];
    let on_the_wall = |words: String, is_on_the_wall: bool| Phrase { words, is_on_the_wall };
    match schedule {
        Schedule::Manual => by_itself("only by request".to_owned()),
        Schedule::At(at) => by_itself(format!("once, on {}", moment(*at, of.zone))),
        Schedule::Every(period) => by_itself(match of.anchor {
            None => {
                format!("every {}, counted from the job's first apply", format_duration(*period))
            }
            Some(anchor) => format!(
                "every {}, the first on {}",
                format_duration(*period),
                moment(anchor, of.zone)
            ),
        }),
        Schedule::Cron(list) => list
            .iter()
            .map(|one| on_the_wall(cron_words::words(one, of.job), !one.is_at_boot()))
            .collect(),
        Schedule::Instants(instants) => by_itself(instants_in_words(instants, of.zone)),
        Schedule::Delay(delay) => {
            by_itself(format!("{} after the end of each run", format_duration(*delay)))
        }
        Schedule::After(parents) => by_itself(after_words(parents)),
        Schedule::Calendar(list) => list
            .iter()
            .map(|one| on_the_wall(calendar_words::words(one), one.zone().is_none()))
            .collect(),
        Schedule::Rules(list) => {
            list.iter().map(|one| on_the_wall(rule_words::words(one), true)).collect()
        }
        Schedule::Several(list) => list.iter().flat_map(|one| in_words(one, of)).collect(),
    }
}

/// Returns the parents of a job as text, such as `when extract and load have succeeded`.
fn after_words(parents: &Parents) -> String {
    let jobs = list(&parents.jobs.iter().map(ToString::to_string).collect::<Vec<_>>());
    if parents.jobs.len() == 1 {
        return match parents.rule {
            ParentRule::Succeeded | ParentRule::AnySucceeded => {
                format!("when {jobs} has succeeded")
            }
            ParentRule::AnyFailed => format!("when {jobs} has failed"),
            ParentRule::Ended => format!("when {jobs} has ended"),
        };
    }
    let one = "ended and at least one of them has";
    match parents.rule {
        ParentRule::Succeeded => format!("when {jobs} have succeeded"),
        ParentRule::AnySucceeded => format!("when {jobs} have {one} succeeded"),
        ParentRule::AnyFailed => format!("when {jobs} have {one} failed"),
        ParentRule::Ended => format!("when {jobs} have ended"),
    }
}

fn instants_in_words(instants: &[UnixMillis], zone: &Zone) -> String {
    match instants {
        [] => "never".to_owned(),
        [one] => format!("once, on {}", moment(*one, zone)),
        [first, .., last] if instants.len() > INSTANTS => {
            format!(
                "{} times: the first on {}, the last on {}",
                instants.len(),
                moment(*first, zone),
                moment(*last, zone)
            )
        }
        _ => format!(
            "{} times, on {}",
            instants.len(),
            list(&instants.iter().map(|at| moment(*at, zone)).collect::<Vec<_>>())
        ),
    }
}
