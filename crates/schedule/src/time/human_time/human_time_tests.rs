//! Tests with examples around Saturday, 2026-11-21 10:00 in Berlin (09:00 UTC), and around its
//! clock changes.

use proptest::prelude::*;

use super::*;
use crate::mutation::mutants_of;
use crate::time::zone::ZoneName;

const NOW: &str = "2026-11-21T09:00:00Z";

fn berlin() -> Zone {
    Zone::load(&"Europe/Berlin".parse::<ZoneName>().unwrap()).unwrap()
}

fn parse_at(text: &str, now: &str) -> Result<Instant, InstantError> {
    parse_instant(text, UnixMillis::from_timestamp(now.parse().unwrap()).unwrap(), &berlin())
}

fn shown(text: &str, now: &str) -> String {
    let found = parse_at(text, now).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found.note, None, "{text}");
    found.at.to_string()
}

fn refusal(text: &str) -> String {
    parse_at(text, NOW).unwrap_err().to_string()
}

#[test]
fn a_zone_behind_a_time_and_a_damaged_basic_form_are_refused_with_what_to_write() {
    for text in ["9am Europe/Atlantis", "2026-12-24 09:00 Europe/Atlantis"] {
        assert!(
            refusal(text).ends_with("wanted the end of the text (give the zone with --tz)"),
            "{}",
            refusal(text)
        );
    }
    assert!(refusal("tomorrow 9am sharp").ends_with("wanted the end of the text"));
    for (text, wanted) in [
        ("20261324T090000", "not a date from 1970 to 2099"),
        ("20261224T9", "wanted HHMM or HHMMSS"),
        ("20261224T246000", "wanted HHMM or HHMMSS"),
        ("20261224T09:00", "wanted HHMM or HHMMSS"),
        ("20261224T090000+1", "is not an offset from UTC"),
        ("20261224T", "wanted HHMM or HHMMSS"),
    ] {
        assert!(refusal(text).contains(wanted), "{}", refusal(text));
    }
}

#[test]
fn a_zone_after_a_time_is_read_as_the_outputs_have_it() {
    for (text, wanted) in [
        ("tomorrow 9am UTC", "2026-11-22T09:00:00.000Z"),
        ("tomorrow 9am Europe/London", "2026-11-22T09:00:00.000Z"),
        ("Tue 2026-11-24 02:30:00 EST in America/New_York", "2026-11-24T07:30:00.000Z"),
        ("02:30:00 JST in Asia/Tokyo", "2026-11-21T17:30:00.000Z"),
        ("Tue 2026-11-24 02:30:00 CET", "2026-11-24T01:30:00.000Z"),
        ("Tue 2026-11-24 02:30:00.250 cet", "2026-11-24T01:30:00.250Z"),
        ("2026-07-01 09:00 CEST", "2026-07-01T07:00:00.000Z"),
        ("Tue 2026-11-24 02:30:00 -03", "2026-11-24T05:30:00.000Z"),
        ("2026-11-24 02:30 +05:30", "2026-11-23T21:00:00.000Z"),
        // The abbreviation chooses one of the two instants of a repeated time.
        ("Sun 2027-10-31 02:30:00 CEST", "2027-10-31T00:30:00.000Z"),
        ("Sun 2027-10-31 02:30:00 CET", "2027-10-31T01:30:00.000Z"),
        ("11-24 02:30:00", "2026-11-24T01:30:00.000Z"),
        ("11-20 02:30:00", "2027-11-20T01:30:00.000Z"),
        ("10-31 02:30:00 CET", "2027-10-31T01:30:00.000Z"),
    ] {
        if text.starts_with("10-31") {
            let found = parse_at(text, "2027-10-01T00:00:00Z").unwrap();
            assert_eq!(found.at.to_string(), wanted, "{text}");
        } else {
            assert_eq!(shown(text, NOW), wanted, "{text}");
        }
    }
    for (text, wanted) in [
        ("2026-12-24 09:00 CEST", "is not the time that Europe/Berlin has on that day, wanted CET"),
        ("2027-03-28 02:30 CET", "the clock skips this time"),
        ("2026-12-24 09:00 PST", "wanted the end of the text"),
        ("02-30 09:00", "is not a month and a day that exists"),
    ] {
        assert!(refusal(text).contains(wanted), "{}", refusal(text));
    }
}

#[test]
fn every_form_people_write_is_read() {
    for (text, wanted) in [
        ("2026-12-24T09:00:00+01:00", "2026-12-24T08:00:00.000Z"),
        ("2026-12-24T09:00:00+01", "2026-12-24T08:00:00.000Z"),
        ("20261224T090030Z", "2026-12-24T09:00:30.000Z"),
        ("20261224T0900", "2026-12-24T08:00:00.000Z"),
        ("20261224T090000-03", "2026-12-24T12:00:00.000Z"),
        ("2026-12-24t09:00:00z", "2026-12-24T09:00:00.000Z"),
        ("2026-12-24 09:00:00.25Z", "2026-12-24T09:00:00.250Z"),
        ("2026-12-24T09:00-0330", "2026-12-24T12:30:00.000Z"),
        ("2026-12-24T09:00", "2026-12-24T08:00:00.000Z"),
        ("2026-12-24 09:00", "2026-12-24T08:00:00.000Z"),
        ("2026-12-24 09:00:30", "2026-12-24T08:00:30.000Z"),
        ("2026-12-24 9am", "2026-12-24T08:00:00.000Z"),
        ("2026-12-24 at noon", "2026-12-24T11:00:00.000Z"),
        ("2026-12-24", "2026-12-23T23:00:00.000Z"),
        ("2026-07-01", "2026-06-30T22:00:00.000Z"),
        ("10:30", "2026-11-21T09:30:00.000Z"),
        ("09:00", "2026-11-22T08:00:00.000Z"),
        ("10:00", "2026-11-22T09:00:00.000Z"),
        ("9am", "2026-11-22T08:00:00.000Z"),
        ("9 PM", "2026-11-21T20:00:00.000Z"),
        ("9:30pm", "2026-11-21T20:30:00.000Z"),
        ("12am", "2026-11-21T23:00:00.000Z"),
        ("noon", "2026-11-21T11:00:00.000Z"),
        ("midnight", "2026-11-21T23:00:00.000Z"),
        ("at noon", "2026-11-21T11:00:00.000Z"),
        ("today 17:00", "2026-11-21T16:00:00.000Z"),
        ("today 08:00", "2026-11-21T07:00:00.000Z"),
        ("tomorrow 9am", "2026-11-22T08:00:00.000Z"),
        ("  Tomorrow  AT\t9am ", "2026-11-22T08:00:00.000Z"),
        ("fri 17:00", "2026-11-27T16:00:00.000Z"),
        ("friday at 5 pm", "2026-11-27T16:00:00.000Z"),
        ("sat 17:00", "2026-11-21T16:00:00.000Z"),
        ("sat 09:00", "2026-11-28T08:00:00.000Z"),
        ("next sat 17:00", "2026-11-28T16:00:00.000Z"),
        ("next fri 17:00", "2026-11-27T16:00:00.000Z"),
        ("in 2h30m", "2026-11-21T11:30:00.000Z"),
        ("in 1h 30m", "2026-11-21T10:30:00.000Z"),
        ("in 10 minutes", "2026-11-21T09:10:00.000Z"),
        ("tomorrow", "2026-11-21T23:00:00.000Z"),
        ("today", "2026-11-20T23:00:00.000Z"),
        ("yesterday 9am", "2026-11-20T08:00:00.000Z"),
        ("fri", "2026-11-26T23:00:00.000Z"),
        ("sat", "2026-11-27T23:00:00.000Z"),
        ("next fri", "2026-11-26T23:00:00.000Z"),
        ("on friday at noon", "2026-11-27T11:00:00.000Z"),
        ("9am tomorrow", "2026-11-22T08:00:00.000Z"),
        ("noon on next fri", "2026-11-27T11:00:00.000Z"),
        ("5 pm fri", "2026-11-27T16:00:00.000Z"),
        ("dec 24 9am", "2026-12-24T08:00:00.000Z"),
        ("24 dec 9am", "2026-12-24T08:00:00.000Z"),
        ("24th december at 9:30 pm", "2026-12-24T20:30:00.000Z"),
        ("24 dec 2026", "2026-12-23T23:00:00.000Z"),
        ("Dec 24, 2026 9am", "2026-12-24T08:00:00.000Z"),
        ("thu, 24 dec 2026 09:00:00", "2026-12-24T08:00:00.000Z"),
        ("9am dec 24 2027", "2027-12-24T08:00:00.000Z"),
        ("nov 21 9am", "2027-11-21T08:00:00.000Z"),
        ("nov 21 11:00", "2026-11-21T10:00:00.000Z"),
        ("1 jan", "2026-12-31T23:00:00.000Z"),
        ("29 feb", "2028-02-28T23:00:00.000Z"),
        ("9am 2026-12-24", "2026-12-24T08:00:00.000Z"),
        ("now", "2026-11-21T09:00:00.000Z"),
        ("2h30m ago", "2026-11-21T06:30:00.000Z"),
        ("3 days ago", "2026-11-18T09:00:00.000Z"),
        ("in PT2H30M", "2026-11-21T11:30:00.000Z"),
        ("1790000000", "2026-09-21T14:13:20.000Z"),
        ("1790000000123", "2026-09-21T14:13:20.123Z"),
        ("@1790000000", "2026-09-21T14:13:20.000Z"),
        ("@1790000000123", "2026-09-21T14:13:20.123Z"),
        ("@0", "1970-01-01T00:00:00.000Z"),
    ] {
        assert_eq!(shown(text, NOW), wanted, "{text}");
    }
}

#[test]
fn an_unknown_word_is_pointed_at_with_the_accepted_forms() {
    let error = parse_at("tomorow 9", NOW).unwrap_err();
    assert_eq!(error.offset, 0);
    let text = error.to_string();
    assert!(
        text.starts_with(
            "time \"tomorow 9\": \"tomorow\" at character 1 is not understood (did you mean \"tomorrow\"?), wanted "
        )
    );
    assert!(text.contains("\"in 2h30m\"") && text.contains("\"@1790000000\""));
    assert_eq!(parse_at("tomorrow 9am sharp", NOW).unwrap_err().offset, 13);
    assert!(
        refusal("tomorrow 9")
            .contains("\"9\" at character 10 is not a time of day, write \"9:00\" or \"9am\"")
    );
    assert!(
        refusal("next week")
            .contains("\"week\" at character 6 after \"next\" is not a weekday, wanted a weekday")
    );
    assert!(refusal("next").contains("\"next\" at character 1 is not followed by a weekday"));
    assert!(
        refusal("tomorrow at").contains("has no time of day after \"tomorrow\" at character 1")
    );
    assert!(refusal("dec").contains("\"dec\" at character 1 is not followed by a day"));
    assert!(refusal("dec 32").contains("32 dec is not a date"));
    assert!(refusal("30 feb 2027 9am").contains("30 feb 2027 is not a date"));
    assert!(refusal("dec 9am").contains("\"9am\" at character 5 is not a day of a month"));
    assert!(refusal("fri 24 dec 2026").contains(
        "\"fri\" at character 1 is not the weekday of 2026-12-24, wanted Thursday or no weekday"
    ));
    assert!(refusal("fri 24 dec").contains("without a year"));
    assert!(
        refusal("9am tomorrow sharp").contains("\"sharp\" at character 14 follows a complete time")
    );
    let zone = refusal("2026-11-30 02:30:00 AEST");
    assert!(zone.contains("has no such abbreviation; write an offset"), "{zone}");
    assert!(refusal("decembr 24").contains("did you mean \"december\"?"));
    assert!(refusal("2h30m").contains("is a duration, wanted a time such as \"in 2h30m\""));
    assert!(
        refusal("30")
            .contains("\"30\" at character 1 is not a time of day, wanted a time of day such as")
    );
    assert!(refusal("17").contains("write \"17:00\""));
    assert!(refusal("1700").contains("write \"17:00\""));
    assert!(
        refusal("20261224")
            .contains("write \"2026-12-24\" for a date or \"@20261224\" for seconds since 1970")
    );
    assert!(refusal("99999").contains("write \"@99999\" for seconds since 1970"));
    assert!(refusal(&"9".repeat(300)).contains("the text has 300 bytes, wanted at most 200"));
    assert!(refusal("in 30").contains("has no unit, write \"30s\""));
    assert!(refusal(" ").contains("is empty, wanted"));
    assert!(refusal("10y").contains("\"10y\" at character 1 is not understood, wanted \"2026-"));
    assert!(refusal("heute 9am").contains("\"heute\" at character 1 is not understood, wanted"));
}

#[test]
fn a_date_whose_month_is_not_clear_is_refused_with_what_it_may_mean() {
    for (text, wanted) in [
        (
            "02/03/2026",
            "has an unclear order of day and month, wanted \"2026-03-02\" or \"2026-02-03\"",
        ),
        ("02/03/2026 9am", "wanted \"2026-03-02\" or \"2026-02-03\""),
        ("9am 02.03.2026", "wanted \"2026-03-02\" or \"2026-02-03\""),
        ("02-03-2026", "wanted \"2026-03-02\" or \"2026-02-03\""),
        ("24/12/2026", "wanted \"2026-12-24\""),
        ("12/24/2026", "wanted \"2026-12-24\""),
        ("24.12.2026", "wanted \"2026-12-24\""),
        ("05/05/2026", "wanted \"2026-05-05\""),
        ("2026/12/24", "wanted \"2026-12-24\""),
        ("02/03", "wanted \"2 mar\" or \"3 feb\""),
        ("24/12", "wanted \"24 dec\""),
        ("02/03/26", "wanted a date as in \"2026-12-24\""),
        ("99/99/2026", "wanted a date as in \"2026-12-24\""),
    ] {
        let found = refusal(text);
        assert!(found.ends_with(wanted), "{found}");
    }
}

#[test]
fn what_is_no_time_or_date_is_refused_where_it_stands() {
    for (text, part) in [
        ("2026-02-30", "\"2026-02-30\" at character 1 is not a date"),
        ("2026-12-24 25:00", "\"25:00\" at character 12 is not a time of day"),
        ("2026-12-24T09:00:60Z", "\"09:00:60\" at character 12 is not a time of day"),
        ("2026-12-24T09:00+25:00", "\"+25:00\" at character 17 is not an offset from UTC"),
        ("2026-12-24T", "\"\" at character 12"),
        ("13pm", "\"13pm\" at character 1 is not a time of day"),
        ("0am", "is not a time of day"),
        ("9:5", "is not a time of day"),
        ("@", "is not a number of seconds since 1970"),
        ("@@5", "is not a number of seconds since 1970"),
        ("@-5", "is not a number of seconds since 1970"),
    ] {
        let found = refusal(text);
        assert!(found.contains(part), "{found}");
    }
}

#[test]
fn what_is_not_within_1970_to_2099_is_refused() {
    for text in [
        "9999-01-01",
        "9999-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01",
        "2099-12-31T23:59:59-01:00",
        "99999-01-01",
        "@4102444800",
        "@1000000000000000000",
        "@99999999999999999999999",
        "@9999999999999",
        "in 80y",
        "in 90000d",
        "in 36525d",
        "-1",
    ] {
        assert!(parse_at(text, NOW).is_err(), "{text}");
    }
    assert!(refusal("9999-01-01").contains("1970 to 2099"));
    assert!(refusal("@1000000000000000000").contains("1970 to 2099"));
    assert_eq!(shown("2099-12-31T23:59:59.999Z", NOW), "2099-12-31T23:59:59.999Z");
}

#[test]
fn a_local_time_inside_a_gap_is_refused_with_the_first_instant_after() {
    let wanted = "2027-03-28 02:30:00 does not exist in Europe/Berlin, because the clock skips this time; \
                  the last second before the gap is 2027-03-28T01:59:59+01:00, the first instant after the gap is 2027-03-28T03:00:00+02:00";
    assert!(refusal("2027-03-28T02:30").contains(wanted), "{}", refusal("2027-03-28T02:30"));
    let eve = "2027-03-27T12:00:00Z";
    assert!(parse_at("02:30", eve).unwrap_err().problem.contains("does not exist"));
    assert!(parse_at("tomorrow 2:30am", eve).unwrap_err().problem.contains("does not exist"));
    assert_eq!(shown("2027-03-28T02:30Z", NOW), "2027-03-28T02:30:00.000Z");
}

#[test]
fn of_a_local_time_that_comes_twice_the_first_is_taken_and_said_so() {
    let found = parse_at("2026-10-25T02:30", NOW).unwrap();
    assert_eq!(found.at.to_string(), "2026-10-25T00:30:00.000Z");
    let wanted = "2026-10-25 02:30:00 occurs twice in Europe/Berlin: the first time, 2026-10-25T02:30:00+02:00, is used; \
                  the second time is 2026-10-25T02:30:00+01:00";
    assert_eq!(found.note.as_deref(), Some(wanted));
}

#[test]
fn a_time_of_day_in_a_fold_is_the_next_that_is_still_to_come() {
    // The time is 02:40 in the first pass. 02:30 is still to come once, and 02:50 twice.
    assert_eq!(
        parse_at("02:30", "2026-10-25T00:40:00Z").unwrap().at.to_string(),
        "2026-10-25T01:30:00.000Z"
    );
    assert_eq!(
        parse_at("02:50", "2026-10-25T00:40:00Z").unwrap().at.to_string(),
        "2026-10-25T00:50:00.000Z"
    );
    // The time is 02:10 in the second pass.
    let found = parse_at("02:30", "2026-10-25T01:10:00Z").unwrap();
    assert_eq!(found.at.to_string(), "2026-10-25T01:30:00.000Z");
    assert!(found.note.unwrap().contains("the second time is used"));
    assert_eq!(shown("02:00", "2026-10-25T01:10:00Z"), "2026-10-26T01:00:00.000Z");
}

#[test]
fn no_text_panics_however_a_good_one_is_damaged() {
    const GOOD: [&str; 16] = [
        "2026-12-24T09:00:00.25+01:00",
        "2026-12-24 at 9:30 pm",
        "2026-12-24T09:00Z",
        "tomorrow at 9am",
        "next friday 17:00",
        "thu, 24 dec 2026 09:00:00",
        "Dec 24th, 2026 noon",
        "9am on 29 feb",
        "in 2h30m",
        "3 days ago",
        "@1790000000123",
        "1790000000",
        "midnight",
        "02/03/2026",
        "24.12.2026 17:00",
        "2026-10-25 02:30",
    ];
    let zone = berlin();
    mutants_of(&GOOD, 40_000, |text, random| {
        let now = UnixMillis::new(random.i64(0..UnixMillis::END)).unwrap();
        for refused in [parse_instant(text, now, &zone).err(), parse_fixed(text, Some(&zone)).err()]
            .into_iter()
            .flatten()
        {
            assert!(
                refused.offset <= text.len() && text.is_char_boundary(refused.offset),
                "{text:?}: {refused:?}"
            );
            assert!(!refused.to_string().contains('\n'), "{text:?}");
        }
    });
}

proptest! {
    #[test]
    fn no_text_panics(
        text in "(today|tomorrow|next|fri|at|in|noon|[0-9]{1,4}[-:apmTZ+@.]{0,2}|2026-1[0-9]-[0-9]{2}|[ t]|2h|é){0,6}|\\PC{0,30}",
        now in 0..UnixMillis::END,
    ) {
        if let Err(error) = parse_instant(&text, UnixMillis::new(now).unwrap(), &berlin()) {
            prop_assert!(error.offset <= text.len() && text.is_char_boundary(error.offset), "{:?}", error);
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
