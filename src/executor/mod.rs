//! The execution of one attempt of a job (layer 2 of the layers in `src/lib.rs`).
//!
//! The keeper starts processes (`process`). The daemon itself sends HTTP requests (`http`).
//! Output and answers go into an [`OutputBuffer`]. The end of the attempt is an `AttemptOutcome`.
//!
//! Invariant: an attempt is ended when its lease ends. Nothing is started or sent after that.

mod account;
mod credential_injection;
mod environment;
mod http;
mod notice_fallback;
mod plain_line;
mod process;
mod result_file;
mod shortage;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::secrets::Credentials;
use account::Account;
use notice_fallback::NoticeFallback;
use process::Program;
use schedd::attempts::lease_guard::LeaseGuard;
use schedd::attempts::{Attempt, Control, Execute, ExecutorAbilities, OutputBuffer};
use schedd_core::domain::job::job_spec::Action;
use schedd_core::domain::job::ping::{Ping, ping_address};
use schedd_core::domain::job::process_limits::LimitKind;
use schedd_core::domain::run::run_state::AttemptOutcome;
use schedd_core::files;
use schedd_keeper::Keeper;
use schedd_schedule::names::RunId;
use shortage::Shortage;

pub use account::MayRunAs;
pub use http::wait_asked;
pub use result_file::ResultDirectory;

/// The reason why the executors could not be created.
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
    results: ResultDirectory,
    /// The variables of every job's process that a job's own variables override.
    variables: Arc<BTreeMap<String, String>>,
    /// The shortage of the keeper, which starts processes. The field `own` is the shortage of this
    /// process, which makes requests, reads secrets and looks up users.
    processes: Arc<Shortage>,
    own: Arc<Shortage>,
}

impl Executors {
    /// Creates executors that use this keeper. The executors fill in `credentials` where jobs refer
    /// to them, and run jobs as the users that `may_run_as` allows. Jobs write their results into
    /// files in `results`.
    ///
    /// Fails if no HTTP client can be built.
    pub fn new(
        keeper: Keeper,
        credentials: Credentials,
        may_run_as: MayRunAs,
        results: ResultDirectory,
    ) -> Result<Self, ExecutorError> {
        let client = http::client().map_err(ExecutorError::HttpClient)?;
        Ok(Self {
            keeper,
            client,
            account: Arc::new(Account::of_this_process()),
            may_run_as: Arc::new(may_run_as),
            credentials,
            results,
            variables: Arc::default(),
            processes: Arc::default(),
            own: Arc::default(),
        })
    }

    /// Returns executors that also give `variables` to each process, unless the job sets the same
    /// variables.
    #[must_use]
    pub fn with_variables(self, variables: BTreeMap<String, String>) -> Self {
        Self { variables: Arc::new(variables), ..self }
    }

    /// Returns the reason why this node cannot start runs, such as a lack of descriptors. Returns
    /// `None` if there was no such shortage, or the shortage counts as over.
    pub fn short_of(&self) -> Option<String> {
        self.processes.why().or_else(|| self.own.why())
    }

    /// Returns how many runs this node may claim now. After a shortage of resources this is 0 for a
    /// pause, and then 1 for a test. Without a shortage it is `usize::MAX`.
    pub fn capacity(&self) -> usize {
        self.processes.capacity().min(self.own.capacity())
    }

    /// Runs `attempt` to its end and returns its outcome. Never fails: every problem is an outcome.
    /// If the future is dropped before the end, the started process is killed.
    pub async fn execute(
        &self,
        attempt: &Attempt,
        control: Control,
        output: &OutputBuffer,
    ) -> AttemptOutcome {
        if let Action::Http(request) = &attempt.action {
            let sender = (&self.client, &*self.own);
            return http::execute(sender, &self.credentials, request, attempt, control, output)
                .await;
        }
        if attempt.action.handler().is_some() {
            // Only a damaged index leads here: no node serves the lane of such a job.
            return AttemptOutcome::failed(
                "cannot start: only a worker can do this work".to_owned(),
            );
        }
        let mut fallback = NoticeFallback::of(attempt);
        let guard = LeaseGuard::new(control.clone(), attempt.timeout);
        let cannot_start = |why: String| AttemptOutcome::failed(format!("cannot start: {why}"));
        let filled = async {
            // A user that cannot be looked up becomes an error below.
            let job_user = match &attempt.process.user {
                Some(run_as) if !attempt.env_files.is_empty() => {
                    self.may_run_as.id_of(run_as).await
                }
                _ => None,
            };
            credential_injection::variables(attempt, job_user, &self.credentials).await
        };
        let mut own = match guard.run(filled).await {
            Ok(Ok((mut own, faults))) => match fallback.without_variables(&mut own, faults) {
                Ok(()) => own,
                Err(why) => return cannot_start(why),
            },
            Ok(Err(why)) => return why.outcome(&self.own),
            Err(interruption) => return interruption.outcome_of_nothing(attempt.timeout),
        };
        let account =
            match guard.run(self.may_run_as.account(attempt.process.user.as_ref(), &own)).await {
                Ok(Ok(None)) => Arc::clone(&self.account),
                Ok(Ok(Some(account))) => Arc::new(account),
                Ok(Err(why)) => {
                    // The C library reports a user as unknown if it has no descriptor to ask.
                    if let Some(lack) = files::lack_of_descriptors() {
                        return self
                            .own
                            .not_started(&format!("look up the user of the job: {why}: {lack}"));
                    }
                    match fallback.without_user(why, &self.may_run_as) {
                        Ok(()) => Arc::clone(&self.account),
                        Err(why) => return cannot_start(why),
                    }
                }
                Err(interruption) => return interruption.outcome_of_nothing(attempt.timeout),
            };
        if attempt.process.user.is_some() || credential_injection::is_needed_by(attempt) {
            self.own.clear();
        }
        let result = self.results.new_file().filter(|_| !fallback.attempt().is_notice());
        for (name, value) in self.variables.iter() {
            own.entry(name.clone()).or_insert_with(|| value.clone());
        }
        loop {
            let attempt = fallback.attempt();
            let env = account.variables(attempt, own.clone(), result.as_deref());
            let program = Program { argv: attempt.argv(), env };
            let (outcome, wanting) = process::execute(
                (&self.keeper, &self.processes),
                &account,
                program,
                attempt,
                control.clone(),
                output,
            )
            .await;
            if !fallback.start_without(wanting, &outcome) {
                let next = result.as_deref().and_then(result_file::take_next);
                return fallback.note_in(AttemptOutcome { next, ..outcome });
            }
        }
    }
}

impl Execute for Executors {
    fn execute<'a>(
        &'a self,
        attempt: &'a Attempt,
        control: Control,
        output: &'a OutputBuffer,
    ) -> BoxFuture<'a, AttemptOutcome> {
        Box::pin(self.execute(attempt, control, output))
    }

    /// Sends one ping. The request takes at most a few seconds.
    fn ping<'a>(
        &'a self,
        base: &'a str,
        run: &'a RunId,
        ping: Ping,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let base = credential_injection::url(base, &self.credentials).await?;
            http::ping(&self.client, &ping_address(&base, run, ping)).await
        })
    }

    fn are_ready(&self) -> bool {
        self.keeper.is_ready()
    }

    fn short_of(&self) -> Option<String> {
        self.short_of()
    }

    /// Notes that a run with this action was claimed. After a shortage, one such run tests whether
    /// this node can start runs. Until the result of this test is known, no more runs are claimed.
    fn note_claimed(&self, action: &Action) {
        match action {
            Action::Http(_) | Action::Handler(_) => self.own.begin(),
            Action::Command(_) | Action::Shell(_) => self.processes.begin(),
        }
    }

    fn capacity(&self) -> usize {
        self.capacity()
    }

    fn abilities(&self) -> ExecutorAbilities {
        let by_itself = LimitKind::ALL.into_iter().filter(|kind| kind.controller().is_none());
        ExecutorAbilities {
            limits: by_itself.chain(self.keeper.limits().iter().copied()).collect(),
            most_files: process::most_files(),
            has_cgroups: self.keeper.has_cgroups(),
            users: self.may_run_as.words().unwrap_or_default(),
            users_why: self.may_run_as.nobody().unwrap_or_default(),
            own_user: self.account.user.clone(),
        }
    }
}
