//! The lines of an iCalendar file, and the dates and times in them.

use jiff::civil::{Date, DateTime, Time};

use super::ics_error::IcsError;
use schedd_schedule::time::zone::Zone;

/// A line of an iCalendar file, joined with its continuation lines.
pub(super) struct IcsLine {
    pub(super) number: usize,
    pub(super) name: String,
    /// The parameters between the name and the value.
    parameters: Vec<(String, String)>,
    pub(super) value: String,
}

/// A moment in an iCalendar file, such as the start or end of an event: a day, a local time or an
/// instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Day(Date),
    Local(DateTime),
    /// An instant, in seconds since 1970.
    Real(i64),
}

/// A moment, and the zone that its line names for it. The zone is `None` if the line names none.
#[derive(Debug, Clone)]
pub(super) struct Stated {
    pub(super) moment: Moment,
    pub(super) zone: Option<Zone>,
}

/// Returns the lines of a file. A line that begins with a blank is joined to the line before.
pub(super) fn lines_of(text: &str) -> Vec<IcsLine> {
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
        let parameters = parameters
            .map(|(key, value)| (key.to_ascii_uppercase(), value.trim_matches('"').to_owned()))
            .collect();
        Some(IcsLine { number, name, parameters, value: value.trim().to_owned() })
    };
    joined.into_iter().filter_map(read).collect()
}

/// Returns the position of the colon before the value: the first colon outside of quotes. Returns
/// `None` if the line has no such colon.
fn colon_of(line: &str) -> Option<usize> {
    let mut is_quoted = false;
    line.char_indices().find_map(|(at, found)| {
        is_quoted ^= found == '"';
        (found == ':' && !is_quoted).then_some(at)
    })
}

/// Returns the zone with the name `name`. Returns `None` if this host does not know the zone.
pub(super) fn zone_named(name: &str) -> Option<Zone> {
    Zone::named(name.trim_start_matches('/'))
}

impl IcsLine {
    pub(super) fn refuse(&self, problem: &str) -> IcsError {
        let value: String = self.value.chars().take(60).collect();
        IcsError { line: self.number, problem: format!("{} {value:?}: {problem}", self.name) }
    }

    pub(super) fn parameter(&self, key: &str) -> Option<&str> {
        self.parameters.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns the zone that the line names for its times. Returns `None` if the line names no
    /// zone. Fails for an unknown zone.
    fn zone(&self) -> Result<Option<Zone>, IcsError> {
        let Some(name) = self.parameter("TZID") else { return Ok(None) };
        zone_named(name).map(Some).ok_or_else(|| {
            let name: String = name.chars().take(60).collect();
            self.refuse(&format!(
                "zone {name:?} is not known on this host, wanted a name such as Europe/Berlin"
            ))
        })
    }

    /// Returns the date or time of a line with a single value, such as `DTSTART`, and the zone that
    /// the line names.
    pub(super) fn stated(&self) -> Result<Stated, IcsError> {
        Ok(Stated { moment: self.moment(&self.value)?, zone: self.zone()? })
    }

    /// Returns the dates or times of a line with a list of values, such as `EXDATE`, and the zone
    /// that the line names.
    pub(super) fn all_stated(&self) -> Result<Vec<Stated>, IcsError> {
        let zone = self.zone()?;
        self.value
            .split(',')
            .map(|text| Ok(Stated { moment: self.moment(text)?, zone: zone.clone() }))
            .collect()
    }

    fn moment(&self, text: &str) -> Result<Moment, IcsError> {
        let refuse =
            || self.refuse("not a date or time, wanted 20261225 or 20261225T090000Z for example");
        let digits = |from: usize, to: usize| {
            let part =
                text.get(from..to).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
            part.and_then(|part| part.parse::<i16>().ok()).ok_or_else(refuse)
        };
        let small = |from: usize, to: usize| {
            digits(from, to).and_then(|part| i8::try_from(part).map_err(|_| refuse()))
        };
        let date = Date::new(digits(0, 4)?, small(4, 6)?, small(6, 8)?).map_err(|_| refuse())?;
        if !(1970..2100).contains(&date.year()) {
            return Err(self.refuse("the year is out of range, wanted a year from 1970 to 2099"));
        }
        if text.len() == 8 {
            return Ok(Moment::Day(date));
        }
        let (rest, is_utc) = text.strip_suffix('Z').map_or((text, false), |rest| (rest, true));
        if rest.len() != 15 || rest.as_bytes().get(8) != Some(&b'T') {
            return Err(refuse());
        }
        // A leap second counts as the last second of its minute.
        let time = Time::new(small(9, 11)?, small(11, 13)?, small(13, 15)?.min(59), 0)
            .map_err(|_| refuse())?;
        let local = date.to_datetime(time);
        Ok(if is_utc { Moment::Real(second_of(local)) } else { Moment::Local(local) })
    }
}

impl Stated {
    /// Returns the time that the wall clock of `zone` shows at this moment, in seconds since 1970
    /// by that clock. A day counts as its midnight. Returns `None` if the moment is outside the
    /// years that jiff supports.
    pub(super) fn on_wall(&self, zone: &Zone) -> Option<i64> {
        match (self.moment, &self.zone) {
            (Moment::Day(date), _) => Some(second_of(date.to_datetime(Time::midnight()))),
            (Moment::Local(at), own)
                if own.as_ref().is_none_or(|own| own.name() == zone.name()) =>
            {
                Some(second_of(at))
            }
            _ => {
                let at = jiff::Timestamp::from_second(self.real(zone)?).ok()?;
                Some(second_of(zone.rules().to_datetime(at)))
            }
        }
    }

    /// Returns the moment in seconds since 1970. A local time without a zone is read in `zone`. A
    /// day counts as its midnight in UTC. Returns `None` if the moment is outside the years that
    /// jiff supports.
    pub(super) fn real(&self, zone: &Zone) -> Option<i64> {
        match self.moment {
            Moment::Day(date) => Some(second_of(date.to_datetime(Time::midnight()))),
            Moment::Local(at) => real_of(at, self.zone.as_ref().unwrap_or(zone)),
            Moment::Real(second) => Some(second),
        }
    }
}

/// Returns the instant at which the wall clock of `zone` shows `at`, in seconds since 1970. Returns
/// `None` if the instant is outside the years that jiff supports.
///
/// If the clock skips `at`, the offset before the change applies. If `at` occurs twice, the first
/// time counts.
pub(super) fn real_of(at: DateTime, zone: &Zone) -> Option<i64> {
    zone.rules().to_ambiguous_timestamp(at).compatible().ok().map(jiff::Timestamp::as_second)
}

pub(super) fn second_of(at: DateTime) -> i64 {
    at.to_zoned(jiff::tz::TimeZone::UTC).map_or(0, |at| at.timestamp().as_second())
}

pub(super) fn of_second(second: i64) -> DateTime {
    jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::from_second(second).unwrap_or_default())
}
