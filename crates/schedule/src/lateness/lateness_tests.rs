//! Tests of the decision whether a due run starts or is skipped as missed, for every rule.

use super::*;
use crate::cron::steps_of;
use crate::schedule_form::Schedule;
use crate::time::zone::Zone;

const MINUTE: Duration = Duration::from_secs(60);
const START: i64 = 1_790_000_000_000 - 1_790_000_000_000 % 60_000;

fn at(minutes: i64) -> UnixMillis {
    UnixMillis::new(START + minutes * 60_000).unwrap()
}

fn minutely() -> Timetable {
    Timetable::new(
        Schedule::Every(MINUTE),
        Zone::load(&"UTC".parse().unwrap()).unwrap(),
        at(-1_000_000),
    )
}

/// Returns the facts about a run due at `at(0)` that a node examines at `now`.
fn met<'a>(timetable: &'a Timetable, catch_up: &'a CatchUp, now: UnixMillis) -> Due<'a> {
    Due {
        not_before: UnixMillis::EPOCH,
        timetable,
        since: at(-1_000),
        taken: UnixMillis::EPOCH,
        catch_up,
        skip_if_late: None,
        late_after: MINUTE,
        due: at(0),
        now,
    }
}

fn decide(
    mode: CatchUpMode,
    max_age: Option<Duration>,
    max_count: u32,
    due: UnixMillis,
    now: UnixMillis,
) -> Decision {
    let catch_up = CatchUp { mode, max_age, max_count, spread: None };
    judge(Due { due, ..met(&minutely(), &catch_up, now) })
}

#[test]
fn a_run_on_time_runs_whatever_the_mode() {
    for mode in [CatchUpMode::Skip, CatchUpMode::Latest, CatchUpMode::All] {
        let now = at(0).saturating_add(Duration::from_millis(3));
        assert_eq!(
            decide(mode, None, 1_000, at(0), now),
            Decision::Run { successor: Some(at(1)), is_missed: false }
        );
    }
}

#[test]
fn latest_runs_the_newest_and_skips_the_older_as_one_range() {
    let now = at(30 * 1440).saturating_add(Duration::from_secs(5));
    let decision = decide(CatchUpMode::Latest, None, 1_000, at(0), now);
    assert_eq!(
        decision,
        Decision::Skip {
            last: at(30 * 1440 - 1),
            count: 30 * 1440,
            successor: Some(at(30 * 1440))
        }
    );
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
        Decision::Run { successor: Some(at(1)), is_missed: true }
    );
    assert_eq!(
        decide(CatchUpMode::All, None, 4, at(0), now),
        Decision::Skip { last: at(6), count: 7, successor: Some(at(7)) }
    );
    assert_eq!(
        decide(CatchUpMode::All, None, 11, at(0), now),
        Decision::Run { successor: Some(at(1)), is_missed: true }
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
    let table =
        Timetable::new(Schedule::At(at(0)), Zone::load(&"UTC".parse().unwrap()).unwrap(), at(0));
    let mut catch_up = CatchUp::default();
    let judge =
        |catch_up: &CatchUp| judge(Due { since: at(-5), ..met(&table, catch_up, at(1_000)) });
    assert_eq!(judge(&catch_up), Decision::Run { successor: None, is_missed: false });
    catch_up.max_age = Some(MINUTE);
    assert_eq!(judge(&catch_up), Decision::Skip { last: at(0), count: 1, successor: None });
}

#[test]
fn judging_costs_no_more_for_a_longer_outage() {
    let utc = || Zone::load(&"UTC".parse().unwrap()).unwrap();
    let cron = Timetable::new(Schedule::Cron(vec!["* * * * *".parse().unwrap()]), utc(), at(-1));
    let secondly =
        Timetable::new(Schedule::Cron(vec!["* * * * * *".parse().unwrap()]), utc(), at(-1));
    let days = |days: i64| at(days * 1440).saturating_add(Duration::from_secs(30));
    for (timetable, now, count) in [
        (&cron, days(30), 43_201),
        (&secondly, days(3_650), 100_001),
        (&minutely(), days(30), 43_201),
    ] {
        for mode in [CatchUpMode::Skip, CatchUpMode::Latest, CatchUpMode::All] {
            let catch_up = CatchUp { mode, spread: Some(MINUTE), ..CatchUp::default() };
            let late_after = Duration::from_secs(1);
            let run = Due { since: at(-1), late_after, ..met(timetable, &catch_up, now) };
            let (steps, (decision, missed)) = steps_of(|| (judge(run), missed_from(run, 100)));
            // A walk through all seconds of ten years would take hundreds of millions of steps.
            assert!(steps < 3_000_000, "{mode:?} took {steps} steps");
            let Decision::Skip { count: skipped, .. } = decision else {
                panic!("{mode:?}: {decision:?}")
            };
            let kept = match mode {
                CatchUpMode::Skip => 0,
                CatchUpMode::Latest => 1,
                CatchUpMode::All => 1_000,
            };
            assert!(skipped == count - kept || skipped >= 100_000, "{mode:?} {skipped}");
            assert_eq!(missed.dues.len(), if mode == CatchUpMode::All { 100 } else { 1 });
        }
    }
}

#[test]
fn a_max_age_shorter_than_late_after_holds_too() {
    let now = at(0).saturating_add(Duration::from_secs(20));
    let decision = decide(CatchUpMode::Latest, Some(Duration::from_secs(10)), 1_000, at(0), now);
    assert_eq!(decision, Decision::Skip { last: at(0), count: 1, successor: Some(at(1)) });
}

#[test]
fn of_missed_ones_that_each_run_the_newest_is_left_out_while_it_is_on_time() {
    let catch_up = CatchUp { mode: CatchUpMode::All, ..CatchUp::default() };
    let now = at(5).saturating_add(Duration::from_secs(20));
    let table = minutely();
    let run = met(&table, &catch_up, now);
    let all = Missed { dues: (0..5).map(at).collect(), count: 5, successor: Some(at(5)) };
    assert_eq!(missed_from(run, 100), all);
    let some = Missed { dues: (0..2).map(at).collect(), count: 5, successor: Some(at(2)) };
    assert_eq!(missed_from(run, 2), some);
    let taken = Missed { successor: Some(at(4)), ..some };
    assert_eq!(missed_from(Due { taken: at(3), ..run }, 2), taken);
}

#[test]
fn what_passed_behind_an_owed_run_is_reported_with_a_change_of_the_schedule() {
    let now = at(5).saturating_add(Duration::from_secs(1));
    let behind = SkippedRange { first: at(1), last: at(5), count: 5 };
    assert_eq!(range_behind(&minutely(), at(0), at(-9), now), Some(behind));
    assert_eq!(range_behind(&minutely(), at(5), at(-9), now), None);
    assert_eq!(range_behind(&minutely(), at(6), at(-9), now), None, "not due yet: it is replaced");
}

#[test]
fn a_run_owed_when_its_job_became_a_one_shot_is_followed_by_that() {
    let table =
        Timetable::new(Schedule::At(at(9)), Zone::load(&"UTC".parse().unwrap()).unwrap(), at(0));
    let catch_up = CatchUp::default();
    let run = Due { since: UnixMillis::EPOCH, ..met(&table, &catch_up, at(5)) };
    assert_eq!(judge(run), Decision::Run { successor: Some(at(9)), is_missed: false });
    assert_eq!(
        judge(Due { taken: at(9), ..run }),
        Decision::Run { successor: None, is_missed: false }
    );
}

#[test]
fn an_owed_run_of_an_older_schedule_is_followed_by_the_first_of_the_new() {
    let catch_up = CatchUp::default();
    let now = at(0).saturating_add(Duration::from_secs(20));
    let since = at(0).saturating_add(Duration::from_secs(10));
    let due = at(0).saturating_sub(Duration::from_secs(17));
    let decision = judge(Due { since, due, ..met(&minutely(), &catch_up, now) });
    assert_eq!(decision, Decision::Run { successor: Some(at(1)), is_missed: false });
}

#[test]
fn a_pause_leaves_out_the_range_from_the_held_run_to_now() {
    assert_eq!(paused_range(&minutely(), at(3), at(-9), at(5)), Some((at(5), 3)));
    assert_eq!(paused_range(&minutely(), at(6), at(-9), at(5)), None);
}

#[test]
fn what_is_known_of_a_range_is_left_out_of_it_at_its_ends_and_in_between() {
    let range = |first: i64, last: i64, count: u64| SkippedRange {
        first: at(first),
        last: at(last),
        count,
    };
    for (known, left) in [
        (vec![], Some(range(1, 6, 6))),
        (vec![3], Some(range(1, 6, 5))),
        (vec![1, 2, 4, 6], Some(range(3, 5, 2))),
        (vec![2, 3, 4, 5, 6], Some(range(1, 1, 1))),
        (vec![1, 2, 3, 4, 5, 6], None),
        (vec![0, 7], Some(range(1, 6, 6))),
    ] {
        let known: Vec<UnixMillis> = known.into_iter().map(at).collect();
        assert_eq!(without(&minutely(), at(-9), range(1, 6, 6), &known), left, "{known:?}");
    }
    // An instant that is not an occurrence of this schedule was never counted, so it changes
    // nothing.
    let between = at(2).saturating_add(Duration::from_secs(7));
    assert_eq!(without(&minutely(), at(-9), range(1, 6, 6), &[between]), Some(range(1, 6, 6)));
    // An occurrence before `since` was not counted by this schedule, although it is an occurrence
    // of it. So it changes nothing.
    assert_eq!(without(&minutely(), at(3), range(1, 6, 4), &[at(2)]), Some(range(1, 6, 4)));
}

#[test]
fn an_occurrence_taken_out_of_a_range_leaves_the_others_reported_exactly() {
    let range = |first: i64, last: i64, count: u64| SkippedRange {
        first: at(first),
        last: at(last),
        count,
    };
    let rest = |table: Option<&ScheduleVersions>,
                whole: SkippedRange,
                out: UnixMillis,
                recorded: &[i64]| {
        taken_out(table, whole, out, |due| recorded.iter().any(|minutes| at(*minutes) == due))
    };
    let (table, later) =
        (ScheduleVersions::of_one(minutely(), at(-9)), ScheduleVersions::of_one(minutely(), at(3)));
    let known = Some(&table);
    assert_eq!(rest(known, range(1, 6, 6), at(3), &[]), Rest::Some(range(1, 6, 5)));
    assert_eq!(rest(known, range(1, 6, 6), at(1), &[]), Rest::Some(range(2, 6, 5)));
    assert_eq!(rest(known, range(1, 6, 6), at(6), &[]), Rest::Some(range(1, 5, 5)));
    assert_eq!(rest(known, range(1, 6, 3), at(1), &[2, 3]), Rest::Some(range(4, 6, 2)));
    assert_eq!(rest(known, range(1, 6, 3), at(6), &[3, 4, 5]), Rest::Some(range(1, 2, 2)));
    assert_eq!(rest(known, range(1, 6, 1), at(1), &[]), Rest::Nothing);
    for outside in [at(0), at(7), at(3).saturating_add(Duration::from_secs(1))] {
        assert_eq!(rest(known, range(1, 6, 6), outside, &[]), Rest::All);
    }
    // A range with a count of 1 contains only its first occurrence. A range counted by a later
    // schedule has no occurrence between its first one and the start of that schedule.
    assert_eq!(rest(known, range(1, 6, 1), at(3), &[]), Rest::All);
    assert_eq!(rest(Some(&later), range(1, 6, 4), at(2), &[]), Rest::All);
    assert_eq!(rest(Some(&later), range(1, 6, 4), at(1), &[]), Rest::Some(range(4, 6, 3)));
    // The schedule by which the range was counted is unknown in these cases.
    let moment = |minutes: i64, by: i64| UnixMillis::new(at(minutes).as_i64() + by).unwrap();
    assert_eq!(rest(None, range(1, 6, 6), at(3), &[]), Rest::Some(range(1, 6, 5)));
    assert_eq!(
        rest(None, range(1, 6, 6), at(1), &[]),
        Rest::Some(SkippedRange { first: moment(1, 1), ..range(1, 6, 5) })
    );
    assert_eq!(
        rest(None, range(1, 6, 6), at(6), &[]),
        Rest::Some(SkippedRange { last: moment(6, -1), ..range(1, 6, 5) })
    );
    assert_eq!(
        rest(known, range(1, 999_999, 100_001), at(3), &[]),
        Rest::Some(range(1, 999_999, 100_001))
    );
}

#[test]
fn a_skipped_run_has_a_cause_and_a_run_that_starts_has_none() {
    let cause = |mode, max_age, max_count, late: Duration| {
        let catch_up = CatchUp { mode, max_age, max_count, spread: None };
        let table = minutely();
        let due = met(&table, &catch_up, at(0).saturating_add(late));
        assert_eq!(skip_cause(due).is_some(), matches!(judge(due), Decision::Skip { .. }));
        skip_cause(due)
    };
    let (skip, latest, all) = (CatchUpMode::Skip, CatchUpMode::Latest, CatchUpMode::All);
    let five = MINUTE * 5 + Duration::from_secs(1);
    for (mode, max_age, max_count, late, wanted) in [
        (latest, None, 9, Duration::from_secs(59), None),
        (latest, None, 9, five, Some(SkipCause::NewerDue(at(5)))),
        (skip, None, 9, five, Some(SkipCause::NewerDue(at(5)))),
        (all, None, 9, five, None),
        (all, None, 3, five, Some(SkipCause::TooMany)),
        (all, Some(MINUTE), 9, five, Some(SkipCause::OlderThanMaxAge(MINUTE))),
    ] {
        assert_eq!(cause(mode, max_age, max_count, late), wanted, "{mode:?} {late:?}");
    }
    let hour = Timetable::new(Schedule::Every(MINUTE * 60), Zone::utc(), at(0));
    let with = |mode| CatchUp { mode, max_age: None, max_count: 9, spread: None };
    let (skips, runs) = (with(skip), with(latest));
    let late =
        |catch_up, skip_if_late| skip_cause(Due { skip_if_late, ..met(&hour, catch_up, at(5)) });
    assert_eq!(late(&skips, None), Some(SkipCause::Late));
    assert_eq!(late(&runs, None), None);
    assert_eq!(late(&runs, Some(MINUTE)), Some(SkipCause::OlderThanSkipIfLate(MINUTE)));
}
