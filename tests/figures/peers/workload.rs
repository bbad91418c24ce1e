//! The workloads: what each system does, and which rows of the table come from that.

use std::time::{Duration, Instant, SystemTime};

use schedd::Client;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::sink::{BODY, milliseconds, now};
use super::system::{Job, System, Worker};
use super::{Bench, Figures, first_worker, floor};
use crate::handlers::{BURST, Counter, SINGLES, add_burst, add_one_by_one};
use crate::support::redis::TestRedis;
use crate::support::wait::until;
use crate::{PATIENCE, cpu_seconds, info, memory};

/// A workload, and what stands for it without a scheduler.
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) measure: fn(&Bench, System) -> Figures,
    pub(super) floor: Option<fn(&Bench) -> Figures>,
    pub(super) is_repeated: bool,
}

pub(super) const WORKLOADS: [Workload; 10] = [
    Workload { name: "add", measure: add, floor: Some(floor::add), is_repeated: true },
    Workload { name: "single", measure: single, floor: Some(floor::single), is_repeated: true },
    Workload {
        name: "handlers",
        measure: handlers,
        floor: Some(floor::handlers),
        is_repeated: true,
    },
    Workload { name: "http", measure: http, floor: Some(floor::http), is_repeated: true },
    Workload { name: "true", measure: program, floor: Some(floor::program), is_repeated: true },
    Workload { name: "shell", measure: shell, floor: Some(floor::shell), is_repeated: true },
    Workload {
        name: "lateness",
        measure: lateness,
        floor: Some(floor::lateness),
        is_repeated: true,
    },
    Workload { name: "waiting", measure: waiting, floor: None, is_repeated: false },
    Workload { name: "million", measure: million, floor: None, is_repeated: false },
    Workload { name: "first", measure: first_worker::first, floor: None, is_repeated: false },
];

/// Jobs of the workloads.
pub(super) const ADDED: usize = 20_000;
pub(super) const REQUESTS: usize = 5_000;
pub(super) const PROCESSES: usize = 2_000;
pub(super) const TIMED: usize = 100;
const DUE: usize = 1_000;
/// The rows of [`SINGLES`].
pub(super) const SINGLE_ROWS: [&str; 2] = ["single.one", "single.many"];
const HUNDRED_THOUSAND: usize = 100_000;
const MILLION: usize = 1_000_000;

/// The milliseconds between two jobs of `lateness`.
pub(super) const BETWEEN: i64 = 100;
/// The milliseconds before due from which the Redis time of a run counts.
const BEFORE_DUE: f64 = 200.0;

#[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
pub(super) fn soon(lead: i64) -> i64 {
    now() as i64 + lead
}

pub(super) fn sleep_until(at: f64) {
    std::thread::sleep(Duration::from_secs_f64((at - now()).max(0.0) / 1e3));
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(super) fn each(total: f64, count: usize) -> f64 {
    total / count as f64
}

fn command(_: &Bench, _: i64) -> Value {
    json!({"command": ["/bin/true"]})
}

fn line(_: &Bench, _: i64) -> Value {
    json!({"shell": "/bin/true"})
}

/// A handler that does nothing. The workers of peers report when so many have run.
fn handler(_: &Bench, _: i64) -> Value {
    json!(BURST)
}

fn request(bench: &Bench, at: i64) -> Value {
    let headers = json!({"Content-Type": "application/json"});
    json!({"http": {"url": bench.sink.url(at), "method": "POST", "body": BODY, "headers": headers}})
}

/// Returns how many there were in a second.
pub(super) fn rate(count: usize, took: Duration) -> f64 {
    1.0 / each(took.as_secs_f64(), count)
}

type Action = fn(&Bench, i64) -> Value;

/// Returns jobs, the first due at `from` and each other `step` milliseconds after the one before.
fn jobs(bench: &Bench, count: usize, from: i64, step: i64, action: Action) -> Vec<Job> {
    let times = (0..i64::try_from(count).unwrap()).map(|number| from + number * step);
    times.map(|at| Job { at, action: action(bench, at) }).collect()
}

/// Jobs far in the future, with a program and with a request: the rate of adding, and what they cost Redis.
fn add(bench: &Bench, system: System) -> Figures {
    let mut figures = Vec::new();
    let kinds = [(command as Action, ADDED, "add.bytes"), (request, REQUESTS, "add.http_bytes")];
    for (action, count, bytes) in kinds {
        let redis = bench.redis();
        let mut connection = redis.connection();
        let far = soon(86_400_000);
        // The first call loads scripts.
        system.add(&redis, "first", &jobs(bench, 1, far, 1_000, action));
        let (cpu, before) = (cpu_seconds(&mut connection), memory(&mut connection));
        let took = system.add(&redis, "n", &jobs(bench, count, far, 1_000, action));
        let cpu = cpu_seconds(&mut connection) - cpu;
        #[expect(clippy::cast_precision_loss, reason = "bytes")]
        let used = (memory(&mut connection) - before) as f64;
        figures.push((bytes, each(used, count)));
        if bytes == "add.bytes" {
            figures.extend([("add.rate", rate(count, took)), ("add.us", each(cpu * 1e6, count))]);
        }
    }
    figures
}

/// Jobs far in the future, each awaited before the next of its caller.
fn single(bench: &Bench, system: System) -> Figures {
    let rates = SINGLES.map(|(callers, count)| {
        let redis = bench.redis();
        if system == System::Schedd {
            return Runtime::new().unwrap().block_on(async {
                let client = Client::connect(&redis.url()).await.unwrap();
                add_one_by_one(&client, callers, count).await
            });
        }
        let jobs = jobs(bench, count, soon(86_400_000), 1_000, handler);
        rate(count, system.add_by_peer(&redis, Some(callers), &jobs))
    });
    SINGLE_ROWS.into_iter().zip(rates).collect()
}

/// Waits for the last of `count` jobs due at one moment, which `last` returns in milliseconds since 1970. Returns the jobs a second
/// from due, and the Redis time of each in microseconds.
fn from_due(redis: &TestRedis, due: i64, count: usize, last: impl FnOnce() -> f64) -> (f64, f64) {
    let mut connection = redis.connection();
    #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
    let from = due as f64;
    assert!(now() < from - BEFORE_DUE, "the jobs were added too slowly");
    sleep_until(from - BEFORE_DUE);
    let cpu = cpu_seconds(&mut connection);
    let took = last() - from;
    // The last ends get into Redis.
    std::thread::sleep(Duration::from_millis(500));
    (1e3 / each(took, count), each((cpu_seconds(&mut connection) - cpu) * 1e6, count))
}

/// Adds jobs due at one moment and waits for the last. Returns what [`from_due`] returns.
fn burst(
    bench: &Bench,
    system: System,
    redis: &TestRedis,
    worker: &Worker,
    burst: (&str, usize, Action),
) -> (f64, f64) {
    let (prefix, count, action) = burst;
    let due = soon(system.lead(count));
    bench.sink.take();
    system.add(redis, prefix, &jobs(bench, count, due, 0, action));
    from_due(redis, due, count, || {
        if action(bench, due).get("http").is_some() {
            until("all requests have arrived", PATIENCE, || {
                (bench.sink.count() >= count).then_some(())
            });
            #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
            return due as f64 + bench.sink.take()[count - 1];
        }
        // Handlers are counted by the peer's worker, which reports only the last.
        let reports = if action(bench, due).is_number() { 1 } else { count };
        until("all jobs have ended", PATIENCE, || {
            // Asking costs Redis time too, so it is rare.
            std::thread::sleep(Duration::from_millis(240));
            worker.last_end(reports)
        })
    })
}

/// Does a burst with a Redis and a worker of its own.
fn alone(bench: &Bench, system: System, count: usize, action: Action) -> (f64, f64) {
    let redis = bench.redis();
    let mode = if action(bench, 0).is_number() { "handle" } else { "work" };
    let worker = system.start(&redis, mode);
    burst(bench, system, &redis, &worker, ("n", count, action))
}

/// Handlers that do nothing, all due at one moment. That of schedd is in this program, by the library.
fn handlers(bench: &Bench, system: System) -> Figures {
    let (rate, us) = if system == System::Schedd {
        burst_of_library(bench)
    } else {
        alone(bench, system, BURST, handler)
    };
    vec![("handlers.rate", rate), ("handlers.us", us)]
}

fn burst_of_library(bench: &Bench) -> (f64, f64) {
    let (redis, runtime) = (bench.redis(), Runtime::new().unwrap());
    let client = runtime.block_on(Client::connect(&redis.url())).unwrap();
    let counter = runtime.block_on(Counter::start(&client));
    let due = soon(System::Schedd.lead(BURST));
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(due.unsigned_abs());
    runtime.block_on(add_burst(&client, at));
    from_due(&redis, due, BURST, || milliseconds(runtime.block_on(counter.last())))
}

fn http(bench: &Bench, system: System) -> Figures {
    let (rate, us) = alone(bench, system, REQUESTS, request);
    vec![("http.rate", rate), ("http.us", us)]
}

fn program(bench: &Bench, system: System) -> Figures {
    let (rate, us) = alone(bench, system, PROCESSES, command);
    vec![("true.rate", rate), ("true.us", us)]
}

fn shell(bench: &Bench, system: System) -> Figures {
    vec![("shell.rate", alone(bench, system, PROCESSES, line).0)]
}

/// Requests at ten a second: the time from due to the arrival of the request.
fn lateness(bench: &Bench, system: System) -> Figures {
    let redis = bench.redis();
    let _worker = system.start(&redis, "work");
    bench.sink.take();
    system.add(&redis, "n", &jobs(bench, TIMED, soon(system.lead(TIMED)), BETWEEN, request));
    until("all requests have arrived", PATIENCE, || (bench.sink.count() >= TIMED).then_some(()));
    bench.sink.take().into_iter().map(|late| ("late", late)).collect()
}

/// Jobs due at one moment while none and while 100,000 others wait, and a worker with nothing due.
fn waiting(bench: &Bench, system: System) -> Figures {
    let mut figures = beside(bench, system, 0, "due.0", None);
    figures.extend(beside(
        bench,
        system,
        HUNDRED_THOUSAND,
        "due.100000",
        Some(["idle.after", "idle.commands", "idle.cpu", "idle.rss"]),
    ));
    figures
}

/// The same with a million others. Celery is left out: its worker keeps each of them in memory.
fn million(bench: &Bench, system: System) -> Figures {
    if system == System::Celery {
        return Vec::new();
    }
    let idle =
        ["idle.million.after", "idle.million.commands", "idle.million.cpu", "idle.million.rss"];
    beside(bench, system, MILLION, "due.1000000", Some(idle))
}

/// Measures a worker beside `others` that wait: first with nothing due, then bursts of requests.
fn beside(
    bench: &Bench,
    system: System,
    others: usize,
    row: &'static str,
    idle: Option<[&'static str; 4]>,
) -> Figures {
    let redis = bench.redis();
    for first in (0..others).step_by(HUNDRED_THOUSAND) {
        let others = jobs(bench, HUNDRED_THOUSAND, soon(86_400_000), 100, command);
        system.add(&redis, &format!("others{first}x"), &others);
    }
    let worker = system.start(&redis, "work");
    let mut figures = Vec::new();
    if let Some(rows) = idle {
        let values = idle_usage(&redis, &worker);
        figures.extend(rows.into_iter().zip(values));
    }
    for run in 0..bench.runs {
        let (rate, _) =
            burst(bench, system, &redis, &worker, (&format!("due{run}x"), DUE, request));
        figures.push((row, rate));
    }
    figures
}

/// Returns the seconds until a new worker is idle, and what it costs then: Redis commands a second with those inside scripts, % of a
/// CPU, and resident MiB.
fn idle_usage(redis: &TestRedis, worker: &Worker) -> [f64; 4] {
    /// A worker is idle after so many windows of 5 s below these commands a second and % of a CPU. The bench waits no longer than this.
    const IDLE: [f64; 2] = [200.0, 5.0];
    const QUIET: usize = 4;
    const LONGEST: Duration = Duration::from_secs(150);
    let started = Instant::now();
    let (mut since, mut quiet) = (Duration::ZERO, 0);
    while quiet < QUIET && started.elapsed() < LONGEST {
        let [commands, cpu, _] = used_in(Duration::from_secs(5), redis, worker);
        quiet = if commands < IDLE[0] && cpu < IDLE[1] { quiet + 1 } else { 0 };
        if quiet == 0 {
            since = started.elapsed();
        }
    }
    let [commands, cpu, mib] = used_in(Duration::from_secs(20), redis, worker);
    [since.as_secs_f64(), commands, cpu, mib]
}

/// Returns the Redis commands a second and % of a CPU in a window of time, and the resident MiB at its end.
fn used_in(window: Duration, redis: &TestRedis, worker: &Worker) -> [f64; 3] {
    let mut connection = redis.connection();
    let mut used = || (info(&mut connection, "total_commands_processed:"), worker.usage());
    let (commands, (ticks, _)) = used();
    std::thread::sleep(window);
    let (commands_after, (ticks_after, kib)) = used();
    // One INFO of the bench lies in between.
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let [commands, ticks, kib] =
        [commands_after - commands - 1, ticks_after - ticks, kib].map(|count| count as f64);
    [commands / window.as_secs_f64(), ticks / window.as_secs_f64(), kib / 1024.0]
}
