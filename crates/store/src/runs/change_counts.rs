//! The counters of changes, and the short poll that reads them.
//!
//! Each script that makes work for a node raises one of these counters. A short poll reads only the
//! counters, the epoch, the last fence and the clock. The node polls the lanes again when the next
//! run is due, or when one of the first three values has changed.
//!
//! Invariant: while these three values are unchanged, the times that the last poll of the lanes
//! returned stay right. No run of the polled lanes and no gate check has an earlier time.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::Value;

use crate::Store;
use crate::server::reply::number_of;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::time::unix_millis::UnixMillis;

/// A kind of change that scripts count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A due set has a new first run, a gate check was planned, or a queue has room again.
    Due,
    /// A lane was added to the lanes that nodes poll.
    Lanes,
    /// The settings of a queue or group changed.
    Pools,
    /// A run is asked to stop.
    Stop,
    /// The nodes must apply their jobs files again.
    Files,
    /// A notification was recorded. A node must plan the notice that delivers it.
    Notices,
    /// A job was added, edited or removed.
    Jobs,
    /// A deadline was added that is earlier than all other deadlines.
    Deadlines,
    /// A run ended for which children of its job wait.
    Chains,
}

impl Change {
    /// All kinds, in the order of their counters in Redis (`CHANGES_COUNTED` in `prelude.lua`).
    pub const ALL: [Self; 9] = [
        Self::Due,
        Self::Lanes,
        Self::Pools,
        Self::Stop,
        Self::Files,
        Self::Notices,
        Self::Jobs,
        Self::Deadlines,
        Self::Chains,
    ];
}

/// The number of parts of lanes (`PARTS` in `prelude.lua`).
const PARTS: usize = 128;

/// The part of a lane. A change that gives a lane an earlier first run is counted for its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LanePart(usize);

impl LanePart {
    /// Returns the part of `lane`, as `place_of_lane` in `prelude.lua` computes it.
    pub fn of(lane: &Lane) -> Self {
        let hash =
            lane.as_str().bytes().fold(0, |hash, byte| (hash * 31 + usize::from(byte)) % 65_521);
        Self(hash % PARTS)
    }
}

/// The counters of changes as Redis stores them: a big-endian number of 32 bits for each kind, for
/// the changes after which no lane has an earlier first run, and for each part of lanes. Missing
/// bytes are zeros.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeCounts(Vec<u8>);

impl ChangeCounts {
    /// Returns the counters from the value of their key. Returns None if the key is missing or of
    /// another type. The key is always missing if the ACL of Redis forbids scripts to write it.
    pub(super) fn read(value: &Value) -> Option<Self> {
        match value {
            Value::BulkString(bytes) if !bytes.is_empty() && bytes != b"?" => {
                Some(Self(bytes.clone()))
            }
            _ => None,
        }
    }

    fn count(&self, change: Change) -> [u8; 4] {
        self.counter(change as usize)
    }

    fn counter(&self, place: usize) -> [u8; 4] {
        std::array::from_fn(|at| self.0.get(place * 4 + at).copied().unwrap_or(0))
    }

    /// Returns the number of changes that the counter at `place` counted since `before`. Returns None
    /// if the counter began again.
    fn counted(&self, before: &Self, place: usize) -> Option<u64> {
        let [now, before] = [self, before].map(|counts| u32::from_be_bytes(counts.counter(place)));
        let more = now.wrapping_sub(before);
        (more <= u32::MAX / 2).then_some(u64::from(more))
    }

    /// Returns the parts of the lanes that may have an earlier first run than at `before`. Returns
    /// None if any lane may: a change named no lane, or an older schedd counted it.
    pub fn lanes_since(&self, before: &Self) -> Option<BTreeSet<LanePart>> {
        let still = Change::ALL.len();
        let (mut changes, mut placed) = (0, self.counted(before, still)?);
        for place in 0..still {
            changes += self.counted(before, place)?;
        }
        let mut parts = BTreeSet::new();
        for part in 0..PARTS {
            let more = self.counted(before, still + 1 + part)?;
            placed += more;
            if more > 0 {
                parts.insert(LanePart(part));
            }
        }
        (placed == changes).then_some(parts)
    }

    /// Returns the kinds of changes whose counters differ from those in `before`.
    pub fn since(&self, before: &Self) -> Vec<Change> {
        Change::ALL
            .into_iter()
            .filter(|change| self.count(*change) != before.count(*change))
            .collect()
    }
}

/// The state of the data at a poll of the lanes. A later short poll compares the data with this
/// state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollTrace {
    pub(super) connection: u64,
    pub(super) epoch: String,
    pub(super) fence: String,
    pub(super) counts: ChangeCounts,
}

impl PollTrace {
    /// Returns the counters of changes at the poll.
    pub fn counts(&self) -> &ChangeCounts {
        &self.counts
    }

    /// Returns a state with these counters, in the order of [`Change::ALL`], for tests.
    #[doc(hidden)]
    pub fn counted(counts: &[u32]) -> Self {
        let counts = counts.iter().flat_map(|count| count.to_be_bytes()).collect();
        Self {
            connection: 1,
            epoch: String::new(),
            fence: String::new(),
            counts: ChangeCounts(counts),
        }
    }

    /// Returns a state with these counters and one more change, for tests. The change gave a lane of
    /// `part` an earlier first run.
    #[doc(hidden)]
    pub fn counted_for(counts: &[u32], part: LanePart) -> Self {
        let mut counts = counts.to_vec();
        counts.resize(Change::ALL.len() + 1 + PARTS, 0);
        counts[0] += 1;
        counts[Change::ALL.len() + 1 + part.0] += 1;
        Self::counted(&counts)
    }

    /// Returns true if both polls found the same epoch on the same connection.
    pub fn is_of_same_data(&self, other: &Self) -> bool {
        self.connection == other.connection && self.epoch == other.epoch
    }

    /// Returns true if neither a fence was issued nor a change was counted between the polls.
    pub fn is_unchanged_since(&self, before: &Self) -> bool {
        self.fence == before.fence && self.counts == before.counts
    }
}

/// The answer to a short poll.
#[derive(Debug, Clone, Copy)]
pub struct ShortPoll {
    /// The time of the poll by the clock of Redis, in whole milliseconds.
    pub now: UnixMillis,
    /// The part of the poll's time below one millisecond, to add to `now`.
    pub past_now: Duration,
    /// True if the data is as it was at the poll of the lanes, on the same connection.
    pub is_unchanged: bool,
}

/// A mark of the jobs. It differs after a job was added, edited or removed, and after a data loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobsMark {
    epoch: Vec<u8>,
    count: [u8; 4],
}

impl Store {
    /// Returns the mark of the jobs. Returns None if Redis counts no changes.
    pub async fn read_jobs_mark(&self) -> Result<Option<JobsMark>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("MGET").arg(&[self.keys.epoch(), self.keys.nudge()]);
        let answers = self.link.query(&mut pipeline).await?;
        let Some(Value::Array(marks)) = answers.first() else { return Ok(None) };
        let [Value::BulkString(epoch), counts] = marks.as_slice() else { return Ok(None) };
        let mark = |counts: ChangeCounts| JobsMark {
            epoch: epoch.clone(),
            count: counts.count(Change::Jobs),
        };
        Ok(ChangeCounts::read(counts).map(mark))
    }

    /// Reads the clock of Redis, and compares the data with its state at an earlier poll. Returns
    /// None if the store has connected again since that poll. Then only a poll of the lanes shows
    /// whether the data has changed.
    pub async fn short_poll(&self, trace: &PollTrace) -> Result<Option<ShortPoll>, StoreError> {
        let open = self.link.open().await?;
        if open.number() != trace.connection {
            return Ok(None);
        }
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME").cmd("MGET").arg(&[
            self.keys.epoch(),
            self.keys.fence(),
            self.keys.nudge(),
        ]);
        let answers = self.link.ask_on(open, &mut pipeline).await?;
        let [Ok(Value::Array(time)), Ok(Value::Array(marks))] = answers.as_slice() else {
            // An old server or an ACL may refuse a command, so the lanes are polled.
            return Ok(None);
        };
        let [Some(seconds), Some(micros)] = [0, 1].map(|at| time.get(at).and_then(number_of))
        else {
            return Ok(None);
        };
        let [epoch, fence, counts] = marks.as_slice() else { return Ok(None) };
        let bytes = |value: &Value| match value {
            Value::BulkString(bytes) => bytes.clone(),
            _ => Vec::new(),
        };
        let is_unchanged = bytes(epoch) == trace.epoch.as_bytes()
            && bytes(fence) == trace.fence.as_bytes()
            && ChangeCounts::read(counts).as_ref() == Some(&trace.counts);
        let (now, past_now) = time_of(seconds.saturating_mul(1_000_000).saturating_add(micros))?;
        let now = self.chosen_now().unwrap_or(now);
        Ok(Some(ShortPoll { now, past_now, is_unchanged }))
    }
}

/// Splits `micros`, a time of Redis in microseconds, into whole milliseconds and the rest. Fails if
/// the time is out of range.
pub(super) fn time_of(micros: i64) -> Result<(UnixMillis, Duration), StoreError> {
    let now = UnixMillis::new(micros.div_euclid(1000)).ok_or_else(|| {
        let found = format!("found {micros}, wanted the time of Redis in microseconds");
        StoreError::corrupt("reply to a poll", found)
    })?;
    Ok((now, Duration::from_micros(micros.rem_euclid(1000).unsigned_abs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(bytes: &[u8]) -> ChangeCounts {
        ChangeCounts::read(&Value::BulkString(bytes.to_vec())).unwrap()
    }

    #[test]
    fn a_counter_that_moved_names_its_change_and_missing_bytes_are_zeros() {
        let none = ChangeCounts::default();
        assert_eq!(ChangeCounts::read(&Value::Nil), None);
        assert_eq!(ChangeCounts::read(&Value::BulkString(Vec::new())), None);
        let some = counts(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(some.since(&none), [Change::Due, Change::Pools]);
        assert_eq!(none.since(&some), [Change::Due, Change::Pools]);
        assert!(counts(&[0; 32]).since(&none).is_empty());
        let mut last = [0; 32];
        last[31] = 7;
        assert_eq!(counts(&last).since(&none), [Change::Deadlines]);
    }

    #[test]
    fn lanes_stay_known_only_if_each_change_since_then_named_its_lane_or_none() {
        let with = |raised: &[(usize, u32)]| {
            let mut bytes = vec![0; (Change::ALL.len() + 1 + PARTS) * 4];
            for (place, count) in raised {
                bytes[place * 4..][..4].copy_from_slice(&count.to_be_bytes());
            }
            counts(&bytes)
        };
        let (before, part) = (with(&[(0, 7), (9, 3)]), LanePart(5));
        let since = |raised: &[(usize, u32)]| with(raised).lanes_since(&before);
        assert_eq!(since(&[(0, 7), (9, 3)]), Some(BTreeSet::new()), "nothing has changed");
        assert_eq!(since(&[(0, 7), (6, 2), (9, 5)]), Some(BTreeSet::new()), "two jobs were added");
        assert_eq!(since(&[(0, 8), (9, 3), (15, 1)]), Some([part].into()), "a lane was filled");
        assert_eq!(since(&[(0, 9), (9, 3), (15, 1)]), None, "one of two changes named no lane");
        assert_eq!(since(&[(0, 7), (3, 1), (9, 3)]), None, "a run is asked to stop");
        assert_eq!(since(&[(0, 1), (9, 1)]), None, "the counters began again");
        let full = with(&[(0, u32::MAX), (9, u32::MAX)]);
        assert_eq!(with(&[(0, 1), (9, 1)]).lanes_since(&full), Some(BTreeSet::new()), "they wrap");
    }

    #[test]
    fn the_order_of_the_counters_is_that_of_the_scripts() {
        let prelude = include_str!("../../../../lua/shared/prelude.lua");
        let places = format!("local STILL, PARTS = {}, {PARTS}", Change::ALL.len());
        assert!(prelude.contains(&places), "{places}");
        let line = prelude.lines().find(|line| line.contains("CHANGES_COUNTED = ")).unwrap();
        for change in Change::ALL {
            let word = format!("{change:?}").to_lowercase();
            assert!(line.contains(&format!("{word} = {}", change as usize)), "{word}");
        }
    }
}
