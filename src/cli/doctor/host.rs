//! What the hosts of the nodes do not enforce, or do not let jobs do, and which jobs ask for it. Said plainly, so that nobody counts on it.

use std::collections::{BTreeMap, BTreeSet};

use super::surroundings::{SHOWN, each_job};
use crate::cli::nodes::is_present;
use crate::config;
use crate::domain::ids::JobName;
use crate::domain::limits::{LimitKind, listed};
use crate::domain::time::UnixMillis;
use crate::store::{Check, Level, NodeRecord, Store, StoreError};

/// The nodes that run, each with what it does not enforce, and the jobs that ask for that.
pub(super) async fn host(store: &Store, nodes: &[NodeRecord], now: UnixMillis) -> Vec<Check> {
    let present: Vec<&NodeRecord> = nodes.iter().filter(|node| is_present(node, now)).collect();
    let mut checks: Vec<Check> = present.iter().filter_map(|node| node_check(node)).collect();
    if checks.is_empty() {
        let text = "not known: no node that runs says which limits of jobs (memory, cpu, pids) it enforces";
        checks.push(Check::new("limits", Level::Note, text));
    }
    match asking(store).await {
        Ok(Asking { limits, users, most_files }) => {
            checks.extend(present.iter().filter_map(|node| too_many_files(node, &most_files)));
            checks.extend(limits.into_iter().filter_map(|(kind, jobs)| unheld(kind, &jobs, &present)));
            checks.extend(users.into_iter().filter_map(|(user, jobs)| unallowed(&user, &jobs, &present)));
        }
        Err(error) => checks.push(Check::new("limits", Level::Warn, format!("which jobs have some is not known: {error}"))),
    }
    checks.extend(present.iter().filter_map(|node| user_check(node)));
    if present.iter().any(|node| node.has_cgroups == Some(false)) {
        let text = "not enforced without cgroups: what a job leaves behind is found by its process group and its environment; one that leaves both goes on unseen";
        checks.push(Check::new("processes", Level::Note, text));
    }
    checks
}

/// What a node does not enforce; nothing where it does not say.
fn lacking(node: &NodeRecord) -> BTreeSet<LimitKind> {
    let Some(limits) = &node.limits else { return BTreeSet::new() };
    LimitKind::ALL.into_iter().filter(|kind| !limits.contains(kind)).collect()
}

fn node_check(node: &NodeRecord) -> Option<Check> {
    node.limits.as_ref()?;
    let lacking = lacking(node);
    if lacking.is_empty() {
        return Some(Check::new(&node.name, Level::Ok, "all limits of jobs are enforced, each run has a cgroup of its own"));
    }
    let text = format!("not enforced: limits of {}: {}", listed(&lacking), node.limits_why);
    Some(Check::new(&node.name, Level::Note, text))
}

/// Whom jobs may name on a node; nothing where it does not say.
fn user_check(node: &NodeRecord) -> Option<Check> {
    let text = match (node.users.as_str(), node.users_why.as_str()) {
        ("", "") => return None,
        ("", why) => format!("no job can run as another user: {why}"),
        ("*", _) => "jobs may run as any user but root by naming it; without user they run as schedd does".to_owned(),
        (users, _) => format!("jobs may run as these users by naming them: {users}"),
    };
    Some(Check::new(&node.name, Level::Note, text))
}

/// A user some jobs are to run as and some nodes do not let them.
fn unallowed(user: &str, jobs: &[JobName], present: &[&NodeRecord]) -> Option<Check> {
    let is_refused = |node: &&&NodeRecord| is_refused(user, &node.own_user, &node.users, &node.users_why);
    let nodes: Vec<&str> = present.iter().filter(is_refused).map(|node| node.name.as_str()).collect();
    let (asked, fail) = if jobs.len() == 1 { ("asked for by job", "it fails") } else { ("asked for by jobs", "they fail") };
    let text = format!("{asked} {}, and not allowed on {}: {fail} there", first_of(jobs), nodes.join(", "));
    (!nodes.is_empty()).then(|| Check::new(format!("user {user}"), Level::Warn, text))
}

/// Whether a node that runs as `own` refuses `user`, written `USER` or `USER:GROUP`, by what it says of whom jobs may name.
fn is_refused(user: &str, own: &str, named: &str, why_nobody: &str) -> bool {
    let name = user.split_once(':').map_or(user, |(name, _)| name);
    match named {
        // It is that one already, and changes nothing.
        _ if user == own => false,
        "" => !why_nobody.is_empty(),
        "*" => false,
        named => named.split(',').all(|other| other != name),
    }
}

/// The first of some jobs, and how many more.
fn first_of(jobs: &[JobName]) -> String {
    let first = jobs.iter().take(SHOWN).map(JobName::as_str).collect::<Vec<_>>().join(", ");
    let more = if jobs.len() > SHOWN { format!(" and {} more", jobs.len() - SHOWN) } else { String::new() };
    first + &more
}

/// A limit some jobs ask for and some nodes do not enforce.
fn unheld(kind: LimitKind, jobs: &[JobName], present: &[&NodeRecord]) -> Option<Check> {
    let nodes: Vec<&str> = present.iter().filter(|node| lacking(node).contains(&kind)).map(|node| node.name.as_str()).collect();
    let text = format!("asked for by {}; not enforced by {}", first_of(jobs), nodes.join(", "));
    (!nodes.is_empty()).then(|| Check::new(format!("limits.{kind}"), Level::Warn, text))
}

/// More open files asked for than a process of a node may have.
fn too_many_files(node: &NodeRecord, asked: &BTreeMap<JobName, u64>) -> Option<Check> {
    let most = node.most_files?;
    let jobs: Vec<JobName> = asked.iter().filter(|(_, files)| **files > most).map(|(job, _)| job.clone()).collect();
    let text = format!(
        "more asked for by {} than the {most} that {} can give (its hard limit: LimitNOFILE= of its unit, ulimit -Hn): they get {most} there",
        first_of(&jobs),
        node.name
    );
    (!jobs.is_empty()).then(|| Check::new("limits.files", Level::Warn, text))
}

/// The jobs that ask for what not every host can do.
#[derive(Default)]
struct Asking {
    limits: BTreeMap<LimitKind, Vec<JobName>>,
    users: BTreeMap<String, Vec<JobName>>,
    most_files: BTreeMap<JobName, u64>,
}

async fn asking(store: &Store) -> Result<Asking, StoreError> {
    let mut found = Asking::default();
    each_job(store, |job| {
        // Most have none, and need not be read.
        let is_read = ["\"limits\"", "\"user\""].iter().any(|key| job.definition.contains(key));
        let Some(Ok(spec)) = is_read.then(|| config::from_surface(&job.definition)) else { return };
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
            // One of an older schedd does not say.
            ("daemon", "", "", "", false),
        ] {
            assert_eq!(is_refused(user, own, named, why), refused, "{user} on {own}: {named}");
        }
    }
}
