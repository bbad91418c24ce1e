//! The pages of one job and of one run.

use serde_json::json;

use super::{links, open, page};
use crate::api::{ApiScene, DEFINING};
use crate::support::wait::{LONG, until};

/// Runs a job, waits until the run has ended, and returns its id.
fn run(scene: &ApiScene, job: &str) -> String {
    let path = format!("/v1/jobs/{job}/run");
    let run = scene.post("operator", &path, "").of(200)["run_id"].as_str().unwrap().to_owned();
    until("the run has ended", LONG, || {
        let shown = scene.get("viewer", &format!("/v1/runs/{}", run.replace('@', "%40"))).of(200);
        (!shown["finished_at"].is_null()).then_some(())
    });
    run
}

fn run_page(run: &str) -> String {
    format!("/runs/{}", run.replace('@', "%40"))
}

#[test]
fn a_job_shows_its_rules_its_next_times_its_runs_and_its_audit_log() {
    let jobs = "[jobs.night]\ncron = \"30 2 25 10 *\"\ntz = \"Europe/Berlin\"\nshell = \"exit 3\"\ntimeout = \"7m\"\n";
    let scene = ApiScene::start("", jobs);
    let html = page(&scene, "viewer", "/jobs/night");
    for wanted in [
        "<dt>timeout</dt><dd>7m</dd>",
        "<span class=\"chip\">default</span>",
        "<code>30 2 25 10 *</code> in Europe/Berlin",
        "file of n1",
        "schedctl run night",
        "Audit log",
    ] {
        assert!(html.contains(wanted), "no {wanted} in {html}");
    }
    let times = html.split("<ol class=\"times\">").nth(1).unwrap().split("</ol>").next().unwrap();
    assert_eq!(times.matches("<li>").count(), 20, "{times}");
    assert!(times.contains("class=\"warn\""), "a clock change has a note: {times}");
    let run = run(&scene, "night");
    let html = until("the page shows the run", LONG, || {
        Some(page(&scene, "viewer", "/jobs/night"))
            .filter(|html| html.contains("class=\"fill failed\""))
    });
    assert!(links(&html).contains(&run_page(&run)), "{html}");
    assert!(html.contains("exit code 3") && html.contains("p95"), "{html}");
}

#[test]
fn a_run_shows_how_far_its_worker_is() {
    let scene = ApiScene::start(DEFINING, "");
    let post = |path: &str, body: serde_json::Value| scene.post("admin", path, &body.to_string());
    let job = json!({"name": "a", "in": "0s", "handler": "send", "payload": {}});
    let _ = post("/v1/jobs", job).of(201);
    let question = json!({"claim_id": "c1", "worker": {"name": "w"}, "max": 1, "wait_ms": 20_000});
    let claimed = post("/v1/queues/default/claim", question).of(200);
    let run = &claimed["runs"][0];
    let progress = json!({"percent": 40, "text": "half of <it>"});
    let report = json!({"run_id": run["run_id"], "token": run["token"], "progress": progress});
    let _ = post("/v1/runs/heartbeat", json!({"runs": [report]})).of(200);
    let html = page(&scene, "viewer", &run_page(run["run_id"].as_str().unwrap()));
    for wanted in ["<progress max=\"100\" value=\"40\"", "40 % half of &#60;it&#62;"] {
        assert!(html.contains(wanted), "no {wanted} in {html}");
    }
}

#[test]
fn a_job_explains_a_time_and_says_why_a_time_cannot_be_read() {
    let scene = ApiScene::start("", "[jobs.a]\ncron = \"30 2 * * *\"\nshell = \"true\"\n");
    let html = page(&scene, "viewer", "/jobs/a?at=2020-01-01T02%3A30");
    assert!(html.contains("<ul class=\"findings\">"), "{html}");
    assert!(html.contains("value=\"2020-01-01T02:30\""), "{html}");
    let html = page(&scene, "viewer", "/jobs/a?at=%3Cb%3Enever");
    assert!(html.contains("role=\"alert\"") && !html.contains("<b>never"), "{html}");
}

#[test]
fn a_bar_and_a_next_time_lead_to_their_explanation() {
    let scene = ApiScene::start("", "[jobs.a]\ncron = \"30 2 * * *\"\nshell = \"exit 3\"\n");
    let run = run(&scene, "a");
    let html = until("the page shows the run", LONG, || {
        Some(page(&scene, "viewer", "/jobs/a"))
            .filter(|html| html.contains("class=\"fill failed\""))
    });
    assert!(html.contains("#explain-title"), "{html}");
    let explained: Vec<String> =
        links(&html).into_iter().filter(|link| link.starts_with("/jobs/a?at=")).collect();
    assert_eq!(explained.len(), 21, "a bar and 20 next times: {explained:?}");
    for link in &explained {
        let html = page(&scene, "viewer", link);
        assert!(html.contains("<ul class=\"findings\">"), "{link}: {html}");
    }
    let of_run = explained.iter().find(|link| link.contains("%40")).unwrap();
    let html = page(&scene, "viewer", of_run);
    assert!(html.contains(&format!("<h3><a href=\"{}\">", run_page(&run))), "{html}");
}

#[test]
fn the_wait_at_a_gate_is_a_phase_of_its_own_and_running_output_can_be_followed() {
    let dir = tempfile::tempdir().unwrap();
    let sign = dir.path().join("go");
    let jobs = format!(
        "[groups.g]\nmode = \"exclusive\"\n\
         [jobs.first]\ngroup = \"g\"\nshell = \"echo begun; while [ ! -e {} ]; do sleep 0.05; done\"\n\
         [jobs.second]\ngroup = \"g\"\nshell = \"true\"\n",
        sign.display()
    );
    let scene = ApiScene::start("", &jobs);
    let ask = |job: &str| {
        let answer = scene.post("operator", &format!("/v1/jobs/{job}/run"), "").of(200);
        answer["run_id"].as_str().unwrap().to_owned()
    };
    let show =
        |run: &str| scene.get("viewer", &format!("/v1/runs/{}", run.replace('@', "%40"))).of(200);
    let first = ask("first");
    let running = until("the first run runs", LONG, || {
        Some(page(&scene, "viewer", &run_page(&first))).filter(|html| html.contains("data-follow"))
    });
    let follow = format!("data-follow=\"/v1{}/logs?follow=1\"", run_page(&first));
    assert!(running.contains(&follow), "{running}");
    let script = links(&running).into_iter().find(|link| link.contains("/log-")).unwrap();
    assert_eq!(open(&scene, "nobody", &script).status, 200);
    let second = ask("second");
    until("the second run waits at the gate", LONG, || {
        (show(&second)["waiting_for"] == "group g").then_some(())
    });
    std::fs::write(&sign, "").unwrap();
    until("the second run has ended", LONG, || {
        (!show(&second)["finished_at"].is_null()).then_some(())
    });
    let html = page(&scene, "viewer", &run_page(&second));
    assert!(html.contains("waited for group g") && html.contains("fill gate"), "{html}");
    assert!(!html.contains("data-follow") && !html.contains("/log-"), "{html}");
}

#[test]
fn a_run_shows_its_phases_its_attempts_and_its_output() {
    let jobs = "[jobs.a]\nshell = \"echo out; echo err >&2; exit 4\"\nretry = { limit = 1, delay = \"10ms\" }\n";
    let scene = ApiScene::start("", jobs);
    let run = run(&scene, "a");
    let html = page(&scene, "viewer", &run_page(&run));
    for wanted in [
        "attempt 1",
        "attempt 2",
        "exit code 4",
        "out\n",
        "err\n",
        "schedctl retry a@",
        "Output of attempt 2",
    ] {
        assert!(html.contains(wanted), "no {wanted} in {html}");
    }
    let first = page(&scene, "viewer", &format!("{}?attempt=1", run_page(&run)));
    assert!(first.contains("Output of attempt 1"), "{first}");
    let answer = open(&scene, "viewer", &format!("{}?attempt=9", run_page(&run)));
    assert_eq!(answer.status, 404, "{}", answer.text());
    assert_eq!(open(&scene, "viewer", "/runs/nobody%401").status, 404);
    assert_eq!(open(&scene, "viewer", "/jobs/nobody").status, 404);
}

#[test]
fn output_and_errors_of_a_job_are_only_text_on_its_pages() {
    let scene = ApiScene::start(DEFINING, "");
    let shell = "printf '<img src=x onerror=alert(1)>\\033[31m\\342\\200\\256</pre><script>a</script>\\n'; \
        head -c 1000000 /dev/zero | tr '\\0' x; echo; echo 'reason=</td><b>odd' >\"$SCHEDD_RESULT\"; exit 1";
    let tag = "\"><img src=x>\u{202e}";
    let job = json!({"name": "odd", "every": "1h", "shell": shell, "tags": {"a": tag}});
    let added = scene.post("admin", "/v1/jobs", &job.to_string());
    if added.status == 422 {
        let job = json!({"name": "odd", "every": "1h", "shell": shell});
        scene.post("admin", "/v1/jobs", &job.to_string()).of(201);
    }
    let run = run(&scene, "odd");
    for path in ["/jobs", "/jobs/odd", "/runs", &run_page(&run)] {
        let html = page(&scene, "admin", path);
        for odd in ["<img src=x", "<script>", "</td><b>", "\u{1b}", "\u{202e}"] {
            assert!(!html.contains(odd), "{path}: {odd:?} in {html}");
        }
        assert!(html.len() < 100_000, "{path} has {} bytes", html.len());
    }
    let html = page(&scene, "admin", &run_page(&run));
    assert!(html.contains("&#60;img src=x onerror=alert(1)&#62;\\u{1b}[31m\\u{202e}"), "{html}");
}

#[test]
fn a_viewer_sees_no_values_of_variables_on_any_page() {
    let jobs = "[jobs.a]\nshell = \"true\"\nenv = { WORD = \"hush1\" }\nstdin = \"hush2\"\n";
    let scene = ApiScene::start("", jobs);
    assert!(page(&scene, "operator", "/jobs/a").contains("hush1"));
    let run = run(&scene, "a");
    for path in ["/jobs", "/jobs/a", "/runs", &run_page(&run)] {
        assert!(!page(&scene, "viewer", path).contains("hush"), "{path}");
    }
}
