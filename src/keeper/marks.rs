//! What a child tells its keeper between fork and exec: which step it takes, and which one failed.
//!
//! Invariant: as long as the pipe is open at the child's side, nothing of the job's program has run, and a child that was killed
//! meanwhile never will run any. It is closed by the exec, or by the child's death.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::spawn::Awaited;

/// A step of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// All before the first that it tells of.
    Ready,
    /// The exec itself, or what only the system's want of something keeps a process from (its session, its descriptors).
    Exec,
    /// Moving into its cgroup.
    Cgroup,
    /// Taking its limit of open files.
    Files,
    /// Becoming its user, by this system call.
    User(&'static str),
    /// Entering its directory.
    Directory,
    /// Looking for its program.
    Search,
}

const STEPS: [Step; 13] = [
    Step::Ready,
    Step::Exec,
    Step::Cgroup,
    Step::Files,
    Step::User("fchmod"),
    Step::User("setgroups"),
    Step::User("setresgid"),
    Step::User("setresuid"),
    Step::User("capset"),
    Step::User("setuid"),
    Step::User("prctl"),
    Step::Directory,
    Step::Search,
];

impl Step {
    /// The failure of this step.
    pub(super) fn failed(self, errno: Errno) -> Failure {
        Failure { step: self, errno }
    }
}

/// A step that failed, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) step: Step,
    pub(super) errno: Errno,
}

/// Where a child is: at this step, with the file of this number among those its program may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) step: Step,
    pub(super) file: u32,
}

/// Bytes of a mark: step, file and errno (0: it only begins), in four each. So few are written whole or not at all.
const SIZE: usize = 12;

fn mark(place: Place, errno: i32) -> [u8; SIZE] {
    let step = STEPS.iter().position(|step| *step == place.step).and_then(|at| u32::try_from(at).ok()).unwrap_or(0);
    let mut bytes = [0; SIZE];
    for (to, from) in bytes.chunks_exact_mut(4).zip([step.to_ne_bytes(), place.file.to_ne_bytes(), errno.to_ne_bytes()]) {
        to.copy_from_slice(&from);
    }
    bytes
}

fn read_mark(bytes: &[u8]) -> Option<(Place, i32)> {
    let (step, rest) = bytes.split_first_chunk()?;
    let (file, rest) = rest.split_first_chunk()?;
    let step = STEPS.get(usize::try_from(u32::from_ne_bytes(*step)).ok()?)?;
    Some((Place { step: *step, file: u32::from_ne_bytes(*file) }, i32::from_ne_bytes(*rest.first_chunk()?)))
}

/// The child's side. Its functions make one system call each; if nobody listens any more there is nothing to be done.
#[derive(Debug)]
pub(super) struct Teller(OwnedFd);

impl Teller {
    /// Tells that a step begins.
    pub(super) fn begin(&self, step: Step, file: u32) {
        let _ = rustix::io::write(&self.0, &mark(Place { step, file }, 0));
    }

    /// Tells that the start has failed.
    pub(super) fn fail(&self, failure: Failure) {
        let _ = rustix::io::write(&self.0, &mark(Place { step: failure.step, file: 0 }, failure.errno.raw_os_error()));
    }
}

impl AsFd for Teller {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What became of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// The program runs, or the child was killed.
    Over,
    /// It cannot start.
    Failed(Failure),
}

/// The keeper's side.
pub(super) struct Marks {
    /// None once it is told what became of the start.
    pipe: Option<Awaited>,
    place: Place,
}

/// A pipe for one start. Must be called inside a runtime. Fails if descriptors are short.
pub(super) fn marks() -> io::Result<(Marks, Teller)> {
    let (ours, childs) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let pipe = Some(Awaited::new(ours)?);
    Ok((Marks { pipe, place: Place { step: Step::Ready, file: 0 } }, Teller(childs)))
}

impl Marks {
    /// Whether the start is neither done nor failed yet, as far as was read.
    pub(super) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Where the child was when it told something last.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Waits until it is told what became of the start; for ever if it was. May be dropped and asked again.
    pub(super) async fn told(&mut self) -> Told {
        loop {
            if let Some(told) = self.read() {
                return told;
            }
            match &self.pipe {
                Some(pipe) => match pipe.readable().await {
                    // Only before a read: what comes after it is told anew.
                    Ok(mut ready) => ready.clear_ready(),
                    Err(_) => return Told::Over,
                },
                None => std::future::pending().await,
            }
        }
    }

    /// What became of the start, if it is told now for the first time: asks the kernel, so no means not yet.
    pub(super) fn read(&mut self) -> Option<Told> {
        let pipe = self.pipe.as_ref()?;
        let mut bytes = [0; SIZE * 64];
        let told = loop {
            let count = match rustix::io::read(pipe, &mut bytes) {
                Ok(0) => break Told::Over,
                Ok(count) => count,
                Err(Errno::AGAIN) => return None,
                Err(_) => break Told::Over,
            };
            let marks = bytes.get(..count).unwrap_or_default().chunks_exact(SIZE).filter_map(read_mark);
            let mut failure = None;
            for (place, errno) in marks {
                if errno == 0 {
                    self.place = place;
                } else {
                    failure = Some(place.step.failed(Errno::from_raw_os_error(errno)));
                }
            }
            if let Some(failure) = failure {
                break Told::Failed(failure);
            }
        };
        self.pipe = None;
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_child_tells_is_read_as_it_was_meant() {
        for step in STEPS {
            let (mut marks, teller) = marks().unwrap();
            teller.begin(step, 7);
            assert_eq!((marks.read(), marks.place(), marks.is_open()), (None, Place { step, file: 7 }, true));
            teller.fail(step.failed(Errno::ACCESS));
            assert_eq!(marks.told().await, Told::Failed(step.failed(Errno::ACCESS)));
            assert_eq!((marks.read(), marks.is_open()), (None, false));
        }
        let (mut marks, teller) = marks().unwrap();
        drop(teller);
        assert_eq!(marks.told().await, Told::Over);
    }
}
