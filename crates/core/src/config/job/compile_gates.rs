//! The compilers of a job's gates: `key` with `per_key`, and `not_while`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::config::key::json_sheet::{Form, Sheet};
use crate::config::key::rate_keys::compile_rate;
use crate::config::syntax::problem::{Problems, quoted};
use crate::config::syntax::reader::Spot;
use crate::domain::queue::gate::PerKey;
use schedd_schedule::names::JobName;

/// The keys of `per_key = { ... }`.
pub(crate) const PER_KEY: &[&str] = &["limit", "rate", "burst"];

/// The maximum number of jobs in `not_while`.
const MOST_NAMED: usize = 16;

/// Compiles `per_key = 2`, or a table such as `{ limit = 1, rate = "10/1m" }`. Returns `None` if a
/// fault was noted.
pub(crate) fn compile_per_key(spot: &Spot<'_>, problems: &mut Problems) -> Option<PerKey> {
    let limits = 1..=PerKey::MOST;
    if spot.is_integer() {
        return Some(PerKey { limit: Some(spot.integer(&limits, problems)?), rate: None });
    }
    let table = spot.table(
        "a number of runs at once, or a table such as { limit = 1, rate = \"10/1m\" }",
        problems,
    )?;
    let slips = table.refuse_other_keys(&[PER_KEY], &[], problems);
    let limit = table.get("limit").map(|spot| spot.integer(&limits, problems));
    let rate = compile_rate(&table, &slips, problems);
    if table.get("limit").is_none() && table.get("rate").is_none() {
        if slips.may_be(&["limit", "rate"]) {
            return None;
        }
        return spot
            .wanted(problems, "limit, rate or both, such as { limit = 1, rate = \"10/1m\" }");
    }
    if table.get("rate").is_some() && rate.is_none() {
        return None;
    }
    let limit = match limit {
        Some(given) => Some(given?),
        None => None,
    };
    Some(PerKey { limit, rate })
}

/// Notes a fault for a job that names itself in `not_while`.
pub(crate) fn refuse_itself(spot: &Spot<'_>, problems: &mut Problems) {
    spot.fault(
        problems,
        "found the job's own name, wanted names of other jobs; use overlap for runs of the same job",
    );
}

/// Compiles `not_while = ["backup"]`. A single name needs no brackets.
pub(crate) fn compile_not_while(
    spot: &Spot<'_>,
    problems: &mut Problems,
) -> Option<BTreeSet<JobName>> {
    let names: Vec<JobName> = match spot.as_items() {
        Some(items) => items
            .map(|item| item.parsed("backup", problems))
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Option<_>>()?,
        None if spot.as_text().is_some() => vec![spot.parsed("backup", problems)?],
        None => return spot.wanted(problems, "names of jobs such as [\"backup\"]"),
    };
    if names.iter().any(JobName::is_hidden) {
        return spot.wanted(
            problems,
            "job names without /: a name with / belongs to notices, which cannot block a job",
        );
    }
    let count = names.len();
    let mut distinct = BTreeSet::new();
    for name in names {
        if distinct.contains(&name) {
            spot.fault(
                problems,
                format!("found {} twice, wanted each job once", quoted(name.as_str())),
            );
            return None;
        }
        distinct.insert(name);
    }
    if count > MOST_NAMED {
        spot.fault(problems, format!("found {count} jobs, wanted at most {MOST_NAMED}"));
        return None;
    }
    Some(distinct)
}

/// Returns the limits of a concurrency key as JSON.
pub(crate) fn write_per_key(per_key: &PerKey, _form: Form) -> Value {
    let PerKey { limit, rate } = per_key;
    if let (Some(limit), None) = (limit, rate) {
        return (*limit).into();
    }
    let mut out = Sheet::default();
    if let Some(limit) = limit {
        out.put("limit", *limit);
    }
    if let Some(rate) = rate {
        out.put("rate", rate.to_string());
        if rate.burst() != rate.count() {
            out.put("burst", rate.burst());
        }
    }
    out.value()
}
