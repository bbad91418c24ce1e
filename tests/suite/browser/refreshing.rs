//! The refresh of a page that its reader works in.

use super::WebScene;
use crate::support::wait::{LONG, until};

#[test]
fn a_refresh_keeps_focus_selection_open_details_and_half_filled_forms() {
    let jobs = "[jobs.a]\nevery = \"1h\"\nshell = \"echo hello\"\n";
    let Some(scene) = WebScene::start("", "", jobs) else { return };
    scene.sign_in("operator");
    let browser = &scene.browser;
    scene.run("", "a");
    scene.open("/jobs/a");
    // Marks the elements: a refresh may change them, but must not make new ones.
    browser.run("document.querySelector('#runs-table').open = true; document.querySelector('#runs-table').mark = 1;");
    browser.click("input[name=at]");
    browser.press("02:3");
    let runs = "document.querySelectorAll('#runs-table tbody tr').length";
    let pause = || scene.api.post("operator", "/v1/jobs/a/pause", "").of(200);
    let paused = "document.querySelector('#head .badge.paused') !== null";
    pause();
    browser.wait(paused);
    assert_eq!(
        browser.value("document.activeElement.name + ' ' + document.activeElement.value"),
        "at 02:3"
    );
    scene.run("", "a");
    browser.wait(&format!("{runs} === 2"));
    let details = browser.value(
        "[document.querySelector('#runs-table').open, document.querySelector('#runs-table').mark]",
    );
    assert_eq!(details, serde_json::json!([true, 1]));
    // Text that the reader has selected stays selected, and its region waits with its news.
    browser.run("document.activeElement.blur(); getSelection().selectAllChildren(document.querySelector('#head h1'));");
    scene.api.post("operator", "/v1/jobs/a/resume", "").of(200);
    browser.wait("document.querySelector('#log').textContent.includes('resumed')");
    assert_eq!(browser.value(paused), true);
    let selected = browser.value("getSelection().toString()");
    assert!(selected.as_str().unwrap().starts_with('a'), "{selected}");
    browser.run("getSelection().removeAllRanges();");
    browser.wait(&format!("!({paused})"));
    // A link keeps the focus while its row changes.
    scene.open("/jobs");
    browser.run("document.querySelector('.rows tbody a').focus();");
    pause();
    browser.wait("document.querySelector('#jobs .badge.paused') !== null");
    assert_eq!(browser.value("document.activeElement.textContent"), "a");
    scene.check_silence("/jobs");
    // The page says that it has no answer, and goes on when there is one.
    let mut daemon = scene.api.daemon;
    daemon.kill9();
    browser.wait("document.querySelector('#live-state').textContent.startsWith('No answer.')");
    until("the log has the failed requests", LONG, || (!browser.log().is_empty()).then_some(()));
}
