//! Which Redis is used, and what is said when there is none that can be.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::Bench;
use crate::support::ctl::Schedctl;
use crate::support::redis::TestRedis;

#[test]
fn flags_come_before_the_environment_and_that_before_the_file() {
    let (right, wrong) = (TestRedis::start(), TestRedis::start());
    Schedctl::on(&right).run(&["add", "--name", "here", "--", "x"]).good();
    let sees_it = |ctl: &Schedctl, args: &[&str]| {
        ctl.run(&[&["list", "--json"], args].concat()).good().json() != serde_json::json!([])
    };
    let by_flag = Schedctl::on(&wrong);
    assert!(sees_it(&by_flag, &["--redis", &right.url()]));
    assert!(!sees_it(&by_flag, &[]));

    let by_variable = Schedctl::on(&right);
    fs::write(
        by_variable.home().join("jobs.toml"),
        format!("[redis]\nurl = \"{}\"\n", wrong.url()),
    )
    .unwrap();
    assert!(sees_it(&by_variable, &[]));

    let by_file = Schedctl::alone();
    fs::write(by_file.home().join("jobs.toml"), format!("[redis]\nurl = \"{}\"\n", right.url()))
        .unwrap();
    assert!(sees_it(&by_file, &[]));

    let by_named_file = Schedctl::alone().env("SCHEDD_REDIS_URL", "");
    let secret = by_named_file.home().join("url");
    fs::write(&secret, format!("{}\n", right.url())).unwrap();
    let other = by_named_file.home().join("other.toml");
    fs::write(&other, format!("[redis]\nurl_file = \"{}\"\n", secret.display())).unwrap();
    assert!(sees_it(&by_named_file, &["--jobs", other.to_str().unwrap()]));
    assert!(sees_it(&by_named_file.env("SCHEDD_JOBS", other.to_str().unwrap()), &[]));
}

#[test]
fn namespaces_do_not_see_each_other() {
    let bench = Bench::start();
    bench.add(&["--name", "here", "--", "x"]);
    let there = bench.ctl.run(&["list", "--json", "--namespace", "other"]).good().json();
    assert_eq!(there, serde_json::json!([]));
    let by_variable = Schedctl::on(&bench.redis).namespace("other");
    assert_eq!(by_variable.run(&["list", "--json"]).good().json(), serde_json::json!([]));
    bench.ctl.run(&["list", "--namespace", "a b"]).refused(2, &["namespace", "a-z 0-9"]);
}

#[test]
fn a_file_that_is_being_edited_keeps_nobody_from_looking() {
    let bench = Bench::start();
    bench.add(&["--name", "here", "--", "x"]);
    let alone = Schedctl::alone();
    let socket = bench.redis.url().trim_start_matches("unix://").to_owned();
    symlink(socket, state_dir(&alone).join("redis.sock")).unwrap();
    let other = TestRedis::start();
    let named = format!("[redis]\nurl = \"{}\"\n", other.url());
    let sees = |text: &str| {
        fs::write(alone.home().join("jobs.toml"), text).unwrap();
        let finished = alone.run(&["list", "--json"]).good();
        assert!(
            finished.stderr.contains("jobs.toml has") && finished.stderr.contains("schedctl check"),
            "{finished:?}"
        );
        finished.json().as_array().unwrap().len()
    };
    assert_eq!(sees("[jobs.a]\ncomand = [\"x\"]\n"), 1);
    assert_eq!(sees("[jobs.a\n"), 1);
    assert_eq!(sees(&format!("[jobs.a]\nshel = 1\n{named}")), 0);
    // Which one is meant cannot be known.
    for text in [
        format!("[jobs.a\n{named}"),
        format!("{named}url = \"x\"\n"),
        "[redis]\nurll = \"x\"\n".to_owned(),
    ] {
        fs::write(alone.home().join("jobs.toml"), &text).unwrap();
        assert_eq!(alone.run(&["list"]).code, 78, "{text}");
    }
}

/// The directory a private server's socket is looked for in below HOME.
fn state_dir(ctl: &Schedctl) -> std::path::PathBuf {
    let dir = ctl.home().join(".local/state/schedd");
    fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn the_private_socket_is_found_by_itself() {
    let bench = Bench::start();
    bench.add(&["--name", "here", "--", "x"]);
    let alone = Schedctl::alone();
    let socket = bench.redis.url().trim_start_matches("unix://").to_owned();
    symlink(socket, state_dir(&alone).join("redis.sock")).unwrap();
    assert_eq!(alone.run(&["list", "--json"]).good().json()[0]["name"], "here");
    // A file that names no Redis does not hide it.
    fs::write(alone.home().join("jobs.toml"), "[jobs.x]\nshell = \"x\"\n").unwrap();
    assert_eq!(alone.run(&["list", "--json"]).good().json()[0]["name"], "here");
}

#[test]
fn no_redis_at_all_is_reported_with_where_it_was_looked_for() {
    let alone = Schedctl::alone();
    let place = alone.home().join(".local/state/schedd/redis.sock");
    for args in [
        &["list"][..],
        &["list", "--json"],
        &["stats"],
        &["add", "--", "x"],
        &["cancel", "x"],
        &["run", "x"],
    ] {
        let finished = alone.run(args);
        finished.refused(
            69,
            &["found no schedd", place.to_str().unwrap(), "/var/lib/schedd", "--redis URL"],
        );
        assert_eq!(finished.stdout, "");
    }
}

#[test]
fn a_socket_nobody_answers_on_is_reported_as_such() {
    let alone = Schedctl::alone();
    drop(UnixListener::bind(state_dir(&alone).join("redis.sock")).unwrap());
    alone.run(&["list"]).refused(
        69,
        &["schedd is not running", "redis.sock", "Connection refused", "start schedd"],
    );
}

#[test]
fn a_server_that_cannot_be_used_is_refused_with_its_reason_and_without_the_password() {
    let bench = Bench::start();
    let mut connection = bench.redis.connection();
    let mut config = |key: &str, value: &str| {
        let () =
            redis::cmd("CONFIG").arg("SET").arg(key).arg(value).query(&mut connection).unwrap();
    };
    config("maxmemory-policy", "allkeys-lru");
    bench
        .ctl
        .run(&["list"])
        .refused(69, &["allkeys-lru", "noeviction", "allow_eviction = true in [redis]"]);
    // The file may say so although the address comes from elsewhere, and whatever its jobs are like.
    std::fs::write(
        bench.ctl.home().join("jobs.toml"),
        "[redis]\nallow_eviction = true\n[jobs.a]\nshel = 1\n",
    )
    .unwrap();
    let finished = bench.ctl.run(&["list"]).good();
    assert!(
        finished.stderr.contains("warning: ") && finished.stderr.contains("allkeys-lru"),
        "{finished:?}"
    );
    std::fs::write(bench.ctl.home().join("jobs.toml"), "[redis]\nallow_eviction = false\n")
        .unwrap();
    bench.ctl.run(&["list"]).refused(69, &["allkeys-lru"]);
    std::fs::remove_file(bench.ctl.home().join("jobs.toml")).unwrap();
    config("maxmemory-policy", "noeviction");
    config("requirepass", "s3cret");
    bench.ctl.run(&["list"]).refused(69, &["password"]);
    let wrong = format!("{}?pass=hunter2", bench.redis.url());
    let finished = bench.ctl.run(&["list", "--redis", &wrong]);
    finished.refused(69, &["the user name or password is wrong"]);
    assert!(finished.stderr.contains("warning: --redis has a password"), "{finished:?}");
    assert!(!finished.stderr.contains("hunter2"), "{finished:?}");
    let right = format!("{}?pass=s3cret", bench.redis.url());
    let finished = bench.ctl.run(&["list", "--redis", &right]).good();
    assert!(!finished.stderr.contains("s3cret"), "{finished:?}");
    Schedctl::alone().env("SCHEDD_REDIS_URL", &right).run(&["list"]).good();
}

#[test]
fn an_address_that_is_none_is_bad_usage() {
    let alone = Schedctl::alone();
    for url in ["http://h", "localhost:6379", "redis://u:hunter2@"] {
        let finished = alone.run(&["list", "--redis", url]);
        assert!(matches!(finished.code, 2 | 69), "{finished:?}");
        assert!(!finished.stderr.contains("hunter2"), "{finished:?}");
    }
    for (url, words) in [
        ("redis://h/-1", "the database number is not 0 or a larger whole number"),
        ("redis://h/1.5", "the database number is not 0 or a larger whole number"),
        ("unix:///run/r.sock?db=-1", "the database number is not 0 or a larger whole number"),
        ("redis://h:70000", "the port is not a number from 1 to 65535"),
        ("redis://u:hunter2@h:70000/0", "the port is not a number from 1 to 65535"),
        ("redis://h:0/", "the port is not a number from 1 to 65535"),
        ("redis://", "the URL has no host"),
        ("redis://[::1", "the host is not a host name"),
    ] {
        let finished = alone.run(&["list", "--redis", url]);
        finished.refused(2, &[words, "redis://HOST:PORT/DB"]);
        assert!(!finished.stderr.contains("hunter2"), "{finished:?}");
        std::fs::write(alone.home().join("jobs.toml"), format!("[redis]\nurl = \"{url}\"\n"))
            .unwrap();
        let finished = alone.run(&["check", "jobs.toml"]);
        assert!(finished.code == 78 && finished.stderr.contains(words), "{finished:?}");
        assert!(
            finished.stderr.lines().count() == 1 && !finished.stderr.contains("hunter2"),
            "{finished:?}"
        );
    }
    std::fs::remove_file(alone.home().join("jobs.toml")).unwrap();
    alone
        .run(&["list", "--redis", "redis://127.0.0.1:1/"])
        .refused(69, &["redis://127.0.0.1:1/", "refused"]);
}

#[test]
fn a_bad_file_is_reported_of_problem_by_problem() {
    let alone = Schedctl::alone();
    fs::write(alone.home().join("jobs.toml"), "x = 1\n[redis]\nurl = 3\n").unwrap();
    let finished = alone.run(&["list"]);
    assert_eq!(finished.code, 78);
    let lines: Vec<&str> = finished.stderr.lines().collect();
    assert!(
        lines.len() == 2 && lines.iter().all(|line| line.starts_with("schedctl: jobs.toml:")),
        "{lines:?}"
    );
    let missing = alone.run(&["list", "--jobs", "/no/such.toml"]);
    missing.refused(78, &["/no/such.toml", "no such file"]);
    fs::write(alone.home().join("jobs.toml"), "[redis]\nurl_file = \"/no/such\"\n").unwrap();
    alone.run(&["list"]).refused(78, &["url_file", "/no/such"]);
}
