//! Short ids of runs for tables. Each verb that takes a run accepts them.
//!
//! Invariant: a short id is shown only if it matches no other run of its job that is stored now.

use std::collections::BTreeMap;

use super::id_part::{FEWEST_LAST, IdPart, WHOLE_SECOND};
use crate::cli::failure::CliFailure;
use crate::cli::merged_places::MergedPlaces;
use schedd_schedule::names::{JobName, RunId};
use schedd_store::Store;

/// The maximum number of ended runs of a job that are compared with a part of an id.
pub(crate) const RUNS_COMPARED: usize = 1_000;
/// The maximum number of jobs whose runs get short ids. Runs of further jobs keep their full ids.
const JOBS: usize = 100;

/// The runs of the jobs in a table, from which short ids are made.
#[derive(Debug, Default)]
pub(crate) struct ShortIds {
    /// The runs of each job, with their due times as text.
    runs: BTreeMap<JobName, Vec<(RunId, String)>>,
}

impl ShortIds {
    /// Reads the ids of all runs of the jobs of `runs` in all places, except of jobs that were read
    /// before.
    pub(crate) async fn read_for(
        &mut self,
        places: &MergedPlaces,
        runs: impl Iterator<Item = &RunId>,
    ) -> Result<(), CliFailure> {
        let mut jobs: Vec<JobName> = runs.map(|run| run.job().clone()).collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs.retain(|job| !self.runs.contains_key(job));
        jobs.truncate(JOBS.saturating_sub(self.runs.len()));
        let names = jobs.as_slice();
        let read = |store: Store| async move { store.list_runs_of(names, RUNS_COMPARED).await };
        for known in places.each(read).await? {
            for (job, runs) in jobs.iter().zip(known) {
                let with_due = |run: RunId| (run.clone(), run.due().as_i64().to_string());
                self.runs.entry(job.clone()).or_default().extend(runs.into_iter().map(with_due));
            }
        }
        Ok(())
    }

    /// Returns the shortest text that names the run, or its full id if no shorter text does.
    pub(crate) fn of(&self, run: &RunId) -> String {
        let all = self.runs.get(run.job()).map_or(&[][..], Vec::as_slice);
        let Some((_, due)) = all.iter().find(|(known, _)| known == run) else {
            return run.to_string();
        };
        let digits = due.strip_suffix(WHOLE_SECOND).unwrap_or(due);
        let word = run.word();
        let alone = word.map(|_| "").into_iter();
        let ends = (FEWEST_LAST..digits.len()).map(|count| &digits[digits.len() - count..]);
        let is_unique = |digits: &&str| {
            let part = IdPart::of(digits, word);
            all.iter().filter(|(run, due)| part.matches(due, run.word())).count() == 1
        };
        match alone.chain(ends).find(is_unique) {
            Some(digits) => {
                let word = word.map_or_else(String::new, |word| format!("~{word}"));
                format!("{}@{digits}{word}", run.job())
            }
            None => run.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(ids: &[&str]) -> Vec<String> {
        let runs: Vec<RunId> = ids.iter().map(|id| id.parse().unwrap()).collect();
        let known = runs.iter().map(|run| (run.clone(), run.due().as_i64().to_string())).collect();
        let all = ShortIds { runs: BTreeMap::from([("a".parse().unwrap(), known)]) };
        runs.iter().map(|run| all.of(run)).collect()
    }

    #[test]
    fn a_short_id_has_as_many_digits_as_its_run_needs() {
        assert_eq!(short(&["a@1795376411000"]), ["a@6411"]);
        assert_eq!(short(&["a@1795376411000", "a@1795366411000"]), ["a@76411", "a@66411"]);
        assert_eq!(short(&["a@1795376411007"]), ["a@1007"]);
        // A last digit that is also a first digit of another run does not name a run.
        assert_eq!(short(&["a@1795300001795", "a@1795376411000"]), ["a@01795", "a@6411"]);
        let with_word = ["a@1795376411000~k3x9ab", "a@1795376411000", "a@1795376411000~backfill"];
        assert_eq!(short(&with_word), ["a@~k3x9ab", "a@6411", "a@~backfill"]);
        assert_eq!(
            short(&["a@1795376411000~backfill", "a@1795366411000~backfill"]),
            ["a@76411~backfill", "a@66411~backfill"]
        );
    }

    #[test]
    fn a_run_that_is_not_known_keeps_its_id() {
        let run: RunId = "a@1795376411000".parse().unwrap();
        assert_eq!(ShortIds::default().of(&run), "a@1795376411000");
    }
}
