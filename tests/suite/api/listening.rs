//! The address of the API, and a schedd whose API cannot start.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Command;

use super::ApiScene;
use super::http_probe::{HttpAnswer, HttpProbe};
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

#[test]
fn whoever_may_open_the_socket_is_admin_and_a_stale_socket_is_replaced() {
    let redis = TestRedis::start();
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let path = dir.path().join("api.sock");
    let address = format!("unix:{}", path.display());
    let jobs = format!("[api]\nlisten = \"{address}\"\n[jobs.a]\nshell = \"true\"\n");
    let mut daemon = Schedd::on(&redis).node("n1").jobs(&jobs).start();
    daemon.wait_for_log("The HTTP API answers all requests.");
    daemon.wait_for_log("All jobs of the jobs file are applied");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let mut stream = UnixStream::connect(&path).unwrap();
    write!(stream, "POST /v1/jobs/a/pause HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")
        .unwrap();
    assert_eq!(HttpAnswer::read(stream).of(200)["result"], "paused");
    let ctl = Schedctl::alone().env("SCHEDD_API_URL", &address);
    let explained = ctl.run(&["explain", "a", "--json"]).json();
    assert!(
        explained["audit_log"].to_string().contains("root@")
            || explained["audit_log"].to_string().contains('@'),
        "{explained}"
    );
    daemon.kill9();
    assert!(path.exists(), "the socket of a killed process stays");
    daemon.start_again();
    until("the new process listens", LONG, || (ctl.run(&["list"]).code == 0).then_some(()));
    daemon.term();
    assert!(daemon.wait_exit().success());
    assert!(!path.exists());
}

#[test]
fn a_schedd_whose_api_cannot_start_works_and_says_why() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let redis = TestRedis::start();
    let jobs = format!("[api]\nlisten = \"{address}\"\n[jobs.a]\nshell = \"true\"\n");
    let daemon = Schedd::on(&redis).node("n1").jobs(&jobs).start();
    daemon.wait_for_log("The HTTP API did not start");
    daemon.wait_for_log("All jobs of the jobs file are applied");
    let ctl = Schedctl::on(&redis);
    ctl.run(&["run", "a", "--wait"]).good();
    until("nodes name the reason", LONG, || {
        let nodes = ctl.run(&["nodes", "--json"]).json();
        nodes[0]["config_error"].as_str().filter(|error| error.contains(&address)).map(drop)
    });
    let report = ctl.run(&["doctor"]);
    assert!(report.stdout.contains(&address), "{report:?}");
}

#[test]
fn a_bad_file_of_tokens_or_certificate_is_named() {
    let redis = TestRedis::start();
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let tokens = super::written(dir.path(), "tokens", "[[token]]\nname = 3\n");
    for (settings, words) in [
        (format!("tokens_file = {tokens:?}"), "file of tokens"),
        (
            "tls_cert = \"/nonexistent.pem\"\ntls_key = \"/nonexistent.key\"".to_owned(),
            "tls_cert /nonexistent.pem",
        ),
    ] {
        let jobs = format!("[api]\nlisten = \"127.0.0.1:0\"\n{settings}\n");
        let daemon = Schedd::on(&redis).jobs(&jobs).start();
        let log = daemon.wait_for_log("The HTTP API did not start");
        assert!(log.contains(words), "{log}");
    }
}

#[test]
fn routes_lie_below_the_base_path() {
    let scene = ApiScene::start("base_path = \"/schedd/\"", "");
    assert_eq!(scene.get("viewer", "/schedd/v1/stats").status, 200);
    assert_eq!(scene.get("viewer", "/schedd/healthz").status, 200);
    let described = scene.get("viewer", "/schedd/v1/openapi.json").of(200);
    assert_eq!(described["servers"], serde_json::json!([{"url": "/schedd"}]));
    scene.get("viewer", "/v1/stats").problem(404, "not_found");
    scene.get("viewer", "/schedd/nothing").problem(404, "not_found");
}

#[test]
fn requests_are_answered_over_tls() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args([
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-days",
            "2",
        ])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let redis = TestRedis::start();
    let jobs = format!(
        "[api]\nlisten = \"127.0.0.1:0\"\ntls_cert = {cert:?}\ntls_key = {key:?}\ntokens_file = {:?}\n",
        dir.path().join("tokens")
    );
    let daemon = Schedd::on(&redis).jobs(&jobs).start();
    let log = daemon.wait_for_log("The HTTP API listens.");
    daemon.wait_for_log("The HTTP API answers all requests.");
    daemon.wait_for_log("All jobs of the jobs file are applied");
    let url = log.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    assert!(url.starts_with("https://"), "{url}");
    let ctl =
        Schedctl::alone().env("SSL_CERT_FILE", cert.to_str().unwrap()).env("SCHEDD_API_URL", &url);
    let file = format!("--tokens-file={}", dir.path().join("tokens").display());
    let token = ctl.run(&["token", "new", "--role", "viewer", &file]).good().stdout;
    super::written(ctl.home(), "token", &token);
    ctl.run(&["stats", "--token-file", "token"]).good();
    // `check` tells before the start whether both files can be used.
    for (key, warns) in [(&key, false), (&cert, true)] {
        let text = format!("[api]\nlisten = \"[::]:0\"\ntls_cert = {cert:?}\ntls_key = {key:?}\n");
        super::written(ctl.home(), "jobs.toml", &text);
        let checked = ctl.run(&["check", "jobs.toml"]).good();
        assert_eq!(checked.stderr.contains("tls_key"), warns, "{checked:?}");
    }
    // Without the certificate of the server, nothing is sent.
    let stranger = Schedctl::alone().env("SCHEDD_API_URL", &url);
    stranger.run(&["stats"]).refused(69, &["the API at", "certificate", "SSL_CERT_FILE"]);
}

#[test]
fn probes_are_answered_while_redis_is_away_at_the_start() {
    let mut redis = TestRedis::start();
    redis.kill9();
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let path = dir.path().join("tokens");
    let jobs =
        format!("[api]\nlisten = \"127.0.0.1:0\"\ntokens_file = {path:?}\nbase_path = \"/s\"\n");
    let daemon = Schedd::on(&redis).node("n1").jobs(&jobs).start();
    let log = daemon.wait_for_log("The HTTP API listens.");
    daemon.wait_for_log("schedd waits for Redis");
    let address = log.split("address=http://").nth(1).unwrap().split(' ').next().unwrap();
    let probe = HttpProbe::new(address.to_owned(), Vec::new());
    let get = |path: &str| probe.send("nobody", "GET", path, &[("Host", "10.1.2.3")], b"");
    assert_eq!(get("/s/healthz").of(200)["status"], "ok");
    assert_eq!(get("/s/readyz").of(503)["status"], "not_ready");
    for path in ["/s/v1/jobs", "/s/nothing", "/v1/jobs"] {
        let answer = get(path);
        answer.problem(503, "busy");
        assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
    }
    probe.send("nobody", "DELETE", "/s/healthz", &[], b"").problem(503, "busy");
    redis.restart();
    until("the node is ready", LONG, || (get("/s/readyz").status == 200).then_some(()));
    probe.send("nobody", "GET", "/s/v1/jobs", &[], b"").problem(401, "unauthorized");
}

#[test]
fn readiness_follows_redis_and_the_process_lives_on() {
    let scene = ApiScene::start("", "");
    assert_eq!(scene.get("nobody", "/readyz").of(200)["status"], "ready");
    let mut scene = scene;
    scene.redis.kill9();
    let reason = until("the node is not ready", LONG, || {
        let answer = scene.get("nobody", "/readyz");
        (answer.status == 503).then(|| answer.json())
    });
    assert!(reason["reason"].as_str().is_some_and(|reason| reason.contains("Redis")), "{reason}");
    assert_eq!(scene.get("nobody", "/healthz").status, 200);
    scene.get("viewer", "/v1/jobs").problem(503, "redis_unreachable");
    scene.redis.restart();
    until("the node is ready again", LONG, || {
        (scene.get("nobody", "/readyz").status == 200).then_some(())
    });
}
