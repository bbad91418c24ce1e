//! The actions: the page that asks, the form that acts, and the page of the result.

use redis::Commands as _;
use schedd_programs::secrets::tokens::sha256;
use serde_json::{Value, json};

use super::{
    acted, ask, attributes, checked, encoded, hidden, links, open, page, place_of, send_form,
};
use crate::api::{ApiScene, DEFINING};
use crate::support::wait::{LONG, until};

const JOBS: &str = "[queues.mail]\nlimit = 4\n\
    [jobs.a]\nevery = \"1h\"\nshell = \"exit 3\"\n\
    [jobs.b]\nevery = \"1h\"\nshell = \"true\"\nqueue = \"mail\"\n\
    [jobs.slow]\nshell = \"sleep 600\"\n";

fn show(scene: &ApiScene, path: &str) -> Value {
    scene.get("admin", path).of(200)
}

/// Runs a job by the API, and returns the id of the run.
fn run_of(scene: &ApiScene, job: &str) -> String {
    let run = scene.post("operator", &format!("/v1/jobs/{job}/run"), "").of(200);
    run["run_id"].as_str().unwrap().to_owned()
}

fn wait_for_state(scene: &ApiScene, run: &str, state: &str) {
    let path = format!("/v1/runs/{}", encoded(run));
    until("the run is in its state", LONG, || (show(scene, &path)["state"] == state).then_some(()));
}

#[test]
fn each_action_on_a_job_asks_acts_and_shows_its_result() {
    let scene = ApiScene::start(DEFINING, JOBS);
    let html = page(&scene, "operator", "/jobs/a");
    for word in ["run", "pause", "backfill", "stop-runs"] {
        let link = format!("/act/{word}?name=a&back=%2Fjobs%2Fa");
        assert!(links(&html).contains(&link), "no {link} in {html}");
    }
    assert!(!html.contains("/act/cancel?"), "a file declares the job: {html}");
    let result = acted(&scene, "/act/pause?name=a&back=%2Fjobs%2Fa", "");
    assert!(result.contains("<h1>Pause: done</h1>"), "{result}");
    assert!(links(&result).contains("/jobs/a"), "{result}");
    assert_eq!(show(&scene, "/v1/jobs/a")["paused"], true);
    let paused = until("the page shows the pause", LONG, || {
        Some(page(&scene, "operator", "/jobs/a")).filter(|html| html.contains("/act/resume?"))
    });
    assert!(!paused.contains("/act/pause?"), "{paused}");
    let again = acted(&scene, "/act/pause?name=a", "");
    assert!(again.contains("nothing to do"), "{again}");
    acted(&scene, "/act/resume?name=a", "");
    assert_eq!(show(&scene, "/v1/jobs/a")["paused"], false);
    let result = acted(&scene, "/act/run?name=a", "&note=after+%3Cb%3Ethe+repair");
    let run = links(&result).into_iter().find(|link| link.starts_with("/runs/a%40")).unwrap();
    let log = show(&scene, "/v1/jobs/a/explain")["audit_log"].clone();
    let asked = log.as_array().unwrap().iter().rfind(|entry| entry["what"] == "run asked for");
    let asked = asked.unwrap_or_else(|| panic!("{log}"));
    assert_eq!(
        (&asked["note"], &asked["by"]),
        (&"after <b>the repair".into(), &"token:operator".into())
    );
    for path in [&run, "/jobs/a"] {
        let html = until("the page shows the note", LONG, || {
            Some(page(&scene, "viewer", path)).filter(|html| html.contains("the repair"))
        });
        assert!(html.contains("after &#60;b&#62;the repair"), "{html}");
    }
    let slow = run_of(&scene, "slow");
    wait_for_state(&scene, &slow, "running");
    let result = acted(&scene, "/act/stop-runs?name=slow", "");
    assert!(result.contains("is being stopped"), "{result}");
    wait_for_state(&scene, &slow, "cancelled");
}

#[test]
fn an_added_job_is_cancelled_with_or_without_its_running_run() {
    let scene = ApiScene::start(DEFINING, "");
    for (job, more, state) in [("kept", "", "running"), ("stopped", "&stop=1", "cancelled")] {
        let body = json!({"name": job, "every": "1h", "shell": "sleep 600"});
        scene.post("admin", "/v1/jobs", &body.to_string()).of(201);
        let run = run_of(&scene, job);
        wait_for_state(&scene, &run, "running");
        assert!(page(&scene, "operator", &format!("/jobs/{job}")).contains("/act/cancel?"));
        let result = acted(&scene, &format!("/act/cancel?name={job}"), more);
        assert!(result.contains("removed"), "{result}");
        assert_eq!(show(&scene, &format!("/v1/jobs/{job}"))["ended"], "cancelled");
        wait_for_state(&scene, &run, state);
    }
}

#[test]
fn a_backfill_shows_its_times_before_it_asks() {
    let scene = ApiScene::start(DEFINING, "");
    let job = json!({"name": "a", "cron": "0 * * * *", "tz": "Etc/UTC", "shell": "true"});
    scene.post("admin", "/v1/jobs", &job.to_string()).of(201);
    let first = page(&scene, "operator", "/act/backfill?name=a&back=%2Fjobs%2Fa");
    assert!(!first.contains("method=\"post\" action=\"/act"), "no window yet: {first}");
    for (bad, why) in [("never", "From: "), ("2099-01-01", "wanted a past time")] {
        let html = page(&scene, "operator", &format!("/act/backfill?name=a&from={bad}"));
        assert!(html.contains("role=\"alert\"") && html.contains(why), "{html}");
        assert!(html.contains(&format!("value=\"{bad}\"")), "the form is kept: {html}");
        assert!(!html.contains("method=\"post\" action=\"/act"), "{html}");
    }
    let window = "name=a&from=2026-01-01T00%3A00Z&to=2026-01-01T12%3A30Z";
    let asked = page(&scene, "operator", &format!("/act/backfill?{window}"));
    assert!(asked.contains("<h2>13 runs</h2>") && asked.contains("The other 3"), "{asked}");
    for (name, value) in
        [("from", "2026-01-01T00:00:00.000Z"), ("to", "2026-01-01T12:00:00.001Z"), ("max", "13")]
    {
        let field = format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">");
        assert!(asked.contains(&field), "no {field} in {asked}");
    }
    let form = hidden(&asked, "/act/backfill");
    let refused = send_form(&scene, "operator", "/act/backfill", &form);
    assert_eq!(refused.status, 422, "{refused:?}");
    let html = checked("/act/backfill", &refused);
    assert!(html.contains("before the job was added") && html.contains("wanted yes"), "{html}");
    assert!(html.contains("<h2>13 runs</h2>") && html.contains("name=\"yes\""), "{html}");
    let form = hidden(&html, "/act/backfill") + "&yes=1";
    let sent = send_form(&scene, "operator", "/act/backfill", &form);
    assert_eq!(sent.status, 303, "{sent:?}");
    let place = place_of(&sent);
    assert!(page(&scene, "operator", place).contains("13 runs added"));
    let html = until("the page offers to cancel the backfill", LONG, || {
        let html = page(&scene, "operator", "/jobs/a");
        let is_over = show(&scene, "/v1/jobs/a")["backfill"] == 0;
        (is_over || html.contains("/act/cancel-backfill?")).then_some(html)
    });
    assert!(html.contains("/act/backfill?"), "{html}");
}

#[test]
fn a_run_is_cancelled_retried_run_again_and_purged() {
    let scene = ApiScene::start("", JOBS);
    let dead = run_of(&scene, "a");
    wait_for_state(&scene, &dead, "failed");
    let path = format!("/runs/{}", encoded(&dead));
    let name = encoded(&dead);
    let html = page(&scene, "operator", &path);
    for word in ["retry", "rerun", "purge"] {
        assert!(html.contains(&format!("/act/{word}?name={name}")), "no {word} in {html}");
    }
    assert!(!html.contains("/act/cancel-run?"), "{html}");
    let result = acted(&scene, "/act/rerun?name=a%40last", "&note=anew");
    let anew = links(&result).into_iter().find(|link| link.starts_with("/runs/a%40")).unwrap();
    assert_ne!(anew, path, "{result}");
    assert_eq!(show(&scene, &format!("/v1{anew}"))["note"], "anew");
    let result = acted(&scene, &format!("/act/retry?name={name}"), "");
    assert!(result.contains("retried") || result.contains("starts after"), "{result}");
    until("the retry has ended", LONG, || {
        let shown = show(&scene, &format!("/v1/runs/{name}"));
        (shown["attempt"] == 2 && shown["state"] == "failed").then_some(())
    });
    let result = acted(&scene, &format!("/act/purge?name={name}"), "");
    assert!(result.contains("1 purged"), "{result}");
    assert_eq!(scene.get("viewer", &format!("/v1/runs/{name}")).status, 404);
    let slow = run_of(&scene, "slow");
    wait_for_state(&scene, &slow, "running");
    let name = encoded(&slow);
    assert!(page(&scene, "operator", &format!("/runs/{name}")).contains("/act/cancel-run?"));
    acted(&scene, &format!("/act/cancel-run?name={name}"), "");
    wait_for_state(&scene, &slow, "cancelled");
}

#[test]
fn a_queue_is_paused_resumed_and_set() {
    let scene = ApiScene::start("", JOBS);
    let mail = || {
        let queues = show(&scene, "/v1/queues");
        queues["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|queue| queue["name"] == "mail")
            .unwrap()
            .clone()
    };
    let html = page(&scene, "operator", "/queues");
    for word in ["pause-queue", "set-queue"] {
        assert!(html.contains(&format!("/act/{word}?name=mail&#38;back=%2Fqueues")), "{html}");
    }
    acted(&scene, "/act/pause-queue?name=mail", "");
    assert_eq!(
        (mail()["paused"].clone(), mail()["paused_by"].clone()),
        (true.into(), "token:operator".into())
    );
    acted(&scene, "/act/resume-queue?name=mail", "");
    assert_eq!(mail()["paused"], false);
    assert!(page(&scene, "operator", "/act/set-queue?name=mail").contains("now 4"));
    let result = acted(&scene, "/act/set-queue?name=mail", "&limit=2&rate=100%2F1m&burst=");
    assert!(result.contains("<h1>Set: done</h1>"), "{result}");
    assert_eq!((mail()["limit"].clone(), mail()["rate"].clone()), (2.into(), "100/1m".into()));
    acted(&scene, "/act/set-queue?name=mail", "&rate=none");
    assert_eq!(mail()["rate"], Value::Null);
    let form = ask(&scene, "/act/set-queue?name=mail") + "&limit=many";
    let refused = send_form(&scene, "operator", "/act/set-queue", &form);
    assert_eq!(refused.status, 422, "{refused:?}");
    let html = checked("/act/set-queue", &refused);
    assert!(html.contains("limit") && html.contains("value=\"many\""), "{html}");
    let form = ask(&scene, "/act/set-queue?name=mail");
    assert_eq!(send_form(&scene, "operator", "/act/set-queue", &form).status, 422, "no setting");
}

#[test]
fn the_page_that_asks_is_never_refreshed_and_needs_no_script() {
    let scene = ApiScene::start("", JOBS);
    for path in ["/act/pause?name=a", "/act/backfill?name=a&from=1d", "/act/run?of=filter"] {
        let html = page(&scene, "operator", path);
        assert!(!html.contains("data-live"), "{path}: {html}");
        assert_eq!(html.matches("class=\"main\"").count(), 1, "{path}: {html}");
    }
    let paths = ["/act/pause?name=a", "/act/pause?name=a"];
    let [first, second] = paths.map(|path| page(&scene, "operator", path));
    let key = |html: &str| hidden(html, "/act/pause").split('&').next().unwrap().to_owned();
    assert_ne!(key(&first), key(&second), "each form has a key of its own");
}

#[test]
fn only_operators_act_and_others_see_no_way_to() {
    let scene = ApiScene::start("", JOBS);
    let run = run_of(&scene, "a");
    wait_for_state(&scene, &run, "failed");
    let form = ask(&scene, "/act/pause?name=a");
    for path in ["/jobs", "/jobs/a", "/runs", &format!("/runs/{}", encoded(&run)), "/queues"] {
        for (caller, may_act) in [("viewer", false), ("operator", true), ("admin", true)] {
            let html = page(&scene, caller, path);
            assert_eq!(html.contains("/act/"), may_act, "{caller} {path}: {html}");
            assert!(may_act || !html.contains("type=\"checkbox\" form="), "{html}");
        }
    }
    for (caller, status) in [("nobody", 401), ("worker", 403), ("viewer", 403), ("expired", 401)] {
        for path in ["/act/pause?name=a", "/acted/00000000000000000000000000000000"] {
            let answer = open(&scene, caller, path);
            assert_eq!(answer.status, status, "{caller} {path}");
            checked(path, &answer);
        }
        assert_eq!(send_form(&scene, caller, "/act/pause", &form).status, status, "{caller}");
    }
    let headers = |site| [("Content-Type", super::FORM), ("Sec-Fetch-Site", site)];
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 303)] {
        let answer =
            scene.probe.send("operator", "POST", "/act/pause", &headers(site), form.as_bytes());
        assert_eq!(answer.status, status, "{site}: {}", answer.text());
        let is_paused = show(&scene, "/v1/jobs/a")["paused"] == true;
        assert_eq!(is_paused, status == 303, "{site}");
    }
}

#[test]
fn a_form_that_is_sent_twice_acts_once() {
    let scene = ApiScene::start("", JOBS);
    let form = ask(&scene, "/act/run?name=slow");
    let sent: Vec<_> = (0..3)
        .map(|_| send_form(&scene, "operator", "/act/run", &form))
        .map(|answer| (answer.status, place_of(&answer).to_owned()))
        .collect();
    assert!(sent.iter().all(|one| *one == sent[0] && one.0 == 303), "{sent:?}");
    let runs = show(&scene, "/v1/runs?job=slow");
    assert_eq!(runs["items"].as_array().unwrap().len(), 1, "{runs}");
    // With other values the form is shown again, under a new key.
    let other = send_form(&scene, "operator", "/act/run", &format!("{form}&note=x"));
    assert_eq!(other.status, 409, "{other:?}");
    let html = checked("/act/run", &other);
    assert!(
        html.contains("sent before with other values") && html.contains("value=\"x\""),
        "{html}"
    );
    let again = hidden(&html, "/act/run");
    assert_eq!(send_form(&scene, "operator", "/act/run", &again).status, 303);
    let runs = show(&scene, "/v1/runs?job=slow");
    assert_eq!(runs["items"].as_array().unwrap().len(), 2, "{runs}");
    // The result belongs to the caller who acted.
    let place = &sent[0].1;
    assert_eq!(open(&scene, "operator", place).status, 200);
    assert_eq!(open(&scene, "admin", place).status, 404);
}

#[test]
fn a_form_that_is_sent_again_while_it_is_under_way_leads_to_its_result_to_come() {
    let scene = ApiScene::start("", JOBS);
    let form = ask(&scene, "/act/run?name=slow");
    let key = form.split(['=', '&']).nth(1).unwrap();
    let place = format!("/acted/{key}");
    assert_eq!(open(&scene, "operator", &place).status, 404);
    // The mark of the first request, as it is kept while the request is under way.
    let request = sha256(&format!("POST /act/run\n{form}"));
    let mark = json!({"request": request, "token": "x", "answer": null}).to_string();
    let id = sha256(&format!("token:operator\nforms\n{key}"));
    let mut redis = scene.redis.connection();
    let () = redis.set(format!("{{schedd}}:answer:{id}"), mark).unwrap();
    let sent = send_form(&scene, "operator", "/act/run", &form);
    assert_eq!((sent.status, place_of(&sent)), (303, place.as_str()), "{}", sent.text());
    let html = page(&scene, "operator", &place);
    assert!(html.contains("under way") && html.contains("id=\"result\" data-live"), "{html}");
    assert!(links(&html).contains(&place), "it is looked at again without a script: {html}");
    assert_eq!(show(&scene, "/v1/runs?job=slow")["items"], json!([]));
}

#[test]
fn what_is_refused_is_said_on_the_page_with_the_form() {
    let scene = ApiScene::start(DEFINING, JOBS);
    for (path, status) in [
        ("/act/pause", 422),
        ("/act/pause?of=ticked", 422),
        ("/act/pause?of=odd&name=a", 422),
        ("/act/pause?name=nobody", 404),
        ("/act/pause?name=a%401", 422),
        ("/act/pause?name=%3Cimg%20src%3Dx%3E%E2%80%AE", 422),
        ("/act/pause?name=a&name=%3Cimg%20src%3Dx%3E", 422),
        ("/act/retry?name=a", 422),
        ("/act/retry?name=a%40123", 404),
        ("/act/set-queue?name=nobody", 404),
        ("/act/pause-queue?of=filter", 422),
        ("/act/odd?name=a", 404),
        ("/act/pause?name=a&odd=1", 400),
        ("/act/run?of=filter&since=1h", 422),
        ("/acted/00000000000000000000000000000000", 404),
    ] {
        let answer = open(&scene, "operator", path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        let html = checked(path, &answer);
        assert!(!html.contains("<img src=x") && !html.contains('\u{202e}'), "{path}: {html}");
    }
    let job = json!({"name": "gone", "every": "1h", "shell": "true"});
    scene.post("admin", "/v1/jobs", &job.to_string()).of(201);
    let form = ask(&scene, "/act/run?name=gone&back=%2Fjobs");
    scene.probe.send("admin", "DELETE", "/v1/jobs/gone", &[], b"").of(200);
    let answer = send_form(&scene, "operator", "/act/run", &format!("{form}&note=why"));
    assert_eq!(answer.status, 409, "{answer:?}");
    let html = checked("/act/run", &answer);
    assert!(
        html.contains("job gone is over (cancelled)") && html.contains("value=\"why\""),
        "{html}"
    );
    let long = format!("{}&note={}", ask(&scene, "/act/run?name=a"), "x".repeat(201));
    let answer = send_form(&scene, "operator", "/act/run", &long);
    assert_eq!(answer.status, 422, "{answer:?}");
    let html = checked("/act/run", &answer);
    assert!(
        html.contains("note") && html.contains("201 characters") && !html.contains("--note"),
        "{html}"
    );
    for (form, status) in [
        ("name=a", 400),
        ("name=a&key=short", 400),
        ("name=a&key=0123456789abcdef0123456789abcdef&stop=1", 422),
        ("key=0123456789abcdef0123456789abcdee", 422),
    ] {
        let answer = send_form(&scene, "operator", "/act/pause", form);
        assert_eq!(answer.status, status, "{form}: {}", answer.text());
    }
    assert_eq!(show(&scene, "/v1/jobs/a")["paused"], false);
    let to_others = ask(&scene, "/act/pause?name=a&back=%2F%2Fevil.example%2F");
    assert!(to_others.contains("back=%2F&"), "{to_others}");
}

#[test]
fn the_actions_work_behind_a_path_and_without_redis_the_form_is_kept() {
    let mut scene = ApiScene::start("base_path = \"/ops\"", JOBS);
    let html = page(&scene, "operator", "/ops/jobs/a");
    assert!(links(&html).contains("/ops/act/pause?name=a&back=%2Fjobs%2Fa"), "{html}");
    let asked = page(&scene, "operator", "/ops/act/pause?name=a&back=%2Fjobs%2Fa");
    let form = hidden(&asked, "/ops/act/pause");
    let sent = send_form(&scene, "operator", "/ops/act/pause", &form);
    let place = place_of(&sent);
    assert!(sent.status == 303 && place.starts_with("/ops/acted/"), "{sent:?}");
    let result = page(&scene, "operator", place);
    assert!(links(&result).contains("/ops/jobs/a"), "{result}");
    let asked = page(&scene, "operator", "/ops/act/run?name=a");
    let form = hidden(&asked, "/ops/act/run") + "&note=later";
    scene.redis.kill9();
    let answer = send_form(&scene, "operator", "/ops/act/run", &form);
    assert_eq!(answer.status, 503, "{answer:?}");
    let html = checked("/ops/act/run", &answer);
    assert!(html.contains("value=\"later\"") && html.contains("role=\"alert\""), "{html}");
    assert!(attributes(&html, "name").any(|name| name == "key"), "{html}");
}
