//! The components of a calendar expression: lists of ranges and steps, and the numbers that these
//! lists select.

use super::calendar_cursor::{CalendarCursor, CalendarFault};
use super::calendar_plan::{CalendarDays, CalendarPlan};

/// The first and the last year that a calendar expression may name, as in systemd. No schedule of
/// schedd has an occurrence after 2099.
const YEARS: (i64, i64) = (1970, 2199);

/// An item of a list: a value or a range, either with an optional step.
#[derive(Debug, Clone, Copy)]
pub(super) struct CalendarItem {
    pub(super) offset: usize,
    pub(super) start: i64,
    pub(super) until: Option<i64>,
    pub(super) step: Option<i64>,
}

/// A component of a calendar expression, such as the hour: `*`, or a list of items.
#[derive(Debug, Clone)]
pub(super) struct Component {
    pub(super) offset: usize,
    /// The items of the list. `None` means `*`.
    pub(super) items: Option<Vec<CalendarItem>>,
}

impl Component {
    /// Creates a component with only the number `value`, found at the byte `offset` of the
    /// expression.
    pub(super) fn only(value: i64, offset: usize) -> Self {
        Self {
            offset,
            items: Some(vec![CalendarItem { offset, start: value, until: None, step: None }]),
        }
    }

    /// Returns true for `*` and for a step without an end, such as `0/2`. An expression whose hour
    /// or minute is such a component follows real time through clock changes.
    fn is_open(&self) -> bool {
        self.items.as_ref().is_none_or(|items| {
            items.iter().any(|item| item.until.is_none() && item.step.is_some())
        })
    }
}

impl CalendarCursor<'_> {
    /// Returns the numbers from `least` to `most` that `component` selects. If days are counted
    /// from the end of the month (`~`), a step goes towards that end. `what` is the name of the
    /// component for messages.
    fn values(
        &self,
        component: &Component,
        what: &str,
        least: i64,
        most: i64,
        counted: Counted,
    ) -> Result<Vec<i64>, CalendarFault> {
        let Some(items) = &component.items else { return Ok((least..=most).collect()) };
        let mut values = Vec::new();
        for item in items {
            for number in [Some(item.start), item.until].into_iter().flatten() {
                if !(least..=most).contains(&number) {
                    return Err(self.fault_at(
                        item.offset,
                        &format!("{what} {number}"),
                        &format!("is out of range, wanted {least} to {most}"),
                    ));
                }
            }
            let step = item.step.unwrap_or(1);
            match (item.until, counted) {
                (None, _) if item.step.is_none() => values.push(item.start),
                (Some(until), _) if item.start > until => {
                    return Err(self.fault_at(
                        item.offset,
                        &format!("{what} range {}..{until}", item.start),
                        "runs backwards, wanted the smaller value first",
                    ));
                }
                (Some(until), Counted::FromStart) => values.extend(steps(item.start, until, step)),
                (Some(until), Counted::FromEnd) => {
                    values.extend(steps(-until, -item.start, step).map(|value| -value));
                }
                (None, Counted::FromStart) if item.start + step > most => {
                    return Err(self.fault_at(
                        item.offset,
                        &format!("{what} {}/{step}", item.start),
                        &format!("has a step that goes past {most}, wanted a smaller step or none"),
                    ));
                }
                (None, Counted::FromEnd) if item.start - step < least => {
                    return Err(self.fault_at(
                        item.offset,
                        &format!("{what} {}/{step}", item.start),
                        "has a step that goes past the end of the month, \
                         wanted a smaller step or none",
                    ));
                }
                (None, Counted::FromStart) => values.extend(steps(item.start, most, step)),
                (None, Counted::FromEnd) => {
                    values.extend(steps(-item.start, -least, step).map(|value| -value));
                }
            }
        }
        Ok(values)
    }
}

/// Builds the plan of a calendar expression. `date` is the year, month and day; `clock` is the
/// hour, minute and second.
pub(super) fn plan_of(
    cursor: &CalendarCursor<'_>,
    weekdays: u8,
    date: &[Component; 3],
    clock: &[Component; 3],
) -> Result<CalendarPlan, CalendarFault> {
    let [year, month, day] = date;
    let [hour, minute, second] = clock;
    let mut year = year.clone();
    for item in year.items.iter_mut().flatten() {
        item.start = whole_year(item.start);
        item.until = item.until.map(whole_year);
    }
    let is_from_end = day.offset > 0 && cursor.text.as_bytes().get(day.offset - 1) == Some(&b'~');
    let days = cursor.values(
        day,
        "day",
        1,
        31,
        if is_from_end { Counted::FromEnd } else { Counted::FromStart },
    )?;
    let days = match days {
        values if day.items.is_none() => {
            CalendarDays::FromStart(values.iter().fold(0, |mask, day| mask | 1 << day))
        }
        values if is_from_end => {
            CalendarDays::FromEnd(values.iter().fold(0, |mask, day| mask | 1 << day))
        }
        values => CalendarDays::FromStart(values.iter().fold(0, |mask, day| mask | 1 << day)),
    };
    let mask = |values: Vec<i64>| values.iter().fold(0_u64, |mask, value| mask | 1 << value);
    let plan = CalendarPlan {
        years: match year.items {
            None => None,
            Some(_) => Some(
                cursor
                    .values(&year, "year", YEARS.0, YEARS.1, Counted::FromStart)?
                    .into_iter()
                    .collect(),
            ),
        },
        months: mask(cursor.values(month, "month", 1, 12, Counted::FromStart)?),
        days,
        weekdays,
        hours: mask(cursor.values(hour, "hour", 0, 23, Counted::FromStart)?),
        minutes: mask(cursor.values(minute, "minute", 0, 59, Counted::FromStart)?),
        seconds: mask(cursor.values(second, "second", 0, 59, Counted::FromStart)?),
        is_wild: hour.is_open() || minute.is_open(),
    };
    Ok(plan)
}

/// Returns the full year for a year of two digits, as systemd reads it: 12 is 2012, 89 is 1989.
fn whole_year(year: i64) -> i64 {
    match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        _ => year,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    FromStart,
    FromEnd,
}

fn steps(from: i64, to: i64, step: i64) -> impl Iterator<Item = i64> {
    (from..=to).step_by(usize::try_from(step).unwrap_or(1))
}
