//! Unknown keys, each with the key that was probably meant. A required key that was only misspelt
//! is not reported as missing too.

/// The unknown keys of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Slips(Vec<Slip>);

/// An unknown key, by its probable meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slip {
    /// The unknown key is a misspelling of this known key.
    Of(String),
    /// The unknown key is near no known key. Its value is a text, a list or a table, so any key
    /// may be meant.
    AnotherWord,
}

impl Slips {
    /// Adds an unknown key.
    pub(crate) fn note(&mut self, slip: Slip) {
        self.0.push(slip);
    }

    /// Returns these unknown keys together with the unknown keys of `below`, the table of
    /// `[defaults]`.
    pub(crate) fn over(self, below: &Self) -> Self {
        Self(self.0.into_iter().chain(below.0.iter().cloned()).collect())
    }

    /// Returns true if one of these unknown keys is a misspelling of one of `keys`.
    pub(crate) fn are_of(&self, keys: &[&str]) -> bool {
        self.0.iter().any(|slip| matches!(slip, Slip::Of(meant) if keys.contains(&meant.as_str())))
    }

    /// Returns true if one of these unknown keys is a misspelling of one of `keys`, or may be
    /// another word for any key.
    pub(crate) fn may_be(&self, keys: &[&str]) -> bool {
        self.0.contains(&Slip::AnotherWord) || self.are_of(keys)
    }
}
