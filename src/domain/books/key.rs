//! The keys themselves: each has a name schedd knows, holds what the name says, and stays.

use super::finding::{Finding, Mend, Rule, Subject};
use crate::domain::ids::{Fence, IdError, JobName, RunId};
use crate::domain::time::UnixMillis;

/// What is known of a key by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It is to hold this.
    Type(&'static str),
    /// It was moved aside, whatever it holds.
    SetAside,
    /// No key of schedd has this name.
    No,
}

/// How a key stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFacts {
    /// Its whole name, as shown.
    pub name: String,
    /// Its name within the namespace.
    pub rest: String,
    /// What it holds, as Redis names it.
    pub kind: String,
    /// Whether it goes by itself after a time.
    pub expires: bool,
}

/// What the key `rest` of a namespace is to hold.
pub fn known_key(rest: &str) -> Known {
    let (family, is_of_one) = rest.split_once(':').map_or((rest, false), |(family, _)| (family, true));
    match (family, is_of_one) {
        (
            "leases" | "jobs" | "finished" | "history" | "dead" | "outputs" | "nodes" | "noted_nodes" | "losses" | "backfills"
            | "boots" | "boot_runs",
            false,
        )
        | (
            "due" | "open" | "waiting" | "spread" | "history" | "dead" | "outputs" | "deeds" | "events" | "ledger" | "backfill",
            true,
        ) => Known::Type("zset"),
        ("stops" | "totals" | "queues" | "quarantine" | "audit" | "output_sizes", false)
        | ("job" | "run" | "output" | "node" | "source" | "ledger_before", true) => Known::Type("hash"),
        ("fence" | "output_bytes" | "epoch" | "settling", false) => Known::Type("string"),
        ("quarantined", true) => Known::SetAside,
        _ => Known::No,
    }
}

/// What is wrong with one key. The events of a node go by themselves when it is long gone.
pub fn judge_key(facts: &KeyFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let subject = || Subject::Key(facts.name.clone());
    match known_key(&facts.rest) {
        Known::Type(wanted) if wanted != facts.kind => findings.push(Finding {
            rule: Rule::WrongType,
            subject: subject(),
            found: format!("it holds a {}", facts.kind),
            wanted,
            mend: Mend::Fix("moves it to quarantine; it is made anew"),
        }),
        Known::No => {
            let advice = format!("if nothing of yours needs it: DEL {}", facts.name);
            let found = "schedd has no key of that name";
            findings.push(Finding::by_hand(Rule::UnknownKey, subject(), found, "keys of schedd only in its namespace", advice));
        }
        Known::Type(_) | Known::SetAside => {}
    }
    if facts.expires && !facts.rest.starts_with("events:") {
        let found = "it goes by itself after a time (TTL)";
        findings.push(Finding::fixed(Rule::Expires, subject(), found, "keys that stay", "takes the time off it"));
    }
    findings
}

/// What a member of a sorted set is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Member {
    /// A run, with the fence of a lease.
    Run(RunId, Option<Fence>),
    /// A job.
    Job(JobName),
    /// Something the books do not judge.
    Other,
}

/// What the member of the sorted set `rest` is, or why it cannot be there.
pub fn judge_member(rest: &str, member: &str, score: &str) -> Result<Member, String> {
    let family = rest.split(':').next().unwrap_or_default();
    let is_run = matches!(family, "due" | "open" | "waiting" | "spread" | "history" | "dead");
    let read = match family {
        "leases" => {
            let parts =
                member.split_once('#').and_then(|(run, fence)| Some((run.parse().ok()?, Fence::new(fence.parse().ok()?)?)));
            parts.map(|(run, fence)| Member::Run(run, Some(fence))).ok_or_else(|| "it is no lease (RUN#FENCE)".to_owned())
        }
        "jobs" | "finished" => member.parse().map(Member::Job).map_err(|error: IdError| error.to_string()),
        _ if is_run => match member.parse::<RunId>() {
            Ok(run) if matches!(family, "due") || rest == family || rest[family.len() + 1..] == *run.job().as_str() => {
                Ok(Member::Run(run, None))
            }
            Ok(run) => Err(format!("it is a run of job {}", run.job())),
            Err(error) => Err(error.to_string()),
        },
        _ => Ok(Member::Other),
    }?;
    // A lease with an end no lease has is one all the same, and a place in the index of jobs has its own rule.
    let ready = score.parse::<f64>().ok().filter(|ready| ready.is_finite());
    #[expect(clippy::cast_precision_loss, reason = "the end of time is far below 2^53")]
    let is_instant = ready.is_some_and(|ready| (0.0..UnixMillis::END as f64).contains(&ready));
    if is_run && !is_instant {
        return Err(format!("its score {score} is no instant"));
    }
    Ok(read)
}

/// What there is to say of a sorted set that holds what it should not; `first` says which and why.
pub fn bad_entries(key: String, count: usize, first: &str) -> Finding {
    let found = if count == 1 {
        format!("it holds {first}")
    } else {
        format!("it holds {count} entries that cannot be there, as {first}")
    };
    Finding::fixed(Rule::Entry, Subject::Key(key), found, "runs or jobs at instants there are", "moves them to quarantine")
}

/// What is wrong between kept outputs and their index, the key `index`: so many entries without an output, so many outputs that
/// it does not name.
pub fn judge_outputs(index: String, missing: usize, unlisted: usize) -> Option<Finding> {
    let found = format!("{missing} of its entries have no output, and {unlisted} outputs are not in it");
    let wanted = "an index of the outputs that are kept";
    (missing + unlisted > 0).then(|| Finding::fixed(Rule::OutputWrong, Subject::Key(index), found, wanted, "makes it agree"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_name_alone_and_one_of_a_job_is_not_one_of_all() {
        assert_eq!(known_key("leases"), Known::Type("zset"));
        assert_eq!(known_key("history:a"), Known::Type("zset"));
        assert_eq!(known_key("job:a"), Known::Type("hash"));
        assert_eq!(known_key("quarantined:job:a:5"), Known::SetAside);
        for other in ["job", "leases:a", "history2", ""] {
            assert_eq!(known_key(other), Known::No, "{other}");
        }
    }
}
