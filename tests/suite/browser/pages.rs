//! Each page as a reader sees it: in both themes, on a telephone, on paper, and without scripts.

use super::WebScene;
use super::axe::check_rules;
use crate::api::DEFINING;

/// The pages: the path, and a text that is on the page. `RUN` is the run of the job `hostile`.
const PAGES: [(&str, &str); 22] = [
    ("/", "hostile"),
    ("/timeline", "hostile"),
    ("/timeline?view=heat", "Timeline"),
    ("/chains", "a-job-with-a-long-na…"),
    ("/api", "/v1/jobs"),
    ("/act/run?name=nightly&back=%2Fjobs", "nightly"),
    ("/act/backfill?name=nightly", "Preview"),
    ("/act/set-queue?name=mail", "mail"),
    ("/act/pause?name=hostile&name=nightly", "nightly"),
    ("/jobs", "a-job-with-a-long-name"),
    ("/jobs?q=nothing", "fits the filter"),
    ("/jobs/hostile", "Recent runs"),
    ("/jobs/nightly?at=2020-01-01T02%3A30", "Why did it run"),
    ("/runs", "hostile@"),
    ("/runs?dead=1", "hostile@"),
    ("/runs/RUN", "Phases"),
    ("/queues", "mail"),
    ("/groups", "turns"),
    ("/nodes", "n1"),
    ("/doctor", "Doctor"),
    ("/losses", "schedctl doctor"),
    ("/choices?back=%2Fjobs", "Zone of times"),
];

const JOBS: &str = r#"
[queues.mail]
limit = 2
[groups.turns]
mode = "exclusive"
[jobs.nightly]
cron = "30 2 * * *"
tz = "Europe/Berlin"
shell = "true"
group = "turns"
queue = "mail"
tags = { team = "db", a-tag-with-a-long-name = "and-a-value-that-is-long-too" }
[jobs.a-job-with-a-long-name-that-has-sixty-three-letters-in-all-abcd]
after_failed = ["hostile"]
shell = "true"
[jobs.hostile]
every = "1h"
shell = '''
printf '<img src=x onerror=alert(1)>\033[31m\342\200\256<script>alert(2)</script>\n'
head -c 1000000 /dev/zero | tr '\0' x
echo; echo "reason=<b>odd</b> $(head -c 300 /dev/zero | tr '\0' y)" >"$SCHEDD_RESULT"; exit 3
'''
"#;

/// An expression that is true if the page is wider than the window.
const IS_TOO_WIDE: &str = "document.documentElement.scrollWidth > window.innerWidth";
/// An expression for the colour behind the page.
const BACKGROUND: &str = "getComputedStyle(document.body).backgroundColor";

#[test]
fn each_page_is_readable_in_both_themes_on_a_telephone_and_on_paper() {
    let Some(scene) = WebScene::start("", DEFINING, JOBS) else { return };
    scene.sign_in("operator");
    let run = scene.run("", "hostile").replace('@', "%40");
    let pages = PAGES.map(|(path, text)| (path.replace("RUN", &run), text));
    for (path, text) in &pages {
        scene.emulate(1280, "light", "screen");
        scene.open(path);
        assert!(scene.browser.text("body").contains(text), "{path}: no {text}");
        let odd = scene
            .browser
            .value("document.querySelectorAll('img[src=\"x\"], main script, b').length");
        assert_eq!(odd, 0, "{path} has elements of another's text");
        let light = scene.browser.value(BACKGROUND);
        check_rules(&scene, path);
        scene.emulate(360, "dark", "screen");
        assert_ne!(scene.browser.value(BACKGROUND), light, "{path} has no dark theme");
        assert_eq!(scene.browser.value(IS_TOO_WIDE), false, "{path} is too wide for a telephone");
        check_rules(&scene, path);
        scene.emulate(700, "dark", "print");
        assert_eq!(scene.browser.value(BACKGROUND), light, "{path} is printed on a dark ground");
        for hidden in [".bar nav", ".foot form", ".find"] {
            let shown = format!("document.querySelector('{hidden}').checkVisibility()");
            assert_eq!(scene.browser.value(&shown), false, "{path} is printed with {hidden}");
        }
        scene.check_silence(path);
    }
    scene.emulate(1280, "light", "screen");
    scene.allow_scripts(false);
    for (path, text) in &pages {
        scene.open(path);
        assert!(scene.browser.text("main").contains(text), "{path} without scripts: no {text}");
    }
}
