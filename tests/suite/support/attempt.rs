//! Executors on a keeper of the test's own, and attempts for them. Each attempt has a unique run
//! id.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use schedd::attempts::{Attempt, Control, OutputBuffer, StopReason};
use schedd_core::domain::job::job_spec::Action;
use schedd_core::domain::job::process_rules::ProcessRules;
use schedd_core::domain::run::excerpt::OutputBounds;
use schedd_core::domain::run::run_state::AttemptOutcome;
use schedd_core::host::boot_clock::BootInstant;
use schedd_keeper::{Keeper, KeeperSettings};
use schedd_programs::executor::{Executors, MayRunAs, ResultDirectory};
use schedd_programs::secrets::Credentials;
use schedd_schedule::names::{Fence, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use tokio::sync::watch;

static NEXT: AtomicI64 = AtomicI64::new(1_790_000_000_000);

/// A keeper, executors on it and a directory for both.
pub(crate) struct Bench {
    pub(crate) keeper: Keeper,
    pub(crate) executors: Executors,
    pub(crate) dir: tempfile::TempDir,
}

const LEASE: Duration = Duration::from_secs(10);

impl Bench {
    pub(crate) async fn start() -> Self {
        Self::start_with(None, LEASE).await
    }

    /// Starts a bench whose keeper is started by that program.
    pub(crate) async fn start_with_keeper(program: &Path) -> Self {
        Self::start_as(program, None, LEASE).await
    }

    /// Starts a bench whose node has leases of this length.
    pub(crate) async fn start_with_lease(lease: Duration) -> Self {
        Self::start_with(None, lease).await
    }

    /// Starts a bench whose keeper writes its mark to that file in the directory.
    pub(crate) async fn start_with_mark(name: &str) -> Self {
        Self::start_with(Some(name), LEASE).await
    }

    async fn start_with(mark: Option<&str>, lease: Duration) -> Self {
        Self::start_as(Path::new(env!("CARGO_BIN_EXE_schedd")), mark, lease).await
    }

    async fn start_as(program: &Path, mark: Option<&str>, lease: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = KeeperSettings {
            program: program.to_owned(),
            ended_file: mark.map(|name| dir.path().join(name)),
            node: "web-1".to_owned(),
            incarnation: "one".to_owned(),
            lease,
            output: OutputBounds::default(),
            delegation: None,
            open_files: None,
        };
        let keeper = Keeper::start(settings).await.unwrap();
        Self {
            executors: Executors::new(
                keeper.clone(),
                Credentials::within(dir.path().to_owned()),
                MayRunAs::of_this_process(None),
                ResultDirectory::within(Some(dir.path())),
            )
            .unwrap(),
            keeper,
            dir,
        }
    }

    /// Runs an attempt to its end without interference.
    pub(crate) async fn run(&self, attempt: &Attempt) -> (AttemptOutcome, OutputBuffer) {
        let running = self.begin(attempt);
        (running.task.await.unwrap(), running.output)
    }

    /// Starts an attempt that the test may interrupt.
    pub(crate) fn begin(&self, attempt: &Attempt) -> Running {
        self.begin_until(BootInstant::now().saturating_add(Duration::from_secs(120)), attempt)
    }

    /// Starts an attempt on a lease that ends at `deadline`.
    pub(crate) fn begin_until(&self, deadline: BootInstant, attempt: &Attempt) -> Running {
        let (deadline, deadline_seen) = watch::channel(deadline);
        let (stop, stop_seen) = watch::channel(None);
        let output = OutputBuffer::new(OutputBounds::default());
        let (executors, attempt, buffer) =
            (self.executors.clone(), attempt.clone(), output.clone());
        let control = Control { deadline: deadline_seen, stop: stop_seen };
        let task = tokio::spawn(async move { executors.execute(&attempt, control, &buffer).await });
        Running { task, deadline, stop, output }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }
}

/// A started attempt.
pub(crate) struct Running {
    pub(crate) task: tokio::task::JoinHandle<AttemptOutcome>,
    pub(crate) deadline: watch::Sender<BootInstant>,
    pub(crate) stop: watch::Sender<Option<StopReason>>,
    pub(crate) output: OutputBuffer,
}

/// Returns an attempt with short time limits.
pub(crate) fn attempt(action: Action) -> Attempt {
    let due = NEXT.fetch_add(1, Ordering::Relaxed);
    Attempt {
        run: RunId::regular("backup".parse().unwrap(), UnixMillis::new(due).unwrap()),
        number: 2,
        fence: Fence::new(u64::try_from(due).unwrap() * 3).unwrap(),
        node: "web-1".parse().unwrap(),
        action,
        zone: Zone::utc().name().clone(),
        env: BTreeMap::new(),
        env_files: Vec::new(),
        notice_facts: schedd::attempts::NoticeFacts::default(),
        parents: Vec::new(),
        trace: None,
        webhook_secrets: Vec::new(),
        by_redis: (UnixMillis::new(due).unwrap(), BootInstant::now()),
        cwd: Some(PathBuf::from("/")),
        process: ProcessRules::default(),
        timeout: Duration::from_secs(60),
        kill_grace: Duration::from_millis(300),
        lease: Duration::from_secs(10),
        begins_once: false,
    }
}

pub(crate) fn shell(line: &str) -> Attempt {
    attempt(Action::Shell(line.to_owned()))
}

pub(crate) fn command(words: &[&str]) -> Attempt {
    attempt(Action::Command(words.iter().map(|word| (*word).to_owned()).collect()))
}
