//! The floor: what Redis, the sockets or the kernel need at least for the work of a workload.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::process::Command;
use std::time::Instant;

use redis::Connection;

use super::sink::BODY;
use super::workload::{
    ADDED, BETWEEN, PROCESSES, REQUESTS, SINGLE_ROWS, TIMED, each, rate, sleep_until, soon,
};
use super::{Bench, Figures};
use crate::handlers::{BURST, SINGLES};
use crate::{cpu_seconds, memory};

/// Jobs in one call.
const BATCH: usize = 1_000;
/// Connections to the HTTP server.
const CONNECTIONS: usize = 32;
/// Threads that start processes.
const SPAWNERS: usize = 2;

/// Writes jobs, `batch` in a call: a ZADD of ids and an HSET of payloads of 80 bytes.
fn write_jobs(connection: &mut Connection, numbers: Range<usize>, batch: usize) -> Vec<String> {
    let ids: Vec<String> = numbers.map(|number| format!("{number:026}")).collect();
    let payload = "x".repeat(80);
    for batch in ids.chunks(batch) {
        let (mut due, mut jobs) = (redis::cmd("ZADD"), redis::cmd("HSET"));
        due.arg("due");
        jobs.arg("jobs");
        for id in batch {
            due.arg(1_800_000_000_000_u64).arg(id);
            jobs.arg(id).arg(&payload);
        }
        let () = redis::pipe().add_command(due).add_command(jobs).query(connection).unwrap();
    }
    ids
}

/// Writes the jobs of `add`.
pub(super) fn add(bench: &Bench) -> Figures {
    let redis = bench.redis();
    let mut connection = redis.connection();
    let (cpu, before, started) =
        (cpu_seconds(&mut connection), memory(&mut connection), Instant::now());
    write_jobs(&mut connection, 0..ADDED, BATCH);
    let took = started.elapsed();
    let cpu = cpu_seconds(&mut connection) - cpu;
    #[expect(clippy::cast_precision_loss, reason = "bytes")]
    let used = (memory(&mut connection) - before) as f64;
    vec![
        ("add.rate", rate(ADDED, took)),
        ("add.us", each(cpu * 1e6, ADDED)),
        ("add.bytes", each(used, ADDED)),
    ]
}

/// Writes the jobs of `single`, with a connection for each caller.
pub(super) fn single(bench: &Bench) -> Figures {
    let rates = SINGLES.map(|(callers, count)| {
        let redis = bench.redis();
        let connections: Vec<Connection> = (0..callers).map(|_| redis.connection()).collect();
        let share = count / callers;
        let started = Instant::now();
        std::thread::scope(|scope| {
            for (caller, mut connection) in connections.into_iter().enumerate() {
                let first = caller * share;
                scope.spawn(move || write_jobs(&mut connection, first..first + share, 1));
            }
        });
        rate(count, started.elapsed())
    });
    SINGLE_ROWS.into_iter().zip(rates).collect()
}

/// Claims and ends the jobs of `handlers`.
pub(super) fn handlers(bench: &Bench) -> Figures {
    let (rate, us) = claim_and_end(bench, BURST);
    vec![("handlers.rate", rate), ("handlers.us", us)]
}

/// Claims and ends jobs in batches, with a sorted set as the leases. Returns the jobs a second, and the Redis time of each in
/// microseconds.
fn claim_and_end(bench: &Bench, count: usize) -> (f64, f64) {
    let redis = bench.redis();
    let mut connection = redis.connection();
    let ids = write_jobs(&mut connection, 0..count, BATCH);
    let (cpu, started) = (cpu_seconds(&mut connection), Instant::now());
    for batch in ids.chunks(BATCH) {
        let mut leases = redis::cmd("ZADD");
        leases.arg("leases");
        for id in batch {
            leases.arg(1_800_000_000_000_u64).arg(id);
        }
        let mut claim = redis::pipe();
        claim
            .cmd("ZRANGE")
            .arg(&["due", "0", "999"])
            .ignore()
            .cmd("ZREM")
            .arg("due")
            .arg(batch)
            .ignore();
        claim.add_command(leases).ignore().cmd("HMGET").arg("jobs").arg(batch).ignore();
        let () = claim.query(&mut connection).unwrap();
        let mut end = redis::pipe();
        end.cmd("ZREM")
            .arg("leases")
            .arg(batch)
            .ignore()
            .cmd("HDEL")
            .arg("jobs")
            .arg(batch)
            .ignore();
        let () = end.query(&mut connection).unwrap();
    }
    let rate = rate(count, started.elapsed());
    (rate, each((cpu_seconds(&mut connection) - cpu) * 1e6, count))
}

/// Sends the requests of `http` through connections that stay open.
pub(super) fn http(bench: &Bench) -> Figures {
    bench.sink.take();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut client = Client::of(bench);
                (0..REQUESTS / CONNECTIONS).for_each(|_| client.post(soon(0)));
            });
        }
    });
    let sent = bench.sink.take().len();
    let rate = rate(sent, started.elapsed());
    vec![("http.rate", rate), ("http.us", claim_and_end(bench, REQUESTS).1)]
}

/// Starts the processes of `true` from two threads. The standard library uses `posix_spawn`.
pub(super) fn program(bench: &Bench) -> Figures {
    let rate = spawn_rate(|| Command::new("/bin/true"));
    vec![("true.rate", rate), ("true.us", claim_and_end(bench, PROCESSES).1)]
}

/// Starts the shells of `shell` from two threads.
pub(super) fn shell(_: &Bench) -> Figures {
    let shell = || {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "/bin/true"]);
        command
    };
    vec![("shell.rate", spawn_rate(shell))]
}

fn spawn_rate(command: impl Fn() -> Command + Sync) -> f64 {
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..SPAWNERS {
            scope.spawn(|| {
                let mut command = command();
                (0..PROCESSES / SPAWNERS)
                    .for_each(|_| assert!(command.status().unwrap().success()));
            });
        }
    });
    rate(PROCESSES, started.elapsed())
}

/// Sleeps until each job of `lateness` is due, claims it, and sends its request.
pub(super) fn lateness(bench: &Bench) -> Figures {
    let redis = bench.redis();
    let mut connection = redis.connection();
    let ids = write_jobs(&mut connection, 0..TIMED, BATCH);
    let mut client = Client::of(bench);
    bench.sink.take();
    let mut due = soon(500);
    for id in ids {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
        sleep_until(due as f64);
        let () = redis::cmd("ZREM").arg("due").arg(id).query(&mut connection).unwrap();
        client.post(due);
        due += BETWEEN;
    }
    bench.sink.take().into_iter().map(|late| ("late", late)).collect()
}

/// A connection to the HTTP server.
struct Client {
    stream: TcpStream,
    port: u16,
}

impl Client {
    fn of(bench: &Bench) -> Self {
        let port = bench.sink.port;
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, port }
    }

    /// Sends a request that was due at `due`, and waits for the answer, which comes in one piece.
    fn post(&mut self, due: i64) {
        let (port, length) = (self.port, BODY.len());
        let head = format!(
            "POST /{due} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        );
        let request = format!("{head}Content-Length: {length}\r\n\r\n{BODY}");
        self.stream.write_all(request.as_bytes()).unwrap();
        assert!(self.stream.read(&mut [0; 256]).unwrap() > 0);
    }
}
