//! Times on pages: the wall clock in the zone of the reader's choice, with the distance from now.

use std::fmt;
use std::time::Duration;

use jiff::fmt::temporal::Pieces;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::view_choices::{ViewChoices, ZoneChoice};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::span;
use schedd_schedule::time::zone::Zone;

/// A time of a document, with the offset that the document gives: that of the job's zone, or UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DocumentTime {
    pub(crate) at: UnixMillis,
    offset: Offset,
}

impl DocumentTime {
    /// Returns a time that has no zone of its own.
    pub(crate) fn of(at: UnixMillis) -> Self {
        Self { at, offset: Offset::UTC }
    }
}

impl<'de> Deserialize<'de> for DocumentTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at = text.parse().ok().and_then(UnixMillis::from_timestamp);
        let offset = Pieces::parse(&text).ok().and_then(|pieces| pieces.to_numeric_offset());
        let wrong = || D::Error::custom(format!("found {text:?}, wanted a time of RFC 3339"));
        Ok(Self { at: at.ok_or_else(wrong)?, offset: offset.unwrap_or(Offset::UTC) })
    }
}

/// The clock of a page: the time of Redis, and the zone in which times are shown.
#[derive(Debug, Clone)]
pub(crate) struct PageClock {
    now: UnixMillis,
    /// `None` for the zone of each job.
    zone: Option<Zone>,
}

impl PageClock {
    /// Returns the clock for a reader with these choices.
    pub(crate) fn new(now: UnixMillis, choices: &ViewChoices) -> Self {
        let zone = match choices.zone {
            ZoneChoice::Own => choices.own_zone.as_deref().and_then(Zone::named),
            ZoneChoice::Utc => None,
            ZoneChoice::Job => return Self { now, zone: None },
        };
        Self { now, zone: Some(zone.unwrap_or_else(Zone::utc)) }
    }

    pub(crate) fn now(&self) -> NowTag {
        NowTag { at: self.now, zone: self.zone.clone().unwrap_or_else(Zone::utc) }
    }

    /// Returns the time of the page.
    pub(crate) fn instant(&self) -> UnixMillis {
        self.now
    }

    /// Returns the name of the zone in which a typed time without a zone is read.
    pub(crate) fn typed_zone(&self) -> String {
        self.zone().name().as_str().to_owned()
    }

    /// Returns the zone of times that belong to no job.
    pub(crate) fn zone(&self) -> Zone {
        self.zone.clone().unwrap_or_else(Zone::utc)
    }

    /// Returns the time on the wall clock in this format of `strftime`, for an axis.
    pub(crate) fn formatted(&self, at: UnixMillis, format: &str) -> String {
        at.to_timestamp().to_zoned(self.zone().rules().clone()).strftime(format).to_string()
    }

    /// Returns the name of the zone in which times are shown. `None` for the zone of each job.
    pub(crate) fn zone_name(&self) -> Option<String> {
        self.zone.as_ref().map(|zone| zone.name().as_str().to_owned())
    }

    /// Returns the time and its distance from now: `Thu 26 Nov 10:00:00, in 5m 10s`.
    pub(crate) fn show(&self, time: &DocumentTime) -> TimeTag<'_> {
        TimeTag { clock: self, time: *time, has_distance: true }
    }

    /// Returns the time alone, for a row that has the distance in another cell.
    pub(crate) fn alone(&self, time: &DocumentTime) -> TimeTag<'_> {
        TimeTag { clock: self, time: *time, has_distance: false }
    }

    /// Returns the distance of a time from now.
    pub(crate) fn distance(&self, time: &DocumentTime) -> DistanceTag {
        DistanceTag { at: time.at, now: self.now, is_left: false }
    }

    /// Returns the time that is left until a start; it is late if the time has passed.
    pub(crate) fn left(&self, time: &DocumentTime) -> DistanceTag {
        DistanceTag { at: time.at, now: self.now, is_left: true }
    }

    /// Returns the time on the wall clock.
    fn wall(&self, time: &DocumentTime) -> String {
        let (at, rules) = match &self.zone {
            Some(zone) => (time.at, zone.rules().clone()),
            None => (time.at, TimeZone::fixed(time.offset)),
        };
        let local = at.to_timestamp().to_zoned(rules.clone());
        let is_of_this_year =
            self.now.to_timestamp().to_zoned(rules.clone()).year() == local.year();
        let is_twice = matches!(
            rules.to_ambiguous_timestamp(local.datetime()).offset(),
            AmbiguousOffset::Fold { .. }
        );
        let date = if is_of_this_year { "%a %d %b" } else { "%a %d %b %Y" };
        let zone = match &self.zone {
            // A clock that shows a time twice needs the abbreviation.
            Some(_) if is_twice => " %Z",
            Some(_) => "",
            None if time.offset == Offset::UTC => " UTC",
            None => " %:z",
        };
        local.strftime(&format!("{date} %T{zone}")).to_string()
    }
}

/// A time as an element of a page.
pub(crate) struct TimeTag<'c> {
    clock: &'c PageClock,
    time: DocumentTime,
    has_distance: bool,
}

impl fmt::Display for TimeTag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<time datetime=\"{}\">{}</time>", self.time.at, self.clock.wall(&self.time))?;
        if self.has_distance { write!(f, " {}", self.clock.distance(&self.time)) } else { Ok(()) }
    }
}

/// The distance of a time from now. `live.js` counts it on, and a snapshot stays the same while only
/// distances change.
pub(crate) struct DistanceTag {
    at: UnixMillis,
    now: UnixMillis,
    is_left: bool,
}

impl fmt::Display for DistanceTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, now) = (self.at, self.now);
        // Parts of a second are gone before the page is read.
        let words = |length: Duration| span(length.max(Duration::from_secs(1)));
        let kind = if self.is_left { " data-left" } else { "" };
        write!(f, "<span class=\"rel\" data-at=\"{}\"{kind}>", at.as_i64())?;
        match (at >= now, self.is_left) {
            (true, true) => write!(f, "{}", words(at.since(now)))?,
            (true, false) => write!(f, "in {}", words(at.since(now)))?,
            (false, true) => write!(f, "{} late", words(now.since(at)))?,
            (false, false) => write!(f, "{} ago", words(now.since(at)))?,
        }
        f.write_str("</span>")
    }
}

/// The time at which the page was made.
#[derive(Debug, Clone)]
pub(crate) struct NowTag {
    at: UnixMillis,
    zone: Zone,
}

impl fmt::Display for NowTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.at.to_timestamp().to_zoned(self.zone.rules().clone());
        let text = local.strftime("%T %Z");
        write!(f, "<span class=\"rel\" id=\"now\" data-now=\"{}\">{text}</span>", self.at.as_i64())
    }
}

// Their texts come from times alone.
impl askama::filters::HtmlSafe for TimeTag<'_> {}
impl askama::filters::HtmlSafe for DistanceTag {}
impl askama::filters::HtmlSafe for NowTag {}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> DocumentTime {
        serde_json::from_value(text.into()).unwrap()
    }

    fn clock(zone: ZoneChoice, own: Option<&str>) -> PageClock {
        let choices =
            ViewChoices { zone, own_zone: own.map(str::to_owned), ..ViewChoices::default() };
        PageClock::new(time("2026-10-25T00:00:00.000Z").at, &choices)
    }

    #[test]
    fn a_time_is_shown_by_the_clock_of_choice() {
        let due = time("2026-12-24T09:00:00.007+01:00");
        let wall = |zone, own| clock(zone, own).wall(&due);
        assert_eq!(wall(ZoneChoice::Own, None), "Thu 24 Dec 08:00:00");
        assert_eq!(wall(ZoneChoice::Own, Some("Asia/Tokyo")), "Thu 24 Dec 17:00:00");
        assert_eq!(wall(ZoneChoice::Utc, Some("Asia/Tokyo")), "Thu 24 Dec 08:00:00");
        assert_eq!(wall(ZoneChoice::Job, Some("Asia/Tokyo")), "Thu 24 Dec 09:00:00 +01:00");
        let berlin = clock(ZoneChoice::Own, Some("Europe/Berlin"));
        assert_eq!(berlin.wall(&time("2026-10-25T01:30:00.000Z")), "Sun 25 Oct 02:30:00 CET");
        assert_eq!(berlin.wall(&time("2027-10-25T01:30:00.000Z")), "Mon 25 Oct 2027 03:30:00");
    }

    #[test]
    fn a_time_comes_with_its_distance_from_now() {
        let clock = clock(ZoneChoice::Utc, None);
        let due = time("2026-10-25T00:05:10.000Z");
        assert_eq!(
            clock.show(&due).to_string(),
            "<time datetime=\"2026-10-25T00:05:10.000Z\">Sun 25 Oct 00:05:10</time> \
             <span class=\"rel\" data-at=\"1792886710000\">in 5m 10s</span>"
        );
        let late = time("2026-10-24T23:59:00.000Z");
        assert!(clock.left(&late).to_string().contains(" data-left>1m late<"));
        assert!(clock.distance(&late).to_string().contains(">1m ago<"));
        assert!(serde_json::from_value::<DocumentTime>("soon".into()).is_err());
    }
}
