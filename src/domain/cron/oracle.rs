//! A second reading of Debian's crontab(5) and cron(8), written apart from the code it judges: random expressions whose
//! values are known by construction, and a walker that looks at every real minute as the daemon of the man page would.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jiff::civil::DateTime;
use jiff::{Timestamp, ToSpan as _};
use proptest::prelude::*;
use proptest::sample::select;

use super::CronExpr;
use crate::domain::zone::{Zone, ZoneName};

/// A field: its text, its values, whether the text begins with `*`.
type Known = (String, BTreeSet<i64>, bool);

/// Two and a half days of real minutes around a clock change, each with what the wall clock shows.
struct Window {
    zone: Zone,
    first_minute: i64,
    clock: Vec<Shown>,
}

/// What the wall clock shows at a minute, and by how many minutes it moved there.
struct Shown {
    now: DateTime,
    step: i64,
}

/// Of how many occurrences of a case each is compared; a wild job has thousands, all alike.
const COMPARED: usize = 300;

/// Zones with gaps and folds of an hour, half an hour, two hours, at midnight, by Ramadan; the last two are corrections.
const ZONES: [(&str, i64); 9] = [
    ("Europe/Berlin", 2026),
    ("America/New_York", 2026),
    ("Australia/Lord_Howe", 2026),
    ("Africa/Casablanca", 2024),
    ("America/Santiago", 2025),
    ("Africa/Cairo", 2025),
    ("Antarctica/Troll", 2025),
    ("Pacific/Apia", 2011),
    ("Antarctica/Casey", 2010),
];

static WINDOWS: LazyLock<Vec<Window>> = LazyLock::new(|| {
    let mut windows = Vec::new();
    for (name, year) in ZONES {
        let zone = Zone::load(&name.parse::<ZoneName>().unwrap()).unwrap();
        let from: Timestamp = format!("{year}-01-01T00:00:00Z").parse().unwrap();
        let changes: Vec<Timestamp> = zone.rules().following(from).take(4).map(|change| change.timestamp()).collect();
        assert!(changes.len() >= 2, "{name} has too few clock changes");
        for change in changes {
            let first_minute = change.as_second().div_euclid(60) - 30 * 60;
            let show = |minute: i64| zone.rules().to_datetime(Timestamp::from_second((first_minute + minute) * 60).unwrap());
            let clock = (0..60 * 60)
                .map(|minute| Shown { now: show(minute), step: minutes_between(show(minute - 1), show(minute)) })
                .collect();
            windows.push(Window { zone: zone.clone(), first_minute, clock });
        }
    }
    windows
});

fn minutes_between(from: DateTime, to: DateTime) -> i64 {
    let between = to - from;
    i64::from(between.get_days()) * 1440 + i64::from(between.get_hours()) * 60 + between.get_minutes()
}

/// The real minutes of `window` at which cron(8) would start the job.
fn walk(window: &Window, [minute, hour, day, month, weekday]: &[Known; 5]) -> Vec<i64> {
    let shown = |(_, values, _): &Known, value: i8| values.contains(&i64::from(value));
    let due = |clock: DateTime| {
        let (by_day, by_weekday) = (shown(day, clock.day()), shown(weekday, clock.weekday().to_sunday_zero_offset()));
        let today = if day.2 || weekday.2 { by_day && by_weekday } else { by_day || by_weekday };
        today && shown(month, clock.month()) && shown(hour, clock.hour()) && shown(minute, clock.minute())
    };
    let wild = minute.2 || hour.2;
    let mut starts = Vec::new();
    let mut passed = DateTime::MIN;
    let mut before = DateTime::MIN;
    for (number, &Shown { now, step }) in window.clock.iter().enumerate() {
        let is_correction = (step - 1).abs() >= 180;
        let starts_now = if wild || is_correction {
            due(now)
        } else if step > 1 {
            (0..step).any(|skipped| due(now - skipped.minutes()))
        } else {
            if step < 1 {
                passed = before;
            }
            now > passed && due(now)
        };
        if starts_now {
            starts.push(window.first_minute + i64::try_from(number).unwrap());
        }
        before = now;
    }
    starts
}

/// One item of a field from `min` to `max`; `wraps` = after how many values a range may go on from the start.
fn item(min: i64, max: i64, wraps: Option<i64>) -> impl Strategy<Value = (String, BTreeSet<i64>)> {
    (0..5_u8, min..=max, min..=max, 1..(max * 2)).prop_map(move |(kind, a, b, step)| {
        let (low, high) = if wraps.is_none() && a > b { (b, a) } else { (a, b) };
        let end = if low > high { high + wraps.unwrap_or(0) } else { high };
        let fold = |value: i64| wraps.map_or(value, |period| (value - min) % period + min);
        let stepped = |from: i64, to: i64, by: i64| (from..=to).filter(|v| (v - from) % by == 0).map(fold).collect();
        match kind {
            0 => (format!("{a}"), stepped(a, a, 1)),
            1 => (format!("{low}-{high}"), stepped(low, end, 1)),
            2 => (format!("{low}-{high}/{step}"), stepped(low, end, step)),
            3 => (format!("{a}/{step}"), stepped(a, max, step)),
            _ => (format!("*/{step}"), stepped(min, max, step)),
        }
    })
}

fn field(min: i64, max: i64, wraps: Option<i64>, starred_of_ten: u32) -> impl Strategy<Value = Known> {
    let all = ("*".to_owned(), (min..=max).map(|v| wraps.map_or(v, |period| (v - min) % period + min)).collect(), true);
    let listed = prop::collection::vec(item(min, max, wraps), 1..4).prop_map(|items| {
        let text = items.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(",");
        let starred = text.starts_with('*');
        (text, items.into_iter().flat_map(|(_, values)| values).collect(), starred)
    });
    prop_oneof![starred_of_ten => Just(all), 10 - starred_of_ten => listed]
}

/// Hours in which the clocks of the windows change, for half of the cases.
fn night_hour() -> impl Strategy<Value = Known> {
    select(vec![
        ("2", vec![2]),
        ("0,2", vec![0, 2]),
        ("1-3", vec![1, 2, 3]),
        ("23-0", vec![23, 0]),
        ("0", vec![0]),
        ("3", vec![3]),
    ])
    .prop_map(|(text, values)| (text.to_owned(), values.into_iter().collect(), false))
}

fn expression() -> impl Strategy<Value = [Known; 5]> {
    let hour = prop_oneof![night_hour(), field(0, 23, Some(24), 2)];
    [
        field(0, 59, None, 2).boxed(),
        hour.boxed(),
        field(1, 31, None, 6).boxed(),
        field(1, 12, Some(12), 9).boxed(),
        field(0, 7, Some(7), 6).boxed(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]
    #[test]
    fn every_occurrence_is_one_debian_would_start(
        fields in expression(), window in 0..WINDOWS.len(), from_minute in 0..3_000_usize, second in 0..60_i64,
    ) {
        let window = &WINDOWS[window];
        let text = fields.iter().map(|(text, ..)| text.as_str()).collect::<Vec<_>>().join(" ");
        let Ok(expr) = text.parse::<CronExpr>() else {
            // Only a date that does not exist may be refused: 30 February, or 31 of short months.
            prop_assert!(fields[2].1.iter().all(|day| *day > 29), "{}", text);
            return Ok(());
        };
        let from = (window.first_minute + i64::try_from(from_minute).unwrap()) * 60 + second;
        let end = (window.first_minute + i64::try_from(window.clock.len()).unwrap()) * 60;
        let wanted: Vec<i64> = walk(window, &fields).into_iter().map(|minute| minute * 60).filter(|at| *at > from).collect();

        let mut found = Vec::new();
        let mut last = from;
        while found.len() < COMPARED
            && let Some(next) = expr.first_from(&window.zone, last + 1).filter(|next| *next < end)
        {
            prop_assert!(next > last, "{} went from {} to {}", text, last, next);
            found.push(next);
            last = next;
        }
        let compared = wanted.get(..COMPARED).unwrap_or(&wanted);
        prop_assert_eq!(&found, compared, "{} in {}", text, window.zone.name());
    }

    #[test]
    fn no_text_panics_or_goes_backwards(
        text in "([0-9*/,?LW#H@a-z-]{1,6}[ \t]{1,2}){4,7}[0-9*/,-]{0,3}|\\PC{0,40}|[0-9*,/ -]{0,30}|@[a-z]{0,9}", from in 0..4_102_444_800_i64,
    ) {
        match text.parse::<CronExpr>() {
            Ok(expr) => {
                let zone = &WINDOWS[0].zone;
                if let Some(next) = expr.first_from(zone, from) {
                    prop_assert!(next >= from);
                    prop_assert_eq!(expr.first_from(zone, next), Some(next));
                }
            }
            Err(error) => {
                prop_assert!(error.offset <= text.len() && text.is_char_boundary(error.offset), "{:?}", error);
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
