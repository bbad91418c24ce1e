//! The standard input and the files of a verb that runs for an HTTP request. Both are on the host of
//! its sender.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// The input and the files of a verb that runs for a request.
pub(crate) struct RequestFiles {
    input: Mutex<Option<Box<dyn Read + Send>>>,
    files: BTreeMap<String, String>,
}

impl fmt::Debug for RequestFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestFiles").field("files", &self.files.keys()).finish_non_exhaustive()
    }
}

impl RequestFiles {
    /// Returns the input and the files of a verb.
    pub(crate) fn new(input: Box<dyn Read + Send>, files: BTreeMap<String, String>) -> Self {
        Self { input: Mutex::new(Some(input)), files }
    }

    /// Takes the standard input of the verb. A second call gets an empty input.
    pub(crate) fn take_input(&self) -> Box<dyn Read + Send> {
        let taken = self.input.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.unwrap_or_else(|| Box::new(std::io::empty()))
    }

    /// Returns the content of each file that the sender of the request named, by path.
    pub(crate) fn files(&self) -> &BTreeMap<String, String> {
        &self.files
    }
}
