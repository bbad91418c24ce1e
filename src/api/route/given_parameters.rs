//! The parameters of a request: those of its query, or the members of its JSON body. Each stands for
//! a flag of the verb that answers the route.

use axum::http::Uri;
use serde_json::{Map, Value};

use super::parameter::{ParamKind, Parameter};
use super::request_body;
use super::route_table::{ROUTES, Route};
use crate::api::api_problem::{ApiProblem, Fault};

/// The parameters that a request gives, by name.
#[derive(Debug, Default)]
pub(super) struct GivenParameters {
    texts: Vec<(&'static Parameter, Vec<String>)>,
    faults: Vec<Fault>,
}

impl GivenParameters {
    /// Returns the parameters in the query of `uri`. Fails (400) for an unknown parameter, and (422)
    /// for faulty values.
    pub(super) fn of_query(route: &'static Route, uri: &Uri) -> Result<Self, ApiProblem> {
        Self::of_text(route, uri.query().unwrap_or_default())
    }

    /// Returns the parameters in the fields of a form. Fails (400) as [`GivenParameters::of_query`] does.
    pub(super) fn of_form(route: &'static Route, form: &[u8]) -> Result<Self, ApiProblem> {
        Self::of_text(route, &String::from_utf8_lossy(form).replace('#', "%23"))
    }

    fn of_text(route: &'static Route, text: &str) -> Result<Self, ApiProblem> {
        let mut given = Self::default();
        for (name, text) in reqwest::Url::parse(&format!("http://h/?{text}"))
            .map_err(|_| ApiProblem::bad_request("the query cannot be read"))?
            .query_pairs()
        {
            let parameter = parameter_of(route, &name)?;
            // The form of a page sends an empty text for a field that is left out.
            if text.is_empty() && route.action.is_of_browser() {
                continue;
            }
            let text = match (parameter.kind, &*text) {
                (ParamKind::Switch, "1" | "true" | "") => "true".to_owned(),
                (ParamKind::Switch, "0" | "false") => continue,
                (ParamKind::Switch, _) => {
                    given.refuse(&name, format!("{text:?}"), "1 or 0");
                    continue;
                }
                (ParamKind::Time, text) => with_plus(text),
                (_, text) => text.to_owned(),
            };
            given.put(parameter, text);
        }
        given.checked(route)
    }

    /// Returns the parameters in the members of a JSON body; without a body, there are none. Fails as
    /// [`GivenParameters::of_query`] does.
    pub(super) fn of_body(route: &'static Route, body: Option<&Value>) -> Result<Self, ApiProblem> {
        let mut given = Self::default();
        let none = Value::Object(Map::new());
        let Value::Object(members) = body.unwrap_or(&none) else {
            return Err(ApiProblem::bad_request(
                "found a body that is no JSON object, wanted an object or no body",
            ));
        };
        for (name, value) in members {
            let settings = route.parameters.iter().find(|known| known.kind == ParamKind::Settings);
            let parameter = settings.map_or_else(|| parameter_of(route, name), Ok)?;
            let texts = match (parameter.kind, value) {
                (ParamKind::Settings, Value::Array(_) | Value::Object(_)) => None,
                (ParamKind::Settings, Value::Null) => Some(vec![format!("{name}=none")]),
                (ParamKind::Settings, Value::String(text)) => Some(vec![format!("{name}={text}")]),
                (ParamKind::Settings, value) => Some(vec![format!("{name}={value}")]),
                (_, Value::Null) | (ParamKind::Switch, Value::Bool(false)) => continue,
                (ParamKind::Switch, Value::Bool(true)) => Some(vec!["true".to_owned()]),
                (ParamKind::Number(..), Value::Number(number)) => Some(vec![whole(number)]),
                (ParamKind::Switch | ParamKind::Number(..), _) => None,
                (_, Value::String(text)) => Some(vec![text.clone()]),
                (ParamKind::Tags | ParamKind::Texts, Value::Array(items)) => {
                    items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
                }
                _ => None,
            };
            match texts {
                Some(texts) => texts.into_iter().for_each(|text| given.put(parameter, text)),
                None => given.refuse(name, short(value), parameter.kind.wanted()),
            }
        }
        given.checked(route)
    }

    /// Adds a value, or the fault of a value of another kind.
    fn put(&mut self, parameter: &'static Parameter, text: String) {
        let name = parameter.name;
        if text.contains('\0') {
            return self.refuse(name, "the character NUL", "a text without it");
        }
        if !parameter.kind.takes(&text) {
            let found: String = text.chars().take(100).collect();
            return self.refuse(name, format!("{found:?}"), parameter.kind.wanted());
        }
        let is_multiple =
            matches!(parameter.kind, ParamKind::Tags | ParamKind::Texts | ParamKind::Settings);
        match self.texts.iter_mut().find(|(known, _)| known.name == name) {
            Some(_) if !is_multiple => self.refuse(name, "the parameter twice", "it once"),
            Some((_, texts)) => texts.push(text),
            None => self.texts.push((parameter, vec![text])),
        }
    }

    fn refuse(&mut self, name: &str, found: impl Into<String>, wanted: impl Into<String>) {
        self.faults.push(Fault::new(name, found, wanted));
    }

    /// Fails (422) for faulty values, a missing parameter, or two that exclude each other.
    fn checked(mut self, route: &'static Route) -> Result<Self, ApiProblem> {
        let is_given = |name: &str| self.texts.iter().any(|(known, _)| known.name == name);
        let mut faults = std::mem::take(&mut self.faults);
        for parameter in route.parameters {
            let Parameter { name, excludes, .. } = *parameter;
            let is_faulty = faults.iter().any(|fault| fault.path.as_deref() == Some(name));
            if parameter.kind == ParamKind::Settings {
                // The faults are of settings, which are members of the body themselves.
                if faults.is_empty() && !is_given(name) {
                    faults.push(Fault {
                        path: None,
                        found: "no setting".to_owned(),
                        wanted: Some("settings of a queue such as {\"limit\": 3}".to_owned()),
                    });
                }
            } else if parameter.is_required && !is_given(name) && !is_faulty {
                faults.push(Fault::new(name, "nothing", parameter.kind.wanted()));
            } else if !excludes.is_empty() && is_given(name) && is_given(excludes) {
                let found = format!("{name} together with {excludes}");
                faults.push(Fault::new(name, found, "one of them"));
            }
        }
        if faults.is_empty() { Ok(self) } else { Err(ApiProblem::invalid(faults)) }
    }

    /// Returns the text of a parameter of the API itself.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let (_, texts) = self.texts.iter().find(|(parameter, _)| parameter.name == name)?;
        texts.first().map(String::as_str)
    }

    /// Returns all parameters with their values.
    pub(super) fn pairs(&self) -> Vec<(String, String)> {
        let pairs = self.texts.iter().flat_map(|(parameter, texts)| {
            texts.iter().map(|text| (parameter.name.to_owned(), text.clone()))
        });
        pairs.collect()
    }

    /// Returns the flags of the verb.
    pub(super) fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        let with_flags = self.texts.iter().filter(|(parameter, _)| !parameter.flag.is_empty());
        for (parameter, texts) in with_flags {
            match parameter.kind {
                ParamKind::Switch => flags.push(parameter.flag.to_owned()),
                _ => flags.extend(texts.iter().map(|text| format!("{}={text}", parameter.flag))),
            }
        }
        flags
    }

    /// Returns the words of a parameter with settings.
    pub(super) fn settings(&self) -> Vec<String> {
        let is_setting = |parameter: &Parameter| parameter.kind == ParamKind::Settings;
        let settings = self.texts.iter().filter(|(parameter, _)| is_setting(parameter));
        settings.flat_map(|(_, texts)| texts.clone()).collect()
    }
}

/// Returns the route with this method and path.
pub(in crate::api) fn route_of(method: &str, path: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.method.as_str() == method && route.has_path(path))
}

/// Reads the parameters of a request as its route does. A `body` that is empty counts as missing.
pub(in crate::api) fn check_parameters(
    route: &'static Route,
    uri: &Uri,
    body: &str,
) -> Result<(), ApiProblem> {
    let given = match body {
        "" => GivenParameters::of_query(route, uri)?,
        body => GivenParameters::of_body(route, Some(&request_body::parsed(body.as_bytes())?))?,
    };
    let words = [given.flags(), given.settings()].concat();
    debug_assert!(words.iter().all(|word| !word.contains('\0')), "{words:?}");
    Ok(())
}

fn parameter_of(route: &'static Route, name: &str) -> Result<&'static Parameter, ApiProblem> {
    route.parameters.iter().find(|parameter| parameter.name == name).ok_or_else(|| {
        let known: Vec<&str> = route.parameters.iter().map(|parameter| parameter.name).collect();
        let wanted = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        ApiProblem::bad_request(format!("found the parameter {name:?}, wanted {wanted}"))
    })
}

/// Fails (400) if a request with its parameters in the body has a query.
pub(super) fn refuse_query(uri: &Uri) -> Result<(), ApiProblem> {
    let Some(query) = uri.query().filter(|query| !query.is_empty()) else { return Ok(()) };
    let name: String = query.chars().take_while(|c| *c != '=').take(100).collect();
    Err(ApiProblem::bad_request(format!(
        "found the parameter {name:?} in the query, wanted all parameters in the JSON body"
    )))
}

/// Returns a time with the `+` of its offset, which a query has as a blank: `09:00:00 00:00`.
fn with_plus(text: &str) -> String {
    let is_offset = |text: &str| {
        text.len() == 5
            && text.bytes().enumerate().all(|(at, byte)| match at {
                2 => byte == b':',
                _ => byte.is_ascii_digit(),
            })
    };
    match text.rsplit_once(' ') {
        Some((time, offset)) if time.contains(':') && is_offset(offset) => {
            format!("{time}+{offset}")
        }
        _ => text.to_owned(),
    }
}

/// Returns the text of a number; that of `3.0` is `3`, because JSON has only one kind of number.
fn whole(number: &serde_json::Number) -> String {
    let text = number.to_string();
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Returns the first 100 characters of a JSON value, to be shown in a message.
fn short(value: &Value) -> String {
    value.to_string().chars().take(100).collect()
}
