//! Whether a run started on time, and why not: the findings that [`super::timing`] has words for.
//!
//! Invariant: only what is recorded counts as a reason; where nothing is, that is said.

use std::time::Duration;

use super::ON_TIME;
use super::facts::{Facts, RunFacts, Subject};
use super::hindered::{no_node, obstacle, waiting_for_nodes};
use super::keeps::{keeping, paused_queue};
use super::life::Window;
use super::loss::hidden;
use super::timing::Timing;
use crate::domain::ids::RunKind;
use crate::domain::job::{CatchUpMode, Overlap};
use crate::domain::time::UnixMillis;

/// Whether what is asked about was on time.
pub(super) fn timing(facts: &Facts) -> Vec<Timing> {
    match &facts.subject {
        // What kept nodes from skipping it sooner is no reason why it did not start.
        _ if hidden(facts).is_some() => vec![Timing::LostWithData],
        Subject::Run(run) => of_run(facts, run),
        Subject::Stretch { run, .. } | Subject::Behind { run, .. } => waiting_for_nodes(facts, run),
        Subject::Job { open, .. } => match open.iter().find(|run| run.is_owed(facts.now)) {
            Some(run) => of_run(facts, run),
            None => paused_queue(facts),
        },
        _ => Vec::new(),
    }
}

fn of_run(facts: &Facts, run: &RunFacts) -> Vec<Timing> {
    // What is made up for, or done anew, is of another day.
    if matches!(run.run.kind(), RunKind::Backfill | RunKind::Rerun) {
        return Vec::new();
    }
    // Its check was asked, and nothing was started.
    if run.first_start.is_some() && run.attempts.is_empty() {
        return Vec::new();
    }
    let due = run.run.due();
    let Some(late) = run.late() else {
        if run.is_owed(facts.now) {
            let ready = run.ready.unwrap_or(due).max(due);
            let late = facts.now.since(ready);
            let noted = waiting_for_nodes(facts, run);
            let first = (late > ON_TIME).then_some(Timing::NotStarted { late });
            let keeping =
                if facts.owed().is_some_and(|owed| owed.run == run.run) { keeping(facts, run, &noted) } else { Vec::new() };
            return first.into_iter().chain(keeping).chain(noted).collect();
        }
        return if run.state.is_final() { waiting_for_nodes(facts, run) } else { Vec::new() };
    };
    if late <= ON_TIME {
        return vec![Timing::OnTime { late }];
    }
    let mut found = vec![Timing::Late { late }];
    let gate = run.gate.as_ref().and_then(|at| Some((at.gate.clone(), at.until?)));
    if let Some((gate, until)) = gate.clone() {
        found.push(Timing::AtGate { gate, run: run.behind.as_ref().map(ToString::to_string), until });
    }
    let put_off = gate.is_none() && run.ready_at.since(due) > ON_TIME;
    if put_off {
        let until = run.ready_at;
        found.push(match &run.behind {
            Some(run) => Timing::Behind { run: Some(run.to_string()), until },
            None if run.is_spread => Timing::Spread { until },
            None if until.since(due) <= latest_shift(facts, run) => Timing::Shifted { until },
            None => Timing::ReadyLater { at: until },
        });
        // What held up the run it waited for held it up too.
        if run.behind.is_some() {
            let window = Window { from: due, to: until };
            found.extend(no_node(facts, run, window));
            found.extend(obstacle(facts, run, window, "redis_away"));
        }
    }
    let waited_ready = run.first_start.is_some_and(|start| {
        let free = gate.map_or(run.ready_at, |(_, until)| until).max(due);
        start.since(free) > ON_TIME
    });
    if waited_ready {
        let causes = waiting_for_nodes(facts, run);
        found.extend(if causes.is_empty() { vec![Timing::Unexplained] } else { causes });
    }
    let down_until = found.iter().find_map(|one| match one {
        Timing::NoNode { since: None, until } => *until,
        _ => None,
    });
    if let Some(mode) = caught_up(facts, run, late, down_until) {
        found.push(Timing::CaughtUp { mode });
    }
    found
}

/// How far jitter and splay may move a run's start.
pub(super) fn latest_shift(facts: &Facts, run: &RunFacts) -> Duration {
    let definition = facts.job.as_ref().and_then(|job| job.definition.as_ref().ok()).filter(|_| !run.run.is_manual());
    definition.map_or(Duration::ZERO, |(spec, _)| spec.shape.latest_shift(&facts.name))
}

/// The mode by which a missed run ran; none if it was not missed, or is of a kind that always runs. `down_until` is until when no
/// node was there since it was due.
fn caught_up(facts: &Facts, run: &RunFacts, late: Duration, down_until: Option<UnixMillis>) -> Option<&'static str> {
    let (spec, timetable) = facts.job.as_ref()?.definition.as_ref().ok()?;
    if run.run.is_manual() || timetable.is_one_shot() {
        return None;
    }
    let is_long = |late: Duration| late.saturating_sub(latest_shift(facts, run)) > spec.late_after;
    // Missed runs of `all` wait for one another; another run that may wait for an open one was late by that.
    let is_one_of_all = run.gate.is_none() && spec.catch_up.mode == CatchUpMode::All && spec.overlap == Overlap::Skip;
    let was_missed = || down_until.is_some_and(|until| is_long(until.since(run.run.due())));
    let is_missed = is_long(late) && (run.behind.is_none() || is_one_of_all || was_missed());
    is_missed.then_some(mode_word(spec.catch_up.mode))
}

pub(super) fn mode_word(mode: CatchUpMode) -> &'static str {
    match mode {
        CatchUpMode::Skip => "skip",
        CatchUpMode::Latest => "latest",
        CatchUpMode::All => "all",
    }
}
