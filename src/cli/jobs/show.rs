//! `show`: everything known about a job or a run.

#![allow(clippy::doc_markdown, reason = "comments on flags are texts of --help")]

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::job_use::JobUse;
use super::notice_lines;
use super::run_name::TargetName;
use super::target::{Target, declared_in, find_job, find_run, only_run_asked, only_run_of};
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::local_zone::local_zone;
use crate::cli::render::JobState;
use crate::cli::render::{
    Cell, Colour, Console, JobView, Relative, RunTable, RunView, Table, Zones, action_line,
    attempts_json, attempts_table, day_rules, default_keys, effective, one_line,
    paused_queue_words, policy_lines, queue_words, resource_words, rfc3339, running_jobs, shown,
    shown_elsewhere, view_jobs, view_runs, waited,
};
use crate::cli::runs::open_runs::{ended_runs, open_runs};
use crate::cli::runs::short_ids::ShortIds;
use crate::cli::shell::completion;
use schedd::engine::Definition;
use schedd::engine::explanation::shut;
use schedd_core::domain::name::job_source::SourceName;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::chain::chain_end::ParentEnd;
use schedd_schedule::clock_notes::clock_notes;
use schedd_schedule::names::{JobName, RunId, RunKind};
use schedd_schedule::schedule_form::Schedule;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::span;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::{Timetable, skipped_count};
use schedd_store::{REFUSED, RunRecord, Store};

/// The number of future times shown for a job.
const UPCOMING: usize = 3;
/// The maximum number of backfill runs that `show` counts for a job. No more backfill runs of a job
/// can wait.
const BACKFILL: usize = 10_000;
/// The number of ended runs shown for a job.
const RUNS: usize = 5;
/// The width of the column of labels: the longest label, and a space.
const LABEL_WIDTH: usize = 13;
/// The shortest delay between a run's end and its recording in Redis that `show` prints.
const RECORDED_LATE: Duration = Duration::from_secs(1);

const SHOW_EXAMPLES: &str = "\
Examples:
  schedctl show backup
  schedctl show backup@last --json
  schedctl show backup/on_failure

A run is named by its id, such as backup@1790000000000, or by a part of the id that no other run of
the job has: the first digits, or at least 4 last digits, where a final 000 may be left out. Tables
show such short ids. JOB@last is the newest run that started or ended, JOB@-2 the run before it, and
JOB@next the planned run. All verbs that take a RUN accept these names.

JOB/on_failure (also on_success, on_late, on_recovered, ping) is the hidden job whose runs deliver
the notices of JOB. show prints the hidden job as JOB defines it now. The \"notices\" lines list the
undelivered notices of a job: those that failed for good and those that will be retried.";

/// Shows everything known about a job (its definition, state, next and last runs) or a run (its
/// attempts).
#[derive(Debug, clap::Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowArgs {
    /// Name of a job or id of a run
    #[arg(value_name = "JOB|RUN", add = completion::all_jobs_and_runs())]
    target: String,
}

/// Shows the job or run named on the command line. Returns the exit code.
pub(crate) async fn show(
    global: &Global,
    args: &ShowArgs,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let name = match only_run_asked(&args.target) {
        Some(job) => Err(job),
        None => Ok(TargetName::parse(&args.target)?),
    };
    let store = connect(global, console).await?;
    let target = match name {
        Ok(name) => name.find(&store).await?,
        Err(job) => only_run_of(&store, &job).await?,
    };
    Box::pin(show_target(&store, &target, console)).await
}

/// Prints everything known about a job or a run. Returns the exit code.
pub(crate) async fn show_target(
    store: &Store,
    target: &Target,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    match target {
        Target::Job(name) => Box::pin(show_job(store, name, console)).await,
        Target::Run(run) => Box::pin(show_run(store, run, console)).await,
    }
}

async fn show_job(store: &Store, name: &JobName, console: &mut Console) -> Result<u8, CliFailure> {
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
        console.json(&Value::Object(fields));
    } else {
        let mut ids = ShortIds::default();
        ids.read_for(store, runs.iter().map(|run| &run.record.run)).await?;
        job_text(&job, &upcoming, (&runs, &ids), Relative { now }, console);
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

fn field(word: &str, text: &str, console: &mut Console) {
    field_raw(word, &one_line(text), console);
}

fn times_in_a_row(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times in a row") }
}

/// Prints a line with a label. The text must contain no control characters except those for
/// colours.
fn field_raw(word: &str, text: &str, console: &mut Console) {
    console.line(&format!("{word:<LABEL_WIDTH$} {text}"));
}

async fn show_run(store: &Store, run: &RunId, console: &mut Console) -> Result<u8, CliFailure> {
    let record = find_run(store, run).await?;
    let queue = record.lane.queue().clone();
    let read_others = async {
        Ok(tokio::try_join!(store.now(), store.read_queue_settings(std::slice::from_ref(&queue)))?)
    };
    let mut zones = Zones::default();
    let ((now, settings), notices, views) = tokio::try_join!(
        read_others,
        notice_lines::notices_of(store, &record),
        view_runs(store, &mut zones, vec![record.clone()]),
    )?;
    let paused = settings
        .into_iter()
        .find(|found| found.settings.is_paused && record.state == RunState::Scheduled);
    let Some(view) = views.into_iter().next() else {
        return Err(CliFailure::Failed(format!("run {run} cannot be shown")));
    };
    let opens = opens(store, &view.record, now).await?;
    if console.is_json() {
        let record = &view.record;
        let mut fields = view.json();
        let more = [
            ("ready_at", json!(record.ready.map(|at| rfc3339(at, &view.zone)))),
            ("failures", json!(record.failures)),
            ("waiting_for", json!(record.waiting_for)),
            ("waited_from", json!(record.waited_from.map(|at| rfc3339(at, &view.zone)))),
            ("waited_at", json!(record.waited_at.as_ref().map(|(gate, _)| gate))),
            (
                "waited_until",
                json!(record.waited_at.as_ref().map(|(_, at)| rfc3339(*at, &view.zone))),
            ),
            ("admitted", json!(view.let_in)),
            ("gate_opens", json!(opens)),
            ("queue_paused", json!(paused.is_some())),
            ("parents", record.parents.iter().map(ParentEnd::to_json).collect()),
            ("recoveries", json!(record.recoveries)),
            ("unclear", json!(record.unclear)),
            ("attempts", attempts_json(record, &view.zone)),
            ("notices", notices.iter().map(notice_lines::notice_json).collect()),
        ];
        fields.extend(more.map(|(key, value)| (key.to_owned(), value)));
        console.json(&Value::Object(fields));
    } else {
        let waits = paused.map(|paused| paused_queue_words(&queue, &paused, &local_zone()));
        run_text(&view, opens.as_deref(), waits.as_deref(), Relative { now }, console);
        for notice in &notices {
            field(
                "notice",
                &format!(
                    "{}, sent by {}: {}",
                    notice_lines::kind_of(notice),
                    notice.run,
                    notice.state
                ),
                console,
            );
        }
    }
    Ok(0)
}

/// Returns a text about the group that the run waits for: when its `gap` ends, when its turn
/// timeout ends, or both. Until then the group lets no waiting run start. Returns `None` if the run
/// waits for no group, or if neither time is running.
async fn opens(
    store: &Store,
    record: &RunRecord,
    now: UnixMillis,
) -> Result<Option<String>, CliFailure> {
    let gate =
        record.waiting_for.as_ref().and_then(|what| Gate::from_name(&what.replacen(' ', ":", 1)));
    let Some(group) = gate.and_then(|gate| gate.group()) else { return Ok(None) };
    let Some(standing) = store.read_group_standings(std::slice::from_ref(&group)).await?.pop()
    else {
        return Ok(None);
    };
    let (shut, local) = (shut(store, &group, &standing, now).await?, local_zone());
    let turn = standing
        .turn
        .filter(|_| shut.turn_timeout.is_some())
        .map(|(turn, _)| shut.turn_words(turn.as_str(), &local));
    let words: Vec<String> = shut.gap_words(&local).into_iter().chain(turn).collect();
    Ok(Some(words.join(" ")).filter(|words| !words.is_empty()))
}

fn run_text(
    view: &RunView,
    opens: Option<&str>,
    waits: Option<&str>,
    when: Relative,
    console: &mut Console,
) {
    let record = &view.record;
    let local = local_zone();
    field("run", &record.run.to_string(), console);
    field("job", record.run.job().as_str(), console);
    if record.run.is_manual() {
        field("kind", record.run.kind().as_str(), console);
    }
    let state_word = console.paint(record.state.as_str(), record.state.into());
    field_raw("state", &state_word, console);
    if let Some(what) = view.waiting_for() {
        field("waiting for", &what, console);
    }
    if let Some(how) = view.let_in.as_deref().or(opens) {
        field("gate", how, console);
    }
    if let Some(waits) = waits {
        field("blocked", waits, console);
    }
    if let Some(reason) = view.reason() {
        field("reason", &reason, console);
    }
    for (at, end) in record.parents.iter().enumerate() {
        let word = if at == 0 { "parents" } else { "" };
        field(word, &format!("{} {}", end.run, end.state.replace('_', " ")), console);
    }
    // The reason says why a time was refused.
    if let Some(next) = record.next.as_ref().filter(|next| !next.starts_with(REFUSED)) {
        field("next", &format!("set by the run: {next}"), console);
    }
    if let Some(note) = &record.note {
        field("note", note, console);
    }
    if let Some(by) = &record.by {
        field("by", by, console);
    }
    field("queue", &queue_words(&record.lane), console);
    let mut instant = |word: &str, at: Option<UnixMillis>| {
        if let Some(at) = at {
            field(word, &format!("{} ({})", shown(at, &local), when.either(at)), console);
        }
    };
    instant("due", Some(record.run.due()));
    instant("ready", record.ready.filter(|ready| *ready != record.run.due()));
    instant("started", record.started_at);
    instant("finished", record.finished_at);
    if let Some(waited) = waited(record) {
        field("waited", &format!("{} from ready to start", span(waited)), console);
    }
    if let Some(used) = record.resources.filter(|_| record.state != RunState::Running) {
        field("used", &resource_words(&used), console);
    }
    if let Some(after) = record.recorded_after().filter(|after| *after >= RECORDED_LATE) {
        field(
            "recorded",
            &format!(
                "{} after the attempt ended, because Redis could not be written before",
                span(after)
            ),
            console,
        );
    }
    if let Some((to, count)) = record.skipped {
        field(
            "skipped",
            &format!("{} occurrences up to {}", skipped_count(count), shown(to, &local)),
            console,
        );
    }
    if let Some(limits) = &record.not_enforced {
        field("limits", &format!("not enforced: {limits}; schedctl doctor says why"), console);
    }
    if record.recoveries > 0 {
        field("recovered", &times_in_a_row(record.recoveries), console);
    }
    if record.unclear > 0 {
        field(
            "unclear",
            &format!("done_check gave no clear answer {}", times_in_a_row(record.unclear)),
            console,
        );
    }
    if record.state.is_dead() {
        field("dead letter", &format!("schedctl retry {} retries the run", record.run), console);
    }
    if record.attempt > 0 {
        console.line("");
        attempts_table(record, &local, console);
    }
}
