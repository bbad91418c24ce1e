//! How many random cases a property is tried with.

/// `usual` in script/test, each time others; `SCHEDD_CASES` times as many where that is set, as script/soak does.
///
/// # Panics
/// If `SCHEDD_CASES` is no whole number.
pub(crate) fn cases(usual: u32) -> u32 {
    std::env::var("SCHEDD_CASES").map_or(usual, |times| usual * times.parse::<u32>().unwrap())
}
