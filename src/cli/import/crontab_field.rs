//! A field of a crontab line, by the rules of crontab(5), and the form of the field in `cron`.
//!
//! This parser is not the parser of `cron` expressions: a crontab knows fewer signs, and schedd
//! reads some of them in another way. Invariant: a field that cron refuses or never runs is refused.

use std::ops::RangeInclusive;

/// The rules of one of the five fields.
#[derive(Debug)]
pub(super) struct FieldRules {
    pub(super) name: &'static str,
    low: u8,
    high: u8,
    names: &'static [&'static str],
    /// The highest value of `H`, which schedd draws in place of `~`.
    drawn_to: u8,
}

/// The rules of the minute, the hour, the day of month, the month and the weekday.
pub(super) static FIELDS: [FieldRules; 5] = [
    FieldRules { name: "minute", low: 0, high: 59, names: &[], drawn_to: 59 },
    FieldRules { name: "hour", low: 0, high: 23, names: &[], drawn_to: 23 },
    FieldRules { name: "day of month", low: 1, high: 31, names: &[], drawn_to: 28 },
    FieldRules { name: "month", low: 1, high: 12, names: &MONTHS, drawn_to: 12 },
    FieldRules { name: "weekday", low: 0, high: 7, names: &WEEKDAYS, drawn_to: 6 },
];

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A field of a crontab line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CrontabField {
    pub(super) items: Vec<FieldItem>,
    /// True if the field begins with `*`.
    pub(super) is_starred: bool,
}

/// An item of the list in a field: every `step`-th value from `first` to `last`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldItem {
    first: u8,
    last: u8,
    step: u8,
    /// True for a range with `~`, from which cron draws one value.
    pub(super) is_drawn: bool,
    /// The item in the form of a `cron` expression.
    pub(super) written: String,
}

impl FieldItem {
    /// Returns the values from which the first value of a drawn item comes.
    pub(super) fn drawn_from(&self) -> RangeInclusive<u8> {
        let last = if self.step > 1 {
            self.last.min(self.first.saturating_add(self.step - 1))
        } else {
            self.last
        };
        self.first..=last
    }

    /// Returns the values of the item as bits. `drawn` is the first value of a drawn item.
    pub(super) fn bits(&self, drawn: u8) -> u64 {
        let (first, last) = match (self.is_drawn, self.step) {
            (false, _) => (self.first, self.last),
            (true, 1) => (drawn, drawn),
            (true, _) => (drawn, self.last),
        };
        (first..=last).step_by(usize::from(self.step)).fold(0, |bits, value| bits | 1 << value)
    }
}

impl CrontabField {
    /// Returns the field in the form of a `cron` expression.
    pub(super) fn written(&self) -> String {
        self.items.iter().map(|item| item.written.as_str()).collect::<Vec<_>>().join(",")
    }
}

impl FieldRules {
    /// Parses the field `text`. The error is the reason why cron does not run the line.
    pub(super) fn read(&self, text: &str) -> Result<CrontabField, String> {
        let items = text.split(',').map(|item| self.read_item(item)).collect::<Result<_, _>>()?;
        Ok(CrontabField { items, is_starred: text.starts_with('*') })
    }

    fn read_item(&self, item: &str) -> Result<FieldItem, String> {
        let name = self.name;
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(self.read_step(step)?)),
            None => (item, None),
        };
        let behind = step.map_or_else(String::new, |step| format!("/{step}"));
        let plain = |(first, last), written: String| FieldItem {
            first,
            last,
            step: step.unwrap_or(1),
            is_drawn: false,
            written: written + &behind,
        };
        if base == "*" {
            return Ok(plain((self.low, self.high), base.to_owned()));
        }
        if let Some((low, high)) = base.split_once('~') {
            let bound =
                |text: &str, open| if text.is_empty() { Ok(open) } else { self.read_value(text) };
            let (first, last) = (bound(low, self.low)?, bound(high, self.drawn_to)?);
            let last = last.min(self.drawn_to);
            if first > last {
                return Err(format!("{name} {base} runs backwards, so cron refuses the line"));
            }
            if step == Some(1) {
                // Whichever value comes first, each value is in the range.
                return Ok(plain((first, last), format!("{first}-{last}")));
            }
            let is_whole = (first, last) == (self.low, self.drawn_to);
            let range = if is_whole { "H".to_owned() } else { format!("H({first}-{last})") };
            return Ok(FieldItem { is_drawn: true, ..plain((first, last), range) });
        }
        let Some((low, high)) = base.split_once('-') else {
            if step.is_some() {
                return Err(format!(
                    "{name} {item} has a step without a range, which Debian's cron refuses and other crons \
                     read differently: write {base}-{}/{}",
                    self.high,
                    step.unwrap_or(1)
                ));
            }
            let value = self.read_value(base)?;
            return Ok(plain((value, value), base.to_owned()));
        };
        let (first, last) = (self.read_value(low)?, self.read_value(high)?);
        if first > last {
            return Err(format!("{name} {base} runs backwards, so cron never runs the line"));
        }
        Ok(plain((first, last), base.to_owned()))
    }

    fn read_step(&self, text: &str) -> Result<u8, String> {
        let name = self.name;
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u64>() {
            Ok(step) if is_number && step > 0 => Ok(u8::try_from(step).unwrap_or(u8::MAX)),
            _ => Err(format!("{name} step {text:?} is not a number above 0")),
        }
    }

    fn read_value(&self, text: &str) -> Result<u8, String> {
        let (name, low, high) = (self.name, self.low, self.high);
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let value = text.parse().ok().filter(|value| (low..=high).contains(value));
            return value
                .ok_or_else(|| format!("{name} {text} is out of range, wanted {low}-{high}"));
        }
        let place = self.names.iter().position(|known| known.eq_ignore_ascii_case(text));
        // The first name stands for the lowest value.
        let value = place.and_then(|place| u8::try_from(place).ok()).map(|place| low + place);
        value.ok_or_else(|| format!("{name} {text:?} is not known to cron"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(place: usize, text: &str) -> Result<(String, u64), String> {
        let field = FIELDS[place].read(text)?;
        let bits = field.items.iter().fold(0, |bits, item| bits | item.bits(item.first));
        Ok((field.written(), bits))
    }

    #[test]
    fn a_field_has_the_values_of_crontab_and_a_form_for_cron() {
        let bits = |values: &[u8]| values.iter().fold(0_u64, |bits, value| bits | 1 << value);
        for (place, text, written, values) in [
            (0, "0-59/7", "0-59/7", &[0, 7, 14, 21, 28, 35, 42, 49, 56][..]),
            (0, "*/20", "*/20", &[0, 20, 40]),
            (1, "1,3-5", "1,3-5", &[1, 3, 4, 5]),
            (2, "*/10", "*/10", &[1, 11, 21, 31]),
            (3, "Jan,DEC", "Jan,DEC", &[1, 12]),
            (4, "mon-5", "mon-5", &[1, 2, 3, 4, 5]),
            (4, "7", "7", &[7]),
            (4, "*/3", "*/3", &[0, 3, 6]),
            (0, "0~29", "H(0-29)", &[0]),
            (0, "~", "H", &[0]),
            (1, "5~", "H(5-23)", &[5]),
            (2, "1~31", "H", &[1]),
            (0, "0~29/10", "H(0-29)/10", &[0, 10, 20]),
            (1, "3~4/1", "3-4/1", &[3, 4]),
            (0, "*/300", "*/255", &[0]),
        ] {
            assert_eq!(read(place, text), Ok((written.to_owned(), bits(values))), "{text}");
        }
        let drawn_from = |text: &str| FIELDS[0].read(text).unwrap().items[0].drawn_from();
        assert_eq!(["9~", "9~/5", "9~/999"].map(drawn_from), [9..=59, 9..=13, 9..=59]);
    }

    #[test]
    fn a_field_that_cron_does_not_run_is_refused() {
        for (place, text, words) in [
            (0, "60", "out of range"),
            (0, "5/10", "write 5-59/10"),
            (0, "*5", "not known"),
            (0, "1,,2", "not known"),
            (0, "*/0", "above 0"),
            (0, "-5", "not known"),
            (1, "22-2", "backwards"),
            (1, "9~5", "backwards"),
            (2, "L", "not known"),
            (3, "mon", "not known"),
            (4, "5#2", "not known"),
            (4, "fri-sun", "backwards"),
            (0, "H", "not known"),
        ] {
            let why = read(place, text).unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}
