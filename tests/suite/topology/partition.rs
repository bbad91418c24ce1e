//! The network between two hosts is cut, so that the former primary lives on beside the new primary.

use std::collections::BTreeSet;

use super::net_host::{NetHost, Network};
use super::tcp_server::TcpServer;
use super::watched::Watched;
use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::wait::{LONG, until};

#[test]
fn what_is_acknowledged_outlives_a_cut_network_and_begins_once() {
    if !Network::may_create() {
        eprintln!("SKIPPED: this user may not create network namespaces, so no network was cut");
        return;
    }
    let network = Network::of(2);
    network.enter();
    let [a, b] = &network.hosts[..] else { unreachable!() };
    let watched = Watched::start_at(&[&a.place, &b.place, &b.place]);
    let hosts: Vec<String> = watched.sentinels.iter().map(TcpServer::address).collect();
    let url = format!("redis+sentinel://{}/prime?durability=replicated", hosts.join(","));
    let effects = Effects::new();
    let jobs = format!(
        "[daemon]\nlease = \"5s\"\n\
         [jobs.beat]\nevery = \"1s\"\ndelivery = \"at-most-once\"\nshell = {:?}\n",
        effects.shell("true")
    );
    let node = |host: &NetHost, name: &str| {
        let program = host.player_of(env!("CARGO_BIN_EXE_schedd"));
        Schedd::at(&url).played_by(&program).node(name).jobs(&jobs).start()
    };
    let _nodes = [node(a, "on-a"), node(b, "on-b")];
    let until_beats = || {
        let before = effects.of("beat").len();
        until("the beat goes on", LONG, || {
            Some(()).filter(|()| effects.of("beat").len() >= before + 2)
        });
    };
    until_beats();
    let ctl = |host: &NetHost| {
        let program = host.player_of(env!("CARGO_BIN_EXE_schedctl"));
        Schedctl::alone().env("SCHEDD_REDIS_URL", &url).played_by(&program)
    };
    let (on_a, on_b) = (ctl(a), ctl(b));
    let mut acknowledged = BTreeSet::new();
    let mut add = |ctl: &Schedctl, name: String, delay: &str| {
        let shell = effects.shell("true");
        let words = ["add", "--name", &name, "--in", delay, "--delivery", "at-most-once"];
        let added = ctl.run(&[&words[..], &["--shell", &shell]].concat());
        let is_added = added.code == 0;
        if is_added {
            acknowledged.insert(name);
        }
        (is_added, added)
    };

    for number in 0..6 {
        let (is_added, added) = add(&on_a, format!("before{number}"), "15s");
        assert!(is_added, "{added:?}");
    }

    network.join(0, false);
    let (is_added, added) = add(&on_a, "cut-off".to_owned(), "1s");
    assert!(!is_added && [69, 75].contains(&added.code), "{added:?}");
    watched.until_promoted(1);
    let port = watched.servers[0].port.to_string();
    let asked =
        a.place.command("redis-cli").args(["-h", &a.place.address, "-p", &port, "ROLE"]).output();
    let role = String::from_utf8_lossy(&asked.unwrap().stdout).into_owned();
    assert!(role.starts_with("master"), "both are primaries: {role}");
    // The new primary has no replica, so nothing is acknowledged there either.
    let mut number = 0;
    until("the new primary is used", LONG, || {
        number += 1;
        let (is_added, added) = add(&on_b, format!("alone{number}"), "1s");
        assert!(!is_added, "{added:?}");
        (added.code == 75).then_some(())
    });

    network.join(0, true);
    until("the former primary is a replica", LONG, || {
        let info: String = watched.servers[0].ask(&["INFO", "replication"]).ok()?;
        info.contains("master_link_status:up").then_some(())
    });
    until_beats();
    for (place, ctl) in [("a", &on_a), ("b", &on_b)] {
        let mut number = 0;
        until("an add is acknowledged again", LONG, || {
            number += 1;
            add(ctl, format!("{place}{number}"), "1s").0.then_some(())
        });
    }
    assert_eq!(acknowledged.len(), 8);
    for name in &acknowledged {
        until("each acknowledged job has begun", LONG, || effects.of(name).pop());
    }
    let begun = effects.all();
    let runs: BTreeSet<&str> = begun.iter().map(|effect| effect.run.as_str()).collect();
    assert_eq!(runs.len(), begun.len(), "a run that begins at most once began twice: {begun:?}");
}
