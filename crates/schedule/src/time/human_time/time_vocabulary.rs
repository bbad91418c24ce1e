//! The words of a text with their positions, and the faults that point at a word.

/// The valid forms of an instant, for messages.
pub(super) const FORMS: &str = "\"2026-12-24T09:00:00+01:00\", \"2026-12-24 09:00\", \"24 dec 9am\", \"09:00\", \"noon\", \"tomorrow 9am\", \
                     \"fri 17:00\", \"next fri\", \"in 2h30m\" or \"@1790000000\"";

/// A word of the text in lower case, and the byte at which this word begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeWord<'a> {
    pub(super) text: &'a str,
    pub(super) offset: usize,
    /// The number of characters before the word.
    before: usize,
}

/// A problem, and the byte at which the problem begins.
#[derive(Debug)]
pub(super) struct TimeFault {
    pub(super) offset: usize,
    pub(super) problem: String,
}

/// Splits `text` at its blanks into words.
pub(super) fn split(text: &str) -> Vec<TimeWord<'_>> {
    let mut words: Vec<TimeWord<'_>> = Vec::new();
    let mut open: Option<(usize, usize)> = None;
    for (before, (offset, c)) in text.char_indices().enumerate() {
        match (open, c.is_whitespace()) {
            (Some((start, start_before)), true) => {
                words.push(TimeWord {
                    text: text.get(start..offset).unwrap_or_default(),
                    offset: start,
                    before: start_before,
                });
                open = None;
            }
            (None, false) => open = Some((offset, before)),
            _ => {}
        }
    }
    if let Some((start, before)) = open {
        words.push(TimeWord { text: text.get(start..).unwrap_or_default(), offset: start, before });
    }
    words
}

/// Returns `words` without a leading `at` or `on`.
pub(super) fn without_at<'a, 'b>(words: &'b [TimeWord<'a>]) -> &'b [TimeWord<'a>] {
    match words {
        [at, rest @ ..] if matches!(at.text, "at" | "on") => rest,
        _ => words,
    }
}

/// Returns a fault at the first word of `rest`, unless `rest` is empty.
pub(super) fn nothing_after(rest: &[TimeWord<'_>]) -> Result<(), TimeFault> {
    match rest.first() {
        None => Ok(()),
        Some(extra) => {
            let hint = if extra.is_a_zone() {
                " (give the zone with --tz)"
            } else if extra.may_abbreviate_a_zone() {
                " (the zone of this host has no such abbreviation; write an offset, as in 2026-11-24T02:30:00+01:00)"
            } else {
                ""
            };
            Err(extra.fault(format!(
                "{} follows a complete time, wanted the end of the text{hint}",
                extra.shown()
            )))
        }
    }
}

impl<'a> TimeWord<'a> {
    pub(super) fn fault(self, problem: String) -> TimeFault {
        TimeFault { offset: self.offset, problem }
    }

    /// Returns true if the word looks like a zone.
    fn is_a_zone(self) -> bool {
        matches!(self.text, "utc" | "gmt" | "z") || self.text.contains('/')
    }

    /// Returns true if the word looks like the abbreviation of a zone, such as `cet` or `aest`.
    fn may_abbreviate_a_zone(self) -> bool {
        matches!(self.text.len(), 3 | 4)
            && self.text.ends_with('t')
            && self.text.bytes().all(|byte| byte.is_ascii_lowercase())
    }

    /// Formats the word and its position for a message.
    pub(super) fn shown(self) -> String {
        format!("{:?} at character {}", cut(self.text), self.before + 1)
    }

    /// Returns the fault for this unknown word. The nearest known word is a hint.
    pub(super) fn unknown(self) -> TimeFault {
        const KNOWN: &str = "today tomorrow yesterday noon midnight now next at in ago monday tuesday wednesday thursday friday \
                             saturday sunday january february march april june july august september october november december";
        let near = |known: &str| strsim::osa_distance(self.text, known);
        let alike = |known: &&str| (1..=2.min(known.len() / 4)).contains(&near(known));
        let nearest = KNOWN
            .split_ascii_whitespace()
            .filter(|_| self.text.len() < 20)
            .filter(alike)
            .min_by_key(|known| near(known));
        let hint = nearest.map_or_else(String::new, |known| format!(" (did you mean {known:?}?)"));
        self.fault(format!("{} is not understood{hint}, wanted {FORMS}", self.shown()))
    }

    /// Splits the word at the first ASCII `sign` into the text before `sign` and the text after
    /// it.
    pub(super) fn split_at_char(self, sign: char) -> (TimeWord<'a>, Option<TimeWord<'a>>) {
        match self.text.find(sign) {
            Some(place) => (self.part(0, place), Some(self.part(place + 1, self.text.len()))),
            None => (self, None),
        }
    }

    /// Returns the bytes of the word from `start` to `end`.
    pub(super) fn part(self, start: usize, end: usize) -> TimeWord<'a> {
        let before =
            self.before + self.text.get(..start).map_or(0, |skipped| skipped.chars().count());
        TimeWord {
            text: self.text.get(start..end).unwrap_or_default(),
            offset: self.offset + start,
            before,
        }
    }
}

/// Cuts `text` to a length that fits in a one-line message.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
