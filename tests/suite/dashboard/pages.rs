//! The pages: who may read them, what they show of the texts of others, and where they lead.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use super::{BROWSER, checked, links, open, page};
use crate::api::{ApiScene, DEFINING, HttpAnswer};
use crate::support::wait::{LONG, until};

/// The pages that the navigation leads to.
const SECTIONS: [&str; 11] = [
    "/",
    "/jobs",
    "/runs",
    "/timeline",
    "/chains",
    "/queues",
    "/groups",
    "/nodes",
    "/doctor",
    "/losses",
    "/api",
];

#[test]
fn each_page_is_whole_without_a_job_and_names_the_next_command() {
    let scene = ApiScene::start("", "");
    for path in SECTIONS {
        for caller in ["viewer", "operator", "admin"] {
            let html = page(&scene, caller, path);
            assert!(html.contains(&format!("Signed in as {caller}.")), "{html}");
        }
    }
    for (path, command) in [
        ("/jobs", "schedctl add --name hello"),
        ("/", "schedctl add --name hello"),
        ("/runs", "schedctl add --name hello"),
        ("/timeline", "schedctl add --name hello"),
        ("/timeline?view=heat", "schedctl add --name hello"),
        ("/chains", "schedctl add --name report --after hello"),
        ("/groups", "[groups.nightly]"),
        ("/losses", "schedctl doctor"),
    ] {
        assert!(page(&scene, "viewer", path).contains(command), "{path}");
    }
}

#[test]
fn each_command_that_an_empty_page_shows_can_be_typed() {
    let scene = ApiScene::start(DEFINING, "");
    let shown: BTreeSet<String> = SECTIONS
        .into_iter()
        .chain(["/timeline?view=heat"])
        .flat_map(|path| {
            let html = page(&scene, "viewer", path).replace("&#39;", "'");
            let blocks = html.split("<pre class=\"command\"><code>").skip(1);
            let lines = blocks.flat_map(|block| block.split("</code>").next().unwrap().lines());
            lines
                .filter(|line| line.starts_with("schedctl "))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(shown.len() >= 5, "{shown:?}");
    let ctl = scene.ctl("admin");
    for line in shown {
        // Every second part stands between quotation marks.
        let parts = line.split('\'').enumerate();
        let words: Vec<&str> = parts
            .flat_map(|(at, part)| match at % 2 {
                0 => part.split_whitespace().collect(),
                _ => vec![part],
            })
            .skip(1)
            .collect();
        let typed = ctl.run(&words);
        // A job of this name exists if another page shows a command for it too.
        assert!([0, 4].contains(&typed.code), "{line}: {typed:?}");
    }
}

#[test]
fn a_refused_page_is_a_page_for_a_browser_and_a_document_for_others() {
    let mut scene = ApiScene::start("", "");
    let answer = open(&scene, "nobody", "/jobs");
    assert_eq!(answer.status, 401);
    let html = checked("/jobs", &answer);
    assert!(html.contains("schedctl dashboard") && !html.contains("<nav"), "{html}");
    for (caller, path, status) in [
        ("worker", "/jobs", 403),
        ("viewer", "/nowhere", 404),
        ("viewer", "/timeline?view=odd", 422),
        ("viewer", "/jobs?odd=1", 400),
        ("viewer", "/jobs?cursor=odd", 400),
        ("viewer", "/login?code=odd", 401),
    ] {
        let answer = open(&scene, caller, path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        checked(path, &answer);
    }
    scene.get("nobody", "/jobs").problem(401, "unauthorized");
    scene.get("viewer", "/nowhere").problem(404, "not_found");
    open(&scene, "viewer", "/v1/nowhere").problem(404, "not_found");
    scene.redis.kill9();
    let answer = open(&scene, "viewer", "/jobs");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(checked("/jobs", &answer).contains("try again"));
}

#[test]
fn jobs_are_found_by_part_pattern_state_queue_tag_and_result() {
    let scene = ApiScene::start(DEFINING, "[queues.mail]\n");
    for number in 0..60 {
        let queue = if number % 2 == 0 { "mail" } else { "default" };
        let job = json!({
            "name": format!("report-{number:02}"), "at": format!("2099-01-01T00:{number:02}:00Z"), "shell": "true",
            "queue": queue, "tags": {"team": if number < 3 { "db" } else { "web" }},
        });
        scene.post("admin", "/v1/jobs", &job.to_string()).of(201);
    }
    let rows = |path: &str| {
        let html = page(&scene, "viewer", path);
        html.matches("<tr data-key=").count()
    };
    assert_eq!(rows("/jobs"), 50);
    for (query, wanted) in [
        ("q=port-1", 10),
        ("q=report-?5", 6),
        ("q=report-0", 10),
        ("q=nothing", 0),
        ("q=&state=&queue=mail&source=&tag=", 30),
        ("tag=team%3Ddb", 3),
        ("state=paused", 0),
        ("source=file", 0),
        ("failed=1", 0),
    ] {
        assert_eq!(rows(&format!("/jobs?{query}")), wanted, "{query}");
    }
    // A whole name comes first, however far away its next run is.
    let last = json!({"name": "report", "at": "2099-02-01T00:00:00Z", "shell": "true"});
    scene.post("admin", "/v1/jobs", &last.to_string()).of(201);
    let html = page(&scene, "viewer", "/jobs?q=report");
    assert!(html.split("<tr data-key=\"").nth(1).unwrap().starts_with("report\""), "{html}");
    assert_eq!(rows("/jobs?q=report&queue=default"), 31, "with another filter it has its place");
    let first = page(&scene, "viewer", "/jobs?tag=team%3Dweb");
    let next = links(&first).into_iter().find(|link| link.contains("cursor=")).unwrap();
    assert!(next.starts_with("/jobs?tag=team%3Dweb&cursor="), "{next}");
    assert_eq!(rows(&next), 7);
}

#[test]
fn texts_of_others_are_only_text() {
    let scene = ApiScene::start(DEFINING, "");
    let odd = "<img src=x onerror=alert(1)>\"'&\u{202e}\u{1b}[31m";
    let job = json!({"name": "odd", "every": "1h", "shell": "true", "tags": {"a": odd}});
    let added = scene.post("admin", "/v1/jobs", &job.to_string());
    assert!([201, 422].contains(&added.status), "{added:?}");
    for path in
        ["/jobs".to_owned(), format!("/jobs?q={}", "%3Cimg%20src=x%20onerror=alert(1)%3E%22'")]
    {
        let html = page(&scene, "admin", &path);
        assert!(!html.contains("<img src=x"), "{html}");
        assert!(!html.contains(['\u{202e}', '\u{1b}']), "{html}");
    }
}

#[test]
fn every_link_of_every_page_leads_somewhere_also_behind_a_path() {
    for (settings, base) in [("", ""), ("base_path = \"/ops/schedd\"", "/ops/schedd")] {
        let jobs = "[groups.g]\nmode = \"exclusive\"\n[queues.mail]\n\
            [jobs.a]\nevery = \"1h\"\nshell = \"false\"\nqueue = \"mail\"\ngroup = \"g\"\n\
            [jobs.b]\nafter_failed = [\"a\"]\nshell = \"true\"\n";
        let scene = ApiScene::start(settings, jobs);
        let api = format!("{base}/v1");
        scene.post("operator", &format!("{api}/jobs/a/run"), "").of(200);
        until("the run of a has failed", LONG, || {
            let runs = scene.get("viewer", &format!("{api}/runs?job=a&state=failed")).of(200);
            (runs["items"].as_array().unwrap().len() == 1).then_some(())
        });
        let mut to_visit: Vec<String> = vec![format!("{base}/")];
        let mut visited: BTreeSet<String> = BTreeSet::new();
        while let Some(path) = to_visit.pop() {
            // Each time leads to an earlier and a later one, and each filter to further filters.
            let page = path.split('?').next();
            let views = visited.iter().filter(|path| path.split('?').next() == page).count();
            if views > 6 || !visited.insert(path.clone()) {
                continue;
            }
            assert!(path.starts_with(&format!("{base}/")), "{path} is not below {base}/");
            let answer = open(&scene, "viewer", &path);
            assert!([200, 303].contains(&answer.status), "{path}: {}", answer.text());
            if answer.head.contains("text/html") {
                to_visit.extend(links(&checked(&path, &answer)));
            }
        }
        assert!(visited.len() >= 20, "{visited:?}");
        if !base.is_empty() {
            assert_eq!(open(&scene, "viewer", base).status, 200);
            assert_eq!(open(&scene, "viewer", "/jobs").status, 404);
        }
    }
}

#[test]
fn a_trusted_proxy_names_the_path_that_it_takes_off() {
    let jobs = "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n";
    for (settings, wanted) in [("trusted_proxies = [\"127.0.0.1\"]", "/ops/x/"), ("", "/")] {
        let scene = ApiScene::start(settings, jobs);
        let get = |caller: &str, path: &str, prefix: &str| {
            let headers = [BROWSER, ("X-Forwarded-Prefix", prefix)];
            scene.probe.send(caller, "GET", path, &headers, b"")
        };
        for (caller, path) in
            [("viewer", "/"), ("viewer", "/jobs"), ("viewer", "/jobs/a"), ("nobody", "/jobs")]
        {
            let html = checked(path, &get(caller, path, "/ops/x/"));
            for link in links(&html) {
                let is_below =
                    link.starts_with(wanted) && (wanted != "/" || !link.starts_with("/ops"));
                assert!(is_below, "{settings} {path}: {link}");
            }
        }
        let headers = [("X-Forwarded-Prefix", "/ops/x/")];
        let described = scene.probe.send("viewer", "GET", "/v1/openapi.json", &headers, b"");
        let server = described.of(200)["servers"][0]["url"].clone();
        let base = wanted.trim_end_matches('/');
        assert_eq!(server.as_str().unwrap_or_default(), base, "{settings}");
        for odd in ["//evil.example", "https://evil.example", "/a/../b", "/\"><b>", "ops"] {
            let html = get("viewer", "/jobs", odd).text();
            assert!(links(&html).contains("/jobs/a"), "{odd}: {html}");
        }
    }
}

#[test]
fn a_typed_time_without_a_zone_is_one_in_the_zone_that_the_form_names() {
    let scene = ApiScene::start("", "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n");
    scene.ctl("operator").run(&["run", "a", "--wait"]).good();
    // In UTC this time is still to come.
    let tokyo = jiff::Timestamp::now().in_tz("Asia/Tokyo").unwrap();
    let typed = tokyo.checked_sub(jiff::Span::new().minutes(5)).unwrap();
    let typed = typed.strftime("%F %R").to_string().replace(' ', "%20");
    let get = |path: &str, zone: &str| {
        let cookie = format!("schedd_own_zone={zone}");
        let answer =
            scene.probe.send("operator", "GET", path, &[BROWSER, ("Cookie", &cookie)], b"");
        checked(path, &answer)
    };
    for (path, form, read) in [
        (format!("/runs?since={typed}"), "Ended since, in Asia/Tokyo", "<tr"),
        (format!("/timeline?from={typed}"), "From, in Asia/Tokyo", "<rect"),
        (format!("/act/backfill?name=a&from={typed}"), "one in Asia/Tokyo", "</h2>\n<ol "),
        (format!("/act/retry?of=filter&since={typed}"), "selects nothing", "selects nothing"),
    ] {
        let html = get(&path, "Asia/Tokyo");
        assert!(html.contains(form) && html.contains(read), "{path}: {html}");
    }
    let html = get(&format!("/runs?since={typed}"), "UTC");
    assert!(html.contains("wanted a past time"), "{html}");
}

#[test]
fn a_faulty_filter_is_refused_in_its_form_with_what_was_typed() {
    let scene = ApiScene::start("", "");
    for (path, typed, why) in [
        ("/runs?since=never&job=a", "value=\"never\"", "Ended since: "),
        ("/runs?job=NOT", "value=\"NOT\"", "job name"),
        ("/runs?job=none&tag=team", "value=\"team\"", "none"),
        ("/jobs?queue=a%20b&q=mail", "value=\"mail\"", "queue name"),
        ("/jobs?state=odd&q=mail", "value=\"mail\"", "State: "),
        ("/jobs?tag=A%20B", "value=\"A B\"", "Tag: "),
        ("/runs?tag=A%20B", "value=\"A B\"", "Tag: "),
        ("/timeline?tag=A%20B", "value=\"A B\"", "tag: "),
        ("/timeline?from=soonish&q=mail", "value=\"soonish\"", "from: "),
        ("/timeline?from=2026-01-02&to=2026-01-01", "value=\"2026-01-02\"", "an end after"),
        ("/timeline?from=2026-01-01&to=2027-01-01", "value=\"2027-01-01\"", "at most 31 days"),
        ("/timeline?queue=%20&tag=team", "value=\"team\"", "queue: "),
    ] {
        let html = page(&scene, "viewer", path);
        let alert = html.split_once("role=\"alert\">").expect(path).1;
        assert!(alert.split('<').next().unwrap().contains(why), "{path}: {html}");
        assert!(html.contains(typed), "{path}: {html}");
    }
}

#[test]
fn the_report_of_doctor_names_its_time_and_its_findings() {
    let scene = ApiScene::start("", "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n");
    let report = |wanted: &str| {
        until(wanted, LONG, || {
            Some(page(&scene, "viewer", "/doctor")).filter(|html| html.contains(wanted))
        })
    };
    let html = report("<h2>Consistency</h2>");
    assert!(html.contains("Checked <time datetime"), "{html}");
    let mut connection = scene.redis.connection();
    let waiting = ["{schedd}:waiting:a", "5", "a@5"];
    redis::cmd("ZADD").arg(&waiting).exec(&mut connection).unwrap();
    // The page shows the newest report, whoever asked for it.
    scene.get("viewer", "/v1/doctor?fresh=1").of(200);
    let html = report("<h2>Findings</h2>");
    assert!(html.contains("schedctl doctor --fix"), "{html}");
}

#[test]
fn a_first_page_with_all_its_files_takes_at_most_25_kb_compressed() {
    let scene = ApiScene::start("", "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n");
    for path in SECTIONS {
        let html = page(&scene, "viewer", path);
        let assets: Vec<String> =
            links(&html).into_iter().filter(|link| link.starts_with("/assets/")).collect();
        let scripts = assets
            .iter()
            .filter(|asset| asset.rsplit_once('.').is_some_and(|(_, end)| end == "js"));
        let scripts: usize = scripts.map(|asset| open(&scene, "nobody", asset).body.len()).sum();
        assert!((1..=20_000).contains(&scripts), "the scripts have {scripts} bytes");
        let files = assets.iter().map(|asset| ("nobody", asset.as_str()));
        let sizes: Vec<usize> = std::iter::once(("viewer", path))
            .chain(files)
            .map(|(caller, path)| {
                let (plain, packed) =
                    (open(&scene, caller, path), compressed(&scene, caller, path));
                assert!(packed.head.contains("content-encoding: gzip\r\n"), "{path}: {packed:?}");
                assert!(packed.head.contains("vary: accept-encoding\r\n"), "{path}: {packed:?}");
                let whole = String::from_utf8(unpacked(&packed.body)).unwrap();
                // The clock of a page goes on.
                assert_eq!(whole.lines().count(), plain.text().lines().count(), "{path}");
                packed.head.len() + packed.body.len()
            })
            .collect();
        assert!(sizes.len() >= 4, "{html}");
        assert!(sizes.iter().sum::<usize>() <= 25_000, "{path}: {sizes:?}");
    }
}

#[test]
fn no_page_is_compressed_for_another_site() {
    let scene = ApiScene::start("", "");
    for (site, packs) in
        [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
    {
        let headers = [BROWSER, GZIP, ("Sec-Fetch-Site", site)];
        let answer = scene.probe.send("viewer", "GET", "/jobs", &headers, b"");
        assert_eq!(answer.head.contains("content-encoding: gzip"), packs, "{site}: {answer:?}");
    }
}

/// The header field of a reader who takes compressed answers.
const GZIP: (&str, &str) = ("Accept-Encoding", "gzip, deflate, br, zstd");

fn compressed(scene: &ApiScene, caller: &str, path: &str) -> HttpAnswer {
    scene.probe.send(caller, "GET", path, &[BROWSER, GZIP], b"")
}

/// Returns what gzip(1) makes of these bytes.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = Command::new("gzip")
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    gzip.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = gzip.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}
