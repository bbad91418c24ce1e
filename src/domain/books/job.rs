//! The rules of one job: what is planned of it, and what its indexes say.

use super::PARKED;
use super::finding::{Finding, Rule, Subject};
use crate::domain::ids::{JobName, RunId};
use crate::domain::run::RunState;
use crate::domain::source::SourceName;
use crate::domain::time::UnixMillis;

/// What a job's definition says of its next run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// It runs by hand only, or its schedule is over.
    Nothing,
    /// It comes again.
    Recurring,
    /// It runs once.
    Once,
    /// It comes again after the end of the run before, which plants it.
    AfterEnd,
    /// The definition cannot be worked with here.
    Unreadable {
        /// Why.
        why: String,
        /// What to do here, if nothing is wrong with the definition itself.
        advice: Option<&'static str>,
    },
}

/// How a planned run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingFacts {
    /// The run.
    pub run: RunId,
    /// The state its record says; none without a record, the word if that is no state.
    pub state: Option<Result<RunState, String>>,
    /// In how many due sets it stands.
    pub due_sets: usize,
    /// Whether the due set of its job's queue is one of them.
    pub is_in_own: bool,
}

/// How one job's keys stand to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent places, each by its own name")]
pub struct JobFacts {
    /// The job.
    pub name: JobName,
    /// Whether it has a record.
    pub is_known: bool,
    /// Its score in the index of jobs, as text.
    pub indexed: Option<String>,
    /// Whether it stands among those that ended.
    pub is_among_ended: bool,
    /// Whether it has ended.
    pub has_ended: bool,
    /// Whether it is paused.
    pub is_paused: bool,
    /// Its planned run.
    pub pending: Option<PendingFacts>,
    /// The first occurrence before its planned run that has no run, as after Redis' clock was ahead.
    pub comes_first: Option<UnixMillis>,
    /// Whether it has a held run.
    pub has_held: bool,
    /// Its open runs.
    pub open: u64,
    /// Of one that comes again after each run and has a planned one: an open one that no person asked for again.
    pub open_unasked: Option<RunId>,
    /// Its manual runs that are not over and do not wait: the end of one frees a run that waits.
    pub manual: u64,
    /// Its waiting runs.
    pub waiting: u64,
    /// Its spread runs.
    pub spread: u64,
    /// Its backfill runs, out or still to come.
    pub backfill: u64,
    /// Whether it stands among the jobs with past occurrences to be made up for.
    pub is_among_backfills: bool,
    /// Whether it has a gate to pass and is not listed with it.
    pub is_gate_unlisted: bool,
    /// The files that list it, of one without a record.
    pub listed_by: Vec<SourceName>,
    /// What its definition says.
    pub plan: Plan,
}

/// What does not agree in one job.
pub fn judge_job(facts: &JobFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let subject = || Subject::Job(facts.name.clone());
    let mut fixed = |rule, found: String, wanted, fix| findings.push(Finding::fixed(rule, subject(), found, wanted, fix));
    if (facts.backfill > 0) != facts.is_among_backfills {
        let found = match facts.backfill {
            0 => "it stands among the jobs with something to be made up for, and has nothing".to_owned(),
            count => format!("{count} of its occurrences are to be made up for, and no node knows"),
        };
        fixed(
            Rule::BackfillWrong,
            found,
            "a place in the list of backfills if it has one, and else none",
            "makes the list agree",
        );
    }
    if !facts.is_known {
        if facts.indexed.is_some() || facts.is_among_ended {
            let found = "it stands in an index of jobs and has no record".to_owned();
            fixed(Rule::UnknownJob, found, "an index that names jobs that are there", "takes it out of the index");
        }
        if !facts.listed_by.is_empty() {
            let files: Vec<String> = facts.listed_by.iter().map(SourceName::words).collect();
            let found = format!("{} lists it, and it has no record", files.join(", "));
            let wanted = "lists of jobs that are there";
            findings.push(Finding::fixed(
                Rule::Listed,
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
        fixed(Rule::Blocked, found, "an open run before one that waits", "lets the first of them run");
    }
    if facts.has_ended {
        if facts.pending.is_some() || facts.indexed.is_some() || !facts.is_among_ended {
            let found = "it is over, and its keys do not all say so".to_owned();
            fixed(Rule::EndedWrong, found, "nothing planned, and a place among the jobs that ended", "puts it there");
        }
        return findings;
    }
    match &facts.pending {
        Some(_) if facts.is_paused => {
            let found = "it is paused and has a planned run".to_owned();
            fixed(Rule::PausedPlanned, found, "a held run and none planned", "holds it");
        }
        Some(PendingFacts { run, state: Some(Ok(state)), .. }) if *state != RunState::Scheduled => {
            let found = format!("its planned run {run} is {state} already");
            fixed(Rule::PlannedOver, found, "a planned run that is still to come", "plants the next one after now");
        }
        Some(PendingFacts { run, due_sets: 0, .. }) => {
            let found = format!("its planned run {run} stands in no due set");
            fixed(Rule::NotDue, found, "its planned run in the due set of its queue", "puts it there");
        }
        Some(PendingFacts { run, is_in_own: false, .. }) => {
            let found = format!("its planned run {run} is due in another queue than its own");
            fixed(Rule::NotDue, found, "its planned run in the due set of its queue", "puts it there");
        }
        Some(_) => {}
        None if facts.is_paused && facts.has_held => {}
        None => match facts.plan {
            Plan::Recurring if facts.is_paused => {}
            Plan::Recurring => {
                let found = "it comes again by its schedule, and no run of it is planned".to_owned();
                fixed(Rule::Unplanned, found, "one planned run", "plants its first one after now");
            }
            _ if facts.is_paused || facts.open + facts.manual + facts.waiting + facts.spread > 0 => {}
            Plan::AfterEnd => {
                let found = "it comes again after each run, and no run of it is planned, open or waits".to_owned();
                fixed(Rule::Unplanned, found, "one run that is planned or open", "plants it, its delay from now");
            }
            Plan::Once => {
                let found = "it is to run once and is not over, and no run of it is planned, held, open or waits".to_owned();
                fixed(Rule::Unplanned, found, "its run, or its end", "plants it, or ends the job if it has run");
            }
            _ => {}
        },
    }
    // A planned run that is wrong itself takes its place in the index with it when it is mended.
    let is_planned_wrong = facts.is_paused && facts.pending.is_some();
    let wanted = facts.pending.as_ref().filter(|_| !facts.is_paused).map_or(PARKED, |pending| pending.run.due().as_i64());
    if !is_planned_wrong && facts.indexed.as_deref() != Some(wanted.to_string().as_str()) {
        let found = match &facts.indexed {
            None => "the index of jobs does not name it".to_owned(),
            Some(score) => format!("the index of jobs has it at {score}, not at {wanted}"),
        };
        fixed(Rule::JobIndex, found, "its place in the index by its planned run", "puts it there");
    }
    findings.extend(planned_far(facts));
    findings.extend(gate_unlisted(facts));
    findings.extend(planned_beside(facts));
    if let Plan::Unreadable { why, advice } = &facts.plan {
        findings.push(unreadable_job(&facts.name, why, *advice));
    }
    findings
}

/// What there is to say of a job whose planned run lies behind an occurrence that comes first.
fn planned_far(facts: &JobFacts) -> Option<Finding> {
    let first = facts.comes_first?;
    let PendingFacts { run, state: None, .. } = facts.pending.as_ref().filter(|_| !facts.is_paused)? else { return None };
    let found = format!("its planned run {run} is due {}, and by its schedule one is due {first}", run.due());
    let wanted = "the first occurrence still to come, planned";
    Some(Finding::fixed(Rule::PlannedFar, Subject::Job(facts.name.clone()), found, wanted, "plants that one instead"))
}

/// What there is to say of a job with a planned run and a gate to pass that is not listed with it.
fn gate_unlisted(facts: &JobFacts) -> Option<Finding> {
    let found = "the list of jobs with gates does not name it: behind a mass of others its runs would be found late";
    let wanted = "its place in that list by its first gate";
    let finding =
        || Finding::fixed(Rule::GatedWrong, Subject::Job(facts.name.clone()), found.to_owned(), wanted, "puts it there");
    (facts.is_gate_unlisted && facts.pending.is_some()).then(finding)
}

/// What there is to say of a job that comes again after each run, and has a planned one beside an open one.
fn planned_beside(facts: &JobFacts) -> Option<Finding> {
    let PendingFacts { run, state, .. } = facts.pending.as_ref()?;
    let open = facts.open_unasked.as_ref()?;
    if matches!(state, Some(Ok(state)) if *state != RunState::Scheduled) {
        return None;
    }
    let found = format!("its run {run} is planned, and {open} is open, whose end plants the next");
    let advice = format!("schedctl cancel {run} takes the planned one out");
    let wanted = "a planned run or an open one of a job that comes again after each run";
    Some(Finding::by_hand(Rule::PlannedBeside, Subject::Job(facts.name.clone()), found, wanted, advice))
}

/// What there is to say of a job whose record or definition cannot be read. `advice` is for one that only cannot be read here.
pub fn unreadable_job(name: &JobName, why: &str, advice: Option<&str>) -> Finding {
    let anew = || {
        format!(
            "define it anew (schedctl add --replace, or change it in its file), or move it aside: schedctl doctor --set-aside {name}"
        )
    };
    let advice = advice.map_or_else(anew, str::to_owned);
    Finding::by_hand(Rule::Definition, Subject::Job(name.clone()), why, "a definition that can be read", advice)
}
