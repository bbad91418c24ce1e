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
enum FileText {
    Fine,
    Nonsense,
    Half,
    Gone,
}

/// F27.
pub(crate) struct Storm {
    text: FileText,
    length: Duration,
}

impl Storm {
    pub(crate) fn draw(rng: &mut Rng, _nodes: usize) -> Box<dyn Fault> {
        let text =
            [FileText::Fine, FileText::Nonsense, FileText::Half, FileText::Gone][rng.usize(..4)];
        Box::new(Self { text, length: Duration::from_millis(rng.u64(500..3_000)) })
    }
}

impl Fault for Storm {
    fn row(&self) -> &'static str {
        "F27"
    }
    fn what(&self) -> String {
        format!(
            "SIGHUP 100 times to each node with the file {:?}, which stays for {:?}",
            self.text, self.length
        )
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
            match self.text {
                FileText::Fine => {}
                FileText::Nonsense => {
                    fs::write(file, "[jobs.quick-0]\ncorn = \"* * * * *\"\nshell = 5\n").unwrap()
                }
                // The text ends in the middle of a string, so that it is not a valid smaller file.
                FileText::Half => {
                    fs::write(file, &good[..good.rfind("command = ").unwrap() + 14]).unwrap()
                }
                FileText::Gone => fs::remove_file(file).unwrap_or_default(),
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
