//! A job of a file as canonical JSON, the form in which a node keeps it.

use std::fmt;

use super::canonical_job::{CanonicalError, from_canonical, to_canonical};
use crate::domain::job::job_spec::JobSpec;

/// The definition of a job as canonical JSON. The text needs about a tenth of the memory of a
/// [`JobSpec`], and a file may have very many jobs.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredJob(Box<str>);

impl StoredJob {
    /// Returns the definition `spec` as canonical JSON.
    pub fn of(spec: &JobSpec) -> Self {
        Self(to_canonical(spec).into())
    }

    /// Returns the canonical JSON.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Compiles the definition. Fails only if canonical JSON of this schedd does not read back.
    pub fn spec(&self) -> Result<JobSpec, CanonicalError> {
        from_canonical(&self.0)
    }
}

impl fmt::Debug for StoredJob {
    /// Prints no part of the definition, because it may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredJob(..)")
    }
}
