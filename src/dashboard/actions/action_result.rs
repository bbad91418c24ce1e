//! The result of an action, and the page that shows it. The address of the page has the key of the
//! form, under which the result is kept.

use askama::Template;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::action_table::{ActionSubject, OperatorAction};
use crate::cli::embedded::CliFailure;
use crate::dashboard::layout::Layout;
use crate::dashboard::page_link::{job_path, run_path};
use crate::dashboard::page_request::PageRequest;
use crate::dashboard::page_text::page_text;
use crate::dashboard::shown_text::ShownText;
use crate::dashboard::view_choices::local_address;

/// The number of outcomes that are shown at once.
const FIRST: usize = 20;

/// The result of an action, as it is kept for its page.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ActionResult {
    action: String,
    pub(super) outcomes: Vec<Outcome>,
    /// The errors of the verb, one for each thing that was refused.
    pub(super) errors: Vec<Value>,
    pub(super) warnings: Vec<String>,
    /// The page to which the result leads back.
    back: String,
    /// The address of the page that asks for the things behind these, or an empty text.
    more: String,
}

/// The outcome of an action for one thing.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// The name of the thing, and its path. `None` for an outcome of several things.
    thing: Option<(ShownText, String)>,
    /// The number of things with this outcome.
    count: u64,
    words: String,
}

impl ActionResult {
    pub(super) fn of(action: &OperatorAction, request: &PageRequest) -> Self {
        Self {
            action: action.word.to_owned(),
            outcomes: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            back: local_address(request.parameter("back")).to_owned(),
            more: Some(request.parameter("more"))
                .filter(|more| !more.is_empty())
                .map_or_else(String::new, |more| local_address(more).to_owned()),
        }
    }
}

impl Outcome {
    /// Returns the outcomes in the document of a verb.
    pub(super) fn all(action: &OperatorAction, document: Value) -> Vec<Self> {
        let items = match document {
            Value::Array(items) => items,
            one => vec![one],
        };
        items.iter().filter_map(|item| Self::of(action, item)).collect()
    }

    fn of(action: &OperatorAction, item: &Value) -> Option<Self> {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let (count, words) = match (item["purged"].as_u64(), item["added"].as_u64()) {
            (Some(0), _) => return None,
            (Some(count), _) => (count, "purged".to_owned()),
            (_, Some(1)) => (1, "1 run added".to_owned()),
            (_, Some(count)) => (1, format!("{count} runs added")),
            _ => (1, in_words(action, text("result"))),
        };
        let path = |text: &str| match action.subject {
            ActionSubject::Queue => "/queues".to_owned(),
            _ if text.contains('@') => run_path(text),
            _ => job_path(text),
        };
        let name = ["run_id", "job", "queue"].map(text).into_iter().find(|name| !name.is_empty());
        let thing = name.map(|name| (ShownText::new(name), path(name)));
        Some(Self { thing, count, words })
    }
}

/// Returns the word of a verb for an outcome, for readers.
fn in_words(action: &OperatorAction, result: &str) -> String {
    match result {
        "" => "starts now".to_owned(),
        "already" => "nothing to do".to_owned(),
        "requested" => "is being stopped".to_owned(),
        "waiting" => "starts after the open run of its job".to_owned(),
        "cancelled" if action.word == "cancel" => "removed".to_owned(),
        other => other.replace('_', " "),
    }
}

#[derive(Template)]
#[template(path = "actions/acted.html")]
struct ResultPage<'r> {
    layout: Layout<'r>,
    label: &'static str,
    /// The result. `None` while the action is under way.
    result: Option<ActionResult>,
}

impl ResultPage<'_> {
    /// Returns the title: what was done, and how often.
    fn heading(&self) -> String {
        let Some(result) = &self.result else { return "The action is under way".to_owned() };
        let done: u64 = result.outcomes.iter().map(|outcome| outcome.count).sum();
        match (done, result.errors.len()) {
            (1, 0) => format!("{}: done", self.label),
            (done, 0) => format!("{}: {done} done", self.label),
            (done, refused) => format!("{}: {done} done, {refused} refused", self.label),
        }
    }

    fn first(result: &ActionResult) -> &[Outcome] {
        result.outcomes.get(..FIRST).unwrap_or(&result.outcomes)
    }

    fn rest(result: &ActionResult) -> &[Outcome] {
        result.outcomes.get(FIRST..).unwrap_or_default()
    }

    fn errors(result: &ActionResult) -> Vec<ShownText> {
        result.errors.iter().map(|error| ShownText::new(error_text(error))).collect()
    }

    fn warnings(result: &ActionResult) -> Vec<ShownText> {
        result.warnings.iter().map(|warning| ShownText::new(warning)).collect()
    }
}

/// Returns the page of the result `kept`, or of an action that is under way if it is `None`.
pub(in crate::dashboard) fn result_page(
    layout: Layout<'_>,
    kept: Option<&str>,
) -> Result<String, CliFailure> {
    let read = |text: &str| {
        serde_json::from_str::<ActionResult>(text)
            .map_err(|error| CliFailure::Failed(format!("the result cannot be read: {error}")))
    };
    let result = kept.map(read).transpose()?;
    let action = result.as_ref().and_then(|result| OperatorAction::named(&result.action).ok());
    let section = action.map_or("", |action| action.subject.section());
    page_text(&ResultPage {
        layout: Layout { section, ..layout },
        label: action.map_or("Action", |action| action.label),
        result,
    })
}

/// Returns the text of an error of a verb.
fn error_text(error: &Value) -> &str {
    error["error"].as_str().unwrap_or("the request failed")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_document_of_a_verb_has_its_outcomes_in_words() {
        for (action, document, wanted) in [
            ("run", json!({"run_id": "a@1~x", "job": "a", "due": "-"}), "a@1~x starts now"),
            ("pause", json!([{"job": "a", "result": "paused"}]), "a paused"),
            ("pause", json!([{"job": "a", "result": "already"}]), "a nothing to do"),
            ("cancel", json!([{"job": "a", "run_id": null, "result": "cancelled"}]), "a removed"),
            ("backfill", json!({"job": "a", "added": 1}), "a 1 run added"),
            ("set-queue", json!({"queue": "q", "result": "set"}), "q set"),
            ("purge", json!({"found": 2, "purged": 2}), " purged"),
        ] {
            let action = OperatorAction::named(action).unwrap();
            let outcomes = Outcome::all(action, document);
            let [Outcome { thing, words, .. }] = outcomes.as_slice() else { panic!("{wanted}") };
            let name = thing.as_ref().map_or("", |(name, _)| name.as_str());
            assert_eq!(format!("{name} {words}"), wanted);
        }
        let purge = OperatorAction::named("purge").unwrap();
        assert!(Outcome::all(purge, json!({"found": 0, "purged": 0})).is_empty());
    }
}
