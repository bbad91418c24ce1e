//! The checks of the Redis keys in the namespace: each key has a known name, the type of its
//! family, and no expiry.

use super::inconsistency::{FindingKind, FindingSubject, Inconsistency, Mend};
use crate::domain::job::notice::Deadline;
use crate::domain::job::unique_rule::UniqueKey;
use crate::domain::queue::gate::Gate;
use crate::domain::queue::lane::Lane;
use schedd_schedule::chain::chain_end::ChainEnd;
use schedd_schedule::chain::chain_graph::FormerLink;
use schedd_schedule::names::{Fence, IdError, JobName, NodeName, QueueName, RunId, RunKind};
use schedd_schedule::time::unix_millis::UnixMillis;

/// The result of the search for a name among the names of schedd's Redis keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownNames {
    /// A key of schedd. The text is the Redis type that the key must have.
    Type(&'static str),
    /// A key that was moved to quarantine. Such a key may have any type.
    SetAside,
    /// A key with a name that schedd does not know.
    No,
}

/// The facts of one key: its name, type and expiry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFacts {
    /// The full name of the key, with `\xNN` for each byte that is not text.
    pub name: String,
    /// The name of the key without the prefix of the namespace.
    pub rest: String,
    /// The type of the key by the Redis command `TYPE`.
    pub kind: String,
    /// True if the key has an expiry (a time to live).
    pub expires: bool,
}

/// The names of the keys that exist once in a namespace, each with the Redis type of the key.
pub const SINGLE_KEYS: [(&str, &str); 38] = [
    ("leases", "zset"),
    ("jobs", "zset"),
    ("finished", "zset"),
    ("history", "zset"),
    ("dead", "zset"),
    ("outputs", "zset"),
    ("nodes", "zset"),
    ("event_nodes", "zset"),
    ("data_losses", "zset"),
    ("discarded", "zset"),
    ("backfills", "zset"),
    ("boots", "zset"),
    ("boot_runs", "zset"),
    ("uniques", "zset"),
    ("lanes", "zset"),
    ("gate_timers", "zset"),
    ("not_while", "zset"),
    ("not_while_recent", "zset"),
    ("job_gates", "zset"),
    ("notices", "zset"),
    ("chains", "zset"),
    ("chain_ends", "zset"),
    ("deadlines", "zset"),
    ("stop_requests", "hash"),
    ("counters", "hash"),
    ("queues", "hash"),
    ("groups", "hash"),
    ("quarantine", "hash"),
    ("consistency_check", "hash"),
    ("output_sizes", "hash"),
    ("known_servers", "hash"),
    ("fence", "string"),
    ("output_bytes", "string"),
    ("epoch", "string"),
    ("restoring_until", "string"),
    ("replica_mark", "string"),
    ("shards", "string"),
    ("nudge", "string"),
];

/// The families of keys, each with the Redis type of its keys. The name of such a key is
/// `FAMILY:NAME`.
pub const FAMILIES: [(&str, &str); 35] = [
    ("due", "zset"),
    ("running", "zset"),
    ("open", "zset"),
    ("manual", "zset"),
    ("waiting", "zset"),
    ("catch_up", "zset"),
    ("history", "zset"),
    ("dead", "zset"),
    ("outputs", "zset"),
    ("audit_log", "zset"),
    ("schedule_versions", "zset"),
    ("events", "zset"),
    ("ledger", "zset"),
    ("backfill", "zset"),
    ("gate_holders", "zset"),
    ("gate_waiters", "zset"),
    ("gate_waiters_by_job", "zset"),
    ("gate_waiters_by_lane", "zset"),
    ("gate_waiter_lanes", "zset"),
    ("job", "hash"),
    ("run", "hash"),
    ("output", "hash"),
    ("node", "hash"),
    ("source", "hash"),
    ("declared", "hash"),
    ("queue", "hash"),
    ("queue_state", "hash"),
    ("group", "hash"),
    ("ledger_before", "hash"),
    ("gate", "hash"),
    ("unique", "hash"),
    ("chain", "hash"),
    ("gate_rate", "string"),
    ("answer", "string"),
    ("used_link", "string"),
];

/// Returns the Redis type that the key `rest` must have. Returns `SetAside` for a key in
/// quarantine, and `No` for an unknown key. `rest` is the name of the key without the prefix of the
/// namespace.
pub fn known_key(rest: &str) -> KnownNames {
    let of = |known: &[(&str, &'static str)], name: &str| {
        known.iter().find(|(key, _)| *key == name).map(|(_, kind)| *kind)
    };
    match rest.split_once(':') {
        Some(("quarantined", _)) => KnownNames::SetAside,
        Some((family, _)) => of(&FAMILIES, family).map_or(KnownNames::No, KnownNames::Type),
        None => of(&SINGLE_KEYS, rest).map_or(KnownNames::No, KnownNames::Type),
    }
}

/// Returns the family of the key `rest`. For a key that exists once in a namespace, returns its
/// name. Returns an empty text for an unknown key.
pub fn family_of(rest: &str) -> &'static str {
    let (name, families) =
        rest.split_once(':').map_or((rest, &SINGLE_KEYS[..]), |(name, _)| (name, &FAMILIES[..]));
    families.iter().find(|(family, _)| *family == name).map_or("", |(family, _)| family)
}

/// Returns the finding for a lane that has due runs, but that the Redis key `lanes` does not list.
/// No node polls such a lane. `name` is the name of the lane's due set.
pub fn unknown_lane(name: String) -> Inconsistency {
    let found =
        "has due runs, but the index lanes does not list its lane, so no node starts these runs";
    Inconsistency::new(FindingKind::Missing, FindingSubject::Key(name), "lanes", found)
}

/// Returns the findings about the name, type and expiry of a key. Only the events of a node, the
/// state of a rate limit and the marks of the HTTP API may expire.
pub fn judge_key(facts: &KeyFacts) -> Vec<Inconsistency> {
    let mut findings = Vec::new();
    let subject = || FindingSubject::Key(facts.name.clone());
    match known_key(&facts.rest) {
        KnownNames::Type(wanted) if wanted != facts.kind => {
            let why = format!("its type is {}", facts.kind);
            let wanted = format!("the type {wanted}");
            let finding = Inconsistency::unreadable(subject(), family_of(&facts.rest), why, wanted);
            let fix = "moves the key to quarantine; schedd creates the key again";
            findings.push(finding.fixed_by(fix));
        }
        KnownNames::No => findings.push(Inconsistency {
            kind: FindingKind::UnknownKey,
            place: "",
            subject: subject(),
            found: "is in the namespace, but schedd has no key of this name".to_owned(),
            mend: Mend::Hand(format!(
                "if no other program needs the key, delete it: DEL {}",
                facts.name
            )),
        }),
        KnownNames::Type(_) | KnownNames::SetAside => {}
    }
    let expiring = ["events", "gate_rate", "answer", "used_link"];
    let may_expire = expiring.contains(&family_of(&facts.rest));
    if facts.expires && !may_expire {
        let found = "has an expiry time (TTL), but keys of this family must not expire";
        findings.push(
            Inconsistency::new(FindingKind::Extra, subject(), "expiry", found)
                .fixed_by("removes the expiry"),
        );
    }
    findings
}

/// The kind of a member of a sorted set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Member {
    /// A run. For a member of `leases`, the fence is the fence of the lease.
    Run(RunId, Option<Fence>),
    /// A job with this name.
    Job(JobName),
    /// The unique key of a job.
    Unique(UniqueKey),
    /// A member that needs no further check.
    Other,
}

/// Returns the kind of a member of the sorted set `rest`. `rest` is the name of the set without the
/// prefix of the namespace. The error is a clause that says why the set cannot have this member or
/// score.
#[expect(clippy::too_many_lines, reason = "a table: each family of keys with its members")]
pub fn judge_member(rest: &str, member: &str, score: &str) -> Result<Member, String> {
    let family = rest.split(':').next().unwrap_or_default();
    let is_run = matches!(
        family,
        "due"
            | "running"
            | "open"
            | "manual"
            | "waiting"
            | "catch_up"
            | "history"
            | "dead"
            | "backfill"
            | "gate_holders"
            | "gate_waiters"
    );
    let read = match family {
        "leases" => {
            let parts = member.split_once('#').and_then(|(run, fence)| {
                Some((run.parse().ok()?, Fence::new(fence.parse().ok()?)?))
            });
            parts
                .map(|(run, fence)| Member::Run(run, Some(fence)))
                .ok_or_else(|| "the entry is not a lease (RUN#FENCE)".to_owned())
        }
        "jobs" | "finished" | "backfills" => {
            member.parse().map(Member::Job).map_err(|error: IdError| error.to_string())
        }
        "outputs" => match member.split_once('#').and_then(|(run, attempt)| {
            Some((run.parse::<RunId>().ok()?, attempt.parse::<u32>().ok()?))
        }) {
            Some((run, _)) if rest == family || rest[family.len() + 1..] == *run.job().as_str() => {
                Ok(Member::Other)
            }
            Some((run, _)) => Err(format!(
                "the entry is an output of job {}, but the key belongs to another job",
                run.job()
            )),
            None => Err("the entry is not an output (RUN#ATTEMPT)".to_owned()),
        },
        "nodes" | "event_nodes" => {
            member.parse().map(|_: NodeName| Member::Other).map_err(|error| error.to_string())
        }
        "boots" => is_boot(member)
            .then_some(Member::Other)
            .ok_or_else(|| "the entry is not a boot of a host (@HOST BOOT)".to_owned()),
        "boot_runs" => {
            let job_and_boot = member
                .split_once(' ')
                .filter(|(job, boot)| job.parse::<JobName>().is_ok() && is_boot(boot));
            job_and_boot
                .map(|_| Member::Other)
                .ok_or_else(|| "the entry is not a job of a boot (JOB @HOST BOOT)".to_owned())
        }
        "lanes" => {
            let lane = member.parse().map(|_: Lane| Member::Other);
            lane.map_err(|_| "the entry is not the name of a lane".to_owned())
        }
        "gate_timers" => Gate::from_name(member)
            .map(|_| Member::Other)
            .ok_or_else(|| "the entry is not a gate (KIND:NAME)".to_owned()),
        "chains" => {
            let pair = member.split_once(' ').and_then(|(parent, child)| {
                parent.parse::<JobName>().ok()?;
                child.parse().ok()
            });
            pair.map(Member::Job)
                .or_else(|| FormerLink::read(member).map(|_| Member::Other))
                .ok_or_else(|| {
                    "the entry is not a parent and its child (JOB JOB or JOB JOB MS)".to_owned()
                })
        }
        "not_while" | "not_while_recent" => {
            let parts = member
                .split_once(' ')
                .filter(|(a, b)| a.parse::<JobName>().is_ok() && b.parse::<JobName>().is_ok());
            parts
                .map(|_| Member::Other)
                .ok_or_else(|| "the entry is not a pair of jobs (JOB JOB)".to_owned())
        }
        "gate_waiters_by_job" => {
            let run = member.rsplit_once(' ').and_then(|(_, run)| run.parse::<RunId>().ok());
            let is_entry = run.is_some_and(|run| member.starts_with(&format!("{} ", run.job())));
            is_entry.then_some(Member::Other).ok_or_else(|| {
                "the entry is not a waiting run of a job (JOB LANE DUE RUN)".to_owned()
            })
        }
        "gate_waiters_by_lane" => {
            let run = member.rsplit_once(' ').and_then(|(_, run)| run.parse::<RunId>().ok());
            let is_entry = run.is_some() && member.split(' ').count() == 3;
            is_entry
                .then_some(Member::Other)
                .ok_or_else(|| "the entry is not a waiting run of a lane (LANE DUE RUN)".to_owned())
        }
        "gate_waiter_lanes" => {
            let parts = member
                .split_once(' ')
                .filter(|(run, lane)| run.parse::<RunId>().is_ok() && lane.parse::<Lane>().is_ok());
            parts
                .map(|_| Member::Other)
                .ok_or_else(|| "the entry does not name a run and its lane (RUN LANE)".to_owned())
        }
        "deadlines" => {
            let parts = member.split_once(' ').filter(|(run, kind)| {
                run.parse::<RunId>().is_ok() && Deadline::parse(kind).is_some()
            });
            let run = parts.and_then(|(run, _)| run.parse().ok());
            run.map(|run| Member::Run(run, None)).ok_or_else(|| {
                "the entry is not a deadline (its form is RUN start or RUN finish)".to_owned()
            })
        }
        "uniques" => match String::from_utf8(member_bytes(member)).map(|text| text.parse()) {
            Ok(Ok(key)) => Ok(Member::Unique(key)),
            _ => Err("the entry is not a unique key".to_owned()),
        },
        "job_gates" => is_gated(member)
            .then_some(Member::Other)
            .ok_or_else(|| "the entry is not a job with a gate (LANE GATE JOB)".to_owned()),
        "ledger" => is_range(member).then_some(Member::Other).ok_or_else(|| {
            "the entry is not a range of ended runs (TO:COUNT:STATE:REASON)".to_owned()
        }),
        "notices" => {
            let read = crate::domain::job::notice::read_notice(&member_bytes(member));
            read.map(|_| Member::Other).ok_or_else(|| {
                "the entry is not a notice (JSON with run, kind and stamp)".to_owned()
            })
        }
        "chain_ends" => ChainEnd::read(&member_bytes(member))
            .map(|_| Member::Other)
            .ok_or_else(|| "the entry is not the end of a parent's run (JSON)".to_owned()),
        "audit_log" | "schedule_versions" | "events" | "data_losses" | "discarded" => {
            let is_object = matches!(
                serde_json::from_slice(&member_bytes(member)),
                Ok(serde_json::Value::Object(_))
            );
            is_object
                .then_some(Member::Other)
                .ok_or_else(|| "the entry is not a JSON object".to_owned())
        }
        _ if is_run => match member.parse::<RunId>() {
            Ok(run) if family == "backfill" && run.kind() != RunKind::Backfill => {
                Err("the entry is not a backfill run".to_owned())
            }
            Ok(run) if family == "open" && run.is_manual() => {
                Err("the entry is a manual run, but the key lists the regular runs".to_owned())
            }
            Ok(run) if family == "manual" && !run.is_manual() => {
                Err("the entry is a regular run, but the key lists the manual runs".to_owned())
            }
            Ok(run)
                if matches!(family, "due" | "running" | "gate_holders" | "gate_waiters")
                    || rest == family
                    || rest[family.len() + 1..] == *run.job().as_str() =>
            {
                Ok(Member::Run(run, None))
            }
            Ok(run) => Err(format!(
                "the entry is a run of job {}, but the key belongs to another job",
                run.job()
            )),
            Err(error) => Err(error.to_string()),
        },
        _ => Ok(Member::Other),
    }?;
    // The scores of `leases` and of the indexes of jobs have other checks. At a gate, a run that
    // was let in but has not started has a negative score. The first run of a lane in which no run
    // can start has a negative score too.
    let score_read = score.parse::<f64>().map(|at| {
        if matches!(family, "gate_holders" | "gate_waiter_lanes") { at.abs() } else { at }
    });
    let ready = score_read.ok().filter(|ready| ready.is_finite());
    #[expect(clippy::cast_precision_loss, reason = "UnixMillis::END is below 2^53")]
    let is_instant = ready.is_some_and(|ready| (0.0..UnixMillis::END as f64).contains(&ready));
    if !matches!(family, "leases" | "jobs" | "finished") && !is_instant {
        return Err(format!("the score {score} of the entry is not a Unix time in ms"));
    }
    // Waiting backfill runs have no record yet, so the check of runs does not apply.
    Ok(if family == "backfill" { Member::Other } else { read })
}

/// Returns the bytes of a member from its text, which has `\xNN` for each byte that is not text.
pub fn member_bytes(shown: &str) -> Vec<u8> {
    let mut pieces = shown.split("\\x");
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        match piece
            .split_at_checked(2)
            .and_then(|(hex, rest)| Some((u8::from_str_radix(hex, 16).ok()?, rest)))
        {
            Some((byte, rest)) => {
                bytes.push(byte);
                bytes.extend_from_slice(rest.as_bytes());
            }
            None => bytes.extend_from_slice(format!("\\x{piece}").as_bytes()),
        }
    }
    bytes
}

fn is_boot(text: &str) -> bool {
    text.split_once(' ').is_some_and(|(host, boot)| {
        !boot.is_empty() && host.parse().is_ok_and(|queue: QueueName| queue.is_of_host())
    })
}

fn is_gated(text: &str) -> bool {
    let mut parts = text.splitn(3, ' ');
    parts.next().is_some_and(|lane| lane.parse::<Lane>().is_ok())
        && parts.next().is_some_and(|gate| Gate::from_name(gate).is_some())
        && parts.next().is_some_and(|job| job.parse::<JobName>().is_ok())
}

fn is_range(text: &str) -> bool {
    let parts: Vec<&str> = text.splitn(4, ':').collect();
    let is_number = |at: usize| parts.get(at).is_some_and(|part| part.parse::<u64>().is_ok());
    is_number(0) && is_number(1) && parts.len() == 4
}

/// Returns the finding for the sorted set `rest` with `count` wrong members. `key` is the full name
/// of the set. `first` describes its first wrong member with the reason.
pub fn bad_entries(rest: &str, key: String, count: usize, first: &str) -> Inconsistency {
    let why = if count == 1 {
        format!("entry {first}")
    } else {
        format!("{count} of its entries are not valid; for example, entry {first}")
    };
    let wanted = "only readable entries with valid times as scores";
    Inconsistency::unreadable(FindingSubject::Key(key), family_of(rest), why, wanted)
        .fixed_by("moves the wrong entries to quarantine")
}

/// Returns the finding for outputs of runs that disagree with their indexes. `index` is the Redis
/// key that lists all outputs. `missing` is the number of index entries without an output.
/// `unlisted` is the number of outputs that are missing in that index or in the index of their job.
pub fn judge_outputs(index: String, missing: usize, unlisted: usize) -> Option<Inconsistency> {
    let found = format!(
        "lists all outputs, but this index or an index outputs:JOB differs from the stored outputs (entries without an output: {missing}; outputs that an index lacks: {unlisted})"
    );
    (missing + unlisted > 0).then(|| {
        Inconsistency::wrong(FindingSubject::Key(index), "outputs", found)
            .fixed_by("corrects the entries of these indexes")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audit_entry_with_a_cron_expression_is_read_in_both_forms() {
        for entry in [
            r#"{"new":"*/5 * * * *"}"#,
            r#"{"new":"*\x5c/5 * * * *"}"#,
            r#"{"by":"\xc3\xa9","new":"\x5c/"}"#,
        ] {
            assert_eq!(judge_member("audit_log:a", entry, "5"), Ok(Member::Other), "{entry}");
        }
        assert!(judge_member("audit_log:a", r"{\xff", "5").is_err());
    }

    #[test]
    fn a_key_is_known_by_its_name_alone() {
        assert_eq!(known_key("leases"), KnownNames::Type("zset"));
        assert_eq!(known_key("history:a"), KnownNames::Type("zset"));
        assert_eq!(known_key("job:a"), KnownNames::Type("hash"));
        assert_eq!(known_key("quarantined:job:a:5"), KnownNames::SetAside);
        for other in ["job", "leases:a", "history2", ""] {
            assert_eq!(known_key(other), KnownNames::No, "{other}");
        }
    }
}
