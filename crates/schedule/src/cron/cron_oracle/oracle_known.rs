//! Fields of cron expressions whose values are known by construction.

use std::collections::BTreeSet;

use jiff::civil::Date;

/// A field with known values: its text, the numbers and the signs (such as `L`) that it selects,
/// and whether the text begins with `*`.
#[derive(Debug, Clone)]
pub(in super::super) struct OracleKnown {
    pub(in super::super) text: String,
    pub(super) values: BTreeSet<i64>,
    pub(super) signs: Vec<Sign>,
    pub(super) starred: bool,
}

/// A day named by its place in the month, such as `L` or `5#2`. This type is independent of the
/// code under test.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sign {
    Last,
    LastWorking,
    Nearest(i64),
    Nth(i64, i64),
    LastOf(i64),
}

impl Sign {
    /// Returns true if `date` is the day that this sign selects. The check looks at every day of
    /// the month.
    fn holds(self, date: Date) -> bool {
        let number = |date: Date| i64::from(date.weekday().to_sunday_zero_offset());
        let is_working = |date: &Date| (1..=5).contains(&number(*date));
        let month = || {
            (1..=date.days_in_month())
                .filter_map(|day| Date::new(date.year(), date.month(), day).ok())
        };
        let alike = |weekday: i64| month().filter(move |date| number(*date) == weekday);
        match self {
            Self::Last => month().next_back() == Some(date),
            Self::LastWorking => month().rfind(is_working) == Some(date),
            Self::Nearest(day) => {
                let distance = |date: &Date| (i64::from(date.day()) - day).abs();
                month().any(|date| i64::from(date.day()) == day)
                    && month().filter(is_working).min_by_key(distance) == Some(date)
            }
            Self::Nth(weekday, nth) => {
                alike(weekday).nth(usize::try_from(nth - 1).unwrap()) == Some(date)
            }
            Self::LastOf(weekday) => alike(weekday).next_back() == Some(date),
        }
    }
}

impl OracleKnown {
    pub(super) fn of_numbers(
        text: &str,
        values: impl IntoIterator<Item = i64>,
        starred: bool,
    ) -> Self {
        Self {
            text: text.to_owned(),
            values: values.into_iter().collect(),
            signs: Vec::new(),
            starred,
        }
    }

    pub(super) fn has(&self, value: i8, date: Date) -> bool {
        self.values.contains(&i64::from(value)) || self.signs.iter().any(|sign| sign.holds(date))
    }
}
