//! A Redis server, Sentinel or node of a cluster on a spare port, with files in its own directory;
//! killed and awaited on drop.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::place::Place;
use crate::support::wait::{LONG, until};

/// The time limit for a connection. A host whose network is cut neither accepts nor refuses it.
const TO_CONNECT: Duration = Duration::from_secs(2);
/// The time limit for an answer. It is longer than any test lets a server wait (`WAIT`).
const TO_ANSWER: Duration = Duration::from_secs(10);

pub(crate) struct TcpServer {
    pub(crate) place: Place,
    pub(crate) port: u16,
    child: Child,
    /// The arguments of the first start.
    arguments: Vec<String>,
    dir: TempDir,
}

impl TcpServer {
    /// Starts a server at `place` with these arguments, which are given two spare ports and the
    /// directory. The server must listen on the first port.
    pub(crate) fn start(place: &Place, arguments: impl Fn([u16; 2], &Path) -> Vec<String>) -> Self {
        // Another process may take a spare port before the server does.
        for _ in 0..5 {
            let dir = tempfile::Builder::new().prefix("schedd-test-").tempdir_in("/tmp").unwrap();
            let ports = place.spare_ports();
            let arguments = arguments(ports, dir.path());
            let child = spawn(place, &arguments, dir.path());
            let mut server = Self { place: place.clone(), port: ports[0], child, arguments, dir };
            let is_up = until("the server listens or ends", LONG, || {
                if server.child.try_wait().unwrap().is_some() {
                    return Some(false);
                }
                server.listens().then_some(true)
            });
            if is_up {
                return server;
            }
        }
        panic!("no server could be started")
    }

    /// Returns true if this server listens on its port, and not that of another test. A server that
    /// asks for TLS does not say which it is.
    fn listens(&self) -> bool {
        if TcpStream::connect((&*self.place.address, self.port)).is_err() {
            return false;
        }
        let own = format!("process_id:{}\r\n", self.child.id());
        self.ask::<String>(&["INFO", "server"]).map_or(true, |info| info.contains(&own))
    }

    /// Starts a server of data at `place` with these further arguments.
    pub(crate) fn of_data(place: &Place, more: &[&str]) -> Self {
        Self::start(place, |[port, bus], _| {
            let port = port.to_string();
            let common = ["--port", &port, "--save", "", "--appendonly", "no"];
            let is_node = more.contains(&"--cluster-enabled");
            let bus = is_node.then(|| ["--cluster-port".to_owned(), bus.to_string()]);
            let words = common.iter().chain(more).map(|word| (*word).to_owned());
            words.chain(bus.into_iter().flatten()).collect()
        })
    }

    /// Starts the killed server again as an empty replica of the server at this place and port.
    pub(crate) fn restart_as_replica_of(&mut self, place: &Place, primary: u16) {
        let (port, primary) = (self.port.to_string(), primary.to_string());
        let words = ["--port", &port, "--save", "", "--replicaof", &place.address, &primary];
        self.arguments = words.map(str::to_owned).to_vec();
        self.restart();
    }

    /// Starts the killed server again, and waits until it has the data of its primary.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.place, &self.arguments, self.dir.path());
        until("the replica has the data", LONG, || {
            // A connection of another process may have the port for a moment.
            if self.child.try_wait().unwrap().is_some() {
                self.child = spawn(&self.place, &self.arguments, self.dir.path());
            }
            let info: String = self.ask(&["INFO", "replication"]).ok()?;
            info.contains("master_link_status:up").then_some(())
        });
    }

    /// Returns the address and port.
    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.place.address, self.port)
    }

    pub(crate) fn connection(&self) -> redis::RedisResult<redis::Connection> {
        let client = redis::Client::open(format!("redis://{}", self.address()))?;
        let connection = client.get_connection_with_timeout(TO_CONNECT)?;
        connection.set_read_timeout(Some(TO_ANSWER))?;
        Ok(connection)
    }

    /// Sends a command and returns its answer. The signal about a stopped child may interrupt the wait
    /// for an answer, because it has a time limit. Then the command is sent again.
    pub(crate) fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        loop {
            let answer = self.connection().and_then(|mut connection| {
                redis::cmd(words[0]).arg(&words[1..]).query(&mut connection)
            });
            match answer {
                Err(error) if error.to_string().contains("Interrupted system call") => {}
                answer => return answer,
            }
        }
    }

    /// Kills the server as a crash would and waits for its end.
    pub(crate) fn kill9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal such as STOP or CONT.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for TcpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(place: &Place, arguments: &[String], dir: &Path) -> Child {
    place
        .command("redis-server")
        .args(arguments)
        .args(["--bind", &place.address, "--protected-mode", "no", "--dir", "."])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
