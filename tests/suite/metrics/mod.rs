//! `GET /metrics` of a real node on a real Redis.

mod named;
mod namespace;
mod node;
mod watched;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// A node with an API on a Unix socket.
struct ApiNode {
    schedd: Schedd,
    dir: TempDir,
    ctl: Schedctl,
}

/// An answer to a request.
struct HttpAnswer {
    head: String,
    body: String,
}

/// The samples of an answer to `GET /metrics`, by the text before the value.
struct Scraped {
    samples: BTreeMap<String, f64>,
    text: String,
}

impl ApiNode {
    /// A node with these jobs and settings, whose API answers, when the jobs are applied.
    fn start(redis: &TestRedis, jobs: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("schedd-api-").tempdir_in("/tmp").unwrap();
        let toml = with_api(&socket_in(&dir), jobs);
        let schedd = Schedd::on(redis).node("n1").jobs(&toml).start();
        schedd.wait_for_log("All jobs of the jobs file are applied.");
        schedd.wait_for_log("The HTTP API answers all requests.");
        Self { schedd, dir, ctl: Schedctl::on(redis) }
    }

    fn socket(&self) -> PathBuf {
        socket_in(&self.dir)
    }

    /// Replaces the jobs and settings.
    fn reload(&self, jobs: &str) {
        std::fs::write(self.schedd.jobs_file(), with_api(&self.socket(), jobs)).unwrap();
        self.schedd.hup();
    }

    fn scrape(&self) -> Scraped {
        scrape(&self.socket())
    }

    /// Scrapes until the answer has this sample with this value.
    #[track_caller]
    fn scrape_until(&self, series: &str, value: f64) -> Scraped {
        until(&format!("{series} is {value}"), LONG, || {
            Some(self.scrape()).filter(|scraped| scraped.samples.get(series) == Some(&value))
        })
    }

    /// Runs a job by hand, waits for its end, and returns the exit code.
    fn run(&self, job: &str) -> i32 {
        self.ctl.run(&["run", job, "--wait", "--quiet"]).code
    }
}

fn socket_in(dir: &TempDir) -> PathBuf {
    dir.path().join("api.sock")
}

fn with_api(socket: &Path, jobs: &str) -> String {
    format!("[api]\nlisten = \"unix:{}\"\n{jobs}", socket.display())
}

/// Sends a request without a body to the API on this socket.
fn request(socket: &Path, method: &str, path: &str) -> HttpAnswer {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    HttpAnswer { head: head.to_lowercase(), body: body.to_owned() }
}

fn scrape(socket: &Path) -> Scraped {
    // A node that has just started, or lost its Redis for a moment, asks to try again.
    let HttpAnswer { head, body } = until("the figures are answered", LONG, || {
        let answer = request(socket, "GET", "/metrics");
        Some(answer).filter(|answer| !answer.head.starts_with("http/1.1 503"))
    });
    assert!(head.starts_with("http/1.1 200"), "{head}\n{body}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        (series.to_owned(), value.parse().unwrap())
    });
    Scraped { samples: samples.collect(), text: body }
}

impl Scraped {
    /// The value of a sample.
    #[track_caller]
    fn value(&self, series: &str) -> f64 {
        *self.samples.get(series).unwrap_or_else(|| panic!("no {series} in\n{}", self.text))
    }

    /// Fails unless each of these samples has the value behind it.
    #[track_caller]
    fn has(&self, wanted: &[(&str, f64)]) {
        for (series, value) in wanted {
            let found = self.value(series);
            assert!((found - value).abs() < 1e-9, "{series} is {found}, wanted {value}");
        }
    }

    /// The names of all metrics, without the endings of their samples.
    fn names(&self) -> Vec<&str> {
        let types = self.text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types.map(|line| line.split(' ').next().unwrap()).collect()
    }
}
