//! The steps that can happen next: each step of a node, of Redis, of a keeper or of an operator,
//! and each fault.
//!
//! A step makes at most one call of a script. A call with its answer is one step, because nothing
//! in between could be observed.
//! A call whose answer is lost is a step of its own. So is a call that is done only after its
//! caller gave up.

use super::redis::{ONCE, Verdict};
use super::rules::{Broken, Rules};
use super::state::{At, NODES, State};

/// One step of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// An operator adds the one-shot.
    Add,
    Claim {
        node: usize,
        run: usize,
        answer: Answer,
    },
    /// The node repeats the claim without an answer, with the same token.
    ClaimAgain {
        node: usize,
        answer: Answer,
    },
    GiveUpClaim {
        node: usize,
    },
    /// The broken claim makes the first of its two calls.
    Take {
        node: usize,
        run: usize,
    },
    Lock {
        node: usize,
    },
    Start {
        node: usize,
        run: usize,
    },
    /// The job's process ends, or is stopped with its node; the verdict is to be reported.
    End {
        node: usize,
        run: usize,
        verdict: Verdict,
    },
    Finish {
        node: usize,
        run: usize,
        answer: Answer,
    },
    Renew {
        node: usize,
        run: usize,
        answer: Answer,
    },
    /// A node has watched the lease unchanged for its whole length.
    RunOut {
        run: usize,
    },
    Recover {
        run: usize,
        answer: Answer,
    },
    /// A node takes back a run of its former incarnation, whose keeper has killed all processes.
    TakeBack {
        node: usize,
        run: usize,
    },
    Skip {
        run: usize,
    },
    Cancel {
        run: usize,
    },
    /// An operator retries a dead run.
    /// Without an answer the same call is made again while the first is still on its way.
    Retry {
        run: usize,
        answer: Answer,
    },
    Crash {
        node: usize,
    },
    KeeperKills {
        node: usize,
    },
    Restart {
        node: usize,
    },
    /// A call whose caller gave up is done.
    LateCall {
        at: usize,
    },
    /// The replica gets all data so far; later writes are the tail.
    Replicate,
    /// The replica becomes the primary.
    FailOver,
    /// An operator removes the cron job.
    Remove,
    /// An operator adds the cron job again, with its former definition or another.
    Readd {
        is_same: bool,
    },
}

/// The fate of a call and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Comes,
    /// The call is done; the caller gets no answer.
    IsLost,
    /// The caller gets no answer, and the call is done later, or never.
    CallIsLate,
}

impl Step {
    /// Returns true if the step is a fault, or may never come.
    pub(super) fn is_fault(self, before: &State, after: &State) -> bool {
        before.may.sum() != after.may.sum()
            || matches!(self, Self::LateCall { .. } | Self::FailOver)
    }
}

/// Returns every step that can come next.
pub(super) fn possible(state: &State, rules: &Rules) -> Vec<Step> {
    let mut steps = Vec::with_capacity(24);
    for node in 0..NODES {
        if state.nodes[node].is_down {
            if state.nodes[node].orphans.iter().any(Option::is_some) {
                steps.push(Step::KeeperKills { node });
            }
            steps.push(Step::Restart { node });
        } else {
            steps_of_node(state, rules, node, &mut steps);
        }
    }
    for run in State::runs(rules) {
        steps_of_run(state, rules, run, &mut steps);
    }
    steps.extend(
        (0..state.late.len())
            .filter(|at| state.late[*at].is_some())
            .map(|at| Step::LateCall { at }),
    );
    if rules.has_once && state.seen.planted[ONCE] == 0 {
        steps.push(Step::Add);
    }
    if state.redis.cron.is_removed {
        steps.extend([true, false].map(|is_same| Step::Readd { is_same }));
    } else if state.may.removals > 0 {
        steps.push(Step::Remove);
    }
    match state.replica {
        None if state.may.failovers > 0 => steps.push(Step::Replicate),
        Some(_) => steps.push(Step::FailOver),
        None => {}
    }
    steps
}

/// Returns the possible fates of an answer.
fn answers(state: &State) -> &'static [Answer] {
    let has_room = state.late.iter().any(Option::is_none);
    match state.may.losses {
        0 => &[Answer::Comes],
        _ if has_room => &[Answer::Comes, Answer::IsLost, Answer::CallIsLate],
        _ => &[Answer::Comes, Answer::IsLost],
    }
}

fn steps_of_node(state: &State, rules: &Rules, node: usize, steps: &mut Vec<Step>) {
    let own = &state.nodes[node];
    let answers = answers(state);
    if own.asking.is_some() {
        steps.extend(answers.iter().map(|&answer| Step::ClaimAgain { node, answer }));
        steps.push(Step::GiveUpClaim { node });
    }
    if own.taken.is_some() {
        steps.push(Step::Lock { node });
    }
    if state.may.crashes > 0 {
        steps.push(Step::Crash { node });
    }
    if own.orphans.iter().any(Option::is_some) {
        steps.push(Step::KeeperKills { node });
    }
    for run in State::runs(rules) {
        let found = &state.redis.runs[run];
        // A node that lost a run and could claim it again waits until its earlier attempt is over.
        if found.due && own.tasks[run].is_none() && own.asking.is_none() && own.taken.is_none() {
            if rules.broken == Some(Broken::ZremFirst) {
                steps.push(Step::Take { node, run });
            } else {
                steps.extend(answers.iter().map(|&answer| Step::Claim { node, run, answer }));
            }
        }
        let is_predecessors = found.lease.is_some()
            && found.record.is_some_and(|record| {
                usize::from(record.claim.node) == node && record.claim.incarnation < own.incarnation
            });
        if is_predecessors && own.orphans.iter().all(Option::is_none) {
            steps.push(Step::TakeBack { node, run });
        }
        let Some(task) = own.tasks[run] else { continue };
        match task.at {
            At::Won => {
                steps.push(Step::Start { node, run });
                if state.may.unclear > 0 {
                    steps.push(Step::End { node, run, verdict: Verdict::AskLater });
                }
            }
            At::Running => {
                steps.push(Step::End { node, run, verdict: Verdict::Succeeded });
                if state.may.failures > 0 && !rules.is_at_most_once() {
                    steps.push(Step::End { node, run, verdict: Verdict::Retry });
                }
                // `Failed` differs from other ends only where an operator may retry the run.
                if state.may.failures > 0 && rules.may.retries > 0 {
                    steps.push(Step::End { node, run, verdict: Verdict::Failed });
                }
            }
            At::Ended(_) => {
                steps.extend(answers.iter().map(|&answer| Step::Finish { node, run, answer }));
            }
        }
        if state.may.hand_backs > 0 && !matches!(task.at, At::Ended(_)) {
            let has_started = task.at == At::Running;
            let verdict = if has_started && rules.is_at_most_once() {
                Verdict::Lost
            } else {
                Verdict::Release
            };
            steps.push(Step::End { node, run, verdict });
        }
        // A renewal that would change nothing is left out.
        let is_felt = match found.lease {
            Some(lease) if lease.fence == task.fence => lease.has_run_out || found.stop,
            _ => true,
        };
        if is_felt && !matches!(task.at, At::Ended(_)) && rules.broken != Some(Broken::RenewNever) {
            steps.push(Step::Renew { node, run, answer: Answer::Comes });
        }
        if answers.contains(&Answer::CallIsLate)
            && found.lease.is_some_and(|lease| lease.fence == task.fence)
        {
            steps.push(Step::Renew { node, run, answer: Answer::CallIsLate });
        }
    }
}

fn steps_of_run(state: &State, rules: &Rules, run: usize, steps: &mut Vec<Step>) {
    let found = &state.redis.runs[run];
    if let Some(lease) = found.lease {
        let is_free = state.holder(run).is_none() || rules.broken == Some(Broken::RenewNever);
        if !lease.has_run_out && (is_free || state.may.expiries > 0) {
            steps.push(Step::RunOut { run });
        }
        if lease.has_run_out || rules.broken == Some(Broken::ReaperTrustsClock) {
            let answers = answers(state).iter().filter(|&&answer| answer != Answer::IsLost);
            steps.extend(answers.map(|&answer| Step::Recover { run, answer }));
        }
    }
    if run != ONCE
        && found.due
        && state.redis.pending.is_some_and(|pending| usize::from(pending) == run)
    {
        steps.push(Step::Skip { run });
    }
    if state.may.cancels > 0 && found.is_known() {
        steps.push(Step::Cancel { run });
    }
    if state.may.retries > 0 && found.is_dead() {
        let answers = answers(state).iter().filter(|&&answer| answer != Answer::IsLost);
        steps.extend(answers.map(|&answer| Step::Retry { run, answer }));
    }
}
