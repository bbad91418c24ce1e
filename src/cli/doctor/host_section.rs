//! The check of the hosts of nodes: the limits that a host does not enforce, the users that a host
//! does not allow, and the jobs that need them.

use std::collections::{BTreeMap, BTreeSet};

use super::node_sections::{SHOWN, each_job};
use crate::cli::state::node_presence::is_present;
use schedd_core::config;
use schedd_core::domain::job::process_limits::{LimitKind, listed};
use schedd_schedule::names::JobName;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{CheckLevel, NodeRecord, ServerCheck, Store, StoreError};

/// Returns lines about the limits that each present node enforces and the users it allows, with
/// warnings about jobs that need other limits or users.
pub(super) async fn host(store: &Store, nodes: &[NodeRecord], now: UnixMillis) -> Vec<ServerCheck> {
    let present: Vec<&NodeRecord> = nodes.iter().filter(|node| is_present(node, now)).collect();
    let mut checks: Vec<ServerCheck> = present.iter().filter_map(|node| node_check(node)).collect();
    if checks.is_empty() {
        let text = "not known: no running node reports which limits of jobs (memory, cpu, pids) it enforces";
        checks.push(ServerCheck::new("limits", CheckLevel::Note, text));
    }
    match asking(store).await {
        Ok(Asking { limits, users, most_files }) => {
            checks.extend(present.iter().filter_map(|node| too_many_files(node, &most_files)));
            checks.extend(
                limits.into_iter().filter_map(|(kind, jobs)| unheld(kind, &jobs, &present)),
            );
            checks.extend(
                users.into_iter().filter_map(|(user, jobs)| unallowed(&user, &jobs, &present)),
            );
        }
        Err(error) => {
            checks.push(ServerCheck::new(
                "limits",
                CheckLevel::Warn,
                format!(
                    "cannot check if the hosts support the limits and users that jobs set, because the jobs cannot be read: {error}"
                ),
            ));
        }
    }
    checks.extend(present.iter().filter_map(|node| user_check(node)));
    if present.iter().any(|node| node.has_cgroups == Some(false)) {
        let text = "without cgroups, processes that a run leaves behind are found by process group and environment; a process that changes both is not found and keeps running";
        checks.push(ServerCheck::new("processes", CheckLevel::Note, text));
    }
    checks
}

/// Returns the kinds of limits that a node does not enforce. Returns an empty set if the node does
/// not report its limits.
fn lacking(node: &NodeRecord) -> BTreeSet<LimitKind> {
    let Some(limits) = &node.limits else { return BTreeSet::new() };
    LimitKind::ALL.into_iter().filter(|kind| !limits.contains(kind)).collect()
}

fn node_check(node: &NodeRecord) -> Option<ServerCheck> {
    node.limits.as_ref()?;
    let lacking = lacking(node);
    if lacking.is_empty() {
        return Some(ServerCheck::new(
            &node.name,
            CheckLevel::Ok,
            "all limits of jobs are enforced, and each run has its own cgroup",
        ));
    }
    let text = format!("not enforced: limits of {}: {}", listed(&lacking), node.limits_why);
    Some(ServerCheck::new(&node.name, CheckLevel::Note, text))
}

/// Returns a line about the users that jobs may name on a node, or `None` if the node does not
/// report them.
fn user_check(node: &NodeRecord) -> Option<ServerCheck> {
    let text = match (node.users.as_str(), node.users_why.as_str()) {
        ("", "") => return None,
        ("", why) => format!("no job can run as another user: {why}"),
        ("*", _) => {
            "jobs may name any user except root; a job without user runs as the user of schedd"
                .to_owned()
        }
        (users, _) => format!("jobs may name these users: {users}"),
    };
    Some(ServerCheck::new(&node.name, CheckLevel::Note, text))
}

/// Returns a warning if some present nodes do not allow a user that jobs ask for.
fn unallowed(user: &str, jobs: &[JobName], present: &[&NodeRecord]) -> Option<ServerCheck> {
    let is_refused =
        |node: &&&NodeRecord| is_refused(user, &node.own_user, &node.users, &node.users_why);
    let nodes: Vec<&str> =
        present.iter().filter(is_refused).map(|node| node.name.as_str()).collect();
    let (needed_by_jobs, jobs_fail) = if jobs.len() == 1 {
        ("needed by job", "the job fails")
    } else {
        ("needed by jobs", "the jobs fail")
    };
    let text = format!(
        "{needed_by_jobs} {}, but not allowed on {}: {jobs_fail} there",
        first_of(jobs),
        nodes.join(", ")
    );
    (!nodes.is_empty()).then(|| ServerCheck::new(format!("user {user}"), CheckLevel::Warn, text))
}

/// Returns true if a node that runs as user `own` refuses `user`, written `USER` or `USER:GROUP`.
/// `named` contains the allowed users; `why_nobody` says why no user is allowed.
fn is_refused(user: &str, own: &str, named: &str, why_nobody: &str) -> bool {
    let name = user.split_once(':').map_or(user, |(name, _)| name);
    match named {
        // The node already runs as this user, so nothing changes.
        _ if user == own => false,
        "" => !why_nobody.is_empty(),
        "*" => false,
        named => named.split(',').all(|other| other != name),
    }
}

/// Returns the first 5 names of `jobs` as text, and the number of the remaining names.
fn first_of(jobs: &[JobName]) -> String {
    let first = jobs.iter().take(SHOWN).map(JobName::as_str).collect::<Vec<_>>().join(", ");
    let more = if jobs.len() > SHOWN {
        format!(" and {} more", jobs.len() - SHOWN)
    } else {
        String::new()
    };
    first + &more
}

/// Returns a warning if some of the `present` nodes do not enforce limits of the kind `kind`, which
/// `jobs` have. Returns `None` if all nodes enforce such limits.
fn unheld(kind: LimitKind, jobs: &[JobName], present: &[&NodeRecord]) -> Option<ServerCheck> {
    let nodes: Vec<&str> = present
        .iter()
        .filter(|node| lacking(node).contains(&kind))
        .map(|node| node.name.as_str())
        .collect();
    let text =
        format!("this limit is set by {} but not enforced by {}", first_of(jobs), nodes.join(", "));
    (!nodes.is_empty()).then(|| ServerCheck::new(format!("limits.{kind}"), CheckLevel::Warn, text))
}

/// Returns a warning if jobs set a higher limit of open files than a process on the node may have.
fn too_many_files(node: &NodeRecord, asked: &BTreeMap<JobName, u64>) -> Option<ServerCheck> {
    let most = node.most_files?;
    let jobs: Vec<JobName> =
        asked.iter().filter(|(_, files)| **files > most).map(|(job, _)| job.clone()).collect();
    let text = format!(
        "this limit is set by {} above {most} open files, the hard limit of node {} (LimitNOFILE= of its unit, ulimit -Hn): processes there may open only {most} files",
        first_of(&jobs),
        node.name
    );
    (!jobs.is_empty()).then(|| ServerCheck::new("limits.files", CheckLevel::Warn, text))
}

/// The limits and users that jobs ask for, each with the jobs that ask for it.
#[derive(Default)]
struct Asking {
    limits: BTreeMap<LimitKind, Vec<JobName>>,
    users: BTreeMap<String, Vec<JobName>>,
    most_files: BTreeMap<JobName, u64>,
}

async fn asking(store: &Store) -> Result<Asking, StoreError> {
    let mut found = Asking::default();
    each_job(store, |job| {
        // Most jobs have no limits and no user, so their definitions are not parsed.
        let is_read = ["\"limits\"", "\"user\""].iter().any(|key| job.definition.contains(key));
        let Some(Ok(spec)) = is_read.then(|| config::from_canonical(&job.definition)) else {
            return;
        };
        if let Some(run_as) = &spec.process.user {
            found.users.entry(run_as.to_string()).or_default().push(job.name.clone());
        }
        if let Some(files) = spec.process.limits.files {
            found.most_files.insert(job.name.clone(), files);
        }
        for kind in spec.process.limits.asked() {
            found.limits.entry(kind).or_default().push(job.name.clone());
        }
    })
    .await?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::is_refused;

    #[test]
    fn a_job_may_name_the_user_its_node_runs_as_whoever_else_it_may_name() {
        for (user, own, named, why, refused) in [
            ("nobody", "nobody", "", "schedd runs with uid 65534", false),
            ("nobody", "nobody", "backup", "", false),
            ("nobody:adm", "nobody", "", "schedd runs with uid 65534", true),
            ("daemon", "nobody", "", "schedd runs with uid 65534", true),
            ("daemon", "root", "backup,www-data", "", true),
            ("backup:adm", "root", "backup,www-data", "", false),
            ("daemon", "root", "*", "", false),
            // A node of an older version does not report its users.
            ("daemon", "", "", "", false),
        ] {
            assert_eq!(is_refused(user, own, named, why), refused, "{user} on {own}: {named}");
        }
    }
}
