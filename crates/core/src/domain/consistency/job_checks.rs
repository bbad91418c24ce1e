//! The checks of a job: its planned run and its entries in the indexes.

use std::fmt;

use super::inconsistency::{DUE_TIME, FindingKind, FindingSubject, Inconsistency};
use crate::domain::name::job_source::SourceName;
use crate::domain::queue::lane::Lane;
use crate::domain::run::run_state::RunState;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The score that the index `jobs` has for a job without a planned run.
const PARKED: i64 = UnixMillis::END;

/// The planned run that a job should have, by its definition and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedRun {
    /// No run is planned, because the job has no schedule or its schedule has ended.
    Nothing,
    /// A run at an occurrence of the job's schedule.
    Recurring,
    /// The only run of a one-shot.
    Once,
    /// A run that becomes due a `delay` after the end of the previous run.
    AfterEnd,
    /// The planned run is not known, because this program cannot use the definition of the job.
    Unreadable {
        /// The reason why the definition cannot be used.
        why: String,
        /// The advice to the operator, such as to update schedd. `None` if the definition is
        /// damaged.
        advice: Option<&'static str>,
    },
}

/// The facts of a job's planned run: its state, and the due sets that contain the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingFacts {
    /// The id of the planned run.
    pub run: RunId,
    /// The state in the record of the run. `Err` has the text of an unknown state. `None` if there
    /// is no record.
    pub state: Option<Result<RunState, String>>,
    /// The number of due sets that contain the run.
    pub due_sets: usize,
    /// True if the due set of the lane in the job's record contains the run.
    pub is_in_own: bool,
}

/// The facts of a job: its entries in all indexes and lists.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent places, each by its own name")]
pub struct JobPlaces {
    /// The name of the job.
    pub name: JobName,
    /// The lane in the job's record.
    pub lane: Lane,
    /// True if the job has a record in Redis.
    pub is_known: bool,
    /// The text of the job's score in the index `jobs`. `None` if the index lacks the job.
    pub indexed: Option<String>,
    /// True if the job is in the list of ended jobs.
    pub is_among_ended: bool,
    /// True if the job has ended.
    pub has_ended: bool,
    /// True if the job is paused.
    pub is_paused: bool,
    /// The planned run of the job. `None` if no run is planned.
    pub pending: Option<PendingFacts>,
    /// The first occurrence that has no run and is earlier than the planned run. `None` if no such
    /// occurrence exists. A run that was planned while the clock of Redis was ahead leaves such an
    /// occurrence.
    pub comes_first: Option<UnixMillis>,
    /// The number of open runs of the job.
    pub open: u64,
    /// An open run of a job with `delay` that already has a planned run. This is a fault, because
    /// the end of the open run plans another run. `None` if there is no such open run. Runs that
    /// `schedctl retry` started are left out.
    pub open_unasked: Option<RunId>,
    /// The number of manual runs of the job that have not ended and do not wait. When such a run
    /// ends, a waiting run may start.
    pub manual: u64,
    /// The number of runs of the job that wait for an open run.
    pub waiting: u64,
    /// The number of missed runs of the job to which catch-up gave ready times of their own.
    pub spread: u64,
    /// The number of backfill runs of the job that have not ended.
    pub backfill: u64,
    /// True if the job is in the list of jobs with occurrences to backfill.
    pub is_among_backfills: bool,
    /// True if the runs of the job must pass a gate, but the index `job_gates` lacks the job.
    pub is_gate_unlisted: bool,
    /// The jobs files whose lists name the job. Empty if the job has a record.
    pub listed_by: Vec<SourceName>,
    /// The planned run that the job should have.
    pub plan: PlannedRun,
}

impl JobPlaces {
    fn subject(&self) -> FindingSubject {
        FindingSubject::Job(self.name.clone())
    }

    fn finding(
        &self,
        kind: FindingKind,
        place: &'static str,
        found: impl Into<String>,
    ) -> Inconsistency {
        Inconsistency::new(kind, self.subject(), place, found)
    }

    fn missing(&self, place: &'static str, why: impl fmt::Display) -> Inconsistency {
        Inconsistency::missing(self.subject(), place, place, why)
    }

    fn extra(&self, place: &'static str, why: impl fmt::Display) -> Inconsistency {
        Inconsistency::extra(self.subject(), place, place, why)
    }

    /// Returns the planned run if this run has not started. Returns `None` if the job has no
    /// planned run, or if the planned run has started or ended.
    fn to_come(&self) -> Option<&PendingFacts> {
        let is_over = |pending: &&PendingFacts| matches!(&pending.state, Some(Ok(state)) if *state != RunState::Scheduled);
        self.pending.as_ref().filter(|pending| !is_over(pending))
    }
}

/// Returns a finding for each contradiction between the record of a job and its index entries.
pub fn judge_job(facts: &JobPlaces) -> Vec<Inconsistency> {
    let mut findings = Vec::new();
    match (facts.backfill, facts.is_among_backfills) {
        (0, true) => {
            findings.push(facts.extra("backfills", "the job has no waiting backfill run"));
        }
        (count, false) if count > 0 => {
            findings.push(
                facts.missing("backfills", format!("the job has waiting backfill runs ({count})")),
            );
        }
        _ => {}
    }
    let is_indexed = facts.indexed.is_some();
    if !facts.is_known {
        let why = "the job has no record";
        findings.extend(is_indexed.then(|| facts.extra("jobs", why)));
        findings.extend(facts.is_among_ended.then(|| facts.extra("finished", why)));
        if !facts.listed_by.is_empty() {
            let files: Vec<String> = facts.listed_by.iter().map(SourceName::words).collect();
            let found = format!(
                "is listed as a job of {files}, but has no record",
                files = files.join(" and of ")
            );
            let finding = facts.finding(FindingKind::Extra, "source", found);
            let fix = "removes the job from the lists of jobs files; a node whose file has the job adds it again";
            findings.push(finding.fixed_by(fix));
        }
        return findings;
    }
    if facts.waiting > 0 && facts.open + facts.manual == 0 {
        let found = format!("has waiting runs ({}), but no open run to wait for", facts.waiting);
        findings.push(
            facts
                .finding(FindingKind::Extra, "waiting", found)
                .fixed_by("makes the first waiting run due"),
        );
    }
    if facts.has_ended {
        let why = "the job has ended";
        findings.extend(passed_over(facts));
        let pending = facts.pending.as_ref().map(|pending| {
            let found = format!("has ended, but has the planned run {}", pending.run);
            facts.finding(FindingKind::Extra, "pending", found)
        });
        findings.extend(pending.map(|finding| finding.fixed_by("removes the planned run")));
        findings.extend(is_indexed.then(|| facts.extra("jobs", why)));
        findings.extend((!facts.is_among_ended).then(|| facts.missing("finished", why)));
        return findings;
    }
    findings.extend(planned(facts));
    // The repair of a wrong planned run also corrects the index `jobs`.
    let is_planned_wrong = facts.is_paused && facts.pending.is_some();
    let due = facts.pending.as_ref().filter(|_| !facts.is_paused).map(|pending| pending.run.due());
    let wanted = due.map_or(PARKED, UnixMillis::as_i64);
    if !is_planned_wrong && facts.indexed.as_deref() != Some(wanted.to_string().as_str()) {
        let which_is = match due {
            Some(_) => "the due time of its planned run in Unix ms",
            None => "the score of a job without a planned run",
        };
        findings.push(match &facts.indexed {
            None => facts.missing("jobs", "the job has not ended"),
            Some(score) => Inconsistency::wrong(
                facts.subject(),
                "jobs",
                format!(
                    "has the score {score} in the index jobs, but should have {wanted}, {which_is}"
                ),
            ),
        });
    }
    findings.extend(passed_over(facts));
    let is_on_each_node = facts.lane == Lane::of_each_node();
    if facts.is_gate_unlisted && (facts.pending.is_some() || is_on_each_node) {
        findings.push(facts.missing("job_gates", "the runs of the job must pass a gate"));
    }
    if let (Some(PendingFacts { run, .. }), Some(open)) = (facts.to_come(), &facts.open_unasked) {
        let found = format!(
            "has the planned run {run}, but the end of the open run {open} will plan another run"
        );
        let advice = format!("remove the planned run: schedctl cancel {run}");
        findings.push(facts.finding(FindingKind::Extra, "pending", found).by_hand(advice));
    }
    if let PlannedRun::Unreadable { why, advice } = &facts.plan {
        findings.push(unreadable_job(&facts.name, why, *advice));
    }
    findings
}

/// Returns the finding for an occurrence that has no run, although the planned run is later or no
/// run is planned. Returns `None` if there is no such occurrence, or if the job is paused and has
/// not ended.
fn passed_over(facts: &JobPlaces) -> Option<Inconsistency> {
    let first = facts.comes_first.filter(|_| !facts.is_paused || facts.has_ended)?;
    let found = match &facts.pending {
        Some(PendingFacts { run, state: None, .. }) => {
            format!(
                "has the planned run {run}, but the earlier occurrence {first} of the job has no run"
            )
        }
        Some(_) => return None,
        None => format!("has no planned run, but its occurrence {first} still needs a run"),
    };
    Some(
        Inconsistency::wrong(facts.subject(), DUE_TIME, found)
            .fixed_by("plans the run of this occurrence"),
    )
}

/// Returns the finding for a missing or wrong planned run of a job that has not ended. Returns
/// `None` if no planned run is missing or wrong.
fn planned(facts: &JobPlaces) -> Option<Inconsistency> {
    let rests = facts.is_paused || facts.open + facts.manual + facts.waiting + facts.spread > 0;
    let finding = match (&facts.pending, &facts.plan) {
        (Some(pending), _) if facts.is_paused => {
            let found = format!("is paused, but its run {} is planned", pending.run);
            facts.finding(FindingKind::Extra, "pending", found).fixed_by("removes the run from the due set until the job is resumed")
        }
        (Some(PendingFacts { run, state, due_sets, is_in_own }), _) => match state {
            Some(Ok(state)) if *state != RunState::Scheduled => {
                let found = format!("has the planned run {run}, but the state of this run is {state}");
                Inconsistency::wrong(facts.subject(), "pending", found).fixed_by("plans the first occurrence after now")
            }
            _ if *due_sets > 0 && *is_in_own => return None,
            _ => {
                let found = format!(
                    "has the planned run {run}, but the due set due:{} lacks this run \
                     (other due sets with this run: {due_sets})",
                    facts.lane
                );
                facts.finding(FindingKind::Missing, "due", found)
            }
        },
        (None, PlannedRun::Recurring) if !facts.is_paused && facts.comes_first.is_none() => {
            facts
                .finding(FindingKind::Missing, "pending", "has a schedule, but no planned run")
                .fixed_by("plans the first occurrence after now")
        }
        (None, PlannedRun::AfterEnd) if !rests => facts
            .finding(
                FindingKind::Missing,
                "pending",
                "is due a fixed delay after each run ends, but has no planned, open or waiting run",
            )
            .fixed_by("plans a run at the present time plus the delay"),
        (None, PlannedRun::Once) if !rests => facts
            .finding(
                FindingKind::Missing,
                "pending",
                "is a one-shot that has not ended, but has no run that is planned, paused, open or waiting",
            )
            .fixed_by("plans the run, or ends the job if the run has ended"),
        _ => return None,
    };
    Some(finding)
}

/// Returns the finding for a job whose record or definition is unreadable. `advice` is the advice
/// to the operator. If `advice` is `None`, the finding advises to define the job again or to move
/// the job to quarantine.
pub fn unreadable_job(name: &JobName, why: &str, advice: Option<&str>) -> Inconsistency {
    let anew = || {
        format!(
            "define the job again (schedctl add --replace, or a change in its jobs file), or move the job to quarantine: schedctl doctor --set-aside {name}"
        )
    };
    let advice = advice.map_or_else(anew, str::to_owned);
    Inconsistency::unreadable(
        FindingSubject::Job(name.clone()),
        "job",
        why,
        "a readable definition",
    )
    .by_hand(advice)
}
