//! Two hosts with a network of their own between them, which can be cut: network namespaces with a pair
//! of virtual interfaces. They are removed on drop, after the processes in them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::host::program::write_program;
use crate::support::wait::{LONG, until};

/// The port of each server of data.
pub(crate) const DATA_PORT: &str = "6379";

/// A host with its servers.
pub(crate) struct NetHost {
    name: String,
    pub(crate) address: String,
    servers: Vec<Child>,
    dir: TempDir,
}

impl NetHost {
    /// Returns true if this user may create network namespaces. Root in a container may not.
    pub(crate) fn may_create() -> bool {
        let name = name_ending_in("probe");
        let is_made = |words: &[&str]| {
            let made = Command::new("ip").args(words).output();
            made.is_ok_and(|made| made.status.success())
        };
        is_made(&["netns", "add", &name]) && is_made(&["netns", "del", &name])
    }

    /// Creates two hosts that reach each other.
    pub(crate) fn pair() -> [Self; 2] {
        let hosts = ["a", "b"].map(|letter| {
            let name = name_ending_in(letter);
            let last = if letter == "a" { 1 } else { 2 };
            ip(&["netns", "add", &name]);
            let dir = tempfile::Builder::new().prefix("schedd-test-").tempdir_in("/tmp").unwrap();
            let address = format!("10.211.0.{last}");
            Self { name, address, servers: Vec::new(), dir }
        });
        let [a, b] = &hosts;
        ip(&["-n", &a.name, "link", "add", "net", "type", "veth", "peer", "net", "netns", &b.name]);
        for host in &hosts {
            let address = format!("{}/30", host.address);
            ip(&["-n", &host.name, "addr", "add", &address, "dev", "net"]);
            ip(&["-n", &host.name, "link", "set", "lo", "up"]);
            ip(&["-n", &host.name, "link", "set", "net", "up"]);
        }
        hosts
    }

    /// Cuts the network between the hosts, or mends it.
    pub(crate) fn set_network(&self, is_up: bool) {
        ip(&["-n", &self.name, "link", "set", "net", if is_up { "up" } else { "down" }]);
    }

    /// Writes a script that runs `program` on this host with the arguments of the script. Returns the
    /// path of the script.
    pub(crate) fn player_of(&self, program: &str) -> PathBuf {
        let path = self.dir.path().join(program.rsplit('/').next().unwrap());
        let text = format!("#!/bin/sh\nexec ip netns exec {} {program} \"$@\"\n", self.name);
        write_program(&path, text);
        path
    }

    /// Starts a server of data, as a replica of the server on `primary` if there is one.
    pub(crate) fn start_redis(&mut self, primary: Option<&str>) {
        let mut words = vec!["--port", DATA_PORT, "--save", "", "--protected-mode", "no"];
        if let Some(primary) = primary {
            words.extend(["--replicaof", primary, DATA_PORT, "--repl-timeout", "5"]);
        }
        self.start_server(&words);
        self.until_answers(DATA_PORT);
    }

    /// Starts a Sentinel that watches the server of data on the host with the address `primary`. Two
    /// Sentinels must agree before another server takes over.
    pub(crate) fn start_sentinel(&mut self, port: &str, primary: &str) {
        let file = self.dir.path().join(format!("{port}.conf"));
        let text = format!(
            "port {port}\nprotected-mode no\nsentinel monitor prime {primary} {DATA_PORT} 2\n\
             sentinel down-after-milliseconds prime 1000\nsentinel failover-timeout prime 4000\n"
        );
        std::fs::write(&file, text).unwrap();
        self.start_server(&[file.to_str().unwrap(), "--sentinel"]);
        self.until_answers(port);
    }

    fn start_server(&mut self, words: &[&str]) {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, "redis-server"]).args(words);
        command.current_dir(&self.dir).stdout(Stdio::null()).stderr(Stdio::null());
        self.servers.push(command.spawn().unwrap());
    }

    fn until_answers(&self, port: &str) {
        until("the server answers", LONG, || {
            self.ask(port, &["PING"]).contains("PONG").then_some(())
        });
    }

    /// Sends a command to the server on this port of the host, and returns its answer.
    pub(crate) fn ask(&self, port: &str, words: &[&str]) -> String {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, "redis-cli", "-p", port]).args(words);
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    }

    /// Waits until the server of data says this of its replication.
    #[track_caller]
    pub(crate) fn until_replication(&self, words: &str) {
        until(&format!("{}: {words}", self.address), LONG, || {
            self.ask(DATA_PORT, &["INFO", "replication"]).contains(words).then_some(())
        });
    }
}

impl Drop for NetHost {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn name_ending_in(end: &str) -> String {
    format!("schedd-{:08x}-{end}", fastrand::u32(..))
}

#[track_caller]
fn ip(words: &[&str]) {
    let done = Command::new("ip").args(words).output().unwrap();
    assert!(done.status.success(), "ip {words:?}: {done:?}");
}
