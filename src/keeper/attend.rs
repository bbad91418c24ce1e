//! One run's process from its start until nothing of it is left.
//!
//! Invariant: a run is reported ended only when its direct child is dead and what it left behind is too; TERM comes before
//! KILL by the grace, but no process of it lives past the lease's deadline for want of our KILL.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::becoming::{Becoming, Step};
use super::cgroup::Cgroup;
use super::clock::{BootInstant, BootTimer};
use super::excerpt::Stream;
use super::house::{House, Pending, Word};
use super::program;
use super::spawn::{Awaited, spawn};
use super::wire::{End, Key, Launch, News, Report};

/// The waits between tries to execute a file somebody has open for writing.
const TEXT_BUSY_WAITS: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];
/// How long the pipes are read after the direct child ended.
const DRAIN: Duration = Duration::from_secs(2);
/// How long what was left behind may take to end by itself before it counts as left: the tail of a pipeline is mere
/// milliseconds behind its head.
const SETTLE: Duration = Duration::from_millis(50);
/// How often KILL is sent to what will not die, another user's or stuck in the kernel, before it is given up: ten seconds of
/// them. Counted, not timed: a keeper that was itself stopped has not waited meanwhile.
const MOST_KILLS: u32 = 100;
/// How long a killed leader may take to be gone before all of its run is searched and killed again.
const KILL_AGAIN: Duration = Duration::from_millis(50);

/// Runs `launch` from start to end and tells the daemon.
pub(super) async fn attend(house: Rc<House>, key: Key, mut launch: Launch, mut words: mpsc::UnboundedReceiver<Word>) {
    let report = match start(&house, key, &mut launch, &mut words).await {
        Ok(started) => started.watch(&house, key, launch, words).await,
        Err(report) => report,
    };
    house.release(key);
    house.say(News::Ended(key, report));
}

struct Started {
    leader: Pid,
    exit: Awaited,
    timer: BootTimer,
    pipes: Vec<JoinHandle<()>>,
}

/// Hears what was said before the start; a refusal if it is not wanted any more.
fn may_start(launch: &mut Launch, words: &mut mpsc::UnboundedReceiver<Word>) -> Result<(), Report> {
    while let Ok(word) = words.try_recv() {
        match word {
            Word::Extend(deadline) => launch.deadline = launch.deadline.max(deadline),
            Word::Stop => return Err(Report::of(End::Stopped, "stopped before its start")),
            Word::Abandon => return Err(Report::of(End::LeaseLost, "abandoned before its start")),
        }
    }
    if BootInstant::now() < launch.deadline.saturating_sub(launch.margin) {
        Ok(())
    } else {
        Err(Report::of(End::Refused, "not started: its lease ran out before the start"))
    }
}

async fn start(
    house: &Rc<House>,
    key: Key,
    launch: &mut Launch,
    words: &mut mpsc::UnboundedReceiver<Word>,
) -> Result<Started, Report> {
    let name = launch.argv.first().cloned().unwrap_or_default();
    let not_executed = |error: io::Error| program::not_executed(&name, &error);
    may_start(launch, words)?;
    program::check_directory(&launch.cwd)?;
    let file = program::find(&name, launch.env.0.get("PATH").map(String::as_str), &launch.cwd)?;
    let timer = BootTimer::new().map_err(not_executed)?;
    let cgroup = house.make_cgroup(key, &launch.limits).map_err(|error| program::no_cgroup(&error))?;
    let mut waits = TEXT_BUSY_WAITS.into_iter();
    let mut child = loop {
        may_start(launch, words)?;
        let env = launch.env.0.iter().map(|(name, value)| format!("{name}={value}"));
        let door = cgroup.as_ref().map(Cgroup::door).transpose().map_err(|error| program::no_cgroup(&error))?;
        let ready = Becoming::new(launch, door).and_then(|becoming| Ok((becoming, input(launch)?)));
        let (becoming, stdin) = ready.map_err(not_executed)?;
        match spawn(&file, &launch.argv, env, becoming, stdin) {
            Ok(child) => break child,
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => match waits.next() {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(not_executed(error)),
            },
            Err(error) => {
                return Err(match Step::of(error) {
                    (Step::Exec, error) => not_executed(error),
                    (Step::Cgroup, error) => program::no_cgroup(&error),
                    (Step::User(call), error) => {
                        program::no_user(launch.owner.as_ref().map_or(0, |owner| owner.uid), call, &error)
                    }
                    (Step::Files, error) => program::no_limit("files", &error),
                    (Step::Directory, error) => program::no_directory(&launch.cwd, &error),
                });
            }
        }
    };
    let leader = Pid::from_child(&child);
    house.note_leader(key, leader.as_raw_nonzero().get());
    let pending = Pending::new(key, house);
    let pipes =
        [(Stream::Stdout, child.stdout.take().map(OwnedFd::from)), (Stream::Stderr, child.stderr.take().map(OwnedFd::from))];
    let watched = || -> io::Result<Started> {
        let exit = Awaited::new(rustix::process::pidfd_open(leader, PidfdFlags::empty())?)?;
        let mut readers = Vec::new();
        for (stream, pipe) in pipes {
            if let Some(pipe) = pipe {
                let pipe = pipe::Receiver::from_owned_fd(pipe)?;
                readers.push(tokio::task::spawn_local(read(Rc::clone(house), pipe, stream, Rc::clone(&pending))));
            }
        }
        Ok(Started { leader, exit, timer, pipes: readers })
    };
    watched().map_err(|error| {
        // Descriptors ran short after the start: what cannot be watched must not run.
        house.kill(key);
        let _ = child.wait();
        not_executed(error)
    })
}

/// The standard input of a child. A text is a file in memory, so that nobody has to wait until the job reads it.
fn input(launch: &Launch) -> io::Result<Stdio> {
    let Some(text) = &launch.stdin else { return Ok(Stdio::null()) };
    let mut file = File::from(rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

async fn read(house: Rc<House>, pipe: pipe::Receiver, stream: Stream, pending: Rc<Pending>) {
    while pipe.readable().await.is_ok() {
        match house.drain(&pipe, stream, &pending) {
            Ok(true) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(false) | Err(_) => return,
        }
    }
}

/// The bounds a run lives in and what was decided.
struct Bounds {
    deadline: BootInstant,
    margin: Duration,
    timeout_at: BootInstant,
    kill_grace: Duration,
    end: Option<End>,
    kill_at: Option<BootInstant>,
}

impl Bounds {
    /// Decides whether it has to end. Whether that was decided now: then TERM is due.
    fn judge(&mut self, now: BootInstant) -> bool {
        if self.end.is_some() {
            return false;
        }
        if now >= self.timeout_at {
            self.end(End::TimedOut, now);
        } else if now >= self.deadline.saturating_sub(self.margin) {
            self.end(End::LeaseLost, now);
        }
        self.end.is_some()
    }

    fn end(&mut self, end: End, now: BootInstant) {
        self.end = Some(end);
        self.kill_at = Some(now.saturating_add(self.kill_grace));
    }

    /// When KILL is due; the lease's deadline has the last word.
    fn kill_at(&self) -> BootInstant {
        self.kill_at.map_or(self.deadline, |at| at.min(self.deadline))
    }

    /// Whether TERM is due because of this word.
    fn hear(&mut self, word: Word) -> bool {
        let now = BootInstant::now();
        match word {
            Word::Extend(deadline) => self.deadline = self.deadline.max(deadline),
            Word::Stop if self.end.is_none() => {
                self.end(End::Stopped, now);
                return true;
            }
            Word::Stop => {}
            Word::Abandon => {
                self.end = self.end.or(Some(End::LeaseLost));
                self.kill_at = Some(now);
            }
        }
        false
    }

    fn next_event(&self) -> BootInstant {
        match self.end {
            Some(_) => self.kill_at(),
            None => self.timeout_at.min(self.deadline.saturating_sub(self.margin)),
        }
    }
}

impl Started {
    async fn watch(self, house: &Rc<House>, key: Key, launch: Launch, mut words: mpsc::UnboundedReceiver<Word>) -> Report {
        let mut bounds = Bounds {
            deadline: launch.deadline,
            margin: launch.margin,
            timeout_at: BootInstant::now().saturating_add(launch.timeout),
            kill_grace: launch.kill_grace,
            end: None,
            kill_at: None,
        };
        self.until_exit(house, key, &mut bounds, &mut words).await;
        // Not reaped yet: as long as it is a zombie its number, and that of its session, names nobody else.
        let status = self.status(WaitIdOptions::NOWAIT);
        let drained = tokio::task::spawn_local(finish_pipes(self.pipes));
        let end_before = bounds.end;
        let (left_processes, error) = clear_up(house, key, &mut bounds, &mut words).await;
        let _ = drained.await;
        let _ = rustix::process::waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        let end = match end_before {
            // The only words there are at this point say that some of it would not die.
            Some(End::LeaseLost) if error.is_some() => End::OutOfSight,
            end => end.unwrap_or(End::ByItself),
        };
        Report {
            end,
            exit_code: status.as_ref().and_then(WaitIdStatus::exit_status),
            signal: status.as_ref().and_then(WaitIdStatus::terminating_signal),
            error,
            left_processes,
            out_of_memory: house.is_out_of_memory(key),
        }
    }

    fn status(&self, options: WaitIdOptions) -> Option<WaitIdStatus> {
        let options = options | WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        rustix::process::waitid(WaitId::Pid(self.leader), options).ok().flatten()
    }

    async fn until_exit(&self, house: &House, key: Key, bounds: &mut Bounds, words: &mut mpsc::UnboundedReceiver<Word>) {
        let mut wake = None;
        loop {
            let now = BootInstant::now();
            if bounds.judge(now) && now < bounds.kill_at() {
                house.terminate(key);
            }
            let mut next = bounds.next_event();
            if bounds.end.is_some() && now >= bounds.kill_at() {
                let wake = wake.get_or_insert_with(|| {
                    house.kill_group(key);
                    now.saturating_add(KILL_AGAIN)
                });
                // Again and again, for it may fork faster than we look.
                if now >= *wake {
                    house.kill(key);
                    *wake = now.saturating_add(KILL_AGAIN);
                }
                next = *wake;
            }
            tokio::select! {
                biased;
                _ = self.exit.readable() => return,
                Some(word) = words.recv() => {
                    if bounds.hear(word) {
                        house.terminate(key);
                    }
                }
                _ = self.timer.until(next) => {}
            }
        }
    }
}

/// Reads what is still in the pipes; whoever else holds them may for [`DRAIN`], then they are closed.
async fn finish_pipes(pipes: Vec<JoinHandle<()>>) {
    let end = tokio::time::Instant::now() + DRAIN;
    for mut pipe in pipes {
        if tokio::time::timeout_at(end, &mut pipe).await.is_err() {
            pipe.abort();
            let _ = pipe.await;
        }
    }
}

/// Ends what the direct child left behind. Returns whether it had to be killed, and words if some of it would not die.
async fn clear_up(
    house: &House,
    key: Key,
    bounds: &mut Bounds,
    words: &mut mpsc::UnboundedReceiver<Word>,
) -> (bool, Option<String>) {
    let died = BootInstant::now();
    let mut left_processes = false;
    let mut pause = Duration::from_millis(5);
    let mut kills = 0;
    loop {
        let remaining = house.remaining(key);
        let now = BootInstant::now();
        if remaining.is_empty() {
            return (left_processes, None);
        }
        if bounds.end.is_none() && now.since(died) >= SETTLE {
            left_processes = true;
            bounds.end(End::ByItself, now);
            super::tree::signal_all(&remaining, Signal::TERM);
        }
        if now >= bounds.kill_at() {
            if kills == MOST_KILLS {
                let words = format!("{} of its processes could not be killed and may still run", remaining.len());
                return (left_processes, Some(words));
            }
            house.kill_cgroup(key);
            super::tree::signal_all(&remaining, Signal::KILL);
            kills += 1;
        }
        tokio::select! {
            Some(word) = words.recv() => match word {
                // It has ended; there is nothing to stop but what it left, which is being stopped.
                Word::Stop => {}
                Word::Extend(_) | Word::Abandon => drop(bounds.hear(word)),
            },
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_millis(100)),
        }
    }
}
