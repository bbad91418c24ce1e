//! The checker's proof of itself on real daemons.
//! Each mutant of `crates/store/src/server/mutants.rs` plays in a scene that shows its broken rule.
//! The same build without a broken rule plays beside it and must give no finding.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;

use super::play::{Play, Scene};
use super::report;
use super::trial::Failure;
use crate::checker::{Finding, Verdict, check};
use crate::evidence::{SECOND, now, span};
use crate::stage::Interrupted;
use crate::world::chain;
use crate::world::jobs::{Act, Job, Overlap};
use crate::world::pulled::pulled;
use crate::world::readding::{Place, Readded};
use crate::world::schedule::When;
use crate::world::sharing;
use crate::world::sharing::Sharing;
use crate::world::small;

/// A broken rule, and the scene in which it shows.
struct Mutant {
    name: &'static str,
    /// The broken rule, in words.
    rule: &'static str,
    /// The verdicts, at least one of which must be raised.
    wanted: &'static [Verdict],
    scene: Scene,
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "no-token-check",
        rule: "an end is taken from whoever tells it",
        wanted: &[Verdict::Phantom, Verdict::Stale],
        scene: Scene {
            nodes: 2,
            workers: 0,
            var: None,
            has_small: false,
            jobs: Vec::new,
            act: reported_late,
        },
    },
    Mutant {
        name: "late-reports",
        rule: "an end is taken from a worker that lost the run",
        wanted: &[Verdict::Phantom, Verdict::Stale],
        scene: Scene {
            nodes: 2,
            workers: 2,
            var: None,
            has_small: false,
            jobs: by_hand,
            act: reported_late_by_a_worker,
        },
    },
    Mutant {
        name: "zrem-first",
        rule: "a claim takes runs out before they have a lease",
        wanted: &[Verdict::Missing],
        scene: Scene {
            nodes: 2,
            workers: 0,
            var: None,
            has_small: false,
            jobs: Vec::new,
            act: killed_while_claiming,
        },
    },
    Mutant {
        name: "no-start-mark",
        rule: "an at-most-once run is tried again",
        wanted: &[Verdict::Dup],
        scene: Scene {
            nodes: 2,
            workers: 0,
            var: None,
            has_small: false,
            jobs: Vec::new,
            act: killed_at_most_once,
        },
    },
    Mutant {
        name: "renew-never",
        rule: "leases are not renewed",
        wanted: &[Verdict::Dup],
        scene: Scene {
            nodes: 1,
            workers: 0,
            var: None,
            has_small: false,
            jobs: Vec::new,
            act: longer_than_its_lease,
        },
    },
    Mutant {
        name: "successor-at-completion",
        rule: "a job's next run is planted when one succeeds",
        wanted: &[Verdict::Missing, Verdict::Drift],
        scene: Scene {
            nodes: 1,
            workers: 0,
            var: None,
            has_small: false,
            jobs: failing,
            act: look_on,
        },
    },
    Mutant {
        name: "reaper-trusts-clock",
        rule: "a lease has ended when the node's own clock says so",
        // Missing: the run is taken from its node again and again before it could begin, so it
        // fails as poison.
        wanted: &[Verdict::Overlap, Verdict::Dup, Verdict::Missing],
        scene: Scene {
            nodes: 2,
            workers: 0,
            var: Some(("SCHEDD_MUTANT_SKEW_MS", "60000")),
            has_small: false,
            jobs: Vec::new,
            act: joined_by_another,
        },
    },
    Mutant {
        name: "gate-never-shut",
        rule: "a claim passes a group whoever holds it",
        wanted: &[Verdict::Above],
        scene: Scene {
            nodes: 2,
            workers: 0,
            var: None,
            has_small: false,
            jobs: grouped,
            act: look_on,
        },
    },
    Mutant {
        name: "nobody-woken",
        rule: "an end wakes nobody who waits in its group",
        wanted: &[Verdict::Late, Verdict::Starved],
        scene: Scene {
            nodes: 2,
            workers: 0,
            var: None,
            has_small: false,
            jobs: grouped,
            act: look_on_long,
        },
    },
    Mutant {
        name: "turns-forgotten",
        rule: "members are let in by due, and without a gap",
        wanted: &[Verdict::Turn, Verdict::Gap],
        scene: Scene {
            nodes: 2,
            workers: 0,
            var: None,
            has_small: false,
            jobs: turning,
            act: look_on_long,
        },
    },
    Mutant {
        name: "queue-unbounded",
        rule: "queues have neither limit nor rate",
        wanted: &[Verdict::Above, Verdict::Burst],
        scene: Scene {
            nodes: 2,
            workers: 0,
            var: None,
            has_small: false,
            jobs: queueing,
            act: look_on,
        },
    },
    Mutant {
        name: "slots-unbounded",
        rule: "a node takes on whatever it executes",
        wanted: &[Verdict::Above],
        scene: Scene {
            nodes: 2,
            workers: 0,
            var: None,
            has_small: true,
            jobs: by_hand,
            act: add_batch,
        },
    },
    Mutant {
        name: "order-forgotten",
        rule: "queues are taken from alike, runs by their due",
        wanted: &[Verdict::Rank],
        scene: Scene {
            nodes: 2,
            workers: 0,
            var: None,
            has_small: true,
            jobs: by_hand,
            act: add_batch,
        },
    },
    Mutant {
        name: "former-begins",
        rule: "a removed job's run goes on as the job added again",
        wanted: &[Verdict::Wrong],
        scene: Scene {
            nodes: 1,
            workers: 0,
            var: None,
            has_small: false,
            jobs: Vec::new,
            act: readd_while_it_executes,
        },
    },
    Mutant {
        name: "chain-forgotten",
        rule: "an end is not written down for the children of its job",
        wanted: &[Verdict::Missing],
        scene: Scene {
            nodes: 1,
            workers: 0,
            var: None,
            has_small: false,
            jobs: chained,
            act: look_on_long,
        },
    },
    Mutant {
        name: "parents-ignored",
        rule: "a child runs however its parents ended",
        wanted: &[Verdict::Early],
        scene: Scene {
            nodes: 1,
            workers: 0,
            var: None,
            has_small: false,
            jobs: chained,
            act: look_on_long,
        },
    },
];

fn once(name: &str, act: Act, work_ms: i64) -> Job {
    Job::new(name, act, work_ms).due(When::Once(Play::soon())).owed()
}

/// A node reports an end long after its run was given to another node.
fn reported_late(play: &mut Play<'_>) -> Result<(), Interrupted> {
    play.add(vec![once("growing", Act::Grow(6_000), 1_000)]);
    let Some(first) = play.await_begin(1)? else { return Ok(()) };
    play.freeze(&first.node, |play| play.await_begin(2).map(|_| ()))
}

/// A worker reports an end long after its run was given to another worker.
fn reported_late_by_a_worker(play: &mut Play<'_>) -> Result<(), Interrupted> {
    play.add(vec![pulled(once("growing", Act::Grow(6_000), 1_000))]);
    let Some(first) = play.await_begin(1)? else { return Ok(()) };
    play.freeze_worker(&first.node, |play| play.await_begin(2).map(|_| ()))
}

/// A node dies while it claims one run after the other; another node goes on.
fn killed_while_claiming(play: &mut Play<'_>) -> Result<(), Interrupted> {
    play.take_away(1);
    let start = Play::soon();
    let at = |number: i64| {
        Job::new(&format!("one-{number}"), Act::Work, 50)
            .due(When::Once(start + number * 60_000))
            .owed()
    };
    play.add((0..25).map(at).collect());
    let Some(third) = play.await_begin(3)? else { return Ok(()) };
    // The slots may all be taken now. After the 50 ms of these runs, the node claims again.
    play.pause(Duration::from_millis(120))?;
    play.kill_until_the_end(&third.node);
    play.bring_back(1);
    play.pause(Duration::from_secs(3))
}

/// A node dies with an at-most-once run; another node goes on.
fn killed_at_most_once(play: &mut Play<'_>) -> Result<(), Interrupted> {
    play.add(vec![Job { is_at_most_once: true, ..once("once", Act::Work, 5_000) }]);
    let Some(first) = play.await_begin(1)? else { return Ok(()) };
    play.kill_until_the_end(&first.node);
    play.pause(Duration::from_secs(9))
}

#[allow(clippy::unnecessary_wraps, reason = "one of several plays, of one form")]
fn longer_than_its_lease(play: &mut Play<'_>) -> Result<(), Interrupted> {
    play.add(vec![once("long", Act::Work, 5_000)]);
    Ok(())
}

fn failing() -> Vec<Job> {
    vec![Job::new("failing", Act::FailFirst(1), 100).due(When::Every { period: 1, anchor: (0, 0) })]
}

fn look_on(play: &mut Play<'_>) -> Result<(), Interrupted> {
    play.pause(Duration::from_secs(5))
}

/// Two jobs that exclude each other, due together.
fn grouped() -> Vec<Job> {
    let sharing = Sharing { group: Some("alone"), ..Sharing::default() };
    let one = |name: &str| Job {
        sharing: sharing.clone(),
        ..Job::new(name, Act::Work, 700).due(When::Seconds(5))
    };
    vec![one("one"), one("other")]
}

/// Three jobs that take turns.
fn turning() -> Vec<Job> {
    let mut jobs = sharing::zoo(&mut Rng::with_seed(1));
    jobs.retain(|job| job.sharing.group == Some("turns"));
    jobs
}

/// A job that nobody asks for. When nodes know it, they know the queues of its file too.
fn by_hand() -> Vec<Job> {
    vec![Job::new("by-hand", Act::Work, 100).due(When::ByHand)]
}

/// Adds more runs than the small node can take at once.
fn add_batch(play: &mut Play<'_>) -> Result<(), Interrupted> {
    play.add(small::batch(0, now() + 3 * SECOND));
    look_on(play)
}

/// Too many jobs at once for their queues.
fn queueing() -> Vec<Job> {
    let of = |queue: &'static str, number: usize| {
        let sharing = Sharing { queue: Some(queue), ..Sharing::default() };
        Job {
            sharing,
            ..Job::new(&format!("{queue}-{number}"), Act::Work, 400).due(When::Seconds(5))
        }
    };
    (0..4)
        .map(|number| of("narrow", number))
        .chain((0..6).map(|number| of("paced", number)))
        .collect()
}

/// A chain of a job that fails, and of two that must not run after it.
fn chained() -> Vec<Job> {
    let mut jobs = chain::zoo(3);
    jobs[0] = Job { retries: 0, act: Act::FailFirst(1), ..jobs[0].clone() };
    jobs
}

fn look_on_long(play: &mut Play<'_>) -> Result<(), Interrupted> {
    play.pause(Duration::from_secs(13))
}

/// Removes a job and adds it again with another definition while a run of it executes. The run
/// fails and is tried again.
fn readd_while_it_executes(play: &mut Play<'_>) -> Result<(), Interrupted> {
    let failing =
        Job { retries: 1, retry_delay: SECOND, ..Job::new("readded", Act::FailFirst(1), 2_500) };
    let when = When::Seconds(10);
    play.add_first(Readded::new(failing.due(when), Place::Api), when)?;
    if play.await_begin(1)?.is_none() {
        return Ok(());
    }
    play.readd(when)?;
    play.pause(Duration::from_secs(6))
}

/// A node whose clock is ahead joins the node that has a run.
fn joined_by_another(play: &mut Play<'_>) -> Result<(), Interrupted> {
    play.take_away(1);
    play.add(vec![Job { overlap: Overlap::Allow, ..once("lone", Act::Work, 6_000) }]);
    play.await_begin(1)?;
    play.bring_back(1);
    play.pause(Duration::from_secs(3))
}

/// The number of mutants that play at the same time. Most of a scene is waiting.
const AT_ONCE: usize = 4;
/// The most times that a scene is played.
const PLAYS: u32 = 3;

/// The result of one mutant.
struct Row {
    name: &'static str,
    rule: &'static str,
    caught: String,
    after: Option<f64>,
    control: String,
}

/// Plays the mutant of this name, or all mutants, and prints a table.
/// Fails if a mutant is not noticed, or if the daemon without a broken rule gives a finding.
pub(crate) fn run(name: Option<&str>, interrupted: &Arc<AtomicBool>) -> Result<ExitCode, Failure> {
    let chosen: Vec<&Mutant> =
        MUTANTS.iter().filter(|mutant| name.is_none_or(|name| name == mutant.name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        return Err(Failure::Test(format!(
            "no mutant {:?}; there are {}",
            name.unwrap_or_default(),
            names.join(", ")
        )));
    }
    let begun = now();
    let next = AtomicUsize::new(0);
    let prove_next = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        chosen.get(at).map(|mutant| prove(mutant, interrupted).map(|row| (at, row)))
    };
    let proofs: Result<Vec<_>, Failure> = std::thread::scope(|scope| {
        let players: Vec<_> = (0..AT_ONCE)
            .map(|_| scope.spawn(|| std::iter::from_fn(prove_next).collect::<Vec<_>>()))
            .collect();
        players.into_iter().flat_map(|player| player.join().unwrap()).collect()
    });
    let mut rows = proofs?;
    rows.sort_by_key(|(at, _)| *at);
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    println!(
        "\n{:<24}| {:<50}| {:<28}| {:>7} | without it",
        "mutant", "rule broken", "caught by", "after s"
    );
    for Row { name, rule, caught, after, control } in &rows {
        let caught = if caught.is_empty() { "NOT CAUGHT" } else { caught };
        let after = after.map_or("-".to_owned(), |after| format!("{after:.1}"));
        let control = if control.is_empty() { "clean" } else { control };
        println!("{name:<24}| {rule:<50}| {caught:<28}| {after:>7} | {control}");
    }
    let is_right = rows.iter().all(|row| row.after.is_some() && row.control.is_empty());
    let (word, took) = (if is_right { "PASS" } else { "FAIL" }, (now() - begun) / SECOND);
    println!("\nchaos: {word} mutants={} seconds={took}", rows.len());
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays a scene twice at the same time: with the broken rule, and without.
fn prove(mutant: &Mutant, interrupted: &Arc<AtomicBool>) -> Result<Row, Failure> {
    let play_once = |word: Option<&'static str>, plays: u32| {
        let dir = tempfile::Builder::new().prefix("schedd-chaos-").tempdir_in("/tmp").unwrap();
        let begun = now();
        let evidence = mutant.scene.play(dir.path(), word, Arc::clone(interrupted))?;
        let findings = check(&evidence);
        if word.is_some() && findings.is_empty() && !evidence.host_lags.is_empty() && plays > 1 {
            return Ok(None);
        }
        let is_as_wanted = findings.is_empty() == word.is_none();
        if !is_as_wanted {
            report::print(&evidence, &findings, begun);
            let kept: PathBuf = dir.keep();
            println!("\nlogs, effects and history are kept in {}", kept.display());
        }
        Ok::<_, Failure>(Some((begun, findings)))
    };
    // The checker excuses what is late while the host is slow. Without a finding, such a play proves
    // nothing, and the scene is played again.
    let play = |word: Option<&'static str>| {
        (1..=PLAYS).rev().find_map(|plays| play_once(word, plays).transpose()).unwrap()
    };
    let (broken, whole) = std::thread::scope(|scope| {
        let whole = scope.spawn(|| play(None));
        let broken = play(Some(mutant.name));
        (broken, whole.join().unwrap())
    });
    let ((begun, findings), (_, of_control)) = (broken?, whole?);
    let is_wanted = |finding: &&Finding| mutant.wanted.contains(&finding.verdict);
    let shown = findings
        .iter()
        .find(is_wanted)
        .map(|finding| format!("\n    {}: {}", finding.verdict, finding.what));
    println!("  {}: {}{}", mutant.name, mutant.rule, shown.unwrap_or_default());
    let after =
        findings.iter().filter(is_wanted).map(|finding| span(finding.at - begun)).reduce(f64::min);
    Ok(Row {
        name: mutant.name,
        rule: mutant.rule,
        caught: report::raised(&findings),
        after,
        control: report::raised(&of_control),
    })
}
