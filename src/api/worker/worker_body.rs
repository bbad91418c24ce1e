//! The JSON body of a request of a worker.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::api::api_problem::{ApiProblem, Fault};

/// A JSON object that is read as `T`. A list of the members without their names is refused.
#[derive(Debug)]
pub(super) struct JsonObject<T>(pub(super) T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = Map::deserialize(deserializer)?;
        let read = serde_path_to_error::deserialize(Value::Object(members));
        read.map(Self).map_err(|error| {
            let path = error.path().to_string();
            D::Error::custom(located(&path, &error.into_inner().to_string()))
        })
    }
}

/// The character between the path and the message in the text of an error.
const AFTER_PATH: char = '\u{1}';

/// Returns the text of an error at `path`. `inner` is the message, with a path below `path` or without.
fn located(path: &str, inner: &str) -> String {
    let (below, message) = inner.split_once(AFTER_PATH).unwrap_or(("", inner));
    let between = if below.is_empty() || below.starts_with('[') { "" } else { "." };
    match path.trim_matches('.') {
        "" => format!("{below}{AFTER_PATH}{message}"),
        path => format!("{path}{between}{below}{AFTER_PATH}{message}"),
    }
}

/// Reads the body of a request. Fails (400) if it is no JSON, and (422) if a member is missing,
/// unknown or of another type.
pub(super) fn read_body<T: DeserializeOwned>(body: Option<&[u8]>) -> Result<T, ApiProblem> {
    let body = body.ok_or_else(|| {
        ApiProblem::bad_request("found no body, wanted a JSON object; see docs/workers.md")
    })?;
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        ApiProblem::bad_request(format!("the body: {}", schedd_core::config::json_fault(&error)))
    })?;
    let read: Result<JsonObject<T>, _> = serde_json::from_value(value);
    let read = read.map(|JsonObject(read)| read);
    read.map_err(|error| ApiProblem::invalid(vec![type_fault(&located("", &error.to_string()))]))
}

/// Returns the fault for the text of an error of serde, as [`located`] makes it.
fn type_fault(text: &str) -> Fault {
    let (path, message) = text.split_once(AFTER_PATH).unwrap_or(("", text));
    let quoted = |rest: &str| rest.split('`').nth(1).unwrap_or(rest).to_owned();
    let member = |name: String| if path.is_empty() { name } else { format!("{path}.{name}") };
    if let Some(rest) = message.strip_prefix("missing field ") {
        return Fault::new(&member(quoted(rest)), "nothing", "a value");
    }
    let (found, wanted) = match message.split_once(", expected ") {
        Some((found, wanted)) => (found, Some(wanted)),
        None => (message, None),
    };
    let wanted = wanted.map(|wanted| match wanted {
        "u64" => "a whole number of at least 0".to_owned(),
        "a map" | "map" => "an object".to_owned(),
        "a sequence" => "a list".to_owned(),
        other => other.replace('`', ""),
    });
    if let Some(rest) = found.strip_prefix("unknown field ") {
        // serde names the member also in the path.
        let (container, name) = (path.rsplit_once('.').map(|(first, _)| first), quoted(rest));
        let path = container.map_or(name.clone(), |first| format!("{first}.{name}"));
        return Fault { path: Some(path), found: "an unknown member".to_owned(), wanted };
    }
    let kind = found.strip_prefix("invalid type: ").or(found.strip_prefix("invalid value: "));
    let found = kind.unwrap_or(found).replace('`', "").replacen("floating point", "number", 1);
    let found = found.replacen("map", "an object", 1).replacen("sequence", "a list", 1);
    Fault { path: Some(path.to_owned()).filter(|path| !path.is_empty()), found, wanted }
}

/// Returns the fault of a number outside these bounds. Returns `None` for a number within them.
pub(super) fn bounds_fault(path: &str, found: u64, least: u64, most: u64) -> Option<Fault> {
    let is_within = (least..=most).contains(&found);
    (!is_within).then(|| Fault::new(path, found.to_string(), format!("{least} to {most}")))
}

/// Returns the fault of a text or a list that is too long. `found` is its length.
pub(super) fn length_fault(path: &str, found: usize, most: usize, of: &str) -> Option<Fault> {
    (found > most).then(|| Fault::new(path, format!("{found} {of}"), format!("at most {most}")))
}
