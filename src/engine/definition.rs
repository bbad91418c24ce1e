//! A job as the engine works with it: its record, its checked definition and its stream of occurrences.

use crate::config::{self, SurfaceError};
use crate::domain::ids::{JobName, RunId};
use crate::domain::job::JobSpec;
use crate::domain::lateness::{self, Stretch};
use crate::domain::schedule::Timetable;
use crate::domain::shape::Shape;
use crate::domain::time::UnixMillis;
use crate::domain::zone::{Zone, ZoneError};
use crate::store::{CountedBy, JobRecord, Successor};

/// A job, read and understood.
#[derive(Debug, Clone)]
pub struct Definition {
    /// As it is kept.
    pub record: JobRecord,
    /// What it says.
    pub spec: JobSpec,
    /// When it runs.
    pub timetable: Timetable,
}

/// Why a job's record cannot be worked with. It is left alone: neither run nor changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DefinitionError {
    /// Its text is spoilt, or written by a newer schedd.
    #[error(transparent)]
    Surface(#[from] SurfaceError),
    /// Its zone is not known here.
    #[error(transparent)]
    Zone(#[from] ZoneError),
}

impl Definition {
    /// Understands a record.
    pub fn of(record: JobRecord) -> Result<Self, DefinitionError> {
        let spec = config::from_surface(&record.definition)?;
        let timetable = timetable(&record.name, &spec, &record.tz, record.anchor)?;
        Ok(Self { record, spec, timetable })
    }

    /// Its schedule in words, with the zone it is read in.
    pub fn schedule_text(&self) -> String {
        self.spec.schedule.text_with_zone(self.timetable.zone())
    }

    /// The first occurrence of the schedule as it holds now after `due`, which may be one of an older schedule.
    pub fn next_after(&self, due: UnixMillis) -> Option<UnixMillis> {
        self.timetable.next_after(due.max(self.since())).filter(|_| !self.is_used_up())
    }

    /// What is planted of it at `now` if nothing is: see [`Timetable::planted_after`].
    pub fn planted_after(&self, now: UnixMillis) -> Option<UnixMillis> {
        self.timetable.planted_after(now.max(self.since())).filter(|_| !self.is_used_up())
    }

    /// The instant from which occurrences are judged at `now`: those dealt with before the planned run was moved to an earlier one are not
    /// dealt with again once their time has come.
    pub fn since_at(&self, now: UnixMillis) -> UnixMillis {
        let dealt = self.record.dealt.iter().copied().filter(|dealt| *dealt <= now && !self.timetable.is_one_shot());
        dealt.fold(self.since(), UnixMillis::max)
    }

    /// The same definition with `since` and `anchor` no later than `now`, as they must be after Redis' clock was ahead.
    pub fn counted_before(&self, now: UnixMillis) -> Result<Self, DefinitionError> {
        let mut record = self.record.clone();
        record.since = record.since.min(now);
        if record.anchor > now && self.spec.shape.anchor.is_none() {
            record.anchor = self.spec.schedule.anchor_before(record.anchor, now);
        }
        if record.anchor == self.record.anchor {
            return Ok(Self { record, ..self.clone() });
        }
        Self::of(record)
    }

    /// How many regular runs may yet begin; none = any number.
    pub fn runs_left(&self) -> Option<u32> {
        self.spec.shape.max_runs.map(|most| most.saturating_sub(self.record.begun))
    }

    /// Whether as many runs have begun as may.
    pub fn is_used_up(&self) -> bool {
        self.runs_left() == Some(0)
    }

    /// The run of an occurrence, to be planted: ready when jitter and splay say.
    pub fn planned(&self, due: UnixMillis) -> Successor {
        planned(&self.record.name, &self.spec.shape, due)
    }

    /// After which instant a regular run is not to start any more, if `skip_if_late` says so.
    pub fn latest_start(&self, run: &RunId) -> Option<UnixMillis> {
        let late = self.spec.shape.skip_if_late?;
        Some(run.due().saturating_add(self.spec.shape.latest_shift(&self.record.name)).saturating_add(late))
    }

    /// The time by which occurrences are judged at `now`: those that jitter and splay may still hold back have not come.
    pub fn judged_at(&self, now: UnixMillis) -> UnixMillis {
        now.saturating_sub(self.spec.shape.latest_shift(&self.record.name))
    }

    /// The occurrences up to `now` that nobody has dealt with and nobody would after a change of the schedule: those a pause
    /// left out; of a job that runs, those behind its pending run, which is owed.
    pub fn passed(&self, now: UnixMillis) -> Option<Stretch> {
        let now = self.judged_at(now);
        match (&self.record.pending, &self.record.held) {
            (Some(pending), _) => lateness::stretch_behind(&self.timetable, pending.due(), self.since_at(now), now),
            (None, Some(held)) => {
                let (last, count) = lateness::paused_stretch(&self.timetable, held.due(), self.since(), now)?;
                Some(Stretch { first: held.due(), last, count })
            }
            (None, None) => None,
        }
    }

    /// The occurrences up to `now` behind its planned or held run, if that is owed, and when one more will have passed.
    pub fn passed_behind(&self, now: UnixMillis) -> (Option<Stretch>, Option<UnixMillis>) {
        let Some(planned) = self.record.pending.as_ref().or(self.record.held.as_ref()) else { return (None, None) };
        let now = self.judged_at(now);
        let passed = lateness::stretch_behind(&self.timetable, planned.due(), self.since_at(now), now);
        let last = passed.map_or(planned.due(), |stretch| stretch.last);
        let shift = self.spec.shape.latest_shift(&self.record.name);
        let next = self.timetable.next_after(last.max(self.since()));
        (passed, next.map(|due| due.saturating_add(shift)))
    }

    /// From when the schedule's occurrences count. A one-shot's instant counts whenever it was named: it may be the moment of
    /// the edit itself.
    pub fn since(&self) -> UnixMillis {
        since(&self.timetable, self.record.since)
    }
}

/// The occurrences of `job` by its definition, the zone kept with it and what `every` counts from.
fn timetable(job: &JobName, spec: &JobSpec, tz: &str, anchor: UnixMillis) -> Result<Timetable, DefinitionError> {
    let zone = match &spec.tz {
        Some(name) => Zone::load(name)?,
        None => Zone::load(&tz.parse()?)?,
    };
    Ok(Timetable::shaped(spec.schedule.for_job(job, spec.dst), &spec.shape, zone, anchor))
}

fn since(timetable: &Timetable, since: UnixMillis) -> UnixMillis {
    if timetable.is_one_shot() { UnixMillis::EPOCH } else { since }
}

/// By which occurrences a stretch of `job` was counted, and from when on.
pub(super) fn counted_by(job: &JobName, kept: &CountedBy) -> Result<(Timetable, UnixMillis), DefinitionError> {
    let (_, timetable) = kept_schedule(job, kept)?;
    let since = since(&timetable, kept.since);
    Ok((timetable, since))
}

/// What of a definition of `job` was kept to count by, and its occurrences.
pub(super) fn kept_schedule(job: &JobName, kept: &CountedBy) -> Result<(JobSpec, Timetable), DefinitionError> {
    let spec = config::from_surface(&kept.definition)?;
    let timetable = timetable(job, &spec, &kept.tz, kept.anchor)?;
    Ok((spec, timetable))
}

/// The run of `job` due at `due`, ready when `shape` says.
pub(super) fn planned(job: &JobName, shape: &Shape, due: UnixMillis) -> Successor {
    Successor { run: RunId::regular(job.clone(), due), ready: shape.ready(job, due, fastrand::f64()) }
}
