//! Layer 2: runs one attempt of a job.
//!
//! A process runs in the keeper (`process`), an HTTP request is made here (`http`). What either writes or answers goes
//! into an [`OutputBuffer`]; how it ended is an `Outcome`.
//!
//! Invariant: an attempt holds its lease or is ended: nothing is started or sent past the lease's deadline.

mod account;
mod environment;
mod filling;
mod http;
mod http_error;
mod lease_guard;
mod making_do;
pub mod output;
mod output_lines;
mod process;
mod retry_after;
mod shortage;
mod signing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::domain::env_file::EnvFile;
use account::Account;

use crate::domain::ids::{Fence, NodeName, RunId};
use crate::domain::job::Action;
use crate::domain::limits::LimitKind;
use crate::domain::ping::{Ping, ping_address};
use crate::domain::process::ProcessRules;
use crate::domain::run::{Ending, Outcome};
use crate::domain::time::UnixMillis;
use crate::domain::webhook::SigningSecret;
use crate::keeper::{BootInstant, Keeper};
use crate::secrets::Credentials;
use lease_guard::LeaseGuard;
use making_do::MakingDo;
use process::Program;
use shortage::Shortage;

pub use account::MayRunAs;
pub use output::{Chunk, Output, OutputBuffer, Stream};
pub use retry_after::wait_asked;

/// Why there are no executors.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// The HTTP client cannot be built.
    #[error("HTTP client cannot be built: {0}")]
    HttpClient(#[source] reqwest::Error),
}

/// What runs attempts: the keeper and one HTTP client, shared. Clones are the same.
#[derive(Debug, Clone)]
pub struct Executors {
    keeper: Keeper,
    client: reqwest::Client,
    account: Arc<Account>,
    may_run_as: Arc<MayRunAs>,
    credentials: Credentials,
    /// What keeps this node from starting processes, and from making requests.
    processes: Arc<Shortage>,
    requests: Arc<Shortage>,
}

/// One try of a run.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The run it is a try of.
    pub run: RunId,
    /// Counted from 1.
    pub number: u32,
    /// Of the lease it is made under.
    pub fence: Fence,
    /// Where it is made.
    pub node: NodeName,
    /// What is done.
    pub action: Action,
    /// The job's own variables, with its references to credentials.
    pub env: BTreeMap<String, String>,
    /// Where more of them are.
    pub env_files: Vec<EnvFile>,
    /// What signs its requests, with its references to credentials.
    pub webhook_secrets: Vec<SigningSecret>,
    /// Redis' time, and when that was by this node's clock: by it signed requests are dated.
    pub by_redis: (UnixMillis, BootInstant),
    /// What it tells, if it is one of a notice.
    pub tidings: Tidings,
    /// Where a process starts; none = the home of the user schedd runs as.
    pub cwd: Option<PathBuf>,
    /// How a process is started.
    pub process: ProcessRules,
    /// How long it may take, all in all.
    pub timeout: Duration,
    /// How long after TERM follows KILL.
    pub kill_grace: Duration,
    /// The lease's length; its tenth lies between TERM and KILL when it is lost.
    pub lease: Duration,
}

/// What a notice tells: texts of others, given on as they are, so that nothing in them stands for a credential.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tidings {
    /// Variables of a process, which beat those of its job.
    pub variables: BTreeMap<String, String>,
    /// The body of a request that has none of its own and a method that takes one; empty = none.
    pub body: String,
    /// What a ping tells of which run, in its address.
    pub ping: Option<(RunId, Ping)>,
}

/// What happens to an attempt from outside while it runs.
#[derive(Debug, Clone)]
pub struct Control {
    /// The lease's end, moved on by each renewal.
    pub deadline: watch::Receiver<BootInstant>,
    /// Set when it is to stop.
    pub stop: watch::Receiver<Option<StopReason>>,
}

/// Why an attempt is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// A person, or the run that replaces it, asked.
    Cancelled,
    /// This node is stopping.
    ShutDown,
}

impl StopReason {
    /// How an attempt stopped for this reason ends.
    pub fn ending(self) -> Ending {
        match self {
            Self::Cancelled => Ending::Stopped,
            Self::ShutDown => Ending::ShutDown,
        }
    }
}

impl Executors {
    /// Executors on this keeper, which put these credentials where jobs refer to them, for jobs that may run as those. Fails if no
    /// HTTP client can be made.
    pub fn new(keeper: Keeper, credentials: Credentials, may_run_as: MayRunAs) -> Result<Self, ExecutorError> {
        let client = http::client().map_err(ExecutorError::HttpClient)?;
        Ok(Self {
            keeper,
            client,
            account: Arc::new(Account::of_this_process()),
            may_run_as: Arc::new(may_run_as),
            credentials,
            processes: Arc::default(),
            requests: Arc::default(),
        })
    }

    /// Pings `base` of `run`, once and not for long; the error says in words why nobody was reached.
    pub async fn ping(&self, base: &str, run: &RunId, ping: Ping) -> Result<(), String> {
        let base = filling::url(base, &self.credentials).await?;
        http::ping(&self.client, &ping_address(&base, run, ping)).await
    }

    /// Whether an attempt begun now would start at once.
    pub fn are_ready(&self) -> bool {
        self.keeper.is_ready()
    }

    /// What this node is short of, so that it could start nothing at its last try.
    pub fn short_of(&self) -> Option<String> {
        self.processes.why().or_else(|| self.requests.why())
    }

    /// A run that does this was claimed. If it is the try of a node that could start nothing, nothing more is claimed until it tells.
    pub fn note_claimed(&self, action: &Action) {
        match action {
            Action::Http(_) => self.requests.begin(),
            Action::Command(_) | Action::Shell(_) => self.processes.begin(),
        }
    }

    /// How many runs may be claimed for all that is known of what this node can start.
    pub fn room(&self) -> usize {
        self.processes.room().min(self.requests.room())
    }

    /// Which limits of jobs this host can enforce.
    pub fn limits(&self) -> BTreeSet<LimitKind> {
        let by_itself = LimitKind::ALL.into_iter().filter(|kind| kind.controller().is_none());
        by_itself.chain(self.keeper.limits().iter().copied()).collect()
    }

    /// How many files a process may have open here at most, whatever its job's limit says; none = any number.
    pub fn most_files(&self) -> Option<u64> {
        process::most_files()
    }

    /// Whether each run has a cgroup of its own, by which all of it is found.
    pub fn has_cgroups(&self) -> bool {
        self.keeper.has_cgroups()
    }

    /// The user this process runs as, and so a job that names none.
    pub fn own_user(&self) -> &str {
        &self.account.user
    }

    /// Whom jobs may run as here.
    pub fn may_run_as(&self) -> &MayRunAs {
        &self.may_run_as
    }

    /// Runs `attempt` to its end and says how it ended. Never fails: whatever goes wrong is an outcome. Dropped before that,
    /// what was started is killed.
    pub async fn execute(&self, attempt: &Attempt, control: Control, output: &OutputBuffer) -> Outcome {
        if let Action::Http(request) = &attempt.action {
            let outcome = http::execute(&self.client, &self.credentials, request, attempt, control, output).await;
            self.requests.judge_request(&outcome);
            return outcome;
        }
        let mut making_do = MakingDo::of(attempt);
        let guard = LeaseGuard::new(control.clone(), attempt.timeout);
        let cannot_start = |why: String| Outcome::failed(format!("cannot start: {why}"));
        let filled = async {
            // Whoever cannot be looked up is told below.
            let job_user = match &attempt.process.user {
                Some(run_as) if !attempt.env_files.is_empty() => self.may_run_as.id_of(run_as).await,
                _ => None,
            };
            filling::variables(attempt, job_user, &self.credentials).await
        };
        let own = match guard.run(filled).await {
            Ok(Ok((mut own, faults))) => match making_do.without_variables(&mut own, faults) {
                Ok(()) => own,
                Err(why) => return cannot_start(why),
            },
            Ok(Err(why)) => return cannot_start(why),
            Err(interruption) => return interruption.outcome_of_nothing(attempt.timeout),
        };
        let account = match guard.run(self.may_run_as.account(attempt.process.user.as_ref(), &own)).await {
            Ok(Ok(None)) => Arc::clone(&self.account),
            Ok(Ok(Some(account))) => Arc::new(account),
            Ok(Err(why)) => match making_do.without_user(why, &self.may_run_as) {
                Ok(()) => Arc::clone(&self.account),
                Err(why) => return cannot_start(why),
            },
            Err(interruption) => return interruption.outcome_of_nothing(attempt.timeout),
        };
        loop {
            let attempt = making_do.attempt();
            let program = Program { argv: attempt.argv(), env: account.variables(attempt, own.clone()) };
            let (outcome, wanting) =
                process::execute((&self.keeper, &self.processes), &account, program, attempt, control.clone(), output).await;
            if !making_do.start_without(wanting, &outcome) {
                return making_do.told(outcome);
            }
        }
    }
}

impl Attempt {
    /// What its process is started with; nothing of a request.
    fn argv(&self) -> Vec<String> {
        match &self.action {
            Action::Http(_) => Vec::new(),
            Action::Command(argv) => argv.clone(),
            Action::Shell(line) => vec![self.process.shell().into_owned(), "-c".to_owned(), line.clone()],
        }
    }
}
