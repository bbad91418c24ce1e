//! The black-box proof of schedd's guarantees, in the manner of Jepsen's test of Chronos: real nodes on a real Redis are hurt
//! while jobs tell what they do, and a checker holds that against what was promised. schedd's own records are compared, never
//! trusted.
//!
//! | file | owns |
//! | --- | --- |
//! | `plan`, `jobs`, `sharing`, `schedule` | what a seed means: jobs, what they share, faults, and when jobs are due by plain arithmetic |
//! | `small` | the node of few places, and the runs it has to put in order |
//! | `stage`, `grounds`, `proxy`, `http_store` | the nodes, what they stand on, their ways to Redis, and the store jobs write to |
//! | `faults/` | one file a family of faults, each with what its row may do to the promises |
//! | `hands`, `adding`, `readding` | what people do meanwhile |
//! | `job.bash`, `effects` | jobs telling what they do, and reading it |
//! | `settle`, `keys` | the end: everything owed is awaited and read once |
//! | `metronome`, `soak` | how slow this host itself is, and what nodes use in a long steady run |
//! | `evidence`, `checker/` | all that is known, and the pure judgement of it, which tests itself at each start |
//! | `trial`, `report` | one seed from its plan to its findings, and what is printed |
//! | `redis_clock` | steps of Redis' own clock, with a judgement of their own |
//! | `mutants`, `play` | daemons that break a rule, and the scene that makes each visible |

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
mod play;
mod proxy;
mod readding;
mod redis_clock;
mod report;
mod schedule;
mod settle;
mod sharing;
mod small;
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
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
struct Args {
    /// The seed of the plan [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// How long it takes in all, about
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(45..))]
    seconds: u64,
    /// Nodes, beside the small one
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
    #[arg(long)]
    soak: bool,
    /// Only the proof that the checker sees broken rules: daemons that break one, each in a scene that shows it
    #[arg(long)]
    mutants: bool,
    /// The same with this one only
    #[arg(long, value_name = "NAME", conflicts_with = "mutants")]
    mutant: Option<String>,
    /// Only steps of Redis' own clock, for so many seconds
    #[arg(long, conflicts_with_all = ["soak", "mutants", "mutant", "faults", "jobs", "nodes"])]
    redis_clock: bool,
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
    if args.mutants || args.mutant.is_some() {
        if std::env::var_os("SCHEDD_CHAOS_PROGRAM").is_none() {
            eprintln!(
                "chaos: SCHEDD_CHAOS_PROGRAM is to name the build with the feature mutants; script/chaos builds and names it"
            );
            return ExitCode::from(2);
        }
        return end(mutants::run(args.mutant.as_deref(), &interrupted), "mutants");
    }
    let seed = args.seed.unwrap_or_else(|| evidence::now().unsigned_abs());
    if args.redis_clock {
        let length = Duration::from_secs(args.seconds).saturating_sub(plan::SETTLING);
        return end(redis_clock::run(seed, length, interrupted), &format!("seed={seed}"));
    }
    let Args { faults, jobs, .. } = args;
    let trial = trial::Trial {
        seed,
        nodes: usize::try_from(args.nodes).unwrap(),
        length: Duration::from_secs(args.seconds).saturating_sub(plan::SETTLING),
        faults,
        jobs,
        keep: args.verbose,
        mode: if args.soak { trial::Mode::Soak } else { trial::Mode::Chaos },
    };
    end(trial.run(interrupted), &format!("seed={seed}"))
}

fn end(played: Result<ExitCode, trial::Failure>, what: &str) -> ExitCode {
    match played {
        Ok(end) => end,
        Err(trial::Failure::Interrupted) => {
            eprintln!("chaos: interrupted, {what}");
            ExitCode::from(130)
        }
        Err(trial::Failure::Test(why)) => {
            println!("chaos: FAIL {what} the test itself: {why}");
            ExitCode::FAILURE
        }
    }
}
