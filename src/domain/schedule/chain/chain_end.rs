//! The end of a parent's run, as a chain passes it on to a child.

use serde_json::Value;

use crate::domain::name::names::{JobName, RunId};

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

    /// Parses the value of a field of `chain:JOB`: the ends of those parents that have ended.
    pub fn read_state(text: &str) -> Vec<Self> {
        let state: Value = serde_json::from_str(text).unwrap_or_default();
        let ends = state["ends"].as_object();
        let mut ends: Vec<Self> =
            ends.into_iter().flat_map(|ends| ends.values()).filter_map(Self::read).collect();
        ends.sort_by(|one, other| one.job.cmp(&other.job));
        ends
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

    /// Returns the states of these ends as words, such as `load=failed transform=succeeded`.
    pub fn states_of(ends: &[Self]) -> String {
        let word = |end: &Self| format!("{}={}", end.job, end.state);
        ends.iter().map(word).collect::<Vec<_>>().join(" ")
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
        let state = format!(r#"{{"at":1,"ends":{{"a":{end}}}}}"#);
        assert_eq!(ParentEnd::read_state(&state), ends);
        assert_eq!(ParentEnd::read_state("no"), []);
    }
}
