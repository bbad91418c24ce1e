use super::*;

fn set(texts: &[&str]) -> DaySet {
    DaySet::of(texts.iter().map(|text| text.parse().unwrap_or_else(|error| panic!("{error}"))))
}

fn ms(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

#[test]
fn a_set_of_days_has_one_text_however_it_was_written() {
    let days =
        set(&["2026-12-26", "sat", "2026-12-24..2026-12-25", "Sunday", "fri..sat", "2026-12-30"]);
    assert_eq!(days.texts(), ["fri", "sat", "sun", "2026-12-24..2026-12-26", "2026-12-30"]);
    let again = DaySet::of(days.texts().iter().map(|text| text.parse().unwrap()));
    assert_eq!(again, days);
    assert_eq!(set(&["sat..mon"]).texts(), ["mon", "sat", "sun"], "weeks go round");
    let span = set(&["2026-12-24T10:00:00+01:00..2026-12-24T12:00:00Z"]);
    assert_eq!(span.texts(), ["2026-12-24T09:00:00.000Z..2026-12-24T12:00:00.000Z"]);
    assert!(set(&[]).is_empty() && !span.is_empty());
}

#[test]
fn what_is_no_day_is_reported() {
    for (text, wanted) in [
        ("2026-02-30", "which is not a date"),
        ("2026-12-26..2026-12-24", "whose end is before its start"),
        ("someday", "wanted a date"),
        ("", "wanted a date"),
        ("2026-12-24T10:00:00Z..2026-12-24T10:00:00Z", "is an empty range"),
    ] {
        let message = text.parse::<DayItem>().unwrap_err().to_string();
        assert!(message.contains(wanted) && message.lines().count() == 1, "{text}: {message}");
    }
}

#[test]
fn the_first_instant_that_counts_is_found_past_days_and_spans() {
    let berlin = Zone::load(&"Europe/Berlin".parse().unwrap()).unwrap();
    let filter = |only_on: Option<&[&str]>, exclude: &[&str]| {
        Filter::new(only_on.map(set), set(exclude)).unwrap()
    };
    let first = |filter: &Filter, at: &str| filter.first_allowed(&berlin, ms(at));
    let weekend = filter(None, &["sat", "sun"]);
    assert_eq!(
        first(&weekend, "2026-11-20T22:59:59Z"),
        Some(ms("2026-11-20T22:59:59Z")),
        "still Friday in Berlin"
    );
    assert_eq!(first(&weekend, "2026-11-20T23:00:00Z"), Some(ms("2026-11-22T23:00:00Z")));
    let years = filter(None, &["2026-01-01..2089-12-31"]);
    assert_eq!(first(&years, "2026-11-20T22:59:59Z"), Some(ms("2089-12-31T23:00:00Z")));
    let meeting = filter(None, &["2026-11-20T10:00:00Z..2026-11-20T11:00:00Z", "sat"]);
    assert_eq!(first(&meeting, "2026-11-20T10:30:00Z"), Some(ms("2026-11-20T11:00:00Z")));
    let only = filter(
        Some(&["2026-12-24", "2026-12-31T20:00:00Z..2027-01-01T02:00:00Z"]),
        &["2026-12-31"],
    );
    assert_eq!(first(&only, "2026-11-20T10:30:00Z"), Some(ms("2026-12-23T23:00:00Z")));
    assert_eq!(
        first(&only, "2026-12-25T10:30:00Z"),
        Some(ms("2026-12-31T23:00:00Z")),
        "the span, once the day is over"
    );
    assert_eq!(first(&only, "2027-01-01T02:00:00Z"), None);
    let never = filter(Some(&["sat"]), &["fri..sun"]);
    assert_eq!(first(&never, "2026-11-20T10:30:00Z"), None);
}

#[test]
fn a_day_that_begins_with_a_gap_or_twice_is_left_and_entered_as_the_clock_shows() {
    // Cairo's clocks went from 00:00 to 01:00 on 2026-04-24, and from 24:00 back to 23:00 on
    // 2026-10-29.
    let cairo = Zone::load(&"Africa/Cairo".parse().unwrap()).unwrap();
    let only = Filter::new(Some(set(&["2026-04-24"])), DaySet::default()).unwrap();
    assert_eq!(
        only.first_allowed(&cairo, ms("2026-04-01T00:00:00Z")),
        Some(ms("2026-04-23T22:00:00Z"))
    );
    let only = Filter::new(Some(set(&["2026-10-29"])), set(&[])).unwrap();
    for hour in 0..48 {
        let at = ms("2026-10-28T12:00:00Z") + hour * 3_600_000;
        let local =
            cairo.rules().to_datetime(jiff::Timestamp::from_millisecond(at).unwrap()).date();
        assert_eq!(
            only.first_allowed(&cairo, at) == Some(at),
            local == jiff::civil::date(2026, 10, 29),
            "{hour}"
        );
    }
}

#[test]
fn random_filters_agree_with_a_walk_of_quarter_hours() {
    let mut random = fastrand::Rng::with_seed(3);
    let zones = ["Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "America/St_Johns", "UTC"];
    let begin = ms("2026-03-20T00:00:00Z");
    for round in 0..400 {
        let zone = Zone::load(&zones[random.usize(..zones.len())].parse().unwrap()).unwrap();
        let mut some = |least: usize| {
            DaySet::of((0..random.usize(least..4)).map(|_| match random.u8(..3) {
                0 => DayItem::Weekdays(random.u8(1..128)),
                1 => {
                    let first = begin / 86_400_000 + random.i64(0..60);
                    DayItem::Dates(first, first + random.i64(0..5))
                }
                _ => {
                    let first = begin + random.i64(0..5_000) * 900_000;
                    DayItem::Span(
                        UnixMillis::new(first).unwrap(),
                        UnixMillis::new(first + random.i64(1..300) * 900_000).unwrap(),
                    )
                }
            }))
        };
        let (only_on, exclude) = (some(0), some(0));
        let Some(filter) = Filter::new((!only_on.is_empty()).then_some(only_on), exclude) else {
            continue;
        };
        let from = begin + random.i64(0..2_000) * 900_000;
        let walked =
            (0..3_000).map(|step| from + step * 900_000).find(|at| filter.allows(&zone, *at));
        let found = filter.first_allowed(&zone, from).filter(|at| *at < from + 3_000 * 900_000);
        assert_eq!(found, walked, "{round}: {filter:?}");
    }
}
