//! One field of a cron expression: its text to the set of values it stands for, by the rules of crontab(5).
//!
//! Invariant: a field that is read means what crontab(5) says, or is refused by name and position; nothing is guessed.
//! The text is ASCII here, so a byte offset plus one is the character's position.

use std::collections::BTreeSet;

/// A part of the expression and where it begins in it, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    pub(super) offset: usize,
}

/// What is wrong, and at which byte of the expression.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) offset: usize,
    pub(super) problem: String,
}

/// The rules of one field.
#[derive(Debug)]
pub(super) struct Field {
    name: &'static str,
    min: u16,
    max: u16,
    /// After how many values it starts again; none = a range in it may not run backwards.
    wraps_after: Option<u16>,
    names: &'static [&'static str],
    /// Days know `?`, and the letters of other dialects.
    is_day: bool,
}

/// What a field stands for.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) set: BTreeSet<u16>,
    /// Begins with `*` (or is `?`): Debian's flag for the day rule and for jobs that follow real time.
    pub(super) starred: bool,
}

const NO_NAMES: &[&str] = &[];
const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

pub(super) const SECOND: Field = clock("second", 59, None);
pub(super) const MINUTE: Field = clock("minute", 59, None);
pub(super) const HOUR: Field = clock("hour", 23, Some(24));
pub(super) const DAY: Field = Field { name: "day of month", min: 1, max: 31, wraps_after: None, names: NO_NAMES, is_day: true };
pub(super) const MONTH: Field = Field { name: "month", min: 1, max: 12, wraps_after: Some(12), names: MONTHS, is_day: false };
/// 0 and 7 are both Sunday; the set holds 0 to 6.
pub(super) const WEEKDAY: Field = Field { name: "weekday", min: 0, max: 7, wraps_after: Some(7), names: WEEKDAYS, is_day: true };
pub(super) const YEAR: Field = Field { name: "year", min: 1970, max: 2099, wraps_after: None, names: NO_NAMES, is_day: false };

const fn clock(name: &'static str, max: u16, wraps_after: Option<u16>) -> Field {
    Field { name, min: 0, max, wraps_after, names: NO_NAMES, is_day: false }
}

/// One end of a range: its value, and whether it was written as a name.
struct Bound {
    value: u16,
    named: bool,
}

impl<'a> Piece<'a> {
    /// The 1-based position of its first character.
    pub(super) fn position(self) -> usize {
        self.offset + 1
    }

    fn fault(self, problem: String) -> Fault {
        Fault { offset: self.offset, problem }
    }

    fn split(self, separator: char) -> impl Iterator<Item = Piece<'a>> {
        let mut offset = self.offset;
        self.text.split(separator).map(move |text| {
            let piece = Piece { text, offset };
            offset += text.len() + separator.len_utf8();
            piece
        })
    }

    /// What stands before the first `separator` and what after it.
    fn split_once(self, separator: char) -> (Piece<'a>, Option<Piece<'a>>) {
        match self.text.split_once(separator) {
            Some((before, after)) => {
                let after_offset = self.offset + before.len() + separator.len_utf8();
                (Piece { text: before, offset: self.offset }, Some(Piece { text: after, offset: after_offset }))
            }
            None => (self, None),
        }
    }
}

impl Field {
    /// The values `piece` stands for in this field.
    pub(super) fn read(&self, piece: Piece<'_>) -> Result<Values, Fault> {
        if self.is_day && piece.text == "?" {
            return self.read(Piece { text: "*", ..piece });
        }
        let mut set = BTreeSet::new();
        for item in piece.split(',') {
            self.read_item(item, &mut set)?;
        }
        Ok(Values { set, starred: piece.text.starts_with('*') })
    }

    /// Every value of the field.
    pub(super) fn whole(&self) -> Values {
        Values { set: (self.min..=self.max).collect(), starred: true }
    }

    fn read_item(&self, item: Piece<'_>, set: &mut BTreeSet<u16>) -> Result<(), Fault> {
        if item.text.is_empty() {
            let (name, at, wanted) = (self.name, item.position(), self.wanted());
            return Err(item.fault(format!("{name} has an empty list item at character {at}, wanted {wanted}")));
        }
        self.refuse_other_dialects(item)?;
        let (base, step) = item.split_once('/');
        let step_width = step.map(|step| self.read_step(step)).transpose()?;
        let (first, last) = if base.text == "*" { (self.min, self.max) } else { self.read_range(base, step)? };
        let mut value = first;
        while value <= last {
            set.insert(self.wraps_after.map_or(value, |period| (value - self.min) % period + self.min));
            match value.checked_add(step_width.unwrap_or(1)) {
                Some(next) => value = next,
                None => break,
            }
        }
        Ok(())
    }

    /// First and last value; the last is past the field's end when the range wraps.
    fn read_range(&self, base: Piece<'_>, step: Option<Piece<'_>>) -> Result<(u16, u16), Fault> {
        let (low, high) = base.split_once('-');
        let first = self.read_bound(low)?;
        let Some(high) = high else {
            // A step makes one value a range to the field's end: not in Vixie's cron, but what everyone means by it.
            return Ok((first.value, if step.is_some() { self.max } else { first.value }));
        };
        let last = self.read_bound(high)?;
        let (name, range, at) = (self.name, base.text, base.position());
        if first.named != last.named {
            return Err(base.fault(format!("{name} range {range} at character {at} mixes a name and a number, wanted one kind")));
        }
        match self.wraps_after {
            _ if first.value <= last.value => Ok((first.value, last.value)),
            Some(period) => Ok((first.value, last.value + period)),
            None => {
                Err(base.fault(format!("{name} range {range} at character {at} runs backwards, wanted the smaller value first")))
            }
        }
    }

    fn read_bound(&self, piece: Piece<'_>) -> Result<Bound, Fault> {
        let (name, text, at, wanted) = (self.name, piece.text, piece.position(), self.wanted());
        if text.is_empty() {
            return Err(piece.fault(format!("{name} has no value at character {at}, wanted {wanted}")));
        }
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return match text.parse::<u16>() {
                Ok(value) if (self.min..=self.max).contains(&value) => Ok(Bound { value, named: false }),
                _ => Err(piece.fault(format!("{name} {text} at character {at} is out of range, wanted {wanted}"))),
            };
        }
        if let Some(place) = (self.min..=self.max).zip(self.names).find(|(_, known)| known.eq_ignore_ascii_case(text)) {
            return Ok(Bound { value: place.0, named: true });
        }
        let listed = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(text));
        let is = match () {
            () if listed(MONTHS) => "is the name of a month",
            () if listed(WEEKDAYS) => "is the name of a weekday",
            () => "is not understood",
        };
        Err(piece.fault(format!("{name} {text:?} at character {at} {is}, wanted {wanted}")))
    }

    fn read_step(&self, step: Piece<'_>) -> Result<u16, Fault> {
        let (name, text, at) = (self.name, step.text, step.position());
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(step.fault(format!("{name} step {text:?} at character {at} is not a number, wanted 1 or more")));
        }
        // A step past the field's end is allowed and takes the first value only, however far past.
        match text.parse::<u16>().unwrap_or(u16::MAX) {
            0 => Err(step.fault(format!("{name} step {text} at character {at} never moves on, wanted 1 or more"))),
            width => Ok(width),
        }
    }

    /// `L`, `W`, `#` and `H` mean something in other dialects: said so, never read as something else.
    fn refuse_other_dialects(&self, item: Piece<'_>) -> Result<(), Fault> {
        let upper = item.text.to_ascii_uppercase();
        let bare = upper.trim_start_matches(|c: char| c.is_ascii_digit());
        let bare = WEEKDAYS.iter().find_map(|day| bare.strip_prefix(day)).unwrap_or(bare);
        let (sign, means) = match bare {
            _ if upper.contains('#') => ("#", "the n-th weekday of a month"),
            _ if upper == "H" || upper.starts_with("H/") || upper.starts_with("H(") => ("H", "a value drawn per job"),
            "L" if self.is_day => ("L", "the last"),
            "W" | "LW" if self.is_day => ("W", "the nearest working day"),
            _ if self.is_day && upper.starts_with("L-") => ("L", "counted from the last"),
            _ => return Ok(()),
        };
        let (name, at, wanted) = (self.name, item.position(), self.wanted());
        let problem = format!(
            "{name} {:?} at character {at} uses {sign} ({means}), which is not supported yet, wanted {wanted}",
            item.text
        );
        Err(item.fault(problem))
    }

    fn wanted(&self) -> String {
        match self.names {
            [first, .., last] => format!("{}-{} or {first}-{last}", self.min, self.max),
            _ => format!("{}-{}", self.min, self.max),
        }
    }
}
