//! `doctor`: checks Redis, the nodes, their files, the consistency of stored data and the host;
//! repairs what is safe on request.
//!
//! The exit code is 1 while anything is wrong: a finding that was not repaired, a file that is not
//! applied, or a Redis that evicts keys or cannot write. A problem that may only occur later is a
//! warning and does not change the exit code.

mod backlog_section;
mod consistency_section;
mod entry_discard;
mod host_section;
mod node_sections;
mod notice_section;
mod quarantine_entries;
mod report;
mod shard_section;

use clap::Args;
use serde_json::{Value, json};

use super::connect::{meant, unusable};
use super::failure::CliFailure;
use super::global::Global;
use super::local_zone::local_zone;
use super::render::{Console, rfc3339};
use report::{DoctorReport, check_json};
use schedd::engine::maintenance::full_check;
use schedd_store::{CheckLevel, ServerCheck, StoreError};

const EXAMPLES: &str = "\
Examples:
  schedctl doctor
  schedctl doctor --fix
  schedctl doctor --json
  schedctl doctor --set-aside backup
  schedctl doctor --restore 'quarantined:job:backup:1790000000000'
  schedctl doctor --discard 'quarantined:job:backup:1790000000000'

Data is read twice before a finding is reported, so data that changes meanwhile is not a finding.
--fix makes only safe repairs and prints each repair. It adds a missing planned run, restores a lost
lease as expired so that a node ends or retries the run by its delivery rule, frees the place of a
run that has ended, and corrects counters. Unreadable data is moved to quarantine. Only --discard
deletes data from quarantine, and prints the deleted entries. On a terminal, --discard all first
asks for the name of the namespace; without a terminal, --yes is required.

Exit codes: 0 no problem, or all problems repaired; 1 a problem; 3 no such entry; 69 Redis
unreachable.";

/// Checks Redis, the nodes, their files and all stored data, and reports what is wrong and how to
/// repair it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Make the repairs that are safe, and print each repair
    #[arg(long)]
    fix: bool,
    /// Put a quarantine entry back, by the name that doctor prints, if its data can be used now
    #[arg(long, value_name = "ENTRY", conflicts_with_all = ["fix", "set_aside"])]
    restore: Option<String>,
    /// Move the unreadable definition of a job, or the unreadable record of a run, to quarantine
    #[arg(long, value_name = "JOB|RUN", conflicts_with = "fix")]
    set_aside: Option<String>,
    /// Delete a quarantine entry for good, by the name that doctor prints, or delete all entries
    #[arg(long, value_name = "ENTRY|all", conflicts_with_all = ["fix", "restore", "set_aside"])]
    discard: Option<String>,
    /// Delete all entries without asking
    #[arg(long, requires = "discard")]
    yes: bool,
}

impl DoctorArgs {
    /// Returns true if the command changes nothing.
    pub(crate) fn only_reads(&self) -> bool {
        self.only_looks() && !self.fix
    }

    /// Returns true if the command only checks and repairs. Returns false if a flag asks for an
    /// action on the quarantine.
    fn only_looks(&self) -> bool {
        self.restore.is_none() && self.set_aside.is_none() && self.discard.is_none()
    }
}

/// Runs all checks, or the requested action on the quarantine. Returns the exit code.
#[expect(clippy::too_many_lines, reason = "a list of sections in their order")]
pub(crate) async fn doctor(
    global: &Global,
    args: &DoctorArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let meant = meant(global, console)?;
    let is_private = meant.is_private;
    let (store, found) = meant.try_out(global).await?;
    match found {
        Ok(_) => {}
        // This Redis answers but cannot be used, so all other checks are left out.
        Err(StoreError::Unfit { address, why }) if args.only_looks() => {
            return Ok(unfit(&address, &why, console));
        }
        Err(error) => return Err(unusable(error, is_private)),
    }
    if let Some(name) = &args.restore {
        return quarantine_entries::restore(&store, name, console).await;
    }
    if let Some(target) = &args.set_aside {
        return quarantine_entries::set_aside(&store, target, console).await;
    }
    if let Some(name) = &args.discard {
        return entry_discard::discard(&store, name, args.yes, console).await;
    }
    let mut report = DoctorReport::default();
    let place = if is_private { "private to a schedd of this host" } else { "shared" };
    let mut redis = vec![ServerCheck::new(
        "address",
        CheckLevel::Ok,
        format!("{}, namespace {}, {place}", store.address(), store.namespace()),
    )];
    redis.extend(store.check_server().await.or_else(node_sections::wrong_type_check)?);
    redis.extend(node_sections::spellings(&store).await?);
    redis.push(node_sections::losses(&store).await);
    report.add("redis", redis);
    let now = store.now().await?;
    let nodes = match store.list_nodes().await {
        Ok((_, nodes)) => {
            let mut checks = node_sections::nodes(&nodes, now);
            checks.extend(
                node_sections::clock_steps(&store, now)
                    .await
                    .or_else(node_sections::wrong_type_check)?,
            );
            checks.extend(
                node_sections::overdue(&store, &nodes, now)
                    .await
                    .or_else(node_sections::wrong_type_check)?,
            );
            checks.extend(
                node_sections::unserved(&store, &nodes, now)
                    .await
                    .or_else(node_sections::wrong_type_check)?,
            );
            checks.extend(
                node_sections::unserved_at_gates(&store, &nodes, now)
                    .await
                    .or_else(node_sections::wrong_type_check)?,
            );
            checks.extend(backlog_section::backlogs(&store).await?);
            report.add("nodes", checks);
            nodes
        }
        Err(error) => {
            report.add("nodes", node_sections::wrong_type_check(error)?);
            Vec::new()
        }
    };
    let exam = full_check::examine(&store).await?;
    let (mended, exam) = if args.fix { exam.mend(&store).await? } else { (Vec::new(), exam) };
    report.add("sources", node_sections::sources(&store, &nodes).await);
    report.add("consistency", consistency_section::summary(&store, &exam, &nodes, now).await);
    let (count, quarantined) =
        store.list_quarantine(quarantine_entries::SHOWN).await.unwrap_or_default();
    let dropped = store
        .read_stats()
        .await
        .map_or(0, |stats| stats.totals.get("quarantine_dropped").copied().unwrap_or(0));
    let discarded = store.list_discarded().await.unwrap_or_default();
    report.add("quarantine", quarantine_entries::summary(count, dropped, &discarded));
    report.add(
        "notices",
        notice_section::notices(&store, now).await.or_else(node_sections::wrong_type_check)?,
    );
    let shards = shard_section::shards(&store, args.fix).await?;
    let shards_json: Vec<Value> = shards.iter().map(check_json).collect();
    if !shards.is_empty() {
        report.add("shards", shards);
    }
    report.add("host", host_section::host(&store, &nodes, now).await);
    let code = u8::from(report.has_failed() || !exam.findings.is_empty() || exam.partial.is_some());
    if console.is_json() {
        let mut document = report.json();
        document["ok"] = json!(code == 0);
        document["checked_at"] = json!(rfc3339(now, &local_zone()));
        document["findings"] =
            exam.findings.iter().map(consistency_section::finding_json).collect();
        document["mended"] = mended.iter().map(consistency_section::mended_json).collect();
        document["shards"] = shards_json.into();
        document["quarantine"] = json!({
            "count": count,
            "dropped": dropped,
            "entries": quarantined.iter().map(quarantine_entries::entry_json).collect::<Vec<_>>(),
            "discarded": discarded.iter().map(entry_discard::discarded_json).collect::<Vec<_>>(),
        });
        console.json(&document);
    } else {
        report.text(console, |group, console| match group {
            "consistency" => consistency_section::text(&mended, &exam, console),
            "quarantine" => quarantine_entries::text(count, &quarantined, console),
            _ => {}
        });
    }
    Ok(code)
}

fn unfit(address: &str, why: &str, console: &mut Console) -> u8 {
    let check =
        ServerCheck::new("address", CheckLevel::Fail, format!("{address} cannot be used: {why}"));
    if console.is_json() {
        console.json(&json!({
            "ok": false,
            "checked_at": null,
            "redis": [check_json(&check)],
            "nodes": [],
            "sources": [],
            "consistency": [],
            "notices": [],
            "host": [],
            "shards": [],
            "findings": [],
            "mended": [],
            "quarantine": null,
        }));
    } else {
        let mut report = DoctorReport::default();
        report.add("redis", vec![check]);
        report.text(console, |_, _| {});
    }
    1
}
