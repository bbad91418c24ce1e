//! By when a run was to have started and ended, and who was told that it had not.
//!
//! Invariant: what a notice's own run says is told as it is; where none is kept, that is said.

use std::time::Duration;

use super::facts::{Facts, LateNotice, Place, RunFacts, Subject};
use super::on_time::latest_shift;
use super::sentences::findings;
use crate::domain::ids::RunKind;
use crate::domain::job::JobSpec;
use crate::domain::notice::Deadline;
use crate::domain::run::RunState;
use crate::domain::time::UnixMillis;
use crate::domain::wording::{shown, span};
use crate::domain::zone::Zone;

findings! {
    /// What was late, and who was told.
    Told {
        /// It had not started in time.
        "missed_start" MissedStart {
            /// By when it was to.
            by: UnixMillis,
            /// Within which time.
            within: Duration,
        },
        /// It had not ended in time.
        "missed_finish" MissedFinish {
            /// By when it was to.
            by: UnixMillis,
            /// Within which time.
            within: Duration,
        },
        /// Its notice has been told.
        "told_late" Said {
            /// The run that told it.
            notice: String,
            /// When.
            at: UnixMillis,
            /// From where.
            node: Option<String>,
        },
        /// Its notice is not told yet.
        "telling_late" TellingLate {
            /// The run that is to tell it.
            notice: String,
            /// How its last attempt ended.
            end: Option<String>,
        },
        /// Its notice could not be told.
        "untold_late" UntoldLate {
            /// The run that was to tell it.
            notice: String,
            /// Why not.
            why: String,
        },
        /// No notice of it is kept.
        "unknown_late" UnknownLate,
    }
}

impl Told {
    /// In plain words.
    pub fn sentence(&self, zone: &Zone) -> String {
        match self {
            Self::MissedStart { by, within } => {
                format!("It had not started by {}, as must_start_within = {} wants.", shown(*by, zone), span(*within))
            }
            Self::MissedFinish { by, within } => {
                format!("It had not ended by {}, as must_finish_within = {} wants.", shown(*by, zone), span(*within))
            }
            Self::Said { notice, at, node } => {
                let node = node.as_ref().map_or_else(String::new, |node| format!(" from {node}"));
                format!("on_late told of it at {}{node}, by the run {notice}.", shown(*at, zone))
            }
            Self::TellingLate { notice, end } => {
                let end = end.as_ref().map_or_else(String::new, |end| format!("; its last attempt ended with {end}"));
                format!("on_late has not told of it yet, the run {notice} is to{end}.")
            }
            Self::UntoldLate { notice, why } => format!("on_late told nobody of it: the run {notice} ended with {why}."),
            Self::UnknownLate => {
                "No notice of it is kept: it is yet to be made, was one of too many at once, or is forgotten.".to_owned()
            }
        }
    }
}

/// What of the run asked about was late, and who was told.
pub(super) fn told(facts: &Facts) -> Vec<Told> {
    let run = match &facts.subject {
        Subject::Run(run) | Subject::Stretch { run, .. } => run,
        Subject::Job { open, .. } => match open.iter().find(|run| !run.late_notices.is_empty() || run.is_owed(facts.now)) {
            Some(run) => run,
            None => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    let spec = facts.job.as_ref().and_then(|job| job.definition.as_ref().ok()).map(|(spec, _)| spec);
    Deadline::ALL.into_iter().flat_map(|kind| of_deadline(facts, run, spec, kind)).collect()
}

fn of_deadline(facts: &Facts, run: &RunFacts, spec: Option<&JobSpec>, kind: Deadline) -> Vec<Told> {
    let notice = run.late_notices.iter().find(|notice| notice.of == kind);
    let within = spec.and_then(|spec| match kind {
        Deadline::Start => spec.must_start_within,
        Deadline::Finish => spec.must_finish_within,
    });
    // What was skipped was to start no more, unless what it was skipped behind went on too long.
    let within = within.filter(|_| run.state != RunState::Skipped || notice.is_some() && run.behind.is_some());
    let missed = within.and_then(|within| {
        let by = run.run.due().saturating_add(within.saturating_add(latest_shift(facts, run)));
        (notice.is_some() || is_missed(facts, run, kind, by)).then_some((by, within))
    });
    let said = missed.map(|(by, within)| match kind {
        Deadline::Start => Told::MissedStart { by, within },
        Deadline::Finish => Told::MissedFinish { by, within },
    });
    let known = notice.map(of_notice).or_else(|| missed.map(|_| Told::UnknownLate));
    said.into_iter().chain(known).collect()
}

/// Whether a regular run had still to start, or to end, when its time for that came.
fn is_missed(facts: &Facts, run: &RunFacts, kind: Deadline, by: UnixMillis) -> bool {
    if run.run.kind() != RunKind::Regular || run.place == Place::Held {
        return false;
    }
    let open_until = if run.state.is_final() { run.finished_at } else { Some(facts.now) };
    let until = match kind {
        Deadline::Start => run.first_start.or(open_until),
        Deadline::Finish => open_until,
    };
    until.is_some_and(|until| until > by)
}

fn of_notice(notice: &LateNotice) -> Told {
    let run = notice.run.to_string();
    match (notice.state, notice.finished_at) {
        (RunState::Succeeded, Some(at)) => Told::Said { notice: run, at, node: notice.node.clone() },
        (state, _) if state.is_final() => {
            let why = notice.end.clone().unwrap_or_else(|| state.as_str().replace('_', " "));
            Told::UntoldLate { notice: run, why }
        }
        _ => Told::TellingLate { notice: run, end: notice.end.clone() },
    }
}
