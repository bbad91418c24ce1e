//! The graph of jobs and their parents, and its check: each chain has one root and no cycle.
//!
//! The root of a job is the job at the top of its chain, which has no parents itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::JobName;
use crate::time::unix_millis::UnixMillis;

/// The parents of each job that has parents.
#[derive(Debug, Clone, Default)]
pub struct ChainGraph {
    parents: BTreeMap<JobName, BTreeSet<JobName>>,
    /// The links that a change of a child removed. Occurrences that began earlier still have them.
    pub former: Vec<FormerLink>,
}

/// A link from a parent to a child that a change of the child removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerLink {
    /// The former parent.
    pub parent: JobName,
    /// The child.
    pub child: JobName,
    /// The time of the change.
    pub until: UnixMillis,
}

impl FormerLink {
    /// Parses an entry of `chains` with a former link, such as `extract load 1790000000000`.
    pub fn read(entry: &str) -> Option<Self> {
        let (link, until) = entry.rsplit_once(' ')?;
        let (parent, child) = link.split_once(' ')?;
        Some(Self {
            parent: parent.parse().ok()?,
            child: child.parse().ok()?,
            until: until.parse().ok().and_then(UnixMillis::new)?,
        })
    }
}

/// The reason why the parents of a job are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// The chain leads back to the job.
    #[error("the chain is a circle: {}; remove one of these parents", path(.0))]
    Cycle(Vec<JobName>),
    /// The parents of the job belong to two chains.
    #[error(
        "the parents have two roots, {0} and {1}: wanted parents of one chain, with one job at its top"
    )]
    TwoRoots(JobName, JobName),
    /// A parent has an instance on each node, so it has no single end.
    #[error(
        "parent {0} runs on each node (on = \"each-node\"), so an occurrence of it has no single end: wanted a parent that runs on one node"
    )]
    ParentOnEachNode(JobName),
    /// A job has too many children.
    #[error("{0} has {1} children, wanted at most {most}", most = ChainGraph::MOST_CHILDREN)]
    TooManyChildren(JobName, usize),
}

/// Returns the jobs of a cycle as text, such as `a -> b -> a`.
fn path(jobs: &[JobName]) -> String {
    jobs.iter().map(JobName::as_str).collect::<Vec<_>>().join(" -> ")
}

impl ChainGraph {
    /// The most children of a job. The script that ends a run writes an entry for each child.
    pub const MOST_CHILDREN: usize = 250;

    /// Sets the parents of `job`. Without parents, the job is a root.
    pub fn set(&mut self, job: JobName, parents: BTreeSet<JobName>) {
        if parents.is_empty() {
            self.parents.remove(&job);
        } else {
            self.parents.insert(job, parents);
        }
    }

    /// Adds a parent of `job`.
    pub fn add(&mut self, job: JobName, parent: JobName) {
        self.parents.entry(job).or_default().insert(parent);
    }

    /// Returns the parents of `job`. The result is empty for a root.
    pub fn parents_of(&self, job: &JobName) -> impl Iterator<Item = &JobName> {
        self.parents.get(job).into_iter().flatten()
    }

    /// Returns the children of `job`.
    pub fn children_of(&self, job: &JobName) -> Vec<&JobName> {
        let has_parent = |(_, parents): &(&JobName, &BTreeSet<JobName>)| parents.contains(job);
        self.parents.iter().filter(has_parent).map(|(child, _)| child).collect()
    }

    /// Returns the jobs that have parents.
    pub fn children(&self) -> impl Iterator<Item = &JobName> {
        self.parents.keys()
    }

    /// Returns these jobs and all jobs above them, also by former links.
    pub fn at_and_above(&self, jobs: &BTreeSet<JobName>) -> BTreeSet<JobName> {
        let (mut found, mut open) = (jobs.clone(), Vec::from_iter(jobs));
        while let Some(job) = open.pop() {
            let former = self.former.iter().filter(|link| link.child == *job);
            for parent in self.parents_of(job).chain(former.map(|link| &link.parent)) {
                if found.insert(parent.clone()) {
                    open.push(parent);
                }
            }
        }
        found
    }

    /// Returns the jobs that have children but no parents.
    pub fn roots(&self) -> BTreeSet<&JobName> {
        let named = self.parents.values().flatten();
        named.filter(|parent| !self.parents.contains_key(*parent)).collect()
    }

    /// Returns the root of each job of a chain. Fails with the first fault: a job with parents, and
    /// the reason why these are refused.
    pub fn judge(&self) -> Result<BTreeMap<&JobName, &JobName>, (JobName, ChainFault)> {
        let mut counts: BTreeMap<&JobName, usize> = BTreeMap::new();
        for (job, parents) in &self.parents {
            for parent in parents {
                let count = counts.entry(parent).or_default();
                *count += 1;
                if *count > Self::MOST_CHILDREN {
                    let fault = ChainFault::TooManyChildren(parent.clone(), *count);
                    return Err((job.clone(), fault));
                }
            }
        }
        let mut roots: BTreeMap<&JobName, &JobName> = BTreeMap::new();
        for job in self.parents.keys() {
            self.judge_from(job, &mut roots)?;
        }
        Ok(roots)
    }

    /// Adds the roots of `job` and of all jobs above it to `roots`.
    fn judge_from<'a>(
        &'a self,
        job: &'a JobName,
        roots: &mut BTreeMap<&'a JobName, &'a JobName>,
    ) -> Result<(), (JobName, ChainFault)> {
        // The way from `job` upwards. The loop needs no recursion, because a chain may be very long.
        let mut way: Vec<&JobName> = vec![job];
        let mut on_way: BTreeSet<&JobName> = BTreeSet::from([job]);
        while let Some(&top) = way.last() {
            let open = self.parents_of(top).find(|parent| !roots.contains_key(*parent));
            if let Some(parent) = open {
                if !on_way.insert(parent) {
                    let from = way.iter().position(|one| *one == parent).unwrap_or(0);
                    let cycle = way[from..].iter().copied().chain([parent]).cloned().collect();
                    return Err((top.clone(), ChainFault::Cycle(cycle)));
                }
                way.push(parent);
                continue;
            }
            let above: BTreeSet<&JobName> =
                self.parents_of(top).filter_map(|parent| roots.get(parent).copied()).collect();
            let mut above = above.into_iter();
            let root = above.next().unwrap_or(top);
            if let Some(other) = above.next() {
                return Err((top.clone(), ChainFault::TwoRoots(root.clone(), other.clone())));
            }
            roots.insert(top, root);
            way.pop();
            on_way.remove(top);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> JobName {
        text.parse().unwrap()
    }

    fn graph(edges: &[(&str, &str)]) -> ChainGraph {
        let mut graph = ChainGraph::default();
        for (job, parent) in edges {
            graph.add(name(job), name(parent));
        }
        graph
    }

    #[test]
    fn each_job_of_a_chain_has_the_root_at_its_top() {
        let chain = graph(&[("b", "a"), ("c", "a"), ("d", "b"), ("d", "c")]);
        let roots = chain.judge().unwrap();
        assert!(["b", "c", "d"].iter().all(|job| *roots[&name(job)] == name("a")), "{roots:?}");
        assert_eq!(chain.children_of(&name("a")), [&name("b"), &name("c")]);
        assert_eq!(chain.roots(), BTreeSet::from([&name("a")]));
    }

    #[test]
    fn the_jobs_above_a_job_are_those_of_present_and_former_links() {
        let mut chain = graph(&[("c", "b"), ("b", "a"), ("x", "a")]);
        chain.former.extend(FormerLink::read("r b 5"));
        let above = chain.at_and_above(&[name("c")].into());
        assert_eq!(above, ["a", "b", "c", "r"].map(name).into());
        assert_eq!(FormerLink::read("r b"), None);
        assert_eq!(FormerLink::read("r b x"), None);
    }

    #[test]
    fn a_cycle_is_refused_with_its_path() {
        let (job, fault) = graph(&[("a", "b"), ("b", "a")]).judge().unwrap_err();
        assert_eq!(job, name("b"));
        assert!(fault.to_string().contains("a -> b -> a"), "{fault}");
        let (_, fault) = graph(&[("a", "a")]).judge().unwrap_err();
        assert!(fault.to_string().contains("a -> a"), "{fault}");
    }

    #[test]
    fn two_roots_are_refused_with_both_names() {
        let (job, fault) = graph(&[("c", "a"), ("c", "b"), ("b", "r")]).judge().unwrap_err();
        assert_eq!((job, fault), (name("c"), ChainFault::TwoRoots(name("a"), name("r"))));
    }

    #[test]
    fn a_chain_of_many_thousand_jobs_is_judged() {
        let mut chain = ChainGraph::default();
        for at in 0..50_000 {
            chain.add(name(&format!("j{at}")), name(&format!("j{}", at + 1)));
        }
        assert_eq!(*chain.judge().unwrap()[&name("j0")], name("j50000"));
    }
}
