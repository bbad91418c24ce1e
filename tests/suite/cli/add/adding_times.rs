//! `add` with times: which are understood, reported, refused or left out.

use schedd_core::domain::run::run_state::RunState;

use crate::cli::Bench;

#[test]
fn the_instant_a_job_is_due_in_is_reported_beside_its_name() {
    let bench = Bench::start();
    let added = bench
        .ctl
        .run(&["add", "--name", "soon", "--in", "10m", "--tz", "Asia/Tokyo", "--", "x"])
        .good();
    let due = bench.ctl.run(&["show", "soon", "--json"]).good().json()["next_due"].clone();
    assert_eq!(added.stdout, "soon\n");
    assert!(
        added.stderr.starts_with(&format!("at {} (Asia/Tokyo), in ", due.as_str().unwrap())),
        "{added:?} {due}"
    );
    let quiet =
        bench.ctl.run(&["add", "--name", "later", "--in", "10m", "--quiet", "--", "x"]).good();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("later\n", ""));
}

#[test]
fn in_no_time_is_due_at_once() {
    let bench = Bench::start();
    bench.add(&["--name", "now", "--in", "0s", "--", "x"]);
    assert_eq!(bench.node.claim("now").run.job().as_str(), "now");
}

#[test]
fn anchor_start_and_end_take_the_times_people_say_and_report_what_was_understood() {
    let bench = Bench::start();
    bench.node.beat("");
    let every = [
        "--every",
        "1h",
        "--tz",
        "Europe/Berlin",
        "--anchor",
        "2026-01-01 00:30",
        "--start",
        "tomorrow noon",
    ];
    let added = bench
        .ctl
        .run(
            &[&["add", "--name", "a"][..], &every, &["--end", "2099-05-01 9am", "--", "x"]]
                .concat(),
        )
        .good();
    assert_eq!(
        added.stderr.lines().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(),
        ["anchor", "start", "end"]
    );
    assert!(
        added.stderr.contains("end 2099-05-01T09:00:00.000+02:00 (Europe/Berlin)"),
        "{added:?}"
    );
    let definition = bench.ctl.run(&["show", "a", "--json"]).good().json()["definition"].clone();
    assert_eq!(
        (&definition["anchor"], &definition["end"]),
        (&"2025-12-31T23:30:00.000Z".into(), &"2099-05-01T07:00:00.000Z".into())
    );
    let next = bench.ctl.run(&["next", "a", "-n", "1", "--json"]).good().json();
    assert!(next[0].as_str().unwrap().contains("T12:30:00.000+"), "{next}");
    let gap =
        ["add", "--every", "1h", "--tz", "Europe/Berlin", "--start", "2027-03-28 02:30", "--", "x"];
    bench.ctl.run(&gap).refused(2, &["--start", "does not exist in Europe/Berlin"]);
}

#[test]
fn a_job_that_will_never_run_by_itself_is_added_with_a_warning() {
    let bench = Bench::start();
    for past in [&["--cron", "0 0 0 1 1 * 2020"][..], &["--every", "1h", "--end", "yesterday"]] {
        let added = bench.ctl.run(&[&["add"], past, &["--", "x"]].concat()).good();
        assert!(
            added.stderr.contains("has no future time, so it runs only by schedctl run"),
            "{added:?}"
        );
    }
    let on_each_node = &["--on", "each-node", "--requires", "zz", "--every", "1h"];
    for silent in
        [&[][..], &["--cron", "@reboot"], &["--in", "1h"], &["--delay", "1h"], on_each_node]
    {
        let added = bench.ctl.run(&[&["add"], silent, &["--", "x"]].concat()).good();
        assert!(!added.stderr.contains("no future time"), "{added:?}");
    }
}

#[test]
fn an_instant_is_reported_as_it_was_understood_and_a_past_one_refused() {
    let bench = Bench::start();
    let added = bench
        .ctl
        .run(&["add", "--at", "2099-10-25 02:30", "--tz", "Europe/Berlin", "--", "x"])
        .good();
    assert!(added.stderr.contains("2099-10-25T02:30:00.000+02:00 (Europe/Berlin)"), "{added:?}");
    assert!(
        added.stderr.contains("occurs twice") && added.stderr.contains("the first time, 2099"),
        "{added:?}"
    );
    let twice = ["add", "--at", "2099-10-25 02:30", "--tz", "Europe/Berlin", "--json", "--fold"];
    for (fold, due) in [
        ("first", "2099-10-25T02:30:00.000+02:00"),
        ("second", "2099-10-25T02:30:00.000+01:00"),
        ("0", "2099-10-25T02:30:00.000+02:00"),
        ("1", "2099-10-25T02:30:00.000+01:00"),
    ] {
        assert_eq!(
            bench.ctl.run(&[&twice[..], &[fold, "--", "x"]].concat()).good().json()["next_due"],
            due
        );
    }
    bench
        .ctl
        .run(&[&twice[..], &["2", "--", "x"]].concat())
        .refused(2, &["--fold", "schedctl add --help"]);
    bench.ctl.run(&["add", "--fold", "second", "--in", "1h", "--", "x"]).refused(2, &["--at"]);
    let quiet = bench.ctl.run(&["add", "--quiet", "--at", "2099-01-01", "--", "x"]).good();
    assert_eq!(quiet.stderr, "");

    let past =
        ["add", "--name", "p", "--at", "2020-01-01 09:00", "--tz", "Europe/Berlin", "--", "x"];
    bench
        .ctl
        .run(&past)
        .refused(2, &["ago", "2020-01-01 09:00:00 CET", "Europe/Berlin", "--allow-past"]);
    bench.add(&[
        "--name",
        "p",
        "--at",
        "2020-01-01 09:00",
        "--tz",
        "Europe/Berlin",
        "--allow-past",
        "--",
        "x",
    ]);
    assert_eq!(bench.node.claim("p").run.to_string(), "p@1577865600000");
}

#[test]
fn a_past_time_of_several_runs_at_once_and_one_that_ran_is_not_accepted() {
    let bench = Bench::start();
    let (past, reported) = ("2020-01-01T09:00Z", "at 2020-01-01T09:00:00.000Z");
    let add = |more: &[&str]| {
        bench.ctl.run(
            &[&["add", "--name", "p", "--allow-past", "--at", past], more, &["--", "x"]].concat(),
        )
    };
    let added = add(&["--at", "2099-01-01"]).good();
    assert!(added.stderr.contains(reported) && added.stderr.contains("at 2099-01-01"), "{added:?}");
    let looked = bench.ctl.run(&["doctor"]);
    assert!(looked.stdout.contains("no findings"), "{looked:?}");
    let claim = bench.node.claim("p");
    assert_eq!(claim.run.to_string(), "p@1577869200000");
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    let next = |job: &str| {
        bench.ctl.run(&["show", job, "--json"]).good().json()["next_due"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(next("p").starts_with("2099-01-01"));

    // By an edit, which has the past time still, and by a new job of the name.
    for verb in ["--replace", "--if-absent"] {
        let again = add(&["--at", "2099-01-02", verb]).good();
        assert!(
            !again.stderr.contains(reported)
                && again.stderr.contains(
                    "job p does not run for 2020-01-01T09:00:00.000Z: the job already ran for that time"
                ),
            "{again:?}"
        );
        assert!(next("p").starts_with("2099-01-02"), "{again:?}");
        bench.ctl.run(&["cancel", "p"]).good();
    }
    // A single one is refused, as before.
    add(&[]).refused(4, &["already ran at 2020-01-01T09:00:00.000Z"]);
}

#[test]
fn a_time_that_would_not_run_is_refused_if_it_is_past_and_warned_of_if_not() {
    let bench = Bench::start();
    let add = |args: &str| {
        let words: Vec<&str> = args.split(' ').collect();
        bench.ctl.run(&[&["add", "--json"], &words[..], &["--", "x"]].concat())
    };
    for (args, words) in [
        (
            "--at 2020-01-01 --at 2021-01-01 --allow-past",
            "only the newest past time runs, 2021-01-01T00:00:00.000Z",
        ),
        ("--at 2020-01-01 --allow-past --skip-if-late 1h", "--skip-if-late skips a run this late"),
        ("--at 2020-01-01 --allow-past --max-age 1h", "--skip-if-late skips a run this late"),
        ("--at 2020-01-01 --at 2099-01-01 --allow-past --catch-up skip", "--catch-up skip"),
    ] {
        add(args)
            .refused(2, &["--at \"2020-01-01\" is past, and the job would not run at once", words]);
    }
    for (args, gone, why) in [
        (
            "--at 2099-12-24 --at 2099-12-27 --exclude 2099-12-24",
            "2099-12-24",
            "--exclude, --only-on, --start or --end",
        ),
        (
            "--at 2099-12-27 --at 2099-12-28 --end 2099-12-27",
            "2099-12-28",
            "--exclude, --only-on, --start or --end",
        ),
        ("--at 2099-12-27 --at 2099-12-28 --max-runs 1", "2099-12-28", "--max-runs 1 is reached"),
    ] {
        let added = add(args).good();
        assert!(
            added
                .stderr
                .contains(&format!("warning: the job does not run at --at {gone:?}: {why}")),
            "{added:?}"
        );
        assert!(!added.stderr.contains(&format!("at {gone}T")), "{added:?}");
        assert!(added.json()["next_due"].as_str().unwrap().starts_with("2099-12-27"), "{added:?}");
    }
    let line = "{\"name\": \"l\", \"shell\": \"x\", \"at\": [\"2020-01-01T00:00:00Z\", \"2021-01-01T00:00:00Z\", \"2099-01-01T00:00:00Z\"]}\n";
    bench.ctl.run_with_input(&["add", "--stdin"], line.as_bytes()).good();
    assert_eq!(bench.node.claim("l").run.to_string(), "l@1609459200000");
}
