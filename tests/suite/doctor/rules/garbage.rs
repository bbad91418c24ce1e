//! Garbage of the right type in a key of every family there is: it is named by a rule, or it is free text and says why.

use std::collections::BTreeSet;

use schedd::engine::maintenance::full_check::examine;
use schedd_core::domain::consistency::{FAMILIES, Mend, SINGLE_KEYS};

use crate::doctor::desk::{Desk, unreadable};

/// What is to become of it.
#[derive(Clone, Copy)]
enum Judged {
    /// The key's family is unreadable.
    Unreadable,
    /// A finding with this code.
    By(&'static str),
    /// Nobody judges it, for this reason.
    Free(&'static str),
}

use Judged::{By, Free, Unreadable};

/// A member that no sorted set has.
const MEMBER: &str = "\u{1} garbage";

/// Of each hash a field and what is written there.
static FIELDS: [(&str, &str, &str, Judged); 21] = [
    ("stop_requests", "No Run", "cancelled", Unreadable),
    ("counters", "succeeded", "garbage", Unreadable),
    ("queues", "default", "garbage", Unreadable),
    ("groups", "No Group", "exclusive", Unreadable),
    (
        "quarantine",
        "entry",
        "garbage",
        Free("why it is there is text, and what it was may be anything"),
    ),
    ("consistency_check", "at", "garbage", Unreadable),
    ("output_sizes", "a", "garbage", By("wrong:output_sizes")),
    ("known_servers", "one", "garbage", Unreadable),
    ("job:a", "def", "garbage", Unreadable),
    ("run:RUN", "state", "garbage", Unreadable),
    ("output:RUN#1", "dropped", "garbage", Unreadable),
    ("node:one", "pid", "garbage", Unreadable),
    ("source:one", "a", "garbage", Unreadable),
    ("declared:one", "queue default", "garbage", Unreadable),
    (
        "queue:default",
        "limit",
        "garbage",
        Free("it counts as not set, and `doctor` warns of it beside the consistency check"),
    ),
    ("queue_state:default", "tat", "garbage", Unreadable),
    ("group:g", "mode", "garbage", Unreadable),
    ("ledger_before:a", "failed", "garbage", Unreadable),
    ("chain:a", "5", "garbage", Unreadable),
    ("gate:group:g", "turn", "No Job", Unreadable),
    ("unique:k", "job", "No Job", By("extra:unique")),
];

/// Each key with what is done to it.
fn rows() -> Vec<(String, &'static str, Vec<&'static str>, Judged)> {
    let mut rows = Vec::new();
    let singles = SINGLE_KEYS.iter().map(|(key, kind)| ((*key).to_owned(), *kind));
    let families = FAMILIES.iter().map(|(family, kind)| {
        let of = match *family {
            "due" | "running" => "default",
            "events" => "one",
            "gate_holders"
            | "gate_waiters"
            | "gate_waiters_by_job"
            | "gate_waiters_by_lane"
            | "gate_waiter_lanes"
            | "gate_rate" => "key:k",
            _ => "a",
        };
        (format!("{family}:{of}"), *kind)
    });
    for (key, kind) in singles.chain(families) {
        match (kind, key.as_str()) {
            ("zset", _) => rows.push((key, "ZADD", vec!["5", MEMBER], Unreadable)),
            ("string", "output_bytes") => {
                rows.push((key, "SET", vec!["garbage"], By("wrong:output_bytes")));
            }
            ("string", "nudge") => {
                let why = "nodes only look whether it has changed";
                rows.push((key, "SET", vec!["garbage"], Free(why)));
            }
            ("string", "shards") => {
                let why = "it counts as missing, and nodes record the shards of their file again";
                rows.push((key, "SET", vec!["garbage"], Free(why)));
            }
            ("string", "replica_mark") => {
                rows.push((key, "SET", vec!["garbage"], Free("the next wait overwrites the key")));
            }
            ("string", "answer:a") => {
                let why = "a request with this key gets 409, and the key expires within a day";
                rows.push((key, "SET", vec!["garbage"], Free(why)));
            }
            ("string", "used_link:a") => {
                let why = "only the existence of the key counts, and the key expires in an hour";
                rows.push((key, "SET", vec!["garbage"], Free(why)));
            }
            ("string", "fence") => rows.push((key, "SET", vec!["-5"], By("wrong:fence"))),
            ("string", _) => rows.push((key, "SET", vec!["garbage"], Unreadable)),
            _ => {}
        }
    }
    rows.extend(FIELDS.iter().map(|(key, field, value, judged)| {
        ((*key).to_owned(), "HSET", vec![*field, *value], *judged)
    }));
    rows
}

#[test]
fn no_family_of_keys_is_left_out() {
    let damaged: BTreeSet<(String, bool)> = rows()
        .into_iter()
        .map(|(key, ..)| {
            key.split_once(':')
                .map_or((key.clone(), false), |(family, _)| (family.to_owned(), true))
        })
        .collect();
    let known = SINGLE_KEYS.iter().map(|(key, _)| ((*key).to_owned(), false));
    let known: BTreeSet<(String, bool)> =
        known.chain(FAMILIES.iter().map(|(family, _)| ((*family).to_owned(), true))).collect();
    assert_eq!(damaged, known);
}

#[tokio::test]
async fn right_type_garbage_in_a_key_of_any_family_is_named_and_mended_where_safe() {
    for (key, command, args, judged) in rows() {
        let mut desk = Desk::new();
        let claim = desk.printing("a").await;
        let key = key.replace("RUN", &claim.run.to_string());
        desk.demand_sound(&key).await;
        desk.break_by(command, &key, &args);
        let exam = examine(&desk.at(desk.now())).await.unwrap();
        let code = match judged {
            Unreadable => unreadable(&key),
            By(code) => code.to_owned(),
            Free(why) => {
                assert!(
                    exam.findings.is_empty(),
                    "{key} is judged, and is not to be: {why}: {:#?}",
                    exam.findings
                );
                continue;
            }
        };
        let named = exam.findings.iter().find(|finding| finding.code() == code);
        let named =
            named.unwrap_or_else(|| panic!("{key} {args:?}: {:#?}", exam.findings)).to_string();
        let of = key.split_once(':').map_or(key.as_str(), |(_, of)| of);
        assert!(named.contains(of), "{key}: {named}");
        let (_, left) = exam.mend(&desk.at(desk.now())).await.unwrap();
        let fixable: Vec<_> =
            left.findings.iter().filter(|finding| matches!(finding.mend, Mend::Fix(_))).collect();
        assert!(fixable.is_empty(), "{key} is not mended: {fixable:#?}");
        if left.findings.is_empty() {
            desk.assert_sound();
        }
    }
}

#[tokio::test]
async fn a_group_rid_of_a_damaged_setting_is_said_again_by_its_file() {
    use schedd_store::{Section, SectionText};
    let desk = Desk::new();
    let section = Section::Group("g".parse().unwrap());
    let text =
        SectionText::Group(schedd_core::domain::queue::group_rules::GroupSettings::Exclusive);
    let source = "one".parse().unwrap();
    desk.store.declare_section(&source, &section, Some(&text)).await.unwrap();
    assert_eq!(desk.store.read_declared(&source).await.unwrap()[&section], text.hash());
    desk.break_by("HSET", "group:g", &["mode", "garbage"]);
    desk.mend("unreadable:group", "group:g").await;
    assert_ne!(desk.store.read_declared(&source).await.unwrap()[&section], text.hash());
}
