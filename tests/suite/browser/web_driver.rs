//! Chromium with a profile of its own, driven by its own chromedriver (the protocol `WebDriver` of the
//! W3C). Both end with the handle, or with the process that holds it.
//!
//! This client is small and has no dependency: each library for `WebDriver` brings two dozen crates,
//! and features that make programs and tests compile all crates twice.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::HttpProbe;
use crate::support::wait::{LONG, until};

/// The names of the program in distributions.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The shell that starts chromedriver. When the process of the tests ends in any way, so does the
/// pipe to the shell, and the shell ends its process group: chromedriver, the browser and itself.
/// Only chromedriver keeps the output open.
const WATCHDOG: &str = r#""$0" --port=0 & exec >/dev/null; read -r _; kill -s KILL 0"#;

/// A browser with one tab.
pub(super) struct WebDriver {
    watchdog: Child,
    probe: HttpProbe,
    /// The path of the session.
    session: String,
    profile: TempDir,
}

impl WebDriver {
    /// Starts a browser. Returns `None`, with a message, where none is installed.
    pub(super) fn start() -> Option<Self> {
        let browser = BROWSERS.iter().find_map(|name| program(name));
        let (Some(browser), Some(driver)) = (browser, program("chromedriver")) else {
            eprintln!(
                "SKIPPED: no Chromium with chromedriver here, so the pages were not opened in a browser; \
                 script/setup --tests installs them"
            );
            return None;
        };
        // The directory has sockets, whose paths must be short.
        let profile = tempfile::Builder::new().prefix("schedd-web-").tempdir_in("/tmp").unwrap();
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, &driver])
            .env("TMPDIR", profile.path())
            .env("HOME", profile.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(watchdog.stdout.take().unwrap()).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let address = format!("127.0.0.1:{}", port.expect("chromedriver names its port"));
        let mut started = Self {
            watchdog,
            probe: HttpProbe::new(address, Vec::new()),
            session: String::new(),
            profile,
        };
        let directory = started.profile.path().join("profile");
        let answer = started.call("POST", "/session", &json!({"capabilities": {"alwaysMatch": {
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": browser, "args": [
                "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                "--disable-crash-reporter", "--disable-breakpad", "--disable-background-networking", "--disable-component-update",
                "--disable-sync", "--no-first-run", "--window-size=1280,900",
                // A page that asks another host for anything gets an error, which the log shows.
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                format!("--user-data-dir={}", directory.display()),
            ]},
        }}}));
        started.session = format!("/session/{}", answer["sessionId"].as_str().unwrap());
        Some(started)
    }

    /// Opens an address, and waits until its page is loaded.
    #[track_caller]
    pub(super) fn open(&self, url: &str) {
        self.ask("/url", &json!({"url": url}));
    }

    /// Returns the value of an expression in the page.
    #[track_caller]
    pub(super) fn value(&self, expression: &str) -> Value {
        self.run(&format!("return {expression};"))
    }

    /// Runs statements in the page, and returns what they return.
    #[track_caller]
    pub(super) fn run(&self, statements: &str) -> Value {
        self.ask("/execute/sync", &json!({"script": statements, "args": []}))
    }

    /// Waits until an expression in the page is true.
    #[track_caller]
    pub(super) fn wait(&self, expression: &str) {
        until(expression, LONG, || (self.value(expression) == true).then_some(()));
    }

    /// Presses keys one after the other.
    #[track_caller]
    pub(super) fn press(&self, keys: &str) {
        let press = |key: char| {
            ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()}))
        };
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        self.ask(
            "/actions",
            &json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}),
        );
    }

    /// Clicks the first element that a CSS selector finds.
    #[track_caller]
    pub(super) fn click(&self, selector: &str) {
        let path = self.element(selector);
        self.ask(&format!("{path}/click"), &json!({}));
    }

    /// Returns the text of the first element that a CSS selector finds, without a script in the page.
    #[track_caller]
    pub(super) fn text(&self, selector: &str) -> String {
        let path = format!("{}{}/text", self.session, self.element(selector));
        self.call("GET", &path, &Value::Null).as_str().unwrap().to_owned()
    }

    /// Waits until the first element that a CSS selector finds has this text, also in the next page.
    #[track_caller]
    pub(super) fn wait_text(&self, selector: &str, wanted: &str) {
        let text = || {
            let body = json!({"using": "css selector", "value": selector});
            let found = self.answer("POST", &format!("{}/element", self.session), &body).ok()?;
            let path = format!("{}{}/text", self.session, path_of(&found));
            self.answer("GET", &path, &Value::Null).ok()?.as_str().map(str::to_owned)
        };
        until(wanted, LONG, || text().filter(|text| text.contains(wanted)));
    }

    /// Sends a command of the protocol of Chromium's developer tools.
    #[track_caller]
    pub(super) fn tool(&self, command: &str, parameters: &Value) -> Value {
        self.ask("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Returns what the browser has logged since the last call: errors of scripts, and what the
    /// content security policy or the lack of a host has stopped.
    #[track_caller]
    pub(super) fn log(&self) -> Vec<String> {
        let entries = self.ask("/se/log", &json!({"type": "browser"}));
        let text = |entry: &Value| entry["message"].as_str().unwrap().to_owned();
        entries.as_array().unwrap().iter().map(text).collect()
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        path_of(&self.ask("/element", &json!({"using": "css selector", "value": selector})))
    }

    #[track_caller]
    fn ask(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("{}{path}", self.session), body)
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.answer(method, path, body);
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Sends a command. Fails with the document of the error.
    fn answer(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let json = [("Content-Type", "application/json")];
        let answer = self.probe.send("nobody", method, path, &json, body.as_bytes());
        let value = answer.json()["value"].take();
        if answer.status == 200 { Ok(value) } else { Err(value) }
    }
}

impl Drop for WebDriver {
    fn drop(&mut self) {
        let Some(group) = Pid::from_raw(self.watchdog.id().cast_signed()) else { return };
        // The browser and all its processes are in this group.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.watchdog.wait();
        if !std::thread::panicking() {
            until("the browser ends", LONG, || (!lives(group)).then_some(()));
        }
    }
}

/// Returns the path of an element that was found.
fn path_of(found: &Value) -> String {
    let id = found.as_object().unwrap().values().next().unwrap().as_str().unwrap();
    format!("/element/{id}")
}

/// Returns true if a process of the group lives. A zombie, whoever inherited it, counts as ended.
fn lives(group: Pid) -> bool {
    let group = group.as_raw_nonzero().to_string();
    let mut entries = fs::read_dir("/proc").unwrap().flatten();
    entries.any(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields: Vec<&str> =
            stat.rsplit(") ").next().unwrap_or_default().split(' ').take(3).collect();
        matches!(fields[..], [state, _, of] if state != "Z" && of == group)
    })
}

/// Returns the path of a program, or `None` if it is not installed.
fn program(name: &str) -> Option<String> {
    let dirs = ["/usr/local/bin", "/usr/bin", "/bin"].into_iter();
    dirs.map(|dir| format!("{dir}/{name}")).find(|path| std::path::Path::new(path).exists())
}

#[test]
fn a_browser_ends_when_the_process_that_started_it_is_gone() {
    let Some(mut browser) = WebDriver::start() else { return };
    browser.open("about:blank");
    let group = Pid::from_raw(browser.watchdog.id().cast_signed()).unwrap();
    assert!(lives(group));
    // The kernel closes the pipe of a process that is killed.
    drop(browser.watchdog.stdin.take());
    until("the browser ends", LONG, || (!lives(group)).then_some(()));
}
