//! The rules of a job and of `[defaults]`: all keys except the schedule and the action.
//!
//! The same code compiles both tables once each. Then the job's rules are laid over the defaults.
//! So a fault in `[defaults]` is reported once, and not once for each job.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::compile_done_check::compile_done_check;
use super::compile_env::{compile_env, compile_env_files};
use super::compile_gates::{compile_not_while, compile_per_key};
use super::compile_lane::{compile_labels, compile_priority};
use super::compile_notices::{NoticeActions, compile_notices};
use super::compile_process::{ProcessStart, compile_starting, refuse_loader_variables};
use super::compile_retry::compile_retry;
use crate::config::key::origin::Origin;
use crate::config::schedule::compile_clock_changes::compile_clock_changes;
use crate::config::schedule::compile_shape::{Shaping, compile_shaping};
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::{Problems, key_text, nearest, one_of, quoted};
use crate::config::syntax::reader::{DurationBounds, Spot, TableReader};
use crate::config::syntax::typos::Slips;
use crate::domain::job::env_file::EnvFile;
use crate::domain::job::job_spec::{CatchUp, CatchUpMode, Delivery, DoneCheck, JobSpec, Overlap, RetryRule};
use crate::domain::name::names::{GroupName, JobName, Label, QueueName};
use crate::domain::queue::gate::{PerKey, SharedKey};
use crate::domain::queue::lane::Priority;
use crate::domain::schedule::clock_changes::ClockChanges;
use crate::domain::time::zone::ZoneName;

/// The rules that a table names. A rule that the table does not name is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Policies {
    pub(crate) tz: Option<ZoneName>,
    dst: Option<ClockChanges>,
    pub(crate) env: Option<BTreeMap<String, String>>,
    env_files: Option<Vec<EnvFile>>,
    log_output: Option<bool>,
    cwd: Option<PathBuf>,
    pub(crate) starting: ProcessStart,
    queue: Option<QueueName>,
    priority: Option<Priority>,
    requires: Option<BTreeSet<Label>>,
    pub(crate) key: Option<SharedKey>,
    pub(crate) per_key: Option<PerKey>,
    pub(crate) not_while: Option<BTreeSet<JobName>>,
    pub(crate) group: Option<GroupName>,
    timeout: Option<Duration>,
    kill_grace: Option<Duration>,
    retry: Option<RetryRule>,
    overlap: Option<Overlap>,
    catch_up: Option<CatchUp>,
    late_after: Option<Duration>,
    delivery: Option<Delivery>,
    pub(crate) done_check: Option<DoneCheck>,
    pub(crate) notices: NoticeActions,
    pub(crate) shaping: Shaping,
    /// The unknown keys of the table, which give no rule.
    pub(crate) slips: Slips,
}

const TIMEOUT: DurationBounds = DurationBounds::millis(100, 30 * 86_400_000, "100ms to 30 days", "30s");
const KILL_GRACE: DurationBounds = DurationBounds::secs(0, 3_600, "0s to 1 hour", "5s");
const LATE_AFTER: DurationBounds = DurationBounds::to_days(1, 365, "1s to 365 days", "60s");
const SPREAD: DurationBounds = DurationBounds::millis(1, 86_400_000, "more than 0s, up to 1 day", "10m");
const MAX_AGE: DurationBounds = DurationBounds::to_days(1, 3_650, "1s to 10 years", "12h");

/// The maximum number of waiting runs of one job. More waiting runs would be a leak, not a queue.
const MOST_WAITING: u32 = 100_000;

impl Policies {
    /// Returns these rules, with missing rules taken from `below`. Variables are merged one by one.
    pub(crate) fn over(self, below: &Self) -> Self {
        let env = match (self.env, &below.env) {
            (Some(own), Some(below)) => Some(below.clone().into_iter().chain(own).collect()),
            (own, below) => own.or_else(|| below.clone()),
        };
        Self {
            tz: self.tz.or_else(|| below.tz.clone()),
            dst: self.dst.or(below.dst),
            env,
            env_files: self.env_files.or_else(|| below.env_files.clone()),
            log_output: self.log_output.or(below.log_output),
            cwd: self.cwd.or_else(|| below.cwd.clone()),
            starting: self.starting.over(&below.starting),
            queue: self.queue.or_else(|| below.queue.clone()),
            priority: self.priority.or(below.priority),
            requires: self.requires.or_else(|| below.requires.clone()),
            key: self.key.or_else(|| below.key.clone()),
            per_key: self.per_key.or(below.per_key),
            not_while: self.not_while.or_else(|| below.not_while.clone()),
            group: self.group.or_else(|| below.group.clone()),
            timeout: self.timeout.or(below.timeout),
            kill_grace: self.kill_grace.or(below.kill_grace),
            retry: self.retry.or_else(|| below.retry.clone()),
            overlap: self.overlap.or(below.overlap),
            catch_up: self.catch_up.or_else(|| below.catch_up.clone()),
            late_after: self.late_after.or(below.late_after),
            delivery: self.delivery.or(below.delivery),
            done_check: self.done_check.or_else(|| below.done_check.clone()),
            notices: self.notices.over(&below.notices),
            shaping: self.shaping.over(&below.shaping),
            slips: self.slips.over(&below.slips),
        }
    }

    /// Sets in `spec` what these rules name.
    pub(crate) fn apply_to(self, spec: &mut JobSpec) {
        fn set<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        spec.tz = self.tz;
        spec.cwd = self.cwd;
        spec.process = self.starting.rules();
        spec.group = self.group;
        spec.done_check = self.done_check;
        self.notices.apply_to(spec);
        set(&mut spec.dst, self.dst);
        set(&mut spec.env, self.env);
        set(&mut spec.env_files, self.env_files);
        set(&mut spec.log_output, self.log_output);
        set(&mut spec.queue, self.queue);
        set(&mut spec.priority, self.priority);
        set(&mut spec.requires, self.requires);
        // `per_key` has no effect without a key. A value from `[defaults]` is meant for other jobs.
        if self.key.is_some() {
            set(&mut spec.per_key, self.per_key);
        }
        spec.key = self.key;
        set(&mut spec.not_while, self.not_while);
        set(&mut spec.timeout, self.timeout);
        set(&mut spec.kill_grace, self.kill_grace);
        set(&mut spec.retry, self.retry);
        set(&mut spec.overlap, self.overlap);
        set(&mut spec.catch_up, self.catch_up);
        set(&mut spec.late_after, self.late_after);
        set(&mut spec.delivery, self.delivery);
    }
}

/// Compiles the rules of `table`. `slips` are its unknown keys.
pub(crate) fn compile_policies(table: &TableReader<'_>, slips: Slips, origin: Origin<'_>, problems: &mut Problems) -> Policies {
    Policies {
        tz: table.get("tz").and_then(|spot| spot.parsed("Europe/Berlin", problems)),
        dst: table.get("dst").and_then(|spot| compile_clock_changes(&spot, problems)),
        env: table.get("env").and_then(|spot| compile_env(&spot, problems)),
        env_files: table.get("env_file").and_then(|spot| compile_env_files(&spot, origin, problems)),
        log_output: table.get("log_output").and_then(|spot| spot.flag(problems)),
        cwd: table.get("cwd").and_then(|spot| compile_cwd(&spot, origin, problems)),
        starting: compile_starting(table, origin, problems),
        queue: table.get("queue").and_then(|spot| compile_queue(&spot, origin, problems)),
        priority: table.get("priority").and_then(|spot| compile_priority(&spot, problems)),
        requires: table.get("requires").and_then(|spot| compile_labels(&spot, problems)),
        key: table.get("key").and_then(|spot| spot.parsed("customer-42", problems)),
        per_key: table.get("per_key").and_then(|spot| compile_per_key(&spot, problems)),
        not_while: table.get("not_while").and_then(|spot| compile_not_while(&spot, problems)),
        group: table.get("group").and_then(|spot| compile_group(&spot, origin, problems)),
        timeout: table.get("timeout").and_then(|spot| spot.duration(&TIMEOUT, problems)),
        kill_grace: table.get("kill_grace").and_then(|spot| spot.duration(&KILL_GRACE, problems)),
        retry: table.get("retry").and_then(|spot| compile_retry(&spot, problems)),
        overlap: table.get("overlap").and_then(|spot| compile_overlap(&spot, problems)),
        catch_up: table.get("catch_up").and_then(|spot| compile_catch_up(&spot, problems)),
        late_after: table.get("late_after").and_then(|spot| spot.duration(&LATE_AFTER, problems)),
        delivery: table.get("delivery").and_then(|spot| {
            spot.choice(&[("at-least-once", Delivery::AtLeastOnce), ("at-most-once", Delivery::AtMostOnce)], problems)
        }),
        done_check: table.get("done_check").and_then(|spot| compile_done_check(&spot, problems)),
        notices: compile_notices(table, problems),
        shaping: compile_shaping(table, origin, problems),
        slips,
    }
}

/// Notes rules that contradict each other, if `table` names one of them. `own` are the rules of
/// `table`, `merged` the rules in force.
pub(crate) fn refuse_contradictions(table: &TableReader<'_>, own: &Policies, merged: &Policies, problems: &mut Problems) {
    refuse_loader_variables(table, merged.starting.user.as_ref(), merged.env.as_ref(), problems);
    let limit = merged.retry.as_ref().map_or(0, |retry| retry.limit);
    if merged.delivery == Some(Delivery::AtMostOnce)
        && limit > 0
        && let Some(spot) = table.get("delivery").or_else(|| table.get("retry"))
    {
        let from = |own: bool| if own { "" } else { " (from [defaults])" };
        let (delivery, retry) = (from(own.delivery.is_some()), from(own.retry.is_some()));
        let message = format!(
            "delivery \"at-most-once\"{delivery} contradicts retry.limit {limit}{retry}: a retry is a second start; \
             wanted retry = 0 or delivery = \"at-least-once\""
        );
        spot.fault(problems, message);
    }
    if let (Some(timeout), Some(grace)) = (own.timeout, own.kill_grace)
        && grace > timeout
        && let Some(spot) = table.get("kill_grace")
    {
        let message = "longer than timeout: a job that does not end at TERM takes longer to stop than it may run";
        problems.warning(&spot.path, spot.span(), message);
    }
}

fn compile_cwd(spot: &Spot<'_>, origin: Origin<'_>, problems: &mut Problems) -> Option<PathBuf> {
    let path = PathBuf::from(spot.text("/srv/report", problems)?);
    if !path.is_absolute() {
        return spot.wanted(problems, "an absolute path such as \"/srv/report\"");
    }
    if matches!(origin, Origin::File { .. }) && !path.is_dir() {
        problems.warning(
            &spot.path,
            spot.span(),
            format!("no directory {} on this host: runs will fail to start", quoted(&path.to_string_lossy())),
        );
    }
    Some(path)
}

fn compile_queue(spot: &Spot<'_>, origin: Origin<'_>, problems: &mut Problems) -> Option<QueueName> {
    let queue: QueueName = spot.parsed("default", problems)?;
    // The hidden jobs whose runs are notices have a queue of their own.
    if matches!(origin, Origin::Surface) && queue == QueueName::of_notices() {
        return Some(queue);
    }
    if queue.is_of_host() {
        return spot.wanted(problems, "a name without @: the queue of a host holds what @reboot plants there");
    }
    if let Origin::File { queues: Some(queues), .. } = origin
        && !queues.contains(&queue)
    {
        let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
        let hint = match nearest(queue.as_str(), names.iter().copied()) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None if names.len() > 10 => format!("wanted one of the {} declared ones", names.len()),
            None => format!("wanted {}", one_of(&names)),
        };
        let name = quoted(queue.as_str());
        spot.fault(
            problems,
            format!("queue {name} is not declared, {hint} (or declare it: [queues.{}])", key_text(queue.as_str())),
        );
    }
    Some(queue)
}

fn compile_group(spot: &Spot<'_>, origin: Origin<'_>, problems: &mut Problems) -> Option<GroupName> {
    let group: GroupName = spot.parsed("nightly", problems)?;
    if let Origin::File { groups: Some(groups), .. } = origin
        && !groups.contains(&group)
    {
        let hint = nearest(group.as_str(), groups.iter().map(GroupName::as_str))
            .map_or_else(String::new, |meant| format!("did you mean {meant:?}? Or "));
        let (name, key) = (quoted(group.as_str()), key_text(group.as_str()));
        spot.fault(problems, format!("group {name} is not declared, {hint}declare it: [groups.{key}] mode = \"exclusive\""));
    }
    Some(group)
}

fn compile_overlap(spot: &Spot<'_>, problems: &mut Problems) -> Option<Overlap> {
    let modes =
        [("skip", Overlap::Skip), ("queue", Overlap::Queue { max: 1 }), ("replace", Overlap::Replace), ("allow", Overlap::Allow)];
    let Some(table) = spot.as_table() else {
        return spot.choice(&modes, problems);
    };
    let slips = table.refuse_other_keys(&[known_keys::OVERLAP], &[], problems);
    if table.get("mode").is_none() && !slips.may_be(&["mode"]) {
        spot.fault(problems, "no mode, wanted one such as mode = \"queue\"");
    }
    let mode = table.get("mode").and_then(|mode| mode.choice(&modes, problems));
    match (mode, table.get("max")) {
        (mode, None) => mode,
        (Some(Overlap::Queue { .. }) | None, Some(max)) => {
            let max = max.integer(&(1..=MOST_WAITING), problems)?;
            mode.map(|_| Overlap::Queue { max })
        }
        (Some(_), Some(max)) => max.wanted(problems, "max only together with mode = \"queue\""),
    }
}

fn compile_catch_up(spot: &Spot<'_>, problems: &mut Problems) -> Option<CatchUp> {
    let modes = [("skip", CatchUpMode::Skip), ("latest", CatchUpMode::Latest), ("all", CatchUpMode::All)];
    let Some(table) = spot.as_table() else {
        return Some(CatchUp { mode: spot.choice(&modes, problems)?, ..CatchUp::default() });
    };
    table.refuse_other_keys(&[known_keys::CATCH_UP], &[], problems);
    let plain = CatchUp::default();
    let mode = table.get("mode").map_or(Some(plain.mode), |spot| spot.choice(&modes, problems));
    let max_age = table.get("max_age").map(|spot| spot.duration(&MAX_AGE, problems));
    let max_count = table.get("max_count").map_or(Some(plain.max_count), |spot| spot.integer(&(1..=100_000), problems));
    let spread = table.get("spread").map(|spot| spot.duration(&SPREAD, problems));
    let max_age = match max_age {
        Some(given) => Some(given?),
        None => None,
    };
    let spread = match spread {
        Some(given) => Some(given?),
        None => None,
    };
    Some(CatchUp { mode: mode?, max_age, max_count: max_count?, spread })
}
