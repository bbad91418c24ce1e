//! Reads the facts about a run: its record, its place in the indexes, and the notices about it.

use super::known_facts::Known;
use super::record_reader::{late_notice, run_facts};
use schedd_core::domain::explain::{LateNotice, Place, RunFacts};
use schedd_core::domain::job::notice::{Deadline, NoticeKind, notice_id};
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::lane_serving::Unserved;
use schedd_schedule::names::RunId;
use schedd_store::{RunPlacement, RunRecord, StoreError};

impl Known<'_> {
    /// Returns the facts about a run. Returns `None` if the run has no record and is not planned.
    pub(super) async fn run(&self, run: &RunId) -> Result<Option<RunFacts>, StoreError> {
        let planned = || {
            let lane = self.record.as_ref().map(|job| job.lane.clone())?;
            (self.planned() == Some(run)).then(|| RunRecord::planted(run.clone(), lane))
        };
        match self.record_of(run).await?.or_else(planned) {
            Some(record) => Ok(Some(Box::pin(self.of_record(record)).await?)),
            None => Ok(None),
        }
    }

    /// Returns the record of a run, or `None` if Redis has none. Reads Redis only if the record was
    /// not read yet.
    pub(super) async fn record_of(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        match self.reads.record(run) {
            Some(record) => Ok(record.clone()),
            None => self.store.read_run(run).await,
        }
    }

    /// Returns the facts about the run of `record`, including the place of the run in the indexes
    /// and the notices about the run.
    pub(super) async fn of_record(&self, mut record: RunRecord) -> Result<RunFacts, StoreError> {
        let run = record.run.clone();
        let passed = async {
            if record.state.is_final() { Ok(None) } else { Box::pin(self.passed(&record)).await }
        };
        let ((standing, lane), late_notices, mut passed) =
            tokio::try_join!(self.standing(&record), self.late_notices(&run), passed)?;
        record.lane = lane;
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
        passed = passed.filter(|_| place == Place::Queue);
        if let Some(passed) = &mut passed {
            passed.unserved =
                Unserved::of(&record.lane, &self.serving()).map(|_| record.lane.clone());
        }
        let (waits_at, is_behind_over) = tokio::try_join!(waits_at, is_behind_over)?;
        // A run that has ended does not block this run any more.
        if is_behind_over {
            record.behind = None;
        }
        Ok(RunFacts { passed, late_notices, ..run_facts(record, standing, place, waits_at) })
    }

    /// Returns the place of a run in the indexes, and the lane where the run is found.
    async fn standing(&self, record: &RunRecord) -> Result<(RunPlacement, Lane), StoreError> {
        let (run, recorded) = (&record.run, &record.lane);
        if record.state.is_final() {
            let none =
                RunPlacement { ready: None, is_waiting: false, gate: None, stop_asked_by: None };
            return Ok((none, recorded.clone()));
        }
        let standing = self.store.standing(run, recorded, &record.places).await?;
        let is_elsewhere =
            standing.ready.is_none() && !standing.is_waiting && standing.gate.is_none();
        // After the end of the open run for which it waited, the run goes to the present lane of
        // its job.
        let moved = self.record.as_ref().map(|job| &job.lane);
        if let Some(lane) = moved.filter(|lane| is_elsewhere && *lane != recorded) {
            let there = self.store.standing(run, lane, &record.places).await?;
            if there.ready.is_some() {
                return Ok((there, lane.clone()));
            }
        }
        Ok((standing, recorded.clone()))
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
