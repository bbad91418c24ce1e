//! Steps of Redis' own clock: F17.
//! The clock is set forward and back, by an hour, a day and five years, while nodes and Redis are
//! killed now and then.
//! A judgement of its own compares the promises about wrong clocks with what jobs did.
//!
//! This test is separate from the other faults.
//! While the clock is wrong, due times are times of that clock, which the reference of the other
//! faults does not know.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::trial::{Ended, Failure, await_jobs};
use crate::evidence::{Attempt, Micros, Reach, RunName, SECOND, now, span};
use crate::stage::{Interrupted, Stage};
use crate::world::adding;
use crate::world::grounds::Grounds;
use crate::world::http_store::HttpStore;
use crate::world::jobs::head;
use crate::{effects, metronome, settle};

const LEASE: Micros = 3 * SECOND;
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// The steps, in seconds.
const STEPS: [i64; 6] = [HOUR, -HOUR, DAY, -DAY, 1_826 * DAY, -1_826 * DAY];
/// The time within which everything works as before, once the clock is right and all nodes are
/// there.
const AGAIN: Micros = 5 * SECOND;
/// The latest start after the due time from then on.
const CLEAN: Micros = SECOND;
/// The time after a step during which a script may still use the former time: it keeps the time at
/// which it began.
const MOMENT: Micros = SECOND / 2;

/// The recurring jobs: name, period in seconds, section in the file.
const JOBS: [(&str, i64, &str); 9] = [
    ("second", 1, "cron = \"* * * * * *\""),
    ("every", 2, "every = \"2s\""),
    ("all", 3, "every = \"3s\"\ncatch_up = { mode = \"all\", max_count = 5 }"),
    ("spread", 2, "every = \"2s\"\ncatch_up = { mode = \"all\", max_count = 20, spread = \"1h\" }"),
    ("keyed", 2, "every = \"2s\"\nkey = \"clocks\""),
    ("turna", 2, "every = \"2s\"\ngroup = \"clocks\""),
    ("turnb", 2, "every = \"2s\"\ngroup = \"clocks\""),
    ("rated", 1, "every = \"1s\"\nqueue = \"clocks\""),
    // The delay counts from the end of the run before.
    ("delay", 0, "delay = \"1s\""),
];

/// An interval in which Redis' clock was `seconds` ahead, and the time until which nodes or Redis
/// were away.
#[derive(Debug, Clone, Copy)]
struct Wrong {
    from: Micros,
    to: Micros,
    seconds: i64,
    all_there: Micros,
    /// True if a node or Redis was killed before the clock was right.
    has_kill: bool,
}

/// The evidence at the end.
struct Seen {
    /// The time from which all jobs were known, and the time of their removal.
    from: Micros,
    to: Micros,
    wrong: Vec<Wrong>,
    /// The killed nodes, each with the time of its death.
    kills: Vec<(String, Micros)>,
    attempts: Vec<Attempt>,
    /// The one-shots that were added, each of which fails once.
    once: Vec<String>,
    host_lags: Vec<(Micros, Micros)>,
    leftovers: Vec<String>,
}

/// Plays one seed and judges it.
pub(crate) fn run(
    seed: u64,
    length: Duration,
    interrupted: Arc<AtomicBool>,
) -> Result<ExitCode, Failure> {
    println!("chaos: seed={seed} steps of Redis' clock for {length:?}");
    self_test();
    let dir = tempfile::Builder::new().prefix("schedd-chaos-").tempdir_in("/tmp").unwrap();
    let evidence = play(dir.path(), seed, length, interrupted)?;
    let findings = judge(&evidence);
    for finding in findings.iter().take(50) {
        println!("{finding}");
    }
    let (attempts, steps) = (evidence.attempts.len(), evidence.wrong.len());
    if findings.is_empty() {
        println!("\nchaos: PASS seed={seed} redis-clock attempts={attempts} steps={steps}");
        return Ok(ExitCode::SUCCESS);
    }
    println!("\nlogs and effects are kept in {}", dir.keep().display());
    println!(
        "\nchaos: FAIL seed={seed} redis-clock attempts={attempts} steps={steps} findings={}",
        findings.len()
    );
    Ok(ExitCode::FAILURE)
}

fn toml(dir: &Path) -> String {
    let mut text = head(dir, LEASE);
    text += "[queues.clocks]\nrate = \"2/1s\"\n[groups.clocks]\nmode = \"alternate\"\norder = [\"turna\", \"turnb\"]\nturn_timeout = \"5s\"\n";
    for (name, _, section) in JOBS {
        let command = json!(["bash", dir.join("job.bash"), dir, "work", "30"]);
        writeln!(text, "[jobs.{name}]\n{section}\ncommand = {command}").unwrap();
    }
    text
}

fn play(
    dir: &Path,
    seed: u64,
    length: Duration,
    interrupted: Arc<AtomicBool>,
) -> Result<Seen, Failure> {
    let store = HttpStore::start();
    let mut rng = Rng::with_seed(seed);
    let grounds = Grounds::plain(dir, store.address(), 3);
    let stage = Stage::set(grounds, &toml(dir), None, interrupted);
    let from = await_jobs(&stage, JOBS.len())?;
    std::thread::scope(|scope| {
        let metronome = scope.spawn(|| metronome::tick(&stage));
        let ended = Ended(&stage);
        let (mut wrong, mut kills, mut once) = (Vec::new(), Vec::new(), Vec::new());
        let mut left = Vec::new();
        let end = Instant::now() + length;
        loop {
            // Some of these jobs are due while the clock is right, and some while it is wrong.
            once.extend(add_once(&stage, once.len()));
            stage.pause(Duration::from_millis(rng.u64(2_000..6_000)))?;
            once.extend(add_once(&stage, once.len()));
            if Instant::now() >= end {
                break;
            }
            if left.is_empty() {
                left = STEPS.to_vec();
                rng.shuffle(&mut left);
            }
            wrong.extend(step(&stage, &mut rng, left.pop().unwrap_or(DAY), &mut kills)?);
            stage.pause(Duration::from_micros((AGAIN + 2 * SECOND).unsigned_abs()))?;
        }
        stage.pause(Duration::from_secs(8))?;
        let to = now();
        let mut leftovers = settle::findings_of_doctor(&stage);
        settle::stop_recurring(&stage, LEASE)?;
        leftovers.extend(settle::await_owed(&stage, settle::OWED)?);
        let (crashes, more) = settle::stop_nodes(&stage)?;
        leftovers.extend(crashes.into_iter().chain(more));
        drop(ended);
        let attempts = effects::so_far(dir);
        Ok(Seen {
            from,
            to,
            wrong,
            kills,
            attempts,
            once,
            host_lags: metronome.join().unwrap(),
            leftovers,
        })
    })
}

/// Sets the clock wrong for a while, sometimes twice, and sometimes kills a node or Redis
/// meanwhile.
fn step(
    stage: &Stage,
    rng: &mut Rng,
    seconds: i64,
    kills: &mut Vec<(String, Micros)>,
) -> Result<Vec<Wrong>, Interrupted> {
    let mut steps = vec![seconds];
    if rng.u32(..4) == 0 {
        steps.push(STEPS[rng.usize(..STEPS.len())]);
    }
    let (node, is_killed, is_restarted) =
        (&stage.nodes()[rng.usize(..3)], rng.u32(..3) == 0, rng.u32(..3) == 0);
    let mut wrong = Vec::new();
    for seconds in steps {
        println!("  F17 the clock of Redis {seconds:+} s");
        let from = now();
        stage.redis().set_clock(seconds);
        stage.pause(Duration::from_millis(rng.u64(1_000..5_000)))?;
        wrong.push(Wrong {
            from,
            to: now(),
            seconds,
            all_there: 0,
            has_kill: is_killed || is_restarted,
        });
    }
    if is_killed {
        println!("      kill -9 of {}", node.name);
        node.hold();
        let mut daemon = node.daemon();
        daemon.signal_if_alive(Signal::KILL);
        daemon.wait_exit();
        kills.push((node.name.clone(), now()));
    }
    if is_restarted {
        println!("      kill -9 of Redis");
        stage.redis().kill9();
    }
    stage.redis().set_clock(0);
    if is_restarted {
        stage.redis().restart();
    }
    node.start_again(stage.dir());
    // A run of a killed node is taken back after the end of its lease.
    // On a restarted Redis a node waits a moment before it claims.
    let lost =
        if is_killed { LEASE + 3 * SECOND } else { 0 } + if is_restarted { 3 * SECOND } else { 0 };
    let right = now();
    for wrong in &mut wrong {
        wrong.all_there = right + lost;
    }
    if let Some(last) = wrong.last_mut() {
        last.to = right;
    }
    Ok(wrong)
}

/// Adds five one-shots that are due within five seconds and fail once. Returns the names that were
/// acknowledged.
fn add_once(stage: &Stage, number: usize) -> Vec<String> {
    let command =
        json!(["bash", stage.dir().join("job.bash"), stage.dir(), "fail-first", "30", "1"]);
    let line = |place: usize| {
        json!({"name": format!("once-{}", number + place), "in": format!("{}s", 1 + place), "command": command,
            "retry": {"limit": 5, "delay": "2s", "backoff": "fixed", "jitter": false}})
    };
    adding::add_lines(stage, &(0..5).map(line).collect::<Vec<Value>>())
}

/// Returns a finding for each broken promise.
fn judge(seen: &Seen) -> Vec<String> {
    let mut findings: Vec<String> =
        seen.leftovers.iter().map(|left| format!("LEAK {left}")).collect();
    let mut of_run: BTreeMap<&str, Vec<&Attempt>> = BTreeMap::new();
    for attempt in &seen.attempts {
        of_run.entry(&attempt.run.id).or_default().push(attempt);
        let by_redis = |at: Micros| {
            seen.wrong
                .iter()
                .find(|wrong| (wrong.from..wrong.to).contains(&at))
                .map_or(0, |wrong| wrong.seconds)
        };
        let may_be =
            [attempt.began - MOMENT, attempt.began].map(|at| attempt.began + by_redis(at) * SECOND);
        // A run that was claimed while the clock was ahead goes on when the clock is right, which may
        // be before its due time: it failed, or its claim got no answer because of a kill.
        let was_due_then = |wrong: &Wrong| {
            wrong.to <= attempt.began && wrong.to + wrong.seconds * SECOND >= attempt.run.due
        };
        let may_go_on = attempt.number > 1
            || seen.wrong.iter().any(|wrong| wrong.has_kill && was_due_then(wrong));
        if !may_go_on && may_be.iter().all(|at| *at < attempt.run.due) {
            findings.push(format!("EARLY {attempt}"));
        }
    }
    for attempts in of_run.values() {
        for pair in attempts.windows(2) {
            // A killed node may not have reported the end of its run.
            let is_lost = |(node, at): &(String, Micros)| {
                *node == pair[0].node && (0..SECOND).contains(&(at - pair[0].last_sign))
            };
            let is_done = pair[0].is_done() && !seen.kills.iter().any(is_lost);
            if is_done || pair[1].number < pair[0].number {
                findings.push(format!("DUP {}, then {}", pair[0], pair[1]));
            }
            if pair[1].began < pair[0].last_sign {
                findings.push(format!("OVERLAP {}, then {}", pair[0], pair[1]));
            }
        }
    }
    for name in &seen.once {
        let done = seen
            .attempts
            .iter()
            .filter(|attempt| attempt.run.job == *name && attempt.is_done())
            .count();
        if done != 1 {
            findings.push(format!("MISSING {name} was done {done} times"));
        }
    }
    for (from, to) in right_times(seen) {
        for (job, period, _) in JOBS {
            findings.extend(in_right_time(seen, job, period * SECOND, from, to));
        }
    }
    findings
}

/// Returns the intervals in which the clock was right, each from the time when everything must work
/// as before.
fn right_times(seen: &Seen) -> Vec<(Micros, Micros)> {
    let mut times = Vec::new();
    let mut from = seen.from + AGAIN;
    for wrong in &seen.wrong {
        times.push((from, wrong.from));
        from = wrong.to.max(wrong.all_there) + AGAIN;
    }
    times.push((from, seen.to));
    times.retain(|(from, to)| to - from > 3 * SECOND);
    times
}

/// Returns what is wrong with a job in an interval in which the clock was right.
/// A due time has no start or a late start, or no due time came for longer than the period.
/// For the job with a delay it is the time from an end to the next start.
fn in_right_time(
    seen: &Seen,
    job: &str,
    period: Micros,
    from: Micros,
    to: Micros,
) -> Option<String> {
    let lag: Micros = seen
        .host_lags
        .iter()
        .filter(|(at, _)| (from - SECOND..to + SECOND).contains(at))
        .map(|(_, lag)| *lag)
        .max()
        .unwrap_or(0);
    // A member of a group waits for the other member's turn.
    let slack = CLEAN + lag + if job.starts_with("turn") { SECOND } else { 0 };
    let begun = seen.attempts.iter().filter(|attempt| attempt.run.job == job);
    let begun: Vec<&Attempt> =
        begun.filter(|attempt| (from - period - slack..to).contains(&attempt.began)).collect();
    if period == 0 {
        let mut last = from;
        for at in begun.iter().map(|attempt| attempt.began).chain([to]) {
            if at - last > 2 * SECOND + slack {
                return Some(format!(
                    "LATE {job}: nothing began between {} and {}",
                    at_second(last),
                    at_second(at)
                ));
            }
            last = last.max(at);
        }
        return None;
    }
    let dues: Vec<Micros> = begun
        .iter()
        .map(|attempt| attempt.run.due)
        .filter(|due| (from - period..to).contains(due))
        .collect();
    let first = dues.iter().min().copied().unwrap_or(to);
    if first - from > period {
        return Some(format!(
            "MISSING {job}: nothing began that was due between {} and {}",
            at_second(from),
            at_second(first)
        ));
    }
    let mut due = first;
    while due < to - slack {
        match begun.iter().find(|attempt| attempt.run.due == due) {
            None => {
                return Some(format!(
                    "MISSING {job}: what was due at {} did not begin",
                    at_second(due)
                ));
            }
            Some(attempt) if due >= from && attempt.began - due > slack => {
                return Some(format!("LATE {attempt}"));
            }
            Some(_) => due += period,
        }
    }
    None
}

fn at_second(at: Micros) -> String {
    format!("{:.3}", span(at))
}

/// A change that breaks a sound history.
type Harm<'a> = &'a dyn Fn(&mut Seen);

/// Judges one sound history, which must give no finding, and broken histories, which must each give
/// their finding.
fn self_test() {
    let attempt = |job: &str, due: i64, began: i64, number: u32, code: Option<i32>| {
        let run = RunName::parse(&format!("{job}@{}", due * 1_000)).unwrap();
        let began = began * SECOND + SECOND / 100;
        let (fence, ended) =
            (u64::try_from(began).unwrap(), code.map(|code| (began + 30_000, code)));
        Attempt {
            run,
            number,
            fence,
            node: String::new(),
            pid: 1,
            began,
            last_sign: began + 30_000,
            ended,
            reach: Reach::Process,
            version: None,
        }
    };
    let wrong = Wrong {
        from: 20 * SECOND,
        to: 25 * SECOND,
        seconds: HOUR,
        all_there: 25 * SECOND,
        has_kill: false,
    };
    let sound = || {
        let mut attempts = Vec::new();
        for (job, period, _) in JOBS {
            let step = usize::try_from(period.max(1)).unwrap();
            attempts.extend(
                (0..20)
                    .chain(25..50)
                    .step_by(step)
                    .map(|second| attempt(job, second, second, 1, Some(0))),
            );
            attempts.push(attempt(job, 22 + HOUR, 22, 1, Some(0)));
        }
        // The periods of this job begin anew after the step.
        attempts.retain(|one| {
            !(one.run.job == "all" && one.run.due > 24 * SECOND && one.run.due < HOUR * SECOND)
        });
        attempts
            .extend((27..50).step_by(3).map(|second| attempt("all", second, second, 1, Some(0))));
        attempts.push(attempt("once-0", 30, 30, 1, Some(1)));
        attempts.push(attempt("once-0", 30, 33, 2, Some(0)));
        attempts.sort_by_key(|attempt| attempt.began);
        let once = vec!["once-0".to_owned()];
        Seen {
            from: 0,
            to: 49 * SECOND,
            wrong: vec![wrong],
            kills: Vec::new(),
            attempts,
            once,
            host_lags: Vec::new(),
            leftovers: Vec::new(),
        }
    };
    assert_eq!(judge(&sound()), Vec::<String>::new(), "a sound history is judged sound");
    let mut claimed_ahead = sound();
    claimed_ahead.wrong[0].has_kill = true;
    claimed_ahead.attempts.push(attempt("every", 24 + HOUR, 45, 1, Some(0)));
    assert_eq!(
        judge(&claimed_ahead),
        Vec::<String>::new(),
        "a run claimed before the kill goes on"
    );
    let broken: [(&str, Harm<'_>); 7] = [
        ("MISSING second", &|seen| {
            seen.attempts.retain(|one| one.run.job != "second" || one.run.due != 40 * SECOND)
        }),
        ("MISSING every", &|seen| {
            seen.attempts.retain(|one| one.run.job != "every" || one.began < 25 * SECOND)
        }),
        ("LATE delay", &|seen| {
            seen.attempts.retain(|one| one.run.job != "delay" || one.began < 31 * SECOND)
        }),
        ("EARLY", &|seen| seen.attempts.push(attempt("every", 60, 45, 1, Some(0)))),
        ("EARLY", &|seen| {
            seen.wrong[0].has_kill = true;
            seen.attempts.push(attempt("every", 26 + HOUR, 45, 1, Some(0)));
        }),
        ("DUP", &|seen| seen.attempts.push(attempt("every", 45, 48, 2, Some(0)))),
        ("MISSING once-0", &|seen| {
            seen.attempts.retain(|one| one.run.job != "once-0" || one.number == 1)
        }),
    ];
    for (word, harm) in broken {
        let mut seen = sound();
        harm(&mut seen);
        let found = judge(&seen);
        assert!(found.iter().any(|finding| finding.starts_with(word)), "{word}: {found:?}");
    }
}
