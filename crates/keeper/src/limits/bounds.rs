//! The time limits of a run's process, and how the process ends.
//!
//! Invariant: once it is decided how the process ends, the decision never changes. SIGKILL is never
//! later than the end of the lease.

use std::time::Duration;

use crate::process::process_table::ProcessWord;
use crate::protocol::keeper_messages::{LaunchOrder, ProcessEnd};
use schedd_core::host::boot_clock::BootInstant;

/// The time limits of one run: the limit of its start, then the timeout of its program, and always
/// the end of its lease.
#[derive(Debug)]
pub(crate) struct RunBounds {
    deadline: BootInstant,
    margin: Duration,
    /// The instant by which the program must have started. After the start, the instant by which
    /// the program must have ended.
    limit: Limit,
    kill_grace: Duration,
    end: Option<ProcessEnd>,
    kill_at: Option<BootInstant>,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    StartBy(BootInstant),
    EndBy(BootInstant),
}

impl RunBounds {
    /// Returns the time limits of a run whose start begins now.
    pub(crate) fn of_start(launch: &LaunchOrder) -> Self {
        Self {
            deadline: launch.deadline,
            margin: launch.margin,
            limit: Limit::StartBy(BootInstant::now().saturating_add(launch.start_within)),
            kill_grace: launch.kill_grace,
            end: None,
            kill_at: None,
        }
    }

    /// Notes that the program runs. The timeout of the program counts from now.
    pub(crate) fn note_started(&mut self, timeout: Duration) {
        self.limit = Limit::EndBy(BootInstant::now().saturating_add(timeout));
    }

    /// Returns the reason for which it was decided to end the run. Returns `None` before the
    /// decision.
    pub(crate) fn end(&self) -> Option<ProcessEnd> {
        self.end
    }

    /// Decides to end the run if a time limit is over at `now`. Returns true if this call made the
    /// decision. The caller must then send SIGTERM, unless SIGKILL is due at once.
    pub(crate) fn judge(&mut self, now: BootInstant) -> bool {
        if self.end.is_some() {
            return false;
        }
        match self.limit {
            // The program has not begun, so the run has no process that could react to SIGTERM.
            // SIGKILL is due at once.
            Limit::StartBy(at) if now >= at => {
                self.end = Some(ProcessEnd::CannotStart);
                self.kill_at = Some(now);
            }
            Limit::EndBy(at) if now >= at => self.decide(ProcessEnd::TimedOut, now),
            _ if now >= self.deadline.saturating_sub(self.margin) => {
                self.decide(ProcessEnd::LeaseLost, now);
            }
            _ => {}
        }
        self.end.is_some()
    }

    /// Decides that the run ends for the reason `end`. SIGKILL is due when the grace has passed
    /// since `now`.
    pub(crate) fn decide(&mut self, end: ProcessEnd, now: BootInstant) {
        self.end = Some(end);
        self.kill_at = Some(now.saturating_add(self.kill_grace));
    }

    /// Returns the instant at which SIGKILL is due, at the latest the end of the lease.
    pub(crate) fn kill_at(&self) -> BootInstant {
        self.kill_at.map_or(self.deadline, |at| at.min(self.deadline))
    }

    /// Applies the daemon's instruction `word`. Returns true if the caller must send SIGTERM
    /// because of the instruction.
    pub(crate) fn hear(&mut self, word: ProcessWord) -> bool {
        let now = BootInstant::now();
        match word {
            ProcessWord::Extend(deadline) => self.deadline = self.deadline.max(deadline),
            ProcessWord::Stop if self.end.is_none() => {
                self.decide(ProcessEnd::Stopped, now);
                return true;
            }
            ProcessWord::Stop => {}
            ProcessWord::Abandon => {
                self.end = self.end.or(Some(ProcessEnd::LeaseLost));
                self.kill_at = Some(now);
            }
        }
        false
    }

    /// Returns the next instant at which [`Self::judge`] may decide to end the run. If the end is
    /// decided, returns the instant at which SIGKILL is due.
    pub(crate) fn next_event(&self) -> BootInstant {
        let (Limit::StartBy(at) | Limit::EndBy(at)) = self.limit;
        match self.end {
            Some(_) => self.kill_at(),
            None => at.min(self.deadline.saturating_sub(self.margin)),
        }
    }
}
