//! What becomes of a regular run when its turn comes: it runs, or a stretch of occurrences up to now is skipped.
//!
//! Missed = a later occurrence of the job is ripe too, or the run is older than `late_after`. Everything is a function of
//! the schedule, the rules and the time, so every node decides alike.

use std::time::Duration;

use super::job::{CatchUp, CatchUpMode};
use super::schedule::Timetable;
use super::time::UnixMillis;

/// What to do with a due regular run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Run it.
    Run {
        /// The occurrence after it.
        successor: Option<UnixMillis>,
        /// Whether it is one of several being caught up with, which go one after the other.
        is_catching_up: bool,
    },
    /// Skip it and those behind it up to `last`.
    Skip {
        /// The last occurrence of the stretch.
        last: UnixMillis,
        /// How many there are, exact to 100,000.
        count: u64,
        /// The first occurrence after the stretch.
        successor: Option<UnixMillis>,
    },
}

/// A due regular run and all that decides about it.
#[derive(Debug, Clone, Copy)]
pub struct Due<'a> {
    /// The job's occurrences.
    pub timetable: &'a Timetable,
    /// From when its schedule holds: an occurrence owed from before counts alone.
    pub since: UnixMillis,
    /// What becomes of missed ones.
    pub catch_up: &'a CatchUp,
    /// Past this age a run counts as missed.
    pub late_after: Duration,
    /// The run's planned instant.
    pub due: UnixMillis,
    /// Redis' time.
    pub now: UnixMillis,
}

/// Decides what becomes of a due regular run.
pub fn judge(run: Due<'_>) -> Decision {
    let Due { timetable, catch_up, due, now, .. } = run;
    if run.timetable.is_one_shot() {
        return match catch_up.max_age {
            Some(most) if now.since(due) > most => Decision::Skip { last: due, count: 1, successor: None },
            _ => Decision::Run { successor: None, is_catching_up: false },
        };
    }
    let base = due.max(run.since);
    let later = timetable.next_after(base);
    let is_late = now.since(due) > run.late_after;
    let has_later_ripe = later.is_some_and(|next| next <= now);
    if !is_late && !has_later_ripe {
        return Decision::Run { successor: later, is_catching_up: false };
    }

    let newest = if has_later_ripe { latest_after(timetable, base, now).unwrap_or(due) } else { due };
    // The first occurrence that is to run; none = none of those up to now.
    let first_to_run = match catch_up.mode {
        CatchUpMode::Skip => (now.since(newest) <= run.late_after).then_some(newest),
        CatchUpMode::Latest => Some(newest),
        CatchUpMode::All => Some(newest_of(timetable, base, now, catch_up.max_count).map_or(due, |first| first.max(due))),
    };
    let first_to_run = match (first_to_run, catch_up.max_age) {
        (Some(first), Some(most)) if now.since(first) > most => first_within(timetable, base, now, most, catch_up.mode),
        (first, _) => first,
    };
    match first_to_run {
        Some(first) if first <= due => Decision::Run { successor: later, is_catching_up: catch_up.mode == CatchUpMode::All },
        Some(first) => {
            let last = latest_after(timetable, base, first.saturating_sub(Duration::from_millis(1))).unwrap_or(due);
            Decision::Skip { last, count: stretch(timetable, base, last), successor: Some(first) }
        }
        None => Decision::Skip {
            last: newest,
            count: stretch(timetable, base, newest),
            successor: timetable.next_after(base.max(newest)),
        },
    }
}

/// The stretch a pause left out: from the run it took out up to now, none if that is yet to come.
pub fn paused_stretch(timetable: &Timetable, held: UnixMillis, since: UnixMillis, now: UnixMillis) -> Option<(UnixMillis, u64)> {
    if held > now {
        return None;
    }
    let base = held.max(since);
    let last = latest_after(timetable, base, now).unwrap_or(held);
    Some((last, stretch(timetable, base, last)))
}

fn one_after(at: UnixMillis) -> UnixMillis {
    at.saturating_add(Duration::from_millis(1))
}

fn latest_after(timetable: &Timetable, after: UnixMillis, until: UnixMillis) -> Option<UnixMillis> {
    timetable.latest_in(one_after(after), until)
}

/// The run itself and the occurrences behind it up to `last`.
fn stretch(timetable: &Timetable, base: UnixMillis, last: UnixMillis) -> u64 {
    if last <= base { 1 } else { timetable.count_in(one_after(base), last) + 1 }
}

/// The first of the `most` newest occurrences; none if there are not more than that, the run itself among them.
fn newest_of(timetable: &Timetable, base: UnixMillis, now: UnixMillis, most: u32) -> Option<UnixMillis> {
    let behind = timetable.count_in(one_after(base), now);
    if behind < u64::from(most) { None } else { timetable.newest_in(one_after(base), now, most) }
}

/// The first occurrence young enough: of all with `all`, else only the newest can be.
fn first_within(
    timetable: &Timetable,
    base: UnixMillis,
    now: UnixMillis,
    most: Duration,
    mode: CatchUpMode,
) -> Option<UnixMillis> {
    if mode != CatchUpMode::All {
        return None;
    }
    let bound = now.saturating_sub(most).max(base).saturating_sub(Duration::from_millis(1));
    timetable.next_after(bound.max(base)).filter(|first| *first <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::Schedule;
    use crate::domain::zone::Zone;

    const MINUTE: Duration = Duration::from_secs(60);
    const START: i64 = 1_790_000_000_000 - 1_790_000_000_000 % 60_000;

    fn at(minutes: i64) -> UnixMillis {
        UnixMillis::new(START + minutes * 60_000).unwrap()
    }

    fn minutely() -> Timetable {
        Timetable::new(Schedule::Every(MINUTE), Zone::load(&"UTC".parse().unwrap()).unwrap(), at(-1_000_000))
    }

    fn decide(mode: CatchUpMode, max_age: Option<Duration>, max_count: u32, due: UnixMillis, now: UnixMillis) -> Decision {
        let catch_up = CatchUp { mode, max_age, max_count };
        judge(Due { timetable: &minutely(), since: at(-1_000), catch_up: &catch_up, late_after: MINUTE, due, now })
    }

    #[test]
    fn a_run_on_time_runs_whatever_the_mode() {
        for mode in [CatchUpMode::Skip, CatchUpMode::Latest, CatchUpMode::All] {
            let now = at(0).saturating_add(Duration::from_millis(3));
            assert_eq!(decide(mode, None, 1_000, at(0), now), Decision::Run { successor: Some(at(1)), is_catching_up: false });
        }
    }

    #[test]
    fn latest_runs_the_newest_and_skips_the_older_as_one_stretch() {
        let now = at(30 * 1440).saturating_add(Duration::from_secs(5));
        let decision = decide(CatchUpMode::Latest, None, 1_000, at(0), now);
        assert_eq!(decision, Decision::Skip { last: at(30 * 1440 - 1), count: 30 * 1440, successor: Some(at(30 * 1440)) });
    }

    #[test]
    fn skip_runs_the_newest_only_if_it_is_on_time() {
        let now = at(10).saturating_add(Duration::from_secs(5));
        assert_eq!(
            decide(CatchUpMode::Skip, None, 1_000, at(0), now),
            Decision::Skip { last: at(9), count: 10, successor: Some(at(10)) }
        );
    }

    #[test]
    fn all_runs_each_and_of_too_many_the_newest() {
        let now = at(10).saturating_add(Duration::from_secs(5));
        assert_eq!(
            decide(CatchUpMode::All, None, 1_000, at(0), now),
            Decision::Run { successor: Some(at(1)), is_catching_up: true }
        );
        assert_eq!(
            decide(CatchUpMode::All, None, 4, at(0), now),
            Decision::Skip { last: at(6), count: 7, successor: Some(at(7)) }
        );
        assert_eq!(
            decide(CatchUpMode::All, None, 11, at(0), now),
            Decision::Run { successor: Some(at(1)), is_catching_up: true }
        );
    }

    #[test]
    fn max_age_skips_what_is_older_in_every_mode() {
        let now = at(10).saturating_add(Duration::from_secs(5));
        let three = Some(MINUTE * 3);
        assert_eq!(
            decide(CatchUpMode::All, three, 1_000, at(0), now),
            Decision::Skip { last: at(7), count: 8, successor: Some(at(8)) }
        );
        assert_eq!(
            decide(CatchUpMode::Latest, three, 1_000, at(0), now),
            Decision::Skip { last: at(9), count: 10, successor: Some(at(10)) }
        );
        let tiny = Some(Duration::from_secs(1));
        assert_eq!(
            decide(CatchUpMode::Latest, tiny, 1_000, at(0), now),
            Decision::Skip { last: at(10), count: 11, successor: Some(at(11)) }
        );
    }

    #[test]
    fn a_one_shot_runs_however_late_unless_max_age_is_set() {
        let table = Timetable::new(Schedule::At(at(0)), Zone::load(&"UTC".parse().unwrap()).unwrap(), at(0));
        let mut catch_up = CatchUp::default();
        let judge = |catch_up: &CatchUp| {
            judge(Due { timetable: &table, since: at(-5), catch_up, late_after: MINUTE, due: at(0), now: at(1_000) })
        };
        assert_eq!(judge(&catch_up), Decision::Run { successor: None, is_catching_up: false });
        catch_up.max_age = Some(MINUTE);
        assert_eq!(judge(&catch_up), Decision::Skip { last: at(0), count: 1, successor: None });
    }

    #[test]
    fn an_owed_run_of_an_older_schedule_is_followed_by_the_first_of_the_new() {
        let catch_up = CatchUp::default();
        let now = at(0).saturating_add(Duration::from_secs(20));
        let since = at(0).saturating_add(Duration::from_secs(10));
        let due = at(0).saturating_sub(Duration::from_secs(17));
        let decision = judge(Due { timetable: &minutely(), since, catch_up: &catch_up, late_after: MINUTE, due, now });
        assert_eq!(decision, Decision::Run { successor: Some(at(1)), is_catching_up: false });
    }

    #[test]
    fn a_pause_leaves_out_the_stretch_from_the_held_run_to_now() {
        assert_eq!(paused_stretch(&minutely(), at(3), at(-9), at(5)), Some((at(5), 3)));
        assert_eq!(paused_stretch(&minutely(), at(6), at(-9), at(5)), None);
    }
}
