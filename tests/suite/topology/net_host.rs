//! Hosts on a network that can be cut: network namespaces, each joined to a hub by a pair of virtual
//! interfaces. They are removed on drop, which must follow the end of the processes in them.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tempfile::TempDir;

use super::place::Place;
use crate::support::host::program::write_program;

/// A hub, and the hosts that reach each other through it.
pub(crate) struct Network {
    hub: NameSpace,
    pub(crate) hosts: Vec<NetHost>,
}

/// A host of a [`Network`].
pub(crate) struct NetHost {
    pub(crate) place: Place,
    name_space: NameSpace,
    /// The programs of this host.
    dir: TempDir,
}

/// The name of a network namespace, which is removed on drop.
struct NameSpace(String);

impl Network {
    /// Returns true if this user may create network namespaces. Root in a container may not.
    pub(crate) fn may_create() -> bool {
        let name = name_ending_in("probe");
        let is_made = |words: &[&str]| {
            let made = Command::new("ip").args(words).output();
            made.is_ok_and(|made| made.status.success())
        };
        let has_bridge = is_made(&["netns", "add", &name])
            && is_made(&["-n", &name, "link", "add", "hub", "type", "bridge"]);
        is_made(&["netns", "del", &name]) && has_bridge
    }

    /// Creates this many hosts, at most 200.
    pub(crate) fn of(count: usize) -> Self {
        let hub = NameSpace::create("hub");
        ip(&["-n", &hub.0, "link", "add", "hub", "type", "bridge"]);
        ip(&["-n", &hub.0, "addr", "add", "10.211.0.254/24", "dev", "hub"]);
        for name in ["lo", "hub"] {
            ip(&["-n", &hub.0, "link", "set", name, "up"]);
        }
        let host = |number: usize| {
            let name_space = NameSpace::create(&number.to_string());
            let (own, link) = (&*name_space.0, link_to(number));
            let address = format!("10.211.0.{}", number + 1);
            let of_hub = ["-n", &hub.0, "link"];
            let pair = ["add", &link, "type", "veth", "peer", "name", "net", "netns", own];
            ip(&[&of_hub[..], &pair].concat());
            ip(&[&of_hub[..], &["set", &link, "master", "hub", "up"]].concat());
            ip(&["-n", own, "addr", "add", &format!("{address}/24"), "dev", "net"]);
            for name in ["lo", "net"] {
                ip(&["-n", own, "link", "set", name, "up"]);
            }
            let dir = tempfile::Builder::new().prefix("schedd-test-").tempdir_in("/tmp").unwrap();
            NetHost { place: Place::within(own, &address), name_space, dir }
        };
        let hosts = (0..count).map(host).collect();
        Self { hub, hosts }
    }

    /// Moves this thread to the hub, with the threads and processes that it starts from now on. They
    /// reach all hosts that are not cut off.
    pub(crate) fn enter(&self) {
        let hub = File::open(PathBuf::from("/run/netns").join(&self.hub.0)).unwrap();
        move_into_link_name_space(hub.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }

    /// Cuts a host off from all others, or joins it again. What runs on the host reaches its own servers
    /// meanwhile.
    pub(crate) fn join(&self, host: usize, is_joined: bool) {
        let state = if is_joined { "up" } else { "down" };
        ip(&["-n", &self.hub.0, "link", "set", &link_to(host), state]);
    }
}

impl NetHost {
    /// Writes a script that runs `program` on this host with the arguments of the script. Returns the
    /// path of the script.
    pub(crate) fn player_of(&self, program: &str) -> PathBuf {
        let path = self.dir.path().join(program.rsplit('/').next().unwrap());
        let text =
            format!("#!/bin/sh\nexec ip netns exec {} {program} \"$@\"\n", self.name_space.0);
        write_program(&path, text);
        path
    }
}

impl NameSpace {
    fn create(end: &str) -> Self {
        let name = name_ending_in(end);
        ip(&["netns", "add", &name]);
        Self(name)
    }
}

impl Drop for NameSpace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Returns the name of the hub's interface to a host.
fn link_to(host: usize) -> String {
    format!("to-{host}")
}

fn name_ending_in(end: &str) -> String {
    format!("schedd-{:08x}-{end}", fastrand::u32(..))
}

#[track_caller]
fn ip(words: &[&str]) {
    let done = Command::new("ip").args(words).output().unwrap();
    assert!(done.status.success(), "ip {words:?}: {done:?}");
}
