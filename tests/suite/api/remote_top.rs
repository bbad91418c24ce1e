//! `schedctl --api top`: the screen on a host without Redis.

use super::ApiScene;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::host::terminal_session::TerminalSession;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

const JOBS: &str = "[jobs.nightly]\ncron = \"0 9 1 1 *\"\nshell = \"echo so-$((40 + 2))\"\nenv = { TOKEN = \"s3cret-value\" }\n";

/// Returns `ctl` on a terminal in Tokyo.
fn terminal(ctl: Schedctl) -> Schedctl {
    ctl.env("TZ", "Asia/Tokyo").env("TERM", "xterm").env("LANG", "C.UTF-8")
}

fn top(ctl: &Schedctl) -> TerminalSession {
    TerminalSession::start(ctl, (150, 40), "top")
}

#[test]
fn top_shows_jobs_and_acts_as_far_as_the_role_allows() {
    let scene = ApiScene::start("", JOBS);
    let paused = || scene.get("viewer", "/v1/jobs/nightly").of(200)["paused"].as_bool().unwrap();

    let ctl = terminal(scene.ctl("operator"));
    let mut operator = top(&ctl);
    operator.wait_for("JST  API at http://127.0.0.1:");
    operator.wait_for("nightly");
    operator.press("p");
    operator.wait_for("job nightly paused");
    assert!(paused());
    operator.press("p");
    until("the job is resumed", LONG, || (!paused()).then_some(()));
    operator.press("r");
    operator.wait_for(" is due now");
    // The ended run is in the list of recent runs, with its output.
    operator.press("3");
    operator.wait_for("exit");
    operator.press("\r");
    operator.wait_for("so-42");
    operator.press("q1\r");
    operator.wait_for("s3cret-value");
    operator.press("qq");
    operator.end(0);
    let audit = scene.get("viewer", "/v1/jobs/nightly/explain").of(200)["audit_log"].to_string();
    assert!(audit.contains("token:operator"), "{audit}");

    let ctl = terminal(scene.ctl("viewer"));
    let mut viewer = top(&ctl);
    viewer.wait_for("nightly");
    for key in ["p", "r"] {
        let before = viewer.length();
        viewer.press(key);
        viewer.wait_after(before, "found a token with the role viewer, wanted operator");
        // The next key takes the message away.
        viewer.press("j");
        viewer.wait_after(before, "? help");
    }
    viewer.press("\r");
    viewer.wait_for("TOKEN");
    viewer.press("qq");
    let seen = viewer.end(0);
    assert!(!seen.contains("s3cret-value"), "{seen:?}");
    assert!(!paused());
}

#[test]
fn top_reports_a_revoked_token_in_one_line_and_still_quits() {
    let scene = ApiScene::start("", JOBS);
    let ctl = terminal(scene.ctl("viewer"));
    let mut session = top(&ctl);
    session.wait_for("nightly");
    scene.tokens.remove(|entry| entry.name == "viewer").unwrap();
    session.wait_for("the token is unknown or was revoked; the API at");
    session.press("q");
    session.end(0);
    let refused = terminal(scene.ctl("expired")).run_on_terminal(&["top"]);
    assert_eq!((refused.code, refused.stdout.lines().count()), (2, 1), "{refused:?}");
    assert!(refused.stdout.contains("the token has expired"), "{refused:?}");
}

#[test]
fn top_reports_an_api_out_of_reach_and_goes_on_when_it_is_back() {
    let redis = TestRedis::start();
    let dir = tempfile::Builder::new().prefix("schedd-api-").tempdir_in("/tmp").unwrap();
    let address = format!("unix:{}", dir.path().join("api.sock").display());
    let jobs = format!("[api]\nlisten = \"{address}\"\n{JOBS}");
    let mut daemon = Schedd::on(&redis).node("n1").jobs(&jobs).start();
    daemon.wait_for_log("All jobs of the jobs file are applied");
    let ctl = terminal(Schedctl::alone().env("SCHEDD_API_URL", &address));
    let mut session = top(&ctl);
    session.wait_for("nightly");
    let before = session.length();
    daemon.kill9();
    session.wait_after(before, "cannot be reached");
    session.press("p");
    let before = session.length();
    daemon.start_again();
    session.wait_after(before, "JST  API at unix:");
    daemon.kill9();
    session.press("q");
    session.end(0);
}

#[test]
fn the_hidden_flags_of_top_obey_the_role_and_check_their_json() {
    let scene = ApiScene::start("", JOBS);
    let act = "--act={\"run\":\"nightly\"}";
    scene.ctl("viewer").run(&["top", act]).refused(1, &["role viewer", "wanted operator"]);
    scene.ctl("operator").run(&["top", act]).good();
    let request = "--data={\"kept\":[],\"detail\":{\"job\":\"nightly\"}}";
    let data = scene.ctl("viewer").run(&["top", request]).good().json();
    let detail = data["detail"]["lines"].to_string();
    assert!(detail.contains("TOKEN") && !detail.contains("s3cret-value"), "{data}");
    for bad in [
        "--act={\"quit\":0}",
        "--act={\"cancel\":\"x\"}",
        "--data=[",
        "--data={\"kept\":[\"A B\"]}",
    ] {
        scene.ctl("operator").run(&["top", bad]).refused(2, &["--"]);
    }
}
