//! `schedctl` as its users meet it: every verb rightly and wrongly, with its codes, its JSON and its one line of an error.
//!
//! In `daemon` a real one runs; elsewhere a node is played by calls to the store, where a run is to have happened.

mod add;
mod completing;
mod connecting;
mod daemon;
mod jobs;
mod json;
mod lanes;
mod live_views;
mod queueing;
mod readme_tour;
mod runs;
mod tables;
mod terminal;
mod times;
mod transcripts;

use crate::support::ctl::Schedctl;
use crate::support::redis::TestRedis;
use runs::played::Played;

/// Lines for `add --stdin`, made of numbers.
fn lines(numbers: std::ops::Range<u32>, line: impl Fn(u32) -> String) -> String {
    numbers.map(|number| line(number) + "\n").collect()
}

/// A Redis, a command line that finds it, and a node that is played.
struct Bench {
    redis: TestRedis,
    ctl: Schedctl,
    node: Played,
}

impl Bench {
    fn start() -> Self {
        let redis = TestRedis::start();
        let ctl = Schedctl::on(&redis).env("TZ", "UTC");
        let node = Played::on(&redis);
        Self { redis, ctl, node }
    }

    /// Adds a job by flags and demands that it goes well.
    #[track_caller]
    fn add(&self, args: &[&str]) -> String {
        let finished = self.ctl.run(&[&["add"], args].concat()).good();
        finished.stdout.trim_end().to_owned()
    }
}
