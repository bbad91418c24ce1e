//! A node in the test's own process whose executor follows a script: no process of a job starts.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::eye::Eye;
use super::redis::TestRedis;
use super::wait::{LONG, until};
use schedd::domain::job::job_spec::Action;
use schedd::domain::job::ping::Ping;
use schedd::domain::name::names::{NodeName, RunId};
use schedd::domain::queue::lane_serving::Serving;
use schedd::domain::run::run_state::{AttemptOutcome, Ending};
use schedd::domain::time::unix_millis::UnixMillis;
use schedd::domain::time::zone::Zone;
use schedd::engine::{self, Engine, EngineSettings, HostFacts, Journal, Naming, ServingChoice};
use schedd::executor::{Attempt, Control, ExcerptStream, Execute, ExecutorAbilities, OutputBuffer};
use schedd::keeper::{BootInstant, OutputBounds};
use schedd::store::Store;

/// What a scripted attempt does.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Ends at once with this outcome.
    End(AttemptOutcome),
    /// Prints the text and ends at once with this outcome.
    Print(&'static str, AttemptOutcome),
    /// Goes on until it is stopped or its lease has passed.
    GoOn,
}

/// Returns the outcome of a process that exited with `code`.
pub(crate) fn exit(code: i32) -> AttemptOutcome {
    let ending = if code == 0 { Ending::Succeeded } else { Ending::Failed };
    AttemptOutcome { exit_code: Some(code), ..AttemptOutcome::bare(ending) }
}

/// An executor that follows a script. An attempt without an act left succeeds.
#[derive(Default)]
pub(crate) struct ScriptedExecutor {
    /// The acts that are left, by the text of the shell line.
    acts: Mutex<HashMap<String, VecDeque<Act>>>,
    /// The attempts made, each with its shell line.
    made: Mutex<Vec<(String, RunId, u32)>>,
}

impl ScriptedExecutor {
    /// Returns the numbers of the attempts made with this shell line.
    pub(crate) fn made(&self, line: &str) -> Vec<u32> {
        self.made
            .lock()
            .unwrap()
            .iter()
            .filter(|(made, ..)| made == line)
            .map(|(.., number)| *number)
            .collect()
    }

    /// Returns all runs executed, in order.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        self.made.lock().unwrap().iter().map(|(_, run, _)| run.clone()).collect()
    }

    fn next(&self, attempt: &Attempt) -> Act {
        let Action::Shell(line) = &attempt.action else { panic!("scripts are for shell jobs") };
        self.made.lock().unwrap().push((line.clone(), attempt.run.clone(), attempt.number));
        let act = self.acts.lock().unwrap().get_mut(line).and_then(VecDeque::pop_front);
        act.unwrap_or_else(|| Act::End(exit(0)))
    }
}

impl Execute for ScriptedExecutor {
    fn execute<'a>(
        &'a self,
        attempt: &'a Attempt,
        mut control: Control,
        output: &'a OutputBuffer,
    ) -> BoxFuture<'a, AttemptOutcome> {
        Box::pin(async move {
            match self.next(attempt) {
                Act::End(outcome) => outcome,
                Act::Print(text, outcome) => {
                    output.append(ExcerptStream::Stdout, text.as_bytes());
                    outcome
                }
                Act::GoOn => loop {
                    if let Some(reason) = *control.stop.borrow_and_update() {
                        return AttemptOutcome::bare(reason.ending());
                    }
                    if BootInstant::now() >= *control.deadline.borrow_and_update() {
                        return AttemptOutcome::bare(Ending::LeaseLost);
                    }
                    tokio::select! {
                        _ = control.stop.changed() => {}
                        _ = control.deadline.changed() => {}
                        () = tokio::time::sleep(Duration::from_millis(100)) => {}
                    }
                },
            }
        })
    }

    fn ping<'a>(
        &'a self,
        _base: &'a str,
        _run: &'a RunId,
        _ping: Ping,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn are_ready(&self) -> bool {
        true
    }

    fn short_of(&self) -> Option<String> {
        None
    }

    fn note_claimed(&self, _action: &Action) {}

    fn capacity(&self) -> usize {
        usize::MAX
    }

    fn abilities(&self) -> ExecutorAbilities {
        ExecutorAbilities::default()
    }
}

/// A running node with a scripted executor, and its Redis.
pub(crate) struct ScriptedNode {
    pub(crate) redis: TestRedis,
    pub(crate) eye: Eye,
    pub(crate) executor: Arc<ScriptedExecutor>,
    engine: Option<Engine>,
    runtime: tokio::runtime::Runtime,
}

impl ScriptedNode {
    /// Starts a node whose executor follows `script`: a shell line with what its attempts do.
    pub(crate) fn start(script: &[(&str, &[Act])]) -> Self {
        let redis = TestRedis::start();
        let eye = Eye::on(&redis);
        let executor = Arc::new(ScriptedExecutor::default());
        for (line, acts) in script {
            executor.acts.lock().unwrap().insert((*line).to_owned(), acts.to_vec().into());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let engine = runtime.block_on(start(eye.store().clone(), executor.clone()));
        Self { redis, eye, executor, engine: Some(engine), runtime }
    }

    /// Waits until an attempt with this shell line was made.
    #[track_caller]
    pub(crate) fn wait_for(&self, line: &str) {
        until(&format!("an attempt of {line}"), LONG, || {
            (!self.executor.made(line).is_empty()).then_some(())
        });
    }

    /// Stops the node. Runs that go on are stopped at once.
    pub(crate) fn stop(&mut self) {
        if let Some(engine) = self.engine.take() {
            self.runtime.block_on(engine.stop(std::future::ready(())));
        }
    }
}

impl Drop for ScriptedNode {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

async fn start(store: Store, executor: Arc<ScriptedExecutor>) -> Engine {
    let host = HostFacts {
        host: "h".to_owned(),
        boot_id: "b".to_owned(),
        is_alive: |_| true,
        clock: || UnixMillis::EPOCH,
        load: || None,
        free_memory: || None,
    };
    let (node, incarnation): (NodeName, _) = ("scripted".parse().unwrap(), "first");
    let announced =
        engine::announce(&store, &node, Naming::Asked, incarnation, &host, &Serving::default())
            .await;
    let (node, started_at) = announced.unwrap();
    let settings = EngineSettings {
        node,
        incarnation: incarnation.to_owned(),
        started_at,
        host,
        ended_mark: None,
        tick: Duration::from_millis(100),
        lease: Duration::from_secs(2),
        shutdown_grace: Duration::from_secs(5),
        output: OutputBounds::default(),
        serving: ServingChoice::default(),
        no_cgroups: None,
    };
    Engine::start(store, executor, Journal::in_memory(), settings, Zone::utc(), None)
}
