//! `add` of what cannot be meant: one line that says how to mend it.

use redis::Commands;

use crate::cli::Bench;
use crate::support::ctl::Schedctl;

#[test]
#[expect(clippy::too_many_lines, reason = "a table of refusals")]
fn what_cannot_be_meant_is_refused_in_one_line_before_redis_is_asked() {
    let alone = Schedctl::alone().env("TZ", "UTC");
    let endless = format!("https://example.com/{}", "x".repeat(10_000));
    let cases: &[(&[&str], &[&str])] = &[
        (&["--at", "tomorow 9", "--", "x"], &["tomorow", "tomorrow", "2026-12-24"]),
        (
            &["--at", "2027-03-28T02:30", "--tz", "Europe/Berlin", "--", "x"],
            &["does not exist", "01:59:59+01:00", "03:00:00+02:00"],
        ),
        (&["--at", "02/03/2027", "--", "x"], &["\"2027-03-02\" or \"2027-02-03\""]),
        (&["--at", "2h30m", "--", "x"], &["wanted a time such as \"in 2h30m\""]),
        (&["--at", "9999-01-01", "--", "x"], &["1970 to 2099"]),
        (&["--at", "@1000000000000000000", "--", "x"], &["1970 to 2099"]),
        (
            &["--http", "http://h/", "--limit-cpu", "1", "--nice", "3"],
            &[
                "--limit-cpu, --nice: limits has no effect, because an HTTP request starts no process",
            ],
        ),
        (
            &["--http", "http://h/", "--stdin-text", "x"],
            &[
                "--stdin-text: stdin has no effect, because an HTTP request starts no process: remove stdin",
            ],
        ),
        (&["--tz", "Europe/Munich", "--", "x"], &["--tz", "Munich", "nearest"]),
        (&["--tz", "EST5EDT6", "--", "x"], &["--tz", "EST5EDT6"]),
        (&["--tz", "", "--", "x"], &["--tz"]),
        (&["--cron", "* * * *", "--", "x"], &["--cron", "4 fields", "wanted 5"]),
        (&["--cron", "60 * * * *", "--", "x"], &["minute 60", "0-59"]),
        (&["--cron", "*/0 * * * *", "--", "x"], &["step 0"]),
        (&["--cron", "5-1 * * * *", "--", "x"], &["5-1"]),
        (&["--cron", "0 0 30 2 *", "--", "x"], &["matches no day before 2100"]),
        (
            &["--cron", "@rebot", "--", "x"],
            &["\"@rebot\" at character 1 is not a known word", "@reboot"],
        ),
        (
            &["--traceparent", "00-0-0-01", "--", "x"],
            &[
                "--traceparent: found \"00-0-0-01\", wanted a W3C traceparent with 32, 16 and 2",
                "such as \"00-4bf9",
            ],
        ),
        (&["--queue", "@web", "--", "x"], &["--queue", "a name without @"]),
        (&["--cron", "0 0 * * MON#6", "--", "x"], &["MON#6"]),
        (
            &["--retry", "1", "--delivery", "at-most-once", "--", "x"],
            &["--delivery", "contradicts retry.limit 1"],
        ),
        (
            &["--retry", "1", "--retry-on", "3", "--retry-never-on", "3", "--", "x"],
            &["--retry-never-on", "found code 3 in both on and never_on"],
        ),
        (
            &["--retry", "1", "--retry-on", "503", "--", "x"],
            &["--retry-on", "1 to 255", "runs a process"],
        ),
        (
            &["--retry", "1", "--retry-never-on", "3", "--http", "http://h/"],
            &["--retry-never-on", "100 to 599"],
        ),
        (
            &["--done-check", "x", "--done-check-on", "never", "--", "x"],
            &["--done-check-on", "\"retry\" or \"always\""],
        ),
        (&["--every", "0s", "--", "x"], &["--every", "1s to 10 years"]),
        (&["--every", "-5m", "--", "x"], &["negative"]),
        (&["--every", "1ms", "--", "x"], &["1s to 10 years"]),
        (&["--every", "999999h", "--", "x"], &["--every"]),
        (&["--in", "-5m", "--", "x"], &["negative"]),
        (&["--in", "5", "--", "x"], &["\"5s\""]),
        (&["--name", "", "--", "x"], &["a-z 0-9"]),
        (&["--name", "../../etc/x", "--", "x"], &["a-z 0-9"]),
        (&["--name", "a b", "--", "x"], &["a-z 0-9"]),
        (&["--name", "a\u{202e}b", "--", "x"], &["a-z 0-9"]),
        (&["--name", "a\nb\u{1b}", "--", "x"], &["a-z 0-9"]),
        (&["--", ""], &["the command", "program"]),
        (&["--shell", "   "], &["--shell"]),
        (&["--env", "1X=1", "--", "x"], &["--env 1X"]),
        (&["--env", "A", "--", "x"], &["NAME=VALUE"]),
        (&["--env", "A=1", "--env", "A=2", "--", "x"], &["twice"]),
        (&["--http", "file:///etc/passwd"], &["--http", "wanted http or https"]),
        (&["--http", "gopher://x"], &["--http"]),
        (&["--http", "http://u:pw@h/"], &["password"]),
        (&["--http", "http:///"], &["--http"]),
        (&["--http", &endless], &["--http"]),
        (&["--http", "http://h", "--header", "A: b\r\nC: d"], &["--header"]),
        (&["--http", "http://h", "--header", "Host: x"], &["--header"]),
        (&["--http", "http://h", "--header", "nonsense"], &["NAME:VALUE"]),
        (&["--http", "http://h", "--header", "A: 1", "--header", "a: 2"], &["twice"]),
        (&["--http", "http://h", "--body", "@/no/such"], &["--body", "No such file"]),
        (&["--http", "http://h", "--expect", "99"], &["--expect"]),
        (&["--body", "x", "--", "x"], &["--body", "--http"]),
        (&["--timeout", "0s", "--", "x"], &["--timeout", "30 days"]),
        (&["--timeout", "31d", "--", "x"], &["--timeout", "30 days"]),
        (&["--timeout", "30", "--", "x"], &["\"30s\""]),
        (&["--retry", "-1", "--", "x"], &["--retry", "0 to 1000"]),
        (&["--retry", "1000000000", "--", "x"], &["--retry", "0 to 1000"]),
        (&["--retry", "2", "--delivery", "at-most-once", "--", "x"], &["contradicts"]),
        (&["--overlap", "skp", "--", "x"], &["--overlap", "did you mean \"skip\""]),
        (&["--catch-up", "x", "--", "x"], &["--catch-up", "latest"]),
        (&["--cwd", "rel", "--", "x"], &["--cwd", "absolute"]),
        (&["--limit-memory", "5", "--", "x"], &["--limit-memory", "256MiB"]),
        (&["--limit-cpu", "-1", "--", "x"], &["--limit-cpu", "more than 0"]),
        (
            &["--limit-cpu", "x", "--", "x"],
            &["--limit-cpu: found \"x\", wanted a number such as 0.5"],
        ),
        (&["--nice", "20", "--", "x"], &["--nice", "0 to 19"]),
        (&["--umask", "28", "--", "x"], &["--umask", "3 or 4 octal digits"]),
        (&["--shell-program", "bash", "--shell", "x"], &["--shell-program", "the absolute path"]),
        (&["--stdin-text", "@/no/such", "--", "x"], &["--stdin-text", "No such file"]),
        (&["--in", "1m", "--every", "1m", "--", "x"], &["cannot be used with"]),
        (&["--shell", "x", "--", "x"], &["cannot be used with"]),
        (&["--stdin", "--name", "x"], &["cannot be used with"]),
        (&["--stdin", "--method", "POST"], &["cannot be used with"]),
        (&["--stdin", "--header", "A: b"], &["cannot be used with"]),
        (&["--stdin", "--body", "x"], &["cannot be used with"]),
        (&["--stdin", "--expect", "200"], &["cannot be used with"]),
        (&["--replace", "--if-absent", "--", "x"], &["cannot be used with"]),
        (&["--in", "5m"], &["--shell", "--http"]),
        (&["--in", "5m", "echo", "hi"], &["echo", "goes after --"]),
    ];
    for (args, words) in cases {
        let finished = alone.run(&[&["add"], *args].concat());
        finished.refused(2, words);
        assert_eq!(finished.stdout, "");
    }
}

#[test]
fn a_number_that_is_not_finite_is_refused_in_flags_and_in_lines() {
    let bench = Bench::start();
    for number in ["NaN", "nan", "inf", "infinity", "1e400", "1e9"] {
        let finished = bench.ctl.run(&["add", "--name", "n", "--limit-cpu", number, "--", "x"]);
        finished
            .refused(2, &["--limit-cpu", "wanted a number such as 0.5, more than 0, at most 1000"]);
    }
    bench
        .ctl
        .run(&["add", "--name", "n", "--limit-cpu=-inf", "--", "x"])
        .refused(2, &["--limit-cpu", "wanted a number"]);
    let keys = [
        r#""limits": {"cpu": 1e400}"#,
        r#""limits": {"cpu": NaN}"#,
        r#""limits": {"cpu": "inf"}"#,
        r#""limits": {"pids": 1e300}"#,
        r#""retry": 99999999999999999999"#,
        r#""priority": 1e1"#,
        r#""max_runs": -1"#,
    ];
    for key in keys {
        let line = format!("{{\"name\": \"n\", \"shell\": \"x\", {key}}}\n");
        let finished = bench.ctl.run_with_input(&["add", "--stdin"], line.as_bytes());
        assert!(
            finished.code == 1 && finished.stderr.starts_with("schedctl: line 1: "),
            "{key}: {finished:?}"
        );
    }
    assert_eq!(bench.ctl.run(&["list", "--json"]).good().json(), serde_json::json!([]));
}

#[test]
fn an_unknown_queue_is_refused_with_those_there_are() {
    let bench = Bench::start();
    bench.node.declare_queue("mail");
    bench.ctl.run(&["add", "--queue", "mial", "--", "x"]).refused(2, &["mial", "default, mail"]);
    bench.add(&["--queue", "mail", "--", "x"]);
    bench.add(&["--queue", "default", "--", "x"]);
}

#[test]
fn a_redis_without_memory_is_reported_as_such() {
    let bench = Bench::start();
    let mut connection = bench.redis.connection();
    let () =
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1").query(&mut connection).unwrap();
    bench.ctl.run(&["add", "--", "x"]).refused(69, &["out of memory"]);
    let () =
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("0").query(&mut connection).unwrap();
    let () = connection.set("{schedd}:jobs", "x").unwrap();
    bench.ctl.run(&["add", "--", "x"]).refused(1, &["{schedd}:jobs", "schedctl doctor --fix"]);
}
