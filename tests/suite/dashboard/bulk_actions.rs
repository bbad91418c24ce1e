//! The actions on several jobs or runs: by ticked rows, or by a filter.

use serde_json::json;

use super::{acted, ask, checked, encoded, hidden, links, open, page, place_of, send_form};
use crate::api::{ApiScene, DEFINING};
use crate::support::wait::{LONG, until};

/// Adds jobs that recur, `job-000` and so on.
fn add(scene: &ApiScene, count: usize) {
    let job = |number| {
        let name = format!("job-{number:03}");
        json!({"name": name, "every": "1h", "shell": "true", "tags": {"team": "db"}}).to_string()
    };
    let lines = (0..count).map(job).collect::<Vec<_>>().join("\n") + "\n";
    let headers = [("Content-Type", "application/x-ndjson")];
    let answer = scene.probe.send("admin", "POST", "/v1/jobs/bulk", &headers, lines.as_bytes());
    assert!(answer.status == 200 && !answer.text().contains("error"), "{answer:?}");
}

fn paused(scene: &ApiScene) -> usize {
    let jobs = scene.get("viewer", "/v1/jobs?state=paused&limit=1000").of(200);
    jobs["items"].as_array().unwrap().len()
}

#[test]
fn ticked_jobs_are_paused_and_no_others() {
    let scene = ApiScene::start(DEFINING, "");
    add(&scene, 4);
    let html = page(&scene, "operator", "/jobs?tag=team%3Ddb");
    for job in ["job-000", "job-003"] {
        let tick = format!("<input type=\"checkbox\" form=\"bulk\" name=\"name\" value=\"{job}\"");
        assert!(html.contains(&tick), "no {tick} in {html}");
    }
    assert!(html.contains("formaction=\"/act/pause\"") && html.contains("id=\"bulk\""), "{html}");
    // The browser sends the filter, too.
    let path =
        "/act/pause?tag=team%3Ddb&back=%2Fjobs&of=ticked&name=job-001&name=job-003&name=job-001";
    let asked = page(&scene, "operator", path);
    assert!(asked.contains("<h1>Pause 2 jobs?</h1>"), "{asked}");
    let result = acted(&scene, path, "");
    assert!(result.contains("<h1>Pause: 2 done</h1>"), "{result}");
    for (job, is_paused) in [("job-000", false), ("job-001", true), ("job-003", true)] {
        let shown = scene.get("viewer", &format!("/v1/jobs/{job}")).of(200);
        assert_eq!(shown["paused"], is_paused, "{job}");
    }
}

#[test]
fn what_a_filter_selects_is_counted_and_named_and_later_jobs_are_left_alone() {
    let scene = ApiScene::start(DEFINING, "[jobs.other]\nevery = \"1h\"\nshell = \"true\"\n");
    add(&scene, 12);
    let path = "/act/pause?of=filter&tag=team%3Ddb&back=%2Fjobs%3Ftag%3Dteam%253Ddb";
    let asked = page(&scene, "operator", path);
    assert!(asked.contains("<h1>Pause 12 jobs?</h1>"), "{asked}");
    assert!(
        asked.contains("The first ten of 12 jobs:") && asked.contains("The other 2"),
        "{asked}"
    );
    assert!(asked.contains("What comes in later is not acted on."), "{asked}");
    let shown = asked.split("<details").next().unwrap();
    assert_eq!(shown.matches("<li><a href=\"/jobs/job-").count(), 10, "{shown}");
    let form = hidden(&asked, "/act/pause");
    let late = json!({"name": "late", "every": "1h", "shell": "true", "tags": {"team": "db"}});
    scene.post("admin", "/v1/jobs", &late.to_string()).of(201);
    scene.probe.send("admin", "DELETE", "/v1/jobs/job-004", &[], b"").of(200);
    let sent = send_form(&scene, "operator", "/act/pause", &form);
    let place = place_of(&sent);
    let result = page(&scene, "operator", place);
    assert!(result.contains("<h1>Pause: 11 done, 1 refused</h1>"), "{result}");
    assert!(result.contains("job job-004 is over (cancelled)"), "{result}");
    assert_eq!(paused(&scene), 11);
    let nothing = page(&scene, "operator", "/act/pause?of=filter&q=nothing");
    assert!(nothing.contains("selects nothing") && !nothing.contains("action=\"/act"), "{nothing}");
}

#[test]
fn more_than_one_action_takes_is_acted_on_part_by_part() {
    let scene = ApiScene::start(DEFINING, "");
    add(&scene, 520);
    let mut path = "/act/pause?of=filter&q=job-".to_owned();
    for (count, in_all) in [(500, 500), (20, 520)] {
        let asked = page(&scene, "operator", &path);
        assert!(asked.contains(&format!("<h1>Pause {count} jobs?</h1>")), "{asked}");
        assert_eq!(asked.contains("at most 500"), count == 500, "{asked}");
        let result = acted(&scene, &path, "");
        assert!(result.contains(&format!("<h1>Pause: {count} done</h1>")), "{result}");
        assert_eq!(paused(&scene), in_all);
        let next = links(&result).into_iter().find(|link| link.starts_with("/act/pause?"));
        assert_eq!(next.is_some(), count == 500, "{result}");
        path = next.unwrap_or_default();
    }
    let odd = page(&scene, "operator", "/act/pause?of=filter&q=job-&cursor=ZGVmaW5lZCAwIGE");
    assert!(odd.contains("selects nothing"), "all are paused: {odd}");
    let names = (0..501).map(|number| format!("name=job-{number:03}")).collect::<Vec<_>>();
    let form = format!("key=0123456789abcdef0123456789abcdef&{}", names.join("&"));
    let answer = send_form(&scene, "operator", "/act/resume", &form);
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert_eq!(paused(&scene), 520);
}

#[test]
fn several_jobs_run_with_one_note_and_added_ones_are_cancelled() {
    let scene = ApiScene::start(DEFINING, "[jobs.own]\nevery = \"1h\"\nshell = \"true\"\n");
    add(&scene, 2);
    let result = acted(&scene, "/act/run?of=filter", "&note=all+of+them");
    assert!(result.contains("<h1>Run: 3 done</h1>"), "{result}");
    let runs = until("three runs ended", LONG, || {
        let runs = scene.get("viewer", "/v1/runs").of(200)["items"].as_array().unwrap().clone();
        (runs.len() == 3).then_some(runs)
    });
    assert!(runs.iter().all(|run| run["note"] == "all of them"), "{runs:?}");
    let result = acted(&scene, "/act/cancel?name=job-000&name=own", "");
    assert!(result.contains("<h1>Cancel: 1 done, 1 refused</h1>"), "{result}");
    assert!(result.contains("job own is declared in"), "{result}");
}

#[test]
fn dead_letters_of_a_filter_are_retried_and_purged_and_open_runs_cancelled() {
    let jobs = "[jobs.bad]\nshell = \"exit 1\"\noverlap = \"allow\"\n[jobs.good]\nshell = \"true\"\n\
        [jobs.slow]\nshell = \"sleep 600\"\noverlap = \"allow\"\n";
    let scene = ApiScene::start("", jobs);
    let ended = |wanted: usize, query: &str| {
        until("the runs are there", LONG, || {
            let runs = scene.get("viewer", &format!("/v1/runs?{query}")).of(200);
            let runs = runs["items"].as_array().unwrap().clone();
            (runs.len() == wanted).then_some(runs)
        })
    };
    for job in ["bad", "bad", "good", "slow", "slow"] {
        scene.post("operator", &format!("/v1/jobs/{job}/run"), "").of(200);
    }
    let dead = ended(2, "dead=1");
    ended(1, "job=good&state=succeeded");
    ended(2, "state=running");
    let html = page(&scene, "operator", "/runs");
    let tick = format!("name=\"name\" value=\"{}\"", dead[0]["run_id"].as_str().unwrap());
    assert!(html.contains(&tick) && html.contains("formaction=\"/act/purge\""), "{html}");
    let asked = page(&scene, "operator", "/act/retry?of=filter");
    assert!(asked.contains("<h1>Retry 2 runs?</h1>"), "only dead letters: {asked}");
    let result = acted(&scene, "/act/retry?of=filter&job=bad", "");
    assert!(result.contains("<h1>Retry: 2 done</h1>"), "{result}");
    until("both were tried again", LONG, || {
        let again = ended(2, "dead=1");
        again.iter().all(|run| run["attempt"] == 2).then_some(())
    });
    let mixed = format!(
        "/act/purge?name={}&name={}",
        encoded(dead[0]["run_id"].as_str().unwrap()),
        encoded(ended(1, "job=good&state=succeeded")[0]["run_id"].as_str().unwrap())
    );
    let result = acted(&scene, &mixed, "");
    assert!(result.contains("<h1>Purge: 1 done, 1 refused</h1>"), "{result}");
    acted(&scene, "/act/purge?of=filter&dead=1", "");
    ended(0, "dead=1");
    let asked = page(&scene, "operator", "/act/cancel-run?of=filter");
    assert!(asked.contains("<h1>Cancel 2 runs?</h1>"), "{asked}");
    acted(&scene, "/act/cancel-run?of=filter", "");
    ended(2, "state=cancelled");
    let answer = open(&scene, "operator", "/act/retry?of=filter&state=succeeded");
    assert_eq!(answer.status, 422, "{}", answer.text());
    checked("/act/retry", &answer);
    let none = ask(&scene, "/act/retry?of=filter&job=good");
    assert!(!none.contains("name="), "{none}");
}
