//! Layer 2: runs one attempt of a job.
//!
//! A process runs in the keeper (`process`). An HTTP request is made in this process (`http`).
//! Output and answers go into an [`OutputBuffer`]. The end of the attempt is an `AttemptOutcome`.
//!
//! Invariant: an attempt has its lease or is ended. Nothing is started or sent past the lease's
//! deadline.

mod account;
mod attempt;
mod credential_injection;
mod environment;
mod http;
mod http_error;
mod lease_guard;
mod notice_fallback;
pub mod output;
mod output_lines;
mod process;
mod retry_after;
mod shortage;
mod signing;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::domain::job::job_spec::Action;
use crate::domain::job::ping::{Ping, ping_address};
use crate::domain::job::process_limits::LimitKind;
use crate::domain::name::names::RunId;
use crate::domain::run::run_state::AttemptOutcome;
use crate::keeper::Keeper;
use crate::secrets::Credentials;
use account::Account;
use lease_guard::LeaseGuard;
use notice_fallback::MakingDo;
use process::Program;
use shortage::Shortage;

pub use account::MayRunAs;
pub use attempt::{Attempt, Control, NoticeFacts, StopReason};
pub use output::{Chunk, ExcerptStream, Output, OutputBuffer};
pub use retry_after::wait_asked;

/// The reason why there are no executors.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// The HTTP client cannot be built.
    #[error("HTTP client cannot be built: {0}")]
    HttpClient(#[source] reqwest::Error),
}

/// The executors of attempts: the keeper and one HTTP client. Clones share the keeper and the
/// client.
#[derive(Debug, Clone)]
pub struct Executors {
    keeper: Keeper,
    client: reqwest::Client,
    account: Arc<Account>,
    may_run_as: Arc<MayRunAs>,
    credentials: Credentials,
    /// The shortages that keep this node from starting processes, and from making requests.
    processes: Arc<Shortage>,
    requests: Arc<Shortage>,
}

impl Executors {
    /// Creates executors that use this keeper. The executors fill in `credentials` where jobs refer
    /// to them, and run jobs as the users that `may_run_as` allows.
    ///
    /// Fails if no HTTP client can be built.
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

    /// Sends one ping about `run` to `base`. The request takes at most a few seconds. The error
    /// says why no answer came.
    pub async fn ping(&self, base: &str, run: &RunId, ping: Ping) -> Result<(), String> {
        let base = credential_injection::url(base, &self.credentials).await?;
        http::ping(&self.client, &ping_address(&base, run, ping)).await
    }

    /// Returns true if an attempt that begins now would start at once.
    pub fn are_ready(&self) -> bool {
        self.keeper.is_ready()
    }

    /// Returns the resource that this node lacked at its last start of a run. `None` if that start
    /// succeeded.
    pub fn short_of(&self) -> Option<String> {
        self.processes.why().or_else(|| self.requests.why())
    }

    /// Notes that a run with this action was claimed. After a shortage, one such run tests whether
    /// this node can start runs. Until the result of this test is known, no more runs are claimed.
    pub fn note_claimed(&self, action: &Action) {
        match action {
            Action::Http(_) => self.requests.begin(),
            Action::Command(_) | Action::Shell(_) => self.processes.begin(),
        }
    }

    /// Returns how many runs may be claimed, judged by the starts that succeeded or failed
    /// recently.
    pub fn room(&self) -> usize {
        self.processes.room().min(self.requests.room())
    }

    /// Returns the limits of jobs that this host can enforce.
    pub fn limits(&self) -> BTreeSet<LimitKind> {
        let by_itself = LimitKind::ALL.into_iter().filter(|kind| kind.controller().is_none());
        by_itself.chain(self.keeper.limits().iter().copied()).collect()
    }

    /// Returns how many files a process may have open on this host at most, whatever limit the job
    /// sets. `None`: any number.
    pub fn most_files(&self) -> Option<u64> {
        process::most_files()
    }

    /// Returns true if each run has a cgroup of its own, by which all processes of the run are
    /// found.
    pub fn has_cgroups(&self) -> bool {
        self.keeper.has_cgroups()
    }

    /// Returns the user of this process. A job that names no user runs as this user.
    pub fn own_user(&self) -> &str {
        &self.account.user
    }

    /// Returns the users that jobs may run as on this node.
    pub fn may_run_as(&self) -> &MayRunAs {
        &self.may_run_as
    }

    /// Runs `attempt` to its end and returns its outcome. Never fails: every problem is an outcome.
    /// If the future is dropped before the end, the started process is killed.
    pub async fn execute(&self, attempt: &Attempt, control: Control, output: &OutputBuffer) -> AttemptOutcome {
        if let Action::Http(request) = &attempt.action {
            let outcome = http::execute(&self.client, &self.credentials, request, attempt, control, output).await;
            self.requests.judge_request(&outcome);
            return outcome;
        }
        let mut making_do = MakingDo::of(attempt);
        let guard = LeaseGuard::new(control.clone(), attempt.timeout);
        let cannot_start = |why: String| AttemptOutcome::failed(format!("cannot start: {why}"));
        let filled = async {
            // A user that cannot be looked up becomes an error below.
            let job_user = match &attempt.process.user {
                Some(run_as) if !attempt.env_files.is_empty() => self.may_run_as.id_of(run_as).await,
                _ => None,
            };
            credential_injection::variables(attempt, job_user, &self.credentials).await
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
