//! The time limits of a run's process, and the decision of how the process ends.
//!
//! Invariant: the decision of how the process ends is never changed. KILL is never later than the
//! lease's deadline.

use std::time::Duration;

use super::boot_clock::BootInstant;
use crate::keeper::process::process_table::ProcessWord;
use crate::keeper::protocol::keeper_messages::{LaunchOrder, ProcessEnd};

/// The time limits of one run: its start, its end, and the end of its lease.
#[derive(Debug)]
pub(crate) struct RunBounds {
    deadline: BootInstant,
    margin: Duration,
    /// The time by which the program must have started; after the start, the time by which it must
    /// end.
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
    /// Returns the bounds of a start that begins now.
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

    /// Returns the decision of how the run ends, `None` if the end is not decided yet.
    pub(crate) fn end(&self) -> Option<ProcessEnd> {
        self.end
    }

    /// Decides whether the run must end at `now`. Returns true if this call decided the end, and
    /// the caller must send TERM.
    pub(crate) fn judge(&mut self, now: BootInstant) -> bool {
        if self.end.is_some() {
            return false;
        }
        match self.limit {
            // The program has not begun, so the run has no process that could react to TERM. KILL
            // is due at once.
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

    /// Decides that the run ends with `end`. The grace of the run counts from `now`.
    pub(crate) fn decide(&mut self, end: ProcessEnd, now: BootInstant) {
        self.end = Some(end);
        self.kill_at = Some(now.saturating_add(self.kill_grace));
    }

    /// Returns the instant at which KILL is due, at the latest the lease's deadline.
    pub(crate) fn kill_at(&self) -> BootInstant {
        self.kill_at.map_or(self.deadline, |at| at.min(self.deadline))
    }

    /// Applies the instruction `word`. Returns true if the caller must send TERM because of the
    /// instruction.
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

    /// Returns the next instant at which a decision or KILL is due.
    pub(crate) fn next_event(&self) -> BootInstant {
        let (Limit::StartBy(at) | Limit::EndBy(at)) = self.limit;
        match self.end {
            Some(_) => self.kill_at(),
            None => at.min(self.deadline.saturating_sub(self.margin)),
        }
    }
}
