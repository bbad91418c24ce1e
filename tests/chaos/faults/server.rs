//! F14, F15: Redis forgets its scripts and disconnects, or has no memory left.
//! Nodes must recover from the first at once, and finish their open runs under the second.

use std::time::Duration;

use fastrand::Rng;

use super::{Fault, harmless};
use crate::evidence::{Delay, Harm, SECOND};
use crate::stage::Stage;

/// F14: SCRIPT FLUSH and CLIENT KILL, three times.
pub(super) struct Flush;

impl Flush {
    pub(super) fn draw(_rng: &mut Rng, _nodes: usize) -> Box<dyn Fault> {
        Box::new(Self)
    }
}

impl Fault for Flush {
    fn row(&self) -> &'static str {
        "F14"
    }
    fn what(&self) -> String {
        "SCRIPT FLUSH and CLIENT KILL, three times".to_owned()
    }
    fn lasts(&self) -> Duration {
        Duration::from_millis(500)
    }
    fn harm(&self) -> Harm {
        Harm { delay: Delay::Brief(2 * SECOND), ..harmless() }
    }
    fn inflict(&mut self, stage: &Stage) {
        for _ in 0..3 {
            ask(stage, &["SCRIPT", "FLUSH"]);
            ask(stage, &["CLIENT", "KILL", "TYPE", "normal"]);
            ask(stage, &["CLIENT", "KILL", "TYPE", "pubsub"]);
            let _ = stage.pause(Duration::from_millis(300));
        }
    }
    fn heal(&mut self, _stage: &Stage) {}
}

/// F15: `maxmemory` is below the memory in use, so that Redis refuses only commands that add data.
pub(super) struct Full {
    length: Duration,
}

impl Full {
    pub(super) fn draw(rng: &mut Rng, _nodes: usize) -> Box<dyn Fault> {
        Box::new(Self { length: Duration::from_millis(rng.u64(2_000..7_000)) })
    }
}

impl Fault for Full {
    fn row(&self) -> &'static str {
        "F15"
    }
    fn what(&self) -> String {
        format!("maxmemory below what is in use for {:?}", self.length)
    }
    fn lasts(&self) -> Duration {
        self.length
    }
    fn harm(&self) -> Harm {
        harmless()
    }
    fn inflict(&mut self, stage: &Stage) {
        ask(stage, &["CONFIG", "SET", "maxmemory", "100kb"]);
    }
    fn heal(&mut self, stage: &Stage) {
        ask(stage, &["CONFIG", "SET", "maxmemory", "0"]);
    }
}

fn ask(stage: &Stage, words: &[&str]) {
    let (command, args) = words.split_first().unwrap();
    redis::cmd(command).arg(args).query::<redis::Value>(&mut stage.redis().connection()).unwrap();
}
