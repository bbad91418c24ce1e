//! Where tests of being told begin: a Redis, and a file and a server that are told.

use tempfile::TempDir;

use crate::support::eye::Eye;
use crate::support::host::http_sink::{Answer, HttpSink, Recorded};
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

/// Redis, a look at it, a place for what is told, and a server that is told.
pub(crate) struct Desk {
    pub(crate) redis: TestRedis,
    pub(crate) eye: Eye,
    pub(crate) dir: TempDir,
    pub(crate) sink: HttpSink,
    _server: tokio::runtime::Runtime,
}

impl Desk {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let server = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let sink = server.block_on(HttpSink::start(answers));
        let redis = TestRedis::durable();
        let eye = Eye::on(&redis);
        let dir = tempfile::Builder::new().prefix("schedd-told-").tempdir_in("/tmp").unwrap();
        Self { redis, eye, dir, sink, _server: server }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        std::fs::read_to_string(self.dir.path().join(name))
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[track_caller]
    pub(crate) fn wait_for_lines(&self, name: &str, count: usize) -> Vec<String> {
        until(&format!("{count} lines in {name}"), LONG, || {
            Some(self.lines(name)).filter(|lines| lines.len() >= count)
        })
    }

    #[track_caller]
    pub(crate) fn wait_for_requests(&self, count: usize) -> Vec<Recorded> {
        until(&format!("{count} requests"), LONG, || {
            Some(self.sink.requests()).filter(|requests| requests.len() >= count)
        })
    }

    /// Fails unless the data is consistent.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        let exam = self
            .eye
            .ask(schedd::engine::maintenance::full_check::examine(self.eye.store()))
            .unwrap();
        assert!(exam.findings.is_empty(), "{:#?}", exam.findings);
    }
}
