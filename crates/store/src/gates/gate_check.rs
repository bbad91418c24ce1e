//! The consistency check of one gate: compares its runs with the records of these runs, and repairs
//! differences.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use super::gate_calls::names_of;
use crate::Store;
use crate::server::reply::{number_of, text_of};
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::consistency::GateFacts;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::RunId;

/// The number of runs at a gate that are compared with their records, the earliest due first.
const RUNS: usize = 10_000;
/// The number of runs in one call of `repair_gate.lua`.
const ITEMS: usize = 1_000;
/// The prefixes of the fields in a gate's state whose names contain a run id, such as `lane:RUN`.
const STATE_FIELDS: [&str; 2] = ["lane:", "before:"];
/// The maximum number of gates that one call of the script changes besides the repaired gate.
const OTHERS: usize = 100;

/// The facts about one run at a gate: fields of its record, and true if its entry is in quarantine.
#[derive(Default)]
struct AtGate {
    state: Option<String>,
    places: Vec<Gate>,
    /// The lane name as stored in the run's record.
    lane: String,
    is_in_quarantine: bool,
}

impl AtGate {
    /// Returns the lane of the run; the default lane if its record names no valid lane.
    fn lane(&self) -> Lane {
        self.lane.parse().unwrap_or_else(|_| Lane::default_lane())
    }
}

impl Store {
    /// Compares a gate with the records of its runs and returns the differences.
    pub async fn inspect_gate(&self, gate: &Gate) -> Result<GateFacts, StoreError> {
        let keys = &self.keys;
        let mut pipeline = redis::pipe();
        for key in [keys.gate_holders(gate), keys.gate_waiters(gate)] {
            pipeline.cmd("ZRANGE").arg(key).arg(0).arg(RUNS - 1);
        }
        pipeline.cmd("ZCARD").arg(keys.gate_waiters(gate));
        pipeline.cmd("ZCARD").arg(keys.gate_waiters_by_job(gate));
        pipeline.cmd("ZSCORE").arg(keys.gate_timers()).arg(gate.as_str());
        for key in [
            keys.gate_waiters_by_job(gate),
            keys.gate_waiters_by_lane(gate),
            keys.gate_waiter_lanes(gate),
        ] {
            pipeline.cmd("ZRANGE").arg(key).arg(0).arg(RUNS - 1);
        }
        pipeline.cmd("HSCAN").arg(keys.gate(gate)).arg(0).arg("COUNT").arg(RUNS);
        let answers = self.link.query(&mut pipeline).await?;
        let [holders, queued, waiting, count_by_job, wake, by_job, by_lane, lanes, state] =
            answers.as_slice()
        else {
            return Err(StoreError::corrupt(
                format!("reply about {}", gate.words()),
                format!("found {} values, wanted 9", answers.len()),
            ));
        };
        let runs = |value: &Value| match value {
            Value::Array(ids) => ids
                .iter()
                .filter_map(text_of)
                .filter_map(|id| id.parse().ok())
                .collect::<Vec<RunId>>(),
            _ => Vec::new(),
        };
        let (holders, queued) = (runs(holders), runs(queued));
        let in_state = runs_in_state(state);
        let mut strays = Vec::new();
        let all: BTreeSet<&RunId> = holders.iter().chain(&queued).chain(&in_state).collect();
        let all: Vec<&RunId> = all.into_iter().collect();
        let mut in_quarantine = Vec::new();
        for some in all.chunks(ITEMS) {
            for (run, found) in some.iter().zip(self.read_at_gate(some).await?) {
                // The consistency check reports a record of the wrong type separately.
                let Some(found) = found else { continue };
                let is_open = found
                    .state
                    .as_deref()
                    .is_some_and(|state| state == "scheduled" || state == "running");
                if !is_open || !found.places.contains(gate) {
                    strays.push((*run).clone());
                } else if found.is_in_quarantine && found.state.as_deref() == Some("scheduled") {
                    in_quarantine.push(((*run).clone(), found));
                }
            }
        }
        let aside = self.among_nowhere(in_quarantine).await?;
        // A run that ended after its entries were read has left the gate.
        let mut strays = self.still_at(gate, strays).await?;
        strays.extend(queued.iter().filter(|run| holders.contains(run)).cloned());
        let (waiting, count_by_job) =
            (number_of(waiting).unwrap_or(0), number_of(count_by_job).unwrap_or(0));
        // If more runs wait than are read, only the counts of the indexes are compared.
        let is_read = i64::try_from(RUNS).is_ok_and(|read| waiting.max(count_by_job) <= read);
        let agree = || orders_agree(&queued, &texts(by_job), &texts(by_lane), &texts(lanes));
        Ok(GateFacts {
            is_open_unnoticed: waiting > 0 && holders.is_empty() && matches!(wake, Value::Nil),
            is_unsorted: waiting != count_by_job || is_read && !agree(),
            aside: aside.into_iter().filter(|run| holders.contains(run)).collect(),
            strays,
            queued,
        })
    }

    /// Reads the state, the places and the lane of each of these runs from its record. A record of
    /// the wrong type gives None.
    async fn read_at_gate(&self, runs: &[&RunId]) -> Result<Vec<Option<AtGate>>, StoreError> {
        let mut pipeline = redis::pipe();
        for run in runs {
            pipeline.cmd("HMGET").arg(self.keys.run(run)).arg("state").arg("places").arg("queue");
            pipeline.cmd("HEXISTS").arg(self.keys.quarantine()).arg(run.to_string());
        }
        let answers = self.link.ask(&mut pipeline).await?;
        let read = |pair: &[Result<Value, redis::RedisError>]| {
            let Ok(Value::Array(fields)) = &pair[0] else { return None };
            let [state, places, lane] = fields.as_slice() else { return None };
            Some(AtGate {
                state: text_of(state),
                places: text_of(places).map_or_else(Vec::new, |places| Gate::all_in(&places)),
                lane: text_of(lane).unwrap_or_default(),
                is_in_quarantine: pair[1].as_ref().ok().and_then(number_of) == Some(1),
            })
        };
        Ok(answers.chunks_exact(2).map(read).collect())
    }

    /// Returns the runs among `runs` that have an entry at `gate`.
    async fn still_at(&self, gate: &Gate, runs: Vec<RunId>) -> Result<Vec<RunId>, StoreError> {
        let mut pipeline = redis::pipe();
        for run in &runs {
            let id = run.to_string();
            pipeline.cmd("ZSCORE").arg(self.keys.gate_holders(gate)).arg(&id);
            pipeline.cmd("ZSCORE").arg(self.keys.gate_waiters(gate)).arg(&id);
            let [lane, before] = STATE_FIELDS.map(|field| format!("{field}{id}"));
            pipeline.cmd("HMGET").arg(self.keys.gate(gate)).arg(lane).arg(before);
        }
        let answers = self.link.query(&mut pipeline).await?;
        let is_there = |answer: &Value| match answer {
            Value::Array(fields) => fields.iter().any(|field| *field != Value::Nil),
            score => *score != Value::Nil,
        };
        let entries = answers.chunks_exact(3);
        Ok(runs
            .into_iter()
            .zip(entries)
            .filter_map(|(run, entries)| entries.iter().any(is_there).then_some(run))
            .collect())
    }

    /// Returns the runs among `runs` that are not in a due set and do not wait at a gate.
    async fn among_nowhere(&self, runs: Vec<(RunId, AtGate)>) -> Result<Vec<RunId>, StoreError> {
        let mut pipeline = redis::pipe();
        for (run, found) in &runs {
            pipeline.cmd("ZSCORE").arg(self.keys.due(&found.lane())).arg(run.to_string());
            for gate in &found.places {
                pipeline.cmd("ZSCORE").arg(self.keys.gate_waiters(gate)).arg(run.to_string());
            }
        }
        let mut scores = self.link.ask(&mut pipeline).await?.into_iter();
        let is_nowhere = |(run, found): (RunId, AtGate)| {
            let own: Vec<_> = scores.by_ref().take(1 + found.places.len()).collect();
            own.iter().all(|score| matches!(score, Ok(Value::Nil))).then_some(run)
        };
        Ok(runs.into_iter().filter_map(is_nowhere).collect())
    }

    /// Makes a gate agree with the records of these runs. Returns the number of runs that left the
    /// gate.
    pub async fn repair_gate(&self, gate: &Gate, runs: &[RunId]) -> Result<u64, StoreError> {
        let keys = &self.keys;
        let mut left = 0;
        for some in runs.chunks(ITEMS).chain(runs.is_empty().then_some(&[][..])) {
            let names: Vec<&RunId> = some.iter().collect();
            let read: Vec<AtGate> = self
                .read_at_gate(&names)
                .await?
                .into_iter()
                .map(Option::unwrap_or_default)
                .collect();
            let mut gates = vec![gate.clone()];
            for other in
                read.iter().filter(|found| found.is_in_quarantine).flat_map(|found| &found.places)
            {
                if !gates.contains(other) && gates.len() <= OTHERS {
                    gates.push(other.clone());
                }
            }
            let mut call = self.call(&scripts::REPAIR_GATE).arg("gates", names_of(&gates));
            for (run, found) in some.iter().zip(&read) {
                call =
                    call.item().of_run(run).of_lane(&found.lane()).arg("lane", found.lane.clone());
            }
            let mut reply = self.link.invoke(&call.gate_keys(keys, &gates)).await?;
            if reply.word != "repaired" {
                return Err(reply.unknown());
            }
            left += u64::try_from(reply.number()?).unwrap_or(0);
        }
        Ok(left)
    }

    /// Returns one value for each of `runs`: true if the run waits at a gate that its record names.
    pub async fn queued_among(&self, runs: &[&RunId]) -> Result<Vec<bool>, StoreError> {
        let mut pipeline = redis::pipe();
        for run in runs {
            pipeline.cmd("HGET").arg(self.keys.run(run)).arg("places");
        }
        let places: Vec<Vec<Gate>> = self
            .link
            .ask(&mut pipeline)
            .await?
            .into_iter()
            .map(|answer| {
                answer
                    .ok()
                    .as_ref()
                    .and_then(text_of)
                    .map_or_else(Vec::new, |text| Gate::all_in(&text))
            })
            .collect();
        let mut pipeline = redis::pipe();
        for (run, gate) in runs
            .iter()
            .zip(&places)
            .flat_map(|(run, gates)| gates.iter().map(move |gate| (run, gate)))
        {
            pipeline.cmd("ZSCORE").arg(self.keys.gate_waiters(gate)).arg(run.to_string());
        }
        let mut scores = self.link.ask(&mut pipeline).await?.into_iter();
        let is_queued = |gates: &Vec<Gate>| {
            let found: Vec<bool> = gates
                .iter()
                .map(|_| matches!(scores.next(), Some(Ok(score)) if score != Value::Nil))
                .collect();
            found.contains(&true)
        };
        Ok(places.iter().map(is_queued).collect())
    }
}

/// Returns the runs that the state of a gate names. `page` is the answer of the Redis command
/// `HSCAN`.
fn runs_in_state(page: &Value) -> Vec<RunId> {
    let Value::Array(page) = page else { return Vec::new() };
    let Some(Value::Array(fields)) = page.get(1) else { return Vec::new() };
    let run_of = |field: &Value| {
        let field = text_of(field)?;
        STATE_FIELDS.iter().find_map(|prefix| field.strip_prefix(prefix))?.parse().ok()
    };
    fields.iter().step_by(2).filter_map(run_of).collect()
}

fn texts(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(text_of).collect(),
        _ => BTreeSet::new(),
    }
}

/// Returns true if the sorted sets of a gate agree with the waiting runs.
///
/// - `by_job` names all waiting runs.
/// - `by_lane` names the first waiting run of each job and lane.
/// - `lanes` names the first waiting run of each lane.
fn orders_agree(
    queued: &[RunId],
    by_job: &BTreeSet<String>,
    by_lane: &BTreeSet<String>,
    lanes: &BTreeSet<String>,
) -> bool {
    let waiting: BTreeSet<String> = queued.iter().map(RunId::to_string).collect();
    let (mut named, mut of_jobs, mut of_lanes) =
        (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
    // Entries are sorted as text, so the first run of each job and lane comes first.
    for entry in by_job {
        let Some((job, rest)) = entry.split_once(' ') else { return false };
        let (Some((lane, _)), Some((_, run))) = (rest.split_once(' '), rest.rsplit_once(' '))
        else {
            return false;
        };
        named.insert(run.to_owned());
        of_jobs.entry((job, lane)).or_insert(rest);
    }
    let firsts: BTreeSet<String> = of_jobs.into_values().map(str::to_owned).collect();
    for entry in &firsts {
        if let (Some((lane, _)), Some((_, run))) = (entry.split_once(' '), entry.rsplit_once(' ')) {
            of_lanes.entry(lane.to_owned()).or_insert_with(|| format!("{run} {lane}"));
        }
    }
    named == waiting
        && firsts == *by_lane
        && of_lanes.into_values().collect::<BTreeSet<_>>() == *lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_agree_only_if_each_names_those_that_wait_and_the_first_of_them() {
        let set = |entries: &[&str]| {
            entries.iter().map(|entry| (*entry).to_owned()).collect::<BTreeSet<_>>()
        };
        let queued: Vec<RunId> =
            ["a@5", "a@7", "b@3"].iter().map(|run| run.parse().unwrap()).collect();
        let by_job =
            ["a q 000000000000005 a@5", "a q 000000000000007 a@7", "b q 000000000000003 b@3"];
        let (by_lane, lanes) = (["q 000000000000003 b@3", "q 000000000000005 a@5"], ["b@3 q"]);
        assert!(orders_agree(&queued, &set(&by_job), &set(&by_lane), &set(&lanes)));
        assert!(
            !orders_agree(&queued, &set(&by_job[1..]), &set(&by_lane), &set(&lanes)),
            "one is not named by job"
        );
        assert!(
            !orders_agree(&queued[1..], &set(&by_job), &set(&by_lane), &set(&lanes)),
            "one is named that does not wait"
        );
        assert!(
            !orders_agree(&queued, &set(&by_job), &set(&by_lane[1..]), &set(&lanes)),
            "one is not named by lane"
        );
        assert!(
            !orders_agree(&queued, &set(&by_job), &set(&by_lane), &set(&["a@5 q"])),
            "the first of the lane is another"
        );
        assert!(!orders_agree(&queued, &set(&by_job), &set(&by_lane), &set(&[])));
    }
}
