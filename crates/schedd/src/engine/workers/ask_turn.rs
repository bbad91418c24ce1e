//! The turn of a worker's question: which desk, and which node, may claim runs for it.
//!
//! A worker sends a question again, to this node or to another, if it got no answer. Redis keeps a note
//! of each question: marks of the nodes that let it wait, and the runs that were claimed for it, in the
//! order of time. The last mark before a claim decides: if it is the mark of another node, the claim is
//! void, and its runs are given back. The first claim for a question that finds no mark stands.
//!
//! Invariant: the note of a claim is written before the claim. So a node that marks a question, and then
//! reads the note, finds each claim that is not void, but for those that Redis carries out later.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first character of a mark. No id of a run begins with it.
const MARK: char = '!';
/// The first character of a writer: the incarnation of the node that claims runs, or nothing if it has not
/// marked the question.
const WRITER: char = '@';

/// The turn of a question. Of several desks of this node, the desk that claims runs for the question
/// has the turn, and keeps it if it claimed any.
#[derive(Debug)]
pub(super) struct AskTurn {
    is_taken: AtomicBool,
    /// The incarnation of this node.
    node: String,
    /// True if several desks have the question. Each marks it before its first claim.
    pub(super) is_shared: bool,
}

impl AskTurn {
    pub(super) fn new(node: String, is_shared: bool) -> Self {
        Self { is_taken: AtomicBool::default(), node, is_shared }
    }

    /// Takes the turn. Returns false if another desk has it.
    pub(super) fn take(&self) -> bool {
        !self.is_taken.swap(true, Ordering::AcqRel)
    }

    /// Gives the turn back.
    pub(super) fn give_back(&self) {
        self.is_taken.store(false, Ordering::Release);
    }

    /// Returns the mark of the question.
    pub(super) fn mark(&self) -> String {
        format!("{MARK}{}", self.node)
    }

    /// Returns the word that stands before the runs of a claim in the note of the question.
    pub(super) fn writer(&self, is_marked: bool) -> String {
        format!("{WRITER}{}", if is_marked { &self.node } else { "" })
    }
}

/// The runs in the note of a question whose claims are not void.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NotedRuns<'n> {
    /// The ids of the runs, in the order of their first claims.
    pub(super) ids: Vec<&'n str>,
    /// The ids with their writers.
    claims: BTreeSet<(&'n str, &'n str)>,
}

impl<'n> NotedRuns<'n> {
    pub(super) fn of(note: &'n str) -> Self {
        let mut runs = Self::default();
        let (mut last, mut writer) = (None, "");
        for word in note.split(' ').filter(|word| !word.is_empty()) {
            if let Some(mark) = word.strip_prefix(MARK) {
                last = Some(mark);
            } else if let Some(node) = word.strip_prefix(WRITER) {
                writer = node;
            } else if writer.is_empty() || last.is_none_or(|last| last == writer) {
                // A run is noted each time that its claim is tried.
                if !runs.ids.contains(&word) {
                    runs.ids.push(word);
                }
                runs.claims.insert((word, writer));
            }
        }
        runs
    }

    /// Returns true if the claim of the run by the node with this incarnation is not void.
    pub(super) fn has_claim(&self, run: &str, node: &str) -> bool {
        [node, ""].iter().any(|writer| self.claims.contains(&(run, *writer)))
    }
}

/// Returns true if a node has marked the question.
pub(super) fn has_mark(note: &str) -> bool {
    note.split(' ').any(|word| word.starts_with(MARK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_after_the_mark_of_another_node_is_void_and_any_other_stands() {
        let runs = |note| NotedRuns::of(note).ids.join(" ");
        assert_eq!(runs(""), "");
        assert_eq!(runs(" @ a@1 b@2 @ a@1"), "a@1 b@2");
        assert_eq!(runs(" !x @x a@1 !y @x b@2 @y c@3"), "a@1 c@3");
        assert_eq!(runs(" @ a@1 !x @ b@2 @x c@3 !y"), "a@1 b@2 c@3");
        // Both nodes wanted the run, and the record says which of them got it.
        let noted = NotedRuns::of(" !x !y @x a@1 @y a@1 b@2");
        assert!(noted.has_claim("a@1", "y") && !noted.has_claim("a@1", "x"));
        assert!(has_mark(" @ a@1 !x") && !has_mark(" @ a@1"));
    }
}
