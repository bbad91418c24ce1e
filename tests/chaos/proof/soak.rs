//! The resources of a long steady run, sampled every ten seconds, and a check that they stop
//! growing after the warm-up.
//! They are memory, open files and threads of each node and its keeper, and keys and memory of
//! Redis.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use crate::evidence::{Micros, now, span};
use crate::stage::Stage;

const EVERY: Duration = Duration::from_secs(10);
/// The time that caches and pools may take to fill.
pub(crate) const WARM_UP: Duration = Duration::from_secs(120);
/// The growth after the warm-up that is no leak: KiB of a daemon and its keeper, open files,
/// threads.
const MOST: Usage = Usage { kib: 8 * 1024, files: 20, threads: 8 };

/// The resources of one node and its keeper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) kib: u64,
    pub(crate) files: u64,
    pub(crate) threads: u64,
}

/// All resources at one moment.
#[derive(Debug, Clone)]
struct Sample {
    at: Micros,
    nodes: Vec<(String, Usage)>,
    keys: u64,
    redis_bytes: u64,
}

/// Returns the resources that each node and its keepers use now.
pub(crate) fn usage(stage: &Stage) -> Vec<(String, Usage)> {
    let one = |node: &crate::stage::Node| {
        let daemon = node.daemon();
        let keepers = daemon.keepers().into_iter().map(|keeper| keeper.as_raw_nonzero().get());
        let sum = keepers.chain([daemon.pid().cast_signed()]).map(usage_of).fold(
            Usage::default(),
            |sum, one| Usage {
                kib: sum.kib + one.kib,
                files: sum.files + one.files,
                threads: sum.threads + one.threads,
            },
        );
        (node.name.clone(), sum)
    };
    stage.nodes().iter().map(one).collect()
}

fn usage_of(pid: i32) -> Usage {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
    };
    let files = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count) as u64;
    Usage { kib: number("VmRSS:"), files, threads: number("Threads:") }
}

/// Takes samples until the stage is over. Returns what grew beyond its bound after the warm-up. All
/// samples go to `soak.tsv`.
pub(crate) fn watch(stage: &Stage) -> Vec<String> {
    let (mut samples, started) = (Vec::new(), Instant::now());
    let mut warm = None;
    while !stage.is_over() {
        if let Some(sample) = take(stage) {
            samples.push(sample);
        }
        if warm.is_none() && started.elapsed() >= WARM_UP {
            warm = samples.len().checked_sub(1);
        }
        let next = Instant::now() + EVERY;
        while Instant::now() < next && !stage.is_over() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let text = samples.iter().fold(
        "at_us\tkeys\tredis_bytes\tnodes: kib files threads\n".to_owned(),
        |mut text, sample| {
            writeln!(
                text,
                "{}\t{}\t{}\t{:?}",
                sample.at, sample.keys, sample.redis_bytes, sample.nodes
            )
            .unwrap();
            text
        },
    );
    fs::write(stage.dir().join("soak.tsv"), text).unwrap();
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return vec!["no sample could be taken".to_owned()];
    };
    let warm = warm.map(|at| &samples[at]);
    println!("\n-- usage");
    for (word, sample) in [("at first", Some(first)), ("warmed up", warm), ("at last", Some(last))]
    {
        let Some(sample) = sample else { continue };
        println!(
            "{word}, {:.0} s: Redis {} keys, {} KiB",
            span(sample.at - first.at),
            sample.keys,
            sample.redis_bytes / 1024
        );
        for (node, Usage { kib, files, threads }) in &sample.nodes {
            println!(
                "  {node}: {kib} KiB resident, {files} open files, {threads} threads (daemon and keeper)"
            );
        }
    }
    warm.map_or_else(Vec::new, |warm| grown(warm, last))
}

/// Takes a sample. Returns `None` while Redis does not answer.
fn take(stage: &Stage) -> Option<Sample> {
    let client = redis::Client::open(stage.redis_url()).ok()?;
    let mut connection = client.get_connection_with_timeout(Duration::from_secs(1)).ok()?;
    connection.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let keys = redis::cmd("DBSIZE").query(&mut connection).ok()?;
    let info: String = redis::cmd("INFO").arg("memory").query(&mut connection).ok()?;
    let redis_bytes =
        info.lines().find_map(|line| line.strip_prefix("used_memory:"))?.trim().parse().ok()?;
    Some(Sample { at: now(), nodes: usage(stage), keys, redis_bytes })
}

fn grown(warm: &Sample, last: &Sample) -> Vec<String> {
    let mut found = Vec::new();
    for ((node, before), (_, after)) in warm.nodes.iter().zip(&last.nodes) {
        let mut hold = |what: &str, before: u64, after: u64, most: u64| {
            if after > before + most {
                found.push(format!("{node}: {what} grew from {before} to {after} after the warm-up; {most} more are allowed"));
            }
        };
        hold("KiB resident", before.kib, after.kib, MOST.kib);
        hold("open files", before.files, after.files, MOST.files);
        hold("threads", before.threads, after.threads, MOST.threads);
    }
    found
}
