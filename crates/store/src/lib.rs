//! Layer 2: the only code that talks to Redis.
//!
//! [`Store`] has a method for each change of a job, a run or a node. A method that runs a script in
//! `lua/` has the name of the script. A refusal is a value of the method's reply enum;
//! [`StoreError`] is for unexpected failures. A caller may repeat a call after an error: scripts
//! recognise a repeated call by its token, or find the change already made.

mod api_marks;
mod chains;
mod connection;
mod consistency;
mod gates;
mod history;
mod index_pages;
mod jobs;
mod nodes;
mod notices;
mod queues;
mod recovery;
mod runs;
mod script_times;
pub mod server;
mod shards;
mod shared_calls;
#[cfg(feature = "testing")]
mod test_clock;

pub use api_marks::MarkSuccessor;
pub use chains::chain_ends::{ChainEndRecord, ChildReply};
pub use connection::address::{Address, AddressError, Eviction, Reread};
pub use connection::least_rights::{Rights, acl_line};
pub use connection::preflight::Findings;
pub use consistency::check_turn::{CheckNote, CheckTurn};
pub use consistency::indexes::{IndexName, IndexPage};
pub use consistency::inspection::{JobToInspect, Searched};
pub use consistency::quarantine::{EntryKind, QuarantineEntry, Quarantined, SetAside};
pub use consistency::quarantine_discard::Discarded;
pub use consistency::quarantine_return::PutBackReply;
pub use consistency::repair_calls::{JobMending, MendReply};
pub use consistency::server_checkup::{CheckLevel, ServerCheck};
pub use gates::gate_calls::{GateOpening, GroupStanding, LetIn};
pub use gates::gated_jobs::{Gated, PlannedAtGate};
pub use gates::lane_takers::Takers;
pub use history::history_ledger::{Ledger, LedgerRange};
pub use history::output_index::OutputFacts;
pub use history::outputs::{KeptOutput, OutputFrames, OutputMark, OutputSoFar, OutputStream};
pub use history::run_history::{Ended, HistoryPage, Letters, RunNotices};
pub use history::run_record::{PastAttempt, REFUSED, RunRecord};
pub use history::run_wait::RunWait;
pub use history::skipped_ranges::{CountedBy, RecordedAt, SkippedRecord};
pub use index_pages::{IndexCursor, JobIndex};
pub use jobs::audit_log::AuditEntry;
pub use jobs::backfills::{BackfillReply, PlantReply};
pub use jobs::boot_runs::RebootReply;
pub use jobs::job_edits::{ApplyOrder, ApplyReply, DefinitionChange, Existing, UniqueOrder};
pub use jobs::job_records::{JobRecord, SourceKind};
pub use jobs::job_removal::{RemoveOrder, RemoveReply, StopRunning};
pub use jobs::job_summaries::{JobSummary, RecordedRetry};
pub use jobs::job_switch::{NextReply, PauseReply, ResumeOrder, ResumeReply};
pub use jobs::rev::Rev;
pub use jobs::schedule_versions::StoredVersion;
pub use jobs::unique_keys::UniqueHolder;
pub use nodes::live_instances::{LiveInstances, next_of};
pub use nodes::node_events::{EventNote, NodeEvents};
pub use nodes::node_records::{BeatFacts, BeatReply, FULL, NameClaim, NodeBeat, NodeRecord};
pub use notices::failed_notices::FailedNotice;
pub use notices::notice_records::{About, MOST_OPEN, NoticeOrder, NoticeRecord, NoticeReply};
pub use notices::run_deadlines::{DeadlineReply, DueRange, OverdueRuns, RunDeadline, WatchReply};
pub use queues::counters::{CountMarks, CounterPair};
pub use queues::declared_sections::{DeclareReply, Section, SectionText};
pub use queues::namespace_counts::{NamespaceCounts, SpanCounts};
pub use queues::queue_settings::{QueueDepth, QueueReply, QueueSwitch, RunTimes};
pub use queues::section_fields::QueueRecord;
pub use queues::stats::Stats;
pub use recovery::data_loss::{
    DataLoss, EpochReply, JOBS_NAMED, LossKind, LossRecord, LossReport, ReportReply, begun_at,
    new_epoch,
};
pub use recovery::restoration::{
    InLedger, KnownRun, LedgerAnswer, RestoreOrder, RestoreReply, ReturnReply, TakenFrom,
};
pub use runs::catch_up_spread::{SpreadOrder, SpreadReply, SpreadWindow};
pub use runs::change_counts::{Change, ChangeCounts, JobsMark, LanePart, PollTrace, ShortPoll};
pub use runs::claims::{Blocking, Claim, ClaimOrder, ClaimReply, Claimant};
pub use runs::dead_letter_retry::{Beside, RetryOrder, RetryReply};
pub use runs::due_poll::{DataMarks, DueEntry, LaneAsk, LanePoll, Met, Poll};
pub use runs::lease_renewal::LeaseWord;
pub use runs::placement::RunPlacement;
pub use runs::plain_runs::PlainEnd;
pub use runs::run_cancellation::{CancelOrder, CancelReply};
pub use runs::run_ends::{
    ExpiredLease, FinishReply, ManualReply, RecoverReply, Recovery, SkipOrder, SkipReply, Verdict,
};
pub use runs::successor::Successor;
pub use runs::view_mark::ViewMark;
pub use server::redis_keys::{DEFAULT_NAMESPACE, Keys};
pub use server::store_error::StoreError;
pub use shards::{AnsweringPlaces, ShardsError, SoughtJob};
pub use shared_calls::{CallSender, SharedCalls, WaitingItem};
#[cfg(feature = "testing")]
pub use test_clock::TestClock;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use connection::primary_search::slot_of;
use connection::redis_link::RedisLink;
use connection::replica_wait::ReplicaWait;
use server::scripts::{Invocation, Script};

use schedd_core::domain::queue::shard_map::ShardRecord;
use schedd_schedule::time::time_histogram::TimeCounts;
use schedd_schedule::time::unix_millis::UnixMillis;

/// A connection to one namespace in one Redis. Clones share the underlying connections.
#[derive(Clone)]
pub struct Store {
    keys: Keys,
    link: RedisLink,
    /// The connection for lease renewals. It is separate from the connection for claims, so that
    /// renewals never queue behind claims.
    renewals: RedisLink,
    /// The connection that waits for replicas. `None` if changes do not wait for replicas.
    replica_wait: Option<Arc<ReplicaWait>>,
    /// The fixed time that scripts use; None means the time of Redis.
    fixed_now: Option<UnixMillis>,
    /// The clock that tests of programs advance; None means the time of Redis.
    #[cfg(feature = "testing")]
    test_clock: Option<TestClock>,
    /// The author of changes, such as `user@host`; empty if unknown.
    by: Arc<str>,
    /// The number of this shard; `None` for a namespace that is no shard.
    shard: Option<u32>,
    shards: Arc<OpenShards>,
}

/// The age up to which an answer counts as recent for [`Store::recent_now`].
const RECENT: Duration = Duration::from_secs(1);

/// The shards that a store has opened. Clones of the store share them.
#[derive(Debug, Default)]
struct OpenShards(Mutex<KnownShards>);

#[derive(Debug, Default)]
struct KnownShards {
    /// The instant of the last read, and what it found.
    read: Option<(Instant, Option<ShardRecord>)>,
    /// The stores of the shards of `of`, by their numbers.
    stores: Vec<Store>,
    of: Option<ShardRecord>,
    /// If this is a shard that did not answer: when, and the error.
    silent: Option<(Instant, StoreError)>,
}

impl OpenShards {
    fn lock(&self) -> MutexGuard<'_, KnownShards> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Formats the store as its address and its namespace.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({}, {})", self.address(), self.namespace())
    }
}

impl Store {
    /// Creates a store for the namespace of `keys` in the Redis at `address`. The first command
    /// connects. Fails if no Redis client can be made for the address.
    pub fn new(address: &Address, keys: Keys) -> Result<Self, StoreError> {
        let link = RedisLink::new(address, slot_of(keys.namespace()))?;
        let waits = || ReplicaWait::new(&link, keys.replica_mark(), link.replicas());
        let replica_wait = (link.replicas() > 0).then(waits).transpose()?.map(Arc::new);
        Ok(Self {
            keys,
            renewals: link.for_one_call()?,
            replica_wait,
            link,
            fixed_now: None,
            #[cfg(feature = "testing")]
            test_clock: None,
            by: Arc::from(""),
            shard: None,
            shards: Arc::default(),
        })
    }

    /// Returns a store with a connection of its own, on which long reads delay no other call. Fails
    /// if no Redis client can be made.
    pub fn apart(&self) -> Result<Self, StoreError> {
        Ok(Self { link: self.link.apart()?, shards: Arc::default(), ..self.clone() })
    }

    /// Returns a store with a connection of its own that leaves Redis four fifths of the time for
    /// other calls. Fails if no Redis client can be made.
    pub fn gently(&self) -> Result<Self, StoreError> {
        Ok(Self { link: self.link.apart()?.gently(), shards: Arc::default(), ..self.clone() })
    }

    /// Returns a store whose scripts all use the fixed time `now`, so that tests control the time.
    #[must_use]
    pub fn at(&self, now: UnixMillis) -> Self {
        Self { fixed_now: Some(now), ..self.clone() }
    }

    /// Returns a store whose scripts use the time of `clock`.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn by_clock(&self, clock: &TestClock) -> Self {
        Self { test_clock: Some(clock.clone()), ..self.clone() }
    }

    /// Returns the time that scripts use instead of the time of Redis. Returns `None` if they use
    /// the time of Redis.
    fn chosen_now(&self) -> Option<UnixMillis> {
        #[cfg(feature = "testing")]
        if let Some(clock) = &self.test_clock {
            return Some(clock.now());
        }
        self.fixed_now
    }

    /// Returns a store that records `by` as the author of each change of a job, such as `user@host`
    /// or `file of NODE`.
    #[must_use]
    pub fn signed(&self, by: &str) -> Self {
        Self { by: Arc::from(by), ..self.clone() }
    }

    /// Returns the address of Redis, without its password.
    pub fn address(&self) -> &str {
        self.link.address()
    }

    /// Returns the number of connections made so far, not counting connections for lease renewals.
    /// After a new connection, Redis may have lost writes that it acknowledged before.
    pub fn connections_made(&self) -> u64 {
        self.link.connections_made()
    }

    /// Returns how often a lost connection to Redis was replaced, for calls and for lease renewals.
    pub fn reconnects(&self) -> u64 {
        [&self.link, &self.renewals]
            .into_iter()
            .map(|link| link.connections_made().saturating_sub(1))
            .sum()
    }

    /// Returns the durations of the answered calls of each script, by the name of the script. Calls
    /// of all stores that were made from this store by [`Store::apart`] count too.
    pub fn script_times(&self) -> Vec<(&'static str, TimeCounts)> {
        self.link.script_times().counts()
    }

    /// Returns true if acknowledged changes wait for replicas.
    pub fn is_replicated(&self) -> bool {
        self.replica_wait.is_some()
    }

    /// Makes a change, and then waits until replicas have it, if the address of Redis demands this
    /// (`durability=replicated`). Returns the result of the change and that of the wait. If too few
    /// replicas have the change in time, the latter is [`StoreError::NotReplicated`].
    pub async fn replicated<T, E: From<StoreError>>(
        &self,
        change: impl Future<Output = Result<T, E>>,
    ) -> Result<(T, Result<(), StoreError>), E> {
        let Some(replica_wait) = &self.replica_wait else { return Ok((change.await?, Ok(()))) };
        let before = self.link.open().await?;
        let made = change.await?;
        let waited = match self.link.open().await {
            // Between two servers, nobody knows which of them has the change.
            Ok(after) if !after.is_same_server(&before) => Err(StoreError::NotReplicated {
                address: self.address().to_owned(),
                why: "another server took over during the change".to_owned(),
            }),
            Ok(_) => replica_wait.wait(before).await,
            Err(error) => Err(error),
        };
        let waited = waited.map_err(|error| match error {
            error @ StoreError::NotReplicated { .. } => error,
            error => StoreError::NotReplicated {
                address: self.address().to_owned(),
                why: error.to_string(),
            },
        });
        Ok((made, waited))
    }

    /// Returns the name of the namespace.
    pub fn namespace(&self) -> &str {
        self.keys.namespace()
    }

    /// Returns true if the address of Redis is that of a cluster.
    pub fn is_in_cluster(&self) -> bool {
        self.link.is_in_cluster()
    }

    /// Returns the facts that the server reported when the current connection was made. Connects
    /// first if there is no connection.
    pub async fn findings(&self) -> Result<Findings, StoreError> {
        self.link.findings().await
    }

    /// Returns the time of Redis, or the fixed time of [`Store::at`].
    pub async fn now(&self) -> Result<UnixMillis, StoreError> {
        if let Some(now) = self.chosen_now() {
            return Ok(now);
        }
        self.link.read_time().await
    }

    /// Returns the time of Redis as [`Store::now`] does, mostly without a call: by an answer of the
    /// last second. It may be ahead of the clock of Redis by the time that the answer took.
    pub async fn recent_now(&self) -> Result<UnixMillis, StoreError> {
        let known = self.chosen_now().or_else(|| self.link.time_by_last_answer(RECENT));
        match known {
            Some(now) => Ok(now),
            None => self.now().await,
        }
    }

    /// Subscribes to the messages that wake a node. Examples are `due` (a due set has a new first
    /// run) and `stop` (a run is asked to stop). The stream ends with its connection. A lost
    /// message delays the node by at most one poll.
    pub async fn nudges(
        &self,
    ) -> Result<impl futures_util::Stream<Item = String> + use<>, StoreError> {
        self.link.messages(&self.keys.nudge()).await
    }

    /// Subscribes to the changes of jobs: the name of a job, a blank, and the entry of its audit log
    /// as JSON. The stream ends with its connection.
    pub async fn job_changes(
        &self,
    ) -> Result<impl futures_util::Stream<Item = String> + use<>, StoreError> {
        self.link.messages(&self.keys.changes()).await
    }

    /// Returns a call of `script` with its keys of the namespace. The argument `now` is the fixed
    /// time in ms, or '' for the time of Redis.
    fn call(&self, script: &'static Script) -> Invocation {
        let call = Invocation::new(script, &self.keys);
        if !call.takes_now() {
            return call;
        }
        let now = self.chosen_now().map_or_else(String::new, |now| now.as_i64().to_string());
        call.arg("now", now)
    }
}
