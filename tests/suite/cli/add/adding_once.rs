//! `add` with a unique key: of several adds one is first, and the others are told, dropped or take its place.

use std::process::{Child, Stdio};

use schedd_core::domain::run::run_state::RunState;

use crate::cli::Bench;

const TRUE: [&str; 2] = ["--", "true"];

impl Bench {
    /// Runs `add` with these flags.
    fn try_add(&self, flags: &[&str]) -> crate::support::ctl::Finished {
        self.ctl.run(&[&["add"], flags, &TRUE].concat())
    }

    /// How many jobs there are.
    fn jobs(&self) -> u64 {
        self.ctl.run(&["stats", "--json"]).json()["jobs"].as_u64().unwrap()
    }
}

#[test]
fn a_second_add_is_a_conflict_that_names_the_first_and_what_it_is_doing() {
    let bench = Bench::start();
    assert_eq!(
        bench.add(&["--name", "first", "--in", "1h", "--unique", "customer-42", "--", "true"]),
        "first"
    );
    let second = ["--in", "1h", "--unique", "customer-42"];
    bench
        .try_add(&second)
        .refused(4, &["\"customer-42\"", "held by job first", "which is due at ", "--if-absent"]);
    let absent = bench.try_add(&[&second[..], &["--if-absent", "--json"]].concat()).good().json();
    assert_eq!(
        (absent["name"].as_str(), absent["result"].as_str()),
        (Some("first"), Some("exists"))
    );
    assert!(absent["next_due"].is_string(), "{absent}");
    // By its own name too, and under another kind of rule.
    bench
        .try_add(&["--name", "first", "--unique", "customer-42"])
        .refused(4, &["held by job first"]);
    bench.try_add(&["--in", "1h", "--debounce", "customer-42"]).refused(4, &["held by job first"]);
    bench.ctl.run(&["pause", "first"]).good();
    bench.try_add(&second).refused(4, &["which has been paused since "]);
    bench.add(&["--in", "1h", "--unique", "customer-43", "--", "true"]);
    assert_eq!(bench.jobs(), 2);

    bench.add(&["--name", "now", "--in", "0s", "--unique", "now", "--", "true"]);
    let claim = bench.node.claim("now");
    bench
        .try_add(&["--unique", "now"])
        .refused(4, &["held by job now, which has been running since "]);
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    assert!(bench.add(&["--unique", "now", "--", "true"]).starts_with("job-"));
}

#[test]
fn a_key_held_for_a_time_outlives_its_job_and_the_conflict_says_until_when() {
    let bench = Bench::start();
    let add = ["--name", "a", "--in", "0s", "--unique", "k", "--unique-for", "1h"];
    bench.try_add(&add).good();
    let claim = bench.node.claim("a");
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    bench
        .try_add(&add)
        .refused(4, &["held by job a, which ended at ", "job a holds the key until "]);
    // Removed by hand it holds nothing.
    bench.add(&["--name", "b", "--in", "1h", "--unique", "l", "--unique-for", "1h", "--", "true"]);
    bench.ctl.run(&["cancel", "b"]).good();
    bench.add(&["--name", "c", "--in", "1h", "--unique", "l", "--", "true"]);
}

#[test]
fn of_many_adds_at_once_exactly_one_is_first() {
    let bench = Bench::start();
    let start = |_| -> Child {
        let mut command =
            bench.ctl.command(&["add", "--in", "1h", "--unique", "race", "--", "true"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..16).map(start).collect();
    let ended: Vec<_> =
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let winners: Vec<String> = ended
        .iter()
        .filter(|out| out.status.success())
        .map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
        .collect();
    assert_eq!(winners.len(), 1, "{ended:?}");
    for out in ended.iter().filter(|out| !out.status.success()) {
        assert_eq!(out.status.code(), Some(4), "{out:?}");
        assert!(
            String::from_utf8_lossy(&out.stderr).contains(&format!("held by job {}", winners[0])),
            "{out:?}"
        );
    }
    assert_eq!(bench.jobs(), 1);
}

#[test]
fn of_many_debounced_adds_at_once_one_job_is_left() {
    let bench = Bench::start();
    let start = |number: u32| -> Child {
        let line = format!("echo {number}");
        let mut command =
            bench.ctl.command(&["add", "--in", "1h", "--debounce", "race", "--shell", &line]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..16).map(start).collect();
    let ended: Vec<_> =
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let names: std::collections::BTreeSet<_> = ended.iter().map(|out| out.stdout.clone()).collect();
    assert!(ended.iter().all(|out| out.status.success()) && names.len() == 1, "{ended:?}");
    assert_eq!(
        (bench.jobs(), bench.ctl.run(&["stats", "--json"]).json()["scheduled"].as_u64()),
        (1, Some(1))
    );
}

#[test]
fn a_debounced_add_takes_the_place_of_the_first_and_moves_its_time() {
    let bench = Bench::start();
    let add =
        |at: &str, line: &str| bench.add(&["--at", at, "--debounce", "reindex", "--shell", line]);
    let first = add("2099-01-01T00:00:00Z", "one");
    assert_eq!(add("2099-01-02T00:00:00Z", "two"), first);
    // Earlier too: the last one counts. A name it gives is not used.
    let args = [
        "add",
        "--name",
        "other",
        "--at",
        "2098-01-01T00:00:00Z",
        "--debounce",
        "reindex",
        "--shell",
        "three",
        "--json",
    ];
    let added = bench.ctl.run(&args).good().json();
    assert_eq!(
        (added["name"].as_str(), added["result"].as_str()),
        (Some(first.as_str()), Some("updated"))
    );
    assert_eq!(added["next_due"], "2098-01-01T00:00:00.000Z");
    let shown = bench.ctl.run(&["show", &first, "--json"]).json();
    assert_eq!(shown["definition"]["shell"], "three");
    assert_eq!(
        shown["definition"]["unique"],
        serde_json::json!({"key": "reindex", "mode": "debounce", "for": null, "max_wait": null})
    );
    assert_eq!(bench.jobs(), 1);
    // The same again changes nothing.
    assert_eq!(bench.ctl.run(&args).good().json()["name"], first);
}

#[test]
fn a_debounced_add_onto_a_paused_job_says_that_it_is_paused_and_promises_no_time() {
    let bench = Bench::start();
    bench.add(&["--name", "first", "--in", "1h", "--debounce", "reindex", "--shell", "one"]);
    bench.ctl.run(&["pause", "first"]).good();
    let again = ["add", "--in", "2s", "--debounce", "reindex", "--shell", "two"];
    let reported = bench.ctl.run(&again).good();
    assert!(
        reported.stderr.contains("job first has been paused since ")
            && reported.stderr.contains("schedctl resume first"),
        "{}",
        reported.stderr
    );
    assert!(!reported.stderr.contains("in 2s"), "a time it will not begin at: {}", reported.stderr);
    let reported = bench.ctl.run(&[&again[..], &["--json"]].concat()).good().json();
    assert_eq!(
        (&reported["name"], &reported["result"], &reported["next_due"]),
        (&"first".into(), &"updated".into(), &serde_json::Value::Null)
    );
    bench.ctl.run(&["resume", "first"]).good();
    let reported = bench.ctl.run(&again).good();
    assert!(!reported.stderr.contains("paused"), "{}", reported.stderr);
}

#[test]
fn debounced_adds_move_a_job_on_for_so_long_as_it_allows_from_the_first() {
    let bench = Bench::start();
    let add = |delay: &str, longest: &str| {
        let args = [
            "add",
            "--in",
            delay,
            "--debounce",
            "k",
            "--max-wait",
            longest,
            "--shell",
            "x",
            "--json",
        ];
        let added = bench.ctl.run(&args).good().json();
        added["next_due"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap()
    };
    let first = add("30m", "2h");
    let second = add("90m", "2h");
    assert!(second > first + jiff::SignedDuration::from_mins(55), "{first} {second}");
    let latest = add("9h", "2h");
    assert!(
        latest > second && latest < first + jiff::SignedDuration::from_mins(95),
        "{second} {latest}"
    );
    assert_eq!(add("10h", "2h"), latest, "however often");
    assert_eq!(bench.ctl.run(&["list", "--json"]).good().json().as_array().unwrap().len(), 1);
    bench
        .ctl
        .run(&["add", "--in", "5s", "--max-wait", "1h", "--shell", "x"])
        .refused(2, &["--debounce"]);
}

#[test]
fn a_debounced_job_that_has_begun_is_left_and_another_is_made() {
    let bench = Bench::start();
    let add = || bench.add(&["--in", "0s", "--debounce", "k", "--shell", "x"]);
    let first = add();
    let claim = bench.node.claim(&first);
    let second = add();
    assert_ne!(first, second);
    assert_eq!(add(), second);
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    let claim = bench.node.claim(&second);
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    assert_eq!(bench.jobs(), 0);
}

#[test]
fn a_named_debounced_job_that_runs_gets_one_more_run() {
    let bench = Bench::start();
    let add = || bench.add(&["--name", "sync", "--in", "0s", "--debounce", "sync", "--shell", "x"]);
    assert_eq!(add(), "sync");
    let first = bench.node.claim("sync");
    assert_eq!((add(), add()), ("sync".to_owned(), "sync".to_owned()));
    bench.node.finish(&first, RunState::Succeeded, &[]);
    let second = bench.node.claim("sync");
    bench.node.finish(&second, RunState::Succeeded, &[]);
    let history = bench.ctl.run(&["history", "sync", "--json"]).json();
    assert_eq!(history.as_array().unwrap().len(), 2, "{history}");
}

#[test]
fn an_add_with_a_key_and_without_a_time_says_that_it_runs_only_when_asked() {
    let bench = Bench::start();
    bench.node.beat("");
    for how in [&["--throttle", "t", "--unique-for", "1h"][..], &["--unique", "u"]] {
        let added = bench.try_add(&[how, &TRUE].concat()).good();
        let name = added.stdout.trim_end();
        let wanted =
            format!("no time given: job {name} runs only by schedctl run {name}; now: --in 0s\n");
        assert_eq!(added.stderr, wanted);
        assert_eq!(bench.try_add(&[how, &["--if-absent"], &TRUE].concat()).good().stderr, "");
    }
}

#[test]
fn a_throttled_add_within_the_time_is_dropped_quietly() {
    let bench = Bench::start();
    bench.node.beat("");
    let add = ["--in", "0s", "--throttle", "mail", "--unique-for", "1h"];
    let first = bench.add(&[&add[..], &TRUE].concat());
    let second = bench.try_add(&add).good();
    assert_eq!((second.stdout.trim_end(), second.stderr.as_str()), (first.as_str(), ""));
    let claim = bench.node.claim(&first);
    bench.node.finish(&claim, RunState::Succeeded, &[]);
    let third = bench.try_add(&[&add[..], &["--json"]].concat()).good().json();
    assert_eq!(
        (third["name"].as_str(), third["result"].as_str()),
        (Some(first.as_str()), Some("exists"))
    );
    assert_eq!(bench.jobs(), 0);
    let short = ["--in", "1h", "--throttle", "short", "--unique-for", "100ms"];
    let first = bench.add(&[&short[..], &TRUE].concat());
    crate::support::wait::until("its time is over", crate::support::wait::LONG, || {
        Some(()).filter(|()| bench.try_add(&short).good().stdout.trim_end() != first)
    });
}

#[test]
fn lines_are_counted_as_added_and_as_there_already() {
    let bench = Bench::start();
    bench.node.beat("");
    let input = b"{\"name\": \"a\", \"shell\": \"x\", \"unique\": \"k\", \"in\": \"1h\"}\n\
        {\"name\": \"b\", \"shell\": \"x\", \"unique\": \"k\", \"in\": \"1h\"}\n\
        {\"name\": \"c\", \"shell\": \"x\", \"unique\": {\"key\": \"d\", \"mode\": \"debounce\"}, \"in\": \"1h\"}\n\
        {\"shell\": \"y\", \"unique\": {\"key\": \"d\", \"mode\": \"debounce\"}, \"in\": \"1h\"}\n\
        {\"shell\": \"z\", \"unique\": {\"key\": \"d\", \"mode\": \"debounce\"}, \"in\": \"1h\"}\n\
        {\"name\": \"e\", \"shell\": \"x\", \"unique\": {\"key\": \"t\", \"mode\": \"throttle\", \"for\": \"1h\"}}\n\
        {\"name\": \"f\", \"shell\": \"x\", \"unique\": {\"key\": \"t\", \"mode\": \"throttle\", \"for\": \"1h\"}}\n\
        {\"name\": \"g\", \"shell\": \"x\", \"unique_for\": \"1h\"}\n\
        {\"name\": \"h\", \"shell\": \"x\"}\n";
    let finished = bench.ctl.run_with_input(&["add", "--stdin"], input);
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (1, "a\nc\nc\nc\ne\ne\nh\n"),
        "{finished:?}"
    );
    let reported: Vec<&str> = finished.stderr.lines().collect();
    assert!(
        reported[0].contains("line 2: ") && reported[0].contains("held by job a, which is due at"),
        "{reported:?}"
    );
    assert!(
        reported[1].contains("line 8: ") && reported[1].contains("found unique_for without unique"),
        "{reported:?}"
    );
    assert_eq!(reported[2..], ["6 added, 1 existed already"]);
    assert_eq!(bench.ctl.run(&["show", "c", "--json"]).json()["definition"]["shell"], "z");
    let again = bench.ctl.run_with_input(&["add", "--stdin", "--if-absent", "--json"], input);
    let results: Vec<String> = again
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["result"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        results,
        ["exists", "exists", "updated", "updated", "updated", "exists", "exists", "exists"]
    );
}

#[test]
fn thousands_of_lines_of_few_keys_are_settled_in_their_order() {
    let bench = Bench::start();
    let input = crate::cli::lines(0..2_000, |number| {
        let key = number % 5;
        format!(
            "{{\"shell\": \"echo {number}\", \"in\": \"1h\", \"unique\": {{\"key\": \"{key}\", \"mode\": \"debounce\"}}}}"
        )
    });
    let finished = bench.ctl.run_with_input(&["add", "--stdin"], input.as_bytes()).good();
    let names: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!((names.len(), bench.jobs()), (2_000, 5));
    for (at, name) in names[1_995..].iter().enumerate() {
        assert_eq!(names[at], *name);
        let shown = bench.ctl.run(&["show", name, "--json"]).json();
        assert_eq!(
            shown["definition"]["shell"],
            format!("echo {}", 1_995 + at),
            "the last line of its key"
        );
    }
}

#[test]
fn what_cannot_be_meant_is_refused_by_the_flag() {
    let bench = Bench::start();
    let long = "x".repeat(257);
    for (flags, words) in [
        (&["--unique", ""][..], &["--unique: ", "empty"][..]),
        (&["--unique", &long], &["--unique: ", "at most 256"]),
        (&["--debounce", "a\tb", "--in", "5s"], &["--debounce: ", "control character"]),
        (&["--unique", "k", "--unique-for", "soon"], &["--unique-for: ", "soon"]),
        (&["--unique", "k", "--unique-for", "400d"], &["--unique-for: ", "365 days"]),
        (&["--debounce", "k"], &["--debounce: ", "--in"]),
        (&["--debounce", "k", "--cron", "@daily"], &["--debounce: ", "--at"]),
        (
            &["--debounce", "k", "--in", "5s", "--unique-for", "1h"],
            &["--unique-for: ", "remove the key for (--unique-for)"],
        ),
        (&["--throttle", "k"], &["--throttle: ", "--unique-for"]),
        (&["--unique-for", "1h"], &["--unique"]),
        (&["--unique", "a", "--throttle", "b"], &["--unique", "--throttle"]),
    ] {
        let finished = bench.try_add(flags);
        assert_eq!(finished.code, 2, "{flags:?}: {finished:?}");
        assert!(words.iter().all(|word| finished.stderr.contains(word)), "{flags:?}: {finished:?}");
    }
    assert_eq!(bench.ctl.run(&["add", "--stdin", "--unique", "k"]).code, 2);
    assert_eq!(bench.jobs(), 0);
}

#[test]
fn a_key_of_another_type_is_reported_and_nothing_is_added() {
    let bench = Bench::start();
    let mut connection = bench.redis.connection();
    let () = redis::cmd("SET").arg("{schedd}:unique:k").arg("x").query(&mut connection).unwrap();
    bench.try_add(&["--unique", "k"]).refused(1, &["{schedd}:unique:k", "hash"]);
    assert_eq!(bench.jobs(), 0);
    let () = redis::cmd("DEL").arg("{schedd}:unique:k").query(&mut connection).unwrap();
    let () = redis::cmd("HSET")
        .arg("{schedd}:unique:k")
        .arg("job")
        .arg("No Job")
        .query(&mut connection)
        .unwrap();
    bench.try_add(&["--unique", "k"]).refused(1, &["\"k\"", "No Job"]);
}

#[test]
fn any_text_a_user_can_read_is_a_key_and_show_prints_it() {
    let bench = Bench::start();
    let keys = ["Kunde Müller / 7", "{b}:*?[a]", "back\\x41slash", "a:b#c@d"];
    for (number, key) in keys.iter().enumerate() {
        bench.add(&["--name", &format!("j{number}"), "--unique", key, "--", "true"]);
        bench.try_add(&["--unique", key]).refused(4, &[&format!("held by job j{number}")]);
        let shown = bench.ctl.run(&["show", &format!("j{number}"), "--json"]).json();
        assert_eq!(shown["definition"]["unique"]["key"], *key);
    }
    let shown = bench.ctl.run(&["show", "j0"]).good().stdout;
    let line = "unique        \"Kunde Müller / 7\", until the job is over; a second add is refused";
    assert!(shown.lines().any(|shown| shown == line), "{shown}");
    bench.ctl.run(&["doctor"]).good();
}
