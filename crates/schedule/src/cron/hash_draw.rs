//! The number that replaces an `H`. The number depends only on the job's name and the field, so
//! every host and every version of schedd gets the same number.
//!
//! The number comes from a digest: the first eight bytes, in big-endian order, of the SHA-1 of
//! `NAME:FIELD` (for example `backup:minute`). The fields of a job thus get independent numbers.
//! Anybody can recompute the digest with `sha1sum`.

/// The source of the numbers for the `H` in a cron expression.
#[derive(Debug, Clone, Copy)]
pub(super) enum Draw<'a> {
    /// Each `H` gets the number that follows from this name of a job.
    Of(&'a str),
    /// Each `H` selects every number of its range. This source serves to check that an expression
    /// can have an occurrence.
    Each,
    /// Each `H` selects no number, so the field has only the numbers written in its text.
    Left,
}

/// Returns the digest of the job `name` and the field `field`. The caller takes the digest modulo
/// the size of the field's range.
pub(super) fn number(name: &str, field: &str) -> u64 {
    let mut hash = sha1_smol::Sha1::new();
    for part in [name, ":", field] {
        hash.update(part.as_bytes());
    }
    hash.digest().bytes().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
