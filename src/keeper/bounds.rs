//! The bounds a run's process lives in, and what was decided about its end.
//!
//! Invariant: once decided an end stays; the lease's deadline has the last word on when KILL is due.

use std::time::Duration;

use super::clock::BootInstant;
use super::house::Word;
use super::wire::{End, Launch};

/// The bounds of one run.
#[derive(Debug)]
pub(super) struct Bounds {
    deadline: BootInstant,
    margin: Duration,
    /// When it must have started, or else the time it has from then on.
    limit: Limit,
    kill_grace: Duration,
    end: Option<End>,
    kill_at: Option<BootInstant>,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    StartBy(BootInstant),
    EndBy(BootInstant),
}

impl Bounds {
    /// Those of a start that begins now.
    pub(super) fn of_start(launch: &Launch) -> Self {
        Self {
            deadline: launch.deadline,
            margin: launch.margin,
            limit: Limit::StartBy(BootInstant::now().saturating_add(launch.start_within)),
            kill_grace: launch.kill_grace,
            end: None,
            kill_at: None,
        }
    }

    /// Notes that the program runs: its time counts from now on.
    pub(super) fn note_started(&mut self, timeout: Duration) {
        self.limit = Limit::EndBy(BootInstant::now().saturating_add(timeout));
    }

    /// How it ends, if that was decided.
    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    /// Decides whether it has to end. Whether that was decided now: then TERM is due.
    pub(super) fn judge(&mut self, now: BootInstant) -> bool {
        if self.end.is_some() {
            return false;
        }
        match self.limit {
            // There is nobody yet who could end well.
            Limit::StartBy(at) if now >= at => {
                self.end = Some(End::CannotStart);
                self.kill_at = Some(now);
            }
            Limit::EndBy(at) if now >= at => self.decide(End::TimedOut, now),
            _ if now >= self.deadline.saturating_sub(self.margin) => self.decide(End::LeaseLost, now),
            _ => {}
        }
        self.end.is_some()
    }

    /// Decides that it ends so, with its grace from `now` on.
    pub(super) fn decide(&mut self, end: End, now: BootInstant) {
        self.end = Some(end);
        self.kill_at = Some(now.saturating_add(self.kill_grace));
    }

    /// When KILL is due; the lease's deadline has the last word.
    pub(super) fn kill_at(&self) -> BootInstant {
        self.kill_at.map_or(self.deadline, |at| at.min(self.deadline))
    }

    /// Whether TERM is due because of this word.
    pub(super) fn hear(&mut self, word: Word) -> bool {
        let now = BootInstant::now();
        match word {
            Word::Extend(deadline) => self.deadline = self.deadline.max(deadline),
            Word::Stop if self.end.is_none() => {
                self.decide(End::Stopped, now);
                return true;
            }
            Word::Stop => {}
            Word::Abandon => {
                self.end = self.end.or(Some(End::LeaseLost));
                self.kill_at = Some(now);
            }
        }
        false
    }

    /// When something is due next.
    pub(super) fn next_event(&self) -> BootInstant {
        let (Limit::StartBy(at) | Limit::EndBy(at)) = self.limit;
        match self.end {
            Some(_) => self.kill_at(),
            None => at.min(self.deadline.saturating_sub(self.margin)),
        }
    }
}
