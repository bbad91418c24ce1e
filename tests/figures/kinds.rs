//! What each kind of job costs Redis: adding a job, and the claim and end of its run in a burst. CPU time and commands are those of the
//! Redis server, with the commands inside scripts; bytes are those of its memory.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use redis::Connection;
use serde_json::{Value, json};

use crate::support::daemon::Schedd;
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::until;
use crate::{PATIENCE, add_lines, cpu_seconds, info, memory};

/// The jobs added in the far future, and the jobs due at one moment.
const ADDED: u32 = 10_000;
const DUE: u32 = 2_000;

/// What Redis has used so far.
struct Usage {
    seconds: f64,
    commands: f64,
    bytes: f64,
}

impl Usage {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn of(connection: &mut Connection) -> Self {
        Self {
            seconds: cpu_seconds(connection),
            commands: info(connection, "total_commands_processed:") as f64,
            bytes: memory(connection) as f64,
        }
    }

    /// Returns what was used since `before`, divided by `count`: microseconds, commands, bytes.
    fn each_since(&self, before: &Self, count: u32) -> [f64; 3] {
        let count = f64::from(count);
        [
            (self.seconds - before.seconds) * 1e6 / count,
            (self.commands - before.commands) / count,
            (self.bytes - before.bytes) / count,
        ]
    }
}

/// Prints one line for each kind of job.
pub(crate) fn kinds() {
    let url = format!("http://127.0.0.1:{}/hook", answering());
    let body = r#"{"order":4711,"event":"shipped"}"#;
    let request = json!({"url": url, "method": "POST", "body": body, "headers": {"Content-Type": "application/json"}});
    let kinds: [(&str, Value); 5] = [
        ("a program", json!({"command": ["/bin/true"]})),
        ("a shell line", json!({"shell": "true"})),
        ("a small HTTP request", json!({"http": request})),
        ("a program with a key", json!({"command": ["/bin/true"], "key": "KEY"})),
        ("a recurring program", json!({"command": ["/bin/true"], "cron": "CRON"})),
    ];
    println!(
        "                          add: us  commands  bytes | run: us  commands  bytes  runs/s"
    );
    for (kind, job) in kinds {
        let [us, commands, bytes] = adding(&job);
        let ([run_us, run_commands, run_bytes], rate) = running(&job);
        println!(
            "{kind:<24}  {us:>7.1}  {commands:>8.1}  {bytes:>5.0} | {run_us:>7.1}  {run_commands:>8.1}  {run_bytes:>5.0}  {rate:>6.0}"
        );
    }
}

/// Returns the cost of adding one of many jobs that are due far in the future.
fn adding(job: &Value) -> [f64; 3] {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    // The scripts are loaded by the first call.
    let far = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24);
    add_lines(&redis, &lines(job, "first", 1, far, "0 0 1 1 *"));
    let before = Usage::of(&mut connection);
    add_lines(&redis, &lines(job, "n", ADDED, far, "0 0 1 1 *"));
    Usage::of(&mut connection).each_since(&before, ADDED)
}

/// Returns the cost of a run when many are due at one moment, and the runs a second from due to end.
fn running(job: &Value) -> ([f64; 3], f64) {
    let redis = TestRedis::start();
    let eye = Eye::on(&redis);
    let node = Schedd::on(&redis).start();
    node.wait_for_log("Started.");
    let now = eye.ask(eye.store().now()).unwrap().as_i64();
    // A whole second that leaves enough time for adding, and a schedule with this second only.
    let due = jiff::Timestamp::from_second(now / 1_000 + 10).unwrap();
    let each_minute = format!("{} * * * * *", due.as_second() % 60);
    add_lines(&redis, &lines(job, "n", DUE, due, &each_minute));
    let mut connection = redis.connection();
    let to_wait = due.duration_since(jiff::Timestamp::now()).unsigned_abs();
    std::thread::sleep(to_wait.saturating_sub(Duration::from_millis(200)));
    let before = Usage::of(&mut connection);
    until("all runs have ended", PATIENCE, || {
        let stats = eye.ask(eye.store().read_stats()).unwrap();
        Some(()).filter(|()| stats.totals.get("succeeded") == Some(&u64::from(DUE)))
    });
    let used = Usage::of(&mut connection).each_since(&before, DUE);
    let newest = eye.ask(eye.store().read_history(None, 0, 1)).unwrap().runs.remove(0);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
    let took = (newest.finished_at.unwrap().as_i64() - due.as_millisecond()) as f64 / 1e3;
    (used, f64::from(DUE) / took)
}

/// Returns lines of jobs for `schedctl add --stdin`. A one-shot is due at `at`, a recurring job gets
/// the schedule `cron`, and each key is the key of one job.
fn lines(job: &Value, prefix: &str, count: u32, at: jiff::Timestamp, cron: &str) -> String {
    let mut lines = String::new();
    for number in 0..count {
        let mut job = job.clone();
        let keys = job.as_object_mut().unwrap();
        keys.insert("name".to_owned(), json!(format!("{prefix}{number}")));
        if keys.contains_key("cron") {
            keys.insert("cron".to_owned(), json!(cron));
        } else {
            keys.insert("at".to_owned(), json!(at.to_string()));
        }
        if keys.contains_key("key") {
            keys.insert("key".to_owned(), json!(format!("k{number}")));
        }
        writeln!(lines, "{job}").unwrap();
    }
    lines
}

/// Starts a server that answers each request by 204, and returns its port.
fn answering() -> u16 {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in server.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}

/// Answers the requests of one connection. The requests are so small that each comes in one piece.
fn answer(mut stream: TcpStream) {
    let mut request = [0; 16 * 1024];
    while stream.read(&mut request).is_ok_and(|count| count > 0) {
        if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").is_err() {
            return;
        }
    }
}
