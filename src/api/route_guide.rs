//! The routes as the page of the API shows them, made from the table of routes.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::route::{ParamKind, Parameter, ROUTES, ReportKind, Route, RouteAccess, RouteAction};
use crate::dashboard::{ApiGuide, GuideParameter, GuideRoute};

/// Returns the routes that programs use.
pub(super) fn route_guide() -> ApiGuide {
    // Only a schedctl of the same version speaks to the route of remote verbs.
    let is_shown =
        |route: &&Route| !route.action.is_of_browser() && route.action != RouteAction::RemoteVerb;
    ApiGuide { routes: ROUTES.iter().filter(is_shown).map(shown).collect() }
}

fn shown(route: &Route) -> GuideRoute {
    let role = match route.access {
        RouteAccess::Open => None,
        RouteAccess::Role(role) => Some(role.as_str().to_owned()),
        RouteAccess::Define => Some("admin, with define = true".to_owned()),
    };
    let parameter = |parameter: &Parameter| GuideParameter {
        name: parameter.name,
        wanted: parameter.kind.wanted(),
        meaning: parameter.description(),
        is_required: parameter.is_required,
    };
    let has_body = route.method == Method::POST && route.action != RouteAction::AddLines;
    let query = if has_body { String::new() } else { query_of(route) };
    GuideRoute {
        method: route.method.to_string(),
        path: route.path,
        summary: route.summary,
        role,
        parameters: route.parameters.iter().map(parameter).collect(),
        address: format!("{}{query}", path_of(route)),
        body: body_of(route),
        is_stream: route.action == RouteAction::Events,
    }
}

fn path_of(route: &Route) -> String {
    route
        .path
        .replace("{job}", "backup")
        .replace("{run}", "backup%40last")
        .replace("{queue}", "default")
        .replace("{group}", "nightly")
}

/// Returns a query with the parameters that the route needs, or else with a limit if it takes one.
fn query_of(route: &Route) -> String {
    let is_needed = |parameter: &&Parameter| parameter.is_required || parameter.name == "code";
    let mut wanted: Vec<&Parameter> = route.parameters.iter().filter(is_needed).collect();
    if wanted.is_empty() {
        wanted.extend(route.parameters.iter().find(|known| known.name == "limit"));
    }
    let pairs: Vec<String> = wanted
        .into_iter()
        .map(|parameter| {
            format!(
                "{}={}",
                parameter.name,
                value_of(parameter)
                    .as_str()
                    .map_or_else(|| value_of(parameter).to_string(), str::to_owned)
            )
        })
        .collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

fn body_of(route: &Route) -> Option<(&'static str, String)> {
    const JSON: &str = "application/json";
    if route.method != Method::POST {
        return None;
    }
    let job = json!({"name": "backup", "cron": "0 3 * * *", "command": ["/usr/local/bin/backup"]});
    match route.action {
        RouteAction::AddJob => return Some((JSON, job.to_string())),
        RouteAction::AddLines => return Some(("application/x-ndjson", job.to_string())),
        RouteAction::Claim => {
            let body = json!({"claim_id": "b7f3", "worker": {"name": "worker-1"}, "max": 8});
            return Some((JSON, body.to_string()));
        }
        RouteAction::Report(kind) => {
            let mut run = json!({"run_id": "backup@1795816800000", "token": "1.b7f3"});
            if kind == ReportKind::Fail {
                run["error"] = "no route to the mail server".into();
            }
            return Some((JSON, json!({"runs": [run]}).to_string()));
        }
        _ => {}
    }
    let needed = route.parameters.iter().filter(|parameter| parameter.is_required);
    let mut members = Map::new();
    for parameter in needed {
        match parameter.kind {
            ParamKind::Settings => members.insert("limit".to_owned(), json!(3)),
            _ => members.insert(parameter.name.to_owned(), value_of(parameter)),
        };
    }
    (!members.is_empty()).then(|| (JSON, Value::Object(members).to_string()))
}

/// Returns a value that a parameter takes.
fn value_of(parameter: &Parameter) -> Value {
    match parameter.kind {
        ParamKind::Number(least, most) => json!(least.max(10).min(most)),
        ParamKind::Switch => json!(true),
        ParamKind::Word(words) | ParamKind::Words(words) => json!(words.first().unwrap_or(&"")),
        ParamKind::Time => json!("1h"),
        ParamKind::Tags => json!("team=db"),
        ParamKind::Text | ParamKind::Texts | ParamKind::Settings => json!("CODE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::route::check_parameters;

    #[test]
    fn each_example_is_a_request_that_its_route_takes() {
        let guide = route_guide();
        assert!(guide.routes.len() >= 30, "{}", guide.routes.len());
        for shown in &guide.routes {
            let (path, _) = shown.address.split_once('?').unwrap_or((&shown.address, ""));
            let route = crate::api::route::route_of(&shown.method, path).unwrap();
            assert_eq!(route.path, shown.path);
            // The bodies of jobs and of workers have no parameters of the table.
            let is_checked = !matches!(
                route.action,
                RouteAction::AddJob
                    | RouteAction::AddLines
                    | RouteAction::Claim
                    | RouteAction::Report(_)
            );
            if is_checked {
                let body = shown.body.as_ref().map_or("", |(_, text)| text.as_str());
                let uri = shown.address.parse().unwrap();
                assert!(check_parameters(route, &uri, body).is_ok(), "{shown:?}");
            }
        }
    }
}
