//! The zone of the local times in a job's definition, such as `at = "2026-12-24T09:00"`, and the
//! parser of these times.

use crate::config::syntax::instant_text::instant;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::Spot;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::{Zone, ZoneName};

/// The zone in which the local times of a job's definition are read.
#[derive(Default)]
pub(crate) struct ClockChoice {
    zone: Option<Zone>,
}

impl ClockChoice {
    /// Chooses the zone `named`, the value of the key `tz`. If `named` is `None` or cannot be
    /// loaded, chooses the zone `host`. Without a zone, each local time is a fault.
    pub(crate) fn new(named: Option<&ZoneName>, host: Option<&Zone>) -> Self {
        let own = named.and_then(|name| Zone::load(name).ok());
        Self { zone: own.or_else(|| host.cloned()) }
    }

    /// Returns the zone of local times. Returns `None` if the zone is not known.
    pub(crate) fn zone(&self) -> Option<&Zone> {
        self.zone.as_ref()
    }

    /// Returns the instant that the text or the unquoted TOML date at `spot` names. If the value
    /// names no instant, notes a fault and returns `None`.
    pub(crate) fn instant(&self, spot: &Spot<'_>, problems: &mut Problems) -> Option<UnixMillis> {
        let Some(text) = spot.as_text_or_date() else {
            return spot.wanted(problems, "a date and time such as \"2026-12-24T09:00:00+01:00\"");
        };
        instant(text, self.zone()).map_err(|message| spot.fault(problems, message)).ok()
    }
}
