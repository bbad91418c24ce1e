//! The fields of a checked cron expression: the fixed values of each, and an English text for each
//! item without fixed values.
//!
//! Invariant: every text here was parsed as a [`CronExpr`](crate::domain::schedule::CronExpr)
//! before, so it is valid. An item that this parser does not know is quoted unchanged and never
//! guessed.

use std::collections::BTreeSet;

use super::numbers::{WEEKDAYS, day_from_end, ordinal};

/// A kind of field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    /// The unit of a value, such as `minute`.
    pub(super) unit: &'static str,
    min: u16,
    max: u16,
    /// The number of values after which the field starts again.
    period: Option<u16>,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const fn kind(unit: &'static str, min: u16, max: u16, period: Option<u16>, names: &'static [&'static str]) -> Kind {
    Kind { unit, min, max, period, names }
}

pub(super) const SECOND: Kind = kind("second", 0, 59, None, &[]);
pub(super) const MINUTE: Kind = kind("minute", 0, 59, None, &[]);
pub(super) const HOUR: Kind = kind("hour", 0, 23, Some(24), &[]);
pub(super) const DAY: Kind = kind("day", 1, 31, None, &[]);
pub(super) const MONTH: Kind = kind("month", 1, 12, Some(12), MONTHS);
/// The weekday. 7 is Sunday too; the values are 0 to 6.
pub(super) const WEEKDAY: Kind = kind("weekday", 0, 7, Some(7), DAYS);
pub(super) const YEAR: Kind = kind("year", 1970, 2099, None, &[]);

/// A field of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) kind: Kind,
    /// The values that the field always selects.
    pub(super) values: BTreeSet<u16>,
    /// Descriptions of the items that depend on the month or on the job, such as `the last day`.
    pub(super) others: Vec<String>,
    /// The period within which `others` name a place: `month` or `year`.
    pub(super) of: &'static str,
    /// True if the text begins with `*` or is `?`. A day must then match both day fields.
    pub(super) is_starred: bool,
}

/// The fields of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) second: Field,
    pub(super) minute: Field,
    pub(super) hour: Field,
    pub(super) day: Field,
    pub(super) month: Field,
    pub(super) weekday: Field,
    pub(super) year: Field,
}

impl Fields {
    /// Parses five, six (leading seconds) or seven (trailing years) texts. Returns `None` for any
    /// other number.
    pub(super) fn of(text: &str) -> Option<Self> {
        let texts: Vec<&str> = text.split_ascii_whitespace().collect();
        let (second, minute, hour, day, month, weekday, year) = match *texts.as_slice() {
            [minute, hour, day, month, weekday] => ("0", minute, hour, day, month, weekday, "*"),
            [second, minute, hour, day, month, weekday] => (second, minute, hour, day, month, weekday, "*"),
            [second, minute, hour, day, month, weekday, year] => (second, minute, hour, day, month, weekday, year),
            _ => return None,
        };
        Some(Self {
            second: Field::read(SECOND, second),
            minute: Field::read(MINUTE, minute),
            hour: Field::read(HOUR, hour),
            day: Field::read(DAY, day),
            month: Field::read(MONTH, month),
            weekday: Field::read(WEEKDAY, weekday),
            year: Field::read(YEAR, year),
        })
    }
}

impl Field {
    /// A field with these values. A day must match both day fields.
    pub(super) fn of(kind: Kind, values: impl IntoIterator<Item = u16>) -> Self {
        Self { kind, values: values.into_iter().collect(), others: Vec::new(), of: "month", is_starred: true }
    }

    /// A field with every possible value.
    pub(super) fn whole(kind: Kind) -> Self {
        Self::of(kind, (kind.min..=kind.max).map(|value| kind.folded(value)))
    }

    fn read(kind: Kind, text: &str) -> Self {
        let text = text.to_ascii_uppercase();
        let mut field =
            Self { kind, values: BTreeSet::new(), others: Vec::new(), of: "month", is_starred: text.starts_with(['*', '?']) };
        for item in text.split(',') {
            match kind.range(item) {
                Some((first, last, step)) => field.values.extend((first..=last).step_by(step).map(|value| kind.folded(value))),
                None => field.others.push(kind.other(item)),
            }
        }
        field
    }

    /// Returns true if the field selects every possible value.
    pub(super) fn is_whole(&self) -> bool {
        self.values.len() == usize::from(self.kind.period.unwrap_or(self.kind.max - self.kind.min + 1))
    }

    /// Returns the values if the field has no items without fixed values.
    pub(super) fn fixed(&self) -> Option<Vec<u16>> {
        self.others.is_empty().then(|| self.values.iter().copied().collect())
    }
}

impl Kind {
    fn folded(self, value: u16) -> u16 {
        self.period.map_or(value, |period| (value - self.min) % period + self.min)
    }

    /// Returns the first value, last value and step of an item of numbers and names. The last value
    /// is past the end of the field if the range wraps.
    fn range(self, item: &str) -> Option<(u16, u16, usize)> {
        let (base, step) = item.split_once('/').map_or((item, None), |(base, step)| (base, Some(step)));
        let width = match step {
            None => 1,
            Some(step) if step.bytes().all(|b| b.is_ascii_digit()) => step.parse().unwrap_or(usize::from(u16::MAX)).max(1),
            Some(_) => return None,
        };
        if matches!(base, "*" | "?") {
            return Some((self.min, self.max, width));
        }
        let (first, last) = match base.split_once('-') {
            Some((first, last)) => (self.value(first)?, self.value(last)?),
            None => (self.value(base)?, if step.is_some() { self.max } else { self.value(base)? }),
        };
        match self.period {
            _ if first <= last => Some((first, last, width)),
            Some(period) => Some((first, last + period, width)),
            None => None,
        }
    }

    fn value(self, text: &str) -> Option<u16> {
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return text.parse().ok().filter(|value| (self.min..=self.max).contains(value));
        }
        (self.min..=self.max).zip(self.names).find(|(_, name)| **name == text).map(|(value, _)| value)
    }

    /// Describes an item whose values differ from month to month, or from job to job.
    fn other(self, item: &str) -> String {
        let known = match self.unit {
            "day" => of_month(item),
            "weekday" => self.of_week(item),
            _ => None,
        };
        known.or_else(|| self.drawn(item)).unwrap_or_else(|| format!("the {}s {item:?} stands for", self.unit))
    }

    /// Describes `FRI#2` or `5L`.
    fn of_week(self, item: &str) -> Option<String> {
        let name = |text: &str| WEEKDAYS.get(usize::from(self.folded(self.value(text)?)));
        if let Some((day, number)) = item.split_once('#') {
            return Some(format!("the {} {}", ordinal(number.parse().ok()?), name(day)?));
        }
        item.strip_suffix('L').filter(|day| !day.is_empty()).and_then(name).map(|name| format!("the last {name}"))
    }

    /// Describes `H`, `H/15`, `H(0-29)` or `H(0-29)/10`.
    fn drawn(self, item: &str) -> Option<String> {
        let rest = item.strip_prefix('H')?;
        let (bounds, rest) = match rest.strip_prefix('(') {
            Some(inner) => inner.split_once(')').and_then(|(bounds, rest)| bounds.split_once('-').map(|it| (Some(it), rest)))?,
            None => (None, rest),
        };
        let within = bounds.map_or_else(String::new, |(low, high)| format!(" from {low} to {high}"));
        let article = if self.unit == "hour" { "an" } else { "a" };
        if rest.is_empty() {
            return Some(format!("{article} {}{within} (H: drawn from the job's name)", self.unit));
        }
        let step = ordinal(rest.strip_prefix('/')?.parse().ok()?);
        Some(format!("every {step} {}{within} (H: the first drawn from the job's name)", self.unit))
    }
}

/// Describes `L`, `L-3`, `LW` or `15W`.
fn of_month(item: &str) -> Option<String> {
    match item {
        "L" => Some("the last day".to_owned()),
        "LW" => Some("the last working day (Monday to Friday)".to_owned()),
        _ if item.starts_with("L-") => {
            let before = item.strip_prefix("L-")?.parse().ok()?;
            Some(day_from_end(before))
        }
        _ => {
            let day: u16 = item.strip_suffix('W')?.parse().ok().filter(|day| (1..=31).contains(day))?;
            let only = if day > 28 { ", only in months with such a day" } else { "" };
            Some(format!("the working day nearest to day {day} (Monday to Friday, not leaving the month{only})"))
        }
    }
}
