//! Access to a namespace for tests, through the library's own store.

use std::time::Duration;

use schedd::engine::planning::planting;
use schedd::engine::planning::planting::{Applied, Request};
use schedd_core::config;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{Address, Existing, JobRecord, Keys, NodeEvents, RunRecord, SourceKind, Store};

use super::redis::TestRedis;
use super::wait::until;

pub(crate) struct Eye {
    runtime: tokio::runtime::Runtime,
    store: Store,
}

impl Eye {
    pub(crate) fn on(redis: &TestRedis) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store =
            Store::new(&Address::parse(&redis.url()).unwrap(), Keys::new("schedd").unwrap())
                .unwrap();
        Self { runtime, store }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn ask<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

    /// The events around `at` of each node that has some.
    pub(crate) fn node_events(&self, at: UnixMillis) -> Vec<NodeEvents> {
        let nodes = self.ask(self.store.list_event_nodes()).unwrap();
        self.ask(self.store.read_events(&nodes, at)).unwrap()
    }

    pub(crate) fn job(&self, name: &str) -> Option<JobRecord> {
        self.ask(self.store.read_job(&name.parse().unwrap())).unwrap()
    }

    pub(crate) fn run(&self, id: &str) -> Option<RunRecord> {
        self.ask(self.store.read_run(&id.parse().unwrap())).unwrap()
    }

    /// Returns the ended runs of `job`, oldest first.
    pub(crate) fn history(&self, job: &str) -> Vec<RunRecord> {
        let mut runs =
            self.ask(self.store.read_history(Some(&job.parse().unwrap()), 0, 1_000)).unwrap().runs;
        runs.reverse();
        runs
    }

    /// Waits until `count` runs of `job` have ended and returns them.
    #[track_caller]
    pub(crate) fn wait_for_history(&self, job: &str, count: usize) -> Vec<RunRecord> {
        until(&format!("{count} runs of {job} have ended"), Duration::from_secs(60), || {
            Some(self.history(job)).filter(|runs| runs.len() >= count)
        })
    }

    /// Adds a job as `schedctl add` does. `json` holds the keys of `[jobs.X]`, `name` and `in`.
    pub(crate) fn add(&self, json: &serde_json::Value) -> Applied {
        self.add_through(&self.store, json)
    }

    /// Adds a job through a store with another time.
    pub(crate) fn add_through(&self, store: &Store, json: &serde_json::Value) -> Applied {
        let job = config::job_from_value(json, &Zone::utc()).unwrap();
        let request = Request {
            name: job.name.unwrap(),
            is_drawn: false,
            spec: job.spec,
            start_in: job.start_in,
            kind: SourceKind::Api,
            source: "api".to_owned(),
            existing: Existing::Edit,
            seen: None,
        };
        self.ask(planting::apply_one(store, &Zone::utc(), &request)).unwrap()
    }
}
