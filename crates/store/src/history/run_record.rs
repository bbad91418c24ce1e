//! The records of runs in Redis.

use std::time::Duration;

use redis::Value;

use crate::Store;
use crate::history::run_wait::RunWait;
use crate::jobs::rev::Rev;
use crate::server::record_fields::RecordFields;
use crate::server::store_error::StoreError;
use schedd_core::domain::job::job_spec::Delivery;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::run::resource_use::ResourceUse;
use schedd_core::domain::run::run_progress::RunProgress;
use schedd_core::domain::run::run_state::{RunState, UnknownState};
use schedd_schedule::chain::chain_end::ParentEnd;
use schedd_schedule::names::{Fence, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// Returns the value of the field `delivery` in a run's record; '' for at least once.
pub(crate) fn delivery_word(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::AtMostOnce => "at-most-once",
        Delivery::AtLeastOnce => "",
    }
}

/// The start of [`RunRecord::next`] before the reason why the time was refused.
pub const REFUSED: &str = "refused: ";

/// A run as stored in Redis.
#[derive(Debug, Clone)]
pub struct RunRecord {
    /// The id of the run.
    pub run: RunId,
    /// The revision of the job when Redis got the record; None for a planned run without a record.
    pub rev: Option<Rev>,
    /// The state of the run.
    pub state: RunState,
    /// The number of the last attempt; 0 before the first attempt.
    pub attempt: u32,
    /// The fence of the last attempt; None before the first attempt.
    pub fence: Option<Fence>,
    /// The name of the node that executed the last attempt; None before the first attempt.
    pub node: Option<String>,
    /// The incarnation of the node that executed the last attempt: a random word that differs at
    /// each start of the node. None before the first attempt.
    pub incarnation: Option<String>,
    /// The token of the call that last claimed the run. A repeated call is recognised by its token.
    pub claim_token: Option<String>,
    /// The duration of each lease of the run; None before the first claim.
    pub lease: Option<Duration>,
    /// The lane the run was claimed from.
    pub lane: Lane,
    /// The time the last attempt started; None before the first attempt.
    pub started_at: Option<UnixMillis>,
    /// The time the run ended; None if it has not ended.
    pub finished_at: Option<UnixMillis>,
    /// The time from which the run may be claimed for its retry, if it waits for a retry.
    pub ready: Option<UnixMillis>,
    /// The time since which the run waits for its retry, if recorded.
    pub waits_from: Option<UnixMillis>,
    /// The exit code of the process of the last attempt; None if it has none, as after a signal.
    pub exit_code: Option<i32>,
    /// The number of the signal that ended the process of the last attempt; None if no signal did.
    pub signal: Option<i32>,
    /// The HTTP status that the last attempt received; None if the attempt received no response.
    pub http_status: Option<u16>,
    /// The reason for the state, if the state does not say it.
    pub reason: Option<String>,
    /// The error of the last attempt in words.
    pub error: Option<String>,
    /// True if processes that the run left behind at its end had to be killed.
    pub left_processes: bool,
    /// The resource limits that the node of the last attempt could not enforce, separated by
    /// commas. None if the node enforced all limits.
    pub not_enforced: Option<String>,
    /// The delivery rule under which the last attempt began.
    pub delivery: Delivery,
    /// The number of attempts that failed, not counting attempts lost with their node.
    pub failures: u32,
    /// The number of times in a row that the run's node was lost and the run was taken back.
    pub recoveries: u32,
    /// The time an operator last asked to retry the run; None if no operator did.
    pub retried_at: Option<UnixMillis>,
    /// The number of times in a row `done_check` gave no clear answer.
    pub unclear: u32,
    /// The last occurrence and the number of occurrences, if the record is of a skipped range.
    pub skipped: Option<(UnixMillis, u64)>,
    /// The operator who cancelled the run, as `user@host`; None if no operator did.
    pub by: Option<String>,
    /// The operator who asked for this manual run, as `user@host`; None if no operator did.
    pub asked_by: Option<String>,
    /// The note of the user who asked for this run; None if the user wrote none.
    pub note: Option<String>,
    /// The time that the run set for the next run of its job, or the reason why it was refused.
    pub next: Option<String>,
    /// The time a spread or manual run was added to the due set. None for any other run, which is
    /// added together with the claim or skip of its predecessor.
    pub planted_at: Option<UnixMillis>,
    /// The time the run became ready for its first claim, if that time was not its due time.
    pub ready_at: Option<UnixMillis>,
    /// The time of the first claim, if that claim was handed back and the run was claimed again.
    pub first_start: Option<UnixMillis>,
    /// How far the work of the last attempt was when it was last reported. None if it never was.
    pub progress: Option<RunProgress>,
    /// The duration of the last attempt by its node's clock, without the delay until Redis recorded
    /// the end. None if no node reported a duration.
    pub reported_took: Option<Duration>,
    /// The resources that the last attempt used. None for a request, or if no node reported them.
    pub resources: Option<ResourceUse>,
    /// The reason why a node handed the run back unexecuted; None if no node did.
    pub handed_back: Option<String>,
    /// The open run of the same job because of which this run was skipped or had to wait, if any.
    pub behind: Option<RunId>,
    /// The time since which the run waited for another run or at a gate; None if it did not wait.
    pub waited_from: Option<UnixMillis>,
    /// The last waits of the run for another run and at gates, also before earlier attempts, the
    /// oldest first.
    pub waits: Vec<RunWait>,
    /// The cause of the present wait: `overlap` for an open run of the job, or a gate in words.
    /// None if the run does not wait.
    pub waiting_for: Option<String>,
    /// The gates at which the run has places. At the last of these gates the run may still wait for
    /// its place.
    pub places: Vec<Gate>,
    /// The ends of the parents that decided the run, by their names. Empty for a run that no parent
    /// started.
    pub parents: Vec<ParentEnd>,
    /// The earlier attempts, oldest first.
    pub past: Vec<PastAttempt>,
}

/// An earlier attempt of a run, with the JSON that the node wrote at its end.
#[derive(Debug, Clone)]
pub struct PastAttempt {
    /// The number of the attempt.
    pub number: u32,
    /// True if the attempt was cut short because its node stopped. The next attempt has the same
    /// number.
    pub is_cut_short: bool,
    /// The record of the attempt as JSON.
    pub record: String,
}

impl RunRecord {
    /// Returns a record for a planned run that no node has claimed. Redis has no record of a run
    /// before its first claim.
    pub fn planted(run: RunId, lane: Lane) -> Self {
        Self {
            rev: None,
            state: RunState::Scheduled,
            attempt: 0,
            fence: None,
            node: None,
            incarnation: None,
            claim_token: None,
            lease: None,
            lane,
            started_at: None,
            finished_at: None,
            ready: Some(run.due()),
            waits_from: None,
            exit_code: None,
            signal: None,
            http_status: None,
            reason: None,
            error: None,
            left_processes: false,
            not_enforced: None,
            delivery: Delivery::AtLeastOnce,
            failures: 0,
            recoveries: 0,
            retried_at: None,
            unclear: 0,
            skipped: None,
            by: None,
            asked_by: None,
            note: None,
            next: None,
            planted_at: None,
            ready_at: None,
            first_start: None,
            progress: None,
            reported_took: None,
            resources: None,
            handed_back: None,
            behind: None,
            waited_from: None,
            waits: Vec::new(),
            waiting_for: None,
            places: Vec::new(),
            parents: Vec::new(),
            past: Vec::new(),
            run,
        }
    }

    /// Returns the duration of the last attempt if the run has ended. This is the duration that the
    /// node reported, or else the time until Redis recorded the end.
    pub fn took(&self) -> Option<Duration> {
        let (from, to) = (self.started_at?, self.finished_at?);
        let until_recorded = to.since(from);
        // If Redis' clock was set back during the run, the time until the record is not known.
        let is_known = to >= from;
        Some(
            self.reported_took.map_or(until_recorded, |took| {
                if is_known { took.min(until_recorded) } else { took }
            }),
        )
    }

    /// Returns the time the last attempt ended, or `finished_at` if no attempt started. Redis may
    /// have recorded this end later, at `finished_at`. Returns None if the run has not ended.
    pub fn attempt_ended_at(&self) -> Option<UnixMillis> {
        self.started_at
            .zip(self.took())
            .map(|(from, took)| from.saturating_add(took))
            .or(self.finished_at)
    }

    /// Returns the delay between the end of the last attempt and the time Redis recorded that end.
    /// Returns None if the run has not ended or no node reported its duration.
    pub fn recorded_after(&self) -> Option<Duration> {
        let _reported = self.reported_took?;
        Some(self.finished_at?.since(self.attempt_ended_at()?))
    }

    /// Returns true if the facts of the last attempt, whose number is `attempt`, are in the record
    /// itself and not yet in `past`.
    pub fn has_current(&self) -> bool {
        self.attempt > 0
            && !self.past.iter().any(|past| past.number == self.attempt && !past.is_cut_short)
    }

    /// Returns true if the run waits to repeat an attempt that was cut short because its node
    /// stopped.
    pub fn is_cut_short(&self) -> bool {
        self.state == RunState::Scheduled
            && self.past.last().is_some_and(|past| past.is_cut_short && past.number > self.attempt)
    }

    fn read(run: &RunId, answer: &Value) -> Result<Option<Self>, StoreError> {
        let corrupt = |what: String| StoreError::corrupt(format!("run {run}"), what);
        let Some(fields) = RecordFields::of(answer) else {
            return Err(corrupt(format!("found {answer:?}, wanted the fields of a hash")));
        };
        let Some(state) = fields.get("state") else { return Ok(None) };
        let state = state.parse().map_err(|error: UnknownState| corrupt(error.to_string()))?;
        let text = |field: &str| fields.filled(field).map(str::to_owned);
        let instant = |field: &str| fields.instant(field);
        let number = |field: &str| fields.parsed::<u64>(field);
        let count = |field: &str| fields.parsed::<u32>(field).unwrap_or(0);
        let past = past_attempts(&fields);
        Ok(Some(Self {
            run: run.clone(),
            rev: fields.filled("rev").map(Rev::of),
            state,
            attempt: count("attempt"),
            fence: number("fence").and_then(Fence::new),
            node: text("node"),
            incarnation: text("incarnation"),
            claim_token: text("claim"),
            lease: number("lease_ms").map(Duration::from_millis),
            lane: fields.parsed("queue").unwrap_or_else(Lane::default_lane),
            started_at: instant("started_at"),
            finished_at: instant("finished_at"),
            ready: instant("ready").filter(|_| !state.is_final()),
            waits_from: instant("waits_from"),
            exit_code: fields.parsed("exit_code"),
            signal: fields.parsed("signal"),
            http_status: fields.parsed("http_status"),
            reason: text("reason"),
            error: text("error"),
            left_processes: fields.get("left_processes") == Some("1"),
            not_enforced: text("not_enforced"),
            // An unknown delivery rule counts as at most once, so that the run does not start
            // twice.
            delivery: text("delivery").map_or(Delivery::AtLeastOnce, |_| Delivery::AtMostOnce),
            failures: count("failures"),
            recoveries: count("recoveries"),
            retried_at: instant("retried_at"),
            unclear: count("unclear"),
            skipped: instant("skipped_to").zip(number("skipped_count")),
            by: text("by"),
            asked_by: text("asked_by"),
            note: text("note"),
            next: text("next"),
            planted_at: instant("planted_at"),
            ready_at: instant("ready_at"),
            first_start: instant("first_start"),
            // The report of an earlier attempt says nothing about the last.
            progress: text("progress").and_then(|stored| {
                let (attempt, progress) = stored.split_once(' ')?;
                (attempt.parse() == Ok(count("attempt"))).then(|| RunProgress::read(progress))?
            }),
            // A lost attempt reports no duration. The stored value then belongs to an earlier
            // attempt.
            reported_took: number("took_ms")
                .filter(|_| text("verdict_fence") == text("fence"))
                .map(Duration::from_millis),
            resources: text("use")
                .filter(|_| text("verdict_fence") == text("fence"))
                .and_then(|used| used.parse().ok()),
            handed_back: text("handed_back"),
            behind: fields.parsed("behind"),
            waited_from: instant("waited_from"),
            waits: text("waits").map_or_else(Vec::new, |waits| RunWait::read_all(&waits)),
            waiting_for: text("waiting_for").filter(|_| state == RunState::Scheduled),
            places: text("places").map_or_else(Vec::new, |places| Gate::all_in(&places)),
            parents: text("parents").map_or_else(Vec::new, |ends| ParentEnd::read_all(&ends)),
            past,
        }))
    }
}

/// Returns the earlier attempts, oldest first. Attempts cut short come before the full attempt of
/// the same number.
fn past_attempts(fields: &RecordFields<'_>) -> Vec<PastAttempt> {
    let mut past = Vec::new();
    for (field, text) in fields.iter() {
        let (number, is_cut_short) = match (field.strip_prefix("past:"), field.strip_prefix("cut:"))
        {
            (Some(number), _) => (number, false),
            (None, Some(number)) => (number, true),
            (None, None) => continue,
        };
        let Ok(number) = number.parse() else { continue };
        past.extend(text.lines().map(|record| PastAttempt {
            number,
            is_cut_short,
            record: record.to_owned(),
        }));
    }
    past.sort_by_key(|attempt| (attempt.number, !attempt.is_cut_short));
    past
}

impl Store {
    /// Returns the runs with these ids. Each item is a record, None for a missing record, or the
    /// error that prevents reading the record.
    pub async fn read_runs(
        &self,
        ids: &[RunId],
    ) -> Result<Vec<Result<Option<RunRecord>, StoreError>>, StoreError> {
        let mut pipeline = redis::pipe();
        for id in ids {
            pipeline.cmd("HGETALL").arg(self.keys.run(id));
        }
        let answers = self.link.ask(&mut pipeline).await?;
        let read = |(id, answer): (&RunId, Result<Value, redis::RedisError>)| match answer {
            Ok(fields) => RunRecord::read(id, &fields),
            Err(error) if error.code() == Some("WRONGTYPE") => Err(StoreError::WrongType {
                key: self.keys.run(id),
                found: "value of another type".to_owned(),
                wanted: "hash".to_owned(),
            }),
            Err(error) => Err(StoreError::from_redis(self.address(), &error)),
        };
        Ok(ids.iter().zip(answers).map(read).collect())
    }

    /// Returns the run with this id; None if Redis has no record of the run.
    pub async fn read_run(&self, id: &RunId) -> Result<Option<RunRecord>, StoreError> {
        self.read_runs(std::slice::from_ref(id)).await?.pop().unwrap_or(Ok(None))
    }
}
