//! An event of an iCalendar file, and the days or spans of the event and its repetitions.

use std::collections::BTreeSet;

use super::ics_effort::{Effort, spent};
use super::ics_error::IcsError;
use super::ics_line::{IcsLine, Moment, Stated, of_second, real_of};
use schedd_schedule::day_sets::DayItem;
use schedd_schedule::schedule_form::Recurrence;
use schedd_schedule::time::duration::parse_duration;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;

const DAY: i64 = 86_400;

/// The properties of an event that schedd uses.
pub(super) struct Event {
    /// The zone of times that name no zone.
    host: Zone,
    uid: Option<String>,
    /// The occurrence that this event replaces, in the series with the same `uid`. `None` if the
    /// event replaces no occurrence.
    place: Option<Stated>,
    begin: Option<Stated>,
    end: Option<Stated>,
    lasts: Option<i64>,
    rules: Vec<(usize, String)>,
    left_out: Vec<Stated>,
    added: Vec<Stated>,
    is_cancelled: bool,
    is_free: bool,
}

impl Event {
    /// Creates an event without properties. The times of the event are in `zone` unless a time
    /// names its own zone.
    pub(super) fn in_zone(zone: &Zone) -> Self {
        Self {
            host: zone.clone(),
            uid: None,
            place: None,
            begin: None,
            end: None,
            lasts: None,
            rules: Vec::new(),
            left_out: Vec::new(),
            added: Vec::new(),
            is_cancelled: false,
            is_free: false,
        }
    }

    /// Adds a line of the event. The lines of an event come in any order.
    pub(super) fn note(&mut self, line: &IcsLine) -> Result<(), IcsError> {
        match line.name.as_str() {
            "UID" => self.uid = Some(line.value.clone()),
            "RECURRENCE-ID" if line.parameter("RANGE").is_some() => {
                return Err(line.refuse(
                    "RANGE, a change of all later occurrences, is not supported, wanted single events",
                ));
            }
            "RECURRENCE-ID" => self.place = Some(line.stated()?),
            "DTSTART" => self.begin = Some(line.stated()?),
            "DTEND" => self.end = Some(line.stated()?),
            "DURATION" => self.lasts = Some(lasting(line)?),
            "RRULE" => self.rules.push((line.number, line.value.clone())),
            "EXDATE" => self.left_out.extend(line.all_stated()?),
            "RDATE"
                if line
                    .parameter("VALUE")
                    .is_none_or(|kind| !kind.eq_ignore_ascii_case("PERIOD")) =>
            {
                self.added.extend(line.all_stated()?);
            }
            "RDATE" => return Err(line.refuse("periods are not supported, wanted dates")),
            "STATUS" => self.is_cancelled |= line.value.eq_ignore_ascii_case("CANCELLED"),
            "TRANSP" => self.is_free |= line.value.eq_ignore_ascii_case("TRANSPARENT"),
            _ => {}
        }
        Ok(())
    }

    /// Returns the uid of the series, and the occurrence of the series that this event replaces.
    /// Returns `None` if the event replaces no occurrence.
    pub(super) fn place(&self) -> Option<(&str, &Stated)> {
        self.uid.as_deref().zip(self.place.as_ref())
    }

    /// Returns the uid of the series that this event defines. Returns `None` if the event replaces
    /// an occurrence.
    pub(super) fn uid(&self) -> Option<&str> {
        if self.place.is_some() { None } else { self.uid.as_deref() }
    }

    fn is_all_day(&self) -> bool {
        matches!(self.begin, Some(Stated { moment: Moment::Day(_), .. }) | None)
    }

    /// Appends the days or spans of the event to `items`. Leaves out the occurrences in `replaced`,
    /// which other events replace.
    pub(super) fn add_to(
        &self,
        items: &mut Vec<DayItem>,
        number: usize,
        replaced: &[&Stated],
        most: usize,
        effort: &mut Effort,
    ) -> Result<(), IcsError> {
        let refuse = |line: usize, problem: &str| IcsError { line, problem: problem.to_owned() };
        // An all-day event counts even if it is marked as free time, because holidays are often
        // published as free time.
        if self.is_cancelled || self.is_free && !self.is_all_day() {
            return Ok(());
        }
        effort.spend(1 + replaced.len() + self.left_out.len(), number)?;
        let Some(begin) = &self.begin else {
            return Err(refuse(number, "found an event without DTSTART, wanted its start"));
        };
        let zone = match begin.moment {
            Moment::Real(_) => Zone::utc(),
            Moment::Day(_) | Moment::Local(_) => {
                begin.zone.clone().unwrap_or_else(|| self.host.clone())
            }
        };
        let none = || {
            refuse(
                number,
                "found an event at a time that the clock of its zone skips, wanted another time",
            )
        };
        let length = self.length(begin).ok_or_else(|| {
            refuse(number, "found an event that ends before it starts, wanted a later end")
        })?;
        let first = begin.on_wall(&zone).ok_or_else(none)?;
        let mut begins = BTreeSet::from([first]);
        for (line, rule) in &self.rules {
            let rule = Recurrence::new(rule, of_second(first))
                .map_err(|error| refuse(*line, &error.to_string()))?;
            rule.walk_local(&zone, &mut effort.steps_left, &mut |next| {
                let is_in_time = next < UnixMillis::END / 1_000;
                if is_in_time {
                    begins.insert(next);
                }
                !is_in_time || begins.len() > most + 1
            });
            if begins.len() > most + 1 {
                return Err(refuse(
                    *line,
                    &format!(
                        "found an event with more than {most} times before 2100, wanted UNTIL or COUNT"
                    ),
                ));
            }
            if effort.steps_left == 0 {
                return Err(spent(*line));
            }
        }
        begins.extend(self.added.iter().filter_map(|added| self.own_wall(added, &zone)));
        let gone = self.left_out.iter().chain(replaced.iter().copied());
        let (days, moments): (Vec<&Stated>, Vec<&Stated>) =
            gone.partition(|gone| matches!(gone.moment, Moment::Day(_)));
        let days: BTreeSet<i64> = days.iter().filter_map(|day| day.on_wall(&zone)).collect();
        let moments: BTreeSet<i64> =
            moments.iter().filter_map(|moment| self.own_wall(moment, &zone)).collect();
        let is_gone = |begin: i64| {
            moments.contains(&begin) || days.contains(&(begin - begin.rem_euclid(DAY)))
        };
        for begin in begins.into_iter().filter(|begin| !is_gone(*begin)) {
            items.extend(if self.is_all_day() {
                Some(days_of(begin, length))
            } else {
                span(begin, length, &zone)
            });
        }
        if items.len() > most {
            return Err(refuse(
                number,
                &format!("found more than {most} days and spans up to this event, wanted fewer"),
            ));
        }
        Ok(())
    }

    /// Returns the moment `stated` as the start of an occurrence, in seconds since 1970 by the wall
    /// clock of `zone`. For an all-day event the start is the midnight before `stated`. Returns
    /// `None` if the moment is outside the years that jiff supports.
    fn own_wall(&self, stated: &Stated, zone: &Zone) -> Option<i64> {
        let at = stated.on_wall(zone)?;
        Some(if self.is_all_day() { at - at.rem_euclid(DAY) } else { at })
    }

    /// Returns the length of the event in seconds. Returns `None` if the event ends before it
    /// starts.
    fn length(&self, begin: &Stated) -> Option<i64> {
        if let Some(lasts) = self.lasts {
            return Some(lasts);
        }
        match &self.end {
            Some(end) => {
                let zone = begin.zone.as_ref().unwrap_or(&self.host);
                Some(end.real(zone)? - begin.real(zone)?).filter(|length| *length >= 0)
            }
            None if matches!(begin.moment, Moment::Day(_)) => Some(DAY),
            None => Some(0),
        }
    }
}

/// Parses the duration in the value of `line`, such as `PT1H30M`, `P2D` or `+P1W`, to seconds.
fn lasting(line: &IcsLine) -> Result<i64, IcsError> {
    let text = line.value.strip_prefix('+').unwrap_or(&line.value);
    let read = if text.starts_with('P') { parse_duration(text).ok() } else { None };
    let seconds = read.and_then(|lasts| i64::try_from(lasts.as_secs()).ok());
    seconds.ok_or_else(|| line.refuse("not a duration, wanted a duration such as PT1H"))
}

fn days_of(begin: i64, length: i64) -> DayItem {
    let first = begin.div_euclid(DAY);
    let last = first + (length - 1).max(0).div_euclid(DAY);
    DayItem::Dates(first, last.min(UnixMillis::END / 1_000 / DAY - 1))
}

fn span(begin: i64, length: i64, zone: &Zone) -> Option<DayItem> {
    let begin = real_of(of_second(begin), zone)?.checked_mul(1_000)?;
    let (first, end) = (UnixMillis::new(begin)?, UnixMillis::new(begin + length * 1_000)?);
    (first < end).then_some(DayItem::Span(first, end))
}
