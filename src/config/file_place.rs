//! Where the jobs file is, and whether somebody named it.

use std::path::{Path, PathBuf};

/// The places looked at when nobody names one.
const PLACES: [&str; 2] = ["jobs.toml", "/etc/schedd/jobs.toml"];

/// The path of a jobs file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace {
    path: PathBuf,
    is_found: bool,
}

impl FilePlace {
    /// The file somebody named.
    pub fn named(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), is_found: false }
    }

    /// The file that is used: `named`, else the first of the usual places that is there.
    pub fn of(named: Option<PathBuf>) -> Option<Self> {
        let found = || PLACES.map(PathBuf::from).into_iter().find(|path| path.exists());
        named.map(Self::named).or_else(|| Some(Self { path: found()?, is_found: true }))
    }

    /// The places looked at, for a message.
    pub fn usual() -> String {
        format!("./{} and {}", PLACES[0], PLACES[1])
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nobody named it, so that whoever may write where this process is could have put it there.
    pub(super) fn is_found(&self) -> bool {
        self.is_found
    }
}
