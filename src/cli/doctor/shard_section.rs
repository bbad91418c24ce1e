//! The section of the report about the shards of the namespace. Each line names its shard.

use super::backlog_section;
use super::consistency_section;
use super::node_sections;
use crate::cli::failure::CliFailure;
use crate::cli::merged_places::MergedPlaces;
use schedd::engine::maintenance::full_check;
use schedd_store::{CheckLevel, ServerCheck, Store};

/// Checks the data of each shard, with the safe repairs if `is_fixing`. Returns the lines of all
/// shards; none for a namespace without shards. A shard that does not answer is a problem.
pub(super) async fn shards(home: &Store, is_fixing: bool) -> Result<Vec<ServerCheck>, CliFailure> {
    let (places, silent) = MergedPlaces::with_silent(home).await?;
    let mut checks = Vec::new();
    for shard in places.stores().iter().skip(1) {
        let name = format!("shard {}", shard.shard_number().unwrap_or_default());
        let own = Box::pin(of_shard(shard, home, is_fixing)).await?;
        let line = |check: ServerCheck| {
            ServerCheck::new(name.clone(), check.level, format!("{}: {}", check.name, check.text))
        };
        checks.extend(own.into_iter().map(line));
    }
    let silent = silent.into_iter().map(|message| {
        ServerCheck::new("silent", CheckLevel::Fail, format!("{message}; its jobs are not checked"))
    });
    checks.extend(silent);
    Ok(checks)
}

async fn of_shard(
    shard: &Store,
    home: &Store,
    is_fixing: bool,
) -> Result<Vec<ServerCheck>, CliFailure> {
    let place = format!("{}, namespace {}", shard.address(), shard.namespace());
    let mut checks = vec![ServerCheck::new("address", CheckLevel::Ok, place)];
    if shard.address() != home.address() {
        checks.extend(shard.check_server().await?);
    }
    checks.push(node_sections::losses(shard).await);
    let (now, nodes) = shard.list_nodes().await?;
    let exam = full_check::examine(shard).await?;
    let (mended, exam) = if is_fixing { exam.mend(shard).await? } else { (Vec::new(), exam) };
    checks.extend(consistency_section::summary(shard, &exam, &nodes, now).await);
    checks.extend(mended.iter().map(|mended| {
        let repairs = format!("{}: {}", mended.finding.subject, mended.done.join(", "));
        ServerCheck::new(mended.finding.code(), CheckLevel::Ok, format!("repaired: {repairs}"))
    }));
    checks.extend(
        exam.findings
            .iter()
            .map(|finding| ServerCheck::new(finding.code(), CheckLevel::Fail, finding.to_string())),
    );
    let (count, _) = shard.list_quarantine(0).await.unwrap_or_default();
    if count > 0 {
        let namespace = shard.namespace();
        let text = format!(
            "entries: {count}; schedctl doctor lists them with the address of the shard in --redis, and --namespace {namespace}"
        );
        checks.push(ServerCheck::new("quarantine", CheckLevel::Warn, text));
    }
    checks.extend(backlog_section::backlogs(shard).await?);
    Ok(checks)
}
