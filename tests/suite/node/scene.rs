//! Two nodes in the midst of work: two runs going on, others coming due, a job every second. What befalls them is the tests';
//! what became of the work is judged here, by the jobs' own word.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::support::daemon::Schedd;
use crate::support::effects::{Effect, Effects};
use crate::support::eye::Eye;
use crate::support::redis::TestRedis;
use crate::support::wait::{LONG, until};
use schedd_core::domain::run::run_state::RunState;

/// The runs that go on.
pub(crate) const LONG_ONES: [&str; 2] = ["longa", "longb"];
/// Those that come due, one every 400 ms.
pub(crate) const SHORT_ONES: usize = 10;

pub(crate) struct Scene {
    pub(crate) redis: TestRedis,
    pub(crate) effects: Effects,
    pub(crate) nodes: Vec<Schedd>,
    pulses: TempDir,
}

impl Scene {
    /// Nodes whose leases last so long.
    pub(crate) fn with_lease(lease: &str) -> Self {
        let redis = TestRedis::durable();
        let url = redis.url();
        Self::on(redis, |node, jobs| Schedd::at(&url).node(node).jobs(jobs).start(), lease)
    }

    /// Nodes that `start` starts, of a name and with that jobs file.
    pub(crate) fn on(redis: TestRedis, start: impl Fn(&str, &str) -> Schedd, lease: &str) -> Self {
        let (effects, pulses) = (
            Effects::new(),
            tempfile::Builder::new().prefix("schedd-pulses-").tempdir_in("/tmp").unwrap(),
        );
        let eye = Eye::on(&redis);
        let jobs = format!(
            "[daemon]\nlease = \"{lease}\"\n[jobs.beat]\nevery = \"1s\"\nshell = {:?}\ncatch_up = {{ mode = \"all\" }}\n",
            effects.shell("true")
        );
        let nodes: Vec<Schedd> = ["one", "two"].iter().map(|name| start(name, &jobs)).collect();
        for name in LONG_ONES {
            let suspend_detector = pulses.path().join(name);
            let work = format!(
                "n=0; while [ $n -lt 60 ]; do echo >>{}; n=$((n+1)); sleep 0.1; done",
                suspend_detector.display()
            );
            eye.add(&json!({"name": name, "in": "0s", "shell": effects.shell(&work)}));
        }
        for number in 0..SHORT_ONES {
            let delay = format!("{}ms", 1_000 + number * 400);
            eye.add(&json!({"name": format!("short{number}"), "in": delay, "shell": effects.shell("sleep 0.2")}));
        }
        let scene = Self { redis, effects, nodes, pulses };
        for name in LONG_ONES {
            until(&format!("{name} begins"), LONG, || scene.effects.of(name).into_iter().next());
        }
        scene
    }

    /// A look of its own: what looked before the fault has met it too.
    pub(crate) fn eye(&self) -> Eye {
        Eye::on(&self.redis)
    }

    /// Whether a node has logged it.
    pub(crate) fn logged(&self, text: &str) -> bool {
        self.nodes.iter().any(|node| node.log().contains(text))
    }

    /// Waits until a node has logged it.
    #[track_caller]
    pub(crate) fn until_logged(&self, text: &str) {
        until(&format!("a node logs {text:?}"), LONG, || Some(()).filter(|()| self.logged(text)));
    }

    /// How often the long runs have told that they live.
    fn pulses(&self) -> u64 {
        LONG_ONES
            .iter()
            .map(|name| fs::metadata(self.pulses.path().join(name)).map_or(0, |about| about.len()))
            .sum()
    }

    /// Waits until the long runs are dead, which is to be before `lease` is over, counted from now.
    #[track_caller]
    pub(crate) fn assert_pulses_stop_within(&self, lease: Duration) {
        let begun = Instant::now();
        let (mut count, mut last) = (self.pulses(), Instant::now());
        // A pulse comes every tenth of a second; a second without one is no hiccup.
        while last.elapsed() < Duration::from_secs(1) {
            assert!(begun.elapsed() < LONG, "the jobs go on");
            std::thread::sleep(Duration::from_millis(20));
            let now = self.pulses();
            if now != count {
                (count, last) = (now, Instant::now());
            }
        }
        assert!(
            last.duration_since(begun) < lease,
            "a job lived {:?} on",
            last.duration_since(begun)
        );
        assert!(
            LONG_ONES.iter().all(|name| self.effects.of(name)[0].ended.is_none()),
            "a job ended by itself meanwhile"
        );
    }

    /// Every run was done, in one attempt.
    #[track_caller]
    pub(crate) fn assert_all_done_once(self) {
        let by_run = self.settled();
        for (run, attempts) in &by_run {
            assert_eq!(attempts.len(), 1, "{run} was begun again: {attempts:?}");
        }
    }

    /// Every run was done, those that went on in a second attempt, which did not begin before the first was dead.
    #[track_caller]
    pub(crate) fn assert_all_done_and_the_long_ones_again(self) {
        let by_run = self.settled();
        for (run, attempts) in &by_run {
            assert!(
                attempts
                    .windows(2)
                    .all(|pair| pair[0].fence < pair[1].fence && pair[0].ended.is_none()),
                "{attempts:?}"
            );
            let is_long = LONG_ONES.iter().any(|name| run.starts_with(name));
            assert!(
                attempts.len() == 1 || is_long || run.starts_with("short"),
                "{run}: {attempts:?}"
            );
            assert!(!is_long || attempts.len() == 2, "{run}: {attempts:?}");
        }
    }

    /// Every run was done, those that went on in a second attempt. A run may also be repeated if it
    /// ended while its keeper could not report the end. No two attempts overlapped.
    #[track_caller]
    pub(crate) fn assert_all_done_and_no_attempts_overlapped(self) {
        let by_run = self.settled();
        for (run, attempts) in &by_run {
            let is_in_turn = |pair: &[Effect]| {
                pair[0].fence < pair[1].fence
                    && pair[0].ended.is_none_or(|ended| ended < pair[1].began)
            };
            assert!(attempts.windows(2).all(is_in_turn), "{attempts:?}");
            let is_long = LONG_ONES.iter().any(|name| run.starts_with(name));
            assert!(!is_long || attempts.len() == 2, "{run}: {attempts:?}");
        }
    }

    /// Waits until all is done and the job of every second goes on; the attempts of each run.
    #[track_caller]
    fn settled(&self) -> BTreeMap<String, Vec<Effect>> {
        let logs: Vec<String> = self.nodes.iter().map(Schedd::log).collect();
        attempts_by_run(&self.eye(), || self.effects.all(), &logs)
    }
}

/// Waits until the runs of a scene are done and the job of every second goes on. Returns the
/// attempts of each run.
#[track_caller]
pub(crate) fn attempts_by_run(
    eye: &Eye,
    effects: impl Fn() -> Vec<Effect>,
    logs: &[String],
) -> BTreeMap<String, Vec<Effect>> {
    let short_ones = (0..SHORT_ONES).map(|number| format!("short{number}"));
    for name in LONG_ONES.map(str::to_owned).into_iter().chain(short_ones) {
        let run = eye.wait_for_history(&name, 1).remove(0);
        assert_eq!((run.state, run.failures), (RunState::Succeeded, 0), "{name}");
        let last = effects().into_iter().rfind(|effect| effect.run == run.run.to_string());
        assert!(last.unwrap().ended.is_some(), "{name} did not end");
    }
    let beats = eye.history("beat").len();
    // Not one second without its run, and not one with two. One given to a keeper that stands still ends after later ones.
    until("every second has its one run", LONG, || {
        let mut dues: Vec<i64> =
            eye.history("beat").iter().map(|run| run.run.due().as_i64()).collect();
        dues.sort_unstable();
        let is_whole = dues.windows(2).all(|pair| pair[1] - pair[0] == 1_000);
        (is_whole && dues.len() >= beats + 3).then_some(())
    });
    for log in logs {
        assert_calm(log);
    }
    let mut by_run: BTreeMap<String, Vec<Effect>> = BTreeMap::new();
    for effect in effects() {
        by_run.entry(effect.run.clone()).or_default().push(effect);
    }
    by_run
}

/// Checks that a log has no line twice within a second, and no problem twice within 20 seconds.
#[track_caller]
pub(crate) fn assert_calm(log: &str) {
    let mut said: HashMap<String, jiff::Timestamp> = HashMap::new();
    for line in log.lines() {
        let Some((at, text)) = line.strip_prefix("ts=").and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        let at: jiff::Timestamp = at.parse().unwrap();
        let counts = ["ms=", "after_ms=", "for_s=", "late_ms=", "left_s="];
        let text: Vec<&str> = text
            .split(' ')
            .filter(|word| !counts.iter().any(|count| word.starts_with(count)))
            .collect();
        if let Some(before) = said.insert(text.join(" "), at) {
            let apart = at.duration_since(before);
            let least = if line.contains("This node tries again.") { 20 } else { 1 };
            assert!(apart.as_secs() >= least, "said again after {apart:?}: {line}\n{log}");
        }
    }
}
