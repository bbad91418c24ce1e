//! The parameters of a request: those of its query, or the members of its JSON body. Each stands for
//! a flag of the verb that answers the route.

use axum::http::Uri;
use serde_json::Value;

use super::parameter::{ParamKind, Parameter};
use super::request_body;
use super::route_table::{ROUTES, Route};
use crate::api::api_problem::ApiProblem;

/// The parameters that a request gives, by name.
#[derive(Debug, Default)]
pub(super) struct GivenParameters(Vec<(&'static Parameter, Vec<String>)>);

impl GivenParameters {
    /// Returns the parameters in the query of `uri`. Fails (400) for an unknown parameter or a value
    /// of another kind.
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
                (ParamKind::Switch, _) => return Err(wrong(&name, &format!("{text:?}"), "1 or 0")),
                (ParamKind::Number, digits) if !is_number(digits) => {
                    return Err(wrong(&name, &format!("{text:?}"), "a whole number"));
                }
                (_, text) => text.to_owned(),
            };
            given.put(parameter, text)?;
        }
        Ok(given)
    }

    /// Returns the parameters in the members of a JSON body. Fails (400) as [`GivenParameters::of_query`] does.
    pub(super) fn of_body(route: &'static Route, body: &Value) -> Result<Self, ApiProblem> {
        let mut given = Self::default();
        let Value::Object(members) = body else {
            return Err(ApiProblem::bad_request(
                "found a body that is no JSON object, wanted an object or no body",
            ));
        };
        for (name, value) in members {
            let settings = route.parameters.iter().find(|known| known.kind == ParamKind::Settings);
            let parameter = settings.map_or_else(|| parameter_of(route, name), Ok)?;
            match (parameter.kind, value) {
                (ParamKind::Settings, Value::Array(_) | Value::Object(_)) => {
                    return Err(wrong(name, &short(value), "a text, a number or null"));
                }
                (ParamKind::Settings, value) => {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    let text = if value.is_null() { "none".to_owned() } else { text };
                    given.put(parameter, format!("{name}={text}"))?;
                }
                (_, Value::Null) | (ParamKind::Switch, Value::Bool(false)) => {}
                (ParamKind::Switch, Value::Bool(true)) => {
                    given.put(parameter, "true".to_owned())?;
                }
                (ParamKind::Number, Value::Number(number)) if is_number(&whole(number)) => {
                    given.put(parameter, whole(number))?;
                }
                (ParamKind::Text | ParamKind::Texts, Value::String(text)) => {
                    given.put(parameter, text.clone())?;
                }
                (ParamKind::Texts, Value::Array(items)) if items.iter().all(Value::is_string) => {
                    for item in items.iter().filter_map(Value::as_str) {
                        given.put(parameter, item.to_owned())?;
                    }
                }
                (kind, found) => return Err(wrong(name, &short(found), kind.wanted())),
            }
        }
        Ok(given)
    }

    fn put(&mut self, parameter: &'static Parameter, text: String) -> Result<(), ApiProblem> {
        if text.contains('\0') {
            let detail =
                format!("{}: found the character NUL, wanted a text without it", parameter.name);
            return Err(ApiProblem::invalid(detail, Vec::new()));
        }
        let is_multiple = matches!(parameter.kind, ParamKind::Texts | ParamKind::Settings);
        match self.0.iter_mut().find(|(known, _)| known.name == parameter.name) {
            Some(_) if !is_multiple => Err(wrong(parameter.name, "the parameter twice", "it once")),
            Some((_, texts)) => {
                texts.push(text);
                Ok(())
            }
            None => {
                self.0.push((parameter, vec![text]));
                Ok(())
            }
        }
    }

    /// Returns the text of a parameter of the API itself.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let (_, texts) = self.0.iter().find(|(parameter, _)| parameter.name == name)?;
        texts.first().map(String::as_str)
    }

    /// Returns all parameters with their values.
    pub(super) fn pairs(&self) -> Vec<(String, String)> {
        let pairs = self.0.iter().flat_map(|(parameter, texts)| {
            texts.iter().map(|text| (parameter.name.to_owned(), text.clone()))
        });
        pairs.collect()
    }

    /// Returns the flags of the verb.
    pub(super) fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        for (parameter, texts) in self.0.iter().filter(|(parameter, _)| !parameter.flag.is_empty())
        {
            match parameter.kind {
                ParamKind::Switch => flags.push(parameter.flag.to_owned()),
                _ => flags.extend(texts.iter().map(|text| format!("{}={text}", parameter.flag))),
            }
        }
        flags
    }

    /// Returns the words of a parameter with settings.
    pub(super) fn settings(&self) -> Vec<String> {
        let settings = self.0.iter().filter(|(parameter, _)| parameter.kind == ParamKind::Settings);
        settings.flat_map(|(_, texts)| texts.clone()).collect()
    }
}

/// Returns the route with this method and path.
pub(in crate::api) fn route_of(method: &str, path: &str) -> Option<&'static Route> {
    let is_same = |route: &&Route| {
        let mut words = path.split('/');
        let is_word = |wanted: &str| {
            words
                .next()
                .is_some_and(|word| word == wanted || wanted.starts_with('{') && !word.is_empty())
        };
        route.method.as_str() == method
            && path.matches('/').count() == route.path.matches('/').count()
            && route.path.split('/').all(is_word)
    };
    ROUTES.iter().find(is_same)
}

/// Reads the parameters of a request as its route does. A `body` that is empty counts as missing.
pub(in crate::api) fn check_parameters(
    route: &'static Route,
    uri: &Uri,
    body: &str,
) -> Result<(), ApiProblem> {
    let given = match body {
        "" => GivenParameters::of_query(route, uri)?,
        body => GivenParameters::of_body(route, &request_body::parsed(body.as_bytes())?)?,
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

fn wrong(name: &str, found: &str, wanted: &str) -> ApiProblem {
    ApiProblem::bad_request(format!("{name}: found {found}, wanted {wanted}"))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit())
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
