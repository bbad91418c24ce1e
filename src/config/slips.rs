//! Keys nobody knows, and what each was probably meant to be: what is missing because of one is not told a second time.

/// The unknown keys of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Slips(Vec<Slip>);

/// One unknown key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Slip {
    /// It is near this one.
    Of(String),
    /// It is near none, and has a text, a list or a table: it may be another word for anything.
    AnotherWord,
}

impl Slips {
    /// Adds one.
    pub(super) fn note(&mut self, slip: Slip) {
        self.0.push(slip);
    }

    /// These, and those of `below`.
    pub(super) fn over(self, below: &Self) -> Self {
        Self(self.0.into_iter().chain(below.0.iter().cloned()).collect())
    }

    /// Whether one of `keys` is there with a slip of the finger.
    pub(super) fn are_of(&self, keys: &[&str]) -> bool {
        self.0.iter().any(|slip| matches!(slip, Slip::Of(meant) if keys.contains(&meant.as_str())))
    }

    /// Whether one of `keys` is there with a slip of the finger or, for all that can be told, by another word.
    pub(super) fn may_be(&self, keys: &[&str]) -> bool {
        self.0.contains(&Slip::AnotherWord) || self.are_of(keys)
    }
}
