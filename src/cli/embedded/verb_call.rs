//! The call of one verb with the words of a command line, and the result of the call.

use clap::Parser as _;
use serde_json::Value;

use super::output_pieces::{OutputForm, PieceSender, VerbStream, output_pieces};
use crate::cli::failure::CliFailure;
use crate::cli::render::Console;
use crate::cli::usage::{argument_fault, usage_line};
use crate::cli::verbs::{CliArgs, dispatch};
use schedd_store::Store;

/// The result of a verb.
#[derive(Debug)]
pub(crate) struct VerbResult {
    /// The JSON document on standard output. `None` if there is none.
    pub(crate) document: Option<Value>,
    /// The JSON objects of the errors on standard error.
    pub(crate) errors: Vec<Value>,
    /// The warnings, without the name of the program.
    pub(crate) warnings: Vec<String>,
    /// The other lines on standard error.
    pub(crate) remarks: Vec<String>,
}

/// Parses the words of a command line, without the name of the program. Fails with one line.
pub(crate) fn parse_verb(words: &[String]) -> Result<CliArgs, String> {
    parsed(words).map_err(|error| usage_line(&error, verb_in(words)))
}

/// Parses the words of a verb that a route made of its parameters. Fails with one line, which names the
/// flag or the value at fault.
pub(crate) fn parse_given(words: &[String]) -> Result<CliArgs, CliFailure> {
    parsed(words).map_err(|error| {
        let verb = verb_in(words);
        let fault = argument_fault(&error, verb);
        CliFailure::Invalid(fault.unwrap_or_else(|| usage_line(&error, verb)))
    })
}

fn parsed(words: &[String]) -> Result<CliArgs, clap::Error> {
    CliArgs::try_parse_from(std::iter::once("schedctl").chain(words.iter().map(String::as_str)))
}

fn verb_in(words: &[String]) -> Option<&str> {
    words.iter().map(String::as_str).find(|word| !word.starts_with('-'))
}

/// Runs a verb whose words come from a route, with JSON output.
pub(crate) async fn call_verb(
    store: &Store,
    words: &[String],
    conceals: bool,
) -> Result<VerbResult, CliFailure> {
    let mut args = parse_given(words)?;
    args.global.store = Some(store.clone());
    args.global.json = true;
    let form = OutputForm { is_json: true, conceals, ..OutputForm::default() };
    let (sender, mut pieces) = output_pieces();
    let mut console = Console::for_request(form, sender);
    if let Err(failure) = Box::pin(dispatch(args, &mut console)).await {
        console.failure(&failure);
    }
    drop(console);
    let (mut output, mut errors, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    while let Some((stream, bytes)) = pieces.next().await {
        match stream {
            VerbStream::Output => output.extend(bytes),
            VerbStream::Errors => errors.extend(bytes),
            VerbStream::Warnings => warnings.extend(bytes),
        }
    }
    let mut result = VerbResult {
        document: serde_json::from_slice(&output).ok(),
        errors: Vec::new(),
        warnings: String::from_utf8_lossy(&warnings)
            .lines()
            .map(|line| line.trim_start_matches("schedctl: warning: ").to_owned())
            .collect(),
        remarks: Vec::new(),
    };
    for line in String::from_utf8_lossy(&errors).lines() {
        match serde_json::from_str::<Value>(line) {
            Ok(error @ Value::Object(_)) => result.errors.push(error),
            _ => result.remarks.push(line.trim_start_matches("schedctl: ").to_owned()),
        }
    }
    Ok(result)
}

/// Runs a verb whose words come from a route, and returns what it wrote, in the order of writing.
pub(crate) async fn call_verb_for_bytes(
    store: &Store,
    words: &[String],
) -> Result<Vec<u8>, CliFailure> {
    let mut args = parse_given(words)?;
    args.global.store = Some(store.clone());
    let (sender, mut pieces) = output_pieces();
    let form = OutputForm { is_quiet: true, ..OutputForm::default() };
    let mut console = Console::for_request(form, sender);
    Box::pin(dispatch(args, &mut console)).await?;
    drop(console);
    let mut output = Vec::new();
    while let Some((_, bytes)) = pieces.next().await {
        output.extend(bytes);
    }
    Ok(output)
}

/// Runs a verb in a task of its own, which sends its output to `sender`. The end of the verb ends the
/// output. Fails with one line if the words cannot be parsed.
pub(crate) fn spawn_verb(
    store: &Store,
    words: &[String],
    form: OutputForm,
    sender: PieceSender,
) -> Result<(), String> {
    let mut args = parse_verb(words)?;
    args.global.store = Some(store.clone());
    args.global.json = form.is_json;
    tokio::spawn(async move {
        let mut console = Console::for_request(form, sender);
        let code = match Box::pin(dispatch(args, &mut console)).await {
            Ok(code) => code,
            Err(failure) => console.failure(&failure),
        };
        console.close(code)
    });
    Ok(())
}
