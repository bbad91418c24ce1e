//! The end of a parent's run, as a chain passes it on to a child.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::names::{JobName, RunId};
use crate::time::unix_millis::UnixMillis;

/// An entry of the Redis key `chain_ends`: the end of a run that a child has not been given yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainEnd {
    /// The run of the parent.
    pub run: RunId,
    /// The job that runs after the job of `run`.
    pub child: JobName,
}

impl ChainEnd {
    /// Parses an entry of `chain_ends`. Returns `None` if the entry is malformed.
    pub fn read(entry: &[u8]) -> Option<Self> {
        let fields: Value = serde_json::from_slice(entry).ok()?;
        fields["state"].as_str()?;
        let end = Self {
            run: fields["run"].as_str()?.parse().ok()?,
            child: fields["child"].as_str()?.parse().ok()?,
        };
        Some(end)
    }

    /// Returns the run of the child for the same occurrence of the root. Its id has the due time
    /// and the word of the parent's run.
    pub fn child_run(&self) -> RunId {
        self.run.of_job(self.child.clone())
    }
}

/// The end of a parent's run, as the record of a child's run keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentEnd {
    /// The parent.
    pub job: JobName,
    /// The run of the parent.
    pub run: RunId,
    /// The final state of the run.
    pub state: String,
    /// The reason of the final state. Empty if there is none.
    pub reason: String,
    /// The exit code of the last attempt, if it ended with one.
    pub exit_code: Option<i64>,
}

impl ParentEnd {
    /// Parses the field `parents` of a run's record: the ends in the order of the parents' names.
    /// Malformed ends are left out.
    pub fn read_all(text: &str) -> Vec<Self> {
        let list: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
        list.iter().filter_map(Self::read).collect()
    }

    /// Returns the states of these ends as words, such as `load=failed transform=succeeded`.
    pub fn states_of(ends: &[Self]) -> String {
        let word = |end: &Self| format!("{}={}", end.job, end.state);
        ends.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    /// Returns this end as an entry of `chain_ends` for the child `child`.
    pub fn entry_for(&self, child: &JobName) -> String {
        let mut fields = serde_json::json!({
            "run": self.run.to_string(), "child": child.as_str(), "state": self.state, "reason": self.reason,
        });
        if let Some(code) = self.exit_code {
            fields["exit_code"] = code.to_string().into();
        }
        fields.to_string()
    }

    fn read(fields: &Value) -> Option<Self> {
        let text = |key: &str| fields[key].as_str();
        Some(Self {
            job: text("job")?.parse().ok()?,
            run: text("run_id")?.parse().ok()?,
            state: text("state")?.to_owned(),
            reason: text("reason").unwrap_or_default().to_owned(),
            exit_code: text("exit_code").and_then(|code| code.parse().ok()),
        })
    }

    /// Returns this end as JSON, as `SCHEDD_PARENTS` and `show --json` have it.
    pub fn to_json(&self) -> Value {
        serde_json::json!({
            "job": self.job.as_str(),
            "run_id": self.run.to_string(),
            "state": self.state,
            "reason": Some(&self.reason).filter(|reason| !reason.is_empty()),
            "exit_code": self.exit_code,
        })
    }
}

/// An occurrence of a child that waits for parents, as a field of `chain:JOB` keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainState {
    /// The time at which the occurrence began: the first end of the root's run.
    pub since: UnixMillis,
    /// The parents of the child at that time.
    pub parents: BTreeSet<JobName>,
    /// The ends of those parents that have ended.
    pub ends: Vec<ParentEnd>,
}

impl ChainState {
    /// Parses the value of a field of `chain:JOB`. Returns `None` if the value is malformed.
    pub fn read(text: &str) -> Option<Self> {
        let state: Value = serde_json::from_str(text).ok()?;
        let parents = state["after"].as_str().unwrap_or_default().split(' ').skip(1);
        let ends = state["ends"].as_object();
        let mut ends: Vec<ParentEnd> =
            ends.into_iter().flat_map(|ends| ends.values()).filter_map(ParentEnd::read).collect();
        ends.sort_by(|one, other| one.job.cmp(&other.job));
        Some(Self {
            since: state["at"].as_str()?.parse().ok().and_then(UnixMillis::new)?,
            parents: parents.filter_map(|name| name.parse().ok()).collect(),
            ends,
        })
    }

    /// Returns the parents that have not ended.
    pub fn awaited(&self) -> impl Iterator<Item = &JobName> {
        self.parents.iter().filter(|job| self.ends.iter().all(|end| end.job != **job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_of_a_child_has_the_time_and_the_word_of_its_parent() {
        for (run, child) in [("a@5", "c@5"), ("a@5~backfill", "c@5~backfill")] {
            let entry = format!(r#"{{"run":"{run}","child":"c","state":"succeeded"}}"#);
            let end = ChainEnd::read(entry.as_bytes()).unwrap();
            assert_eq!(end.child_run().to_string(), child);
        }
        assert_eq!(ChainEnd::read(br#"{"run":"a@5","child":"c"}"#), None);
    }

    #[test]
    fn the_ends_of_parents_are_read_and_given_as_json() {
        let end = r#"{"job":"a","run_id":"a@5","state":"failed","reason":"x","exit_code":"3"}"#;
        let ends = ParentEnd::read_all(&format!("[{end},7]"));
        assert_eq!(ends.len(), 1);
        assert_eq!(ends[0].to_json()["exit_code"], 3);
        let state = format!(r#"{{"at":"1","after":"after_any a b","ends":{{"a":{end}}}}}"#);
        let state = ChainState::read(&state).unwrap();
        assert_eq!((&state.ends, state.since.as_i64()), (&ends, 1));
        assert_eq!(state.awaited().map(JobName::as_str).collect::<Vec<_>>(), ["b"]);
        assert_eq!(ChainState::read("no"), None);
        let entry = ends[0].entry_for(&"c".parse().unwrap());
        assert_eq!(ChainEnd::read(entry.as_bytes()).unwrap().child_run().to_string(), "c@5");
    }
}
