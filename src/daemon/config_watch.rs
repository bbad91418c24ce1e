//! Finds and reads the jobs file, and notices its changes.
//!
//! A changed file is read only after it has stayed the same for a moment, so that no half-written
//! file is read. Changes are noticed by the inode, size and times of the file. This works with
//! every editor and file system, and costs one `stat` each half second.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{info, warn};

use super::setup_failure::SetupFailure;
use schedd_core::config;
use schedd_core::config::{Config, FilePlace, Rendering};
use schedd_core::files;
use schedd_schedule::time::zone::Zone;

const LOOK_EVERY: Duration = Duration::from_millis(500);
const UNCHANGED_FOR: Duration = Duration::from_millis(300);

/// The jobs file of this process. Its path is given, or is the first default path with a file.
#[derive(Clone)]
pub(super) struct JobsFile {
    given: Option<PathBuf>,
}

impl JobsFile {
    /// Returns the jobs file at the path `given`. Without a path, each reading looks for the file
    /// at the default paths.
    pub(super) fn new(given: Option<PathBuf>) -> Self {
        Self { given }
    }

    /// Returns the present path of the jobs file, or `None` if no path was given and no file is
    /// found.
    fn place(&self) -> Option<FilePlace> {
        FilePlace::of(self.given.clone())
    }

    /// Returns the absolute path of the jobs file, or `None` if there is no file.
    pub(super) fn path(&self) -> Option<PathBuf> {
        self.place().and_then(|place| std::path::absolute(place.path()).ok())
    }

    /// Reads the jobs file for the first time. Returns `None` if no file exists. An error in the
    /// file ends the start of the process.
    ///
    /// Also returns a watch that notices each change after the start of this reading.
    pub(super) async fn read_at_start(
        &self,
        host_zone: &Zone,
    ) -> Result<(Option<Config>, ConfigWatch), SetupFailure> {
        let watch = ConfigWatch { file: self.clone(), known: self.look().await };
        let read = self.read(host_zone).await.map_err(SetupFailure::config)?;
        if read.is_none() {
            info!(
                "No jobs file was found at {}. schedd starts without a jobs file.",
                FilePlace::usual()
            );
        }
        Ok((read, watch))
    }

    /// Reads the jobs file again. Returns `None` if no file exists. The error has all problems in
    /// one line.
    ///
    /// If the process lacks file descriptors, this call waits until the file can be read. An error
    /// would lose the change, because the file is read only once for each change.
    pub(super) async fn read_again(&self, host_zone: &Zone) -> Result<Option<Config>, String> {
        let mut is_reported = false;
        loop {
            let read = self.read(host_zone).await;
            let lack = read.as_ref().err().and_then(|_| files::lack_of_descriptors());
            let Some(error) = lack else {
                return read.map_err(|lines| lines.lines().collect::<Vec<_>>().join("; "));
            };
            if !is_reported {
                warn!(
                    "jobs.toml: the file cannot be read now: {error}. schedd keeps its present jobs and tries again."
                );
            }
            is_reported = true;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Reads the jobs file on another thread, so that a file system that hangs does not block the
    /// process. Returns `None` if no file exists. The error has one line for each problem.
    async fn read(&self, host_zone: &Zone) -> Result<Option<Config>, String> {
        let (file, host_zone) = (self.clone(), host_zone.clone());
        let read = tokio::task::spawn_blocking(move || {
            file.place().map(|place| config::read_file(&place, &host_zone))
        })
        .await;
        match read {
            Ok(None) => Ok(None),
            Ok(Some(Ok(config))) => {
                for warning in &config.warnings {
                    warn!("jobs.toml: {warning}.");
                }
                Ok(Some(config))
            }
            Ok(Some(Err(error))) => Err(error.rendered(Rendering::Lines)),
            Err(error) => Err(format!("the jobs file cannot be read: {error}")),
        }
    }

    /// Returns the inode, size and times of the jobs file, or `None` if no file exists. Reads them
    /// on another thread, because the file system may hang.
    async fn look(&self) -> Option<Look> {
        let file = self.clone();
        tokio::task::spawn_blocking(move || Look::at(file.place()?.path())).await.ok().flatten()
    }
}

/// The properties of a file that show whether the file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// The change time of the inode (ctime) in seconds and nanoseconds. It also changes with the
    /// owner, mode or name of the file, which may make the file readable.
    changed: (i64, i64),
}

impl Look {
    fn at(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(path).ok()?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }
}

/// A watch that notices changes of the jobs file.
pub(super) struct ConfigWatch {
    file: JobsFile,
    known: Option<Look>,
}

impl ConfigWatch {
    /// Records the present inode, size and times of the file, with which [`Self::changed`] compares
    /// later values. The caller then reads the file.
    pub(super) async fn note(&mut self) {
        self.known = self.file.look().await;
    }

    /// Waits until the inode, size or times of the file differ from the recorded values, and the
    /// file has then stayed the same for a moment.
    pub(super) async fn changed(&mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let mut seen = self.file.look().await;
            if seen == self.known {
                continue;
            }
            loop {
                tokio::time::sleep(UNCHANGED_FOR).await;
                let again = self.file.look().await;
                if again == seen {
                    break;
                }
                seen = again;
            }
            self.known = seen;
            return;
        }
    }
}
