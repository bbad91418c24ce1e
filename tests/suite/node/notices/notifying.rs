//! People are told of runs: by a line of the shell, by a request, also when the node dies between the end and the telling.

use std::time::Duration;

use serde_json::{Value, json};

use super::notice_desk::Desk;
use crate::node::QUICK;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::host::http_sink::{Answer, Recorded};
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

#[test]
fn a_failure_is_reported_in_the_end_only_and_a_success_after_it_as_recovered() {
    let desk = Desk::new([]);
    let _node = Schedd::on(&desk.redis).start();
    let (reported, marker) = (desk.path("told"), desk.path("marker"));
    let line = |kind: &str| {
        json!({"shell": format!(
            "echo {kind} $SCHEDD_ABOUT_KIND $SCHEDD_ABOUT_JOB $SCHEDD_ABOUT_STATE $SCHEDD_ABOUT_ATTEMPTS $SCHEDD_ABOUT_EXIT_CODE \
             $(printf %s \"$SCHEDD_ABOUT_OUTPUT\" | tr '\\n' '|') $SCHEDD_JOB >> {reported}"
        )})
    };
    desk.eye.add(&json!({
        "name": "work", "shell": format!("echo hello; echo oops >&2; test -e {marker} || exit 7"), "retry": {"limit": 1, "delay": "0s"},
        "on_failure": line("f"), "on_success": line("s"), "on_recovered": line("r"), "on_late": line("l"),
    }));
    let ctl = Schedctl::on(&desk.redis);
    ctl.run(&["run", "work", "--wait"]);
    assert_eq!(
        desk.wait_for_lines("told", 1),
        ["f on_failure work failed 2 7 hello|oops| work/on_failure"]
    );
    std::fs::write(&marker, "").unwrap();
    ctl.run(&["run", "work", "--wait"]).good();
    let mut lines = desk.wait_for_lines("told", 3)[1..].to_vec();
    lines.sort_unstable();
    let wanted = [
        "r on_recovered work succeeded 1 0 hello|oops| work/on_recovered",
        "s on_success work succeeded 1 0 hello|oops| work/on_success",
    ];
    assert_eq!(lines, wanted);
    let ended = desk.eye.wait_for_history("work/on_failure", 1).remove(0);
    assert_eq!((ended.state, ended.attempt), (RunState::Succeeded, 1));
    // Hidden, and yet there for whoever asks.
    let names = |flags: &[&str]| -> Vec<String> {
        let list = ctl.run(&[&["list", "--json"], flags].concat()).good().json();
        list.as_array()
            .unwrap()
            .iter()
            .map(|job| job["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&[]), ["work"]);
    let jobs = |words: &[&str]| -> std::collections::BTreeSet<String> {
        let runs = ctl.run(&[words, &["--json"]].concat()).good().json();
        runs.as_array().unwrap().iter().map(|run| run["job"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(jobs(&["history"]), ["work".to_owned()].into());
    assert!(jobs(&["history", "--notices"]).contains("work/on_failure"));
    assert_eq!(jobs(&["history", "work/on_failure"]), ["work/on_failure".to_owned()].into());
    assert_eq!(
        ctl.run(&["history", "--limit", "1", "--offset", "1", "--json"]).good().json()[0]["state"],
        "failed"
    );
    assert!(names(&["--all"]).contains(&"work/on_failure".to_owned()));
    let shown = ctl.run(&["show", "work"]).good().stdout;
    assert!(shown.contains("on failure    /bin/sh -c "), "{shown}");
    let shown = ctl.run(&["show", &ended.run.to_string(), "--json"]).good().json();
    assert_eq!(
        (&shown["state"], &shown["late_ms"], &shown["queue"]),
        (&json!("succeeded"), &Value::Null, &json!("@@notices"))
    );
    ctl.run(&["logs", &ended.run.to_string()]).good();
    ctl.run(&["explain", "work/on_failure"]).good();
    assert_eq!(ctl.run(&["run", "work/on_failure"]).code, 4, "nobody runs it by hand");
    let about = desk.eye.history("work").remove(0).run.to_string();
    let shown = ctl.run(&["show", &about, "--json"]).good().json();
    assert_eq!(
        shown["notices"],
        json!([{"kind": "on_failure", "run_id": ended.run.to_string(), "state": "succeeded"}])
    );
    assert!(
        ctl.run(&["show", &about])
            .good()
            .stdout
            .contains("notice        on_failure, sent by work/on_failure@")
    );
    desk.assert_sound();
}

#[test]
fn a_request_gets_a_json_body_and_is_made_again_with_the_same_key_until_it_is_taken() {
    let desk = Desk::new([Answer::status(503).header("retry-after", "0")]);
    let _node = Schedd::on(&desk.redis).start();
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "shell": "printf 'a\\nb $%s' '{credential:x}'; exit 3", "on_failure": {"http": desk.sink.url("/alert")},
    }));
    let run = desk.eye.wait_for_history("work", 1).remove(0).run;
    // The wait before the second attempt is that of any notice: its first one tells enough.
    let first = desk.wait_for_requests(1).remove(0);
    assert_eq!((first.method.as_str(), first.target.as_str()), ("POST", "/alert"));
    assert_eq!(first.header("content-type"), Some("application/json"));
    let body: Value = serde_json::from_str(&first.body).unwrap();
    for (field, wanted) in [
        ("kind", json!("on_failure")),
        ("job", json!("work")),
        ("run_id", json!(run.to_string())),
        ("state", json!("failed")),
        ("reason", json!("exit code 3")),
        ("attempts", json!(1)),
        ("exit_code", json!(3)),
        ("output", json!("a\nb ${credential:x}")),
        ("suppressed", json!(0)),
    ] {
        assert_eq!(body[field], wanted, "{field}: {body}");
    }
    let text = body["text"].as_str().unwrap();
    let node = body["node"].as_str().unwrap();
    let begin = format!("job work failed on node {node}: exit code 3 (due ");
    assert!(text.starts_with(&begin) && text.ends_with(&format!(", run {run})")), "{text}");
    let ms = |field: &str| -> jiff::Timestamp { body[field].as_str().unwrap().parse().unwrap() };
    let late = ms("started_at").duration_since(ms("due")).as_millis();
    assert_eq!(body["late_ms"].as_i64().map(i128::from), Some(late), "{body}");
    assert_eq!(first.header("idempotency-key"), body["notice"].as_str());
    let waits = || {
        desk.eye
            .run(body["notice"].as_str()?)
            .filter(|run| run.state == RunState::Scheduled && run.failures == 1)
    };
    until("it waits for its second attempt", LONG, waits);
    assert_eq!(
        Schedctl::on(&desk.redis).run(&["stats", "--json"]).good().json()["notices"],
        1,
        "one that waits for its retry"
    );
    let second = desk.wait_for_requests(2).remove(1);
    assert_eq!(
        (second.header("idempotency-key"), &second.body),
        (first.header("idempotency-key"), &first.body)
    );
    assert_eq!(desk.eye.wait_for_history("work/on_failure", 1)[0].state, RunState::Succeeded);
    desk.assert_sound();
}

#[test]
fn each_end_has_one_notice_although_nodes_die_right_after_the_end() {
    const JOBS: usize = 12;
    let desk = Desk::new([]);
    let reported = desk.path("told");
    let mut first = Schedd::on(&desk.redis).node("one").jobs(QUICK).start();
    let mut second = Schedd::on(&desk.redis).node("two").jobs(QUICK).start();
    for number in 0..JOBS {
        desk.eye.add(&json!({
            "name": format!("j{number}"), "in": format!("{}ms", number * 100), "shell": "exit 1",
            "on_failure": {"shell": format!("echo $SCHEDD_ABOUT_RUN $SCHEDD_RUN_ID >> {reported}")},
        }));
    }
    desk.eye.wait_for_history("j2", 1);
    first.kill9();
    desk.eye.wait_for_history("j6", 1);
    second.kill9();
    first.start_again();
    let lines = until("each is told", Duration::from_secs(60), || {
        let lines = desk.lines("told");
        let about: std::collections::BTreeSet<_> =
            lines.iter().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect();
        (about.len() == JOBS).then_some(lines)
    });
    for number in 0..JOBS {
        let ended = desk.eye.wait_for_history(&format!("j{number}/on_failure"), 1);
        assert_eq!((ended.len(), ended[0].state), (1, RunState::Succeeded));
    }
    // A line may be written again where a node died in the midst of telling, by the same run.
    let mut pairs: Vec<&String> = lines.iter().collect();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs.len(), JOBS, "{lines:#?}");
    desk.assert_sound();
}

#[test]
fn defaults_say_of_every_job_but_those_that_say_false_and_add_has_a_flag_for_each() {
    let desk = Desk::new([]);
    let jobs = format!(
        "[defaults]\non_failure = {{ shell = 'echo $SCHEDD_ABOUT_JOB >> {}' }}\n[jobs.a]\nat = '2001-01-01T00:00:00Z'\nshell = 'false'\n\
         [jobs.loud]\nshell = 'false'\n[jobs.quiet]\nshell = 'false'\non_failure = false\n",
        desk.path("told")
    );
    let _node = Schedd::on(&desk.redis).jobs(&jobs).start();
    until("the file is taken", LONG, || desk.eye.job("quiet"));
    let ctl = Schedctl::on(&desk.redis);
    for job in ["quiet", "loud"] {
        ctl.run(&["run", job, "--wait"]);
    }
    let url = desk.sink.url("/late");
    ctl.run(&[
        "add",
        "--name",
        "flags",
        "--on-failure",
        "echo f",
        "--on-late",
        &url,
        "--shell",
        "true",
    ])
    .good();
    let shown = ctl.run(&["show", "flags", "--json"]).good().json();
    assert_eq!(shown["definition"]["on_failure"], json!({"shell": "echo f"}));
    assert_eq!(shown["definition"]["on_late"], json!({"http": {"url": url}}));
    assert_eq!(desk.wait_for_lines("told", 1), ["loud"]);
    let refused = ctl.run(&["add", "--name", "a/on_failure", "--shell", "true"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("job name \"a/on_failure\" is not valid"),
        "{refused:?}"
    );
}

#[test]
fn pings_say_of_the_start_and_the_end_with_one_id_for_a_run_and_what_it_printed() {
    let desk = Desk::new([]);
    let _node = Schedd::on(&desk.redis).start();
    let url = desk.sink.url("/key/{job}?create=1");
    desk.eye.add(&json!({"name": "good", "shell": "sleep 1; echo done", "ping_url": url}));
    desk.eye
        .add(&json!({"name": "bad", "shell": "sleep 1; echo oops >&2; exit 7", "ping_url": url}));
    let ctl = Schedctl::on(&desk.redis);
    for (job, end) in [("good", "/key/good"), ("bad", "/key/bad/7")] {
        ctl.run(&["run", job, "--wait"]);
        let of_job = || {
            let mut requests = desk.sink.requests();
            requests.retain(|request| request.target.starts_with(&format!("/key/{job}")));
            (requests.len() >= 2).then_some(requests)
        };
        let pings = until("both pings", LONG, of_job);
        let rid = pings[0].target.split("rid=").nth(1).unwrap().to_owned();
        assert_eq!(pings[0].target, format!("/key/{job}/start?create=1&rid={rid}"));
        assert_eq!(
            (pings[1].method.as_str(), &pings[1].target),
            ("POST", &format!("{end}?create=1&rid={rid}"))
        );
        assert_eq!(pings[1].body, if job == "good" { "done\n" } else { "oops\n" });
    }
    assert_eq!(desk.eye.wait_for_history("bad/ping", 1)[0].state, RunState::Succeeded);
    desk.assert_sound();
}

#[test]
fn a_replaced_run_pings_no_end_a_cancelled_run_a_note_at_a_credential_address() {
    let desk = Desk::new([]);
    std::fs::write(desk.dir.path().join("ping"), desk.sink.url("/key?create=1#not-sent")).unwrap();
    let _node = Schedd::on(&desk.redis)
        .env("CREDENTIALS_DIRECTORY", &desk.dir.path().display().to_string())
        .start();
    let job = json!({"name": "work", "every": "2s", "shell": "sleep 60", "overlap": "replace", "ping_url": "${credential:ping}"});
    desk.eye.add(&job);
    desk.wait_for_requests(2);
    let first = desk.eye.wait_for_history("work", 1).remove(0);
    assert_eq!((first.state, first.reason.as_deref()), (RunState::Cancelled, Some("replaced")));
    Schedctl::on(&desk.redis).run(&["cancel", "work", "--stop"]).good();
    let is_noted = || {
        Some(desk.sink.requests())
            .filter(|sent| sent.iter().any(|request| request.target.contains("/log?")))
    };
    let requests = until("the cancelled one is noted", LONG, is_noted);
    let reported: Vec<(&str, &str)> = requests
        .iter()
        .map(|request| request.target.split_once("?create=1&rid=").unwrap())
        .collect();
    let [starts @ .., last] = &*reported else { panic!("{reported:?}") };
    assert!(starts.iter().all(|(path, _)| *path == "/key/start"), "{reported:?}");
    assert_eq!(*last, ("/key/log", starts.last().unwrap().1), "{reported:?}");
}

#[test]
fn unreadable_notices_delay_none_behind_them_and_a_corrupt_output_is_left_out() {
    const BAD: u32 = 300;
    let desk = Desk::new([]);
    let line = format!(
        "echo $SCHEDD_ABOUT_JOB $SCHEDD_ABOUT_STATE [$SCHEDD_ABOUT_OUTPUT] >> {}",
        desk.path("told")
    );
    for job in ["work", "newer"] {
        desk.eye.add(&json!({"name": job, "shell": "true", "on_failure": {"shell": line}}));
    }
    let mut pipeline = redis::pipe();
    pipeline.hset("{schedd}:job:newer", "def", r#"{"of_a_later_version":1}"#).ignore();
    pipeline.set("{schedd}:output:work@1790000000000~x#1", "damaged").ignore();
    for number in 0..BAD {
        let unreadable = format!(r#"{{"run":"newer@{number}","kind":"on_failure","stamp":"1"}}"#);
        pipeline.zadd("{schedd}:notices", format!("bad {number}"), number).ignore();
        pipeline.zadd("{schedd}:notices", unreadable, number).ignore();
    }
    let sound = r#"{"run":"work@1790000000000~x","kind":"on_failure","stamp":"1","state":"failed","attempt":"1"}"#;
    pipeline.zadd("{schedd}:notices", sound, 1_790_000_000_000_i64).ignore();
    pipeline.hset("{schedd}:job:newer", "suppressed:on_failure", 7).ignore();
    pipeline.exec(&mut desk.redis.connection()).unwrap();
    let _node = Schedd::on(&desk.redis).start();
    assert_eq!(desk.wait_for_lines("told", 1), ["work failed []"]);
    desk.eye.wait_for_history("work/on_failure", 1);
    let ctl = Schedctl::on(&desk.redis);
    let stats = ctl.run(&["stats", "--json"]).good().json();
    assert_eq!(
        (&stats["notices"], &stats["suppressed"], &stats["missed_deadlines"]),
        (&json!(2 * BAD), &json!(0), &json!(0))
    );
    assert_eq!(
        ctl.run(&["show", "newer", "--json"]).json()["suppressed"],
        json!({"on_failure": 7})
    );
    let shown = ctl.run(&["show", "newer"]).stdout;
    assert!(
        shown.contains(
            "suppressed    7 on_failure (too many notices waited; one later notice of each kind reports the number)"
        ),
        "{shown}"
    );
}

#[test]
fn what_made_a_job_fail_does_not_keep_people_from_being_reported_of_it() {
    let desk = Desk::new([]);
    let node = Schedd::on(&desk.redis)
        .env("CREDENTIALS_DIRECTORY", &desk.dir.path().display().to_string())
        .start();
    let line = format!(
        "echo \"$SCHEDD_ABOUT_JOB|$(pwd)|$SHELL|$KEPT|$SCHEDD_ABOUT_WITHOUT\" >> {}",
        desk.path("told")
    );
    let (here, missing) = (desk.dir.path().display().to_string(), desk.path("missing"));
    let damaged = [
        ("file", json!({"env_file": [missing], "cwd": here}), "env_file "),
        ("cwd", json!({"cwd": missing}), "directory "),
        (
            "variable",
            json!({"env": {"KEPT": "kept", "X": "${credential:missing}"}, "cwd": here}),
            "env X: credential missing",
        ),
        ("shell", json!({"shell_program": missing, "cwd": here}), "missing: No such file"),
        (
            "all",
            json!({"env_file": [missing], "cwd": missing, "shell_program": missing}),
            "; directory ",
        ),
    ];
    for (name, more, _) in &damaged {
        let mut job =
            json!({"name": name, "shell": "true", "in": "0s", "on_failure": {"shell": line}});
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        desk.eye.add(&job);
    }
    let lines = desk.wait_for_lines("told", damaged.len());
    for (name, more, words) in &damaged {
        let line = lines.iter().find(|line| line.starts_with(&format!("{name}|"))).unwrap();
        let [_, cwd, shell, kept, without] = *line.split('|').collect::<Vec<_>>() else {
            panic!("{line}")
        };
        let cwd_wanted = if more["cwd"] == here { &*here } else { "/" };
        let kept_wanted = if *name == "variable" { "kept" } else { "" };
        assert_eq!((cwd, shell, kept), (cwd_wanted, "/bin/sh", kept_wanted), "{line}");
        assert!(without.contains(words), "{line}");
        let ended = desk.eye.wait_for_history(&format!("{name}/on_failure"), 1).remove(0);
        assert_eq!((ended.state, ended.attempt), (RunState::Succeeded, 1));
    }
    node.wait_for_log("The notice ran without some settings of its job.");
    desk.assert_sound();
}

#[test]
fn a_notice_is_signed_by_the_secrets_there_are_and_not_sent_unsigned() {
    let desk = Desk::new([]);
    let _node = Schedd::on(&desk.redis)
        .env("CREDENTIALS_DIRECTORY", &desk.dir.path().display().to_string())
        .start();
    let key = [7; 24];
    let secret = format!(
        "whsec_{}",
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, key)
    );
    let job = |name: &str, secrets: Value| {
        json!({"name": name, "in": "0s", "http": {"url": desk.sink.url("/work"), "method": "POST"},
            "on_failure": {"http": desk.sink.url("/told")}, "webhook_secret": secrets})
    };
    desk.eye.add(&job("none", json!(["${credential:missing}"])));
    desk.eye.add(&job("some", json!(["${credential:missing}", secret])));
    let request = desk.wait_for_requests(1).remove(0);
    assert_eq!(request.header("webhook-signature"), Some(&*signed(&key, &request)));
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(
        (&body["job"], body["without"].as_str().unwrap().contains("webhook_secret: ")),
        (&json!("some"), true),
        "{body}"
    );
    desk.eye.wait_for_history("some/on_failure", 1);
    let refused = || {
        let runs =
            Schedctl::on(&desk.redis).run(&["history", "none/on_failure", "--json"]).good().json();
        let run = runs.get(0)?["run_id"].as_str()?.to_owned();
        let shown = Schedctl::on(&desk.redis).run(&["show", &run]).good().stdout;
        shown.contains("is not sent unsigned").then_some(())
    };
    until("the other says why it is not sent", LONG, refused);
    assert_eq!(desk.sink.requests().len(), 1);
}

#[test]
fn a_waiting_notice_takes_an_edited_action_and_keeps_a_removed_action() {
    let desk = Desk::new([]);
    let _node = Schedd::on(&desk.redis).start();
    let ctl = Schedctl::on(&desk.redis);
    let line = |word: &str, code: u8| {
        format!("echo {word} $SCHEDD_ABOUT_JOB >> {}; exit {code}", desk.path("told"))
    };
    for job in ["mended", "dropped"] {
        ctl.run(&["add", "--name", job, "--on-failure", &line("old", 1), "--shell", "false"])
            .good();
        ctl.run(&["run", job, "--wait"]);
    }
    desk.wait_for_lines("told", 2);
    ctl.run(&[
        "add",
        "--replace",
        "--name",
        "mended",
        "--on-failure",
        &line("new", 0),
        "--shell",
        "false",
    ])
    .good();
    ctl.run(&["add", "--replace", "--name", "dropped", "--shell", "false"]).good();
    // The second attempts, ten seconds later.
    let mut lines = desk.wait_for_lines("told", 4)[2..].to_vec();
    lines.sort_unstable();
    assert_eq!(lines, ["new mended", "old dropped"]);
    assert_eq!(desk.eye.wait_for_history("mended/on_failure", 1)[0].state, RunState::Succeeded);
}

/// The signature another program computes.
fn signed(key: &[u8], request: &Recorded) -> String {
    let [id, timestamp] =
        ["webhook-id", "webhook-timestamp"].map(|name| request.header(name).unwrap());
    let text = format!("{id}.{timestamp}.{}", request.body);
    let key = key.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let mut openssl = std::process::Command::new("openssl")
        .args(["dgst", "-sha256", "-mac", "HMAC", "-macopt", &format!("hexkey:{key}"), "-binary"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut openssl.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let tag = openssl.wait_with_output().unwrap().stdout;
    format!("v1,{}", base64::Engine::encode(&base64::engine::general_purpose::STANDARD, tag))
}

#[test]
fn requests_and_notices_are_signed_by_each_secret_and_no_secret_is_shown() {
    let desk = Desk::new([]);
    let (old, new) = ([7; 24], [9; 32]);
    let text = |key: &[u8]| {
        format!("whsec_{}", base64::Engine::encode(&base64::engine::general_purpose::STANDARD, key))
    };
    std::fs::write(desk.dir.path().join("hook"), format!("{}\n", text(&new))).unwrap();
    let _node = Schedd::on(&desk.redis)
        .env("CREDENTIALS_DIRECTORY", &desk.dir.path().display().to_string())
        .start();
    desk.eye.add(&json!({
        "name": "work", "in": "0s", "http": {"url": desk.sink.url("/work"), "method": "POST", "body": "{}", "expect": [204]},
        "on_failure": {"http": desk.sink.url("/told")}, "webhook_secret": [text(&old), "${credential:hook}"],
    }));
    let requests = desk.wait_for_requests(2);
    let now = jiff::Timestamp::now().as_second();
    for request in &requests {
        let wanted = format!("{} {}", signed(&old, request), signed(&new, request));
        assert_eq!(request.header("webhook-signature"), Some(&*wanted), "{}", request.target);
        assert_eq!(request.header("webhook-id"), request.header("idempotency-key"));
        let at: i64 = request.header("webhook-timestamp").unwrap().parse().unwrap();
        assert!((now - at).abs() < 300, "{at} {now}");
    }
    let ctl = Schedctl::on(&desk.redis);
    desk.eye.wait_for_history("work/on_failure", 1);
    for shown in [
        &["show", "work"][..],
        &["show", "work", "--json"],
        &["show", "work/on_failure", "--json"],
        &["history", "--json"],
    ] {
        let shown = ctl.run(shown).good().stdout;
        assert!(!shown.contains(&text(&old)[6..]), "{shown}");
    }
    let shown = ctl.run(&["show", "work", "--json"]).good().json();
    assert_eq!(shown["definition"]["webhook_secret"], json!(["whsec_***", "${credential:hook}"]));
}
