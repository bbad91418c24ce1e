//! A second implementation of the cron search, for tests. The search goes day by day with bit masks
//! and the calendar of the crate `jiff`. It uses neither the `cron` crate nor `cron_days`.

use jiff::ToSpan as _;
use jiff::civil::{Date, Weekday};
use proptest::prelude::*;
use proptest::sample::select;

use super::cron_field::Values;
use super::cron_piece::CronPiece;
use super::cron_plan::{CronFields, CronPlan};
use super::cron_search::Wall as _;
use super::day_letter::Letter;
use super::hash_draw::Draw;
use super::{cron_oracle, search_work};

const DAY: i64 = 86_400;

/// Returns true if `letter`, such as `L` or `5#2`, selects the day `date`.
fn is_day(letter: Letter, date: Date) -> bool {
    let weekday =
        |number: u8| Weekday::from_sunday_zero_offset(i8::try_from(number).unwrap()).unwrap();
    let is_working = |date: Date| !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday);
    let month =
        || (1..=date.days_in_month()).map(|day| Date::new(date.year(), date.month(), day).unwrap());
    match letter {
        Letter::Last { before } => date.last_of_month() == date + i64::from(before).days(),
        Letter::LastWorking => month().filter(|day| is_working(*day)).max() == Some(date),
        Letter::Nearest { day } => {
            let day = i8::try_from(day).unwrap();
            let distance = |near: &Date| (near.day() - day).abs();
            day <= date.days_in_month()
                && month().filter(|day| is_working(*day)).min_by_key(distance) == Some(date)
        }
        Letter::Nth { weekday: number, nth } => {
            date.first_of_month()
                .nth_weekday_of_month(i8::try_from(nth).unwrap(), weekday(number))
                .ok()
                == Some(date)
        }
        Letter::LastOf { weekday: number } => {
            date.nth_weekday_of_month(-1, weekday(number)).unwrap() == date
        }
    }
}

fn mask(values: &Values) -> u64 {
    values.set.iter().filter(|value| *value < 64).fold(0, |mask, value| mask | 1 << value)
}

/// Returns the number of the lowest set bit in `mask` that is at least `from`, or `None`.
fn bit_from(mask: u64, from: i64) -> Option<i64> {
    let left = mask.checked_shr(u32::try_from(from).unwrap()).unwrap_or(0);
    (left != 0).then(|| from + i64::from(left.trailing_zeros()))
}

/// Returns the first matching time of a day that is not before `from`, or `None`. Both times are in
/// seconds after midnight.
fn clock_from(fields: &CronFields, from: i64) -> Option<i64> {
    let (hours, minutes, seconds) =
        (mask(&fields.hour), mask(&fields.minute), mask(&fields.second));
    let mut at = from;
    while at < DAY {
        let (hour, minute, second) = (at / 3600, at / 60 % 60, at % 60);
        at = match (bit_from(hours, hour)?, bit_from(minutes, minute), bit_from(seconds, second)) {
            (later, _, _) if later > hour => later * 3600,
            (_, None, _) => (hour + 1) * 3600,
            (_, Some(later), _) if later > minute => hour * 3600 + later * 60,
            (_, _, None) => hour * 3600 + (minute + 1) * 60,
            (_, _, Some(second)) => return Some(hour * 3600 + minute * 60 + second),
        };
    }
    None
}

fn is_date(fields: &CronFields, date: Date) -> bool {
    let number = |value: i8| u16::try_from(value).unwrap();
    let has = |values: &Values, value: i8| {
        values.set.has(number(value)) || values.letters.iter().any(|l| is_day(*l, date))
    };
    let by_day = has(&fields.day, date.day());
    let by_weekday = has(&fields.weekday, date.weekday().to_sunday_zero_offset());
    if fields.day.starred || fields.weekday.starred {
        by_day && by_weekday
    } else {
        by_day || by_weekday
    }
}

/// Returns the first matching time from `local` on and before `end`, or `None`. All are seconds
/// since 1970 by the wall clock.
fn first_between(fields: &CronFields, local: i64, end: i64) -> Option<i64> {
    let mut date = Date::new(1970, 1, 1).unwrap() + local.div_euclid(DAY).days();
    let mut from = local.rem_euclid(DAY);
    let mut midnight = local - from;
    while midnight < end {
        let is_month = fields.month.set.has(u16::try_from(date.month()).unwrap());
        let is_year = u16::try_from(date.year() - 1970).is_ok_and(|year| fields.year.set.has(year));
        let next =
            if is_month && is_year { date + 1.day() } else { date.last_of_month() + 1.day() };
        if is_month
            && is_year
            && is_date(fields, date)
            && let Some(clock) = clock_from(fields, from)
        {
            return Some(midnight + clock).filter(|found| *found < end);
        }
        midnight += i64::from((next - date).get_days()) * DAY;
        (date, from) = (next, 0);
    }
    None
}

/// Generates expressions of five to seven fields. Each sign of the syntax occurs.
fn texts() -> impl Strategy<Value = String> {
    let drawn = |max: u8| {
        (0..max, 0..max, 1..max).prop_map(|(a, b, step)| {
            let (low, high) = (a.min(b), a.max(b));
            [
                format!("H({low}-{high})/{step}"),
                format!("H({low}-{high})"),
                format!("H/{step}"),
                "H".to_owned(),
            ][usize::from(a % 4)]
            .clone()
        })
    };
    let second = prop_oneof![4 => Just(String::new()), 1 => "([0-5]?[0-9]|\\*/[1-9]|H|5/7) "];
    let year = prop_oneof![4 => Just(String::new()), 1 => select(vec![" *", " 2024-2040/4", " 2026", " 2030,2031,2099"]).prop_map(str::to_owned)];
    let fields = cron_oracle::expression().prop_map(|fields| fields.map(|field| field.text));
    let hand = (0..16_u8, drawn(60), drawn(24), drawn(7));
    (second, fields, year, hand).prop_map(
        |(second, [mut minute, mut hour, day, month, mut weekday], mut year, (which, m, h, w))| {
            match which {
                0 => minute = m,
                1 => hour = h,
                2 => weekday = w,
                _ => {}
            }
            if second.is_empty() {
                year.clear();
            }
            format!("{second}{minute} {hour} {day} {month} {weekday}{year}")
        },
    )
}

fn the_plan_and_its_twin_agree(text: &str, local: i64, name: &str) -> Result<(), TestCaseError> {
    /// The number of seconds that the search of this file looks ahead. The limit keeps its walk
    /// over days short.
    const FAR: i64 = 12 * 366 * DAY;
    let words = CronPiece { text, offset: 0 }.words();
    let read = (
        CronFields::read(&words, Draw::Of(name)).and_then(CronPlan::of),
        CronFields::read(&words, Draw::Of(name)),
    );
    let (Ok(plan), Ok(fields)) = read else {
        return Err(TestCaseError::fail(format!("{text} is not read")));
    };
    let mut at = local;
    for _ in 0..4 {
        let end = (at + FAR).min(4_102_444_800);
        let twin = first_between(&fields, at, end);
        let (steps, found) = search_work::steps_of(|| plan.first_local_from(at));
        prop_assert!(steps <= 3_200, "{} took {} steps from {}", text, steps, at);
        prop_assert_eq!(found.filter(|found| *found < end), twin, "{} from {}", text, at);
        let Some(found) = found else { break };
        prop_assert!(found >= at);
        at = found + 1;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]
    #[test]
    fn masks_find_what_the_plan_finds(text in texts(), local in 0..4_000_000_000_i64, name in "[a-z]{1,8}") {
        the_plan_and_its_twin_agree(&text, local, &name)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250_000, ..ProptestConfig::default() })]
    #[test]
    #[ignore = "a minute: script/zones"]
    fn masks_find_what_the_plan_finds_in_250_000_expressions(
        text in texts(), local in 0..4_000_000_000_i64, name in "[a-z]{1,8}",
    ) {
        the_plan_and_its_twin_agree(&text, local, &name)?;
    }
}
