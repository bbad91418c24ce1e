//! Actions: a page asks, a form acts once, with and without scripts.

use super::WebScene;

/// The button that acts.
const FORM: &str = ".ask form[method=post] button.main";

#[test]
fn an_operator_acts_by_a_form_with_and_without_scripts() {
    let jobs = "[jobs.a]\nevery = \"1h\"\nshell = \"echo hello\"\n";
    let Some(scene) = WebScene::start("/ops", "", jobs) else { return };
    let browser = &scene.browser;
    scene.sign_in("viewer");
    scene.open("/jobs/a");
    assert!(!browser.text("main").contains("Pause"), "a viewer sees no action");
    scene.sign_in("operator");
    for (allows, word, wanted) in [(true, "pause", "paused"), (false, "resume", "scheduled")] {
        scene.allow_scripts(allows);
        scene.open("/jobs/a");
        browser.click(&format!("main a[href*='/act/{word}?']"));
        browser.wait_text(FORM, "");
        browser.click(FORM);
        browser.wait_text("#result", "Back");
        scene.open("/jobs/a");
        browser.wait_text("#head", wanted);
    }
    scene.allow_scripts(true);
    // The refresh of a page never replaces the page that asks.
    scene.open("/act/run?name=a");
    browser.click("input[name=note]");
    browser.press("after the repair");
    browser.click(FORM);
    browser.wait_text("#result", "a@");
    scene.open("/jobs/a");
    browser.wait_text("#log", "after the repair");
    scene.check_silence("the actions");
}
