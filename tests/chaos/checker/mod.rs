//! The checker: from the evidence to the broken promises. It does no I/O.
//!
//! It trusts the reports of jobs and the fault log, and compares the records of schedd with them.
//! Each verdict is one function in a file here.
//! For each verdict, `self_test` has a history that must raise it and one that must not.

mod accounts;
mod catch_up;
mod chain;
mod crowd;
mod drift;
mod each_node;
pub(crate) mod proof;
mod remains;
mod repeats;
mod shared;
mod small;
mod timing;
mod unique;
mod view;
mod wrong;

use std::collections::BTreeSet;
use std::fmt;

use crate::evidence::{Attempt, Delay, Doing, Evidence, Micros, Recorded, RunName, span};
use view::View;

/// The kind of a broken promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Missing,
    Early,
    Late,
    Dup,
    Overlap,
    Above,
    Turn,
    Gap,
    Burst,
    Rank,
    Starved,
    Stale,
    Wrong,
    Phantom,
    Silent,
    Drift,
    Leak,
    Crash,
}

impl Verdict {
    /// All verdicts, in the order of the report.
    pub(crate) const ALL: [Self; 18] = [
        Self::Missing,
        Self::Early,
        Self::Late,
        Self::Dup,
        Self::Overlap,
        Self::Above,
        Self::Turn,
        Self::Gap,
        Self::Burst,
        Self::Rank,
        Self::Starved,
        Self::Stale,
        Self::Wrong,
        Self::Phantom,
        Self::Silent,
        Self::Drift,
        Self::Leak,
        Self::Crash,
    ];

    /// Returns the promise that the verdict says is broken.
    pub(crate) fn promise(self) -> &'static str {
        match self {
            Self::Missing => {
                "each due run is done, or ends in a state its rules allow under the faults of its time"
            }
            Self::Early => "never early by Redis' clock",
            Self::Late => "a start is late by 1 s at most, after a fault by what its row says",
            Self::Dup => {
                "a second attempt only after a failed one with retries left or a lost node; at-most-once: none ever"
            }
            Self::Overlap => {
                "attempts of one run never overlap, nor do runs of a job that forbids it"
            }
            Self::Above => {
                "never more at once than a limit, a key, a group and not_while allow, nor on a node than it has room for, nor two \
                 jobs of a unique key, nor on a node without a label it requires, nor on another node than its own"
            }
            Self::Turn => "members take turns: one that waits for its turn is not passed over",
            Self::Gap => "no member begins sooner than the gap after the last ended",
            Self::Burst => "in no stretch of time more than a rate allows, and one burst",
            Self::Rank => {
                "a node takes strict queues first, others by their weights, and of a queue the greatest priority first"
            }
            Self::Starved => {
                "nothing waits for ever, nor for what is due later at a gate passed in due order, nor for its priority beyond ten starts"
            }
            Self::Stale => "fences rise with attempts, and nothing is accepted under an old one",
            Self::Wrong => {
                "an attempt executes the definition its job has at the claim; a run owed when its job is removed never begins, and \
                 one that has begun goes on only with the same definition; a job is at one place: on a shard if it is due once in a \
                 spread queue, else in the namespace itself"
            }
            Self::Phantom => "what is recorded as done was done",
            Self::Silent => "what was done is recorded",
            Self::Drift => "a job is due when plain arithmetic says so, no more and no less often",
            Self::Leak => {
                "nothing is left over: no process, no lease, no key of what is over, no growing memory"
            }
            Self::Crash => "a node ends only when somebody ends it",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_uppercase())
    }
}

/// One promise that was broken once.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    pub(crate) what: String,
    /// The attempts it is about.
    pub(crate) attempts: Vec<String>,
    /// The jobs of these attempts; their history near that time is shown.
    jobs: BTreeSet<String>,
    /// The time it is about; faults near it are shown.
    pub(crate) at: Micros,
}

impl Finding {
    fn new(verdict: Verdict, at: Micros, what: String, attempts: &[&Attempt]) -> Self {
        let jobs = attempts.iter().map(|attempt| attempt.run.job.clone()).collect();
        Self {
            verdict,
            what,
            attempts: attempts.iter().map(ToString::to_string).collect(),
            jobs,
            at,
        }
    }

    /// Returns the finding in full, with the faults near it. Times count from `begun`.
    pub(crate) fn shown(&self, evidence: &Evidence, begun: Micros) -> String {
        use fmt::Write as _;
        let mut text = format!(
            "{} at {:.3} s: {}\n  promise: {}\n",
            self.verdict,
            span(self.at - begun),
            self.what,
            self.verdict.promise()
        );
        for attempt in &self.attempts {
            writeln!(text, "  {attempt}").unwrap();
        }
        let near = evidence.timing.recovery() * 2;
        let is_near = |recorded: &&Recorded| {
            self.jobs.contains(&recorded.run.job) && (recorded.run.due - self.at).abs() <= near
        };
        for Recorded { run, state, attempt, finished, reason, .. } in
            evidence.history.iter().filter(is_near)
        {
            let end =
                finished.map_or(String::new(), |at| format!(" at {:+.3} s", span(at - run.due)));
            writeln!(
                text,
                "  history {}: {state}{end} after {attempt} attempts, {reason:?}",
                run.id
            )
            .unwrap();
        }
        for fault in evidence
            .faults
            .iter()
            .filter(|fault| fault.from - near <= self.at && self.at <= fault.to + near)
        {
            let (from, to) = (span(fault.from - begun), span(fault.to - begun));
            writeln!(text, "  fault {from:.3} to {to:.3} s: {} {}", fault.row, fault.what).unwrap();
        }
        text
    }
}

/// Returns the number of accepted one-shots that Redis lost with its last bytes.
pub(crate) fn forgotten(evidence: &Evidence) -> usize {
    accounts::forgotten(&View::of(evidence))
}

/// Returns the number of runs of the small node whose order was judged.
pub(crate) fn judged_in_order(evidence: &Evidence) -> usize {
    small::judged(&View::of(evidence))
}

/// Returns all broken promises.
pub(crate) fn check(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    for part in [of_nodes(evidence), of_workers(evidence)] {
        judge(&View::of(&part), &mut findings);
    }
    let plain = |verdict, what: &String| Finding::new(verdict, evidence.end(), what.clone(), &[]);
    findings.extend(evidence.leftovers.iter().map(|what| plain(Verdict::Leak, what)));
    findings.extend(evidence.crashes.iter().map(|what| plain(Verdict::Crash, what)));
    findings.sort_by_key(|finding| (finding.verdict, finding.at));
    findings
}

/// Returns the evidence about the jobs that nodes execute. No fault of a worker excuses anything of
/// them.
fn of_nodes(evidence: &Evidence) -> Evidence {
    let mut part = part_of(evidence, false);
    part.faults.retain(|fault| !fault.harm.hit.is_on_workers());
    part
}

/// Returns the evidence about the jobs that workers execute. A node that ends with grace sends its
/// workers to other nodes, which may take them a moment.
fn of_workers(evidence: &Evidence) -> Evidence {
    let mut part = part_of(evidence, true);
    for harm in part.faults.iter_mut().map(|fault| &mut fault.harm) {
        if harm.delay == Delay::None && harm.may_repeat && !harm.hit.is_on_workers() {
            harm.delay = Delay::Brief(view::BACK);
        }
    }
    part
}

fn part_of(evidence: &Evidence, is_pulled: bool) -> Evidence {
    let is_of_part =
        |job: &str| evidence.jobs.get(job).is_some_and(|job| job.is_pulled) == is_pulled;
    let mut part = evidence.clone();
    part.jobs.retain(|name, _| is_of_part(name));
    part.attempts.retain(|attempt| is_of_part(&attempt.run.job));
    part.history.retain(|recorded| is_of_part(&recorded.run.job));
    part.reported.retain(|recorded| is_of_part(&recorded.run.job));
    part.operations.retain(|operation| match &operation.what {
        Doing::Ran(run) | Doing::Cancelled(run) => {
            RunName::parse(run).is_some_and(|run| is_of_part(&run.job))
        }
        Doing::Paused(job) | Doing::Backfilled(job) => is_of_part(job),
    });
    part
}

fn judge(view: &View<'_>, findings: &mut Vec<Finding>) {
    accounts::missing(view, findings);
    accounts::phantom(view, findings);
    accounts::silent(view, findings);
    timing::early(view, findings);
    timing::late(view, findings);
    repeats::dup(view, findings);
    repeats::overlap(view, findings);
    shared::above(view, findings);
    unique::unique(view, findings);
    each_node::elsewhere(view, findings);
    chain::chain(view, findings);
    shared::turn(view, findings);
    shared::gap(view, findings);
    shared::burst(view, findings);
    shared::starved(view, findings);
    small::above(view, findings);
    small::rank(view, findings);
    repeats::stale(view, findings);
    repeats::unsteady(view, findings);
    wrong::wrong(view, findings);
    wrong::misplaced(view, findings);
    drift::drift(view, findings);
    catch_up::rounds(view, findings);
    crowd::crowd(view, findings);
    remains::outlived(view, findings);
}
