//! The fields of a checked cron expression: the fixed values of each field, and an English text
//! for each item without fixed values.

use std::collections::BTreeSet;

use super::number_words::{WEEKDAYS, day_from_end, ordinal};
use crate::cron;
use crate::cron::{Drawn, Letter, Values};

pub(super) use crate::cron::{DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, YEAR};

/// A kind of field of a cron expression, such as the minute.
pub(super) type FieldKind = &'static cron::CronField;

/// A field of an expression, prepared for its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DescribedField {
    pub(super) kind: FieldKind,
    /// The values that the field always selects.
    pub(super) values: BTreeSet<u16>,
    /// Descriptions of the items that depend on the month or on the job, such as `the last day`.
    pub(super) others: Vec<String>,
    /// The period in which `others` count days, `month` or `year`: `the 2nd Friday of the month`.
    pub(super) of: &'static str,
    /// True if the text of the field begins with `*` or is `?`. If it is a day field, a day must
    /// then match both day fields.
    pub(super) is_starred: bool,
}

/// The fields of an expression, prepared for their description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DescribedFields {
    pub(super) second: DescribedField,
    pub(super) minute: DescribedField,
    pub(super) hour: DescribedField,
    pub(super) day: DescribedField,
    pub(super) month: DescribedField,
    pub(super) weekday: DescribedField,
    pub(super) year: DescribedField,
}

impl DescribedFields {
    /// Returns the fields of the checked cron expression `text`. Returns `None` for `@reboot`.
    pub(super) fn of(text: &str) -> Option<Self> {
        let read = cron::fields_of(text)?;
        Some(Self {
            second: DescribedField::read(&SECOND, &read.second),
            minute: DescribedField::read(&MINUTE, &read.minute),
            hour: DescribedField::read(&HOUR, &read.hour),
            day: DescribedField::read(&DAY, &read.day),
            month: DescribedField::read(&MONTH, &read.month),
            weekday: DescribedField::read(&WEEKDAY, &read.weekday),
            year: DescribedField::read(&YEAR, &read.year),
        })
    }
}

impl DescribedField {
    /// Creates a field that selects `values`. If it is a day field, a day must match both day
    /// fields.
    pub(super) fn of(kind: FieldKind, values: impl IntoIterator<Item = u16>) -> Self {
        Self {
            kind,
            values: values.into_iter().collect(),
            others: Vec::new(),
            of: "month",
            is_starred: true,
        }
    }

    /// Creates a field with every possible value.
    pub(super) fn whole(kind: FieldKind) -> Self {
        Self::read(kind, &kind.whole())
    }

    fn read(kind: FieldKind, values: &Values) -> Self {
        let letters = values.letters.iter().map(|letter| letter_in_words(*letter));
        let others =
            letters.chain(values.drawn.iter().map(|drawn| drawn_in_words(kind, *drawn))).collect();
        Self { others, is_starred: values.starred, ..Self::of(kind, kind.numbers(values)) }
    }

    /// Returns true if the field selects every possible value.
    pub(super) fn is_whole(&self) -> bool {
        self.values.len() == usize::from(self.kind.count())
    }

    /// Returns the values of the field if every item has fixed values, else `None`.
    pub(super) fn fixed(&self) -> Option<Vec<u16>> {
        self.others.is_empty().then(|| self.values.iter().copied().collect())
    }
}

/// Describes a day named by its place in the month, for example `the last day` or `the 2nd Friday`.
fn letter_in_words(letter: Letter) -> String {
    let name = |weekday: u8| WEEKDAYS.get(usize::from(weekday)).copied().unwrap_or_default();
    match letter {
        Letter::Last { before } => day_from_end(before.into()),
        Letter::LastWorking => "the last working day (Monday to Friday)".to_owned(),
        Letter::Nearest { day } => {
            let only = if day > 28 { ", only in months that have this day" } else { "" };
            format!(
                "the working day nearest to day {day} (Monday to Friday, within the same month{only})"
            )
        }
        Letter::Nth { weekday, nth } => format!("the {} {}", ordinal(nth.into()), name(weekday)),
        Letter::LastOf { weekday } => format!("the last {}", name(weekday)),
    }
}

/// Describes an `H`, as in `a minute from 0 to 29 (H: drawn from the job's name)`.
fn drawn_in_words(kind: FieldKind, Drawn { range, step }: Drawn) -> String {
    let unit = kind.unit;
    let within = range
        .map_or_else(String::new, |(low, high)| format!(" from {low} to {}", kind.folded(high)));
    let article = if unit == "hour" { "an" } else { "a" };
    match step {
        None => format!("{article} {unit}{within} (H: drawn from the job's name)"),
        Some(step) => format!(
            "every {} {unit}{within} (H: the first value is drawn from the job's name)",
            ordinal(step)
        ),
    }
}
