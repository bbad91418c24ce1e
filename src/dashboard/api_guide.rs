//! The routes of the HTTP API as a page shows them. The API makes this guide from its table of
//! routes, so it has each route with the parameters and bounds that the API checks.

/// The routes of the API.
#[derive(Debug, Default)]
pub(crate) struct ApiGuide {
    pub(crate) routes: Vec<GuideRoute>,
}

/// A route.
#[derive(Debug)]
pub(crate) struct GuideRoute {
    pub(crate) method: String,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// The least role that may use the route. `None` if it needs no token.
    pub(crate) role: Option<String>,
    pub(crate) parameters: Vec<GuideParameter>,
    /// The path and the query of the example.
    pub(crate) address: String,
    /// The type and the text of the example's body. `None` if it has none.
    pub(crate) body: Option<(&'static str, String)>,
    /// True if the answer goes on without an end.
    pub(crate) is_stream: bool,
}

/// A parameter of a route.
#[derive(Debug)]
pub(crate) struct GuideParameter {
    pub(crate) name: &'static str,
    /// The values that the parameter takes, in words.
    pub(crate) wanted: String,
    pub(crate) meaning: String,
    pub(crate) is_required: bool,
}

impl GuideRoute {
    /// Returns the example as a command line. `server` are the words with which `curl` reaches the
    /// API, and `base` is the path before all routes.
    pub(crate) fn command(&self, server: &str, base: &str) -> String {
        let mut words = vec!["curl".to_owned()];
        if self.is_stream {
            words.push("-N".to_owned());
        }
        if self.method != "GET" && (self.method != "POST" || self.body.is_none()) {
            words.push(format!("-X {}", self.method));
        }
        if self.role.is_some() {
            words.push("-H \"Authorization: Bearer $TOKEN\"".to_owned());
        }
        if let Some((kind, text)) = &self.body {
            words.push(format!("-H 'Content-Type: {kind}' -d {}", quoted(text)));
        }
        let (options, host) = server.rsplit_once(' ').unwrap_or(("", server));
        words.extend(Some(options.to_owned()).filter(|options| !options.is_empty()));
        words.push(quoted(&format!("{host}{base}{}", self.address)));
        words.join(" ")
    }

    /// Returns the name of the route's heading.
    pub(crate) fn anchor(&self) -> String {
        let words = self.path.replace(['{', '}'], "");
        let words: Vec<&str> = words.split(['/', '.']).filter(|word| !word.is_empty()).collect();
        format!("{}-{}", self.method.to_ascii_lowercase(), words.join("-"))
    }
}

/// Returns a text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_one_line_for_a_shell() {
        let mut route = GuideRoute {
            method: "POST".to_owned(),
            path: "/v1/jobs/{job}/pause",
            summary: "Pause a job",
            role: Some("operator".to_owned()),
            parameters: Vec::new(),
            address: "/v1/jobs/backup/pause".to_owned(),
            body: None,
            is_stream: false,
        };
        assert_eq!(
            route.command("http://localhost:7341", "/ops"),
            "curl -X POST -H \"Authorization: Bearer $TOKEN\" 'http://localhost:7341/ops/v1/jobs/backup/pause'"
        );
        assert_eq!(route.anchor(), "post-v1-jobs-job-pause");
        route.body = Some(("application/json", "{\"a\": \"it's\"}".to_owned()));
        route.role = None;
        assert_eq!(
            route.command("--unix-socket /run/a.sock http://localhost", ""),
            "curl -H 'Content-Type: application/json' -d '{\"a\": \"it'\\''s\"}' --unix-socket /run/a.sock 'http://localhost/v1/jobs/backup/pause'"
        );
    }
}
