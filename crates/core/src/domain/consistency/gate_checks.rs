//! The check of a gate. The lists of runs that have a place or wait at the gate must agree with the
//! records of these runs. If runs wait and no run has a place, the index `gate_timers` must have
//! the time at which a node lets a run in.

use super::inconsistency::{FindingSubject, Inconsistency};
use schedd_schedule::names::RunId;

/// The differences between a gate's lists of runs and the records of these runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateFacts {
    /// The runs with a wrong entry at the gate. Such a run has ended, or its record does not name
    /// the gate, or it has a place and also waits.
    pub strays: Vec<RunId>,
    /// The runs that have a place at the gate, although they are in quarantine and no node starts
    /// them.
    pub aside: Vec<RunId>,
    /// The runs that wait at the gate.
    pub queued: Vec<RunId>,
    /// True if runs wait, no run has a place, and no time is planned at which a node lets a run in.
    pub is_open_unnoticed: bool,
    /// True if the indexes of waiting runs by job or by lane differ from the gate's list of waiting
    /// runs.
    pub is_unsorted: bool,
}

/// Returns the finding for the first problem of a gate. Returns `None` if the gate has no problem.
/// `key` is the name of the Redis key that lists the runs that wait at the gate.
pub fn judge_gate(key: &str, facts: &GateFacts) -> Option<Inconsistency> {
    let found = if let Some(first) = facts.strays.first() {
        format!(
            "lists the runs that wait at a gate, but entries of this gate are wrong ({}), such as the entry of run {first}: \
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
            "lists runs that wait at a gate ({}), but no node will let the waiting runs in, \
             although no run has a place",
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
