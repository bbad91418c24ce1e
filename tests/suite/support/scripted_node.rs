//! A node in the test's own process whose executor follows a script: no process of a job starts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::node_log::NodeLog;
use super::redis::TestRedis;
use super::script::Script;
use super::wait::{LONG, until};
use schedd::engine;
use schedd::engine::{
    EngineSettings, HostFacts, Journal, Naming, NodeEngines, Removal, ServingChoice,
};
use schedd_core::config;
use schedd_core::config::Config;
use schedd_core::domain::run::excerpt::OutputBounds;
use schedd_schedule::names::NodeName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{Address, Keys, Store};

/// The settings of a scripted node.
pub(crate) struct NodeBuilder {
    url: String,
    name: NodeName,
    jobs: Mutex<String>,
    script: Script,
    serving: ServingChoice,
    state_home: Option<PathBuf>,
}

impl NodeBuilder {
    pub(crate) fn node(mut self, name: &str) -> Self {
        self.name = name.parse().unwrap();
        self
    }

    /// Sets the text of its `jobs.toml`.
    pub(crate) fn jobs(mut self, toml: &str) -> Self {
        self.jobs = Mutex::new(toml.to_owned());
        self
    }

    /// Sets the queues that it serves, as `--queues` does.
    pub(crate) fn queues(mut self, queues: &[&str]) -> Self {
        self.serving.queues = Some(queues.iter().map(|name| name.parse().unwrap()).collect());
        self
    }

    /// Sets the labels that it has, as `--labels` does.
    pub(crate) fn labels(mut self, labels: &[&str]) -> Self {
        let labels: BTreeSet<_> = labels.iter().map(|label| label.parse().unwrap()).collect();
        self.serving.labels = Some(labels);
        self
    }

    /// Sets its `$XDG_STATE_HOME`.
    pub(crate) fn state_home(mut self, dir: &Path) -> Self {
        self.state_home = Some(dir.to_owned());
        self
    }

    pub(crate) fn start(self) -> ScriptedNode {
        let mut node = ScriptedNode {
            dir: tempfile::Builder::new().prefix("schedd-test-").tempdir_in("/tmp").unwrap(),
            settings: self,
            log: NodeLog::default(),
            running: None,
        };
        node.start_again();
        node
    }
}

/// A running node with a scripted executor. On drop it ends as in a crash.
pub(crate) struct ScriptedNode {
    settings: NodeBuilder,
    /// The directory of its journal, which lasts longer than the node.
    dir: TempDir,
    log: NodeLog,
    running: Option<(NodeEngines, Runtime)>,
}

impl ScriptedNode {
    /// A node on `redis` that follows `script`.
    pub(crate) fn on(redis: &TestRedis, script: &Script) -> NodeBuilder {
        Self::at(&redis.url(), script)
    }

    /// A node on the Redis at this URL.
    pub(crate) fn at(url: &str, script: &Script) -> NodeBuilder {
        NodeBuilder {
            url: url.to_owned(),
            name: "scripted".parse().unwrap(),
            jobs: Mutex::default(),
            script: script.clone(),
            serving: ServingChoice::default(),
            state_home: None,
        }
    }

    /// Starts the node again, with the same settings and journal. It must have ended. The log
    /// continues.
    pub(crate) fn start_again(&mut self) {
        assert!(self.running.is_none(), "the node still runs");
        let (dispatcher, of_threads) = (self.log.dispatcher(), self.log.dispatcher());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // The thread keeps its dispatcher to its end.
            .on_thread_start(move || {
                std::mem::forget(tracing::dispatcher::set_default(&of_threads));
            })
            .enable_all()
            .build()
            .unwrap();
        let engine = tracing::dispatcher::with_default(&dispatcher, || {
            runtime.block_on(start(&self.settings, &self.state_home()))
        });
        self.running = Some((engine, runtime));
    }

    /// Applies this jobs file, as SIGHUP does.
    pub(crate) fn reload(&self, toml: &str) {
        self.configure(toml, Removal::Allowed);
    }

    /// Applies this jobs file, as a change of the file does.
    pub(crate) fn rewrite(&self, toml: &str) {
        self.configure(toml, Removal::Refused);
    }

    fn configure(&self, toml: &str, removal: Removal) {
        toml.clone_into(&mut self.settings.jobs.lock().unwrap());
        let (engine, _) = self.running.as_ref().unwrap();
        engine.configure(&compile(toml), removal);
    }

    /// Ends the node as a crash would: nothing more is written to Redis.
    pub(crate) fn crash(&mut self) {
        if let Some((_engine, runtime)) = self.running.take() {
            runtime.shutdown_timeout(LONG);
            self.leave_journal();
        }
    }

    /// Gives the files of the journal to the next start. The thread that writes the journal does not
    /// end in a crash that the process survives. It keeps the former files locked.
    fn leave_journal(&self) {
        let journals = self.state_home().join("schedd");
        let former = tempfile::tempdir_in(self.dir.path()).unwrap().keep();
        std::fs::rename(&journals, &former).unwrap();
        std::fs::create_dir(&journals).unwrap();
        for file in former.read_dir().unwrap().flatten() {
            std::fs::copy(file.path(), journals.join(file.file_name())).unwrap();
        }
    }

    /// Stops the node and waits for its end, as SIGTERM does.
    pub(crate) fn stop(&mut self) {
        self.stop_with(std::future::pending());
    }

    /// Stops the node. Runs that go on are stopped at once, as a second SIGTERM does.
    pub(crate) fn stop_at_once(&mut self) {
        self.stop_with(std::future::ready(()));
    }

    fn stop_with(&mut self, urgent: impl Future<Output = ()>) {
        let (engine, runtime) = self.running.take().unwrap();
        tracing::dispatcher::with_default(&self.log.dispatcher(), || {
            runtime.block_on(engine.stop(urgent));
        });
    }

    /// The node's `$XDG_STATE_HOME`; its journal is in `schedd` below.
    pub(crate) fn state_home(&self) -> PathBuf {
        self.settings.state_home.clone().unwrap_or_else(|| self.dir.path().to_owned())
    }

    /// Returns its whole log.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// Waits until it has logged a line with `text` and returns the line.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, text: &str) -> String {
        until(&format!("the node logs {text:?}"), LONG, || {
            self.log().lines().find(|line| line.contains(text)).map(str::to_owned)
        })
    }
}

impl Drop for ScriptedNode {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of node {}\n{}", self.settings.name, self.log());
        }
        self.crash();
    }
}

fn compile(toml: &str) -> Config {
    config::compile_text(toml, "jobs.toml", &Zone::utc()).unwrap_or_else(|error| panic!("{error}"))
}

fn clock() -> UnixMillis {
    UnixMillis::from_timestamp(jiff::Timestamp::now()).unwrap()
}

async fn start(settings: &NodeBuilder, state_home: &Path) -> NodeEngines {
    let store =
        Store::new(&Address::parse(&settings.url).unwrap(), Keys::new("schedd").unwrap()).unwrap();
    let host = HostFacts {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        boot_id: "b".to_owned(),
        is_alive: |_| true,
        clock,
        load: || None,
        free_memory: || Some(1 << 30),
    };
    let jobs = settings.jobs.lock().unwrap().clone();
    let config = compile(&jobs);
    let incarnation = format!("{:016x}", fastrand::u64(..));
    let serving = settings.serving.over(&config.serving.serving, &settings.name);
    let announced =
        engine::announce(&store, &settings.name, Naming::Asked, &incarnation, &host, &serving);
    let (node, started_at) = announced.await.unwrap();
    let journals = state_home.join("schedd");
    std::fs::create_dir_all(&journals).unwrap();
    let journal_of = {
        let node = node.clone();
        Box::new(move |store: &Store| Journal::open(Some(&journals), store.namespace(), &node))
    };
    let settings_of_engine = EngineSettings {
        node,
        incarnation,
        started_at,
        host,
        ended_mark: None,
        tick: config.daemon.tick,
        lease: config.daemon.lease,
        shutdown_grace: config.daemon.shutdown_grace,
        output: OutputBounds { head: config.output.head, tail: config.output.tail },
        serving: settings.serving.clone(),
        worker: None,
        no_cgroups: None,
    };
    let executor = Arc::new(settings.script.clone());
    let file = (!jobs.is_empty()).then_some(&config);
    NodeEngines::start(store, executor, journal_of, settings_of_engine, Zone::utc(), file)
}
