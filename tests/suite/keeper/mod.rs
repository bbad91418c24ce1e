//! Jobs as processes: the keeper, and the process executor on it; with cgroups in a whole daemon.

mod cgroups;
mod dying;
mod ending;
mod hanging;
mod leases;
mod listening;
mod shortages;
mod starting;
mod users;

use std::path::Path;

use schedd::attempts::{Attempt, OutputBuffer};
use schedd_core::domain::run::excerpt::ExcerptStream;
use schedd_keeper::Keeper;

use crate::support::wait::eventually;

const NONE: [i32; 0] = [];

fn stdout(output: &OutputBuffer) -> String {
    String::from_utf8(output.snapshot().stream(ExcerptStream::Stdout)).unwrap()
}

/// The processes alive whose environment names the run.
fn alive(attempt: &Attempt) -> Vec<i32> {
    let mark = format!("SCHEDD_RUN_ID={}\0", attempt.run);
    let names = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|part| part == mark.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(names).collect()
}

fn exists(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// True unless the process is gone, or dead and only its parent has not read that yet.
fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// The numbers a job wrote into a file, once there are `count` of them.
async fn pids_in(file: &str, count: usize) -> Vec<i32> {
    eventually("the job writes its process ids", || {
        let text = std::fs::read_to_string(file).ok().filter(|text| text.ends_with('\n'))?;
        let pids: Vec<i32> = text.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        (pids.len() == count).then_some(pids)
    })
    .await
}

fn children_of(keeper: &Keeper) -> String {
    let pid = keeper.pid().unwrap();
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
}

/// A line that starts a grandchild, a `setsid` grandchild that ignores TERM and one whose parent is gone, and writes the ids.
fn family(file: &str) -> String {
    format!(
        "sleep 1000 & a=$!
         setsid sh -c 'trap \"\" TERM; echo $$ >{file}.b; while :; do sleep 1; done' &
         (setsid sh -c 'trap \"\" TERM; echo $$ >{file}.c; while :; do sleep 1; done' &)
         while [ ! -s {file}.b ] || [ ! -s {file}.c ]; do sleep 0.01; done
         echo $$ $a $(cat {file}.b) $(cat {file}.c) >{file}"
    )
}

/// How much of an output is kept unless another bound is set.
const KEPT: usize = 64 * 1024;
