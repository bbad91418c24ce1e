//! `groups`: lists the groups, each with its turn, its running runs and its waiting runs.

use std::collections::BTreeMap;

use clap::Args;
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use super::group_members::{self, GroupMember, live_members};
use super::node_presence::warn_if_none_runs;
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::local_zone::local_zone;
use crate::cli::render::{Cell, Console, Relative, Table, shown};
use crate::cli::shell::completion;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::group_rules::GroupSettings;
use schedd_schedule::names::{GroupName, JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{GroupStanding, JobRecord, Store, StoreError};

pub(crate) const GROUPS_HELP: &str = "\
Examples:
  schedctl groups
  schedctl groups feed

TURN: the member whose turn it is, if the members of the group take turns. SINCE: the time since the
turn began. RUNNING: the claimed run that has the place of the group. WAITING: the runs that wait
for the place; \"has a place\" marks a run that got the place and has not started, \"lost its place\"
marks a run that did not start in time. NEXT: if runs wait, the time at which the group opens: its
gap ends, the time comes that a run has set, or the turn_timeout of a member without a due run ends.
Otherwise the planned time of the next turn. The second table has the planned time of each member.";

/// The maximum number of running or waiting runs named for each group.
const SHOWN: usize = 3;

/// The arguments of `groups`.
#[derive(Debug, Args)]
pub(crate) struct GroupsArgs {
    /// Only this group
    #[arg(value_name = "GROUP", add = completion::groups())]
    group: Option<GroupName>,
}

/// Lists the groups. Returns the exit code.
pub(crate) async fn groups(
    global: &Global,
    args: &GroupsArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let store = connect(global, console).await?;
    warn_if_none_runs(&store, console).await;
    let mut settings = store.read_groups().await?;
    let undeclared = undeclared(&store, &settings).await?;
    settings.extend(undeclared.keys().map(|group| (group.clone(), GroupSettings::default())));
    if let Some(group) = &args.group {
        settings.retain(|name, _| name == group);
        if settings.is_empty() {
            return Err(CliFailure::NotFound(format!(
                "no group {group} in namespace {}: schedctl groups lists the groups",
                store.namespace()
            )));
        }
    }
    let names: Vec<GroupName> = settings.keys().cloned().collect();
    let read_others =
        async { Ok(tokio::try_join!(store.now(), store.read_group_standings(&names))?) };
    let ((now, mut standings), members) =
        tokio::try_join!(read_others, group_members::read(&store, &settings))?;
    let passed = settings.values().zip(&mut standings);
    try_join_all(passed.map(|(settings, standing)| pass_turn(&store, settings, standing))).await?;
    for (settings, standing) in settings.values().zip(&mut standings) {
        mind_gap(settings, standing, now);
    }
    let asked = settings.keys().zip(&standings);
    let gave_up =
        try_join_all(asked.map(|(name, standing)| stuck(&store, name, standing, now))).await?;
    let groups = settings.iter().zip(standings.iter().zip(&gave_up));
    if console.is_json() {
        console.json(&Value::Array(
            groups
                .map(|((name, settings), (standing, gave_up))| {
                    let mut group =
                        group_json(name, settings, standing, !undeclared.contains_key(name));
                    group["members"] = group_members::members_json(&members[name]);
                    group["next_turn"] = json!(
                        next_turn(settings, standing, &members[name], now).map(|at| at.to_string())
                    );
                    group["gave_up"] =
                        json!(gave_up.iter().map(ToString::to_string).collect::<Vec<_>>());
                    group
                })
                .collect(),
        ));
        return Ok(0);
    }
    let local = local_zone();
    let mut rows: Vec<[Cell; 7]> = Vec::new();
    for ((name, settings), (standing, gave_up)) in groups {
        let mut row = group_row(name, settings, standing, gave_up, Relative { now }, &local);
        if standing.waiting == 0 {
            let next = next_turn(settings, standing, &members[name], now);
            row[6] = Cell::maybe(next.map(|at| shown(at, &local)));
        }
        if undeclared.contains_key(name) {
            row[1] = Cell::new(format!(
                "{} (default mode: no jobs file declares this group)",
                settings.mode()
            ));
        }
        rows.push(row);
    }
    Table::new(["GROUP", "MODE", "TURN", "SINCE", "RUNNING", "WAITING", "NEXT"])
        .page(&rows, console);
    group_members::print(&members, &local, console);
    if rows.is_empty() {
        console.note("no groups: no jobs file declares a group, and no job names a group");
    }
    Ok(0)
}

/// Returns the groups that jobs still name but no file declares any more, each with these jobs.
/// Runs of these jobs still exclude each other, but without turns.
pub(crate) async fn undeclared(
    store: &Store,
    declared: &BTreeMap<GroupName, GroupSettings>,
) -> Result<BTreeMap<GroupName, Vec<JobName>>, StoreError> {
    let named = store.list_groups_named().await?.into_iter();
    let read =
        named.filter(|(group, _)| !declared.contains_key(group)).map(async |(group, jobs)| {
            let members = live_members(store, &group, &jobs).await?;
            Ok((group, members.into_iter().map(|(job, _)| job).collect::<Vec<_>>()))
        });
    let found = try_join_all(read).await?;
    Ok(found.into_iter().filter(|(_, jobs)| !jobs.is_empty()).collect())
}

/// Corrects the turn of a group in which no run runs or waits: a removed or paused member passes
/// the turn to the next member. Redis itself does this only when a run comes to the group.
async fn pass_turn(
    store: &Store,
    settings: &GroupSettings,
    standing: &mut GroupStanding,
) -> Result<(), CliFailure> {
    let (GroupSettings::Alternate(turns), Some((turn, since))) = (settings, standing.turn.clone())
    else {
        return Ok(());
    };
    if standing.waiting > 0 || !standing.holders.is_empty() || !standing.let_in.is_empty() {
        return Ok(());
    }
    let records = store.read_jobs(&turns.order).await?;
    let is_there = |record: &Result<Option<JobRecord>, StoreError>| {
        record.as_ref().is_ok_and(|record| {
            record.as_ref().is_some_and(|job| job.is_live() && job.paused_at.is_none())
        })
    };
    let first = turns.order.iter().position(|member| *member == turn).unwrap_or(0);
    let next = (0..turns.order.len())
        .map(|at| (first + at) % turns.order.len())
        .find(|at| is_there(&records[*at]));
    standing.turn = next.map(|at| (turns.order[at].clone(), since));
    Ok(())
}

/// Returns the planned time of the next turn of an alternating group that has no run now: the due
/// time of the member whose turn it is, or the time at which the group opens if that is later.
fn next_turn(
    settings: &GroupSettings,
    standing: &GroupStanding,
    members: &[GroupMember],
    now: UnixMillis,
) -> Option<UnixMillis> {
    let GroupSettings::Alternate(turns) = settings else { return None };
    let holder = standing.turn.as_ref().map_or(turns.order.first(), |(job, _)| Some(job))?;
    let due = members.iter().find(|(job, _)| job == holder)?.1;
    let opens = turns.gap_over(standing.last_ended, now).max(standing.not_before);
    due.map(|due| opens.map_or(due, |opens| due.max(opens)))
}

/// Moves `standing.next`, the time of the next check of the group's gate, to the time at which the
/// group opens if that is later: the end of its gap, or the time set for the next turn. The gap is
/// the minimum time between two runs of the group.
fn mind_gap(settings: &GroupSettings, standing: &mut GroupStanding, now: UnixMillis) {
    let GroupSettings::Alternate(turns) = settings else { return };
    if standing.waiting > 0 && standing.holders.is_empty() && standing.let_in.is_empty() {
        let set = standing.not_before.filter(|at| *at > now);
        standing.next = standing.next.max(turns.gap_over(standing.last_ended, now)).max(set);
    }
}

/// Returns the runs because of which the group skips their lanes. Such a run got a place, did not
/// start in time and lost the place. Returns no runs while a run has a place in the group.
async fn stuck(
    store: &Store,
    group: &GroupName,
    standing: &GroupStanding,
    now: UnixMillis,
) -> Result<Vec<RunId>, StoreError> {
    if !standing.holders.is_empty() || !standing.let_in.is_empty() {
        return Ok(Vec::new());
    }
    let gate = Gate::of_group(group);
    let read = standing.first_waiting.iter().map(|run| store.read_stuck(&gate, run));
    let mut found: Vec<RunId> = Vec::new();
    for (run, _) in
        try_join_all(read).await?.into_iter().flatten().filter(|(_, until)| *until > now)
    {
        if !found.contains(&run) {
            found.push(run);
        }
    }
    Ok(found)
}

/// Returns the member whose turn it is and the start of the turn, or `None` if the group does not
/// alternate.
fn turn<'a>(
    settings: &GroupSettings,
    standing: &'a GroupStanding,
) -> Option<(&'a str, UnixMillis)> {
    let is_alternate = matches!(settings, GroupSettings::Alternate(_));
    standing.turn.as_ref().filter(|_| is_alternate).map(|(job, since)| (job.as_str(), *since))
}

fn group_json(
    name: &GroupName,
    settings: &GroupSettings,
    standing: &GroupStanding,
    is_declared: bool,
) -> Value {
    let turns = match settings {
        GroupSettings::Alternate(turns) => Some(turns),
        GroupSettings::Exclusive => None,
    };
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let turn = turn(settings, standing);
    json!({
        "name": name.as_str(),
        "mode": settings.mode(),
        "declared": is_declared,
        "order": turns.map(|turns| turns.order.iter().map(ToString::to_string).collect::<Vec<_>>()),
        "gap_ms": turns.map(|turns| millis(turns.gap)),
        "turn_timeout_ms": turns.map(|turns| millis(turns.turn_timeout)),
        "turn": turn.map(|(job, _)| job),
        "since": turn.map(|(_, since)| since.to_string()),
        "not_before": standing.not_before.map(|at| at.to_string()),
        "last_ended_at": standing.last_ended.map(|at| at.to_string()),
        "running": standing.holders.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "admitted": standing.let_in.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "waiting": standing.waiting,
        "first_waiting": standing.first_waiting.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "next_at": standing.next.map(|at| at.to_string()),
    })
}

fn group_row(
    name: &GroupName,
    settings: &GroupSettings,
    standing: &GroupStanding,
    gave_up: &[RunId],
    when: Relative,
    local: &Zone,
) -> [Cell; 7] {
    let turn = turn(settings, standing);
    let named = |runs: Vec<String>, count: u64| {
        let names: Vec<String> = runs.into_iter().take(SHOWN).collect();
        let more = count.saturating_sub(names.len() as u64);
        match (names.is_empty(), more) {
            (true, _) => None,
            (false, 0) => Some(names.join(" ")),
            (false, more) => Some(format!("{} and {more} more", names.join(" "))),
        }
    };
    let texts = |runs: &[RunId]| runs.iter().map(ToString::to_string).collect::<Vec<_>>();
    // A run that got a place and has not started waits for its queue.
    let let_in = standing.let_in.iter().map(|run| format!("{run} (has a place)"));
    let gave_up = gave_up.iter().map(|run| format!("{run} (lost its place)"));
    let before: Vec<String> = let_in.chain(gave_up).collect();
    let count = standing.waiting.saturating_add(before.len() as u64);
    let waiting: Vec<String> = before.into_iter().chain(texts(&standing.first_waiting)).collect();
    [
        Cell::new(name.as_str()),
        Cell::new(settings.mode()),
        Cell::maybe(turn.map(|(job, _)| job.to_owned())),
        Cell::maybe(turn.map(|(_, since)| when.passed(since))),
        Cell::maybe(named(texts(&standing.holders), standing.holders.len() as u64)),
        Cell::maybe(named(waiting, count)),
        Cell::maybe(standing.next.filter(|_| standing.waiting > 0).map(|at| shown(at, local))),
    ]
}
