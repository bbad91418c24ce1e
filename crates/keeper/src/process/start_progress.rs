//! Marks that a child sends its keeper between fork and exec: which step begins, and which step
//! failed.
//!
//! Invariant: while the child's side of the pipe is open, nothing of the job's program has run. A
//! child that was killed while the pipe was open never runs the program. The exec or the child's
//! death closes the pipe. By then the child has given up the memory that it uses for its start.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use schedd_core::host::awaited::Awaited;

/// A step of the start of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartStep {
    /// The work before the first step that sends a mark.
    Ready,
    /// The exec itself, or a step that fails only for lack of a resource (session, descriptors).
    Exec,
    /// Moving the child into the cgroup of the run.
    Cgroup,
    /// Setting the limit on the number of open files.
    Files,
    /// Becoming the job's user. The value names the system call, such as `setresuid`.
    User(&'static str),
    /// Entering the working directory of the job.
    Directory,
    /// Searching for the file of the program.
    Search,
}

const STEPS: [StartStep; 13] = [
    StartStep::Ready,
    StartStep::Exec,
    StartStep::Cgroup,
    StartStep::Files,
    StartStep::User("fchmod"),
    StartStep::User("setgroups"),
    StartStep::User("setresgid"),
    StartStep::User("setresuid"),
    StartStep::User("capset"),
    StartStep::User("setuid"),
    StartStep::User("prctl"),
    StartStep::Directory,
    StartStep::Search,
];

impl StartStep {
    /// Returns the failure of this step with the system error `errno`.
    pub(crate) fn failed(self, errno: Errno) -> StartFailure {
        StartFailure { step: self, errno }
    }
}

/// The step of a start that failed, and the error of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StartFailure {
    pub(crate) step: StartStep,
    pub(crate) errno: Errno,
}

/// The progress of a child: its present step, and the number of the candidate file that the child
/// tries as its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallPlace {
    pub(crate) step: StartStep,
    pub(crate) file: u32,
}

/// The length of a mark in bytes: step, file and errno, four bytes each. Errno 0 means that the
/// step begins.
///
/// A pipe writes so few bytes whole or not at all.
const SIZE: usize = 12;

fn mark(place: CallPlace, errno: i32) -> [u8; SIZE] {
    let step = STEPS
        .iter()
        .position(|step| *step == place.step)
        .and_then(|at| u32::try_from(at).ok())
        .unwrap_or(0);
    let mut bytes = [0; SIZE];
    for (to, from) in bytes.chunks_exact_mut(4).zip([
        step.to_ne_bytes(),
        place.file.to_ne_bytes(),
        errno.to_ne_bytes(),
    ]) {
        to.copy_from_slice(&from);
    }
    bytes
}

fn read_mark(bytes: &[u8]) -> Option<(CallPlace, i32)> {
    let (step, rest) = bytes.split_first_chunk()?;
    let (file, rest) = rest.split_first_chunk()?;
    let step = STEPS.get(usize::try_from(u32::from_ne_bytes(*step)).ok()?)?;
    Some((
        CallPlace { step: *step, file: u32::from_ne_bytes(*file) },
        i32::from_ne_bytes(*rest.first_chunk()?),
    ))
}

/// The child's side of the pipe. Each function makes one system call. Write errors are ignored: a
/// keeper that no longer listens needs no mark.
#[derive(Debug)]
pub(crate) struct ProgressWriter(OwnedFd);

impl ProgressWriter {
    /// Sends the mark that `step` begins. `file` is the number of the candidate that is tried.
    pub(crate) fn begin(&self, step: StartStep, file: u32) {
        let _ = rustix::io::write(&self.0, &mark(CallPlace { step, file }, 0));
    }

    /// Reports to the keeper that the start has failed, and at which step.
    pub(crate) fn fail(&self, failure: StartFailure) {
        let _ = rustix::io::write(
            &self.0,
            &mark(CallPlace { step: failure.step, file: 0 }, failure.errno.raw_os_error()),
        );
    }
}

impl AsFd for ProgressWriter {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The outcome of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartReport {
    /// The program runs, or the child was killed.
    Over,
    /// The start failed, and the program will not run.
    Failed(StartFailure),
}

/// The keeper's side of the pipe through which a child reports its start.
pub(crate) struct StartProgress {
    /// The pipe; `None` once the child has closed its side.
    pipe: Option<Awaited>,
    place: CallPlace,
    failure: Option<StartFailure>,
    /// The memory that the child uses while its side of the pipe is open.
    memory: Option<Box<dyn Any>>,
}

impl Drop for StartProgress {
    fn drop(&mut self) {
        // The child may still use its memory. This happens only if the child does not die.
        std::mem::forget(self.memory.take());
    }
}

/// Opens a pipe for one start.
///
/// Must be called inside a runtime. Fails if descriptors are short.
pub(crate) fn marks() -> io::Result<(StartProgress, ProgressWriter)> {
    let (ours, childs) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let pipe = Some(Awaited::until_closed(ours)?);
    let place = CallPlace { step: StartStep::Ready, file: 0 };
    Ok((StartProgress { pipe, place, failure: None, memory: None }, ProgressWriter(childs)))
}

impl StartProgress {
    /// Returns true if no outcome of the start was read yet.
    pub(crate) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Returns the last step and file number that the child sent.
    pub(crate) fn place(&self) -> CallPlace {
        self.place
    }

    /// Delays the drop of `memory`, which the child uses, until the child has closed its side of
    /// the pipe.
    pub(crate) fn keep(&mut self, memory: impl Any) {
        self.memory = Some(Box::new(memory));
    }

    /// Waits for the outcome of the start. Waits for ever if the outcome was returned before. The
    /// caller may drop the future and call again.
    pub(crate) async fn next_report(&mut self) -> StartReport {
        loop {
            match &self.pipe {
                Some(pipe) => match pipe.closed().await {
                    Ok(mut ready) => ready.clear_ready(),
                    Err(_) => return StartReport::Over,
                },
                None => std::future::pending().await,
            }
            if let Some(report) = self.read() {
                return report;
            }
        }
    }

    /// Reads the pipe without waiting. Returns the outcome of the start once, after the child has
    /// closed its side. Returns `None` before that, and if the outcome was returned before.
    pub(crate) fn read(&mut self) -> Option<StartReport> {
        let pipe = self.pipe.as_ref()?;
        let mut bytes = [0; SIZE * 64];
        loop {
            let count = match rustix::io::read(pipe, &mut bytes) {
                Ok(0) => break,
                Ok(count) => count,
                Err(_) => return None,
            };
            let marks = bytes.get(..count).unwrap_or_default().chunks_exact(SIZE);
            for (place, errno) in marks.filter_map(read_mark) {
                if errno == 0 {
                    self.place = place;
                } else {
                    self.failure = Some(place.step.failed(Errno::from_raw_os_error(errno)));
                }
            }
        }
        (self.pipe, self.memory) = (None, None);
        Some(self.failure.map_or(StartReport::Over, StartReport::Failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_child_reports_is_read_as_it_was_meant() {
        for step in STEPS {
            let (mut marks, teller) = marks().unwrap();
            teller.begin(step, 7);
            assert_eq!(
                (marks.read(), marks.place(), marks.is_open()),
                (None, CallPlace { step, file: 7 }, true)
            );
            teller.fail(step.failed(Errno::ACCESS));
            drop(teller);
            assert_eq!(marks.next_report().await, StartReport::Failed(step.failed(Errno::ACCESS)));
            assert_eq!((marks.read(), marks.is_open()), (None, false));
        }
        let (mut marks, teller) = marks().unwrap();
        drop(teller);
        assert_eq!(marks.next_report().await, StartReport::Over);
    }
}
