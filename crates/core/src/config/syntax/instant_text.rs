//! The parser of instants in a configuration, for `at` and similar keys.
//!
//! Only texts that always mean the same instant are accepted, because a file is read again and
//! again.

use super::problem::quoted;
use schedd_schedule::time::human_time::parse_fixed;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;

/// Returns the instant that `text` names. The error names `text` and a valid form in one line.
///
/// Accepted are a date and time with an offset, a local date and time in `zone`, and `@` with
/// seconds since 1970. If a local time occurs twice because the clock goes back, the first counts.
pub(crate) fn instant(text: &str, zone: Option<&Zone>) -> Result<UnixMillis, String> {
    parse_fixed(text, zone)
        .map(|read| read.at)
        .map_err(|error| format!("found {}, {}", quoted(text), error.problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_time_is_read_in_the_zone_and_one_that_never_comes_is_refused() {
        let berlin = Zone::load(&"Europe/Berlin".parse().unwrap()).unwrap();
        let at = |text: &str| instant(text, Some(&berlin)).map(|at| at.to_string());
        assert_eq!(at("2026-12-24T09:00").unwrap(), "2026-12-24T08:00:00.000Z");
        assert_eq!(at("2026-12-24T09:00:30").unwrap(), "2026-12-24T08:00:30.000Z");
        assert_eq!(at("2026-12-24T09:00:00+05:00").unwrap(), "2026-12-24T04:00:00.000Z");
        assert_eq!(at("2026-10-25T02:30").unwrap(), "2026-10-25T00:30:00.000Z");
        assert_eq!(at("2026-12-24 9am").unwrap(), "2026-12-24T08:00:00.000Z");
        assert_eq!(at("@1790000000").unwrap(), "2026-09-21T14:13:20.000Z");
        assert!(at("2027-03-28T02:30").unwrap_err().contains("does not exist in Europe/Berlin"));
        for passing in ["tomorrow 9am", "in 2h", "noon", "24 dec 9am", "now"] {
            assert!(
                at(passing).unwrap_err().contains("wanted a fixed time: a date and time such as"),
                "{passing}"
            );
        }
        for bad in [
            "",
            "tomorow 9",
            "9:00",
            "9999-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-13-01T00:00",
        ] {
            assert!(at(bad).unwrap_err().contains("wanted"), "{bad}");
        }
        assert!(instant("2026-12-24T09:00", None).unwrap_err().contains("offset"));
    }
}
