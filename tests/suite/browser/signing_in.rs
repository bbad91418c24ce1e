//! Signing in by a link, what each role sees, and the choices of a reader.

use super::WebScene;

#[test]
fn a_link_signs_in_with_its_role_and_the_choices_of_a_reader_stay() {
    let jobs = "[jobs.a]\ncron = \"30 2 1 1 *\"\nshell = \"true\"\nenv = { WORD = \"hush\" }\n";
    let Some(scene) = WebScene::start("/ops", "", jobs) else { return };
    let browser = &scene.browser;
    scene.open("/jobs");
    assert!(browser.text("main").contains("schedctl dashboard"), "{}", browser.text("main"));
    // The refusal of the page itself is in the log.
    browser.log();
    for (role, sees) in [("viewer", false), ("operator", true), ("admin", true)] {
        scene.sign_in(role);
        scene.open("/jobs/a");
        browser.wait_text(".foot", &format!("Signed in as {role}."));
        assert_eq!(browser.text("#rules").contains("hush"), sees, "{role}");
        scene.check_silence(role);
    }
    // Without a script in the page, the choices are forms.
    scene.allow_scripts(false);
    scene.open("/jobs");
    for (button, wanted) in [("[value=job]", "the zone of each job"), ("[value=utc]", "UTC")] {
        browser.click(&format!(".foot {button}"));
        browser.wait_text(".foot", &format!("Times in {wanted}"));
    }
    browser.click(".foot [value=dark]");
    browser.wait_text(".foot [value=dark][aria-pressed=true]", "Dark");
    browser.click("#choices");
    browser.wait_text("h1", "Choices");
    browser.click("[name=keys][value=off]");
    browser.click("main button.main");
    browser.wait_text("h1", "Jobs");
    scene.allow_scripts(true);
    scene.open("/jobs");
    browser.press("?");
    assert_eq!(browser.value("document.querySelectorAll('.hint, #keys').length"), 0, "no key");
    assert_eq!(browser.value("document.documentElement.dataset.theme"), "dark");
    assert_eq!(browser.value("getComputedStyle(document.documentElement).colorScheme"), "dark");
    scene.check_silence("/jobs");
}
