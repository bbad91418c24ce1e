//! The search for the file of a job's program, and error texts for a start that failed.
//!
//! Invariant: exit code 127 means that there is no such program. Exit code 126 means that the file
//! exists and cannot be executed, as in shells. A start that failed for another reason (memory,
//! descriptors, directory) has no exit code.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FileType};
use rustix::io::Errno;

use super::child_setup::Entered;
use super::start_progress::{CallPlace, StartFailure, StartStep};
use crate::protocol::keeper_messages::{LaunchOrder, ProcessEnd, RunReport, Wanting};

/// The directories searched for a program name without a slash if the environment has no PATH.
const DEFAULT_PATH: &str = "/usr/bin:/bin";

/// The number that is added to the candidate numbers of [`Candidates::without_shell`] in the marks
/// of a child. The sum keeps these numbers apart from the numbers of [`Candidates::of`].
pub(crate) const WITHOUT_SHELL: u32 = 1 << 31;

/// Returns the text of an error without the errno number.
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text.get(..end).unwrap_or(&text).to_owned(),
        None => text,
    }
}

/// Returns a report that `subject` prevented the start, with `error` as the cause.
fn cannot_start(subject: &str, error: &io::Error, exit_code: Option<i32>) -> RunReport {
    RunReport {
        exit_code,
        ..RunReport::of(
            ProcessEnd::CannotStart,
            format!("cannot start: {subject}: {}", words(error)),
        )
    }
}

/// Returns a report that the keeper lacks resources to start a process. Returns `None` if `error`
/// has another cause.
///
/// For the steps of the keeper, up to the fork, any error may be given. For a step of the child,
/// only `ENFILE` may be given: another error may come from a limit of the job or its user.
pub(crate) fn short_of(error: &io::Error) -> Option<RunReport> {
    let errno = Errno::from_io_error(error)?;
    let is_short = matches!(errno, Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM);
    is_short.then(|| {
        RunReport::of(
            ProcessEnd::Short,
            format!("not started: this node cannot start processes: {}", words(error)),
        )
    })
}

/// Returns a report that the run's cgroup could not be used.
pub(crate) fn no_cgroup(error: &io::Error) -> RunReport {
    cannot_start("cgroup of the run", error, None)
}

/// The files that may be the program of a job, in the order of the search.
#[derive(Debug)]
pub(crate) struct Candidates {
    /// The candidates seen from the wanted directory. The candidates seen from the alternative
    /// directory follow, if there is one.
    files: Vec<CString>,
    /// The number of candidates seen from one directory.
    count: usize,
    is_searched: bool,
}

impl Candidates {
    /// Builds the candidates for the first word of the arguments of `launch`, without looking at
    /// any file. Fails if a path contains a zero byte.
    pub(crate) fn of(launch: &LaunchOrder) -> io::Result<Self> {
        let name = launch.argv.first().map_or("", String::as_str);
        let path = launch.env.0.get("PATH").map(String::as_str);
        Self::new(name, path, &launch.cwd, launch.cwd_else.as_deref())
    }

    /// Builds the candidates for the program that `launch` executes without its shell, as a shell
    /// in the directory of the job sees them. Returns `None` if the shell is needed.
    pub(crate) fn without_shell(launch: &LaunchOrder) -> io::Result<Option<Self>> {
        let Some(name) = launch.direct.iter().flatten().next() else { return Ok(None) };
        let path = launch.env.0.get("PATH").map(String::as_str);
        Self::new(name, path, Path::new(""), None).map(Some)
    }

    /// Builds the candidates for `name` without looking at any file.
    ///
    /// A name with a slash is one file, seen from `cwd`, and from `cwd_else` for a child that
    /// entered `cwd_else`. A bare name gives one candidate for each directory of `path`. Fails if a
    /// path contains a zero byte.
    fn new(
        name: &str,
        path: Option<&str>,
        cwd: &Path,
        cwd_else: Option<&Path>,
    ) -> io::Result<Self> {
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
        let files = files
            .map(|file| CString::new(file.into_os_string().into_vec()))
            .collect::<Result<_, _>>()?;
        Ok(Self { files, count, is_searched })
    }

    /// Returns the file to execute and its number among the candidates. `place` is the working
    /// directory that the child entered, from which relative candidates are searched. A bare name
    /// gives the first file that can be executed. A name with a slash gives its file without a
    /// check.
    ///
    /// Calls `before` with the number of each candidate before its check. Safe between fork and
    /// exec: the search neither allocates nor locks. May wait for a file system.
    pub(crate) fn find(
        &self,
        place: Entered,
        before: impl Fn(u32),
    ) -> Result<(u32, &CStr), StartFailure> {
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
            if rustix::fs::stat(file.as_c_str())
                .is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file())
            {
                match rustix::fs::access(file.as_c_str(), Access::EXEC_OK) {
                    Ok(()) => return Ok((number, file)),
                    Err(errno) => refused = refused.or(Some(errno)),
                }
            }
        }
        Err(StartStep::Search.failed(refused.unwrap_or(Errno::NOENT)))
    }

    /// Returns the failure of a start at `file`: the file is missing, or the exec failed with
    /// `errno`. Safe between fork and exec.
    pub(crate) fn why_not(file: &CStr, errno: Errno) -> StartFailure {
        match rustix::fs::stat(file) {
            // The job's user may be allowed to execute a file it cannot see.
            Err(missing) if missing != Errno::ACCESS => StartStep::Search.failed(missing),
            _ => StartStep::Exec.failed(errno),
        }
    }

    fn shown(&self, number: u32) -> Option<String> {
        let file = self.files.get(usize::try_from(number).ok()?)?;
        Some(file.to_string_lossy().into_owned())
    }
}

/// Returns a report that names the step that prevented the start of a program.
pub(crate) fn failed(failure: StartFailure, launch: &LaunchOrder) -> RunReport {
    let name = launch.argv.first().map_or("", String::as_str);
    let error = failure.errno.into();
    // `ENFILE` is the only one of these errors that concerns the whole system and not one process.
    if failure.errno == Errno::NFILE
        && let Some(report) = short_of(&error)
    {
        return report;
    }
    let report = match failure.step {
        StartStep::Ready | StartStep::Exec => not_executed(name, &error),
        StartStep::Search => not_found(name, &error),
        StartStep::Cgroup => no_cgroup(&error),
        StartStep::Files => cannot_start("limits.files", &error, None),
        StartStep::User(call) => {
            let uid = launch.owner.as_ref().map_or(0, |owner| owner.uid);
            cannot_start(&format!("switch to uid {uid} ({call})"), &error, None)
        }
        StartStep::Directory => {
            cannot_start(&format!("directory {}", launch.cwd.display()), &error, None)
        }
    };
    // A report has an exit code only if a file was searched or found. Otherwise the system lacked a
    // resource.
    let wanting = wanting(failure.step)
        .filter(|wanting| *wanting == Wanting::Directory || report.exit_code.is_some());
    RunReport { wanting, ..report }
}

/// Returns the part of the job that `step` needs, if a notice can start without this part. Returns
/// `None` for the other steps.
pub(crate) fn wanting(step: StartStep) -> Option<Wanting> {
    match step {
        StartStep::Directory => Some(Wanting::Directory),
        StartStep::Search | StartStep::Exec => Some(Wanting::Program),
        StartStep::Ready | StartStep::Cgroup | StartStep::Files | StartStep::User(_) => None,
    }
}

/// Returns the name of the directory, file or host for which a child waits. `place` is the last
/// progress that the child reported.
pub(crate) fn unanswering(place: CallPlace, launch: &LaunchOrder) -> String {
    let name = || launch.argv.first().cloned().unwrap_or_default();
    let candidate = || match place.file.checked_sub(WITHOUT_SHELL) {
        Some(number) => Candidates::without_shell(launch).ok()??.shown(number),
        None => Candidates::of(launch).ok()?.shown(place.file),
    };
    match place.step {
        // The child waits for the processor only, not for a file system.
        StartStep::Ready => "this host".to_owned(),
        StartStep::Directory => format!("directory {}", launch.cwd.display()),
        _ => candidate().unwrap_or_else(name),
    }
}

fn not_found(name: &str, error: &io::Error) -> RunReport {
    let code = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => 127,
        _ => 126,
    };
    cannot_start(name, error, Some(code))
}

/// Returns a report that the program's file was found but the system would not execute the file.
pub(crate) fn not_executed(name: &str, error: &io::Error) -> RunReport {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => {
            cannot_start(name, error, None)
        }
        // The search found the file itself, so its interpreter is missing.
        Some(Errno::NOENT) => {
            cannot_start(&format!("{name}: interpreter of the script"), error, Some(126))
        }
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
            let found = candidates
                .find(Entered::Wanted, |_| {})
                .map(|(_, file)| file.to_str().unwrap().to_owned());
            found.and_then(|file| {
                match Candidates::why_not(&CString::new(file.clone()).unwrap(), Errno::NOEXEC) {
                    StartFailure { step: StartStep::Exec, .. } => Ok(file),
                    missing => Err(missing),
                }
            })
        };
        assert!(find("sh").unwrap().ends_with("bin/sh"));
        assert_eq!(find("./plain").unwrap(), format!("{}/./plain", cwd.display()));
        assert_eq!(find("plain").unwrap_err(), StartStep::Search.failed(Errno::ACCESS));
        assert_eq!(
            not_found("plain", &Errno::ACCESS.into()).error.as_deref(),
            Some("cannot start: plain: Permission denied")
        );
        assert_eq!(not_found("plain", &Errno::ACCESS.into()).exit_code, Some(126));
        for missing in ["no-such-thing", "/no/such/thing", "./plain/under"] {
            let failure = find(missing).unwrap_err();
            assert_eq!(
                (failure.step, not_found(missing, &failure.errno.into()).exit_code),
                (StartStep::Search, Some(127)),
                "{missing}"
            );
        }
    }
}
