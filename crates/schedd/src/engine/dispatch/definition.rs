//! A job as the engine uses it: the job's record, its checked definition and its occurrences.

use schedd_core::config;
use schedd_core::config::CanonicalError;
use schedd_core::domain::job::job_spec::JobSpec;
use schedd_schedule::lateness;
use schedd_schedule::lateness::SkippedRange;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::schedule_modifiers::Shape;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::{Zone, ZoneError};
use schedd_schedule::timetable::Timetable;
use schedd_store::{CountedBy, JobRecord, Successor};

/// A job whose record was read and whose definition was checked.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The record of the job as stored in Redis.
    pub record: JobRecord,
    /// The checked definition of the job.
    pub spec: JobSpec,
    /// The occurrences that the schedule of the job gives.
    pub timetable: Timetable,
}

/// The reason why a job's record is unusable. Such a job is neither run nor changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DefinitionError {
    /// The definition is corrupt, or a newer schedd wrote it.
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
    /// The time zone of the job is not known on this host.
    #[error(transparent)]
    Zone(#[from] ZoneError),
}

impl Definition {
    /// Checks the definition in `record` and computes its occurrences. The error is the reason why
    /// the definition cannot be used.
    pub fn of(record: JobRecord) -> Result<Self, DefinitionError> {
        let spec = config::from_canonical(&record.definition)?;
        let timetable = timetable(&record.name, &spec, &record.tz, record.anchor)?;
        Ok(Self { record, spec, timetable })
    }

    /// Returns the schedule as text, with the time zone of the schedule.
    pub fn schedule_text(&self) -> String {
        self.spec.schedule.text_with_zone(self.timetable.zone())
    }

    /// Returns the first occurrence after `due` by the present schedule. `due` may be an occurrence
    /// of an older schedule. Returns `None` if no occurrence follows or `max_runs` is reached.
    pub fn next_after(&self, due: UnixMillis) -> Option<UnixMillis> {
        let next = self.timetable.next_after(due.max(self.since()));
        next.filter(|_| !self.is_used_up() && !self.spec.is_on_each_node())
    }

    /// Returns the due time of the next run of a job that has no planned run at `now`: the first
    /// occurrence after `now`, or `now` plus the delay of a delay schedule. Returns `None` if no
    /// occurrence follows, `max_runs` is reached, or only the instances of the job have runs.
    pub fn planted_after(&self, now: UnixMillis) -> Option<UnixMillis> {
        let next = self.timetable.planted_after(now.max(self.since()));
        next.filter(|_| !self.is_used_up() && !self.spec.is_on_each_node())
    }

    /// Returns the time after which no occurrence has run or been skipped yet at `now`. Usually
    /// this is `since`. If the planned run was moved to an earlier time, the result is the latest
    /// occurrence up to `now` that had run or was skipped.
    pub fn since_at(&self, now: UnixMillis) -> UnixMillis {
        let dealt = self
            .record
            .handled
            .iter()
            .copied()
            .filter(|dealt| *dealt <= now && !self.timetable.is_one_shot());
        dealt.fold(self.since(), UnixMillis::max)
    }

    /// Returns the definition with the times `since` and `anchor` of its record no later than
    /// `now`. Both may be in the future if Redis' clock was ahead.
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

    /// Returns the number of regular runs that may still begin before `max_runs` is reached. `None`
    /// means that the job has no `max_runs`.
    pub fn runs_left(&self) -> Option<u32> {
        self.spec.shape.max_runs.map(|most| most.saturating_sub(self.record.begun))
    }

    /// Returns true if `max_runs` regular runs have begun.
    pub fn is_used_up(&self) -> bool {
        self.runs_left() == Some(0)
    }

    /// Returns the run to plan for the occurrence at `due`, with the ready time that jitter and
    /// splay give.
    pub fn planned(&self, due: UnixMillis) -> Successor {
        planned(&self.record.name, &self.spec.shape, due)
    }

    /// Returns the time before which no run of the job may start, because a run or an operator set
    /// it. Returns the Unix epoch if there is no such time.
    pub fn not_before(&self) -> UnixMillis {
        self.record.next_set.as_ref().map_or(UnixMillis::EPOCH, |(at, _)| *at)
    }

    /// Returns the last time at which the regular run `run` may start: its due time, plus its
    /// longest delay by jitter and splay, plus `skip_if_late`. A later time that was set for the run
    /// counts as its due time. Returns `None` if the job has no `skip_if_late`.
    pub fn latest_start(&self, run: &RunId) -> Option<UnixMillis> {
        let late = self.spec.shape.skip_if_late?;
        Some(
            run.due()
                .saturating_add(self.spec.shape.latest_shift(&self.record.name))
                .max(self.not_before())
                .saturating_add(late),
        )
    }

    /// Returns `now` minus the longest delay by jitter and splay of the job. Only occurrences up to
    /// this time can be late or missed, because later ones may still be delayed by jitter or splay.
    pub fn judged_at(&self, now: UnixMillis) -> UnixMillis {
        now.saturating_sub(self.spec.shape.latest_shift(&self.record.name))
    }

    /// Returns the occurrences up to `now` that a change of the schedule would lose, or `None` if
    /// it would lose none. For a paused job these are all occurrences since the pause. Otherwise
    /// these are the occurrences after the planned run, because that run still starts.
    pub fn passed(&self, now: UnixMillis) -> Option<SkippedRange> {
        let now = self.judged_at(now);
        match (&self.record.pending, &self.record.paused_run) {
            (Some(pending), _) => {
                lateness::range_behind(&self.timetable, pending.due(), self.since_at(now), now)
            }
            (None, Some(paused_run)) => {
                let (last, count) =
                    lateness::paused_range(&self.timetable, paused_run.due(), self.since(), now)?;
                Some(SkippedRange { first: paused_run.due(), last, count })
            }
            (None, None) => None,
        }
    }

    /// Returns the occurrences up to `now` that come after the planned run, or after the run that a
    /// pause keeps. Also returns the time at which the first occurrence after these will have
    /// passed, with its jitter and splay. A value is `None` if there is no such occurrence. Both
    /// are `None` if there is no such run.
    pub fn passed_behind(&self, now: UnixMillis) -> (Option<SkippedRange>, Option<UnixMillis>) {
        let Some(planned) = self.record.pending.as_ref().or(self.record.paused_run.as_ref()) else {
            return (None, None);
        };
        let now = self.judged_at(now);
        let passed =
            lateness::range_behind(&self.timetable, planned.due(), self.since_at(now), now);
        let last = passed.map_or(planned.due(), |skipped_range| skipped_range.last);
        let shift = self.spec.shape.latest_shift(&self.record.name);
        let next = self.timetable.next_after(last.max(self.since()));
        (passed, next.map(|due| due.saturating_add(shift)))
    }

    /// Returns the time after which occurrences of the schedule count. For a one-shot this is the
    /// Unix epoch. So its time always counts, even if it is the time of the edit itself.
    pub fn since(&self) -> UnixMillis {
        since(&self.timetable, self.record.since)
    }
}

/// Returns the occurrences of `job`, from its definition, its stored time zone and its `every`
/// anchor.
fn timetable(
    job: &JobName,
    spec: &JobSpec,
    tz: &str,
    anchor: UnixMillis,
) -> Result<Timetable, DefinitionError> {
    let zone = match &spec.tz {
        Some(name) => Zone::load(name)?,
        None => Zone::load(&tz.parse()?)?,
    };
    Ok(Timetable::shaped(spec.schedule.for_job(job, spec.dst), &spec.shape, zone, anchor))
}

fn since(timetable: &Timetable, since: UnixMillis) -> UnixMillis {
    if timetable.is_one_shot() { UnixMillis::EPOCH } else { since }
}

/// Returns the schedule by which a skipped range of `job` was counted, and the time from which
/// occurrences of this schedule count.
pub(crate) fn counted_by(
    job: &JobName,
    kept: &CountedBy,
) -> Result<(Timetable, UnixMillis), DefinitionError> {
    let (_, timetable) = kept_schedule(job, kept)?;
    let since = since(&timetable, kept.since);
    Ok((timetable, since))
}

/// Returns the definition that `job` had when a skipped range was counted, and the occurrences of
/// that definition.
pub(crate) fn kept_schedule(
    job: &JobName,
    kept: &CountedBy,
) -> Result<(JobSpec, Timetable), DefinitionError> {
    let spec = config::from_canonical(&kept.definition)?;
    let timetable = timetable(job, &spec, &kept.tz, kept.anchor)?;
    Ok((spec, timetable))
}

/// Returns the run of `job` due at `due`, with the ready time that the jitter and splay of `shape`
/// give.
pub(crate) fn planned(job: &JobName, shape: &Shape, due: UnixMillis) -> Successor {
    Successor {
        run: RunId::regular(job.clone(), due),
        ready: shape.ready(job, due, fastrand::f64()),
    }
}
