//! The environment that nodes get before they start, for faults to come: a network of their own, a
//! settable clock.
//! Whoever prepares it leaves a guard here, which removes it after the nodes, whatever happens to
//! the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::evidence::Micros;
use crate::support::host::program::write_program;

/// The environment of all nodes.
pub(crate) struct Grounds {
    pub(crate) dir: PathBuf,
    /// The address of the store to which jobs write.
    pub(crate) store: SocketAddr,
    pub(crate) nodes: Vec<Footing>,
    /// The number of workers that ask the nodes.
    pub(crate) workers: usize,
    /// The number of apps.
    pub(crate) apps: usize,
    /// The number of shards of the namespace.
    pub(crate) shards: u32,
    /// The lease of the workers.
    pub(crate) lease: Micros,
}

/// The environment of one node.
#[derive(Default)]
pub(crate) struct Footing {
    /// The address of its proxy to Redis, if it is not on the loopback.
    pub(crate) address: Option<Ipv4Addr>,
    /// The network namespace of the node, if it has its own.
    pub(crate) network: Option<String>,
    pub(crate) vars: Vec<(String, String)>,
    /// The lines in `[daemon]` of its own file, besides the common ones.
    pub(crate) daemon: String,
    /// The guards that remove the environment when dropped.
    pub(crate) guards: Vec<Box<dyn Send + Sync>>,
}

impl Grounds {
    pub(crate) fn plain(dir: &Path, store: SocketAddr, nodes: usize) -> Self {
        let nodes = (0..nodes).map(|_| Footing::default()).collect();
        Self { dir: dir.to_owned(), store, nodes, workers: 0, apps: 0, shards: 0, lease: 0 }
    }
}

/// Returns the path of a file. While it exists, a node that starts has a full disk for its log.
pub(crate) fn full_log(dir: &Path, node: &str) -> PathBuf {
    dir.join(format!("full-log.{node}"))
}

impl Footing {
    /// Returns the `jobs.toml` of a node in this environment, from the common text.
    pub(crate) fn file_of(&self, text: &str) -> String {
        text.replacen("[daemon]\n", &format!("[daemon]\n{}", self.daemon), 1)
    }

    /// Writes the program that starts a node in this environment.
    pub(crate) fn starter(&self, dir: &Path, node: &str) -> PathBuf {
        let default = || env!("CARGO_BIN_EXE_schedd").into();
        let program =
            PathBuf::from(std::env::var_os("SCHEDD_CHAOS_PROGRAM").unwrap_or_else(default));
        let enter = self
            .network
            .as_ref()
            .map_or(String::new(), |name| format!("nsenter --net=/run/netns/{name} "));
        let full = full_log(dir, node);
        let text = format!(
            "#!/bin/sh\n[ ! -e {} ] || exec 2>/dev/full\nexec {enter}{} \"$@\"\n",
            full.display(),
            program.display()
        );
        let starter = dir.join(format!("start.{node}"));
        write_program(&starter, text);
        starter
    }
}
