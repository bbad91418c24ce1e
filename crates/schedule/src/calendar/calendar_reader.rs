//! Parses a calendar expression as systemd does: weekdays, a date, a time and a zone. Each
//! component is a list of ranges and steps.
//!
//! Every error names the character at which the fault begins.

use super::calendar_component::{CalendarItem, Component, plan_of};
use super::calendar_cursor::{CalendarCursor, CalendarFault};
use super::calendar_plan::CalendarPlan;
use crate::time::zone::{Zone, ZoneName};

/// The maximum number of items in a component, as in systemd.
const MOST_ITEMS: usize = 240;

const WEEKDAYS: [(&str, u32); 14] = [
    ("monday", 0),
    ("mon", 0),
    ("tuesday", 1),
    ("tue", 1),
    ("wednesday", 2),
    ("wed", 2),
    ("thursday", 3),
    ("thu", 3),
    ("friday", 4),
    ("fri", 4),
    ("saturday", 5),
    ("sat", 5),
    ("sunday", 6),
    ("sun", 6),
];

const SHORTHANDS: [(&str, &str); 13] = [
    ("minutely", "*-*-* *:*:00"),
    ("hourly", "*-*-* *:00:00"),
    ("daily", "*-*-* 00:00:00"),
    ("weekly", "Mon *-*-* 00:00:00"),
    ("monthly", "*-*-01 00:00:00"),
    ("quarterly", "*-01,04,07,10-01 00:00:00"),
    ("biannually", "*-01,07-01 00:00:00"),
    ("bi-annually", "*-01,07-01 00:00:00"),
    ("semiannually", "*-01,07-01 00:00:00"),
    ("semi-annually", "*-01,07-01 00:00:00"),
    ("yearly", "*-01-01 00:00:00"),
    ("annually", "*-01-01 00:00:00"),
    ("anually", "*-01-01 00:00:00"),
];

/// Parses the calendar expression `text` to its plan and its zone. The zone is `None` if the text
/// names none.
pub(super) fn read(text: &str) -> Result<(CalendarPlan, Option<Zone>), CalendarFault> {
    let (body, zone) = split_zone(text)?;
    let lower = body.trim_matches(' ').to_ascii_lowercase();
    if lower.is_empty() {
        return Err(fault(
            0,
            "the expression is empty, wanted an expression such as \"Mon..Fri 09:00\"".to_owned(),
        ));
    }
    let expanded = SHORTHANDS.iter().find(|(word, _)| *word == lower).map(|(_, long)| *long);
    let mut cursor = CalendarCursor { text: expanded.unwrap_or(body), at: 0 };
    cursor.skip_blanks();
    let weekdays = cursor.weekdays()?;
    let date = cursor.date()?;
    let clock = cursor.clock()?;
    cursor.skip_blanks();
    if cursor.at < cursor.text.len() {
        return Err(cursor.fault("is not understood here, wanted the end of the text, or a zone such as UTC or Europe/Berlin"));
    }
    let plan = plan_of(&cursor, weekdays, &date, &clock)?;
    Ok((plan, zone))
}

/// Splits `text` into the expression and the zone at its end, if `text` names a zone.
fn split_zone(text: &str) -> Result<(&str, Option<Zone>), CalendarFault> {
    let trimmed = text.trim_end_matches(' ');
    let Some((before, word)) = trimmed.rsplit_once(' ') else { return Ok((trimmed, None)) };
    let looks_like_one = word.starts_with(|c: char| c.is_ascii_alphabetic());
    if !looks_like_one {
        return Ok((trimmed, None));
    }
    let is_weekday = WEEKDAYS.iter().any(|(name, _)| {
        word.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
    });
    let zone = word.parse::<ZoneName>().and_then(|name| Zone::load(&name));
    match zone {
        Ok(zone) => Ok((before, Some(zone))),
        Err(error) if !is_weekday => Err(fault(before.len() + 1, error.to_string())),
        _ => Ok((trimmed, None)),
    }
}

fn fault(offset: usize, problem: String) -> CalendarFault {
    CalendarFault { offset, problem }
}

impl CalendarCursor<'_> {
    /// Parses the weekdays at the cursor to a mask. Monday is bit 0. All bits are set if the text
    /// names no weekday.
    fn weekdays(&mut self) -> Result<u8, CalendarFault> {
        let mut days = 0_u8;
        let mut range_from = None;
        let mut is_first = true;
        loop {
            let begin = self.at;
            let rest = self.rest();
            let named = WEEKDAYS.iter().find(|(name, _)| {
                rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
            });
            let Some((name, day)) = named else {
                if is_first {
                    return Ok(0b111_1111);
                }
                return Err(self.fault("is not a weekday, wanted a weekday such as Mon"));
            };
            self.at += name.len();
            if !matches!(self.peek(), None | Some('-' | '.' | ',' | ' ')) {
                return Err(self.fault(&format!(
                    "follows the weekday {name}, wanted a blank, a comma or \"..\""
                )));
            }
            days |= 1 << day;
            if let Some(from) = range_from {
                if from > *day {
                    let what = "is before the start of the range (the week begins with Mon), wanted a list of days such as Sat,Sun,Mon";
                    return Err(self.fault_at(begin, "the end of the weekday range", what));
                }
                days |= (from..=*day).fold(0, |bits, day| bits | 1 << day);
            }
            match self.peek() {
                Some('.' | '-') => {
                    let is_dots = self.rest().starts_with("..");
                    if range_from.is_some() || (self.peek() == Some('.') && !is_dots) {
                        return Err(
                            self.fault("is not understood, wanted a range such as Mon..Fri")
                        );
                    }
                    range_from = Some(*day);
                    self.at += if is_dots { 2 } else { 1 };
                }
                Some(',') => {
                    range_from = None;
                    self.at += 1;
                }
                _ => range_from = None,
            }
            // systemd allows a comma at the end, but not a range without an end.
            if matches!(self.peek(), None | Some(' ')) {
                if range_from.is_some() {
                    return Err(self
                        .fault("follows a range without an end, wanted a weekday as in Mon..Fri"));
                }
                self.skip_blanks();
                return Ok(days);
            }
            is_first = false;
        }
    }

    /// Parses the year, the month and the day. Each component is `*` if the text has no date.
    fn date(&mut self) -> Result<[Component; 3], CalendarFault> {
        let any = || Component { offset: 0, items: None };
        if self.peek().is_none() {
            return Ok([any(), any(), any()]);
        }
        if self.peek() == Some('@') {
            return Err(self.fault(
                "begins a single instant, wanted at = \"2026-12-24T09:00\" or --at for an instant",
            ));
        }
        let begin = self.at;
        let first = self.component()?;
        if matches!(self.peek(), None | Some(':')) {
            self.at = begin;
            return Ok([any(), any(), any()]);
        }
        let is_from_end = self.separator()?;
        let second = self.component()?;
        if matches!(self.peek(), None | Some(' ')) {
            self.skip_blanks();
            return Ok([any(), first, second]);
        }
        if is_from_end {
            return Err(self.fault("follows the days counted from the end of a month, wanted a blank or the end of the text"));
        }
        self.separator()?;
        let third = self.component()?;
        if !matches!(self.peek(), None | Some(' ')) {
            return Err(self.fault("follows a date, wanted a blank or the end of the text"));
        }
        self.skip_blanks();
        Ok([first, second, third])
    }

    /// Consumes the `-` or `~` between two parts of a date. Returns true for `~`.
    fn separator(&mut self) -> Result<bool, CalendarFault> {
        let found = self.peek();
        if !matches!(found, Some('-' | '~')) {
            return Err(self.fault("is not understood in a date or time, wanted a date such as *-*-01 or a time such as 09:00"));
        }
        self.at += 1;
        Ok(found == Some('~'))
    }

    /// Parses the hour, the minute and the second. The result is midnight if the text has no time.
    fn clock(&mut self) -> Result<[Component; 3], CalendarFault> {
        let end = self.text.len();
        if self.peek().is_none() {
            return Ok([0, 0, 0].map(|value| Component::only(value, end)));
        }
        let hour = self.component()?;
        if self.peek() != Some(':') {
            return Err(self.fault("follows an hour, wanted minutes as in 09:00"));
        }
        self.at += 1;
        let minute = self.component()?;
        if matches!(self.peek(), None | Some(' ')) {
            return Ok([hour, minute, Component::only(0, end)]);
        }
        if self.peek() != Some(':') {
            return Err(self
                .fault("follows minutes, wanted seconds as in 09:00:30, or the end of the text"));
        }
        self.at += 1;
        let second = self.component()?;
        if self.peek() == Some('.') {
            return Err(self.fault("begins a fraction of a second, wanted whole seconds"));
        }
        Ok([hour, minute, second])
    }

    fn component(&mut self) -> Result<Component, CalendarFault> {
        let offset = self.at;
        if self.peek() == Some('*') {
            self.at += 1;
            return Ok(Component { offset, items: None });
        }
        let mut items = Vec::new();
        loop {
            items.push(self.item()?);
            if items.len() > MOST_ITEMS {
                return Err(self.fault(&format!(
                    "follows {MOST_ITEMS} items, wanted at most {MOST_ITEMS} items"
                )));
            }
            if self.peek() != Some(',') {
                return Ok(Component { offset, items: Some(items) });
            }
            self.at += 1;
        }
    }

    fn item(&mut self) -> Result<CalendarItem, CalendarFault> {
        let offset = self.at;
        let start = self.number()?;
        let mut until = None;
        if self.rest().starts_with("..") {
            self.at += 2;
            until = Some(self.number()?);
        }
        let mut step = None;
        if self.peek() == Some('/') {
            self.at += 1;
            let at = self.at;
            let number = self.number()?;
            if number == 0 {
                return Err(self.fault_at(at, "the step 0", "never advances, wanted 1 or more"));
            }
            step = Some(number);
        }
        Ok(CalendarItem { offset, start, until, step })
    }

    fn number(&mut self) -> Result<i64, CalendarFault> {
        let length = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return Err(self.fault("is not understood, wanted a number or *"));
        }
        let digits = self.rest().get(..length).unwrap_or_default();
        let number = digits.parse::<i64>().ok().filter(|number| *number <= 1_000_000);
        let number = number.ok_or_else(|| {
            self.fault_at(self.at, "the number", "is too large, wanted at most 1000000")
        })?;
        self.at += length;
        Ok(number)
    }
}
