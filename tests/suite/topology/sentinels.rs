//! Nodes that find their Redis through real Sentinels follow each failover: after a crash, a freeze,
//! and on demand. No run is lost.

use rustix::process::Signal;

use super::failover_scene::FailoverScene;
use super::watched::Watched;
use crate::support::ctl::Schedctl;

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
