//! How a browser signs in, and how it keeps the choices of its reader.

use super::{BROWSER, links, open, page};
use crate::api::ApiScene;

#[test]
fn a_link_leads_to_the_first_page_with_a_session() {
    let scene =
        ApiScene::start("base_path = \"/ops\"", "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n");
    let ctl = crate::support::ctl::Schedctl::alone();
    let url = format!("--url=http://{}/ops", scene.probe.address());
    let file = format!("--tokens-file={}", scene.tokens.path().display());
    let link = ctl.run(&["dashboard", "--print", &url, &file, "--json"]).json();
    let link =
        link["link"].as_str().unwrap().split_once(scene.probe.address()).unwrap().1.to_owned();
    let head = scene.probe.raw_head(&link);
    assert!(head.starts_with("HTTP/1.1 303") && head.contains("location: /ops/\r\n"), "{head}");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let get =
        |path: &str| scene.probe.send("nobody", "GET", path, &[BROWSER, ("Cookie", cookie)], b"");
    let first = get("/ops/");
    assert!(first.status == 200 && first.text().contains("<h1>Overview</h1>"), "{first:?}");
    let html = get("/ops/jobs").text();
    assert!(html.contains("Signed in as admin.") && html.contains(">a<"), "{html}");
}

#[test]
fn the_zone_and_the_colours_are_kept_in_cookies_and_named_on_the_page() {
    let scene = ApiScene::start(
        "",
        "[jobs.a]\ncron = \"30 2 1 1 *\"\ntz = \"Asia/Tokyo\"\nshell = \"true\"\n",
    );
    let choose = |form: &str, headers: &[(&str, &str)]| {
        let form_type = [("Content-Type", "application/x-www-form-urlencoded")];
        let headers = [&form_type, headers].concat();
        scene.probe.send("viewer", "POST", "/choices", &headers, form.as_bytes())
    };
    let answer = choose("zone=job&back=%2Fjobs%3Fq%3Da&theme=dark", &[]);
    assert_eq!(answer.status, 303, "{answer:?}");
    for line in [
        "location: /jobs?q=a\r\n",
        "set-cookie: schedd_zone=job; ",
        "set-cookie: schedd_theme=dark; ",
    ] {
        assert!(answer.head.contains(line), "{}", answer.head);
    }
    assert!(choose("back=%2F%2Fevil.example", &[]).head.contains("location: /\r\n"));
    assert_eq!(choose("zone=utc", &[("Sec-Fetch-Site", "cross-site")]).status, 403);
    let with = |cookies: &str| {
        scene.probe.send("viewer", "GET", "/jobs", &[BROWSER, ("Cookie", cookies)], b"").text()
    };
    for (cookies, zone, time, theme) in [
        ("", "UTC", "17:30:00</time>", "system"),
        ("schedd_own_zone=Europe/Berlin", "Europe/Berlin", "18:30:00</time>", "system"),
        (
            "schedd_zone=job; schedd_theme=dark",
            "the zone of each job",
            "02:30:00 +09:00</time>",
            "dark",
        ),
        (
            "schedd_zone=utc; schedd_own_zone=Europe/Berlin; schedd_theme=light",
            "UTC",
            "17:30:00</time>",
            "light",
        ),
    ] {
        let html = with(cookies);
        for wanted in [
            format!("Times in <strong>{zone}</strong>"),
            time.to_owned(),
            format!("data-theme=\"{theme}\""),
        ] {
            assert!(html.contains(&wanted), "{cookies}: no {wanted} in {html}");
        }
    }
    let html = page(&scene, "viewer", "/choices?back=%2Fjobs");
    assert!(html.contains("<option>Asia/Tokyo</option>"), "{html}");
}

#[test]
fn assets_are_open_kept_for_ever_and_found_only_by_their_hash() {
    let scene = ApiScene::start("", "");
    let html = page(&scene, "viewer", "/jobs");
    let assets: Vec<String> =
        links(&html).into_iter().filter(|link| link.starts_with("/assets/")).collect();
    for asset in &assets {
        let answer = open(&scene, "nobody", asset);
        assert_eq!(answer.status, 200, "{asset}");
        assert!(
            answer.head.contains("cache-control: public, max-age=31536000, immutable"),
            "{answer:?}"
        );
    }
    for path in ["/assets/style.css", "/assets/style-000000000000.css", "/assets/..%2Fstyle.css"] {
        assert_eq!(open(&scene, "nobody", path).status, 404, "{path}");
    }
}
