//! The selection of runs by the tags of their jobs. The definition of each job is read once.

use std::collections::HashMap;

use crate::cli::failure::CliFailure;
use crate::cli::merged_places::{MergedPlaces, Placed};
use schedd::engine::Definition;
use schedd_core::domain::name::tag_filter::TagFilter;
use schedd_schedule::names::JobName;
use schedd_store::{JobRecord, RunRecord};

/// Returns true if the definition of a job matches all filters. A definition that cannot be read
/// matches no filter.
pub(crate) fn has_tags(job: JobRecord, filters: &[TagFilter]) -> bool {
    let definition = Definition::of(job);
    definition.is_ok_and(|definition| TagFilter::all_match(filters, &definition.spec.tags))
}

/// The jobs that were looked up so far. The value tells whether the job has the wanted tags.
#[derive(Debug, Default)]
pub(crate) struct TaggedJobs(HashMap<Placed<JobName>, bool>);

impl TaggedJobs {
    /// Keeps only the runs whose jobs match all filters. The run of a notice has the tags of the
    /// job that the notice is about. A run without a job has no tags.
    pub(crate) async fn retain(
        &mut self,
        places: &MergedPlaces,
        filters: &[TagFilter],
        runs: &mut Vec<Placed<RunRecord>>,
    ) -> Result<(), CliFailure> {
        if filters.is_empty() {
            return Ok(());
        }
        let mut unknown: Vec<Placed<JobName>> = runs.iter().map(tagged).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown.retain(|job| !self.0.contains_key(job));
        let records = places.read_jobs(unknown.clone()).await?;
        for (job, (_, record)) in unknown.into_iter().zip(records) {
            let record = record.ok().flatten();
            self.0.insert(job, record.is_some_and(|record| has_tags(record, filters)));
        }
        runs.retain(|run| self.0.get(&tagged(run)).copied().unwrap_or(false));
        Ok(())
    }
}

/// Returns the job whose tags count for a run.
fn tagged((place, run): &Placed<RunRecord>) -> Placed<JobName> {
    let job = run.run.job();
    (*place, job.notice_subject().map_or_else(|| job.clone(), |(subject, _)| subject))
}
