//! Tests of iCalendar files, read as days and spans of time.

use super::host;
use crate::config::schedule::ics;
use schedd_schedule::day_sets::{DayItem, DaySet};

fn events(text: &str) -> Vec<String> {
    let text = format!("BEGIN:VCALENDAR\n{text}\nEND:VCALENDAR");
    DaySet::of(ics::read(&text, &host(), 100).unwrap_or_else(|error| panic!("{error:?}"))).texts()
}

#[test]
fn events_are_days_or_spans_with_what_repeats() {
    let event = |lines: &str| events(&format!("BEGIN:VEVENT\n{lines}\nEND:VEVENT"));
    assert_eq!(
        event("DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261227"),
        ["2026-12-24..2026-12-26"]
    );
    assert_eq!(event("DTSTART;VALUE=DATE:20261224\nDURATION:P2D"), ["2026-12-24..2026-12-25"]);
    assert_eq!(
        event(
            "DTSTART;TZID=Europe/Berlin:20260701T100000\nDTEND;TZID=Europe/Berlin:20260701T113000"
        ),
        ["2026-07-01T08:00:00.000Z..2026-07-01T09:30:00.000Z"]
    );
    assert_eq!(
        event("DTSTART:20260701T100000Z\nDURATION:PT30M"),
        ["2026-07-01T10:00:00.000Z..2026-07-01T10:30:00.000Z"]
    );
    assert_eq!(
        event("DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=YEARLY;COUNT=3\nEXDATE;VALUE=DATE:20270101"),
        ["2026-01-01", "2028-01-01"]
    );
    assert_eq!(event("DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=YEARLY").len(), 74);
    assert_eq!(
        event("DTSTART;VALUE=DATE:20260101\nRDATE;VALUE=DATE:20260301,20260305"),
        ["2026-01-01", "2026-03-01", "2026-03-05"]
    );
    let whole = Vec::<String>::new();
    assert_eq!(event("DTSTART;VALUE=DATE:20260101\nSTATUS:CANCELLED"), whole);
    assert_eq!(
        event("DTSTART:20260101T100000Z\nDTEND:20260101T110000Z\nTRANSP:TRANSPARENT"),
        whole
    );
    assert_eq!(
        event(
            "DTSTART;VALUE=DATE:20260101\nSUMMARY:a\n :b\nBEGIN:VALARM\nTRIGGER:-PT5M\nDURATION:PT1H\nEND:VALARM"
        ),
        ["2026-01-01"]
    );
}

#[test]
fn a_calendar_nobody_could_mean_is_refused_with_its_line() {
    for (text, line, wanted) in [
        ("hello", 1, "no BEGIN:VCALENDAR"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VEVENT\nEND:VCALENDAR", 2, "without DTSTART"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101", 2, "without END:VEVENT"),
        ("BEGIN:VCALENDAR", 1, "without END:VCALENDAR"),
        (
            "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101\nEND:VEVENT\n",
            1,
            "without END:VCALENDAR, wanted a complete file",
        ),
        ("BEGIN:VCALENDAR\nEND:VCALENDAR\nBEGIN:VCALENDAR\nEND:VCAL", 3, "without END:VCALENDAR"),
        (
            "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;TZID=Nowhere:20260101T000000\nEND:VEVENT\nEND:VCALENDAR",
            3,
            "zone \"Nowhere\" is not known",
        ),
        (
            "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101\nRRULE:FREQ=DAILY\nEND:VEVENT\nEND:VCALENDAR",
            4,
            "more than 100 times before 2100",
        ),
        (
            "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101\nRRULE:FREQ=DALY\nEND:VEVENT\nEND:VCALENDAR",
            4,
            "is not a frequency",
        ),
        (
            "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260102\nDTEND:20260101\nEND:VEVENT\nEND:VCALENDAR",
            2,
            "ends before it starts",
        ),
    ] {
        let error = ics::read(text, &host(), 100).unwrap_err();
        assert!(error.line == line && error.problem.contains(wanted), "{text}: {error:?}");
    }
}

#[test]
fn whatever_a_calendar_holds_reading_it_is_bounded_and_never_panics() {
    let lines = [
        "BEGIN:VCALENDAR",
        "END:VCALENDAR",
        "BEGIN:VEVENT",
        "END:VEVENT",
        "DTSTART;VALUE=DATE:20260228",
        "DTSTART:20260101T250000Z",
        "DTEND:20991231T235960Z",
        "DTSTART;TZID=\"Europe/Berlin\":20260329T023000",
        "DURATION:P9999999D",
        "DURATION:PT99999999999999999H",
        "RRULE:FREQ=SECONDLY",
        "RRULE:FREQ=YEARLY;BYMONTHDAY=-1",
        "EXDATE:,",
        "RDATE:é",
        " é",
        "\u{0}",
        ":",
        ";;;=:",
        "BEGIN:VALARM",
        "X-WR-TIMEZONE:Asia/Tokyo",
        "DTSTART:99999999T999999",
        "DTSTART:20260101T000000",
        "DTEND:20260101T010000",
    ];
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..4_000 {
        let text: Vec<&str> =
            (0..random.usize(1..12)).map(|_| lines[random.usize(..lines.len())]).collect();
        let text = format!("BEGIN:VCALENDAR\n{}\nEND:VCALENDAR", text.join("\n"));
        if let Ok(items) = ics::read(&text, &host(), 100) {
            assert!(
                items.len() <= 100
                    && items
                        .iter()
                        .all(|item| !matches!(item, DayItem::Dates(first, last) if first > last)),
                "{text}"
            );
        }
    }
}

#[test]
fn an_event_in_the_place_of_one_of_its_series_replaces_it() {
    let series =
        "BEGIN:VEVENT\nUID:w\nDTSTART;VALUE=DATE:20261130\nRRULE:FREQ=WEEKLY;COUNT=4\nEND:VEVENT\n";
    let place = |day: &str, lines: &str| {
        format!(
            "BEGIN:VEVENT\nUID:w\nRECURRENCE-ID;VALUE=DATE:{day}\nDTSTART;VALUE=DATE:{day}\n{lines}END:VEVENT\n"
        )
    };
    let moved = place("20261207", "DTSTART;VALUE=DATE:20261208\n");
    let cancelled = place("20261214", "STATUS:CANCELLED\n");
    assert_eq!(
        events(&format!("{cancelled}{series}{moved}")),
        ["2026-11-30", "2026-12-08", "2026-12-21"]
    );
    let other = moved.replace("UID:w", "UID:x");
    assert_eq!(
        events(&format!("{series}{other}")),
        ["2026-11-30", "2026-12-07..2026-12-08", "2026-12-14", "2026-12-21"]
    );
    let timed = "BEGIN:VEVENT\nUID:w\nDTSTART;TZID=Europe/Berlin:20261130T080000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=2\nEND:VEVENT\n\
                 BEGIN:VEVENT\nUID:w\nRECURRENCE-ID:20261201T070000Z\nDTSTART:20261201T100000Z\nSTATUS:CANCELLED\nEND:VEVENT";
    assert_eq!(events(timed), ["2026-11-30T07:00:00.000Z..2026-11-30T08:00:00.000Z"]);
    let text =
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nRECURRENCE-ID;RANGE=THISANDFUTURE:20261201\nEND:VEVENT";
    let error = ics::read(text, &host(), 100).unwrap_err();
    assert!(
        error.line == 3
            && error.problem.contains("RANGE, a change of all later occurrences, is not supported"),
        "{error:?}"
    );
}

#[test]
fn the_end_of_a_series_is_an_instant_and_what_is_left_out_is_read_in_its_own_zone() {
    let begins = |lines: &str| {
        let found = events(&format!("BEGIN:VEVENT\n{lines}\nDURATION:PT1S\nEND:VEVENT"));
        found.iter().map(|span| span[..16].to_owned()).collect::<Vec<_>>()
    };
    let tokyo = "DTSTART;TZID=Asia/Tokyo:20261130T230000\nRRULE:FREQ=DAILY;UNTIL=20261202T145959Z";
    assert_eq!(begins(tokyo), ["2026-11-30T14:00", "2026-12-01T14:00", "2026-12-02T14:00"]);
    let york =
        "DTSTART;TZID=America/New_York:20261201T030000\nRRULE:FREQ=DAILY;UNTIL=20261203T045959Z";
    assert_eq!(begins(york), ["2026-12-01T08:00", "2026-12-02T08:00"]);
    let berlin = "DTSTART;TZID=Europe/Berlin:20261130T080000\nRRULE:FREQ=DAILY;COUNT=3\n";
    for gone in [
        "EXDATE;TZID=Europe/Berlin:20261201T080000",
        "EXDATE:20261201T080000",
        "EXDATE:20261201T070000Z",
        "EXDATE:20261201",
    ] {
        assert_eq!(
            begins(&format!("{berlin}{gone}")),
            ["2026-11-30T07:00", "2026-12-02T07:00"],
            "{gone}"
        );
    }
    assert_eq!(
        begins(&format!("{berlin}EXDATE;TZID=Asia/Tokyo:20261201T160000")),
        ["2026-11-30T07:00", "2026-12-02T07:00"]
    );
}

#[test]
fn free_timed_events_are_left_out_all_day_ones_stay_and_durations_are_read() {
    let event = |lines: &str| events(&format!("BEGIN:VEVENT\n{lines}\nEND:VEVENT"));
    assert_eq!(
        event("TRANSP:TRANSPARENT\nDTSTART:20260101T100000Z\nDTEND:20260101T110000Z"),
        [""; 0]
    );
    assert_eq!(event("TRANSP:TRANSPARENT\nDTSTART;VALUE=DATE:20260101"), ["2026-01-01"]);
    let lasting = |duration: &str| event(&format!("DTSTART:20260101T000000Z\nDURATION:{duration}"));
    assert_eq!(lasting("P1DT12H"), ["2026-01-01T00:00:00.000Z..2026-01-02T12:00:00.000Z"]);
    assert_eq!(lasting("+P1W"), ["2026-01-01T00:00:00.000Z..2026-01-08T00:00:00.000Z"]);
    for bad in ["1h", "-PT1H", "P", "PT1X"] {
        let text = format!("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDURATION:{bad}\nEND:VEVENT");
        assert!(
            ics::read(&text, &host(), 100).unwrap_err().problem.contains("not a duration"),
            "{bad}"
        );
    }
}

#[test]
fn a_file_that_would_take_long_to_follow_is_refused_by_counted_steps() {
    let event = |uid: usize, lines: &str| format!("BEGIN:VEVENT\nUID:{uid}\n{lines}\nEND:VEVENT\n");
    let refused = |events: String| {
        let text = format!("BEGIN:VCALENDAR\n{events}END:VCALENDAR");
        ics::read(&text, &host(), DaySet::MOST).unwrap_err()
    };
    // None of these events takes up a day, so their number alone refuses nothing.
    let daily = "DTSTART:20260101T090000\nRRULE:FREQ=DAILY;COUNT=5000";
    let error = refused((0..999).map(|uid| event(uid, daily)).collect());
    assert!(
        error
            .problem
            .starts_with("the events up to this line take more than 1000000 steps to expand"),
        "{error:?}"
    );
    let sparse =
        "DTSTART:20260101T090000\nRRULE:FREQ=SECONDLY;INTERVAL=97;BYHOUR=3;BYMINUTE=7;BYSECOND=11";
    assert!(
        refused((0..999).map(|uid| event(uid, sparse)).collect())
            .problem
            .contains("steps to expand")
    );
    let place = |at: usize| {
        event(
            7,
            &format!("RECURRENCE-ID:20260101T{:02}{:02}00\nSTATUS:CANCELLED", at / 60, at % 60),
        )
    };
    let places: String = (0..1_400).map(place).collect();
    let series = event(7, "DTSTART:20260101T090000").repeat(800);
    assert!(refused(places + &series).problem.contains("steps to expand"));
    let many = (0..1_001)
        .map(|uid| event(uid, "DTSTART:20260101T090000\nRRULE:FREQ=DAILY;COUNT=1"))
        .collect();
    assert!(refused(many).problem.contains("more than 1000 recurrence rules up to this line"));
}

#[test]
fn zones_nobody_knows_are_passed_over_in_a_file_however_many() {
    let names: Vec<String> =
        (0..20_000).map(|number| format!("X-WR-TIMEZONE:Europe/Munich{number}\n")).collect();
    let names = names.concat();
    assert_eq!(
        events(&format!("{names}BEGIN:VEVENT\nDTSTART;VALUE=DATE:20261224\nEND:VEVENT")),
        ["2026-12-24"]
    );
}
