//! The counters: each is what it counts.

use super::finding::{Finding, Rule, Subject};
use crate::domain::ids::Fence;

/// The counters and what they count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CountFacts {
    /// The counter of waiting runs, as text.
    pub waiting: Option<String>,
    /// How many wait; none if that moved while it was counted.
    pub waiting_counted: Option<u64>,
    /// The counter of bytes of output, as text.
    pub output_bytes: Option<String>,
    /// How many are kept; none if that moved while it was counted.
    pub output_counted: Option<u64>,
    /// The counter of ranges in ledgers, as text.
    pub ledger_ranges: Option<String>,
    /// How many there are; none if that moved while it was counted.
    pub ledger_counted: Option<u64>,
    /// The jobs whose bytes of output are counted otherwise than they are.
    pub sizes: Vec<SizeFacts>,
    /// The last fence, as text.
    pub fence: Option<String>,
    /// The highest fence in use.
    pub highest: Option<Fence>,
}

/// The bytes of output of one job, counted wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeFacts {
    /// The field of the job.
    pub job: String,
    /// What it says, as text.
    pub said: Option<String>,
    /// How many are kept.
    pub counted: u64,
}

impl CountFacts {
    /// Forgets what is not off by as much as it was `before`.
    pub fn forget_what_moved(&mut self, before: &Self) {
        let off =
            |counter: &Option<String>, counted: Option<u64>| Some(i128::from(number(counter.as_deref())?) - i128::from(counted?));
        let moved = |counter: &Option<String>, counted, other: &Option<String>, was| off(counter, counted) != off(other, was);
        if moved(&self.waiting, self.waiting_counted, &before.waiting, before.waiting_counted) {
            self.waiting_counted = None;
        }
        if moved(&self.output_bytes, self.output_counted, &before.output_bytes, before.output_counted) {
            self.output_counted = None;
        }
        if moved(&self.ledger_ranges, self.ledger_counted, &before.ledger_ranges, before.ledger_counted) {
            self.ledger_counted = None;
        }
        self.sizes.retain(|size| {
            let was = before.sizes.iter().find(|other| other.job == size.job);
            was.is_some_and(|was| !moved(&size.said, Some(size.counted), &was.said, Some(was.counted)))
        });
    }

    /// Only what is known of the counters in the key `rest` of the namespace, and of the fence.
    #[must_use]
    pub fn in_key(&self, rest: &str) -> Self {
        let mut facts = Self { fence: self.fence.clone(), highest: self.highest, ..Self::default() };
        match rest {
            "totals" => {
                (facts.waiting, facts.waiting_counted) = (self.waiting.clone(), self.waiting_counted);
                (facts.ledger_ranges, facts.ledger_counted) = (self.ledger_ranges.clone(), self.ledger_counted);
            }
            "output_bytes" => {
                (facts.output_bytes, facts.output_counted) = (self.output_bytes.clone(), self.output_counted);
            }
            "output_sizes" => facts.sizes.clone_from(&self.sizes),
            _ => {}
        }
        facts
    }
}

/// What a counter says; none if it is no number.
fn number(counter: Option<&str>) -> Option<u64> {
    counter.map_or(Some(0), |text| text.parse().ok())
}

/// Which counters are wrong. `name` makes a key's whole name of its own.
pub fn judge_counts(facts: &CountFacts, name: impl Fn(&str) -> String) -> Vec<Finding> {
    let mut findings = Vec::new();
    let counters = [
        ("totals", "waiting runs", &facts.waiting, facts.waiting_counted),
        ("output_bytes", "bytes of output", &facts.output_bytes, facts.output_counted),
        ("totals", "ranges in ledgers", &facts.ledger_ranges, facts.ledger_counted),
    ];
    for (key, what, counter, counted) in counters {
        let Some(counted) = counted.filter(|counted| number(counter.as_deref()) != Some(*counted)) else { continue };
        let found = format!("it counts {} {what}, and there are {counted}", counter.as_deref().unwrap_or("no"));
        findings.push(Finding::fixed(Rule::Count, Subject::Key(name(key)), found, "a counter that is what it counts", "sets it"));
    }
    if let Some(SizeFacts { job, said, counted }) = facts.sizes.first() {
        let others = if facts.sizes.len() > 1 { format!("of {} jobs ", facts.sizes.len()) } else { String::new() };
        let said = said.as_deref().unwrap_or("no");
        let found =
            format!("it is wrong {others}of the bytes of output kept: of {job} it counts {said}, and there are {counted}");
        let wanted = "a counter that is what it counts";
        findings.push(Finding::fixed(Rule::Count, Subject::Key(name("output_sizes")), found, wanted, "sets it"));
    }
    let last = facts.fence.as_deref().and_then(|text| text.parse::<u64>().ok()).and_then(Fence::new);
    let is_spoilt = facts.fence.is_some() && last.is_none();
    if is_spoilt || facts.highest.is_some_and(|highest| last.is_none_or(|last| last < highest)) {
        let found = match (&facts.fence, facts.highest) {
            (None, Some(highest)) => format!("it is not there, and {highest} is in use"),
            (Some(text), Some(highest)) => format!("it is {text:?}, and {highest} is in use"),
            (text, None) => format!("it is {:?}", text.as_deref().unwrap_or_default()),
        };
        let wanted = "a number no lower than any fence in use";
        findings.push(Finding::fixed(Rule::Fence, Subject::Key(name("fence")), found, wanted, "raises it"));
    }
    findings
}
