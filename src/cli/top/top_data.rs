//! The reads of `top`: the first page of each list and the counts, in a bounded number of calls for
//! any number of jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use super::top_lists::{Head, Row, TopData, TopDetail, TopList, TopSubject};
use super::top_model::TopRequest;
use crate::cli::failure::CliFailure;
use crate::cli::jobs::show::show_target;
use crate::cli::jobs::target::Target;
use crate::cli::local_zone::local_zone;
use crate::cli::merged_places::{MergedPlaces, Placed};
use crate::cli::queue::{QueueOverview, standings};
use crate::cli::render::{
    Colour, Console, Detail, JobView, Relative, RunView, facts_in_words, one_line, safe_text,
    shown, shown_in, span, view_placed_jobs,
};
use crate::cli::runs::run_filter::{RunFilter, RunReader};
use crate::cli::state::node_presence::is_present;
use schedd_core::domain::queue::gate::Gate;
use schedd_schedule::names::{JobName, RunId};
use schedd_schedule::time::unix_millis::UnixMillis;
use schedd_schedule::time::zone::Zone;
use schedd_store::{
    Ended, ExpiredLease, IndexCursor, JobIndex, NodeRecord, RunNotices, RunRecord, Stats, Store,
};

/// The maximum number of rows read for each list.
const PAGE: usize = 200;
/// The maximum number of pages searched for ended runs that do not deliver notices.
const PAGES: usize = 5;
/// The number of output lines shown for a run.
const OUTPUT_LINES: usize = 200;

/// Reads the data that the screen of `top` shows. The details are taken from `page`, which the
/// verb `show` writes.
pub(super) async fn read(
    store: &Store,
    asked: &TopRequest,
    page: &mut Console,
) -> Result<TopData, CliFailure> {
    let places = MergedPlaces::of(store).await?;
    let stats = places.read_stats().await?;
    let (now, nodes) = store.list_nodes().await?;
    let leases = places.list_leases(PAGE).await?;
    let busy: BTreeSet<JobName> = leases.iter().map(|(_, lease)| lease.run.job().clone()).collect();
    let queues = standings(&places).await?.1;
    let (when, zone) = (Relative { now }, local_zone());
    let ended = recent(&places, when).await?;
    let lists = [
        TopList { rows: due(&places, asked, &busy, when, &zone).await?, total: stats.jobs },
        TopList { rows: running(&places, leases, when).await?, total: stats.running },
        TopList {
            total: if ended.len() < PAGE { ended.len() as u64 } else { stats.history },
            rows: ended,
        },
        TopList {
            total: queues.len() as u64,
            rows: queues.iter().map(|queue| queue_row(queue, now)).collect(),
        },
    ];
    let head = head(&stats, &nodes, &queues, now);
    let detail = match &asked.detail {
        Some(subject) => {
            let read = Box::pin(read_detail(store, subject, page)).await;
            let lines = read.unwrap_or_else(|failure| failure.lines());
            Some(TopDetail { subject: subject.clone(), lines })
        }
        None => None,
    };
    Ok(TopData { time: shown(now, &zone), head, lists, detail })
}

/// Reads the details of a job, run or queue, as lines without control characters.
async fn read_detail(
    store: &Store,
    subject: &TopSubject,
    console: &mut Console,
) -> Result<Vec<String>, CliFailure> {
    let (store, target) = match subject {
        TopSubject::Job(name) => (store.place_of_job(name).await?, Target::Job(name.clone())),
        TopSubject::Run(run) => (store.place_of_run(run).await?, Target::Run(run.clone())),
        TopSubject::Queue(name) => {
            let (now, queues) = standings(&MergedPlaces::of(store).await?).await?;
            return Ok(queues
                .iter()
                .find(|queue| queue.name == *name)
                .map_or_else(Vec::new, |queue| queue_lines(queue, now)));
        }
    };
    Box::pin(show_target(&store, &target, console)).await?;
    let mut lines: Vec<String> = console.take_page().lines().map(one_line).collect();
    if let TopSubject::Run(run) = subject {
        lines.push(String::new());
        lines.extend(output_of(&store, run).await?);
    }
    Ok(lines)
}

async fn output_of(store: &Store, run: &RunId) -> Result<Vec<String>, CliFailure> {
    let attempt = store.read_run(run).await?.map_or(0, |record| record.attempt);
    let output = if attempt == 0 { None } else { store.read_output(run, attempt).await? };
    let Some(output) = output else {
        return Ok(vec!["no output of the last attempt is stored".to_owned()]);
    };
    let mut lines = Vec::new();
    for (stream, bytes) in [("standard output", output.stdout), ("standard error", output.stderr)] {
        let text = safe_text(&bytes);
        let all: Vec<&str> = text.lines().collect();
        let from = all.len().saturating_sub(OUTPUT_LINES);
        if !all.is_empty() {
            let which = if from > 0 {
                format!("{stream}, the last {OUTPUT_LINES} lines:")
            } else {
                format!("{stream}:")
            };
            lines.push(which);
            lines.extend(all.iter().skip(from).map(|line| line.replace('\t', "    ")));
        }
    }
    if output.dropped_bytes > 0 {
        lines.push(format!(
            "{} bytes in the middle of the output were not stored",
            output.dropped_bytes
        ));
    }
    Ok(lines)
}

fn head(stats: &Stats, nodes: &[NodeRecord], queues: &[QueueOverview], now: UnixMillis) -> Head {
    let present: Vec<&NodeRecord> = nodes.iter().filter(|node| is_present(node, now)).collect();
    let total = |word: &str| stats.totals.get(word).copied().unwrap_or(0);
    let oldest = queues
        .iter()
        .filter(|queue| queue.state != "paused")
        .filter_map(|queue| queue.oldest_wanted)
        .min();
    Head {
        nodes: present.len(),
        gone_nodes: nodes.len() - present.len(),
        nodes_at_limit: present.iter().filter(|node| node.at_limit.is_some()).count(),
        jobs: stats.jobs,
        running: stats.running,
        scheduled: stats.scheduled,
        waiting: stats.waiting,
        ended: ["succeeded", "failed", "timed_out", "lost", "skipped", "cancelled"]
            .map(|state| (state.replace('_', " "), total(state)))
            .to_vec(),
        // A run is ready for a moment before a node can claim it, so a short lag is not shown.
        lag: oldest.map(|at| now.since(at)).filter(|lag| *lag >= Duration::from_secs(1)),
        memory: stats.redis_memory,
    }
}

async fn due(
    places: &MergedPlaces,
    asked: &TopRequest,
    busy: &BTreeSet<JobName>,
    when: Relative,
    zone: &Zone,
) -> Result<Vec<Row>, CliFailure> {
    let entries = places.page_of_jobs(JobIndex::Defined, &IndexCursor::lowest(), PAGE).await?;
    let mut names: Vec<Placed<JobName>> =
        entries.into_iter().filter_map(|(_, (place, name))| Some((place, name?))).collect();
    let is_more = |kept: &&JobName| !names.iter().any(|(_, name)| name == *kept);
    let more = asked.kept.iter().filter(is_more).take(PAGE);
    // The place of a job that is not among the first is not known here.
    let of_job = |name: &JobName| {
        let name = name.clone();
        (0..places.stores().len()).map(move |place| (place, name.clone()))
    };
    let more: Vec<Placed<JobName>> = more.flat_map(of_job).collect();
    names.extend(more);
    let records = places.read_jobs(names).await?.into_iter();
    let records = records
        .filter_map(|(place, record)| Some((place, record.ok().flatten()?)))
        .filter(|(_, record)| record.is_live())
        .collect();
    let views = view_placed_jobs(places, records, busy).await?;
    let mut jobs: Vec<JobView> = views.into_iter().map(|(_, view)| view).collect();
    // The index of Redis orders a retrying job by its schedule, so the list is sorted here.
    jobs.sort_by_key(|job| job.next_start().map_or((true, None), |(at, _)| (false, Some(at))));
    let row = |job: JobView| {
        let next = job.next_start();
        let (state, colour) = job.state_words();
        let cells = [
            next.map_or_else(|| "-".to_owned(), |(at, _)| when.left(at)),
            next.map_or_else(
                || "-".to_owned(),
                |(at, _)| shown_in(Detail::Brief, at, zone, when.now),
            ),
            state,
            job.lane().queue().as_str().to_owned(),
            job.record.name.as_str().to_owned(),
        ];
        let run = next.map(|(_, run)| run.clone());
        Row { subject: TopSubject::Job(job.record.name), run, cells: safe(cells), colour }
    };
    Ok(jobs.into_iter().map(row).collect())
}

async fn running(
    places: &MergedPlaces,
    leases: Vec<Placed<ExpiredLease>>,
    when: Relative,
) -> Result<Vec<Row>, CliFailure> {
    let ids = leases.into_iter().map(|(place, lease)| (place, lease.run)).collect();
    let read = places.read_runs(ids).await?;
    let mut records: Vec<RunRecord> = read.into_iter().map(|(_, record)| record).collect();
    records.sort_by_key(|run| run.started_at);
    records.truncate(PAGE);
    let row = |record: RunRecord| {
        let known_places: Vec<String> = record.places.iter().map(Gate::words).collect();
        let cells = [
            record.started_at.map_or_else(|| "-".to_owned(), |at| span(when.now.since(at))),
            record.node.clone().unwrap_or_else(|| "-".to_owned()),
            record.attempt.to_string(),
            if known_places.is_empty() { "-".to_owned() } else { known_places.join(", ") },
            record.run.to_string(),
        ];
        let run = Some(record.run.clone());
        Row { subject: TopSubject::Run(record.run), run, cells: safe(cells), colour: Colour::Plain }
    };
    Ok(records.into_iter().map(row).collect())
}

async fn recent(places: &MergedPlaces, when: Relative) -> Result<Vec<Row>, CliFailure> {
    let row = |record: RunRecord| {
        let run = record.run.clone();
        let colour = match Colour::from(record.state) {
            Colour::Green => Colour::Plain,
            colour => colour,
        };
        let took = record.took().map(span);
        let ended = record.finished_at.map(|at| when.passed(at));
        let facts = facts_in_words(&record);
        let view = RunView { record, zone: Zone::utc(), let_in: None, skip_cause: None };
        let why = view.reason().or(facts);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let cells = [
            or_dash(ended),
            view.record.state.as_str().to_owned(),
            or_dash(took),
            run.to_string(),
            or_dash(why),
        ];
        Row { subject: TopSubject::Run(run), run: None, cells: safe(cells), colour }
    };
    let ended = Ended { notices: RunNotices::Without, ..Ended::history() };
    let which = RunFilter::default();
    let mut reader = RunReader::new(places, ended, &which, 0, PAGE);
    let mut rows = Vec::new();
    for _ in 0..PAGES {
        let Some(runs) = reader.next().await? else { break };
        rows.extend(runs.into_iter().map(|(_, record)| row(record)));
    }
    Ok(rows)
}

fn queue_row(queue: &QueueOverview, now: UnixMillis) -> Row {
    let settings = &queue.record.settings;
    let cells = [
        queue.state.to_owned(),
        queue.depth.ready.to_string(),
        queue.depth.oldest.map_or_else(|| "-".to_owned(), |at| span(now.since(at))),
        queue.depth.running.to_string(),
        settings.limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string()),
        queue.nodes.to_string(),
        queue.name.as_str().to_owned(),
    ];
    let colour = if queue.state == "open" && queue.untaken.is_empty() && queue.at_limit.is_empty() {
        Colour::Plain
    } else {
        Colour::Yellow
    };
    Row { subject: TopSubject::Queue(queue.name.clone()), run: None, cells: safe(cells), colour }
}

fn queue_lines(queue: &QueueOverview, now: UnixMillis) -> Vec<String> {
    let (settings, depth) = (&queue.record.settings, &queue.depth);
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    let paused = queue.record.paused.as_ref();
    let lines = [
        ("state", queue.state.to_owned()),
        ("paused", or_none(paused.map(|(at, by)| format!("{} ago by {by}", span(now.since(*at)))))),
        ("ready", depth.ready.to_string()),
        ("oldest", or_none(depth.oldest.map(|at| span(now.since(at))))),
        ("scheduled", depth.scheduled.to_string()),
        ("running", depth.running.to_string()),
        ("limit", or_none(settings.limit.map(|limit| limit.to_string()))),
        ("concurrency", format!("{} per node", settings.concurrency)),
        ("rate", or_none(settings.rate.map(|rate| rate.to_string()))),
        ("nodes", queue.nodes.to_string()),
        ("remark", or_none(queue.remark())),
    ];
    lines.iter().map(|(word, text)| one_line(&format!("{word:<11} {text}"))).collect()
}

/// Returns the cells without control characters, each on one line.
fn safe<const N: usize>(cells: [String; N]) -> Vec<String> {
    cells.into_iter().map(|cell| one_line(&cell)).collect()
}
