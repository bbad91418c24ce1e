//! The seam to the domain's reading of instants: what `at` may say.
//!
//! Only texts that mean the same instant whenever they are read are taken here: a file is read again and again.

use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;

use super::problem::quoted;
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;

/// The instant `text` names: RFC 3339 with an offset, or a local date and time in `zone` (the first of two where the
/// clock goes back). The error says in one line what was found and wanted.
pub(super) fn instant(text: &str, zone: Option<&Zone>) -> Result<UnixMillis, String> {
    let found = quoted(text);
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return UnixMillis::from_timestamp(at).ok_or_else(|| format!("found {found}, wanted an instant from 1970 to 2099"));
    }
    let wanted = "a date and time such as \"2026-12-24T09:00:00+01:00\" or \"2026-12-24T09:00\"";
    let local = text.parse::<DateTime>().map_err(|_| format!("found {found}, wanted {wanted}"))?;
    let Some(zone) = zone else {
        return Err(format!("found {found}, wanted an offset behind it such as \"Z\" or \"+01:00\""));
    };
    let ambiguous = zone.rules().to_ambiguous_timestamp(local);
    if matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. }) {
        let name = zone.name();
        return Err(format!(
            "found {found}, which does not exist in {name}: the clock is set forward over it, wanted a time after"
        ));
    }
    let at = ambiguous.compatible().ok().and_then(UnixMillis::from_timestamp);
    at.ok_or_else(|| format!("found {found}, wanted an instant from 1970 to 2099"))
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
        assert!(at("2027-03-28T02:30").unwrap_err().contains("does not exist in Europe/Berlin"));
        for bad in ["", "tomorow 9", "9999-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2026-13-01T00:00"] {
            assert!(at(bad).unwrap_err().contains("wanted"), "{bad}");
        }
        assert!(instant("2026-12-24T09:00", None).unwrap_err().contains("offset"));
    }
}
