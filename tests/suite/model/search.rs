//! The search of all reachable states, nearest first. The trace to a broken promise is therefore a
//! shortest one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;

use super::properties::Property;
use super::rules::Rules;
use super::state::State;
use super::steps::{self, Step};
use super::taking::take;

/// The number of states beyond which a configuration is too large for a test.
const MOST: usize = 500_000;

/// The size of a finished search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Explored {
    pub(super) states: usize,
    pub(super) steps: usize,
}

/// A broken promise, and the steps that lead to it.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) property: Property,
    pub(super) trace: String,
}

/// Visits all states of `rules` and checks each against `properties`.
pub(super) fn explore(rules: &Rules, properties: &[Property]) -> Result<Explored, Violation> {
    let first = State::first(rules);
    let mut numbers: HashMap<State, u32> = HashMap::from([(first, 0)]);
    let mut states = vec![first];
    // For each state, the state and step from which it was first reached; for the first state,
    // itself.
    let mut ways: Vec<(u32, Step)> = vec![(0, Step::Add)];
    // The steps that happen without faults, from their end to their start.
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut steps_taken = 0;
    let mut at = 0;
    while let Some(&state) = states.get(at) {
        let number = u32::try_from(at).unwrap();
        assert!(states.len() < MOST, "more than {MOST} states: {rules:?}");
        if let Some(property) = properties.iter().find(|property| !property.holds(&state, rules)) {
            return Err(Violation { property: *property, trace: trace(rules, &states, &ways, at) });
        }
        for step in steps::possible(&state, rules) {
            steps_taken += 1;
            let (next, _) = take(&state, rules, step);
            let is_fault = step.is_fault(&state, &next);
            let to = match numbers.entry(next) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let to = u32::try_from(states.len()).unwrap();
                    new.insert(to);
                    states.push(next);
                    ways.push((number, step));
                    to
                }
            };
            if !is_fault {
                edges.push((to, number));
            }
        }
        at += 1;
    }
    if properties.contains(&Property::EveryRunEnds)
        && let Some(dead_end) = dead_end(rules, &states, edges)
    {
        return Err(Violation {
            property: Property::EveryRunEnds,
            trace: trace(rules, &states, &ways, dead_end),
        });
    }
    Ok(Explored { states: states.len(), steps: steps_taken })
}

/// Returns the nearest state from which only faults lead to the end of every run.
fn dead_end(rules: &Rules, states: &[State], mut edges: Vec<(u32, u32)>) -> Option<usize> {
    edges.sort_unstable();
    let mut reaches: Vec<bool> = states.iter().map(|state| state.is_settled(rules)).collect();
    let mut todo: Vec<u32> =
        (0u32..).zip(&reaches).filter(|(_, reaches)| **reaches).map(|(number, _)| number).collect();
    while let Some(to) = todo.pop() {
        let start = edges.partition_point(|(end, _)| *end < to);
        for (_, from) in edges[start..].iter().take_while(|(end, _)| *end == to) {
            if !std::mem::replace(&mut reaches[*from as usize], true) {
                todo.push(*from);
            }
        }
    }
    reaches.iter().position(|reaches| !reaches)
}

/// Returns the steps to the `at`-th state, one a line, each with the reply of Redis.
fn trace(rules: &Rules, states: &[State], ways: &[(u32, Step)], mut at: usize) -> String {
    let mut numbers = Vec::new();
    while at > 0 {
        numbers.push(at);
        at = ways[at].0 as usize;
    }
    let mut text = String::new();
    for (line, number) in numbers.iter().rev().enumerate() {
        let (from, step) = ways[*number];
        let (_, did) = take(&states[from as usize], rules, step);
        let _ = write!(text, "{:3}. {step}", line + 1);
        if let Some((_, reply)) = did {
            let _ = write!(text, " -> {}", format!("{reply:?}").to_lowercase());
        }
        text.push('\n');
    }
    text
}
