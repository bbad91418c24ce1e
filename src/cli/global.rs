//! The flags that every verb takes.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::path::PathBuf;
use std::sync::Arc;

use super::embedded::request_files::RequestFiles;
use schedd_store::Store;

/// The flags that every verb takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Global {
    /// Address of the Redis, such as redis://127.0.0.1:6379/0 or unix:///run/redis.sock [env:
    /// SCHEDD_REDIS_URL]
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub(crate) redis: Option<String>,
    /// Prefix of all keys in Redis [env: SCHEDD_NAMESPACE] [default: schedd]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub(crate) namespace: Option<String>,
    /// Path of the jobs file [env: SCHEDD_JOBS] [default: ./jobs.toml if only root and you may
    /// change the file, else /etc/schedd/jobs.toml]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) jobs: Option<PathBuf>,
    /// Address of the API of a schedd, which then runs the verb: a URL, or unix:PATH [env:
    /// SCHEDD_API_URL]
    #[arg(long, global = true, value_name = "URL", conflicts_with_all = ["redis", "namespace"], help_heading = "Global options")]
    pub(crate) api: Option<String>,
    /// File with the token for the API [env: SCHEDD_API_TOKEN_FILE]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Leave out the header line of tables
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) no_headers: bool,
    /// Print only the result and errors
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
    /// The connection of the process that runs the verb for an HTTP request.
    #[arg(skip)]
    pub(crate) store: Option<Store>,
    /// The input and the files of the sender of that request.
    #[arg(skip)]
    pub(crate) request: Option<Arc<RequestFiles>>,
}
