//! One gate as the doctor looks at it: who stands there by it, and by the records of runs; and what makes both agree.

use redis::Value;

use super::Store;
use super::error::StoreError;
use super::reply::{number_of, text_of};
use super::scripts::{self, Invocation};
use crate::domain::books::GateFacts;
use crate::domain::gate::Gate;
use crate::domain::ids::{JobName, RunId};

/// Runs at a gate that are held against their records, those first by due.
const RUNS: usize = 10_000;
/// Runs of one call of `mend_gate.lua`.
const ITEMS: usize = 1_000;

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
        for some in all.chunks(ITEMS) {
            let mut pipeline = redis::pipe();
            for run in some {
                pipeline.cmd("HMGET").arg(keys.run(run)).arg("state").arg("places");
            }
            for (run, answer) in some.iter().zip(self.link.ask(&mut pipeline).await?) {
                // A record that holds something else is a finding of its own.
                let Ok(Value::Array(fields)) = answer else { continue };
                let [state, places] = fields.as_slice() else { continue };
                let is_open = text_of(state).is_some_and(|state| state == "scheduled" || state == "running");
                let stands = text_of(places).is_some_and(|places| Gate::all_in(&places).contains(gate));
                if !is_open || !stands {
                    strays.push((*run).clone());
                }
            }
        }
        strays.extend(queued.iter().filter(|run| held.contains(run)).cloned());
        let (waiting, by_job) = (number_of(waiting).unwrap_or(0), number_of(by_job).unwrap_or(0));
        Ok(GateFacts {
            is_open_unnoticed: waiting > 0 && held.is_empty() && matches!(wake, Value::Nil),
            is_unsorted: waiting != by_job,
            strays,
            queued,
        })
    }

    /// Makes a gate agree with the records of these runs. How many left it.
    pub async fn mend_gate(&self, gate: &Gate, runs: &[RunId]) -> Result<u64, StoreError> {
        let keys = &self.keys;
        let mut left = 0;
        for some in runs.chunks(ITEMS).chain(runs.is_empty().then_some(&[][..])) {
            let mut call = Invocation::new(&scripts::MEND_GATE)
                .key("totals", keys.totals())
                .key("nudge", keys.nudge())
                .arg("now", self.now_arg())
                .arg("gates", gate.as_str());
            for run in some {
                call = call.key("run", keys.run(run)).arg("id", run.to_string());
            }
            let mut reply = self.link.invoke(&call.gate_keys(keys, std::slice::from_ref(gate))).await?;
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
    pub(super) async fn queued_among(&self, runs: &[&RunId]) -> Result<Vec<bool>, StoreError> {
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
