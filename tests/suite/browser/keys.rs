//! Keys: the search, the help, the sections, and the rows of a table.

use super::WebScene;

#[test]
fn keys_lead_everywhere_and_do_nothing_while_the_reader_types() {
    let jobs =
        "[jobs.a]\nevery = \"1h\"\nshell = \"true\"\n[jobs.b]\nevery = \"2h\"\nshell = \"true\"\n";
    let Some(scene) = WebScene::start("/ops/schedd", "", jobs) else { return };
    scene.sign_in("viewer");
    let browser = &scene.browser;
    let path = || browser.value("location.pathname + location.search").as_str().unwrap().to_owned();
    // Each section names its key.
    let sections = browser.value(
        "[...document.querySelectorAll('nav [data-go]')].map((link) => [link.dataset.go, link.pathname])",
    );
    let sections = sections.as_array().unwrap();
    assert!(sections.len() >= 7, "{sections:?}");
    for section in sections {
        let (key, wanted) = (section[0].as_str().unwrap(), section[1].as_str().unwrap());
        assert!(wanted.starts_with("/ops/schedd/"), "{wanted}");
        browser.press(&format!("g{key}"));
        browser.wait(&format!(
            "location.pathname === '{wanted}' && document.readyState === 'complete'"
        ));
    }
    scene.open("/jobs");
    browser.press("jj");
    let focus = || browser.value("document.activeElement.textContent").as_str().unwrap().to_owned();
    assert_eq!(focus(), "b");
    browser.press("k");
    assert_eq!(focus(), "a");
    browser.press("\u{e007}");
    browser.wait("location.pathname === '/ops/schedd/jobs/a'");
    browser.press("?");
    browser.wait("document.getElementById('keys').open");
    let help = browser.text("#keys");
    assert!(help.contains("Search jobs") && help.contains("Queues"), "{help}");
    super::axe::check_rules(&scene, "the help");
    browser.press("gr");
    assert_eq!(path(), "/ops/schedd/jobs/a", "no key leads away from the help");
    browser.press("?");
    browser.wait("!document.getElementById('keys').open");
    browser.press("/");
    browser.press("g?j/");
    assert_eq!(browser.value("document.getElementById('find').value"), "g?j/");
    browser.press("\u{e007}");
    browser.wait("location.pathname + location.search === '/ops/schedd/jobs?q=g%3Fj%2F'");
    assert!(browser.text("main").contains("No job fits the filter"), "{}", browser.text("main"));
    scene.check_silence("the keys");
}
