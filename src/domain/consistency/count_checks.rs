//! The rule of counters in Redis: each counter equals the number of things that the counter counts.

use super::inconsistency::{FindingSubject, Inconsistency};
use crate::domain::name::names::Fence;

/// The values of counters in Redis, each with the number that the check counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CountFacts {
    /// The text in the counter of waiting runs.
    pub waiting: Option<String>,
    /// The number of waiting runs that the check counted. `None` if the number changed during the
    /// count.
    pub waiting_counted: Option<u64>,
    /// The text in the counter of bytes of output.
    pub output_bytes: Option<String>,
    /// The bytes of output that the check counted. `None` if the number changed during the count.
    pub output_counted: Option<u64>,
    /// The text in the counter of ranges in ledgers.
    pub ledger_ranges: Option<String>,
    /// The number of ranges in ledgers that the check counted. `None` if the number changed during
    /// the count.
    pub ledger_counted: Option<u64>,
    /// The jobs whose counter of output bytes is wrong.
    pub sizes: Vec<SizeFacts>,
    /// The text of the key with the last fence.
    pub fence: Option<String>,
    /// The highest fence that the check found in use.
    pub highest: Option<Fence>,
}

/// A job with a wrong counter of output bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeFacts {
    /// The field of the hash `output_sizes` that belongs to the job.
    pub job: String,
    /// The text in the job's counter of output bytes.
    pub said: Option<String>,
    /// The bytes of output that Redis keeps of the job.
    pub counted: u64,
}

impl CountFacts {
    /// Removes each difference from these facts that is not the same in `before`, an earlier
    /// reading. A difference that changed between two readings may come from a count during a
    /// change.
    pub fn forget_what_moved(&mut self, before: &Self) {
        let off = |counter: &Option<String>, counted: Option<u64>| {
            Some(i128::from(number(counter.as_deref())?) - i128::from(counted?))
        };
        let moved = |counter: &Option<String>, counted, other: &Option<String>, was| {
            off(counter, counted) != off(other, was)
        };
        if moved(&self.waiting, self.waiting_counted, &before.waiting, before.waiting_counted) {
            self.waiting_counted = None;
        }
        if moved(
            &self.output_bytes,
            self.output_counted,
            &before.output_bytes,
            before.output_counted,
        ) {
            self.output_counted = None;
        }
        if moved(
            &self.ledger_ranges,
            self.ledger_counted,
            &before.ledger_ranges,
            before.ledger_counted,
        ) {
            self.ledger_counted = None;
        }
        self.sizes.retain(|size| {
            let was = before.sizes.iter().find(|other| other.job == size.job);
            was.is_some_and(|was| {
                !moved(&size.said, Some(size.counted), &was.said, Some(was.counted))
            })
        });
    }

    /// Returns the part of these facts that concerns the fence and the counters in the key `rest`
    /// of the namespace.
    #[must_use]
    pub fn in_key(&self, rest: &str) -> Self {
        let mut facts =
            Self { fence: self.fence.clone(), highest: self.highest, ..Self::default() };
        match rest {
            "counters" => {
                (facts.waiting, facts.waiting_counted) =
                    (self.waiting.clone(), self.waiting_counted);
                (facts.ledger_ranges, facts.ledger_counted) =
                    (self.ledger_ranges.clone(), self.ledger_counted);
            }
            "output_bytes" => {
                (facts.output_bytes, facts.output_counted) =
                    (self.output_bytes.clone(), self.output_counted);
            }
            "output_sizes" => facts.sizes.clone_from(&self.sizes),
            _ => {}
        }
        facts
    }
}

/// Parses the value of a counter. Returns `None` if the text is not a number.
fn number(counter: Option<&str>) -> Option<u64> {
    counter.map_or(Some(0), |text| text.parse().ok())
}

/// Returns a finding for each wrong counter. `name` turns a key of the namespace into its full
/// name.
pub fn judge_counts(facts: &CountFacts, name: impl Fn(&str) -> String) -> Vec<Inconsistency> {
    let wrong = |place: &'static str, found: String| {
        Inconsistency::wrong(FindingSubject::Key(name(place)), place, found)
    };
    let mut findings = Vec::new();
    let counters = [
        ("counters", "waiting runs", &facts.waiting, facts.waiting_counted),
        ("output_bytes", "bytes of output", &facts.output_bytes, facts.output_counted),
        ("counters", "ranges in ledgers", &facts.ledger_ranges, facts.ledger_counted),
    ];
    for (key, what, counter, counted) in counters {
        let Some(counted) = counted.filter(|counted| number(counter.as_deref()) != Some(*counted))
        else {
            continue;
        };
        findings.push(wrong(
            key,
            format!(
                "counts {} {what}, and there are {counted}",
                counter.as_deref().unwrap_or("no")
            ),
        ));
    }
    if let Some(SizeFacts { job, said, counted }) = facts.sizes.first() {
        let others = if facts.sizes.len() > 1 {
            format!("; {} jobs are wrong", facts.sizes.len())
        } else {
            String::new()
        };
        let said = said.as_deref().unwrap_or("no");
        let found =
            format!("counts {said} bytes of output of job {job}, and {counted} are kept{others}");
        findings.push(wrong("output_sizes", found));
    }
    let last =
        facts.fence.as_deref().and_then(|text| text.parse::<u64>().ok()).and_then(Fence::new);
    let is_damaged = facts.fence.is_some() && last.is_none();
    if is_damaged || facts.highest.is_some_and(|highest| last.is_none_or(|last| last < highest)) {
        let is =
            facts.fence.as_ref().map_or_else(|| "missing".to_owned(), |text| format!("{text:?}"));
        let found = match facts.highest {
            Some(highest) => format!("is {is}, and {highest} is in use"),
            None => format!("is {is}, and should be a number"),
        };
        findings.push(wrong("fence", found).fixed_by("raises it"));
    }
    findings
}
