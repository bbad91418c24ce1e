//! The arguments of `schedd`. Flags override environment variables, which override the jobs file.

#![allow(
    clippy::doc_markdown,
    rustdoc::bare_urls,
    reason = "the doc comments of arguments are help texts, printed as they stand"
)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use super::logging::{LogFormat, LogLevel};
use super::setup_failure::SetupFailure;
use schedd::engine::{Naming, ServingChoice};
use schedd_core::config::ApiAddress;
use schedd_schedule::names::{IdError, Label, NodeName, QueueName};
use schedd_store::DEFAULT_NAMESPACE;

/// Runs delayed and cron jobs, on any number of hosts that share one Redis.
///
/// If --redis, SCHEDD_REDIS_URL and the section [redis] are missing, schedd starts a private
/// redis-server. TERM and INT stop schedd: running jobs get shutdown_grace to end, and a second
/// signal stops them at once. HUP reloads jobs.toml.
#[derive(Debug, Clone, Parser)]
#[command(name = "schedd", version)]
#[allow(rustdoc::broken_intra_doc_links, reason = "the text of --help names sections in brackets")]
pub(super) struct DaemonArgs {
    /// The jobs file [default: ./jobs.toml if only root and you may change it, else
    /// /etc/schedd/jobs.toml, else none]
    #[arg(long, value_name = "FILE", env = "SCHEDD_JOBS")]
    pub(super) jobs: Option<PathBuf>,
    /// The URL of the shared Redis: redis://HOST:PORT/DB, rediss://HOST:PORT/DB or unix:///PATH
    #[arg(long, value_name = "URL", env = "SCHEDD_REDIS_URL", hide_env_values = true)]
    pub(super) redis: Option<String>,
    /// The prefix of all keys in Redis; nodes with the same namespace share their jobs
    #[arg(long, value_name = "N", env = "SCHEDD_NAMESPACE", default_value = DEFAULT_NAMESPACE)]
    pub(super) namespace: String,
    /// The name of this node, under which Redis lists the jobs of its file [default: the host's
    /// name]
    #[arg(value_parser = node_name, long, value_name = "NAME", env = "SCHEDD_NODE")]
    pub(super) node: Option<NodeName>,
    /// The queues this node serves, separated by commas [default: those of the file, else all]
    #[arg(long, value_name = "QUEUES", env = "SCHEDD_QUEUES", value_delimiter = ',')]
    pub(super) queues: Vec<QueueName>,
    /// The labels this node carries, separated by commas [default: those of the file, else none]
    #[arg(long, value_name = "LABELS", env = "SCHEDD_LABELS", value_delimiter = ',')]
    pub(super) labels: Vec<Label>,
    /// The address of the HTTP API, such as 127.0.0.1:7341 or unix:/run/schedd/api.sock [default:
    /// that of the file, else none]
    #[arg(long, value_name = "ADDR", env = "SCHEDD_API")]
    pub(super) api: Option<ApiAddress>,
    /// The file of the access tokens of the API [default: that of the file, else
    /// /etc/schedd/api-tokens, or tokens in the state directory of a user other than root]
    #[arg(long, value_name = "FILE", env = "SCHEDD_TOKENS_FILE")]
    pub(super) tokens_file: Option<PathBuf>,
    /// The format of the log on standard error
    #[arg(long, value_name = "FORMAT", env = "SCHEDD_LOG_FORMAT", value_enum, default_value_t = LogFormat::Auto)]
    pub(super) log_format: LogFormat,
    /// The lowest level of log lines that are written
    #[arg(long, value_name = "LEVEL", env = "SCHEDD_LOG", value_enum, default_value_t = LogLevel::Info)]
    pub(super) log_level: LogLevel,
}

/// Parses the name of a node. Fails for a name that is reserved.
fn node_name(text: &str) -> Result<NodeName, String> {
    let name: NodeName = text.parse().map_err(|error: IdError| error.to_string())?;
    if name.is_reserved() {
        return Err(format!(
            "node name {text:?} is reserved, wanted another name, such as \"{text}-1\""
        ));
    }
    Ok(name)
}

/// Returns the command line of `schedd` as clap describes it, for the manual page.
pub fn command() -> clap::Command {
    DaemonArgs::command()
}

/// Reads the arguments of this process. For `--help`, `--version` or a wrong argument, prints the
/// text and returns the exit code as the error.
pub(super) fn read() -> Result<DaemonArgs, ExitCode> {
    parsed(std::env::args_os()).map_err(|error| {
        if !error.use_stderr() {
            // Printing fails only if standard output is closed. The exit code must not change then.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        let text = error.to_string();
        let what = text.lines().next().unwrap_or_default();
        let words = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("[possible values: ")?.strip_suffix(']'));
        let wanted = words.map(|words| format!(", wanted one of {words}")).unwrap_or_default();
        SetupFailure::usage(format!(
            "{}{wanted}; see schedd --help",
            what.trim_start_matches("error: ")
        ))
        .report()
    })
}

/// Parses the arguments. An empty environment variable, such as `SCHEDD_LOG=` in a service unit,
/// counts as not set.
fn parsed(words: impl IntoIterator<Item = OsString>) -> Result<DaemonArgs, clap::Error> {
    let is_empty = |arg: &clap::Arg| {
        arg.get_env()
            .is_some_and(|name| std::env::var_os(name).is_some_and(|value| value.is_empty()))
    };
    let command =
        command().mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg });
    DaemonArgs::from_arg_matches(&command.try_get_matches_from(words)?)
}

impl DaemonArgs {
    /// Returns the queues and labels that flags or the environment set for this node. A value that
    /// is not set is `None`.
    pub(super) fn serving(&self) -> ServingChoice {
        let queues: BTreeSet<QueueName> = self.queues.iter().cloned().collect();
        let labels: BTreeSet<Label> = self.labels.iter().cloned().collect();
        ServingChoice {
            queues: Some(queues).filter(|queues| !queues.is_empty()),
            labels: Some(labels).filter(|labels| !labels.is_empty()),
        }
    }

    /// Returns the name of this node, and whether an operator chose this name or the name is that
    /// of the host.
    pub(super) fn node_name(&self, host: &str) -> (NodeName, Naming) {
        match &self.node {
            Some(node) => (node.clone(), Naming::Asked),
            None => (NodeName::from_host_name(host).unreserved(), Naming::FromHost),
        }
    }
}
