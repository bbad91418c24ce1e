//! The compiler of a job's parents: `after`, `after_any`, `after_failed` or `after_finished`.

use std::collections::BTreeSet;

use crate::config::syntax::problem::{Problems, nearest, quoted};
use crate::config::syntax::reader::{Spot, TableReader};
use schedd_schedule::chain::chain_graph::{ChainFault, ChainGraph};
use schedd_schedule::chain::parents::{ParentRule, Parents};
use schedd_schedule::names::JobName;

/// The keys that name the parents of a job.
const KEYS: [&str; 4] = ["after", "after_any", "after_failed", "after_finished"];
/// A value of such a key in messages.
const EXAMPLE: &str = "extract";

/// Notes a fault for a table that has parents beside a schedule, or two rules for its parents.
/// `schedule` are the keys that give a job its schedule or parents. Returns true if the table has
/// such a fault.
pub(super) fn refuse_parents_beside(
    table: &TableReader<'_>,
    schedule: &[&'static str],
    problems: &mut Problems,
) -> bool {
    let Some(key) = KEYS.into_iter().find(|key| table.get(key).is_some()) else { return false };
    let others = schedule.iter().chain(&["in"]).copied();
    let other = others.filter(|other| *other != key).find_map(|key| Some((key, table.get(key)?)));
    let Some((other, spot)) = other else { return false };
    let why = if KEYS.contains(&other) {
        "a job has one rule for its parents"
    } else {
        "a job with parents runs when they have ended"
    };
    spot.fault(
        problems,
        format!("found {key} and {other} together, but {why}: remove one of them"),
    );
    true
}

/// Returns the rule of the parents that `table` names, and the place of their names. Returns `None`
/// if the table names no parents.
pub(super) fn parents_in<'t>(table: &TableReader<'t>) -> Option<(ParentRule, Spot<'t>)> {
    ParentRule::ALL.into_iter().find_map(|(rule, key)| Some((rule, table.get(key)?)))
}

/// Compiles the parents at `spot`. Returns `None` if a fault was noted.
pub(super) fn compile_parents(
    (rule, spot): &(ParentRule, Spot<'_>),
    problems: &mut Problems,
) -> Option<Parents> {
    compile_names(spot, problems).map(|jobs| Parents { rule: *rule, jobs })
}

fn compile_names(spot: &Spot<'_>, problems: &mut Problems) -> Option<BTreeSet<JobName>> {
    let names: Vec<JobName> = match spot.as_items() {
        Some(items) => {
            let read: Vec<_> = items.map(|item| item.parsed(EXAMPLE, problems)).collect();
            read.into_iter().collect::<Option<_>>()?
        }
        None if spot.as_text().is_some() => vec![spot.parsed(EXAMPLE, problems)?],
        None => return spot.wanted(problems, "names of jobs such as [\"extract\", \"load\"]"),
    };
    if let Some(name) = names.iter().find(|name| name.as_str().contains('/')) {
        spot.fault(
            problems,
            format!("found {}, wanted names of jobs without /", quoted(name.as_str())),
        );
        return None;
    }
    let count = names.len();
    let jobs: BTreeSet<JobName> = names.into_iter().collect();
    if jobs.len() < count {
        spot.fault(problems, "found a job twice, wanted each parent once");
        return None;
    }
    if jobs.is_empty() || count > Parents::MOST {
        spot.fault(problems, format!("found {count} parents, wanted 1 to {}", Parents::MOST));
        return None;
    }
    Some(jobs)
}

/// The jobs of a file, as far as the check of its chains needs them.
#[derive(Default)]
pub(crate) struct FileChains {
    graph: ChainGraph,
    /// The jobs of the file, also those with a fault.
    declared: BTreeSet<JobName>,
    on_each_node: BTreeSet<JobName>,
}

impl FileChains {
    /// Adds a job of the file.
    pub(crate) fn declare(&mut self, job: &JobName) {
        self.declared.insert(job.clone());
    }

    /// Adds the parents of `job`, which has no fault.
    pub(crate) fn add(&mut self, job: &JobName, parents: Option<&Parents>, is_on_each_node: bool) {
        if let Some(parents) = parents {
            self.graph.set(job.clone(), parents.jobs.clone());
        }
        if is_on_each_node {
            self.on_each_node.insert(job.clone());
        }
    }

    /// Notes a fault for each job whose parents the file lacks, and for chains with a cycle, two
    /// roots or too many children, at most `MOST_FAULTS`. `jobs` is the table of all jobs.
    pub(crate) fn refuse_broken(&self, jobs: Option<&TableReader<'_>>, problems: &mut Problems) {
        let Some(jobs) = jobs else { return };
        // The links of jobs with a fault are removed here, so that the other chains are judged too.
        let mut sound = self.graph.clone();
        for job in self.graph.children() {
            for parent in self.graph.parents_of(job) {
                let fault = if !self.declared.contains(parent) {
                    self.unknown(parent)
                } else if self.on_each_node.contains(parent) {
                    ChainFault::ParentOnEachNode(parent.clone()).to_string()
                } else {
                    continue;
                };
                refuse(jobs, job, fault, problems);
                sound.set(job.clone(), BTreeSet::new());
            }
        }
        for _ in 0..MOST_FAULTS {
            let Err((job, fault)) = sound.judge() else { return };
            refuse(jobs, &job, fault.to_string(), problems);
            sound.set(job, BTreeSet::new());
            if matches!(fault, ChainFault::TooManyChildren(..)) {
                return;
            }
        }
    }

    fn unknown(&self, parent: &JobName) -> String {
        let names = self.declared.iter().map(JobName::as_str);
        let hint = match nearest(parent.as_str(), names) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => format!("add [jobs.{parent}] to this file, or remove the name"),
        };
        format!("parent {} is no job of this file: {hint}", quoted(parent.as_str()))
    }
}

/// The most faults of whole chains that are noted. Each needs another look at all chains.
const MOST_FAULTS: usize = 20;

/// Notes a fault at the parents of `job`.
fn refuse(jobs: &TableReader<'_>, job: &JobName, why: String, problems: &mut Problems) {
    let table = jobs.get(job.as_str());
    let table = table.as_ref().and_then(Spot::as_table);
    if let Some(spot) = table.and_then(|table| KEYS.into_iter().find_map(|key| table.get(key))) {
        spot.fault(problems, why);
    }
}
