//! The members of groups, each with the planned time of its next run.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use serde_json::{Value, json};

use crate::cli::failure::CliFailure;
use crate::cli::render::{Cell, Console, Table, shown};
use schedd::engine::Definition;
use schedd_core::domain::queue::group_rules::GroupSettings;
use schedd_schedule::names::{GroupName, JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{JobRecord, Store, StoreError};

/// The number of jobs read in one call.
const PAGE: usize = 500;

/// A member of a group, and the due time of its planned run. `None` if no run is planned.
pub(super) type GroupMember = (JobName, Option<UnixMillis>);

/// The members of each group, in the order of their turns or of their names.
pub(super) type Members = BTreeMap<GroupName, Vec<GroupMember>>;

/// Returns the live members of each of these groups: the jobs of an order, and the jobs that name
/// the group.
pub(super) async fn read(
    store: &Store,
    groups: &BTreeMap<GroupName, GroupSettings>,
) -> Result<Members, CliFailure> {
    let named = store.list_groups_named().await?;
    let read = groups.iter().map(async |(group, settings)| {
        let mut jobs = match settings {
            GroupSettings::Alternate(turns) => turns.order.clone(),
            GroupSettings::Exclusive => Vec::new(),
        };
        let others = named.get(group).into_iter().flatten();
        let others: Vec<JobName> = others.filter(|job| !jobs.contains(job)).cloned().collect();
        jobs.extend(others);
        live_members(store, group, &jobs).await.map(|members| (group.clone(), members))
    });
    Ok(try_join_all(read).await?.into_iter().collect())
}

/// Returns those of `jobs` that are live members of the group, in the same order.
pub(super) async fn live_members(
    store: &Store,
    group: &GroupName,
    jobs: &[JobName],
) -> Result<Vec<GroupMember>, StoreError> {
    let pages = try_join_all(jobs.chunks(PAGE).map(|page| store.read_jobs(page))).await?;
    Ok(pages
        .into_iter()
        .flatten()
        .filter_map(|record| record.ok().flatten())
        .filter(JobRecord::is_live)
        .filter_map(|record| Definition::of(record).ok())
        .filter(|job| job.spec.group.as_ref() == Some(group))
        .map(|job| (job.record.name, job.record.pending.as_ref().map(RunId::due)))
        .collect())
}

/// Returns the members as JSON.
pub(super) fn members_json(members: &[GroupMember]) -> Value {
    members
        .iter()
        .map(|(job, due)| json!({"job": job.as_str(), "next_due": due.map(|due| due.to_string())}))
        .collect()
}

/// Prints a table of the members of all groups.
pub(super) fn print(members: &Members, local: &Zone, console: &mut Console) {
    let rows: Vec<[Cell; 3]> = members
        .iter()
        .flat_map(|(group, members)| members.iter().map(move |member| (group, member)))
        .map(|(group, (job, due))| {
            [
                Cell::new(group.as_str()),
                Cell::new(job.as_str()),
                Cell::maybe(due.map(|due| shown(due, local))),
            ]
        })
        .collect();
    if !rows.is_empty() {
        console.line("");
        Table::new(["GROUP", "MEMBER", "NEXT"]).page(&rows, console);
    }
}
