//! Nodes with `durability = "replicated"`, while jobs are added and the primary fails again and again.
//! What was acknowledged is compared with what the jobs did.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;

use super::failing_redis::{FailingRedis, ServerFault, Topology};
use super::net_host::Network;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::effects::{Effect, Effects};
use crate::support::wait::until;
use crate::world::keys::namespace;

const NODES: usize = 3;
const ADDERS: usize = 3;
/// The lease of the nodes.
const LEASE: Duration = Duration::from_secs(6);
/// The longest time for which two attempts of a run may overlap after a failover lost the claim of
/// the first: a third of the lease, and the time until its process is ended.
const OVERLAP: Duration = Duration::from_secs(4);
/// The time after the last fault within which the run of each added job must end.
const SETTLING: Duration = Duration::from_secs(90);

/// A job whose add was acknowledged.
struct Added {
    name: String,
    is_at_most_once: bool,
}

/// The time for which a replica gets no changes before its primary fails, where nothing waits for it.
const LAG: Duration = Duration::from_secs(1);

/// The settings of a trial.
pub(crate) struct FailoverTrial {
    pub(crate) topology: Topology,
    pub(crate) seed: u64,
    /// The time of the faults.
    pub(crate) length: Duration,
    /// True if nothing waits for replicas. Then jobs may be lost, and must be reported as lost.
    pub(crate) may_lose: bool,
    /// The number of shards of the namespace, on which all added jobs are placed.
    pub(crate) shards: u32,
}

/// Lets the primary fail while jobs are added, and compares what ran with what was acknowledged. Prints
/// each broken promise and a summary.
pub(crate) fn run(trial: &FailoverTrial, interrupted: &AtomicBool) -> ExitCode {
    let FailoverTrial { topology, seed, length, may_lose, shards } = *trial;
    println!("chaos: topology={topology:?} seed={seed} nodes={NODES} faults for {length:?}");
    // Each host has servers, a node and an adder, so that a cut leaves a primary with its clients.
    let network = Network::may_create().then(|| Network::of(NODES));
    match &network {
        Some(network) => network.enter(),
        None => {
            println!("  no network is cut, because this user may not create network namespaces")
        }
    }
    let program_on = |host: usize, program: &str| match &network {
        Some(network) => network.hosts[host].player_of(program),
        None => PathBuf::from(program),
    };
    let mut rng = Rng::with_seed(seed);
    let mut redis = FailingRedis::start(topology, network.as_ref(), shards);
    let effects = Effects::new();
    let durability = if may_lose { "none" } else { "replicated" };
    let lag = if may_lose { LAG } else { Duration::ZERO };
    let section = format!("[redis]\n{}durability = {durability:?}\n", redis.section());
    let spread = match shards {
        0 => String::new(),
        count => format!("shards = {count}\n[queues.default]\nspread = true\n"),
    };
    let jobs = format!(
        "{section}{spread}[daemon]\nlease = \"{}s\"\n[history]\nmax_age = \"1h\"\n\
         [jobs.beat]\nevery = \"1s\"\nshell = {:?}\n",
        LEASE.as_secs(),
        effects.shell("true")
    );
    let start = |at| {
        let program = program_on(at, env!("CARGO_BIN_EXE_schedd"));
        let node = Schedd::with_private_redis().played_by(&program).node(&format!("n{at}"));
        let node = node.jobs(&jobs).start();
        node.wait_for_log("All jobs of the jobs file are applied");
        for shard in 0..shards {
            node.wait_for_log(&format!("serves the shard.\" shard={shard}"));
        }
        node
    };
    let mut nodes: Vec<Schedd> = (0..NODES).map(start).collect();
    let ctl_by = |program: &Path| {
        let ctl = Schedctl::alone().played_by(program);
        std::fs::write(ctl.home().join("jobs.toml"), &jobs).unwrap();
        ctl
    };
    let schedctl = env!("CARGO_BIN_EXE_schedctl");
    let ctl = ctl_by(Path::new(schedctl));
    let (added, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let mut kills = Vec::new();
    let mut faults = 0;
    thread::scope(|scope| {
        for adder in 0..ADDERS {
            let (ctl, effects) = (ctl_by(&program_on(adder % NODES, schedctl)), &effects);
            let (added, is_over) = (&added, &is_over);
            scope.spawn(move || add_until(is_over, adder, &ctl, effects, added));
        }
        // Also when a fault panics, because the scope waits for the adders.
        let _adding = AddingEnds(&is_over);
        let began = Instant::now();
        while began.elapsed() < length && !interrupted.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(rng.u64(3_000..7_000)));
            let fault = redis.draw_fault(&mut rng);
            let of = namespace(redis.target);
            println!("  {:>5.1} s: {fault:?} of {of}", began.elapsed().as_secs_f64());
            if matches!(fault, ServerFault::Kill) {
                kills.push(nanos());
            }
            redis.suffer(fault, lag);
            faults += 1;
            if rng.bool() {
                let node = rng.usize(..NODES);
                println!("  {:>5.1} s: kill -9 of node n{node}", began.elapsed().as_secs_f64());
                nodes[node].kill9();
                nodes[node].start_again();
            }
        }
    });
    let added = added.into_inner().unwrap();
    let (ended, of_shards) = settle(&ctl, &added, shards);
    let attempts = effects.all();
    let mut findings = Vec::new();
    let lost = added.iter().filter(|job| !ended.contains_key(&job.name)).count();
    let places = || iter::once(None).chain((0..shards).map(Some)).map(namespace);
    let data_losses: usize = places().map(|namespace| data_losses(&ctl, &namespace)).sum();
    if may_lose {
        if lost > 0 && data_losses == 0 {
            findings.push(format!("{lost} jobs were lost, and data-loss reports nothing"));
        }
    } else {
        findings = judge(&added, &ended, &attempts);
        for namespace in places() {
            let doctor = ctl.run(&["--namespace", &namespace, "doctor"]);
            if doctor.code != 0 {
                findings.push(format!("doctor of {namespace}: {}", doctor.stdout));
            }
        }
    }
    let is_unused = |(_, runs): &(usize, &usize)| **runs == 0;
    findings.extend(
        of_shards
            .iter()
            .enumerate()
            .filter(is_unused)
            .map(|(at, _)| format!("shard {at} had no run")),
    );
    for finding in &findings {
        println!("  FINDING {finding}");
    }
    let verdict = if findings.is_empty() { "PASS" } else { "FAIL" };
    let (repeats, pauses) = (repeats(&attempts), pauses(&kills, &attempts));
    let of_shards = match shards {
        0 => String::new(),
        count => format!(" shards={count} runs_of_shards={of_shards:?}"),
    };
    println!(
        "chaos: {verdict} topology={topology:?} seed={seed}{of_shards} acknowledged={} attempts={} repeats={repeats} \
         lost={lost} data_losses={data_losses} failovers={faults} \
         first start after a killed primary, s: {pauses:?}",
        added.len(),
        attempts.len()
    );
    if findings.is_empty() {
        return ExitCode::SUCCESS;
    }
    for node in &nodes {
        println!("--- log of a node\n{}", node.log());
    }
    ExitCode::FAILURE
}

/// Ends the adders on drop.
struct AddingEnds<'a>(&'a AtomicBool);

impl Drop for AddingEnds<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Adds jobs until the faults are over, and notes those whose add was acknowledged.
fn add_until(
    is_over: &AtomicBool,
    adder: usize,
    ctl: &Schedctl,
    effects: &Effects,
    added: &Mutex<Vec<Added>>,
) {
    for number in 0.. {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let (name, is_at_most_once) = (format!("a{adder}-{number}"), number % 2 == 0);
        let delivery = if is_at_most_once { "at-most-once" } else { "at-least-once" };
        let shell = effects.shell("sleep 0.5");
        let words = ["--name", &name, "--in", "3s", "--delivery", delivery, "--shell", &shell];
        if ctl.run(&[&["add"], &words[..]].concat()).code == 0 {
            added.lock().unwrap().push(Added { name, is_at_most_once });
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until the run of each added job has ended, as far as they do. Returns the state of the last
/// run of each job, and the number of runs of each shard. A run in the namespace itself is not seen if
/// that has shards, so a job that should be on a shard counts as lost.
fn settle(ctl: &Schedctl, added: &[Added], shards: u32) -> (BTreeMap<String, String>, Vec<usize>) {
    let mut ended = BTreeMap::new();
    let mut of_shards = Vec::new();
    let began = Instant::now();
    until("history is read, and all runs have ended or time is over", SETTLING * 2, || {
        let mut read = |place: Option<u32>| {
            let namespace = &namespace(place);
            let words = ["--namespace", namespace, "history", "--json", "--limit", "0"];
            let runs: serde_json::Value = serde_json::from_str(&ctl.run(&words).stdout).ok()?;
            for run in runs.as_array()? {
                let text = |key: &str| run[key].as_str().unwrap_or_default().to_owned();
                ended.insert(text("job"), text("state"));
            }
            Some(runs.as_array()?.len())
        };
        if shards == 0 {
            read(None)?;
        }
        of_shards = (0..shards).map(|shard| read(Some(shard))).collect::<Option<_>>()?;
        let is_done = added.iter().all(|job| ended.contains_key(&job.name));
        (is_done || began.elapsed() > SETTLING).then_some(())
    });
    (ended, of_shards)
}

/// Returns the number of data losses that schedd reports for a namespace.
fn data_losses(ctl: &Schedctl, namespace: &str) -> usize {
    let read = ctl.run(&["--namespace", namespace, "data-loss", "--json"]).good().json();
    read.as_array().map_or(0, Vec::len)
}

/// Returns what breaks a promise.
fn judge(added: &[Added], ended: &BTreeMap<String, String>, attempts: &[Effect]) -> Vec<String> {
    let mut by_job: BTreeMap<&str, Vec<&Effect>> = BTreeMap::new();
    for attempt in attempts {
        let job = attempt.run.split('@').next().unwrap_or_default();
        by_job.entry(job).or_default().push(attempt);
    }
    let mut findings = Vec::new();
    for Added { name, is_at_most_once } in added {
        let attempts = by_job.get(name.as_str()).map_or(0, Vec::len);
        match ended.get(name).map(String::as_str) {
            None => findings.push(format!("{name} was acknowledged, and its run has no end")),
            Some("succeeded") if attempts == 0 => {
                findings.push(format!("{name} succeeded without an attempt"));
            }
            Some("succeeded") => {}
            Some("lost") if *is_at_most_once => {}
            Some(state) => findings.push(format!("{name} ended {state}")),
        }
        if *is_at_most_once && attempts > 1 {
            findings.push(format!("{name} is at-most-once and began {attempts} times"));
        }
    }
    for attempts in by_job.values() {
        for (at, first) in attempts.iter().enumerate() {
            for second in attempts[at + 1..].iter().filter(|second| second.run == first.run) {
                let end = first.ended.unwrap_or(first.began).min(second.ended.unwrap_or(u128::MAX));
                let overlap = end.saturating_sub(first.began.max(second.began));
                if overlap > OVERLAP.as_nanos() {
                    findings.push(format!("attempts of {} overlap: {overlap} ns", first.run));
                }
            }
        }
    }
    findings
}

/// Returns the number of attempts that repeat another.
fn repeats(attempts: &[Effect]) -> usize {
    let runs: BTreeSet<&str> = attempts.iter().map(|attempt| attempt.run.as_str()).collect();
    attempts.len() - runs.len()
}

/// Returns the times from each killed primary to the next start of a run, in seconds.
fn pauses(kills: &[u128], attempts: &[Effect]) -> Vec<f64> {
    let next = |kill: &u128| {
        let next = attempts.iter().map(|attempt| attempt.began).filter(|at| at > kill).min()?;
        #[expect(clippy::cast_precision_loss, reason = "seconds with a digit")]
        let seconds = (next - kill) as f64 / 1e9;
        Some((seconds * 10.0).round() / 10.0)
    };
    kills.iter().filter_map(next).collect()
}

fn nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}
