//! The canonical JSON of a job, as stored in Redis: the keys of `[jobs.X]` as one line of JSON.
//!
//! Invariant: equal jobs give equal texts, whatever file, line or flags they came from. Keys are
//! sorted, default values are left out, and durations and instants have one spelling. So comparing
//! the texts, or their hashes, shows whether a definition changed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::node_json;
use crate::config::job::compile_http::default_method;
use crate::config::job::compile_job::{JobContext, compile_job};
use crate::config::job::compile_notices::NOTICE_METHOD;
use crate::config::job::compile_retry::default_max_delay;
use crate::config::job::policies::Policies;
use crate::config::key::origin::Origin;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::Spot;
use crate::config::syntax::redaction::Secrecy;
use crate::domain::job::job_spec::{
    Action, AskedOn, Backoff, CatchUp, CatchUpMode, Delivery, DoneCheck, HttpRequest, JobSpec, Overlap, RetryRule,
};
use crate::domain::job::process_limits::Limits;
use crate::domain::job::process_rules::ProcessRules;
use crate::domain::job::unique_rule::{Second, Unique};
use crate::domain::name::byte_size::format_size;
use crate::domain::queue::gate::PerKey;
use crate::domain::schedule::clock_changes::ClockChanges;
use crate::domain::schedule::schedule_form::Schedule;
use crate::domain::schedule::schedule_modifiers::Shape;
use crate::domain::time::duration::format_duration;

/// The reason why a text from Redis is no definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SurfaceError {
    /// The text differs from every text that [`to_surface`] writes.
    #[error("definition is damaged: {reason}")]
    Corrupt {
        /// The problem of the text, described in one line.
        reason: String,
    },
    /// The text has a key that this version does not know.
    #[error("definition has the key {key:?}, which this version does not know: it was written by a newer schedd")]
    Newer {
        /// The unknown key, with the names of the tables around it.
        key: String,
    },
}

/// Returns the canonical text of the job `spec`.
pub fn to_surface(spec: &JobSpec) -> String {
    // A job with all defaults, to recognise default values. Its schedule and action are
    // placeholders, because these have no default.
    let plain = JobSpec::with_defaults(Schedule::Manual, Action::Shell(String::new()));
    let mut out = Sheet::default();
    put_schedule(&mut out, &spec.schedule);
    put_shape(&mut out, &spec.shape);
    put_action(&mut out, &spec.action);
    if let Some(tz) = &spec.tz {
        out.put("tz", tz.as_str());
    }
    if !spec.dst.is_default() {
        out.put("dst", clock_changes(spec.dst));
    }
    if let Some(cwd) = &spec.cwd {
        out.put("cwd", cwd.to_string_lossy());
    }
    put_process(&mut out, &spec.process);
    if !spec.env.is_empty() {
        out.put("env", texts(&spec.env));
    }
    if !spec.env_files.is_empty() {
        out.put_list("env_file", spec.env_files.iter().map(ToString::to_string));
    }
    if spec.log_output {
        out.put("log_output", true);
    }
    if spec.queue != plain.queue {
        out.put("queue", spec.queue.as_str());
    }
    if spec.priority != plain.priority {
        out.put("priority", spec.priority.as_i8());
    }
    if !spec.requires.is_empty() {
        out.put("requires", spec.requires.iter().map(|label| label.as_str().to_owned()).collect::<Vec<_>>());
    }
    if let Some(key) = &spec.key {
        out.put("key", key.as_str());
    }
    if spec.per_key != plain.per_key {
        out.put("per_key", per_key(spec.per_key));
    }
    if !spec.not_while.is_empty() {
        out.put("not_while", spec.not_while.iter().map(|job| job.as_str().to_owned()).collect::<Vec<_>>());
    }
    if let Some(group) = &spec.group {
        out.put("group", group.as_str());
    }
    if spec.timeout != plain.timeout {
        out.put_duration("timeout", spec.timeout);
    }
    if spec.kill_grace != plain.kill_grace {
        out.put_duration("kill_grace", spec.kill_grace);
    }
    if spec.late_after != plain.late_after {
        out.put_duration("late_after", spec.late_after);
    }
    if spec.retry != plain.retry {
        out.put("retry", retry(&spec.retry));
    }
    if spec.catch_up != plain.catch_up {
        out.put("catch_up", catch_up(&spec.catch_up));
    }
    match spec.overlap {
        Overlap::Skip => {}
        Overlap::Queue { max: 1 } => out.put("overlap", "queue"),
        Overlap::Queue { max } => out.put("overlap", Sheet::of([("mode", "queue".into()), ("max", max.into())]).value()),
        Overlap::Replace => out.put("overlap", "replace"),
        Overlap::Allow => out.put("overlap", "allow"),
    }
    match spec.delivery {
        Delivery::AtLeastOnce => {}
        Delivery::AtMostOnce => out.put("delivery", "at-most-once"),
    }
    if let Some(check) = &spec.done_check {
        out.put("done_check", done_check(check));
    }
    for (kind, action) in &spec.notices {
        out.put(kind.as_str(), notice(action));
    }
    for (key, within) in [("must_start_within", spec.must_start_within), ("must_finish_within", spec.must_finish_within)] {
        if let Some(within) = within {
            out.put_duration(key, within);
        }
    }
    if let Some(url) = &spec.ping_url {
        out.put("ping_url", url.as_str());
    }
    if !spec.webhook_secrets.is_empty() {
        out.put_list("webhook_secret", spec.webhook_secrets.iter().map(|secret| secret.as_str().to_owned()));
    }
    if let Some(rule) = &spec.unique {
        out.put("unique", unique(rule));
    }
    out.value().to_string()
}

fn per_key(per_key: PerKey) -> Value {
    let PerKey { limit, rate } = per_key;
    match (limit, rate) {
        (Some(limit), None) => limit.into(),
        (limit, rate) => {
            let mut out = Sheet::default();
            if let Some(limit) = limit {
                out.put("limit", limit);
            }
            if let Some(rate) = rate {
                out.put("rate", rate.to_string());
                if rate.burst() != rate.count() {
                    out.put("burst", rate.burst());
                }
            }
            out.value()
        }
    }
}

/// Returns the job that a canonical text defines. The text is checked like any other text, because
/// somebody may have changed it in Redis.
pub fn from_surface(text: &str) -> Result<JobSpec, SurfaceError> {
    let corrupt = |reason: String| SurfaceError::Corrupt { reason };
    let node = node_json::from_text(text).map_err(corrupt)?;
    let root = Spot::root(&node, Secrecy::Action);
    let table = root.as_table().ok_or_else(|| corrupt(format!("found {}, wanted an object", root.found())))?;
    let mut problems = Problems::default();
    let context = JobContext { name: None, defaults: &Policies::default(), host_zone: None, origin: Origin::Surface };
    let spec = compile_job(&table, context, &mut problems);
    match (problems.unknown_key, problems.faults.first(), spec) {
        (Some(key), _, _) => Err(SurfaceError::Newer { key }),
        (None, None, Some(spec)) => Ok(spec),
        (None, fault, _) => Err(corrupt(fault.map_or_else(String::new, ToString::to_string))),
    }
}

/// Returns the SHA-1 of a canonical text, in hexadecimal. The hash is short enough to compare and
/// store, and gives no protection against forged texts.
pub fn hash(surface: &str) -> String {
    sha1_smol::Sha1::from(surface).digest().to_string()
}

/// A table with sorted keys. The order does not depend on the map with which the JSON library is
/// built.
#[derive(Default)]
struct Sheet(BTreeMap<&'static str, Value>);

impl Sheet {
    fn of<const N: usize>(entries: [(&'static str, Value); N]) -> Self {
        Self(BTreeMap::from(entries))
    }

    fn put(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.insert(key, value.into());
    }

    /// Sets `key` to a list of texts. A list of one text is stored as that text alone.
    fn put_list(&mut self, key: &'static str, texts: impl Iterator<Item = String>) {
        let mut texts: Vec<String> = texts.collect();
        match (texts.pop(), texts.is_empty()) {
            (Some(one), true) => self.put(key, one),
            (last, _) => {
                texts.extend(last);
                self.put(key, texts);
            }
        }
    }

    fn put_duration(&mut self, key: &'static str, duration: Duration) {
        self.put(key, format_duration(duration));
    }

    fn value(self) -> Value {
        Value::Object(self.0.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }
}

fn put_schedule(out: &mut Sheet, schedule: &Schedule) {
    match schedule {
        Schedule::Manual => {}
        Schedule::At(at) => out.put("at", at.to_string()),
        Schedule::Instants(list) => out.put_list("at", list.iter().map(ToString::to_string)),
        Schedule::Every(period) => out.put_duration("every", *period),
        Schedule::Delay(delay) => out.put_duration("delay", *delay),
        Schedule::Cron(list) => out.put_list("cron", list.iter().map(ToString::to_string)),
        Schedule::Calendar(list) => out.put_list("calendar", list.iter().map(ToString::to_string)),
        Schedule::Rules(list) => {
            out.put_list("rrule", list.iter().map(|rule| rule.as_str().to_owned()));
            if let Some(rule) = list.first() {
                out.put("dtstart", rule.start().to_string());
            }
        }
        Schedule::Several(list) => {
            let one = |schedule: &Schedule| {
                let mut out = Sheet::default();
                put_schedule(&mut out, schedule);
                out.value()
            };
            out.put("schedules", list.iter().map(one).collect::<Vec<_>>());
        }
    }
}

fn put_shape(out: &mut Sheet, shape: &Shape) {
    let Shape { anchor, start, end, max_runs, jitter, splay, exclude, only_on, skip_if_late } = shape;
    for (key, at) in [("anchor", anchor), ("start", start), ("end", end)] {
        if let Some(at) = at {
            out.put(key, at.to_string());
        }
    }
    if let Some(max_runs) = max_runs {
        out.put("max_runs", *max_runs);
    }
    for (key, by) in [("jitter", jitter), ("splay", splay)] {
        if !by.is_zero() {
            out.put_duration(key, *by);
        }
    }
    if !exclude.is_empty() {
        out.put("exclude", exclude.texts());
    }
    if let Some(only_on) = only_on {
        out.put("only_on", only_on.texts());
    }
    if let Some(late) = skip_if_late {
        out.put_duration("skip_if_late", *late);
    }
}

fn texts(texts: &BTreeMap<String, String>) -> Value {
    Value::Object(texts.iter().map(|(key, text)| (key.clone(), text.as_str().into())).collect::<Map<_, _>>())
}

fn put_action(out: &mut Sheet, action: &Action) {
    match action {
        Action::Command(words) => out.put("command", words.clone()),
        Action::Shell(line) => out.put("shell", line.as_str()),
        Action::Http(request) => out.put("http", http(request, default_method(&request.body))),
    }
}

/// Returns the canonical value of a notice's action. The default method of its request differs
/// from the default of a job's request.
fn notice(action: &Action) -> Value {
    let mut out = Sheet::default();
    match action {
        Action::Http(request) => out.put("http", http(request, NOTICE_METHOD)),
        Action::Command(_) | Action::Shell(_) => put_action(&mut out, action),
    }
    out.value()
}

fn limits_table(limits: Limits) -> Value {
    let Limits { memory, cpu, pids, files, nice } = limits;
    let mut out = Sheet::default();
    if let Some(bytes) = memory {
        out.put("memory", format_size(bytes));
    }
    match cpu {
        Some(thousandths) if thousandths.is_multiple_of(1_000) => out.put("cpu", thousandths / 1_000),
        Some(thousandths) => out.put("cpu", f64::from(thousandths) / 1_000.0),
        None => {}
    }
    if let Some(most) = pids {
        out.put("pids", most);
    }
    if let Some(most) = files {
        out.put("files", most);
    }
    if let Some(nice) = nice {
        out.put("nice", nice);
    }
    out.value()
}

fn put_process(out: &mut Sheet, rules: &ProcessRules) {
    let ProcessRules { user, limits, umask, stdin, shell_program } = rules;
    if let Some(user) = user {
        out.put("user", user.to_string());
    }
    if *limits != Limits::default() {
        out.put("limits", limits_table(*limits));
    }
    if let Some(umask) = umask {
        out.put("umask", umask.to_string());
    }
    if let Some(stdin) = stdin {
        out.put("stdin", stdin.as_str());
    }
    if let Some(program) = shell_program {
        out.put("shell_program", program.to_string_lossy());
    }
}

fn clock_changes(rule: ClockChanges) -> Value {
    let mut out = Sheet::default();
    if let Some(gap) = rule.gap {
        out.put("gap", gap.as_str());
    }
    if let Some(fold) = rule.fold {
        out.put("fold", fold.as_str());
    }
    out.value()
}

fn done_check(check: &DoneCheck) -> Value {
    let mut out = Sheet::default();
    put_action(&mut out, &check.question);
    match check.on {
        AskedOn::Retry => {}
        AskedOn::Always => out.put("on", "always"),
    }
    if check.timeout != DoneCheck::TIMEOUT {
        out.put_duration("timeout", check.timeout);
    }
    out.value()
}

fn http(request: &HttpRequest, unnamed: &str) -> Value {
    let HttpRequest { method, url, headers, body, expect, redirects } = request;
    let mut out = Sheet::of([("url", url.as_str().into())]);
    if method != unnamed {
        out.put("method", method.as_str());
    }
    if !headers.is_empty() {
        out.put("headers", texts(headers));
    }
    if !body.is_empty() {
        out.put("body", body.as_str());
    }
    if !expect.is_empty() {
        out.put("expect", expect.clone());
    }
    if *redirects != 0 {
        out.put("redirects", *redirects);
    }
    out.value()
}

fn retry(retry: &RetryRule) -> Value {
    let plain = RetryRule::default();
    let mut out = Sheet::of([("limit", retry.limit.into())]);
    if retry.delay != plain.delay {
        out.put_duration("delay", retry.delay);
    }
    if retry.max_delay != default_max_delay(retry.delay) {
        out.put_duration("max_delay", retry.max_delay);
    }
    match retry.backoff {
        Backoff::Exponential => {}
        Backoff::Linear => out.put("backoff", "linear"),
        Backoff::Fixed => out.put("backoff", "fixed"),
    }
    if !retry.jitter {
        out.put("jitter", false);
    }
    for (key, codes) in [("on", &retry.on), ("never_on", &retry.never_on)] {
        if !codes.is_empty() {
            out.put(key, codes.iter().copied().collect::<Vec<u16>>());
        }
    }
    out.value()
}

fn unique(unique: &Unique) -> Value {
    if unique.second == (Second::Refused { window: None }) {
        return unique.key.as_str().into();
    }
    let mut out = Sheet::of([("key", unique.key.as_str().into())]);
    if let Some(window) = unique.second.window() {
        out.put_duration("for", window);
    }
    if let Some(longest) = unique.second.max_wait() {
        out.put_duration("max_wait", longest);
    }
    if !matches!(unique.second, Second::Refused { .. }) {
        out.put("mode", unique.second.mode());
    }
    out.value()
}

fn catch_up(catch_up: &CatchUp) -> Value {
    let mut out = Sheet::default();
    match catch_up.mode {
        CatchUpMode::Latest => {}
        CatchUpMode::Skip => out.put("mode", "skip"),
        CatchUpMode::All => out.put("mode", "all"),
    }
    if let Some(max_age) = catch_up.max_age {
        out.put_duration("max_age", max_age);
    }
    if catch_up.max_count != CatchUp::default().max_count {
        out.put("max_count", catch_up.max_count);
    }
    if let Some(spread) = catch_up.spread {
        out.put_duration("spread", spread);
    }
    out.value()
}
