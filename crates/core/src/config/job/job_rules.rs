//! The rules of a job merged with the rules of `[defaults]`, and the checks of two keys together.
//!
//! `[defaults]` is compiled once. Each job copies the result and changes the keys that its own
//! table names. So a fault in `[defaults]` is reported once, and not once for each job.

use std::collections::{BTreeMap, BTreeSet};

use super::compile_action::refuse_oversize;
use super::job_keys::RULES;
use crate::config::key::origin::Reading;
use crate::config::key::table_key::read_keys;
use crate::config::syntax::problem::Problems;
use crate::config::syntax::reader::TableReader;
use crate::config::syntax::typos::Slips;
use crate::domain::job::job_spec::{Action, Delivery, JobSpec};
use crate::domain::job::notice::NoticeKind;
use crate::domain::job::process_rules::{RunAs, Started};
use schedd_schedule::schedule_form::Schedule;

/// The rules that apply to a job or that `[defaults]` gives, and how their keys were read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rules {
    /// A definition with these rules. Its schedule and its action are placeholders.
    pub(crate) spec: JobSpec,
    /// The keys that the table itself has, with valid values.
    pub(crate) own: BTreeSet<&'static str>,
    /// The keys whose values have a fault, in the table or in `[defaults]`.
    pub(crate) faulty: BTreeSet<&'static str>,
    /// The unknown keys of the table and of `[defaults]`.
    pub(crate) slips: Slips,
}

impl Default for Rules {
    fn default() -> Self {
        let spec = JobSpec::with_defaults(Schedule::Manual, Action::Shell(String::new()));
        Self { spec, own: BTreeSet::new(), faulty: BTreeSet::new(), slips: Slips::default() }
    }
}

impl Rules {
    /// Returns the rules of `below` (`[defaults]`), changed by the keys of `table`. `slips` are the
    /// table's unknown keys.
    pub(crate) fn read(
        table: &TableReader<'_>,
        slips: Slips,
        below: &Self,
        reading: &mut Reading<'_>,
    ) -> Self {
        let mut spec = below.spec.clone();
        let read = read_keys(RULES, table, reading, &mut spec);
        let faulty = below.faulty.difference(&read.good).chain(&read.faulty).copied().collect();
        Self { spec, own: read.good, faulty, slips: slips.over(&below.slips) }
    }
}

/// Notes a fault or a warning for rules that contradict each other, if `table` itself names one of
/// these rules.
pub(crate) fn refuse_contradictions(
    table: &TableReader<'_>,
    rules: &Rules,
    problems: &mut Problems,
) {
    let Rules { spec, own, .. } = rules;
    refuse_loader_variables(table, spec.process.user.as_ref(), &spec.env, problems);
    let limit = spec.retry.limit;
    if spec.delivery == Delivery::AtMostOnce
        && limit > 0
        && let Some(spot) = table.get("delivery").or_else(|| table.get("retry"))
    {
        let from = |key: &str| if own.contains(key) { "" } else { " (from [defaults])" };
        let (delivery, retry) = (from("delivery"), from("retry"));
        let message = format!(
            "delivery \"at-most-once\"{delivery} contradicts retry.limit {limit}{retry}: a retry is a second start; \
             wanted retry = 0 or delivery = \"at-least-once\""
        );
        spot.fault(problems, message);
    }
    if own.contains("timeout")
        && own.contains("kill_grace")
        && spec.kill_grace > spec.timeout
        && let Some(spot) = table.get("kill_grace")
    {
        let message = "kill_grace is longer than timeout: a job that ignores SIGTERM would take \
                       longer to stop than it may run; wanted a shorter kill_grace";
        problems.warning(&spot.path, spot.span(), message);
    }
}

/// Notes a fault for a variable of the dynamic loader (`LD_...`), if the job runs as another user.
fn refuse_loader_variables(
    table: &TableReader<'_>,
    user: Option<&RunAs>,
    env: &BTreeMap<String, String>,
    problems: &mut Problems,
) {
    let found = env.keys().find(|name| name.starts_with("LD_"));
    if let (Some(_), Some(name), Some(spot)) =
        (user, found, table.get("env").or_else(|| table.get("user")))
    {
        let message = format!(
            "found {name} together with user: a job of another user cannot have variables of the \
             dynamic loader (LD_...); remove {name} or user"
        );
        spot.fault(problems, message);
    }
}

/// Notes a fault for each rule of `table` that has no effect on its job. Rules in `[defaults]` are
/// not checked, because other jobs use these rules.
pub(crate) fn refuse_idle_rules(
    table: &TableReader<'_>,
    action: &Action,
    rules: &Rules,
    problems: &mut Problems,
) {
    // An action with a fault may be meant to start a process. So no rule can be reported as unused.
    let is_unknown = table.get("done_check").is_some_and(|_| rules.spec.done_check.is_none())
        || NoticeKind::ASKED.iter().any(|kind| rules.faulty.contains(kind.as_str()))
        || rules.slips.are_of(&["done_check"])
        || NoticeKind::ASKED.iter().any(|kind| rules.slips.are_of(&[kind.as_str()]));
    if is_unknown {
        return;
    }
    for key in
        Started::of(action, rules.spec.done_check.as_ref(), rules.spec.notices.values()).idle_keys()
    {
        if let Some(spot) = table.get(key) {
            let message = format!(
                "{key} has no effect, because an HTTP request starts no process: \
                 remove {key}, or use a program, such as shell = \"curl ...\""
            );
            spot.fault(problems, message);
        }
    }
}

/// Notes a fault for `per_key` in a job without `key`.
pub(crate) fn refuse_per_key_alone(
    table: &TableReader<'_>,
    rules: &Rules,
    problems: &mut Problems,
) {
    let has_key =
        rules.spec.key.is_some() || table.get("key").is_some() || rules.slips.are_of(&["key"]);
    if rules.own.contains("per_key")
        && !has_key
        && let Some(spot) = table.get("per_key")
    {
        spot.fault(
            problems,
            "found per_key without key: add a key such as key = \"customer-42\", or remove per_key",
        );
    }
}

/// Notes a fault for keys that contradict `on = "each-node"`, and for `max_parallel` without it.
/// `spec` has the schedule and the unique key of the job.
pub(crate) fn refuse_beside_each_node(
    table: &TableReader<'_>,
    spec: &JobSpec,
    problems: &mut Problems,
) {
    let on = table.get("on");
    if !spec.is_on_each_node() {
        if let Some(spot) = table.get("max_parallel").filter(|_| spec.max_parallel.is_some()) {
            spot.fault(
                problems,
                "found max_parallel without on = \"each-node\": only runs on several nodes have it; \
                 add on = \"each-node\", or remove max_parallel",
            );
        }
        return;
    }
    let what = [
        (
            matches!(spec.schedule, Schedule::At(_) | Schedule::Instants(_)),
            "at",
            "a job with a fixed time has one run; use a recurring schedule, or no schedule and schedctl run",
        ),
        (
            spec.schedule.parents().is_some(),
            spec.schedule.parents().map_or("after", |parents| parents.rule.key()),
            "a job with parents runs once for each occurrence of its root",
        ),
        (spec.schedule.is_at_boot(), "cron", "@reboot already runs on each host"),
        (spec.unique.is_some(), "unique", "a unique key belongs to one job"),
        (
            spec.group.is_some(),
            "group",
            "only one run of a group executes at a time; use max_parallel = 1",
        ),
        (
            spec.action.handler().is_some(),
            "handler",
            "a worker runs on no node; use on for jobs that nodes execute",
        ),
        (
            spec.max_parallel.is_some() && spec.key.is_some(),
            "max_parallel",
            "a job has one concurrency key; use key with per_key, or max_parallel",
        ),
    ];
    for (_, key, why) in what.into_iter().filter(|(is_found, ..)| *is_found) {
        if let Some(spot) = table.get(key).or_else(|| on.clone()) {
            spot.fault(problems, format!("found {key} with on = \"each-node\": {why}"));
        }
    }
}

/// The keys without an effect on the work of a worker.
const IDLE_BESIDE_HANDLER: &[&str] = &[
    "done_check",
    "env",
    "env_file",
    "cwd",
    "log_output",
    "on",
    "max_parallel",
    "ping_url",
    "kill_grace",
];

/// Notes a fault for each key of `table` that contradicts `handler`, or that has no effect on the
/// work of a worker. Rules in `[defaults]` are not checked, because other jobs use these rules.
pub(crate) fn refuse_beside_handler(
    table: &TableReader<'_>,
    spec: &JobSpec,
    problems: &mut Problems,
) {
    let Some(handler) = spec.action.handler() else { return };
    // A job on each node was refused with another reason.
    let is_idle = |key: &&&str| **key != "on" || !spec.is_on_each_node();
    let idle = IDLE_BESIDE_HANDLER.iter().filter(is_idle);
    for (key, spot) in idle.filter_map(|key| Some((key, table.get(key)?))) {
        let message = format!(
            "{key} has no effect, because a worker of handler {handler} does the work: remove {key}"
        );
        spot.fault(problems, message);
    }
    if let Some(spot) = table.get("cron").filter(|_| spec.schedule.is_at_boot()) {
        let message = "found @reboot with handler: workers run on no host of schedd; use another \
                       schedule";
        spot.fault(problems, message);
    }
}

/// Notes a fault for `must_start_within` or `must_finish_within` in a job that has no `on_late`.
pub(crate) fn refuse_late_without_notice(
    table: &TableReader<'_>,
    rules: &Rules,
    problems: &mut Problems,
) {
    let late = NoticeKind::Late.as_str();
    // A faulty or misspelt `on_late` was noted as a fault before, so the job counts as a job with
    // `on_late`.
    let is_reported = rules.spec.notices.contains_key(&NoticeKind::Late)
        || rules.faulty.contains(late)
        || rules.slips.are_of(&[late]);
    let spot = table.get("must_start_within").or_else(|| table.get("must_finish_within"));
    if let Some(spot) = spot.filter(|_| !is_reported) {
        spot.fault(
            problems,
            "nobody would be notified when a run passes its deadline: \
             add on_late = { shell = \"mail -s late me\" }",
        );
    }
}

/// Notes a fault for each argument and variable that the kernel would refuse as too large. Checks
/// the job, its `done_check` and its notices.
pub(crate) fn refuse_oversize_words(
    table: &TableReader<'_>,
    action: Option<&Action>,
    rules: &Rules,
    problems: &mut Problems,
) {
    let (spec, none) = (&rules.spec, BTreeMap::new());
    if let Some(action) = action {
        refuse_oversize(table, action, &spec.env, problems);
    }
    let notices = spec.notices.iter().map(|(kind, action)| (kind.as_str(), action));
    let check = spec.done_check.iter().map(|check| ("done_check", &check.question));
    for (key, action) in notices.chain(check).filter(|(key, _)| !rules.faulty.contains(key)) {
        if let Some(own) = table.get(key).and_then(|spot| spot.as_table()) {
            refuse_oversize(&own, action, &none, problems);
        }
    }
}
