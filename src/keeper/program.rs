//! Which file a job's program is, and in words why it cannot be started.
//!
//! Invariant: 127 means no such program, 126 that it is there and cannot be executed, as shells have it; a start that failed
//! for want of anything else (memory, descriptors, directory) has no exit code.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FileType};
use rustix::io::Errno;

use super::becoming::Entered;
use super::marks::{Failure, Place, Step};
use super::wire::{End, Launch, Report, Wanting};

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

/// A report that the keeper is short of what it needs itself to start anything; none if `error` says something else. Only for what
/// is done before there is a child, and by the fork: what a child lacks may be a limit of its job or of its job's user.
pub(super) fn short_of(error: &io::Error) -> Option<Report> {
    let errno = Errno::from_io_error(error)?;
    let is_short = matches!(errno, Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM);
    is_short.then(|| Report::of(End::Short, format!("not started: this node cannot start processes: {}", words(error))))
}

/// A report that the process has no cgroup.
pub(super) fn no_cgroup(error: &io::Error) -> Report {
    cannot_start("its cgroup", error, None)
}

/// The files a program may be, in the order they are looked at.
#[derive(Debug)]
pub(super) struct Candidates {
    /// As seen from the directory wanted, then as seen from the other, if there is one.
    files: Vec<CString>,
    /// How many there are in one directory.
    count: usize,
    is_searched: bool,
}

impl Candidates {
    /// Those `name` may stand for: itself if it has a slash (seen from `cwd`, or from `cwd_else` by whoever is there), else one of
    /// that name in each of the directories of `path`. Looks at none. Fails if there is a zero in it.
    pub(super) fn new(name: &str, path: Option<&str>, cwd: &Path, cwd_else: Option<&Path>) -> io::Result<Self> {
        let is_searched = !name.contains('/');
        let path = path.unwrap_or(DEFAULT_PATH);
        let seen_from = |cwd: &Path| -> Vec<PathBuf> {
            if is_searched {
                path.split(':').map(|directory| cwd.join(directory).join(name)).collect()
            } else {
                vec![cwd.join(name)]
            }
        };
        let wanted = seen_from(cwd);
        let count = wanted.len();
        let files = wanted.into_iter().chain(cwd_else.map(seen_from).unwrap_or_default());
        let files = files.map(|file| CString::new(file.into_os_string().into_vec())).collect::<Result<_, _>>()?;
        Ok(Self { files, count, is_searched })
    }

    /// The one to execute from that place, with its number: if there are several the first that can be; `before` is told each
    /// number before it is looked at. For a child between fork and exec: neither allocates nor locks. May wait for a file system.
    pub(super) fn find(&self, place: Entered, before: impl Fn(u32)) -> Result<(u32, &CStr), Failure> {
        let mut refused = None;
        let others = match place {
            Entered::Wanted => 0,
            Entered::Other => self.count,
        };
        for (number, file) in (0..).zip(&self.files).skip(others).take(self.count) {
            if !self.is_searched {
                return Ok((number, file));
            }
            before(number);
            if rustix::fs::stat(file.as_c_str()).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file()) {
                match rustix::fs::access(file.as_c_str(), Access::EXEC_OK) {
                    Ok(()) => return Ok((number, file)),
                    Err(errno) => refused = refused.or(Some(errno)),
                }
            }
        }
        Err(Step::Search.failed(refused.unwrap_or(Errno::NOENT)))
    }

    /// What kept `file` from being executed: it is not there, or else `errno` says what is wrong with it. For a child between
    /// fork and exec.
    pub(super) fn why_not(file: &CStr, errno: Errno) -> Failure {
        match rustix::fs::stat(file) {
            // The user it runs as may execute what it cannot see.
            Err(missing) if missing != Errno::ACCESS => Step::Search.failed(missing),
            _ => Step::Exec.failed(errno),
        }
    }

    fn shown(&self, number: u32) -> Option<String> {
        let file = self.files.get(usize::try_from(number).ok()?)?;
        Some(file.to_string_lossy().into_owned())
    }
}

/// A report of what kept a program from being started.
pub(super) fn failed(failure: Failure, launch: &Launch) -> Report {
    let name = launch.argv.first().map_or("", String::as_str);
    let error = failure.errno.into();
    // The only one of these that is of the whole system, whoever meets it.
    if failure.errno == Errno::NFILE
        && let Some(report) = short_of(&error)
    {
        return report;
    }
    let report = match failure.step {
        Step::Ready | Step::Exec => not_executed(name, &error),
        Step::Search => not_found(name, &error),
        Step::Cgroup => no_cgroup(&error),
        Step::Files => cannot_start("limits.files", &error, None),
        Step::User(call) => {
            let uid = launch.owner.as_ref().map_or(0, |owner| owner.uid);
            cannot_start(&format!("as the user with uid {uid}: {call}"), &error, None)
        }
        Step::Directory => cannot_start(&format!("directory {}", launch.cwd.display()), &error, None),
    };
    // A file that was found, or looked for, is told by its exit code from what the system was short of.
    let wanting = wanting(failure.step).filter(|wanting| *wanting == Wanting::Directory || report.exit_code.is_some());
    Report { wanting, ..report }
}

/// What of the job a step needs.
pub(super) fn wanting(step: Step) -> Option<Wanting> {
    match step {
        Step::Directory => Some(Wanting::Directory),
        Step::Search | Step::Exec => Some(Wanting::Program),
        Step::Ready | Step::Cgroup | Step::Files | Step::User(_) => None,
    }
}

/// What did not answer a child that had come as far as `place`.
pub(super) fn unanswering(place: Place, launch: &Launch, candidates: &Candidates) -> String {
    let name = || launch.argv.first().cloned().unwrap_or_default();
    match place.step {
        // It waits for no file system yet: only for its turn.
        Step::Ready => "its host".to_owned(),
        Step::Directory => format!("directory {}", launch.cwd.display()),
        _ => candidates.shown(place.file).unwrap_or_else(name),
    }
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
        // The file itself was seen after it.
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
        let find = |name: &str| {
            let candidates = Candidates::new(name, Some(&path), cwd, None).unwrap();
            let found = candidates.find(Entered::Wanted, |_| {}).map(|(_, file)| file.to_str().unwrap().to_owned());
            found.and_then(|file| match Candidates::why_not(&CString::new(file.clone()).unwrap(), Errno::NOEXEC) {
                Failure { step: Step::Exec, .. } => Ok(file),
                missing => Err(missing),
            })
        };
        assert!(find("sh").unwrap().ends_with("bin/sh"));
        assert_eq!(find("./plain").unwrap(), format!("{}/./plain", cwd.display()));
        assert_eq!(find("plain").unwrap_err(), Step::Search.failed(Errno::ACCESS));
        assert_eq!(not_found("plain", &Errno::ACCESS.into()).error.as_deref(), Some("cannot start: plain: Permission denied"));
        assert_eq!(not_found("plain", &Errno::ACCESS.into()).exit_code, Some(126));
        for missing in ["no-such-thing", "/no/such/thing", "./plain/under"] {
            let failure = find(missing).unwrap_err();
            assert_eq!(
                (failure.step, not_found(missing, &failure.errno.into()).exit_code),
                (Step::Search, Some(127)),
                "{missing}"
            );
        }
    }
}
