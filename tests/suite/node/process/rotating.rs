//! The password changed under running nodes: kept in a file it is read again, given in the URL it is asked for in one line.

use std::fs;
use std::time::{Duration, Instant};

use redis::Connection;

use crate::node::scene::Scene;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};

const LEASE: &str = "12s";
const FIRST: &str = "s3cret-first";
const SECOND: &str = "s3cret-second";

/// Lets the user of the nodes in by this password only, and ends the connections made with another.
fn rotate_to(password: &str, admin: &mut Connection) {
    let rules = ["SETUSER", "node", "reset", "on", &format!(">{password}"), "~*", "&*", "+@all"];
    let () = redis::cmd("ACL").arg(&rules).query(admin).unwrap();
    for kind in ["normal", "pubsub"] {
        let _: i64 = redis::cmd("CLIENT").arg(&["KILL", "TYPE", kind]).query(admin).unwrap();
    }
}

fn assert_no_password_in_logs(scene: &Scene) {
    assert!(!scene.logged("s3cret"), "a password is in a log");
}

#[test]
fn a_password_kept_in_a_file_is_read_again_when_it_was_changed() {
    let redis = TestRedis::durable();
    let mut admin = redis.connection();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("redis.url");
    let url = |password: &str| format!("{}?user=node&pass={password}\n", redis.url());
    let (first, second) = (url(FIRST), url(SECOND));
    rotate_to(FIRST, &mut admin);
    fs::write(&file, &first).unwrap();
    let section = format!("[redis]\nurl_file = {file:?}\n");
    let ctl = Schedctl::alone();
    fs::write(ctl.home().join("jobs.toml"), &section).unwrap();
    let start = |node: &str, jobs: &str| {
        Schedd::with_private_redis().node(node).jobs(&format!("{section}{jobs}")).start()
    };
    let scene = Scene::on(redis, start, LEASE);
    ctl.run(&["list"]).good();

    // The file first, as a careful hand does it: nobody notices.
    fs::write(&file, &second).unwrap();
    let before = scene.effects.of("beat").len();
    rotate_to(SECOND, &mut admin);
    let rotated = Instant::now();
    until("the beat goes on", LONG, || {
        Some(()).filter(|()| scene.effects.of("beat").len() >= before + 2)
    });
    assert!(rotated.elapsed() < Duration::from_secs(5), "{:?}", rotated.elapsed());
    ctl.run(&["list"]).good();

    // The file last.
    rotate_to(FIRST, &mut admin);
    scene.until_logged("the user name or password is wrong");
    ctl.run(&["list"]).refused(69, &["the user name or password is wrong"]);
    let before = scene.effects.of("beat").len();
    fs::write(&file, &first).unwrap();
    let mended = Instant::now();
    until("the beat goes on", LONG, || {
        Some(()).filter(|()| scene.effects.of("beat").len() > before)
    });
    assert!(mended.elapsed() < Duration::from_secs(5), "{:?}", mended.elapsed());
    assert_no_password_in_logs(&scene);
    scene.assert_all_done_once();
}

#[test]
fn an_outdated_url_password_is_logged_in_one_line_and_tried_until_it_fits() {
    let redis = TestRedis::durable();
    let mut admin = redis.connection();
    rotate_to(FIRST, &mut admin);
    let url = format!("{}?user=node&pass={FIRST}", redis.url());
    let scene =
        Scene::on(redis, |node, jobs| Schedd::at(&url).node(node).jobs(jobs).start(), LEASE);
    rotate_to(SECOND, &mut admin);
    scene.until_logged("the user name or password is wrong");
    let refused = Schedctl::alone().env("SCHEDD_REDIS_URL", &url).run(&["list"]);
    refused.refused(69, &["the user name or password is wrong"]);
    assert!(!refused.stderr.contains("s3cret"), "{refused:?}");
    std::thread::sleep(Duration::from_secs(1));
    rotate_to(FIRST, &mut admin);
    assert_no_password_in_logs(&scene);
    scene.assert_all_done_once();
}
