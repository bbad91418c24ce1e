//! The check of a job's links to its parents, and of its occurrences that wait for parents.

use std::collections::BTreeSet;

use super::inconsistency::{FindingKind, FindingSubject, Inconsistency};
use schedd_schedule::chain::chain_end::ParentEnd;
use schedd_schedule::names::{JobName, RunId};

/// The place of a finding about occurrences that wait for parents.
const STATE: &str = "chain";

/// The facts of a job's links to its parents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainPlaces {
    /// The name of the job.
    pub name: JobName,
    /// The rule and the parents by the definition of a live job. Empty for any other job.
    pub wanted: String,
    /// The rule and the parents in the record of the job. Empty if the record has none.
    pub stored: String,
    /// The parents that the index `chains` has for the job.
    pub listed: BTreeSet<JobName>,
    /// The occurrences of the job that are kept as waiting for parents, although they wait no
    /// longer. Each is named by the child's run.
    pub strays: Vec<RunId>,
    /// The ends that occurrences of the job lack although no run above the job goes on.
    pub lost_ends: Vec<ParentEnd>,
}

/// Returns the findings about the links of one job.
pub fn judge_chain(facts: &ChainPlaces) -> Vec<Inconsistency> {
    let subject = || FindingSubject::Job(facts.name.clone());
    let wanted: BTreeSet<&str> = facts.wanted.split(' ').skip(1).collect();
    let listed: BTreeSet<&str> = facts.listed.iter().map(JobName::as_str).collect();
    let mut found = Vec::new();
    if let Some(parent) = wanted.difference(&listed).next() {
        let why = format!("its parent is {parent}");
        found.push(Inconsistency::missing(subject(), "chains", "chains", why));
    }
    if let Some(parent) = listed.difference(&wanted).next() {
        let why = format!("{parent} is not its parent");
        found.push(Inconsistency::extra(subject(), "chains", "chains", why));
    }
    if facts.stored != facts.wanted {
        let text = format!(
            "has the parents {:?} in its record, but {:?} in its definition",
            facts.stored, facts.wanted
        );
        found.push(Inconsistency::wrong(subject(), "after", text));
    }
    if let Some(first) = facts.strays.first() {
        let text = format!(
            "has occurrences that are kept as waiting for parents but wait no longer (number: {}; first: {first})",
            facts.strays.len()
        );
        let finding = Inconsistency::new(FindingKind::Extra, subject(), STATE, text);
        found.push(finding.fixed_by("removes these occurrences"));
    }
    if let Some(first) = facts.lost_ends.first() {
        let text = format!(
            "has an occurrence that waits for parents in vain, because no run of the chain goes on for it (run {}, waits for {})",
            first.run.of_job(facts.name.clone()),
            first.job
        );
        let finding = Inconsistency::new(FindingKind::Missing, subject(), STATE, text);
        found.push(finding.fixed_by("gives the missing ends, so that the occurrence ends"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(wanted: &str, stored: &str, listed: &[&str]) -> ChainPlaces {
        ChainPlaces {
            name: "c".parse().unwrap(),
            wanted: wanted.to_owned(),
            stored: stored.to_owned(),
            listed: listed.iter().map(|name| name.parse().unwrap()).collect(),
            strays: Vec::new(),
            lost_ends: Vec::new(),
        }
    }

    #[test]
    fn each_difference_between_the_links_and_the_definition_is_a_finding() {
        let codes = |facts: &ChainPlaces| {
            judge_chain(facts).iter().map(Inconsistency::code).collect::<Vec<_>>()
        };
        assert_eq!(codes(&facts("after a b", "after a b", &["a", "b"])), [] as [String; 0]);
        assert_eq!(codes(&facts("", "", &[])), [] as [String; 0]);
        assert_eq!(codes(&facts("after a", "after a", &["b"])), ["missing:chains", "extra:chains"]);
        assert_eq!(codes(&facts("after a", "after_any a", &["a"])), ["wrong:after"]);
        let strays = vec!["c@5".parse().unwrap()];
        assert_eq!(codes(&ChainPlaces { strays, ..facts("", "", &[]) }), ["extra:chain"]);
        let lost_ends = ParentEnd::read_all(r#"[{"job":"a","run_id":"a@5","state":"skipped"}]"#);
        assert_eq!(codes(&ChainPlaces { lost_ends, ..facts("", "", &[]) }), ["missing:chain"]);
    }
}
