//! Instants as people write them, for `at =` and `--at`: RFC 3339, local dates, times of day, `tomorrow 9am`, `in 2h`.
//! [`parse_instant`] reads what is said now, [`parse_fixed`] what means the same whenever it is read.
//!
//! Invariant: a text means one instant or is refused; a local time that does not exist is never moved silently, and of one
//! that comes twice the first is taken and said so. Whether the past is allowed is the caller's business.

mod clock_time;
mod days;
mod local;
mod words;

#[cfg(test)]
mod tests;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::AmbiguousOffset;

use self::days::Day;
use self::local::RANGE;
use self::words::{Fault, Word};
use super::duration::parse_duration;
use super::time::UnixMillis;
use super::zone::Zone;

const FORMS: &str = "\"2026-12-24T09:00:00+01:00\", \"2026-12-24 09:00\", \"24 dec 9am\", \"09:00\", \"noon\", \"tomorrow 9am\", \
                     \"fri 17:00\", \"next fri\", \"in 2h30m\" or \"@1790000000\"";
const FIXED_FORMS: &str = "a date and time such as \"2026-12-24T09:00:00+01:00\" or \"2026-12-24T09:00\"";
/// The longest text, in bytes.
const LONGEST_TEXT: usize = 200;

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
/// today), a day of a month without a year likewise; a day alone is its midnight. `@`, or 10 or 13 digits alone, counts
/// seconds since 1970, with 13 digits milliseconds. Case and outer blanks do not matter. Refused: unknown words, dates whose
/// month is not clear, a local time inside a gap of the zone's clock, anything outside 1970 to 2099.
pub fn parse_instant(text: &str, now: UnixMillis, zone: &Zone) -> Result<Instant, InstantError> {
    let lower = text.to_ascii_lowercase();
    let found = split(&lower, FORMS).and_then(|words| read(&lower, &words, &Here { now, zone }));
    found.map_err(|fault| refused(text, fault))
}

/// The instant `text` means whenever it is read: a date of numbers with a time (a local one in `zone`), or `@` and seconds.
pub fn parse_fixed(text: &str, zone: Option<&Zone>) -> Result<Instant, InstantError> {
    let lower = text.to_ascii_lowercase();
    let read = |words: Vec<Word<'_>>| match words.as_slice() {
        [first, rest @ ..] if first.text.starts_with('@') => since_1970(*first, rest),
        [first, rest @ ..] if days::is_numeric(first.text) => match (dated(*first, rest)?, zone) {
            (Dated::At(at), _) => Ok(Instant { at, note: None }),
            (Dated::Local(local), Some(zone)) => local::resolve(local, zone).map_err(|problem| first.fault(problem)),
            (Dated::Local(_), None) => {
                let wanted = "wanted one behind it such as \"Z\" or \"+01:00\"";
                Err(first.fault(format!("has no offset from UTC, {wanted}")))
            }
        },
        words => Err(Fault {
            offset: words.first().map_or(0, |word| word.offset),
            problem: format!("wanted {FIXED_FORMS}, the same whenever it is read"),
        }),
    };
    split(&lower, FIXED_FORMS).and_then(read).map_err(|fault| refused(text, fault))
}

fn refused(text: &str, Fault { offset, problem }: Fault) -> InstantError {
    InstantError { found: words::cut(text), problem, offset }
}

/// The words of a text that is not too long; at least one.
fn split<'t>(lower: &'t str, forms: &str) -> Result<Vec<Word<'t>>, Fault> {
    if lower.len() > LONGEST_TEXT {
        return Err(Fault { offset: 0, problem: format!("{} bytes found, wanted at most {LONGEST_TEXT}", lower.len()) });
    }
    let words = words::split(lower);
    if words.is_empty() { Err(Fault { offset: 0, problem: format!("is empty, wanted {forms}") }) } else { Ok(words) }
}

/// Where and when a text is read.
struct Here<'a> {
    now: UnixMillis,
    zone: &'a Zone,
}

fn read(lower: &str, words: &[Word<'_>], here: &Here<'_>) -> Result<Instant, Fault> {
    let (Some(first), Some(last)) = (words.first(), words.last()) else { return by_day_and_time(lower, words, here) };
    let rest = words.get(1..).unwrap_or_default();
    match first.text {
        "now" if rest.is_empty() => Ok(Instant { at: here.now, note: None }),
        "in" => {
            let start = rest.first().map_or(lower.len(), |word| word.offset);
            let length = length_in(lower, start, lower.len())?;
            let at = here.now.as_i64().checked_add(length);
            at.and_then(UnixMillis::new).map(|at| Instant { at, note: None }).ok_or_else(|| out_of_range(start, "after 2099"))
        }
        _ if last.text == "ago" => {
            let length = length_in(lower, first.offset, last.offset)?;
            let at = here.now.as_i64().checked_sub(length);
            at.and_then(UnixMillis::new)
                .map(|at| Instant { at, note: None })
                .ok_or_else(|| out_of_range(first.offset, "before 1970"))
        }
        word if word.starts_with('@') || is_epoch(word) => since_1970(*first, rest),
        word if days::begins_with_a_date(word) => match dated(*first, rest)? {
            Dated::At(at) => Ok(Instant { at, note: None }),
            Dated::Local(local) => here.resolve(*first, local),
        },
        _ => by_day_and_time(lower, words, here),
    }
}

/// The length of time written in these bytes, in milliseconds.
fn length_in(lower: &str, start: usize, end: usize) -> Result<i64, Fault> {
    let text = lower.get(start..end).unwrap_or_default().trim();
    let length = parse_duration(text).map_err(|error| Fault { offset: start, problem: error.to_string() })?;
    Ok(i64::try_from(length.as_millis()).unwrap_or(i64::MAX))
}

fn out_of_range(offset: usize, place: &str) -> Fault {
    Fault { offset, problem: format!("is {place}, {RANGE}") }
}

/// Digits alone, as `date +%s` prints them, or milliseconds.
fn is_epoch(word: &str) -> bool {
    matches!(word.len(), 10 | 13) && word.bytes().all(|b| b.is_ascii_digit())
}

/// `@1790000000`, `@1790000000123`, and both without the `@`.
fn since_1970(word: Word<'_>, rest: &[Word<'_>]) -> Result<Instant, Fault> {
    words::nothing_after(rest)?;
    let digits = word.text.strip_prefix('@').unwrap_or(word.text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
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

/// What a date of numbers with a time means.
enum Dated {
    At(UnixMillis),
    /// What the wall clock of some zone shows.
    Local(DateTime),
}

/// `2026-12-24`, `2026-12-24T09:00`, `2026-12-24 9am`, RFC 3339 with `T` or a blank, the basic form `20261224T090000Z`.
fn dated(word: Word<'_>, rest: &[Word<'_>]) -> Result<Dated, Fault> {
    let (date_word, inner) = word.split_at_char('t');
    let date = days::date(date_word)?;
    let times: Vec<Word<'_>> = inner.into_iter().chain(words::without_at(rest).iter().copied()).collect();
    if times.is_empty() {
        return Ok(Dated::Local(date.at(0, 0, 0, 0)));
    }
    let [clock, after @ ..] = times.as_slice() else { return Err(word.fault(format!("has no time, wanted {FORMS}"))) };
    let (clock, zone_part) = clock_time::split_zone(*clock);
    let is_basic = date_word.text.len() == 8;
    let Some(zone_part) = zone_part else {
        let (time, used) = if is_basic { (clock_time::basic(clock)?, 0) } else { clock_time::of_words(clock, after)? };
        words::nothing_after(after.get(used..).unwrap_or_default())?;
        return Ok(Dated::Local(date.to_datetime(time)));
    };
    words::nothing_after(after)?;
    let time = if is_basic { clock_time::basic(clock)? } else { clock_time::digital(clock)? };
    let offset = clock_time::zone_offset(zone_part)?;
    let at = offset.to_timestamp(date.to_datetime(time)).ok().and_then(UnixMillis::from_timestamp);
    at.map(Dated::At).ok_or_else(|| word.fault(format!("{} is out of range, {RANGE}", word.shown())))
}

/// `9am`, `fri`, `tomorrow at 9am`, `next fri 17:00`, `24 dec 9am`, `9am tomorrow`.
fn by_day_and_time(lower: &str, words: &[Word<'_>], here: &Here<'_>) -> Result<Instant, Fault> {
    let today = here.now_on_the_wall().date();
    let all = words;
    let words = words::without_at(words);
    let end = || all.last().map_or(0, |word| word.offset + word.text.len());
    let Some(first) = words.first() else {
        return Err(Fault { offset: end(), problem: format!("has no time of day, wanted {FORMS}") });
    };
    if let Some((day, used)) = days::take(words, today)? {
        let (at, rest) = words.split_at_checked(used).unwrap_or((words, &[]));
        let spoken = rest.first().is_some_and(|word| word.text == "at");
        let rest = words::without_at(rest);
        let Some((clock, after)) = rest.split_first() else {
            return if spoken {
                let shown = at.first().map_or_else(String::new, |word| word.shown());
                Err(Fault {
                    offset: end(),
                    problem: format!("has no time of day after {shown}, wanted one as in \"tomorrow 09:00\""),
                })
            } else {
                here.on(*first, day, Time::midnight(), today)
            };
        };
        let (time, used) = clock_time::of_words(*clock, after)?;
        words::nothing_after(after.get(used..).unwrap_or_default())?;
        return here.on(*clock, day, time, today);
    }
    if first.text.starts_with(|c: char| c.is_ascii_digit())
        && lower.contains(char::is_alphabetic)
        && parse_duration(lower).is_ok()
    {
        let length: Vec<&str> = words.iter().map(|word| word.text).collect();
        let problem = format!("{} is a length of time, write \"in {}\"", first.shown(), length.join(" "));
        return Err(first.fault(problem));
    }
    let (time, used) = clock_time::of_words(*first, words.get(1..).unwrap_or_default())?;
    let rest = words.get(used + 1..).unwrap_or_default();
    match days::take(words::without_at(rest), today)? {
        None => {
            words::nothing_after(rest)?;
            here.on(*first, Day::Unsaid, time, today)
        }
        Some((day, used)) => {
            words::nothing_after(words::without_at(rest).get(used..).unwrap_or_default())?;
            here.on(*first, day, time, today)
        }
    }
}

impl Here<'_> {
    fn now_on_the_wall(&self) -> DateTime {
        self.zone.rules().to_datetime(self.now.to_timestamp())
    }

    /// The time of day on the day that is meant; of a day that comes again and again, on the first still to come.
    fn on(&self, word: Word<'_>, day: Day, time: Time, today: Date) -> Result<Instant, Fault> {
        let in_days = |date: Date, days: i32| Some(date.checked_add(jiff::Span::new().days(days)).unwrap_or(date));
        match day {
            Day::Exactly(date) => self.resolve(word, date.to_datetime(time)),
            Day::Unsaid => self.coming(word, time, Some(today), |date| in_days(date, 1)),
            Day::Weekly(date) => self.coming(word, time, Some(date), |date| in_days(date, 7)),
            Day::Yearly(month, day) => self.coming(word, time, days::yearly(month, day, today.year()), |date| {
                days::yearly(month, day, date.year().saturating_add(1))
            }),
        }
    }

    /// `time` on `date` if that is still to come, else on the `next` one.
    fn coming(
        &self,
        word: Word<'_>,
        time: Time,
        date: Option<Date>,
        next: impl FnOnce(Date) -> Option<Date>,
    ) -> Result<Instant, Fault> {
        let out_of_range = || word.fault(format!("{} is out of range, {RANGE}", word.shown()));
        let date = date.ok_or_else(out_of_range)?;
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
            return self.resolve(word, next(date).ok_or_else(out_of_range)?.to_datetime(time));
        }
        self.resolve(word, local)
    }

    fn resolve(&self, word: Word<'_>, local: DateTime) -> Result<Instant, Fault> {
        local::resolve(local, self.zone).map_err(|problem| word.fault(problem))
    }
}
