//! Instants as users write them, for `at =` and `--at`: RFC 3339, local dates, times of day,
//! `tomorrow 9am`, `in 2h`. [`parse_instant`] reads text that depends on the present time.
//! [`parse_fixed`] reads text that always means the same.
//!
//! Invariant: a text means a single instant or is refused. A local time that does not exist is
//! never moved silently. If a local time comes twice, a note says which of the two instants is
//! used. The caller decides whether a past instant is allowed.

mod clock_time;
#[cfg(test)]
mod human_time_tests;
mod local_time;
mod named_days;
mod time_vocabulary;
mod zone_word;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::AmbiguousOffset;

use super::duration::parse_duration;
use super::unix_millis::UnixMillis;
use super::zone::Zone;
use local_time::RANGE;
use named_days::NamedDay;
use time_vocabulary::{FORMS, TimeFault, TimeWord};
use zone_word::ZoneWord;

pub use local_time::Instant;

const FIXED_FORMS: &str =
    "a date and time such as \"2026-12-24T09:00:00+01:00\" or \"2026-12-24T09:00\"";
/// The maximum length of a text, in bytes.
const LONGEST_TEXT: usize = 200;

/// The error for a text that means no instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("time {found:?}: {problem}")]
pub struct InstantError {
    /// The refused text, cut if it is long.
    pub found: String,
    /// The message: the fault, and a valid form.
    pub problem: String,
    /// The byte of the text at which the fault begins.
    pub offset: usize,
}

/// Returns the instant that `text` means at the time `now` in `zone`.
///
/// * A time of day alone means the next instant at which the clock shows this time.
/// * A weekday is the next such day whose time is still to come. With `next`, today does not count.
/// * A day of a month without a year is the next such day whose time is still to come.
/// * A day alone means 00:00 on this day.
/// * `11-23 02:30` is a month and a day without a year.
/// * A zone after the time is `UTC`, a name such as `Europe/Berlin`, an offset such as `+01:00`, or
///   the abbreviation that the clock of `zone` has at that time, such as `CET`.
/// * `@` and digits, or 10 or 13 digits alone, count seconds since 1970. 13 digits count
///   milliseconds.
///
/// Upper and lower case count as equal, and outer blanks are ignored. Fails for unknown words, for
/// dates whose month is not clear, and for instants outside 1970 to 2099. Also fails for a local
/// time inside a gap of the zone's clock.
pub fn parse_instant(text: &str, now: UnixMillis, zone: &Zone) -> Result<Instant, InstantError> {
    let lower = text.to_ascii_lowercase();
    let found =
        split(&lower, FORMS).and_then(|words| read_with_zone(&lower, &words, &Here { now, zone }));
    found.map_err(|fault| refused(text, fault))
}

/// Returns the first instant after the gap in which the clock of `zone` skips the time `wall`. The
/// wall time is stored as if it were in UTC. Returns `None` if the clock shows this time.
pub fn after_gap(wall: UnixMillis, zone: &Zone) -> Option<UnixMillis> {
    let local = Zone::utc().rules().to_datetime(wall.to_timestamp());
    local_time::end_of_gap(local, zone).and_then(UnixMillis::from_timestamp)
}

/// Returns the instant of a text that means the same at any time. Such a text is a date of numbers
/// with a time, or `@` and seconds since 1970. A local time is read in `zone`. Fails for a local
/// time if `zone` is `None`.
pub fn parse_fixed(text: &str, zone: Option<&Zone>) -> Result<Instant, InstantError> {
    let lower = text.to_ascii_lowercase();
    let read = |words: Vec<TimeWord<'_>>| match words.as_slice() {
        [first, rest @ ..] if first.text.starts_with('@') => since_1970(*first, rest),
        [first, rest @ ..] if named_days::is_numeric(first.text) => {
            match (dated(*first, rest)?, zone) {
                (Dated::At(at), _) => Ok(Instant { at, note: None }),
                (Dated::Local(local), Some(zone)) => {
                    local_time::resolve(local, zone).map_err(|problem| first.fault(problem))
                }
                (Dated::Local(_), None) => {
                    let wanted = "wanted an offset after the time, such as \"Z\" or \"+01:00\"";
                    Err(first.fault(format!("the time has no offset from UTC, {wanted}")))
                }
            }
        }
        words => Err(TimeFault {
            offset: words.first().map_or(0, |word| word.offset),
            problem: format!("wanted a fixed time: {FIXED_FORMS}"),
        }),
    };
    split(&lower, FIXED_FORMS).and_then(read).map_err(|fault| refused(text, fault))
}

fn refused(text: &str, TimeFault { offset, problem }: TimeFault) -> InstantError {
    InstantError { found: time_vocabulary::cut(text), problem, offset }
}

/// Splits a text into its words. Fails if the text is too long or has no word.
fn split<'t>(lower: &'t str, forms: &str) -> Result<Vec<TimeWord<'t>>, TimeFault> {
    if lower.len() > LONGEST_TEXT {
        return Err(TimeFault {
            offset: 0,
            problem: format!("the text has {} bytes, wanted at most {LONGEST_TEXT}", lower.len()),
        });
    }
    let words = time_vocabulary::split(lower);
    if words.is_empty() {
        Err(TimeFault { offset: 0, problem: format!("the text is empty, wanted {forms}") })
    } else {
        Ok(words)
    }
}

/// The present time and the zone in which a text is read.
struct Here<'a> {
    now: UnixMillis,
    zone: &'a Zone,
}

/// Returns the instant of a text, which may end with a zone.
fn read_with_zone(
    lower: &str,
    words: &[TimeWord<'_>],
    here: &Here<'_>,
) -> Result<Instant, TimeFault> {
    read(lower, words, here).or_else(|fault| before_zone(lower, words, here).unwrap_or(Err(fault)))
}

/// Returns the instant of a text that ends with a zone. Returns `None` if the last word is no zone.
fn before_zone(
    lower: &str,
    words: &[TimeWord<'_>],
    here: &Here<'_>,
) -> Option<Result<Instant, TimeFault>> {
    let (last, mut rest) = words.split_last().filter(|(_, rest)| !rest.is_empty())?;
    let zone_word = ZoneWord::of(*last, here.zone, here.now)?;
    let mut end = last.offset;
    if let [before @ .., word] = rest
        && word.text == "in"
        && !before.is_empty()
    {
        (rest, end) = (before, word.offset);
    }
    let text = lower.get(..end)?.trim_end();
    Some(match zone_word {
        ZoneWord::Zone(zone) => read_with_zone(text, rest, &Here { now: here.now, zone: &zone }),
        ZoneWord::Abbreviation => {
            read(text, rest, here).and_then(|found| zone_word::chosen(*last, found.at, here.zone))
        }
    })
}

fn read(lower: &str, words: &[TimeWord<'_>], here: &Here<'_>) -> Result<Instant, TimeFault> {
    let (Some(first), Some(last)) = (words.first(), words.last()) else {
        return by_day_and_time(lower, words, here);
    };
    let rest = words.get(1..).unwrap_or_default();
    match first.text {
        "now" if rest.is_empty() => Ok(Instant { at: here.now, note: None }),
        "in" => {
            let start = rest.first().map_or(lower.len(), |word| word.offset);
            let length = length_in(lower, start, lower.len())?;
            let at = here.now.as_i64().checked_add(length);
            at.and_then(UnixMillis::new)
                .map(|at| Instant { at, note: None })
                .ok_or_else(|| out_of_range(start, "after 2099"))
        }
        _ if last.text == "ago" => {
            let length = length_in(lower, first.offset, last.offset)?;
            let at = here.now.as_i64().checked_sub(length);
            at.and_then(UnixMillis::new)
                .map(|at| Instant { at, note: None })
                .ok_or_else(|| out_of_range(first.offset, "before 1970"))
        }
        word if word.starts_with('@') || is_epoch(word) => since_1970(*first, rest),
        word if named_days::is_month_and_day(word) => by_day_and_time(lower, words, here),
        word if named_days::begins_with_a_date(word) => match dated(*first, rest)? {
            Dated::At(at) => Ok(Instant { at, note: None }),
            Dated::Local(local) => here.resolve(*first, local),
        },
        _ => by_day_and_time(lower, words, here),
    }
}

/// Returns the duration written in the bytes from `start` to `end`, in milliseconds.
fn length_in(lower: &str, start: usize, end: usize) -> Result<i64, TimeFault> {
    let text = lower.get(start..end).unwrap_or_default().trim();
    let length = parse_duration(text)
        .map_err(|error| TimeFault { offset: start, problem: error.to_string() })?;
    Ok(i64::try_from(length.as_millis()).unwrap_or(i64::MAX))
}

fn out_of_range(offset: usize, place: &str) -> TimeFault {
    TimeFault { offset, problem: format!("the time is {place}, {RANGE}") }
}

/// Returns true if the word consists of digits that count seconds since 1970, as `date +%s`
/// prints, or milliseconds.
fn is_epoch(word: &str) -> bool {
    matches!(word.len(), 10 | 13) && word.bytes().all(|b| b.is_ascii_digit())
}

/// Parses a number of seconds or milliseconds since 1970: `@1790000000` or `@1790000000123`. The
/// `@` may be absent.
fn since_1970(word: TimeWord<'_>, rest: &[TimeWord<'_>]) -> Result<Instant, TimeFault> {
    time_vocabulary::nothing_after(rest)?;
    let digits = word.text.strip_prefix('@').unwrap_or(word.text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        let problem = format!(
            "{} is not a number of seconds since 1970, wanted digits after the @, as in \"@1790000000\"",
            word.shown()
        );
        return Err(word.fault(problem));
    }
    let unit = if digits.len() == 13 { 1 } else { 1000 };
    digits
        .parse::<i64>()
        .ok()
        .and_then(|count| count.checked_mul(unit))
        .and_then(UnixMillis::new)
        .map(|at| Instant { at, note: None })
        .ok_or_else(|| {
            word.fault(format!(
                "{} is out of range, {RANGE}, in seconds or in milliseconds (13 digits)",
                word.shown()
            ))
        })
}

/// A parsed date with a time of day: a local time, or an instant if the text has an offset.
enum Dated {
    At(UnixMillis),
    /// A time on the wall clock of the zone in which the text is read.
    Local(DateTime),
}

/// Parses a date of numbers with a time: `2026-12-24`, `2026-12-24T09:00`, `2026-12-24 9am`, RFC
/// 3339 with `T` or a blank, or `20261224T090000Z`.
fn dated(word: TimeWord<'_>, rest: &[TimeWord<'_>]) -> Result<Dated, TimeFault> {
    let (date_word, inner) = word.split_at_char('t');
    let date = named_days::date(date_word)?;
    let times: Vec<TimeWord<'_>> =
        inner.into_iter().chain(time_vocabulary::without_at(rest).iter().copied()).collect();
    if times.is_empty() {
        return Ok(Dated::Local(date.at(0, 0, 0, 0)));
    }
    let [clock, after @ ..] = times.as_slice() else {
        return Err(word.fault(format!("the text has no time, wanted {FORMS}")));
    };
    let (clock, zone_part) = clock_time::split_zone(*clock);
    let is_basic = date_word.text.len() == 8;
    let Some(zone_part) = zone_part else {
        let (time, used) = if is_basic {
            (clock_time::basic(clock)?, 0)
        } else {
            clock_time::of_words(clock, after)?
        };
        time_vocabulary::nothing_after(after.get(used..).unwrap_or_default())?;
        return Ok(Dated::Local(date.to_datetime(time)));
    };
    time_vocabulary::nothing_after(after)?;
    let time = if is_basic { clock_time::basic(clock)? } else { clock_time::digital(clock)? };
    let offset = clock_time::zone_offset(zone_part)?;
    let at = offset.to_timestamp(date.to_datetime(time)).ok().and_then(UnixMillis::from_timestamp);
    at.map(Dated::At)
        .ok_or_else(|| word.fault(format!("{} is out of range, {RANGE}", word.shown())))
}

/// Parses a day, a time of day, or both: `9am`, `fri`, `tomorrow at 9am`, `next fri 17:00`, `24
/// dec 9am` or `9am tomorrow`.
fn by_day_and_time(
    lower: &str,
    words: &[TimeWord<'_>],
    here: &Here<'_>,
) -> Result<Instant, TimeFault> {
    let today = here.now_on_the_wall().date();
    let all = words;
    let words = time_vocabulary::without_at(words);
    let end = || all.last().map_or(0, |word| word.offset + word.text.len());
    let Some(first) = words.first() else {
        return Err(TimeFault {
            offset: end(),
            problem: format!("the text has no time of day, wanted {FORMS}"),
        });
    };
    if let Some((day, used)) = named_days::take(words, today)? {
        let (at, rest) = words.split_at_checked(used).unwrap_or((words, &[]));
        let spoken = rest.first().is_some_and(|word| word.text == "at");
        let rest = time_vocabulary::without_at(rest);
        let Some((clock, after)) = rest.split_first() else {
            return if spoken {
                let shown = at.first().map_or_else(String::new, |word| word.shown());
                Err(TimeFault {
                    offset: end(),
                    problem: format!(
                        "the text has no time of day after {shown}, wanted a time such as \"tomorrow 09:00\""
                    ),
                })
            } else {
                here.on(*first, day, Time::midnight(), today)
            };
        };
        let (time, used) = clock_time::of_words(*clock, after)?;
        time_vocabulary::nothing_after(after.get(used..).unwrap_or_default())?;
        return here.on(*clock, day, time, today);
    }
    if first.text.starts_with(|c: char| c.is_ascii_digit())
        && lower.contains(char::is_alphabetic)
        && parse_duration(lower).is_ok()
    {
        let length: Vec<&str> = words.iter().map(|word| word.text).collect();
        let problem = format!(
            "{} is a duration, wanted a time such as \"in {}\"",
            first.shown(),
            length.join(" ")
        );
        return Err(first.fault(problem));
    }
    let (time, used) = clock_time::of_words(*first, words.get(1..).unwrap_or_default())?;
    let rest = words.get(used + 1..).unwrap_or_default();
    match named_days::take(time_vocabulary::without_at(rest), today)? {
        None => {
            time_vocabulary::nothing_after(rest)?;
            here.on(*first, NamedDay::Unsaid, time, today)
        }
        Some((day, used)) => {
            time_vocabulary::nothing_after(
                time_vocabulary::without_at(rest).get(used..).unwrap_or_default(),
            )?;
            here.on(*first, day, time, today)
        }
    }
}

impl Here<'_> {
    fn now_on_the_wall(&self) -> DateTime {
        self.zone.rules().to_datetime(self.now.to_timestamp())
    }

    /// Returns the instant of the time of day `time` on `day`. If `day` means several dates, the
    /// result is the first instant that is still to come. `word` is the word that a fault names.
    fn on(
        &self,
        word: TimeWord<'_>,
        day: NamedDay,
        time: Time,
        today: Date,
    ) -> Result<Instant, TimeFault> {
        let in_days = |date: Date, days: i32| {
            Some(date.checked_add(jiff::Span::new().days(days)).unwrap_or(date))
        };
        match day {
            NamedDay::Exactly(date) => self.resolve(word, date.to_datetime(time)),
            NamedDay::Unsaid => self.coming(word, time, Some(today), |date| in_days(date, 1)),
            NamedDay::Weekly(date) => self.coming(word, time, Some(date), |date| in_days(date, 7)),
            NamedDay::Yearly(month, day) => {
                self.coming(word, time, named_days::yearly(month, day, today.year()), |date| {
                    named_days::yearly(month, day, date.year().saturating_add(1))
                })
            }
        }
    }

    /// Returns the instant of `time` on `date`. If that instant is past, the result is the instant
    /// of `time` on the date that `next` returns.
    fn coming(
        &self,
        word: TimeWord<'_>,
        time: Time,
        date: Option<Date>,
        next: impl FnOnce(Date) -> Option<Date>,
    ) -> Result<Instant, TimeFault> {
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
                note: Some(format!(
                    "{time} occurs twice on {date} in {}: the second time is used",
                    self.zone.name()
                )),
            });
        }
        if local <= self.now_on_the_wall() {
            return self.resolve(word, next(date).ok_or_else(out_of_range)?.to_datetime(time));
        }
        self.resolve(word, local)
    }

    fn resolve(&self, word: TimeWord<'_>, local: DateTime) -> Result<Instant, TimeFault> {
        local_time::resolve(local, self.zone).map_err(|problem| word.fault(problem))
    }
}
