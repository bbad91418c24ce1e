//! `explain`: why a run did or did not start when it was due, in plain words.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

mod view;

use super::connect::connect;
use super::failure::CliFailure;
use super::global::Global;
use super::jobs::instance_names::{has_instances, instance_names};
use super::jobs::run_name::TargetName;
use super::jobs::target::{Target, find_run, no_such_job};
use super::next::zone_of;
use super::render::{Console, rfc3339};
use super::runs::past_time::parse_past_or_skipped;
use crate::cli::local_zone::local_zone;
use schedd::engine::explanation::{Ask, gather};
use schedd_core::domain::explain::{Facts, Subject, judge};

pub(crate) use view::audit_documents;

const EXAMPLES: &str = "\
Examples:
  schedctl explain backup
  schedctl explain backup --last
  schedctl explain backup --at 02:30
  schedctl explain backup --at 2026-12-24T02:30:00+01:00 --json
  schedctl explain backup@1790000000000

The answer has six parts. planned: the planned run, and the schedule or user that planned the run.
outcome: how the run ended, or what the run waits for. nodes: what each node did at that time.
timing: if the run started within 1 s after its due time, and the reason if not. rule: the rule that
decided, and where the rule is set. next: the next run.

A job with on = \"each-node\" is explained for each node; --json then prints a list.

The value of --at is a time as for add --at, or as the outputs of schedctl have it. A time without a
zone is in the zone of this host. A time of day or a weekday without a date means the last one
before now. A time that the clock skips means the end of the gap. Without --at and --last, the
present state of the job is explained, or the only run of a one-shot.";

/// Explains in plain words why a run did or did not start when it was due, even for jobs that are
/// no longer defined.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// Name of a job or id of a run
    #[arg(value_name = "JOB|RUN", add = super::shell::completion::jobs_and_runs())]
    target: String,
    /// Explain the occurrence at this time
    #[arg(long, value_name = "TIME", conflicts_with = "last")]
    at: Option<String>,
    /// Explain the last occurrence
    #[arg(long)]
    last: bool,
    /// Zone of --at and of the printed times [default: the zone of this host]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
}

/// Prints why a run did or did not start. The target is a run, the last or a given occurrence of a
/// job, or the present state of a job. Returns the exit code.
pub(crate) async fn explain(
    global: &Global,
    args: &ExplainArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let target = TargetName::parse(&args.target)?;
    if let (TargetName::Run(_), true) = (&target, args.last || args.at.is_some()) {
        let (run, job) = (&args.target, args.target.split('@').next().unwrap_or_default());
        return Err(CliFailure::Invalid(format!(
            "--at and --last select a run of a job: found run {run}, wanted the name of a job such as {job}"
        )));
    }
    let local = args.tz.as_deref().map(zone_of).transpose()?.unwrap_or_else(local_zone);
    let store = connect(global, console).await?;
    let (store, target) = target.find(&store).await?;
    let (name, ask) = match target {
        Target::Run(run) => {
            let job = run.job().clone();
            match find_run(&store, &run).await {
                Ok(found) => (job, Ask::Run(found.run)),
                // The ledger, a skipped range or a backfill may explain what happened to a run
                // without a record.
                Err(failure @ CliFailure::NotFound(_)) => {
                    match Box::pin(gather(&store, &job, &Ask::Run(run.clone()), Some(&local)))
                        .await?
                    {
                        Some(Facts {
                            subject:
                                Subject::NotDue { .. }
                                | Subject::Over { .. }
                                | Subject::Unrecorded { .. },
                            ..
                        })
                        | None => {
                            return Err(failure);
                        }
                        Some(_) => (job, Ask::Run(run)),
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
        Target::Job(name) => {
            let ask = match &args.at {
                Some(text) => {
                    let at = parse_past_or_skipped(text, store.now().await?, &local)
                        .map_err(|error| CliFailure::Invalid(format!("--at: {error}")))?;
                    console.note(&format!("at {} ({})", rfc3339(at.at, &local), local.name()));
                    if let Some(note) = &at.note {
                        console.warn(note);
                    }
                    Ask::At(at.at)
                }
                None if args.last => Ask::Last,
                None => Ask::Job,
            };
            (name, ask)
        }
    };
    let mut names = vec![name.clone()];
    if store.read_job(&name).await.ok().flatten().as_ref().is_some_and(has_instances) {
        names = instance_names(&store, &name).await?;
    }
    let (mut documents, mut count) = (Vec::new(), 0);
    for name in &names {
        let Some(facts) = Box::pin(gather(&store, name, &ask, Some(&local))).await? else {
            continue;
        };
        let findings = judge(&facts);
        if console.is_json() {
            documents.push(view::document(&facts, &findings));
        } else {
            if count > 0 {
                console.line("");
            }
            view::text(&facts, &findings, console);
        }
        count += 1;
    }
    match (count, names.as_slice()) {
        (0, [only]) if *only == name => return Err(no_such_job(&store, &name).await),
        (0, _) => console.note(&format!("job {name} has no node that serves its queue")),
        _ => {}
    }
    if console.is_json() {
        let is_on_each_node = names.as_slice() != [name.clone()];
        console.json(&if is_on_each_node { documents.into() } else { documents.remove(0) });
    }
    Ok(0)
}
