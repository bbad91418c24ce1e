//! Layer 2: the only code that talks to Redis.
//!
//! [`Store`] has one method for each thing that can happen to a job, a run or a node. A method that
//! runs a script in `lua/` shares its name. Each method returns a refusal as a value of its own
//! enum; [`StoreError`] is for unexpected failures. Every method may be repeated after an error:
//! scripts recognise a repeated call by its token or by the state they find.

mod accounts;
mod address;
mod audit;
mod backfilling;
mod behind;
mod cancelling;
mod checkup;
mod claims;
mod clock_marks;
mod counting;
mod deadlines;
mod deeds;
mod discarding;
mod eras;
mod error;
mod events;
mod failed_notices;
mod fields;
mod forgetting;
mod gate_books;
mod gate_lanes;
mod gated;
mod gates;
mod history;
mod indexes;
mod inspecting;
mod job_edits;
mod jobs;
mod kept_outputs;
mod key_scan;
mod keys;
mod lanes;
mod ledger;
mod link;
mod losses;
mod mending;
#[cfg(feature = "mutants")]
pub mod mutants;
mod nodes;
mod notices;
mod outputs;
mod polling;
mod preflight;
pub mod private_server;
mod putting_back;
mod quarantine;
mod queues;
mod reboots;
mod refusals;
mod removing;
mod reply;
mod restoring;
mod retrying;
mod runs;
mod scripts;
mod sections;
mod spreading;
mod stats;
mod stretches;
mod switching;
mod takers;
mod uniques;

pub use accounts::Standing;
pub use address::{Address, AddressError, Eviction, Reread};
pub use audit::{AuditNote, AuditTurn};
pub use backfilling::{BackfillReply, PlantReply};
pub use cancelling::{CancelOrder, CancelReply};
pub use checkup::{Check, Level};
pub use claims::{Blocking, Claim, ClaimOrder, ClaimReply, Claimant, LeaseWord};
pub use counting::{CountMarks, Counted};
pub use deadlines::{Deadline, DeadlineReply, WatchReply};
pub use deeds::Deed;
pub use discarding::Discarded;
pub use eras::KeptEra;
pub use error::StoreError;
pub use events::{EventNote, NodeEvents};
pub use failed_notices::FailedNotice;
pub use gated::{Gated, Planned};
pub use gates::{GroupStanding, LetIn, Opened};
pub use history::{Ended, HistoryPage, Letters, Notices, PastAttempt, RunRecord};
pub use indexes::{Index, IndexPage};
pub use inspecting::JobToInspect;
pub use job_edits::{ApplyOrder, ApplyReply, Change, Existing, UniqueOrder};
pub use jobs::{JobRecord, JobSummary, Retry, Rev, SourceKind};
pub use kept_outputs::OutputFacts;
pub use keys::{DEFAULT_NAMESPACE, Keys};
pub use ledger::{Ledger, LedgerRange};
pub use losses::{EpochReply, JOBS_NAMED, Loss, LossKind, LossRecord, LossReport, ReportReply, begun_at, new_epoch};
pub use mending::{JobMending, MendReply, RunMending};
pub use nodes::{Beat, BeatReply, FULL, NameClaim, NodeFacts, NodeRecord};
pub use notices::{About, MOST_OPEN, Notice, NoticeOrder, NoticeReply};
pub use outputs::{KeptOutput, OutputFrames, OutputMark, OutputSoFar, Stream};
pub use polling::{LaneAsk, LanePoll, Marks, Met, Poll, RipeEntry};
pub use preflight::Findings;
pub use putting_back::PutBackReply;
pub use quarantine::{EntryKind, QuarantineEntry, Quarantined, SetAside};
pub use queues::{QueueDepth, QueueReply, QueueSwitch, RunTimes};
pub use reboots::RebootReply;
pub use removing::{RemoveOrder, RemoveReply, StopRunning};
pub use restoring::{InLedger, Known, LedgerTells, RestoreOrder, RestoreReply, ReturnReply, TakenFrom};
pub use retrying::{Beside, RetryOrder, RetryReply};
pub use runs::{ExpiredLease, FinishReply, ManualReply, RecoverReply, Recovery, SkipOrder, SkipReply, Successor, Verdict};
pub use sections::{DeclareReply, QueueRecord, Section, SectionText};
pub use spreading::{SpreadOrder, SpreadReply, Window};
pub use stats::Stats;
pub use stretches::{CountedBy, KeptStretch, ToldAt};
pub use switching::{PauseReply, ResumeOrder, ResumeReply};
pub use takers::Takers;
pub use uniques::UniqueHolder;

use std::sync::Arc;

use link::Link;

use crate::domain::time::UnixMillis;

/// A connection to one namespace in one Redis. Clones share its connections.
#[derive(Clone)]
pub struct Store {
    keys: Keys,
    link: Link,
    /// The connection for lease renewals. It is separate so that renewals never queue behind
    /// claims.
    renewals: Link,
    /// The fixed time that scripts use; None means Redis' own time.
    fixed_now: Option<UnixMillis>,
    /// The author of changes, such as `user@host`; empty if unknown.
    by: Arc<str>,
}

impl Store {
    /// Creates a store for the namespace of `keys` at `address`. It connects at the first call.
    /// Fails if the address cannot be used at all.
    pub fn new(address: &Address, keys: Keys) -> Result<Self, StoreError> {
        Ok(Self { keys, link: Link::new(address)?, renewals: Link::for_one_call(address)?, fixed_now: None, by: Arc::from("") })
    }

    /// Returns a store whose scripts all see the fixed time `now`. Tests control time with it.
    #[must_use]
    pub fn at(&self, now: UnixMillis) -> Self {
        Self { fixed_now: Some(now), ..self.clone() }
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

    /// Returns the number of connections made so far, except for renewals. After a new connection,
    /// Redis may have lost writes acknowledged on an earlier connection.
    pub fn connections_made(&self) -> u64 {
        self.link.connections_made()
    }

    /// Returns the name of the namespace.
    pub fn namespace(&self) -> &str {
        self.keys.namespace()
    }

    /// Returns the facts the server reported when the current connection was made. Connects if
    /// there is no connection.
    pub async fn findings(&self) -> Result<Findings, StoreError> {
        self.link.findings().await
    }

    /// Returns Redis' own time, or the fixed time of [`Store::at`].
    pub async fn now(&self) -> Result<UnixMillis, StoreError> {
        if let Some(now) = self.fixed_now {
            return Ok(now);
        }
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME");
        let answer = self.link.query(&mut pipeline).await?;
        let parts: Option<Vec<i64>> = match answer.first() {
            Some(redis::Value::Array(parts)) => parts.iter().map(reply::number_of).collect(),
            _ => None,
        };
        let millis = match parts.as_deref() {
            Some([seconds, micros]) => seconds.checked_mul(1000).and_then(|ms| ms.checked_add(micros / 1000)),
            _ => None,
        };
        millis.and_then(UnixMillis::new).ok_or_else(|| StoreError::corrupt("TIME", format!("{answer:?}")))
    }

    /// Subscribes to the messages that wake a node, such as `due` (an earlier run was planted) and
    /// `stop` (a run is asked to stop). The stream ends with its connection. A lost message delays
    /// the node by at most one poll.
    pub async fn nudges(&self) -> Result<impl futures_util::Stream<Item = String> + use<>, StoreError> {
        use futures_util::StreamExt;
        let channel = self.link.subscribe(&self.keys.nudge()).await?;
        Ok(channel.into_on_message().map(|message| message.get_payload::<String>().unwrap_or_default()))
    }

    /// Returns the time argument that every script begins with: '' for Redis' own time.
    fn now_arg(&self) -> String {
        self.fixed_now.map_or_else(String::new, |now| now.as_i64().to_string())
    }
}
