//! Pages of jobs and runs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ApiScene, DEFINING};
use crate::support::wait::{LONG, until};

/// Returns the names or ids of all pages of a list, and does `between` after each page.
fn all_pages(
    scene: &ApiScene,
    path: &str,
    field: &str,
    mut between: impl FnMut(usize),
) -> Vec<String> {
    let (mut found, mut next, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = scene.get("viewer", &format!("{path}{next}")).of(200);
        let items = page["items"].as_array().unwrap();
        found.extend(items.iter().map(|item| item[field].as_str().unwrap().to_owned()));
        between(pages);
        pages += 1;
        assert!(pages < 1_000, "the pages do not end");
        match &page["next"] {
            Value::String(cursor) => next = format!("&cursor={cursor}"),
            _ => return found,
        }
    }
}

fn add(scene: &ApiScene, name: &str, more: &Value) {
    let mut job = json!({"name": name, "at": "2099-01-01T00:00:00Z", "shell": "true"});
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    scene.post("admin", "/v1/jobs", &job.to_string()).of(201);
}

#[test]
fn jobs_come_page_by_page_while_jobs_come_and_go() {
    let scene = ApiScene::start(DEFINING, "[queues.mail]\n");
    let names: Vec<String> = (0..25).map(|number| format!("job-{number:02}")).collect();
    for (number, name) in names.iter().enumerate() {
        let more = match number % 5 {
            0 => json!({"queue": "mail", "tags": {"team": "db"}}),
            _ => json!({}),
        };
        add(&scene, name, &more);
    }
    for limit in [1, 7, 25, 100] {
        let found = all_pages(&scene, &format!("/v1/jobs?limit={limit}"), "name", |_| {});
        assert_eq!(found, names, "{limit}");
    }
    let every_fifth: Vec<&String> = names.iter().step_by(5).collect();
    for filter in ["queue=mail", "tag=team%3Ddb"] {
        let found = all_pages(&scene, &format!("/v1/jobs?limit=2&{filter}"), "name", |_| {});
        assert_eq!(found.iter().collect::<Vec<_>>(), every_fifth, "{filter}");
    }
    assert_eq!(all_pages(&scene, "/v1/jobs?prefix=job-1&limit=3", "name", |_| {}), names[10..20]);
    assert_eq!(all_pages(&scene, "/v1/jobs?source=file", "name", |_| {}), Vec::<String>::new());
    // A job before the cursor and the job of the cursor go, and a job behind it comes.
    let found = all_pages(&scene, "/v1/jobs?limit=10", "name", |page| {
        if page == 0 {
            for gone in ["job-03", "job-09"] {
                assert_eq!(
                    scene
                        .probe
                        .send("admin", "DELETE", &format!("/v1/jobs/{gone}"), &[], b"")
                        .status,
                    200
                );
            }
            add(&scene, "job-10a", &json!({}));
        }
    });
    let mut wanted = names.clone();
    wanted.insert(11, "job-10a".to_owned());
    assert_eq!(found, wanted);
    let over = all_pages(&scene, "/v1/jobs?all=1&limit=4", "name", |_| {});
    let defined: Vec<&String> =
        wanted.iter().filter(|name| !["job-03", "job-09"].contains(&name.as_str())).collect();
    assert_eq!(over.iter().take(24).collect::<Vec<_>>(), defined);
    assert_eq!(
        over[24..].iter().map(String::as_str).collect::<BTreeSet<_>>(),
        ["job-03", "job-09"].into()
    );
}

#[test]
fn runs_come_page_by_page_the_newest_first_and_filters_select_them() {
    let scene = ApiScene::start(
        "",
        "[jobs.good]\nshell = \"true\"\n[jobs.bad]\nshell = \"exit 3\"\n[jobs.slow]\nshell = \"sleep 600\"\n",
    );
    let mut started = Vec::new();
    for job in ["good", "bad", "good", "good", "bad", "good", "good"] {
        let run = scene.post("operator", &format!("/v1/jobs/{job}/run"), "").of(200);
        let run = run["run_id"].as_str().unwrap().to_owned();
        until("the run ends", LONG, || {
            let shown = scene.get("viewer", &format!("/v1/runs/{run}")).of(200);
            shown["finished_at"].is_string().then_some(())
        });
        started.push(run);
    }
    started.reverse();
    for limit in [1, 3, 7, 50] {
        let found = all_pages(&scene, &format!("/v1/runs?limit={limit}"), "run_id", |_| {});
        assert_eq!(found, started, "{limit}");
    }
    let of =
        |job: &str| started.iter().filter(|run| run.starts_with(job)).cloned().collect::<Vec<_>>();
    assert_eq!(all_pages(&scene, "/v1/runs?limit=1&dead=1", "run_id", |_| {}), of("bad"));
    assert_eq!(all_pages(&scene, "/v1/runs?limit=2&state=succeeded", "run_id", |_| {}), of("good"));
    assert_eq!(all_pages(&scene, "/v1/runs?limit=2&job=bad", "run_id", |_| {}), of("bad"));
    scene.get("viewer", "/v1/runs?since=1h&until=1s&limit=1&job=none").problem(404, "not_found");
    let open = scene.post("operator", "/v1/jobs/slow/run", "").of(200);
    let listed = scene.get("viewer", "/v1/runs?job=slow").of(200);
    assert_eq!(listed["items"][0]["run_id"], open["run_id"], "{listed}");
    let problem = scene.get("viewer", "/v1/runs?state=scheduled").problem(422, "invalid");
    assert!(problem["detail"].as_str().unwrap().contains("have not ended"), "{problem}");
    let cancelled = scene.post("operator", "/v1/runs/slow@last/cancel", "").of(200);
    assert_eq!(cancelled["run_id"], open["run_id"], "{cancelled}");
    // A list and the document of a run have the fields of the command line.
    let shown = scene.ctl("viewer").run(&["history", "good", "--json", "--limit", "1"]).json();
    let item = &scene.get("viewer", "/v1/runs?job=good&limit=1").of(200)["items"][0];
    assert_eq!(&shown[0], item);
}

#[test]
fn open_runs_come_page_by_page_and_hidden_runs_take_no_place() {
    let scene = ApiScene::start(
        "",
        "[jobs.slow]\noverlap = \"allow\"\nshell = \"sleep 600\"\n\
         [jobs.bad]\nshell = \"exit 3\"\non_failure = { shell = \"true\" }\n",
    );
    let mut open: Vec<String> = (0..5)
        .map(|_| scene.post("operator", "/v1/jobs/slow/run", "").of(200))
        .map(|run| run["run_id"].as_str().unwrap().to_owned())
        .collect();
    open.reverse();
    let running = "/v1/runs?state=running";
    until("all runs are running", LONG, || {
        (scene.get("viewer", running).of(200)["items"].as_array().unwrap().len() == 5).then_some(())
    });
    for limit in [1, 2, 5, 50] {
        for path in ["/v1/runs?job=slow", "/v1/runs?job=slow&state=running", running] {
            let found = all_pages(&scene, &format!("{path}&limit={limit}"), "run_id", |_| {});
            assert_eq!(found, open, "{path} {limit}");
        }
    }
    let failed = scene.post("operator", "/v1/jobs/bad/run", "").of(200)["run_id"].clone();
    until("the notice is delivered", LONG, || {
        let notices = scene.get("viewer", "/v1/runs?job=bad%2Fon_failure");
        (notices.status == 200 && notices.json()["items"][0]["state"] == "succeeded").then_some(())
    });
    // The newest ended run is the hidden run of the notice.
    let page = scene.get("viewer", "/v1/runs?limit=1").of(200);
    assert_eq!(page["items"][0]["run_id"], failed, "{page}");
}

#[test]
fn a_run_that_ends_while_a_page_is_read_is_listed_once() {
    let scene = ApiScene::start("", "[jobs.quick]\noverlap = \"allow\"\nshell = \"true\"\n");
    std::thread::scope(|scope| {
        let starts = scope.spawn(|| {
            for _ in 0..100 {
                scene.post("operator", "/v1/jobs/quick/run", "").of(200);
            }
        });
        while !starts.is_finished() {
            let page = scene.get("viewer", "/v1/runs?job=quick&limit=1000").of(200);
            let items = page["items"].as_array().unwrap();
            let ids: BTreeSet<&str> =
                items.iter().map(|run| run["run_id"].as_str().unwrap()).collect();
            assert_eq!(ids.len(), items.len(), "{page}");
        }
    });
}

#[test]
fn each_verb_route_has_the_document_of_the_command_line() {
    let scene = ApiScene::start(
        "",
        "[jobs.a]\ncron = \"0 9 1 1 *\"\ntz = \"Europe/Berlin\"\nshell = \"true\"\n[queues.q]\n[groups.g]\nmode = \"exclusive\"\n",
    );
    let ctl = scene.ctl("operator");
    let verb = |words: &[&str]| ctl.run(&[words, &["--json"]].concat()).json();
    let items = |path: &str| scene.get("operator", path).of(200)["items"].clone();
    assert_eq!(items("/v1/jobs/a/next?count=3"), verb(&["next", "a", "-n", "3"]));
    assert_eq!(items("/v1/groups"), verb(&["groups"]));
    assert_eq!(scene.get("operator", "/v1/groups/g").of(200), verb(&["groups", "g"])[0]);
    assert_eq!(items("/v1/data-loss"), verb(&["data-loss"]));
    let names = |list: &Value| {
        list.as_array().unwrap().iter().map(|item| item["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&items("/v1/queues")), names(&verb(&["queues"])));
    assert_eq!(names(&items("/v1/nodes")), names(&verb(&["nodes"])));
    let shown = scene.get("operator", "/v1/jobs/a").of(200);
    assert_eq!(shown, verb(&["show", "a"]));
    let set = scene.post("operator", "/v1/queues/q/set", "{\"limit\":3,\"rate\":\"10/s\"}").of(200);
    assert_eq!(set, json!({"queue": "q", "result": "set"}));
    let queue = verb(&["queues"]);
    let queue =
        queue.as_array().unwrap().iter().find(|queue| queue["name"] == "q").unwrap().clone();
    assert_eq!((&queue["limit"], &queue["rate"]), (&json!(3), &json!("10/1s")));
    scene.post("operator", "/v1/queues/q/set", "{\"limit\":null}").of(200);
    assert_eq!(scene.post("operator", "/v1/queues/q/pause", "").of(200)["result"], "paused");
    assert_eq!(scene.post("operator", "/v1/queues/q/resume", "").of(200)["result"], "resumed");
    let planned = scene
        .post("operator", "/v1/jobs/a/backfill", "{\"from\":\"800d\",\"dry_run\":true}")
        .of(200);
    assert_eq!(planned["dry_run"], true, "{planned}");
    assert_eq!(scene.get("viewer", "/v1/doctor").of(200)["ok"], true);
    let head = scene.probe.send("viewer", "HEAD", "/v1/jobs", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
}
