//! The document of a verb, and the fields of it that pages show.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::embedded::CliFailure;
use crate::cli::embedded::verb_call::{VerbResult, call_verb};
use schedd_store::Store;

/// Returns the document of a verb, without the values of secrets if `conceals`.
pub(in crate::dashboard) async fn document_of<T: DeserializeOwned>(
    store: &Store,
    words: &[&str],
    conceals: bool,
) -> Result<T, CliFailure> {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    let VerbResult { document, errors, remarks, .. } = call_verb(store, &words, conceals).await?;
    match (errors.first(), document) {
        (None, Some(document)) => parsed(document),
        (Some(error), _) => Err(CliFailure::of_json(error)),
        (None, None) => {
            let why = remarks.into_iter().next();
            Err(CliFailure::Failed(why.unwrap_or_else(|| "the verb had no result".to_owned())))
        }
    }
}

/// Returns the fields of a document that a page shows.
pub(in crate::dashboard) fn parsed<T: DeserializeOwned>(document: Value) -> Result<T, CliFailure> {
    serde_json::from_value(document)
        .map_err(|error| CliFailure::Failed(format!("a document cannot be read: {error}")))
}

/// Returns the fields of documents that a page shows.
pub(in crate::dashboard) fn all_parsed<T: DeserializeOwned>(
    documents: Vec<Value>,
) -> Result<Vec<T>, CliFailure> {
    documents.into_iter().map(parsed).collect()
}
