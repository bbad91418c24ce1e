//! `graph`: draws chains, as an indented tree, as DOT or as JSON.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::target::{job_name, no_such_job};
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::render::Console;
use schedd::engine::Definition;
use schedd_schedule::chain::chain_graph::ChainGraph;
use schedd_schedule::names::JobName;
use schedd_store::{JobRecord, Store};

/// The most jobs read in one call.
const BATCH: usize = 200;

const GRAPH_EXAMPLES: &str = "\
Examples:
  schedctl graph
  schedctl graph extract
  schedctl graph --dot | dot -Tsvg > chains.svg

A chain is a job with a schedule and the jobs that run after it (after, after_any, after_failed,
after_finished). Each child stands under each of its parents. What runs after a child is printed
once, where the child stands first.";

/// Draws the chains of jobs.
#[derive(Debug, clap::Args)]
#[command(after_help = GRAPH_EXAMPLES)]
pub(crate) struct GraphArgs {
    /// Draw only the chain of this job
    #[arg(value_name = "JOB", add = crate::cli::shell::completion::jobs())]
    job: Option<String>,
    /// Print the chains in the language of Graphviz
    #[arg(long)]
    dot: bool,
}

/// The chains to draw.
struct Chains {
    graph: ChainGraph,
    /// The jobs to draw, each with its schedule or parents as text.
    jobs: BTreeMap<JobName, String>,
}

/// Draws the chains. Returns the exit code.
pub(crate) async fn graph(
    global: &Global,
    args: &GraphArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    if args.dot && console.is_json() {
        return Err(CliFailure::Invalid(
            "--dot and --json: wanted one of them, because each prints another form".to_owned(),
        ));
    }
    let only = args.job.as_deref().map(job_name).transpose()?;
    let store = connect(global, console).await?;
    let chains = Chains::read(&store, only.as_ref()).await?;
    if console.is_json() {
        console.json(&chains.json());
    } else if args.dot {
        chains.dot(console);
    } else {
        chains.tree(console);
    }
    Ok(0)
}

impl Chains {
    /// Reads all chains, or only the chain of the job `only`.
    async fn read(store: &Store, only: Option<&JobName>) -> Result<Self, CliFailure> {
        let graph = store.read_chains().await?;
        let roots = graph.judge();
        let names: BTreeSet<JobName> = match (only, &roots) {
            (None, _) => graph
                .children()
                .flat_map(|job| graph.parents_of(job).chain([job]))
                .cloned()
                .collect(),
            (Some(job), Ok(roots)) => {
                let Some(root) = roots.get(job) else {
                    return Err(in_no_chain(store, job).await?);
                };
                let is_of_chain = |(_, other): &(&&JobName, &&JobName)| *other == root;
                roots.iter().filter(is_of_chain).map(|(job, _)| (*job).clone()).collect()
            }
            (Some(_), Err((job, fault))) => {
                return Err(CliFailure::Failed(format!("job {job}: {fault}")));
            }
        };
        let names: Vec<JobName> = names.into_iter().collect();
        let mut jobs = BTreeMap::new();
        for batch in names.chunks(BATCH) {
            for (name, record) in batch.iter().zip(store.read_jobs(batch).await?) {
                jobs.insert(name.clone(), schedule_of(record.ok().flatten()));
            }
        }
        Ok(Self { graph, jobs })
    }

    fn children_of(&self, job: &JobName) -> impl Iterator<Item = &JobName> {
        self.graph.children_of(job).into_iter().filter(|child| self.jobs.contains_key(*child))
    }

    /// Returns the jobs without parents. If the chains have a cycle, returns all jobs.
    fn tops(&self) -> Vec<&JobName> {
        let has_parents = |job: &&JobName| self.graph.parents_of(job).next().is_some();
        let tops: Vec<_> = self.jobs.keys().filter(|job| !has_parents(job)).collect();
        if tops.is_empty() { self.jobs.keys().collect() } else { tops }
    }

    fn tree(&self, console: &mut Console) {
        if self.jobs.is_empty() {
            console.note("no chains");
        }
        let mut drawn = BTreeSet::new();
        // The jobs still to draw, the next one last, each with its depth.
        let mut open: Vec<(&JobName, usize)> =
            self.tops().into_iter().rev().map(|job| (job, 0)).collect();
        while let Some((job, depth)) = open.pop() {
            let schedule = self.jobs.get(job).map_or("", String::as_str);
            console.line(format!("{:depth$}{job}  {schedule}", "", depth = depth * 2).trim_end());
            if drawn.insert(job) {
                let children: Vec<&JobName> = self.children_of(job).collect();
                open.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
            }
        }
    }

    fn dot(&self, console: &mut Console) {
        console.line("digraph schedd {");
        for (job, schedule) in &self.jobs {
            let schedule = schedule.replace('\\', "\\\\").replace('"', "\\\"");
            console.line(&format!("  \"{job}\" [label=\"{job}\\n{schedule}\"];"));
        }
        for job in self.jobs.keys() {
            for child in self.children_of(job) {
                console.line(&format!("  \"{job}\" -> \"{child}\";"));
            }
        }
        console.line("}");
    }

    fn json(&self) -> Value {
        let roots = self.graph.judge().unwrap_or_default();
        let names = |names: Vec<&JobName>| names.into_iter().map(JobName::as_str).collect();
        let job = |(job, schedule): (&JobName, &String)| {
            let children: Value = names(self.children_of(job).collect());
            let parents: Value = names(self.graph.parents_of(job).collect());
            json!({
                "job": job.as_str(),
                "schedule": schedule,
                "root": roots.get(job).map(|root| root.as_str()),
                "parents": parents,
                "children": children,
            })
        };
        self.jobs.iter().map(job).collect()
    }
}

/// Returns the schedule of a job as text. A job that is gone or unreadable is named as such.
fn schedule_of(record: Option<JobRecord>) -> String {
    match record.filter(JobRecord::is_live).map(Definition::of) {
        Some(Ok(definition)) => definition.schedule_text(),
        Some(Err(_)) => "unreadable".to_owned(),
        None => "does not exist".to_owned(),
    }
}

/// Returns the failure for a job that is in no chain.
async fn in_no_chain(store: &Store, job: &JobName) -> Result<CliFailure, CliFailure> {
    Ok(match store.read_job(job).await?.filter(JobRecord::is_live) {
        Some(_) => CliFailure::NotFound(format!(
            "job {job} is in no chain: it has no parents and no children"
        )),
        None => no_such_job(store, job).await,
    })
}
