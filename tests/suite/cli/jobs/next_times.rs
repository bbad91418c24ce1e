//! `next`.

use serde_json::Value;

use crate::cli::Bench;
use crate::support::ctl::Schedctl;

fn alone() -> Schedctl {
    Schedctl::alone().env("TZ", "UTC")
}

#[test]
fn an_expression_needs_no_redis() {
    let times = alone()
        .run(&[
            "next",
            "30 2 * * *",
            "--tz",
            "Europe/Berlin",
            "--from",
            "2027-03-26",
            "-n",
            "3",
            "--json",
        ])
        .good()
        .json();
    // At 02:30 on the 28th the clock is set forward: the run follows the crontab's rule for a time that is skipped.
    assert_eq!(times[0], "2027-03-26T02:30:00.000+01:00");
    assert_eq!(times[1], "2027-03-27T02:30:00.000+01:00");
    assert!(times[2].as_str().unwrap().starts_with("2027-03-28T03:"), "{times}");
    let macros =
        alone().run(&["next", "@daily", "--from", "2027-01-01T00:00:00Z", "--json"]).good().json();
    assert_eq!(macros.as_array().unwrap().len(), 5);
    assert_eq!(macros[0], "2027-01-02T00:00:00.000Z");
}

#[test]
fn day_of_month_and_weekday_together_are_either() {
    let times = alone()
        .run(&["next", "0 0 1 * 1", "--tz", "UTC", "--from", "2027-01-31", "-n", "2", "--json"])
        .good()
        .json();
    assert_eq!(times, serde_json::json!(["2027-02-01T00:00:00.000Z", "2027-02-08T00:00:00.000Z"]));
}

#[test]
fn text_reports_local_time_utc_and_how_far_it_is() {
    let text =
        alone().run(&["next", "0 9 * * *", "--tz", "Europe/Berlin", "-n", "1"]).good().stdout;
    assert!(
        text.starts_with("LOCAL")
            && text.contains("09:00:00 CE")
            && text.contains(":00:00.000Z")
            && text.contains("in "),
        "{text}"
    );
}

#[test]
fn what_never_comes_or_cannot_be_read_is_refused() {
    let alone = alone();
    alone.run(&["next", "0 0 30 2 *"]).refused(2, &["matches no day before 2100"]);
    alone.run(&["next", "* * * *"]).refused(2, &["4 fields"]);
    alone.run(&["next", "-1 * * * *"]).refused(2, &["cron \"-1 * * * *\": minute", "wanted 0-59"]);
    alone.run(&["describe", "-1 * * * *"]).refused(2, &["cron \"-1 * * * *\": minute"]);
    alone.run(&["next", "--frm", "now", "@daily"]).refused(2, &["unexpected argument '--frm'"]);
    alone.run(&["next", "A"]).refused(2, &["cron \"A\""]);
    alone.run(&["next", "@daily", "--tz", "Europe/Munich"]).refused(2, &["Munich"]);
    alone.run(&["next", "@daily", "--from", "yesterdy"]).refused(2, &["--from", "yesterdy"]);
    alone
        .run(&["next", "0 0 0 1 1 * 2027", "--from", "2028-01-01"])
        .refused(2, &["no time after", "2100"]);
    alone
        .run(&["next", "@daily", "-n", "0"])
        .refused(2, &["--count", "found 0, wanted 1 to 100000"]);
    alone.run(&["next", "backup"]).refused(69, &["found no schedd"]);
}

#[test]
fn the_jobs_of_a_file_come_sorted_without_any_redis() {
    let alone = alone();
    let file = alone.home().join("jobs.toml");
    let text = "[jobs.e]\nevery = \"1h\"\nshell = \"x\"\n[jobs.c]\ncron = \"* * * * *\"\nshell = \"x\"\n[jobs.m]\nshell = \"x\"\n";
    std::fs::write(&file, text).unwrap();
    let times =
        alone.run(&["next", "--file", "jobs.toml", "-n", "2", "--json", "--long"]).good().json();
    let jobs: Vec<&str> =
        times.as_array().unwrap().iter().map(|time| time["job"].as_str().unwrap()).collect();
    assert_eq!(jobs, ["c", "c", "e", "e"]);
    assert!(times[2]["notes"][0].as_str().unwrap().contains("counted from now"), "{times}");
    assert!((3_590..=3_600).contains(&times[2]["relative_s"].as_i64().unwrap()), "{times}");
    let table = alone.run(&["next", "--file", "jobs.toml"]).good();
    assert!(table.stdout.starts_with("LOCAL") && table.stdout.lines().count() == 3, "{table:?}");
    assert_eq!(table.stderr, "jobs without a future time: m\n");

    let several = "[jobs.s]\nschedules = [{ every = \"1h\" }, { cron = \"0 0 1 1 *\" }]\ntz = \"UTC\"\nshell = \"x\"\n\
                   [jobs.a]\nschedules = [{ every = \"1h\" }, { cron = \"@yearly\" }]\nanchor = 2026-01-01T00:00:00Z\nshell = \"x\"\n";
    std::fs::write(&file, several).unwrap();
    let times =
        alone.run(&["next", "--file", "jobs.toml", "-n", "9000", "--json", "--long"]).good().json();
    let notes = |job: &str, is_cron: bool| -> Vec<usize> {
        let times = times.as_array().unwrap().iter();
        let found = times.filter(|time| {
            time["job"] == job
                && time["utc"].as_str().unwrap().contains("-01-01T00:00:00.000Z") == is_cron
        });
        found.map(|time| time["notes"].as_array().unwrap().len()).collect()
    };
    assert!(
        notes("s", false).iter().all(|count| *count == 1) && notes("s", false).len() > 8_000,
        "those of every are marked"
    );
    assert!(
        notes("s", true).iter().all(|count| *count == 0) && !notes("s", true).is_empty(),
        "those of cron are not"
    );
    assert!(notes("a", false).iter().all(|count| *count == 0), "with an anchor every is known");

    std::fs::write(&file, "[jobs.e]\nevery = \"1\"\nshell = \"x\"\n").unwrap();
    alone
        .run(&["next", "--file", "jobs.toml"])
        .refused(78, &["jobs.toml:2:9: jobs.e.every", "\"1s\""]);
    alone.run(&["next", "--file", "no.toml"]).refused(78, &["no.toml: no such file"]);
    alone.run(&["next", "a", "--file", "jobs.toml"]).refused(2, &["cannot be used with"]);
    alone.run(&["next"]).refused(2, &["required"]);
}

#[test]
fn the_jobs_of_a_file_come_as_if_it_were_applied_now() {
    let alone = alone();
    let file = "[jobs.ends]\nshell = \"x\"\ncron = \"@daily\"\nmax_runs = 2\n[jobs.waits]\nshell = \"x\"\ndelay = \"1h\"\n\
                [jobs.both]\nshell = \"x\"\ncron = [\"@every 1h\", \"@daily\"]\n";
    std::fs::write(alone.home().join("jobs.toml"), file).unwrap();
    let times =
        alone.run(&["next", "--file", "jobs.toml", "-n", "3", "--json", "--long"]).good().json();
    let of = |job: &str| {
        times.as_array().unwrap().iter().filter(|time| time["job"] == job).collect::<Vec<_>>()
    };
    assert_eq!(of("ends").len(), 2, "{times}");
    assert_eq!(
        of("waits")[0]["notes"][0],
        "counted from now; the next time is counted from the end of this run"
    );
    assert_eq!((of("waits").len(), of("both").len()), (1, 3), "{times}");
    let is_from_now = |time: &&&Value| {
        time["notes"][0].as_str().is_some_and(|note| note.starts_with("counted from now"))
    };
    assert!(
        of("both").iter().filter(is_from_now).count() >= 2,
        "of three times within three hours one may be midnight: {times}"
    );
}

#[test]
fn an_expression_of_systemd_is_shown_in_its_own_zone_and_refused_as_one() {
    let own = ["next", "02:30 Europe/Berlin", "--from", "2027-03-27T12:00:00Z", "-n", "1"];
    let reported = alone().run(&own).good().stdout;
    assert!(
        reported.contains("03:00:00 CEST")
            && reported.contains("02:30 does not exist this day: the run is due at 03:00"),
        "{reported}"
    );
    let elsewhere = alone().run(&[&own[..], &["--tz", "UTC"]].concat()).good().stdout;
    assert!(
        elsewhere.contains("01:00:00 UTC")
            && elsewhere.contains("in Europe/Berlin: 02:30 does not exist"),
        "{elsewhere}"
    );
    for (text, wanted) in [
        ("Mon..Fri 25:00", "calendar \"Mon..Fri 25:00\": hour 25"),
        ("Mon *-*-* 09:00:00.5", "wanted whole seconds"),
        ("0 9 * *", "the expression has 4 fields"),
        ("*/5", "the expression has 1 field"),
    ] {
        alone().run(&["next", text]).refused(2, &[wanted]);
    }
}

#[test]
fn a_job_is_described_with_the_zone_it_is_read_in() {
    let bench = Bench::start();
    bench.add(&[
        "--name",
        "c",
        "--cron",
        "0 9 * * 1-5",
        "--cron",
        "@hourly",
        "--tz",
        "Asia/Tokyo",
        "--",
        "x",
    ]);
    bench.add(&["--name", "a", "--at", "2099-12-24T09:00:00", "--tz", "Europe/Berlin", "--", "x"]);
    bench.add(&["--name", "e", "--every", "90s", "--", "x"]);
    bench.add(&["--name", "m", "--", "x"]);
    bench.add(&[
        "--name",
        "backup",
        "--cron",
        "H H * * *",
        "--tz",
        "UTC",
        "--exclude",
        "2099-12-24",
        "--skip-if-late",
        "1h",
        "--",
        "x",
    ]);
    let anchor = ["--anchor", "2099-12-24T09:00:00", "--tz", "Europe/Berlin", "--max-runs", "3"];
    bench.add(&[&["--name", "n", "--every", "1d"][..], &anchor, &["--", "x"]].concat());
    bench.add(&["--name", "d", "--delay", "90s", "--", "x"]);
    bench.add(&[
        "--name",
        "r",
        "--rrule",
        "FREQ=WEEKLY;INTERVAL=2",
        "--dtstart",
        "2027-01-04T09:00",
        "--tz",
        "Asia/Tokyo",
        "--",
        "x",
    ]);
    bench.add(&[
        "--name",
        "z",
        "--calendar",
        "Sat 12:00",
        "--calendar",
        "daily UTC",
        "--tz",
        "Asia/Tokyo",
        "--",
        "x",
    ]);
    for (job, wanted) in [
        (
            "backup",
            "at 08:25 every day (each H is drawn from the name backup) (UTC)\nnever on 2099-12-24\nskipped if the run would start more than 1h late\n",
        ),
        ("n", "every 1d, the first on Thursday 2099-12-24 at 09:00:00 CET\nat most 3 runs\n"),
        ("d", "1m30s after the end of each run\n"),
        (
            "r",
            "at 09:00 in every 2nd week, on Mondays, counted from Monday 2027-01-04 (Asia/Tokyo)\n",
        ),
        ("z", "at 12:00, on Saturdays (Asia/Tokyo)\nat 00:00 every day, by the clock of UTC\n"),
        ("c", "at 09:00, Monday to Friday (Asia/Tokyo)\nat minute 0 of every hour (Asia/Tokyo)\n"),
        ("a", "once, on Thursday 2099-12-24 at 09:00:00 CET\n"),
        ("e", "every 1m30s, counted from the job's first apply\n"),
        ("m", "only by request\n"),
    ] {
        assert_eq!(bench.ctl.run(&["describe", job]).good().stdout, wanted);
    }
    let reported = bench.ctl.run(&["describe", "c", "--json"]).good().json();
    assert_eq!(
        (&reported["job"], &reported["tz"], &reported["schedule"]),
        (&"c".into(), &"Asia/Tokyo".into(), &"0 9 * * 1-5; @hourly".into())
    );
    assert_eq!(
        reported["words"],
        serde_json::json!(["at 09:00, Monday to Friday", "at minute 0 of every hour"])
    );
    let elsewhere = bench.ctl.run(&["describe", "a", "--tz", "UTC"]).good().stdout;
    assert_eq!(elsewhere, "once, on Thursday 2099-12-24 at 08:00:00 UTC\n");
    bench.ctl.run(&["describe", "nosuch"]).refused(3, &["nosuch"]);
}

#[test]
fn a_schedule_that_ends_gives_fewer_times() {
    let times = alone()
        .run(&["next", "0 0 0 1 1 * 2027,2028", "--tz", "UTC", "--from", "2026-12-01", "--json"])
        .good()
        .json();
    assert_eq!(times, serde_json::json!(["2027-01-01T00:00:00.000Z", "2028-01-01T00:00:00.000Z"]));
}

#[test]
fn a_job_has_its_own_zone_and_one_by_hand_no_times() {
    let bench = Bench::start();
    bench.add(&["--name", "b", "--cron", "0 9 * * *", "--tz", "Asia/Tokyo", "--", "x"]);
    bench.add(&["--name", "m", "--", "x"]);
    bench.add(&["--name", "e", "--every", "90s", "--", "x"]);
    let times = bench.ctl.run(&["next", "b", "-n", "2", "--json"]).good().json();
    assert!(times[0].as_str().unwrap().ends_with("T09:00:00.000+09:00"), "{times}");
    let elsewhere = bench.ctl.run(&["next", "b", "-n", "1", "--tz", "UTC", "--json"]).good().json();
    assert!(elsewhere[0].as_str().unwrap().ends_with("T00:00:00.000Z"), "{elsewhere}");
    let next_due = bench.ctl.run(&["show", "e", "--json"]).json()["next_due"].clone();
    assert_eq!(bench.ctl.run(&["next", "e", "-n", "1", "--json"]).good().json()[0], next_due);
    bench.ctl.run(&["next", "m"]).refused(2, &["no schedule", "schedctl run m"]);
}

#[test]
fn a_run_planned_beside_the_schedule_is_a_next_time_also_without_a_schedule() {
    let bench = Bench::start();
    bench.add(&["--name", "m", "--", "x"]);
    let at =
        bench.ctl.run(&["next", "m", "--set", "2h", "--json"]).good().json()["next_due"].clone();
    assert_eq!(bench.ctl.run(&["next", "m", "--json"]).good().json(), serde_json::json!([at]));
    let text = bench.ctl.run(&["next", "m"]).good().stdout;
    assert!(text.contains("set by a run or a user, beside the schedule"), "{text}");
    for verb in ["pause", "resume"] {
        assert_eq!(
            bench.ctl.run(&[verb, "m", "--json"]).good().json()[0]["next_due"],
            at,
            "{verb}"
        );
    }
    let explained = bench.ctl.run(&["explain", "m"]).good().stdout;
    assert!(explained.contains("A run or a user planned a run on "), "{explained}");
    assert_eq!(bench.ctl.run(&["explain", "m", "--json"]).good().json()["next_due"], at);
    bench.ctl.run(&["cancel", "m@next"]).good();
    bench.ctl.run(&["next", "m"]).refused(2, &["no schedule"]);

    bench.add(&["--name", "d", "--every", "10h", "--", "x"]);
    let at =
        bench.ctl.run(&["next", "d", "--set", "2h", "--json"]).good().json()["next_due"].clone();
    let times = bench.ctl.run(&["next", "d", "-n", "2", "--json"]).good().json();
    assert!(times[0] == at && times.as_array().unwrap().len() == 2, "{times}");
}

#[test]
fn a_removed_job_has_no_next_time_and_a_paused_one_has_a_note() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--every", "1h", "--", "x"]);
    bench.add(&["--name", "b", "--after", "a", "--", "x"]);
    assert!(!bench.ctl.run(&["next", "a"]).good().stderr.contains("paused"));
    bench.ctl.run(&["pause", "a"]).good();
    for job in ["a", "b"] {
        let paused = bench.ctl.run(&["next", job]).good().stderr;
        assert!(paused.contains("job a is paused: its schedule starts no run"), "{paused}");
    }
    bench.ctl.run(&["cancel", "b", "a"]).good();
    for words in [&["next", "a"][..], &["next", "a", "--json"]] {
        bench.ctl.run(words).refused(4, &["job a is over (cancelled)"]);
    }
}

#[test]
fn a_job_runs_by_its_own_rule_for_clock_changes_and_its_own_h() {
    let bench = Bench::start();
    let berlin = ["--cron", "30 2 * * *", "--tz", "Europe/Berlin"];
    bench.add(&[&["--name", "plain"][..], &berlin, &["--", "x"]].concat());
    bench.add(
        &[
            &["--name", "skips", "--dst-gap", "skip", "--dst-fold", "both"][..],
            &berlin,
            &["--", "x"],
        ]
        .concat(),
    );
    let next = |job: &str, from: &str| {
        bench.ctl.run(&["next", job, "--from", from, "-n", "2", "--json"]).good().json()
    };
    let (gap, fold) = ("2027-03-28T00:00:00+01:00", "2027-10-31T00:00:00+02:00");
    assert_eq!(
        next("plain", gap),
        serde_json::json!(["2027-03-28T03:00:00.000+02:00", "2027-03-29T02:30:00.000+02:00"])
    );
    assert_eq!(
        next("skips", gap),
        serde_json::json!(["2027-03-29T02:30:00.000+02:00", "2027-03-30T02:30:00.000+02:00"])
    );
    assert_eq!(
        next("plain", fold),
        serde_json::json!(["2027-10-31T02:30:00.000+02:00", "2027-11-01T02:30:00.000+01:00"])
    );
    assert_eq!(
        next("skips", fold),
        serde_json::json!(["2027-10-31T02:30:00.000+02:00", "2027-10-31T02:30:00.000+01:00"])
    );
    let shown = bench.ctl.run(&["show", "skips", "--json"]).good().json();
    assert_eq!(shown["definition"]["dst"], serde_json::json!({"gap": "skip", "fold": "both"}));
    let text = bench.ctl.run(&["show", "skips"]).good().stdout;
    assert!(
        text.contains(
            "times that the clock skips do not run, a time that the clock shows twice runs both times"
        ),
        "{text}"
    );
    bench
        .ctl
        .run(&["add", "--dst-gap", "never", "--cron", "@daily", "--", "x"])
        .refused(2, &["--dst-gap", "\"run-after\" or \"skip\""]);

    // By sha1sum: the first 8 bytes of "backup:minute" are 25 modulo 60, those of "backup:hour" 8 modulo 24.
    bench.add(&["--name", "backup", "--cron", "H H * * *", "--tz", "UTC", "--", "x"]);
    assert_eq!(next("backup", "2027-01-01T00:00:00Z")[0], "2027-01-01T08:25:00.000Z");
    let drawn = bench.ctl.run(&["next", "H H * * *", "-n", "1"]).good();
    assert!(
        format!("{}{}", drawn.stdout, drawn.stderr)
            .contains("H in an expression depends on the name of the job"),
        "{}",
        drawn.stdout
    );
    bench.add(&["--name", "beat", "--cron", "@every 90s", "--", "x"]);
    assert_eq!(bench.ctl.run(&["show", "beat", "--json"]).json()["schedule"], "every 1m30s");
    bench.add(&["--name", "boot", "--cron", "@reboot", "--", "x"]);
    bench.ctl.run(&["next", "boot"]).refused(2, &["job boot has no next times"]);
    assert_eq!(bench.ctl.run(&["show", "boot", "--json"]).json()["state"], "scheduled");
    bench.ctl.run(&["next", "@reboot"]).refused(2, &["has no next times"]);
}
