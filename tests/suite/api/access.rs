//! Who may use which route, and how a browser signs in.

use std::collections::BTreeSet;
use std::process::Stdio;

use schedd_programs::secrets::tokens::TokenRole;
use serde_json::Value;

use super::http_probe::HttpProbe;
use super::{ApiScene, DEFINING, node_at};

/// Each route with the lowest role that may use it, or `define` for the role admin with
/// `define = true`, or `open`. The status is that of a caller who may use the route, for a name that
/// nothing has and the body `{}`.
const ROUTES: [(&str, &str, &str, u16); 63] = [
    ("get", "/healthz", "open", 200),
    ("get", "/readyz", "open", 200),
    ("get", "/login", "open", 401),
    ("get", "/v1/openapi.json", "viewer", 200),
    ("get", "/v1/jobs", "viewer", 200),
    ("post", "/v1/jobs", "define", 422),
    ("post", "/v1/jobs/bulk", "define", 200),
    ("get", "/v1/jobs/{job}", "viewer", 404),
    ("delete", "/v1/jobs/{job}", "operator", 404),
    ("post", "/v1/jobs/{job}/run", "operator", 404),
    ("post", "/v1/jobs/{job}/pause", "operator", 404),
    ("post", "/v1/jobs/{job}/resume", "operator", 404),
    ("post", "/v1/jobs/{job}/backfill", "operator", 422),
    ("get", "/v1/jobs/{job}/next", "viewer", 404),
    ("get", "/v1/jobs/{job}/explain", "viewer", 404),
    ("get", "/v1/runs", "viewer", 200),
    ("get", "/v1/runs/{run}", "viewer", 404),
    ("post", "/v1/runs/{run}/cancel", "operator", 404),
    ("post", "/v1/runs/{run}/retry", "operator", 404),
    ("post", "/v1/runs/{run}/rerun", "operator", 404),
    ("get", "/v1/runs/{run}/explain", "viewer", 404),
    ("get", "/v1/runs/{run}/logs", "viewer", 404),
    ("get", "/v1/queues", "viewer", 200),
    ("post", "/v1/queues/{queue}/pause", "operator", 404),
    ("post", "/v1/queues/{queue}/resume", "operator", 404),
    ("post", "/v1/queues/{queue}/set", "operator", 422),
    ("post", "/v1/queues/{queue}/claim", "worker", 422),
    ("post", "/v1/runs/heartbeat", "worker", 422),
    ("post", "/v1/runs/complete", "worker", 422),
    ("post", "/v1/runs/fail", "worker", 422),
    ("post", "/v1/runs/release", "worker", 422),
    ("get", "/v1/groups", "viewer", 200),
    ("get", "/v1/groups/{group}", "viewer", 404),
    ("get", "/v1/nodes", "viewer", 200),
    ("get", "/v1/stats", "viewer", 200),
    ("get", "/v1/data-loss", "viewer", 200),
    ("get", "/v1/doctor", "viewer", 200),
    ("get", "/v1/graph", "viewer", 200),
    ("get", "/v1/events", "viewer", 400),
    ("post", "/v1/schedctl", "viewer", 400),
    ("get", "/metrics", "viewer", 200),
    ("get", "/", "viewer", 200),
    ("get", "/jobs", "viewer", 200),
    ("get", "/jobs/{job}", "viewer", 404),
    ("get", "/runs", "viewer", 200),
    ("get", "/runs/{run}", "viewer", 404),
    ("get", "/timeline", "viewer", 200),
    ("get", "/chains", "viewer", 200),
    ("get", "/api", "viewer", 200),
    ("get", "/queues", "viewer", 200),
    ("get", "/groups", "viewer", 200),
    ("get", "/nodes", "viewer", 200),
    ("get", "/doctor", "viewer", 200),
    ("get", "/losses", "viewer", 200),
    ("get", "/choices", "viewer", 200),
    ("post", "/choices", "viewer", 415),
    ("get", "/act/{action}", "operator", 404),
    ("post", "/act/{action}", "operator", 415),
    ("get", "/acted/{key}", "operator", 404),
    ("get", "/assets/{asset}", "open", 404),
    // A verb of each right, because the route serves all verbs.
    ("post", "/v1/schedctl list", "viewer", 200),
    ("post", "/v1/schedctl pause", "operator", 200),
    ("post", "/v1/schedctl add", "define", 200),
];

/// The callers, from the lowest to the highest role, and those who may use no route.
const CALLERS: [&str; 7] =
    ["viewer", "operator", "admin", "nobody", "worker", "expired", "revoked"];

/// Returns the status that denies `caller` a route, or `None` if the caller may use the route.
fn denial(needed: &str, caller: &str, may_define: bool) -> Option<u16> {
    let rank = |role: &str| ["viewer", "operator", "admin"].iter().position(|known| *known == role);
    match (needed, rank(caller)) {
        ("open", _) => None,
        ("worker", _) if matches!(caller, "worker" | "admin") => None,
        (_, None) if caller == "worker" => Some(403),
        (_, None) => Some(401),
        ("define", Some(2)) => (!may_define).then_some(403),
        ("define", _) | ("worker", Some(_)) => Some(403),
        (needed, caller) => (caller < rank(needed)).then_some(403),
    }
}

fn check_all(may_define: bool) {
    let settings = if may_define { DEFINING } else { "" };
    let mut scene = ApiScene::start(settings, "[jobs.a]\nshell = \"true\"\n");
    let revoked = schedd_programs::secrets::tokens::TokenText::random().unwrap();
    let entry = super::entry("revoked", TokenRole::Admin, revoked.as_str(), None);
    scene.tokens.add(|_| entry).unwrap();
    scene.probe.add_token("revoked", revoked.as_str());
    assert_eq!(scene.get("revoked", "/v1/stats").status, 200);
    scene.tokens.remove(|token| token.name == "revoked").unwrap();
    for (method, path, needed, status) in ROUTES {
        for caller in CALLERS {
            let (path, verb) = path.split_once(' ').unwrap_or((path, ""));
            let address = path
                .replace("{job}", "nothing")
                .replace("{run}", "nothing@1")
                .replace("{queue}", "nothing")
                .replace("{group}", "nothing");
            // A stream has no end, so its head is enough.
            let address = if path == "/v1/events" { format!("{address}?x=1") } else { address };
            let words = if verb.is_empty() { "nonsense" } else { verb };
            let body = match path {
                "/v1/schedctl" => format!(
                    "{{\"words\":[{words:?},\"nothing\",\"--in\",\"1h\",\"--\",\"true\"],\"is_terminal\":false,\
                     \"is_error_terminal\":false,\"has_colour\":false,\"is_brief\":false,\"zone\":\"UTC\",\"files\":{{}}}}\n"
                )
                .replace("\"nothing\",\"--in\",\"1h\",\"--\",\"true\"", match words {
                    "add" => "\"--in\",\"1h\",\"--\",\"true\"",
                    "list" => "\"x\"",
                    _ => "\"nothing\"",
                }),
                _ if method == "post" => "{}".to_owned(),
                _ => String::new(),
            };
            let kind = if path == "/v1/schedctl" || path == "/v1/jobs/bulk" {
                "application/x-ndjson"
            } else {
                "application/json"
            };
            let method = method.to_uppercase();
            let answer = scene.probe.send(
                caller,
                &method,
                &address,
                &[("Content-Type", kind)],
                body.as_bytes(),
            );
            match denial(needed, caller, may_define) {
                Some(denied) => {
                    let code = if denied == 401 { "unauthorized" } else { "forbidden" };
                    answer.problem(denied, code);
                }
                // A link without a code is refused with the same status as a wrong token.
                None => assert_eq!(answer.status, status, "{caller} {method} {path}: {answer:?}"),
            }
        }
    }
    let document = scene.get("viewer", "/v1/openapi.json").of(200);
    let mut described = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            described.insert((method.clone(), path.clone()));
        }
    }
    for (method, path, ..) in ROUTES {
        described.remove(&(method.to_owned(), path.split(' ').next().unwrap().to_owned()));
    }
    assert!(described.is_empty(), "routes without a row: {described:?}");
}

#[test]
fn each_route_is_open_to_those_whose_role_includes_its_role() {
    check_all(true);
}

#[test]
fn nobody_defines_jobs_unless_the_file_allows_it() {
    check_all(false);
}

#[test]
fn a_token_in_the_query_or_of_another_form_is_refused() {
    let scene = ApiScene::start("", "");
    let token = scene.probe.token("admin").to_owned();
    scene.get("nobody", &format!("/v1/stats?token={token}")).problem(401, "unauthorized");
    for header in ["Basic YTpi", "Bearer", "Bearer x", &format!("Bearer {token}x"), "\u{7f}"] {
        let headers = [("Authorization", header)];
        let answer = scene.probe.send("nobody", "GET", "/v1/stats", &headers, b"");
        assert!([400, 401].contains(&answer.status), "{header}: {answer:?}");
    }
    let lower = [("authorization", &*format!("bearer {token}"))];
    assert_eq!(scene.probe.send("nobody", "GET", "/v1/stats", &lower, b"").status, 200);
}

#[test]
fn pages_of_other_sites_and_other_names_of_the_host_are_refused() {
    let scene = ApiScene::start("hosts = [\"jobs.example.org\"]", "[jobs.a]\nshell = \"true\"\n");
    let own = format!("http://{}", scene.probe.address());
    let post = |headers: &[(&str, &str)]| {
        scene.probe.send("operator", "POST", "/v1/jobs/a/pause", headers, b"").status
    };
    assert_eq!(post(&[]), 200);
    assert_eq!(post(&[("Origin", &own), ("Sec-Fetch-Site", "same-origin")]), 200);
    assert_eq!(post(&[("Origin", "null"), ("Sec-Fetch-Site", "same-origin")]), 200);
    for site in [&[][..], &[("Sec-Fetch-Site", "none")], &[("Sec-Fetch-Site", "cross-site")]] {
        assert_eq!(post(&[&[("Origin", "null")], site].concat()), 403, "{site:?}");
    }
    assert_eq!(post(&[("Origin", "https://evil.example")]), 403);
    assert_eq!(post(&[("Sec-Fetch-Site", "cross-site")]), 403);
    assert_eq!(post(&[("Sec-Fetch-Site", "same-site")]), 403);
    let host =
        |host: &str| scene.probe.send("viewer", "GET", "/v1/stats", &[("Host", host)], b"").status;
    for good in ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "jobs.example.org"] {
        assert_eq!(host(good), 200, "{good}");
    }
    for bad in ["evil.example", "127.0.0.1.evil.example", "", "jobs.example.org.evil", "10.0.0.1"] {
        assert_eq!(host(bad), 421, "{bad}");
    }
    // Only a trusted proxy may name another host.
    let forwarded = [("Host", "evil.example"), ("X-Forwarded-Host", "localhost")];
    assert_eq!(scene.probe.send("viewer", "GET", "/v1/stats", &forwarded, b"").status, 421);
    // Kubernetes probes by the address of the pod. The answers reveal nothing.
    for probe in ["/healthz", "/readyz"] {
        let pod = [("Host", "10.0.0.1:7341")];
        assert_eq!(scene.probe.send("nobody", "GET", probe, &pod, b"").status, 200, "{probe}");
    }
    let link = scene.probe.send("nobody", "GET", "/login", &[("Host", "10.0.0.1:7341")], b"");
    assert_eq!(link.status, 421);
}

#[test]
fn a_link_signs_a_browser_in_once_and_revoking_its_token_ends_the_session() {
    let scene = ApiScene::start("", "[jobs.a]\nshell = \"true\"\n");
    let ctl = crate::support::ctl::Schedctl::alone();
    let url = format!("--url=http://{}", scene.probe.address());
    let file = format!("--tokens-file={}", scene.tokens.path().display());
    let link = ctl.run(&["dashboard", "--print", &url, &file, "--json"]).json();
    let link = link["link"].as_str().unwrap();
    let path = link.split_once(scene.probe.address()).unwrap().1;
    let answer = scene.get("nobody", path);
    assert_eq!(answer.status, 303, "{answer:?}");
    for attribute in ["httponly", "samesite=strict", "path=/"] {
        assert!(answer.head.contains(attribute), "{}", answer.head);
    }
    scene.get("nobody", path).problem(401, "unauthorized");
    // The head was read in lower case, but the cookie has both cases.
    let again = ctl.run(&["dashboard", "--print", &url, &file, "--json"]).json();
    let again =
        again["link"].as_str().unwrap().split_once(scene.probe.address()).unwrap().1.to_owned();
    let raw = scene.probe.raw_head(&again);
    let cookie_line = raw.lines().find(|line| line.starts_with("set-cookie: ")).unwrap();
    let cookie = cookie_line["set-cookie: ".len()..].split(';').next().unwrap().to_owned();
    let with = |method: &str, path: &str, more: &[(&str, &str)]| {
        let headers = [&[("Cookie", &*cookie)], more].concat();
        scene.probe.send("nobody", method, path, &headers, b"").status
    };
    assert_eq!(with("GET", "/v1/jobs", &[]), 200);
    assert_eq!(with("POST", "/v1/jobs/a/pause", &[]), 403, "no page of ours sent it");
    assert_eq!(with("POST", "/v1/jobs/a/pause", &[("Sec-Fetch-Site", "same-origin")]), 200);
    ctl.run(&["token", "revoke", "browser-2", &file]).good();
    assert_eq!(with("GET", "/v1/jobs", &[]), 401);
}

#[test]
fn a_link_works_once_on_all_nodes_and_only_by_get_and_with_redis() {
    let mut scene = ApiScene::start("", "");
    let (_second, address) = node_at(&scene.redis.url(), "n2", scene.tokens.path(), "", "");
    let second = HttpProbe::new(address, Vec::new());
    let ctl = crate::support::ctl::Schedctl::alone();
    let file = format!("--tokens-file={}", scene.tokens.path().display());
    let path = || {
        let link = ctl.run(&["dashboard", "--print", "--url=http://h", &file, "--json"]).json();
        link["link"].as_str().unwrap().strip_prefix("http://h").unwrap().to_owned()
    };
    let used = path();
    let looked = scene.probe.send("nobody", "HEAD", &used, &[], b"");
    assert!(looked.status == 405 && looked.head.contains("allow: get"), "{looked:?}");
    assert_eq!(scene.get("nobody", &used).status, 303);
    for probe in [&scene.probe, &second] {
        probe.send("nobody", "GET", &used, &[], b"").problem(401, "unauthorized");
    }
    let other = path();
    scene.redis.kill9();
    second.send("nobody", "GET", &other, &[], b"").problem(503, "redis_unreachable");
}

#[test]
fn viewers_see_no_secret_values_and_the_audit_log_names_the_token() {
    let jobs = "[jobs.a]\nshell = \"true\"\nenv = { WORD = \"hush1\" }\nstdin = \"hush2\"\n\
        on_failure = { http = { url = \"http://127.0.0.1:1/\", headers = { X-Odd = \"hush3\" }, body = \"hush4\" } }\n\
        [jobs.b]\nhttp = { url = \"http://127.0.0.1:1/\", headers = { X-Odd = \"hush5\" }, body = \"hush6\" }\n";
    let scene = ApiScene::start("", jobs);
    for job in ["a", "b"] {
        let path = format!("/v1/jobs/{job}");
        assert!(!scene.get("viewer", &path).text().contains("hush"), "{job}");
        assert!(scene.get("operator", &path).text().contains("hush"), "{job}");
        let shown = scene.ctl("viewer").run(&["show", job]).good().stdout;
        assert!(!shown.contains("hush"), "{shown}");
    }
    scene.post("operator", "/v1/jobs/a/pause", "").of(200);
    let explained = scene.get("viewer", "/v1/jobs/a/explain").of(200);
    let entries = explained["audit_log"].as_array().unwrap();
    let by: Vec<&Value> = entries
        .iter()
        .filter(|entry| entry["what"] == "paused")
        .map(|entry| &entry["by"])
        .collect();
    assert_eq!(by, ["token:operator"], "{explained}");
}

#[test]
fn tokens_are_made_listed_and_revoked_on_the_command_line() {
    let ctl = crate::support::ctl::Schedctl::alone();
    let file = "--tokens-file=tokens";
    let run = |args: &[&str]| ctl.run(&[args, &[file]].concat());
    let made =
        run(&["token", "new", "--role", "worker", "--queues", "mail,low", "--expires", "1d"])
            .good();
    assert!(made.stdout.starts_with("schedd_") && made.stderr.contains("worker-1"), "{made:?}");
    let stored = std::fs::read_to_string(ctl.home().join("tokens")).unwrap();
    assert!(!stored.contains(made.stdout.trim()), "only the hash is stored");
    run(&["token", "new", "--role", "viewer", "--name", "v"]).good();
    run(&["token", "new", "--role", "viewer", "--name", "v"])
        .refused(4, &["token v", "exists", "--name"]);
    run(&["token", "new", "--role", "boss"])
        .refused(2, &["boss", "viewer, operator, admin or worker"]);
    run(&["token", "new", "--role", "viewer", "--queues", "q"])
        .refused(2, &["--queues", "--role worker"]);
    run(&["token", "new", "--role", "viewer", "--expires", "soon"])
        .refused(2, &["--expires", "soon"]);
    run(&["token", "new", "--role", "viewer", "--expires", "0s"])
        .refused(2, &["--expires: found 0s, wanted a longer time"]);
    run(&["token", "new", "--role", "viewer", "--name", "a b"]).refused(2, &["--name", "a b"]);
    let listed = run(&["token", "list"]).good();
    assert!(listed.stdout.contains("mail,low") || listed.stdout.contains("low,mail"), "{listed:?}");
    assert!(listed.stderr.contains("tokens in tokens"), "the file is named: {listed:?}");
    let new = || {
        let mut command = ctl.command(&["token", "new", "--role", "admin", file]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let together: Vec<_> = (0..6).map(|_| new()).collect();
    for mut child in together {
        assert!(child.wait().unwrap().success());
    }
    let listed = run(&["token", "list"]).good().stdout;
    assert!((1..=6).all(|number| listed.contains(&format!("admin-{number}"))), "{listed}");
    run(&["token", "revoke", "v"]).good();
    run(&["token", "revoke", "v"]).refused(3, &["no token v", "token list"]);
    std::fs::write(ctl.home().join("tokens"), "nonsense").unwrap();
    run(&["token", "list"]).refused(1, &["file of tokens", "tokens"]);
    run(&["dashboard"]).refused(2, &["no address", "listen", "--url"]);
    for bad in ["jobs.example.org", "ftp://jobs.example.org", "https://jobs.example.org/?a=b", ""] {
        run(&["dashboard", "--url", bad]).refused(2, &["--url", bad, "https://jobs.example.org"]);
    }
    run(&["dashboard", "--print", "--role", "worker", "--url=http://h"])
        .refused(2, &["worker", "viewer, operator or admin"]);
}
