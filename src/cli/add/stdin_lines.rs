//! `add --stdin`: one job a line, added in batches in the order of the lines.
//!
//! At most [`AHEAD`] batches wait in memory for Redis, so memory is bounded for any input.
//!
//! Invariant: each line is reported once, as added or as refused. An added job stays added, even if
//! the reader of the output is gone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::add_flags::AddArgs;
use super::add_warnings::LineDoubts;
use super::added_job::{Added, DRAWS, draw_name, is_dropped, pending, request};
use super::key_conflict::key_taken;
use super::line_reader::{BATCH, Batch, read_batches};
use super::progress_bar::AddProgress;
use super::unknown_pools::Pools;
use super::{clock_skew, name_conflict};
use crate::cli::connect::connect;
use crate::cli::failure::CliFailure;
use crate::cli::global::Global;
use crate::cli::render::{Console, JsonArray, rfc3339};
use crate::cli::state::node_presence::warn_if_none_runs;
use crate::config::NamedJob;
use crate::domain::name::names::{JobName, RunId};
use crate::domain::time::unix_millis::UnixMillis;
use crate::domain::time::zone::Zone;
use crate::engine::planning::instances;
use crate::engine::planning::planting::{Applied, PlantingError, Request};
use crate::store::{Existing, Store};

/// The number of batches written to Redis at the same time. Redis then works on a batch while the
/// next batch is prepared.
const AT_ONCE: usize = 4;
/// The maximum number of batches that are read before they are written to Redis.
const AHEAD: usize = 8;

/// Adds the jobs on standard input. Returns the exit code.
pub(super) async fn add_lines(
    global: &Global,
    args: &AddArgs,
    host_zone: Zone,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let store = connect(global, console).await?;
    let lines = JobLines {
        input: match &global.request {
            Some(request) => request.take_input(),
            None => Box::new(std::io::stdin()),
        },
        replaces: args.replace,
        if_absent: args.if_absent,
        form: ResultForm::Command,
    };
    add_from(store, lines, host_zone, console).await
}

/// Lines with one job each, and how they are added.
pub(crate) struct JobLines {
    /// The lines, as JSON.
    pub(crate) input: Box<dyn Read + Send>,
    /// True if a line may change an existing job.
    pub(crate) replaces: bool,
    /// True if a line for an existing job counts as added.
    pub(crate) if_absent: bool,
    pub(crate) form: ResultForm,
}

/// The form of the results.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ResultForm {
    /// The results of a command: accepted lines on standard output, refused lines on standard error.
    Command,
    /// A JSON object for each line on standard output. The function returns the member `error` of a
    /// refused line.
    JsonLines(fn(&CliFailure) -> Value),
}

/// Adds the jobs of lines. Returns the exit code.
pub(crate) async fn add_from(
    store: Store,
    lines: JobLines,
    host_zone: Zone,
    console: &mut Console,
) -> Result<u8, CliFailure> {
    let pools = Pools::read(&store).await?;
    let (now, mut skew) = clock_skew::ask_time(&store).await?;
    let (sender, mut batches) = mpsc::channel(AHEAD);
    let zone = host_zone.clone();
    // The thread is not joined, because it may wait for input forever. It ends with the process.
    std::thread::spawn(move || read_batches(lines.input, &zone, &sender));
    let progress = AddProgress::new(console);
    let array = matches!(lines.form, ResultForm::Command).then(JsonArray::default);
    let adder = Arc::new(LineAdder {
        store: store.clone(),
        replaces: lines.replaces,
        if_absent: lines.if_absent,
        pools,
        host_zone: host_zone.clone(),
    });
    let mut sheet = Sheet {
        asked: (now, Instant::now()),
        host_zone,
        form: lines.form,
        array,
        progress,
        doubts: LineDoubts::default(),
        refused: 0,
        added: 0,
        there: 0,
    };
    let mut outcome = Ok(());
    let mut under_way: VecDeque<UnderWay> = VecDeque::new();
    let mut next: Option<(Batch, Words)> = None;
    let mut is_open = true;
    loop {
        let is_free = |words: &Words| under_way.iter().all(|batch| batch.words.is_disjoint(words));
        if let Some((batch, words)) = next.take_if(|(_, words)| is_free(words)) {
            let (lines, bytes) = (batch.lines(), batch.consumed);
            let task = tokio::spawn(adder.clone().add(batch));
            under_way.push_back(UnderWay { words, lines, bytes, task });
        }
        let takes_more = is_open && next.is_none() && under_way.len() < AT_ONCE;
        tokio::select! {
            biased;
            ended = first_end(&mut under_way), if !under_way.is_empty() => {
                let Some(UnderWay { lines, bytes, .. }) = under_way.pop_front() else { continue };
                match ended {
                    Ok(results) => sheet.report(results, console),
                    Err(failure) => {
                        is_open = false;
                        next = None;
                        outcome = outcome.and(Err(failure));
                    }
                }
                sheet.progress.add(lines, bytes);
            }
            first = batches.recv(), if takes_more => {
                let Some(first) = first else {
                    is_open = false;
                    continue;
                };
                let is_counted = first.jobs.iter().any(|(_, job)| job.start_in.is_some());
                if let Some(skew) = skew.take_if(|_| is_counted) {
                    console.warn(&skew);
                }
                let batch = gather(first, &mut batches);
                let words = words_of(&batch);
                next = Some((batch, words));
            }
            else => break,
        }
    }
    let doubts = std::mem::take(&mut sheet.doubts);
    drop(sheet.progress);
    if outcome.is_ok() {
        outcome = doubts.end(&store, console).await;
    }
    if let Some(array) = sheet.array.filter(|_| console.is_json()) {
        array.end(console);
    } else if sheet.there > 0 && !console.is_json() {
        console.note(&format!("{} added, {} existed already", sheet.added, sheet.there));
    }
    outcome?;
    warn_if_none_runs(&store, console).await;
    Ok(u8::from(sheet.refused > 0))
}

/// Merges the first batch and the batches that are already available into a full batch.
fn gather(mut first: Batch, batches: &mut mpsc::Receiver<Batch>) -> Batch {
    // A batch of the reader has at most as many lines as a full batch.
    while first.lines() <= BATCH / 2
        && let Ok(next) = batches.try_recv()
    {
        first.append(next);
    }
    first
}

/// Waits until the first of the batches has been added.
async fn first_end(under_way: &mut VecDeque<UnderWay>) -> Result<AddedLines, CliFailure> {
    let Some(batch) = under_way.front_mut() else { return std::future::pending().await };
    match (&mut batch.task).await {
        Ok(results) => results,
        Err(error) => Err(CliFailure::Failed(format!("a batch of lines was not added: {error}"))),
    }
}

/// The results by line number: an added job with its definition, or the reason for a refusal.
type AddedLines = BTreeMap<usize, Result<(Added, NamedJob), CliFailure>>;

/// The names and unique keys in a batch. Batches that share one are added one after the other, so
/// that the later line wins.
type Words = BTreeSet<(&'static str, String)>;

/// A batch that is written to Redis.
struct UnderWay {
    words: Words,
    lines: usize,
    /// The bytes of input that the batch covers.
    bytes: u64,
    task: JoinHandle<Result<AddedLines, CliFailure>>,
}

/// The state of an `add --stdin`: its results so far.
struct Sheet {
    /// Redis' time, and the instant at which Redis reported that time.
    asked: (UnixMillis, Instant),
    host_zone: Zone,
    form: ResultForm,
    /// The array of all results. `None` if each result is a document of its own.
    array: Option<JsonArray>,
    progress: AddProgress,
    doubts: LineDoubts,
    refused: usize,
    added: usize,
    /// The number of lines whose name or unique key already belonged to another job.
    there: usize,
}

/// Adds the jobs of batches to Redis.
struct LineAdder {
    store: Store,
    /// True if a line may change an existing job.
    replaces: bool,
    /// True if a line for an existing job counts as added.
    if_absent: bool,
    pools: Pools,
    host_zone: Zone,
}

impl LineAdder {
    /// Adds one batch and returns the result for each of its lines.
    async fn add(self: Arc<Self>, batch: Batch) -> Result<AddedLines, CliFailure> {
        let Batch { jobs, refused, .. } = batch;
        let mut outcomes: AddedLines =
            refused.into_iter().map(|(line, why)| (line, Err(CliFailure::Invalid(why)))).collect();
        let mut open = Vec::with_capacity(jobs.len());
        for (line, job) in jobs {
            match self.pools.unknown_to(&job) {
                Some(why) => {
                    outcomes.insert(line, Err(CliFailure::Invalid(why)));
                }
                None => open.push((line, job)),
            }
        }
        for _ in 0..DRAWS {
            if open.is_empty() {
                break;
            }
            let requests =
                open.iter().map(|(_, job)| self.request(job)).collect::<Result<Vec<Request>, _>>();
            let requests = requests.map_err(|error| CliFailure::Failed(error.to_string()))?;
            let applied = self.apply(&open, &requests).await?;
            let mut clashed = Vec::new();
            for (((line, job), request), answer) in open.into_iter().zip(requests).zip(applied) {
                let is_drawn = job.name.is_none();
                match answer {
                    Ok(Applied::Exists | Applied::OtherKind(_)) if is_drawn => {
                        clashed.push((line, job));
                    }
                    answer => {
                        let added = self.answered(request.name, &job, answer).await?;
                        outcomes.insert(line, added.map(|added| (added, job)));
                    }
                }
            }
            open = clashed;
        }
        for (line, _) in open {
            let why = "no free random name was found; give the job a name".to_owned();
            outcomes.insert(line, Err(CliFailure::Conflict(why)));
        }
        Ok(outcomes)
    }

    fn request(&self, job: &NamedJob) -> Result<Request, crate::domain::name::names::IdError> {
        match &job.name {
            Some(name) => {
                let existing = if self.replaces { Existing::Edit } else { Existing::Refuse };
                Ok(request(name.clone(), job, existing))
            }
            None => Ok(request(draw_name()?, job, Existing::Refuse)),
        }
    }

    async fn apply(
        &self,
        open: &[(usize, NamedJob)],
        requests: &[Request],
    ) -> Result<Vec<Result<Applied, PlantingError>>, CliFailure> {
        let applied = instances::apply(&self.store, &self.host_zone, requests).await;
        applied.map_err(|error| {
            let (first, last) = (open.first().map_or(0, |(line, _)| *line), open.last().map_or(0, |(line, _)| *line));
            let failure = CliFailure::from(error);
            let failure_text = failure.lines().join("; ");
            let nameless =
                if open.iter().any(|(_, job)| job.name.is_none()) { ", which adds lines without a name twice" } else { "" };
            let hint = format!(
                "{failure_text}; it is not known which of lines {first} to {last} were added; run the command again with --if-absent{nameless}"
            );
            if failure.code() == 69 { CliFailure::Unreachable(hint) } else { CliFailure::Failed(hint) }
        })
    }

    /// Converts Redis' answer for one line into the result of the line: the added job, or the
    /// reason for a refusal.
    async fn answered(
        &self,
        name: JobName,
        job: &NamedJob,
        answer: Result<Applied, PlantingError>,
    ) -> Result<Result<Added, CliFailure>, CliFailure> {
        Ok(match answer {
            Ok(Applied::Created(next)) => Ok((name, "created", next)),
            Ok(Applied::Updated(next @ Some(_))) => Ok((name, "updated", next)),
            Ok(Applied::Updated(None)) => Ok(pending(&self.store, name, "updated").await?),
            Ok(Applied::Unchanged) => Ok(pending(&self.store, name, "unchanged").await?),
            Ok(Applied::Moved(first, next)) => Ok((first, "updated", next)),
            Ok(Applied::Exists) if self.if_absent => {
                Ok(pending(&self.store, name, "exists").await?)
            }
            Ok(Applied::Taken(first)) if self.if_absent || is_dropped(job) => {
                Ok(pending(&self.store, first, "exists").await?)
            }
            Ok(Applied::Taken(first)) => Err(key_taken(&self.store, &first, job).await),
            Ok(Applied::Exists | Applied::OtherKind(_)) => {
                Err(name_conflict::name_taken(&self.store, &name, job).await)
            }
            Ok(Applied::Newer(now)) => {
                Err(CliFailure::Conflict(name_conflict::changed_meanwhile(&name, &now)))
            }
            Ok(Applied::Past(at)) => Err(CliFailure::Invalid(format!(
                "job {name}: time {at} is past, wanted a future time"
            ))),
            Ok(Applied::Done(at)) => {
                Err(CliFailure::Conflict(name_conflict::done_already(&name, at)))
            }
            Err(error) => Err(error.into()),
        })
    }
}

impl Sheet {
    fn report(&mut self, outcomes: AddedLines, console: &mut Console) {
        // The bar is hidden while lines are printed.
        let Self { form, array, progress, doubts, refused, added, there, host_zone, .. } = self;
        let now = self.asked.0.saturating_add(self.asked.1.elapsed());
        progress.aside(|| {
            for (line, what) in outcomes {
                let what = what.map(|(line_added, job)| {
                    if line_added.1 == "exists" {
                        *there += 1;
                    } else {
                        *added += 1;
                        doubts.warn(line, (&job, &line_added), (now, host_zone), console);
                    }
                    let due = line_added.2.filter(|_| console.is_json());
                    let due = due.map(|at| rfc3339(at, &zone_of_line(&job, host_zone)));
                    (line_added, due)
                });
                match what {
                    Err(why) => {
                        *refused += 1;
                        match form {
                            ResultForm::Command => {
                                console.error(&format!("line {line}: {}", why.lines().join("; ")));
                            }
                            ResultForm::JsonLines(error) => {
                                console.json(&json!({"line": line, "error": error(&why)}));
                            }
                        }
                    }
                    Ok((added, due)) if console.is_json() => {
                        let document = line_json(line, &added, due.as_deref());
                        match array {
                            Some(array) => array.push(console, &document),
                            None => console.json(&document),
                        }
                    }
                    Ok(_) if console.is_quiet() => {}
                    Ok(((name, ..), _)) => console.line(name.as_str()),
                }
            }
            console.flush();
        });
    }
}

/// Returns the zone of a line's job: its `tz`, or else the zone of this host.
fn zone_of_line(job: &NamedJob, host_zone: &Zone) -> Zone {
    let own = job.spec.tz.as_ref().and_then(|name| Zone::load(name).ok());
    own.unwrap_or_else(|| host_zone.clone())
}

/// Returns the JSON for one added job of `add --stdin`.
fn line_json(line: usize, added: &Added, next_due: Option<&str>) -> Value {
    let (name, result, due) = added;
    let run = due.map(|due| RunId::regular(name.clone(), due).to_string());
    json!({"line": line, "name": name.as_str(), "next_due": next_due, "run_id": run, "result": result})
}

fn words_of(batch: &Batch) -> Words {
    let name = |job: &NamedJob| job.name.as_ref().map(|name| ("name", name.to_string()));
    let key =
        |job: &NamedJob| job.spec.unique.as_ref().map(|unique| ("key", unique.key.to_string()));
    batch.jobs.iter().flat_map(|(_, job)| name(job).into_iter().chain(key(job))).collect()
}
