//! Workers over HTTP, one client with one connection: runs a second in batches and one by one, the time from due to
//! the answer of a waiting question, and what waiting questions cost Redis and the node.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::api::start;
use super::http_probe::{HttpAnswer, HttpProbe};
use super::support::redis::TestRedis;
use super::{add_lines, info, percentile, usage};

const BURST: usize = 20_000;
const BATCH: usize = 100;
const SINGLES: usize = 500;
const WAKES: usize = 30;
/// The number of questions that wait at once, if this process and the node may open so many files.
const WAITING: usize = 10_000;
/// The time after which a node has done what follows its start and each question.
const CALM: Duration = Duration::from_secs(15);
/// The time over which the commands of waiting workers are counted.
const COUNTED: Duration = Duration::from_secs(10);

/// Prints the figures of workers.
pub(crate) fn workers() {
    waiting();
    let redis = TestRedis::start();
    let dir = tempfile::tempdir().unwrap();
    let (_node, probe) = start(&redis, dir.path());
    burst(&redis, &probe);
    singles(&redis, &probe);
    wakes(&probe);
}

fn add(redis: &TestRedis, name: &str, count: usize) {
    let mut lines = String::new();
    for number in 0..count {
        writeln!(
            lines,
            r#"{{"name":"{name}{number}","in":"0s","handler":"noop","payload":{{"to":"ann@example.org"}}}}"#
        )
        .unwrap();
    }
    add_lines(redis, &lines);
}

/// A client that keeps its connection.
struct Client<'p> {
    probe: &'p HttpProbe,
    stream: TcpStream,
}

impl<'p> Client<'p> {
    fn of(probe: &'p HttpProbe) -> Self {
        Self { probe, stream: probe.connect() }
    }

    fn post(&mut self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let length = body.len().to_string();
        let headers = [("Content-Type", "application/json"), ("Content-Length", &*length)];
        let head = self.probe.head("admin", "POST", path, &headers);
        let head = head.replace("Connection: close\r\n", "");
        self.stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        HttpAnswer::read(&self.stream).of(200)
    }
}

fn question(id: &str, most: usize, wait_ms: u64) -> Value {
    json!({"claim_id": id, "worker": {"name": "w"}, "max": most, "wait_ms": wait_ms})
}

/// Claims and completes `count` runs, at most `most` with each request. Returns runs a second.
fn claimed_and_completed(probe: &HttpProbe, name: &str, count: usize, most: usize) -> f64 {
    let mut client = Client::of(probe);
    let started = Instant::now();
    let (mut done, mut asked) = (0, 0);
    while done < count {
        asked += 1;
        let id = format!("{name}{asked}");
        let answer = client.post("/v1/queues/default/claim", &question(&id, most, 10_000));
        let proof = |run: &Value| json!({"run_id": run["run_id"], "token": run["token"]});
        let runs: Vec<Value> = answer["runs"].as_array().unwrap().iter().map(proof).collect();
        done += runs.len();
        client.post("/v1/runs/complete", &json!({"runs": runs}));
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate without digits")]
    let rate = count as f64 / started.elapsed().as_secs_f64();
    rate
}

fn burst(redis: &TestRedis, probe: &HttpProbe) {
    add(redis, "burst", BURST);
    let rate = claimed_and_completed(probe, "burst", BURST, BATCH);
    println!("{rate:.0} runs/s claimed and completed by one client, {BATCH} with each request");
}

fn singles(redis: &TestRedis, probe: &HttpProbe) {
    add(redis, "single", SINGLES);
    let rate = claimed_and_completed(probe, "single", SINGLES, 1);
    println!("{rate:.0} runs/s claimed and completed by one client, one by one");
}

/// One run at a time, which becomes due while a question waits.
fn wakes(probe: &HttpProbe) {
    let (mut client, mut late) = (Client::of(probe), Vec::new());
    for number in 0..WAKES {
        let body = json!({"name": format!("wake{number}"), "in": "300ms", "handler": "noop"});
        let json = [("Content-Type", "application/json")];
        let added = probe.send("admin", "POST", "/v1/jobs", &json, body.to_string().as_bytes());
        let due = added.of(201)["next_due"].as_str().unwrap().to_owned();
        let id = format!("wake{number}");
        let answer = client.post("/v1/queues/default/claim", &question(&id, 1, 10_000));
        let now = jiff::Timestamp::now();
        let since = now.duration_since(due.parse().unwrap());
        late.push(since.as_secs_f64() * 1e3);
        let run = &answer["runs"][0];
        let proof = json!({"run_id": run["run_id"], "token": run["token"]});
        client.post("/v1/runs/complete", &json!({"runs": [proof]}));
    }
    late.sort_by(f64::total_cmp);
    println!(
        "from due to the answer of a waiting question: p50 {:.1} ms, p99 {:.1} ms",
        percentile(&late, 0.5),
        percentile(&late, 0.99)
    );
}

/// Returns the number of questions that can wait. A node lets two fifths of its files wait.
fn most_waiting() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let places =
        files.map_or(usize::MAX, |files| usize::try_from(files / 5 * 2).unwrap_or(usize::MAX));
    places.saturating_sub(100).min(WAITING)
}

/// Questions that wait and get nothing, at a node that has run nothing.
fn waiting() {
    let redis = TestRedis::start();
    let dir = tempfile::tempdir().unwrap();
    let (node, probe) = start(&redis, dir.path());
    let mut connection = redis.connection();
    let mut rates = Vec::new();
    let before = usage(node.pid()).1;
    let mut open: Vec<TcpStream> = Vec::new();
    for count in [0, most_waiting()] {
        while open.len() < count {
            let body = question(&format!("wait{}", open.len()), 1, 55_000).to_string();
            let length = body.len().to_string();
            let headers = [("Content-Type", "application/json"), ("Content-Length", &*length)];
            let head = probe.head("admin", "POST", "/v1/queues/default/claim", &headers);
            let mut stream = probe.connect();
            stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
            open.push(stream);
        }
        std::thread::sleep(CALM);
        let commands = info(&mut connection, "total_commands_processed:");
        std::thread::sleep(COUNTED);
        let spent = info(&mut connection, "total_commands_processed:") - commands;
        #[expect(clippy::cast_precision_loss, reason = "a rate with a digit")]
        rates.push(spent as f64 / COUNTED.as_secs_f64());
    }
    let after = usage(node.pid()).1;
    #[expect(clippy::cast_precision_loss, reason = "KiB with a digit")]
    let each = after.saturating_sub(before) as f64 / open.len() as f64;
    println!(
        "{} waiting questions: {:.1} Redis commands/s, {:.1} without; {each:.1} KiB each",
        open.len(),
        rates[1],
        rates[0]
    );
    let answer = HttpAnswer::read(open.swap_remove(0));
    assert_eq!(answer.of(200)["runs"], json!([]), "the question waited to its end");
}
