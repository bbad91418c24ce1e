//! The fields of a checked cron expression: the values each stands for, and in words what is no fixed value.

use std::collections::BTreeSet;

use super::numbers::{WEEKDAYS, day_from_end, ordinal};
use crate::domain::cron::{self, Drawn, Letter, Values};

pub(super) use crate::domain::cron::{DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, YEAR};

/// A kind of field.
pub(super) type Kind = &'static cron::Field;

/// One field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) kind: Kind,
    /// The values it always stands for.
    pub(super) values: BTreeSet<u16>,
    /// In words, what depends on the month or on the job: `the last day`.
    pub(super) others: Vec<String>,
    /// What the others are places in: `month`, or `year`.
    pub(super) of: &'static str,
    /// Begins with `*` or is `?`: then a day must suit both day fields.
    pub(super) is_starred: bool,
}

/// An expression's fields.
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
    /// The fields of a checked expression; none of `@reboot`.
    pub(super) fn of(text: &str) -> Option<Self> {
        let read = cron::fields_of(text)?;
        Some(Self {
            second: Field::read(&SECOND, &read.second),
            minute: Field::read(&MINUTE, &read.minute),
            hour: Field::read(&HOUR, &read.hour),
            day: Field::read(&DAY, &read.day),
            month: Field::read(&MONTH, &read.month),
            weekday: Field::read(&WEEKDAY, &read.weekday),
            year: Field::read(&YEAR, &read.year),
        })
    }
}

impl Field {
    /// These values; a day must suit both day fields.
    pub(super) fn of(kind: Kind, values: impl IntoIterator<Item = u16>) -> Self {
        Self { kind, values: values.into_iter().collect(), others: Vec::new(), of: "month", is_starred: true }
    }

    /// Every value there is.
    pub(super) fn whole(kind: Kind) -> Self {
        Self::read(kind, &kind.whole())
    }

    fn read(kind: Kind, values: &Values) -> Self {
        let letters = values.letters.iter().map(|letter| letter_in_words(*letter));
        let others = letters.chain(values.drawn.iter().map(|drawn| drawn_in_words(kind, *drawn))).collect();
        Self { others, is_starred: values.starred, ..Self::of(kind, kind.numbers(values)) }
    }

    /// Whether it stands for every value it could.
    pub(super) fn is_whole(&self) -> bool {
        self.values.len() == usize::from(self.kind.count())
    }

    /// Its values, if it has no others.
    pub(super) fn fixed(&self) -> Option<Vec<u16>> {
        self.others.is_empty().then(|| self.values.iter().copied().collect())
    }
}

/// `the last day`, `the 2nd Friday`
fn letter_in_words(letter: Letter) -> String {
    let name = |weekday: u8| WEEKDAYS.get(usize::from(weekday)).copied().unwrap_or_default();
    match letter {
        Letter::Last { before } => day_from_end(before.into()),
        Letter::LastWorking => "the last working day (Monday to Friday)".to_owned(),
        Letter::Nearest { day } => {
            let only = if day > 28 { ", only in months with such a day" } else { "" };
            format!("the working day nearest to day {day} (Monday to Friday, not leaving the month{only})")
        }
        Letter::Nth { weekday, nth } => format!("the {} {}", ordinal(nth.into()), name(weekday)),
        Letter::LastOf { weekday } => format!("the last {}", name(weekday)),
    }
}

/// `a minute from 0 to 29 (H: drawn from the job's name)`
fn drawn_in_words(kind: Kind, Drawn { range, step }: Drawn) -> String {
    let unit = kind.unit;
    let within = range.map_or_else(String::new, |(low, high)| format!(" from {low} to {}", kind.folded(high)));
    let article = if unit == "hour" { "an" } else { "a" };
    match step {
        None => format!("{article} {unit}{within} (H: drawn from the job's name)"),
        Some(step) => format!("every {} {unit}{within} (H: the first drawn from the job's name)", ordinal(step)),
    }
}
