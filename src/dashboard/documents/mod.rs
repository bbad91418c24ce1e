//! The documents that pages read, each with the fields that pages show. `docs/json.md` describes
//! them. A new field here must be one of that page.

mod chained_job_document;
mod explanation_document;
mod group_document;
mod job_document;
mod loss_document;
mod node_document;
mod queue_document;
mod report_document;
mod run_document;
pub(super) mod verb_document;
mod whole_job_document;
mod whole_run_document;

pub(super) use chained_job_document::ChainedJobDocument;
pub(super) use explanation_document::{AuditDocument, ExplanationDocument};
pub(super) use group_document::GroupDocument;
pub(super) use job_document::{JobDocument, LastRunDocument};
pub(super) use loss_document::LossDocument;
pub(super) use node_document::NodeDocument;
pub(super) use queue_document::QueueDocument;
pub(super) use report_document::ReportDocument;
pub(super) use run_document::{RunDocument, millis};
pub(super) use whole_job_document::{ComingDocument, WholeJobDocument};
pub(super) use whole_run_document::{
    AttemptDocument, OutputDocument, WaitDocument, WholeRunDocument,
};
