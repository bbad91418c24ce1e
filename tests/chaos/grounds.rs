//! What nodes are to stand on before they are started, for the sake of faults to come: a network of their own, a clock that can
//! be set. Whoever lays it leaves a guard here that takes it away, after the nodes and whatever becomes of the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::support::program::write_program;

/// Of all nodes.
pub(crate) struct Grounds {
    pub(crate) dir: PathBuf,
    /// Where the store listens that jobs write to.
    pub(crate) store: SocketAddr,
    pub(crate) nodes: Vec<Footing>,
}

/// Of one node.
#[derive(Default)]
pub(crate) struct Footing {
    /// Where its way to Redis listens, if not on the loopback.
    pub(crate) address: Option<Ipv4Addr>,
    /// The network namespace it is in, if it has one of its own.
    pub(crate) network: Option<String>,
    pub(crate) vars: Vec<(String, String)>,
    /// What its own file says in `[daemon]` beside what all say: lines.
    pub(crate) daemon: String,
    /// Takes all this away when dropped.
    pub(crate) guards: Vec<Box<dyn Send + Sync>>,
}

impl Grounds {
    pub(crate) fn plain(dir: &Path, store: SocketAddr, nodes: usize) -> Self {
        Self { dir: dir.to_owned(), store, nodes: (0..nodes).map(|_| Footing::default()).collect() }
    }
}

/// While this file is there, a node that starts has a full disk for what it logs.
pub(crate) fn full_log(dir: &Path, node: &str) -> PathBuf {
    dir.join(format!("full-log.{node}"))
}

impl Footing {
    /// What the `jobs.toml` of a node on it is to say where that of all says `text`.
    pub(crate) fn file_of(&self, text: &str) -> String {
        text.replacen("[daemon]\n", &format!("[daemon]\n{}", self.daemon), 1)
    }

    /// Writes the program that starts a node on this footing.
    pub(crate) fn starter(&self, dir: &Path, node: &str) -> PathBuf {
        let default = || env!("CARGO_BIN_EXE_schedd").into();
        let program = PathBuf::from(std::env::var_os("SCHEDD_CHAOS_PROGRAM").unwrap_or_else(default));
        let enter = self.network.as_ref().map_or(String::new(), |name| format!("nsenter --net=/run/netns/{name} "));
        let full = full_log(dir, node);
        let text =
            format!("#!/bin/sh\n[ ! -e {} ] || exec 2>/dev/full\nexec {enter}{} \"$@\"\n", full.display(), program.display());
        let starter = dir.join(format!("start.{node}"));
        write_program(&starter, text);
        starter
    }
}
