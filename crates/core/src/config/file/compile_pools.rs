//! The compiler of `[queues.X]` and `[groups.X]`, the settings that several jobs share.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::named_tables::named_tables;
use crate::config::key::rate_keys::compile_rate;
use crate::config::syntax::known_keys;
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::{DurationBounds, Spot, TableReader};
use crate::config::syntax::typos::Slips;
use crate::domain::queue::backlog::BacklogRules;
use crate::domain::queue::group_rules::{GroupSettings, TurnRules};
use crate::domain::queue::queue_rules::{QueueSettings, Share};
use schedd_schedule::names::{GroupName, JobName, QueueName};

const WARN_OLDEST: DurationBounds = DurationBounds::to_days(1, 30, "1s to 30 days", "5m");
const GAP: DurationBounds = DurationBounds::secs(0, 86_400, "0s to 1 day", "5s");
const TURN_TIMEOUT: DurationBounds = DurationBounds::secs(0, 86_400, "0s to 1 day", "1m");

/// Compiles `[queues]`. The result includes queues with faulty settings, so that a job that names
/// such a queue gets no second fault.
pub(crate) fn compile_queues(
    root: &TableReader<'_>,
    problems: &mut Problems,
) -> BTreeMap<QueueName, QueueSettings> {
    let mut queues = BTreeMap::new();
    for (name, table) in named_tables::<QueueName>(root, "queues", problems) {
        if name.as_ref().is_some_and(QueueName::is_of_host) {
            problems.fault(
                &table.path,
                table.span.clone(),
                "a name with @ belongs to the queue of a host, wanted a name without @",
            );
            continue;
        }
        let queue = compile_queue(&table, problems);
        if let Some(name) = name {
            queues.insert(name, queue);
        }
    }
    queues
}

pub(crate) fn compile_queue(table: &TableReader<'_>, problems: &mut Problems) -> QueueSettings {
    let slips = table.refuse_other_keys(&[known_keys::QUEUE], known_keys::LATER_QUEUE, problems);
    let plain = QueueSettings::default();
    let concurrency = table
        .get("concurrency")
        .and_then(|spot| spot.integer(&(1..=QueueSettings::MOST_CONCURRENT), problems));
    QueueSettings {
        concurrency: concurrency.unwrap_or(plain.concurrency),
        limit: table
            .get("limit")
            .and_then(|spot| spot.integer(&(1..=QueueSettings::MOST_AT_ONCE), problems)),
        rate: compile_rate(table, &slips, problems),
        share: compile_share(table, problems),
        is_paused: table.get("paused").and_then(|spot| spot.flag(problems)).unwrap_or(false),
        backlog: compile_backlog(table, &slips, problems),
        is_spread: compile_spread(table, problems),
    }
}

/// Compiles `spread`. Shards know nothing of each other, so a spread queue has no exact limits.
fn compile_spread(table: &TableReader<'_>, problems: &mut Problems) -> bool {
    let is_spread = table.get("spread").and_then(|spot| spot.flag(problems)).unwrap_or(false);
    for key in ["limit", "rate", "on_backlog"] {
        if let Some(spot) = table.get(key).filter(|_| is_spread) {
            spot.fault(
                problems,
                format!(
                    "a spread queue has no {key}, because each shard counts alone: remove {key} or spread"
                ),
            );
        }
    }
    is_spread
}

fn compile_backlog(
    table: &TableReader<'_>,
    slips: &Slips,
    problems: &mut Problems,
) -> BacklogRules {
    let depth = table.get("warn_depth");
    let oldest = table.get("warn_oldest");
    let job = table.get("on_backlog");
    let has_bound = depth.is_some() || oldest.is_some();
    if let Some(job) = &job
        && !has_bound
        && !slips.are_of(&["warn_depth", "warn_oldest"])
    {
        job.fault(
            problems,
            "on_backlog has no effect without a bound: add warn_depth such as warn_depth = 1000, or warn_oldest",
        );
    }
    let job: Option<JobName> = job.and_then(|spot| {
        let name: JobName = spot.parsed("page", problems)?;
        let Ok(name) = name.for_people() else {
            return spot.wanted(problems, "the name of a job without /");
        };
        Some(name)
    });
    BacklogRules {
        depth: depth.and_then(|spot| spot.integer(&(1..=BacklogRules::MOST_DEPTH), problems)),
        oldest: oldest.and_then(|spot| spot.duration(&WARN_OLDEST, problems)),
        job,
    }
}

fn compile_share(table: &TableReader<'_>, problems: &mut Problems) -> Share {
    let weight = table
        .get("weight")
        .map(|spot| (spot.integer(&(1..=QueueSettings::MOST_WEIGHT), problems), spot));
    let is_strict = table.get("strict").and_then(|spot| spot.flag(problems)).unwrap_or(false);
    match weight {
        Some((_, spot)) if is_strict => {
            spot.fault(
                problems,
                "a strict queue is served before all other queues and has no weight, \
                 wanted only one of weight and strict",
            );
            Share::Strict
        }
        _ if is_strict => Share::Strict,
        Some((Some(weight), _)) => Share::Weight(weight),
        _ => QueueSettings::default().share,
    }
}

/// Compiles `[groups]`. The result includes groups with faulty settings, so that a job that names
/// such a group gets no second fault.
pub(crate) fn compile_groups(
    root: &TableReader<'_>,
    problems: &mut Problems,
) -> BTreeMap<GroupName, GroupSettings> {
    let mut groups = BTreeMap::new();
    for (name, table) in named_tables::<GroupName>(root, "groups", problems) {
        let group = compile_group(&table, problems);
        if let Some(name) = name {
            groups.insert(name, group);
        }
    }
    groups
}

fn compile_group(table: &TableReader<'_>, problems: &mut Problems) -> GroupSettings {
    #[derive(Clone, Copy)]
    enum Mode {
        Exclusive,
        Alternate,
    }
    let slips = table.refuse_other_keys(&[known_keys::GROUP], &[], problems);
    let modes = [("exclusive", Mode::Exclusive), ("alternate", Mode::Alternate)];
    let mode = table.get("mode");
    if mode.is_none() && !slips.are_of(&["mode"]) {
        problems.fault(
            &table.path,
            table.span.clone(),
            "found no mode, wanted mode = \"exclusive\" or mode = \"alternate\"",
        );
    }
    let mode = mode.and_then(|spot| spot.choice(&modes, problems));
    if let Some(Mode::Exclusive) = mode {
        for key in ["order", "gap", "turn_timeout"] {
            if let Some(spot) = table.get(key) {
                spot.fault(
                    problems,
                    format!(
                        "{key} applies only to mode = \"alternate\": change the mode or remove {key}"
                    ),
                );
            }
        }
        return GroupSettings::Exclusive;
    }
    let mut ask = |key: &str, bounds: &DurationBounds, or: Duration| {
        table.get(key).and_then(|spot| spot.duration(bounds, problems)).unwrap_or(or)
    };
    let (gap, turn_timeout) = (
        ask("gap", &GAP, TurnRules::GAP),
        ask("turn_timeout", &TURN_TIMEOUT, TurnRules::TURN_TIMEOUT),
    );
    let Some(order) = table.get("order") else {
        // A group with a faulty mode may not need an order, so a missing order is not reported.
        if mode.is_none() || slips.are_of(&["order"]) {
            return GroupSettings::Exclusive;
        }
        problems.fault(
            &table.path,
            table.span.clone(),
            "found no order, wanted the jobs in the order of their turns, such as \
             order = [\"a\", \"b\"]",
        );
        return GroupSettings::Exclusive;
    };
    let order = compile_order(&order, problems);
    GroupSettings::Alternate(TurnRules { order, gap, turn_timeout })
}

fn compile_order(spot: &Spot<'_>, problems: &mut Problems) -> Vec<JobName> {
    let Some(items) = spot.as_items() else {
        return spot.wanted(problems, "a list of jobs such as [\"a\", \"b\"]").unwrap_or_default();
    };
    let (mut order, mut seen, mut count) = (Vec::new(), BTreeSet::new(), 0);
    for item in items {
        count += 1;
        let Some(job) = item.parsed::<JobName>("backup", problems) else { continue };
        if seen.insert(job.clone()) {
            order.push(job);
        } else {
            item.fault(
                problems,
                format!("found job {} twice, wanted each member once", quoted(job.as_str())),
            );
        }
    }
    if !(2..=TurnRules::MOST_MEMBERS).contains(&count) {
        spot.fault(
            problems,
            format!("the number of members is {count}, wanted 2 to {}", TurnRules::MOST_MEMBERS),
        );
    }
    order
}

/// The group of each job of a file, including jobs with faults. `None` is a job without a group. A
/// job whose group cannot be read is not in the map.
pub(crate) type Memberships = BTreeMap<JobName, Option<GroupName>>;

/// Checks the members of each alternating group against its `order`. Notes a fault for each job
/// that names the group but is missing in `order`. Also notes a fault for each job in `order` that
/// does not name the group.
///
/// A name in `order` without a job in this file is not checked, because such a job may come from
/// `schedctl add`.
pub(crate) fn refuse_strangers(
    root: &TableReader<'_>,
    groups: &BTreeMap<GroupName, GroupSettings>,
    members: &Memberships,
    problems: &mut Problems,
) {
    let place = |section: &str, name: &str, key: &str| {
        root.get(section).and_then(|spot| spot.as_table()?.get(name)).and_then(|spot| {
            let table = spot.as_table()?;
            Some(table.get(key).unwrap_or(spot))
        })
    };
    // If a group has a fault, the list of its members may be incomplete.
    if problems.faults.iter().any(|problem| problem.path.starts_with("groups")) {
        return;
    }
    for (group, settings) in groups {
        let GroupSettings::Alternate(turns) = settings else { continue };
        let strangers = turns
            .order
            .iter()
            .filter(|job| members.get(*job).is_some_and(|own| own.as_ref() != Some(group)));
        for job in strangers {
            if let Some(spot) = place("groups", group.as_str(), "order") {
                let message = format!(
                    "job {job} is in this order but not in group {group}, \
                     wanted group = \"{group}\" in [jobs.{job}]"
                );
                spot.fault(problems, message);
            }
        }
        let without_turn = members
            .iter()
            .filter(|(job, own)| own.as_ref() == Some(group) && !turns.order.contains(job));
        for (job, _) in without_turn {
            if let Some(spot) = place("jobs", job.as_str(), "group") {
                spot.fault(
                    problems,
                    format!(
                        "job {job} has no turn in group {group}: \
                         add \"{job}\" to order in [groups.{group}]"
                    ),
                );
            }
        }
    }
}
