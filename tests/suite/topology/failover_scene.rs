//! Two nodes on a Redis that fails over, a job every second, and delayed jobs that come due during
//! the failover. The jobs' own reports say what was done.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::ctl::Schedctl;
use crate::support::daemon::Schedd;
use crate::support::effects::Effects;
use crate::support::wait::{LONG, until};

const SHORT_ONES: usize = 12;

pub(crate) struct FailoverScene {
    pub(crate) effects: Effects,
    _nodes: Vec<Schedd>,
    pub(crate) ctl: Schedctl,
}

impl FailoverScene {
    /// Starts nodes with this section `[redis]`, and adds jobs through the same section. One job
    /// comes due every 500 ms, the first in 3 s.
    pub(crate) fn start(section: &str) -> Self {
        let effects = Effects::new();
        let jobs = format!(
            "[redis]\n{section}[daemon]\nlease = \"5s\"\n[jobs.beat]\nevery = \"1s\"\nshell = {:?}\n",
            effects.shell("true")
        );
        let start = |name| Schedd::with_private_redis().node(name).jobs(&jobs).start();
        let nodes: Vec<Schedd> = ["one", "two"].into_iter().map(start).collect();
        for node in &nodes {
            node.wait_for_log("All jobs of the jobs file are applied");
        }
        let ctl = Schedctl::alone();
        std::fs::write(ctl.home().join("jobs.toml"), &jobs).unwrap();
        let lines: String = (0..SHORT_ONES)
            .map(|number| {
                let delay = format!("{}ms", 3_000 + number * 500);
                let shell = effects.shell("true");
                serde_json::json!({"name": format!("short{number}"), "in": delay, "shell": shell})
                    .to_string()
                    + "\n"
            })
            .collect();
        ctl.run_with_input(&["add", "--stdin"], lines.as_bytes()).good();
        let scene = Self { effects, _nodes: nodes, ctl };
        scene.until_beats();
        scene
    }

    /// Waits until the job of every second has run twice more.
    #[track_caller]
    pub(crate) fn until_beats(&self) {
        let before = self.effects.of("beat").len();
        until("the beat goes on", LONG, || {
            Some(()).filter(|()| self.effects.of("beat").len() >= before + 2)
        });
    }

    /// Waits until all delayed jobs have run. Fails if a job ran more than once.
    #[track_caller]
    pub(crate) fn assert_all_done_once(self) {
        self.assert_all_done(1);
    }

    /// Waits until all delayed jobs have run. Fails if a job ran more than `most` times.
    #[track_caller]
    pub(crate) fn assert_all_done(self, most: usize) {
        let short_ones =
            || self.effects.all().into_iter().filter(|one| one.run.starts_with("short"));
        until("all delayed jobs have run", LONG, || {
            let ended = short_ones().filter(|one| one.ended.is_some());
            let ended: BTreeSet<_> = ended.map(|one| one.run).collect();
            Some(()).filter(|()| ended.len() >= SHORT_ONES)
        });
        let mut attempts = BTreeMap::new();
        for effect in short_ones() {
            *attempts.entry(effect.run).or_insert(0) += 1;
        }
        assert_eq!(attempts.len(), SHORT_ONES, "{attempts:?}");
        assert!(attempts.values().all(|count| *count <= most), "{attempts:?}");
        self.ctl.run(&["doctor"]).good();
    }
}
