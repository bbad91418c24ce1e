//! WRONG: the definition that an attempt executed, for jobs that are removed and added again under
//! their name.
//!
//! A run belongs to the job that had the name when it was planned. It begins while that job exists,
//! with its definition.
//! A run that has begun may go on after the removal, until a job with another definition has the
//! name.
//! While an addition or a removal is being acknowledged, either job may have the name.
//!
//! WRONG is also a job at another place than its own, or jobs of one unique key at two places.

use std::collections::BTreeMap;

use super::shared::claimed_since;
use super::view::View;
use super::{Finding, Verdict};
use crate::evidence::{
    Attempt, Doing, Excuse, Generation, Micros, Operation, Recorded, RunName, SECOND,
};
use crate::world::schedule::When;

/// The suffix of backfill runs, by which their ids differ from other manual runs.
pub(super) const BACKFILL: &str = "~backfill";
/// The time after a data loss in which Redis may have another job than the acknowledged one: until
/// an operator removes it.
const LOST: Micros = 10 * SECOND;

/// WRONG: an attempt executed a definition that its run must not execute at that time.
pub(super) fn wrong(view: &View<'_>, findings: &mut Vec<Finding>) {
    for attempt in &view.evidence.attempts {
        let Some(of_name) = view.evidence.generations.get(&attempt.run.job) else { continue };
        if attempt.version.is_none() || is_lost(view, attempt) {
            continue;
        }
        if let Err(why) = judge(view, of_name, attempt) {
            let version = attempt.version.map_or(String::new(), |version| version.to_string());
            let what = format!("{} executed version {version}: {why}", attempt.run.id);
            findings.push(Finding::new(
                Verdict::Wrong,
                attempt.began,
                what,
                view.attempts_of(&attempt.run.id),
            ));
        }
    }
}

fn judge(view: &View<'_>, of_name: &[Generation], attempt: &Attempt) -> Result<(), &'static str> {
    let claim = (claimed_since(view, attempt), attempt.began);
    let own = planned_by(view, of_name, &attempt.run);
    if own.is_empty() {
        return Err("no job of this name planned that run");
    }
    let has_version = |generation: &Generation| Some(generation.version) == attempt.version;
    let is_live = |generation: &Generation| meet(claim, (generation.added.0, generation.removed.1));
    if is_first(view, attempt)
        && attempt.number == 1
        && !may_have_begun(view, &attempt.run, of_name, &own)
    {
        let begins = |at: &usize| has_version(&of_name[*at]) && is_live(&of_name[*at]);
        let edits = own.iter().flat_map(|at| edits_of(of_name, *at));
        return if own.iter().copied().chain(edits).any(|at| begins(&at)) {
            Ok(())
        } else if of_name.iter().any(|other| has_version(other) && is_live(other)) {
            Err(
                "it was planned by an earlier job of this name and had not begun when that was removed",
            )
        } else {
            Err("that was not the definition of the job when it was claimed")
        };
    }
    // A removed job keeps its definition until another job has the name.
    let until = |at: usize| of_name.get(at + 1).map_or(Micros::MAX, |next| next.added.1);
    let goes_on =
        |at: usize| has_version(&of_name[at]) && meet(claim, (of_name[at].added.0, until(at)));
    let is_right = own.iter().any(|at| goes_on(*at) || same_as(of_name, *at).any(goes_on));
    if is_right {
        Ok(())
    } else {
        Err("it had begun with another definition than the job has that was added later")
    }
}

/// WRONG: a run is recorded at another place than that of its job.
pub(super) fn misplaced(view: &View<'_>, findings: &mut Vec<Finding>) {
    let shards = view.evidence.shards;
    let mut places: BTreeMap<&str, Option<u32>> = BTreeMap::new();
    for recorded in &view.evidence.history {
        let Some(job) = view.evidence.jobs.get(&recorded.run.job) else { continue };
        let place = recorded.shard;
        let first = *places.entry(job.sharing.unique.unwrap_or(&job.name)).or_insert(place);
        if place.is_some() != (shards > 0 && job.is_spread()) || place != first {
            let shown = |place: Option<u32>| {
                place.map_or("the namespace".to_owned(), |shard| format!("shard {shard}"))
            };
            let what = format!(
                "{} is in {}, another run of its job or key in {}",
                recorded.run.id,
                shown(place),
                shown(first)
            );
            findings.push(Finding::new(
                Verdict::Wrong,
                recorded.run.due,
                what,
                view.attempts_of(&recorded.run.id),
            ));
        }
    }
}

/// Returns the jobs that may have planned a run.
fn planned_by(view: &View<'_>, of_name: &[Generation], run: &RunName) -> Vec<usize> {
    let lives = |from: Micros, to: Micros| {
        move |generation: &Generation| meet((from, to), (generation.added.0, generation.removed.1))
    };
    let all = |is_of: &dyn Fn(&Generation) -> bool| {
        (0..of_name.len()).filter(|at| is_of(&of_name[*at])).collect()
    };
    if run.id.ends_with(BACKFILL) {
        let is_asked = |operation: &&Operation| {
            operation.what == Doing::Backfilled(run.job.clone()) && operation.to >= run.due
        };
        let asked: Vec<(Micros, Micros)> = view
            .evidence
            .operations
            .iter()
            .filter(is_asked)
            .map(|operation| (operation.from, operation.to))
            .collect();
        return all(&|generation| asked.iter().any(|(from, to)| lives(*from, *to)(generation)));
    }
    if run.is_manual {
        // The due time of a manual run is the time of the request.
        let operation = view
            .evidence
            .operations
            .iter()
            .find(|operation| operation.what == Doing::Ran(run.id.clone()));
        let (from, to) =
            operation.map_or((run.due, run.due + LOST), |operation| (operation.from, operation.to));
        return all(&lives(from, to));
    }
    all(&|generation| match generation.when {
        When::Once(due) => due == run.due,
        when => when.allows(run.due, None) && lives(run.due, run.due)(generation),
    })
}

/// Returns the later jobs that may be edits of this one.
fn edits_of(of_name: &[Generation], at: usize) -> impl Iterator<Item = usize> {
    (at + 1..of_name.len()).take_while(|next| of_name[next - 1].may_be_edited)
}

/// Returns the later jobs with the same definition, or that may be edits of this one.
fn same_as(of_name: &[Generation], at: usize) -> impl Iterator<Item = usize> {
    let is_same = |next: &usize| {
        let (before, next) = (&of_name[next - 1], &of_name[*next]);
        before.may_be_edited || before.version == next.version
    };
    (at + 1..of_name.len()).take_while(is_same)
}

fn is_first(view: &View<'_>, attempt: &Attempt) -> bool {
    view.attempts_of(&attempt.run.id).first().is_some_and(|first| first.fence == attempt.fence)
}

/// Returns true if a run may have been claimed while its own job existed, and handed back before it
/// reported anything.
fn may_have_begun(view: &View<'_>, run: &RunName, of_name: &[Generation], own: &[usize]) -> bool {
    own.iter().any(|at| view.is_disturbed(run.due - SECOND, of_name[*at].removed.1))
}

/// Returns true if Redis lost data of this job shortly before the attempt, so that its definition
/// is unknown.
fn is_lost(view: &View<'_>, attempt: &Attempt) -> bool {
    let from = attempt.run.due.min(attempt.began) - LOST;
    view.evidence.faults.iter().any(|fault| {
        let is_named =
            |names: &std::collections::BTreeSet<String>| names.contains(&attempt.run.job);
        let is_loss = matches!(&fault.excuse, Some(Excuse::Forgot(names)) if is_named(names));
        is_loss && fault.from <= attempt.began && from <= fault.to
    })
}

fn meet(one: (Micros, Micros), other: (Micros, Micros)) -> bool {
    one.0 <= other.1 && other.0 <= one.1
}

/// Returns true if the job that planned a run was being removed, or had been removed, when the run
/// ended.
pub(super) fn was_removed(view: &View<'_>, recorded: &Recorded) -> bool {
    let Some(of_name) = view.evidence.generations.get(&recorded.run.job) else { return false };
    let finished = recorded.finished.unwrap_or(recorded.run.due);
    planned_by(view, of_name, &recorded.run)
        .iter()
        .any(|at| of_name[*at].removed.0 <= finished + SECOND / 20)
}

/// Returns true if a job is removed and added again.
pub(super) fn is_readded(view: &View<'_>, job: &str) -> bool {
    view.evidence.generations.contains_key(job)
}
