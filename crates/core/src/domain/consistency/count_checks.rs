//! The check of the counters in Redis. Each counter must equal the number of items that it counts,
//! such as the bytes of output.

use super::inconsistency::{FindingSubject, Inconsistency};
use schedd_schedule::names::Fence;

/// The values of the counters in Redis, each with the number that the check itself counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CountFacts {
    /// The text of the counter of runs that wait for an open run of their job. `None` means 0.
    pub waiting: Option<String>,
    /// The number of runs that wait for an open run, as the check counted them. `None` if the
    /// number changed during the count.
    pub waiting_counted: Option<u64>,
    /// The text of the counter of bytes of output. `None` means 0.
    pub output_bytes: Option<String>,
    /// The bytes of output that the check counted. `None` if the number changed during the count.
    pub output_counted: Option<u64>,
    /// The text of the counter of skipped ranges in ledgers. `None` means 0.
    pub ledger_ranges: Option<String>,
    /// The number of skipped ranges in ledgers that the check counted. `None` if the number changed
    /// during the count.
    pub ledger_counted: Option<u64>,
    /// The jobs whose counter of output bytes is wrong.
    pub sizes: Vec<SizeFacts>,
    /// The text of the key `fence`, the last fence that was given out. `None` if the key is
    /// missing.
    pub fence: Option<String>,
    /// The highest fence of a lease or record that the check found. `None` if it found no fence.
    pub highest: Option<Fence>,
}

/// A wrong counter of a job's output bytes, with the number that the check counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeFacts {
    /// The name of the job, as a field of the Redis hash `output_sizes`.
    pub job: String,
    /// The text of the job's counter of output bytes in Redis. `None` means 0.
    pub said: Option<String>,
    /// The bytes of output of the job that the check counted in Redis.
    pub counted: u64,
}

impl CountFacts {
    /// Forgets each count that differs from its counter by another amount than in the earlier
    /// reading `before`. Such a difference comes from a write during the count and is not a fault.
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

    /// Returns the facts of the counters in the Redis key `rest`, and always the facts of the
    /// fence. All other facts are empty. `rest` is the name of the key without the prefix of the
    /// namespace.
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

/// Parses the text of a counter. A missing counter is 0. Returns `None` if the text is not a
/// number.
fn number(counter: Option<&str>) -> Option<u64> {
    counter.map_or(Some(0), |text| text.parse().ok())
}

/// Returns a finding for each counter that differs from the counted number. `name` adds the prefix
/// of the namespace to the name of a Redis key.
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
    for (key, plural_items, counter, counted) in counters {
        let Some(counted) = counted.filter(|counted| number(counter.as_deref()) != Some(*counted))
        else {
            continue;
        };
        findings.push(wrong(
            key,
            format!(
                "counts {plural_items} as {value}, but Redis has {counted}",
                value = counter.as_deref().unwrap_or("0")
            ),
        ));
    }
    if let Some(SizeFacts { job, said, counted }) = facts.sizes.first() {
        let and_other_jobs = if facts.sizes.len() > 1 {
            format!("; the counters of {} jobs are wrong", facts.sizes.len())
        } else {
            String::new()
        };
        let value = said.as_deref().unwrap_or("0");
        let found = format!(
            "counts the bytes of output of job {job} as {value}, but Redis has {counted}{and_other_jobs}"
        );
        findings.push(wrong("output_sizes", found));
    }
    let last =
        facts.fence.as_deref().and_then(|text| text.parse::<u64>().ok()).and_then(Fence::new);
    let is_damaged = facts.fence.is_some() && last.is_none();
    if is_damaged || facts.highest.is_some_and(|highest| last.is_none_or(|last| last < highest)) {
        let is_missing_or_has_value = facts
            .fence
            .as_ref()
            .map_or_else(|| "is missing".to_owned(), |text| format!("has the value {text:?}"));
        let found = match facts.highest {
            Some(highest) => {
                format!("{is_missing_or_has_value}, but the fence {highest} is in use")
            }
            None => format!("{is_missing_or_has_value}; wanted a whole number above 0"),
        };
        findings.push(wrong("fence", found).fixed_by(
            "sets the key to the highest fence in use, or deletes the key if no fence is in use",
        ));
    }
    findings
}
