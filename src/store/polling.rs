//! Polling: what is ripe in each lane, and when the next run will be.
//!
//! Invariant: an entry comes back as it stands there, also one that is no run; who reads it judges it.

use std::time::Duration;

use redis::Value;

use super::Store;
use super::claims::millis;
use super::error::StoreError;
use super::quarantine::shown_member;
use super::reply::{number_of, text_of};
use super::scripts::{self, Invocation};
use crate::domain::gate::Gate;
use crate::domain::ids::Fence;
use crate::domain::lane::Lane;
use crate::domain::queue::QueueHold;
use crate::domain::time::UnixMillis;

/// How long nothing is claimed on a server that was just met. Every node polls at least once a second, and at each tick while it
/// reaches no server: within this time each that is there has looked at the server, and has said so if data is missing.
const HOLD: Duration = Duration::from_millis(1500);

/// What a poll found.
#[derive(Debug)]
pub struct Poll {
    /// Redis' time when it looked.
    pub now: UnixMillis,
    /// What of a millisecond had passed beyond that.
    pub past_now: Duration,
    /// How many leases there are in the namespace.
    pub leases: u64,
    /// By what the data is known again.
    pub marks: Marks,
    /// Whether the data settles after a loss: nothing is ripe until then.
    pub is_settling: bool,
    /// Whether the server was met just now: nothing is ripe until every node has had the time to look at it.
    pub is_held: bool,
    /// The gates that are to be looked at now.
    pub gates: Vec<Gate>,
    /// When the next one is.
    pub next_gate: Option<UnixMillis>,
    /// One for each lane asked for, in that order.
    pub lanes: Vec<LanePoll>,
}

/// By what data is known again: an epoch that is gone or another, or a fence below one seen, means that some of it is lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    /// The epoch; empty if there is none.
    pub epoch: String,
    /// The last fence issued; 0 if there is none.
    pub fence: u64,
    /// Whether a mark holds something no mark is: it tells nothing then.
    pub is_spoilt: bool,
    /// The server it is on, see [`Findings::identity`](super::Findings::identity).
    pub server: String,
    /// Whether nodes know this server, and what the last fence was when they met it.
    pub met: Met,
}

/// What nodes know of the server they poll.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Met {
    /// Nobody has written down that it was met.
    No,
    /// It was met, with this last fence.
    At(u64),
    /// It does not say which it is, or what is written down cannot be read.
    #[default]
    Unknown,
}

/// What a poll found in one lane.
#[derive(Debug)]
pub enum LanePoll {
    /// The ripe runs, and when the next one will be.
    Due {
        /// Ripe entries, in ready order.
        ripe: Vec<RipeEntry>,
        /// When the next one is ready.
        next: Option<UnixMillis>,
        /// How many more runs of its queue may begin; none = any number. Without any it shows no ripe ones.
        room: Option<usize>,
        /// Why nothing of it begins, if anything is ripe.
        held: Option<QueueHold>,
    },
    /// A key of the lane or its queue holds something of another type.
    WrongType(StoreError),
}

/// An entry of a due set as it stands there: it may be no run id at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RipeEntry {
    /// The member; bytes that are no text, and backslashes, are written `\xNN`.
    pub member: String,
    /// The score, as text.
    pub score: String,
}

/// What is asked of one lane.
#[derive(Debug, Clone)]
pub struct LaneAsk {
    /// The lane.
    pub lane: Lane,
    /// How many runs of its queue could be taken; 0 leaves the queue out.
    pub limit: usize,
    /// How many ripe entries of the lane could not be dealt with at the last look: they must not hide those behind them.
    pub more: usize,
}

impl LaneAsk {
    /// For up to `limit` runs of its queue.
    pub fn new(lane: Lane, limit: usize) -> Self {
        Self { lane, limit, more: 0 }
    }
}

impl Store {
    /// What is ripe in these lanes; those of one queue stand together, the most urgent first. On a server that nodes met just now
    /// nothing is ripe.
    pub async fn list_ripe(&self, lanes: &[LaneAsk]) -> Result<Poll, StoreError> {
        let open = self.link.open().await?;
        let mut call = Invocation::new(&scripts::LIST_RIPE)
            .key("leases", self.keys.leases())
            .key("epoch", self.keys.epoch())
            .key("fence", self.keys.fence())
            .key("settling", self.keys.settling())
            .key("servers", self.keys.servers())
            .key("gate_wakes", self.keys.gate_wakes())
            .arg("now", self.now_arg())
            .arg("server", open.identity())
            .arg("hold_ms", millis(HOLD));
        for LaneAsk { lane, limit, more } in lanes {
            let queue = lane.queue();
            call = call
                .key("due", self.keys.due(lane))
                .key("running", self.keys.running(queue))
                .key("queue", self.keys.queue(queue))
                .key("queue_state", self.keys.queue_state(queue))
                .arg("queue", queue.as_str())
                .arg("priority", lane.priority().as_i8())
                .arg("limit", *limit)
                .arg("more", *more);
        }
        let mut reply = self.link.invoke_on(&open, &call).await?;
        if reply.word != "ripe" {
            return Err(reply.unknown());
        }
        let micros = reply.number()?;
        let now = UnixMillis::new(micros.div_euclid(1000)).ok_or_else(|| StoreError::corrupt("TIME", micros.to_string()))?;
        let past_now = Duration::from_micros(micros.rem_euclid(1000).unsigned_abs());
        let leases = u64::try_from(reply.number()?).unwrap_or(0);
        let marks = marks(reply.text()?, &reply.text()?);
        let is_settling = reply.number()? > 0;
        let marks = Marks { met: met(&reply.text()?), server: open.identity().to_owned(), ..marks };
        let is_held = reply.number()? > 0;
        let (next_gate, gates) = gates(&reply.value()?)?;
        let lanes = (0..lanes.len()).map(|_| lane_poll(&reply.value()?)).collect::<Result<_, _>>()?;
        Ok(Poll { now, past_now, leases, marks, is_settling, is_held, gates, next_gate, lanes })
    }

    /// Writes down that the data was polled on `server` for the first time; from then on nothing is ripe there for [`HOLD`].
    pub async fn meet_server(&self, server: &str) -> Result<(), StoreError> {
        let call = Invocation::new(&scripts::MEET_SERVER)
            .key("servers", self.keys.servers())
            .key("epoch", self.keys.epoch())
            .key("fence", self.keys.fence())
            .arg("now", self.now_arg())
            .arg("server", server);
        let reply = self.link.invoke(&call).await?;
        if reply.word == "met" { Ok(()) } else { Err(reply.unknown()) }
    }

    /// Says that what was polled on `server` is the data that was known: claims and skips are made from it, there only.
    pub fn trust(&self, server: &str) {
        self.link.trust(server);
    }

    /// How many runs of these lanes are ripe at `now`, and since when the first is.
    pub async fn count_ripe(&self, lanes: &[Lane], now: UnixMillis) -> Result<(u64, Option<UnixMillis>), StoreError> {
        let mut pipeline = redis::pipe();
        for lane in lanes {
            pipeline.cmd("ZCOUNT").arg(self.keys.due(lane)).arg("-inf").arg(now.as_i64());
            let head = pipeline.cmd("ZRANGE").arg(self.keys.due(lane)).arg("-inf").arg(now.as_i64());
            head.arg("BYSCORE").arg("LIMIT").arg(0).arg(1).arg("WITHSCORES");
        }
        let (mut count, mut first) = (0, None);
        // What holds something else is a finding of its own.
        for pair in self.link.ask(&mut pipeline).await?.chunks_exact(2) {
            let [Ok(ripe), Ok(Value::Array(head))] = pair else { continue };
            count += number_of(ripe).and_then(|ripe| u64::try_from(ripe).ok()).unwrap_or(0);
            let since = head.get(1).and_then(number_of).map(|since| UnixMillis::new(since).unwrap_or(UnixMillis::EPOCH));
            first = first.into_iter().chain(since).min();
        }
        Ok((count, first))
    }
}

fn marks(epoch: String, fence: &str) -> Marks {
    // One that is no number is rebuilt by the next claim.
    let number = fence.parse().ok().filter(|fence| *fence <= Fence::MAX);
    // One that no epoch is could not even be marked anew: nobody can name its bytes.
    let is_no_epoch = !epoch.is_empty() && super::losses::begun_at(&epoch).is_none();
    let is_spoilt = is_no_epoch || (!fence.is_empty() && number.is_none());
    Marks { epoch, fence: number.unwrap_or(0), is_spoilt, ..Marks::default() }
}

fn met(text: &str) -> Met {
    match text {
        "" => Met::No,
        fence => fence.parse().map_or(Met::Unknown, Met::At),
    }
}

/// When the next gate is to be looked at, and those that are now; what is no gate is left to the doctor.
fn gates(value: &Value) -> Result<(Option<UnixMillis>, Vec<Gate>), StoreError> {
    let bad = || StoreError::corrupt("list_ripe", format!("{value:?}"));
    let Value::Array(parts) = value else { return Err(bad()) };
    let [next, Value::Array(open)] = parts.as_slice() else { return Err(bad()) };
    let open = open.iter().filter_map(text_of).filter_map(|name| Gate::from_name(&name)).collect();
    Ok((number_of(next).and_then(UnixMillis::new), open))
}

fn lane_poll(value: &Value) -> Result<LanePoll, StoreError> {
    let bad = || StoreError::corrupt("list_ripe", format!("{value:?}"));
    let Value::Array(parts) = value else { return Err(bad()) };
    let [first, second, third, fourth] = parts.as_slice() else { return Err(bad()) };
    let first = text_of(first).ok_or_else(bad)?;
    let text = |value: &Value| text_of(value).ok_or_else(bad);
    if first == "wrong_type" {
        let (key, found, wanted) = (text(second)?, text(third)?, text(fourth)?);
        return Ok(LanePoll::WrongType(StoreError::WrongType { key, found, wanted }));
    }
    let Value::Array(flat) = second else { return Err(bad()) };
    let pairs = flat.chunks_exact(2);
    let ripe = pairs.map(|pair| Some(RipeEntry { member: shown_member(&pair[0])?, score: text_of(&pair[1])? }));
    let next = number_of(&Value::BulkString(first.into_bytes())).and_then(UnixMillis::new);
    let room = number_of(third).and_then(|room| usize::try_from(room).ok());
    let held = QueueHold::parse(&text(fourth)?);
    Ok(LanePoll::Due { ripe: ripe.collect::<Option<_>>().ok_or_else(bad)?, next, room, held })
}
