//! Reads the facts about a run: its record, its place in the indexes, and the notices about it.

use super::known_facts::Known;
use super::record_reader::{late_notice, run_facts};
use crate::domain::explain::{LateNotice, Place, RunFacts};
use crate::domain::job::notice::{Deadline, NoticeKind, notice_id};
use crate::domain::name::names::RunId;
use crate::store::{RunPlacement, RunRecord, StoreError};

impl Known<'_> {
    /// Returns the facts about a run. Returns `None` if the run has no record and is not planned.
    pub(super) async fn run(&self, run: &RunId) -> Result<Option<RunFacts>, StoreError> {
        let planned = || {
            let lane = self.record.as_ref().map(|job| job.lane.clone())?;
            (self.planned() == Some(run)).then(|| RunRecord::planted(run.clone(), lane))
        };
        match self.store.read_run(run).await?.or_else(planned) {
            Some(record) => Ok(Some(Box::pin(self.of_record(record)).await?)),
            None => Ok(None),
        }
    }

    /// Returns the facts about the run of `record`, including its place in the indexes and the
    /// notices about it.
    pub(super) async fn of_record(&self, mut record: RunRecord) -> Result<RunFacts, StoreError> {
        let run = record.run.clone();
        let (standing, late_notices) =
            tokio::try_join!(self.standing(&mut record), self.late_notices(&run))?;
        let waits_at = async {
            match &standing.gate {
                Some(gate) => {
                    Ok(Some(Box::pin(self.waits_at(&record.run, &record.lane, gate)).await?))
                }
                None => Ok(None),
            }
        };
        let is_behind_over = async {
            match record.behind.as_ref().filter(|_| standing.gate.is_some()) {
                Some(behind) => self.is_over(behind).await,
                None => Ok(false),
            }
        };
        let is_paused_run =
            self.record.as_ref().is_some_and(|job| job.paused_run.as_ref() == Some(&record.run));
        let place = match (standing.is_waiting, is_paused_run) {
            _ if standing.gate.is_some() => Place::AtGate,
            (true, _) => Place::Waiting,
            (false, true) => Place::Paused,
            (false, false) => Place::Queue,
        };
        let passed = async {
            if place == Place::Queue { Box::pin(self.passed(&record)).await } else { Ok(None) }
        };
        let (waits_at, is_behind_over, passed) =
            tokio::try_join!(waits_at, is_behind_over, passed)?;
        // A run that has ended does not block this run any more.
        if is_behind_over {
            record.behind = None;
        }
        Ok(RunFacts { passed, late_notices, ..run_facts(record, standing, place, waits_at) })
    }

    /// Returns the place of a run in the indexes. If the run is in another lane than `record` says,
    /// the lane in `record` is corrected.
    async fn standing(&self, record: &mut RunRecord) -> Result<RunPlacement, StoreError> {
        Ok(if record.state.is_final() {
            RunPlacement { ready: None, is_waiting: false, gate: None, stop_asked_by: None }
        } else {
            let standing = self.store.standing(&record.run, &record.lane, &record.places).await?;
            let is_elsewhere =
                standing.ready.is_none() && !standing.is_waiting && standing.gate.is_none();
            // After the end of the open run for which it waited, the run goes to the present lane
            // of its job.
            match self
                .record
                .as_ref()
                .map(|job| &job.lane)
                .filter(|lane| is_elsewhere && **lane != record.lane)
            {
                Some(lane) => {
                    let there = self.store.standing(&record.run, lane, &record.places).await?;
                    if there.ready.is_some() {
                        record.lane = lane.clone();
                        there
                    } else {
                        standing
                    }
                }
                None => standing,
            }
        })
    }

    /// Returns the notices that reported the run as late. A notice itself has no such notices.
    async fn late_notices(&self, run: &RunId) -> Result<Vec<LateNotice>, StoreError> {
        let ids = Deadline::ALL
            .into_iter()
            .filter_map(|of| Some((of, notice_id(run, NoticeKind::Late, of.as_str()).ok()?)));
        let (deadlines, ids): (Vec<Deadline>, Vec<RunId>) = ids.unzip();
        let mut found = Vec::new();
        for (of, record) in deadlines.into_iter().zip(self.store.read_runs(&ids).await?) {
            match record {
                Ok(record) => found.extend(record.as_ref().map(|record| late_notice(of, record))),
                Err(error) if error.is_passing() => return Err(error),
                // An unreadable notice is left out. `schedctl doctor` reports it.
                Err(_) => {}
            }
        }
        Ok(found)
    }
}
