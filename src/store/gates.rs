//! Gates: the calls at the gates a run stands at, and giving free places to those that wait.
//!
//! Invariant: a script is told the keys of all gates its run stands at. If the record names others it answers so before it has
//! changed anything, and is called again with those.

use std::collections::BTreeMap;

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::reply::{Reply, number_of, text_of};
use super::scripts::{self, Invocation};
use super::takers::Takers;
use crate::domain::gate::Gate;
use crate::domain::ids::{GroupName, JobName, RunId};
use crate::domain::lane::Lane;
use crate::domain::rate::Rate;
use crate::domain::time::UnixMillis;

/// How often a call is repeated with the gates the record names: they change with each claim.
const CALLS: usize = 8;
/// How often a gate is asked for: each answer may name some lanes more, and a group has up to 100 members.
const OPENINGS: usize = 128;

/// What came of a look at a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// How many that waited were given a place.
    pub given: u64,
    /// When it is to be looked at again.
    pub next: Option<UnixMillis>,
}

/// A group as it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupStanding {
    /// Whose turn it is, and since when.
    pub turn: Option<(JobName, UnixMillis)>,
    /// When the last attempt of a member ended.
    pub last_ended: Option<UnixMillis>,
    /// The runs that have a place and have begun; at most 100 with those that have not.
    pub held: Vec<RunId>,
    /// Those that were let in and have not begun.
    pub let_in: Vec<RunId>,
    /// How many wait.
    pub waiting: u64,
    /// The first of those that wait, at most 10.
    pub first_waiting: Vec<RunId>,
    /// When time alone opens it.
    pub next: Option<UnixMillis>,
}

/// How a run that has not begun stands at a gate where it was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetIn {
    /// It has its place there since then.
    Since(UnixMillis),
    /// It gave that up, for it did not begin while others waited.
    GaveUp,
}

/// The names of gates as scripts take them.
pub(super) fn names_of(gates: &[Gate]) -> String {
    gates.iter().map(Gate::as_str).collect::<Vec<_>>().join(" ")
}

impl Store {
    /// Makes a call for a run that stands at gates, with the keys of those.
    pub(super) async fn invoke_at_gates(
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
        Err(StoreError::corrupt("places", "the gates a run stands at change with every call"))
    }

    /// Gives the free places of a gate to those that wait there. `lanes` are some that nodes serve; of others `takers` are asked.
    pub async fn open_gate(&self, gate: &Gate, lanes: &[Lane], takers: &mut Takers) -> Result<Opened, StoreError> {
        let keys = &self.keys;
        // By the text that is kept: one that is no lane leads to the default one.
        let mut places: BTreeMap<(&str, String), String> =
            lanes.iter().map(|lane| (("lane", lane.to_string()), keys.due(lane))).collect();
        for _ in 0..OPENINGS {
            let mut call = Invocation::new(&scripts::OPEN_GATE)
                .key("nudge", keys.nudge())
                .key("totals", keys.totals())
                .key("jobs", keys.jobs())
                .key("leases", keys.leases())
                .key("shunned_lately", keys.shunned_lately())
                .arg("now", self.now_arg())
                .arg("gates", gate.as_str());
            for ((kind, name), key) in &places {
                call = call.key("place", key).arg("kind", *kind).arg("name", name);
            }
            let mut reply = self.link.invoke(&call.gate_keys(keys, std::slice::from_ref(gate))).await?;
            match reply.word.as_str() {
                "opened" => {
                    let given = u64::try_from(reply.number()?).unwrap_or(0);
                    let next = number_of(&reply.value()?).and_then(UnixMillis::new);
                    return Ok(Opened { given, next });
                }
                "lanes" => {
                    let Value::Array(wanted) = reply.value()? else { return Err(reply.unknown()) };
                    for text in wanted.iter().filter_map(text_of) {
                        let lane = text.parse().unwrap_or_else(|_| Lane::default_lane());
                        let kind = if takers.take(self, &lane).await? { "lane" } else { "unserved" };
                        places.insert((kind, text), keys.due(&lane));
                    }
                }
                "members" => {
                    let members = reply.text()?;
                    let members = members.split_ascii_whitespace();
                    // One that is no name is no job.
                    let key = |name: &str| name.parse::<JobName>().map_or_else(|_| keys.gate(gate), |job| keys.job(&job));
                    for name in members {
                        places.insert(("job", name.to_owned()), key(name));
                        let open = name.parse::<JobName>().map_or_else(|_| keys.held(gate), |job| keys.open(&job));
                        places.insert(("open", name.to_owned()), open);
                    }
                }
                _ => return Err(reply.unknown()),
            }
        }
        Err(StoreError::corrupt("open_gate", "its lanes or members change with every call"))
    }

    /// How each of these groups stands.
    pub async fn read_group_standings(&self, groups: &[GroupName]) -> Result<Vec<GroupStanding>, StoreError> {
        let mut pipeline = redis::pipe();
        for group in groups {
            let gate = Gate::of_group(group);
            pipeline.cmd("HMGET").arg(self.keys.gate(&gate)).arg(&["turn", "since", "last_ended"]);
            pipeline.cmd("ZRANGE").arg(self.keys.held(&gate)).arg(0).arg(99).arg("WITHSCORES");
            pipeline.cmd("ZCARD").arg(self.keys.queued(&gate));
            pipeline.cmd("ZRANGE").arg(self.keys.queued(&gate)).arg(0).arg(9);
            pipeline.cmd("ZSCORE").arg(self.keys.gate_wakes()).arg(gate.as_str());
        }
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        // A key that holds something else is a finding of the doctor.
        let answers: Vec<Option<Value>> = self.link.ask(&mut pipeline).await?.into_iter().map(Result::ok).collect();
        Ok(answers.chunks_exact(5).map(standing).collect())
    }

    /// The run that keeps `run` out at a gate, for it stands in the same lane and did not begin when it was let in; with it until when.
    pub async fn read_stuck(&self, gate: &Gate, run: &RunId) -> Result<Option<(RunId, UnixMillis)>, StoreError> {
        let state = self.keys.gate(gate);
        let Some(lane) = self.gate_answer(redis::cmd("HGET").arg(&state).arg(format!("lane:{run}"))).await? else {
            return Ok(None);
        };
        let mark = self.gate_answer(redis::cmd("HGET").arg(&state).arg(format!("stuck:{lane}"))).await?.unwrap_or_default();
        let (Some((id, ends)), Ok(lane)) = (mark.split_once(' '), lane.parse::<Lane>()) else { return Ok(None) };
        let (Ok(id), Some(ends)) = (id.parse(), ends.parse().ok().and_then(UnixMillis::new)) else { return Ok(None) };
        let stands = self.gate_answer(redis::cmd("ZSCORE").arg(self.keys.due(&lane)).arg(mark.split(' ').next())).await?;
        Ok(stands.map(|_| (id, ends)))
    }

    /// What one command says; none if its key holds something else, which is a finding of the doctor.
    async fn gate_answer(&self, command: &redis::Cmd) -> Result<Option<String>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.add_command(command.clone());
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next().and_then(Result::ok);
        Ok(answer.as_ref().and_then(text_of))
    }

    /// Whether a run of `job` waits at a gate.
    pub async fn has_queued(&self, gate: &Gate, job: &JobName) -> Result<bool, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZLEXCOUNT").arg(self.keys.queued_by_job(gate)).arg(format!("[{job} ")).arg(format!("({job}!"));
        // A key that holds something else is a finding of the doctor.
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next().and_then(Result::ok);
        Ok(answer.as_ref().and_then(number_of).is_some_and(|count| count > 0))
    }

    /// When a rate lets one more run begin at the gate of a key; none if nothing of it is taken up.
    pub async fn read_key_opens(&self, gate: &Gate, rate: Rate) -> Result<Option<UnixMillis>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("GET").arg(self.keys.gate_rate(gate));
        // A key that holds something else is a finding of the doctor.
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next().and_then(Result::ok);
        let (interval, burst) = (rate.interval_micros(), u64::from(rate.burst()));
        let own = format!(":{interval}:{burst}");
        let text = answer.as_ref().and_then(text_of).unwrap_or_default();
        let taken_up = text.split(' ').find_map(|word| word.strip_suffix(&own)?.parse::<u64>().ok());
        let opens = taken_up.map(|to| to.saturating_add(interval).saturating_sub(interval.saturating_mul(burst)).div_ceil(1_000));
        Ok(opens.and_then(|ms| UnixMillis::new(i64::try_from(ms).ok()?)))
    }

    /// The run that has a place at a gate, the last that began before those that have not, and whether it has.
    pub async fn read_holder(&self, gate: &Gate) -> Result<Option<(RunId, bool)>, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(self.keys.held(gate)).arg(-1).arg(-1).arg("WITHSCORES");
        // A key that holds something else is a finding of the doctor.
        let answer = self.link.ask(&mut pipeline).await?.into_iter().next().and_then(Result::ok);
        let (mut begun, mut let_in) = holders(answer.as_ref());
        Ok(begun.pop().map(|run| (run, true)).or_else(|| let_in.pop().map(|run| (run, false))))
    }
}

impl Store {
    /// How a run stands at each of these gates, if it was let in there and has not begun.
    pub async fn read_let_in(&self, run: &RunId, gates: &[Gate]) -> Result<Vec<Option<LetIn>>, StoreError> {
        if gates.is_empty() {
            return Ok(Vec::new());
        }
        let id = run.to_string();
        let mut pipeline = redis::pipe();
        for gate in gates {
            pipeline.cmd("ZSCORE").arg(self.keys.held(gate)).arg(&id);
            pipeline.cmd("ZSCORE").arg(self.keys.queued(gate)).arg(&id);
            pipeline.cmd("HEXISTS").arg(self.keys.gate(gate)).arg(format!("lane:{id}"));
        }
        // A key that holds something else is a finding of the doctor.
        let answers: Vec<Option<Value>> = self.link.ask(&mut pipeline).await?.into_iter().map(Result::ok).collect();
        let place = |answer: &[Option<Value>]| {
            let number = |at: usize| answer.get(at)?.as_ref().and_then(number_of);
            match (number(0), number(1), number(2)) {
                (Some(score), ..) => UnixMillis::new(score.checked_neg()?).filter(|_| score < 0).map(LetIn::Since),
                (None, None, Some(1)) => Some(LetIn::GaveUp),
                _ => None,
            }
        };
        Ok(answers.chunks_exact(3).map(place).collect())
    }
}

/// Of those that have a place, with their scores, the runs that have begun and those that have not.
fn holders(answer: Option<&Value>) -> (Vec<RunId>, Vec<RunId>) {
    let (mut begun, mut let_in) = (Vec::new(), Vec::new());
    if let Some(Value::Array(flat)) = answer {
        for pair in flat.chunks_exact(2) {
            let (Some(run), Some(score)) = (text_of(&pair[0]).and_then(|id| id.parse().ok()), text_of(&pair[1])) else {
                continue;
            };
            if score.starts_with('-') { let_in.push(run) } else { begun.push(run) }
        }
    }
    (begun, let_in)
}

fn standing(answers: &[Option<Value>]) -> GroupStanding {
    let [state, held, waiting, first, next] = answers else { return GroupStanding::default() };
    let items = |value: &Option<Value>| match value {
        Some(Value::Array(items)) => items.clone(),
        _ => Vec::new(),
    };
    let runs = |value: &Option<Value>| items(value).iter().filter_map(text_of).filter_map(|id| id.parse().ok()).collect();
    let instant = |value: Option<&Value>| value.and_then(number_of).and_then(UnixMillis::new);
    let state = items(state);
    let (held, let_in) = holders(held.as_ref());
    let turn = state.first().and_then(text_of).and_then(|name| name.parse().ok());
    GroupStanding {
        turn: turn.zip(instant(state.get(1))),
        last_ended: instant(state.get(2)),
        held,
        let_in,
        waiting: waiting.as_ref().and_then(number_of).and_then(|count| u64::try_from(count).ok()).unwrap_or(0),
        first_waiting: runs(first),
        next: instant(next.as_ref()),
    }
}
