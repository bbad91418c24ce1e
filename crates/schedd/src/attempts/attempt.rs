//! One attempt of a run as a value, and the channels on which a running attempt receives a new end
//! of its lease or a request to stop.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;

use schedd_core::domain::job::env_file::EnvFile;
use schedd_core::domain::job::job_spec::Action;
use schedd_core::domain::job::ping::Ping;
use schedd_core::domain::job::process_rules::ProcessRules;
use schedd_core::domain::job::webhook::SigningSecret;
use schedd_core::domain::run::run_state::Ending;
use schedd_core::domain::run::trace_context::TraceContext;
use schedd_core::host::boot_clock::BootInstant;
use schedd_schedule::chain::chain_end::ParentEnd;
use schedd_schedule::names::{Fence, NodeName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::ZoneName;

/// One attempt of a run, with everything its execution needs.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The run of this attempt.
    pub run: RunId,
    /// The number of the attempt, counted from 1.
    pub number: u32,
    /// The fence of the lease under which the attempt is made.
    pub fence: Fence,
    /// The node that makes the attempt.
    pub node: NodeName,
    /// The action of the job.
    pub action: Action,
    /// The zone of the job, which is the variable `TZ` of a process.
    pub zone: ZoneName,
    /// The job's own variables, with references to credentials.
    pub env: BTreeMap<String, String>,
    /// The files whose variables are added to `env`.
    pub env_files: Vec<EnvFile>,
    /// The secrets that sign the requests of the attempt, with references to credentials.
    pub webhook_secrets: Vec<SigningSecret>,
    /// Redis' time, and the instant by this node's clock at which Redis reported that time. Signed
    /// requests get their date from both.
    pub by_redis: (UnixMillis, BootInstant),
    /// The payload of the notice, if this attempt delivers a notice.
    pub notice_facts: NoticeFacts,
    /// The ends of the job's parents. Empty for a run that no parent started.
    pub parents: Vec<ParentEnd>,
    /// The trace that the attempt belongs to; `None` for no trace.
    pub trace: Option<TraceContext>,
    /// The directory in which a process starts; `None` for the home of the user it runs as.
    pub cwd: Option<PathBuf>,
    /// The rules for starting a process.
    pub process: ProcessRules,
    /// The longest time that the whole attempt may take.
    pub timeout: Duration,
    /// The time between the signals SIGTERM and SIGKILL.
    pub kill_grace: Duration,
    /// The length of the lease. If the lease is lost, SIGKILL follows SIGTERM after a tenth of this
    /// length.
    pub lease: Duration,
    /// True if work that has begun must not begin again (at-most-once).
    pub begins_once: bool,
}

impl Attempt {
    /// Returns true if the attempt delivers a notice.
    pub fn is_notice(&self) -> bool {
        self.run.job().is_hidden()
    }

    /// Returns the arguments of the attempt's process; empty for a request and for a worker.
    pub fn argv(&self) -> Vec<String> {
        match &self.action {
            Action::Http(_) | Action::Handler(_) => Vec::new(),
            Action::Command(argv) => argv.clone(),
            Action::Shell(line) => {
                vec![self.process.shell().into_owned(), "-c".to_owned(), line.clone()]
            }
        }
    }
}

/// The payload of a notice. The texts of the payload come from runs and users, so a
/// `${credential:NAME}` in such a text is not replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoticeFacts {
    /// The variables of a process that delivers the notice. They override the variables of the
    /// notice's job.
    pub variables: BTreeMap<String, String>,
    /// The body of a request whose definition has no body and whose method takes a body. An empty
    /// text means no body.
    pub body: String,
    /// The run and the kind of a ping, which become part of the ping's address. `None` if the
    /// attempt sends no ping.
    pub ping: Option<(RunId, Ping)>,
}

/// The channels from the node to a running attempt. One channel carries each new end of the lease,
/// and the other channel carries a request to stop.
#[derive(Debug, Clone)]
pub struct Control {
    /// The instant at which the lease ends. Each renewal of the lease moves this instant later.
    pub deadline: watch::Receiver<BootInstant>,
    /// The reason to stop the attempt; `None` until a stop is requested.
    pub stop: watch::Receiver<Option<StopReason>>,
}

/// The reason why an attempt is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// An operator asked for the stop, or another run replaces this run.
    Cancelled,
    /// This node is stopping.
    ShutDown,
}

impl StopReason {
    /// Returns the ending of an attempt that was stopped for this reason.
    pub fn ending(self) -> Ending {
        match self {
            Self::Cancelled => Ending::Stopped,
            Self::ShutDown => Ending::ShutDown,
        }
    }
}
