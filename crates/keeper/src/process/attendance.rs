//! The task that follows the process of one run, from its start until no process of the run is
//! left.
//!
//! Invariant: a run is reported ended only when its direct child and all processes left behind by
//! this child are dead. SIGKILL follows SIGTERM after the grace, and at the latest at the end of
//! the lease.

use std::rc::Rc;
use std::time::Duration;

use rustix::process::{Signal, WaitId, WaitIdOptions, WaitIdStatus};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::process_start::{StartingProcess, start};
use super::process_table::{GivenUp, ProcessTable, ProcessWord};
use super::program_file;
use super::reaping::reap;
use super::start_progress::StartReport;
use crate::limits::bounds::RunBounds;
use crate::protocol::keeper_messages::{KeeperNews, Key, LaunchOrder, ProcessEnd, RunReport};
use schedd_core::host::boot_clock::BootInstant;

/// The time for which the pipes are read after the direct child ended.
const DRAIN: Duration = Duration::from_secs(2);
/// The time in which processes left behind may end by themselves before they are killed. The last
/// process of a pipeline ends only milliseconds after the first.
const SETTLE: Duration = Duration::from_millis(50);
/// The number of SIGKILLs sent to processes left behind that do not die, before the keeper stops
/// trying. Such a process belongs to another user or is stuck in the kernel.
///
/// The SIGKILLs take ten seconds together. The keeper counts signals and not time, because time
/// also passes while the keeper itself is stopped.
const MOST_KILLS: u32 = 100;
/// The wait after the first SIGKILL, which goes to a run's direct child and its process group.
/// Later SIGKILLs go to all processes of the run. The wait doubles after each of them, up to
/// `KILL_AGAIN_AT_LEAST`.
const KILL_AGAIN: Duration = Duration::from_millis(50);
const KILL_AGAIN_AT_LEAST: Duration = Duration::from_secs(1);
/// The number of SIGKILLs sent to a run's direct child before the keeper stops trying. With the
/// waits between them, they take about ten seconds.
const MOST_KILLS_OF_A_LEADER: u32 = 14;
/// The number of SIGKILLs sent to a child whose program has not begun. A child that survives these
/// signals is stuck in the kernel and will never become the program.
const MOST_KILLS_OF_A_START: u32 = 6;

/// Runs `launch` from start to end and reports the end to the daemon.
pub(crate) async fn attend(
    table: Rc<ProcessTable>,
    key: Key,
    mut launch: LaunchOrder,
    mut words: mpsc::UnboundedReceiver<ProcessWord>,
) {
    let report = match start(&table, key, &mut launch, &mut words).await {
        Ok(starting) => starting.watch(&table, key, &launch, words).await,
        Err(report) => report,
    };
    table.release(key);
    table.say(KeeperNews::Ended(key, report));
}

/// The reason why the wait for the end of a run's direct child (the leader) is over.
enum Exit {
    /// The leader is dead, and its exit status was not read yet.
    Dead,
    /// The leader is dead and its program never began, for this reason.
    Failed(RunReport),
    /// The leader was killed before its program began, and does not die because it is stuck in the
    /// kernel. Such a leader never starts the program.
    Stuck,
    /// The leader was killed and does not die, because it belongs to another user or is stuck in
    /// the kernel.
    Alive,
}

impl StartingProcess {
    async fn watch(
        mut self,
        table: &Rc<ProcessTable>,
        key: Key,
        launch: &LaunchOrder,
        mut words: mpsc::UnboundedReceiver<ProcessWord>,
    ) -> RunReport {
        let exit = self.until_exit(table, key, launch, &mut words).await;
        match exit {
            Exit::Stuck => {
                table.give_up(key, GivenUp::Unbegun);
                self.pipes.iter().for_each(JoinHandle::abort);
                return self.not_begun(launch, "; the process is stuck in the kernel");
            }
            Exit::Alive => {
                table.give_up(key, GivenUp::Alive);
                self.pipes.iter().for_each(JoinHandle::abort);
                let end = self
                    .bounds
                    .end()
                    .filter(|end| *end != ProcessEnd::LeaseLost)
                    .unwrap_or(ProcessEnd::MaybeAlive);
                let report = RunReport::of(
                    end,
                    "a process of the run could not be killed and may still run",
                );
                return RunReport { left_processes: true, ..report };
            }
            Exit::Dead | Exit::Failed(_) => {}
        }
        // The leader is not reaped yet. As long as it is a zombie, no other process gets its pid or
        // its session id.
        let status = self.status(WaitIdOptions::NOWAIT);
        let end_before = self.bounds.end();
        let pipes = finish_pipes(std::mem::take(&mut self.pipes));
        let ((left_processes, error), ()) =
            tokio::join!(clear_up(table, key, &mut self.bounds, &mut words), pipes);
        let of_leader = reap(self.leader);
        if let Exit::Failed(report) = exit {
            return report;
        }
        let end = match end_before {
            Some(ProcessEnd::CannotStart) => return self.not_begun(launch, ""),
            // An error here always means that some processes of the run would not die.
            Some(ProcessEnd::LeaseLost) if error.is_some() => ProcessEnd::MaybeAlive,
            end => end.unwrap_or(ProcessEnd::ByItself),
        };
        RunReport {
            end,
            exit_code: status.as_ref().and_then(WaitIdStatus::exit_status),
            signal: status.as_ref().and_then(WaitIdStatus::terminating_signal),
            error,
            left_processes,
            out_of_memory: table.is_out_of_memory(key),
            wanting: None,
            resources: table.resource_use(key, of_leader),
        }
    }

    fn status(&self, options: WaitIdOptions) -> Option<WaitIdStatus> {
        let options = options | WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        rustix::process::waitid(WaitId::Pid(self.leader), options).ok().flatten()
    }

    /// Returns the report of a child that was killed before its program began. The child waited for
    /// a directory, file or host that did not answer. `more` is added to the error text.
    fn not_begun(&self, launch: &LaunchOrder, more: &str) -> RunReport {
        let file_or_host = program_file::unanswering(self.marks.place(), launch);
        match self.bounds.end() {
            Some(ProcessEnd::CannotStart) | None => {
                let waited = launch.start_within;
                let report = RunReport::of(
                    ProcessEnd::CannotStart,
                    format!("cannot start: {file_or_host} has not answered for {waited:?}{more}"),
                );
                RunReport { wanting: program_file::wanting(self.marks.place().step), ..report }
            }
            Some(end) => {
                RunReport::of(end, format!("not started: {file_or_host} does not answer{more}"))
            }
        }
    }

    async fn until_exit(
        &mut self,
        table: &ProcessTable,
        key: Key,
        launch: &LaunchOrder,
        words: &mut mpsc::UnboundedReceiver<ProcessWord>,
    ) -> Exit {
        let mut wake = None;
        let mut pause = KILL_AGAIN;
        let mut kills = 0;
        let mut failed = None;
        loop {
            // The start marks are read before a limit is judged. So a keeper that was stopped for a
            // while finds a program that began in time.
            let is_due = BootInstant::now() >= self.bounds.next_event();
            if let Some(report) = is_due.then(|| self.marks.read()).flatten() {
                failed = self.hear(report, table, key, launch);
            } else if kills >= MOST_KILLS_OF_A_START && self.marks.is_open() {
                return Exit::Stuck;
            } else if kills >= MOST_KILLS_OF_A_LEADER {
                return Exit::Alive;
            }
            let now = BootInstant::now();
            if self.bounds.judge(now) && now < self.bounds.kill_at() {
                table.terminate(key);
            }
            let mut next = self.bounds.next_event();
            if self.bounds.end().is_some() && now >= self.bounds.kill_at() {
                let wake = wake.get_or_insert_with(|| {
                    table.kill_group(key);
                    now.saturating_add(KILL_AGAIN)
                });
                // SIGKILL is repeated, because the job may fork faster than the keeper searches.
                if now >= *wake {
                    // A child that has not become its program has started no other process, so no
                    // search is needed.
                    if self.marks.is_open() {
                        table.kill_group(key);
                    } else {
                        table.kill(key);
                    }
                    kills += 1;
                    pause = (pause * 2).min(KILL_AGAIN_AT_LEAST);
                    *wake = now.saturating_add(pause);
                }
                next = *wake;
            }
            tokio::select! {
                biased;
                _ = self.exit.readable() => break,
                report = self.marks.next_report(), if self.marks.is_open() => failed = self.hear(report, table, key, launch),
                Some(word) = words.recv() => {
                    if self.bounds.hear(word) {
                        table.terminate(key);
                    }
                }
                () = table.timer().until(next) => {}
            }
        }
        // The child may have sent a last mark before it died.
        let last = self.marks.read().and_then(|report| self.hear(report, table, key, launch));
        // If an end was decided for the run, that end counts, not the failed start.
        failed.or(last).filter(|_| self.bounds.end().is_none()).map_or(Exit::Dead, Exit::Failed)
    }

    /// Notes the outcome of a start. Returns a report if the start failed.
    fn hear(
        &mut self,
        report: StartReport,
        table: &ProcessTable,
        key: Key,
        launch: &LaunchOrder,
    ) -> Option<RunReport> {
        match report {
            StartReport::Failed(failure) => Some(program_file::failed(failure, launch)),
            StartReport::Over => {
                self.bounds.note_started(launch.timeout);
                table.say(KeeperNews::Started(key, self.leader.as_raw_nonzero().get()));
                None
            }
        }
    }
}

/// Reads the output that is still in the pipes. If another process keeps the pipes open, they are
/// closed after [`DRAIN`].
async fn finish_pipes(pipes: Vec<JoinHandle<()>>) {
    let end = tokio::time::Instant::now() + DRAIN;
    for mut pipe in pipes {
        if tokio::time::timeout_at(end, &mut pipe).await.is_err() {
            pipe.abort();
            let _ = pipe.await;
        }
    }
}

/// Ends the processes that the direct child left behind. Returns true if these processes had to be
/// killed, and an error text if some would not die.
async fn clear_up(
    table: &ProcessTable,
    key: Key,
    bounds: &mut RunBounds,
    words: &mut mpsc::UnboundedReceiver<ProcessWord>,
) -> (bool, Option<String>) {
    let died = BootInstant::now();
    let mut left_processes = false;
    let mut pause = Duration::from_millis(5);
    let mut kills = 0;
    loop {
        let seen = table.remaining(key);
        let now = BootInstant::now();
        if seen.as_ref().is_some_and(Vec::is_empty) {
            return (left_processes, None);
        }
        // Without descriptors the processes cannot be listed and some may be left, so the end is
        // not reported yet.
        let is_seen = seen.is_some();
        let remaining = seen.unwrap_or_default();
        if now.since(died) >= SETTLE {
            left_processes |= !remaining.is_empty();
            if bounds.end().is_none() {
                bounds.decide(ProcessEnd::ByItself, now);
                super::process_tree::signal_all(&remaining, Signal::TERM);
            }
        }
        if now >= bounds.kill_at() {
            if kills == MOST_KILLS {
                let words = if is_seen {
                    format!(
                        "{} processes of the run could not be killed and may still run",
                        remaining.len()
                    )
                } else {
                    "the processes of the run could not be listed because file descriptors ran out, and may still run".to_owned()
                };
                return (left_processes, Some(words));
            }
            table.kill_cgroup(key);
            super::process_tree::signal_all(&remaining, Signal::KILL);
            kills += 1;
        }
        tokio::select! {
            Some(word) = words.recv() => match word {
                // The leader has ended, and the processes it left are being stopped already.
                ProcessWord::Stop => {}
                ProcessWord::Extend(_) | ProcessWord::Abandon => drop(bounds.hear(word)),
            },
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_millis(100)),
        }
    }
}
