//! Gates: script calls with the keys of a run's gates, and the granting of free places to waiting
//! runs.
//!
//! Invariant: a script gets the keys of all gates its run is at. If the run's record names other
//! gates, the script replies with their names before any change. The call is then repeated with
//! these gates.

use std::collections::BTreeMap;

use redis::Value;

use super::lane_takers::Takers;
use crate::Store;
use crate::server::reply::{Reply, number_of, text_of};
use crate::server::scripts;
use crate::server::scripts::Invocation;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::rate::Rate;
use schedd_schedule::names::{GroupName, JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The number of times one call may be repeated with the gates that the run's record names. A claim
/// may change these gates between two calls.
const CALLS: usize = 8;
/// The maximum number of `open_gate.lua` calls for one gate. Each reply may ask for the keys of a
/// few more lanes or members, and a group has up to 100 members.
const OPENINGS: usize = 128;

/// The result of giving the free places of a gate to waiting runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateOpening {
    /// The number of waiting runs that were given a place.
    pub given: u64,
    /// The time at which the gate must be checked again; None if no check is needed.
    pub next: Option<UnixMillis>,
}

/// The state of a group of jobs: its turn, its runs and the next check of its gate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupStanding {
    /// The job whose turn it is in an alternating group, and the start of the turn. None if the
    /// group has no turn.
    pub turn: Option<(JobName, UnixMillis)>,
    /// The time at which the last attempt of a member of the group ended; None if no member ran.
    pub last_ended: Option<UnixMillis>,
    /// The time before which the next turn does not begin, because a run or an operator set it.
    /// None if no time was set. The time may be past.
    pub not_before: Option<UnixMillis>,
    /// The runs that have a place in the group and have begun. Together with `let_in` at most 100.
    pub holders: Vec<RunId>,
    /// The runs that have a place in the group and have not begun.
    pub let_in: Vec<RunId>,
    /// The number of runs that wait for a place in the group.
    pub waiting: u64,
    /// The first waiting runs of the group, at most 10.
    pub first_waiting: Vec<RunId>,
    /// The time at which the gate of the group must be checked next; None if no check is needed.
    pub next: Option<UnixMillis>,
}

/// The state of a run that got a place at a gate and has not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetIn {
    /// The run has its place since this time.
    Since(UnixMillis),
    /// The run lost its place because it did not begin while other runs waited.
    GaveUp,
}

/// Returns the names of these gates, separated by spaces, as scripts read them.
pub(crate) fn names_of(gates: &[Gate]) -> String {
    gates.iter().map(Gate::as_str).collect::<Vec<_>>().join(" ")
}

impl Store {
    /// Calls a script with the keys of a run's gates and returns its reply. `known` are the gates
    /// as read from the run's record. If the record names other gates by now, the call is repeated
    /// with them.
    pub(crate) async fn invoke_at_gates(
        &self,
        known: &[Gate],
        call: impl Fn(&[Gate]) -> Invocation,
    ) -> Result<Reply, StoreError> {
        let mut gates = known.to_vec();
        for _ in 0..CALLS {
            let mut reply = self.link.invoke(&call(&gates)).await?;
            if reply.word != "places" {
                return Ok(reply);
            }
            gates = Gate::all_in(&reply.text()?);
        }
        Err(StoreError::corrupt(
            "gates of a run",
            format!("the script asked for other gates in each of {CALLS} calls"),
        ))
    }

    /// Gives the free places of a gate to waiting runs. `lanes` are lanes that nodes serve. For any
    /// other lane, `takers` finds out if a live node serves it.
    pub async fn open_gate(
        &self,
        gate: &Gate,
        lanes: &[Lane],
        takers: &mut Takers,
    ) -> Result<GateOpening, StoreError> {
        let keys = &self.keys;
        // Maps each kind and name that the script asks for to a Redis key. A malformed lane name
        // gets the key of the default lane.
        let mut places: BTreeMap<(&str, String), String> =
            lanes.iter().map(|lane| (("lane", lane.to_string()), keys.due(lane))).collect();
        for _ in 0..OPENINGS {
            let mut call = self.call(&scripts::OPEN_GATE).arg("gates", gate.as_str());
            for ((kind, name), key) in &places {
                call = call.item().key("place", key).arg("kind", *kind).arg("name", name);
            }
            let mut reply =
                self.link.invoke(&call.gate_keys(keys, std::slice::from_ref(gate))).await?;
            match reply.word.as_str() {
                "opened" => {
                    let given = u64::try_from(reply.number()?).unwrap_or(0);
                    let next = number_of(&reply.value()?).and_then(UnixMillis::new);
                    return Ok(GateOpening { given, next });
                }
                "lanes" => {
                    let Value::Array(wanted) = reply.value()? else { return Err(reply.unknown()) };
                    for text in wanted.iter().filter_map(text_of) {
                        let lane = text.parse().unwrap_or_else(|_| Lane::default_lane());
                        let kind =
                            if takers.take(self, &lane).await? { "lane" } else { "unserved" };
                        places.insert((kind, text), keys.due(&lane));
                    }
                }
                "members" => {
                    let members = reply.text()?;
                    let members = members.split_ascii_whitespace();
                    // A malformed name cannot be a job. It gets a key of the gate in place of a
                    // job's key.
                    let key = |name: &str| {
                        name.parse::<JobName>()
                            .map_or_else(|_| keys.gate(gate), |job| keys.job(&job))
                    };
                    for name in members {
                        places.insert(("job", name.to_owned()), key(name));
                        let open = name
                            .parse::<JobName>()
                            .map_or_else(|_| keys.gate_holders(gate), |job| keys.open(&job));
                        places.insert(("open", name.to_owned()), open);
                    }
                }
                _ => return Err(reply.unknown()),
            }
        }
        Err(StoreError::corrupt(
            "script open_gate",
            format!("the lanes or members of {} changed during {OPENINGS} calls", gate.words()),
        ))
    }

    /// Returns the turn, the runs with a place, the first waiting runs and the next check of each
    /// group.
    pub async fn read_group_standings(
        &self,
        groups: &[GroupName],
    ) -> Result<Vec<GroupStanding>, StoreError> {
        let mut pipeline = redis::pipe();
        for group in groups {
            let gate = Gate::of_group(group);
            pipeline.cmd("HMGET").arg(self.keys.gate(&gate)).arg(&[
                "turn",
                "since",
                "last_ended",
                "not_before",
            ]);
            pipeline
                .cmd("ZRANGE")
                .arg(self.keys.gate_holders(&gate))
                .arg(0)
                .arg(99)
                .arg("WITHSCORES");
            pipeline.cmd("ZCARD").arg(self.keys.gate_waiters(&gate));
            pipeline.cmd("ZRANGE").arg(self.keys.gate_waiters(&gate)).arg(0).arg(9);
            pipeline.cmd("ZSCORE").arg(self.keys.gate_timers()).arg(gate.as_str());
        }
        // A key of the wrong type counts as missing. The consistency check reports the key.
        let answers: Vec<Option<Value>> =
            self.link.ask(&mut pipeline).await?.into_iter().map(Result::ok).collect();
        Ok(answers.chunks_exact(5).map(standing).collect())
    }

    /// Returns the run that makes a gate skip the lane of `run`, and the time until which the lane
    /// is skipped. That run of the same lane got a place at the gate and did not begin. Returns
    /// None if the gate does not skip the lane.
    pub async fn read_stuck(
        &self,
        gate: &Gate,
        run: &RunId,
    ) -> Result<Option<(RunId, UnixMillis)>, StoreError> {
        let state = self.keys.gate(gate);
        let Some(lane) =
            self.gate_answer(redis::cmd("HGET").arg(&state).arg(format!("lane:{run}"))).await?
        else {
            return Ok(None);
        };
        let mark = self
            .gate_answer(redis::cmd("HGET").arg(&state).arg(format!("stuck:{lane}")))
            .await?
            .unwrap_or_default();
        let (Some((id, ends)), Ok(lane)) = (mark.split_once(' '), lane.parse::<Lane>()) else {
            return Ok(None);
        };
        let (Ok(id), Some(ends)) = (id.parse(), ends.parse().ok().and_then(UnixMillis::new)) else {
            return Ok(None);
        };
        let score = self
            .gate_answer(redis::cmd("ZSCORE").arg(self.keys.due(&lane)).arg(mark.split(' ').next()))
            .await?;
        Ok(score.map(|_| (id, ends)))
    }

    /// Sends one command and returns its answer as text. Returns None if there is no value, or if
    /// the key has the wrong type, which the consistency check reports.
    async fn gate_answer(&self, command: &redis::Cmd) -> Result<Option<String>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.add_command(command.clone());
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next().and_then(Result::ok);
        Ok(answer.as_ref().and_then(text_of))
    }

    /// Returns true if a run of `job` waits at `gate`.
    pub async fn has_queued(&self, gate: &Gate, job: &JobName) -> Result<bool, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("ZLEXCOUNT")
            .arg(self.keys.gate_waiters_by_job(gate))
            .arg(format!("[{job} "))
            .arg(format!("({job}!"));
        // A key of the wrong type counts as missing. The consistency check reports the key.
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next().and_then(Result::ok);
        Ok(answer.as_ref().and_then(number_of).is_some_and(|count| count > 0))
    }

    /// Returns the time from which `rate`, the rate limit of a concurrency key, lets one more run
    /// begin. Returns None if no run has used the rate.
    pub async fn read_key_opens(
        &self,
        gate: &Gate,
        rate: Rate,
    ) -> Result<Option<UnixMillis>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("GET").arg(self.keys.gate_rate(gate));
        // A key of the wrong type counts as missing. The consistency check reports the key.
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next().and_then(Result::ok);
        let (interval, burst) = (rate.interval_micros(), u64::from(rate.burst()));
        let own = format!(":{interval}:{burst}");
        let text = answer.as_ref().and_then(text_of).unwrap_or_default();
        let taken_up =
            text.split(' ').find_map(|word| word.strip_suffix(&own)?.parse::<u64>().ok());
        let opens = taken_up.map(|to| {
            to.saturating_add(interval)
                .saturating_sub(interval.saturating_mul(burst))
                .div_ceil(1_000)
        });
        Ok(opens.and_then(|ms| UnixMillis::new(i64::try_from(ms).ok()?)))
    }

    /// Returns a run that has a place at a gate, and true if the run has begun. Prefers the run
    /// that began last to runs that have not begun. Returns None if no run has a place.
    pub async fn read_holder(&self, gate: &Gate) -> Result<Option<(RunId, bool)>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.gate_holders(gate)).arg(-1).arg(-1).arg("WITHSCORES");
        // A key of the wrong type counts as missing. The consistency check reports the key.
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next().and_then(Result::ok);
        let (mut begun, mut let_in) = split_holders(answer.as_ref());
        Ok(begun.pop().map(|run| (run, true)).or_else(|| let_in.pop().map(|run| (run, false))))
    }
}

impl Store {
    /// Returns the state of `run` at each of these gates. The state is None if the gate gave the
    /// run no place, or if the run has begun.
    pub async fn read_let_in(
        &self,
        run: &RunId,
        gates: &[Gate],
    ) -> Result<Vec<Option<LetIn>>, StoreError> {
        let id = run.to_string();
        let mut pipeline = redis::pipe();
        for gate in gates {
            pipeline.cmd("ZSCORE").arg(self.keys.gate_holders(gate)).arg(&id);
            pipeline.cmd("ZSCORE").arg(self.keys.gate_waiters(gate)).arg(&id);
            pipeline.cmd("HEXISTS").arg(self.keys.gate(gate)).arg(format!("lane:{id}"));
        }
        // A key of the wrong type counts as missing. The consistency check reports the key.
        let answers: Vec<Option<Value>> =
            self.link.ask(&mut pipeline).await?.into_iter().map(Result::ok).collect();
        let place = |answer: &[Option<Value>]| {
            let number = |at: usize| answer.get(at)?.as_ref().and_then(number_of);
            match (number(0), number(1), number(2)) {
                (Some(score), ..) => {
                    UnixMillis::new(score.checked_neg()?).filter(|_| score < 0).map(LetIn::Since)
                }
                (None, None, Some(1)) => Some(LetIn::GaveUp),
                _ => None,
            }
        };
        Ok(answers.chunks_exact(3).map(place).collect())
    }
}

/// Splits the runs that have a place into runs that have begun and runs that have not. `answer` has
/// the runs with their scores; a negative score means that the run has not begun.
fn split_holders(answer: Option<&Value>) -> (Vec<RunId>, Vec<RunId>) {
    let (mut begun, mut let_in) = (Vec::new(), Vec::new());
    if let Some(Value::Array(flat)) = answer {
        for pair in flat.chunks_exact(2) {
            let (Some(run), Some(score)) =
                (text_of(&pair[0]).and_then(|id| id.parse().ok()), text_of(&pair[1]))
            else {
                continue;
            };
            if score.starts_with('-') { let_in.push(run) } else { begun.push(run) }
        }
    }
    (begun, let_in)
}

fn standing(answers: &[Option<Value>]) -> GroupStanding {
    let [state, holders, waiting, first, next] = answers else { return GroupStanding::default() };
    let items = |value: &Option<Value>| match value {
        Some(Value::Array(items)) => items.clone(),
        _ => Vec::new(),
    };
    let runs = |value: &Option<Value>| {
        items(value).iter().filter_map(text_of).filter_map(|id| id.parse().ok()).collect()
    };
    let instant = |value: Option<&Value>| value.and_then(number_of).and_then(UnixMillis::new);
    let state = items(state);
    let (holders, let_in) = split_holders(holders.as_ref());
    let turn = state.first().and_then(text_of).and_then(|name| name.parse().ok());
    GroupStanding {
        turn: turn.zip(instant(state.get(1))),
        last_ended: instant(state.get(2)),
        not_before: instant(state.get(3)),
        holders,
        let_in,
        waiting: waiting
            .as_ref()
            .and_then(number_of)
            .and_then(|count| u64::try_from(count).ok())
            .unwrap_or(0),
        first_waiting: runs(first),
        next: instant(next.as_ref()),
    }
}
