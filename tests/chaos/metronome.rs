//! Measures how slow this host itself is, four times a second.
//! It measures how long a shell takes to start, how long a sleep is overslept, and how long threads
//! of daemons and keepers wait for a processor.
//! No scheduler could make up for what exceeds a tenth of a second.
//! The checker adds it to the allowed delay around that time, and the report shows the worst.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::evidence::{Micros, now};
use crate::stage::Stage;

const USUAL: Micros = 100_000;
const EVERY: Duration = Duration::from_millis(250);

/// Ticks until the stage is over. Returns the times at which the host was slow, and by how much.
pub(crate) fn tick(stage: &Stage) -> Vec<(Micros, Micros)> {
    let mut lags = Vec::new();
    let mut waited = HashMap::new();
    while !stage.is_over() {
        let began = now();
        let _ = Command::new("/bin/bash").args(["-c", ":"]).stdin(Stdio::null()).status();
        let started = now() - began;
        let asleep = now();
        std::thread::sleep(EVERY);
        let overslept = now() - asleep - Micros::try_from(EVERY.as_micros()).unwrap();
        let lag = started.max(overslept).max(queued(stage, &mut waited));
        if lag > USUAL {
            lags.push((began, lag));
        }
    }
    lags
}

/// Returns the longest time that a thread of a daemon or keeper has waited for a processor since
/// the last call.
/// It is the second number of the thread's `schedstat`, in nanoseconds there.
fn queued(stage: &Stage, waited: &mut HashMap<PathBuf, Micros>) -> Micros {
    let mut longest = 0;
    for node in stage.nodes() {
        let daemon = node.daemon();
        let keepers = daemon.keepers().into_iter().map(|keeper| keeper.as_raw_nonzero().get());
        let pids: Vec<i32> = keepers.chain([daemon.pid().cast_signed()]).collect();
        drop(daemon);
        let threads =
            |pid: i32| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in pids.into_iter().flat_map(threads) {
            let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let Some(nanos) = text.split(' ').nth(1).and_then(|word| word.parse::<Micros>().ok())
            else {
                continue;
            };
            let before = waited.insert(thread.path(), nanos / 1000).unwrap_or(nanos / 1000);
            longest = longest.max(nanos / 1000 - before);
        }
    }
    longest
}
