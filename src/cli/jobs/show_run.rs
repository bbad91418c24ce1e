//! `show RUN`: the state of a run, its waits and its attempts.

use std::time::Duration;

use serde_json::{Value, json};

use super::labelled_line::{field, field_raw};
use super::notice_lines;
use super::target::find_run;
use crate::cli::failure::CliFailure;
use crate::cli::local_zone::local_zone;
use crate::cli::render::{
    Console, Relative, RunView, Zones, attempts_json, attempts_table, paused_queue_words,
    queue_words, resource_words, rfc3339, shown, view_runs, waited,
};
use schedd::engine::explanation::shut;
use schedd::engine::planning::retry_order;
use schedd_core::domain::queue::gate::Gate;
use schedd_core::domain::run::run_progress::RunProgress;
use schedd_core::domain::run::run_state::RunState;
use schedd_schedule::chain::chain_end::ParentEnd;
use schedd_schedule::names::RunId;
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::wording::span;
use schedd_schedule::time::zone::Zone;
use schedd_schedule::timetable::skipped_count;
use schedd_store::{REFUSED, RunRecord, RunWait, Store};

/// The shortest delay between a run's end and its recording in Redis that `show` prints.
const RECORDED_LATE: Duration = Duration::from_secs(1);

/// Prints everything known about a run. Returns the exit code.
pub(super) async fn show_run(
    store: &Store,
    run: &RunId,
    console: &mut Console,
) -> Result<u8, CliFailure> {
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
            ("waits", record.waits.iter().map(|wait| wait_json(wait, &view.zone)).collect()),
            ("admitted", json!(view.let_in)),
            ("gate_opens", json!(opens)),
            ("queue_paused", json!(paused.is_some())),
            ("parents", record.parents.iter().map(ParentEnd::to_json).collect()),
            ("recoveries", json!(record.recoveries)),
            ("unclear", json!(record.unclear)),
            ("progress", json!(record.progress.as_ref().map(progress_json))),
            ("attempts", attempts_json(record, &view.zone)),
            ("notices", notices.iter().map(notice_lines::notice_json).collect()),
        ];
        fields.extend(more.map(|(key, value)| (key.to_owned(), value)));
        console.json(&Value::Object(fields));
    } else {
        let waits = paused.map(|paused| paused_queue_words(&queue, &paused, &local_zone()));
        run_text(&view, opens.as_deref(), waits.as_deref(), Relative { now }, console);
        if view.record.state.is_dead() && retry_order::refusal(store, run).await?.is_none() {
            field("dead letter", &format!("schedctl retry {run} retries the run"), console);
        }
        if view.record.attempt > 0 {
            console.line("");
            attempts_table(&view.record, &local_zone(), console);
        }
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

/// Returns the progress of a run as JSON.
fn progress_json(progress: &RunProgress) -> Value {
    json!({"percent": progress.percent, "text": progress.text})
}

/// Returns a wait of a run as JSON.
fn wait_json(wait: &RunWait, zone: &Zone) -> Value {
    json!({
        "for": wait.cause,
        "from": rfc3339(wait.from, zone),
        "until": wait.until.map(|at| rfc3339(at, zone)),
    })
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
    for wait in &record.waits {
        let what = if wait.is_at_gate() { &wait.cause } else { "another run" };
        let length = wait.until.map(|until| format!("{} ", span(until.since(wait.from))));
        let from = shown(wait.from, &local);
        field("", &format!("{}for {what}, from {from}", length.unwrap_or_default()), console);
    }
    if let Some(progress) = &record.progress {
        field("progress", &progress.to_string(), console);
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
}

fn times_in_a_row(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times in a row") }
}
