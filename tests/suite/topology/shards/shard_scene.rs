//! Jobs of a spread queue that report their effects, and a look into each shard.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::support::ctl::{Finished, Schedctl};
use crate::support::effects::Effects;
use crate::support::wait::{LONG, until};

/// The section of a spread queue.
pub(super) const SPREAD: &str = "[queues.mail]\nspread = true\n";

pub(super) struct ShardScene {
    pub(super) effects: Effects,
    pub(super) ctl: Schedctl,
}

impl ShardScene {
    /// Creates a scene. Its `schedctl` finds Redis by the jobs file with this text.
    pub(super) fn new(file: &str) -> Self {
        let ctl = Schedctl::alone();
        std::fs::write(ctl.home().join("jobs.toml"), file).unwrap();
        Self { effects: Effects::new(), ctl }
    }

    /// Adds a job to the spread queue for each name, all in one call. `more` are further keys.
    pub(super) fn add(&self, names: &[String], delay: &str, more: &[(&str, &str)]) -> Finished {
        self.ctl.run_with_input(&["add", "--stdin"], &self.lines(names, delay, more))
    }

    /// Returns a line for `add --stdin` for each name.
    pub(super) fn lines(&self, names: &[String], delay: &str, more: &[(&str, &str)]) -> Vec<u8> {
        let mut lines = String::new();
        for name in names {
            let mut job = serde_json::json!({
                "name": name, "in": delay, "queue": "mail", "shell": self.effects.shell("true"),
            });
            for (key, value) in more {
                job[*key] = (*value).into();
            }
            writeln!(lines, "{job}").unwrap();
        }
        lines.into_bytes()
    }

    /// Adds a job without a name to the spread queue, with a unique key of this number.
    pub(super) fn add_unique(&self, number: u32) -> Finished {
        let unique = format!("only-{number}");
        self.ctl.run(&["add", "--in", "1h", "--queue", "mail", "--unique", &unique, "--", "true"])
    }

    /// Waits until each of these jobs has run. Fails if a job ran more than once.
    #[track_caller]
    pub(super) fn assert_each_runs_once(&self, names: &[String]) {
        let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let ends = || -> BTreeMap<String, usize> {
            let mut ends = BTreeMap::new();
            for effect in self.effects.all().into_iter().filter(|effect| effect.ended.is_some()) {
                let job = effect.run.split('@').next().unwrap_or_default().to_owned();
                *ends.entry(job).or_insert(0) += 1;
            }
            ends.retain(|job, _| wanted.contains(job.as_str()));
            ends
        };
        until("all jobs have run", LONG, || (ends().len() == names.len()).then_some(()));
        let ends = ends();
        assert!(ends.values().all(|count| *count == 1), "{ends:?}");
    }
}

/// Returns `count` names with this beginning.
pub(super) fn names(begin: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{begin}{number}")).collect()
}

/// Returns the live jobs of a shard, or of the namespace itself.
pub(super) fn live_jobs(redis: &mut redis::Connection, shard: Option<u32>) -> BTreeSet<String> {
    let namespace = shard.map_or_else(|| "schedd".to_owned(), |shard| format!("schedd.{shard}"));
    let key = format!("{{{namespace}}}:jobs");
    redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).query(redis).unwrap()
}
