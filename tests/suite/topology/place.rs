//! The place of a server: this host, or a host of a network that can be cut.

use std::net::TcpListener;
use std::process::Command;

/// A place for servers.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The address at which servers of this place listen.
    pub(crate) address: String,
    /// The network namespace in which the servers run. `None` for the namespace of the test.
    name_space: Option<String>,
}

impl Place {
    /// Returns this host, whose servers only this host reaches.
    pub(crate) fn here() -> Self {
        Self { address: "127.0.0.1".to_owned(), name_space: None }
    }

    /// Returns the place within a network namespace.
    pub(crate) fn within(name_space: &str, address: &str) -> Self {
        Self { address: address.to_owned(), name_space: Some(name_space.to_owned()) }
    }

    /// Returns two ports that no server of the place has.
    pub(crate) fn spare_ports(&self) -> [u16; 2] {
        if self.name_space.is_some() {
            // Below those of outgoing connections, which may last longer than a server is down.
            return [0, 0].map(|_| fastrand::u16(10_000..30_000));
        }
        let listeners = [0, 0].map(|_| TcpListener::bind((&*self.address, 0)).unwrap());
        listeners.map(|listener| listener.local_addr().unwrap().port())
    }

    /// Returns a command that runs `program` in the network namespace of this place.
    pub(crate) fn command(&self, program: &str) -> Command {
        let Some(name_space) = &self.name_space else { return Command::new(program) };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name_space, program]);
        command
    }
}
