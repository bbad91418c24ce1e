//! The check of a gate. The records of its runs must agree with its places and its queue. If runs
//! wait, a node must be going to let them in.

use super::inconsistency::{FindingSubject, Inconsistency};
use crate::domain::name::names::RunId;

/// The places and the queue of a gate, compared with the records of the gate's runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateFacts {
    /// The runs with a wrong entry at the gate. Either the run has ended, or the record of the run
    /// does not name the gate, or a run has a place and also waits.
    pub strays: Vec<RunId>,
    /// The runs that have a place at the gate, although they are in quarantine and no node starts
    /// them.
    pub aside: Vec<RunId>,
    /// The runs that wait at the gate.
    pub queued: Vec<RunId>,
    /// True if runs wait, no run has a place, and no visit of a node at the gate is planned.
    pub is_open_unnoticed: bool,
    /// True if the indexes of waiting runs by job or by lane differ from the queue of the gate.
    pub is_unsorted: bool,
}

/// Returns the first problem of a gate. `key` is the name of the Redis key with the gate's queue.
pub fn judge_gate(key: &str, facts: &GateFacts) -> Option<Inconsistency> {
    let found = if let Some(first) = facts.strays.first() {
        format!(
            "lists the runs that wait at a gate; wrong entries of this gate: {}, such as run {first}: \
             the run has ended, or its record does not name this gate, or the run waits although it has a place",
            facts.strays.len()
        )
    } else if let Some(first) = facts.aside.first() {
        format!(
            "lists the runs that wait at a gate, but runs in quarantine have places at this gate \
             ({}), such as run {first}; no node starts these runs",
            facts.aside.len()
        )
    } else if facts.is_open_unnoticed {
        format!(
            "lists the runs that wait at a gate; no run has a place, \
             but no node will let the waiting runs in (waiting runs: {})",
            facts.queued.len()
        )
    } else if facts.is_unsorted {
        "lists the runs that wait at a gate, but the indexes by job or by lane list other runs"
            .to_owned()
    } else {
        return None;
    };
    let finding = Inconsistency::wrong(FindingSubject::Key(key.to_owned()), "gate", found);
    Some(finding.fixed_by("removes the wrong entries and lets waiting runs in"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correct_gate_has_no_finding_and_each_fault_has_one() {
        let run: RunId = "a@5".parse().unwrap();
        assert_eq!(
            judge_gate("k", &GateFacts { queued: vec![run.clone()], ..GateFacts::default() }),
            None
        );
        for (facts, wanted) in [
            (
                GateFacts { strays: vec![run.clone()], ..GateFacts::default() },
                "its record does not name this gate",
            ),
            (
                GateFacts { aside: vec![run.clone()], ..GateFacts::default() },
                "runs in quarantine have places at this gate (1)",
            ),
            (
                GateFacts { is_open_unnoticed: true, queued: vec![run], ..GateFacts::default() },
                "no node will let the waiting runs in",
            ),
            (GateFacts { is_unsorted: true, ..GateFacts::default() }, "indexes by job"),
        ] {
            let found = judge_gate("k", &facts).unwrap();
            assert!(found.to_string().contains(wanted), "{found}");
        }
    }
}
