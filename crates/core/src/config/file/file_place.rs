//! The path of the jobs file, and a record of whether an operator named that path.

use std::path::{Path, PathBuf};

/// The paths searched, in this order, if no operator names a file.
const PLACES: [&str; 2] = ["jobs.toml", "/etc/schedd/jobs.toml"];

/// The path of a jobs file, and whether an operator named it or schedd found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace {
    path: PathBuf,
    is_found: bool,
}

impl FilePlace {
    /// Returns the place of a file that an operator named.
    pub fn named(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), is_found: false }
    }

    /// Returns the place of the file to use: `named` if given, else the first path of `PLACES` at
    /// which a file exists. Returns `None` if there is no such file.
    pub fn of(named: Option<PathBuf>) -> Option<Self> {
        let found = || PLACES.map(PathBuf::from).into_iter().find(|path| path.exists());
        named.map(Self::named).or_else(|| Some(Self { path: found()?, is_found: true }))
    }

    /// Formats the paths that are searched if no operator names a file, for a message.
    pub fn usual() -> String {
        format!("./{} and {}", PLACES[0], PLACES[1])
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if schedd found the file and no operator named it. Such a file may come from
    /// anyone who can write to the current directory.
    pub(crate) fn is_found(&self) -> bool {
        self.is_found
    }
}
