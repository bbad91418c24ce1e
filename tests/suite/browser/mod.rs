//! The dashboard in a real browser. Each test starts one browser and makes many checks with it,
//! because a browser takes a second to start.

mod acting;
mod axe;
mod keys;
mod pages;
mod refreshing;
mod signing_in;
mod web_driver;

use serde_json::json;

use crate::api::ApiScene;
use crate::support::ctl::Schedctl;
use crate::support::wait::{LONG, until};
use web_driver::WebDriver;

/// A schedd with an API, and a browser that has not signed in.
struct WebScene {
    api: ApiScene,
    browser: WebDriver,
    /// The address before all paths.
    site: String,
}

impl WebScene {
    /// Starts both. `base` is the path before all routes. Returns `None` where no browser is
    /// installed.
    fn start(base: &str, settings: &str, jobs: &str) -> Option<Self> {
        let browser = WebDriver::start()?;
        let base_path = if base.is_empty() { "/" } else { base };
        let api = ApiScene::start(&format!("base_path = \"{base_path}\"\n{settings}"), jobs);
        let site = format!("http://{}{base}", api.probe.address());
        // Counts what the content security policy stops, from the first moment of each page.
        let source = "window.violations = []; document.addEventListener('securitypolicyviolation', \
            (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));";
        browser.tool("Page.addScriptToEvaluateOnNewDocument", &json!({"source": source}));
        Some(Self { api, browser, site })
    }

    /// Signs the browser in by a link of `schedctl dashboard`.
    #[track_caller]
    fn sign_in(&self, role: &str) {
        let file = format!("--tokens-file={}", self.api.tokens.path().display());
        let url = format!("--url={}", self.site);
        let link = Schedctl::alone()
            .run(&["dashboard", "--print", "--role", role, &url, &file, "--json"])
            .json();
        self.browser.open(link["link"].as_str().unwrap());
    }

    #[track_caller]
    fn open(&self, path: &str) {
        self.browser.open(&format!("{}{path}", self.site));
    }

    /// Sets the width of the window, the theme of the system (`light` or `dark`), and the medium
    /// (`screen` or `print`).
    fn emulate(&self, width: u32, theme: &str, medium: &str) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.browser.tool("Emulation.setDeviceMetricsOverride", &size);
        let theme = json!({"name": "prefers-color-scheme", "value": theme});
        // So no colour is between two themes when it is looked at.
        let motion = json!({"name": "prefers-reduced-motion", "value": "reduce"});
        let media = json!({"media": medium, "features": [theme, motion]});
        self.browser.tool("Emulation.setEmulatedMedia", &media);
    }

    /// Switches the scripts of pages on or off, from the next page on.
    fn allow_scripts(&self, allows: bool) {
        let value = json!({"value": !allows});
        self.browser.tool("Emulation.setScriptExecutionDisabled", &value);
    }

    /// Checks that nothing went wrong in the page: no error of a script, no failed request, and no
    /// violation of the content security policy.
    #[track_caller]
    fn check_silence(&self, path: &str) {
        let stopped = self.browser.value("window.violations");
        assert_eq!(stopped, json!([]), "{path}: the policy stopped something");
        let log = self.browser.log();
        assert!(log.is_empty(), "{path}: {log:#?}");
    }

    /// Runs a job, waits until the run has ended, and returns its id.
    #[track_caller]
    fn run(&self, base: &str, job: &str) -> String {
        let path = format!("{base}/v1/jobs/{job}/run");
        let run =
            self.api.post("operator", &path, "").of(200)["run_id"].as_str().unwrap().to_owned();
        until("the run has ended", LONG, || {
            let path = format!("{base}/v1/runs/{}", run.replace('@', "%40"));
            let shown = self.api.get("viewer", &path).of(200);
            (!shown["finished_at"].is_null()).then_some(())
        });
        run
    }
}
