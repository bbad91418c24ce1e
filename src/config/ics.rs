//! Reads the events of an iCalendar file (RFC 5545) as days and spans of time: all-day events are dates, timed ones spans.
//!
//! What repeats is followed until 2099. Cancelled events and ones marked as free time are left out. Bounded in what it gives.

use jiff::civil::{Date, DateTime, Time};

use crate::domain::days::DayItem;
use crate::domain::schedule::Recurrence;
use crate::domain::time::UnixMillis;
use crate::domain::zone::{Zone, ZoneName};

const DAY: i64 = 86_400;

/// Why a file is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcsError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, in one line.
    pub problem: String,
}

/// A line with those that continue it.
struct Line {
    number: usize,
    name: String,
    /// What stands between the name and the value.
    parameters: Vec<(String, String)>,
    value: String,
}

/// When an event begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Day(Date),
    Local(DateTime),
    Real(i64),
}

/// What is known of an event.
#[derive(Default)]
struct Event {
    begin: Option<(Moment, Zone)>,
    end: Option<(Moment, Zone)>,
    lasts: Option<i64>,
    rules: Vec<(usize, String)>,
    left_out: Vec<Moment>,
    added: Vec<Moment>,
    is_void: bool,
}

/// The days of all events of `text`, at most `most`; times without a zone are in `zone`.
pub fn read(text: &str, zone: &Zone, most: usize) -> Result<Vec<DayItem>, IcsError> {
    let lines = lines_of(text);
    if !lines.iter().any(|line| line.name == "BEGIN" && line.value.eq_ignore_ascii_case("VCALENDAR")) {
        return Err(IcsError { line: 1, problem: "no BEGIN:VCALENDAR, wanted an iCalendar file".to_owned() });
    }
    let mut zone = zone.clone();
    let mut items = Vec::new();
    let mut event: Option<(usize, Event)> = None;
    // Alarms and the like stand inside an event and have lines of the same names.
    let mut inside: usize = 0;
    let mut rules: usize = 0;
    for line in &lines {
        let (name, value) = (line.name.as_str(), line.value.as_str());
        match (name, &mut event) {
            ("X-WR-TIMEZONE", None) => zone = zone_named(value).unwrap_or(zone),
            ("BEGIN", None) if value.eq_ignore_ascii_case("VEVENT") => event = Some((line.number, Event::default())),
            ("BEGIN", Some(_)) => inside += 1,
            ("END", Some(_)) if inside > 0 => inside -= 1,
            ("END", Some(_)) => {
                if let Some((number, event)) = event.take() {
                    event.add_to(&mut items, number, most)?;
                }
            }
            (_, Some((_, event))) if inside == 0 => {
                rules += usize::from(name == "RRULE");
                if rules > most {
                    return Err(line.refuse(&format!("more than {most} rules up to here, wanted fewer")));
                }
                event.note(line, &zone)?;
            }
            _ => {}
        }
    }
    match event {
        Some((number, _)) => {
            Err(IcsError { line: number, problem: "an event without END:VEVENT, wanted a whole file".to_owned() })
        }
        None => Ok(items),
    }
}

/// The lines, with a line that begins with a blank joined to the one before.
fn lines_of(text: &str) -> Vec<Line> {
    let mut joined: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        match (line.strip_prefix([' ', '\t']), joined.last_mut()) {
            (Some(rest), Some((_, before))) => before.push_str(rest),
            _ => joined.push((index + 1, line.to_owned())),
        }
    }
    let read = |(number, line): (usize, String)| {
        let colon = colon_of(&line)?;
        let (head, value) = (line.get(..colon)?, line.get(colon + 1..)?);
        let mut parts = head.split(';');
        let name = parts.next()?.to_ascii_uppercase();
        let parameters = parts.filter_map(|part| part.split_once('='));
        let parameters = parameters.map(|(key, value)| (key.to_ascii_uppercase(), value.trim_matches('"').to_owned())).collect();
        Some(Line { number, name, parameters, value: value.trim().to_owned() })
    };
    joined.into_iter().filter_map(read).collect()
}

/// Where the value begins: at the first colon that is not within quotes.
fn colon_of(line: &str) -> Option<usize> {
    let mut is_quoted = false;
    line.char_indices().find_map(|(at, found)| {
        is_quoted ^= found == '"';
        (found == ':' && !is_quoted).then_some(at)
    })
}

fn zone_named(name: &str) -> Option<Zone> {
    name.trim_start_matches('/').parse::<ZoneName>().ok().and_then(|name| Zone::load(&name).ok())
}

impl Line {
    fn refuse(&self, problem: &str) -> IcsError {
        let value: String = self.value.chars().take(60).collect();
        IcsError { line: self.number, problem: format!("{} {value:?}: {problem}", self.name) }
    }

    fn parameter(&self, key: &str) -> Option<&str> {
        self.parameters.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The zone its times are in.
    fn zone(&self, host: &Zone) -> Result<Zone, IcsError> {
        let Some(name) = self.parameter("TZID") else { return Ok(host.clone()) };
        zone_named(name).ok_or_else(|| {
            self.refuse(&format!("the zone {name:?} is not known here, wanted an IANA name such as Europe/Berlin"))
        })
    }

    fn moment(&self, text: &str) -> Result<Moment, IcsError> {
        let refuse = || self.refuse("no date or time, wanted one such as 20261225 or 20261225T090000Z");
        let digits = |from: usize, to: usize| {
            let part = text.get(from..to).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
            part.and_then(|part| part.parse::<i16>().ok()).ok_or_else(refuse)
        };
        let small = |from: usize, to: usize| digits(from, to).and_then(|part| i8::try_from(part).map_err(|_| refuse()));
        let date = Date::new(digits(0, 4)?, small(4, 6)?, small(6, 8)?).map_err(|_| refuse())?;
        if !(1970..2100).contains(&date.year()) {
            return Err(self.refuse("wanted a year from 1970 to 2099"));
        }
        if text.len() == 8 {
            return Ok(Moment::Day(date));
        }
        let (rest, is_utc) = text.strip_suffix('Z').map_or((text, false), |rest| (rest, true));
        if rest.len() != 15 || rest.as_bytes().get(8) != Some(&b'T') {
            return Err(refuse());
        }
        // A leap second is the last one of its minute here.
        let time = Time::new(small(9, 11)?, small(11, 13)?, small(13, 15)?.min(59), 0).map_err(|_| refuse())?;
        let local = date.to_datetime(time);
        Ok(if is_utc { Moment::Real(second_of(local)) } else { Moment::Local(local) })
    }
}

impl Event {
    fn note(&mut self, line: &Line, host: &Zone) -> Result<(), IcsError> {
        match line.name.as_str() {
            "DTSTART" => self.begin = Some((line.moment(&line.value)?, line.zone(host)?)),
            "DTEND" => self.end = Some((line.moment(&line.value)?, line.zone(host)?)),
            "DURATION" => {
                let lasts =
                    line.value.parse::<jiff::SignedDuration>().ok().map(|lasts| lasts.as_secs()).or_else(|| in_days(&line.value));
                self.lasts = Some(
                    lasts.filter(|seconds| *seconds >= 0).ok_or_else(|| line.refuse("no duration, wanted one such as PT1H"))?,
                );
            }
            "RRULE" => self.rules.push((line.number, line.value.clone())),
            "EXDATE" => self.left_out.extend(line.value.split(',').map(|text| line.moment(text)).collect::<Result<Vec<_>, _>>()?),
            "RDATE" if line.parameter("VALUE").is_none_or(|kind| !kind.eq_ignore_ascii_case("PERIOD")) => {
                self.added.extend(line.value.split(',').map(|text| line.moment(text)).collect::<Result<Vec<_>, _>>()?);
            }
            "RDATE" => return Err(line.refuse("periods are not supported, wanted dates")),
            "STATUS" => self.is_void |= line.value.eq_ignore_ascii_case("CANCELLED"),
            "TRANSP" => self.is_void |= line.value.eq_ignore_ascii_case("TRANSPARENT") && !self.is_all_day(),
            _ => {}
        }
        Ok(())
    }

    /// Holidays are often published as all-day events that leave one free.
    fn is_all_day(&self) -> bool {
        matches!(self.begin, Some((Moment::Day(_), _)) | None)
    }

    fn add_to(self, items: &mut Vec<DayItem>, number: usize, most: usize) -> Result<(), IcsError> {
        let refuse = |line: usize, problem: &str| IcsError { line, problem: problem.to_owned() };
        if self.is_void {
            return Ok(());
        }
        let Some((begin, zone)) = &self.begin else { return Err(refuse(number, "an event without DTSTART, wanted one")) };
        let length = self
            .length(*begin, zone)
            .ok_or_else(|| refuse(number, "an event that ends before it begins, wanted its end behind"))?;
        let (local, is_real) = match begin {
            Moment::Day(date) => (date.to_datetime(Time::midnight()), false),
            Moment::Local(at) => (*at, false),
            Moment::Real(second) => (of_second(*second), true),
        };
        let zone = if is_real { Zone::utc() } else { zone.clone() };
        let mut begins = vec![second_of(local)];
        for (line, rule) in &self.rules {
            let rule = Recurrence::new(rule, local).map_err(|error| refuse(*line, &error.to_string()))?;
            let mut at = second_of(local);
            while let Some(next) = rule.first_local_from(at).filter(|next| *next < UnixMillis::END / 1_000) {
                begins.push(next);
                at = next + 1;
                if begins.len() > most + 1 {
                    return Err(refuse(*line, &format!("comes more than {most} times before 2100, wanted UNTIL or COUNT")));
                }
            }
        }
        let in_zone = |moment: &Moment| match moment {
            Moment::Day(date) => second_of(date.to_datetime(Time::midnight())),
            Moment::Local(at) => second_of(*at),
            Moment::Real(second) => {
                second_of(zone.rules().to_datetime(jiff::Timestamp::from_second(*second).unwrap_or_default()))
            }
        };
        begins.extend(self.added.iter().map(in_zone));
        let mut left_out: Vec<i64> = self.left_out.iter().map(in_zone).collect();
        left_out.sort_unstable();
        begins.sort_unstable();
        begins.dedup();
        for begin in begins.into_iter().filter(|begin| left_out.binary_search(begin).is_err()) {
            items.extend(if self.is_all_day() { Some(days(begin, length)) } else { span(begin, length, &zone) });
        }
        if items.len() > most {
            return Err(refuse(number, &format!("more than {most} days and spans up to here, wanted fewer")));
        }
        Ok(())
    }

    /// How long it lasts, in seconds.
    fn length(&self, begin: Moment, zone: &Zone) -> Option<i64> {
        if let Some(lasts) = self.lasts {
            return Some(lasts);
        }
        let real = |moment: Moment, zone: &Zone| match moment {
            Moment::Day(date) => Some(second_of(date.to_datetime(Time::midnight()))),
            Moment::Local(at) => zone.rules().to_ambiguous_timestamp(at).compatible().ok().map(jiff::Timestamp::as_second),
            Moment::Real(second) => Some(second),
        };
        match &self.end {
            Some((end, end_zone)) => Some(real(*end, end_zone)? - real(begin, zone)?).filter(|length| *length >= 0),
            None if matches!(begin, Moment::Day(_)) => Some(DAY),
            None => Some(0),
        }
    }
}

fn days(begin: i64, length: i64) -> DayItem {
    let first = begin.div_euclid(DAY);
    let last = first + (length - 1).max(0).div_euclid(DAY);
    DayItem::Dates(first, last.min(UnixMillis::END / 1_000 / DAY - 1))
}

fn span(begin: i64, length: i64, zone: &Zone) -> Option<DayItem> {
    let begin = zone.rules().to_ambiguous_timestamp(of_second(begin)).compatible().ok()?.as_millisecond();
    let (first, end) = (UnixMillis::new(begin)?, UnixMillis::new(begin + length * 1_000)?);
    (first < end).then_some(DayItem::Span(first, end))
}

/// `P2D` or `P1W`: days here, as whole days of seconds.
fn in_days(text: &str) -> Option<i64> {
    let rest = text.strip_prefix('P')?;
    let (number, unit) = rest.split_at_checked(rest.len().checked_sub(1)?)?;
    let count = number.parse::<i64>().ok().filter(|count| (0..=3_650).contains(count))?;
    match unit {
        "D" => Some(count * DAY),
        "W" => Some(count * 7 * DAY),
        _ => None,
    }
}

fn second_of(at: DateTime) -> i64 {
    at.to_zoned(jiff::tz::TimeZone::UTC).map_or(0, |at| at.timestamp().as_second())
}

fn of_second(second: i64) -> DateTime {
    jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::from_second(second).unwrap_or_default())
}
