//! One gate as the doctor looks at it: who stands there by it, and by the records of runs; and what makes both agree.

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::gates::names_of;
use super::reply::{number_of, text_of};
use super::scripts::{self, Invocation};
use crate::domain::books::GateFacts;
use crate::domain::gate::Gate;
use crate::domain::ids::{JobName, RunId};
use crate::domain::lane::Lane;

/// Runs at a gate that are held against their records, those first by due.
const RUNS: usize = 10_000;
/// Runs of one call of `mend_gate.lua`.
const ITEMS: usize = 1_000;
/// Gates of one call beside the one it mends.
const OTHERS: usize = 100;

/// What is read of a run at a gate.
#[derive(Default)]
struct AtGate {
    state: Option<String>,
    places: Vec<Gate>,
    /// As it stands there.
    lane: String,
    is_in_quarantine: bool,
}

impl AtGate {
    /// The lane it would be due in.
    fn lane(&self) -> Lane {
        self.lane.parse().unwrap_or_else(|_| Lane::default_lane())
    }
}

impl Store {
    /// How a gate stands to the records of the runs there.
    pub async fn inspect_gate(&self, gate: &Gate) -> Result<GateFacts, StoreError> {
        let keys = &self.keys;
        let mut pipeline = redis::pipe();
        for key in [keys.held(gate), keys.queued(gate)] {
            pipeline.cmd("ZRANGE").arg(key).arg(0).arg(RUNS - 1);
        }
        pipeline.cmd("ZCARD").arg(keys.queued(gate));
        pipeline.cmd("ZCARD").arg(keys.queued_by_job(gate));
        pipeline.cmd("ZSCORE").arg(keys.gate_wakes()).arg(gate.as_str());
        let answers = self.link.query(&mut pipeline).await?;
        let [held, queued, waiting, by_job, wake] = answers.as_slice() else {
            return Err(StoreError::corrupt("gate", "too few answers"));
        };
        let runs = |value: &Value| match value {
            Value::Array(ids) => ids.iter().filter_map(text_of).filter_map(|id| id.parse().ok()).collect::<Vec<RunId>>(),
            _ => Vec::new(),
        };
        let (held, queued) = (runs(held), runs(queued));
        let mut strays = Vec::new();
        let all: Vec<&RunId> = held.iter().chain(&queued).collect();
        let mut in_quarantine = Vec::new();
        for some in all.chunks(ITEMS) {
            for (run, found) in some.iter().zip(self.read_at_gate(some).await?) {
                // A record that holds something else is a finding of its own.
                let Some(found) = found else { continue };
                let is_open = found.state.as_deref().is_some_and(|state| state == "scheduled" || state == "running");
                if !is_open || !found.places.contains(gate) {
                    strays.push((*run).clone());
                } else if found.is_in_quarantine && found.state.as_deref() == Some("scheduled") {
                    in_quarantine.push(((*run).clone(), found));
                }
            }
        }
        let aside = self.among_nowhere(in_quarantine).await?;
        strays.extend(queued.iter().filter(|run| held.contains(run)).cloned());
        let (waiting, by_job) = (number_of(waiting).unwrap_or(0), number_of(by_job).unwrap_or(0));
        Ok(GateFacts {
            is_open_unnoticed: waiting > 0 && held.is_empty() && matches!(wake, Value::Nil),
            is_unsorted: waiting != by_job,
            aside: aside.into_iter().filter(|run| held.contains(run)).collect(),
            strays,
            queued,
        })
    }

    /// What is read of each of these runs; none of one whose record holds something else.
    async fn read_at_gate(&self, runs: &[&RunId]) -> Result<Vec<Option<AtGate>>, StoreError> {
        // Where nothing but garbage stands at it.
        if runs.is_empty() {
            return Ok(Vec::new());
        }
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

    /// Those of these runs that are neither due nor wait at a gate.
    async fn among_nowhere(&self, runs: Vec<(RunId, AtGate)>) -> Result<Vec<RunId>, StoreError> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = redis::pipe();
        for (run, found) in &runs {
            pipeline.cmd("ZSCORE").arg(self.keys.due(&found.lane())).arg(run.to_string());
            for gate in &found.places {
                pipeline.cmd("ZSCORE").arg(self.keys.queued(gate)).arg(run.to_string());
            }
        }
        let mut scores = self.link.ask(&mut pipeline).await?.into_iter();
        let is_nowhere = |(run, found): (RunId, AtGate)| {
            let own: Vec<_> = scores.by_ref().take(1 + found.places.len()).collect();
            own.iter().all(|score| matches!(score, Ok(Value::Nil))).then_some(run)
        };
        Ok(runs.into_iter().filter_map(is_nowhere).collect())
    }

    /// Makes a gate agree with the records of these runs. How many left it.
    pub async fn mend_gate(&self, gate: &Gate, runs: &[RunId]) -> Result<u64, StoreError> {
        let keys = &self.keys;
        let mut left = 0;
        for some in runs.chunks(ITEMS).chain(runs.is_empty().then_some(&[][..])) {
            let names: Vec<&RunId> = some.iter().collect();
            let read: Vec<AtGate> = self.read_at_gate(&names).await?.into_iter().map(Option::unwrap_or_default).collect();
            let mut gates = vec![gate.clone()];
            for other in read.iter().filter(|found| found.is_in_quarantine).flat_map(|found| &found.places) {
                if !gates.contains(other) && gates.len() <= OTHERS {
                    gates.push(other.clone());
                }
            }
            let mut call = Invocation::new(&scripts::MEND_GATE)
                .key("totals", keys.totals())
                .key("nudge", keys.nudge())
                .key("quarantine", keys.quarantine())
                .arg("now", self.now_arg())
                .arg("gates", names_of(&gates));
            for (run, found) in some.iter().zip(&read) {
                call = call
                    .key("run", keys.run(run))
                    .key("due", keys.due(&found.lane()))
                    .arg("id", run.to_string())
                    .arg("lane", found.lane.clone());
            }
            let mut reply = self.link.invoke(&call.gate_keys(keys, &gates)).await?;
            if reply.word != "mended" {
                return Err(reply.unknown());
            }
            left += u64::try_from(reply.number()?).unwrap_or(0);
        }
        Ok(left)
    }

    /// Whether a run of `job` asked for by hand waits at one of these gates.
    pub async fn has_manual_queued(&self, job: &JobName, gates: &[Gate]) -> Result<bool, StoreError> {
        if gates.is_empty() {
            return Ok(false);
        }
        let mut pipeline = redis::pipe();
        for gate in gates {
            let range = pipeline.cmd("ZRANGE").arg(self.keys.queued_by_job(gate)).arg(format!("[{job} ")).arg(format!("({job}!"));
            range.arg("BYLEX").arg("LIMIT").arg(0).arg(RUNS);
        }
        let answers = self.link.query(&mut pipeline).await?;
        let entries = answers.iter().filter_map(|answer| match answer {
            Value::Array(entries) => Some(entries),
            _ => None,
        });
        Ok(entries.flatten().filter_map(text_of).any(|entry| entry.contains('~')))
    }

    /// The runs among `runs` that wait at one of the gates their records name.
    pub async fn queued_among(&self, runs: &[&RunId]) -> Result<Vec<bool>, StoreError> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipeline = redis::pipe();
        for run in runs {
            pipeline.cmd("HGET").arg(self.keys.run(run)).arg("places");
        }
        let places: Vec<Vec<Gate>> = self
            .link
            .ask(&mut pipeline)
            .await?
            .into_iter()
            .map(|answer| answer.ok().as_ref().and_then(text_of).map_or_else(Vec::new, |text| Gate::all_in(&text)))
            .collect();
        let mut pipeline = redis::pipe();
        for (run, gate) in runs.iter().zip(&places).flat_map(|(run, gates)| gates.iter().map(move |gate| (run, gate))) {
            pipeline.cmd("ZSCORE").arg(self.keys.queued(gate)).arg(run.to_string());
        }
        if pipeline.is_empty() {
            return Ok(vec![false; runs.len()]);
        }
        let mut scores = self.link.ask(&mut pipeline).await?.into_iter();
        let is_queued = |gates: &Vec<Gate>| {
            let found: Vec<bool> =
                gates.iter().map(|_| matches!(scores.next(), Some(Ok(score)) if score != Value::Nil)).collect();
            found.contains(&true)
        };
        Ok(places.iter().map(is_queued).collect())
    }
}
