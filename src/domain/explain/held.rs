//! Which schedule held at an instant that is past: the one of now, or one that the deeds still tell of.
//!
//! Invariant: a schedule is known only where nothing that is not kept may have changed it in between.

use crate::domain::cron::CronExpr;
use crate::domain::deed::Deed;
use crate::domain::duration::parse_duration;
use crate::domain::ids::JobName;
use crate::domain::job::JobSpec;
use crate::domain::schedule::{Schedule, Timetable};
use crate::domain::time::UnixMillis;
use crate::domain::zone::Zone;

/// As many deeds of a job are kept.
const DEEDS_KEPT: usize = 100;

/// The schedule that held at an instant.
#[derive(Debug, Clone)]
pub enum Held {
    /// This one.
    Known(Box<Timetable>),
    /// Nobody knows any more.
    Unknown,
}

impl Held {
    /// The schedule of `job` that held at `at`. `now` is its timetable of now, with its anchor and from when its occurrences
    /// count, which a resume moves, too.
    pub fn at(
        deeds: &[Deed],
        job: &JobName,
        spec: &JobSpec,
        now: &Timetable,
        (anchor, since): (UnixMillis, UnixMillis),
        at: UnixMillis,
    ) -> Self {
        let change = deeds.iter().filter(|deed| deed.at > at).find_map(|deed| deed.schedules.as_ref());
        // A one-shot may be owed from before it was added.
        if since <= at || now.is_one_shot() && change.is_none() {
            return Self::Known(Box::new(now.clone()));
        }
        let is_cut = deeds.len() >= DEEDS_KEPT && deeds.first().is_some_and(|deed| deed.at > at);
        let is_older_job = deeds.iter().any(|deed| deed.what == Deed::ADDED && deed.at > at);
        if is_cut || is_older_job {
            return Self::Unknown;
        }
        let text = spec.schedule.text_with_zone(now.zone());
        let known = match change {
            Some((old, _)) if *old == text => Some(now.clone()),
            Some((old, _)) => rebuilt(old, job, spec, anchor),
            None => (schedule_since(deeds, since) <= at).then(|| now.clone()),
        };
        known.map_or(Self::Unknown, |timetable| Self::Known(Box::new(timetable)))
    }

    /// Whether `at` is one of its occurrences, if that is known.
    pub fn is_occurrence(&self, at: UnixMillis) -> Option<bool> {
        match self {
            Self::Known(timetable) => Some(timetable.latest_in(at, at) == Some(at)),
            Self::Unknown => None,
        }
    }

    /// How many of its occurrences lie within `[first, last]`, if that is known.
    pub fn count_in(&self, first: UnixMillis, last: UnixMillis) -> Option<u64> {
        match self {
            Self::Known(timetable) => Some(timetable.count_in(first, last)),
            Self::Unknown => None,
        }
    }
}

/// From when the schedule of now holds: `since`, unless only a resume has moved that.
pub(super) fn schedule_since(deeds: &[Deed], since: UnixMillis) -> UnixMillis {
    if !deeds.iter().any(|deed| deed.what == Deed::RESUMED && deed.at == since) {
        return since;
    }
    let begins = |deed: &&Deed| (deed.what == Deed::ADDED || deed.what == Deed::EDITED) && deed.at <= since;
    deeds.iter().rev().find(begins).map_or(since, |deed| deed.at)
}

/// A timetable from a schedule's text, where that says all of it.
fn rebuilt(text: &str, job: &JobName, spec: &JobSpec, anchor: UnixMillis) -> Option<Timetable> {
    if let Some(period) = text.strip_prefix("every ") {
        return Some(Timetable::new(Schedule::Every(parse_duration(period).ok()?), Zone::utc(), anchor));
    }
    let (list, zone) = text.rsplit_once(" in ")?;
    let zone = Zone::load(&zone.parse().ok()?).ok()?;
    let list = list.split("; ").map(|one| one.parse::<CronExpr>().ok()).collect::<Option<Vec<_>>>()?;
    Some(Timetable::new(Schedule::Cron(list).for_job(job, spec.dst), zone, anchor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::Action;
    use std::time::Duration;

    fn s(seconds: i64) -> UnixMillis {
        UnixMillis::new(seconds * 1000).unwrap()
    }

    fn deed(what: &str, at: i64, schedules: Option<(&str, &str)>) -> Deed {
        let schedules = schedules.map(|(old, new)| (old.to_owned(), new.to_owned()));
        Deed { at: s(at), what: what.to_owned(), by: None, run: None, count: None, schedules, dues: None }
    }

    fn is_due(deeds: &[Deed], since: i64, at: i64) -> Option<bool> {
        let spec = JobSpec::with_defaults(Schedule::Every(Duration::from_secs(3)), Action::Shell("true".to_owned()));
        let now = Timetable::new(spec.schedule.clone(), Zone::utc(), s(0));
        Held::at(deeds, &"j".parse().unwrap(), &spec, &now, (s(0), s(since)), s(at)).is_occurrence(s(at))
    }

    #[test]
    fn what_a_job_was_before_it_became_a_one_shot_is_told_by_what_it_was() {
        let (job, at) = ("j".parse().unwrap(), s(100));
        let spec = JobSpec::with_defaults(Schedule::At(at), Action::Shell("true".to_owned()));
        let now = Timetable::new(spec.schedule.clone(), Zone::utc(), s(0));
        let text = spec.schedule.text_with_zone(&Zone::utc());
        let edited = [deed(Deed::ADDED, 1, None), deed(Deed::EDITED, 50, Some(("every 3s", &text)))];
        let held = |deeds: &[Deed], at| Held::at(deeds, &job, &spec, &now, (s(0), s(50)), s(at)).is_occurrence(s(at));
        assert_eq!((held(&edited, 30), held(&edited, 31), held(&edited, 100)), (Some(true), Some(false), Some(true)));
        // It was one from the first, and past already.
        assert_eq!(
            Held::at(&[deed(Deed::ADDED, 200, None)], &job, &spec, &now, (s(0), s(200)), at).is_occurrence(at),
            Some(true)
        );
    }

    #[test]
    fn a_resume_leaves_the_schedule_as_it_was() {
        let deeds = [deed(Deed::ADDED, 1, None), deed(Deed::PAUSED, 50, None), deed(Deed::RESUMED, 60, None)];
        assert_eq!(schedule_since(&deeds, s(60)), s(1));
        assert_eq!(schedule_since(&deeds, s(55)), s(55));
        assert_eq!((is_due(&deeds, 60, 30), is_due(&deeds, 60, 31)), (Some(true), Some(false)));
    }

    #[test]
    fn a_change_tells_of_the_schedule_before_it() {
        let deeds = [deed(Deed::ADDED, 1, None), deed(Deed::EDITED, 60, Some(("every 2s", "every 3s")))];
        assert_eq!(
            (is_due(&deeds, 60, 32), is_due(&deeds, 60, 33), is_due(&deeds, 60, 63)),
            (Some(true), Some(false), Some(true))
        );
        let deeds = [deed(Deed::ADDED, 1, None), deed(Deed::EDITED, 999, Some(("*/5 * * * * in UTC", "every 3s")))];
        assert_eq!((is_due(&deeds, 999, 600), is_due(&deeds, 999, 660)), (Some(true), Some(false)));
    }

    #[test]
    fn what_the_deeds_do_not_tell_is_not_known() {
        let anew = [deed(Deed::REMOVED, 50, None), deed(Deed::ADDED, 60, None)];
        let odd = [deed(Deed::ADDED, 1, None), deed(Deed::EDITED, 60, Some(("5m after each run", "every 3s")))];
        for deeds in [&anew[..], &odd, &[]] {
            assert_eq!(is_due(deeds, 60, 30), None, "{deeds:?}");
        }
    }
}
