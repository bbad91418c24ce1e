//! Makes runs of what people are to be told.
//!
//! Invariant: any node may do so at any time, and several at once: the script plants each notice once. One whose job cannot be
//! read here is left to other nodes and holds up no other.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, warn};

use super::definition::Definition;
use super::shared::Shared;
use crate::config;
use crate::domain::ids::JobName;
use crate::domain::notice::{NoticeKind, notice_job};
use crate::store::{Notice, NoticeOrder, NoticeReply, StoreError};

/// How often it is looked whether there is something to tell: a nudge that was lost costs no more.
const EVERY: Duration = Duration::from_secs(1);
/// Notices looked at in a round.
const BATCH: usize = 200;

/// Looks for what is to be told, for ever.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        match round(&shared).await {
            // There may be more behind them.
            Ok(BATCH) => continue,
            Ok(_) => {}
            Err(error) => shared.weather.failed(&error, "nobody is told of how runs ended"),
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = shared.tell_now.notified() => {}
        }
    }
}

/// How many notices it could do something about.
async fn round(shared: &Shared) -> Result<usize, StoreError> {
    let notices = shared.store.list_notices(BATCH).await?;
    if notices.is_empty() {
        return Ok(0);
    }
    let names: Vec<JobName> = notices.iter().map(|notice| notice.about.job().clone()).collect();
    let records = shared.store.read_jobs(&names).await?;
    let mut done = 0;
    for (notice, record) in notices.iter().zip(records) {
        let definition = match record.map(|record| record.map(Definition::of)) {
            Ok(None) => None,
            Ok(Some(Ok(definition))) => Some(definition),
            Ok(Some(Err(error))) => {
                leave(shared, notice, &error.to_string());
                continue;
            }
            Err(error) => {
                leave(shared, notice, &error.to_string());
                continue;
            }
        };
        match plant(shared, notice, definition.as_ref()).await {
            Ok(()) => done += 1,
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => leave(shared, notice, &error.to_string()),
        }
    }
    Ok(done)
}

async fn plant(shared: &Shared, notice: &Notice, told: Option<&Definition>) -> Result<(), StoreError> {
    let hidden = told.and_then(|told| notice_job(&told.spec, notice.kind));
    let definition = hidden.map(|hidden| {
        let text = config::to_surface(&hidden);
        let hash = config::hash(&text);
        (text, hash)
    });
    let tz = told.map_or_else(String::new, |told| told.timetable.zone().name().as_str().to_owned());
    match shared.store.plant_notice(notice, &NoticeOrder { definition, tz }).await? {
        NoticeReply::Planted => debug!(run = %notice.run, about = %notice.about, "A notice is due."),
        NoticeReply::Suppressed => too_many(shared, notice.about.job(), notice.kind),
        NoticeReply::Told | NoticeReply::Dropped | NoticeReply::Gone => {}
    }
    Ok(())
}

fn too_many(shared: &Shared, job: &JobName, kind: NoticeKind) {
    if shared.said.is_news(&format!("suppressed {job} {kind}")) {
        warn!(job = %job, "Notices {kind} wait to be told; those that come meanwhile are only counted.");
    }
}

fn leave(shared: &Shared, notice: &Notice, why: &str) {
    if shared.said.is_news(&format!("notice of {}", notice.about.job())) {
        warn!(job = %notice.about.job(), "{why}; nobody is told of its runs from here.");
    }
}
