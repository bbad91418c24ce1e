//! Reads the events of an iCalendar file (RFC 5545) as days and spans of time: all-day events are dates, timed ones spans.
//!
//! What repeats is followed until 2099; an event that stands in the place of one of its series (`RECURRENCE-ID`) replaces it.
//! Cancelled events and ones marked as free time are left out. Bounded in what it gives.

mod effort;
mod event;
mod line;

use std::collections::HashMap;

use self::effort::Effort;
use self::event::Event;
use self::line::{Stated, lines_of, zone_named};
use crate::domain::days::DayItem;
use crate::domain::zone::Zone;

/// Why a file is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcsError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, in one line.
    pub problem: String,
}

/// The most rules of repetition a file may have.
const MOST_RULES: usize = 1_000;

/// The days of all events of `text`, at most `most`; times without a zone are in `zone`.
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

/// The events, each with the line it begins at, with at most [`MOST_RULES`] rules of repetition.
fn events_of(text: &str, zone: &Zone) -> Result<Vec<(usize, Event)>, IcsError> {
    let lines = lines_of(text);
    if !lines.iter().any(|line| line.name == "BEGIN" && line.value.eq_ignore_ascii_case("VCALENDAR")) {
        return Err(IcsError { line: 1, problem: "no BEGIN:VCALENDAR, wanted an iCalendar file".to_owned() });
    }
    let mut zone = zone.clone();
    let mut events = Vec::new();
    let mut event: Option<(usize, Event)> = None;
    // Alarms and the like stand inside an event and have lines of the same names.
    let mut inside: usize = 0;
    let mut rules: usize = 0;
    for line in &lines {
        let (name, value) = (line.name.as_str(), line.value.as_str());
        match (name, &mut event) {
            ("X-WR-TIMEZONE", None) => zone = zone_named(value).unwrap_or(zone),
            ("BEGIN", None) if value.eq_ignore_ascii_case("VEVENT") => event = Some((line.number, Event::in_zone(&zone))),
            ("BEGIN", Some(_)) => inside += 1,
            ("END", Some(_)) if inside > 0 => inside -= 1,
            ("END", Some(_)) => events.extend(event.take()),
            (_, Some((_, event))) if inside == 0 => {
                rules += usize::from(name == "RRULE");
                if rules > MOST_RULES {
                    return Err(line.refuse(&format!("more than {MOST_RULES} rules up to here, wanted fewer")));
                }
                event.note(line)?;
            }
            _ => {}
        }
    }
    match event {
        Some((number, _)) => {
            Err(IcsError { line: number, problem: "an event without END:VEVENT, wanted a whole file".to_owned() })
        }
        None => Ok(events),
    }
}
