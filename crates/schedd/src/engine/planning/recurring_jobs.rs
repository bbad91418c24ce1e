//! The names of all live jobs that are not one-shots.
//!
//! There may be very many one-shots, so the names are read again only after a change of a job. A
//! name may belong to a job that has ended since then.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Mutex;

use schedd_schedule::names::JobName;
use schedd_store::{JobsMark, Store, StoreError};

/// The most jobs examined in one call.
const BATCH: usize = 1_000;

/// The names of the recurring jobs, with the mark of the jobs from before the names were read.
#[derive(Default)]
pub(crate) struct RecurringJobs(Mutex<Option<(JobsMark, Arc<Vec<JobName>>)>>);

impl RecurringJobs {
    /// Returns the names in the order of names. Missing and unreadable jobs count as recurring.
    pub(crate) async fn names(&self, store: &Store) -> Result<Arc<Vec<JobName>>, StoreError> {
        let mut known = self.0.lock().await;
        let mark = store.read_jobs_mark().await?;
        if let Some((_, names)) = known.as_ref().filter(|(before, _)| mark.as_ref() == Some(before))
        {
            return Ok(names.clone());
        }
        // A job that changes its place in the list meanwhile may be left out. The change of its
        // planned run is made with the present clock and zone data.
        let mut names = BTreeSet::new();
        let mut offset = 0;
        loop {
            let page = store.list_jobs(offset, BATCH).await?;
            names.extend(store.recurring_of(&page).await?);
            if page.len() < BATCH {
                break;
            }
            offset += BATCH;
        }
        let names = Arc::new(names.into_iter().collect::<Vec<_>>());
        *known = mark.map(|mark| (mark, names.clone()));
        Ok(names)
    }
}
