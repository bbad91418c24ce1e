//! The rule that combines the two day fields of a cron expression: day of month and weekday.

use chrono::{Datelike as _, NaiveDate};

use super::cron_field::Values;
use super::day_letter::{Month, SUNDAY};
use super::search_work;

/// The values of the two day fields of a cron expression.
#[derive(Debug, Default)]
pub(super) struct CronDayRule {
    pub(super) day: Values,
    pub(super) weekday: Values,
}

impl CronDayRule {
    /// Returns true if a day field names days by their place in the month, such as `L` or `5#2`.
    pub(super) fn has_letters(&self) -> bool {
        !self.day.letters.is_empty() || !self.weekday.letters.is_empty()
    }

    /// Returns true if neither day field begins with `*` or is `?`. A day must then match at least
    /// one of the two fields.
    pub(super) fn is_either(&self) -> bool {
        !self.day.starred && !self.weekday.starred
    }

    /// Returns a mask of the matching days in the month that contains `date`. Bit 1 is day 1.
    pub(super) fn days_around(&self, date: NaiveDate) -> u32 {
        let first = date.with_day(1).unwrap_or(date).weekday().num_days_from_sunday();
        self.days_of(Month {
            first: u8::try_from(first).unwrap_or(SUNDAY),
            length: date.num_days_in_month(),
        })
    }

    /// Returns a mask of the matching days of `month`. Bit 1 is day 1. If both day fields are
    /// restricted, a day must match at least one field, otherwise both fields.
    pub(super) fn days_of(&self, month: Month) -> u32 {
        search_work::step();
        let length = month.length;
        let marked = |values: &Values, number: fn(Month, u8) -> u8| {
            let plain = (1..=length).filter(|day| values.set.has(u16::from(number(month, *day))));
            let letters = values.letters.iter().filter_map(|letter| letter.day_in(month));
            plain.chain(letters).fold(0_u32, |mask, day| mask | 1 << day)
        };
        let by_day = marked(&self.day, |_, day| day);
        let by_weekday = marked(&self.weekday, Month::weekday);
        if self.is_either() { by_day | by_weekday } else { by_day & by_weekday }
    }
}
