//! The problems of a node's configuration, as text.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The problems of a node's configuration. An empty text means that no problem exists.
#[derive(Default)]
pub(crate) struct ConfigProblems {
    texts: Mutex<Texts>,
}

#[derive(Default)]
struct Texts {
    /// The reason why the present jobs file was refused.
    file: String,
    /// The reasons why parts of the last accepted file were not applied.
    jobs: String,
    /// The reason why the shards of the file were refused.
    shards: String,
    /// The reason why the HTTP API did not start.
    api: String,
}

impl ConfigProblems {
    /// Returns all problems as one text, separated by `; `.
    pub(crate) fn text(&self) -> String {
        let texts = self.texts();
        [&*texts.file, &*texts.jobs, &*texts.shards, &*texts.api]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Returns true if the present jobs file was refused.
    pub(crate) fn is_file_refused(&self) -> bool {
        !self.texts().file.is_empty()
    }

    /// Sets the reason why the present jobs file was refused.
    pub(crate) fn set_file(&self, reason: String) {
        self.texts().file = reason;
    }

    /// Sets the reasons why parts of the last accepted file were not applied.
    pub(crate) fn set_jobs(&self, reasons: String) {
        self.texts().jobs = reasons;
    }

    /// Sets the reason why the shards of the file were refused. Returns true if it is another reason
    /// than before.
    pub(crate) fn set_shards(&self, reason: &str) -> bool {
        let mut texts = self.texts();
        let is_new = texts.shards != reason;
        reason.clone_into(&mut texts.shards);
        is_new
    }

    /// Sets the reason why the HTTP API did not start.
    pub(crate) fn set_api(&self, reason: String) {
        self.texts().api = reason;
    }

    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
