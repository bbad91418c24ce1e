//! The HTTP API and the dashboard beside a million waiting jobs, a thousand recurring jobs and 100,000 ended runs: how long each
//! list and each page takes, adding one by one and in bulk, the memory of a held connection, and the commands of Redis that 50
//! polling clients and 50 open tabs cost.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use schedd_programs::secrets::tokens::{
    TokenEntry, TokenFile, TokenLocation, TokenRole, TokenText, sha256,
};

use super::bounds;
use super::http_probe::HttpProbe;
use super::support::daemon::Schedd;
use super::support::redis::TestRedis;
use super::{add_lines, info, percentile, settle, usage};

const WAITING: usize = 1_000_000;
const RECURRING: usize = 1_000;
const ENDED: i64 = 100_000;
const BULK: usize = 50_000;
const HELD: usize = 900;
const PAGES: u32 = 50;
/// The time between two requests of a polling page.
const POLLED: Duration = Duration::from_secs(2);

const LISTS: [&str; 12] = [
    "/v1/jobs",
    "/v1/jobs?limit=1000",
    "/v1/jobs?queue=none",
    "/v1/jobs/n1",
    "/v1/jobs/n1/explain",
    "/v1/runs",
    "/v1/runs?limit=1000",
    "/v1/runs?state=failed",
    "/v1/runs?job=nightly-report",
    "/v1/queues",
    "/v1/nodes",
    "/v1/stats",
];

/// The pages of the dashboard. `n1` waits, and `nightly-report` has ended runs.
const PAGES_OF_ALL: [&str; 18] = [
    "/",
    "/timeline",
    "/timeline?view=heat",
    "/chains",
    "/api",
    "/jobs",
    "/jobs?q=tick",
    "/jobs?failed=1",
    "/jobs/n1",
    "/jobs/tick1",
    "/runs",
    "/runs?dead=1",
    "/runs?job=nightly-report",
    "/queues",
    "/groups",
    "/nodes",
    "/losses",
    "/doctor",
];
/// The header field of a browser that opens a page.
const BROWSER: (&str, &str) = ("Accept", "text/html");

/// Prints the figures of the API.
pub(crate) fn api() {
    let redis = TestRedis::start();
    add_lines(&redis, &lines("n", WAITING));
    let recurring =
        |number| format!("{{\"name\":\"tick{number}\",\"every\":\"1d\",\"shell\":\"true\"}}\n");
    let recurring: String = (0..RECURRING).map(recurring).collect();
    // The job of the ended runs, which must not be trimmed.
    let reports = r#"{"name":"nightly-report","every":"1d","shell":"true"}"#;
    add_lines(&redis, &format!("{recurring}{reports}\n"));
    bounds::fill(&redis, ENDED, |_| "succeeded");
    let dir = tempfile::tempdir().unwrap();
    let (node, probe) = start(&redis, dir.path());
    settle(&redis);
    lists(&probe);
    let (report, pages): (Vec<&str>, Vec<&str>) =
        PAGES_OF_ALL.into_iter().partition(|path| *path == "/doctor");
    open_pages(&probe, &pages);
    tabs(&redis, &probe, &pages);
    adding(&redis, &probe);
    settle(&redis);
    polling(&redis, &probe);
    held(&node, &probe);
    // Last, because the check of all data goes on behind the page.
    open_pages(&probe, &report);
}

fn lines(name: &str, count: usize) -> String {
    let mut lines = String::new();
    for number in 0..count {
        writeln!(
            lines,
            r#"{{"name":"{name}{number}","in":"{}s","shell":"true"}}"#,
            86_400 + number
        )
        .unwrap();
    }
    lines
}

/// Starts a node with an API, and a client of the API with an admin's token.
pub(crate) fn start(redis: &TestRedis, dir: &std::path::Path) -> (Schedd, HttpProbe) {
    let path = dir.join("tokens");
    let token = TokenText::random().unwrap().as_str().to_owned();
    let entry = TokenEntry {
        name: "admin".to_owned(),
        role: TokenRole::Admin,
        sha256: sha256(&token),
        created_ms: 0,
        expires_ms: None,
        queues: Vec::new(),
        link_sha256: None,
        link_expires_ms: None,
    };
    TokenFile::new(TokenLocation::Named(path.clone())).add(|_| entry).unwrap();
    let file = format!(
        "[api]\nlisten = \"127.0.0.1:0\"\ntokens_file = \"{}\"\ndefine = true\n[history]\nmax_age = \"3650d\"\n",
        path.display()
    );
    let node = Schedd::on(redis).node("n1").jobs(&file).start();
    let log = node.wait_for_log("The HTTP API listens.");
    node.wait_for_log("The HTTP API answers all requests.");
    node.wait_for_log("Started.");
    let address = log.split("address=http://").nth(1).unwrap().split([' ', '\n']).next().unwrap();
    (node, HttpProbe::new(address.to_owned(), vec![("admin".to_owned(), token)]))
}

/// 200 requests of each list, in turn, a connection for each request.
fn lists(probe: &HttpProbe) {
    let mut times = vec![Vec::new(); LISTS.len()];
    for _ in 0..200 {
        for (times, path) in times.iter_mut().zip(LISTS) {
            let started = Instant::now();
            assert_eq!(probe.send("admin", "GET", path, &[], b"").status, 200, "{path}");
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
    }
    for (times, path) in times.iter_mut().zip(LISTS) {
        times.sort_by(f64::total_cmp);
        println!(
            "{path}: p50 {:.1} ms, p99 {:.1} ms",
            percentile(times, 0.5),
            percentile(times, 0.99)
        );
    }
}

/// Requests of each page, each of another view, so that each is read from Redis.
fn open_pages(probe: &HttpProbe, pages: &[&str]) {
    for path in pages {
        let mut times = Vec::new();
        for number in 0..100 {
            // The zone of the reader is a part of the view, and the address stays that of a reader.
            let zone = ["UTC", "Europe/Berlin", "Asia/Tokyo", "America/New_York"][number % 4];
            let cookie = format!("schedd_own_zone={zone}");
            if number % 4 == 0 {
                // A change makes all snapshots old. This one changes nothing.
                let json = [("Content-Type", "application/json")];
                probe.send("admin", "POST", "/v1/jobs/tick1/resume", &json, b"{}");
            }
            let started = Instant::now();
            let headers = [BROWSER, ("Accept-Encoding", "gzip"), ("Cookie", cookie.as_str())];
            assert_eq!(probe.send("admin", "GET", path, &headers, b"").status, 200, "{path}");
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        println!(
            "page {path}: p50 {:.1} ms, p99 {:.1} ms",
            percentile(&times, 0.5),
            percentile(&times, 0.99)
        );
    }
}

/// Open tabs, each of which asks for news every two seconds, first while nothing changes, and then
/// beside a job that runs every second.
fn tabs(redis: &TestRedis, probe: &HttpProbe, all: &[&str]) {
    for (state, line) in [
        ("nothing changes", None),
        (
            "a job runs every second",
            Some("{\"name\":\"busy\",\"every\":\"1s\",\"shell\":\"true\"}\n"),
        ),
    ] {
        if let Some(line) = line {
            add_lines(redis, line);
        }
        let without = commands_with(redis, probe, &[], 0);
        println!("{without:.1} Redis commands/s while {state}");
        let tabs = PAGES as usize;
        for (shown, words) in
            [(all, "all pages"), (&["/jobs"], "the list of jobs"), (&["/"], "the first page")]
        {
            let more = commands_with(redis, probe, shown, tabs) - without;
            println!("{tabs} open tabs of {words}: {more:.1} Redis commands/s more");
        }
    }
    let json = [("Content-Type", "application/json")];
    assert_eq!(probe.send("admin", "DELETE", "/v1/jobs/busy", &json, b"").status, 200);
}

/// Returns the commands a second of Redis beside this number of tabs, which show these pages in turn.
fn commands_with(redis: &TestRedis, probe: &HttpProbe, shown: &[&str], tabs: usize) -> f64 {
    let mut connection = redis.connection();
    let mut known = vec![String::new(); tabs];
    let mut begun = None;
    let started = Instant::now();
    // The first round opens the tabs.
    while started.elapsed() < POLLED * 16 {
        let round = Instant::now();
        for (tab, etag) in known.iter_mut().enumerate() {
            let path = shown[tab % shown.len()];
            let headers = [BROWSER, ("If-None-Match", etag.as_str()), ("Sec-Fetch-Mode", "cors")];
            let answer = probe.send("admin", "GET", path, &headers, b"");
            let fresh = answer.head.lines().find_map(|line| line.strip_prefix("etag: "));
            // The head was read in lower case, and the tag begins with W.
            *etag = fresh.unwrap_or_default().replacen('w', "W", 1);
        }
        begun.get_or_insert_with(|| {
            (Instant::now(), info(&mut connection, "total_commands_processed:"))
        });
        std::thread::sleep(POLLED.saturating_sub(round.elapsed()));
    }
    let (begun, before) = begun.unwrap();
    let commands = info(&mut connection, "total_commands_processed:") - before;
    #[expect(clippy::cast_precision_loss, reason = "a rate with a digit")]
    let rate = commands as f64 / begun.elapsed().as_secs_f64();
    rate
}

fn adding(redis: &TestRedis, probe: &HttpProbe) {
    let started = Instant::now();
    let mut one_by_one = 0;
    while started.elapsed() < Duration::from_secs(5) {
        let body = format!(r#"{{"name":"single{one_by_one}","in":"1d","shell":"true"}}"#);
        let json = [("Content-Type", "application/json")];
        assert_eq!(probe.send("admin", "POST", "/v1/jobs", &json, body.as_bytes()).status, 201);
        one_by_one += 1;
    }
    println!("{:.0} adds/s one by one", f64::from(one_by_one) / started.elapsed().as_secs_f64());
    let mut ratios = Vec::new();
    for round in 0..3 {
        let by_ctl = add_lines(redis, &lines(&format!("ctl{round}-"), BULK)).as_secs_f64();
        let body = lines(&format!("api{round}-"), BULK);
        let started = Instant::now();
        let ndjson = [("Content-Type", "application/x-ndjson")];
        let answer = probe.send("admin", "POST", "/v1/jobs/bulk", &ndjson, body.as_bytes());
        let by_api = started.elapsed().as_secs_f64();
        assert_eq!(answer.text().matches("\"created\"").count(), BULK);
        ratios.push(by_ctl / by_api);
    }
    ratios.sort_by(f64::total_cmp);
    println!("bulk adding through the API: {:.2} of the speed of schedctl add --stdin", ratios[1]);
}

/// Pages that ask for the first page of jobs every two seconds.
fn polling(redis: &TestRedis, probe: &HttpProbe) {
    let mut connection = redis.connection();
    let mut rates = Vec::new();
    for pages in [0, PAGES] {
        let before = info(&mut connection, "total_commands_processed:");
        let started = Instant::now();
        while started.elapsed() < POLLED * 5 {
            let round = Instant::now();
            for _ in 0..pages {
                assert_eq!(probe.send("admin", "GET", "/v1/jobs", &[], b"").status, 200);
            }
            std::thread::sleep(POLLED.saturating_sub(round.elapsed()));
        }
        let commands = info(&mut connection, "total_commands_processed:") - before;
        #[expect(clippy::cast_precision_loss, reason = "a rate without digits")]
        rates.push(commands as f64 / started.elapsed().as_secs_f64());
    }
    println!(
        "{PAGES} pages of jobs, asked for every 2 s: {:.0} Redis commands/s, {:.0} without",
        rates[1], rates[0]
    );
}

/// Followers of events, all connected at once.
fn held(node: &Schedd, probe: &HttpProbe) {
    let before = usage(node.pid()).1;
    let mut followers: Vec<TcpStream> = Vec::new();
    for _ in 0..HELD {
        let mut stream = probe.connect();
        let head = format!("{}\r\n", probe.head("admin", "GET", "/v1/events", &[]));
        stream.write_all(head.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        assert!(line.contains("200"), "{line}");
        followers.push(stream);
    }
    let after = usage(node.pid()).1;
    #[expect(clippy::cast_precision_loss, reason = "KiB with a digit")]
    let each = after.saturating_sub(before) as f64 / followers.len() as f64;
    println!("{each:.1} KiB for each of {} followers of events", followers.len());
    assert!(fs::metadata(format!("/proc/{}", node.pid())).is_ok(), "the node lives");
}
