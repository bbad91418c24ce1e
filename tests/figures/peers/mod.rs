//! schedd beside its peers and the floor of this machine: the same work by each in turn, each time on a Redis server of its own.
//!
//! The floor is what Redis, the sockets or the kernel need for that work without a scheduler.
//! Run by `script/bench peers`, which installs the peers.

mod first_worker;
mod floor;
mod report;
mod sink;
mod system;
mod workload;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::redis::TestRedis;
use report::Report;
use sink::Sink;
use system::System;
use workload::WORKLOADS;

/// Values of rows of the table.
type Figures = Vec<(&'static str, f64)>;

/// What is the same for all measurements.
struct Bench {
    runs: usize,
    is_durable: bool,
    sink: Sink,
}

impl Bench {
    /// Starts a Redis server with the durability that was asked for.
    fn redis(&self) -> TestRedis {
        if self.is_durable { TestRedis::everysec() } else { TestRedis::start() }
    }
}

/// Measures the named workloads, or all but `million`, and prints the table.
pub(crate) fn peers(words: &[String]) {
    let (mut bench, mut is_markdown, mut asked) =
        (Bench { runs: 3, is_durable: false, sink: Sink::start() }, false, Vec::new());
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--durable" => bench.is_durable = true,
            "--markdown" => is_markdown = true,
            "--runs" => {
                bench.runs =
                    words.next().and_then(|text| text.parse().ok()).expect("--runs takes a number");
            }
            _ => {
                let known = WORKLOADS.iter().find(|workload| workload.name == word);
                asked
                    .push(known.unwrap_or_else(|| panic!("{word:?} is no workload and no option")));
            }
        }
    }
    if asked.is_empty() {
        asked = WORKLOADS.iter().filter(|workload| workload.name != "million").collect();
    }
    let (mut values, mut notes) = (BTreeMap::new(), Vec::new());
    for workload in asked {
        for run in 0..if workload.is_repeated { bench.runs } else { 1 } {
            for system in System::ALL {
                // The worker of apalis looks for delayed jobs only every 30 s. If it finds 8,000 due jobs, it stops with an error.
                let is_left_out = system == System::Apalis
                    && !["add", "single", "first"].contains(&workload.name);
                if system.version().is_err() || is_left_out {
                    continue;
                }
                eprintln!("{} {}: {}", workload.name, run + 1, system.name());
                let measure = || match system {
                    System::Floor => workload.floor.map_or_else(Vec::new, |floor| floor(&bench)),
                    _ => (workload.measure)(&bench, system),
                };
                // On a busy machine the jobs may be added after they are due: then once more.
                let measured = catch_unwind(AssertUnwindSafe(measure))
                    .or_else(|_| catch_unwind(AssertUnwindSafe(measure)));
                match measured {
                    Ok(figures) => figures.into_iter().for_each(|(row, value)| {
                        values.entry((row, system)).or_insert_with(Vec::new).push(value);
                    }),
                    Err(_) => {
                        notes.push(format!("- {} failed in `{}`.", system.name(), workload.name));
                    }
                }
            }
        }
    }
    print!("{}", Report { bench: &bench, values, notes }.text(is_markdown));
}
