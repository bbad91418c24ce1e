//! The mark a keeper leaves when its daemon is gone and all of its jobs are too: with it, and only with it, a node that starts
//! again may take its predecessor's runs back at once instead of watching their leases run out.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::domain::ids::NodeName;

/// What a keeper that ended says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedMark {
    /// Its node.
    pub node: String,
    /// The incarnation none of whose jobs is alive.
    pub incarnation: String,
    /// The boot of the host it says this of.
    pub boot_id: String,
}

impl EndedMark {
    /// The file of `node` in a state directory.
    pub fn file(state_dir: &Path, node: &NodeName) -> PathBuf {
        state_dir.join(format!("ended-{node}.json"))
    }

    /// The mark in `file`; none if there is none that can be read.
    pub fn read(file: &Path) -> Option<Self> {
        serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()
    }

    /// Writes it under another name first, so that a reader finds the old mark or the new one, never half of one.
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        let new = file.with_extension(format!("{}.new", std::process::id()));
        std::fs::write(&new, serde_json::to_vec(self)?)?;
        std::fs::rename(new, file)
    }
}
