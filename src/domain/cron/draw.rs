//! What `H` stands for: a number drawn from the job's name, the same on every host, at every start and in every version.
//!
//! The hash is the first eight bytes, big end first, of the SHA-1 of `NAME:FIELD` (as `backup:minute`), so that the fields of
//! one job are drawn apart and anybody can recompute it with `sha1sum`.

/// Whose numbers are drawn.
#[derive(Debug, Clone, Copy)]
pub(super) enum Draw<'a> {
    /// The job of that name.
    Of(&'a str),
    /// Nobody's yet: every number that could be drawn, to tell whether such a date exists at all.
    Each,
    /// Nobody's, and none is drawn: what the values hold without any `H`.
    Left,
}

/// The number drawn for the job `name` in `field`, to be taken modulo how many there are to choose from.
pub(super) fn number(name: &str, field: &str) -> u64 {
    let mut hash = sha1_smol::Sha1::new();
    for part in [name, ":", field] {
        hash.update(part.as_bytes());
    }
    hash.digest().bytes().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
