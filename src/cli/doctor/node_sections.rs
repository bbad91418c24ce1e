//! The checks of `doctor` other than the consistency check: data losses, other spellings of the
//! namespace, the nodes, their clocks and their files.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cli::failure::CliFailure;
use crate::cli::state::data_loss_verb::{gone, gone_words, sum, word};
use crate::cli::state::groups;
use crate::cli::state::node_presence::{is_present, serving};
use crate::cli::state::nodes_verb::{differences, sources as sources_of};
use schedd_core::config;
use schedd_core::domain::job::definition_text::definition_hash;
use schedd_core::domain::queue::lane::Lane;
use schedd_core::domain::queue::lane_serving::Unserved;
use schedd_core::domain::run::node_event::{NodeEventKind, step_text};
use schedd_schedule::names::{JobName, QueueName};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_store::{
    CheckLevel, JobRecord, NodeEvents, NodeRecord, Section, ServerCheck, Store, StoreError,
};

/// The difference between a node's clock and Redis' clock, in ms, from which `doctor` warns.
const TOLERATED_MS: u64 = 1_000;
/// The age up to which a data loss is a warning. An older data loss is a note.
pub(super) const RECENT: Duration = Duration::from_secs(7 * 86_400);
/// The age up to which `doctor` reports a step of Redis' clock.
const STEPPED_LATELY: Duration = Duration::from_secs(86_400);
/// The number of jobs read in one call.
const PAGE: usize = 500;
/// The maximum number of reported gates with waiting runs that no node takes.
const GATES: usize = 20;
/// The maximum number of jobs named for one problem.
pub(super) const SHOWN: usize = 5;

/// Returns a warning for each namespace whose name differs from this namespace only in upper and
/// lower case.
pub(super) async fn spellings(store: &Store) -> Result<Vec<ServerCheck>, StoreError> {
    let others: Vec<String> = store.namespaces_like_this().await?.into_iter().collect();
    if others.is_empty() {
        return Ok(Vec::new());
    }
    let text = format!(
        "this Redis also has namespace {}, which differs from this one only in upper and lower case; nodes in different namespaces share no jobs, so correct a misspelt name",
        others.join(", ")
    );
    Ok(vec![ServerCheck::new("namespace", CheckLevel::Warn, text)])
}

/// Replaces the error for a key of the wrong type by a line that refers to the consistency check,
/// which reports the key. Returns other errors unchanged.
pub(super) fn wrong_type_check(error: StoreError) -> Result<Vec<ServerCheck>, StoreError> {
    match error {
        StoreError::WrongType { key, .. } => Ok(vec![ServerCheck::new(
            "not known",
            CheckLevel::Warn,
            format!("the key {key} has the wrong type, see consistency below"),
        )]),
        error => Err(error),
    }
}

/// Reports the last data loss of Redis. The line is a warning for the time [`RECENT`] after the
/// loss, then a note.
pub(super) async fn losses(store: &Store) -> ServerCheck {
    let losses = match store.read_losses().await {
        Ok(losses) => losses,
        Err(error) => return ServerCheck::new("data loss", CheckLevel::Warn, error.to_string()),
    };
    let Some(last) = losses.first() else {
        return ServerCheck::new(
            "data loss",
            CheckLevel::Ok,
            "none: no node ever found data missing",
        );
    };
    let is_recent = match (last.at, store.now().await) {
        (Some(at), Ok(now)) => now.since(at) < RECENT,
        _ => true,
    };
    let at = last.at.map_or_else(|| "?".to_owned(), |at| at.to_string());
    let text = format!(
        "data was lost at {at} ({}): {}, {} restored, {} lost; Redis had {} so far, listed by schedctl data-loss",
        word(last.loss.kind),
        format_args!(
            "{} {}",
            gone_words(last),
            if gone(last) == 1 { "job gone" } else { "jobs gone" }
        ),
        counted(sum(last, |report| report.restored), "run", "runs"),
        counted(sum(last, |report| report.lost), "run", "runs"),
        counted(losses.len() as u64, "data loss", "data losses"),
    );
    ServerCheck::new("data loss", if is_recent { CheckLevel::Warn } else { CheckLevel::Note }, text)
}

/// Returns `count` with the singular or plural of a word, such as `2 runs`.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Reports the nodes, the offsets of their clocks, and differences between their versions.
pub(super) fn nodes(nodes: &[NodeRecord], now: UnixMillis) -> Vec<ServerCheck> {
    if !nodes.iter().any(|node| is_present(node, now)) {
        return vec![ServerCheck::new(
            "nodes",
            CheckLevel::Warn,
            "no schedd runs on this Redis and namespace, so no runs are started",
        )];
    }
    let versions: BTreeSet<&str> = nodes
        .iter()
        .filter(|node| is_present(node, now))
        .map(|node| node.version.as_str())
        .collect();
    let mut checks: Vec<ServerCheck> = nodes.iter().map(|node| node_check(node, now)).collect();
    if versions.len() > 1 {
        let text = format!(
            "nodes of different versions of schedd are running: {}; update the older nodes",
            versions.into_iter().collect::<Vec<_>>().join(", ")
        );
        checks.push(ServerCheck::new("versions", CheckLevel::Warn, text));
    }
    checks
}

/// Reports the steps of Redis' clock in the last day, as recorded by the node that noticed the most
/// steps.
pub(super) async fn clock_steps(
    store: &Store,
    now: UnixMillis,
) -> Result<Vec<ServerCheck>, StoreError> {
    let is_of_late =
        |at: UnixMillis| now.since(at) < STEPPED_LATELY && at.since(now) < STEPPED_LATELY;
    let steps = |node: &NodeEvents| {
        let steps = node.events.iter().filter_map(|event| match event.what {
            NodeEventKind::ClockStepped { by_ms } => Some((event.from, by_ms)),
            _ => None,
        });
        let mut steps = steps.collect::<Vec<_>>();
        // A step forward is recorded with the time to which the clock was set. If the clock was
        // later set back, this time is in the future. Such a step is reported only together with a
        // recent step back.
        let was_set_back = steps.iter().any(|(at, by_ms)| *by_ms < 0 && is_of_late(*at));
        steps.retain(|(at, _)| is_of_late(*at) || (was_set_back && *at > now));
        steps
    };
    let nodes = store.read_events(&store.list_event_nodes().await?, now).await?;
    let Some(steps) =
        nodes.iter().map(steps).max_by_key(Vec::len).filter(|steps| !steps.is_empty())
    else {
        return Ok(Vec::new());
    };
    let listed: Vec<String> =
        steps.iter().take(SHOWN).map(|(at, by)| format!("{} to {at}", step_text(*by))).collect();
    let text = format!(
        "the clock of Redis was set {}, so runs were early or late; synchronize the clock of its host (NTP)",
        listed.join(", and ")
    );
    Ok(vec![ServerCheck::new("redis clock", CheckLevel::Warn, text)])
}

/// Reports due runs if no node is present to start the runs.
pub(super) async fn overdue(
    store: &Store,
    nodes: &[NodeRecord],
    now: UnixMillis,
) -> Result<Vec<ServerCheck>, StoreError> {
    if nodes.iter().any(|node| is_present(node, now)) {
        return Ok(Vec::new());
    }
    let mut lanes = store.list_lanes().await?;
    lanes.extend(store.list_host_lanes().await?);
    let (count, first) = store.count_due(&lanes.into_iter().collect::<Vec<_>>(), now).await?;
    let Some(first) = first else { return Ok(Vec::new()) };
    let runs = counted(count, "run is", "runs are");
    let text = format!(
        "{runs} due, the first since {first}, but no schedd is running: systemctl start schedd"
    );
    Ok(vec![ServerCheck::new("overdue", CheckLevel::Fail, text)])
}

/// Reports lanes that contain runs which no present node takes.
pub(super) async fn unserved(
    store: &Store,
    nodes: &[NodeRecord],
    now: UnixMillis,
) -> Result<Vec<ServerCheck>, StoreError> {
    let running = serving(nodes, now);
    let lanes: Vec<Lane> = store.list_lanes().await?.into_iter().collect();
    let counts = store.count_scheduled(&lanes).await?;
    let listed =
        lanes.iter().zip(counts).filter(|(_, count)| *count > 0).filter_map(|(lane, count)| {
            let why = Unserved::of(lane, &running)?;
            let runs =
                if count == 1 { "1 run waits".to_owned() } else { format!("{count} runs wait") };
            Some(ServerCheck::new(
                format!("lane {lane}"),
                CheckLevel::Warn,
                format!("{runs} in this lane: {why}"),
            ))
        });
    Ok(listed.collect())
}

/// Reports gates with waiting runs that no present node takes.
pub(super) async fn unserved_at_gates(
    store: &Store,
    nodes: &[NodeRecord],
    now: UnixMillis,
) -> Result<Vec<ServerCheck>, StoreError> {
    let running = serving(nodes, now);
    let gates = store.list_waited_at().await?;
    let lanes = store.read_waiting_lanes(&gates).await?;
    let mut listed = Vec::new();
    for (gate, lanes) in gates.iter().zip(lanes) {
        let unserved =
            |(lane, _)| Unserved::of(&lane, &running).map(|why| format!("lane {lane} ({why})"));
        let found: Vec<String> = lanes.into_iter().filter_map(unserved).collect();
        if !found.is_empty() {
            let more = found.len().saturating_sub(SHOWN);
            let more_lanes =
                if more > 0 { format!(", and {more} more lanes") } else { String::new() };
            let named_lanes = found.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
            let text = format!(
                "no node takes some runs that wait at this gate, so all other waiting runs start first: {named_lanes}{more_lanes}"
            );
            listed.push(ServerCheck::new(format!("gate {}", gate.words()), CheckLevel::Warn, text));
        }
    }
    let more = listed.len().saturating_sub(GATES);
    listed.truncate(GATES);
    if more > 0 {
        let text = format!(
            "runs that no node takes also wait at {}",
            counted(u64::try_from(more).unwrap_or(0), "more gate", "more gates")
        );
        listed.push(ServerCheck::new("gates", CheckLevel::Warn, text));
    }
    Ok(listed)
}

fn node_check(node: &NodeRecord, now: UnixMillis) -> ServerCheck {
    if !is_present(node, now) && node.state == "stopped" {
        let text =
            format!("stopped; its jobs with on = \"each-node\" wait for it (host {})", node.host);
        return ServerCheck::new(&node.name, CheckLevel::Note, text);
    }
    if !is_present(node, now) {
        return ServerCheck::new(
            &node.name,
            CheckLevel::Warn,
            format!("gone: not seen for 15 s, on host {}", node.host),
        );
    }
    let at_limit = node.at_limit.as_ref().map_or_else(String::new, |(why, since)| {
        format!(", has claimed no runs since {since}: {why}")
    });
    let about = format!("{}, version {}, host {}{at_limit}", node.state, node.version, node.host);
    if node.hindrance().is_some() {
        return ServerCheck::new(&node.name, CheckLevel::Warn, about);
    }
    match node.clock_offset_ms {
        None => ServerCheck::new(
            &node.name,
            CheckLevel::Ok,
            format!("{about}; the offset of its clock is not known yet"),
        ),
        Some(offset) if offset.unsigned_abs() >= TOLERATED_MS => {
            let word = if offset > 0 { "ahead of" } else { "behind" };
            let text = format!(
                "{about}; its clock is {} ms {word} the clock of Redis, which decides when jobs are due; synchronize it (NTP), or logs and jobs show wrong times",
                offset.unsigned_abs()
            );
            ServerCheck::new(&node.name, CheckLevel::Warn, text)
        }
        Some(offset) => ServerCheck::new(
            &node.name,
            CheckLevel::Ok,
            format!("{about}; its clock differs from the clock of Redis by {offset} ms"),
        ),
    }
}

/// Returns the jobs, queues and groups that several files define differently, each with the names
/// of these files.
async fn differing(
    store: &Store,
    nodes: &[NodeRecord],
) -> Result<BTreeMap<String, BTreeSet<String>>, CliFailure> {
    let mut sources = sources_of(nodes);
    sources.extend(store.list_applied().await?);
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (node, jobs) in differences(store, &sources).await? {
        for (job, others) in jobs {
            found
                .entry(job.to_string())
                .or_default()
                .extend(others.into_iter().chain([node.clone()]));
        }
    }
    let mut sections: BTreeMap<Section, BTreeMap<String, String>> = BTreeMap::new();
    for source in &sources {
        for (section, hash) in store.list_declared(source).await? {
            sections.entry(section).or_default().insert(source.to_string(), hash);
        }
    }
    let differ =
        |texts: &BTreeMap<String, String>| texts.values().collect::<BTreeSet<_>>().len() > 1;
    let sections = sections.into_iter().filter(|(_, texts)| differ(texts));
    found.extend(sections.map(|(section, texts)| (section.entry(), texts.into_keys().collect())));
    Ok(found)
}

/// Reports problems in jobs files, differences between files, and names that no file declares.
pub(super) async fn sources(store: &Store, nodes: &[NodeRecord]) -> Vec<ServerCheck> {
    let mut checks = Vec::new();
    for node in nodes {
        if let Some(error) = &node.config_error {
            // If only names of jobs added by schedctl are left out, the rest of the file is
            // applied.
            let is_taken =
                error.split("; ").all(|problem| problem.contains(" job has the same name"));
            let level = if is_taken { CheckLevel::Warn } else { CheckLevel::Fail };
            checks.push(ServerCheck::new(
                &node.name,
                level,
                format!("jobs.toml of this node: {error}"),
            ));
        }
    }
    match differing(store, nodes).await {
        Ok(differing) => checks.extend(differing.into_iter().map(|(what, files)| {
            let files: Vec<String> = files.into_iter().collect();
            let text = format!(
                "defined differently in the files of {}; the last change wins",
                files.join(", ")
            );
            ServerCheck::new(what, CheckLevel::Warn, text)
        })),
        Err(failure) => checks.push(not_read(&failure)),
    }
    match astray(store).await {
        Ok(Astray { undeclared, unsaid, needs_gate }) => {
            checks.extend(needs_gate.into_iter().map(|(other, jobs)| {
                let job_names = jobs.iter().take(SHOWN).map(JobName::as_str).collect::<Vec<_>>().join(", ");
                let n_jobs_name = counted(jobs.len() as u64, "job names", "jobs name");
                let text = format!(
                    "no job has this name, but {n_jobs_name} it in not_while ({job_names}); correct or remove the name, which has no effect there"
                );
                ServerCheck::new(other.as_str(), CheckLevel::Warn, text)
            }));
            checks.extend(unsaid.into_iter().map(|(job, files)| {
                let text = format!(
                    "the file with the definition in effect no longer has this job, and the files of {} define the job differently; a running node applies its own file by itself, any other file needs schedctl apply",
                    files.join(", ")
                );
                ServerCheck::new(job.as_str(), CheckLevel::Warn, text)
            }));
            checks.extend(undeclared.into_iter().map(|(queue, jobs)| {
                let job_names = jobs.iter().take(SHOWN).map(JobName::as_str).collect::<Vec<_>>().join(", ");
                let text = format!(
                    "no file declares this queue, which {} ({job_names}), so runs of this queue never start; declare [queues.{queue}]",
                    counted(jobs.len() as u64, "job names", "jobs name")
                );
                ServerCheck::new(format!("queue {queue}"), CheckLevel::Warn, text)
            }));
        }
        Err(error) => checks.push(not_read(&error.into())),
    }
    match unreadable_settings(store).await {
        Ok(queues) => checks.extend(queues.into_iter().map(|(queue, fields)| {
            let text = format!(
                "stored settings that cannot be read count as not set: {}; set them by schedctl queue set {queue}, or edit [queues.{queue}]",
                fields.join(", ")
            );
            ServerCheck::new(format!("queue {queue}"), CheckLevel::Warn, text)
        })),
        Err(error) => checks.push(not_read(&error.into())),
    }
    match store.read_unreadable_groups().await {
        Ok(groups) => checks.extend(groups.into_iter().map(|(group, fields)| {
            let text = format!(
                "stored settings that cannot be read count as not set: {}; without mode and order, no members take turns; edit [groups.{group}]",
                fields.join(", ")
            );
            ServerCheck::new(format!("group {group}"), CheckLevel::Warn, text)
        })),
        Err(error) => checks.push(not_read(&error.into())),
    }
    match undeclared_groups(store).await {
        Ok(groups) => checks.extend(groups),
        Err(error) => checks.push(not_read(&error.into())),
    }
    if checks.is_empty() {
        checks.push(ServerCheck::new(
            "files",
            CheckLevel::Ok,
            "all files that nodes read were applied, and no two files define a job, queue or group differently",
        ));
    }
    checks
}

/// Reports groups that jobs name although no file declares these groups any more.
async fn undeclared_groups(store: &Store) -> Result<Vec<ServerCheck>, StoreError> {
    let undeclared = groups::undeclared(store, &store.read_groups().await?).await?;
    let listed = undeclared.into_iter().map(|(group, jobs)| {
        let job_names = jobs.iter().take(SHOWN).map(JobName::as_str).collect::<Vec<_>>().join(", ");
        let n_jobs_name = counted(jobs.len() as u64, "job names", "jobs name");
        let text = format!(
            "no file declares this group, but {n_jobs_name} it ({job_names}), so at most one of their runs runs at a time, without turns or gap; declare [groups.{group}], or remove the group from these jobs"
        );
        ServerCheck::new(format!("group {group}"), CheckLevel::Warn, text)
    });
    Ok(listed.collect())
}

fn not_read(failure: &CliFailure) -> ServerCheck {
    ServerCheck::new(
        "files",
        CheckLevel::Warn,
        format!("not all data about files could be read: {}", failure.lines().join("; ")),
    )
}

/// Returns the queues that have unreadable settings, each with the names of these settings.
async fn unreadable_settings(store: &Store) -> Result<Vec<(QueueName, Vec<String>)>, StoreError> {
    let names: Vec<QueueName> = store.read_queues().await?.into_keys().collect();
    let records = store.read_queue_settings(&names).await?;
    let wrong_type_check =
        names.into_iter().zip(records).map(|(name, record)| (name, record.unreadable));
    Ok(wrong_type_check.filter(|(_, fields)| !fields.is_empty()).collect())
}

/// The names and definitions in Redis that no file contains.
#[derive(Default)]
struct Astray {
    /// The queues that no file declares, each with the jobs that name the queue.
    undeclared: BTreeMap<QueueName, Vec<JobName>>,
    /// The jobs whose definition in effect is in none of the files that declare the job, each with
    /// these files.
    unsaid: Vec<(JobName, Vec<String>)>,
    /// The names in `not_while` that no job has, each with the jobs that use the name.
    needs_gate: BTreeMap<JobName, Vec<JobName>>,
}

async fn astray(store: &Store) -> Result<Astray, StoreError> {
    let known = store.read_queues().await?;
    let mut found = Astray::default();
    each_job(store, |job| {
        let JobRecord { name, lane, listed_by, definition, .. } = job;
        // Most definitions have no `not_while`, so they are not parsed.
        if definition.contains("\"not_while\"")
            && let Ok(spec) = config::from_canonical(&definition)
        {
            spec.not_while
                .into_iter()
                .for_each(|other| found.needs_gate.entry(other).or_default().push(name.clone()));
        }
        let hash = definition_hash(&definition);
        if !listed_by.is_empty() && !listed_by.values().any(|said| *said == hash) {
            found.unsaid.push((name.clone(), listed_by.into_keys().collect()));
        }
        let queue = lane.queue();
        let is_declared = queue.is_of_host() || known.contains_key(queue);
        if *queue != QueueName::default_queue() && !is_declared {
            found.undeclared.entry(queue.clone()).or_default().push(name);
        }
    })
    .await?;
    let named: Vec<JobName> = found.needs_gate.keys().cloned().collect();
    for names in named.chunks(PAGE) {
        for (name, record) in names.iter().zip(store.read_jobs(names).await?) {
            // A record that cannot be read belongs to an existing job.
            if !matches!(record, Ok(None))
                && !record.is_ok_and(|job| job.is_some_and(|job| !job.is_live()))
            {
                found.needs_gate.remove(name);
            }
        }
    }
    Ok(found)
}

/// Calls `see` with the record of each job. Unreadable records are left out.
pub(super) async fn each_job(
    store: &Store,
    mut see: impl FnMut(JobRecord),
) -> Result<(), StoreError> {
    let mut at = 0;
    loop {
        let names = store.list_jobs(at, PAGE).await?;
        if names.is_empty() {
            return Ok(());
        }
        at += names.len();
        store
            .read_jobs(&names)
            .await?
            .into_iter()
            .filter_map(|job| job.ok().flatten())
            .for_each(&mut see);
    }
}
