//! F27: SIGHUP again and again while `jobs.toml` is bad, half written or gone. The jobs go on as
//! they were.

use std::fs;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use crate::evidence::Harm;
use crate::faults::{Fault, harmless};
use crate::stage::Stage;

/// The damage to the file.
#[derive(Debug, Clone, Copy)]
enum Spoilt {
    Fine,
    Nonsense,
    Half,
    Gone,
}

/// F27.
pub(crate) struct Storm {
    spoilt: Spoilt,
    length: Duration,
}

impl Storm {
    pub(crate) fn draw(rng: &mut Rng, _nodes: usize) -> Box<dyn Fault> {
        let spoilt = [Spoilt::Fine, Spoilt::Nonsense, Spoilt::Half, Spoilt::Gone][rng.usize(..4)];
        Box::new(Self { spoilt, length: Duration::from_millis(rng.u64(500..3_000)) })
    }
}

impl Fault for Storm {
    fn row(&self) -> &'static str {
        "F27"
    }
    fn what(&self) -> String {
        format!("SIGHUP 100 times to each node with the file {:?}, which stays for {:?}", self.spoilt, self.length)
    }
    fn lasts(&self) -> Duration {
        self.length
    }
    fn harm(&self) -> Harm {
        harmless()
    }
    fn inflict(&mut self, stage: &Stage) {
        let good = stage.jobs_text();
        for node in stage.nodes() {
            let file = node.daemon().jobs_file();
            match self.spoilt {
                Spoilt::Fine => {}
                Spoilt::Nonsense => fs::write(file, "[jobs.quick-0]\ncorn = \"* * * * *\"\nshell = 5\n").unwrap(),
                // The text ends in the middle of a string, so that it is not a valid smaller file.
                Spoilt::Half => fs::write(file, &good[..good.rfind("command = ").unwrap() + 14]).unwrap(),
                Spoilt::Gone => fs::remove_file(file).unwrap_or_default(),
            }
        }
        for _ in 0..100 {
            for node in stage.nodes() {
                node.daemon().signal_if_alive(Signal::HUP);
            }
            let _ = stage.pause(Duration::from_millis(5));
        }
    }
    fn heal(&mut self, stage: &Stage) {
        stage.rewrite_jobs();
    }
}
