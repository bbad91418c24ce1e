//! The rules of a job: its planned run and its entries in the indexes.

use super::inconsistency::{ConsistencyRule, FindingSubject, Inconsistency};
use crate::domain::name::job_source::SourceName;
use crate::domain::name::names::{JobName, RunId};
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
    /// True if the job has a held run.
    pub has_held: bool,
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

/// Returns a finding for each contradiction between the entries of one job.
pub fn judge_job(facts: &JobPlaces) -> Vec<Inconsistency> {
    let mut findings = Vec::new();
    let subject = || FindingSubject::Job(facts.name.clone());
    let mut fixed = |rule, found: String, wanted, fix| findings.push(Inconsistency::fixed(rule, subject(), found, wanted, fix));
    if (facts.backfill > 0) != facts.is_among_backfills {
        let found = match facts.backfill {
            0 => "the list of backfills names it, and none of its occurrences waits for backfill".to_owned(),
            count => format!("{count} of its occurrences wait for backfill, and the list of backfills does not name it"),
        };
        fixed(
            ConsistencyRule::BackfillWrong,
            found,
            "a list of backfills with exactly the jobs that have some",
            "corrects the list",
        );
    }
    if !facts.is_known {
        if facts.indexed.is_some() || facts.is_among_ended {
            let found = "it stands in an index of jobs and has no record".to_owned();
            fixed(ConsistencyRule::UnknownJob, found, "an index of existing jobs only", "takes it out of the index");
        }
        if !facts.listed_by.is_empty() {
            let files: Vec<String> = facts.listed_by.iter().map(SourceName::words).collect();
            let found = format!("{} lists it, and it has no record", files.join(", "));
            let wanted = "lists of existing jobs only";
            findings.push(Inconsistency::fixed(
                ConsistencyRule::Listed,
                subject(),
                found,
                wanted,
                "takes it off the lists; those files define it again",
            ));
        }
        return findings;
    }
    if facts.waiting > 0 && facts.open + facts.manual == 0 {
        let found = format!("{} of its runs wait, and none is open that they could wait for", facts.waiting);
        fixed(ConsistencyRule::Blocked, found, "an open run before one that waits", "lets the first of them run");
    }
    if facts.has_ended {
        findings.extend(planned_far(facts));
        let mut fixed = |rule, found, wanted, fix| findings.push(Inconsistency::fixed(rule, subject(), found, wanted, fix));
        if facts.pending.is_some() || facts.indexed.is_some() || !facts.is_among_ended {
            let found = "it is over, and its keys do not all say so".to_owned();
            fixed(ConsistencyRule::EndedWrong, found, "nothing planned, and a place among the jobs that ended", "puts it there");
        }
        return findings;
    }
    match &facts.pending {
        Some(_) if facts.is_paused => {
            let found = "it is paused and has a planned run".to_owned();
            fixed(ConsistencyRule::PausedPlanned, found, "a held run and none planned", "holds it");
        }
        Some(PendingFacts { run, state: Some(Ok(state)), .. }) if *state != RunState::Scheduled => {
            let found = format!("its planned run {run} is {state} already");
            fixed(ConsistencyRule::PlannedOver, found, "a planned run that is still to come", "plants the next one after now");
        }
        Some(PendingFacts { run, due_sets: 0, .. }) => {
            let found = format!("its planned run {run} stands in no due set");
            fixed(ConsistencyRule::NotDue, found, "its planned run in the due set of its queue", "puts it there");
        }
        Some(PendingFacts { run, is_in_own: false, .. }) => {
            let found = format!("its planned run {run} is due in another queue than its own");
            fixed(ConsistencyRule::NotDue, found, "its planned run in the due set of its queue", "puts it there");
        }
        Some(_) => {}
        None if facts.is_paused && facts.has_held => {}
        None => match facts.plan {
            PlannedRun::Recurring if facts.is_paused || facts.comes_first.is_some() => {}
            PlannedRun::Recurring => {
                let found = "it has a schedule, and no run of it is planned".to_owned();
                fixed(ConsistencyRule::Unplanned, found, "one planned run", "plants its first one after now");
            }
            _ if facts.is_paused || facts.open + facts.manual + facts.waiting + facts.spread > 0 => {}
            PlannedRun::AfterEnd => {
                let found = "its delay plans a run after each run, and no run of it is planned, open or waiting".to_owned();
                fixed(ConsistencyRule::Unplanned, found, "one run that is planned or open", "plans one, its delay from now");
            }
            PlannedRun::Once => {
                let found = "it is to run once and is not over, and no run of it is planned, held, open or waits".to_owned();
                fixed(ConsistencyRule::Unplanned, found, "its run, or its end", "plants it, or ends the job if it has run");
            }
            _ => {}
        },
    }
    // The repair of a wrong planned run also corrects the index.
    let is_planned_wrong = facts.is_paused && facts.pending.is_some();
    let wanted = facts.pending.as_ref().filter(|_| !facts.is_paused).map_or(PARKED, |pending| pending.run.due().as_i64());
    if !is_planned_wrong && facts.indexed.as_deref() != Some(wanted.to_string().as_str()) {
        let found = match &facts.indexed {
            None => "the index of jobs does not name it".to_owned(),
            Some(score) => format!("the index of jobs has it at {score}, not at {wanted}"),
        };
        fixed(ConsistencyRule::JobIndex, found, "a score in the index of jobs that matches its planned run", "puts it there");
    }
    findings.extend(planned_far(facts));
    findings.extend(gate_unlisted(facts));
    findings.extend(planned_beside(facts));
    if let PlannedRun::Unreadable { why, advice } = &facts.plan {
        findings.push(unreadable_job(&facts.name, why, *advice));
    }
    findings
}

/// Returns the finding for a job whose planned run comes after an occurrence without a run. Without
/// a planned run, a clock that was ahead passed the job's last occurrence.
fn planned_far(facts: &JobPlaces) -> Option<Inconsistency> {
    let first = facts.comes_first.filter(|_| !facts.is_paused || facts.has_ended)?;
    let found = match &facts.pending {
        Some(PendingFacts { run, state: None, .. }) => {
            format!("its planned run {run} is due {}, and its schedule has an earlier occurrence, {first}", run.due())
        }
        Some(_) => return None,
        None => format!("no run of it is planned, and its occurrence {first} was passed over before its time came"),
    };
    let wanted = "a planned run for the next occurrence";
    Some(Inconsistency::fixed(
        ConsistencyRule::PlannedFar,
        FindingSubject::Job(facts.name.clone()),
        found,
        wanted,
        "plans the earlier one instead",
    ))
}

/// Returns the finding for a job with a planned run and a gate that is missing in the list of jobs
/// with gates.
fn gate_unlisted(facts: &JobPlaces) -> Option<Inconsistency> {
    let found = "the list of jobs with gates does not name it: its runs would be found late behind many others";
    let wanted = "its place in that list by its first gate";
    let finding = || {
        Inconsistency::fixed(
            ConsistencyRule::GatedWrong,
            FindingSubject::Job(facts.name.clone()),
            found.to_owned(),
            wanted,
            "puts it there",
        )
    };
    (facts.is_gate_unlisted && facts.pending.is_some()).then(finding)
}

/// Returns the finding for a job with a `delay` that has both a planned run and an open run.
fn planned_beside(facts: &JobPlaces) -> Option<Inconsistency> {
    let PendingFacts { run, state, .. } = facts.pending.as_ref()?;
    let open = facts.open_unasked.as_ref()?;
    if matches!(state, Some(Ok(state)) if *state != RunState::Scheduled) {
        return None;
    }
    let found = format!("its run {run} is planned while {open} is open, and the end of {open} plans another run");
    let advice = format!("schedctl cancel {run} removes the planned run");
    let wanted = "either a planned run or an open run of a job with a delay";
    Some(Inconsistency::by_hand(ConsistencyRule::PlannedBeside, FindingSubject::Job(facts.name.clone()), found, wanted, advice))
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
    Inconsistency::by_hand(
        ConsistencyRule::Definition,
        FindingSubject::Job(name.clone()),
        why,
        "a definition that can be read",
        advice,
    )
}
