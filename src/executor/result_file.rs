//! The result file of an attempt: `$SCHEDD_RESULT`, in which a process sets the time of the next
//! run of its job.
//!
//! The process creates the file. Each attempt has a name of its own that no other user can guess,
//! and the directory cannot be listed. So a job of another user writes no result here.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use tracing::warn;

/// The number of bytes of a result file that are read.
const READ: u64 = 4_096;
/// The number of characters of a line that is not understood that are shown.
const SHOWN: usize = 80;
/// The permissions of the directory for a daemon of root, whose jobs may run as other users: each
/// user may create files, and none may list them.
const FOR_ALL: u32 = 0o1733;
const FOR_OWNER: u32 = 0o700;
/// The age from which a result file is removed at the start of a daemon.
const LONGEST_USED: Duration = Duration::from_secs(30 * 86_400);

/// The directory of the result files of a node. Without a directory, jobs get no result file.
#[derive(Debug, Clone, Default)]
pub struct ResultDirectory(Option<PathBuf>);

impl ResultDirectory {
    /// Makes the directory `results` in `parent`. Returns no directory if `parent` is `None`, or the
    /// directory cannot be made; this is logged.
    pub fn within(parent: Option<&Path>) -> Self {
        let Some(directory) = parent.map(|parent| parent.join("results")) else {
            return Self::default();
        };
        let mode = if rustix::process::geteuid().is_root() { FOR_ALL } else { FOR_OWNER };
        let created = DirBuilder::new().recursive(true).mode(mode).create(&directory);
        // The umask of this process does not apply here.
        match created.and_then(|()| fs::set_permissions(&directory, Permissions::from_mode(mode))) {
            Ok(()) => {
                remove_old(&directory);
                Self(Some(directory))
            }
            Err(error) => {
                warn!(directory = %directory.display(), "Jobs cannot set the time of their next run, because the directory for their results cannot be made: {error}.");
                Self::default()
            }
        }
    }

    /// Returns the path of the result file of a new attempt.
    pub(super) fn new_file(&self) -> Option<PathBuf> {
        let name = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        self.0.as_ref().map(|directory| directory.join(name))
    }
}

/// Removes the result files that no attempt can still use, because a daemon was killed meanwhile. No
/// attempt lasts longer than 30 days.
fn remove_old(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|about| about.modified()).ok();
        if age.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > LONGEST_USED) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the value of `next` in the result file `path`, and removes the file. The error says which
/// line is not understood, if no line sets `next`. Returns `None` if the attempt wrote nothing.
pub(super) fn take_next(path: &Path) -> Option<Result<String, String>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let _ = fs::remove_file(path);
    let mut text = String::new();
    let is_file = file.metadata().is_ok_and(|about| about.is_file());
    if !is_file || file.take(READ).read_to_string(&mut text).is_err() {
        return Some(Err("$SCHEDD_RESULT is not a text file".to_owned()));
    }
    let mut next = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.split_once('=') {
            Some((key, value)) if key.trim() == "next" => next = Some(Ok(value.trim().to_owned())),
            _ => {
                let line: String = line.chars().take(SHOWN).collect();
                let why = format!(
                    "line {line:?} of $SCHEDD_RESULT is not understood, wanted next=TIME or next=DURATION"
                );
                warn!("Of the result of the run, {why}.");
                next = next.or(Some(Err(why)));
            }
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_next_of_a_result_file_counts_and_the_file_goes() {
        let home = tempfile::tempdir().unwrap();
        let results = ResultDirectory::within(Some(home.path()));
        let path = results.new_file().unwrap();
        assert_ne!(results.new_file().unwrap(), path);
        assert_eq!(take_next(&path), None);
        for (text, next) in [
            ("next=5m\n", Some("5m")),
            ("nonsense\n\nnext = 1h\nnext=2026-12-24T09:00Z", Some("2026-12-24T09:00Z")),
            ("", None),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(take_next(&path), next.map(|next| Ok(next.to_owned())), "{text:?}");
            assert!(!path.exists());
        }
        let why = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            take_next(&path).unwrap().unwrap_err()
        };
        assert!(why(b"nxt=5m").starts_with("line \"nxt=5m\" of $SCHEDD_RESULT is not understood"));
        assert!(why(b"5m").contains("wanted next=TIME or next=DURATION"));
        assert!(why(&[0xff, 0xfe]).contains("not a text file"));
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert_eq!(take_next(&path), None);
        assert_eq!(ResultDirectory::within(None).new_file(), None);
    }
}
