//! `work`: asks for runs, and starts a process for each.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::Value;
use signal_hook::consts::signal::{SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::task::TaskTracker;

use super::redis_worker::RedisWorker;
use super::worker_client::{WorkerClient, WorkerRun};
use super::worker_process::{RELEASE_WAIT, WorkControl, WorkEnd, WorkProgram, WorkStop};
use crate::cli::access::api_address;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::remote::api_client::ApiClient;
use crate::cli::render::Console;
use schedd::engine::WorkerServing;
use schedd_core::domain::queue::lane_serving::HandlerChoice;
use schedd_core::domain::run::excerpt::OutputBounds;
use schedd_core::host::boot_clock::BootInstant;
use schedd_keeper::{Keeper, KeeperSettings, this_program};
use schedd_schedule::names::{HandlerName, IdError, Label, NodeName, QueueName};
use schedd_schedule::time::duration::parse_duration;

/// The wait before a request that failed once is sent again. It doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest wait before a request that failed is sent again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The number of times that the end of a run is reported while the API gives no answer.
const REPORTS: u32 = 10;

const WORK_EXAMPLES: &str = "\
Examples:
  schedctl work --queue mail --handlers send-mail -- /usr/local/bin/send-mail
  schedctl work --queue thumbs --slots 4 -- ./thumb.sh
  schedctl --api https://jobs.example.org --token-file token work --queue mail -- ./mail.py

Each run is one process of the command. It gets the payload as JSON on standard input, and
SCHEDD_JOB, SCHEDD_RUN_ID, SCHEDD_HANDLER, SCHEDD_DUE, SCHEDD_ATTEMPT and SCHEDD_FENCE in its
environment. Exit code 0 completes the run, 75 gives it back, and any other fails the attempt. The
standard output is kept with the run. A run that is cancelled gets SIGTERM, and SIGKILL after 5 s.
No process outlives the lease of its run, even if this worker is killed.

SIGTERM or Ctrl-C ends the worker when its processes have ended; a second signal stops them and
gives their runs back. The worker asks the API of --api, of SCHEDD_API_URL, or of [api] in the jobs
file. With --redis, or without an API, it takes runs from Redis itself, and needs no token.";

/// Makes a program a worker: takes runs of a handler, and starts a process for each.
#[derive(Debug, clap::Args)]
#[command(after_help = WORK_EXAMPLES)]
pub(crate) struct WorkArgs {
    /// Queue of the runs
    #[arg(long, value_name = "QUEUE", add = crate::cli::shell::completion::queues())]
    queue: QueueName,
    /// Most runs at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=500))]
    slots: u16,
    /// Take only runs of these handlers, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    handlers: Vec<HandlerName>,
    /// Name of the worker, which history shows [default: the name of this host]
    #[arg(long, value_name = "NAME")]
    name: Option<NodeName>,
    /// Labels of the worker, for jobs with requires, separated by commas
    #[arg(long, value_name = "LABELS", value_delimiter = ',', value_parser = people_label)]
    labels: Vec<Label>,
    /// Time after which the runs of a dead worker are free again, 3s to 12h
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    lease: String,
    /// Program and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    command: Vec<String>,
}

impl WorkArgs {
    /// Returns the queue, slots, labels and handlers for a worker that takes runs from Redis.
    fn serving(&self) -> WorkerServing {
        let handlers = match self.handlers.as_slice() {
            [] => HandlerChoice::Any,
            handlers => HandlerChoice::Only(handlers.iter().cloned().collect()),
        };
        WorkerServing {
            slots: BTreeMap::from([(self.queue.clone(), u32::from(self.slots))]),
            labels: self.labels.iter().cloned().collect(),
            handlers,
        }
    }
}

fn people_label(text: &str) -> Result<Label, IdError> {
    text.parse().and_then(Label::for_people)
}

/// A worker at work.
struct Worker {
    client: WorkerClient,
    program: WorkProgram,
    slots: Arc<Semaphore>,
    open: Mutex<HashMap<String, OpenWork>>,
    tasks: TaskTracker,
    /// The warnings of all tasks, which the main task prints.
    warnings: mpsc::UnboundedSender<String>,
}

/// A run at work.
struct OpenWork {
    /// The members of a report that prove that this worker has the run.
    proof: Value,
    deadline: watch::Sender<BootInstant>,
    stop: watch::Sender<Option<WorkStop>>,
}

/// A run to begin, with the time until which this worker surely has it.
struct SureRun {
    run: WorkerRun,
    until: BootInstant,
    stop: Option<WorkStop>,
}

/// A question for runs.
struct Question {
    id: String,
    /// True if the question was sent before, and no answer has come.
    was_sent: bool,
}

/// Works until a signal comes. Returns the exit code.
pub(crate) async fn work(
    global: &Global,
    args: &WorkArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let lease = parse_duration(&args.lease)
        .map_err(|error| CliFailure::Invalid(format!("--lease: {error}")))?;
    if !(Duration::from_secs(3)..=Duration::from_secs(12 * 3_600)).contains(&lease) {
        return Err(CliFailure::Invalid(format!(
            "--lease: found {}, wanted 3s to 12h",
            args.lease
        )));
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| CliFailure::Failed(format!("cannot listen for signals: {error}")))?;
    let names_redis = global.redis.is_some() && global.api.is_none();
    let Some(address) = api_address(global).filter(|_| !names_redis) else {
        let worker = RedisWorker {
            queue: args.queue.clone(),
            serving: args.serving(),
            name: args.name.clone(),
            lease,
            program: program("worker", args, lease).await?,
        };
        return worker.work(global, &mut signals, console).await.map(|()| 0);
    };
    let host = || NodeName::from_host_name(&rustix::system::uname().nodename().to_string_lossy());
    let name = args.name.clone().unwrap_or_else(host).to_string();
    let (warnings, mut printed) = mpsc::unbounded_channel();
    let client = WorkerClient {
        api: ApiClient::new(global, &address)?,
        queue: args.queue.to_string(),
        name: name.clone(),
        labels: args.labels.iter().map(ToString::to_string).collect(),
        handlers: args.handlers.iter().map(ToString::to_string).collect(),
        lease,
    };
    let worker = Arc::new(Worker {
        client,
        program: program(&name, args, lease).await?,
        slots: Arc::new(Semaphore::new(usize::from(args.slots))),
        open: Mutex::default(),
        tasks: TaskTracker::new(),
        warnings,
    });
    // A worker that the API refuses ends at once. A worker that cannot reach the API waits.
    let mut question = Question::fresh();
    let first = worker.ask(&mut question, false).await.map(drop);
    if let Err(error @ (CliFailure::Invalid(_) | CliFailure::NotFound(_) | CliFailure::Failed(_))) =
        first
    {
        return Err(error);
    }
    console.note(&format!("worker {name} asks {address} for runs of queue {}", args.queue));
    let beats = tokio::spawn(worker.clone().beat());
    tokio::select! {
        () = worker.ask_for_ever(first, &mut question) => {}
        () = print(&mut printed, console) => {}
        _ = signals.next() => {}
    }
    if question.was_sent {
        worker.give_back_unanswered(&question.id).await;
    }
    worker.tasks.close();
    let left = worker.open().len();
    if left > 0 {
        console.note(&format!(
            "the worker ends when its {left} open runs have ended; a second signal stops them"
        ));
    }
    tokio::select! {
        () = worker.tasks.wait() => {}
        () = print(&mut printed, console) => {}
        _ = signals.next() => {
            worker.stop_all(WorkStop::Shutdown);
            worker.tasks.wait().await;
        }
    }
    beats.abort();
    worker.program.keeper.clone().stop().await;
    Ok(0)
}

/// Returns the program of the worker, with a keeper for its processes.
async fn program(name: &str, args: &WorkArgs, lease: Duration) -> Result<WorkProgram, CliFailure> {
    let failed = |error: &dyn std::fmt::Display| CliFailure::Failed(error.to_string());
    let settings = KeeperSettings {
        program: this_program().map_err(|error| failed(&error))?,
        ended_file: None,
        node: name.to_owned(),
        incarnation: Question::fresh().id,
        lease,
        output: OutputBounds::default(),
        delegation: None,
        open_files: None,
    };
    let keeper = Keeper::start(settings).await.map_err(|error| failed(&error))?;
    WorkProgram::new(keeper, args.command.clone(), lease).map_err(|error| failed(&error))
}

/// Prints warnings. Never returns.
async fn print(warnings: &mut mpsc::UnboundedReceiver<String>, console: &mut Console) {
    while let Some(line) = warnings.recv().await {
        console.warn(&line);
    }
    std::future::pending::<()>().await;
}

impl Worker {
    /// Locks and returns the open runs. Each entry is inserted or removed in one step, so a lock that
    /// a panic poisoned is used all the same.
    fn open(&self) -> MutexGuard<'_, HashMap<String, OpenWork>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warn(&self, line: String) {
        // The receiver is gone only when the worker ends.
        let _ = self.warnings.send(line);
    }

    /// Returns the time until which this worker has a run whose lease was renewed after `sent`. A part
    /// of the lease is left for differences between clocks.
    fn sure_until(&self, sent: BootInstant) -> BootInstant {
        sent.saturating_add(self.client.lease / 10 * 9)
    }

    /// Asks for as many runs as slots are free, and begins them. After the answer, `question` is a new
    /// one. Returns true if the node of the API stops.
    async fn ask(
        self: &Arc<Self>,
        question: &mut Question,
        waits: bool,
    ) -> Result<bool, CliFailure> {
        let most = self.slots.available_permits();
        let is_repeated = std::mem::replace(&mut question.was_sent, true);
        let sent = BootInstant::now();
        let answer = self.client.claim(&question.id, most, waits).await?;
        let took = BootInstant::now().since(sent);
        // The leases began at some time after `sent`, or after an earlier question. If that may be long
        // ago, a renewal says until when the worker has the runs.
        let runs = if is_repeated || took > self.client.lease / 10 {
            self.renewed(answer.runs).await?
        } else {
            let until = self.sure_until(sent);
            answer.runs.into_iter().map(|run| SureRun { run, until, stop: None }).collect()
        };
        *question = Question::fresh();
        for run in runs {
            self.begin(run);
        }
        Ok(answer.drain)
    }

    /// Renews the leases of these runs. Leaves out the runs that the worker no longer has.
    async fn renewed(&self, runs: Vec<WorkerRun>) -> Result<Vec<SureRun>, CliFailure> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let until = self.sure_until(BootInstant::now());
        let proofs = runs.iter().map(WorkerRun::proof).collect();
        let answers = self.client.report("heartbeat", proofs).await?;
        let sure = runs.into_iter().zip(answers).filter_map(|(run, answer)| {
            let stop = match stop_of(&answer.result) {
                Some(WorkStop::Lost) => return None,
                stop => stop,
            };
            Some(SureRun { run, until, stop })
        });
        Ok(sure.collect())
    }

    /// Asks for runs again and again. `last` is the result of the first question.
    async fn ask_for_ever(
        self: &Arc<Self>,
        mut last: Result<(), CliFailure>,
        question: &mut Question,
    ) {
        let mut failures = 0_u32;
        loop {
            if let Err(error) = last {
                if failures == 0 {
                    let lines = error.lines().join("; ");
                    self.warn(format!("{lines}; the worker goes on asking"));
                }
                failures = failures.saturating_add(1);
                tokio::time::sleep(pause(failures).max(self.client.api.retry_after())).await;
            } else {
                failures = 0;
            }
            // Ends when a slot is free.
            drop(self.slots.acquire().await);
            last = match self.ask(question, true).await {
                Ok(is_draining) => {
                    if is_draining {
                        tokio::time::sleep(pause(1)).await;
                    }
                    Ok(())
                }
                Err(error) => Err(error),
            };
        }
    }

    /// Begins the work of a run in a task of its own, which has a slot until the end is reported.
    fn begin(self: &Arc<Self>, SureRun { run, until, stop }: SureRun) {
        if self.open().get(&run.run_id).is_some_and(|open| open.proof == run.proof()) {
            return;
        }
        let slot = self.slots.clone().try_acquire_owned().ok();
        let (deadline, of_deadline) = watch::channel(until);
        let (stop, of_stop) = watch::channel(stop);
        self.open().insert(run.run_id.clone(), OpenWork { proof: run.proof(), deadline, stop });
        let worker = self.clone();
        self.tasks.spawn(async move {
            let control = WorkControl { deadline: of_deadline, stop: of_stop };
            let end = worker.program.work_on(&run, control, None).await;
            worker.report(&run, &end).await;
            worker.forget(&run);
            drop(slot);
        });
    }

    /// Forgets a run, unless the worker lost it and has got it again meanwhile.
    fn forget(&self, run: &WorkerRun) {
        let mut open = self.open();
        if open.get(&run.run_id).is_some_and(|open| open.proof == run.proof()) {
            open.remove(&run.run_id);
        }
    }

    /// Reports the end of the work of a run, again and again until the API answers. The lease of the
    /// run is renewed meanwhile.
    async fn report(&self, run: &WorkerRun, end: &WorkEnd) {
        let mut item = run.proof();
        let verb = match end {
            WorkEnd::Lost => {
                self.warn(format!("run {} was lost, and its work stopped", run.run_id));
                return;
            }
            WorkEnd::Stopped { has_begun } => {
                item["begun"] = (*has_begun).into();
                "release"
            }
            WorkEnd::GivenBack | WorkEnd::NotStarted => {
                item["begun"] = matches!(end, WorkEnd::GivenBack).into();
                item["delay_ms"] = u64::try_from(RELEASE_WAIT.as_millis()).unwrap_or(0).into();
                "release"
            }
            WorkEnd::Done { output } => {
                item["output"] = output.as_str().into();
                "complete"
            }
            WorkEnd::Failed { error, output, .. } => {
                item["error"] = error.as_str().into();
                item["output"] = output.as_str().into();
                "fail"
            }
        };
        let mut last = String::new();
        for failures in 1..=REPORTS {
            match self.client.report(verb, vec![item.clone()]).await {
                Ok(answers) => {
                    for answer in answers.iter().filter(|answer| answer.result != "ok") {
                        let (run, word) = (&answer.run_id, &answer.result);
                        self.warn(format!("the end of run {run} was refused: {word}"));
                    }
                    return;
                }
                // After a refusal, the same report has no use.
                Err(CliFailure::Invalid(why)) => {
                    return self.warn(format!("the end of run {} was refused: {why}", run.run_id));
                }
                Err(error) => {
                    last = error.lines().join("; ");
                    tokio::time::sleep(pause(failures)).await;
                }
            }
        }
        self.warn(format!("the end of run {} could not be reported: {last}", run.run_id));
    }

    /// Renews the leases of all open runs at each third of a lease, and stops the runs that were
    /// cancelled or lost. Never returns.
    async fn beat(self: Arc<Self>) {
        let (usual, soon) = (self.client.lease / 3, self.client.lease / 20);
        let mut wait = usual;
        loop {
            tokio::time::sleep(wait).await;
            wait = usual;
            let runs: Vec<Value> = self.open().values().map(|open| open.proof.clone()).collect();
            if runs.is_empty() {
                continue;
            }
            let until = self.sure_until(BootInstant::now());
            let Ok(answers) = self.client.report("heartbeat", runs).await else {
                wait = soon;
                continue;
            };
            for answer in answers {
                if answer.result == "again" {
                    wait = soon;
                    continue;
                }
                let stop = stop_of(&answer.result);
                let open = self.open();
                let Some(open) = open.get(&answer.run_id) else { continue };
                if stop != Some(WorkStop::Lost) {
                    open.deadline.send_replace(until);
                }
                if stop.is_some() {
                    open.stop.send_replace(stop);
                }
            }
        }
    }

    /// Gives back the runs of a question whose answer did not arrive before the stop.
    async fn give_back_unanswered(&self, question: &str) {
        let Ok(answer) = self.client.claim(question, 1, false).await else { return };
        let runs: Vec<Value> = answer.runs.iter().map(WorkerRun::proof).collect();
        if !runs.is_empty() {
            // Without an answer, the runs are free when their leases end.
            let _ = self.client.report("release", runs).await;
        }
    }

    fn stop_all(&self, why: WorkStop) {
        for open in self.open().values() {
            open.stop.send_replace(Some(why));
        }
    }
}

impl Question {
    /// Returns a question with an id that no other question has.
    fn fresh() -> Self {
        Self { id: format!("{:032x}", fastrand::u128(..)), was_sent: false }
    }
}

/// Returns the stop that the answer to a heartbeat asks for.
fn stop_of(result: &str) -> Option<WorkStop> {
    match result {
        "ok" => None,
        "cancel" => Some(WorkStop::Cancelled),
        _ => Some(WorkStop::Lost),
    }
}

/// Returns the wait after so many failures in a row, with a random part, so that many workers do not
/// ask at the same moment.
fn pause(failures: u32) -> Duration {
    let longest = FIRST_PAUSE * 2_u32.saturating_pow(failures.clamp(1, 8) - 1);
    longest.min(LONGEST_PAUSE).mul_f64(0.5 + fastrand::f64() / 2.0)
}
