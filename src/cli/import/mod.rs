//! `import crontab`: writes a jobs file with the jobs of crontabs.
//!
//! Invariant: each line of the crontab is carried over, or reported with the reason. `check` accepts
//! the written file.
//!
//! The crontabs come from `crontab_source`. `crontab_line` parses their lines with `crontab_field`,
//! `crontab_setting` and `stdin_split`. `imported_job` makes jobs of them, `imported_file` writes
//! them, and `schedule_proof` compares them with `crontab_times`.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

mod command_name;
mod crontab_field;
mod crontab_line;
mod crontab_setting;
mod crontab_source;
mod crontab_times;
mod imported_crontab;
mod imported_file;
mod imported_job;
mod mail_notice;
mod schedule_proof;
mod stdin_split;
mod toml_text;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use super::failure::CliFailure;
use super::next::own_now;
use super::render::Console;
use crate::cli::local_zone::local_zone;
use crontab_line::UserColumn;
use crontab_source::CrontabText;
use imported_crontab::ImportedCrontab;
use schedd_schedule::names::{IdError, NodeName};
use schedule_proof::{ComparedJob, compare};

pub(crate) const IMPORT_HELP: &str = "\
Examples:
  schedctl import crontab > jobs.toml
  schedctl import crontab --system --compare 50 -o jobs.toml";

const CRONTAB_EXAMPLES: &str = "\
Examples:
  schedctl import crontab > jobs.toml
  schedctl import crontab my.crontab -o jobs.toml
  crontab -l | schedctl import crontab - --compare 50 > jobs.toml
  sudo schedctl import crontab --user www-data -o jobs.toml
  schedctl import crontab --system -o jobs.toml

Without FILE, --user and --system, your own crontab is read by crontab -l. Comments stay. % and \\%,
variables, MAILTO, CRON_TZ, @reboot and ~ keep their meaning. The jobs run on this host, as with
cron, unless --on names another node. [defaults] of the written file has the
rules of cron, each with a comment. A line that cannot be carried over is a comment with the reason,
and is reported.

--compare prints a line for each job. It compares the times of the written job with times that are
found minute by minute, by the rules of crontab(5).

Exit codes: 0 all lines are carried over; 1 some are not, or --compare found a difference; 2 no
crontab; 4 the file of -o exists.";

/// The format to import jobs from.
#[derive(Debug, Subcommand)]
pub(crate) enum ImportVerb {
    /// Write a jobs file with the jobs of a crontab
    #[command(after_help = CRONTAB_EXAMPLES)]
    Crontab(CrontabArgs),
}

/// Writes a jobs file with the jobs of a crontab.
#[derive(Debug, clap::Args)]
pub(crate) struct CrontabArgs {
    /// A crontab; - is standard input [default: your crontab]
    #[arg(value_name = "FILE|-", conflicts_with_all = ["user", "system"])]
    file: Option<PathBuf>,
    /// Read the crontab of this user
    #[arg(long, value_name = "USER", conflicts_with = "system")]
    user: Option<String>,
    /// Read /etc/crontab and the files in /etc/cron.d
    #[arg(long)]
    system: bool,
    /// The lines of FILE have a user before the command, as in /etc/crontab (which always has it)
    #[arg(long, requires = "file")]
    user_column: bool,
    /// Node that runs the jobs, or any for any node [default: this host]
    #[arg(long, value_name = "NODE")]
    on: Option<String>,
    /// Write the jobs file to this new file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Compare this many next times of each job with those by the rules of the crontab
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    compare: Option<u16>,
}

/// Returns the node that runs the jobs, or `None` for any node.
fn node(args: &CrontabArgs) -> Result<Option<NodeName>, CliFailure> {
    match args.on.as_deref() {
        Some("any") => Ok(None),
        Some(name) => name
            .parse()
            .map(Some)
            .map_err(|error: IdError| CliFailure::Invalid(format!("--on: {error}"))),
        None => {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            Ok(Some(NodeName::from_host_name(&host)))
        }
    }
}

/// Writes a jobs file with the jobs of a crontab. Returns the exit code.
pub(crate) fn import(verb: &ImportVerb, console: &mut Console) -> Result<u8, CliFailure> {
    let ImportVerb::Crontab(args) = verb;
    let zone = local_zone();
    let mut imported = ImportedCrontab::default();
    let crontabs = crontabs(args, &mut imported)?;
    for crontab in &crontabs {
        if crontabs.len() > 1 {
            imported.begin(crontab);
        }
        imported.add(crontab, &zone);
    }
    let origin = match crontabs.as_slice() {
        [only] => only.name.clone(),
        _ => "the crontabs of the system".to_owned(),
    };
    let text = imported_file::written(&imported, &origin, node(args)?.as_ref());
    let compared = match args.compare {
        Some(count) => compare(&text, &imported.jobs, own_now()?, usize::from(count))?,
        None => Vec::new(),
    };
    if let Some(path) = &args.output {
        create(path, &text)?;
    }
    if console.is_json() {
        console.json(&document(&imported, &compared, &text));
    } else if args.output.is_none() {
        console.bytes(text.as_bytes());
    }
    report(&imported, &compared, console);
    let differs = compared.iter().any(|job| !job.is_equal);
    Ok(u8::from(differs || !imported.refused.is_empty()))
}

/// Reads the crontabs that the arguments name.
fn crontabs(
    args: &CrontabArgs,
    imported: &mut ImportedCrontab,
) -> Result<Vec<CrontabText>, CliFailure> {
    let column = if args.user_column { UserColumn::Present } else { UserColumn::Absent };
    if args.system {
        let system = crontab_source::of_system(Path::new("/etc"))?;
        system.remarks.into_iter().for_each(|remark| imported.remark(remark));
        return Ok(system.crontabs);
    }
    let crontab = match &args.file {
        Some(file) if file.as_os_str() == "-" => crontab_source::of_input(column)?,
        Some(file) => crontab_source::of_file(file, column)?,
        None => crontab_source::of_user(args.user.as_deref())?,
    };
    Ok(vec![crontab])
}

fn create(path: &Path, text: &str) -> Result<(), CliFailure> {
    let shown = path.display();
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            CliFailure::Conflict(format!(
                "{shown} exists already: remove it, or choose another file"
            ))
        } else {
            CliFailure::Failed(format!("{shown} cannot be written: {error}"))
        }
    })?;
    let written = file.write_all(text.as_bytes());
    written.map_err(|error| CliFailure::Failed(format!("{shown} cannot be written: {error}")))
}

fn document(imported: &ImportedCrontab, compared: &[ComparedJob], text: &str) -> Value {
    let jobs = imported
        .jobs
        .iter()
        .map(|job| json!({"job": job.name.as_str(), "line": job.place.to_string()}));
    let refused = imported.refused.iter().map(
        |line| json!({"line": line.place.to_string(), "text": line.text, "reason": line.reason}),
    );
    json!({
        "jobs": jobs.collect::<Vec<_>>(),
        "not_carried_over": refused.collect::<Vec<_>>(),
        "remarks": imported.remarks.iter().chain(&imported.line_remarks).collect::<Vec<_>>(),
        "compared": compared.iter().map(ComparedJob::json).collect::<Vec<_>>(),
        "text": text,
    })
}

/// Prints the lines that are not carried over, the remarks and the comparison to standard error.
fn report(imported: &ImportedCrontab, compared: &[ComparedJob], console: &mut Console) {
    for line in &imported.refused {
        console.error(&format!("{}: not carried over: {}", line.place, line.reason));
    }
    for remark in imported.remarks.iter().chain(&imported.line_remarks) {
        console.note(&format!("note: {remark}"));
    }
    for job in compared {
        console.aside(&format!("jobs.{}: {}", job.name, job.words));
    }
    let (jobs, refused) = (imported.jobs.len(), imported.refused.len());
    let counted = |count: usize, one: &str| {
        if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
    };
    console.note(&format!(
        "{}, {} not carried over",
        counted(jobs, "job"),
        counted(refused, "line")
    ));
}
