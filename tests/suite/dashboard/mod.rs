//! The dashboard from outside: a real schedd on a real Redis, and requests as a browser sends them.

mod actions;
mod bulk_actions;
mod job_and_run;
mod overview;
mod pages;
mod round_trips;
mod signing_in;
mod snapshots;
mod timeline;

use std::collections::BTreeSet;

use crate::api::{ApiScene, HttpAnswer};

/// The header fields of a browser that opens a page.
const BROWSER: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");

/// Opens a page as a browser does.
#[track_caller]
fn open(scene: &ApiScene, caller: &str, path: &str) -> HttpAnswer {
    scene.probe.send(caller, "GET", path, &[BROWSER], b"")
}

/// Opens a page, checks that it is whole and safe, and returns its HTML.
#[track_caller]
fn page(scene: &ApiScene, caller: &str, path: &str) -> String {
    let answer = open(scene, caller, path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    checked(path, &answer)
}

/// Checks the head and the markup of an answer that is a page.
#[track_caller]
fn checked(path: &str, answer: &HttpAnswer) -> String {
    const POLICY: &str = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; \
        img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'\r\n";
    let html = answer.text();
    for line in [
        "content-type: text/html; charset=utf-8",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        POLICY,
    ] {
        assert!(answer.head.contains(line), "{path}: no {line} in {}", answer.head);
    }
    // The page of the API has its own address in examples.
    let lower = html.to_lowercase().replace("http://127.0.0.1:", "");
    for odd in [
        " style=",
        "<style",
        "<script>",
        "javascript:",
        " onclick=",
        " onload=",
        "http://",
        "https://",
    ] {
        assert!(!lower.contains(odd), "{path}: {odd} in {html}");
    }
    for wanted in ["<!doctype html>", "<html lang=\"en\"", "<title>", "<h1>", "<main id=\"main\""] {
        assert!(lower.contains(wanted), "{path}: no {wanted} in {html}");
    }
    let ids: Vec<&str> = attributes(&html, "id").collect();
    let unique: BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), unique.len(), "{path}: an id stands twice: {ids:?}");
    for target in attributes(&html, "for") {
        assert!(ids.contains(&target), "{path}: a label is for {target}, which is missing");
    }
    html
}

/// Returns the values of all attributes with this name.
fn attributes<'h>(html: &'h str, name: &str) -> impl Iterator<Item = &'h str> {
    let start = format!(" {name}=\"");
    html.match_indices(&start)
        .map(|(at, start)| html[at + start.len()..].split('"').next().unwrap_or_default())
        .collect::<Vec<_>>()
        .into_iter()
}

/// Returns the addresses to which the links of a page lead, as a browser reads them.
fn links(html: &str) -> BTreeSet<String> {
    let links = attributes(html, "href").chain(attributes(html, "src"));
    links
        .filter(|link| !link.starts_with('#'))
        .map(|link| link.replace("&#38;", "&").split('#').next().unwrap().to_owned())
        .collect()
}

/// The content type of a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// Returns a text as the value of a query or of a form.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Returns the hidden fields of the form on a page that is sent to `action`, as a browser sends them.
/// Returns an empty text if the page has no such form.
fn hidden(html: &str, action: &str) -> String {
    let start = format!("<form method=\"post\" action=\"{action}\">");
    let form = html.split(&start).nth(1).unwrap_or_default().split("</form>").next().unwrap();
    let fields = form.split("<input type=\"hidden\"").skip(1).map(|field| {
        let of = |name| attributes(field, name).next().unwrap().replace("&#38;", "&");
        format!("{}={}", of("name"), encoded(&of("value")))
    });
    fields.collect::<Vec<_>>().join("&")
}

/// Opens the page that asks before an action as an operator, and returns its form as a browser sends
/// it.
#[track_caller]
fn ask(scene: &ApiScene, path: &str) -> String {
    hidden(&page(scene, "operator", path), path.split('?').next().unwrap())
}

#[track_caller]
fn send_form(scene: &ApiScene, caller: &str, path: &str, form: &str) -> HttpAnswer {
    let headers = [BROWSER, ("Content-Type", FORM)];
    scene.probe.send(caller, "POST", path, &headers, form.as_bytes())
}

/// Opens the page that asks before an action, sends its form with the fields `more`, and returns the
/// page of the result.
#[track_caller]
fn acted(scene: &ApiScene, path: &str, more: &str) -> String {
    let form = ask(scene, path) + more;
    let answer = send_form(scene, "operator", path.split('?').next().unwrap(), &form);
    assert_eq!(answer.status, 303, "{path}: {}", answer.text());
    page(scene, "operator", place_of(&answer))
}

/// Returns the address in the header `Location` of an answer.
#[track_caller]
fn place_of(answer: &HttpAnswer) -> &str {
    let place = answer.head.split("location: ").nth(1).unwrap_or_else(|| panic!("{answer:?}"));
    place.split("\r\n").next().unwrap()
}
