//! The rules of one gate: who stands there is to, and nobody waits where nothing will let it in.

use super::finding::{Finding, Rule, Subject};
use crate::domain::ids::RunId;

/// How a gate stands to the records of the runs there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateFacts {
    /// Runs that stand there and are not to by their records, or that wait and have a place.
    pub strays: Vec<RunId>,
    /// Runs that have a place there and stand in quarantine and nowhere else.
    pub aside: Vec<RunId>,
    /// Runs that wait there.
    pub queued: Vec<RunId>,
    /// Whether runs wait, nobody has a place, and nothing says when it is to be looked at.
    pub is_open_unnoticed: bool,
    /// Whether the orders by job or by lane name others than wait there.
    pub is_unsorted: bool,
}

/// What does not agree at a gate; `key` is that of those that wait there.
pub fn judge_gate(key: &str, facts: &GateFacts) -> Option<Finding> {
    let found = if let Some(first) = facts.strays.first() {
        format!("{} runs stand at its gate that are not to by their records, such as {first}", facts.strays.len())
    } else if let Some(first) = facts.aside.first() {
        format!(
            "{} runs have a place at its gate and stand in quarantine, where nobody starts them, such as {first}",
            facts.aside.len()
        )
    } else if facts.is_open_unnoticed {
        format!("{} runs wait at its gate, nobody has a place there, and nothing will let them in", facts.queued.len())
    } else if facts.is_unsorted {
        "the order by job or by lane of its gate names others than wait there".to_owned()
    } else {
        return None;
    };
    let wanted = "runs at a gate whose records say so, and that wait for somebody";
    Some(Finding::fixed(
        Rule::GateWrong,
        Subject::Key(key.to_owned()),
        found,
        wanted,
        "takes out who is not to stand there and looks at the gate",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_gate_is_no_finding_and_each_fault_is_one() {
        let run: RunId = "a@5".parse().unwrap();
        assert_eq!(judge_gate("k", &GateFacts { queued: vec![run.clone()], ..GateFacts::default() }), None);
        for (facts, wanted) in [
            (GateFacts { strays: vec![run.clone()], ..GateFacts::default() }, "1 runs stand"),
            (
                GateFacts { aside: vec![run.clone()], ..GateFacts::default() },
                "1 runs have a place at its gate and stand in quarantine",
            ),
            (GateFacts { is_open_unnoticed: true, queued: vec![run], ..GateFacts::default() }, "nothing will let them in"),
            (GateFacts { is_unsorted: true, ..GateFacts::default() }, "order by job"),
        ] {
            let found = judge_gate("k", &facts).unwrap();
            assert!(found.to_string().contains(wanted), "{found}");
        }
    }
}
