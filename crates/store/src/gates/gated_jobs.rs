//! The index of jobs by lane and first gate. A poll finds the runs of one gate through the index,
//! without reading all runs before them.
//!
//! Invariant: the index is only a hint. Runs of a job that the index lacks are found by reading the
//! lane, and a claim checks each run again.

use std::collections::BTreeMap;

use redis::Value;

use crate::Store;
use crate::runs::due_poll::DueEntry;
use crate::server::reply::text_of;
use crate::server::scripts;
use crate::server::store_error::StoreError;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::queue::lane::Lane;
use schedd_schedule::names::{GroupName, JobName};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The number of open runs of a job that are checked. A job with more open runs gives
/// [`PlannedAtGate::Unclear`].
const OPEN: usize = 10;
/// The number of entries read in one call.
const PAGE: usize = 500;

/// A page of the gates of a lane, each with the jobs whose first gate it is. A gate with too many
/// jobs is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gated {
    /// The gates of the page, each with its jobs.
    pub gates: Vec<(Gate, Vec<JobName>)>,
    /// The last gate that was read; None if no gate comes after this page.
    pub last: Option<Gate>,
}

/// The planned and open runs of one job in a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedAtGate {
    /// The runs that are due, in no order.
    DueRun(Vec<DueEntry>),
    /// The job no longer exists, or plans no more runs.
    Gone,
    /// The state of the job is unclear: a key has the wrong type, or too many open runs exist to
    /// check.
    Unclear,
}

impl Store {
    /// Returns the groups that the index of jobs by lane and first gate names, with their jobs.
    /// Some of these jobs may no longer belong to the group.
    pub async fn list_groups_named(&self) -> Result<BTreeMap<GroupName, Vec<JobName>>, StoreError> {
        let mut groups: BTreeMap<GroupName, Vec<JobName>> = BTreeMap::new();
        let mut offset = 0;
        loop {
            let mut pipeline = redis::pipe();
            pipeline.cmd("ZRANGE").arg(self.keys.job_gates()).arg(offset).arg(offset + PAGE - 1);
            let answer = self.link.query(&mut pipeline).await?;
            let Some(Value::Array(entries)) = answer.first() else { return Ok(groups) };
            for entry in entries.iter().filter_map(text_of) {
                // Entries are LANE GATE JOB. A job with a group has the group as its first gate.
                if let [_, gate, job] = *entry.split(' ').collect::<Vec<_>>()
                    && let Some(group) = Gate::from_name(gate).and_then(|gate| gate.group())
                    && let Ok(job) = job.parse()
                {
                    groups.entry(group).or_default().push(job);
                }
            }
            if entries.len() < PAGE {
                return Ok(groups);
            }
            offset += PAGE;
        }
    }

    /// Lists the first gates of the jobs of `lane` with their jobs, from the gate after `after`. A
    /// gate with more than `few` jobs is left out. Stops after `most` jobs, or a few more.
    pub async fn list_job_gates(
        &self,
        lane: &Lane,
        after: Option<&Gate>,
        most: usize,
        few: usize,
    ) -> Result<Gated, StoreError> {
        let call = self
            .call(&scripts::LIST_JOB_GATES)
            .arg("lane", lane.as_str())
            .arg("after", after.map_or("", Gate::as_str))
            .arg("most", most)
            .arg("few", few);
        let mut reply = self.link.invoke(&call).await?;
        if reply.word != "job_gates" {
            return Err(reply.unknown());
        }
        let last = Gate::from_name(&reply.text()?);
        let value = reply.value()?;
        let Value::Array(flat) = &value else {
            return Err(StoreError::corrupt(
                "reply of script list_job_gates",
                format!("found {value:?}, wanted gates with their jobs"),
            ));
        };
        let gate = |pair: &[Value]| {
            let jobs = text_of(&pair[1])?.split(' ').filter_map(|job| job.parse().ok()).collect();
            Some((Gate::from_name(&text_of(&pair[0])?)?, jobs))
        };
        Ok(Gated { gates: flat.chunks_exact(2).filter_map(gate).collect(), last })
    }

    /// Returns for each of these jobs its planned and open runs that are due in `lane` at `now`.
    /// Manual runs are not included.
    pub async fn list_planned(
        &self,
        lane: &Lane,
        jobs: &[JobName],
        now: UnixMillis,
    ) -> Result<Vec<PlannedAtGate>, StoreError> {
        let mut pipeline = redis::pipe();
        for job in jobs {
            pipeline
                .cmd("HMGET")
                .arg(self.keys.job(job))
                .arg("rev")
                .arg("once")
                .arg("pending")
                .arg("paused_run")
                .arg("ended");
            pipeline.cmd("ZRANGE").arg(self.keys.open(job)).arg(0).arg(OPEN);
        }
        let texts = |answer: Option<&Result<Value, redis::RedisError>>| match answer {
            Some(Ok(Value::Array(values))) => {
                values.iter().map(|value| text_of(value).unwrap_or_default()).collect()
            }
            _ => Vec::new(),
        };
        let answers = self.link.ask(&mut pipeline).await?;
        let mut found: Vec<Result<Vec<String>, PlannedAtGate>> = Vec::with_capacity(jobs.len());
        for pair in answers.chunks_exact(2) {
            let (job, mut runs): (Vec<String>, Vec<String>) =
                (texts(pair.first()), texts(pair.get(1)));
            let [rev, once, pending, paused_run, ended] = job.as_slice() else {
                found.push(Err(PlannedAtGate::Unclear));
                continue;
            };
            let is_gone = rev.is_empty()
                || !ended.is_empty()
                || once == "1" && pending.is_empty() && paused_run.is_empty();
            found.push(if is_gone {
                Err(PlannedAtGate::Gone)
            } else if runs.len() > OPEN {
                Err(PlannedAtGate::Unclear)
            } else {
                runs.extend(
                    Some(pending.clone())
                        .filter(|pending| !pending.is_empty() && !runs.contains(pending)),
                );
                Ok(runs)
            });
        }
        let mut pipeline = redis::pipe();
        for run in found.iter().flatten().flatten() {
            pipeline.cmd("ZSCORE").arg(self.keys.due(lane)).arg(run);
        }
        let scores =
            if pipeline.is_empty() { Vec::new() } else { self.link.ask(&mut pipeline).await? };
        let mut scores = scores.into_iter().map(|score| score.ok().as_ref().and_then(text_of));
        let mut if_due = |run: String| {
            let score = scores.next().flatten()?;
            #[expect(clippy::cast_precision_loss, reason = "UnixMillis::END is below 2^53")]
            let is_due = score.parse::<f64>().is_ok_and(|ready| ready <= now.as_i64() as f64);
            is_due.then_some(DueEntry { member: run, score })
        };
        let mut planned = |runs: Vec<String>| runs.into_iter().filter_map(&mut if_due).collect();
        Ok(found
            .into_iter()
            .map(|runs| runs.map_or_else(|why| why, |runs| PlannedAtGate::DueRun(planned(runs))))
            .collect())
    }

    /// Removes these jobs from the index if they plan no more runs. Each job is given with its
    /// entry in the index. Returns the number of removed jobs.
    pub async fn unlist_job_gates(
        &self,
        entries: &[(JobName, String)],
    ) -> Result<usize, StoreError> {
        if entries.is_empty() {
            return Ok(0);
        }
        let mut call = self.call(&scripts::UNLIST_JOB_GATES);
        for (job, entry) in entries {
            call = call.item().of_job(job).arg("gate_entry", entry);
        }
        let mut reply = self.link.invoke(&call).await?;
        match reply.word.as_str() {
            "unlisted" => Ok(usize::try_from(reply.number()?).unwrap_or(0)),
            _ => Err(reply.unknown()),
        }
    }
}
