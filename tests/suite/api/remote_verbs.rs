//! `schedctl --api`: verbs on a host without Redis.

use super::{ApiScene, DEFINING, written};
use crate::support::ctl::Schedctl;

const JOBS: &str = "[jobs.a]\nshell = \"echo out; echo err >&2; exit 3\"\n[jobs.b]\ncron = \"0 9 1 1 *\"\nshell = \"true\"\n";

#[test]
fn verbs_print_and_end_as_with_a_redis() {
    let scene = ApiScene::start(DEFINING, JOBS);
    let ctl = scene.ctl("admin");
    let here = Schedctl::on(&scene.redis);
    for words in [
        &["show", "b"][..],
        &["show", "nothing"],
        &["show", "body"],
        &["list", "--json"],
        &["list", "--no-headers"],
        &["next", "b", "-n", "2"],
        &["queues"],
        &["groups"],
        &["data-loss"],
        &["export", "b"],
        &["describe", "b"],
        &["pause", "nothing"],
        &["cancel", "b"],
        &["logs", "a@last"],
        &["history", "--state", "happy"],
    ] {
        let all = |ctl: &Schedctl| {
            let ended = ctl.run(words);
            (ended.code, ended.stdout, ended.stderr)
        };
        let (before, remote) = (all(&here), all(&ctl));
        // The time to the next run, in words, may change between two calls.
        if remote != before {
            assert_eq!(remote, all(&here), "{words:?}");
        }
    }
    let run = ctl.run(&["run", "a", "--wait"]);
    assert_eq!(run.code, 3, "the job's own code: {run:?}");
    let logs = ctl.run(&["logs", "a@last"]);
    assert_eq!((logs.code, &*logs.stdout), (0, "out\n"), "{logs:?}");
    assert!(logs.stderr.contains("err"), "{logs:?}");
    let followed = ctl.run(&["logs", "-f", "a@last"]);
    assert_eq!((followed.code, &*followed.stdout), (0, "out\n"), "{followed:?}");
    assert_eq!(ctl.run(&["pause", "b"]).good().stdout, "job b paused\n");
    let by = here.run(&["explain", "b", "--json"]).json();
    assert!(by["audit_log"].to_string().contains("token:admin"), "{by}");
}

#[test]
fn lines_and_files_are_read_on_the_host_of_the_user() {
    let scene = ApiScene::start(DEFINING, JOBS);
    let ctl = scene.ctl("admin");
    let lines = b"{\"name\":\"l1\",\"in\":\"1h\",\"shell\":\"true\"}\n{\"name\":\"l2\"}\n";
    let added = ctl.run_with_input(&["add", "--stdin"], lines);
    assert_eq!((added.code, &*added.stdout), (1, "l1\n"), "{added:?}");
    assert!(added.stderr.contains("line 2"), "{added:?}");
    written(ctl.home(), "body.txt", "from my host");
    ctl.run(&[
        "add",
        "--name",
        "post",
        "--in",
        "1h",
        "--http",
        "http://127.0.0.1:1/",
        "--body",
        "@body.txt",
    ])
    .good();
    let shown = scene.get("admin", "/v1/jobs/post").of(200);
    assert_eq!(shown["definition"]["http"]["body"], "from my host", "{shown}");
    written(ctl.home(), "crm.toml", "[jobs.crm]\ncron = \"0 9 1 1 *\"\nshell = \"true\"\n");
    let differs = ctl.run(&["diff", "crm.toml"]);
    assert_eq!(differs.code, 1, "{differs:?}");
    assert!(differs.stdout.contains("+ jobs.crm") || differs.stdout.contains("crm"), "{differs:?}");
    ctl.run(&["apply", "crm.toml"]).good();
    assert_eq!(scene.get("viewer", "/v1/jobs/crm").status, 200);
    written(ctl.home(), "bad.toml", "[jobs.crm]\ncron = \"99 9 1 1 *\"\nshell = \"true\"\n");
    ctl.run(&["apply", "bad.toml"]).refused(78, &["bad.toml", "99"]);
    ctl.run(&["apply", "missing.toml"]).refused(78, &["missing.toml", "cannot be read"]);
    // These verbs need neither Redis nor the API.
    let alone = Schedctl::alone().env("SCHEDD_API_URL", "http://127.0.0.1:1");
    written(alone.home(), "crm.toml", "[jobs.crm]\ncron = \"0 9 1 1 *\"\nshell = \"true\"\n");
    alone.run(&["check", "crm.toml"]).good();
    alone.run(&["next", "--file", "crm.toml"]).good();
}

const HOLIDAYS: &str =
    "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20991224\nEND:VEVENT\nEND:VCALENDAR\n";

#[test]
fn calendars_are_read_on_the_host_of_the_user() {
    let scene = ApiScene::start(DEFINING, JOBS);
    let ctl = scene.ctl("admin");
    std::fs::create_dir(ctl.home().join("crm")).unwrap();
    let job = "[jobs.crm]\ncron = \"0 9 * * *\"\nshell = \"true\"\nexclude = \"calendar:off\"\n";
    let file = format!("[calendars.off]\nfile = \"off.ics\"\n{job}");
    written(ctl.home(), "crm/jobs.toml", &file);
    ctl.run(&["apply", "crm/jobs.toml"]).refused(78, &["crm/jobs.toml", "crm/off.ics", "read"]);
    written(ctl.home(), "crm/off.ics", HOLIDAYS);
    ctl.run(&["apply", "crm/jobs.toml"]).good();
    let shown = scene.get("admin", "/v1/jobs/crm").of(200);
    assert!(shown["definition"].to_string().contains("2099-12-24"), "{shown}");
    written(ctl.home(), "crm/off.ics", "nonsense\n");
    ctl.run(&["diff", "crm/jobs.toml"]).refused(78, &["crm/off.ics", "line 1"]);
}

/// Sends a verb as another client than schedctl could, and returns all that it answers.
fn sent(scene: &ApiScene, caller: &str, words: &[&str], file: &str) -> String {
    let head = serde_json::json!({
        "words": words, "is_terminal": false, "is_error_terminal": false, "has_colour": false,
        "is_brief": false, "zone": "UTC", "files": {"f.toml": file},
    });
    let headers = [("Content-Type", "application/x-ndjson")];
    let body = format!("{head}\n");
    let answer = scene.probe.send(caller, "POST", "/v1/schedctl", &headers, body.as_bytes());
    // Output may come in any number of frames: a byte for the kind, the length, the data.
    let (mut left, mut text) = (&answer.body[..], Vec::new());
    while let [_, a, b, c, d, rest @ ..] = left {
        let (data, after) = rest.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
        text.extend(data);
        left = after;
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn no_verb_of_a_request_looks_at_files_or_accounts_of_the_host_of_the_api() {
    let scene = ApiScene::start(DEFINING, JOBS);
    let host = tempfile::tempdir().unwrap();
    let there = written(host.path(), "there", HOLIDAYS);
    let there = there.to_str().unwrap();
    let answer = |template: &str, path: &str| {
        let text = sent(&scene, "admin", &["diff", "f.toml"], &template.replace("PATH", path));
        text.replace(path, "PATH")
    };
    let job = "[jobs.x]\nshell = \"true\"\n";
    for keys in [
        "[calendars.x]\nfile = \"PATH\"\n",
        "[redis]\nurl_file = \"PATH\"\n",
        "[jobs.x]\nshell = \"true\"\nenv_file = \"PATH\"\n",
        "[jobs.x]\nshell = \"true\"\ncwd = \"PATH\"\n",
        "[jobs.x]\nshell = \"true\"\nshell_program = \"PATH\"\n",
    ] {
        let of_file = answer(keys, there);
        for other in ["/nothing/is/there", host.path().to_str().unwrap()] {
            assert_eq!(of_file, answer(keys, other), "{keys}{other}");
        }
    }
    let user = format!("{job}user = \"PATH\"\n");
    assert_eq!(answer(&user, "daemon"), answer(&user, "nobody-of-this-name"));
    let at = format!("--body=@{there}");
    let words = ["add", "--name", "leak", "--in", "1h", "--http", "http://127.0.0.1:1/", &at];
    let refused = sent(&scene, "admin", &words, "");
    assert!(refused.contains("--body: found @FILE"), "{refused}");
    let words = ["add", "--name", "env", "--env-file", there, "--shell", "true"];
    let added = sent(&scene, "admin", &words, "");
    assert!(added.contains("env\n") && !added.contains("line 1"), "{added}");
}

#[test]
fn a_refusal_of_the_api_is_one_line_with_its_code() {
    let scene = ApiScene::start("", JOBS);
    scene.ctl("viewer").run(&["pause", "b"]).refused(1, &["the API at", "role viewer", "operator"]);
    scene.ctl("admin").run(&["add", "--in", "1h", "--", "true"]).refused(1, &["define = true"]);
    scene.ctl("worker").run(&["list"]).refused(1, &["role worker"]);
    scene.ctl("expired").run(&["list"]).refused(2, &["expired", "--token-file"]);
    let operator = scene.ctl("operator");
    written(operator.home(), "f.toml", "[jobs.b]\nshell = \"true\"\n");
    operator.run(&["diff", "f.toml"]).refused(1, &["role operator", "wanted admin"]);
    scene.ctl("admin").run(&["top"]).refused(2, &["top: wanted a terminal"]);
    scene
        .ctl("admin")
        .run(&["list", "--api", "ftp://x"])
        .refused(2, &["--api", "ftp://x", "https://"]);
    scene
        .ctl("admin")
        .run(&["list", "--redis", "redis://x", "--api", "http://x"])
        .refused(2, &["--redis"]);
    let nobody = Schedctl::alone().env("SCHEDD_API_URL", "http://127.0.0.1:1");
    nobody.run(&["list"]).refused(69, &["the API at http://127.0.0.1:1", "reached"]);
    nobody.run(&["list", "--token-file", "none"]).refused(2, &["--token-file none", "read"]);
    // A flag that names a Redis is stronger than the variable.
    nobody.run(&["list", "--redis", &scene.redis.url()]).good();
}

#[test]
fn times_are_printed_and_read_in_the_zone_of_the_user() {
    let scene = ApiScene::start(DEFINING, JOBS);
    let here = |zone| Schedctl::on(&scene.redis).env("TZ", zone);
    let there = |zone| scene.ctl("admin").env("TZ", zone);
    for words in [
        &["next", "b", "-n", "1"][..],
        &["next", "b", "-n", "1", "--tz", "America/New_York"],
        &["show", "b"],
        &["explain", "b", "--at", "2026-01-01 09:00"],
        &["next", "0 9 1 1 *", "-n", "1", "--from", "2026-05-01"],
    ] {
        let (remote, local) = (there("Asia/Tokyo").run(words), here("Asia/Tokyo").run(words));
        assert_eq!((remote.code, &remote.stdout), (local.code, &local.stdout), "{words:?}");
        let is_tokyo = remote.stdout.contains("JST");
        assert_eq!(is_tokyo, !words.contains(&"--tz"), "{words:?}: {remote:?}");
    }
    let due =
        |name: &str| scene.get("viewer", &format!("/v1/jobs/{name}")).of(200)["next_due"].clone();
    there("Asia/Tokyo")
        .run(&["add", "--name", "at", "--at", "2099-01-01 09:00", "--", "true"])
        .good();
    assert!(due("at").to_string().contains("2099-01-01T09:00:00.000+09:00"), "{}", due("at"));
}
