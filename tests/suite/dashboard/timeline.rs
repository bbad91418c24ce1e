//! The timeline, the chains and the page of the API.

use serde_json::json;

use super::{links, page};
use crate::api::{ApiScene, DEFINING};
use crate::support::wait::{LONG, until};

#[test]
fn past_runs_and_coming_starts_stand_in_one_timeline() {
    let jobs = "[jobs.often]\nevery = \"10m\"\nshell = \"true\"\n\
        [jobs.night]\ncron = \"30 2 * * *\"\ntz = \"Europe/Berlin\"\nshell = \"exit 3\"\nqueue = \"low\"\n[queues.low]\n";
    let scene = ApiScene::start("", jobs);
    scene.post("operator", "/v1/jobs/night/run", "").of(200);
    let html = until("the run is in the timeline", LONG, || {
        Some(page(&scene, "viewer", "/timeline")).filter(|html| html.contains("fill failed"))
    });
    assert!(html.contains("fill planned") && html.contains("class=\"now\""), "{html}");
    let all = links(&html);
    assert!(all.iter().any(|link| link.starts_with("/runs/night%40")), "{all:?}");
    assert!(all.iter().any(|link| link.starts_with("/jobs/often?at=")), "{all:?}");
    let only = page(&scene, "viewer", "/timeline?queue=low&q=night");
    assert!(only.contains("night") && !only.contains("/jobs/often"), "{only}");
    let later = all.iter().filter(|link| link.contains("from=")).count();
    assert_eq!(later, 2, "earlier and later have addresses of their own: {all:?}");
    let past = page(&scene, "viewer", "/timeline?from=2020-01-01T00:00:00Z&zoom=week");
    assert!(past.contains("Nothing ran in this time"), "{past}");
    assert!(past.contains("datetime=\"2020-01-08T00:00:00.000Z\""), "{past}");
}

#[test]
fn a_timeline_that_is_cut_says_so_and_is_whole_until_then() {
    let scene = ApiScene::start(DEFINING, "[jobs.tick]\ncron = \"* * * * *\"\nshell = \"true\"\n");
    let html = page(
        &scene,
        "viewer",
        "/timeline?view=heat&from=2030-01-01T00:00:00Z&to=2030-01-31T00:00:00Z",
    );
    assert!(html.contains("There are more starts than are read"), "{html}");
    assert!(html.contains("20000 starts"), "{html}");
    let html = page(
        &scene,
        "viewer",
        "/timeline?view=heat&from=2030-01-01T00:00:00Z&to=2030-01-02T00:00:00Z",
    );
    assert!(!html.contains("more starts than are read") && html.contains("1440 starts"), "{html}");
}

#[test]
fn many_added_jobs_hide_no_job_of_a_file() {
    let jobs = "[jobs.night]\ncron = \"0 3 * * *\"\ntz = \"UTC\"\nshell = \"true\"\n";
    let scene = ApiScene::start(DEFINING, jobs);
    let line = |number: u32| {
        let at = format!("2030-01-07T12:{:02}:{:02}Z", number / 60, number % 60);
        json!({"name": format!("later-{number}"), "at": at, "shell": "true"}).to_string()
    };
    let lines: Vec<String> = (0..700).map(line).collect();
    let lines = lines.join("\n");
    let kind = [("Content-Type", "application/x-ndjson")];
    let added = scene.probe.send("admin", "POST", "/v1/jobs/bulk", &kind, lines.as_bytes());
    assert_eq!(added.status, 200, "{added:?}");
    let week = "from=2030-01-07T00:00:00Z&to=2030-01-14T00:00:00Z";
    let html = page(&scene, "viewer", &format!("/timeline?view=heat&{week}"));
    assert!(html.contains("only the starts of jobs of the nodes' files are shown"), "{html}");
    assert_eq!(html.matches(":00, 1 starts</title>").count(), 7, "seven nights: {html}");
}

#[test]
fn the_load_names_the_minutes_in_which_jobs_meet() {
    let jobs = "[jobs.a]\ncron = \"0 3 * * *\"\ntz = \"UTC\"\nshell = \"true\"\n\
        [jobs.b]\ncron = \"0 3 * * mon\"\ntz = \"UTC\"\nshell = \"true\"\n\
        [jobs.c]\ncron = \"30 4 * * *\"\ntz = \"UTC\"\nshell = \"true\"\n";
    let scene = ApiScene::start("", jobs);
    let week = "from=2030-01-07T00:00:00Z&to=2030-01-14T00:00:00Z";
    let html = page(&scene, "viewer", &format!("/timeline?view=heat&{week}"));
    assert!(html.contains("15 starts"), "{html}");
    let minutes = html.split_once("<h2>The fullest minutes</h2>").unwrap().1;
    assert!(minutes.contains("datetime=\"2030-01-07T03:00:00.000Z\""), "{minutes}");
    let found = links(minutes);
    assert!(found.contains("/jobs/a") && found.contains("/jobs/b"), "{found:?}");
    assert!(!found.contains("/jobs/c"), "{found:?}");
    // The 7th is a Monday, so its hour 3 has both jobs.
    assert!(html.contains("<title>Mon 3:00, 2 starts</title>"), "{html}");
    assert!(html.contains("<title>Tue 3:00, 1 starts</title>"), "{html}");
}

#[test]
fn chains_are_drawn_from_left_to_right_with_the_state_of_each_job() {
    let jobs = "[jobs.extract]\nevery = \"1h\"\nshell = \"exit 1\"\n\
        [jobs.load]\nafter = [\"extract\"]\nshell = \"true\"\n\
        [jobs.report]\nafter = [\"load\"]\nshell = \"true\"\n\
        [jobs.alone]\nevery = \"1h\"\nshell = \"true\"\n\
        [jobs.other]\nevery = \"1h\"\nshell = \"true\"\n[jobs.last]\nafter = [\"other\"]\nshell = \"true\"\n";
    let scene = ApiScene::start("", jobs);
    scene.post("operator", "/v1/jobs/extract/run", "").of(200);
    let html = until("the chain shows the failure", LONG, || {
        Some(page(&scene, "viewer", "/chains")).filter(|html| html.contains("node failed"))
    });
    assert_eq!(html.matches("class=\"arrow\"").count(), 3, "{html}");
    assert_eq!(html.matches("<section class=\"chain\">").count(), 2, "{html}");
    assert!(!html.contains("/jobs/alone"), "{html}");
    let place = |job: &str| {
        let text = html.split(&format!("<a href=\"/jobs/{job}\"><rect")).nth(1).unwrap();
        text.split(" x=\"").nth(1).unwrap().split('"').next().unwrap().parse::<u32>().unwrap()
    };
    assert!(place("extract") < place("load") && place("load") < place("report"), "{html}");
    let one = page(&scene, "viewer", "/chains?job=last");
    assert!(one.contains("/jobs/other") && !one.contains("/jobs/load"), "{one}");
    assert!(page(&scene, "viewer", "/chains?job=alone").contains("role=\"alert\""));
    assert!(links(&page(&scene, "viewer", "/jobs/load")).contains("/chains?job=load"));
}

#[test]
fn the_page_of_the_api_has_each_route_and_its_examples_work() {
    let scene = ApiScene::start(
        "base_path = \"/ops\"\ndefine = true",
        "[jobs.backup]\nevery = \"1h\"\nshell = \"true\"\n",
    );
    let html = page(&scene, "viewer", "/ops/api");
    let document = scene.get("viewer", "/ops/v1/openapi.json").of(200);
    let text = html.replace("&#34;", "\"").replace("&#39;", "'").replace("&#38;", "&");
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys().filter(|_| path != "/v1/schedctl") {
            let wanted =
                format!("<span class=\"method\">{}</span> {path}</h2>", method.to_uppercase());
            assert!(html.contains(&wanted), "no {wanted}");
        }
    }
    let own = format!("http://{}/ops", scene.probe.address());
    let examples: Vec<&str> = text
        .split("<code>curl ")
        .skip(1)
        .map(|rest| rest.split("</code>").next().unwrap())
        .collect();
    assert!(examples.len() >= 30, "{examples:?}");
    for example in examples {
        let (_, rest) = example.split_once(&own).unwrap_or_else(|| panic!("{example}"));
        let address = rest.trim_end_matches('\'');
        if example.contains("-N ") || example.contains("-X DELETE") {
            continue;
        }
        let body = example.split(" -d '").nth(1).map(|rest| rest.split("' '").next().unwrap());
        let kind =
            example.split("Content-Type: ").nth(1).map(|rest| rest.split('\'').next().unwrap());
        let method = if example.contains("-X POST") || body.is_some() { "POST" } else { "GET" };
        let headers: Vec<(&str, &str)> =
            kind.map(|kind| ("Content-Type", kind)).into_iter().collect();
        let path = format!("/ops{address}");
        let answer =
            scene.probe.send("admin", method, &path, &headers, body.unwrap_or("").as_bytes());
        // A run that has not been made, and a link that is unknown, are no faults of the example.
        assert!([200, 201, 401, 404, 409].contains(&answer.status), "{example}: {answer:?}");
    }
    let added = scene.get("viewer", "/ops/v1/jobs/backup");
    assert_eq!(added.of(200)["name"], json!("backup"));
}
