//! The black-box proof of schedd's guarantees, in the manner of Jepsen's test of Chronos.
//! Real nodes on a real Redis suffer faults while jobs report what they do, and a checker compares
//! that with the promises.
//! The records of schedd are compared, never trusted.
//!
//! | file | owns |
//! | --- | --- |
//! | `plan`, `jobs`, `sharing`, `schedule` | the meaning of a seed: jobs, what they share, faults, and due times by plain arithmetic |
//! | `pulled`, `worker` | the jobs that workers execute, and the workers: `schedctl work` and apps |
//! | `app` | a program with a handler of the Rust library |
//! | `each_node` | the jobs that run on each node, and their instances |
//! | `chain` | a chain of jobs: two after the first, one after both, and so on |
//! | `small` | the node with few slots, and the runs it has to put in order |
//! | `stage`, `grounds`, `proxy`, `http_store` | the nodes, their environment, their connections to Redis, and the store jobs write to |
//! | `faults/` | one file for each family of faults, each with the harm its row may do to the promises |
//! | `hands`, `adding`, `readding` | the actions of operators meanwhile |
//! | `job.bash`, `effects` | the reports of jobs, and their reader |
//! | `settle`, `keys` | the end: everything owed is awaited and read once |
//! | `metronome`, `soak` | the slowness of this host itself, and the resources of nodes in a long steady run |
//! | `evidence`, `checker/` | all that is known, and its judgement without I/O, which tests itself at each start |
//! | `trial`, `report` | one seed from its plan to its findings, and the output |
//! | `topology/` | failovers by Sentinels and in a cluster, with a judgement of their own |
//! | `redis_clock` | steps of Redis' own clock, with a judgement of their own |
//! | `mutants`, `play` | daemons that break a rule, and the scene that makes each visible |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod app;
mod checker;
mod effects;
mod evidence;
mod faults;
mod metronome;
pub(crate) mod proof;
mod proxy;
mod settle;
mod stage;
#[allow(dead_code, reason = "the tests' support, of which this needs a part")]
#[path = "../suite/support/mod.rs"]
mod support;
mod topology;
mod worker;
pub(crate) mod world;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Parser;

use topology::trial_of_failovers::FailoverTrial;

/// Inflicts faults on real nodes and checks what their jobs did. Prints its seed: the same seed
/// gives the same plan.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
struct Args {
    /// Seed of the plan [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Duration of the whole trial, in seconds, roughly
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(45..))]
    seconds: u64,
    /// Number of nodes, besides the small one
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=20))]
    nodes: u64,
    /// Inflict only these faults; "none" for none
    #[arg(long, value_delimiter = ',')]
    faults: Vec<String>,
    /// Run only jobs whose names begin with one of these
    #[arg(long, value_delimiter = ',')]
    jobs: Vec<String>,
    /// Run only a chain of this number of jobs [default: a short chain beside other jobs]
    #[arg(long, value_name = "N", conflicts_with_all = ["soak", "redis_clock", "jobs"],
        value_parser = clap::value_parser!(u64).range(2..=500))]
    chain: Option<u64>,
    /// Give the namespace this number of shards, on which one-shots are placed
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true,
        conflicts_with_all = ["mutants", "mutant", "redis_clock"])]
    shards: u32,
    /// Keep the directory with all records
    #[arg(long)]
    verbose: bool,
    /// Run long and steadily: only Redis, the connections to it and files suffer; the resources of
    /// nodes are watched
    #[arg(long)]
    soak: bool,
    /// Only prove that the checker notices broken rules: each mutant breaks a rule in a scene that
    /// shows it
    #[arg(long)]
    mutants: bool,
    /// Only prove it with this mutant
    #[arg(long, value_name = "NAME", conflicts_with = "mutants")]
    mutant: Option<String>,
    /// Only step Redis' own clock, for --seconds
    #[arg(long, conflicts_with_all = ["soak", "mutants", "mutant", "faults", "jobs", "nodes"])]
    redis_clock: bool,
    /// Only let the primary of Redis fail, for --seconds, and others take over
    #[arg(long, value_enum, conflicts_with_all = ["soak", "mutants", "mutant", "faults", "jobs", "nodes", "redis_clock"])]
    topology: Option<topology::failing_redis::Topology>,
    /// With --topology: let nothing wait for replicas, and count what is lost
    #[arg(long, requires = "topology")]
    may_lose: bool,
    /// Run only the checker's tests of itself
    #[arg(long)]
    self_test: bool,
    /// Be an app of a stage
    #[arg(long, hide = true, num_args = 4, value_names = ["DIR", "REDIS", "NAME", "LEASE"])]
    app: Vec<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let [dir, redis, name, lease] = &args.app[..] {
        return app::main(app::App { dir, redis, name, lease });
    }
    println!("checker: {} histories judged as they must be", checker::proof::self_test::run());
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
        return end(proof::mutants::run(args.mutant.as_deref(), &interrupted), "mutants");
    }
    let seed = args.seed.unwrap_or_else(|| evidence::now().unsigned_abs());
    if args.redis_clock {
        let length = Duration::from_secs(args.seconds).saturating_sub(world::plan::RESTORING);
        return end(proof::redis_clock::run(seed, length, interrupted), &format!("seed={seed}"));
    }
    if let Some(topology) = args.topology {
        let length = Duration::from_secs(args.seconds);
        let Args { may_lose, shards, .. } = args;
        let trial = FailoverTrial { topology, seed, length, may_lose, shards };
        return topology::trial_of_failovers::run(&trial, &interrupted);
    }
    let Args { faults, mut jobs, .. } = args;
    if args.chain.is_some() {
        jobs = vec![world::chain::CHAIN.to_owned()];
    }
    let trial = proof::trial::Trial {
        seed,
        nodes: usize::try_from(args.nodes).unwrap(),
        length: Duration::from_secs(args.seconds).saturating_sub(world::plan::RESTORING),
        faults,
        jobs,
        chain: args.chain.map_or(world::chain::SHORT, |length| usize::try_from(length).unwrap()),
        shards: args.shards,
        keep: args.verbose,
        mode: if args.soak { proof::trial::Mode::Soak } else { proof::trial::Mode::Chaos },
    };
    end(trial.run(interrupted), &format!("seed={seed}"))
}

fn end(played: Result<ExitCode, proof::trial::Failure>, what: &str) -> ExitCode {
    match played {
        Ok(end) => end,
        Err(proof::trial::Failure::Interrupted) => {
            eprintln!("chaos: interrupted, {what}");
            ExitCode::from(130)
        }
        Err(proof::trial::Failure::Test(why)) => {
            println!("chaos: FAIL {what} the test itself: {why}");
            ExitCode::FAILURE
        }
    }
}
