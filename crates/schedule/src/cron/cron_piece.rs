//! Parts of a cron expression with their positions, for errors that point at a character.
//!
//! The text is ASCII here, so the position of a character is its byte offset plus one.

/// A part of the expression, and the byte at which this part begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct CronPiece<'a> {
    pub(super) text: &'a str,
    pub(super) offset: usize,
}

/// A problem, and the byte of the expression at which the problem begins.
#[derive(Debug)]
pub(super) struct CronFault {
    pub(super) offset: usize,
    pub(super) problem: String,
}

impl<'a> CronPiece<'a> {
    /// Returns the position of the first character of the part, counted from 1.
    pub(super) fn position(self) -> usize {
        self.offset + 1
    }

    pub(super) fn fault(self, problem: String) -> CronFault {
        CronFault { offset: self.offset, problem }
    }

    pub(super) fn is_number(self) -> bool {
        !self.text.is_empty() && self.text.bytes().all(|b| b.is_ascii_digit())
    }

    pub(super) fn split(self, separator: char) -> impl Iterator<Item = CronPiece<'a>> {
        let mut offset = self.offset;
        self.text.split(separator).map(move |text| {
            let piece = CronPiece { text, offset };
            offset += text.len() + separator.len_utf8();
            piece
        })
    }

    /// Splits the part at the first `separator` into the text before and the text after. The second
    /// result is `None` if the part has no `separator`.
    pub(super) fn split_once(self, separator: char) -> (CronPiece<'a>, Option<CronPiece<'a>>) {
        match self.text.split_once(separator) {
            Some((before, after)) => {
                let after_offset = self.offset + before.len() + separator.len_utf8();
                (
                    CronPiece { text: before, offset: self.offset },
                    Some(CronPiece { text: after, offset: after_offset }),
                )
            }
            None => (self, None),
        }
    }

    /// Returns the part without `prefix`, or `None` if the part begins otherwise. Upper and lower
    /// case count as equal.
    pub(super) fn without_prefix(self, prefix: &str) -> Option<CronPiece<'a>> {
        let (head, text) = self.text.split_at_checked(prefix.len())?;
        head.eq_ignore_ascii_case(prefix)
            .then_some(CronPiece { text, offset: self.offset + prefix.len() })
    }

    /// Returns the part without `suffix`, or `None` if the part ends otherwise. Upper and lower
    /// case count as equal.
    pub(super) fn without_suffix(self, suffix: &str) -> Option<CronPiece<'a>> {
        let (text, tail) =
            self.text.split_at_checked(self.text.len().checked_sub(suffix.len())?)?;
        tail.eq_ignore_ascii_case(suffix).then_some(CronPiece { text, ..self })
    }

    /// Returns the words of the part: the texts between white space.
    pub(super) fn words(self) -> Vec<CronPiece<'a>> {
        let mut words = Vec::new();
        let mut rest = self;
        loop {
            let trimmed = rest.text.trim_ascii_start();
            let offset = rest.offset + (rest.text.len() - trimmed.len());
            if trimmed.is_empty() {
                return words;
            }
            let end = trimmed.find(|c: char| c.is_ascii_whitespace()).unwrap_or(trimmed.len());
            let (word, after) = trimmed.split_at(end);
            words.push(CronPiece { text: word, offset });
            rest = CronPiece { text: after, offset: offset + end };
        }
    }
}
