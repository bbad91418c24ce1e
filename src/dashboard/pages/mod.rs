//! The pages, one file for each.

mod api_page;
mod attention;
mod chains_page;
mod choices_page;
mod jobs_page;
mod one_job_page;
mod one_run_page;
mod overview_page;
mod refusal_page;
mod refused_filter;
mod runs_page;
mod state;
mod timeline_page;

use super::actions::action_page;
use super::page_kind::PageKind;
use super::page_request::PageReading;
use crate::cli::embedded::CliFailure;

pub(super) use refusal_page::refusal;

/// Reads the documents of a page, and returns the page.
pub(super) async fn page(reading: &PageReading<'_>) -> Result<String, CliFailure> {
    match reading.request.kind {
        PageKind::Overview => Box::pin(overview_page::overview_page(reading)).await,
        PageKind::Timeline => Box::pin(timeline_page::timeline_page(reading)).await,
        PageKind::Chains => chains_page::chains_page(reading).await,
        PageKind::Api => api_page::api_page(reading),
        PageKind::Jobs => jobs_page::jobs_page(reading).await,
        PageKind::Job => Box::pin(one_job_page::one_job_page(reading)).await,
        PageKind::Runs => runs_page::runs_page(reading).await,
        PageKind::Run => one_run_page::one_run_page(reading).await,
        PageKind::Queues => state::queues_page::queues_page(reading).await,
        PageKind::Groups => state::groups_page::groups_page(reading).await,
        PageKind::Nodes => state::nodes_page::nodes_page(reading).await,
        PageKind::Doctor => state::doctor_page::doctor_page(reading).await,
        PageKind::Losses => state::losses_page::losses_page(reading).await,
        PageKind::Choices => choices_page::choices_page(reading),
        PageKind::Action => action_page(reading, None).await,
    }
}
