//! Plans the runs of `@reboot` jobs when the first schedd since a boot of this host starts.
//!
//! As with cron, a job added later waits for the next boot: a restart of the daemon or an edit of
//! the job does not start the job. The run is planned in the queue of this host (`@HOST`), which
//! only nodes of this host poll. Retries and recoveries of the run stay in that queue. A node plans
//! only jobs whose required labels the node carries.
//!
//! Redis records a boot as finished when all its runs are planned. Until then, each start of a node
//! plans the missing runs. The script in Redis plans each run only once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::info;

use super::planting;
use super::recurring_jobs::RecurringJobs;
use super::wanted_file::WantedFile;
use crate::engine::dispatch::definition::Definition;
use crate::engine::dispatch::slots::Slots;
use crate::engine::node_context::NodeContext;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{Label, RunId};
use schedd_store::{RebootReply, StoreError};

/// The most jobs read in one call.
const BATCH: usize = 200;
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The loop that plans the `@reboot` runs of a boot.
pub(crate) struct BootPlanner {
    pub(crate) node: Arc<NodeContext>,
    pub(crate) slots: Slots,
    pub(crate) wanted: Arc<WantedFile>,
    pub(crate) recurring: Arc<RecurringJobs>,
}

/// Plans the `@reboot` runs of this boot once, after this node's jobs file has been applied to
/// Redis.
pub(crate) async fn run(planner: Arc<BootPlanner>) {
    if planner.wanted.is_reported() {
        planner.node.wakeups.boot_planner.notified().await;
    }
    while let Err(error) = plant(&planner).await {
        planner.node.outage_log.failed(&error, "jobs with @reboot are not planned");
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

async fn plant(planner: &BootPlanner) -> Result<(), StoreError> {
    let (store, boot_id) = (&planner.node.store, &planner.node.settings.host.boot_id);
    let host = Lane::of_host(&planner.node.settings.host.host);
    let labels = planner.slots.serving().labels;
    let boot_id = &boot_word(boot_id, &labels);
    if store.is_boot_noted(&host, boot_id).await? {
        return Ok(());
    }
    for names in planner.recurring.names(store).await?.chunks(BATCH) {
        let now = store.now().await?;
        for record in store.read_jobs(names).await? {
            let Ok(Some(record)) = record else { continue };
            let Ok(definition) = Definition::of(record) else { continue };
            let spec = &definition.spec;
            if !spec.schedule.is_at_boot()
                || !definition.timetable.lets(now)
                || !spec.lane().is_open_to(&labels)
            {
                continue;
            }
            let lane = spec.lane_in(host.queue().clone());
            let token = planting::token();
            let Ok(run) = RunId::boot(
                definition.record.name.clone(),
                now,
                token.get(..8).unwrap_or_default(),
            ) else {
                continue;
            };
            if store.plant_reboot(&run, &lane, &planner.node.settings.host.boot_id).await?
                == RebootReply::Planted
            {
                info!(run = %run, "A run for @reboot was planned.");
            }
        }
    }
    store.note_boot(&host, boot_id, store.now().await?).await
}

/// Returns the id under which Redis records a boot: the boot id and the labels of this node. The
/// labels are included because a node of this host with other labels plans other jobs.
fn boot_word(boot_id: &str, labels: &BTreeSet<Label>) -> String {
    labels.iter().fold(boot_id.to_owned(), |word, label| format!("{word}+{label}"))
}
