//! Describes a calendar expression in English. The expression becomes the equivalent cron fields,
//! which are then described.

use super::fields::{DAY, Field, Fields, HOUR, Kind, MINUTE, MONTH, SECOND, WEEKDAY, YEAR};
use super::fields_in_words;
use super::numbers::days_from_end;
use crate::domain::calendar::{CalendarExpr, Days};

/// The last year in which a schedule has occurrences.
const LAST_YEAR: i64 = 2099;

/// Returns for example `at 09:00, Monday to Friday`, with the zone if the expression names one.
pub(super) fn words(expression: &CalendarExpr) -> String {
    let words = fields_in_words(&fields_of(expression));
    expression.zone().map_or_else(|| words.clone(), |zone| format!("{words}, by the clock of {}", zone.name()))
}

/// Returns the equivalent cron fields.
pub(super) fn fields_of(expression: &CalendarExpr) -> Fields {
    let plan = expression.plan();
    let year = match &plan.years {
        None => Field::whole(&YEAR),
        Some(years) => Field::of(&YEAR, years.iter().filter(|year| **year <= LAST_YEAR).filter_map(|it| u16::try_from(*it).ok())),
    };
    // In a calendar expression Monday is bit 0; in cron Sunday is 0.
    let weekdays = bits(plan.weekdays.into()).map(|day| (day + 1) % 7);
    Fields {
        second: of_bits(&SECOND, plan.seconds),
        minute: of_bits(&MINUTE, plan.minutes),
        hour: of_bits(&HOUR, plan.hours),
        day: days(plan.days),
        month: of_bits(&MONTH, plan.months),
        weekday: Field::of(&WEEKDAY, weekdays),
        year,
    }
}

fn days(days: Days) -> Field {
    match days {
        Days::FromStart(mask) => of_bits(&DAY, mask.into()),
        Days::FromEnd(mask) => {
            let values: Vec<u16> = bits(mask.into()).collect();
            if values.len() == 31 {
                return Field::whole(&DAY);
            }
            Field { others: days_from_end(&values), ..Field::of(&DAY, []) }
        }
    }
}

fn of_bits(kind: Kind, mask: u64) -> Field {
    Field::of(kind, bits(mask))
}

fn bits(mask: u64) -> impl Iterator<Item = u16> {
    (0..64).filter(move |bit| mask >> bit & 1 == 1)
}
