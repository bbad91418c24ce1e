//! The description of all routes (`OpenAPI` 3.1). The routes come from the table, and the schemas of
//! the documents from the tables of fields in `docs/json.md`, so neither is written twice.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::metrics;
use super::route::{AnswerShape, ParamKind, Parameter, ROUTES, Route, RouteAccess, RouteAction};
use super::worker;
use crate::cli::embedded::remote_frames::FRAMES;

/// The documentation of the JSON documents.
const DOCUMENTS: &str = include_str!("../../docs/json.md");

/// Returns the description of all routes. Each route stands below the path `base`.
pub(super) fn document(base: &str) -> Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(build);
    let mut document = DOCUMENT.clone();
    if !base.is_empty() {
        document["servers"] = json!([{"url": base}]);
    }
    document
}

fn build() -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES.iter().filter(|route| is_described(route)) {
        let method = route.method.as_str().to_ascii_lowercase();
        paths.entry(route.path).or_default().insert(method, operation(route));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "schedd",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Delayed and cron jobs on Redis. The documents have the fields of schedctl --json.",
        },
        "paths": paths,
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas(),
        },
    })
}

/// Returns true if the description has the route. Pages are for browsers only.
fn is_described(route: &Route) -> bool {
    !route.action.is_of_browser()
}

fn operation(route: &Route) -> Value {
    let mut parameters = Vec::new();
    if let Some((_, rest)) = route.path.split_once('{') {
        let name = rest.split('}').next().unwrap_or_default();
        let pattern = if name == "run" { "^[^@]+@.+$" } else { "^[^@]+$" };
        parameters.push(json!({
            "name": name, "in": "path", "required": true, "schema": {"type": "string", "pattern": pattern},
        }));
    }
    let has_body = route.method == Method::POST;
    let in_query = !has_body || route.action == RouteAction::AddLines;
    for parameter in route.parameters.iter().filter(|_| in_query) {
        parameters.push(json!({
            "name": parameter.name,
            "in": "query",
            "description": parameter.description(),
            "required": parameter.is_required,
            "schema": schema_of(parameter.kind),
        }));
    }
    let role = match route.access {
        RouteAccess::Open => "nobody in particular",
        RouteAccess::Role(role) => role.as_str(),
        RouteAccess::Define => "admin, with define = true",
    };
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "description": format!("Role: {role}."),
        "parameters": parameters,
        "responses": responses(route),
    });
    if has_body && let Some(body) = body(route) {
        operation["requestBody"] = body;
    }
    if route.access == RouteAccess::Open {
        operation["security"] = json!([]);
    }
    operation
}

fn operation_id(route: &Route) -> String {
    let words = route.path.trim_start_matches("/v1").replace(['{', '}'], "");
    let words: Vec<&str> = words.split(['/', '.', '-']).filter(|word| !word.is_empty()).collect();
    format!("{}_{}", route.method.as_str().to_ascii_lowercase(), words.join("_"))
}

fn schema_of(kind: ParamKind) -> Value {
    match kind {
        ParamKind::Text | ParamKind::Time => json!({"type": "string"}),
        ParamKind::Number(least, most) => {
            json!({"type": "integer", "minimum": least, "maximum": most})
        }
        ParamKind::Switch => json!({"type": "boolean"}),
        ParamKind::Word(words) => json!({"type": "string", "enum": words}),
        ParamKind::Words(words) => {
            let word = words.join("|");
            json!({"type": "string", "pattern": format!("^({word})(,({word}))*$")})
        }
        ParamKind::Tags | ParamKind::Texts => json!({"type": "array", "items": {"type": "string"}}),
        ParamKind::Settings => json!({"type": ["string", "number", "boolean", "null"]}),
    }
}

fn body(route: &Route) -> Option<Value> {
    let properties = || -> Map<String, Value> {
        let property = |parameter: &Parameter| {
            let mut schema = schema_of(parameter.kind);
            schema["description"] = parameter.description().into();
            (parameter.name.to_owned(), schema)
        };
        route.parameters.iter().map(property).collect()
    };
    let (kind, schema, is_required) = match route.action {
        RouteAction::AddJob => (
            "application/json",
            json!({"type": "object", "properties": properties(), "description": "The keys of [jobs.X], and these."}),
            true,
        ),
        RouteAction::AddLines => ("application/x-ndjson", json!({}), true),
        RouteAction::RemoteVerb => {
            let description = "The first line is a JSON object with the verb, the rest is its standard input. \
                Only a schedctl of the same version sends it.";
            (
                "application/x-ndjson",
                json!({"type": "object", "required": ["words"], "description": description,
                       "properties": {"words": {"type": "array", "items": {"type": "string"}}}}),
                true,
            )
        }
        RouteAction::Claim => ("application/json", worker::claim_schema(), true),
        RouteAction::Report(kind) => ("application/json", worker::report_schema(kind), true),
        _ if route.parameters.is_empty() => return None,
        _ if route.parameters.iter().any(|parameter| parameter.kind == ParamKind::Settings) => (
            "application/json",
            json!({"type": "object", "minProperties": 1, "additionalProperties": schema_of(ParamKind::Settings)}),
            true,
        ),
        _ => {
            let required: Vec<&str> = route
                .parameters
                .iter()
                .filter(|parameter| parameter.is_required)
                .map(|parameter| parameter.name)
                .collect();
            (
                "application/json",
                json!({"type": "object", "properties": properties(), "required": required, "additionalProperties": false}),
                !required.is_empty(),
            )
        }
    };
    Some(json!({"required": is_required, "content": {kind: {"schema": schema}}}))
}

fn responses(route: &Route) -> Value {
    let document = || json!({"$ref": format!("#/components/schemas/{}", name_of(route.document))});
    let list = || {
        json!({
            "type": "object",
            "required": ["items", "next"],
            "properties": {"items": {"type": "array"}, "next": {"type": ["string", "null"]}},
        })
    };
    let (kind, schema) = match (route.shape, route.action) {
        (AnswerShape::Document | AnswerShape::Only, _) => {
            ("application/json", json!({"anyOf": [document(), list()]}))
        }
        (AnswerShape::Items, _) if route.document == "time in full" => ("application/json", list()),
        (AnswerShape::Items, _) => {
            let mut list = list();
            list["properties"]["items"]["items"] = document();
            ("application/json", list)
        }
        (AnswerShape::Other, RouteAction::AddLines) => {
            ("application/x-ndjson", json!({"type": "string"}))
        }
        (AnswerShape::Other, RouteAction::Events) => ("text/event-stream", json!({})),
        (AnswerShape::Other, RouteAction::RemoteVerb) => (FRAMES, json!({"type": "string"})),
        (AnswerShape::Other, RouteAction::Metrics) => {
            (metrics::CONTENT_TYPE, json!({"type": "string"}))
        }
        (AnswerShape::Other, RouteAction::Logs) => ("text/plain", json!({"type": "string"})),
        (AnswerShape::Other, _) => ("application/json", json!({"type": "object"})),
    };
    let problem = json!({
        "description": "The request was not carried out.",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/problem"}}},
    });
    let mut responses = Map::new();
    let answer = json!({"description": "Done.", "content": {kind: {"schema": schema}}});
    if route.action == RouteAction::SignIn {
        responses.insert("303".to_owned(), json!({"description": "The browser is signed in."}));
    } else {
        responses.insert("200".to_owned(), answer.clone());
    }
    if route.action == RouteAction::AddJob {
        responses.insert("201".to_owned(), answer);
    }
    if route.action == RouteAction::Logs {
        responses["200"]["content"]["text/event-stream"] = json!({"schema": {}});
    }
    if route.action == RouteAction::Ready {
        responses.insert("503".to_owned(), json!({"description": "Not ready.", "content": {"application/json": {"schema": {"type": "object"}}}}));
    }
    responses.insert("default".to_owned(), problem);
    Value::Object(responses)
}

fn name_of(title: &str) -> String {
    title.replace(' ', "_")
}

/// Returns the schema of each document, by its name with `_` for blanks.
fn schemas() -> Map<String, Value> {
    let mut schemas = Map::new();
    for section in DOCUMENTS.split("\n### ").skip(1) {
        let (title, text) = section.split_once('\n').unwrap_or((section, ""));
        let bases: Vec<Value> = text
            .lines()
            .filter(|line| line.starts_with("All fields of "))
            .filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0))
            .map(|base| json!({"$ref": format!("#/components/schemas/{}", name_of(base))}))
            .collect();
        let own = fields(text);
        let schema = if bases.is_empty() {
            own
        } else {
            json!({"allOf": bases.into_iter().chain([own]).collect::<Vec<_>>()})
        };
        schemas.insert(name_of(title.trim()), schema);
    }
    schemas.insert(
        "problem".to_owned(),
        json!({
            "type": "object",
            "required": ["status", "title", "detail", "code"],
            "properties": {
                "status": {"type": "integer"},
                "title": {"type": ["string", "null"]},
                "detail": {"type": "string"},
                "code": {"type": "string"},
                "errors": {"type": "array", "items": {
                    "type": "object",
                    "required": ["path", "found", "wanted"],
                    "properties": {
                        "path": {"type": ["string", "null"]},
                        "found": {"type": "string"},
                        "wanted": {"type": ["string", "null"]},
                    },
                }},
            },
        }),
    );
    schemas
}

/// Returns the JSON schema of an object, from its table of fields in `docs/json.md`. Fields of nested
/// objects, such as `nodes[].name`, are left out.
fn fields(text: &str) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> =
            line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
        let [names, kind, ..] = cells.as_slice() else { continue };
        for name in names.split(", ").map(|name| name.trim_matches('`')) {
            if name.contains(['.', '[']) {
                continue;
            }
            properties.insert(name.to_owned(), type_of(kind));
            required.push(name.to_owned());
        }
    }
    json!({"type": "object", "required": required, "properties": properties})
}

/// Returns the schema for a type of `docs/json.md`, such as `list of text` or `[run](#run) or null`.
fn type_of(kind: &str) -> Value {
    let options: Vec<Value> = kind.split(" or ").map(one_type).collect();
    match options.as_slice() {
        [only] => only.clone(),
        several => json!({"anyOf": several}),
    }
}

fn one_type(kind: &str) -> Value {
    if let Some(items) = kind.strip_prefix("list of ") {
        return json!({"type": "array", "items": one_type(items)});
    }
    if let Some((title, _)) = kind.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return json!({"$ref": format!("#/components/schemas/{}", name_of(title))});
    }
    match kind {
        "text" => json!({"type": "string"}),
        "time" => json!({"type": "string", "format": "date-time"}),
        "integer" => json!({"type": "integer"}),
        "number" => json!({"type": "number"}),
        "boolean" => json!({"type": "boolean"}),
        "null" => json!({"type": "null"}),
        "object" | "objects" => json!({"type": "object"}),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_is_described_and_each_document_that_it_names_has_a_schema() {
        let document = document("");
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for route in ROUTES.iter().filter(|route| is_described(route)) {
            let operation =
                &document["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
            assert!(operation["summary"].is_string(), "{route:?}");
            assert!(
                route.document.is_empty() || schemas.contains_key(&name_of(route.document)),
                "{route:?}"
            );
        }
        let text = document.to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
        let backfill = &document["paths"]["/v1/jobs/{job}/backfill"]["post"]["requestBody"];
        let schema = &backfill["content"]["application/json"]["schema"];
        assert_eq!((&backfill["required"], &schema["required"]), (&json!(true), &json!(["from"])));
        assert_eq!(schema["properties"]["max"]["maximum"], 10_000);
        assert_eq!(schemas["job"]["properties"]["next_due"]["anyOf"][0]["format"], "date-time");
    }
}
