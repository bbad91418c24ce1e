//! The zone in which local times of a table are read, and the reader of an instant.

use crate::config::syntax::instant_text::instant;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::Spot;
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::zone::{Zone, ZoneName};

/// The zone in which local times of a table are read.
#[derive(Default)]
pub(crate) struct ClockChoice {
    zone: Option<Zone>,
}

impl ClockChoice {
    /// Chooses the zone `named`, the value of the key `tz`, or the zone `host` if `named` is
    /// `None`. If both are `None`, each local time is a fault.
    pub(crate) fn new(named: Option<&ZoneName>, host: Option<&Zone>) -> Self {
        let own = named.and_then(|name| Zone::load(name).ok());
        Self { zone: own.or_else(|| host.cloned()) }
    }

    /// Returns the zone of local times. Returns `None` if the zone is not known.
    pub(crate) fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref()
    }

    /// Returns the instant of the text or unquoted date at `spot`. Returns `None` if a fault was
    /// noted.
    pub(crate) fn instant(&self, spot: &Spot<'_>, problems: &mut Problems) -> Option<UnixMillis> {
        let Some(text) = spot.as_text_or_date() else {
            return spot.wanted(problems, "a date and time such as \"2026-12-24T09:00:00+01:00\"");
        };
        instant(text, self.zone()).map_err(|message| spot.fault(problems, message)).ok()
    }
}
