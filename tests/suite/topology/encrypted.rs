//! Connections to Redis by TLS, with an authority of their own and certificates of the clients.

use std::path::Path;
use std::process::Command;

use super::place::Place;
use super::tcp_server::TcpServer;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;

/// Makes an authority, a certificate of the server and a certificate of a client in `dir`.
fn make_certificates(dir: &Path) {
    let openssl = |words: &str| {
        let made =
            Command::new("openssl").args(words.split(' ')).current_dir(dir).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {key} -subj /CN=authority -days 2 -keyout ca.key -out ca.pem"));
    std::fs::write(dir.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
    for name in ["server", "client"] {
        openssl(&format!("req {key} -subj /CN={name} -keyout {name}.key -out {name}.csr"));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.pem"
        ));
    }
}

#[test]
fn redis_is_reached_by_tls_with_own_authority_and_certificate() {
    let certificates = tempfile::tempdir_in("/tmp").unwrap();
    make_certificates(certificates.path());
    let file = |name: &str| certificates.path().join(name).display().to_string();
    let server = TcpServer::start(&Place::here(), |[port, _], _| {
        let words = [
            "--port",
            "0",
            "--tls-port",
            &port.to_string(),
            "--tls-ca-cert-file",
            &file("ca.pem"),
            "--tls-cert-file",
            &file("server.pem"),
            "--tls-key-file",
            &file("server.key"),
            "--tls-auth-clients",
            "yes",
            "--save",
            "",
        ];
        words.map(str::to_owned).to_vec()
    });
    let url = format!("rediss://localhost:{}", server.port);
    let section = format!(
        "[redis]\nurl = {url:?}\nca_file = {:?}\ncert_file = {:?}\nkey_file = {:?}\n",
        file("ca.pem"),
        file("client.pem"),
        file("client.key")
    );
    let daemon = Schedd::with_private_redis()
        .jobs(&format!("{section}[jobs.hello]\nevery = \"1h\"\nshell = \"true\"\n"))
        .start();
    daemon.wait_for_log("All jobs of the jobs file are applied");
    let ctl = Schedctl::alone();
    std::fs::write(ctl.home().join("jobs.toml"), &section).unwrap();
    let listed = ctl.run(&["list"]).good();
    assert!(listed.stdout.contains("hello"), "{listed:?}");

    let ctl = Schedctl::alone();
    let with = |parameters: &str| ctl.run(&["--redis", &format!("{url}?{parameters}"), "list"]);
    let all = format!(
        "ca_file={}&cert_file={}&key_file={}",
        file("ca.pem"),
        file("client.pem"),
        file("client.key")
    );
    with(&all).good();
    with("").refused(69, &["certificate"]);
    with("ca_file=/missing.pem").refused(69, &["ca_file /missing.pem cannot be read"]);
}
