//! The rule of a gate: each run with a place has a right to the place, and each waiting run will be
//! let in.

use super::inconsistency::{FindingSubject, Inconsistency};
use crate::domain::name::names::RunId;

/// The places and the queue of a gate, compared with the records of the gate's runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateFacts {
    /// The runs at the gate whose records do not name the gate, and waiting runs that also have a
    /// place.
    pub strays: Vec<RunId>,
    /// The runs that hold a place at the gate although they are in quarantine, and in no due set.
    pub aside: Vec<RunId>,
    /// The runs that wait at the gate.
    pub queued: Vec<RunId>,
    /// True if runs wait, no run has a place, and no visit of the gate by a node is planned.
    pub is_open_unnoticed: bool,
    /// True if the indexes of waiting runs by job or by lane differ from the runs that wait.
    pub is_unsorted: bool,
}

/// Returns the first problem of a gate. `key` is the name of the Redis key with the gate's queue.
pub fn judge_gate(key: &str, facts: &GateFacts) -> Option<Inconsistency> {
    let found = if let Some(first) = facts.strays.first() {
        format!(
            "has {} runs with a place at its gate or in its queue against their records, such as {first}",
            facts.strays.len()
        )
    } else if let Some(first) = facts.aside.first() {
        format!(
            "has {} runs with a place at its gate that are in quarantine, where no node starts them, such as {first}",
            facts.aside.len()
        )
    } else if facts.is_open_unnoticed {
        format!(
            "has {} runs that wait at its gate, no run with a place there, and no node will let them in",
            facts.queued.len()
        )
    } else if facts.is_unsorted {
        "has an order by job or by lane that differs from the runs that wait there".to_owned()
    } else {
        return None;
    };
    let finding = Inconsistency::wrong(FindingSubject::Key(key.to_owned()), "gate", found);
    Some(finding.fixed_by("removes the wrong runs and lets waiting runs in"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_gate_is_no_finding_and_each_fault_is_one() {
        let run: RunId = "a@5".parse().unwrap();
        assert_eq!(
            judge_gate("k", &GateFacts { queued: vec![run.clone()], ..GateFacts::default() }),
            None
        );
        for (facts, wanted) in [
            (
                GateFacts { strays: vec![run.clone()], ..GateFacts::default() },
                "against their records",
            ),
            (
                GateFacts { aside: vec![run.clone()], ..GateFacts::default() },
                "1 runs with a place at its gate that are in quarantine",
            ),
            (
                GateFacts { is_open_unnoticed: true, queued: vec![run], ..GateFacts::default() },
                "no node will let them in",
            ),
            (GateFacts { is_unsorted: true, ..GateFacts::default() }, "order by job"),
        ] {
            let found = judge_gate("k", &facts).unwrap();
            assert!(found.to_string().contains(wanted), "{found}");
        }
    }
}
