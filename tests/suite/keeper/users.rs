//! Jobs as another user. Only root may try that: anybody else says so and tests that it is refused.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use schedd_core::domain::run::run_state::Ending;

use super::{NONE, alive, children_of, exists, stdout};
use crate::support::attempt::{Bench, shell};
use crate::support::host::program::{copy_program, write_program};
use crate::support::wait::eventually;

/// Whether this process may become another user.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("not tested: only root becomes another user");
    }
    is_root
}

#[tokio::test]
async fn a_job_runs_as_its_user_with_nothing_of_schedds_rights_left() {
    if !is_root() {
        return;
    }
    let bench = Bench::start().await;
    let mut attempt = shell(
        "id -un; id -gn; id -G; echo $HOME $USER $LOGNAME $SHELL; pwd; echo told >/dev/stderr; echo too >/dev/stdout; cat /dev/stdin
         grep -E '^(NoNewPrivs|CapEff|CapPrm|CapInh|CapAmb)' /proc/self/status | cut -f2 | tr '\n' ' '",
    );
    attempt.process.user = Some("daemon".parse().unwrap());
    attempt.process.stdin = Some("in\n".to_owned());
    attempt.cwd = None;
    let (outcome, output) = bench.run(&attempt).await;
    assert_eq!((outcome.ending, &outcome.error), (Ending::Succeeded, &None), "{outcome:?}");
    let none = "0000000000000000";
    let wanted = format!(
        "daemon\ndaemon\n1\n/usr/sbin daemon daemon /bin/sh\n/usr/sbin\ntoo\nin\n{none} {none} {none} {none} 1 "
    );
    assert_eq!(stdout(&output), wanted);
    assert_eq!(
        output.snapshot().stream(schedd_core::domain::run::excerpt::ExcerptStream::Stderr),
        b"told\n"
    );
    attempt.action = schedd_core::domain::job::job_spec::Action::Shell("pwd".to_owned());
    attempt.process.user = Some("nobody".parse().unwrap());
    let (_, output) = bench.run(&attempt).await;
    assert_eq!(stdout(&output), "/\n", "where it has no home");
    attempt.action = schedd_core::domain::job::job_spec::Action::Shell("id -un; id -gn".to_owned());
    // Of a host that has a user with a second group, in that one; else in its only one.
    let groups = std::fs::read_to_string("/etc/group").unwrap();
    let mut members = groups.lines().filter_map(|line| {
        Some((line.rsplit_once(':')?.1.split(',').next()?, line.split_once(':')?.0))
    });
    let (user, group) =
        members.find(|(user, _)| !["", "root"].contains(user)).unwrap_or(("daemon", "daemon"));
    attempt.process.user = Some(format!("{user}:{group}").parse().unwrap());
    let (_, output) = bench.run(&attempt).await;
    assert_eq!(stdout(&output), format!("{user}\n{group}\n"));
}

#[tokio::test]
async fn a_job_of_another_user_is_killed_with_all_it_started_like_any_other() {
    if !is_root() {
        return;
    }
    let bench = Bench::start().await;
    let mut attempt =
        shell("(setsid sh -c 'trap \"\" TERM; sleep 1000' &); trap '' TERM; sleep 1000");
    attempt.process.user = Some("nobody".parse().unwrap());
    attempt.timeout = Duration::from_millis(300);
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!(outcome.ending, Ending::TimedOut);
    assert_eq!(alive(&attempt), NONE);
}

#[tokio::test]
async fn who_cannot_be_and_where_that_one_may_not_go_is_reported() {
    if !is_root() {
        return;
    }
    let bench = Bench::start().await;
    let mut attempt = shell("true");
    for (user, words) in [
        ("no-such-user", "cannot start: user no-such-user: this host has no such user"),
        (
            "daemon:mail",
            "cannot start: user daemon:mail: the user is not a member of group mail on this host, wanted a group of the user",
        ),
        (
            "daemon:no-such-group",
            "cannot start: user daemon:no-such-group: this host has no group no-such-group",
        ),
    ] {
        attempt.process.user = Some(user.parse().unwrap());
        let (outcome, _) = bench.run(&attempt).await;
        assert_eq!((outcome.ending, outcome.error.as_deref()), (Ending::Failed, Some(words)));
    }
    let own = std::path::PathBuf::from(bench.path("own"));
    std::fs::create_dir(&own).unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::set_permissions(bench.dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    attempt.process.user = Some("nobody".parse().unwrap());
    attempt.cwd = Some(own.clone());
    let (outcome, _) = bench.run(&attempt).await;
    let wanted = format!("cannot start: directory {}: Permission denied", own.display());
    assert_eq!((outcome.exit_code, outcome.error), (None, Some(wanted)));
    attempt.cwd = None;
    attempt.env.insert("LD_PRELOAD".to_owned(), "x".to_owned());
    let (outcome, _) = bench.run(&attempt).await;
    assert!(outcome.error.unwrap().contains("LD_PRELOAD is not allowed together with user"));
}

#[tokio::test]
async fn an_env_file_may_belong_to_the_user_of_its_job_and_to_no_other() {
    if !is_root() {
        return;
    }
    let bench = Bench::start().await;
    let file = std::path::PathBuf::from(bench.path("own.env"));
    std::fs::write(&file, "WHO=me\n").unwrap();
    let id_of = |name: &str| nix::unistd::User::from_name(name).unwrap().unwrap().uid.as_raw();
    let mut attempt = shell("printf %s \"$WHO\"");
    attempt.env_files = vec![file.display().to_string().parse().unwrap()];
    for (owner, user, is_used) in [
        ("nobody", Some("nobody"), true),
        ("root", Some("nobody"), true),
        ("daemon", Some("nobody"), false),
        ("nobody", None, false),
    ] {
        std::os::unix::fs::chown(&file, Some(id_of(owner)), None).unwrap();
        attempt.process.user = user.map(|user| user.parse().unwrap());
        let (outcome, output) = bench.run(&attempt).await;
        if is_used {
            assert_eq!(
                (outcome.error, stdout(&output)),
                (None, "me".to_owned()),
                "of {owner} for {user:?}"
            );
        } else {
            let error = outcome.error.unwrap();
            assert!(
                error.contains(&format!(
                    "own.env cannot be used: the file belongs to user {}",
                    id_of(owner)
                )),
                "{error}"
            );
        }
    }
    // A link of that user shows it no file that only root may read.
    std::os::unix::fs::chown(&file, Some(0), None).unwrap();
    let link = std::path::PathBuf::from(bench.path("link.env"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(id_of("nobody")), None).unwrap();
    attempt.env_files = vec![link.display().to_string().parse().unwrap()];
    attempt.process.user = Some("nobody".parse().unwrap());
    let (outcome, _) = bench.run(&attempt).await;
    assert!(
        outcome.error.unwrap().contains("a symbolic link in the path of the file belongs to user")
    );
}

#[tokio::test]
async fn a_job_that_cannot_become_its_user_says_which_step_failed() {
    let Some(setpriv) = setpriv().filter(|_| is_root()) else { return };
    for (right, call) in [("setgid", "setgroups"), ("setuid", "setresuid")] {
        // The keeper has fewer rights than the daemon, as behind a filter of system calls.
        let dir = tempfile::tempdir().unwrap();
        let bench =
            bench_by(&dir, &format!("{setpriv} --bounding-set -{right} --inh-caps -{right}")).await;
        let mut attempt = shell("true");
        attempt.process.user = Some("daemon".parse().unwrap());
        let (outcome, _) = bench.run(&attempt).await;
        let wanted = format!("cannot start: switch to uid 1 ({call}): Operation not permitted");
        assert_eq!((outcome.ending, outcome.error), (Ending::Failed, Some(wanted)));
    }
}

/// The program `setpriv(1)`.
fn setpriv() -> Option<&'static str> {
    let found =
        ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        eprintln!("not tested: there is no setpriv(1) here");
    }
    found
}

/// A bench whose keeper is started by that program with its arguments.
async fn bench_by(dir: &tempfile::TempDir, before: &str) -> Bench {
    let program = dir.path().join("schedd");
    let script = format!("#!/bin/sh\nexec {before} -- {} \"$@\"\n", env!("CARGO_BIN_EXE_schedd"));
    write_program(&program, script);
    Bench::start_with_keeper(&program).await
}

#[tokio::test]
async fn what_a_job_of_another_user_leaves_behind_is_found_by_a_keeper_that_is_not_root() {
    let Some(setpriv) = setpriv().filter(|_| is_root()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let caps = "-all,+setuid,+setgid,+kill";
    let who = "--reuid 65534 --regid 65534 --clear-groups";
    let bench =
        bench_by(&dir, &format!("{setpriv} {who} --inh-caps={caps} --ambient-caps={caps}")).await;
    let beside = bench.begin(&shell("echo ready; sleep 1000"));
    eventually("the run beside is ready", || {
        stdout(&beside.output).contains("ready").then_some(())
    })
    .await;
    let mut attempt =
        shell("setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & sleep 0.3");
    attempt.process.user = Some("daemon".parse().unwrap());
    attempt.cwd = Some("/".into());
    let (outcome, _) = bench.run(&attempt).await;
    assert_eq!((outcome.ending, outcome.left_processes), (Ending::Succeeded, true), "{outcome:?}");
    assert_eq!(alive(&attempt), NONE);
    assert!(!beside.task.is_finished());
}

#[tokio::test]
async fn a_process_another_job_started_as_the_same_user_is_not_counted_as_left() {
    let Some(setpriv) = setpriv().filter(|_| is_root()) else { return };
    let caps = "-all,+setuid,+setgid,+kill";
    let rights = format!(
        "--reuid 65534 --regid 65534 --clear-groups --inh-caps={caps} --ambient-caps={caps}"
    );
    for rights in ["--inh-caps -setpcap", &rights] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        // As sudo does it: whoever calls it becomes anyone.
        let sudo = dir.path().join("sudo");
        copy_program(setpriv, &sudo, "4755");
        let bench = bench_by(&dir, &format!("{setpriv} {rights}")).await;
        let become_daemon = format!("{} --reuid 1 --regid 1 --clear-groups", sudo.display());
        let worker = "env -i setsid sh -c 'id -u; echo $$; exec sleep 1000'";
        let beside = bench
            .begin(&shell(&format!("({become_daemon} {worker} &) || echo cannot 0; sleep 1000")));
        let reported = eventually("the worker is there", || {
            let reported = stdout(&beside.output);
            (reported.split_whitespace().count() == 2).then_some(reported)
        })
        .await;
        let Some(worker) =
            reported.strip_prefix("1\n").map(|pid| pid.trim().parse::<i32>().unwrap())
        else {
            eprintln!("not tested: no program becomes another user here: {reported}");
            return;
        };
        let is_orphan = || {
            children_of(&bench.keeper)
                .split_whitespace()
                .any(|pid| pid.parse() == Ok(worker))
                .then_some(())
        };
        eventually("the worker is the keeper's", is_orphan).await;
        let mut attempt = shell("true");
        attempt.process.user = Some("daemon".parse().unwrap());
        let (outcome, _) = bench.run(&attempt).await;
        assert_eq!(
            (outcome.ending, outcome.left_processes),
            (Ending::Succeeded, false),
            "{rights}: {outcome:?}"
        );
        assert!(exists(worker), "{rights}");
        beside.stop.send_replace(Some(schedd::attempts::StopReason::Cancelled));
        assert_eq!(beside.task.await.unwrap().ending, Ending::Stopped);
        eventually("its own run takes it along", || (!exists(worker)).then_some(())).await;
    }
}
