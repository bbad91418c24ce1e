//! The description of a calendar expression in English. The expression becomes the equivalent cron
//! fields, which are then described.

use super::cron_words::fields_in_words;
use super::field_words::{
    DAY, DescribedField, DescribedFields, FieldKind, HOUR, MINUTE, MONTH, SECOND, WEEKDAY, YEAR,
};
use super::number_words::days_from_end;
use crate::calendar::{CalendarDays, CalendarExpr};

/// The last year in which a schedule has occurrences.
const LAST_YEAR: i64 = 2099;

/// Describes a calendar expression, for example `at 09:00, Monday to Friday`. The zone is added if
/// the expression names one.
pub(super) fn words(expression: &CalendarExpr) -> String {
    let words = fields_in_words(&fields_of(expression));
    expression
        .zone()
        .map_or_else(|| words.clone(), |zone| format!("{words}, by the clock of {}", zone.name()))
}

/// Returns the cron fields that are equivalent to the expression.
pub(super) fn fields_of(expression: &CalendarExpr) -> DescribedFields {
    let plan = expression.plan();
    let year = match &plan.years {
        None => DescribedField::whole(&YEAR),
        Some(years) => DescribedField::of(
            &YEAR,
            years
                .iter()
                .filter(|year| **year <= LAST_YEAR)
                .filter_map(|it| u16::try_from(*it).ok()),
        ),
    };
    // In a calendar expression Monday is bit 0; in cron Sunday is 0.
    let weekdays = bits(plan.weekdays.into()).map(|day| (day + 1) % 7);
    DescribedFields {
        second: of_bits(&SECOND, plan.seconds),
        minute: of_bits(&MINUTE, plan.minutes),
        hour: of_bits(&HOUR, plan.hours),
        day: days(plan.days),
        month: of_bits(&MONTH, plan.months),
        weekday: DescribedField::of(&WEEKDAY, weekdays),
        year,
    }
}

fn days(days: CalendarDays) -> DescribedField {
    match days {
        CalendarDays::FromStart(mask) => of_bits(&DAY, mask.into()),
        CalendarDays::FromEnd(mask) => {
            let values: Vec<u16> = bits(mask.into()).collect();
            if values.len() == 31 {
                return DescribedField::whole(&DAY);
            }
            DescribedField { others: days_from_end(&values), ..DescribedField::of(&DAY, []) }
        }
    }
}

fn of_bits(kind: FieldKind, mask: u64) -> DescribedField {
    DescribedField::of(kind, bits(mask))
}

fn bits(mask: u64) -> impl Iterator<Item = u16> {
    (0..64).filter(move |bit| mask >> bit & 1 == 1)
}
