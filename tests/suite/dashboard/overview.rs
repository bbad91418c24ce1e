//! The first page: what needs attention, what runs next, and what it costs.

use serde_json::json;

use super::{links, open, page};
use crate::api::{ApiScene, DEFINING};
use crate::support::wait::{LONG, until};

/// Waits until the page has all these texts, and returns it. A page may be a second old.
#[track_caller]
fn page_with(scene: &ApiScene, path: &str, wanted: &[&str]) -> String {
    until(&format!("{path} has {wanted:?}"), LONG, || {
        let html = page(scene, "viewer", path);
        wanted.iter().all(|text| html.contains(text)).then_some(html)
    })
}

fn failed(scene: &ApiScene, job: &str) {
    scene.post("operator", &format!("/v1/jobs/{job}/run"), "").of(200);
    until("the run has failed", LONG, || {
        let runs = scene.get("viewer", &format!("/v1/runs?job={job}&state=failed")).of(200);
        (!runs["items"].as_array().unwrap().is_empty()).then_some(())
    });
}

#[test]
fn an_empty_namespace_shows_the_next_command() {
    let scene = ApiScene::start("", "");
    let html = page(&scene, "viewer", "/");
    assert!(html.contains("schedctl add --name hello"), "{html}");
    assert!(html.contains("Nothing needs attention"), "{html}");
}

#[test]
fn what_needs_attention_comes_first_and_leads_to_the_page_that_shows_it() {
    let jobs = "[queues.idle]\n[jobs.bad]\nevery = \"1h\"\nshell = \"exit 3\"\n\
        [jobs.good]\nevery = \"1h\"\nshell = \"true\"\n\
        [jobs.nobody]\nevery = \"1h\"\nshell = \"true\"\nrequires = [\"gpu\"]\n";
    let scene = ApiScene::start("", jobs);
    failed(&scene, "bad");
    scene.post("operator", "/v1/jobs/nobody/run", "").of(200);
    let html = page_with(&scene, "/", &["1 job fails", "1 dead letter", "label gpu"]);
    let links = links(&html);
    for wanted in ["/jobs?failed=1", "/jobs/bad", "/runs?dead=1", "/queues", "/timeline"] {
        assert!(links.contains(wanted), "no {wanted} in {links:?}");
    }
    assert!(links.iter().any(|link| link.starts_with("/runs/bad%40")), "{links:?}");
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("no {text} in {html}"));
    assert!(at("Needs attention") < at("Next runs") && at("1 job fails") < at("1 dead letter"));
    let rows = html.split("aria-label=\"Table of the next runs\"").nth(1).unwrap();
    let rows = rows.split("</table>").next().unwrap();
    assert_eq!(rows.matches("data-key=").count(), 3, "{rows}");
    assert!(html.contains("span-failed") && html.contains("span-coming"), "{html}");
}

#[test]
fn a_running_run_a_lost_node_and_a_data_loss_are_shown() {
    let mut scene = ApiScene::start(DEFINING, "[jobs.slow]\nshell = \"sleep 600\"\n");
    let run = scene.post("operator", "/v1/jobs/slow/run", "").of(200)["run_id"].clone();
    let path = format!("/runs/{}", run.as_str().unwrap().replace('@', "%40"));
    let html = page_with(&scene, "/", &[&path]);
    assert!(html.contains("Running now"), "{html}");
    let mut connection = scene.redis.connection();
    let (seconds, _): (i64, i64) = redis::cmd("TIME").query(&mut connection).unwrap();
    let record: i64 = redis::cmd("ZADD")
        .arg("{schedd}:nodes")
        .arg((seconds - 600) * 1_000)
        .arg("n9")
        .query(&mut connection)
        .unwrap();
    assert_eq!(record, 1, "the node was not known");
    page_with(&scene, "/", &["Node n9 is gone"]);
    let _: () = redis::cmd("FLUSHALL").query(&mut connection).unwrap();
    let html = page_with(&scene, "/", &["Redis lost data: flushed"]);
    assert!(links(&html).contains("/losses"), "{html}");
    let losses = page_with(&scene, "/losses", &["flushed"]);
    assert!(losses.contains("Data until") && losses.contains("at least"), "{losses}");
    scene.redis.kill9();
    // The page may be a second old.
    until("the page is refused", LONG, || {
        (open(&scene, "viewer", "/").status == 503).then_some(())
    });
}

#[test]
fn texts_of_others_are_only_text_on_the_new_pages() {
    let scene = ApiScene::start(DEFINING, "");
    let job = json!({"name": "odd", "every": "1h", "shell": "echo '<b>' >&2; exit 1"});
    scene.post("admin", "/v1/jobs", &job.to_string()).of(201);
    failed(&scene, "odd");
    let odd = "%3Cimg%20src=x%3E%22'";
    for path in ["/".to_owned(), format!("/timeline?q={odd}&queue=a"), format!("/chains?job={odd}")]
    {
        let html = page(&scene, "admin", &path);
        assert!(!html.contains("<img src=x"), "{path}: {html}");
    }
}
