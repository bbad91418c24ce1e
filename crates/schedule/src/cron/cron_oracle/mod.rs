//! A second implementation of Debian's crontab(5) and cron(8), written independently of the code it
//! checks. The tests draw random expressions whose values are known by construction. A walker then
//! visits every real minute, as the daemon of the manual page does.

mod oracle_known;
mod walker;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::Date;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::{CronExpr, search_work};
use crate::clock_changes::{ClockChanges, Fold, Gap};
use crate::schedule_form::Schedule;
use crate::time::unix_millis::UnixMillis;
use crate::time::zone::{Zone, ZoneName};
use crate::timetable::Timetable;
use oracle_known::{OracleKnown, Sign};
use walker::{WalkWindow, walk};

/// The maximum number of occurrences compared for each case. The limit saves time, because a job
/// that follows real time has thousands of similar occurrences.
const COMPARED: usize = 300;

/// The tested zones. Their gaps and folds last an hour, half an hour or two hours, come at
/// midnight, or depend on Ramadan. The last two zones have corrections of the clock.
const ZONES: [(&str, i16); 9] = [
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

static WINDOWS: LazyLock<Vec<WalkWindow>> = LazyLock::new(|| {
    let mut windows = Vec::new();
    for (name, year) in ZONES {
        let zone = Zone::load(&name.parse::<ZoneName>().unwrap()).unwrap();
        let changes = changes_of(&zone, year, year + 4);
        assert!(changes.len() >= 2, "{name} has too few clock changes");
        windows.extend(changes.into_iter().take(4).map(|change| WalkWindow::around(&zone, change)));
    }
    windows
});

/// Returns the clock changes of a zone from the start of year `first` to the start of year `end`.
fn changes_of(zone: &Zone, first: i16, end: i16) -> Vec<Timestamp> {
    let new_year = |year| Date::new(year, 1, 1).unwrap().in_tz("UTC").unwrap().timestamp();
    let until = new_year(end);
    zone.rules()
        .following(new_year(first))
        .map(|change| change.timestamp())
        .take_while(|at| *at < until)
        .collect()
}

/// Generates an item of a field with values from `min` to `max`. `wraps` is the number of values
/// after which a range starts again. With `None`, a range must not run backwards.
fn item(min: i64, max: i64, wraps: Option<i64>) -> impl Strategy<Value = OracleKnown> {
    (0..5_u8, min..=max, min..=max, 1..(max * 2)).prop_map(move |(kind, a, b, step)| {
        let (low, high) = if wraps.is_none() && a > b { (b, a) } else { (a, b) };
        let end = if low > high { high + wraps.unwrap_or(0) } else { high };
        let fold = |value: i64| wraps.map_or(value, |period| (value - min) % period + min);
        let stepped = |from: i64, to: i64, by: i64| -> Vec<i64> {
            (from..=to).filter(|v| (v - from) % by == 0).map(fold).collect()
        };
        let (text, values) = match kind {
            0 => (format!("{a}"), stepped(a, a, 1)),
            1 => (format!("{low}-{high}"), stepped(low, end, 1)),
            2 => (format!("{low}-{high}/{step}"), stepped(low, end, step)),
            3 => (format!("{a}/{step}"), stepped(a, max, step)),
            _ => (format!("*/{step}"), stepped(min, max, step)),
        };
        OracleKnown::of_numbers(&text, values, text.starts_with('*'))
    })
}

/// Generates an item such as `L` or `5#2`, for the weekday field if `of_weekday` is true, else for
/// the day field.
fn sign(of_weekday: bool) -> impl Strategy<Value = OracleKnown> {
    (0..3_u8, 1..=31_i64, 0..=7_i64, 1..=5_i64).prop_map(move |(kind, day, weekday, nth)| {
        let (text, sign) = match (of_weekday, kind) {
            (false, 0) => ("L".to_owned(), Sign::Last),
            (false, 1) => ("LW".to_owned(), Sign::LastWorking),
            (false, _) => (format!("{day}W"), Sign::Nearest(day)),
            (true, 0) => (format!("{weekday}L"), Sign::LastOf(weekday % 7)),
            (true, _) => (format!("{weekday}#{nth}"), Sign::Nth(weekday % 7, nth)),
        };
        OracleKnown { text, values: BTreeSet::new(), signs: vec![sign], starred: false }
    })
}

fn field(
    (min, max, wraps): (i64, i64, Option<i64>),
    starred_of_ten: u32,
    item: impl Strategy<Value = OracleKnown> + 'static,
) -> impl Strategy<Value = OracleKnown> {
    let all = OracleKnown::of_numbers(
        "*",
        (min..=max).map(|v| wraps.map_or(v, |period| (v - min) % period + min)),
        true,
    );
    let listed = prop::collection::vec(item, 1..4).prop_map(|items| {
        let text = items.iter().map(|item| item.text.as_str()).collect::<Vec<_>>().join(",");
        let starred = text.starts_with('*');
        let signs = items.iter().flat_map(|item| item.signs.clone()).collect();
        OracleKnown {
            text,
            values: items.into_iter().flat_map(|item| item.values).collect(),
            signs,
            starred,
        }
    });
    prop_oneof![starred_of_ten => Just(all), 10 - starred_of_ten => listed]
}

/// Generates an hour field with hours at which most clock changes happen.
fn night_hour() -> impl Strategy<Value = OracleKnown> {
    select(vec![
        OracleKnown::of_numbers("2", [2], false),
        OracleKnown::of_numbers("0,2", [0, 2], false),
        OracleKnown::of_numbers("1-3", [1, 2, 3], false),
        OracleKnown::of_numbers("23-0", [23, 0], false),
        OracleKnown::of_numbers("0", [0], false),
        OracleKnown::of_numbers("3", [3], false),
    ])
}

/// Generates the fields minute, hour, day of month, month and weekday.
pub(super) fn expression() -> impl Strategy<Value = [OracleKnown; 5]> {
    let numbers = |rules: (i64, i64, Option<i64>), starred_of_ten| {
        field(rules, starred_of_ten, item(rules.0, rules.1, rules.2))
    };
    let hour = prop_oneof![night_hour(), numbers((0, 23, Some(24)), 2)];
    let days = |rules: (i64, i64, Option<i64>), of_weekday| {
        field(rules, 6, prop_oneof![2 => item(rules.0, rules.1, rules.2), 1 => sign(of_weekday)])
    };
    [
        numbers((0, 59, None), 2).boxed(),
        hour.boxed(),
        days((1, 31, None), false).boxed(),
        numbers((1, 12, Some(12)), 9).boxed(),
        days((0, 7, Some(7)), true).boxed(),
    ]
}

fn rule() -> impl Strategy<Value = ClockChanges> {
    let gap = prop_oneof![2 => Just(None), 1 => select(Gap::ALL.to_vec()).prop_map(Some)];
    let fold = prop_oneof![2 => Just(None), 1 => select(Fold::ALL.to_vec()).prop_map(Some)];
    (gap, fold).prop_map(|(gap, fold)| ClockChanges { gap, fold })
}

/// Compares the occurrences of an expression after `from`, within `window`, with the occurrences
/// that the walker finds. Returns the number of compared occurrences.
fn check(
    window: &WalkWindow,
    fields: &[OracleKnown; 5],
    rule: ClockChanges,
    from: i64,
) -> Result<usize, TestCaseError> {
    let text = fields.iter().map(|field| field.text.as_str()).collect::<Vec<_>>().join(" ");
    let Ok(expr) = text.parse::<CronExpr>() else {
        // Only a date that does not exist may be refused: 30 February, day 31 of short months, or
        // two signs that exclude each other.
        let day = &fields[2];
        let may_never_come = day.values.iter().all(|day| *day > 29) || !fields[4].signs.is_empty();
        prop_assert!(may_never_come, "{} is refused", text);
        return Ok(0);
    };
    let expr = expr.for_job("any", rule);
    let end = window.end();
    let wanted: Vec<i64> = walk(window, fields, rule).into_iter().filter(|at| *at > from).collect();
    let mut found = Vec::new();
    let mut last = from;
    while found.len() < COMPARED
        && let (steps, next) = search_work::steps_of(|| expr.first_from(&window.zone, last + 1))
        && let Some(next) = next.filter(|next| *next < end)
    {
        prop_assert!(next > last, "{} went from {} to {}", text, last, next);
        prop_assert!(steps <= 10_000, "{} took {} steps", text, steps);
        found.push(next);
        last = next;
    }
    let compared = wanted.get(..COMPARED).unwrap_or(&wanted);
    prop_assert_eq!(&found, compared, "{} in {} with {:?}", text, window.zone.name(), rule);
    let millis = |second: i64| UnixMillis::new(second * 1_000).unwrap();
    let table = Timetable::new(Schedule::Cron(vec![expr]), window.zone.clone(), millis(0));
    prop_assert_eq!(
        table.latest_in(millis(from + 1), millis(end - 1)),
        wanted.last().map(|last| millis(*last))
    );
    Ok(found.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]
    #[test]
    fn every_occurrence_is_one_debian_would_start(
        fields in expression(), rule in rule(), window in 0..WINDOWS.len(), from_minute in 0..3_000_i64, second in 0..60_i64,
    ) {
        let window = &WINDOWS[window];
        check(window, &fields, rule, window.start() + from_minute * 60 + second)?;
    }
}

/// Checks `expressions` random expressions at the clock changes of each zone of the system from
/// 1990 to 2040. Only every `only_each`-th change is checked.
fn every_zone(expressions: usize, only_each: usize) {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[5; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let case = (expression(), rule(), 0..1_500_i64);
    let (mut zones, mut windows, mut cases, mut compared) = (0, 0, 0, 0);
    let names: BTreeSet<String> =
        jiff::tz::db().available().map(|name| name.as_str().to_owned()).collect();
    for name in names {
        let Ok(name) = name.parse::<ZoneName>() else { continue };
        let zone = Zone::load(&name).unwrap();
        zones += 1;
        for (number, change) in changes_of(&zone, 1990, 2041).into_iter().enumerate() {
            if (zones + number) % only_each != 0 {
                continue;
            }
            let window = WalkWindow::around(&zone, change);
            windows += 1;
            for _ in 0..expressions {
                let (fields, rule, from_minute) = case.new_tree(&mut runner).unwrap().current();
                let from = window.start() + from_minute * 60 - 1;
                compared += check(&window, &fields, rule, from)
                    .unwrap_or_else(|why| panic!("{name} at {change}: {why}"));
                cases += 1;
            }
        }
    }
    println!(
        "{zones} zones, {windows} clock changes, {cases} cases, {compared} occurrences compared"
    );
    assert!(zones > 400 && windows > 40, "the zone data of this system is not whole");
}

#[test]
fn each_zone_keeps_the_rules_at_a_sample_of_its_clock_changes() {
    every_zone(1, 300);
}

#[test]
#[ignore = "minutes: script/zones"]
fn each_zone_keeps_the_rules_at_each_clock_change_from_1990_to_2040() {
    every_zone(5, 1);
}
