//! Instants as people write them, for `at =` and `--at`: RFC 3339, local dates, times of day, `tomorrow 9am`, `in 2h`.
//!
//! Invariant: a text means one instant or is refused; a local time that does not exist is never moved silently, and of one
//! that comes twice the first is taken and said so. Whether the past is allowed is the caller's business.

mod clock_time;
mod words;

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::AmbiguousOffset;

use self::words::{Fault, Word};
use super::duration::parse_duration;
use super::time::UnixMillis;
use super::zone::Zone;

const FORMS: &str = "\"2026-12-24T09:00:00+01:00\", \"2026-12-24 09:00\", \"2026-12-24\", \"09:00\", \"9am\", \"noon\", \
                     \"tomorrow 9am\", \"fri 17:00\", \"next fri 17:00\", \"in 2h30m\" or \"@1790000000\"";
const RANGE: &str = "wanted a time from 1970 to 2099";

/// What a text means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instant {
    /// The instant.
    pub at: UnixMillis,
    /// Said when the local time comes twice and the first was taken.
    pub note: Option<String>,
}

/// A text that means no instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("time {found:?}: {problem}")]
pub struct InstantError {
    /// The text found, cut when it is long.
    pub found: String,
    /// What is wrong and what was wanted.
    pub problem: String,
    /// The byte of the text at which the fault begins.
    pub offset: usize,
}

/// The instant `text` means at `now` in `zone`.
///
/// A time of day alone is its next coming; a weekday is the next such day whose time is still to come (with `next` never
/// today); a date alone is its midnight. `@` counts seconds since 1970, with 13 digits milliseconds. Case and outer blanks
/// do not matter. Refused: unknown words, a local time inside a gap of the zone's clock, anything outside 1970 to 2099.
pub fn parse_instant(text: &str, now: UnixMillis, zone: &Zone) -> Result<Instant, InstantError> {
    read(text, &Here { now, zone }).map_err(|Fault { offset, problem }| InstantError { found: words::cut(text), problem, offset })
}

/// Where and when a text is read.
struct Here<'a> {
    now: UnixMillis,
    zone: &'a Zone,
}

/// Which day is meant, as far as the words before the time of day say.
#[derive(Clone, Copy)]
enum Day {
    /// None: the next coming of the time of day.
    Unsaid,
    Exactly(Date),
    /// The first day from the given one on, a week apart, whose time of day is still to come.
    Weekly(Date),
}

fn read(text: &str, here: &Here<'_>) -> Result<Instant, Fault> {
    let lower = text.to_ascii_lowercase();
    let words = words::split(&lower);
    let Some((first, rest)) = words.split_first() else {
        return Err(Fault { offset: 0, problem: format!("is empty, wanted {FORMS}") });
    };
    match first.text {
        "in" => ahead(&lower, *first, rest, here),
        word if word.starts_with('@') => since_1970(*first, rest),
        word if clock_time::begins_with_a_date(word) => dated(*first, rest, here),
        _ => by_day_and_time(*first, &words, here),
    }
}

/// `in 2h30m`
fn ahead(lower: &str, first: Word<'_>, rest: &[Word<'_>], here: &Here<'_>) -> Result<Instant, Fault> {
    let offset = rest.first().map_or(lower.len(), |word| word.offset);
    let by = lower.get(first.offset + first.text.len()..).unwrap_or_default().trim();
    let by = parse_duration(by).map_err(|error| Fault { offset, problem: error.to_string() })?;
    here.now
        .as_i64()
        .checked_add(millis(by))
        .and_then(UnixMillis::new)
        .map_or_else(|| Err(Fault { offset, problem: format!("is after 2099, {RANGE}") }), |at| Ok(Instant { at, note: None }))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// `@1790000000`, `@1790000000123`
fn since_1970(word: Word<'_>, rest: &[Word<'_>]) -> Result<Instant, Fault> {
    words::nothing_after(rest)?;
    let digits = word.text.trim_start_matches('@');
    if word.text.len() != digits.len() + 1 || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        let problem =
            format!("{} is no count of seconds since 1970, wanted digits after one @, as in \"@1790000000\"", word.shown());
        return Err(word.fault(problem));
    }
    let unit = if digits.len() == 13 { 1 } else { 1000 };
    digits
        .parse::<i64>()
        .ok()
        .and_then(|count| count.checked_mul(unit))
        .and_then(UnixMillis::new)
        .map(|at| Instant { at, note: None })
        .ok_or_else(|| word.fault(format!("{} is out of range, {RANGE}: seconds, or milliseconds with 13 digits", word.shown())))
}

/// `2026-12-24`, `2026-12-24T09:00`, `2026-12-24 9am`, RFC 3339 with `T` or a blank.
fn dated(word: Word<'_>, rest: &[Word<'_>], here: &Here<'_>) -> Result<Instant, Fault> {
    let (date_word, inner) = word.split_at_char('t');
    let date = clock_time::date(date_word)?;
    let times: Vec<Word<'_>> = inner.into_iter().chain(words::without_at(rest).iter().copied()).collect();
    if times.is_empty() {
        return here.resolve(word, date.at(0, 0, 0, 0));
    }
    let [clock, after @ ..] = times.as_slice() else { return Err(word.fault(format!("has no time, wanted {FORMS}"))) };
    let (clock, zone_part) = clock_time::split_zone(*clock);
    let Some(zone_part) = zone_part else {
        let (time, used) = clock_time::of_words(clock, after)?;
        words::nothing_after(after.get(used..).unwrap_or_default())?;
        return here.resolve(word, date.to_datetime(time));
    };
    words::nothing_after(after)?;
    let time = clock_time::digital(clock)?;
    let offset = clock_time::zone_offset(zone_part)?;
    offset
        .to_timestamp(date.to_datetime(time))
        .ok()
        .and_then(UnixMillis::from_timestamp)
        .map(|at| Instant { at, note: None })
        .ok_or_else(|| word.fault(format!("{} is out of range, {RANGE}", word.shown())))
}

/// `9am`, `today 17:00`, `tomorrow at 9am`, `next fri 17:00`.
fn by_day_and_time(first: Word<'_>, words: &[Word<'_>], here: &Here<'_>) -> Result<Instant, Fault> {
    let today = here.now_on_the_wall().date();
    let (day, used) = match (first.text, words.get(1)) {
        ("today", _) => (Day::Exactly(today), 1),
        ("tomorrow", _) => (Day::Exactly(next_day(today)), 1),
        ("next", None) => {
            return Err(first.fault(format!("{} has no weekday after it, wanted one as in \"next fri 17:00\"", first.shown())));
        }
        ("next", Some(second)) => match clock_time::weekday(second.text) {
            Some(weekday) => (Day::Weekly(clock_time::first_on_or_after(next_day(today), weekday)), 2),
            None => {
                return Err(second.fault(format!("{} follows next, wanted a weekday as in \"next fri 17:00\"", second.shown())));
            }
        },
        (word, _) => match clock_time::weekday(word) {
            Some(weekday) => (Day::Weekly(clock_time::first_on_or_after(today, weekday)), 1),
            None => (Day::Unsaid, 0),
        },
    };
    let rest = words::without_at(words.get(used..).unwrap_or_default());
    let Some((clock, after)) = rest.split_first() else {
        let problem = format!("has no time of day after {}, wanted one as in \"tomorrow 09:00\"", first.shown());
        return Err(Fault { offset: words.last().map_or(0, |word| word.offset + word.text.len()), problem });
    };
    let (time, used) = clock_time::of_words(*clock, after)?;
    words::nothing_after(after.get(used..).unwrap_or_default())?;
    match day {
        Day::Exactly(date) => here.resolve(*clock, date.to_datetime(time)),
        Day::Weekly(date) => here.resolve_coming(*clock, date, time, 7),
        Day::Unsaid => here.resolve_coming(*clock, today, time, 1),
    }
}

fn next_day(date: Date) -> Date {
    date.tomorrow().unwrap_or(date)
}

impl Here<'_> {
    fn now_on_the_wall(&self) -> DateTime {
        self.zone.rules().to_datetime(self.now.to_timestamp())
    }

    /// `time` on `date` if that is still to come, else `days` later.
    fn resolve_coming(&self, word: Word<'_>, date: Date, time: Time, days: i32) -> Result<Instant, Fault> {
        let local = date.to_datetime(time);
        let ambiguous = self.zone.rules().to_ambiguous_timestamp(local);
        if let AmbiguousOffset::Fold { .. } = ambiguous.offset()
            && let Ok(second) = ambiguous.later()
            && let Some(at) = UnixMillis::from_timestamp(second).filter(|at| *at > self.now)
            && ambiguous.earlier().is_ok_and(|first| first <= self.now.to_timestamp())
        {
            return Ok(Instant {
                at,
                note: Some(format!("{time} comes twice on {date} in {}; this is the second", self.zone.name())),
            });
        }
        if local <= self.now_on_the_wall() {
            let later = date.checked_add(jiff::Span::new().days(days)).unwrap_or(date);
            return self.resolve(word, later.to_datetime(time));
        }
        self.resolve(word, local)
    }

    /// The instant at which the wall clock shows `local`.
    fn resolve(&self, word: Word<'_>, local: DateTime) -> Result<Instant, Fault> {
        let name = self.zone.name();
        let rules = self.zone.rules();
        let out_of_range = || word.fault(format!("{} is out of range, {RANGE}", word.shown()));
        let ambiguous = rules.to_ambiguous_timestamp(local);
        let show = |at: jiff::Timestamp| at.to_zoned(rules.clone()).strftime("%FT%T%:z").to_string();
        let note = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } => None,
            AmbiguousOffset::Gap { after, .. } => {
                // A gap lies around the first clock change after what the later offset makes of it.
                let change = after.to_timestamp(local).ok().and_then(|from| rules.following(from).next());
                let offer = change
                    .map_or_else(String::new, |change| format!("; the first instant after is {}", show(change.timestamp())));
                let shown = local.strftime("%F %T");
                return Err(word.fault(format!("{shown} does not exist in {name}, where the clock skips it{offer}")));
            }
            AmbiguousOffset::Fold { before, after } => {
                let [first, second] = [before, after].map(|offset| offset.to_timestamp(local).map(show).unwrap_or_default());
                Some(format!(
                    "{} comes twice in {name}; the first is taken, {first}; the second is {second}",
                    local.strftime("%F %T")
                ))
            }
        };
        let at = ambiguous.earlier().ok().and_then(UnixMillis::from_timestamp).ok_or_else(out_of_range)?;
        Ok(Instant { at, note })
    }
}
