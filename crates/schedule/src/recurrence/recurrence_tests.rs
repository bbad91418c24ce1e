use std::fmt::Write as _;

use super::recurrence_oracle;
use super::recurrence_plan::RecurrencePlan;
use super::rule_reader::read_rule;
use super::*;

fn start(text: &str) -> jiff::civil::DateTime {
    text.parse().unwrap()
}

fn days(rule: &str, from: &str, count: usize) -> Vec<String> {
    let rule = Recurrence::new(rule, start(from)).unwrap_or_else(|error| panic!("{error}"));
    let mut at = i64::MIN / 2;
    let mut found = Vec::new();
    while found.len() < count
        && let Some(next) = rule.first_local_from(&Zone::utc(), at)
    {
        let shown = jiff::Timestamp::from_second(next).unwrap().to_string();
        found.push(shown.strip_suffix(":00Z").unwrap_or(&shown).replace("T09:00", ""));
        at = next + 1;
    }
    found
}

#[test]
fn the_examples_of_the_standard_come_as_it_says() {
    let from = "1997-09-02T09:00:00";
    for (rule, wanted) in [
        ("FREQ=DAILY;COUNT=3", "1997-09-02 1997-09-03 1997-09-04"),
        ("FREQ=DAILY;INTERVAL=10;COUNT=3", "1997-09-02 1997-09-12 1997-09-22"),
        ("FREQ=WEEKLY;INTERVAL=2;WKST=SU", "1997-09-02 1997-09-16 1997-09-30"),
        ("FREQ=WEEKLY;COUNT=4;WKST=SU;BYDAY=TU,TH", "1997-09-02 1997-09-04 1997-09-09 1997-09-11"),
        ("FREQ=MONTHLY;BYDAY=1FR", "1997-09-05 1997-10-03 1997-11-07"),
        ("FREQ=MONTHLY;INTERVAL=2;BYDAY=1SU,-1SU", "1997-09-07 1997-09-28 1997-11-02 1997-11-30"),
        ("FREQ=MONTHLY;BYDAY=-2MO", "1997-09-22 1997-10-20 1997-11-17"),
        ("FREQ=MONTHLY;BYMONTHDAY=-3", "1997-09-28 1997-10-29 1997-11-28"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,-1", "1997-09-30 1997-10-01 1997-10-31"),
        ("FREQ=YEARLY;BYMONTH=6,7", "1998-06-02 1998-07-02 1999-06-02"),
        ("FREQ=YEARLY;INTERVAL=3;BYYEARDAY=1,100,200", "2000-01-01 2000-04-09 2000-07-18"),
        ("FREQ=YEARLY;BYDAY=20MO", "1998-05-18 1999-05-17"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1998-05-11 1999-05-17 2000-05-15"),
        ("FREQ=YEARLY;BYMONTH=3;BYDAY=TH", "1998-03-05 1998-03-12 1998-03-19"),
        ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "1998-02-13 1998-03-13 1998-11-13"),
        (
            "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
            "1997-11-04 2001-11-06",
        ),
        ("FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "1997-09-04 1997-10-07 1997-11-06"),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", "1997-09-29 1997-10-30 1997-11-27"),
        (
            "FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T170000",
            "1997-09-02 1997-09-02T12:00 1997-09-02T15:00",
        ),
        ("FREQ=MINUTELY;INTERVAL=90;COUNT=3", "1997-09-02 1997-09-02T10:30 1997-09-02T12:00"),
        ("FREQ=DAILY;BYHOUR=9,10;BYMINUTE=0,20", "1997-09-02 1997-09-02T09:20 1997-09-02T10:00"),
        (
            "FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,16",
            "1997-09-02 1997-09-02T09:20 1997-09-02T09:40 1997-09-02T16:00",
        ),
        ("RRULE:FREQ=YEARLY;UNTIL=19981231", "1997-09-02 1998-09-02"),
    ] {
        let wanted: Vec<&str> = wanted.split(' ').collect();
        let found = days(rule, from, wanted.len());
        assert_eq!(found, wanted, "{rule}");
    }
    assert_eq!(
        days("FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", "1997-08-05T09:00", 9)
            .last()
            .unwrap(),
        "1997-08-31"
    );
    assert_eq!(
        days("FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", "1997-08-05T09:00", 9)
            .last()
            .unwrap(),
        "1997-08-24"
    );
}

#[test]
fn what_is_refused_is_reported_with_its_character() {
    for (rule, wanted) in [
        ("", "is empty"),
        ("FREQ=DALY", "\"DALY\" at character 6 is not a frequency"),
        ("INTERVAL=2", "has no frequency"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20270101", "has both COUNT and UNTIL"),
        ("FREQ=DAILY;COUNT=0", "\"0\" at character 18"),
        ("FREQ=DAILY;COUNT=99999999999", "wanted a number from 1 to 10000"),
        ("FREQ=DAILY;INTERVAL=2;INTERVAL=3", "is given twice"),
        ("FREQ=WEEKLY;BYDAY=XX", "\"XX\" at character 19 is not a weekday"),
        ("FREQ=WEEKLY;BYDAY=MO,WE\u{52b}H", "\"\u{52b}H\" at character 24 is not a weekday"),
        ("FREQ=WEEKLY;BYDAY=1MO", "\"1MO\" at character 19 has a numbered weekday"),
        ("FREQ=MONTHLY;BYWEEKNO=3", "has BYWEEKNO, wanted FREQ=YEARLY"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "has no time before 2100"),
        ("FREQ=DAILY;UNTIL=20171224T000000Z", "has no time before its UNTIL"),
        ("FREQ=DAILY;UNTIL=20171224", "has no time before its UNTIL"),
        ("FREQ=YEARLY;BYMONTHDAY=0", "not 0"),
        ("FREQ=YEARLY;BYEASTER=0", "is not a part of a rule"),
        ("FREQ=YEARLY;UNTIL=2026", "is not a date or time"),
        ("FREQ=YEARLY;;", "wanted NAME=VALUE"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS without another BY part"),
        ("FREQ=SECONDLY;INTERVAL=60;BYSECOND=30", "has no time before 2100"),
    ] {
        let message = Recurrence::new(rule, start("2026-01-01T00:00:00")).unwrap_err().to_string();
        assert!(message.contains(wanted), "{rule}: {message}");
    }
}

#[test]
fn a_daily_rule_runs_once_right_after_a_gap_and_an_hourly_one_follows_real_time() {
    let berlin = Zone::load(&"Europe/Berlin".parse().unwrap()).unwrap();
    let second = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_second();
    let daily = Recurrence::new("FREQ=DAILY", start("2026-01-01T02:30")).unwrap();
    assert_eq!(
        daily.first_from(&berlin, second("2026-03-28T12:00:00Z")),
        Some(second("2026-03-29T01:00:00Z"))
    );
    let hourly = Recurrence::new("FREQ=HOURLY", start("2026-01-01T00:30")).unwrap();
    assert_eq!(
        hourly.first_from(&berlin, second("2026-10-25T00:31:00Z")),
        Some(second("2026-10-25T01:30:00Z"))
    );
    let until =
        Recurrence::new("FREQ=DAILY;UNTIL=20260103T013000Z", start("2026-01-01T02:30")).unwrap();
    assert_eq!(
        until.first_from(&berlin, second("2026-01-03T01:30:00Z")),
        Some(second("2026-01-03T01:30:00Z"))
    );
    assert_eq!(until.first_from(&berlin, second("2026-01-03T01:30:01Z")), None);
}

#[test]
fn whatever_is_read_is_bounded_rises_strictly_and_never_panics() {
    let parts = [
        "FREQ=YEARLY",
        "FREQ=MONTHLY",
        "FREQ=WEEKLY",
        "FREQ=DAILY",
        "FREQ=HOURLY",
        "FREQ=MINUTELY",
        "FREQ=SECONDLY",
        "INTERVAL=7",
        "INTERVAL=61",
        "COUNT=3",
        "UNTIL=20301231",
        "BYDAY=MO,-1FR",
        "BYDAY=SU",
        "BYMONTHDAY=-1,31",
        "BYMONTH=2",
        "BYWEEKNO=53,-1",
        "BYYEARDAY=366,-366",
        "BYHOUR=0,23",
        "BYMINUTE=59",
        "BYSECOND=30",
        "BYSETPOS=-1,2",
        "WKST=SU",
        "X=",
        "=",
        "\u{0}",
        "é",
        "BYDAY=é",
        "COUNT=-1",
        "BYMONTHDAY=29;BYMONTH=2",
    ];
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..6_000 {
        let text: Vec<&str> =
            (0..random.usize(1..6)).map(|_| parts[random.usize(..parts.len())]).collect();
        let text = text.join(";");
        match Recurrence::new(&text, start("2026-02-28T23:59:59")) {
            Ok(rule) => {
                let mut at = i64::MIN / 2;
                for _ in 0..5 {
                    let Some(next) = rule.first_local_from(&Zone::utc(), at) else { break };
                    assert!(next >= at, "{text}");
                    at = next + 1;
                }
            }
            Err(error) => assert!(
                error.offset <= text.len() && error.to_string().lines().count() == 1,
                "{text:?}: {error}"
            ),
        }
    }
}

/// Returns a random rule without `COUNT`. Its parts are allowed together by RFC 5545.
fn random_rule(random: &mut fastrand::Rng) -> String {
    fn numbers(random: &mut fastrand::Rng, least: i64, most: i64) -> String {
        let number = |random: &mut fastrand::Rng| match random.i64(least..=most) {
            0 if least < 0 => 1,
            number => number,
        };
        let list: Vec<String> =
            (0..random.usize(1..5)).map(|_| number(random).to_string()).collect();
        list.join(",")
    }
    let freqs = ["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"];
    let freq = random.usize(..freqs.len());
    let mut text = format!("FREQ={}", freqs[freq]);
    let mut part = |random: &mut fastrand::Rng, name: &str, least: i64, most: i64, one_in: u32| {
        if random.u32(..one_in) == 0 {
            write!(text, ";{name}={}", numbers(random, least, most)).unwrap();
        }
    };
    part(random, "BYMONTH", 1, 12, 4);
    part(random, "BYMONTHDAY", -31, 31, if freq == 2 { u32::MAX } else { 4 });
    part(random, "BYYEARDAY", -366, 366, if (1..4).contains(&freq) { u32::MAX } else { 5 });
    part(random, "BYWEEKNO", -53, 53, if freq == 0 { 4 } else { u32::MAX });
    part(random, "BYHOUR", 0, 23, 3);
    part(random, "BYMINUTE", 0, 59, 3);
    part(random, "BYSECOND", 0, 59, 3);
    part(random, "BYSETPOS", -9, 9, 4);
    if random.bool() {
        let names = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
        let is_numbered = freq < 2 && !text.contains("WEEKNO");
        let one = |random: &mut fastrand::Rng| {
            let most = if freq == 0 { 53 } else { 5 };
            let number = if is_numbered && random.bool() { random.i64(-most..=most) } else { 0 };
            let name = names[random.usize(..7)];
            if number == 0 { name.to_owned() } else { format!("{number}{name}") }
        };
        let list: Vec<String> = (0..random.usize(1..4)).map(|_| one(random)).collect();
        write!(text, ";BYDAY={}", list.join(",")).unwrap();
    }
    if random.bool() {
        let most = *random.choice(&[3, 20, 100, 4_000, 90_000]).unwrap();
        write!(text, ";INTERVAL={}", random.i64(1..=most)).unwrap();
    }
    if random.u8(..4) == 0 {
        text.push_str(";WKST=SU");
    }
    text
}

#[test]
fn the_search_by_bits_finds_what_the_plain_one_finds() {
    let mut random = fastrand::Rng::with_seed(23);
    let (mut compared, mut found_none) = (0, 0);
    while compared < 4_000 {
        let text = random_rule(&mut random);
        let begin = random.i64(0..2_000_000_000);
        let Ok(rule) = read_rule(&text, begin) else { continue };
        let plan = RecurrencePlan::of(&rule);
        let mut from = if random.bool() { 0 } else { begin + random.i64(0..1_000_000_000) };
        for _ in 0..4 {
            let Ok(wanted) = recurrence_oracle::first_local_from(&rule, from) else { break };
            let found = plan.first_local_from(from);
            assert_eq!(found, wanted, "{text} from {begin}, asked from {from}");
            compared += 1;
            let Some(next) = found else {
                found_none += 1;
                break;
            };
            from = next + 1;
        }
    }
    assert!((100..2_000).contains(&found_none), "{found_none} of {compared} found none");
}

#[test]
fn a_count_ends_the_rule_behind_so_many() {
    let mut random = fastrand::Rng::with_seed(29);
    let mut compared = 0;
    while compared < 300 {
        let (text, begin) = (random_rule(&mut random), random.i64(0..2_000_000_000));
        let Ok(rule) = read_rule(&text, begin) else { continue };
        let plan = RecurrencePlan::of(&rule);
        let all: Vec<i64> =
            std::iter::successors(plan.first_local_from(begin), |at| plan.first_local_from(at + 1))
                .take(40)
                .collect();
        let count = random.usize(1..=40);
        if let Ok(last) = plan.last_of(i64::try_from(count).unwrap(), 1_000_000) {
            assert_eq!(last, all.get(count - 1).copied(), "{text} from {begin}");
            compared += 1;
        }
    }
}

#[test]
fn the_hardest_rules_take_bounded_work() {
    for (rule, refused) in [
        ("FREQ=SECONDLY;INTERVAL=60;BYSECOND=30", "has no time before 2100"),
        ("FREQ=SECONDLY;INTERVAL=86400;BYSECOND=30", "has no time before 2100"),
        ("FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2", "has no time before 2100"),
        ("FREQ=DAILY;INTERVAL=7;BYDAY=MO", "has no time before 2100"),
        (
            "FREQ=SECONDLY;INTERVAL=86401;BYHOUR=23;BYMINUTE=59;BYSECOND=59",
            "has no time before 2100",
        ),
        (
            "FREQ=SECONDLY;INTERVAL=97;BYHOUR=3;BYMINUTE=7;BYSECOND=11;COUNT=10000",
            "wanted a smaller COUNT",
        ),
    ] {
        let message = Recurrence::new(rule, start("1970-01-01T00:00:00")).unwrap_err().to_string();
        assert!(message.contains(refused), "{rule}: {message}");
        let read = read_rule(rule, 0).unwrap();
        // A search that was cut off would have used all steps.
        let steps = RecurrencePlan::of(&read).steps_of_none(if rule.contains("COUNT") {
            4_000_000_000
        } else {
            0
        });
        assert!(steps < 100_000, "{rule} took {steps} steps");
    }
}
