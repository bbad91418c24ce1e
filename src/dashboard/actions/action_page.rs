//! The page that asks before an action: what it does, on what, and a form that sends it.
//!
//! Invariant: the form names everything on which it acts. Its key is new with each page, so a form
//! that is sent twice acts once. No part of the page is replaced while it is open.

use std::time::Duration;

use askama::Template;
use serde_json::Value;

use super::acted_names::{ActedNames, MOST};
use super::action_field::ActionField;
use super::action_table::{ActionSubject, OperatorAction};
use super::backfill_preview::BackfillPreview;
use crate::cli::embedded::CliFailure;
use crate::dashboard::badge::Badge;
use crate::dashboard::documents::{WholeJobDocument, WholeRunDocument};
use crate::dashboard::layout::Layout;
use crate::dashboard::page_clock::PageClock;
use crate::dashboard::page_link::query;
use crate::dashboard::page_request::{PageReading, PageRequest};
use crate::dashboard::page_text::page_text;
use crate::dashboard::shown_text::ShownText;
use crate::dashboard::view_choices::local_address;
use schedd_schedule::time::wording::span;

/// The number of names that are shown at once.
const FIRST: usize = 10;

#[derive(Template)]
#[template(path = "actions/action.html")]
struct ActionPage<'r> {
    layout: Layout<'r>,
    clock: &'r PageClock,
    action: &'static OperatorAction,
    acted: ActedNames,
    request: &'r PageRequest,
    /// The states of the only thing on which the action acts.
    states: Vec<String>,
    /// The present values of its settings, by the names of their fields.
    present: Vec<(&'static str, String)>,
    /// The reason why the form was refused when it was sent before.
    refused: Option<ShownText>,
    /// The times of a backfill, or why there are none. `None` if the action has no preview, or no
    /// window for it yet.
    preview: Option<Result<BackfillPreview, ShownText>>,
    /// The key of the form.
    key: String,
    /// The address of the page that asks for the things behind these, or an empty text.
    more: String,
    /// The page to which the form leads back.
    back: &'r str,
}

impl ActionPage<'_> {
    fn heading(&self) -> String {
        match self.acted.names.as_slice() {
            [] => format!("{}: no {}", self.action.label, self.action.subject.plural()),
            names => format!("{}?", self.action.labelled(names)),
        }
    }

    fn first(&self) -> &[String] {
        self.acted.names.get(..FIRST).unwrap_or(&self.acted.names)
    }

    fn rest(&self) -> &[String] {
        self.acted.names.get(FIRST..).unwrap_or_default()
    }

    fn most() -> usize {
        MOST
    }

    /// Returns true if the form that acts is on the page.
    fn can_act(&self) -> bool {
        let has_times = |preview: &Result<BackfillPreview, ShownText>| {
            preview.as_ref().is_ok_and(|preview| preview.count() > 0)
        };
        let is_ready = !self.action.has_preview() || self.preview.as_ref().is_some_and(has_times);
        is_ready && !self.acted.names.is_empty()
    }

    /// Returns the fields of the form of the preview.
    fn preview_fields(&self) -> impl Iterator<Item = &'static ActionField> {
        self.action.fields.iter().filter(|field| field.is_of_preview())
    }

    /// Returns the fields of the form that acts.
    fn fields(&self) -> impl Iterator<Item = &'static ActionField> {
        self.action.fields.iter().filter(|field| !field.is_of_preview())
    }

    /// Returns the value of a field, as the request has it.
    fn value(&self, field: &ActionField) -> &str {
        self.request.parameter(field.name)
    }

    /// Returns the present value of a setting.
    fn present(&self, field: &ActionField) -> Option<&str> {
        let found = self.present.iter().find(|(name, _)| *name == field.name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the hidden fields for the previewed window.
    fn window(&self) -> Vec<(&'static str, String)> {
        let preview = self.preview.as_ref().and_then(|preview| preview.as_ref().ok());
        let window = preview.and_then(|preview| Some((preview.window()?, preview.count())));
        window.map_or_else(Vec::new, |((from, to), count)| {
            vec![("from", from), ("to", to), ("max", count.to_string())]
        })
    }
}

/// Returns the page that asks before the action in the path. `refused` says why the form was refused
/// when it was sent.
pub(in crate::dashboard) async fn action_page(
    reading: &PageReading<'_>,
    refused: Option<&str>,
) -> Result<String, CliFailure> {
    let request = reading.request;
    let action = OperatorAction::named(request.target.as_deref().unwrap_or_default())?;
    let back = local_address(request.parameter("back"));
    let is_by_filter = request.parameter("of") == "filter";
    let (mut acted, mut only) = (ActedNames::default(), OnlyThing::default());
    if is_by_filter {
        acted = ActedNames::by_filter(action, reading).await?;
    } else if let ([name], None) = (request.values("name").as_slice(), refused) {
        only = OnlyThing::find(action, reading, name).await?;
        acted.names.push(only.name.clone());
    } else {
        acted = ActedNames::given(action, request)?;
    }
    let more = acted.next.as_deref().map(|cursor| address_behind(request, action, cursor));
    let preview = match acted.names.as_slice() {
        [name] => BackfillPreview::of(action, reading, name).await,
        _ => None,
    };
    let layout = reading.layout(action.subject.section());
    page_text(&ActionPage {
        // A page without the present time is never refreshed.
        layout: Layout { now: None, ..layout },
        clock: &reading.clock,
        action,
        acted,
        request,
        states: only.states,
        present: only.present,
        refused: refused.map(ShownText::new),
        preview,
        key: format!("{:032x}", fastrand::u128(..)),
        more: more.unwrap_or_else(|| request.parameter("more").to_owned()),
        back,
    })
}

/// The only thing on which an action acts.
#[derive(Debug, Default)]
struct OnlyThing {
    /// The whole name, also for a run that the request names in short.
    name: String,
    states: Vec<String>,
    present: Vec<(&'static str, String)>,
}

impl OnlyThing {
    /// Reads the thing with this name. Fails if it does not exist.
    async fn find(
        action: &OperatorAction,
        reading: &PageReading<'_>,
        name: &str,
    ) -> Result<Self, CliFailure> {
        if name.contains('@') != (action.subject == ActionSubject::Run) {
            action.subject.check(name)?;
        }
        let show = ["show", "--", name];
        let (name, states, present) = match action.subject {
            ActionSubject::Job => {
                let WholeJobDocument { job, .. } = reading.document(&show).await?;
                let states = job.states().into_iter().map(str::to_owned).collect();
                (job.name.as_str().to_owned(), states, Vec::new())
            }
            ActionSubject::Run => {
                let WholeRunDocument { run, .. } = reading.document(&show).await?;
                let states = vec![run.state.as_str().to_owned()];
                (run.run_id.as_str().to_owned(), states, Vec::new())
            }
            ActionSubject::Queue => {
                let queues: Vec<Value> = reading.document(&["queues"]).await?;
                let queue = queues.into_iter().find(|queue| queue["name"] == name);
                let queue = queue.ok_or_else(|| {
                    CliFailure::NotFound(format!("no queue {name}; the page of queues lists all"))
                })?;
                let state = queue["state"].as_str().unwrap_or_default().to_owned();
                (name.to_owned(), vec![state], present_settings(action, &queue))
            }
        };
        Ok(Self { name, states, present })
    }
}

/// Returns the present values of the settings in the form of an action.
fn present_settings(action: &OperatorAction, queue: &Value) -> Vec<(&'static str, String)> {
    let value = |field: &ActionField| match &queue[field.name] {
        Value::String(text) => Some(ShownText::new(text).as_str().to_owned()),
        Value::Null => {
            let ms = queue[format!("{}_ms", field.name)].as_u64()?;
            Some(span(Duration::from_millis(ms)))
        }
        value => Some(value.to_string()),
    };
    action.fields.iter().filter_map(|field| Some((field.name, value(field)?))).collect()
}

/// Returns the address of the page that asks for the things behind `cursor`.
fn address_behind(request: &PageRequest, action: &OperatorAction, cursor: &str) -> String {
    let kept = request.parameters.iter().filter(|(name, _)| name != "name" && name != "cursor");
    let mut parameters: Vec<(&str, &str)> =
        kept.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    parameters.push(("cursor", cursor));
    format!("/act/{}{}", action.word, query(&parameters))
}
