//! Unknown keys, and what each was probably meant to be. If a missing key is explained by an
//! unknown key, it is not reported a second time.

/// The unknown keys of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Slips(Vec<Slip>);

/// An unknown key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slip {
    /// A misspelling of this known key.
    Of(String),
    /// A key near no known key, with a text, a list or a table as its value. It may be meant as any
    /// key.
    AnotherWord,
}

impl Slips {
    /// Adds a slip.
    pub(crate) fn note(&mut self, slip: Slip) {
        self.0.push(slip);
    }

    /// Returns these slips and the slips of `below`.
    pub(crate) fn over(self, below: &Self) -> Self {
        Self(self.0.into_iter().chain(below.0.iter().cloned()).collect())
    }

    /// Returns true if an unknown key is a misspelling of one of `keys`.
    pub(crate) fn are_of(&self, keys: &[&str]) -> bool {
        self.0.iter().any(|slip| matches!(slip, Slip::Of(meant) if keys.contains(&meant.as_str())))
    }

    /// Returns true if an unknown key is a misspelling of one of `keys`, or may be another word for
    /// any key.
    pub(crate) fn may_be(&self, keys: &[&str]) -> bool {
        self.0.contains(&Slip::AnotherWord) || self.are_of(keys)
    }
}
