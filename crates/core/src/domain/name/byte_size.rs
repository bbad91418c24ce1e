//! Sizes as users write them: `"48KiB"`, `"256MiB"`, `"512M"`.
//!
//! Invariant: only unambiguous units are accepted. `K`, `M` and `G` count by 1,024, as in systemd.
//! `KB` is refused because it has two meanings.

/// The error for a text that is not a valid size such as `256MiB`. The error contains that text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "size {found:?} is not valid: wanted a whole number with the unit B, KiB (K), MiB (M) or GiB (G), as in \"256MiB\""
)]
pub struct SizeError {
    found: String,
}

/// Returns the number of bytes that `text` means. Fails unless `text` is a whole number with the
/// unit `B`, `KiB`, `MiB`, `GiB`, `K`, `M` or `G`.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let found = || SizeError { found: text.chars().take(40).collect() };
    let trimmed = text.trim();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = trimmed.split_at(digits);
    let unit: u64 = match unit.trim_start() {
        "B" => 1,
        "KiB" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        _ => return Err(found()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(found)
}

/// Returns `bytes` as the shortest whole number with a unit, such as `512MiB`.
pub fn format_size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, word)) => format!("{}{word}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_and_its_unit() {
        for (text, bytes) in [
            ("0B", 0),
            ("16KiB", 16 * 1024),
            (" 256 MiB ", 256 << 20),
            ("1GiB", 1 << 30),
            ("512M", 512 << 20),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            assert_eq!(parse_size(&format_size(bytes)), Ok(bytes), "{text}");
        }
        assert_eq!(
            (format_size(512 << 20), format_size(1025)),
            ("512MiB".to_owned(), "1025B".to_owned())
        );
    }

    #[test]
    fn what_may_mean_two_things_or_none_is_refused() {
        for text in [
            "",
            "16",
            "16KB",
            "16kib",
            "KiB",
            "-1B",
            "1.5MiB",
            "99999999999999999999B",
            "99999999999GiB",
            "1B2",
        ] {
            let error = parse_size(text).unwrap_err().to_string();
            assert!(error.contains("256MiB"), "{text}: {error}");
        }
    }
}
