//! Polling: the due runs of each lane, and the time of the next run.
//!
//! Invariant: an entry is returned as stored, even if the entry is not a run id. The caller checks
//! the entry.

use std::time::Duration;

use redis::Value;

use super::change_counts::{ChangeCounts, PollTrace, time_of};
use crate::Store;
use crate::connection::redis_link::OpenConnection;
use crate::server::member_text::shown_member;
use crate::server::reply::{Reply, number_of, text_of};
use crate::server::scripts;
use crate::server::scripts::Invocation;
use crate::server::scripts::millis;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::queue_rules::NoRoomReason;
use schedd_schedule::names::Fence;
use schedd_schedule::time::unix_millis::UnixMillis;

/// The time after the first poll of a server during which nothing is claimed on that server. Every
/// live node polls the server within this time, and reports missing data. A node polls at least
/// once a second. While no server answers, a node polls once in each `tick` of its settings.
const HOLD: Duration = Duration::from_millis(1500);

/// The most lanes that one call of `list_due.lua` reads, so that the call takes a few milliseconds.
const LANES: usize = 100;

/// The result of polling the due runs of several lanes.
#[derive(Debug)]
pub struct Poll {
    /// The time of the poll by the clock of Redis, in whole milliseconds.
    pub now: UnixMillis,
    /// The part of the poll's time below one millisecond, to add to `now`.
    pub past_now: Duration,
    /// The number of leases in the namespace.
    pub leases: u64,
    /// The epoch, the last fence and the server, which together identify the data in Redis.
    pub marks: DataMarks,
    /// True while nodes restore data after a data loss. No run is due during the restoration.
    pub is_restoring: bool,
    /// True if a node polled this server for the first time less than 1.5 seconds ago. No run is
    /// due until every node has had time to check the server.
    pub is_on_new_server: bool,
    /// The gates whose check is due now.
    pub gates: Vec<Gate>,
    /// The time of the next gate check after this poll; None if no check is planned.
    pub next_gate: Option<UnixMillis>,
    /// The result for each requested lane, in the order of the request.
    pub lanes: Vec<LanePoll>,
    /// The state of the data, with which a short poll compares later data. None if the marks or
    /// the counters of changes are missing or unreadable, so that a short poll proves nothing.
    pub trace: Option<PollTrace>,
}

/// The epoch, the last fence and the server, which together identify the data in Redis. A missing
/// or different epoch, or a fence below a fence seen before, means data loss.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataMarks {
    /// The epoch; empty if Redis has no epoch.
    pub epoch: String,
    /// The last fence issued; 0 if no fence was issued.
    pub fence: u64,
    /// True if the epoch or the fence is invalid. The marks then prove nothing.
    pub is_damaged: bool,
    /// The polled Redis server, as `RUN_ID/REPLID`. The text changes when the server restarts,
    /// fails over or is replaced. Empty if the server does not report both ids.
    pub server: String,
    /// The last fence when a node first polled this server, if recorded.
    pub met: Met,
}

/// The recorded state of the data when a node first polled a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Met {
    /// No node has recorded this server.
    No,
    /// A node recorded the server. The last issued fence was this number then.
    At(u64),
    /// The server does not report its ids, or the record about the server cannot be read.
    #[default]
    Unknown,
}

/// The result of a poll for one lane.
#[derive(Debug)]
pub enum LanePoll {
    /// The due runs, and the time of the next run.
    Due {
        /// The due entries of the lane, in the order of their ready times.
        due: Vec<DueEntry>,
        /// The ready time of the first entry that is not due yet; None if there is no such entry.
        next: Option<UnixMillis>,
        /// The number of further runs that may begin in the lane's queue; None if the queue has no
        /// limit. At 0 no due entries are listed.
        capacity: Option<usize>,
        /// The reason why no run of the lane's queue may begin now. It is set only if a run is due.
        no_room: Option<NoRoomReason>,
    },
    /// A key of the lane or its queue has the wrong type.
    WrongType(StoreError),
}

/// An entry of a due set as stored in Redis. The entry may not be a valid run id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueEntry {
    /// The member of the entry. Bytes that are not text, and backslashes, are written `\xNN`.
    pub member: String,
    /// The score of the entry as text.
    pub score: String,
}

/// A request to list the due entries of one lane.
#[derive(Debug, Clone)]
pub struct LaneAsk {
    /// The lane to list.
    pub lane: Lane,
    /// The number of runs of the lane's queue that the caller could take. At 0 no entry of the lane
    /// is listed.
    pub limit: usize,
    /// The number of entries to list in addition. The caller could not take so many entries of the last
    /// list, which may fill the start of the list again, or it looks ahead.
    pub more: usize,
}

impl LaneAsk {
    /// Returns a request for up to `limit` runs of the lane's queue.
    pub fn new(lane: Lane, limit: usize) -> Self {
        Self { lane, limit, more: 0 }
    }
}

impl Store {
    /// Lists the due entries of these lanes. Lanes of one queue must be adjacent, the highest
    /// priority first. No entry is listed on a server that a node first polled less than 1.5
    /// seconds ago.
    ///
    /// Many lanes are read by several calls in one pipeline. The poll has the time and the marks of
    /// the first call, so that a change between the calls is seen by the next poll.
    pub async fn list_due(&self, lanes: &[LaneAsk]) -> Result<Poll, StoreError> {
        let open = self.link.open().await?;
        let first = &lanes[..lanes.len().min(LANES)];
        let mut calls = vec![self.due_call(&open, first)];
        calls.extend(lanes.chunks(LANES).skip(1).map(|some| self.due_call(&open, some)));
        let mut replies = self.link.invoke_all_on(&open, &calls).await?.into_iter();
        let mut next = |count: usize| match replies.next() {
            Some(reply) => poll_of(reply?, &open, count),
            None => Err(StoreError::corrupt("reply of script list_due", "the reply is missing")),
        };
        let mut poll = next(first.len())?;
        for some in lanes.chunks(LANES).skip(1) {
            let more = next(some.len())?;
            poll.lanes.extend(more.lanes);
            poll.is_restoring |= more.is_restoring;
        }
        Ok(poll)
    }

    fn due_call(&self, open: &OpenConnection, lanes: &[LaneAsk]) -> Invocation {
        let mut call = self
            .call(&scripts::LIST_DUE)
            .arg("server", open.identity())
            .arg("hold_ms", millis(HOLD));
        for LaneAsk { lane, limit, more } in lanes {
            let queue = lane.queue();
            call = call
                .item()
                .of_lane(lane)
                .arg("queue_name", queue.as_str())
                .arg("priority", lane.priority().as_i8())
                .arg("limit", *limit)
                .arg("more", *more);
        }
        call
    }

    /// Records that a node polled the data on `server` for the first time now. No run on that
    /// server is due for [`HOLD`].
    pub async fn record_server(&self, server: &str) -> Result<(), StoreError> {
        let call = self.call(&scripts::RECORD_SERVER).arg("server", server);
        let reply = self.link.invoke(&call).await?;
        if reply.word == "recorded" { Ok(()) } else { Err(reply.unknown()) }
    }

    /// Records that this node accepts the data polled on `server`. From now on claims, skips and
    /// spreads are sent only to that server.
    pub fn trust(&self, server: &str) {
        self.link.trust(server);
    }

    /// Returns the number of runs of these lanes that are due at `now`, and the earliest ready time
    /// among these runs. The time is None if no run is due.
    pub async fn count_due(
        &self,
        lanes: &[Lane],
        now: UnixMillis,
    ) -> Result<(u64, Option<UnixMillis>), StoreError> {
        let mut pipeline = redis::pipe();
        for lane in lanes {
            pipeline.cmd("ZCOUNT").arg(self.keys.due(lane)).arg("-inf").arg(now.as_i64());
            let head =
                pipeline.cmd("ZRANGE").arg(self.keys.due(lane)).arg("-inf").arg(now.as_i64());
            head.arg("BYSCORE").arg("LIMIT").arg(0).arg(1).arg("WITHSCORES");
        }
        let (mut count, mut first) = (0, None);
        // A key of the wrong type counts as missing. The consistency check reports the key.
        for pair in self.link.ask(&mut pipeline).await?.chunks_exact(2) {
            let [Ok(count_reply), Ok(Value::Array(head))] = pair else { continue };
            count +=
                number_of(count_reply).and_then(|ready| u64::try_from(ready).ok()).unwrap_or(0);
            let since = head
                .get(1)
                .and_then(number_of)
                .map(|since| UnixMillis::new(since).unwrap_or(UnixMillis::EPOCH));
            first = first.into_iter().chain(since).min();
        }
        Ok((count, first))
    }
}

/// Parses the reply of `list_due.lua` to a call for `lanes` lanes.
fn poll_of(mut reply: Reply, open: &OpenConnection, lanes: usize) -> Result<Poll, StoreError> {
    if reply.word != "due" {
        return Err(reply.unknown());
    }
    let (now, past_now) = time_of(reply.number()?)?;
    let leases = u64::try_from(reply.number()?).unwrap_or(0);
    let (epoch, fence) = (reply.text()?, reply.text()?);
    let marks = marks(epoch.clone(), &fence);
    let is_restoring = reply.number()? > 0;
    let marks = DataMarks { met: met(&reply.text()?), server: open.identity().to_owned(), ..marks };
    let is_on_new_server = reply.number()? > 0;
    let counts = ChangeCounts::read(&reply.value()?).filter(|_| !marks.is_damaged);
    let trace = counts.map(|counts| PollTrace { connection: open.number(), epoch, fence, counts });
    let (next_gate, gates) = gates(&reply.value()?)?;
    let lanes = (0..lanes).map(|_| lane_poll(&reply.value()?)).collect::<Result<_, _>>()?;
    Ok(Poll {
        now,
        past_now,
        leases,
        marks,
        is_restoring,
        is_on_new_server,
        gates,
        next_gate,
        lanes,
        trace,
    })
}

fn marks(epoch: String, fence: &str) -> DataMarks {
    // The next claim rebuilds a fence counter that is not a number.
    let number = fence.parse().ok().filter(|fence| *fence <= Fence::MAX);
    // An invalid epoch cannot be replaced, because the caller cannot pass back its raw bytes.
    let is_no_epoch = !epoch.is_empty() && crate::recovery::data_loss::begun_at(&epoch).is_none();
    let is_damaged = is_no_epoch || (!fence.is_empty() && number.is_none());
    DataMarks { epoch, fence: number.unwrap_or(0), is_damaged, ..DataMarks::default() }
}

fn met(text: &str) -> Met {
    match text {
        "" => Met::No,
        fence => fence.parse().map_or(Met::Unknown, Met::At),
    }
}

/// Returns the time of the next gate check, if one is planned, and the gates to check now.
/// Malformed gates are left out, because `doctor` reports them.
fn gates(value: &Value) -> Result<(Option<UnixMillis>, Vec<Gate>), StoreError> {
    let bad = || {
        let found = format!(
            "found {value:?}, wanted a list of two: the time of the next gate check, and a list of gates"
        );
        StoreError::corrupt("reply of script list_due", found)
    };
    let Value::Array(parts) = value else { return Err(bad()) };
    let [next, Value::Array(open)] = parts.as_slice() else { return Err(bad()) };
    let open = open.iter().filter_map(text_of).filter_map(|name| Gate::from_name(&name)).collect();
    Ok((number_of(next).and_then(UnixMillis::new), open))
}

fn lane_poll(value: &Value) -> Result<LanePoll, StoreError> {
    let bad = || {
        let found = format!("found {value:?}, wanted the due runs of a lane");
        StoreError::corrupt("reply of script list_due", found)
    };
    let Value::Array(parts) = value else { return Err(bad()) };
    let [first, second, third, fourth] = parts.as_slice() else { return Err(bad()) };
    let first = text_of(first).ok_or_else(bad)?;
    let text = |value: &Value| text_of(value).ok_or_else(bad);
    if first == "wrong_type" {
        let (key, found, wanted) = (text(second)?, text(third)?, text(fourth)?);
        return Ok(LanePoll::WrongType(StoreError::WrongType { key, found, wanted }));
    }
    let Value::Array(flat) = second else { return Err(bad()) };
    let next = number_of(&Value::BulkString(first.into_bytes())).and_then(UnixMillis::new);
    let capacity = number_of(third).and_then(|capacity| usize::try_from(capacity).ok());
    let no_room = NoRoomReason::parse(&text(fourth)?);
    Ok(LanePoll::Due { due: due_entries(flat).ok_or_else(bad)?, next, capacity, no_room })
}

/// Parses a list of due entries: member, score, member, score and so on.
pub(super) fn due_entries(flat: &[Value]) -> Option<Vec<DueEntry>> {
    let pairs = flat.chunks_exact(2);
    pairs
        .map(|pair| Some(DueEntry { member: shown_member(&pair[0])?, score: text_of(&pair[1])? }))
        .collect()
}
