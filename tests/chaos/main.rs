//! The black-box proof of schedd's guarantees, in the manner of Jepsen's test of Chronos: real nodes on a real Redis are hurt
//! while jobs tell what they do, and a checker holds that against what was promised. schedd's own records are compared, never
//! trusted.
//!
//! | file | owns |
//! | --- | --- |
//! | `plan`, `jobs`, `schedule` | what a seed means: jobs, faults, and when jobs are due by plain arithmetic |
//! | `stage`, `grounds`, `proxy`, `http_store` | the nodes, what they stand on, their ways to Redis, and the store jobs write to |
//! | `faults/` | one file a family of faults, each with what its row may do to the promises |
//! | `hands`, `adding` | what people do meanwhile |
//! | `job.bash`, `effects` | jobs telling what they do, and reading it |
//! | `settle`, `keys` | the end: everything owed is awaited and read once |
//! | `metronome`, `soak` | how slow this host itself is, and what nodes use in a long steady run |
//! | `evidence`, `checker/` | all that is known, and the pure judgement of it, which tests itself at each start |
//! | `trial`, `report` | one seed from its plan to its findings, and what is printed |
//! | `mutants` | daemons that break a rule, and what makes each visible |
//!
//! A job with `done_check` has no kind in `jobs` yet: it needs an act that asks `effects` before it works.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod adding;
mod checker;
mod effects;
mod evidence;
mod faults;
mod grounds;
mod hands;
mod http_store;
mod jobs;
mod keys;
mod metronome;
mod mutants;
mod plan;
mod proxy;
mod report;
mod schedule;
mod settle;
mod soak;
mod stage;
#[allow(dead_code, reason = "the tests' support, of which this needs a part")]
#[path = "../suite/support/mod.rs"]
mod support;
mod trial;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Parser;

/// Hurts real nodes and checks what their jobs did. Prints its seed: the same one gives the same plan.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
struct Args {
    /// The seed of the plan [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// How long it takes in all, about
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(45..))]
    seconds: u64,
    /// Nodes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=20))]
    nodes: u64,
    /// Only these faults; "none" for none
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
    /// Only jobs whose names begin so
    #[arg(long, value_delimiter = ',')]
    jobs: Vec<String>,
    /// Keep the directory with all that was recorded
    #[arg(long)]
    verbose: bool,
    /// A long steady run: only Redis, the ways to it and files are hurt, and what nodes use is watched
    #[arg(long, conflicts_with = "mutant")]
    soak: bool,
    /// The daemons (the program SCHEDD_CHAOS_PROGRAM) break this rule: fails unless that is found
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,
    /// Only the checker's tests of itself
    #[arg(long)]
    self_test: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    println!("checker: {} histories judged as they must be", checker::self_test::run());
    if args.self_test {
        return ExitCode::SUCCESS;
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).unwrap();
    }
    let seed = args.seed.unwrap_or_else(|| evidence::now().unsigned_abs());
    let Args { mut faults, mut jobs, .. } = args;
    if let Some(mutant) = args.mutant.as_deref() {
        if std::env::var_os("SCHEDD_CHAOS_PROGRAM").is_none() {
            eprintln!("chaos: --mutant wants SCHEDD_CHAOS_PROGRAM, the build of schedd that breaks the rule");
            return ExitCode::from(2);
        }
        if let Some(hint) = mutants::hint(mutant) {
            println!("mutant {}: {}", hint.name, hint.rule);
            let listed = |names: &str| names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            faults = if faults.is_empty() { listed(hint.faults) } else { faults };
            jobs = if jobs.is_empty() { listed(hint.jobs) } else { jobs };
        }
    }
    let trial = trial::Trial {
        seed,
        nodes: usize::try_from(args.nodes).unwrap(),
        length: Duration::from_secs(args.seconds).saturating_sub(plan::SETTLING),
        faults,
        jobs,
        keep: args.verbose,
        mode: match args.mutant {
            Some(name) => trial::Mode::Mutant(name),
            None if args.soak => trial::Mode::Soak,
            None => trial::Mode::Chaos,
        },
    };
    match trial.run(interrupted) {
        Ok(end) => end,
        Err(trial::Failure::Interrupted) => {
            eprintln!("chaos: interrupted, seed={seed}");
            ExitCode::from(130)
        }
        Err(trial::Failure::Test(why)) => {
            println!("chaos: FAIL seed={seed} the test itself: {why}");
            ExitCode::FAILURE
        }
    }
}
