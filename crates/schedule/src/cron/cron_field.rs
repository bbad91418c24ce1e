//! The parser of a field of a cron expression, by the rules of crontab(5) and its common additions.
//!
//! No other code parses fields: plans, descriptions and `schedctl` all take the values from here.
//! Invariant: a parsed field has the meaning that crontab(5) gives to it. Any other text is refused
//! with the name of the field and the position of the fault.

use super::cron_piece::{CronFault, CronPiece};
use super::day_letter::Letter;
use super::hash_draw;
use super::hash_draw::Draw;
use super::number_set::Set;

/// The rules by which a field of a cron expression, such as the minute, is parsed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CronField {
    pub(super) name: &'static str,
    /// The unit of a value of the field, such as `minute`.
    pub(crate) unit: &'static str,
    pub(super) min: u16,
    pub(super) max: u16,
    /// The number of values of the field, if its ranges may wrap past the end as in `22-3`. `None`
    /// means that a range must not run backwards.
    wraps_after: Option<u16>,
    /// The range from which a bare `H` gets its number. `None` means that the field takes no `H`.
    drawn: Option<(u16, u16)>,
    pub(super) names: &'static [&'static str],
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Day,
    Weekday,
}

/// The values that a field selects.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// The numbers that the field selects. Years are counted from 1970.
    pub(super) set: Set,
    /// The selected days that are named by their place in a month, such as `L` or `5#2`.
    pub(crate) letters: Vec<Letter>,
    /// True if the text begins with `*` or is `?`. With such a day field, a day must match both day
    /// fields. With such a minute or hour, the job follows real time through clock changes. Both
    /// rules are from Debian's cron.
    pub(crate) starred: bool,
    /// Each `H` item of the field. The name of the job decides which numbers such an item selects.
    pub(crate) drawn: Vec<Drawn>,
}

/// An `H` of a field, with its range and its step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drawn {
    /// The range that is written for the `H`, as in `H(0-29)`. `None` for a bare `H`.
    pub(crate) range: Option<(u16, u16)>,
    /// The step that is written for the `H`, as in `H/15`. `None` if there is no step.
    pub(crate) step: Option<u16>,
}

const NO_NAMES: &[&str] = &[];
const MONTHS: &[&str] =
    &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const FIRST_YEAR: u16 = 1970;

pub(crate) static SECOND: CronField = plain("second", 0, 59);
pub(crate) static MINUTE: CronField = plain("minute", 0, 59);
pub(crate) static HOUR: CronField = CronField { wraps_after: Some(24), ..plain("hour", 0, 23) };
/// The rules of the day of month. The number for `H` is one of the days that every month has.
pub(crate) static DAY: CronField = CronField {
    drawn: Some((1, 28)),
    kind: Kind::Day,
    unit: "day",
    ..plain("day of month", 1, 31)
};
pub(crate) static MONTH: CronField =
    CronField { wraps_after: Some(12), names: MONTHS, ..plain("month", 1, 12) };
/// The rules of the weekday. 0 and 7 are both Sunday; the set contains 0 to 6.
pub(crate) static WEEKDAY: CronField = CronField {
    wraps_after: Some(7),
    drawn: Some((0, 6)),
    names: WEEKDAYS,
    kind: Kind::Weekday,
    ..plain("weekday", 0, 7)
};
pub(crate) static YEAR: CronField = CronField { drawn: None, ..plain("year", FIRST_YEAR, 2099) };

const fn plain(name: &'static str, min: u16, max: u16) -> CronField {
    CronField {
        name,
        unit: name,
        min,
        max,
        wraps_after: None,
        drawn: Some((min, max)),
        names: NO_NAMES,
        kind: Kind::Plain,
    }
}

impl CronField {
    /// Parses `piece` into the values that it selects in this field. `draw` gives the numbers for
    /// `H`.
    pub(super) fn read(&self, piece: CronPiece<'_>, draw: Draw<'_>) -> Result<Values, CronFault> {
        if self.kind != Kind::Plain && piece.text == "?" {
            return Ok(self.whole());
        }
        let mut values = Values { starred: piece.text.starts_with('*'), ..Values::default() };
        for item in piece.split(',') {
            self.read_item(item, draw, &mut values)?;
        }
        Ok(values)
    }

    /// Returns every value of the field.
    pub(crate) fn whole(&self) -> Values {
        let mut values = Values { starred: true, ..Values::default() };
        self.put(&mut values.set, (self.min, self.max), 1);
        values
    }

    /// Returns the number of values of the field.
    pub(crate) fn count(&self) -> u16 {
        self.wraps_after.unwrap_or(self.max - self.min + 1)
    }

    /// Returns the numbers in `values` in rising order. A year is a full number, such as 2027.
    pub(crate) fn numbers(&self, values: &Values) -> impl Iterator<Item = u16> {
        values.set.iter().map(|value| value + self.base())
    }

    /// Returns `value`, wrapped to the start of the field if it lies past the end. For example,
    /// hour 25 becomes hour 1. In a field that does not wrap, `value` stays as it is.
    pub(crate) fn folded(&self, value: u16) -> u16 {
        self.wraps_after.map_or(value, |period| (value - self.min) % period + self.min)
    }

    /// Returns the number that is subtracted from each value in a set of this field: 1970 for
    /// years, else 0.
    fn base(&self) -> u16 {
        if self.min == FIRST_YEAR { FIRST_YEAR } else { 0 }
    }

    fn read_item(
        &self,
        item: CronPiece<'_>,
        draw: Draw<'_>,
        values: &mut Values,
    ) -> Result<(), CronFault> {
        let (name, at, wanted) = (self.name, item.position(), self.wanted());
        if item.text.is_empty() {
            return Err(item.fault(format!(
                "{name} has an empty list item at character {at}, wanted {wanted}"
            )));
        }
        let (base, step) = item.split_once('/');
        if let Some(letter) = self.read_letter(base)? {
            if step.is_some() {
                return Err(item.fault(format!(
                    "{name} {:?} at character {at} takes no step, wanted {}",
                    item.text, base.text
                )));
            }
            values.letters.push(letter);
            return Ok(());
        }
        let width = step.map(|step| self.read_step(step)).transpose()?;
        if let Some((first, last)) = self.read_drawn(base)? {
            values
                .drawn
                .push(Drawn { range: (base.text.len() > 1).then_some((first, last)), step: width });
            let places = (last - first + 1).min(width.unwrap_or(u16::MAX));
            match draw {
                Draw::Left => {}
                Draw::Each => self.put(&mut values.set, (first, last), 1),
                Draw::Of(job) => {
                    let drawn = u16::try_from(hash_draw::number(job, name) % u64::from(places))
                        .unwrap_or(0);
                    let last = if width.is_some() { last } else { first + drawn };
                    self.put(&mut values.set, (first + drawn, last), width.unwrap_or(1));
                }
            }
            return Ok(());
        }
        let range =
            if base.text == "*" { (self.min, self.max) } else { self.read_range(base, step)? };
        self.put(&mut values.set, range, width.unwrap_or(1));
        Ok(())
    }

    /// Inserts every `step`-th value from `first` to `last` into `set`. Values past the end of the
    /// field wrap.
    fn put(&self, set: &mut Set, (first, last): (u16, u16), step: u16) {
        for value in (first..=last).step_by(usize::from(step)) {
            set.insert(self.folded(value) - self.base());
        }
    }

    /// Parses the first and the last value of the range `base`. The last value lies past the end of
    /// the field if the range wraps.
    fn read_range(
        &self,
        base: CronPiece<'_>,
        step: Option<CronPiece<'_>>,
    ) -> Result<(u16, u16), CronFault> {
        let (low, high) = base.split_once('-');
        let first = self.read_bound(low)?;
        let Some(high) = high else {
            // With a step, a single value means a range to the end of the field: `5/10` is
            // `5-59/10`. Vixie's cron takes only the single value, but users expect the range.
            return Ok((first, if step.is_some() { self.max } else { first }));
        };
        let last = self.read_bound(high)?;
        let (name, range, at) = (self.name, base.text, base.position());
        match self.wraps_after {
            _ if first <= last => Ok((first, last)),
            Some(period) => Ok((first, last + period)),
            None => {
                Err(base.fault(format!("{name} range {range} at character {at} runs backwards, wanted the smaller value first")))
            }
        }
    }

    fn read_bound(&self, piece: CronPiece<'_>) -> Result<u16, CronFault> {
        let (name, text, at, wanted) = (self.name, piece.text, piece.position(), self.wanted());
        if text.is_empty() {
            return Err(
                piece.fault(format!("{name} has no value at character {at}, wanted {wanted}"))
            );
        }
        if piece.is_number() {
            return match text.parse::<u16>() {
                Ok(value) if (self.min..=self.max).contains(&value) => Ok(value),
                _ => Err(piece.fault(format!(
                    "{name} {text} at character {at} is out of range, wanted {wanted}"
                ))),
            };
        }
        if let Some(place) = (self.min..=self.max)
            .zip(self.names)
            .find(|(_, known)| known.eq_ignore_ascii_case(text))
        {
            return Ok(place.0);
        }
        let listed = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(text));
        let problem = match () {
            () if listed(MONTHS) => "is the name of a month",
            () if listed(WEEKDAYS) => "is the name of a weekday",
            () if self.kind == Kind::Weekday && text.eq_ignore_ascii_case("L") => {
                "has no weekday before the L (write 5L for the last Friday, or 6 for every Saturday)"
            }
            () if text.contains('=') => {
                "sets a variable (set the zone of a job with the key tz or with --tz)"
            }
            () if text.contains('~') => {
                "uses ~ for a random value (write H(0-30) for a fixed value of each job)"
            }
            () => "is not understood",
        };
        Err(piece.fault(format!("{name} {text:?} at character {at} {problem}, wanted {wanted}")))
    }

    fn read_step(&self, step: CronPiece<'_>) -> Result<u16, CronFault> {
        let (name, text, at) = (self.name, step.text, step.position());
        if !step.is_number() {
            return Err(step.fault(format!(
                "{name} step {text:?} at character {at} is not a number, wanted 1 or more"
            )));
        }
        // A step of any size is allowed. A step past the end of the field selects only the first
        // value.
        match text.parse::<u16>().unwrap_or(u16::MAX) {
            0 => Err(step.fault(format!(
                "{name} step {text} at character {at} never advances, wanted 1 or more"
            ))),
            width => Ok(width),
        }
    }

    /// Returns the range from which the number for `H` or `H(a-b)` is chosen. Returns `None` if
    /// `base` is not an `H`.
    fn read_drawn(&self, base: CronPiece<'_>) -> Result<Option<(u16, u16)>, CronFault> {
        let Some(rest) = base.without_prefix("H") else { return Ok(None) };
        let Some((low, high)) = self.drawn else {
            let (name, at, wanted) = (self.name, base.position(), self.wanted());
            return Err(
                base.fault(format!("{name} H at character {at} is not supported, wanted {wanted}"))
            );
        };
        if rest.text.is_empty() {
            return Ok(Some((low, high)));
        }
        let Some(range) = rest
            .without_prefix("(")
            .and_then(|rest| rest.without_suffix(")"))
            .filter(|range| range.text.contains('-'))
        else {
            let (name, text, at) = (self.name, base.text, base.position());
            return Err(base.fault(format!(
                "{name} {text:?} at character {at} is not understood, wanted H or H({low}-{high})"
            )));
        };
        let (first, last) = self.read_range(range, None)?;
        if self.kind == Kind::Day && last > high {
            let at = range.position();
            let problem = format!(
                "day of month H({}) at character {at} has days that some months lack, wanted 1-28",
                range.text
            );
            return Err(range.fault(problem));
        }
        Ok(Some((first, last)))
    }

    /// Parses a day named by its place in the month, such as `L` or `5#2`. Returns `None` if
    /// `piece` is a number, a name, a range or an `H`.
    fn read_letter(&self, piece: CronPiece<'_>) -> Result<Option<Letter>, CronFault> {
        match self.kind {
            Kind::Plain => Ok(None),
            Kind::Day => self.read_day_letter(piece),
            Kind::Weekday => self.read_weekday_letter(piece),
        }
    }

    fn read_day_letter(&self, piece: CronPiece<'_>) -> Result<Option<Letter>, CronFault> {
        if piece.text.eq_ignore_ascii_case("LW") {
            return Ok(Some(Letter::LastWorking));
        }
        if let Some(rest) = piece.without_prefix("L") {
            let Some(number) = rest.without_prefix("-") else {
                return Ok(rest.text.is_empty().then_some(Letter::Last { before: 0 }));
            };
            return match number.text.parse::<u8>() {
                Ok(before @ 1..=30) if number.is_number() => Ok(Some(Letter::Last { before })),
                _ => {
                    let at = piece.position();
                    Err(piece.fault(format!(
                        "day of month {:?} at character {at} is not understood, wanted L-1 to L-30",
                        piece.text
                    )))
                }
            };
        }
        match piece.without_suffix("W") {
            Some(number) if number.is_number() => {
                let day = self.read_bound(number)?;
                Ok(Some(Letter::Nearest { day: u8::try_from(day).unwrap_or(u8::MAX) }))
            }
            _ => Ok(None),
        }
    }

    fn read_weekday_letter(&self, piece: CronPiece<'_>) -> Result<Option<Letter>, CronFault> {
        // Both 0 and 7 are Sunday.
        let weekday =
            |piece| self.read_bound(piece).map(|value| u8::try_from(value % 7).unwrap_or(0));
        if let (day, Some(nth)) = piece.split_once('#') {
            let weekday = weekday(day)?;
            if let Ok(nth @ 1..=5) = nth.text.parse::<u8>() {
                return Ok(Some(Letter::Nth { weekday, nth }));
            }
            let (text, at) = (nth.text, nth.position());
            return Err(nth.fault(format!(
                "weekday ordinal {text:?} at character {at} is out of range, wanted 1-5"
            )));
        }
        match piece.without_suffix("L") {
            Some(day) if !day.text.is_empty() => {
                Ok(Some(Letter::LastOf { weekday: weekday(day)? }))
            }
            _ => Ok(None),
        }
    }

    fn wanted(&self) -> String {
        match self.names {
            [first, .., last] => format!("{}-{} or {first}-{last}", self.min, self.max),
            _ => format!("{}-{}", self.min, self.max),
        }
    }
}
