//! Nodes that find their Redis through real Sentinels follow each failover: after a crash, a freeze,
//! and on demand. No run is lost.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use super::failover_scene::FailoverScene;
use super::place::Place;
use super::tcp_server::TcpServer;
use super::watched::{Watched, sentinel_of};
use crate::support::ctl::{Finished, Schedctl};
use crate::support::wait::{LONG, until};

#[test]
fn a_crash_of_the_primary_loses_no_run() {
    let mut watched = Watched::start();
    let scene = FailoverScene::start(&watched.section());
    watched.catch_up();
    watched.servers[0].kill9();
    watched.until_promoted(1);
    scene.until_beats();
    scene.assert_all_done_once();
}

#[test]
fn a_frozen_primary_is_left_and_not_taken_back_when_it_goes_on() {
    let watched = Watched::start();
    let scene = FailoverScene::start(&watched.section());
    watched.catch_up();
    watched.servers[0].signal(Signal::STOP);
    watched.until_promoted(1);
    scene.until_beats();
    watched.servers[0].signal(Signal::CONT);
    scene.until_beats();
    scene.assert_all_done_once();
}

#[test]
fn a_failover_on_demand_is_followed_by_nodes_and_by_schedctl() {
    let watched = Watched::start();
    let scene = FailoverScene::start(&watched.section());
    watched.catch_up();
    let () = watched.sentinels[0].ask(&["SENTINEL", "FAILOVER", "prime"]).unwrap();
    watched.until_promoted(1);
    scene.until_beats();
    scene.ctl.run(&["list"]).good();
    // The former primary takes writes until a Sentinel has demoted it. These are lost,
    // so the runs that it gave away in that moment run again.
    scene.assert_all_done(2);
}

/// The Sentinel names another primary while a server that stands still is asked who it is.
#[test]
fn a_server_that_lost_its_place_while_it_stood_still_is_not_used() {
    let here = Place::here();
    let (former, present) = (TcpServer::of_data(&here, &[]), TcpServer::of_data(&here, &[]));
    let url = format!("redis://{}", present.address());
    Schedctl::alone()
        .run(&["--redis", &url, "add", "--name", "here", "--in", "1h", "--shell", "true"])
        .good();
    let sentinel = sentinel_of(&former, &here);
    former.signal(Signal::STOP);
    let place = format!("redis+sentinel://{}/prime", sentinel.address());
    let ctl = Schedctl::alone();
    let mut listing = ctl.command(&["--redis", &place, "list"]);
    let before = connections_to(former.port);
    let listing = listing.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the former primary is asked", LONG, || {
        (connections_to(former.port) > before).then_some(())
    });
    let () = sentinel.ask(&["SENTINEL", "REMOVE", "prime"]).unwrap();
    let port = present.port.to_string();
    let () = sentinel.ask(&["SENTINEL", "MONITOR", "prime", &here.address, &port, "1"]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    former.signal(Signal::CONT);
    let listed = Finished::of(listing.wait_with_output().unwrap()).good().stdout;
    assert!(listed.contains("here"), "{listed}");
}

/// Returns the number of connections of this host to a port, by `proc_net_tcp(5)`.
fn connections_to(port: u16) -> usize {
    const ESTABLISHED: &str = "01";
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let end = format!(":{port:04X}");
    let is_to = |line: &&str| {
        let mut words = line.split_whitespace().skip(2);
        words.next().is_some_and(|remote| remote.ends_with(&end))
            && words.next() == Some(ESTABLISHED)
    };
    table.lines().filter(is_to).count()
}

#[test]
fn a_cut_off_sentinel_costs_nothing_and_a_wrong_name_is_reported() {
    let mut watched = Watched::start();
    // Sentinels that do not answer cost nothing while another does.
    watched.sentinels[0].kill9();
    watched.sentinels[1].signal(Signal::STOP);
    let ports: Vec<String> =
        watched.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
    let hosts = ports.join(",");
    let ctl = Schedctl::alone();
    ctl.run(&["--redis", &format!("redis+sentinel://{hosts}/prime"), "list"]).good();
    let wrong = format!("redis+sentinel://{hosts}/other");
    ctl.run(&["--redis", &wrong, "list"]).refused(69, &["other", "No such master"]);
    let of_sentinel = format!("redis://{}", ports[2]);
    ctl.run(&["--redis", &of_sentinel, "list"]).refused(69, &["Sentinel", "redis+sentinel://"]);
}
