//! jobs.toml read again: by signal and by watching; good, bad, half written, emptied.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

const A: &str = "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n";
const A_AND_B: &str =
    "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n[jobs.b]\nevery = \"2h\"\nshell = \"true\"\n";

fn is_live(eye: &Eye, job: &str) -> bool {
    eye.job(job).is_some_and(|job| job.is_live())
}

fn wait_until_live(eye: &Eye, job: &str) {
    until(&format!("{job} is there"), LONG, || Some(()).filter(|()| is_live(eye, job)));
}

fn wait_until_gone(eye: &Eye, job: &str) {
    until(&format!("{job} is gone"), LONG, || Some(()).filter(|()| !is_live(eye, job)));
}

fn config_error(eye: &Eye) -> Option<String> {
    eye.ask(eye.store().list_nodes()).unwrap().1.remove(0).config_error
}

#[test]
fn a_changed_file_is_taken_by_itself() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs(A).start();
    wait_until_live(&eye, "a");
    let pending = eye.job("a").unwrap().pending;
    fs::write(node.jobs_file(), A_AND_B).unwrap();
    wait_until_live(&eye, "b");
    assert_eq!(eye.job("a").unwrap().pending, pending, "an unchanged job was moved");
    fs::write(node.jobs_file(), A).unwrap();
    wait_until_gone(&eye, "b");
    assert!(is_live(&eye, "a"));
}

#[test]
fn a_reload_asked_for_while_redis_is_away_is_done_once_it_is_there() {
    let mut redis = TestRedis::durable();
    let mut node = Schedd::on(&redis).jobs(A_AND_B).start();
    wait_until_live(&Eye::on(&redis), "b");
    node.term();
    node.wait_exit();
    redis.kill9();
    fs::write(node.jobs_file(), "").unwrap();
    node.start_again();
    node.wait_for_log("; schedd waits for Redis.");
    node.hup();
    redis.restart();
    let eye = Eye::on(&redis);
    wait_until_gone(&eye, "a");
    wait_until_gone(&eye, "b");
}

#[test]
fn a_bad_file_changes_nothing_and_is_shown_until_it_is_mended() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs(A_AND_B).start();
    wait_until_live(&eye, "b");
    fs::write(node.jobs_file(), "[jobs.a]\nevery = \"1h\"\nshel = \"true\"\n").unwrap();
    let error = until("the problem is shown", LONG, || config_error(&eye));
    assert!(error.contains("jobs.toml:3") && error.contains("shell"), "{error}");
    assert!(is_live(&eye, "a") && is_live(&eye, "b"));
    // Half written.
    fs::write(node.jobs_file(), "[jobs.a]\nevery = \"1").unwrap();
    until("that is shown", LONG, || config_error(&eye).filter(|now| *now != error));
    assert!(is_live(&eye, "a") && is_live(&eye, "b"));
    fs::write(node.jobs_file(), A).unwrap();
    wait_until_gone(&eye, "b");
    until("nothing is wrong any more", LONG, || Some(()).filter(|()| config_error(&eye).is_none()));
}

#[test]
fn an_emptied_file_removes_nothing_until_it_is_asked_for() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs(A_AND_B).start();
    wait_until_live(&eye, "b");
    fs::write(node.jobs_file(), "").unwrap();
    node.wait_for_log("is empty now");
    assert!(is_live(&eye, "a") && is_live(&eye, "b"));
    node.hup();
    wait_until_gone(&eye, "a");
    wait_until_gone(&eye, "b");
}

#[test]
fn the_settings_of_an_emptied_file_hold_until_it_is_asked_for() {
    let labels = |eye: &Eye| {
        let nodes = eye.ask(eye.store().list_nodes()).unwrap().1;
        nodes.into_iter().next().map(|node| node.serving.labels).unwrap_or_default()
    };
    for jobs in [A, ""] {
        let redis = TestRedis::start();
        let eye = Eye::on(&redis);
        let file = format!("[daemon]\nlabels = [\"gpu\"]\n{jobs}");
        let node = Schedd::on(&redis).jobs(&file).start();
        let gpu = until("the label is shown", LONG, || {
            Some(labels(&eye)).filter(|labels| !labels.is_empty())
        });
        fs::write(node.jobs_file(), "").unwrap();
        node.wait_for_log("is empty now");
        let error = until("that is shown", LONG, || config_error(&eye));
        assert!(
            error.contains("is empty now") && error.ends_with("settings until SIGHUP"),
            "{error}"
        );
        assert_eq!(labels(&eye), gpu, "an emptied file changed what the node serves");
        // Mended, it is taken by itself again.
        fs::write(node.jobs_file(), &file).unwrap();
        until("nothing is wrong any more", LONG, || {
            Some(()).filter(|()| config_error(&eye).is_none())
        });
        assert_eq!(labels(&eye), gpu);
        fs::write(node.jobs_file(), "").unwrap();
        until("that is shown again", LONG, || config_error(&eye));
        node.hup();
        until("the label is gone", LONG, || Some(()).filter(|()| labels(&eye) != gpu));
    }
}

#[test]
fn a_setting_that_needs_a_restart_is_reported_while_it_differs_from_the_file() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let file = |lease: &str, job: &str| {
        format!("[daemon]\nlease = \"{lease}\"\n[jobs.{job}]\nevery = \"1h\"\nshell = \"true\"\n")
    };
    let node = Schedd::on(&redis).jobs(&file("5s", "a")).start();
    wait_until_live(&eye, "a");
    let reported = || {
        node.log().matches("[daemon] lease is 5s now and 7s in the file. Changed settings take effect at the next start.").count()
    };
    fs::write(node.jobs_file(), file("7s", "b")).unwrap();
    wait_until_live(&eye, "b");
    assert_eq!(reported(), 1, "{}", node.log());
    node.hup();
    until("it is said again, for it still holds", LONG, || (reported() >= 2).then_some(()));
    let before = node.log();
    fs::write(node.jobs_file(), file("5s", "c")).unwrap();
    wait_until_live(&eye, "c");
    let after = node.log();
    assert!(
        !after[before.len()..].contains("next start"),
        "the way back to what runs is warned of: {after}"
    );
}

#[test]
fn a_file_that_is_gone_changes_nothing() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs(A).start();
    wait_until_live(&eye, "a");
    fs::remove_file(node.jobs_file()).unwrap();
    node.hup();
    until("the problem is shown", LONG, || config_error(&eye));
    assert!(is_live(&eye, "a"));
}

#[test]
fn a_thousand_reloads_of_an_unchanged_file_change_nothing() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs(A).start();
    wait_until_live(&eye, "a");
    let before = eye.job("a").unwrap();
    for _ in 0..1_000 {
        node.hup();
    }
    // A signal may still be pending: the node must not read a file that is half written.
    let new = node.jobs_file().with_extension("new");
    fs::write(&new, A_AND_B).unwrap();
    fs::rename(&new, node.jobs_file()).unwrap();
    wait_until_live(&eye, "b");
    let after = eye.job("a").unwrap();
    assert_eq!((before.rev, before.pending), (after.rev, after.pending));
}

#[test]
fn a_restart_with_an_unchanged_file_changes_nothing() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let mut node = Schedd::on(&redis).jobs(A).start();
    wait_until_live(&eye, "a");
    let before = eye.job("a").unwrap();
    node.term();
    assert!(node.wait_exit().success());
    node.start_again();
    until("it is back", LONG, || {
        Some(()).filter(|()| node.log().matches("the jobs file are applied").count() == 2)
    });
    let after = eye.job("a").unwrap();
    assert_eq!(
        (before.rev, before.pending, before.anchor),
        (after.rev, after.pending, after.anchor)
    );
}

#[test]
fn a_changed_schedule_moves_the_next_run_and_a_changed_command_does_not() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs(A).start();
    wait_until_live(&eye, "a");
    let first = eye.job("a").unwrap();
    fs::write(node.jobs_file(), A.replace("\"true\"", "\"false\"")).unwrap();
    let second =
        until("the command is changed", LONG, || eye.job("a").filter(|job| job.rev != first.rev));
    assert_eq!(second.pending, first.pending);
    fs::write(node.jobs_file(), A.replace("1h", "3h")).unwrap();
    let third =
        until("the schedule is changed", LONG, || eye.job("a").filter(|job| job.rev != second.rev));
    assert_ne!(third.pending, first.pending);
    assert_eq!(third.anchor, first.anchor);
    assert_eq!(third.pending.unwrap().due().since(third.anchor).as_secs(), 3 * 3600);
}

#[test]
fn a_bad_file_at_the_start_ends_it_with_78_and_every_problem() {
    let redis = TestRedis::start();
    let mut node = Schedd::on(&redis).jobs("[jobs.a]\nevery = \"x\"\nshel = \"true\"\n").start();
    assert_eq!(node.wait_exit().code(), Some(78));
    let log = node.log();
    assert!(log.contains("jobs.toml:2:") && log.contains("jobs.toml:3:"), "{log}");
}

#[test]
fn a_change_made_while_the_start_waits_for_redis_is_taken() {
    let mut redis = TestRedis::start();
    redis.kill9();
    let node = Schedd::on(&redis).jobs(A).start();
    node.wait_for_log("schedd waits for Redis");
    fs::write(node.jobs_file(), A_AND_B).unwrap();
    redis.restart();
    wait_until_live(&Eye::on(&redis), "b");
}

#[test]
fn an_emptied_file_asked_for_while_redis_stands_still_is_taken_when_it_goes_on() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs(A_AND_B).start();
    wait_until_live(&eye, "b");
    redis.stop_signal(Signal::STOP);
    fs::write(node.jobs_file(), "").unwrap();
    node.hup();
    // Long enough for the change to be noticed beside the signal.
    std::thread::sleep(Duration::from_secs(2));
    redis.stop_signal(Signal::CONT);
    wait_until_gone(&eye, "a");
    wait_until_gone(&eye, "b");
}

#[test]
fn a_file_that_becomes_readable_without_a_change_of_its_text_is_taken() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).jobs(A).start();
    wait_until_live(&eye, "a");
    // A mode refused for anybody may write it: whoever runs the test, root too.
    fs::write(node.jobs_file(), A_AND_B).unwrap();
    fs::set_permissions(node.jobs_file(), fs::Permissions::from_mode(0o666)).unwrap();
    let is_refused = config_error_within(&eye);
    fs::set_permissions(node.jobs_file(), fs::Permissions::from_mode(0o644)).unwrap();
    wait_until_live(&eye, "b");
    if is_refused {
        until("nothing is wrong any more", LONG, || {
            Some(()).filter(|()| config_error(&eye).is_none())
        });
    }
}

/// Whether the file is refused: only root's is, another's is taken with a warning.
fn config_error_within(eye: &Eye) -> bool {
    until("the file is taken or refused", LONG, || match config_error(eye) {
        Some(_) => Some(true),
        None => is_live(eye, "b").then_some(false),
    })
}

#[test]
fn zone_data_is_read_again_on_reload_and_at_a_start_and_moves_what_is_planned() {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let zones = tempfile::tempdir().unwrap();
    fs::create_dir(zones.path().join("Europe")).unwrap();
    // A country that changes its mind.
    let decree = |zone: &str| {
        let new = zones.path().join("new");
        fs::copy(Path::new("/usr/share/zoneinfo").join(zone), &new).unwrap();
        fs::rename(new, zones.path().join("Europe/Berlin")).unwrap();
    };
    decree("Asia/Tokyo");
    let toml = "[jobs.a]\ncron = \"0 9 * * *\"\ntz = \"Europe/Berlin\"\nshell = \"true\"\n\
                [jobs.c]\ncalendar = \"09:30\"\ntz = \"Europe/Berlin\"\nshell = \"true\"\njitter = \"1m\"\n\
                [jobs.d]\nrrule = \"FREQ=DAILY\"\ndtstart = 2026-01-01T09:45:00\ntz = \"Europe/Berlin\"\nshell = \"true\"\n\
                [jobs.e]\ndelay = \"1d\"\nshell = \"true\"\n\
                [jobs.b]\nevery = \"1h\"\nshell = \"true\"\n";
    let mut node =
        Schedd::on(&redis).jobs(toml).env("TZDIR", zones.path().to_str().unwrap()).start();
    let hour = || Some(eye.job("a")?.pending?.due().as_i64() / 3_600_000 % 24);
    let minute = |job: &str| Some(eye.job(job)?.pending?.due().as_i64() / 60_000 % 1_440);
    until("it is planted for nine o'clock in Tokyo", LONG, || {
        Some(()).filter(|()| hour() == Some(0))
    });
    let (other, delayed) = (eye.job("b").unwrap().pending, eye.job("e").unwrap().pending);
    assert_eq!((minute("c"), minute("d")), (Some(30), Some(45)));

    decree("Asia/Kolkata");
    node.hup();
    // Half past three.
    until("it is planted for nine o'clock in Kolkata", LONG, || {
        Some(()).filter(|()| hour() == Some(3))
    });
    assert!(eye.job("a").unwrap().listed_by.len() == 1 && eye.job("b").unwrap().pending == other);
    until("the other forms are moved too", LONG, || {
        Some(()).filter(|()| minute("c") == Some(240) && minute("d") == Some(255))
    });
    assert_eq!(eye.job("e").unwrap().pending, delayed);

    node.term();
    node.wait_exit();
    decree("Etc/GMT-2");
    node.start_again();
    until("it is planted for nine o'clock two hours east", LONG, || {
        Some(()).filter(|()| hour() == Some(7))
    });
    let planted = eye.ask(eye.store().read_stats()).unwrap();
    assert_eq!(planted.jobs, 5);
}
