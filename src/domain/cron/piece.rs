//! Parts of an expression that know where they stand in it, so that every refusal can point at a character.
//!
//! The text is ASCII here, so a byte offset plus one is the character's position.

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

impl<'a> Piece<'a> {
    /// The 1-based position of its first character.
    pub(super) fn position(self) -> usize {
        self.offset + 1
    }

    pub(super) fn fault(self, problem: String) -> Fault {
        Fault { offset: self.offset, problem }
    }

    pub(super) fn is_number(self) -> bool {
        !self.text.is_empty() && self.text.bytes().all(|b| b.is_ascii_digit())
    }

    pub(super) fn split(self, separator: char) -> impl Iterator<Item = Piece<'a>> {
        let mut offset = self.offset;
        self.text.split(separator).map(move |text| {
            let piece = Piece { text, offset };
            offset += text.len() + separator.len_utf8();
            piece
        })
    }

    /// What stands before the first `separator` and what after it.
    pub(super) fn split_once(self, separator: char) -> (Piece<'a>, Option<Piece<'a>>) {
        match self.text.split_once(separator) {
            Some((before, after)) => {
                let after_offset = self.offset + before.len() + separator.len_utf8();
                (Piece { text: before, offset: self.offset }, Some(Piece { text: after, offset: after_offset }))
            }
            None => (self, None),
        }
    }

    /// What is left without `prefix`, in any case.
    pub(super) fn without_prefix(self, prefix: &str) -> Option<Piece<'a>> {
        let (head, text) = self.text.split_at_checked(prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then_some(Piece { text, offset: self.offset + prefix.len() })
    }

    /// What is left without `suffix`, in any case.
    pub(super) fn without_suffix(self, suffix: &str) -> Option<Piece<'a>> {
        let (text, tail) = self.text.split_at_checked(self.text.len().checked_sub(suffix.len())?)?;
        tail.eq_ignore_ascii_case(suffix).then_some(Piece { text, ..self })
    }

    /// The parts between white space.
    pub(super) fn words(self) -> Vec<Piece<'a>> {
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
            words.push(Piece { text: word, offset });
            rest = Piece { text: after, offset: offset + end };
        }
    }
}
