//! `show JOB`: the definition of a job, its state, and its next and last runs.

use serde_json::{Map, Value, json};

use super::job_use::JobUse;
use super::labelled_line::{field, field_raw};
use super::notice_lines;
use super::target::{declared_in, find_job};
use crate::cli::failure::CliFailure;
use crate::cli::local_zone::local_zone;
use crate::cli::merged_places::MergedPlaces;
use crate::cli::render::JobState;
use crate::cli::render::{
    Cell, Colour, Console, JobView, Relative, RunTable, RunView, Table, Zones, action_line,
    day_rules, default_keys, effective, paused_queue_words, policy_lines, rfc3339, running_jobs,
    shown, shown_elsewhere, view_jobs, view_runs,
};
use crate::cli::runs::open_runs::{ended_runs, open_runs};
use crate::cli::runs::short_ids::ShortIds;
use schedd::engine::Definition;
use schedd_core::domain::name::job_source::SourceName;
use schedd_schedule::clock_notes::clock_notes;
use schedd_schedule::names::{JobName, RunKind};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::Timetable;
use schedd_store::Store;

/// The number of future times shown for a job.
const UPCOMING: usize = 3;
/// The maximum number of backfill runs that `show` counts for a job. No more backfill runs of a job
/// can wait.
const BACKFILL: usize = 10_000;
/// The number of ended runs shown for a job.
const RUNS: usize = 5;

/// Prints everything known about a job. Returns the exit code.
pub(super) async fn show_job(
    store: &Store,
    name: &JobName,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let record = find_job(store, name).await?;
    let read_job = async {
        let running = running_jobs(store).await?;
        let views = view_jobs(store, vec![record], &running).await?;
        let Some(mut job) = views.into_iter().next() else {
            return Err(CliFailure::Failed(format!("job {name} cannot be shown")));
        };
        notice_lines::do_as_said_now(store, &mut job).await?;
        Ok(job)
    };
    let read_runs = async {
        let (mut records, ended) =
            tokio::try_join!(open_runs(store, name), ended_runs(store, name, RUNS))?;
        records.extend(ended);
        view_runs(store, &mut Zones::default(), records).await
    };
    let read_others = async {
        Ok(tokio::try_join!(store.now(), store.list_backfill(name, BACKFILL), store.read_chains())?)
    };
    let (mut job, runs, failed_notices, job_use, (now, backfill, chains)) = tokio::try_join!(
        read_job,
        read_runs,
        notice_lines::failed_notices(store, name),
        JobUse::read(store, name),
        read_others,
    )?;
    let backfill = backfill.len();
    let children: Vec<JobName> = chains.children_of(name).into_iter().cloned().collect();
    if console.conceals()
        && let Ok(definition) = &mut job.definition
    {
        definition.spec.conceal();
    }
    let upcoming = upcoming(&job, now);
    if console.is_json() {
        let mut fields = job_json(&job, &upcoming, backfill, &runs);
        fields.extend(failed_notices.json(&job.zone()));
        fields.extend(job_use.json());
        fields.extend(links_json(&job, &children));
        fields.insert("shard".to_owned(), json!(store.shard_number()));
        console.json(&Value::Object(fields));
    } else {
        let mut ids = ShortIds::default();
        ids.read_for(&MergedPlaces::only(store), runs.iter().map(|run| &run.record.run)).await?;
        job_text(&job, &upcoming, (&runs, &ids), Relative { now }, console);
        if let Some(shard) = store.shard_number() {
            let place = format!("{shard}, namespace {} at {}", store.namespace(), store.address());
            field("shard", &place, console);
        }
        if !children.is_empty() {
            let names: Vec<&str> = children.iter().map(JobName::as_str).collect();
            field("children", &names.join(", "), console);
        }
        let needed = job_use.lines();
        if !needed.is_empty() {
            console.line("");
        }
        for (word, text) in &needed {
            field(word, text, console);
        }
        let lines = failed_notices.lines(Relative { now });
        if !lines.is_empty() {
            console.line("");
        }
        for line in &lines {
            field("notices", line, console);
        }
        if backfill > 0 {
            console.line("");
            field(
                "backfill",
                &format!(
                    "running or waiting runs: {backfill} (schedctl cancel {name} --backfill cancels them)"
                ),
                console,
            );
        }
    }
    if let Err(problem) = &job.definition {
        console.error(&format!("job {name}: stored definition cannot be used: {problem}"));
        return Ok(1);
    }
    Ok(0)
}

/// Returns the next times of a job, the planned run first. A job that is over or paused has no next
/// times.
fn upcoming(job: &JobView, now: UnixMillis) -> Vec<UnixMillis> {
    let (Some(first), Ok(definition)) = (job.next_due(), &job.definition) else {
        return job.next_due().into_iter().collect();
    };
    let after = |at: &UnixMillis| definition.next_after((*at).max(now));
    let left =
        definition.runs_left().and_then(|left| usize::try_from(left).ok()).unwrap_or(UPCOMING);
    std::iter::successors(Some(first), after).take(UPCOMING.min(left)).collect()
}

fn job_json(
    job: &JobView,
    upcoming: &[UnixMillis],
    backfill: usize,
    runs: &[RunView],
) -> Map<String, Value> {
    let Value::Object(mut fields) = job.json() else { return Map::new() };
    let record = &job.record;
    let zone = job.zone();
    let time = |at: UnixMillis| rfc3339(at, &zone);
    let next_set = record.next_set.as_ref().map(|(at, by)| json!({"at": time(*at), "by": by}));
    let more = [
        ("rev", json!(record.rev.as_str())),
        (
            "definition",
            job.definition
                .as_ref()
                .map_or(Value::Null, |it| effective(&it.spec, it.timetable.zone())),
        ),
        ("defaults", job.definition.as_ref().map_or(Value::Null, |it| default_keys(&it.spec))),
        ("problem", json!(job.definition.as_ref().err())),
        ("upcoming", upcoming.iter().map(|at| time(*at)).collect()),
        ("runs", runs.iter().map(|run| Value::Object(run.json())).collect()),
        ("backfill", json!(backfill)),
        (
            "suppressed",
            record
                .suppressed
                .iter()
                .map(|(kind, count)| (kind.to_string(), json!(count)))
                .collect(),
        ),
        ("since", json!(time(record.since))),
        ("paused_at", json!(record.paused_at.map(time))),
        ("next_set", json!(next_set)),
        ("ended", json!(ended(job))),
        ("ended_at", json!(ended(job).and(record.ended_at).map(time))),
        ("listed_by", record.listed_by.keys().map(String::as_str).collect()),
    ];
    fields.extend(more.map(|(key, value)| (key.to_owned(), value)));
    fields
}

/// Returns the parents and the children of a job in a chain as fields of its JSON.
fn links_json(job: &JobView, children: &[JobName]) -> Map<String, Value> {
    let names = |names: Vec<&JobName>| names.into_iter().map(JobName::as_str).collect();
    let parents = job.definition.as_ref().ok().and_then(|it| it.spec.schedule.parents());
    let parents = parents.map_or_else(Vec::new, |parents| parents.jobs.iter().collect());
    Map::from_iter([
        ("parents".to_owned(), names(parents)),
        ("children".to_owned(), names(children.iter().collect())),
    ])
}

/// Returns the word for how the job ended, or `None` if the job is not over. A hidden job, which
/// delivers notices, is always stored as over, so it counts as over only if none of its notices is
/// open.
fn ended(job: &JobView) -> Option<&str> {
    let is_open = job.record.name.notice_subject().is_some() && (job.is_running || job.open > 0);
    job.record.ended.as_deref().filter(|_| !is_open)
}

fn job_text(
    job: &JobView,
    upcoming: &[UnixMillis],
    (runs, ids): (&[RunView], &ShortIds),
    when: Relative,
    console: &mut Console,
) {
    let record = &job.record;
    let local = local_zone();
    field("job", record.name.as_str(), console);
    field("source", &source_words(job), console);
    let state = job.state();
    let state_word = console.paint(state.as_str(), state.into());
    field_raw("state", &state_word, console);
    if let (Some(how), Some(at)) = (ended(job), record.ended_at) {
        field("ended", &format!("{how}, {} ({})", shown(at, &local), when.passed(at)), console);
    }
    if let Some(at) = record.paused_at {
        field("paused", &format!("since {} ({})", shown(at, &local), when.passed(at)), console);
    }
    if let Ok(Definition { spec, timetable, .. }) = &job.definition {
        let zone = match spec.schedule {
            Schedule::Every(_) | Schedule::Delay(_) | Schedule::After(_) | Schedule::Manual => {
                String::new()
            }
            _ => format!(" ({})", timetable.zone().name()),
        };
        field("schedule", &format!("{}{zone}", job.schedule().unwrap_or_default()), console);
        for rule in day_rules(&spec.schedule) {
            field("", &rule, console);
        }
        if let Some(retry) = job.retry.as_ref().filter(|_| job.state() == JobState::Retrying) {
            let at = shown(retry.at, &local);
            let which = match retry.run.kind() {
                _ if record.name.is_hidden() => "retry of a notice",
                RunKind::Manual | RunKind::Rerun => "retry of a manual run",
                _ => "retry of a run",
            };
            field("next", &format!("{at} ({}), {which}", when.either(retry.at)), console);
        }
        next_lines(upcoming, timetable, &local, when, console);
        if let Some((at, by)) = record.next_set.as_ref().filter(|(at, _)| *at > when.now) {
            let text = format!("{} ({}), set by {by}", shown(*at, &local), when.either(*at));
            field("not before", &text, console);
        }
        if let Some(paused) = &job.paused_queue {
            field("blocked", &paused_queue_words(job.lane().queue(), paused, &local), console);
        }
        field("action", &action_line(&spec.action, &spec.process), console);
        for (word, text) in policy_lines(spec) {
            field(word, &text, console);
        }
    }
    if !record.suppressed.is_empty() {
        let counts: Vec<_> =
            record.suppressed.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        field(
            "suppressed",
            &format!(
                "{} (too many notices waited; one later notice of each kind reports the number)",
                counts.join(", ")
            ),
            console,
        );
    }
    node_table(job, when, &local, console);
    if !runs.is_empty() {
        console.line("");
        let mut table = RunTable::new();
        table.add(runs, ids, console);
        table.end(console);
    }
}

/// Prints a table of the instances of a job on each node.
fn node_table(job: &JobView, when: Relative, local: &Zone, console: &mut Console) {
    let rows: Vec<[Cell; 5]> = job
        .instances
        .iter()
        .map(|(node, view)| {
            let last = view.last.as_ref();
            let (state, colour) = view.state_words();
            [
                Cell::new(node.as_str()),
                Cell::new(state).coloured(colour),
                Cell::maybe(view.next_due().map(|at| shown(at, local))),
                Cell::maybe(last.and_then(|run| run.finished_at).map(|at| when.passed(at))),
                Cell::maybe(last.map(|run| run.state.as_str().replace('_', " ")))
                    .coloured(last.map_or(Colour::Plain, |run| run.state.into())),
            ]
        })
        .collect();
    if !rows.is_empty() {
        console.line("");
        Table::new(["NODE", "STATE", "NEXT", "LAST", "RESULT"]).page(&rows, console);
    }
}

/// Returns the source of the job as text: jobs files, or schedctl.
fn source_words(job: &JobView) -> String {
    let record = &job.record;
    if let Some((subject, _)) = record.name.notice_subject() {
        return format!("the notices of {}", subject.words());
    }
    if record.name.instance().is_some() {
        return format!("{} (on = \"each-node\")", record.name.words());
    }
    let nodes: Vec<&str> = record.listed_by.keys().map(String::as_str).collect();
    let has_applied =
        nodes.iter().any(|name| name.parse().is_ok_and(|source: SourceName| source.is_applied()));
    match (nodes.as_slice(), job.source_name()) {
        (_, last) if has_applied => {
            let last = last
                .filter(|_| nodes.len() > 1)
                .map(|last| format!(", last changed by {last}"))
                .unwrap_or_default();
            format!("{}: {}{last}", record.kind.as_str(), declared_in(record))
        }
        ([], Some(node)) | (&[node], _) => format!("{} of node {node}", record.kind.as_str()),
        ([], None) => record.kind.as_str().to_owned(),
        (nodes, last) => {
            let last = last.map(|node| format!(", last changed by {node}")).unwrap_or_default();
            format!("{} of nodes {}{last}", record.kind.as_str(), nodes.join(", "))
        }
    }
}

/// Prints the next times of a job in the zone `local`. A time comes with the time in the job's zone
/// if its schedule follows another clock, and with the notes on clock changes.
fn next_lines(
    upcoming: &[UnixMillis],
    table: &Timetable,
    local: &Zone,
    when: Relative,
    console: &mut Console,
) {
    let goes_by_clocks = !table.by_wall_clocks().is_empty();
    let mut after = when.now;
    for (index, at) in upcoming.iter().enumerate() {
        let word = if index == 0 { "next" } else { "" };
        let elsewhere = shown_elsewhere(*at, local, table.zone()).filter(|_| goes_by_clocks);
        let elsewhere = elsewhere.map(|time| format!(", {time}")).unwrap_or_default();
        let notes = clock_notes(table, after.min(*at), *at, local);
        let notes =
            if notes.is_empty() { String::new() } else { format!(", {}", notes.join("; ")) };
        let text = format!("{} ({}{elsewhere}){notes}", shown(*at, local), when.either(*at));
        field(word, &text, console);
        after = *at;
    }
}
