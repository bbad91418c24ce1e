//! The HTTP API from outside: a real schedd on a real Redis, and requests over sockets.

mod access;
mod adding;
mod bad_requests;
mod http_probe;
mod listening;
mod lists;
mod overload;
mod parameters;
mod remote_top;
mod remote_verbs;
mod repeating;
pub(crate) mod round_trips;
mod streams;
mod warnings;
mod workers;

use std::fs;
use std::path::{Path, PathBuf};

use schedd_programs::secrets::tokens::{
    TokenEntry, TokenFile, TokenLocation, TokenRole, TokenText, sha256,
};
use tempfile::TempDir;

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
pub(super) use http_probe::{HttpAnswer, HttpProbe};

/// A schedd with an API, and a token of each kind.
pub(super) struct ApiScene {
    pub(super) redis: TestRedis,
    pub(super) daemon: Schedd,
    pub(super) probe: HttpProbe,
    pub(super) tokens: TokenFile,
    _dir: TempDir,
}

/// The settings of a scene whose callers may define jobs.
pub(super) const DEFINING: &str = "define = true";

/// The callers of a scene: the word for a caller, and the role and the end of the token.
const CALLERS: [(&str, TokenRole, Option<i64>); 5] = [
    ("viewer", TokenRole::Viewer, None),
    ("operator", TokenRole::Operator, None),
    ("admin", TokenRole::Admin, None),
    ("worker", TokenRole::Worker, None),
    ("expired", TokenRole::Admin, Some(1)),
];

impl ApiScene {
    /// Starts a schedd with these settings of `[api]`, and this jobs file behind them.
    pub(super) fn start(settings: &str, jobs: &str) -> Self {
        let redis = TestRedis::start();
        let url = redis.url();
        Self::start_at(redis, &url, settings, jobs)
    }

    /// Starts a schedd that reaches `redis` by this URL.
    pub(super) fn start_at(redis: TestRedis, url: &str, settings: &str, jobs: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("schedd-api-").tempdir_in("/tmp").unwrap();
        let path = dir.path().join("tokens");
        let tokens = TokenFile::new(TokenLocation::Named(path.clone()));
        let mut texts = Vec::new();
        for (name, role, end) in CALLERS {
            let text = TokenText::random().unwrap().as_str().to_owned();
            tokens.add(|_| entry(name, role, &text, end)).unwrap();
            texts.push((name.to_owned(), text));
        }
        let (daemon, address) = node_at(url, "n1", &path, settings, jobs);
        Self { redis, daemon, probe: HttpProbe::new(address, texts), tokens, _dir: dir }
    }

    /// Returns a `schedctl` that speaks to the API with the token of `caller`, and knows no Redis.
    pub(super) fn ctl(&self, caller: &str) -> Schedctl {
        let ctl = Schedctl::alone();
        let file = ctl.home().join("token");
        fs::write(&file, self.probe.token(caller)).unwrap();
        ctl.env("SCHEDD_API_URL", &format!("http://{}", self.probe.address()))
            .env("SCHEDD_API_TOKEN_FILE", file.to_str().unwrap())
    }

    #[track_caller]
    pub(super) fn get(&self, caller: &str, path: &str) -> HttpAnswer {
        self.probe.send(caller, "GET", path, &[], b"")
    }

    #[track_caller]
    pub(super) fn post(&self, caller: &str, path: &str, body: &str) -> HttpAnswer {
        let json = [("Content-Type", "application/json")];
        self.probe.send(
            caller,
            "POST",
            path,
            if body.is_empty() { &[] } else { &json },
            body.as_bytes(),
        )
    }
}

/// Starts a schedd with an API. Returns its address, too.
fn node_at(url: &str, node: &str, tokens: &Path, settings: &str, jobs: &str) -> (Schedd, String) {
    let file = format!(
        "[api]\nlisten = \"127.0.0.1:0\"\ntokens_file = \"{}\"\n{settings}\n{jobs}",
        tokens.display()
    );
    let daemon = Schedd::at(url).node(node).jobs(&file).start();
    let log = daemon.wait_for_log("The HTTP API listens.");
    daemon.wait_for_log("The HTTP API answers all requests.");
    daemon.wait_for_log("All jobs of the jobs file are applied");
    let address = log.split("address=http://").nth(1).unwrap();
    let address = address.split([' ', '\n']).next().unwrap().to_owned();
    (daemon, address)
}

fn entry(name: &str, role: TokenRole, text: &str, expires_ms: Option<i64>) -> TokenEntry {
    TokenEntry {
        name: name.to_owned(),
        role,
        sha256: sha256(text),
        created_ms: 0,
        expires_ms,
        queues: Vec::new(),
        link_sha256: None,
        link_expires_ms: None,
    }
}

/// Returns the path of a file in `dir` with this content.
fn written(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path
}
