//! The mark that a keeper leaves when its daemon is gone and all jobs of the daemon are dead.
//!
//! Only with this mark may a node that starts again take back its predecessor's runs at once.
//! Without the mark the node waits until the leases of these runs end.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use schedd_schedule::names::NodeName;

/// The end mark: the keeper's statement that all jobs of its node are dead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedMark {
    /// The name of the keeper's node.
    pub node: String,
    /// The incarnation of the node. No job that this incarnation started is alive.
    pub incarnation: String,
    /// The id of the host's boot in which the mark was written. The mark is valid only in that
    /// boot.
    pub boot_id: String,
}

impl EndedMark {
    /// Returns the path of the end mark of `node` in the state directory `state_dir`.
    pub fn file(state_dir: &Path, node: &NodeName) -> PathBuf {
        state_dir.join(format!("ended-{node}.json"))
    }

    /// Returns the mark in `file`; `None` if the file has no readable mark.
    pub fn read(file: &Path) -> Option<Self> {
        serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()
    }

    /// Writes the mark under a temporary name and renames it. So a reader finds the old mark or the
    /// new mark, never half a mark.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let new = file.with_extension(format!("{}.new", std::process::id()));
        std::fs::write(&new, serde_json::to_vec(self)?)?;
        std::fs::rename(new, file)
    }
}
