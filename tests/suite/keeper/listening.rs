//! A daemon that does not listen holds up neither jobs nor their ends.

use std::path::Path;
use std::time::{Duration, Instant};

use schedd_core::domain::run::excerpt::ExcerptStream;
use schedd_core::domain::run::run_state::Ending;
use schedd_core::host::boot_clock::BootInstant;

use super::{KEPT, alive, stdout};
use crate::support::attempt::{Bench, shell};
use crate::support::wait::eventually;

#[tokio::test]
async fn two_hundred_megabytes_do_not_block_the_job_and_every_dropped_byte_is_counted() {
    const SIZE: u64 = 200 * 1024 * 1024;
    let bench = Bench::start().await;
    let line = format!("printf first; head -c {SIZE} /dev/zero; printf last");
    let (outcome, output) = bench.run(&shell(&line)).await;
    assert_eq!(outcome.ending, Ending::Succeeded);
    let kept = output.snapshot();
    assert_eq!(kept.dropped_bytes, SIZE + 9 - KEPT as u64);
    let bytes = kept.stream(ExcerptStream::Stdout);
    assert_eq!(bytes.len(), KEPT);
    assert!(bytes.starts_with(b"first\0") && bytes.ends_with(b"\0last"));
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", bench.keeper.pid().unwrap())).unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap()
        .trim()
        .trim_end_matches(" kB");
    assert!(peak.parse::<u64>().unwrap() < 64 * 1024, "the keeper took {peak} kB");
}

/// Stops the daemon's side, whose runtime has only this thread, until the fact.
fn hold_the_daemon_until(what: &str, fact: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !fact() {
        assert!(Instant::now() < end, "waited 20 s in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn a_daemon_that_does_not_listen_blocks_no_job_and_misses_no_count() {
    const SIZE: u64 = 20 * 1024 * 1024;
    let bench = Bench::start().await;
    let file = bench.path("written");
    let line = format!(
        "printf first; touch {file}.begun; head -c {SIZE} /dev/zero; printf last; touch {file}"
    );
    let running = bench.begin(&shell(&line));
    eventually("the job begins", || Path::new(&format!("{file}.begun")).exists().then_some(()))
        .await;
    hold_the_daemon_until("the job writes all", || Path::new(&file).exists());
    assert_eq!(running.task.await.unwrap().ending, Ending::Succeeded);
    let kept = running.output.snapshot();
    let bytes = kept.stream(ExcerptStream::Stdout);
    assert_eq!((bytes.len() as u64 + kept.dropped_bytes, bytes.len()), (SIZE + 9, KEPT));
    assert!(bytes.starts_with(b"first\0") && bytes.ends_with(b"\0last"));
}

#[tokio::test]
async fn a_time_out_and_a_lease_hold_while_the_daemon_is_stopped() {
    let bench = Bench::start().await;
    let mut attempts = [shell("echo ready; sleep 1000"), shell("echo ready; sleep 1000")];
    attempts[0].timeout = Duration::from_secs(2);
    let lease = BootInstant::now().saturating_add(Duration::from_secs(3));
    let (timed, leased) = (bench.begin(&attempts[0]), bench.begin_until(lease, &attempts[1]));
    for running in [&timed, &leased] {
        eventually("the job is ready", || stdout(&running.output).contains("ready").then_some(()))
            .await;
    }
    hold_the_daemon_until("both are killed", || {
        attempts.iter().all(|attempt| alive(attempt).is_empty())
    });
    assert!(BootInstant::now() < lease.saturating_add(Duration::from_secs(2)));
    assert_eq!(timed.task.await.unwrap().ending, Ending::TimedOut);
    assert_eq!(leased.task.await.unwrap().ending, Ending::LeaseLost);
}
