//! The reader of iCalendar files (RFC 5545). All-day events become dates, timed events become
//! spans.
//!
//! Repetitions are followed through 2099. An event with `RECURRENCE-ID` replaces that occurrence of
//! its series. Cancelled events, and timed events marked as free time, are left out. The number of
//! results is bounded.

mod ics_effort;
mod ics_error;
mod ics_event;
mod ics_line;

use std::collections::HashMap;

use ics_effort::Effort;
pub use ics_error::IcsError;
use ics_event::Event;
use ics_line::{Stated, lines_of, zone_named};
use schedd_schedule::day_sets::DayItem;
use schedd_schedule::time::zone::Zone;

/// The maximum number of recurrence rules in a file.
const MOST_RULES: usize = 1_000;

/// Returns the days and spans of all events of `text`. Fails if there are more than `most`. Times
/// that name no zone are in the zone of the file's `X-WR-TIMEZONE`, else in `zone`.
pub fn read(text: &str, zone: &Zone, most: usize) -> Result<Vec<DayItem>, IcsError> {
    let events = events_of(text, zone)?;
    let mut replaced: HashMap<&str, Vec<&Stated>> = HashMap::new();
    for (_, event) in &events {
        if let Some((uid, place)) = event.place() {
            replaced.entry(uid).or_default().push(place);
        }
    }
    let mut items = Vec::new();
    let mut effort = Effort::of_a_file();
    for (line, event) in &events {
        let replaced = event.uid().and_then(|uid| replaced.get(uid)).map_or(&[][..], Vec::as_slice);
        event.add_to(&mut items, *line, replaced, most, &mut effort)?;
    }
    Ok(items)
}

/// Returns the events, each with the line at which the event begins. Fails if the events have more
/// than [`MOST_RULES`] rules, or if the file is truncated.
fn events_of(text: &str, zone: &Zone) -> Result<Vec<(usize, Event)>, IcsError> {
    let lines = lines_of(text);
    let of_calendars = |name: &'static str| {
        lines
            .iter()
            .filter(move |line| line.name == name && line.value.eq_ignore_ascii_case("VCALENDAR"))
    };
    let Some(last) = of_calendars("BEGIN").next_back() else {
        return Err(IcsError {
            line: 1,
            problem: "found no BEGIN:VCALENDAR, wanted an iCalendar file".to_owned(),
        });
    };
    let mut zone = zone.clone();
    let mut events = Vec::new();
    let mut event: Option<(usize, Event)> = None;
    // The nesting depth of parts inside an event, such as alarms. Their lines are skipped, because
    // they have the same names as lines of the event.
    let mut inside: usize = 0;
    let mut rules: usize = 0;
    for line in &lines {
        let (name, value) = (line.name.as_str(), line.value.as_str());
        match (name, &mut event) {
            ("X-WR-TIMEZONE", None) => zone = zone_named(value).unwrap_or(zone),
            ("BEGIN", None) if value.eq_ignore_ascii_case("VEVENT") => {
                event = Some((line.number, Event::in_zone(&zone)));
            }
            ("BEGIN", Some(_)) => inside += 1,
            ("END", Some(_)) if inside > 0 => inside -= 1,
            ("END", Some(_)) => events.extend(event.take()),
            (_, Some((_, event))) if inside == 0 => {
                rules += usize::from(name == "RRULE");
                if rules > MOST_RULES {
                    return Err(line.refuse(&format!(
                        "found more than {MOST_RULES} recurrence rules up to this line, wanted fewer"
                    )));
                }
                event.note(line)?;
            }
            _ => {}
        }
    }
    match event {
        Some((number, _)) => Err(IcsError {
            line: number,
            problem: "found an event without END:VEVENT, wanted a complete file".to_owned(),
        }),
        // Without the check, a truncated file would lose its last events without an error.
        None if of_calendars("END").count() < of_calendars("BEGIN").count() => Err(IcsError {
            line: last.number,
            problem: "found a calendar without END:VCALENDAR, wanted a complete file".to_owned(),
        }),
        None => Ok(events),
    }
}
