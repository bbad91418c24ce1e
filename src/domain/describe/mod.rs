//! Schedules in plain words, for people who want to know what they wrote.
//!
//! Invariant: exact rather than pretty. The words of a cron expression are made of the values its fields stand for, so two
//! expressions are told alike only if they come alike; what a clock change does to a time is said by [`super::clock_notes`].

mod days;
mod fields;
mod numbers;
mod time_of_day;

#[cfg(test)]
mod tests;

use self::fields::Fields;
use super::duration::format_duration;
use super::schedule::{CronExpr, Schedule};
use super::zone::Zone;

/// `schedule` in words, one text for each schedule it is made of: `at 02:30 every day`. `zone` is that of a single instant.
pub fn in_words(schedule: &Schedule, zone: &Zone) -> Vec<String> {
    match schedule {
        Schedule::Manual => vec!["only when asked for".to_owned()],
        Schedule::At(at) => {
            let local = at.to_timestamp().to_zoned(zone.rules().clone());
            vec![format!("once, on {}", local.strftime("%A %F at %T %Z"))]
        }
        Schedule::Every(period) => vec![format!("every {}, counted from the job's first apply", format_duration(*period))],
        Schedule::Cron(list) => list.iter().map(expression_in_words).collect(),
        Schedule::Instants(list) => list.iter().flat_map(|at| in_words(&Schedule::At(*at), zone)).collect(),
        Schedule::Delay(delay) => vec![format!("{} after the end of each run", format_duration(*delay))],
        Schedule::Calendar(list) => list.iter().map(|expression| format!("as OnCalendar={expression} in systemd")).collect(),
        Schedule::Rules(list) => {
            list.iter().map(|rule| format!("as the iCalendar rule {} from {}", rule.as_str(), rule.start())).collect()
        }
        Schedule::Several(list) => list.iter().flat_map(|one| in_words(one, zone)).collect(),
    }
}

/// A cron expression in words: `every 15 minutes from 09:00 to 17:59, Monday to Friday`.
pub fn expression_in_words(expression: &CronExpr) -> String {
    text_in_words(expression.as_str())
}

/// The words for the text of a checked expression.
fn text_in_words(text: &str) -> String {
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    let fields = match first.to_ascii_lowercase().as_str() {
        "@reboot" => return "once on each host after each of its boots".to_owned(),
        "@hourly" => Fields::of("0 * * * *"),
        "@daily" | "@midnight" => Fields::of("0 0 * * *"),
        "@weekly" => Fields::of("0 0 * * 0"),
        "@monthly" => Fields::of("0 0 1 * *"),
        "@yearly" | "@annually" => Fields::of("0 0 1 1 *"),
        _ => Fields::of(text),
    };
    fields.map_or_else(|| format!("as {text:?} says"), |fields| fields_in_words(&fields))
}

fn fields_in_words(fields: &Fields) -> String {
    let mut words = time_of_day::words(&fields.second, &fields.minute, &fields.hour);
    match days::words(&fields.day, &fields.weekday) {
        Some(days) => words = format!("{words}, {days}"),
        // Said only where the hours named could be those of one day.
        None if !fields.hour.is_whole() => words.push_str(" every day"),
        None => {}
    }
    for more in [days::months(&fields.month), days::years(&fields.year)].into_iter().flatten() {
        words = format!("{words}, {more}");
    }
    words
}
