//! The number that `H` stands for. It is drawn from the job's name, so it is the same on every
//! host, at every start and in every version.
//!
//! The hash is the first eight bytes, in big-endian order, of the SHA-1 of `NAME:FIELD` (for
//! example `backup:minute`). The fields of a job thus get independent numbers, and anybody can
//! recompute them with `sha1sum`.

/// The source of the numbers for `H`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Draw<'a> {
    /// The numbers of the job with this name.
    Of(&'a str),
    /// Every number that could be drawn. It serves to check whether such a date exists at all.
    Each,
    /// No numbers. The values then contain nothing for an `H`.
    Left,
}

/// Returns the number drawn for `field` of the job `name`. The caller takes it modulo the number of
/// choices.
pub(super) fn number(name: &str, field: &str) -> u64 {
    let mut hash = sha1_smol::Sha1::new();
    for part in [name, ":", field] {
        hash.update(part.as_bytes());
    }
    hash.digest().bytes().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
