//! The documents that pages read, each with the fields that pages show. `docs/json.md` describes
//! them. A new field here must be one of that page.

mod job_document;

pub(super) use job_document::JobDocument;
