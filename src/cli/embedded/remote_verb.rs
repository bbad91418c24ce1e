//! A verb that `schedctl --api` sends to a schedd: its words, the form of its output, the content of
//! the files that it names, and the right that it needs.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::output_pieces::{OutputForm, PieceSender};
use super::request_files::RequestFiles;
use super::verb_call::parse_verb;
use crate::cli::global::Global;
use crate::cli::render::Console;
use crate::cli::verbs::{CliArgs, Verb, dispatch};
use crate::store::Store;

/// The first line of the request: a verb and its surroundings. The standard input of the verb
/// follows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts of the sender's terminal")]
pub(crate) struct RemoteVerb {
    /// The words of the command line, without `schedctl` and the flags of the API.
    pub(crate) words: Vec<String>,
    pub(crate) is_terminal: bool,
    pub(crate) is_error_terminal: bool,
    pub(crate) has_colour: bool,
    pub(crate) is_brief: bool,
    /// The content of each jobs file that the verb reads, by its path in the words, and of each
    /// iCalendar file that the jobs file names.
    pub(crate) files: BTreeMap<String, String>,
}

/// The right that a verb needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerbRight {
    Read,
    Operate,
    /// Sees values that may be secret.
    Admin,
    /// Defines jobs.
    Define,
    /// The verb runs only on the host where it is typed, and needs no Redis.
    Local,
    /// The verb needs a terminal of its own.
    Interactive,
}

/// Returns the right that a verb needs.
pub(crate) fn right_of(verb: &Verb) -> VerbRight {
    match verb {
        Verb::Next(args) if args.reads_file() => VerbRight::Local,
        Verb::Next(args) if args.changes() => VerbRight::Operate,
        Verb::Doctor(args) if !args.only_reads() => VerbRight::Operate,
        Verb::Next(_)
        | Verb::Doctor(_)
        | Verb::List(_)
        | Verb::Show(_)
        | Verb::History(_)
        | Verb::Explain(_)
        | Verb::Logs(_)
        | Verb::Describe(_)
        | Verb::Queues(_)
        | Verb::Diff(_)
        | Verb::Stats
        | Verb::Nodes
        | Verb::Groups
        | Verb::DataLoss
        | Verb::Graph(_) => VerbRight::Read,
        Verb::Run(_)
        | Verb::Rerun(_)
        | Verb::Backfill(_)
        | Verb::Cancel(_)
        | Verb::Retry(_)
        | Verb::Purge(_)
        | Verb::Pause(_)
        | Verb::Resume(_)
        | Verb::Queue(_) => VerbRight::Operate,
        Verb::Export(_) => VerbRight::Admin,
        Verb::Add(_) | Verb::Apply(_) => VerbRight::Define,
        Verb::Check(_)
        | Verb::Import(_)
        | Verb::Completions(_)
        | Verb::Token(_)
        | Verb::Dashboard(_) => VerbRight::Local,
        Verb::Top => VerbRight::Interactive,
    }
}

/// Returns the paths of the jobs files that a verb reads, as its words have them.
pub(crate) fn files_of(verb: &Verb) -> Vec<String> {
    match verb {
        Verb::Diff(args) => vec![args.file().display().to_string()],
        Verb::Apply(args) => vec![args.file().display().to_string()],
        _ => Vec::new(),
    }
}

/// Parses the verb of a request. Fails with one line if the words are no verb, or choose a Redis.
pub(crate) fn parse_remote(remote: &RemoteVerb) -> Result<CliArgs, String> {
    let args = parse_verb(&remote.words)?;
    let Global { redis, namespace, jobs, api, token_file, .. } = &args.global;
    if redis.is_some()
        || namespace.is_some()
        || jobs.is_some()
        || api.is_some()
        || token_file.is_some()
    {
        return Err(
            "found a flag that chooses a Redis, wanted none: the schedd of the API uses its own"
                .to_owned(),
        );
    }
    Ok(args)
}

/// Runs the verb of a request. Returns its exit code.
pub(crate) async fn run_remote(
    store: Store,
    mut args: CliArgs,
    remote: RemoteVerb,
    conceals: bool,
    input: Box<dyn Read + Send>,
    sender: PieceSender,
) -> u8 {
    args.global.store = Some(store);
    args.global.request = Some(Arc::new(RequestFiles::new(input, remote.files)));
    let form = OutputForm {
        is_json: args.global.json,
        has_headers: !args.global.no_headers,
        is_quiet: args.global.quiet,
        is_terminal: remote.is_terminal,
        is_error_terminal: remote.is_error_terminal,
        has_colour: remote.has_colour,
        is_brief: remote.is_brief,
        conceals,
    };
    let mut console = Console::for_request(form, sender);
    let code = match Box::pin(dispatch(args, &mut console)).await {
        Ok(code) => code,
        Err(failure) => console.failure(&failure),
    };
    console.close(code)
}
