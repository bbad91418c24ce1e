//! Nodes that find their Redis through real Sentinels follow each failover: after a crash, a freeze,
//! and on demand. No run is lost.

use rustix::process::Signal;

use super::failover_scene::FailoverScene;
use super::tcp_server::TcpServer;
use crate::support::ctl::Schedctl;
use crate::support::wait::{LONG, until};

/// A primary, its replica, and the Sentinels that watch both.
pub(super) struct Watched {
    pub(super) servers: Vec<TcpServer>,
    pub(super) sentinels: Vec<TcpServer>,
}

impl Watched {
    pub(super) fn start() -> Self {
        let primary = TcpServer::of_data(&[]);
        let port = primary.port.to_string();
        let replica = TcpServer::of_data(&["--replicaof", "127.0.0.1", &port]);
        let sentinels: Vec<TcpServer> = (0..3).map(|_| sentinel_of(primary.port)).collect();
        let watched = Self { servers: vec![primary, replica], sentinels };
        watched.until_complete();
        watched
    }

    /// Waits until all Sentinels know each other, the primary and a replica.
    pub(super) fn until_complete(&self) {
        until("all Sentinels know each other and the replica", LONG, || {
            let knows_all = |sentinel: &TcpServer| {
                let known: Vec<String> = sentinel.ask(&["SENTINEL", "MASTER", "prime"]).ok()?;
                let value = |name| {
                    let at = known.iter().position(|word| word == name)?;
                    known.get(at + 1).cloned()
                };
                let found = (value("num-other-sentinels")?, value("num-slaves")?, value("flags")?);
                (found == ("2".to_owned(), "1".to_owned(), "master".to_owned())).then_some(())
            };
            self.sentinels.iter().all(|one| knows_all(one).is_some()).then_some(())
        });
    }

    pub(super) fn section(&self) -> String {
        let ports = self.sentinels.iter().map(|one| format!("\"127.0.0.1:{}\"", one.port));
        format!("sentinels = [{}]\nmaster = \"prime\"\n", ports.collect::<Vec<_>>().join(", "))
    }

    /// Waits until the replica has all data of the primary.
    pub(super) fn catch_up(&self) {
        let wait = ["WAIT", "1", "5000"];
        until("the replica has all", LONG, || {
            self.servers[0].ask::<u8>(&wait).ok().filter(|count| *count == 1)
        });
    }

    pub(super) fn until_promoted(&self, index: usize) {
        until("the replica is the primary", LONG, || {
            let role: Vec<redis::Value> = self.servers[index].ask(&["ROLE"]).ok()?;
            (role[0] == redis::Value::BulkString(b"master".to_vec())).then_some(())
        });
    }
}

fn sentinel_of(primary: u16) -> TcpServer {
    TcpServer::start(|[port, _], dir| {
        let text = format!(
            "sentinel monitor prime 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds prime 1000\n\
             sentinel failover-timeout prime 4000\n"
        );
        std::fs::write(dir.join("sentinel.conf"), text).unwrap();
        let port = port.to_string();
        ["sentinel.conf", "--sentinel", "--port", &port].map(str::to_owned).to_vec()
    })
}

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
