//! The execution of `command` and `shell` jobs, in the keeper.
//!
//! Invariant: the outcome of an attempt comes from the keeper's report, even if a stop was
//! requested or the lease was lost. The keeper reports the end only when no process of the attempt
//! is left, so the outcome also comes only then. As an exception, the keeper gives up on processes
//! that cannot be killed, and the report says so.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::account::Account;
use super::plain_line;
use super::shortage::Shortage;
use schedd::attempts::OutputBuffer;
use schedd::attempts::{Attempt, Control, StopReason};
use schedd_core::domain::job::process_limits::{LimitKind, Limits, listed};
use schedd_core::domain::job::process_rules::Umask;
use schedd_core::domain::name::byte_size::format_size;
use schedd_core::domain::run::end_words::signal_in_words;
use schedd_core::domain::run::run_state::{AttemptOutcome, Ending};
use schedd_core::host::boot_clock::BootInstant;
use schedd_keeper::{Keeper, LaunchOrder, ProcessEnd, RunReport, Variables, Wanting};
use schedd_schedule::time::duration::format_duration;

/// A program to start.
pub(super) struct Program {
    /// The program and its arguments.
    pub(super) argv: Vec<String>,
    /// All variables of the program's environment.
    pub(super) env: Variables,
}

/// Returns the maximum number of open files of a job's process, which is the hard limit of this
/// process. `None` means no limit.
pub(super) fn most_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum
}

/// Returns the limits of an attempt that cannot be enforced as requested, as text. These are the
/// `unenforced` limits, and a limit of open files above `most`, which becomes `most`. Returns
/// `None` if all limits can be enforced.
fn unenforced_text(
    limits: Limits,
    unenforced: &BTreeSet<LimitKind>,
    most: Option<u64>,
) -> Option<String> {
    let fewer = most.filter(|most| limits.files.is_some_and(|files| files > *most));
    let fewer = fewer.map(|most| format!("{} (only {most})", LimitKind::Files));
    Some(listed(unenforced))
        .filter(|text| !text.is_empty())
        .into_iter()
        .chain(fewer)
        .reduce(|text, fewer| format!("{text}, {fewer}"))
}

/// Runs `program` by the rules of `attempt` and waits until none of its processes is left. Returns
/// the outcome. If the start failed because of the directory or the program, also returns which of
/// the two cannot be used; otherwise `None`.
pub(super) async fn execute(
    (keeper, shortage): (&Keeper, &Shortage),
    account: &Account,
    program: Program,
    attempt: &Attempt,
    control: Control,
    output: &OutputBuffer,
) -> (AttemptOutcome, Option<Wanting>) {
    let Control { mut deadline, mut stop } = control;
    if let Some(reason) = *stop.borrow_and_update() {
        return (AttemptOutcome::bare(reason.ending()), None);
    }
    // An unenforced limit is reported, and must not be passed on: a cgroup without its controller
    // would refuse the start.
    let unenforced = attempt.process.limits.unenforced(keeper.limits());
    let (cwd, cwd_else) = account.directory(attempt);
    let launch = LaunchOrder {
        run: attempt.run.to_string(),
        fence: attempt.fence.as_u64(),
        direct: plain_line::without_shell(attempt, &program.env),
        argv: program.argv,
        env: program.env,
        cwd,
        cwd_else,
        owner: account.owner.clone(),
        limits: attempt.process.limits.without(&unenforced),
        umask: attempt.process.umask.map(Umask::bits),
        stdin: attempt.process.stdin.clone(),
        start_within: attempt.timeout.min(attempt.lease),
        timeout: attempt.timeout,
        kill_grace: attempt.kill_grace,
        deadline: *deadline.borrow_and_update(),
        margin: attempt.lease / 10,
    };
    let mut child = keeper.spawn(launch, Arc::new(output.clone())).await;
    let report = loop {
        tokio::select! {
            report = child.ended() => break report,
            Ok(()) = deadline.changed() => {
                let until = *deadline.borrow_and_update();
                // A renewal only moves the end of the lease later. If this end has passed, the
                // lease was lost.
                if until > BootInstant::now() { child.extend(until) } else { child.abandon().await }
            }
            Ok(()) = stop.changed() => if stop.borrow_and_update().is_some() { child.stop().await },
            // The senders are gone, so nothing renews or stops the run. The keeper ends the run at
            // the last known end of its lease.
            else => break child.ended().await,
        }
    };
    match report.end {
        ProcessEnd::Short => shortage.note(report.error.as_deref().unwrap_or_default()),
        // An exit code or a signal shows that the process was started, so the shortage is over.
        _ if report.exit_code.is_some() || report.signal.is_some() => shortage.clear(),
        _ => {}
    }
    let reason = *stop.borrow();
    let not_enforced = unenforced_text(attempt.process.limits, &unenforced, most_files())
        .filter(|_| report.end != ProcessEnd::CannotStart);
    let wanting = report.wanting;
    (AttemptOutcome { not_enforced, ..outcome(report, reason, attempt) }, wanting)
}

fn outcome(report: RunReport, reason: Option<StopReason>, attempt: &Attempt) -> AttemptOutcome {
    let ending = match report.end {
        ProcessEnd::ByItself if report.exit_code == Some(0) => Ending::Succeeded,
        ProcessEnd::ByItself | ProcessEnd::CannotStart => Ending::Failed,
        ProcessEnd::TimedOut => Ending::TimedOut,
        ProcessEnd::Stopped => reason.unwrap_or(StopReason::Cancelled).ending(),
        ProcessEnd::LeaseLost => Ending::LeaseLost,
        ProcessEnd::MaybeAlive => Ending::MaybeAlive,
        ProcessEnd::Short | ProcessEnd::Refused => Ending::NotStarted,
    };
    let why = match report.end {
        ProcessEnd::ByItself if report.out_of_memory && report.exit_code != Some(0) => {
            Some(out_of_memory_in_words(attempt))
        }
        ProcessEnd::ByItself => report.signal.map(signal_in_words),
        ProcessEnd::TimedOut => Some(format!(
            "the attempt exceeded its timeout of {}",
            format_duration(attempt.timeout)
        )),
        ProcessEnd::LeaseLost | ProcessEnd::MaybeAlive => {
            Some("the lease of the run was lost".to_owned())
        }
        ProcessEnd::Stopped | ProcessEnd::CannotStart | ProcessEnd::Short | ProcessEnd::Refused => {
            None
        }
    };
    let error = match (report.error, why) {
        (Some(error), Some(why))
            if !matches!(report.end, ProcessEnd::LeaseLost | ProcessEnd::MaybeAlive) =>
        {
            Some(format!("{why}; {error}"))
        }
        (error, why) => error.or(why),
    };
    AttemptOutcome {
        ending,
        exit_code: report.exit_code,
        signal: report.signal,
        http_status: None,
        error,
        left_processes: report.left_processes,
        not_enforced: None,
        retry_after: None,
        asked: None,
        next: None,
        resources: report.resources,
    }
}

fn out_of_memory_in_words(attempt: &Attempt) -> String {
    match attempt.process.limits.memory {
        Some(bytes) => {
            format!("killed: out of memory (the limit of the run is {})", format_size(bytes))
        }
        None => "killed: out of memory (of the host or of the systemd unit of schedd)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use schedd_core::domain::job::job_spec::Action;
    use schedd_core::domain::job::process_rules::ProcessRules;
    use schedd_schedule::names::Fence;

    #[test]
    fn fewer_files_than_asked_for_are_reported_with_their_number() {
        let limits = Limits { memory: Some(1 << 30), files: Some(4096), ..Limits::default() };
        let (none, memory) = (BTreeSet::new(), BTreeSet::from([LimitKind::Memory]));
        let text = |unenforced, most| unenforced_text(limits, unenforced, most);
        assert_eq!((text(&none, None), text(&none, Some(4096))), (None, None));
        assert_eq!(text(&none, Some(4095)).unwrap(), "files (only 4095)");
        assert_eq!(text(&memory, Some(4096)).unwrap(), "memory");
        assert_eq!(text(&memory, Some(1024)).unwrap(), "memory, files (only 1024)");
    }

    #[test]
    fn what_could_not_be_killed_is_reported_of_a_success_and_of_a_time_out() {
        let attempt = Attempt {
            run: "a@5".parse().unwrap(),
            number: 1,
            fence: Fence::new(1).unwrap(),
            node: "n".parse().unwrap(),
            action: Action::Shell("true".to_owned()),
            zone: schedd_schedule::time::zone::Zone::utc().name().clone(),
            env: std::collections::BTreeMap::new(),
            env_files: Vec::new(),
            notice_facts: schedd::attempts::NoticeFacts::default(),
            parents: Vec::new(),
            trace: None,
            webhook_secrets: Vec::new(),
            by_redis: (
                schedd_schedule::time::unix_millis::UnixMillis::EPOCH,
                schedd_core::host::boot_clock::BootInstant::now(),
            ),
            cwd: None,
            process: ProcessRules::default(),
            timeout: Duration::from_secs(1),
            kill_grace: Duration::ZERO,
            lease: Duration::from_secs(10),
            begins_once: false,
        };
        let text = |end| {
            let error =
                Some("2 processes of the run could not be killed and may still run".to_owned());
            let report = RunReport {
                end,
                exit_code: Some(0),
                signal: None,
                error,
                left_processes: true,
                out_of_memory: false,
                wanting: None,
                resources: None,
            };
            outcome(report, None, &attempt)
        };
        let (ended, timed_out) = (text(ProcessEnd::ByItself), text(ProcessEnd::TimedOut));
        assert_eq!((ended.ending, timed_out.ending), (Ending::Succeeded, Ending::TimedOut));
        assert!(
            [ended, timed_out].iter().all(|outcome| outcome
                .error
                .as_ref()
                .unwrap()
                .contains("could not be killed"))
        );
    }
}
