//! Which file a job's program is, and in words why it cannot be started.
//!
//! Invariant: 127 means no such program, 126 that it is there and cannot be executed, as shells have it; a start that failed
//! for want of anything else (memory, descriptors, directory) has no exit code.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use rustix::io::Errno;

use super::wire::{End, Report};

/// Where a bare name is looked for if the environment has no PATH.
const DEFAULT_PATH: &str = "/usr/bin:/bin";

/// The words for an errno, without its number.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text.get(..end).unwrap_or(&text).to_owned(),
        None => text,
    }
}

/// A report that `subject` kept the start from happening.
fn cannot_start(subject: &str, error: &io::Error, exit_code: Option<i32>) -> Report {
    Report { exit_code, ..Report::of(End::CannotStart, format!("cannot start: {subject}: {}", words(error))) }
}

/// A report that the process may not enter its directory.
pub(super) fn no_directory(cwd: &Path, error: &io::Error) -> Report {
    cannot_start(&format!("directory {}", cwd.display()), error, None)
}

/// A report that the process has no cgroup.
pub(super) fn no_cgroup(error: &io::Error) -> Report {
    cannot_start("its cgroup", error, None)
}

/// A report that the process cannot become its user, for want of the system call `call`.
pub(super) fn no_user(uid: u32, call: &str, error: &io::Error) -> Report {
    cannot_start(&format!("as the user with uid {uid}: {call}"), error, None)
}

/// A report that the process cannot be held to a limit.
pub(super) fn no_limit(name: &str, error: &io::Error) -> Report {
    cannot_start(&format!("limits.{name}"), error, None)
}

/// Checks that `cwd` is a directory. One that cannot be seen may be one all the same to the user the process runs as.
pub(super) fn check_directory(cwd: &Path) -> Result<(), Report> {
    let refusal = |error: io::Error| no_directory(cwd, &error);
    match std::fs::metadata(cwd) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(refusal(Errno::NOTDIR.into())),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(refusal(error)),
    }
}

/// The file `name` stands for: itself if it has a slash (seen from `cwd`), else the first executable one of that name in the
/// directories of `path`.
pub(super) fn find(name: &str, path: Option<&str>, cwd: &Path) -> Result<PathBuf, Report> {
    if name.contains('/') {
        let file = cwd.join(name);
        return match std::fs::metadata(&file) {
            // The user it runs as may see more.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(not_found(name, &error)),
            _ => Ok(file),
        };
    }
    let mut refused = None;
    for directory in path.unwrap_or(DEFAULT_PATH).split(':') {
        let file = cwd.join(directory).join(name);
        match std::fs::metadata(&file) {
            Ok(found) if found.is_file() => match rustix::fs::access(&file, Access::EXEC_OK) {
                Ok(()) => return Ok(file),
                Err(errno) => refused = refused.or(Some(errno)),
            },
            _ => {}
        }
    }
    Err(match refused {
        Some(errno) => cannot_start(name, &errno.into(), Some(126)),
        None => not_found(name, &Errno::NOENT.into()),
    })
}

fn not_found(name: &str, error: &io::Error) -> Report {
    let code = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => 127,
        _ => 126,
    };
    cannot_start(name, error, Some(code))
}

/// A report that the file was found and the system would not make a process of it.
pub(super) fn not_executed(name: &str, error: &io::Error) -> Report {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => cannot_start(name, error, None),
        // The file itself was seen a moment ago.
        Some(Errno::NOENT) => cannot_start(&format!("{name}: its interpreter"), error, Some(126)),
        _ => cannot_start(name, error, Some(126)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_the_first_executable_in_the_path_and_a_refusal_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path();
        std::fs::write(cwd.join("plain"), "").unwrap();
        let path = format!("{}:/usr/bin:/bin", cwd.display());
        assert!(find("sh", Some(&path), cwd).unwrap().ends_with("bin/sh"));
        let plain = find("plain", Some(&path), cwd).unwrap_err();
        assert_eq!(plain.error.as_deref(), Some("cannot start: plain: Permission denied"));
        assert_eq!(plain.exit_code, Some(126));
        for missing in ["no-such-thing", "/no/such/thing", "./plain/under"] {
            assert_eq!(find(missing, Some(&path), cwd).unwrap_err().exit_code, Some(127), "{missing}");
        }
        let file = check_directory(&cwd.join("plain")).unwrap_err().error.unwrap();
        assert!(file.ends_with("plain: Not a directory"), "{file}");
    }
}
