use std::time::Duration;

use super::bad_jobs::job_fault;
use super::{good, host, job};
use crate::config::canonical::canonical_job::{from_canonical, to_canonical};
use crate::config::{compile_text, job_from_json};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::timetable::Timetable;

/// Returns the first `count` times of the only job of a file.
fn times(text: &str, count: usize) -> Vec<String> {
    let spec = job(&good(&format!("[jobs.a]\nshell = 'true'\n{text}")), "a");
    assert_eq!(from_canonical(&to_canonical(&spec)).unwrap(), spec, "{text}");
    let zone = spec
        .tz
        .as_ref()
        .map_or_else(host, |name| schedd_schedule::time::zone::Zone::load(name).unwrap());
    let schedule = spec.schedule.for_job(&"a".parse().unwrap(), spec.dst);
    let table = Timetable::shaped(schedule, &spec.shape, zone, UnixMillis::EPOCH);
    let from = UnixMillis::new(1_798_761_600_000).unwrap(); // 2027-01-01, a Friday
    let next = std::iter::successors(table.next_after(from), |at| table.next_after(*at));
    next.take(count).map(|at| at.to_string().replace(":00.000Z", "")).collect()
}

#[test]
fn every_form_of_schedule_is_read_and_kept() {
    for (text, wanted) in [
        ("calendar = 'Mon..Fri 09:00'\ntz = 'UTC'", "2027-01-01T09:00 2027-01-04T09:00"),
        (
            "calendar = ['Mon 09:00', 'Sat 12:00']\ntz = 'UTC'",
            "2027-01-02T12:00 2027-01-04T09:00 2027-01-09T12:00",
        ),
        (
            "rrule = 'FREQ=MONTHLY;BYDAY=-1FR'\ndtstart = 2026-01-01T17:30:00\ntz = 'UTC'",
            "2027-01-29T17:30 2027-02-26T17:30",
        ),
        (
            "at = ['2027-02-01T00:00Z', 2027-01-03T12:00:00Z, '2027-02-01T00:00:00Z']",
            "2027-01-03T12:00 2027-02-01T00:00",
        ),
        ("every = '8h'\nanchor = '2027-01-02T03:00:00Z'", "2027-01-02T03:00 2027-01-02T11:00"),
        (
            "schedules = [{ cron = '0 9 * * *' }, { calendar = ['9:00', '12:00'] }, { at = '2027-01-01T10:00Z' }]\ntz = 'UTC'",
            "2027-01-01T09:00 2027-01-01T10:00 2027-01-01T12:00 2027-01-02T09:00",
        ),
        (
            "cron = '0 9 * * *'\ntz = 'UTC'\nexclude = ['fri..sun', 2027-01-04]",
            "2027-01-05T09:00 2027-01-06T09:00",
        ),
        (
            "cron = '0 9 * * *'\ntz = 'UTC'\nonly_on = ['2027-03-01..2027-03-02', 'sun']",
            "2027-01-03T09:00 2027-01-10T09:00",
        ),
        (
            "cron = '0 9 * * *'\ntz = 'UTC'\nstart = '2027-05-01T09:00'\nend = 2027-05-02T09:00:00",
            "2027-05-01T09:00 2027-05-02T09:00",
        ),
    ] {
        let wanted: Vec<&str> = wanted.split(' ').collect();
        assert_eq!(times(text, wanted.len()), wanted, "{text}");
    }
    let once = job(&good("[jobs.a]\nshell = 'true'\nat = ['2027-02-01T00:00Z']"), "a");
    assert!(matches!(once.schedule, Schedule::At(_)), "a list of one is a one-shot");
}

#[test]
fn what_is_drawn_and_what_clock_changes_do_reach_every_form() {
    // In Berlin 02:00 to 03:00 of 2027-03-28 does not exist, and 02:00 to 03:00 of 2027-10-31 comes
    // twice.
    let around = "tz = 'Europe/Berlin'\nonly_on = ['2027-03-27..2027-03-29', '2027-10-31']";
    for form in [
        "calendar = '02:30'",
        "rrule = 'FREQ=DAILY'\ndtstart = 2027-01-01T02:30:00",
        "cron = '30 2 * * *'",
        "schedules = [{ calendar = 'Mon..Sun 02:30' }, { rrule = 'FREQ=DAILY', dtstart = 2027-01-01T02:30:00 }]",
    ] {
        let by_default = times(&format!("{form}\n{around}"), 9);
        assert_eq!(
            by_default,
            ["2027-03-27T01:30", "2027-03-28T01:00", "2027-03-29T00:30", "2027-10-31T00:30"],
            "{form}"
        );
        let chosen =
            times(&format!("{form}\n{around}\ndst = {{ gap = 'skip', fold = 'both' }}"), 9);
        assert_eq!(
            chosen,
            ["2027-03-27T01:30", "2027-03-29T00:30", "2027-10-31T00:30", "2027-10-31T01:30"],
            "{form}"
        );
    }
    let hourly = times(&format!("calendar = '*:30'\n{around}\ndst = {{ fold = 'last' }}"), 99);
    let night: Vec<&String> = hourly
        .iter()
        .filter(|at| at.starts_with("2027-10-31T00") || at.starts_with("2027-10-31T01"))
        .collect();
    assert_eq!(night, ["2027-10-31T01:30"], "{hourly:?}");

    let drawn = times("cron = 'H 9 * * *'\ntz = 'UTC'", 1);
    let several =
        times("schedules = [{ cron = 'H 9 * * *' }, { calendar = '12:00' }]\ntz = 'UTC'", 2);
    assert_eq!(several, [drawn[0].as_str(), "2027-01-01T12:00"]);
    let spec = job(
        &good(
            "[jobs.b]\nshell = 'true'\nschedules = [{ cron = 'H 9 * * *' }, { cron = '@reboot' }]",
        ),
        "b",
    );
    assert!(spec.schedule.is_drawn() && spec.schedule.is_at_boot());
    good("[jobs.a]\nshell = 'true'\ncron = '@reboot'\nexclude = 'sun'");
}

#[test]
fn an_every_among_cron_expressions_is_a_schedule_of_its_own() {
    let (many, one) = ("cron = ['0 9 * * *', '@every 8h', '0 12 * * *']", "cron = ['@every 8h']");
    assert_eq!(
        times(&format!("{many}\ntz = 'UTC'\nanchor = '2027-01-01T01:00:00Z'"), 4),
        ["2027-01-01T01:00", "2027-01-01T09:00", "2027-01-01T12:00", "2027-01-01T17:00"]
    );
    let schedule =
        |text: &str| job(&good(&format!("[jobs.a]\nshell = 'true'\n{text}")), "a").schedule;
    assert_eq!(schedule(one), schedule("every = '8h'"));
    assert_eq!(
        schedule("schedules = [{ cron = ['@every 8h', '@daily'] }, { calendar = '12:00' }]"),
        schedule("schedules = [{ every = '8h' }, { cron = '@daily' }, { calendar = '12:00' }]")
    );
}

#[test]
fn shaping_is_kept_and_defaults_may_have_some_of_it() {
    let file = good(
        "[defaults]\njitter = '5s'\nexclude = 'sun'\nskip_if_late = '10m'\n[jobs.a]\nshell = 'true'\nevery = '1h'\nmax_runs = 3\nsplay = '1m'\n\
         [jobs.b]\nshell = 'true'\ndelay = '5m'\nmax_runs = 2\n[jobs.c]\nshell = 'true'\n[jobs.d]\nshell = 'true'\nevery = '1h'\njitter = '0s'\nexclude = []",
    );
    let a = job(&file, "a").shape;
    assert_eq!(
        (a.jitter, a.splay, a.max_runs),
        (Duration::from_secs(5), Duration::from_secs(60), Some(3))
    );
    assert_eq!(
        (a.exclude.texts(), a.skip_if_late),
        (vec!["sun".to_owned()], Some(Duration::from_secs(600)))
    );
    let b = job(&file, "b").shape;
    assert!(b.jitter.is_zero() && b.exclude.is_empty() && b.max_runs == Some(2), "{b:?}");
    assert_eq!(job(&file, "c").shape, schedd_schedule::schedule_modifiers::Shape::default());
    let d = job(&file, "d").shape;
    assert!(d.jitter.is_zero() && d.exclude.is_empty(), "{d:?}");
}

#[test]
fn what_makes_no_sense_is_refused_where_it_stands() {
    for (text, wanted) in [
        (
            "calendar = 'Mon..Fri 25:00'",
            "3:22: jobs.a.calendar: calendar \"Mon..Fri 25:00\": hour 25 at character 10 is out of range, wanted 0 to 23",
        ),
        ("rrule = 'FREQ=DAILY'", "jobs.a.rrule: found rrule without dtstart"),
        (
            "rrule = 'FREQ=DALY'\ndtstart = '2026-01-01'",
            "\"DALY\" at character 6 is not a frequency",
        ),
        (
            "rrule = 'FREQ=DAILY'\ndtstart = '2026-01-01T00:00Z'",
            "wanted a date and time by the wall clock",
        ),
        ("every = '1h'\ndtstart = '2026-01-01'", "found dtstart without rrule"),
        (
            "cron = '@daily'\ncalendar = 'daily'",
            "found cron and calendar together, wanted at most one schedule, or schedules = ",
        ),
        ("schedules = [{ cron = '@daily' }]", "the number of schedules is 1, wanted 2 to 32"),
        (
            "schedules = [{ cron = '@daily' }, { delay = '5s' }]",
            "jobs.a.schedules[1].delay: unknown key",
        ),
        (
            "schedules = [{ cron = '@daily' }, { cron = '@daily', every = '5s' }]",
            "found 2 schedules in one table",
        ),
        ("schedules = [{ cron = '@daily' }, 3]", "wanted a list of tables"),
        (
            "cron = '@daily'\nanchor = '2026-01-01T00:00Z'",
            "jobs.a.anchor: anchor has no effect without every",
        ),
        ("jitter = '5s'", "jobs.a.jitter: jitter has no effect without a schedule"),
        ("delay = '5s'\njitter = '5s'", "jobs.a.jitter: jitter cannot be used with delay"),
        ("every = '5s'\njitter = '2d'", "more than 0s, up to 1 day"),
        ("every = '5s'\nmax_runs = 0", "an integer from 1 to 1000000"),
        ("every = '5s'\nstart = '2027-01-02T00:00Z'\nend = '2027-01-01T00:00Z'", "is before start"),
        (
            "cron = '0 0 * * 1'\ntz = 'UTC'\nexclude = 'mon'",
            "jobs.a.exclude: start, end, only_on and exclude leave the schedule no time before 2100",
        ),
        ("at = '2027-01-02T00:00Z'\nend = '2027-01-01T00:00Z'", "leave the schedule no time"),
        (
            "every = '5s'\nexclude = ['calendar:x']",
            "jobs.a.exclude[0]: calendar \"x\" is not declared by [calendars.NAME]",
        ),
        (
            "every = '5s'\nexclude = ['2026-02-30']",
            "jobs.a.exclude[0]: found \"2026-02-30\", which is not a date",
        ),
        ("every = '5s'\nonly_on = 5", "wanted a date such as"),
        (
            "every = '5s'\ndst = { gap = 'skip' }",
            "jobs.a.dst: dst has no effect on this schedule, because only cron, calendar and rrule",
        ),
        (
            "at = '2027-01-02T00:00Z'\ndst = { fold = 'last' }",
            "jobs.a.dst: dst has no effect on this schedule",
        ),
    ] {
        let fault = job_fault(&format!("shell = 'true'\n{text}"));
        assert!(fault.contains(wanted), "{text}\n{fault}\n{wanted}");
    }
    let line =
        job_from_json(r#"{"shell": "true", "every": "5s", "exclude": ["calendar:x"]}"#, &host())
            .unwrap_err();
    assert!(line[0].message.contains("only a jobs file has [calendars.NAME]"), "{line:?}");
}

#[test]
fn a_calendar_of_the_file_travels_in_the_definitions_that_name_it() {
    let file = |date: &str| {
        good(&format!(
            "[calendars.free]\ndates = ['{date}', 2026-12-31, '2026-12-24..2026-12-26']\n[jobs.a]\nshell = 'true'\nevery = '1h'\n\
             exclude = ['calendar:free', 'sun']"
        ))
    };
    let spec = job(&file("2026-05-01"), "a");
    assert_eq!(
        spec.shape.exclude.texts(),
        ["sun", "2026-05-01", "2026-12-24..2026-12-26", "2026-12-31"]
    );
    assert_ne!(
        to_canonical(&spec),
        to_canonical(&job(&file("2026-05-02"), "a")),
        "another calendar is another definition"
    );
    for (text, wanted) in [
        ("[calendars.free]", "found no days"),
        ("[calendars.free]\ndates = ['soon']", "calendars.free.dates[0]: found \"soon\""),
        (
            "[calendars.free]\ndates = ['calendar:x']",
            "calendars.free.dates[0]: found \"calendar:x\", but a calendar cannot name another",
        ),
        ("[calendars.\"a b\"]\ndates = 'sun'", "not a name for a calendar"),
        (
            "[calendars.free]\nfile = 'nowhere.ics'",
            "calendars.free.file: file \"nowhere.ics\" cannot be read",
        ),
        ("[calendars.free]\ndate = 'sun'", "did you mean \"dates\"?"),
        (
            "[calendars.fre]\ndates = 'sun'\n[jobs.a]\nshell = 'x'\nevery = '5s'\nexclude = 'calendar:free'",
            "did you mean \"fre\"?",
        ),
    ] {
        let message = compile_text(text, "jobs.toml", &host()).unwrap_err().to_string();
        assert!(message.contains(wanted), "{text}\n{message}");
    }
}

#[test]
fn a_calendar_without_a_day_leaves_nothing_to_run_on_but_excludes_nothing_either() {
    let file = |lines: &str| {
        format!("[calendars.none]\ndates = []\n[jobs.a]\nshell = 'true'\nevery = '1h'\n{lines}")
    };
    for lines in ["only_on = 'calendar:none'", "only_on = ['calendar:none']"] {
        let message = compile_text(&file(lines), "jobs.toml", &host()).unwrap_err().to_string();
        assert!(
            message.contains("jobs.a.only_on: found only calendars without a day"),
            "{message}"
        );
    }
    let faulty = file("only_on = 'calendar:none'").replace("[]", "['soon']");
    assert_eq!(
        compile_text(&faulty, "jobs.toml", &host())
            .unwrap_err()
            .to_string()
            .matches("jobs.toml:")
            .count(),
        1
    );
    let spec = job(&good(&file("exclude = 'calendar:none'\nonly_on = []")), "a");
    assert!(spec.shape.exclude.is_empty() && spec.shape.only_on.is_none());
    assert_eq!(
        job(&good(&file("only_on = ['calendar:none', 'sun']")), "a").shape.only_on.unwrap().texts(),
        ["sun"]
    );
}

#[test]
fn a_calendar_file_is_read_beside_the_jobs_file_and_faults_name_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("free.ics");
    let text = "[calendars.free]\nfile = 'free.ics'\n[jobs.a]\nshell = 'true'\nevery = '1h'\nexclude = 'calendar:free'";
    let compile = |ics: &str| {
        std::fs::write(&path, ics).unwrap();
        compile_text(text, &dir.path().join("jobs.toml").to_string_lossy(), &host())
    };
    let ics = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261225\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
    let config = compile(ics).unwrap();
    assert_eq!(job(&config, "a").shape.exclude.texts(), ["2026-12-25"]);
    let message = compile(&ics.replace("20261225", "2026-12-25")).unwrap_err().to_string();
    assert!(
        message.contains("free.ics\", line 3: DTSTART \"2026-12-25\": not a date or time"),
        "{message}"
    );
}
