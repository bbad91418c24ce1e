//! The routes: one row for each method and path.

use axum::http::Method;

use super::parameter::ParamKind::{Number, Settings, Switch, Tags, Text, Texts, Time, Word, Words};
use super::parameter::{ParamKind, Parameter};
use crate::dashboard::PageKind;
use crate::secrets::tokens::TokenRole;

/// A route of the API.
#[derive(Debug)]
pub(in crate::api) struct Route {
    pub(in crate::api) method: Method,
    pub(in crate::api) path: &'static str,
    pub(in crate::api) access: RouteAccess,
    pub(in crate::api) action: RouteAction,
    pub(in crate::api) parameters: &'static [Parameter],
    /// The documents of `docs/json.md` in the answer: a document, or the items of a list.
    pub(in crate::api) document: &'static str,
    pub(in crate::api) shape: AnswerShape,
    pub(in crate::api) summary: &'static str,
}

impl Route {
    /// Returns true if `path` is a path of this route.
    pub(in crate::api) fn has_path(&self, path: &str) -> bool {
        let is_word = |wanted: &str, word: &str| {
            word == wanted || wanted.starts_with('{') && !word.is_empty()
        };
        path.matches('/').count() == self.path.matches('/').count()
            && self.path.split('/').zip(path.split('/')).all(|(wanted, word)| is_word(wanted, word))
    }
}

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum RouteAccess {
    /// Everybody, without a token.
    Open,
    /// A caller whose role includes this role.
    Role(TokenRole),
    /// A caller with the role admin, if `[api] define` is on.
    Define,
}

/// The action that answers a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum RouteAction {
    /// A verb with these words, and the target in the path if there is one.
    Verb(&'static [&'static str]),
    /// A page of jobs.
    Jobs,
    /// A page of runs.
    Runs,
    /// The job in the body is added.
    AddJob,
    /// The job in each line of the body is added.
    AddLines,
    /// A verb of `schedctl --api`.
    RemoteVerb,
    /// Runs for a worker.
    Claim,
    /// A report of a worker about its runs.
    Report(ReportKind),
    /// The output of a run.
    Logs,
    /// The report of a check of all data.
    Doctor,
    /// The events of the namespace, as they happen.
    Events,
    /// The figures for Prometheus.
    Metrics,
    /// The description of all routes.
    OpenApi,
    /// The link for a browser.
    SignIn,
    /// A page of the dashboard.
    Page(PageKind),
    /// The choices of a reader of pages.
    Choose,
    /// An action of the dashboard.
    Act,
    /// The result of an action of the dashboard.
    Acted,
    /// A file of the dashboard.
    Asset,
    /// An answer while this process lives.
    Health,
    /// An answer that says if this node can execute runs.
    Ready,
}

/// The kind of a report of a worker about its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum ReportKind {
    /// The work goes on.
    Heartbeat,
    /// The work is done.
    Complete,
    /// The attempts failed.
    Fail,
    /// The worker gives the runs back.
    Release,
}

impl RouteAction {
    /// Returns true if only browsers use the route. Such a route is refused with a page, and stands
    /// in no description of the API.
    pub(in crate::api) fn is_of_browser(self) -> bool {
        matches!(self, Self::Page(_) | Self::Choose | Self::Act | Self::Acted | Self::Asset)
    }
}

/// The shape of the answer's document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum AnswerShape {
    /// The document of the verb.
    Document,
    /// The list of the verb, as `{"items": [...], "next": null}`.
    Items,
    /// The only item of the verb's list. Several items are answered as [`AnswerShape::Items`].
    Only,
    /// No JSON document.
    Other,
}

const VIEWER: RouteAccess = RouteAccess::Role(TokenRole::Viewer);
const OPERATOR: RouteAccess = RouteAccess::Role(TokenRole::Operator);
const WORKER: RouteAccess = RouteAccess::Role(TokenRole::Worker);

const fn parameter(
    name: &'static str,
    flag: &'static str,
    kind: ParamKind,
    meaning: &'static str,
) -> Parameter {
    Parameter::new(name, flag, kind, meaning)
}

const LIMIT: Parameter =
    parameter("limit", "", Number(1, 1_000), "at most this number of items (50)");
const CURSOR: Parameter = parameter("cursor", "", Text, "the value of next in the page before");
const TAG: Parameter = parameter("tag", "--tag", Tags, "only with this tag, NAME or NAME=VALUE");
/// The tag in the form of a page, which itself refuses a text that is no tag.
const TYPED_TAG: Parameter = parameter("tag", "--tag", Texts, TAG.meaning);
const TZ: Parameter = parameter("tz", "--tz", Text, "the zone of times without an offset");
const Q: Parameter =
    parameter("q", "", Text, "only jobs whose names have this part, or match this pattern");
const QUEUE: Parameter = parameter("queue", "--queue", Text, "only jobs of this queue");
const FAILED: Parameter =
    parameter("failed", "--failed", Switch, "only jobs whose last run failed");
const SOURCE: Parameter = parameter("source", "--source", Text, "file or api");
const SINCE: Parameter =
    parameter("since", "--since", Time, "only runs that ended at this time or later");
const UNTIL: Parameter =
    parameter("until", "--until", Time, "only runs that ended before this time");
const DEAD: Parameter = parameter("dead", "--dead", Switch, "only dead letters");
const JOB_OF_RUNS: Parameter =
    parameter("job", "", Text, "only runs of this job, its open runs first");
const NOTE: Parameter =
    parameter("note", "--note", Text, "why the run is wanted, in at most 200 characters");
const REPLACE: Parameter =
    parameter("replace", "--replace", Switch, "change a job that exists").without("if_absent");
const IF_ABSENT: Parameter =
    parameter("if_absent", "--if-absent", Switch, "leave a job that exists as it is");
const ALLOW_PAST: Parameter =
    parameter("allow_past", "--allow-past", Switch, "run a job whose time is past at once");

/// The states of a job, for `GET /v1/jobs`.
const JOB_STATES: &[&str] = &["scheduled", "running", "retrying", "paused", "manual", "finished"];
/// The states of a run, for `GET /v1/runs`.
const RUN_STATES: &[&str] =
    &["scheduled", "running", "succeeded", "failed", "timed_out", "cancelled", "skipped", "lost"];
/// The keys of the body of `POST /v1/jobs` that are no keys of `[jobs.X]`.
pub(in crate::api) const JOB_KEYS: &[Parameter] = &[
    parameter("name", "--name", Text, "the name of the job (a new random name)"),
    parameter("in", "--in", Text, "the duration from now to the run"),
    REPLACE,
    IF_ABSENT,
    ALLOW_PAST,
];

const BACK: Parameter = parameter("back", "", Text, "the page to which the form leads back");

/// The parameters of an action: the names or the filter that select what it acts on, the flags and the
/// settings of its verb, and what leads back and on.
const ACTION: &[Parameter] = &[
    parameter("name", "", Texts, "a name on which the action acts"),
    parameter(
        "of",
        "",
        Word(&["ticked", "filter"]),
        "filter: all that the filter selects (ticked)",
    ),
    Q,
    parameter("state", "--state", Text, "only jobs or runs in this state"),
    QUEUE,
    SOURCE,
    FAILED,
    parameter("job", "", Text, "only runs of this job"),
    SINCE,
    UNTIL,
    DEAD,
    TAG,
    CURSOR,
    NOTE,
    parameter("stop", "--stop", Switch, "also stop the runs of the job"),
    parameter("from", "--from", Time, "the first time of a backfill"),
    parameter("to", "--to", Time, "the end of the time of a backfill"),
    parameter("max", "--max", Text, "at most this number of runs"),
    parameter("yes", "--yes", Switch, "also run times before the job was added"),
    parameter("concurrency", "", Text, "a setting of a queue"),
    parameter("limit", "", Text, "a setting of a queue"),
    parameter("rate", "", Text, "a setting of a queue"),
    parameter("burst", "", Text, "a setting of a queue"),
    parameter("weight", "", Text, "a setting of a queue"),
    parameter("strict", "", Text, "a setting of a queue"),
    parameter("warn_depth", "", Text, "a setting of a queue"),
    parameter("warn_oldest", "", Text, "a setting of a queue"),
    parameter("on_backlog", "", Text, "a setting of a queue"),
    BACK,
    parameter("more", "", Text, "the page of the next things on which to act"),
    parameter("key", "", Text, "the key of the form, which is sent once"),
];

macro_rules! route {
    ($method:ident $path:literal $access:expr, $action:expr, [$($parameter:expr),*], $document:literal $shape:ident, $summary:literal) => {
        route!($method $path $access, $action, &[$($parameter),*], $document $shape, $summary)
    };
    ($method:ident $path:literal $access:expr, $action:expr, $parameters:expr, $document:literal $shape:ident, $summary:literal) => {
        Route {
            method: Method::$method,
            path: $path,
            access: $access,
            action: $action,
            parameters: $parameters,
            document: $document,
            shape: AnswerShape::$shape,
            summary: $summary,
        }
    };
}

use RouteAction::{
    Act, Acted, AddJob, AddLines, Asset, Choose, Claim, Doctor, Events, Health, Jobs, Logs,
    Metrics, OpenApi, Page, Ready, RemoteVerb, Report, Runs, SignIn, Verb,
};

/// All routes.
pub(in crate::api) static ROUTES: &[Route] = &[
    route!(GET "/v1/jobs" VIEWER, Jobs, [
        parameter("state", "--state", Word(JOB_STATES), "only jobs in this state; paused also while they run"),
        QUEUE,
        parameter("source", "--source", Word(&["file", "api"]), "only jobs of files, or only jobs that were added"),
        parameter("prefix", "", Text, "only jobs whose names begin so"),
        FAILED,
        parameter("all", "--all", Switch, "also finished one-shots"),
        TAG, LIMIT, CURSOR
    ], "job" Items, "List jobs by the time of their next run"),
    route!(POST "/v1/jobs" RouteAccess::Define, AddJob, JOB_KEYS, "added job" Document, "Add a job"),
    route!(POST "/v1/jobs/bulk" RouteAccess::Define, AddLines, [
        REPLACE, IF_ABSENT, ALLOW_PAST
    ], "added line" Other, "Add the job in each line of an NDJSON body"),
    route!(GET "/v1/jobs/{job}" VIEWER, Verb(&["show"]), [], "whole job" Document, "Show a job"),
    route!(DELETE "/v1/jobs/{job}" OPERATOR, Verb(&["cancel"]), [
        parameter("stop", "--stop", Switch, "also stop its runs")
    ], "cancelled" Only, "Remove a job that was added"),
    route!(POST "/v1/jobs/{job}/run" OPERATOR, Verb(&["run"]), [NOTE], "new run" Document, "Run a job now"),
    route!(POST "/v1/jobs/{job}/pause" OPERATOR, Verb(&["pause"]), [], "switched job" Only, "Pause a job"),
    route!(POST "/v1/jobs/{job}/resume" OPERATOR, Verb(&["resume"]), [], "switched job" Only, "Resume a job"),
    route!(POST "/v1/jobs/{job}/backfill" OPERATOR, Verb(&["backfill"]), [
        parameter("from", "--from", Time, "the first time").required(),
        parameter("to", "--to", Time, "the end of the time (now)"),
        parameter("max", "--max", Number(1, 10_000), "at most this number of runs (1000)"),
        parameter("dry_run", "--dry-run", Switch, "only list the occurrences"),
        parameter("yes", "--yes", Switch, "also run times before the job was added")
    ], "backfill" Document, "Run past occurrences of a job"),
    route!(GET "/v1/jobs/{job}/next" VIEWER, Verb(&["next"]), [
        parameter("count", "--count", Number(1, 1_000), "the number of times (5)"),
        parameter("from", "--from", Time, "the start of the times (now)"),
        parameter("long", "--long", Switch, "objects with notes about clock changes"),
        TZ
    ], "time in full" Items, "List the next times of a job"),
    route!(GET "/v1/jobs/{job}/explain" VIEWER, Verb(&["explain"]), [
        parameter("at", "--at", Time, "the time to explain").without("last"),
        parameter("last", "--last", Switch, "explain the last occurrence"),
        TZ
    ], "explanation" Document, "Explain why a job did or did not run"),
    route!(GET "/v1/runs" VIEWER, Runs, [
        JOB_OF_RUNS,
        parameter("state", "--state", Words(RUN_STATES), "only runs in these states, separated by commas"),
        SINCE,
        UNTIL,
        DEAD,
        TAG, LIMIT, CURSOR
    ], "run" Items, "List runs, the run that ended last first"),
    route!(GET "/v1/runs/{run}" VIEWER, Verb(&["show"]), [], "whole run" Document, "Show a run"),
    route!(POST "/v1/runs/{run}/cancel" OPERATOR, Verb(&["cancel"]), [], "cancelled" Only, "Stop a run"),
    route!(POST "/v1/runs/{run}/retry" OPERATOR, Verb(&["retry"]), [
        parameter("dry_run", "--dry-run", Switch, "only check")
    ], "retried run" Only, "Retry a run that failed"),
    route!(POST "/v1/runs/{run}/rerun" OPERATOR, Verb(&["rerun"]), [NOTE], "new run" Document, "Run an ended run again"),
    route!(GET "/v1/runs/{run}/explain" VIEWER, Verb(&["explain"]), [TZ], "explanation" Document, "Explain a run"),
    route!(GET "/v1/runs/{run}/logs" VIEWER, Logs, [
        parameter("attempt", "--attempt", Number(1, u32::MAX), "the number of the attempt (the last)").without("follow"),
        parameter("follow", "", Switch, "go on until the run ends, as server-sent events")
    ], "piece of output" Other, "Read the output of a run"),
    route!(GET "/v1/queues" VIEWER, Verb(&["queues"]), [TAG], "queue" Items, "List the queues"),
    route!(POST "/v1/queues/{queue}/pause" OPERATOR, Verb(&["queue", "pause"]), [], "changed queue" Only, "Pause a queue"),
    route!(POST "/v1/queues/{queue}/resume" OPERATOR, Verb(&["queue", "resume"]), [], "changed queue" Only, "Resume a queue"),
    route!(POST "/v1/queues/{queue}/set" OPERATOR, Verb(&["queue", "set"]), [
        parameter("settings", "", Settings, "settings of [queues.X], null for none").required()
    ], "changed queue" Document, "Change the settings of a queue"),
    route!(POST "/v1/queues/{queue}/claim" WORKER, Claim, [], "" Other, "Claim runs for a worker"),
    route!(POST "/v1/runs/heartbeat" WORKER, Report(ReportKind::Heartbeat), [], "" Other, "Renew the leases of a worker's runs"),
    route!(POST "/v1/runs/complete" WORKER, Report(ReportKind::Complete), [], "" Other, "End a worker's runs as succeeded"),
    route!(POST "/v1/runs/fail" WORKER, Report(ReportKind::Fail), [], "" Other, "End attempts of a worker as failed"),
    route!(POST "/v1/runs/release" WORKER, Report(ReportKind::Release), [], "" Other, "Give a worker's runs back"),
    route!(GET "/v1/groups" VIEWER, Verb(&["groups"]), [], "group" Items, "List the groups"),
    route!(GET "/v1/groups/{group}" VIEWER, Verb(&["groups"]), [], "group" Only, "Show a group"),
    route!(GET "/v1/nodes" VIEWER, Verb(&["nodes"]), [], "node" Items, "List the nodes"),
    route!(GET "/v1/stats" VIEWER, Verb(&["stats"]), [], "stats" Document, "Count jobs, runs and stored data"),
    route!(GET "/v1/data-loss" VIEWER, Verb(&["data-loss"]), [], "data loss" Items, "List the data losses of Redis"),
    route!(GET "/v1/graph" VIEWER, Verb(&["graph"]), [], "chained job" Items, "List the chains: jobs that run after others"),
    route!(GET "/v1/doctor" VIEWER, Doctor, [
        parameter("fresh", "", Switch, "check now, instead of answering with a report that is not old yet")
    ], "report" Document, "Check Redis, the nodes and all data"),
    route!(GET "/v1/events" VIEWER, Events, [], "" Other, "Follow what happens, as server-sent events"),
    route!(GET "/v1/openapi.json" VIEWER, OpenApi, [], "" Other, "Describe all routes (OpenAPI 3.1)"),
    route!(POST "/v1/schedctl" VIEWER, RemoteVerb, [], "" Other, "Run a verb of schedctl --api"),
    route!(GET "/login" RouteAccess::Open, SignIn, [
        parameter("code", "", Text, "the code of the link")
    ], "" Other, "Sign a browser in by a link of schedctl dashboard"),
    route!(GET "/" VIEWER, Page(PageKind::Overview), [], "" Other, "The first page of the dashboard"),
    route!(GET "/jobs" VIEWER, Page(PageKind::Jobs), [
        Q,
        parameter("state", "--state", Text, "only jobs in this state"),
        QUEUE,
        SOURCE,
        FAILED,
        TYPED_TAG, CURSOR
    ], "" Other, "The page of jobs"),
    route!(GET "/jobs/{job}" VIEWER, Page(PageKind::Job), [
        parameter("at", "", Text, "the time to explain")
    ], "" Other, "The page of a job"),
    route!(GET "/runs" VIEWER, Page(PageKind::Runs), [
        JOB_OF_RUNS,
        parameter("state", "--state", Text, "only runs in these states, separated by commas"),
        SINCE,
        UNTIL,
        DEAD,
        TYPED_TAG, CURSOR
    ], "" Other, "The page of runs"),
    route!(GET "/runs/{run}" VIEWER, Page(PageKind::Run), [
        parameter("attempt", "--attempt", Number(1, u32::MAX), "the attempt whose output is shown (the last)")
    ], "" Other, "The page of a run"),
    route!(GET "/timeline" VIEWER, Page(PageKind::Timeline), [
        parameter("view", "", Word(&["gantt", "heat"]), "what runs when (gantt), or the load of each hour of the week (heat)"),
        parameter("zoom", "", Word(&["minute", "day", "week"]), "the length of the time that is shown"),
        parameter("from", "", Time, "the start of the time that is shown"),
        parameter("to", "", Time, "the end of the time that is shown"),
        Q,
        parameter("queue", "", Text, "only jobs of this queue"),
        TYPED_TAG
    ], "" Other, "The page of past and coming runs by time"),
    route!(GET "/chains" VIEWER, Page(PageKind::Chains), [
        parameter("job", "", Text, "only the chain of this job")
    ], "" Other, "The page of chains"),
    route!(GET "/queues" VIEWER, Page(PageKind::Queues), [], "" Other, "The page of queues"),
    route!(GET "/groups" VIEWER, Page(PageKind::Groups), [], "" Other, "The page of groups"),
    route!(GET "/nodes" VIEWER, Page(PageKind::Nodes), [], "" Other, "The page of nodes"),
    route!(GET "/doctor" VIEWER, Page(PageKind::Doctor), [], "" Other, "The page of the report of doctor"),
    route!(GET "/losses" VIEWER, Page(PageKind::Losses), [], "" Other, "The page of data losses"),
    route!(GET "/api" VIEWER, Page(PageKind::Api), [], "" Other, "The page of the routes of the API"),
    route!(GET "/choices" VIEWER, Page(PageKind::Choices), [BACK], "" Other, "The page of the reader's choices"),
    route!(POST "/choices" VIEWER, Choose, [
        parameter("zone", "", Text, "own, job or utc"),
        parameter("own_zone", "", Text, "the zone of the reader"),
        parameter("theme", "", Text, "system, light or dark"),
        parameter("keys", "", Text, "on or off: whether single keys do something"),
        BACK
    ], "" Other, "Keep the reader's choices"),
    route!(GET "/act/{action}" OPERATOR, Page(PageKind::Action), ACTION, "" Other, "The page that asks before an action"),
    route!(POST "/act/{action}" OPERATOR, Act, ACTION, "" Other, "Carry out an action"),
    route!(GET "/acted/{key}" OPERATOR, Acted, [], "" Other, "The page of the result of an action"),
    route!(GET "/assets/{asset}" RouteAccess::Open, Asset, [], "" Other, "Read a file of the dashboard"),
    route!(GET "/metrics" VIEWER, Metrics, [], "" Other, "Read the figures of this node and of the namespace"),
    route!(GET "/healthz" RouteAccess::Open, Health, [], "" Other, "Whether this process lives"),
    route!(GET "/readyz" RouteAccess::Open, Ready, [], "" Other, "Whether this node can execute runs"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::embedded::verb_call::parse_verb;

    /// Returns true if the verb of a route takes this value of a parameter.
    fn takes(route: &Route, parameter: &Parameter, value: &str) -> bool {
        let verb: &[&str] = match route.action {
            RouteAction::Verb(verb) => verb,
            RouteAction::Jobs => &["list"],
            RouteAction::Runs => &["history"],
            RouteAction::Logs | RouteAction::Page(PageKind::Run) => &["logs"],
            _ => panic!("{route:?} has no verb"),
        };
        let mut words: Vec<String> = verb.iter().map(ToString::to_string).collect();
        words.push(format!("{}={value}", parameter.flag));
        if route.path.contains('{') {
            words.push("x".to_owned());
        }
        if verb == ["backfill"] {
            words.push("--from=1h".to_owned());
        }
        parse_verb(&words).is_ok()
    }

    #[test]
    fn the_bounds_and_words_of_each_parameter_are_those_of_its_verb() {
        let mut compared = 0;
        for route in ROUTES {
            for parameter in route.parameters.iter().filter(|known| !known.flag.is_empty()) {
                let (good, bad) = match parameter.kind {
                    // A request gets fewer next times than a command.
                    Number(least, most) if parameter.flag == "--count" => (
                        vec![least.to_string(), most.to_string()],
                        vec![(i64::from(least) - 1).to_string()],
                    ),
                    Number(least, most) => (
                        vec![least.to_string(), most.to_string()],
                        vec![(i64::from(least) - 1).to_string(), (u64::from(most) + 1).to_string()],
                    ),
                    Word(words) | Words(words) => {
                        (words.iter().map(ToString::to_string).collect(), vec!["odd".to_owned()])
                    }
                    _ => continue,
                };
                compared += 1;
                for value in good {
                    assert!(takes(route, parameter, &value), "{parameter:?} {value}");
                }
                for value in bad {
                    assert!(!takes(route, parameter, &value), "{parameter:?} {value}");
                }
            }
        }
        assert!(compared >= 6, "{compared}");
    }
}
