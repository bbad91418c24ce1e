//! The effect of each step on the state.

use super::redis::{Call, POISON, RUNS, Reply, Token, Verdict};
use super::rules::{Broken, Rules};
use super::scripts;
use super::state::{Asking, At, State, Task};
use super::steps::{Answer, Step};

/// The call that a step made, and its reply.
pub(super) type Did = Option<(Call, Reply)>;

/// Returns the state after `step`, and the call it made.
pub(super) fn take(before: &State, rules: &Rules, step: Step) -> (State, Did) {
    let mut state = *before;
    let did = state.take(rules, step);
    (state, did)
}

impl State {
    fn call(&mut self, rules: &Rules, call: Call) -> (Call, Reply) {
        (call, scripts::call(&mut self.redis, &mut self.seen, rules, call))
    }

    #[expect(clippy::too_many_lines, reason = "one arm a step")]
    fn take(&mut self, rules: &Rules, step: Step) -> Did {
        match step {
            Step::Add => Some(self.call(rules, Call::Add)),
            Step::Claim { node, run, answer } => {
                let token = Token {
                    node: small(node),
                    incarnation: self.nodes[node].incarnation,
                    number: 0,
                };
                let rev = self.redis.rev_of(run);
                self.claim(
                    rules,
                    node,
                    Asking { run: small(run), token, rev, is_too_late: false },
                    answer,
                )
            }
            Step::ClaimAgain { node, answer } => {
                self.nodes[node].asking.and_then(|asking| self.claim(rules, node, asking, answer))
            }
            Step::GiveUpClaim { node } => {
                self.nodes[node].asking = None;
                None
            }
            Step::Take { node, run } => {
                self.nodes[node].taken = Some(small(run));
                Some(self.call(rules, Call::Zrem { run: small(run) }))
            }
            Step::Lock { node } => {
                let run = self.nodes[node].taken.take()?;
                let token = Token {
                    node: small(node),
                    incarnation: self.nodes[node].incarnation,
                    number: 0,
                };
                let rev = self.redis.rev_of(run.into());
                self.claim(
                    rules,
                    node,
                    Asking { run, token, rev, is_too_late: false },
                    Answer::Comes,
                )
            }
            Step::Start { node, run } => {
                let task = self.nodes[node].tasks[run].as_mut()?;
                task.at = At::Running;
                self.seen.starts[run] += 1;
                None
            }
            Step::End { node, run, verdict } => {
                let task = self.nodes[node].tasks[run].as_mut()?;
                match verdict {
                    Verdict::Retry | Verdict::Failed => self.may.failures -= 1,
                    Verdict::AskLater => self.may.unclear -= 1,
                    Verdict::Release | Verdict::Lost => self.may.hand_backs -= 1,
                    Verdict::Succeeded | Verdict::Cancelled => {}
                }
                task.at = At::Ended(verdict);
                None
            }
            Step::Finish { node, run, answer } => {
                let Task { fence, at: At::Ended(verdict) } = self.nodes[node].tasks[run]? else {
                    return None;
                };
                let call = Call::Finish { run: small(run), fence, verdict };
                if answer == Answer::CallIsLate {
                    return self.put_off(call);
                }
                let did = self.call(rules, call);
                match answer {
                    Answer::Comes => self.nodes[node].tasks[run] = None,
                    _ => self.may.losses -= 1,
                }
                Some(did)
            }
            Step::Renew { node, run, answer } => {
                let task = self.nodes[node].tasks[run]?;
                let call = Call::Renew { run: small(run), fence: task.fence };
                if answer == Answer::CallIsLate {
                    return self.put_off(call);
                }
                let did = self.call(rules, call);
                self.nodes[node].tasks[run] = match did.1 {
                    Reply::Stop => Some(Task { at: At::Ended(Verdict::Cancelled), ..task }),
                    Reply::Lost => None,
                    _ => Some(task),
                };
                Some(did)
            }
            Step::RunOut { run } => {
                let is_free =
                    self.holder(run).is_none() || rules.broken == Some(Broken::RenewNever);
                self.may.expiries -= u8::from(!is_free);
                self.let_run_out(run, rules);
                None
            }
            Step::Recover { run, answer } => {
                let call = self.recovery(run)?;
                if answer == Answer::CallIsLate {
                    return self.put_off(call);
                }
                Some(self.call(rules, call))
            }
            Step::TakeBack { run, .. } => self.recovery(run).map(|call| self.call(rules, call)),
            Step::Skip { run } => Some(self.call(rules, Call::Skip { run: small(run) })),
            Step::Cancel { run } => {
                self.may.cancels -= 1;
                Some(self.call(rules, Call::Cancel { run: small(run) }))
            }
            Step::Retry { run, answer } => {
                self.may.retries -= 1;
                let fence = self.redis.runs[run].record?.fence;
                let call = Call::Retry { run: small(run), fence, rev: self.redis.rev_of(run) };
                if answer == Answer::CallIsLate {
                    self.put_off(call);
                }
                Some(self.call(rules, call))
            }
            Step::Remove => {
                self.may.removals -= 1;
                Some(self.call(rules, Call::Remove))
            }
            Step::Readd { is_same } => Some(self.call(rules, Call::Readd { is_same })),
            Step::Crash { node } => {
                self.may.crashes -= 1;
                self.kill_node(node);
                None
            }
            Step::KeeperKills { node } => {
                self.nodes[node].orphans = [None; RUNS];
                None
            }
            Step::Restart { node } => {
                let node = &mut self.nodes[node];
                (node.is_down, node.incarnation) = (false, node.incarnation + 1);
                None
            }
            Step::LateCall { at } => {
                let call = self.late[at].take()?;
                self.late.sort_unstable();
                Some(self.call(rules, call))
            }
            Step::Replicate => {
                self.replica = Some(self.redis);
                self.may.failovers -= 1;
                None
            }
            Step::FailOver => {
                self.redis = self.replica.take()?;
                self.note_watched();
                None
            }
        }
    }

    fn put_off(&mut self, call: Call) -> Did {
        self.may.losses -= 1;
        self.leave_late(call);
        None
    }

    /// Marks the leases that a node watched to their end before the failover, and whose recovery is
    /// still on its way. A renewal that comes before this call changes its answer.
    fn note_watched(&mut self) {
        for call in self.late.into_iter().flatten() {
            let Call::Recover { run, fence, end, .. } = call else { continue };
            if let Some(lease) = &mut self.redis.runs[usize::from(run)].lease
                && (lease.fence, lease.end) == (fence, end)
            {
                lease.has_run_out = true;
            }
        }
    }

    /// Returns the reaper's call for a run, by its record as it is now.
    fn recovery(&self, run: usize) -> Option<Call> {
        let (lease, record) = (self.redis.runs[run].lease?, self.redis.runs[run].record?);
        let is_poison = record.recoveries >= POISON;
        Some(Call::Recover { run: small(run), fence: lease.fence, end: lease.end, is_poison })
    }

    fn claim(&mut self, rules: &Rules, node: usize, mut asking: Asking, answer: Answer) -> Did {
        if answer != Answer::Comes && asking.token.number == 0 {
            // A claim that is asked more than once gets a token of its own.
            asking.token.number = self.may.losses;
        }
        let call = Call::Claim { run: asking.run, token: asking.token, rev: asking.rev };
        if answer == Answer::CallIsLate {
            self.nodes[node].asking = Some(asking);
            return self.put_off(call);
        }
        let did = self.call(rules, call);
        if answer == Answer::IsLost {
            self.may.losses -= 1;
            self.nodes[node].asking = Some(asking);
            return Some(did);
        }
        self.nodes[node].asking = None;
        if let Reply::Claimed(fence) = did.1
            && !asking.is_too_late
        {
            self.nodes[node].tasks[usize::from(asking.run)] = Some(Task { fence, at: At::Won });
        }
        Some(did)
    }
}

fn small(number: usize) -> u8 {
    u8::try_from(number).unwrap()
}
