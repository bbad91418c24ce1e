//! `add --stdin`.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::cli::{Bench, lines};
use crate::support::host::proxy::{Loss, Proxy};

#[test]
fn good_lines_go_in_and_bad_ones_are_reported_with_their_number() {
    let bench = Bench::start();
    bench.node.beat("");
    let input = b"{\"name\": \"a\", \"in\": \"1h\", \"command\": [\"x\"]}\n\
        \n\
        nonsense\n\
        {\"name\": \"b\", \"comand\": [\"x\"]}\n\
        {\"name\": \"c\", \"every\": \"1m\", \"shell\": \"x\", \"queue\": \"nope\"}\n\
        {\"name\": \"a\", \"shell\": \"other\"}\n\
        {\"name\": \"d\", \"cron\": \"@daily\", \"shell\": \"x\"}";
    let finished = bench.ctl.run_with_input(&["add", "--stdin"], input);
    assert_eq!(finished.code, 1, "{finished:?}");
    assert_eq!(finished.stdout, "a\nd\n");
    let reported: Vec<&str> = finished.stderr.lines().collect();
    let wanted = [
        ("line 3: ", "JSON"),
        ("line 4: ", "did you mean \"command\""),
        ("line 5: ", "nope"),
        ("line 6: ", "job a exists already"),
    ];
    assert_eq!(reported.len(), wanted.len(), "{reported:?}");
    for (line, (start, word)) in reported.iter().zip(wanted) {
        assert!(line.starts_with(&format!("schedctl: {start}")) && line.contains(word), "{line}");
    }
}

#[test]
fn what_is_doubtful_of_a_line_is_reported_with_its_number_and_only_so_often() {
    let bench = Bench::start();
    bench.node.beat("");
    let input = r#"{"name": "a", "shell": "x", "every": "1h", "ping_url": "https://hc.example/{jobb}"}
{"name": "b", "shell": "x", "user": "no-such-user"}
{"name": "c", "shell": "x", "not_while": ["nobody", "later"]}
{"name": "d", "shell": "x", "cron": "0 0 0 1 1 * 2020"}
{"name": "later", "shell": "x", "not_while": ["nobody"]}
"#;
    let reported = bench.ctl.run_with_input(&["add", "--stdin"], input.as_bytes()).good().stderr;
    let each: Vec<&str> = reported.lines().collect();
    let wanted = [
        ("line 1: ping_url: ", "{jobb}"),
        ("line 2: user: ", "this host has no user \"no-such-user\""),
        ("line 4: job d ", "no future time"),
        ("line 3: not_while: ", "no job nobody exists"),
    ];
    assert_eq!(each.len(), wanted.len(), "{reported}");
    for (line, (start, word)) in each.iter().zip(wanted) {
        assert!(
            line.starts_with(&format!("schedctl: warning: {start}")) && line.contains(word),
            "{line}"
        );
    }
    // What was there already is not looked at again.
    assert_eq!(
        bench
            .ctl
            .run_with_input(&["add", "--stdin", "--if-absent", "--quiet"], input.as_bytes())
            .good()
            .stderr,
        ""
    );

    let input = lines(0..700, |_| r#"{"shell": "x", "cwd": "/no/such/directory"}"#.to_owned());
    let reported = bench.ctl.run_with_input(&["add", "--stdin"], input.as_bytes()).good().stderr;
    assert_eq!(reported.lines().count(), 21, "{reported}");
    assert!(
        reported.contains("line 20: cwd: ")
            && reported
                .ends_with("schedctl: warning: 680 more warnings about lines are not shown\n"),
        "{reported}"
    );
    let reported =
        bench.ctl.run(&["add", "--name", "e", "--not-while", "nobody", "--", "x"]).good().stderr;
    assert!(reported.contains("--not-while: no job nobody exists"), "{reported}");
}

#[test]
fn a_past_time_of_a_line_that_does_not_run_is_named_in_a_warning() {
    let bench = Bench::start();
    bench.node.beat("");
    let (a, b) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let (old, new) = ("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z");
    let input = format!(
        r#"{{"name": "one", "shell": "x", "at": "{a}"}}
{{"name": "two", "shell": "x", "at": ["{a}", "{b}"]}}
{{"name": "mixed", "shell": "x", "at": ["{a}", "2099-01-01T00:00:00Z"]}}
{{"name": "late", "shell": "x", "at": "{b}", "skip_if_late": "1m"}}
{{"name": "both", "shell": "x", "at": ["{a}", "{b}"], "catch_up": "skip"}}
"#
    );
    let reported = bench.ctl.run_with_input(&["add", "--stdin"], input.as_bytes()).good().stderr;
    let each: Vec<&str> = reported.lines().collect();
    let only = "only the newest past time runs";
    let rules = "a rule of the job (skip_if_late, catch_up, exclude, only_on, start, end) excludes this time";
    let wanted = [
        format!("line 2: job two does not run for {old}: {only}"),
        format!("line 4: job late does not run for {new}: {rules}"),
        format!("line 5: job both does not run for {old}: {only}; nor for {new}: {rules}"),
    ];
    assert_eq!(each, wanted.map(|text| format!("schedctl: warning: {text}")), "{reported}");
}

#[test]
fn lines_that_are_all_bad_fail_and_none_at_all_are_fine() {
    let bench = Bench::start();
    assert_eq!(bench.ctl.run_with_input(&["add", "--stdin"], b"{}\n[]\n").code, 1);
    let none = bench.ctl.run_with_input(&["add", "--stdin", "--json"], b"\n  \n").good();
    assert_eq!(none.json(), serde_json::json!([]));
}

#[test]
fn json_is_one_document_and_quiet_is_silent() {
    let bench = Bench::start();
    let input = b"{\"name\": \"a\", \"at\": \"2099-01-01T00:00:00Z\", \"shell\": \"x\"}\n\n{\"shell\": \"x\"}\n";
    let added = bench.ctl.run_with_input(&["add", "--stdin", "--json"], input).good().json();
    assert_eq!(
        added[0],
        serde_json::json!({"line": 1, "name": "a", "next_due": "2099-01-01T00:00:00.000Z", "run_id": "a@4070908800000", "result": "created"})
    );
    assert_eq!(added[1]["line"], 3);
    assert!(added[1]["name"].as_str().unwrap().starts_with("job-"));
    let quiet =
        bench.ctl.run_with_input(&["add", "--stdin", "--quiet"], b"{\"shell\": \"x\"}\n").good();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
}

#[test]
fn a_taken_name_is_replaced_or_left_as_asked() {
    let bench = Bench::start();
    bench.add(&["--name", "a", "--shell", "one"]);
    let input = b"{\"name\": \"a\", \"shell\": \"two\"}\n{\"name\": \"a\", \"shell\": \"three\"}\n";
    bench.ctl.run_with_input(&["add", "--stdin", "--if-absent"], input).good();
    assert_eq!(bench.ctl.run(&["show", "a", "--json"]).json()["definition"]["shell"], "one");
    bench.ctl.run_with_input(&["add", "--stdin", "--replace"], input).good();
    assert_eq!(bench.ctl.run(&["show", "a", "--json"]).json()["definition"]["shell"], "three");
}

#[test]
fn a_line_that_is_too_long_or_too_deep_or_no_text_is_refused_and_the_rest_goes_in() {
    let bench = Bench::start();
    let mut input = format!("{{\"shell\": \"{}\"}}\n", "x".repeat(400 * 1024)).into_bytes();
    input.extend(
        format!("{{\"shell\": {}1{}}}\n", "[".repeat(10_000), "]".repeat(10_000)).into_bytes(),
    );
    input.extend(format!("{{\"shell\": \"{}\"}}\n", "x".repeat(200 * 1024)).into_bytes());
    input.extend(b"{\"shell\": \"\xff\"}\n{\"name\": \"last\", \"shell\": \"x\"}\n");
    let finished = bench.ctl.run_with_input(&["add", "--stdin"], &input);
    assert_eq!((finished.code, finished.stdout.as_str()), (1, "last\n"));
    for (number, word) in [(1, "320 KiB"), (2, "deeper than 64"), (3, "128 KiB"), (4, "UTF-8")] {
        let line = finished
            .stderr
            .lines()
            .find(|line| line.contains(&format!("line {number}: ")))
            .unwrap();
        assert!(line.contains(word), "{line}");
    }
}

#[test]
fn thousands_of_lines_all_go_in_under_their_own_numbers() {
    let bench = Bench::start();
    let input =
        lines(1..3_001, |n| format!("{{\"name\": \"j{n}\", \"in\": \"{n}m\", \"shell\": \"x\"}}"));
    let finished = bench.ctl.run_with_input(&["add", "--stdin"], input.as_bytes()).good();
    let names: Vec<String> = finished.stdout.lines().map(str::to_owned).collect();
    assert_eq!(names, (1..=3_000).map(|n| format!("j{n}")).collect::<Vec<_>>());
    assert_eq!(bench.ctl.run(&["stats", "--json"]).json()["jobs"], 3_000);
}

#[test]
fn a_redis_that_takes_its_time_for_a_batch_is_waited_for() {
    let bench = Bench::start();
    let mut connection = bench.redis.connection();
    let _: () =
        redis::cmd("CLIENT").arg("PAUSE").arg(3_000).arg("WRITE").query(&mut connection).unwrap();
    let input = lines(0..500, |n| format!("{{\"name\": \"j{n}\", \"shell\": \"x\"}}"));
    let finished = bench.ctl.run_with_input(&["add", "--stdin"], input.as_bytes()).good();
    assert_eq!(finished.stdout.lines().count(), 500);
}

#[test]
fn a_batch_whose_answer_is_lost_is_asked_for_again_and_nothing_is_added_twice() {
    let bench = Bench::start();
    bench.node.beat("");
    for (loss, from) in [(Loss::Cut, 0), (Loss::Silence, 10)] {
        let proxy = Proxy::to(&bench.redis);
        proxy.lose_answer_to(&format!("j{}", from + 3), loss);
        let input = lines(from..from + 10, |n| {
            let name = if n % 2 == 1 { format!("\"name\": \"j{n}\", ") } else { String::new() };
            format!("{{{name}\"shell\": \"x\"}}")
        });
        let finished = bench
            .ctl
            .run_with_input(&["--redis", &proxy.url(), "add", "--stdin"], input.as_bytes())
            .good();
        proxy.wait_lost();
        let names: BTreeSet<&str> = finished.stdout.lines().collect();
        assert_eq!((names.len(), finished.stderr.as_str()), (10, ""), "{finished:?}");
        assert_eq!(bench.ctl.run(&["stats", "--json"]).json()["jobs"], from + 10);
    }
}

#[test]
fn a_line_is_added_before_the_next_one_comes() {
    let bench = Bench::start();
    let mut child = bench
        .ctl
        .command(&["add", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut names = BufReader::new(child.stdout.take().unwrap()).lines();
    for name in ["a", "b"] {
        writeln!(input, "{{\"name\": \"{name}\", \"shell\": \"x\"}}").unwrap();
        assert_eq!(names.next().unwrap().unwrap(), name);
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_is_added_goes_on_being_added_when_nobody_reads_the_names() {
    let bench = Bench::start();
    let input = lines(0..2_000, |n| format!("{{\"name\": \"j{n}\", \"shell\": \"x\"}}"));
    std::fs::write(bench.ctl.home().join("lines"), input).unwrap();
    let lines = std::fs::File::open(bench.ctl.home().join("lines")).unwrap();
    let mut child =
        bench.ctl.command(&["add", "--stdin"]).stdin(lines).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(bench.ctl.run(&["stats", "--json"]).json()["jobs"], 2_000);
}
