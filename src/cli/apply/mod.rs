//! `diff` and `apply`: comparing a jobs file with the live jobs, and applying the file.
//!
//! Invariant: a file with a problem changes nothing. Only the jobs, queues and groups of the file
//! are compared and applied. The other sections are settings of a node.

mod change_report;

use std::path::{Path, PathBuf};

use serde_json::json;

use super::connect::connect;
use super::failure::CliFailure;
use super::global::Global;
use super::render::{Console, one_line};
use crate::cli::local_zone::local_zone;
use schedd::engine::planning::file_change;
use schedd::engine::planning::file_change::{
    AppliedChange, Comparison, LastChange, PlannedChange, Prune, sections_of,
};
use schedd_core::config;
use schedd_core::config::{
    Config, DaemonConfig, FilePlace, HistoryConfig, OutputConfig, Rendering, ServingConfig,
};
use schedd_core::domain::name::job_source::SourceName;
use schedd_schedule::names::NodeName;
use schedd_store::Store;

const DIFF_EXAMPLES: &str = "\
Examples:
  schedctl diff jobs.toml
  schedctl diff crm/jobs.toml --source crm
  schedctl diff /etc/schedd/jobs.toml --node web1

Lines begin with + (would be added), ~ (would be changed, key by key), - (no longer in the file) or
! (not applied: a job added with schedctl add has the name). With --node, jobs that another
file changed after the node applied this definition are reported: a reload does not change them.
Values of env and header fields, bodies and passwords are not shown. Exit codes: 0 no difference;
1 a difference; 78 the file has problems.";

const APPLY_EXAMPLES: &str = "\
Examples:
  schedctl apply crm/jobs.toml --source crm --dry-run
  schedctl apply crm/jobs.toml --source crm --prune

The jobs, queues and groups of the file are stored under the name of their source: --source, else
the name of the file without its extension. A job that is no longer in the file stays and is listed;
--prune removes the job, unless another file has it. If another file defines a job differently, the
last change wins. Jobs added with schedctl add are never changed: if the file has a job of the same
name, that job is not applied, and the exit code is 4. A file with problems changes nothing.";

/// Shows the changes that applying a jobs file would make.
#[derive(Debug, clap::Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub(crate) struct DiffArgs {
    /// The jobs file
    file: PathBuf,
    /// Name under which the file was applied [default: the file's name without its ending]
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Compare with the jobs that this node read from its own file: show what its reload would
    /// change
    #[arg(long, value_name = "NODE", conflicts_with = "source")]
    node: Option<String>,
}

/// Applies a jobs file that no node reads: stores its jobs, queues and groups in Redis.
#[derive(Debug, clap::Args)]
#[command(after_help = APPLY_EXAMPLES)]
pub(crate) struct ApplyArgs {
    /// The jobs file
    file: PathBuf,
    /// Name under which the jobs of the file are stored [default: the file's name without its
    /// ending]
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Only print the changes, without making them
    #[arg(long)]
    dry_run: bool,
    /// Remove jobs that the file declared before and no longer declares
    #[arg(long)]
    prune: bool,
}

impl DiffArgs {
    /// Returns the path of the jobs file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }
}

impl ApplyArgs {
    /// Returns the path of the jobs file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }
}

/// Compares a jobs file with the live jobs and prints the differences. Returns the exit code.
pub(crate) async fn diff(
    global: &Global,
    args: &DiffArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let source = match &args.node {
        Some(node) => SourceName::from(
            &node
                .parse::<NodeName>()
                .map_err(|error| CliFailure::Invalid(format!("--node: {error}")))?,
        ),
        None => source_of(args.source.as_deref(), &args.file)?,
    };
    let read = Read::of(global, &args.file, console)?;
    let store = connect(global, console).await?;
    if args.node.is_some() {
        known(&store, &source).await?;
    }
    let said = read.said(&source);
    let comparison = file_change::compare(&store, &said).await?;
    // Jobs missing from the file are shown as removed: a node removes them at its reload, and
    // `apply` removes them with `--prune`.
    change_report::comparison(&comparison, &said, Prune::Yes, console);
    if console.is_json() {
        console.json(&change_report::document(&read.file, &said, &comparison, &[]));
    }
    let differs = comparison.differs(Prune::Yes);
    if !differs && !console.is_json() {
        console.note("no differences: applying the file would change nothing");
    }
    Ok(u8::from(differs))
}

/// Fails unless a node has the name `source`, or a job comes from the file of a node with this
/// name.
async fn known(store: &Store, source: &SourceName) -> Result<(), CliFailure> {
    let (_, nodes) = store.list_nodes().await?;
    if nodes.iter().any(|node| node.name == source.as_str())
        || !store.list_source(source).await?.is_empty()
    {
        return Ok(());
    }
    let namespace = store.namespace();
    Err(CliFailure::NotFound(format!(
        "no node {source} is known in namespace {namespace}; schedctl nodes lists the known nodes"
    )))
}

/// Applies a jobs file and prints the changes. Returns the exit code.
pub(crate) async fn apply(
    global: &Global,
    args: &ApplyArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let source = source_of(args.source.as_deref(), &args.file)?;
    let read = Read::of(global, &args.file, console)?;
    let prune = if args.prune { Prune::Yes } else { Prune::No };
    let store = connect(global, console).await?;
    let said = read.said(&source);
    read.note_what_is_left(console);
    let comparison = file_change::compare(&store, &said).await?;
    let done = if args.dry_run {
        Vec::new()
    } else {
        carry_out(&store, &said, &comparison, prune).await?
    };
    change_report::comparison(&comparison, &said, prune, console);
    change_report::changes(&done, console);
    if console.is_json() {
        let mut document = change_report::document(&read.file, &said, &comparison, &done);
        document["dry_run"] = json!(args.dry_run);
        console.json(&document);
    } else if !console.is_quiet() {
        console.line(&change_report::summary(&comparison, &said, prune, args.dry_run));
    }
    Ok(worst(&comparison, &done))
}

async fn carry_out(
    store: &Store,
    said: &LastChange<'_>,
    comparison: &Comparison,
    prune: Prune,
) -> Result<Vec<AppliedChange>, CliFailure> {
    Ok(file_change::apply(store, &local_zone(), said, comparison, prune).await?)
}

/// Returns the exit code: 1 if a change failed, else 4 if a job's name belongs to a job added with
/// `schedctl add`, else 0.
fn worst(comparison: &Comparison, done: &[AppliedChange]) -> u8 {
    if done.iter().any(|done| matches!(done.change, PlannedChange::Failed(_))) {
        return 1;
    }
    let is_name_taken =
        comparison.jobs.iter().any(|job| job.standing == file_change::ApplyState::NameTaken);
    if is_name_taken || done.iter().any(|done| matches!(done.change, PlannedChange::NameTaken)) {
        4
    } else {
        0
    }
}

/// Returns the source name for the jobs of a file: the name `named`, or else the file's name
/// without its ending.
fn source_of(named: Option<&str>, file: &Path) -> Result<SourceName, CliFailure> {
    let stem =
        || file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name = named.map_or_else(|| NodeName::from_host_name(&stem()).to_string(), str::to_owned);
    SourceName::applied(&name).map_err(|error| CliFailure::Invalid(format!("--source: {error}")))
}

/// The content of a jobs file that has no problems.
struct Read {
    file: String,
    config: Config,
}

impl Read {
    fn of(global: &Global, path: &Path, console: &mut Console) -> Result<Self, CliFailure> {
        let file = one_line(&path.display().to_string());
        let zone = local_zone();
        let config = match &global.request {
            // A file of the sender of a request is not on this host.
            Some(request) => {
                let files = request.files();
                let text = files.get(&*path.to_string_lossy()).map_or("", String::as_str);
                config::compile_sent_text(text, &file, files, &zone)
            }
            None => config::read_file(&FilePlace::named(path), &zone),
        };
        let config = config.map_err(|error| {
            CliFailure::Config(
                error.rendered(Rendering::Lines).lines().map(str::to_owned).collect(),
            )
        })?;
        for warning in &config.warnings {
            console.warn(&format!("{file}: {warning}"));
        }
        Ok(Self { file, config })
    }

    fn said<'a>(&'a self, source: &'a SourceName) -> LastChange<'a> {
        LastChange { source, jobs: &self.config.jobs, sections: sections_of(&self.config) }
    }

    fn note_what_is_left(&self, console: &mut Console) {
        let Config { daemon, serving, history, output, .. } = &self.config;
        let is_plain = *daemon == DaemonConfig::default()
            && *serving == ServingConfig::default()
            && *history == HistoryConfig::default()
            && *output == OutputConfig::default();
        if !is_plain {
            console
                .note(&format!("{}: [daemon], [history] and [output] are settings of a node, so apply ignores them", self.file));
        }
    }
}
