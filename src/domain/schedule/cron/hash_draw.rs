//! The number that replaces an `H`. The number is drawn from the job's name, so it is the same on
//! every host, at every start and in every version.
//!
//! The hash is the first eight bytes, in big-endian order, of the SHA-1 of `NAME:FIELD` (for
//! example `backup:minute`). The fields of a job thus get independent numbers. Anybody can
//! recompute the numbers with `sha1sum`.

/// The source of the numbers for `H`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Draw<'a> {
    /// Each `H` gets the number of the job with this name.
    Of(&'a str),
    /// Each `H` gets every number that could be drawn. This source serves to check that some such
    /// date exists.
    Each,
    /// Each `H` is left out: the values contain no number for an `H`.
    Left,
}

/// Returns the number drawn for `field` of the job `name`. The caller takes the number modulo the
/// number of choices.
pub(super) fn number(name: &str, field: &str) -> u64 {
    let mut hash = sha1_smol::Sha1::new();
    for part in [name, ":", field] {
        hash.update(part.as_bytes());
    }
    hash.digest().bytes().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
