//! F20: no space left where a node keeps its state and its log.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use crate::evidence::Harm;
use crate::faults::needs::run;
use crate::faults::{Fault, lost_node, name, node, some_node};
use crate::stage::Stage;
use crate::world::grounds::full_log;

/// F20: a full file system over the state directory, and a log that accepts nothing, from the next
/// start of the node.
pub(crate) struct Full {
    node: usize,
    mounted: Option<Mounted>,
}

impl Full {
    pub(crate) fn draw(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { node: some_node(rng, nodes), mounted: None })
    }
}

impl Fault for Full {
    fn row(&self) -> &'static str {
        "F20"
    }
    fn what(&self) -> String {
        format!("{} killed and started again on a full disk, its log to /dev/full", name(self.node))
    }
    fn lasts(&self) -> Duration {
        Duration::from_secs(7)
    }
    fn harm(&self) -> Harm {
        lost_node(self.node)
    }
    fn inflict(&mut self, stage: &Stage) {
        let node = node(stage, self.node);
        let place = node.daemon().state_home();
        node.hold();
        self.mounted = Some(Mounted::over(&place));
        fs::write(full_log(stage.dir(), &node.name), "").unwrap();
        {
            let mut daemon = node.daemon();
            daemon.signal_if_alive(Signal::KILL);
            daemon.wait_exit();
        }
        node.start_again(stage.dir());
    }
    fn heal(&mut self, stage: &Stage) {
        // The node must recover by itself: nobody restarts it.
        fs::remove_file(full_log(stage.dir(), &node(stage, self.node).name)).unwrap();
        self.mounted = None;
    }
}

/// A full file system; it is unmounted when this value is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn over(dir: &Path) -> Self {
        fs::create_dir_all(dir).unwrap();
        run(
            "mount",
            &["-t", "tmpfs", "-o", "size=64k", "schedd-chaos", &dir.display().to_string()],
        )
        .unwrap();
        let mounted = Self(dir.to_owned());
        // The write stops when the file system is full.
        fs::create_dir_all(dir.join("schedd")).unwrap();
        let _ = fs::write(dir.join("filler"), vec![0; 128 * 1024]);
        mounted
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The unmount is lazy, because a process may have a file open there.
        let _ = run("umount", &["-l", &self.0.display().to_string()]);
    }
}
