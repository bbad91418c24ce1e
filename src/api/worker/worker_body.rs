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
        serde_json::from_value(Value::Object(members)).map(Self).map_err(D::Error::custom)
    }
}

/// Reads the body of a request. Fails (400) if it is no JSON, and (422) if a member is missing,
/// unknown or of another type.
pub(super) fn read_body<T: DeserializeOwned>(body: Option<&[u8]>) -> Result<T, ApiProblem> {
    let body = body.ok_or_else(|| {
        ApiProblem::bad_request("found no body, wanted a JSON object; see docs/workers.md")
    })?;
    let read = serde_json::from_slice(body).map(|JsonObject(read)| read);
    read.map_err(|error| {
        if error.is_data() {
            ApiProblem::invalid(vec![Fault { path: None, found: error.to_string(), wanted: None }])
        } else {
            ApiProblem::bad_request(format!(
                "the body: {}",
                schedd_core::config::json_fault(&error)
            ))
        }
    })
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
