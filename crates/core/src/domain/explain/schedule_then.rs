//! The schedule that a job had at a past time: the present schedule, an earlier schedule version,
//! or a schedule from the audit log.
//!
//! Invariant: a past schedule counts as unknown if Redis may have dropped the record of a later
//! change.

use crate::domain::job::audit_entry::AuditEntry;
use crate::domain::job::job_spec::JobSpec;
use schedd_schedule::cron::CronExpr;
use schedd_schedule::names::JobName;
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::schedule_modifiers::Shape;
use schedd_schedule::time::duration::parse_duration;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;

/// The number of entries that the audit log of a job keeps.
const ENTRIES_KEPT: usize = 100;

/// The schedule of a job at a past time.
#[derive(Debug, Clone)]
pub enum ScheduleThen {
    /// The timetable of the schedule at that time.
    Known(Box<Timetable>),
    /// The schedule of that time is no longer known.
    Unknown,
}

/// An earlier schedule version of a job, as the record in Redis has it.
#[derive(Debug, Clone)]
pub struct PastSchedule {
    /// The time from which this schedule had occurrences. Its first occurrence is later than this
    /// time.
    pub from: UnixMillis,
    /// The last time at which the job had this schedule.
    pub until: UnixMillis,
    /// The definition and timetable of the schedule. `None` if the definition was too long to be
    /// kept, or cannot be read.
    pub definition: Option<(JobSpec, Timetable)>,
}

impl PastSchedule {
    /// Returns true if the job had this schedule at `at`, or if the schedule is a one-shot with the
    /// time `at`.
    fn schedule_at(&self, at: UnixMillis) -> bool {
        let is_instant = || {
            self.definition.as_ref().is_some_and(|(_, table)| table.is_one_shot() && has(table, at))
        };
        at <= self.until && (self.from < at || is_instant())
    }

    /// Returns true if this schedule has the same occurrences as `timetable`, apart from the time
    /// from which they begin.
    fn is_same(&self, spec: &JobSpec, timetable: &Timetable) -> bool {
        let counted = |spec: &JobSpec| {
            let Shape { anchor, start, end, exclude, only_on, .. } = spec.shape.clone();
            (spec.schedule.clone(), spec.dst, anchor, start, end, exclude, only_on)
        };
        let is_same = |(old, table): &(JobSpec, Timetable)| {
            counted(old) == counted(spec) && table.zone().name() == timetable.zone().name()
        };
        self.definition.as_ref().is_some_and(is_same)
    }
}

/// Returns the earlier schedule that the job had at `at`. Returns `None` if that schedule is not
/// kept. Also returns `None` if `at` is after `since`, when the present schedule began.
pub(super) fn past_at(
    past: &[PastSchedule],
    since: UnixMillis,
    at: UnixMillis,
) -> Option<&(JobSpec, Timetable)> {
    if since < at {
        return None;
    }
    past.iter().rev().find(|one| one.schedule_at(at))?.definition.as_ref()
}

fn has(timetable: &Timetable, at: UnixMillis) -> bool {
    timetable.latest_in(at, at) == Some(at)
}

impl ScheduleThen {
    /// Returns the schedule that `job` had at `at`. The schedule comes from the schedule versions
    /// `past`, or else from the audit log. `now` is the present timetable, `anchor` its anchor and
    /// `since` its start.
    pub fn at(
        past: &[PastSchedule],
        audit_log: &[AuditEntry],
        job: &JobName,
        spec: &JobSpec,
        now: &Timetable,
        (anchor, since): (UnixMillis, UnixMillis),
        at: UnixMillis,
    ) -> Self {
        if !(now.is_one_shot() && has(now, at))
            && let Some((_, timetable)) = past_at(past, since, at)
        {
            return Self::Known(Box::new(timetable.clone()));
        }
        let change = audit_log
            .iter()
            .filter(|entry| entry.at > at)
            .find_map(|entry| entry.schedules.as_ref());
        // A one-shot has its occurrence even if the job was added after that time.
        if since <= at || now.is_one_shot() && change.is_none() {
            return Self::Known(Box::new(now.clone()));
        }
        let is_cut =
            audit_log.len() >= ENTRIES_KEPT && audit_log.first().is_some_and(|entry| entry.at > at);
        let is_older_job =
            audit_log.iter().any(|entry| entry.what == AuditEntry::ADDED && entry.at > at);
        if is_cut || is_older_job {
            return Self::Unknown;
        }
        let text = spec.schedule.text_with_zone(now.zone());
        let known = match change {
            Some((old, _)) if *old == text => Some(now.clone()),
            Some((old, _)) => rebuilt(old, job, spec, anchor),
            None => (since_before_resume(audit_log, since) <= at).then(|| now.clone()),
        };
        known.map_or(Self::Unknown, |timetable| Self::Known(Box::new(timetable)))
    }

    /// Returns true if `at` is an occurrence of the schedule. Returns `None` if the schedule is not
    /// known.
    pub fn is_occurrence(&self, at: UnixMillis) -> Option<bool> {
        match self {
            Self::Known(timetable) => Some(has(timetable, at)),
            Self::Unknown => None,
        }
    }

    /// Returns the number of occurrences of the schedule from `first` to `last`. Returns `None` if
    /// the schedule is not known.
    pub fn count_in(&self, first: UnixMillis, last: UnixMillis) -> Option<u64> {
        match self {
            Self::Known(timetable) => Some(timetable.count_in(first, last)),
            Self::Unknown => None,
        }
    }
}

/// Returns the time since which the job has its present schedule. This may be earlier than `since`,
/// the time from which occurrences of the schedule count. A resume of the job makes `since` later.
pub(super) fn schedule_since(
    past: &[PastSchedule],
    audit_log: &[AuditEntry],
    (spec, now): (&JobSpec, &Timetable),
    since: UnixMillis,
) -> UnixMillis {
    let mut begins = since;
    for one in past.iter().rev().take_while(|one| one.is_same(spec, now)) {
        // There was a time without the job between these two schedules.
        if one.until < begins {
            break;
        }
        begins = one.from.min(begins);
    }
    since_before_resume(audit_log, begins)
}

/// Returns the time when the schedule was added or last edited, if `since` is the time of a resume.
/// Returns `since` otherwise, or if the audit log has no such entry.
fn since_before_resume(audit_log: &[AuditEntry], since: UnixMillis) -> UnixMillis {
    if !audit_log.iter().any(|entry| entry.what == AuditEntry::RESUMED && entry.at == since) {
        return since;
    }
    let begins = |entry: &&AuditEntry| {
        (entry.what == AuditEntry::ADDED || entry.what == AuditEntry::EDITED) && entry.at <= since
    };
    audit_log.iter().rev().find(begins).map_or(since, |entry| entry.at)
}

/// Returns the timetable of a schedule whose text is in the audit log. Returns `None` if the text
/// does not describe the whole schedule.
fn rebuilt(text: &str, job: &JobName, spec: &JobSpec, anchor: UnixMillis) -> Option<Timetable> {
    if let Some(period) = text.strip_prefix("every ") {
        return Some(Timetable::new(
            Schedule::Every(parse_duration(period).ok()?),
            Zone::utc(),
            anchor,
        ));
    }
    let (list, zone) = text.rsplit_once(" in ")?;
    let zone = Zone::load(&zone.parse().ok()?).ok()?;
    let list =
        list.split("; ").map(|one| one.parse::<CronExpr>().ok()).collect::<Option<Vec<_>>>()?;
    Some(Timetable::new(Schedule::Cron(list).for_job(job, spec.dst), zone, anchor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::job_spec::Action;
    use std::time::Duration;

    fn s(seconds: i64) -> UnixMillis {
        UnixMillis::new(seconds * 1000).unwrap()
    }

    fn entry(what: &str, at: i64, schedules: Option<(&str, &str)>) -> AuditEntry {
        let schedules = schedules.map(|(old, new)| (old.to_owned(), new.to_owned()));
        AuditEntry {
            at: s(at),
            what: what.to_owned(),
            by: None,
            run: None,
            note: None,
            count: None,
            schedules,
            dues: None,
        }
    }

    fn is_due(audit_log: &[AuditEntry], since: i64, at: i64) -> Option<bool> {
        let spec = JobSpec::with_defaults(
            Schedule::Every(Duration::from_secs(3)),
            Action::Shell("true".to_owned()),
        );
        let now = Timetable::new(spec.schedule.clone(), Zone::utc(), s(0));
        ScheduleThen::at(
            &[],
            audit_log,
            &"j".parse().unwrap(),
            &spec,
            &now,
            (s(0), s(since)),
            s(at),
        )
        .is_occurrence(s(at))
    }

    #[test]
    fn a_job_that_became_a_one_shot_keeps_its_earlier_occurrences() {
        let (job, at) = ("j".parse().unwrap(), s(100));
        let spec = JobSpec::with_defaults(Schedule::At(at), Action::Shell("true".to_owned()));
        let now = Timetable::new(spec.schedule.clone(), Zone::utc(), s(0));
        let text = spec.schedule.text_with_zone(&Zone::utc());
        let edited = [
            entry(AuditEntry::ADDED, 1, None),
            entry(AuditEntry::EDITED, 50, Some(("every 3s", &text))),
        ];
        let schedule_then = |audit_log: &[AuditEntry], at| {
            ScheduleThen::at(&[], audit_log, &job, &spec, &now, (s(0), s(50)), s(at))
                .is_occurrence(s(at))
        };
        assert_eq!(
            (schedule_then(&edited, 30), schedule_then(&edited, 31), schedule_then(&edited, 100)),
            (Some(true), Some(false), Some(true))
        );
        // The job was a one-shot whose time was past when the job was added.
        assert_eq!(
            ScheduleThen::at(
                &[],
                &[entry(AuditEntry::ADDED, 200, None)],
                &job,
                &spec,
                &now,
                (s(0), s(200)),
                at
            )
            .is_occurrence(at),
            Some(true)
        );
    }

    #[test]
    fn a_resume_leaves_the_schedule_as_it_was() {
        let audit_log = [
            entry(AuditEntry::ADDED, 1, None),
            entry(AuditEntry::PAUSED, 50, None),
            entry(AuditEntry::RESUMED, 60, None),
        ];
        assert_eq!(since_before_resume(&audit_log, s(60)), s(1));
        assert_eq!(since_before_resume(&audit_log, s(55)), s(55));
        assert_eq!(
            (is_due(&audit_log, 60, 30), is_due(&audit_log, 60, 31)),
            (Some(true), Some(false))
        );
    }

    #[test]
    fn a_change_names_the_schedule_before_it() {
        let audit_log = [
            entry(AuditEntry::ADDED, 1, None),
            entry(AuditEntry::EDITED, 60, Some(("every 2s", "every 3s"))),
        ];
        assert_eq!(
            (is_due(&audit_log, 60, 32), is_due(&audit_log, 60, 33), is_due(&audit_log, 60, 63)),
            (Some(true), Some(false), Some(true))
        );
        let audit_log = [
            entry(AuditEntry::ADDED, 1, None),
            entry(AuditEntry::EDITED, 999, Some(("*/5 * * * * in UTC", "every 3s"))),
        ];
        assert_eq!(
            (is_due(&audit_log, 999, 600), is_due(&audit_log, 999, 660)),
            (Some(true), Some(false))
        );
    }

    #[test]
    fn a_kept_schedule_answers_where_the_audit_log_cannot() {
        let kept = |every: &str, (from, until): (i64, i64)| {
            let schedule = Schedule::Every(parse_duration(every).unwrap());
            let spec = JobSpec::with_defaults(schedule.clone(), Action::Shell("true".to_owned()));
            let timetable = Timetable::new(schedule, Zone::utc(), s(0));
            PastSchedule { from: s(from), until: s(until), definition: Some((spec, timetable)) }
        };
        let past = [
            kept("5s", (1, 40)),
            kept("3s", (40, 60)),
            PastSchedule { definition: None, ..kept("3s", (0, 1)) },
        ];
        let past = [past[2].clone(), past[0].clone(), past[1].clone()];
        let spec = JobSpec::with_defaults(
            Schedule::Every(Duration::from_secs(3)),
            Action::Shell("true".to_owned()),
        );
        let now = Timetable::new(spec.schedule.clone(), Zone::utc(), s(0));
        let is_due = |at: i64| {
            let counted = (s(0), s(60));
            ScheduleThen::at(&past, &[], &"j".parse().unwrap(), &spec, &now, counted, s(at))
                .is_occurrence(s(at))
        };
        assert_eq!(
            [5, 6, 40, 45, 50, 60, 63].map(is_due),
            [true, false, true, true, false, true, true].map(Some)
        );
        assert_eq!(is_due(1), None);
        // The schedule did not change at the resume. Before the edit the job had another schedule.
        assert_eq!(schedule_since(&past, &[], (&spec, &now), s(60)), s(40));
        assert_eq!(
            schedule_since(&past, &[], (&spec, &now), s(61)),
            s(61),
            "the job was gone in between"
        );
    }

    #[test]
    fn a_gap_in_the_audit_log_leaves_the_schedule_unknown() {
        let anew = [entry(AuditEntry::REMOVED, 50, None), entry(AuditEntry::ADDED, 60, None)];
        let odd = [
            entry(AuditEntry::ADDED, 1, None),
            entry(AuditEntry::EDITED, 60, Some(("5m after each run", "every 3s"))),
        ];
        for audit_log in [&anew[..], &odd, &[]] {
            assert_eq!(is_due(audit_log, 60, 30), None, "{audit_log:?}");
        }
    }
}
