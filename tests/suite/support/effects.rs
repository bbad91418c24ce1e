//! The effects of jobs, by their own report: each attempt appends a line when it begins and when it
//! ends.
//! Tests judge these lines, not the records of schedd.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

/// A file to which jobs append.
pub(crate) struct Effects {
    dir: TempDir,
}

/// One attempt, as its job reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) run: String,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
    /// Nanoseconds since 1970, by the host's clock.
    pub(crate) began: u128,
    pub(crate) ended: Option<u128>,
}

impl Effects {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::Builder::new().prefix("schedd-effects-").tempdir_in("/tmp").unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("effects")
    }

    /// Returns a shell line that reports its begin and its end, and does `work` in between.
    pub(crate) fn shell(&self, work: &str) -> String {
        let file = self.file();
        let report = |word: &str| {
            format!(
                "echo {word} $SCHEDD_RUN_ID $SCHEDD_ATTEMPT $SCHEDD_FENCE $(date +%s%N) >> {}",
                file.display()
            )
        };
        format!("{}; {work}; code=$?; {}; exit $code", report("B"), report("E"))
    }

    /// Returns all attempts so far, in the order of their begin.
    pub(crate) fn all(&self) -> Vec<Effect> {
        let text = fs::read_to_string(self.file()).unwrap_or_default();
        let mut effects: Vec<Effect> = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [word, run, attempt, fence, at] = words[..] else { panic!("{line:?}") };
            let (attempt, fence, at) =
                (attempt.parse().unwrap(), fence.parse().unwrap(), at.parse().unwrap());
            if word == "B" {
                effects.push(Effect {
                    run: run.to_owned(),
                    attempt,
                    fence,
                    began: at,
                    ended: None,
                });
            } else {
                let effect = effects
                    .iter_mut()
                    .find(|effect| effect.run == run && effect.fence == fence)
                    .unwrap();
                effect.ended = Some(at);
            }
        }
        effects
    }

    /// Returns the attempts of runs of `job`.
    pub(crate) fn of(&self, job: &str) -> Vec<Effect> {
        let is_its = |effect: &Effect| effect.run.split('@').next() == Some(job);
        self.all().into_iter().filter(is_its).collect()
    }
}
