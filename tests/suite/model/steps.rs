//! What can happen next: every step of a node, of Redis, of a keeper or of a person, and every fault, one at a time.
//!
//! A step makes at most one call of a script. A call whose answer comes is one step, because nothing its caller does in between
//! could be seen; one whose answer is lost, or that is done only after its caller gave up, is a step of its own.

use super::redis::{ONCE, Verdict};
use super::rules::{Broken, Rules};
use super::state::{At, NODES, State};

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A person adds the one-shot.
    Add,
    Claim {
        node: usize,
        run: usize,
        answer: Answer,
    },
    /// The claim without an answer is asked for again, with its token.
    ClaimAgain {
        node: usize,
        answer: Answer,
    },
    GiveUpClaim {
        node: usize,
    },
    /// Broken claim only: its two calls.
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
    /// The job's process ends, or is stopped with its node: what is to be told.
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
    /// The lease has been watched unchanged for its whole length.
    RunOut {
        run: usize,
    },
    Recover {
        run: usize,
        answer: Answer,
    },
    /// A node takes back what its predecessor held, whose keeper has killed everything.
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
    /// A person retries a dead run. Without an answer it is asked for again, as it was read, while the first call is still on
    /// its way.
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
    /// The replica gets all there is; what comes later is the tail.
    Replicate,
    /// The replica becomes the primary.
    FailOver,
    /// A person removes the cron job.
    Remove,
    /// A person adds it again, with the definition it had or another.
    Readd {
        is_same: bool,
    },
}

/// What becomes of a call and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Comes,
    /// The call is done; the caller never hears.
    IsLost,
    /// The caller never hears, and the call is done later, or never.
    CallIsLate,
}

impl Step {
    /// Whether it is one nobody wants, or that need not ever come.
    pub(super) fn is_fault(self, before: &State, after: &State) -> bool {
        before.may.sum() != after.may.sum() || matches!(self, Self::LateCall { .. } | Self::FailOver)
    }
}

/// Every step that can come next.
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
    steps.extend((0..state.late.len()).filter(|at| state.late[*at].is_some()).map(|at| Step::LateCall { at }));
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

/// The ways an answer can go.
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
        // What a node lost and wins again waits until its earlier attempt is over.
        if found.due && own.tasks[run].is_none() && own.asking.is_none() && own.taken.is_none() {
            if rules.broken == Some(Broken::ZremFirst) {
                steps.push(Step::Take { node, run });
            } else {
                steps.extend(answers.iter().map(|&answer| Step::Claim { node, run, answer }));
            }
        }
        let is_predecessors = found.lease.is_some()
            && found
                .record
                .is_some_and(|record| usize::from(record.claim.node) == node && record.claim.incarnation < own.incarnation);
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
                // It is an end like any other, but where a person may retry it.
                if state.may.failures > 0 && rules.may.retries > 0 {
                    steps.push(Step::End { node, run, verdict: Verdict::Failed });
                }
            }
            At::Ended(_) => steps.extend(answers.iter().map(|&answer| Step::Finish { node, run, answer })),
        }
        if state.may.hand_backs > 0 && !matches!(task.at, At::Ended(_)) {
            let has_started = task.at == At::Running;
            let verdict = if has_started && rules.is_at_most_once() { Verdict::Lost } else { Verdict::Release };
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
        if answers.contains(&Answer::CallIsLate) && found.lease.is_some_and(|lease| lease.fence == task.fence) {
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
    if run != ONCE && found.due && state.redis.pending.is_some_and(|pending| usize::from(pending) == run) {
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
