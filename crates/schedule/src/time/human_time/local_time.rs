//! The conversion of a time on the wall clock of a zone to an instant. A local time exists once,
//! twice or never.

use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;

use crate::time::unix_millis::UnixMillis;
use crate::time::zone::Zone;

pub(super) const RANGE: &str = "wanted a time from 1970 to 2099";

/// The instant that a text means, with a note for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instant {
    /// The instant that the text means.
    pub at: UnixMillis,
    /// A note for the user if the local time comes twice. The note says which of the two instants
    /// is used.
    pub note: Option<String>,
}

/// Returns the instant at which the wall clock shows `local`. If there are two such instants, the
/// first counts. The error says why there is no such instant, and names the nearest instants.
pub(super) fn resolve(local: DateTime, zone: &Zone) -> Result<Instant, String> {
    let name = zone.name();
    let rules = zone.rules();
    let ambiguous = rules.to_ambiguous_timestamp(local);
    let show = |at: jiff::Timestamp| at.to_zoned(rules.clone()).strftime("%FT%T%:z").to_string();
    let note = match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => None,
        AmbiguousOffset::Gap { .. } => {
            let offer = end_of_gap(local, zone).map_or_else(String::new, |change| {
                let before = change.checked_sub(jiff::SignedDuration::from_secs(1)).map(show).unwrap_or_default();
                format!("; the last second before the gap is {before}, the first instant after the gap is {}", show(change))
            });
            return Err(format!(
                "{} does not exist in {name}, because the clock skips this time{offer}",
                local.strftime("%F %T")
            ));
        }
        AmbiguousOffset::Fold { before, after } => {
            let [first, second] = [before, after]
                .map(|offset| offset.to_timestamp(local).map(show).unwrap_or_default());
            let shown = local.strftime("%F %T");
            Some(format!(
                "{shown} occurs twice in {name}: the first time, {first}, is used; the second time is {second}"
            ))
        }
    };
    let at = ambiguous.earlier().ok().and_then(UnixMillis::from_timestamp);
    at.map(|at| Instant { at, note })
        .ok_or_else(|| format!("{} is out of range, {RANGE}", local.strftime("%F %T")))
}

/// Returns the first instant after the gap in which the clock of `zone` skips the time `local`.
/// Returns `None` if the clock shows this time.
pub(super) fn end_of_gap(local: DateTime, zone: &Zone) -> Option<jiff::Timestamp> {
    let rules = zone.rules();
    let AmbiguousOffset::Gap { after, .. } = rules.to_ambiguous_timestamp(local).offset() else {
        return None;
    };
    // The later offset converts `local` to an instant before the gap. So the next clock change
    // after that instant is the gap.
    let before = after.to_timestamp(local).ok()?;
    rules.following(before).next().map(|change| change.timestamp())
}
