//! The execution of a verb that `schedctl --api` has sent.

use std::io::Read;
use std::sync::Arc;

use super::output_pieces::{OutputForm, PieceSender};
use super::remote_verb::RemoteVerb;
use super::request_files::RequestFiles;
use super::verb_call::parse_verb;
use crate::cli::global::Global;
use crate::cli::local_zone::run_in_zone;
use crate::cli::render::Console;
use crate::cli::verbs::{CliArgs, Verb, dispatch};
use schedd_store::Store;

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
    let verb = Box::pin(dispatch(args, &mut console));
    let code = match run_in_zone(&remote.zone, verb).await {
        Ok(code) => code,
        Err(failure) => console.failure(&failure),
    };
    console.close(code)
}
