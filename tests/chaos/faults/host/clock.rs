//! F16: the clock of one node is set again and again while it runs. Its jobs and Redis keep the
//! true time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fastrand::Rng;

use crate::evidence::{Harm, SECOND, now};
use crate::faults::needs::library;
use crate::faults::{Fault, harmless, name, some_node};
use crate::stage::Stage;
use crate::world::grounds::Grounds;

const STEP: Duration = Duration::from_secs(1);

/// F16.
pub(crate) struct Steps {
    node: usize,
    /// The errors of the clock in seconds, one after the other; `None` is a step just past midnight
    /// and then back before it.
    offsets: Vec<Option<i64>>,
    is_over: Arc<AtomicBool>,
    hand: Option<JoinHandle<()>>,
}

impl Steps {
    pub(crate) fn draw(rng: &mut Rng, nodes: usize) -> Box<dyn Fault> {
        let month = 30 * 86_400;
        let all = [1, -1, 300, -300, 3_600, -3_600, month, -month];
        let mut steps: Vec<Option<i64>> = all.into_iter().map(Some).chain([None]).collect();
        rng.shuffle(&mut steps);
        Box::new(Self {
            node: some_node(rng, nodes),
            offsets: steps,
            is_over: Arc::default(),
            hand: None,
        })
    }
}

impl Fault for Steps {
    fn row(&self) -> &'static str {
        "F16"
    }
    fn what(&self) -> String {
        let reported: Vec<String> = self
            .offsets
            .iter()
            .map(|step| step.map_or("back over midnight".to_owned(), |step| format!("{step:+} s")))
            .collect();
        format!("the clock of {} set: {}", name(self.node), reported.join(", "))
    }
    fn lasts(&self) -> Duration {
        STEP * 10
    }
    fn harm(&self) -> Harm {
        harmless()
    }
    fn prepare(&self, grounds: &mut Grounds) {
        let file = offset_file(&grounds.dir, self.node);
        set(&file, 0);
        let footing = &mut grounds.nodes[self.node];
        let library = library().unwrap();
        footing.vars = [
            ("LD_PRELOAD", library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
    }
    fn inflict(&mut self, stage: &Stage) {
        let (file, steps, is_over) =
            (offset_file(stage.dir(), self.node), self.offsets.clone(), Arc::clone(&self.is_over));
        self.hand = Some(std::thread::spawn(move || {
            let to_midnight = 86_400 - now() / SECOND % 86_400;
            // This step has two parts: a little past midnight, then back before it.
            let offsets = steps.into_iter().flat_map(|step| {
                step.map_or(vec![to_midnight + 2, to_midnight - 5], |step| vec![step])
            });
            for offset in offsets.take_while(|_| !is_over.load(Ordering::SeqCst)) {
                set(&file, offset);
                std::thread::sleep(STEP);
            }
        }));
    }
    fn heal(&mut self, stage: &Stage) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = self.hand.take().map(JoinHandle::join);
        set(&offset_file(stage.dir(), self.node), 0);
    }
}

fn offset_file(dir: &Path, node: usize) -> PathBuf {
    dir.join(format!("clock.{}", name(node)))
}

/// Sets the clock of this file wrong by this many seconds.
fn set(file: &Path, seconds: i64) {
    let new = file.with_extension("new");
    fs::write(&new, format!("{seconds:+}\n")).unwrap();
    fs::rename(new, file).unwrap();
}
