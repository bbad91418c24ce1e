//! The rules of a job: its planned run and its entries in the indexes.

use std::fmt;

use super::inconsistency::{DUE_TIME, FindingSubject, Inconsistency};
use crate::domain::name::job_source::SourceName;
use crate::domain::name::names::{JobName, RunId};
use crate::domain::queue::lane::Lane;
use crate::domain::run::run_state::RunState;
use crate::domain::time::unix_millis::UnixMillis;

/// The score in the index of jobs for a job without a next due time.
const PARKED: i64 = UnixMillis::END;

/// The planned run that a job should have by its definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedRun {
    /// No run: the job runs by hand only, or its schedule is over.
    Nothing,
    /// A run at an occurrence of the job's schedule.
    Recurring,
    /// The only run of a one-shot.
    Once,
    /// A run that is added to the due set when the previous run ends.
    AfterEnd,
    /// An unknown run: this program cannot use the definition of the job.
    Unreadable {
        /// The reason why the definition cannot be used.
        why: String,
        /// The advice to the operator, if the definition itself is right.
        advice: Option<&'static str>,
    },
}

/// The facts of a job's planned run: its state, and the due sets that contain the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingFacts {
    /// The id of the planned run.
    pub run: RunId,
    /// The state in the record of the run, or the unknown word in place of a state. `None` if the
    /// run has no record.
    pub state: Option<Result<RunState, String>>,
    /// The number of due sets that contain the run.
    pub due_sets: usize,
    /// True if the due set of the job's queue contains the run.
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
    /// The text of the job's score in the index of jobs.
    pub indexed: Option<String>,
    /// True if the job is in the list of ended jobs.
    pub is_among_ended: bool,
    /// True if the job has ended.
    pub has_ended: bool,
    /// True if the job is paused.
    pub is_paused: bool,
    /// The planned run of the job, if the job has a planned run.
    pub pending: Option<PendingFacts>,
    /// The first occurrence that has no run, before the planned run or without a planned run. There
    /// is such an occurrence after Redis' clock was ahead.
    pub comes_first: Option<UnixMillis>,
    /// The number of open runs of the job.
    pub open: u64,
    /// An open run beside the planned run, of a job with a `delay`. Runs that an operator asked for
    /// again do not count.
    pub open_unasked: Option<RunId>,
    /// The number of manual runs of the job that have not ended and do not wait. The end of each
    /// such run frees a waiting run.
    pub manual: u64,
    /// The number of waiting runs of the job.
    pub waiting: u64,
    /// The number of spread runs of the job.
    pub spread: u64,
    /// The number of backfill runs of the job that are open or still wait.
    pub backfill: u64,
    /// True if the job is in the list of jobs with occurrences to backfill.
    pub is_among_backfills: bool,
    /// True if the job has to pass a gate and is not in the list of jobs with gates.
    pub is_gate_unlisted: bool,
    /// The files whose lists name the job, if the job has no record.
    pub listed_by: Vec<SourceName>,
    /// The next run of the job by its definition.
    pub plan: PlannedRun,
}

impl JobPlaces {
    fn subject(&self) -> FindingSubject {
        FindingSubject::Job(self.name.clone())
    }

    fn missing(&self, place: &'static str, why: impl fmt::Display) -> Inconsistency {
        Inconsistency::missing(self.subject(), place, place, why)
    }

    fn extra(&self, place: &'static str, why: impl fmt::Display) -> Inconsistency {
        Inconsistency::extra(self.subject(), place, place, why)
    }

    /// Returns the planned run, if it may still start.
    fn to_come(&self) -> Option<&PendingFacts> {
        let is_over = |pending: &&PendingFacts| matches!(&pending.state, Some(Ok(state)) if *state != RunState::Scheduled);
        self.pending.as_ref().filter(|pending| !is_over(pending))
    }
}

/// Returns a finding for each contradiction between the entries of one job.
pub fn judge_job(facts: &JobPlaces) -> Vec<Inconsistency> {
    let mut findings = Vec::new();
    match (facts.backfill, facts.is_among_backfills) {
        (0, true) => {
            findings.push(facts.extra("backfills", "none of its occurrences waits for backfill"));
        }
        (count, false) if count > 0 => {
            findings.push(
                facts.missing("backfills", format!("{count} of its occurrences wait for backfill")),
            );
        }
        _ => {}
    }
    let is_indexed = facts.indexed.is_some();
    if !facts.is_known {
        let why = "it has no record";
        findings.extend(is_indexed.then(|| facts.extra("jobs", why)));
        findings.extend(facts.is_among_ended.then(|| facts.extra("finished", why)));
        if !facts.listed_by.is_empty() {
            let files: Vec<String> = facts.listed_by.iter().map(SourceName::words).collect();
            let finding = facts
                .extra("source", format!("{} lists it, and it has no record", files.join(", ")));
            findings.push(finding.fixed_by("takes it off the lists; those files define it again"));
        }
        return findings;
    }
    if facts.waiting > 0 && facts.open + facts.manual == 0 {
        let why = format!(
            "{} of its runs wait, and none is open that they could wait for",
            facts.waiting
        );
        let place = format!("waiting:{}", facts.name);
        findings.push(
            Inconsistency::extra(facts.subject(), "waiting", place, why)
                .fixed_by("lets the first of them run"),
        );
    }
    if facts.has_ended {
        let why = "it has ended";
        findings.extend(passed_over(facts));
        findings.extend(facts.pending.is_some().then(|| facts.extra("pending", why)));
        findings.extend(is_indexed.then(|| facts.extra("jobs", why)));
        findings.extend((!facts.is_among_ended).then(|| facts.missing("finished", why)));
        return findings;
    }
    findings.extend(planned(facts));
    // The repair of a wrong planned run also corrects the index.
    let is_planned_wrong = facts.is_paused && facts.pending.is_some();
    let due = facts.pending.as_ref().filter(|_| !facts.is_paused).map(|pending| pending.run.due());
    let wanted = due.map_or(PARKED, UnixMillis::as_i64);
    if !is_planned_wrong && facts.indexed.as_deref() != Some(wanted.to_string().as_str()) {
        findings.push(match &facts.indexed {
            None => facts.missing("jobs", "it has not ended"),
            Some(is) => Inconsistency::wrong(
                facts.subject(),
                "jobs",
                format!("should be in jobs at {wanted} and is at {is}"),
            ),
        });
    }
    findings.extend(passed_over(facts));
    if facts.is_gate_unlisted && facts.pending.is_some() {
        findings.push(facts.missing(
            "job_gates",
            "it has a gate, and its runs would be found late behind many others",
        ));
    }
    if let (Some(PendingFacts { run, .. }), Some(open)) = (facts.to_come(), &facts.open_unasked) {
        let finding = facts.extra(
            "pending",
            format!("{open} is open, and its end plans another run beside {run}"),
        );
        findings.push(finding.by_hand(format!("schedctl cancel {run} removes the planned run")));
    }
    if let PlannedRun::Unreadable { why, advice } = &facts.plan {
        findings.push(unreadable_job(&facts.name, why, *advice));
    }
    findings
}

/// Returns the finding for a job whose planned run comes after an occurrence without a run. Without
/// a planned run, a clock that was ahead passed the job's last occurrence.
fn passed_over(facts: &JobPlaces) -> Option<Inconsistency> {
    let first = facts.comes_first.filter(|_| !facts.is_paused || facts.has_ended)?;
    let found = match &facts.pending {
        Some(PendingFacts { run, state: None, .. }) => {
            format!(
                "has the planned run {run}, and its schedule has an occurrence before it, due {first}"
            )
        }
        Some(_) => return None,
        None => format!(
            "has no planned run, and its occurrence {first} was passed over before its time came"
        ),
    };
    Some(
        Inconsistency::wrong(facts.subject(), DUE_TIME, found)
            .fixed_by("plans the earlier one instead"),
    )
}

/// Returns the finding about the planned run of a job that has not ended.
fn planned(facts: &JobPlaces) -> Option<Inconsistency> {
    let rests = facts.is_paused || facts.open + facts.manual + facts.waiting + facts.spread > 0;
    let finding = match (&facts.pending, &facts.plan) {
        (Some(pending), _) if facts.is_paused => {
            facts.extra("pending", format!("it is paused, and {} is planned", pending.run)).fixed_by("holds the run")
        }
        (Some(PendingFacts { run, state, due_sets, is_in_own }), _) => match state {
            Some(Ok(state)) if *state != RunState::Scheduled => {
                let found = format!("has the planned run {run}, which is {state}");
                Inconsistency::wrong(facts.subject(), "pending", found).fixed_by("plants the next one after now")
            }
            _ if *due_sets > 0 && *is_in_own => return None,
            _ => {
                let why = format!("its planned run {run} is in {due_sets} other due sets");
                Inconsistency::missing(facts.subject(), "due", format!("due:{}", facts.lane), why)
            }
        },
        (None, PlannedRun::Recurring) if !facts.is_paused && facts.comes_first.is_none() => {
            facts.missing("pending", "it has a schedule, and no run of it is planned").fixed_by("plants its first run after now")
        }
        (None, PlannedRun::AfterEnd) if !rests => facts
            .missing("pending", "its delay plans a run after each run, and no run of it is planned, open or waiting")
            .fixed_by("plans one, its delay from now"),
        (None, PlannedRun::Once) if !rests => facts
            .missing("pending", "it is to run once, and no run of it is planned, held, open or waiting")
            .fixed_by("plants it, or ends the job if it has run"),
        _ => return None,
    };
    Some(finding)
}

/// Returns the finding for a job whose record or definition is unreadable. `advice` is given if the
/// definition is right, but this program cannot use it.
pub fn unreadable_job(name: &JobName, why: &str, advice: Option<&str>) -> Inconsistency {
    let anew = || {
        format!(
            "define it anew (schedctl add --replace, or change it in its file), or move it aside: schedctl doctor --set-aside {name}"
        )
    };
    let advice = advice.map_or_else(anew, str::to_owned);
    Inconsistency::unreadable(
        FindingSubject::Job(name.clone()),
        "job",
        why,
        "a definition that can be read",
    )
    .by_hand(advice)
}
