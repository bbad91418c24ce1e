//! `export`: prints jobs, with their queues and groups, as a jobs file.
//!
//! Invariant: `check` accepts the printed file, and the file defines the same jobs on every host.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::target::{declared_in, find_job, job_name};
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::render::Console;
use schedd::engine::Definition;
use schedd_core::config;
use schedd_core::config::TableForm;
use schedd_core::domain::job::job_spec::JobSpec;
use schedd_core::domain::queue::queue_rules::QueueSettings;
use schedd_schedule::names::{GroupName, JobName, QueueName};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::ZoneName;
use schedd_store::{JobRecord, SourceKind, Store};

const EXAMPLES: &str = "\
Examples:
  schedctl export > jobs.toml
  schedctl export backup report
  schedctl export --all --json

Jobs declared in jobs files are exported only with --all. A job that runs after others is exported
with all jobs above it in its chain. A job with a clock schedule and no zone
gets the zone that is stored with the job. A one-shot whose time is past is written as a comment,
and so is a job with null in its payload. A unique key is also written as a comment, because a jobs
file cannot have unique keys. The values of env, headers, bodies and webhook_secret, which show
hides, are written unchanged: protect the file if they are secret.";

/// The reasons why a job is written as a comment.
const PAST: &str = "all times of this job are past";
const NULL: &str = "a jobs file cannot have null, which the payload of this job contains";
const CHILD: &str = "this job runs after a job that is written as a comment";

/// The number of jobs read in one call.
const PAGE: usize = 500;

/// Prints the jobs added by schedctl as a jobs file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArgs {
    /// Names of jobs [default: all jobs added by schedctl]
    #[arg(value_name = "JOB", add = crate::cli::shell::completion::jobs())]
    names: Vec<String>,
    /// Include jobs declared in jobs files
    #[arg(long)]
    all: bool,
}

/// A job to export: its name, its definition and its zone.
struct Exported {
    name: JobName,
    spec: JobSpec,
    kept_zone: ZoneName,
    form: TableForm,
}

/// Prints the chosen jobs as a jobs file. Returns the exit code.
pub(crate) async fn export(
    global: &Global,
    args: &ExportArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let names: Vec<JobName> =
        args.names.iter().map(|name| job_name(name)).collect::<Result<_, _>>()?;
    let store = connect(global, console).await?;
    let now = store.now().await?;
    let records = if names.is_empty() {
        all_jobs(&store, args, console).await?
    } else {
        named_jobs(&store, &names, args).await?
    };
    let records = with_parents(&store, records, args, console).await?;
    let (mut jobs, mut code) = (Vec::new(), 0);
    for record in records {
        match exported(record, now) {
            Ok(job) => jobs.push(job),
            Err(failure) => code = console.failure(&failure).max(code),
        }
    }
    jobs.sort_by(|left, right| left.name.cmp(&right.name));
    comment_children(&mut jobs);
    // A job that is printed only as a comment needs no queue in the file.
    let specs = || jobs.iter().filter(|job| job.form == TableForm::Table).map(|job| &job.spec);
    let queues = queues_of(&store, specs().map(|spec| spec.queue.clone()).collect()).await?;
    let mut groups = store.read_groups().await?;
    let wanted: BTreeSet<&GroupName> = specs().filter_map(|spec| spec.group.as_ref()).collect();
    groups.retain(|name, _| wanted.contains(name));
    for missing in
        wanted.into_iter().filter(|name| !groups.contains_key(*name)).cloned().collect::<Vec<_>>()
    {
        groups.insert(missing, schedd_core::domain::queue::group_rules::GroupSettings::Exclusive);
    }
    if console.is_json() {
        let tables = |tables: Vec<(String, Map<String, Value>)>| {
            Value::Object(tables.into_iter().map(|(name, keys)| (name, keys.into())).collect())
        };
        console.json(&json!({
            "jobs": tables(jobs.iter().map(|job| (job.name.to_string(), config::file_keys(&job.spec, &job.kept_zone))).collect()),
            "queues": tables(queues.iter().map(|(name, queue)| (name.to_string(), config::queue_keys(queue))).collect()),
            "groups": tables(groups.iter().map(|(name, group)| (name.to_string(), config::group_keys(group))).collect()),
        }));
        return Ok(code);
    }
    let queues = queues.iter().map(|(name, queue)| config::queue_table(name, queue));
    let groups = groups.iter().map(|(name, group)| config::group_table(name, group));
    let jobs =
        jobs.iter().map(|job| config::job_table(&job.name, &job.spec, &job.kept_zone, job.form));
    let tables: Vec<String> = queues.chain(groups).chain(jobs).collect();
    console.bytes(tables.join("\n").as_bytes());
    if tables.is_empty() {
        console.note("no jobs were added with schedctl add; --all also exports the jobs of files");
    }
    Ok(code)
}

/// Reads the jobs of the namespace and of its shards. Fails if a shard does not answer, because the
/// file would lack its jobs.
async fn all_jobs(
    store: &Store,
    args: &ExportArgs,
    console: &mut Console,
) -> Result<Vec<JobRecord>, CliFailure> {
    let mut records: BTreeMap<JobName, (Option<u32>, JobRecord)> = BTreeMap::new();
    for place in store.with_shards().await? {
        let mut offset = 0;
        loop {
            let names = place.list_jobs(offset, PAGE).await?;
            offset += names.len();
            for record in place.read_jobs(&names).await? {
                let Some(record) = record?.filter(|record| is_exported(record, args)) else {
                    continue;
                };
                // A job that runs meanwhile may be listed again.
                let name = record.name.clone();
                let first = records.entry(name).or_insert((place.shard_number(), record));
                if first.0 != place.shard_number() {
                    console.warn(&format!(
                        "job {} is in several namespaces; that in the namespace {} is not exported",
                        first.1.name,
                        place.namespace()
                    ));
                }
            }
            if names.len() < PAGE {
                break;
            }
        }
    }
    Ok(records.into_values().map(|(_, record)| record).collect())
}

fn is_exported(record: &JobRecord, args: &ExportArgs) -> bool {
    record.is_live()
        && !record.name.is_hidden()
        && record.name.instance().is_none()
        && (args.all || record.kind == SourceKind::Api)
}

async fn named_jobs(
    store: &Store,
    names: &[JobName],
    args: &ExportArgs,
) -> Result<Vec<JobRecord>, CliFailure> {
    let mut records = Vec::new();
    for name in names {
        let record = find_job(&store.place_of_job(name).await?, name).await?;
        if !record.is_live() {
            return Err(CliFailure::Conflict(format!(
                "job {name} is over, so it cannot be exported"
            )));
        }
        if record.kind == SourceKind::File && !args.all {
            let place = declared_in(&record);
            return Err(CliFailure::Conflict(format!(
                "job {name} is declared in {place}; use --all to export the job"
            )));
        }
        records.push(record);
    }
    Ok(records)
}

/// Adds the jobs after which the jobs of `records` run, because a jobs file has the parents of its
/// jobs. Names each added job in a note.
async fn with_parents(
    store: &Store,
    mut records: Vec<JobRecord>,
    args: &ExportArgs,
    console: &mut Console,
) -> Result<Vec<JobRecord>, CliFailure> {
    let graph = store.read_chains().await?;
    let mut open: Vec<JobName> = records.iter().map(|record| record.name.clone()).collect();
    let mut known: BTreeSet<JobName> = open.iter().cloned().collect();
    while let Some(job) = open.pop() {
        for parent in graph.parents_of(&job).filter(|parent| known.insert((*parent).clone())) {
            let read = named_jobs(store, std::slice::from_ref(parent), args).await;
            records.extend(read.map_err(|failure| match failure {
                CliFailure::Conflict(why) | CliFailure::NotFound(why) => {
                    CliFailure::Conflict(format!("job {job} runs after job {parent}: {why}"))
                }
                other => other,
            })?);
            console.note(&format!("job {parent} is exported too, because job {job} runs after it"));
            open.push(parent.clone());
        }
    }
    Ok(records)
}

/// Makes each job that runs after a job in a comment a comment too, because the file lacks its
/// parent.
fn comment_children(jobs: &mut [Exported]) {
    loop {
        let over: BTreeSet<JobName> = jobs
            .iter()
            .filter(|job| job.form != TableForm::Table)
            .map(|job| job.name.clone())
            .collect();
        let runs_after_one = |job: &&mut Exported| {
            let parents = job.spec.schedule.parents();
            job.form == TableForm::Table
                && parents.is_some_and(|parents| !parents.jobs.is_disjoint(&over))
        };
        let children: Vec<_> = jobs.iter_mut().filter(runs_after_one).collect();
        if children.is_empty() {
            return;
        }
        for job in children {
            job.form = TableForm::Comment(CHILD);
        }
    }
}

fn exported(record: JobRecord, now: UnixMillis) -> Result<Exported, CliFailure> {
    let name = record.name.clone();
    let definition =
        Definition::of(record).with_context(|| format!("job {name} cannot be exported"))?;
    let spec = definition.spec;
    let is_once = matches!(spec.schedule, Schedule::At(_) | Schedule::Instants(_));
    let is_over = is_once && definition.timetable.next_after(now).is_none();
    let kept_zone = definition.timetable.zone().name().clone();
    let form = if is_over {
        TableForm::Comment(PAST)
    } else if config::has_null(&spec) {
        TableForm::Comment(NULL)
    } else {
        TableForm::Table
    };
    Ok(Exported { name, spec, kept_zone, form })
}

/// Returns the settings of the queues that the jobs use. The queue `default` is left out if its
/// settings are the default settings.
async fn queues_of(
    store: &Store,
    names: BTreeSet<QueueName>,
) -> Result<Vec<(QueueName, QueueSettings)>, CliFailure> {
    let names: Vec<QueueName> = names.into_iter().collect();
    let settings = store.read_queue_settings(&names).await?;
    let queues = names.into_iter().zip(settings).map(|(name, record)| (name, record.settings));
    Ok(queues
        .filter(|(name, settings)| {
            *name != QueueName::default_queue() || *settings != QueueSettings::default()
        })
        .collect())
}
