//! Adds the notices of runs to the due set.
//!
//! Invariant: any number of nodes may add notices at once, because the script adds each notice
//! once. A node skips notices whose job it cannot read, and adds the notices of other jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::{debug, warn};

use crate::engine::dispatch::definition::Definition;
use crate::engine::node_context::NodeContext;
use crate::engine::waiting_entries::{BATCH, STEP, pause};
use schedd_core::config;
use schedd_core::domain::job::notice::{NoticeKind, notice_job};
use schedd_schedule::names::JobName;
use schedd_store::{JobRecord, NoticeOrder, NoticeRecord, NoticeReply, StoreError};

/// Adds waiting notices to the due set, again and again. Never returns.
pub(crate) async fn run(node: Arc<NodeContext>) {
    let wakeup = &node.wakeups.notice_planter;
    loop {
        pause(&node, wakeup, "notices are not sent", round(&node).await).await;
    }
}

/// Adds all waiting notices to the due set where possible. Returns the number of notices that still
/// wait.
async fn round(node: &NodeContext) -> Result<usize, StoreError> {
    let mut left = 0;
    loop {
        let (notices, entries) = node.store.list_notices(left, BATCH).await?;
        left += entries - plant(node, &notices).await?;
        if entries < BATCH {
            return Ok(left);
        }
    }
}

/// Adds `notices` to the due set. Returns the number of notices that no longer wait.
async fn plant(node: &NodeContext, notices: &[NoticeRecord]) -> Result<usize, StoreError> {
    let names: BTreeSet<JobName> =
        notices.iter().map(|notice| notice.about.job().clone()).collect();
    // Each node begins with another job, so that several nodes add different notices. Notices of
    // one job keep their order.
    let mut names: Vec<JobName> = names.into_iter().collect();
    fastrand::shuffle(&mut names);
    let records = if names.is_empty() { Vec::new() } else { node.store.read_jobs(&names).await? };
    let (mut orders, mut chosen) = (BTreeMap::new(), Vec::new());
    for (name, record) in names.iter().zip(records) {
        let of_job = || notices.iter().filter(|notice| notice.about.job() == name);
        match read_job(record) {
            Ok(subject) => {
                for notice in of_job() {
                    orders
                        .entry((name, notice.kind))
                        .or_insert_with(|| order_of(subject.as_ref(), notice.kind));
                    chosen.push(notice);
                }
            }
            Err(why) => leave(node, name, &why),
        }
    }
    let pairs: Vec<(&NoticeRecord, &NoticeOrder)> = chosen
        .into_iter()
        .filter_map(|notice| Some((notice, orders.get(&(notice.about.job(), notice.kind))?)))
        .collect();
    let mut done = 0;
    for step in pairs.chunks(STEP) {
        for ((notice, _), reply) in step.iter().zip(node.store.plant_notices(step).await?) {
            match reply {
                Ok(NoticeReply::Waits) => {}
                Ok(reply) => {
                    note(node, notice, reply);
                    done += 1;
                }
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => leave(node, notice.about.job(), &error.to_string()),
            }
        }
    }
    Ok(done)
}

/// Returns the job of a notice, or `None` if the job is gone. The error is the reason why the job
/// is unreadable.
fn read_job(record: Result<Option<JobRecord>, StoreError>) -> Result<Option<Definition>, String> {
    let Some(record) = record.map_err(|error| error.to_string())? else { return Ok(None) };
    Definition::of(record).map(Some).map_err(|error| error.to_string())
}

fn order_of(subject: Option<&Definition>, kind: NoticeKind) -> NoticeOrder {
    let hidden = subject.and_then(|subject| notice_job(&subject.spec, kind));
    NoticeOrder {
        definition: hidden.map(|hidden| config::to_canonical(&hidden)),
        tz: subject.map_or_else(String::new, |subject| {
            subject.timetable.zone().name().as_str().to_owned()
        }),
    }
}

fn note(node: &NodeContext, notice: &NoticeRecord, reply: NoticeReply) {
    match reply {
        NoticeReply::Planted => {
            debug!(run = %notice.run, about = %notice.about, "A notice about a run was added to the due set.");
        }
        NoticeReply::Suppressed => too_many(node, notice.about.job(), notice.kind),
        NoticeReply::Waits | NoticeReply::Obsolete | NoticeReply::Dropped | NoticeReply::Gone => {}
    }
}

fn too_many(node: &NodeContext, job: &JobName, kind: NoticeKind) {
    if node.outage_log.is_new(&format!("suppressed {job} {kind}")) {
        warn!(job = %job, "Too many {kind} notices of this job wait to be sent. Further {kind} notices are only counted, and a later notice reports their number.");
    }
}

fn leave(node: &NodeContext, job: &JobName, why: &str) {
    if node.outage_log.is_new(&format!("notice of {job}")) {
        warn!(job = %job, "This node sends no notices about runs of the job: {why}.");
    }
}
