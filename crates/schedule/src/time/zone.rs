//! Time zones by name, from the zone data of the system.
//!
//! Invariant: a [`ZoneName`] has the spelling of the zone data, and the system knew its zone when
//! the name was parsed. Names that mean another zone on another host (`localtime`, `posixrules`)
//! are refused.

use std::fmt;
use std::sync::Arc;

use jiff::tz::{Offset, TimeZone};

use super::unix_millis::UnixMillis;

/// The maximum length of a name, in bytes. Every real name is shorter.
const LONGEST_NAME: usize = 100;

/// The name of an IANA time zone, such as `Europe/Berlin`, cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneName(Arc<str>);

/// A zone and its rules, cheap to clone.
#[derive(Debug, Clone)]
pub struct Zone {
    name: ZoneName,
    rules: TimeZone,
}

/// The error for a text that names no zone known to the system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("time zone {found:?} is unknown, {wanted}")]
pub struct ZoneError {
    /// The refused text, cut if it is long.
    pub found: String,
    /// The description of a valid name, with the nearest names.
    pub wanted: String,
    /// The names of zones nearest to the text, the best first. Empty if no name is near.
    pub nearest: Vec<String>,
}

impl ZoneName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for ZoneName {
    type Err = ZoneError;

    fn from_str(text: &str) -> Result<Self, ZoneError> {
        find(text).map(|zone| zone.name).ok_or_else(|| ZoneError::unknown(text))
    }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Zone {
    /// Loads the zone with this name. Fails only if the zone data changed after the name was
    /// parsed.
    pub fn load(name: &ZoneName) -> Result<Self, ZoneError> {
        find(name.as_str()).ok_or_else(|| ZoneError::unknown(name.as_str()))
    }

    /// Returns the zone with this name, or `None` if the system does not know the zone.
    pub fn named(name: &str) -> Option<Self> {
        find(name)
    }

    /// Returns coordinated universal time (UTC) as a zone.
    pub fn utc() -> Self {
        Self { name: ZoneName(Arc::from("UTC")), rules: TimeZone::UTC }
    }

    /// Returns the zone of this host: `TZ`, else `/etc/localtime`. The result is UTC if that zone
    /// has no IANA name (`TZ=EST5EDT,M3.2.0,M11.1.0`).
    pub fn of_host() -> Self {
        TimeZone::try_system()
            .ok()
            .and_then(|rules| find(rules.iana_name()?))
            .unwrap_or_else(Self::utc)
    }

    /// Returns a zone that always has this offset from UTC. Its name is the offset.
    pub(crate) fn at_offset(offset: Offset) -> Self {
        Self { name: ZoneName(Arc::from(offset.to_string())), rules: TimeZone::fixed(offset) }
    }

    /// Returns the time that the wall clock shows at `at`, stored as if that time were in UTC.
    /// Returns `None` if that time is out of range.
    pub fn wall(&self, at: UnixMillis) -> Option<UnixMillis> {
        let offset = i64::from(self.rules.to_offset(at.to_timestamp()).seconds());
        UnixMillis::new(at.as_i64() + offset * 1000)
    }

    /// Returns the name of the zone.
    pub fn name(&self) -> &ZoneName {
        &self.name
    }

    /// Returns the rules of the zone.
    pub fn rules(&self) -> &TimeZone {
        &self.rules
    }
}

/// Returns the names in the zone data of the system. Some of them are refused as zones, such as
/// `posixrules`.
pub fn names() -> Vec<String> {
    jiff::tz::db().available().map(|name| name.as_str().to_owned()).collect()
}

fn find(name: &str) -> Option<Zone> {
    if ["localtime", "posixrules", "Factory"].iter().any(|odd| odd.eq_ignore_ascii_case(name)) {
        return None;
    }
    if name.len() > LONGEST_NAME {
        return None;
    }
    let rules = TimeZone::get(name).ok().filter(|rules| !rules.is_unknown())?;
    let name = ZoneName(Arc::from(rules.iana_name()?));
    Some(Zone { name, rules })
}

impl ZoneError {
    fn unknown(text: &str) -> Self {
        let found = match text.char_indices().nth(60) {
            Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
            None => text.to_owned(),
        };
        let names = names();
        if names.is_empty() {
            let wanted = "this host has no time zone data (install the package tzdata)".to_owned();
            return Self { found, wanted, nearest: Vec::new() };
        }
        let nearest = nearest(&found, names);
        let wanted = if nearest.is_empty() {
            "wanted an IANA name such as \"Europe/Berlin\" or \"UTC\"".to_owned()
        } else {
            let is_or_are = if nearest.len() == 1 { "is" } else { "are" };
            format!("wanted an IANA name (the nearest {is_or_are} {})", nearest.join(", "))
        };
        Self { found, wanted, nearest }
    }
}

/// The minimum similarity, from 0 to 1, of a zone's name that an error suggests.
const ALIKE: f64 = 0.6;

/// Returns the similarity of `text` and `name`, from 0 to 1. The result is 0 if a cheap comparison
/// of lengths and letters shows that it is below [`ALIKE`].
fn alike(text: &str, name: &str) -> f64 {
    let (own, other) = (text.chars().count(), name.chars().count());
    let share = |part: usize| {
        f64::from(u32::try_from(part).unwrap_or(0))
            / f64::from(u32::try_from(own.max(other).max(1)).unwrap_or(1))
    };
    if share(own.min(other)) < ALIKE {
        return 0.0;
    }
    let mut letters = [0_i16; 256];
    text.bytes().for_each(|byte| letters[usize::from(byte)] += 1);
    let common = name.bytes().filter(|byte| {
        let left = &mut letters[usize::from(*byte)];
        *left -= 1;
        *left >= 0
    });
    if share(common.count()) < ALIKE { 0.0 } else { 1.0 - share(strsim::osa_distance(text, name)) }
}

/// Returns up to three of `names` that are similar to `text`, the best first. Either the whole name
/// is similar or its city alone.
fn nearest(text: &str, names: Vec<String>) -> Vec<String> {
    let text = text.to_lowercase().replace([' ', '-'], "_");
    let mut scored: Vec<(f64, String)> = names
        .into_iter()
        .map(|name| {
            let lower = name.to_lowercase();
            let city = lower.rsplit('/').next().unwrap_or(&lower);
            (alike(&text, &lower).max(alike(&text, city)), name)
        })
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    scored.sort_by(|(a, left), (b, right)| b.total_cmp(a).then_with(|| left.cmp(right)));
    // The list also has names that are refused as zones, such as `localtime`.
    scored.into_iter().map(|(_, name)| name).filter(|name| find(name).is_some()).take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> ZoneError {
        text.parse::<ZoneName>().unwrap_err()
    }

    #[test]
    fn a_name_is_kept_in_the_spelling_of_the_zone_data() {
        assert_eq!("europe/berlin".parse::<ZoneName>().unwrap().as_str(), "Europe/Berlin");
        assert_eq!("utc".parse::<ZoneName>().unwrap().as_str(), "UTC");
        let name: ZoneName = "AMERICA/NEW_YORK".parse().unwrap();
        assert_eq!(Zone::load(&name).unwrap().name().to_string(), "America/New_York");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest_ones() {
        assert!(refusal("Europe/Munich").nearest.contains(&"Europe/Zurich".to_owned()));
        assert_eq!(refusal("EST5EDT6").nearest.first().map(String::as_str), Some("EST5EDT"));
        assert_eq!(refusal("Berlin").nearest.first().map(String::as_str), Some("Europe/Berlin"));
        assert_eq!(
            refusal("new york").nearest.first().map(String::as_str),
            Some("America/New_York")
        );
        assert!(refusal("Berlin").to_string().ends_with("(the nearest is Europe/Berlin)"));
        let empty = refusal("").to_string();
        assert_eq!(
            empty,
            "time zone \"\" is unknown, wanted an IANA name such as \"Europe/Berlin\" or \"UTC\""
        );
    }

    #[test]
    fn a_name_that_means_another_zone_on_another_host_is_refused() {
        for text in [
            "localtime",
            "LOCALTIME",
            "posixrules",
            "Factory",
            "Etc/Unknown",
            "../../etc/passwd",
            "\u{0}",
            " UTC",
        ] {
            let refusal = text.parse::<ZoneName>().unwrap_err();
            assert!(
                !refusal.nearest.iter().any(|near| near.eq_ignore_ascii_case(text)),
                "{refusal}"
            );
        }
    }

    #[test]
    fn the_zone_of_the_host_has_a_name_that_loads() {
        let host = Zone::of_host();
        assert_eq!(Zone::load(host.name()).unwrap().name(), host.name());
        assert_eq!(Zone::load(Zone::utc().name()).unwrap().name().as_str(), "UTC");
    }
}
