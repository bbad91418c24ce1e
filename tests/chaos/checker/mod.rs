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

use crate::evidence::{Attempt, Evidence, Micros, Recorded, span};
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
                 one that has begun goes on only with the same definition"
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
    let view = View::of(evidence);
    let mut findings = Vec::new();
    accounts::missing(&view, &mut findings);
    accounts::phantom(&view, &mut findings);
    accounts::silent(&view, &mut findings);
    timing::early(&view, &mut findings);
    timing::late(&view, &mut findings);
    repeats::dup(&view, &mut findings);
    repeats::overlap(&view, &mut findings);
    shared::above(&view, &mut findings);
    unique::unique(&view, &mut findings);
    each_node::elsewhere(&view, &mut findings);
    chain::chain(&view, &mut findings);
    shared::turn(&view, &mut findings);
    shared::gap(&view, &mut findings);
    shared::burst(&view, &mut findings);
    shared::starved(&view, &mut findings);
    small::above(&view, &mut findings);
    small::rank(&view, &mut findings);
    repeats::stale(&view, &mut findings);
    repeats::unsteady(&view, &mut findings);
    wrong::wrong(&view, &mut findings);
    drift::drift(&view, &mut findings);
    catch_up::rounds(&view, &mut findings);
    crowd::crowd(&view, &mut findings);
    remains::outlived(&view, &mut findings);
    let plain = |verdict, what: &String| Finding::new(verdict, evidence.end(), what.clone(), &[]);
    findings.extend(evidence.leftovers.iter().map(|what| plain(Verdict::Leak, what)));
    findings.extend(evidence.crashes.iter().map(|what| plain(Verdict::Crash, what)));
    findings.sort_by_key(|finding| (finding.verdict, finding.at));
    findings
}
