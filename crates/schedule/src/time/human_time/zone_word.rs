//! The zone that follows a time: `UTC`, a name such as `Europe/Berlin`, an offset such as `+01:00`,
//! or an abbreviation such as `CET`. The outputs of schedctl have such a zone after each time.

use jiff::tz::AmbiguousOffset;
use std::time::Duration;

use super::clock_time::zone_offset;
use super::local_time::Instant;
use super::time_vocabulary::{TimeFault, TimeWord};
use crate::time::unix_millis::UnixMillis;
use crate::time::zone::Zone;

/// A quarter of a year. Summer and winter time last longer, so one of four times at this distance
/// has each abbreviation of a zone.
const QUARTER: Duration = Duration::from_secs(91 * 24 * 3600);

/// The meaning of a word after a time.
pub(super) enum ZoneWord {
    /// The time is in this zone.
    Zone(Zone),
    /// The word is an abbreviation of the zone in which the text is read.
    Abbreviation,
}

impl ZoneWord {
    /// Returns the meaning of `word` after a time near `now` that is read in `zone`. Returns `None`
    /// if the word names no zone.
    pub(super) fn of(word: TimeWord<'_>, zone: &Zone, now: UnixMillis) -> Option<Self> {
        if matches!(word.text, "utc" | "gmt") {
            return Some(Self::Zone(Zone::utc()));
        }
        if word.text.contains('/') {
            return Zone::named(word.text).map(Self::Zone);
        }
        if word.text.starts_with(['+', '-']) {
            return zone_offset(word).ok().map(|offset| Self::Zone(Zone::at_offset(offset)));
        }
        let is_known = |quarters| is_in_use(word, zone, now.saturating_sub(QUARTER * quarters));
        (0..4).any(is_known).then_some(Self::Abbreviation)
    }
}

fn is_in_use(word: TimeWord<'_>, zone: &Zone, at: UnixMillis) -> bool {
    abbreviation(zone, at).eq_ignore_ascii_case(word.text)
}

fn abbreviation(zone: &Zone, at: UnixMillis) -> String {
    zone.rules().to_offset_info(at.to_timestamp()).abbreviation().to_owned()
}

/// Returns the instant at which the clock of `zone` shows the local time of `at` and has the
/// abbreviation `word`. The abbreviation decides between the two instants of a repeated time. Fails
/// if the abbreviation is not in use at that time.
pub(super) fn chosen(
    word: TimeWord<'_>,
    at: UnixMillis,
    zone: &Zone,
) -> Result<Instant, TimeFault> {
    let rules = zone.rules();
    let ambiguous = rules.to_ambiguous_timestamp(rules.to_datetime(at.to_timestamp()));
    let second = match ambiguous.offset() {
        AmbiguousOffset::Fold { .. } => ambiguous.later().ok().and_then(UnixMillis::from_timestamp),
        _ => None,
    };
    let first = ambiguous.earlier().ok().and_then(UnixMillis::from_timestamp).or(Some(at));
    let found = first.into_iter().chain(second).find(|at| is_in_use(word, zone, *at));
    found.map(|at| Instant { at, note: None }).ok_or_else(|| {
        let (zone, wanted) = (zone.name(), abbreviation(zone, at));
        word.fault(format!(
            "{} is not the time that {zone} has on that day, wanted {wanted}",
            word.shown()
        ))
    })
}
