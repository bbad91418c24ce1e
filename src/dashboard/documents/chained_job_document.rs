//! A job of a chain, as `graph` has it.

use serde::Deserialize;

use crate::dashboard::shown_text::ShownText;

/// The document `chained job`.
#[derive(Debug, Deserialize)]
pub(in crate::dashboard) struct ChainedJobDocument {
    pub(in crate::dashboard) job: ShownText,
    pub(in crate::dashboard) schedule: ShownText,
    pub(in crate::dashboard) root: Option<ShownText>,
    pub(in crate::dashboard) parents: Vec<ShownText>,
}
