//! The number of random cases of a property test.

/// Returns `usual`, or `SCHEDD_CASES` times as many if that is set, as script/soak does. Each run
/// uses other cases.
///
/// # Panics
/// If `SCHEDD_CASES` is no whole number.
pub(crate) fn cases(usual: u32) -> u32 {
    std::env::var("SCHEDD_CASES").map_or(usual, |times| usual * times.parse::<u32>().unwrap())
}
